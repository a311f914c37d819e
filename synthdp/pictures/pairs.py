"""How two columns go together: the shares of one within groups of the other.  From values, wherever they are from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from synthdp.answers.derived import modelled_column
from synthdp.arrays import AnyArray, BoolArray, FloatArray, GridIndices, IntArray
from synthdp.domain.encoder import Labels, RawColumn, decode
from synthdp.figures import in_figures
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column

ROWS = 50_000
GROUPS = 7
"""Levels or intervals of each column; the other levels are one more, and missing values."""

FEW = 0.01
RARE = 0.002
"""Missing values that fewer rows have than this are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairView:
    """Shares of one column within groups of another.

    Parameters
    ----------
    within, name
        The column whose groups are the rows, and the one whose shares are shown.
    rows, columns
        Names of their groups.
    shares
        (rows, columns) from 0 to 1; each row adds up to 1.
    """

    within: str
    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    shares: FloatArray

    @property
    def title(self) -> str:
        """What is shown, in a few words."""
        return f"{self.name} by {self.within}"


def drawn_indices(model: SyntheticModel) -> dict[str, GridIndices]:
    """Return many synthetic rows, always the same, as grid points of each modelled column."""
    return model.sample_indices(ROWS, generator(0), independent=True)


def pair_view(model: SyntheticModel, indices: Mapping[str, GridIndices], name: str, within: str) -> PairView:
    """Return how a column's shares depend on another one, in synthetic rows.

    Raises
    ------
    ParameterError
        If one of them is an identifier, derived, or does not exist.
    """
    columns = [modelled_column(model, one)[1] for one in (within, name)]
    raws = [decode(column, indices[one]) for column, one in zip(columns, (within, name), strict=True)]
    return pair_of_values(dict(zip((within, name), zip(columns, raws, strict=True), strict=True)), name, within)


def pair_of_values(values: Mapping[str, tuple[Column, RawColumn]], name: str, within: str) -> PairView:
    """Return how a column's shares depend on another one, in any rows."""
    (rows, row_names), (columns, column_names) = (grouped(*values[one]) for one in (within, name))
    kept = (rows >= 0) & (columns >= 0)
    flat = rows[kept] * len(column_names) + columns[kept]
    table = (
        np.bincount(flat, minlength=len(row_names) * len(column_names)).reshape(len(row_names), -1).astype(np.float64)
    )
    some = table.sum(axis=1) > 0
    return PairView(
        within=within, name=name, rows=tuple(np.array(row_names, object)[some]), columns=tuple(column_names),
        shares=table[some] / table[some].sum(axis=1, keepdims=True),
    )  # fmt: skip


def grouped(column: Column, raw: RawColumn) -> tuple[IntArray, list[str]]:
    """Return the group of each value, -1 for rare missing ones, and the groups' names."""
    codes, names, missing = (
        _by_level(column, raw) if isinstance(raw, Labels) else _by_size(column, raw.values, raw.missing)
    )
    if not missing.mean() > RARE:
        return np.where(missing, -1, codes), names
    return np.where(missing, len(names), codes), [*names, "missing"]


def _by_level(column: Column, raw: Labels) -> tuple[IntArray, list[str], BoolArray]:
    counts = np.bincount(raw.codes + 1, minlength=len(raw.levels) + 1)[1:]
    frequent = np.argsort(-counts, kind="stable")
    shown = frequent if len(frequent) <= GROUPS + 1 else frequent[:GROUPS]
    shown = np.sort(shown) if column.ordered else shown
    shown = shown[counts[shown] > 0] if counts.any() else shown
    place = np.full(len(raw.levels) + 1, len(shown))
    place[shown] = np.arange(len(shown))
    codes = place[raw.codes]
    others = bool((codes[raw.codes >= 0] == len(shown)).any())
    return codes, [str(raw.levels[i]) for i in shown] + ["others"] * others, raw.codes < 0


def _by_size(column: Column, values: AnyArray, missing: BoolArray | None) -> tuple[IntArray, list[str], BoolArray]:
    """Return intervals that hold about as many rows each; a value that many rows share is one of its own."""
    gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
    gone = gone if missing is None else gone | missing
    there = np.sort(values[~gone])
    if not len(there):
        return np.zeros(len(values), np.int64), ["none"], gone
    starts = there[[len(there) * k // GROUPS for k in range(GROUPS)]]
    common = starts[1:][np.diff(starts) == 0]
    if len(common):
        after = [there[np.searchsorted(there, value, side="right") :] for value in np.unique(common)]
        rest = there[~np.isin(there, common)]
        more = rest[[len(rest) * k // 3 for k in range(3)]] if len(rest) else rest
        starts = np.concatenate([starts, [one[0] for one in after if len(one)], more])
    starts = np.unique(starts)
    held = np.diff(np.append(np.searchsorted(there, starts), len(there)))
    after_few = np.append(False, held[:-1] < FEW * len(there)) & ~np.isin(starts, common)
    starts = starts[~after_few]  # what few rows have is no interval of its own
    codes = np.maximum(np.searchsorted(starts, values, side="right") - 1, 0)
    firsts = np.searchsorted(there, starts)
    lasts = np.append(firsts[1:], len(there)) - 1
    return codes, [_interval(column, there[a], there[b]) for a, b in zip(firsts, lasts, strict=True)], gone


def _interval(column: Column, first: float, last: float) -> str:
    if column.quantity == "moment":
        ends = [str(np.datetime64(int(end), "us"))[:10] for end in (first, last)]
        return ends[0] if ends[0] == ends[1] else f"from {ends[0]}"
    if column.temporal:
        return f"from {str(column.shown(int(first))).removesuffix('.000000')}"
    ends = [in_figures(float(end), digits=6 if column.whole else 3) for end in (first, last)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
