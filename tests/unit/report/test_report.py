"""The report and the privacy card: complete, from the release alone, readable by a browser with the network off."""

import copy
import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.expected_errors import expected_errors
from synthdp.answers.relations import cramers_v
from synthdp.errors import DataError, ParameterError
from synthdp.release_files import fingerprint
from synthdp.report import report_page
from synthdp.report.card import card_rows, privacy_card
from synthdp.report.html_page import ASSOCIATED, DRAWN, STRONGEST

SECTIONS = ("rows", "columns", "pairs", "error", "card")
SCHEMA = sd.Schema(
    {
        "age": sd.Integer(0, 99, nullable=True),
        "sex & <kind>": sd.Categorical(["f", "m"]),
        "city": sd.Categorical([f"city {i}" for i in range(30)]),
        "rate": sd.Continuous(0, 1),
        "seen": sd.Datetime("2020-01-01", "2021-01-01", nullable=True),
        "last": sd.Datetime("2020-01-01", "2021-01-01"),
        "member": sd.Boolean(),
        "grade": sd.Ordinal(["low", "high"]),
        "id": sd.Identifier(),
    },
    constraints=[sd.LessEqual("seen", "last"), sd.Forbidden({"member": True, "grade": "low"})],
)


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    rng = np.random.default_rng(0)
    n = 600
    first, more = rng.integers(0, 200, n), rng.integers(0, 160, n)
    member = rng.random(n) < 0.5
    table = pd.DataFrame({
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(100, size=n)),
        "sex & <kind>": rng.choice(["f", "m"], n),
        "city": [f"city {i}" for i in rng.integers(30, size=n)],
        "rate": rng.random(n),
        "seen": np.datetime64("2020-01-01") + first.astype("timedelta64[D]"),
        "last": np.datetime64("2020-01-01") + (first + more).astype("timedelta64[D]"),
        "member": member,
        "grade": np.where(member, "high", rng.choice(["low", "high"], n)),
        "id": np.arange(n).astype(str),
    })  # fmt: skip
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=2.0, random_state=0).fit(table)


@pytest.fixture(scope="module")
def small() -> sd.SyntheticRelease:
    """A release whose report is soon written."""
    schema = sd.Schema({"age": sd.Integer(0, 9), "member": sd.Boolean()})
    table = pd.DataFrame({"age": np.arange(300) % 10, "member": np.arange(300) % 3 == 0})
    return sd.SyntheticRelease(schema=schema, random_state=0).fit(table)


def test_a_report_tells_how_far_it_is(small: sd.SyntheticRelease, tmp_path: Path) -> None:
    told: list[sd.Progress] = []
    small.report(tmp_path / "report.html", on_progress=told.append)
    assert [one.done for one in told] == list(range(told[0].total))
    assert len({one.stage for one in told}) == len(told) > 1


def test_a_report_tells_whom_its_release_told(small: sd.SyntheticRelease, tmp_path: Path) -> None:
    told: list[sd.Progress] = []
    chatty = copy.copy(small).set_params(on_progress=told.append)
    chatty.report(tmp_path / "report.html")
    assert told


@pytest.fixture(scope="module")
def page(release: sd.SyntheticRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    release.report(path, title="Patients & <others>")
    return path


class Reader(HTMLParser):
    """The tags of a page, and whether they close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        self.open += [tag] * (tag not in ("meta", "link", "br"))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader


def test_the_page_is_whole_and_needs_nothing_from_outside(page: Path) -> None:
    reader = read(page)
    text = page.read_text(encoding="utf-8")
    assert not any(tag in ("script", "img", "iframe", "object") for tag, _ in reader.attributes)
    assert "default-src 'none'" in text
    assert not re.search(r"(https?:)?//\w", text)
    links = [attributes.get("href") for tag, attributes in reader.attributes if tag in ("a", "link")]
    assert all(link.startswith(("#", "data:")) for link in links)
    names = [attributes["id"] for _, attributes in reader.attributes if "id" in attributes]
    assert len(set(names)) == len(names)
    assert {link[1:] for link in links if link.startswith("#")} <= set(names)
    assert escape("Patients & <others>") in text
    assert "<others>" not in text
    assert "<kind>" not in text


def test_every_column_has_a_chart_with_marks_labels_and_numbers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    figures = re.findall(r'<figure class="column">.*?</figure>', text, re.DOTALL)
    assert len(figures) == len(SCHEMA) - 1  # not the identifier
    for figure in figures:
        assert figure.count('class="bar"') >= 2
        assert '<svg class="synthdp-chart" role="img" aria-labelledby=' in figure
        assert "95 % interval" in figure
        assert 'class="label"' in figure
        assert figure.count("<tr>") >= 3


def test_the_page_states_promise_rules_error_and_source(page: Path, release: sd.SyntheticRelease) -> None:
    text = page.read_text(encoding="utf-8")
    assert "seen is at most last" in text
    assert "never member is True and grade is low" in text
    assert "random sample" in text
    assert fingerprint(release.release_) in text
    assert "88.1%" in text  # e^2 / (1 + e^2)


@pytest.mark.slow
def test_a_loaded_release_has_the_same_report(page: Path, release: sd.SyntheticRelease, tmp_path: Path) -> None:
    from synthdp.report import write_report

    release.save(tmp_path / "r")
    write_report(sd.load(tmp_path / "r"), tmp_path / "again.html", title="Patients & <others>")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_says_so(small: sd.SyntheticRelease, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing/report\.html"):
        small.report(tmp_path / "missing" / "report.html")


def test_a_release_that_is_no_table_has_no_report(tmp_path: Path) -> None:
    schema = sd.Schema({"x": sd.Continuous(0, 1)})
    curator = sd.Curator(pd.DataFrame({"x": [0.5] * 9}), schema=schema, budget=sd.PureDP(1.0), neighbors="replace_one")
    summary = sd.SmoothSummary(smoothness=2).release(curator)
    with pytest.raises(ParameterError, match="SmoothSummary"):
        report_page(summary, fingerprint="")


def test_the_card_states_what_a_claim_must_state(release: sd.SyntheticRelease) -> None:
    card = privacy_card(release.release_, fingerprint="f" * 16)
    assert json.loads(json.dumps(card)) == card
    assert card["parameters"] == {"ε": 2.0, "δ": 1e-9}
    assert card["attackers_best_odds"] == pytest.approx(np.exp(2) / (1 + np.exp(2)), abs=1e-6)
    titles = [title for title, _ in card_rows(card)]
    for needed in ("Promise", "Unit of privacy", "Neighbouring tables", "Trust model", "Mechanism", "Composition"):
        assert needed in titles
    for needed in ("Assumed", "Software", "Ledger", "Release", "Noise"):
        assert needed in titles
    assert any("NIST SP 800-226" in line for _, lines in card_rows(card) for line in lines)


def test_the_card_names_the_entry_in_the_ledger(tmp_path: Path) -> None:
    schema = sd.Schema({"a": sd.Boolean()})
    made = sd.SyntheticRelease(schema=schema, ledger=tmp_path / "l.sqlite", dataset="toys")
    receipt = made.fit(pd.DataFrame({"a": [True, False] * 9})).receipt_
    numbers = [entry.number for entry in sd.Ledger(tmp_path / "l.sqlite").entries("toys")]
    assert list(receipt.entries) == numbers
    assert f"entry {numbers[0]}" in str(receipt)


def test_more_budget_is_like_a_larger_sample(release: sd.SyntheticRelease) -> None:
    views = expected_errors(release.release_.output, release.release_.measurements)
    assert [view.order for view in views] == [1, 2, 3]
    assert views[0].distance < views[1].distance < views[2].distance
    assert all(view.like_rows > 0 for view in views)


def test_association_is_one_for_copies_and_none_for_strangers() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(4, size=20_000), rng.integers(5, size=20_000)
    table_of = lambda x, y: np.bincount(6 * x + y, minlength=36).reshape(6, 6)  # noqa: E731 - with levels that no row has
    assert cramers_v(table_of(a, 3 - a)) == pytest.approx(1.0, abs=1e-3)
    assert cramers_v(table_of(a, b)) < 0.02
    assert cramers_v(table_of(a, 0 * a)) == 0.0
    assert cramers_v(table_of(a, np.where(rng.random(20_000) < 0.5, a, b))) == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
def test_a_report_is_written_though_noise_leaves_no_rows_in_some_replicates(tmp_path):
    """Of one row at a small budget every noisy count may be cut at 0."""
    table = pd.DataFrame({"a": [1], "c": ["x"], "d": [0.5]})
    schema = sd.Schema({"a": sd.Integer(0, 9), "c": sd.Categorical(["x", "y"]), "d": sd.Continuous(0, 1)})
    for _ in range(4):
        release = sd.SyntheticRelease(schema=schema, epsilon=0.05, delta=1e-6).fit(table)
        release.report(tmp_path / "r.html")
        assert not re.search(r"\bnan\b", (tmp_path / "r.html").read_text(encoding="utf-8"), re.IGNORECASE)


def test_the_promise_comes_first_and_the_card_after_what_is_released(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    places = [text.index(part) for part in ('class="promise"', *(f' id="{name}"' for name in SECTIONS))]
    assert places == sorted(places)


def test_the_rows_on_the_page_are_rows_of_the_release(page: Path, release: sd.SyntheticRelease) -> None:
    text = page.read_text(encoding="utf-8")
    table = re.search(r'<table class="rows">.*?</table>', text, re.DOTALL)[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)][1:]
    drawn = release.release_.sample(len(rows), random_state=0)
    assert len(rows) >= 5
    for name in ("city", "sex & <kind>", "member", "id"):
        assert [row[list(SCHEMA).index(name)] for row in rows] == drawn[name].astype(str).tolist()
    missing = [["missing" if gone else "" for gone in drawn[name].isna()] for name in ("age", "seen")]
    for name, gone in zip(("age", "seen"), missing, strict=True):
        shown = [row[list(SCHEMA).index(name)] for row in rows]
        assert ["missing" * (value == "missing") for value in shown] == gone


def test_columns_that_follow_from_others_are_drawn_and_said_to_and_identifiers_are_named() -> None:
    schema = sd.Schema(
        {"id": sd.Identifier(), "a": sd.Integer(0, 9), "twice": sd.Integer(), "word": sd.Categorical()},
        constraints=[
            sd.Derived("twice", "2 * a"),
            sd.Derived("word", of="a", values={k: "odd" if k % 2 else "even" for k in range(10)}),
        ],
    )
    made = sd.SyntheticRelease(schema=schema).fit(pd.DataFrame({"id": range(90), "a": np.arange(90) % 10}))
    page = report_page(made.release_, fingerprint="f")
    assert re.findall(r'<figure class="column"><figcaption><h3>(.*?)</h3>', page) == ["a", "twice", "word"]
    said = re.search(r'<p class="note others">.*?</p>', page, re.DOTALL)[0]
    assert re.findall(r"<strong>(.*?)</strong>", said) == ["id"]
    assert "computed as 2 * a" in page
    assert "looked up by a" in page
    for name in ("id", "twice", "word"):
        assert f'title="{name}"' in page  # among the rows


@pytest.fixture(scope="module")
def wide() -> sd.SyntheticRelease:
    """Seventy columns, of which the last pairs go together."""
    rng = np.random.default_rng(0)
    values = rng.random((4000, 70)) < 0.5
    values[:, 61:64] = values[:, 64:67]
    values[:, 69] = values[:, 5] & values[:, 6]
    names = [f"question {j}" for j in range(70)]
    schema = sd.Schema({name: sd.Boolean() for name in names})
    made = sd.SyntheticRelease(schema=schema, epsilon=4.0, target="question 69", random_state=0)
    return made.fit(pd.DataFrame(values, columns=names))


@pytest.mark.slow
def test_a_wide_table_shows_its_strongest_pairs_and_the_target_first(wide: sd.SyntheticRelease, tmp_path: Path) -> None:
    wide.report(tmp_path / "wide.html")
    page = (tmp_path / "wide.html").read_text(encoding="utf-8")
    pairs = re.search(r'<section id="pairs".*?</section>', page, re.DOTALL)[0]
    heat, rest = pairs.split("</figure>", 1)
    assert heat.count('class="heat"') <= ASSOCIATED * (ASSOCIATED - 1) / 2 + 11  # and the key
    assert rest.count("<figure") <= DRAWN
    assert rest.count("<tr>") <= STRONGEST + 1
    pointed = re.findall(r"<title>(question \d+) and (question \d+): ([.\d]+)", heat)
    assert {first for first, _, _ in pointed[:1]} == {"question 69"}
    shown = {frozenset(pair[:2]) for pair in pointed}
    for j in (61, 62, 63):
        assert frozenset((f"question {j}", f"question {j + 3}")) in shown
    assert "question 69 by question" in rest


def test_a_target_that_the_release_does_not_have_is_refused(release: sd.SyntheticRelease) -> None:
    with pytest.raises(ParameterError, match="'other'"):
        report_page(release.release_, fingerprint="", target="other")
