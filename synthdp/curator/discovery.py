"""Discovery of undeclared bounds and levels under noise; the only code that reads values before they are coded."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray, FloatArray, IntArray
from synthdp.curator.noisy_ranges import (
    CLEAR,
    EXPONENTS,
    PARTS,
    POWER_BINS,
    NoisyCounts,
    coarse_range,
    is_beyond,
    is_narrow,
    may_cut,
    may_stay,
    narrowed,
    part_bins,
    parts_of_range,
    power_bins,
    significant_total,
    spacing_bins,
    spacing_of,
    stretched,
)
from synthdp.curator.noisy_values import (
    MAGNITUDE_BINS,
    OTHERS,
    different_levels,
    except_heaps,
    label_for_others,
    level_counts,
    magnitude_bins,
    without_heaps,
)
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.encoder import Labels, Numbers, RawColumn, labels_of_numbers, numbers_of_labels
from synthdp.domain.grid import bounds_of
from synthdp.errors import SchemaError
from synthdp.figures import in_figures
from synthdp.measurements import NoiseLaw
from synthdp.privacy.calibration import Calibration, calibrate
from synthdp.privacy.key_histogram import HistogramPlan, plan_histogram
from synthdp.privacy.loss import GaussianDP, PrivacyLoss, PureDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.receipt import Item
from synthdp.queries.norms import Norms
from synthdp.schema.columns import (
    DISCOVERED,
    Categorical,
    Column,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Duration,
    Integer,
    Time,
    Untyped,
)
from synthdp.schema.schema import Schema
from synthdp.tables.parse import declared
from synthdp.tables.plain import quantity_of

LOOKS = 2
"""Most histograms of equal-width bins that narrow one column's range, after the histogram of powers of two.  More
narrow a range more closely, with more noise in each.  Derived: the least number after which a range is at most `NARROW`
times too wide (docs/proofs/discovery.md).  Numbers that span less than a hundredth of their size are excepted.
"""

POWERS_SHARE = 0.5
"""Share of a numeric column's budget for the histogram of powers of two, on whose range the other histograms depend.
Tuned: half of it, as much as for each of the others, changes Kolmogorov distances of six undeclared tables by +9.3 ± 2.8 %
(docs/benchmarks/constants.md)."""

LATER_SHARE = (1 - POWERS_SHARE) / (LOOKS + 1)
"""Share of a numeric column's budget for each later histogram: `LOOKS` of equal-width bins, and one of decimal digits.
Derived: equal parts of what `POWERS_SHARE` leaves.  An untyped column first spends the same share on a histogram of types.
"""

OBJECTS: dict[str, Column] = {
    "date": Date(), "moment": Datetime(), "length": Duration(), "clock": Time(), "decimal": Continuous(), "whole": Integer(),
    "real": Continuous(),
}  # fmt: skip
"""Types that the values of an untyped column may turn out to have, each with the declaration that discovery completes."""

QUANTITIES = tuple(OBJECTS)
"""Names of the types that an untyped column's values may turn out to have, in the order of their histogram bins."""

MOST_LEVELS = 256
"""Most levels that a discovered column gets, the most frequent; rarer values become its ``other`` category, if it
declares one.  A safety limit on model size.
"""

UNIT = (0.0, 1.0)
"""Placeholder bounds of a numeric column that must stay in the schema although no range was found.  A convention."""

COARSE = 0.085
"""A note warns if noise hides values that more than this fraction of the rows has.  In benchmarks such releases were at
times worse than independent columns with declared bounds and levels.  A tolerance of a note
(docs/benchmarks/undeclared.md)."""

T = TypeVar("T")
"""The type of a noisy answer."""
PaidRead = Callable[[Item, Callable[[PrivateTable], T]], T]
"""Charges a receipt item, lends the table to a function that answers with noise, and returns its answer."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """The result of discovering bounds and levels: the completed schema, columns without a finding, and the noise.

    Parameters
    ----------
    schema
        The completed schema, without the columns that were left out.
    columns
        Names of the columns with a finding.
    without_range
        Names of columns of numbers without a significant range.
    without_levels
        Columns without a value that is frequent enough to be released, such as free text and identifiers.
    notes
        A sentence for the receipt on each column with a finding: what was found, and what noise may hide.
    rows
        Approximate number of rows of the table, from noisy counts; 0 if nothing was found.
    least
        Number of rows below which noise hides a level or a power of two, on average over the columns.
    """

    schema: Schema
    columns: tuple[str, ...]
    without_range: tuple[str, ...] = ()
    without_levels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows: float = 0.0
    least: float = 0.0

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the columns without a finding, whether they were left out or stay with placeholder values."""
        return (*self.without_range, *self.without_levels)

    @property
    def is_coarse(self) -> bool:
        """Whether a value must occur in more than the fraction `COARSE` of the rows to be significant.

        The answer uses noisy counts and public numbers only, and decides whether discovery is worth its cost.
        """
        return self.least > COARSE * self.rows


def check_discoverable(schema: Schema, loss: PrivacyLoss) -> None:
    """Raise SchemaError, before anything is spent, if no column is undeclared, or labels are but the loss has no delta.

    Unknown labels are released by a threshold on noisy counts, which costs delta.

    Raises
    ------
    SchemaError
        If there is nothing to discover, or labels cannot be discovered without delta.
    """
    if not schema.undeclared:
        raise SchemaError(
            "discover() needs a column without bounds or levels, and this schema declares all columns: leave discover() out"
        )
    labelled = _labelled(schema)
    if labelled and getattr(loss, "delta", 0.0) == 0:
        raise SchemaError(
            f"the levels of column {labelled[0]!r} can be discovered only with a delta above 0: give delta, or declare "
            "the levels"
        )


def parts_of(schema: Schema, loss: PrivacyLoss) -> dict[str, PrivacyLoss]:
    """Return the loss for the noise of each undeclared column, by column, in equal parts.

    The delta for thresholds on labels is not included; `plan_levels` adds it.
    """
    whole = GaussianDP(loss.mu) if isinstance(loss, GaussianDP) else loss
    return dict.fromkeys(schema.undeclared, whole.fraction(1 / len(schema.undeclared)))


def divided(tables: Mapping[str, Schema], loss: PrivacyLoss) -> dict[str, PrivacyLoss]:
    """Return the part of a loss for each table, by the number of its undeclared columns.

    So a column gets the same part in every table.  The delta for thresholds on labels is divided over the tables by
    their number of undeclared label columns.
    """
    labelled = {name: len(_labelled(one)) for name, one in tables.items()}
    columns = sum(len(one.undeclared) for one in tables.values())
    whole = GaussianDP(loss.mu) if isinstance(loss, GaussianDP) else loss
    found = {name: whole.fraction(len(one.undeclared) / columns) for name, one in tables.items()}
    if not isinstance(loss, GaussianDP):
        return found
    every = max(1, sum(labelled.values()))
    return {
        name: GaussianDP(part.mu, loss.delta * labelled[name] / every)
        for name, part in found.items() if isinstance(part, GaussianDP)
    }  # fmt: skip


def plan_levels(
    schema: Schema, part: PrivacyLoss, loss: PrivacyLoss, adjacency: Adjacency
) -> tuple[PrivacyLoss, HistogramPlan]:
    """Return the loss for the labels of one column, with its part of delta, and its histogram's noise and threshold.

    ``part`` is the column's part of the whole ``loss``, without delta.
    """
    levels = part
    if isinstance(part, GaussianDP) and isinstance(loss, GaussianDP):
        levels = GaussianDP(part.mu, loss.delta / len(_labelled(schema)))
    return levels, plan_histogram(levels, adjacency=adjacency)


def discover(
    schema: Schema, adjacency: Adjacency, loss: PrivacyLoss, *, spend: PaidRead[Any], takes: Callable[[Schema], bool]
) -> Discovered:
    """Find the undeclared bounds and levels of a private table's columns under noise, and return the completed schema.

    Numbers take up to three steps.  A histogram of signs and powers of two gives a rough range.  If the range may be
    much too wide, up to two histograms of equal-width bins cut off its empty ends.  A histogram of decimal digits gives
    the rounding.  Labels are released if their noisy counts pass a threshold; others become ``other``.  An untyped
    column first gets a histogram of its values' types.

    A column without a finding is left out.  If ``takes`` refuses the schema without it, or if no column would be left,
    it stays with placeholder values.  If a question fails after others were answered, its column counts as one without
    a finding, and a note says so: the answers are paid for.

    Costs at most ``loss``, in equal parts for all undeclared columns, for the table's neighbours.

    Parameters
    ----------
    schema, adjacency, loss
        The schema, the neighbouring relation, and the largest cost.
    spend
        Charges each step and lends the table to it.
    takes
        Function that returns whether the caller can use a schema.

    Raises
    ------
    SchemaError
        As `check_discoverable` does; nothing is spent then.
    """
    check_discoverable(schema, loss)
    found: dict[str, Column] = {}
    notes: list[str] = []
    rangeless: list[str] = []
    rare: list[str] = []
    least: dict[str, float] = {}
    rows: dict[str, float] = {}
    answered: list[Item] = []

    def asked(item: Item, answer: Callable[[PrivateTable], T]) -> T:
        result: T = spend(item, answer)
        answered.append(item)
        return result

    for name, part in parts_of(schema, loss).items():
        try:
            column, complete, fewest, held = _look_at(schema, adjacency, name, part, loss, asked)
        except Exception as error:
            if not answered:  # nothing is spent yet
                raise
            column, complete, fewest, held = schema[name], None, math.inf, 0.0
            notes.append(
                f"column {name!r}: SALVAGED: a question about it failed ({type(error).__name__}); the others were asked"
            )
        if complete is None:
            (rare if isinstance(column, Categorical) else rangeless).append(name)
        least |= {} if fewest == math.inf else {name: fewest}
        rows[name] = held
        found[name] = replace(complete or _hidden(column), source=DISCOVERED)
        if complete and not column.is_complete:
            notes.append(_said(name, complete, fewest))
    hidden = (*rangeless, *rare)
    rest = _without(hidden, schema.replace(found), takes)
    seen = tuple(name for name in found if name not in hidden)
    return Discovered(
        rest, seen, tuple(rangeless), tuple(rare), tuple(notes),
        rows=max(rows.values(), default=0.0), least=float(np.mean([*least.values(), *[0.0] * (not least)])),
    )  # fmt: skip


def _look_at(
    schema: Schema, adjacency: Adjacency, name: str, part: PrivacyLoss, loss: PrivacyLoss, spend: PaidRead[Any]
) -> tuple[Column, Column | None, float, float]:
    """Discover the undeclared part of one column: its type, its range or its frequent labels.

    ``part`` is the most that the noise of the column's steps may cost, and ``loss`` the cost of all columns; labels
    take their delta from ``loss``.

    Returns
    -------
    The column with its type.  Then the completed column, or ``None`` if nothing was found.  Then the number of rows
    below which noise hides a label or a power of two, infinity if only the type was discovered.  Then the approximate
    number of rows with the values that were found, or 0.
    """
    column, quantity = schema[name], ""
    if isinstance(column, Untyped):
        quantity = _quantity(adjacency, name, part.fraction(LATER_SHARE), spend)
        plain = Categorical(nullable=column.nullable, other=column.other)
        column = plain if quantity == "label" else replace(OBJECTS[quantity], nullable=column.nullable)
        part = part.fraction(1 - LATER_SHARE)
    if isinstance(column, Categorical):
        levels, plan = plan_levels(schema, part, loss, adjacency)
        complete, held = _with_levels(name, column, levels, plan, spend)
        return column, complete, plan.threshold / plan.resolution, held
    if column.is_complete:
        return column, column, math.inf, 0.0
    complete, fewest, held = _with_bounds(adjacency, name, column, part, spend)
    if complete and quantity == "decimal":
        complete = _as_decimals(complete)
    return column, complete, fewest, held


def nothing_found(schema: Schema, why: str, takes: Callable[[Schema], bool]) -> Discovered:
    """Return the result of a discovery that found nothing: undeclared columns are left out or get placeholder values.

    ``why`` is a sentence for the receipt; ``takes`` returns whether the caller can use a schema without some columns.
    """
    hidden = schema.undeclared
    rest = _without(
        hidden, schema.replace({name: replace(_hidden(schema[name]), source=DISCOVERED) for name in hidden}), takes
    )
    rare = tuple(name for name in hidden if isinstance(schema[name], Categorical))
    return Discovered(rest, (), tuple(name for name in hidden if name not in rare), rare, (why,))


def _hidden(column: Column) -> Column:
    """Return a column without a finding, with placeholder values since its real values stay unknown.

    The placeholders are the bounds 0 to 1, or a single label: the column's ``other``, else "other".
    """
    if isinstance(column, Categorical):
        other = column.other or OTHERS[0]
        return replace(column, levels=(other,), other=other)
    return column.with_bounds(*UNIT)


def _without(hidden: tuple[str, ...], schema: Schema, takes: Callable[[Schema], bool]) -> Schema:
    """Return the schema without the ``hidden`` columns, except where ``takes`` refuses the rest or none would be left."""
    if len(hidden) == len(schema):
        return schema
    for name in hidden:
        rest = schema.part([other for other in schema if other != name])
        schema = rest if takes(rest) else schema
    return schema


def _said(name: str, column: Column, least: float) -> str:
    """Return the receipt's sentence on one column: what was found, and that noise may hide fewer than ``least`` rows."""
    if isinstance(column, Categorical):
        levels = len(column.levels or ())
        many = "s" * (levels > 1)
        rare = f"a level that fewer than about {least:.0f} rows have may be missed"
        return f"column {name!r}: {levels} level{many} found; {rare}"
    heaps = getattr(column, "special", ())
    apart = f", and {', '.join(in_figures(heap, digits=9) for heap in heaps)} apart from them" if heaps else ""
    return (
        f"column {name!r}: {column.in_words()} found{apart}; outermost values are cut off if fewer than about "
        f"{least:.0f} rows hold them"
    )


def _labelled(schema: Schema) -> list[str]:
    """Return the names of the undeclared columns of labels, whose discovery needs a delta."""
    return [name for name in schema.undeclared if isinstance(schema[name], Categorical)]


def _quantity(adjacency: Adjacency, name: str, loss: PrivacyLoss, spend: PaidRead[Any]) -> str:
    """Return the quantity of an untyped column, by a noisy histogram of its values' types that costs ``loss``.

    The quantity is the most frequent type if its count is significant, else "label".  Where the count of texts is
    significant too, numbers are labels.  Numbers are "decimal" if the count of decimals is significant, else "real" if
    the count of floats is, else "whole".
    """
    counts = noisy_histogram(
        adjacency, name, _object_bins, len(OBJECTS) + 1, loss, spend, step=f"discovered type: {name}"
    )
    best = int(np.argmax(counts.rows))
    clear = dict(zip((*QUANTITIES, "label"), counts.clear().tolist(), strict=True))
    if best == len(OBJECTS) or not clear[QUANTITIES[best]]:
        return "label"
    if QUANTITIES[best] in ("whole", "real"):
        return "label" if clear["label"] else next(one for one in ("decimal", "real", "whole") if clear[one])
    return "moment" if QUANTITIES[best] == "date" and clear["moment"] else QUANTITIES[best]


def _object_bins(raw: RawColumn) -> IntArray:
    """Return each present value's bin, (present,): its type's position in `QUANTITIES`, or the last bin for texts.

    The noisy histogram of these bins decides which type an untyped column is declared with.
    """
    if isinstance(raw, Numbers):
        raw = labels_of_numbers(raw)
    position = {quantity: i for i, quantity in enumerate(QUANTITIES)}
    bins = np.array([position.get(quantity_of(level), len(position)) for level in raw.levels], np.int64)
    return np.asarray(bins[raw.codes[raw.codes >= 0]], np.int64)


def _as_decimals(column: Column) -> Column:
    """Return an untyped column's numbers as an exact `Decimal` column, because its values were decimal objects.

    The column has the number of decimals that discovery found; 0 if it found a step such as 10; else 6.  The column is
    unchanged if it is not `Continuous` with bounds, or if its bounds do not fit a `Decimal`.
    """
    if not isinstance(column, Continuous) or column.lower is None or column.upper is None:
        return column
    decimals = (6 if column.step is None else 0) if column.decimals is None else column.decimals
    exact = Decimal(nullable=column.nullable, special=column.special, decimals=decimals).with_bounds(
        column.lower, column.upper
    )
    return exact if _holds(exact, column.lower, column.upper) else column


def _holds(column: Column, lower: float, upper: float) -> bool:
    """Return whether a column's bounds contain [lower, upper], so that a change of its type or digits clips nothing."""
    low, high = bounds_of(column)
    return low <= lower and upper <= high


def _with_bounds(
    adjacency: Adjacency, name: str, column: Column, loss: PrivacyLoss, spend: PaidRead[Any]
) -> tuple[Column | None, float, float]:
    """Return a numeric column with discovered bounds and digits, or ``None`` if no range is significant.

    Also return two numbers of rows: the count from which a power of two is significant, and the approximate number of
    numbers in the range.
    """
    heaps: tuple[float, ...] = ()

    def look(what: str, bin_of: Callable[[FloatArray], FloatArray], bins: int, share: float) -> NoisyCounts:
        numbers, part = _of_numbers(column, lambda values: bin_of(except_heaps(values, heaps))), loss.fraction(share)
        return noisy_histogram(adjacency, name, numbers, bins, part, spend, step=f"discovered {what}: {name}")

    digits = column.spacings()
    spare = 0.0 if digits else LATER_SHARE
    if isinstance(column, (Continuous, Integer)):
        powers, heaps = without_heaps(look("range", magnitude_bins, MAGNITUDE_BINS, POWERS_SHARE))
    else:
        powers = look("range", power_bins, POWER_BINS, POWERS_SHARE)
    found, least = coarse_range(powers), powers.above(CLEAR / POWER_BINS)
    if found is None or is_beyond(powers, LARGEST_WHOLE if column.whole else 2.0 ** (EXPONENTS - 1)):
        return None, least, 0.0
    held = significant_total(powers)
    whole = column.whole
    lower, upper = stretched(powers, *found, whole=whole)
    share = LATER_SHARE + spare / LOOKS
    narrow, looks = is_narrow(powers, lower, upper, whole=whole), LOOKS
    if narrow:  # another look is only worth its cost if its noise lets it cut anything off
        plan = histogram_plan(adjacency, loss.fraction(share), PARTS)
        looks = int(may_cut(held.rows, plan.noise.stddev / plan.resolution))
    if whole and upper <= 0:  # powers of two below zero are open at their lower end, parts are at their upper one
        lower, upper = lower + 1, upper + 1
    most, heap = PARTS, False
    for i in range(looks):
        lower, upper, k = parts_of_range(lower, upper, whole=whole, most=most)
        part = (upper - lower) / k
        parts = look("bounds", partial(part_bins, lower=lower, upper=upper, parts=k), k, share)
        last = i == looks - 1
        lower, upper = narrowed(parts, lower, upper, held=held, narrow=narrow, whole=whole, last_look=last, heap=heap)
        left = (upper - lower) / part
        most, heap = PARTS * (2 if 3.5 < left < 6.5 else 1), left < 6.5
        if may_stay(parts, part, lower, upper, whole=whole):
            break
    if whole:
        upper = max(math.ceil(upper) - 1, math.floor(lower))
    column = _with_heaps(column, heaps)
    plain = column.with_bounds(float(lower), float(upper))
    if not digits:
        return plain, least, held.rows
    counts = look("digits", partial(spacing_bins, digits), len(digits) + 2, LATER_SHARE)
    spacing = spacing_of(counts, digits, width=upper - lower)
    spaced = (column if spacing is None else column.with_spacing(spacing)).with_bounds(float(lower), float(upper))
    fits = _holds(spaced, *bounds_of(plain)) or column.temporal or column.whole
    return (spaced if fits else plain), least, held.rows  # bounds may be too wide for such digits to be exact


def noisy_histogram(
    adjacency: Adjacency,
    name: str,
    bins_of: Callable[[RawColumn], AnyArray],
    bins: int,
    loss: PrivacyLoss,
    spend: PaidRead[Any],
    *,
    step: str,
) -> NoisyCounts:
    """Return the noisy counts of a column's raw values in ``bins`` bins; each row counts in at most one bin.

    ``bins_of`` maps raw values to bin numbers.  Costs ``loss``, which ``spend`` charges as ``step``.
    """
    plan = histogram_plan(adjacency, loss, bins)

    def answer(table: PrivateTable) -> IntArray:
        counts = np.zeros(bins, np.int64)
        for raw in _raw(table, name):
            counts += np.bincount(bins_of(raw).astype(np.int64), minlength=bins)
        return plan.noised(counts)

    rows = np.asarray(spend(plan.item(step, loss), answer), np.float64) / plan.resolution
    return NoisyCounts(rows=rows, stddev=plan.noise.stddev / plan.resolution, law=plan.noise.law)


def histogram_plan(adjacency: Adjacency, loss: PrivacyLoss, bins: int) -> Calibration:
    """Return the noise for a histogram that counts each row in at most one bin: Laplace for pure DP, else Gaussian.

    With a single bin a replaced row has the sensitivity of an added one, as there is no other bin to move to.
    """
    law = NoiseLaw.LAPLACE if isinstance(loss, PureDP) else NoiseLaw.GAUSSIAN
    moved = adjacency.histogram if bins > 1 else Norms(1, 1, 1).times(adjacency.rows)  # one bin has no other to move to
    return calibrate(moved, loss, k=bins, law=law)


def _raw(table: PrivateTable, name: str) -> Iterable[RawColumn]:
    """Yield one column's raw values, block by block, from rows of bounded contribution, for histograms."""
    return (block[name] for block in table.raw_blocks((name,)))


def _with_heaps(column: Column, heaps: tuple[float, ...]) -> Column:
    """Return a numeric column that declares the sentinel values ``heaps`` as its special values.

    Sentinels are values such as 99999 for "no answer".  A column of another type is unchanged.
    """
    if isinstance(column, Integer):
        return replace(column, special=tuple(map(int, heaps)))
    return replace(column, special=heaps) if isinstance(column, Continuous) else column


def _of_numbers(column: Column, bin_of: Callable[[FloatArray], FloatArray]) -> Callable[[RawColumn], FloatArray]:
    """Return a function from a raw column to the bins, (numbers,), of its finite numbers, for `noisy_histogram`.

    Missing values and values that are no finite numbers have no bin.  ``bin_of`` gives the bin of each number.
    """
    return lambda raw: bin_of(_present(declared(raw, column) if isinstance(raw, Labels) else raw))


def _present(raw: RawColumn) -> FloatArray:
    """Return the finite numbers of a raw column as floats, (some,), whose histogram bins are counted.

    Missing and infinite values and texts are dropped.
    """
    if isinstance(raw, Labels):
        raw = numbers_of_labels(raw)
    values = raw.values.astype(np.float64)
    if raw.missing is not None:
        values = values[~raw.missing]
    return np.asarray(values[np.isfinite(values)])


def _with_levels(
    name: str, column: Categorical, loss: PrivacyLoss, plan: HistogramPlan, spend: PaidRead[Any]
) -> tuple[Column | None, float]:
    """Return the column with its frequent labels, and about how many rows hold them; ``None`` if no label is frequent.

    Labels are released if their noisy counts pass the threshold of ``plan``.
    """

    def answer(table: PrivateTable) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for raw in _raw(table, name):
            counts.update(level_counts(raw))
        return plan.noised(counts)

    noisy = spend(plan.item(f"discovered levels: {name}", loss, answers=MOST_LEVELS), answer)
    levels = different_levels(json.loads(key) for key in sorted(noisy, key=lambda key: -noisy[key])[:MOST_LEVELS])
    if not levels:
        return None, 0.0
    other = None if column.other is None else label_for_others(column.other, levels)
    return replace(column, levels=levels, other=other), float(sum(noisy.values()))
