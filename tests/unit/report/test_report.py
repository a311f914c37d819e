"""The report and the privacy card: complete, from the release alone, readable by a browser with the network off."""

import json
import os
import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import DataError, ParameterError
from synthdp.report.card import card_rows, card_text, privacy_card
from synthdp.report.charts import bars, heat_map, histogram, nice
from synthdp.report.content import cramers_v, expected_errors
from synthdp.storage import fingerprint

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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
    n = 3000
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
        assert '<svg class="chart" role="img" aria-labelledby=' in figure
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


def test_a_loaded_release_has_the_same_report(page: Path, release: sd.SyntheticRelease, tmp_path: Path) -> None:
    from synthdp.estimators.synthetic_release import write_report

    release.save(tmp_path / "r")
    write_report(sd.load(tmp_path / "r"), tmp_path / "again.html", title="Patients & <others>")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_says_so(release: sd.SyntheticRelease, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        release.report(tmp_path / "missing" / "report.html")


def test_a_release_that_is_no_table_has_no_report(tmp_path: Path) -> None:
    from synthdp.report import report_page

    schema = sd.Schema({"x": sd.Continuous(0, 1)})
    curator = sd.Curator(pd.DataFrame({"x": [0.5] * 9}), schema=schema, budget=sd.PureDP(1.0), neighbors="replace_one")
    summary = sd.SmoothSummary(smoothness=2).release(curator)
    with pytest.raises(ParameterError, match="not a synthetic table"):
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
    assert "NIST SP 800-226" in card_text(card)


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
    codes = np.column_stack([rng.integers(4, size=20_000), rng.integers(5, size=20_000)])
    codes = np.column_stack([codes, 3 - codes[:, 0], np.zeros(20_000, np.int64)])
    assert cramers_v(codes, (4, 5, 4, 1), 0, 2) == pytest.approx(1.0, abs=1e-3)
    assert cramers_v(codes, (4, 5, 4, 1), 0, 1) < 0.02
    assert cramers_v(codes, (4, 5, 4, 1), 0, 3) == 0.0


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (1.1, 2), (2.3, 2.5), (43, 50), (0.07, 0.1), (100, 100)])
def test_axes_end_at_round_numbers(value: float, expected: float) -> None:
    assert nice(value) == pytest.approx(expected)


def test_charts_escape_what_they_show() -> None:
    drawn = bars(["<b>"], [1.0], [0.0], [2.0], title="<t>", name="n", unit="")
    drawn += histogram(
        ["<0> to 1", "1 to <2>"], [1.0, 2.0], [0.0, 1.0], [2.0, 3.0], title="<t>", name="h", axis="<x>", unit=""
    )
    drawn += heat_map(["<a>", "<b>"], [[1, 0.25], [0.25, 1]], title="<t>", name="m")
    for forbidden in ("<b>", "<t>", "<0>", "<2>", "<x>", "<a>"):
        assert forbidden not in drawn
    assert ">.25<" in drawn


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: apt-get install chromium")
def test_a_browser_prints_the_page_on_several_sheets(page: Path, tmp_path: Path) -> None:
    printed = tmp_path / "report.pdf"
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={printed}", page.as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=180, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert printed.read_bytes().startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) > 2


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_without_network_shows_every_chart_and_nothing_overflows(
    page: Path, tmp_path: Path, width: int
) -> None:
    inner = escape(page.read_text(encoding="utf-8"), quote=True)
    probe = """
      addEventListener('load', () => { const d = document.querySelector('iframe').contentDocument;
        const charts = [...d.querySelectorAll('svg.chart')].map(s => { const b = s.getBoundingClientRect();
          return [b.width, b.height, s.querySelectorAll('rect').length, s.querySelectorAll('text').length,
                  s.querySelector('title').textContent.length]; });
        const text = [...d.querySelectorAll('.column svg text')].map(t => t.getBoundingClientRect().height);
        document.body.innerHTML = '<pre>' + JSON.stringify({charts, smallest: Math.min(...text),
          scroll: d.documentElement.scrollWidth,
          colour: d.defaultView.getComputedStyle(d.querySelector('.bar')).fill}) + '</pre>';
      });"""
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><script>{probe}</script>'
        f'<iframe style="border:0;width:{width}px;height:2000px" srcdoc="{inner}"></iframe>',
        encoding="utf-8",
    )
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1400,2000",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
            wrapper.as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=180, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, done.stderr
    found = json.loads(re.findall(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)[-1])
    assert len(found["charts"]) == len(SCHEMA) - 1 + 2
    for shown, tall, marks, labels, title in found["charts"]:
        assert shown > 200
        assert tall > 10
        assert marks >= 2
        assert labels >= 2
        assert title > 10
    assert found["scroll"] <= width
    assert found["smallest"] >= 9
    assert found["colour"] in ("rgb(0, 114, 178)", "rgb(86, 180, 233)")


def test_a_report_is_written_though_noise_leaves_no_rows_in_some_replicates(tmp_path):
    """Of one row at a small budget every noisy count may be cut at 0."""
    table = pd.DataFrame({"a": [1], "c": ["x"], "d": [0.5]})
    schema = sd.Schema({"a": sd.Integer(0, 9), "c": sd.Categorical(["x", "y"]), "d": sd.Continuous(0, 1)})
    for _ in range(8):
        release = sd.SyntheticRelease(schema=schema, epsilon=0.05, delta=1e-6).fit(table)
        release.report(tmp_path / "r.html")
        assert "NaN" not in (tmp_path / "r.html").read_text(encoding="utf-8")
