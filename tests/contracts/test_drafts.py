"""What a draft keeps, a release of the same table takes: of every kind of column, with values and without any."""

from __future__ import annotations

import warnings
from typing import Any

import pandas as pd
import pytest
from hostile_cells import COLUMNS, CONTAINERS, one_database

import synthdp as sd
from synthdp.errors import DataError, MisfitWarning

IN_TURNS = {
    *list(CONTAINERS)[::5],
    "pyarrow decimal128(38, -5)",
    "pandas datetime64 ns",
    "pandas sparse int",
    "polars Null",
    "pyarrow null",
}
"""Kinds of columns that lie side by side are read by the same code: those between are slow."""


def accepted(table: Any, *names: str) -> sd.Schema | None:
    """Return the schema of some columns, as a person would have it who believed the draft; None if all are left out."""
    try:
        draft = sd.draft(table, without=[name for name in COLUMNS if name not in names])
    except DataError:  # all are left out: `nonprivate/test_draft_schema.py` has the words
        return None
    for name in draft.unreviewed:
        draft.review(name).accept(by="a reader")
    return draft.finish()


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::synthdp.errors.DraftWarning")
@pytest.mark.parametrize("cells", ["values", "nothing"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in IN_TURNS)) for name in CONTAINERS],
)
def test_a_release_takes_all_that_a_draft_keeps(name: str, cells: str) -> None:
    container, first = CONTAINERS[name], next(iter(COLUMNS))
    with one_database(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            table = container.table(container.column([*container.ordinary] * 25 if cells == "values" else [None] * 60))
        except Exception as error:  # noqa: BLE001 - each library has its own
            pytest.skip(f"such a column holds no missing value: {type(error).__name__}")
        schema = accepted(table, first)
        if schema is not None:
            warnings.simplefilter("error", MisfitWarning)
            release = sd.SyntheticRelease(schema=schema, epsilon=5.0).fit(table)
            assert next(iter(release.answer(sd.count())["estimate"])) > 0


@pytest.mark.filterwarnings("ignore::synthdp.errors.DraftWarning")
def test_levels_written_alike_are_one_level() -> None:
    """A file that was read in parts has 20001 in one part and "20001" in another: the column was left out."""
    table = pd.DataFrame({"zip": pd.Series([20001, "20001", 20002, "20002", "unknown"] * 30, dtype=object)})
    draft = sd.draft(table)
    draft.review("zip").accept(by="a reader")
    assert draft["zip"] == sd.Categorical([20001, 20002, "unknown"])
    release = sd.SyntheticRelease(schema=draft, epsilon=5.0).fit(table)
    assert release.answer(sd.marginal("zip"))["estimate"].round(-1).tolist() == [60, 60, 30]
