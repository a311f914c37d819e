"""Bounds and levels that nobody declared, found under noise: the only look at values before they are coded."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray, BoolArray, FloatArray, IntArray
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.encoder import Labels, Numbers, RawColumn, labels_of_numbers, numbers_of_labels
from synthdp.domain.grid import bounds_of
from synthdp.errors import SchemaError
from synthdp.measurements import NoiseLaw, beyond_noise
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.key_histogram import plan_histogram
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.receipt import Item
from synthdp.schema.columns import (
    DISCOVERED,
    Categorical,
    Column,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Duration,
    Level,
    Time,
    Untyped,
)
from synthdp.schema.schema import Schema
from synthdp.tables.columns.parse import declared
from synthdp.tables.columns.plain import quantity_of

EXPONENTS = 64
"""Powers of two on each side of zero, for each sign, that the first look at a number tells apart."""

PARTS = 32
"""Equal parts of the found range that the second look tells apart."""

DIGITS_SHARE = 0.2
"""Share of a column's budget that says how many digits its numbers have."""

KIND_SHARE = 0.1
"""Share of a column's budget that says what the objects are that it holds."""

OBJECTS: dict[str, Column] = {
    "date": Date(), "moment": Datetime(), "length": Duration(), "clock": Time(), "decimal": Continuous(),
}  # fmt: skip
"""What columns of objects are told apart, and the open column of each."""

QUANTITIES = tuple(OBJECTS)

OFF_DIGITS = 0.1
"""Largest share of numbers that may be rounded to digits that are wide for the range of the numbers."""

DEVIATIONS = 3.0
"""Standard deviations of noise that finer digits may hide in."""

NOTHING: tuple[Level, ...] = (0,)
"""The level of a column without a label for others, no value of which was frequent enough to be released."""

MOST_LEVELS = 256
"""Most levels that a discovered column keeps; the rest are its "other"."""

T = TypeVar("T")
PaidRead = Callable[[Item, Callable[[PrivateTable], T]], T]


@dataclass(frozen=True, slots=True)
class Discovered:
    """What a discovery found.

    Parameters
    ----------
    schema
        The completed schema.
    columns
        Names of the columns that were completed.
    without_range
        Those of them whose range no clear count tells: their bounds are noise.
    """

    schema: Schema
    columns: tuple[str, ...]
    without_range: tuple[str, ...] = ()

    @property
    def without_levels(self) -> tuple[str, ...]:
        """Columns no value of which was frequent enough to be released, such as free text and identifiers."""
        found = ((name, self.schema[name]) for name in self.columns)
        return tuple(
            name
            for name, column in found
            if isinstance(column, Categorical) and column.levels in ((column.other,), NOTHING)
        )


def discover(schema: Schema, adjacency: Adjacency, loss: PrivacyLoss, *, spend: PaidRead[Any]) -> Discovered:
    """Complete the schema of a private table, which is lent to each step by ``spend``.

    Bounds: a histogram of signs and powers of two, whose first and last clear bins give a range; then one of equal parts
    of that range, whose ends without clear counts are cut off; then one of the digits of the numbers.  Levels: counts
    above a threshold (stability histogram), the most frequent first, the rest together as ``other``.  Columns of objects:
    first a histogram of what the objects are.

    Costs ``loss``, in equal parts for every undeclared column, for the table's neighbours.

    Raises
    ------
    SchemaError
        If nothing is undeclared, or a column's levels are and ``loss`` has no delta.
    """
    names = schema.undeclared
    if not names:
        raise SchemaError("every column of the schema is declared: there is nothing to discover")
    labelled = [name for name in names if isinstance(schema[name], Categorical)]
    if labelled and not (isinstance(loss, ApproxDP) and loss.delta > 0):
        raise SchemaError(f"the levels of column {labelled[0]!r} must be declared, or discovered with a delta above 0")
    epsilon = (loss.epsilon if isinstance(loss, (PureDP, ApproxDP)) else _no_epsilon(loss)) / len(names)
    found: dict[str, Column] = {}
    unclear: list[str] = []
    for name in names:
        column, part = schema[name], epsilon
        if isinstance(column, Untyped):
            column = _typed(adjacency, name, column, PureDP(KIND_SHARE * part), spend)
            part -= KIND_SHARE * part
        if isinstance(column, Categorical):
            share = ApproxDP(part, loss.delta / len(labelled) if isinstance(loss, ApproxDP) else 0.0)
            found[name] = _with_levels(adjacency, name, column, share, spend)
        elif column.is_complete:
            found[name] = column
        else:
            bounded, clear = _with_bounds(adjacency, name, column, PureDP(part), spend)
            exact = isinstance(schema[name], Untyped) and column.quantity == "number"
            found[name] = _as_decimals(bounded) if exact else bounded
            unclear += [] if clear else [name]
    return Discovered(
        schema.replace({name: replace(column, source=DISCOVERED) for name, column in found.items()}),
        names,
        tuple(unclear),
    )


def _no_epsilon(loss: PrivacyLoss) -> float:
    raise SchemaError(f"discovery is paid in epsilon, not from a budget of {loss}")


def _typed(adjacency: Adjacency, name: str, column: Untyped, loss: PureDP, spend: PaidRead[Any]) -> Column:
    """Return an open column of the type that clearly most objects have; of levels, if none is clear."""
    counts, stddev = _noisy_histogram(
        adjacency, name, _object_bins, len(OBJECTS) + 1, loss, spend, step=f"discovered type: {name}"
    )
    best = int(np.argmax(counts))
    if best < len(OBJECTS) and counts[best] > beyond_noise(stddev, len(counts)):
        return replace(OBJECTS[QUANTITIES[best]], nullable=column.nullable)
    return Categorical(nullable=column.nullable, other=column.other)


def _object_bins(raw: RawColumn) -> IntArray:
    """Return the number of each value's quantity; labels come last, missing values are left out."""
    if isinstance(raw, Numbers):
        raw = labels_of_numbers(raw)
    position = {quantity: i for i, quantity in enumerate(QUANTITIES)}
    bins = np.array([position.get(quantity_of(level), len(position)) for level in raw.levels], np.int64)
    return np.asarray(bins[raw.codes[raw.codes >= 0]], np.int64)


def _as_decimals(column: Column) -> Column:
    """Return numbers as decimals of the digits that were found, or of six, if their bounds allow so many."""
    if not isinstance(column, Continuous) or column.lower is None or column.upper is None:
        return column
    decimals = (6 if column.step is None else 0) if column.decimals is None else column.decimals
    exact = Decimal(nullable=column.nullable, decimals=decimals).with_bounds(column.lower, column.upper)
    return exact if _holds(exact, column.lower, column.upper) else column


def _holds(column: Column, lower: float, upper: float) -> bool:
    low, high = bounds_of(column)
    return low <= lower and upper <= high


def _with_bounds(
    adjacency: Adjacency, name: str, column: Column, loss: PureDP, spend: PaidRead[Any]
) -> tuple[Column, bool]:
    """Return the column with bounds, and whether noise let any range be seen."""
    digits = column.spacings()
    half = loss.fraction((1 - DIGITS_SHARE) / 2 if digits else 0.5)
    counts, stddev = _noisy_histogram(
        adjacency,
        name,
        _of_numbers(column, _power_bins),
        4 * EXPONENTS + 1,
        half,
        spend,
        step=f"discovered range: {name}",
    )
    present = np.flatnonzero(counts > beyond_noise(stddev, len(counts)))
    clear = len(present) > 0
    if not clear:
        present = np.flatnonzero(counts == counts.max())
    lower, upper = _range(int(present[0]), int(present[-1]))
    width = (upper - lower) / PARTS

    def part(values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # a warning would tell of one far value
            return np.clip(np.floor((values - lower) / width), 0, PARTS - 1)

    counts, stddev = _noisy_histogram(
        adjacency, name, _of_numbers(column, part), PARTS, half, spend, step=f"discovered bounds: {name}"
    )
    filled = np.flatnonzero(counts > stddev)
    if len(filled):
        lower, upper = lower + filled[0] * width, lower + (filled[-1] + 1) * width
    if not digits:
        return column.with_bounds(float(lower), float(upper)), clear
    bins, share = _of_numbers(column, partial(_spacing_bins, digits)), loss.fraction(DIGITS_SHARE)
    counts, stddev = _noisy_histogram(
        adjacency, name, bins, len(digits) + 2, share, spend, step=f"discovered digits: {name}"
    )
    spaced, plain = (
        one.with_bounds(float(lower), float(upper))
        for one in (_with_spacing(column, digits, counts[1:], stddev, width=upper - lower), column)
    )
    if _holds(spaced, *bounds_of(plain)) or column.temporal or column.whole:
        return spaced, clear
    return plain, clear  # bounds too wide for such digits to be exact


def _spacing_bins(spacings: Sequence[Fraction], values: FloatArray) -> FloatArray:
    """Return the bin of each number: 0 for zero, then by the widest spacing that it is a multiple of, last for none."""
    bins = np.full(len(values), len(spacings) + 1.0)
    for i in range(len(spacings) - 1, -1, -1):
        bins[_multiples(values, spacings[i])] = i + 1
    bins[values == 0] = 0
    return bins


def _multiples(values: FloatArray, spacing: Fraction) -> BoolArray:
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of one far value
        if spacing.denominator == 1:
            return np.asarray(np.fmod(values, float(spacing)) == 0)
        return np.asarray(np.rint(values * spacing.denominator) / spacing.denominator == values)


def _with_spacing(
    column: Column, spacings: Sequence[Fraction], counts: IntArray, stddev: float, *, width: float
) -> Column:
    """Return the column with the finest spacing that clearly some numbers need, if there is one.

    A spacing that is wide for the range would move numbers by much: there, a share of `OFF_DIGITS` at most of the numbers
    may have a finer one, with what noise may have hidden.
    """
    needed = np.flatnonzero(counts > beyond_noise(stddev, len(counts)))
    if not len(needed) or needed[-1] == len(spacings):
        return column
    if spacings[needed[-1]] <= width / PARTS:
        return column.with_spacing(spacings[needed[-1]])
    total = counts.sum() - DEVIATIONS * stddev * math.sqrt(len(counts))
    for i in range(needed[-1], len(spacings)):
        finer = counts[i + 1 :].sum() + DEVIATIONS * stddev * math.sqrt(len(counts) - i - 1)
        if finer <= OFF_DIGITS * total:
            return column.with_spacing(spacings[i])
    return column


def _range(first: int, last: int) -> tuple[float, float]:
    """Return the ends of two bins; a range over a factor of four or more begins (or ends) at zero."""
    lower, upper = _power_edge(first, low=True), _power_edge(last, low=False)
    if lower == upper:  # nothing but zeros
        return 0.0, 1.0
    if 0 < 4 * lower <= upper:
        return 0.0, upper
    if lower <= 4 * upper < 0:
        return lower, 0.0
    return lower, upper


def _noisy_histogram(
    adjacency: Adjacency,
    name: str,
    bins_of: Callable[[RawColumn], AnyArray],
    bins: int,
    loss: PureDP,
    spend: PaidRead[Any],
    *,
    step: str,
) -> tuple[IntArray, float]:
    """Return noisy counts of a column's values by bin, at most one each, and the stddev of their noise."""
    plan = calibrate(adjacency.histogram, loss, k=bins, law=NoiseLaw.LAPLACE)

    def answer(table: PrivateTable) -> IntArray:
        counts = np.zeros(bins, np.int64)
        for raw in _raw(table, name):
            counts += np.bincount(bins_of(raw).astype(np.int64), minlength=bins)
        return plan.noised(counts)

    return spend(plan.item(step, loss), answer), plan.noise.stddev


def _power_bins(values: FloatArray) -> FloatArray:
    """Return the bin of each number: 0 in the middle, then by power of two, mirrored for negative numbers."""
    with np.errstate(divide="ignore"):
        power = np.clip(np.floor(np.log2(np.abs(values))), -EXPONENTS, EXPONENTS - 1) + EXPONENTS + 1
    power = np.where(values == 0, 0, power)
    return np.asarray(2 * EXPONENTS + np.sign(values) * power, np.float64)


def _power_edge(bin_: int, *, low: bool) -> float:
    signed = bin_ - 2 * EXPONENTS
    if signed == 0:
        return 0.0
    exponent = abs(signed) - 1 - EXPONENTS
    outer = (signed < 0) == low
    return math.copysign(2.0 ** (exponent + outer), signed)


def _raw(table: PrivateTable, name: str) -> Iterable[RawColumn]:
    return (block[name] for block in table.raw_blocks((name,)))


def _of_numbers(column: Column, bin_of: Callable[[FloatArray], FloatArray]) -> Callable[[RawColumn], FloatArray]:
    """Return the bins of a raw column's finite numbers; others are in none."""
    return lambda raw: bin_of(_present(declared(raw, column) if isinstance(raw, Labels) else raw))


def _present(raw: RawColumn) -> FloatArray:
    """Return the finite numbers of a column; others are left out of its range."""
    if isinstance(raw, Labels):
        raw = numbers_of_labels(raw)
    values = raw.values.astype(np.float64)
    if raw.missing is not None:
        values = values[~raw.missing]
    return np.asarray(values[np.isfinite(values)])


def _with_levels(adjacency: Adjacency, name: str, column: Categorical, loss: ApproxDP, spend: PaidRead[Any]) -> Column:
    plan = plan_histogram(loss, adjacency=adjacency)

    def answer(table: PrivateTable) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for raw in _raw(table, name):
            counts.update(_level_counts(raw))
        return plan.noised(counts)

    noisy = spend(plan.item(f"discovered levels: {name}", loss, answers=MOST_LEVELS), answer)
    frequent = [json.loads(key) for key in sorted(noisy, key=lambda key: -noisy[key])[:MOST_LEVELS]]
    levels = _different(frequent, other=column.other)
    return replace(column, levels=levels or (NOTHING if column.other is None else (column.other,)))


def _different(levels: list[Level], *, other: str | None) -> tuple[Level, ...]:
    """Return levels in order; of those that are written alike, such as 1 and "1", the most frequent."""
    by_text: dict[str, Level] = {} if other is None else {other: other}
    for level in levels:
        by_text.setdefault(str(level), level)
    if other is not None and other not in levels:
        del by_text[other]
    return tuple(sorted(by_text.values(), key=lambda level: (type(level).__name__, level)))


def _level_counts(raw: RawColumn) -> dict[str, int]:
    """How often each level occurs, keyed by its JSON text; values that are no level are left out.

    A float that is whole is keyed as a whole number: a missing value elsewhere may have made the column float.
    """
    if isinstance(raw, Numbers):
        raw = labels_of_numbers(raw)
    counts = np.bincount(raw.codes[raw.codes >= 0], minlength=len(raw.levels))
    keyed: dict[str, int] = {}
    for level, count in zip(raw.levels, counts, strict=True):
        plain = level.item() if isinstance(level, np.generic) else level
        if not count or not isinstance(plain, (str, bool, int, float)):
            continue
        if isinstance(plain, (int, float)) and not -LARGEST_WHOLE <= plain <= LARGEST_WHOLE:
            continue
        if isinstance(plain, float):
            plain = int(plain) if plain.is_integer() else plain
        key = json.dumps(str(plain) if isinstance(plain, str) else plain, ensure_ascii=False)
        keyed[key] = keyed.get(key, 0) + int(count)
    return keyed
