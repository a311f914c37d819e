"""NOT private: proposes rules between columns that nearly all rows of a table obey, for a person to declare or not.

A rule is never part of a draft's schema until somebody declares it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.encoder import Numbers, RawColumn, encode
from synthdp.domain.grid import grid_of, labels_of
from synthdp.nonprivate.draft_numbers import SHARED
from synthdp.schema.column import Level
from synthdp.schema.columns import Column
from synthdp.schema.constraints import LessEqual
from synthdp.schema.derived import Derived
from synthdp.schema.schema_json import rule_document
from synthdp.tables.source import Source

MOST_ROWS = 100_000
"""Most rows of a table in which rules are searched, from its beginning.  A safety limit of time."""

FEWEST_ROWS = 100
"""Fewest rows with a value in both columns for a proposed rule.  With fewer, rules would be proposed that hold by
accident.  A tolerance."""

NEARLY_ALL = 0.98
"""Least fraction of the rows that must obey a proposed rule.  A few cells of every large table are wrong.  A smaller
fraction would propose rules that change correct rows.  A tolerance."""

BY_CHANCE = 0.9
"""A rule is not proposed if at least this fraction of rows would obey it with independent columns.  A larger value would
propose rules that say nothing.  A tolerance."""

OFTEN = 0.95
"""Other columns may follow from a column only if at least this fraction of its rows has a frequent level (`SHARED` rows or
more).  Every column would follow from a column that names rows.  A tolerance."""

FIRST = 10
"""Each pair of columns is tested first on a FIRST-th of the rows.  If more of these break a rule than all rows may, the
pair is not tested further, which saves time and changes no result.  A safety limit of time."""

MOST_COLUMNS, MOST_LEVELS, MOST_RULES = 60, 500, 10
"""Most columns of one kind that are compared, most levels of a column that others follow from, and most proposed rules of
each kind.  The rules that are least likely by chance are proposed.  Safety limits of time and length."""

_KEPT = "{kept} of the {rows:,} rows that have both values keep this; by chance {chance:.0%} would."
"""The comment on a proposed rule, with its counts."""


class _Found(NamedTuple):
    """A rule, the number of rows that obey it, the number with both values, and the fraction that obeys it by chance."""

    rule: LessEqual | Derived
    kept: int
    rows: int
    chance: float

    def document(self) -> dict[str, Any]:
        """Return the rule as in a schema file, with a comment on how many rows obey it."""
        kept = "all" if self.kept == self.rows else f"{self.kept:,}"
        return rule_document(self.rule) | {"comment": _KEPT.format(kept=kept, rows=self.rows, chance=self.chance)}


def proposed_rules(source: Source, columns: Mapping[str, Column]) -> list[dict[str, Any]]:
    """Return rules that nearly all rows obey, as documents of a schema file; each has a comment with its counts.

    A rule states that a column is at most another, or that it follows from another, as a country follows from its city.

    Parameters
    ----------
    source
        The table.
    columns
        The table's drafted columns by name.
    """
    known = {name: column for name, column in columns.items() if column.is_complete and not column.names_rows}
    measured = [name for name, column in known.items() if column.measured][:MOST_COLUMNS]
    labelled = [name for name, column in known.items() if column.labelled and len(labels_of(column)) <= MOST_LEVELS]
    labelled = labelled[:MOST_COLUMNS]
    asked = {name: known[name] for name in (*measured, *labelled)}
    parts: dict[str, list[Any]] = {name: [] for name in asked}
    rows = 0
    for block in source.blocks(asked) if len(asked) > 1 else ():
        for name, column in asked.items():
            parts[name].append(_values(block[name]) if column.measured else _codes(column, block[name]))
        rows += len(parts[next(iter(parts))][-1])
        if rows >= MOST_ROWS:
            break
    if not rows:
        return []
    whole = {name: np.concatenate(some)[:MOST_ROWS] for name, some in parts.items()}
    found = [*_orders(known, {name: whole[name] for name in measured})]
    found += _followers(known, {name: whole[name] for name in labelled})
    return [one.document() for one in found]


def _values(raw: RawColumn) -> FloatArray:
    """Return the numbers of a column, (rows,), NaN where missing or no number."""
    if not isinstance(raw, Numbers):
        return np.full(raw.rows, np.nan)
    return np.where(raw.gone, np.nan, raw.values.astype(np.float64))


def _codes(column: Column, raw: RawColumn) -> IntArray:
    """Return the index of each row's label, (rows,); -1 for a missing or undeclared one, and the last index for "other".

    A column with a hidden out-of-domain value has no "other".
    """
    codes, grid = encode(column, raw).astype(np.int64), grid_of(column)
    levels = len(labels_of(column)) - (grid.other >= grid.regular and grid.other < grid.releasable)
    return np.where(codes < levels, codes, np.where(codes == grid.other, levels, -1) if grid.hidden is None else -1)


def _orders(columns: Mapping[str, Column], values: Mapping[str, FloatArray]) -> list[_Found]:
    """Return the rules that a column is at most another column of its type, the least likely by chance first.

    A rule that two others imply is left out.  No rule is returned for columns that are equal in nearly all rows, or
    that independent columns would often obey.
    """
    found: dict[tuple[str, str], _Found] = {}
    ranks = {name: np.sort(some[~np.isnan(some)]) for name, some in values.items()}
    for left, right in itertools.permutations(values, 2):
        if type(columns[left]) is not type(columns[right]) or not _may_be_below(values[left], values[right]):
            continue
        a, b = values[left], values[right]
        both = ~(np.isnan(a) | np.isnan(b))
        rows, kept = int(both.sum()), int((a <= b).sum())
        if rows < FEWEST_ROWS or kept < NEARLY_ALL * rows or (a == b).sum() > NEARLY_ALL * rows:
            continue
        chance = float(np.searchsorted(ranks[left], ranks[right], side="right").mean() / len(ranks[left]))
        if chance < BY_CHANCE:
            found[left, right] = _Found(LessEqual(left, right), kept, rows, chance)
    direct = [one for (a, c), one in found.items() if not any((a, b) in found and (b, c) in found for b in values)]
    return sorted(direct, key=lambda one: one.chance)[:MOST_RULES]


def _may_be_below(left: FloatArray, right: FloatArray) -> bool:
    """Return whether so few rows have ``left`` above ``right`` that the rule "left is at most right" may be proposed.

    The test is fast, and rules most pairs of columns out.
    """
    return bool((left > right).sum() <= (1 - NEARLY_ALL) * len(left))


def _followers(columns: Mapping[str, Column], codes: Mapping[str, IntArray]) -> list[_Found]:
    """Return the rules that a column follows from another, one per column, from the column with the fewest levels.

    The least likely by chance comes first.  Of two columns that follow from each other, the later follows from the
    earlier.
    """
    names = list(codes)
    sizes = {name: len(np.unique(some[some >= 0])) for name, some in codes.items()}
    best: dict[str, tuple[int, _Found]] = {}
    for of, name in itertools.permutations(names, 2):
        as_many = sizes[of] == sizes[name] and names.index(of) < names.index(name)
        if sizes[name] < 2 or not (sizes[of] > sizes[name] or as_many):
            continue
        one = _follows(columns, of, name, codes[of], codes[name])
        if one is not None and (name not in best or sizes[of] < best[name][0]):
            best[name] = sizes[of], one
    return sorted((one for _, one in best.values()), key=lambda one: one.chance)[:MOST_RULES]


def _follows(columns: Mapping[str, Column], of: str, name: str, codes: IntArray, results: IntArray) -> _Found | None:
    """Return the rule that column ``name`` follows from column ``of``; ``None`` if too many rows break it.

    Also return ``None`` if chance explains the rule, or if more than 5 % of the rows have rare levels.  A rare level is
    given the most frequent result, so that the rule names no person.
    """
    levels = labels_of(columns[of]), labels_of(columns[name])
    part = len(codes) // FIRST
    few = _counts(codes[:part], results[:part], levels)
    if few.sum() - few.max(axis=1).sum() > (1 - NEARLY_ALL) * len(codes):
        return None
    table = _counts(codes, results, levels)
    rows, each = int(table.sum()), table.sum(axis=1)
    if rows < FEWEST_ROWS:
        return None
    kept, chance = int(table.max(axis=1).sum()), float(table.sum(axis=0).max() / rows)
    if kept < NEARLY_ALL * rows or chance >= BY_CHANCE or each[each >= SHARED].sum() < OFTEN * rows:
        return None
    usual = int(table.sum(axis=0).argmax())
    of_each = np.where(each >= SHARED, table.argmax(axis=1), usual).tolist()
    values = {level: levels[1][result] for level, result in zip(levels[0], of_each, strict=True)}
    return _Found(Derived(name, of=of, values=values), kept, rows, chance)


def _counts(codes: IntArray, results: IntArray, levels: tuple[Sequence[Level], Sequence[Level]]) -> IntArray:
    """Return how many rows have each pair of levels, (levels of each column); rows without both are left out.

    A column follows from another if each level of the other has one result in nearly all rows.
    """
    both, width = (codes >= 0) & (results >= 0), len(levels[1])
    flat = np.bincount(codes[both] * width + results[both], minlength=len(levels[0]) * width)
    return np.asarray(flat.reshape(len(levels[0]), width), np.int64)
