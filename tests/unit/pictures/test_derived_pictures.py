"""Pictures of columns that follow from others: looked up by one, computed from several, or looked up by a computed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.domain.encoder import Numbers
from synthdp.errors import ParameterError
from synthdp.pictures.column_views import column_views, computed_view

pytestmark = pytest.mark.filterwarnings("ignore:epsilon")

ROWS = 5000
SIZES = {total: "small" if total < 12 else "large" for total in range(31)}
NAMES = {"n": "north", "s": "south", "w": "west"}
SCHEMA = sd.Schema(
    {
        "a": sd.Integer(0, 10),
        "b": sd.Integer(0, 20, nullable=True),
        "total": sd.Integer(nullable=True),
        "size": sd.Categorical(["small", "large"], nullable=True),
        "half": sd.Continuous(decimals=1),
        "code": sd.Categorical(list(NAMES)),
        "name": sd.Categorical(list(NAMES.values())),
        "key": sd.Identifier(),
    },
    constraints=[
        sd.Derived("total", "a + b"),
        sd.Derived("size", of="total", values=SIZES),
        sd.Derived("half", "a / 2"),
        sd.Derived("name", of="code", values=NAMES),
    ],
)
DERIVED = {"total": "a + b", "size": "total", "half": "a / 2", "name": "code"}


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "a": rng.binomial(10, 0.4, ROWS),
            "b": pd.array(rng.binomial(20, 0.5, ROWS), "Int64"),
            "code": rng.choice(list(NAMES), ROWS, p=[0.6, 0.3, 0.1]),
            "key": np.arange(ROWS).astype(str),
        }
    )
    table.loc[rng.random(ROWS) < 0.1, "b"] = pd.NA
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=20.0, random_state=0).fit(table)


@pytest.fixture(scope="module")
def views(release: sd.SyntheticRelease) -> dict[str, Any]:
    return {view.name: view for view in column_views(release.release_.model, release.release_.measurements)}


def test_every_column_but_identifiers_has_a_picture(views: dict[str, Any]) -> None:
    assert sorted(views) == sorted(name for name in SCHEMA.outputs if name != "key")


@pytest.mark.parametrize(("name", "words"), DERIVED.items())
def test_a_derived_column_is_said_to_follow_from_what_it_follows_from(
    views: dict[str, Any], name: str, words: str
) -> None:
    assert words in views[name].derived
    assert views[name].misfits is None


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", DERIVED)
def test_its_bars_are_the_shares_of_the_synthetic_rows(
    release: sd.SyntheticRelease, views: dict[str, Any], name: str
) -> None:
    rows = release.sample(20_000, random_state=1)[name]
    bars = [bar for bar in views[name].numbers if bar.label]
    assert sum(bar.share for bar in bars) == pytest.approx(100, abs=1)
    shares = 100 * rows.astype(object).where(rows.notna(), "missing").value_counts(normalize=True)
    shares.index = [f"{label:g}" if isinstance(label, float) else str(label) for label in shares.index]
    named = {bar.label: bar.share for bar in bars}
    for label in shares.index[:3]:
        assert named[label] == pytest.approx(shares[label], abs=2)


@pytest.mark.sampled
@pytest.mark.parametrize("name", DERIVED)
def test_the_report_and_a_notebook_draw_it(release: sd.SyntheticRelease, name: str, tmp_path: Path) -> None:
    assert "<svg" in release.plot(name)._repr_html_()
    release.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<h3>{name}</h3>" in page
    assert "<h3>key</h3>" not in page


def test_a_computed_column_of_no_known_value_still_has_a_picture() -> None:
    schema = sd.Schema(
        {"a": sd.Integer(0, 1, nullable=True), "twice": sd.Integer(nullable=True)},
        constraints=[sd.Derived("twice", "2 * a")],
    )
    nothing = Numbers(np.zeros(3, np.int64), np.ones(3, bool))
    (bar,) = computed_view(schema, "twice", nothing).bars
    assert (bar.label, bar.share) == ("missing", 100)


def test_an_identifier_has_no_picture(release: sd.SyntheticRelease) -> None:
    with pytest.raises(ParameterError, match="identifier"):
        release.plot("key")
