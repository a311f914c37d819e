"""Views of one column or of two columns of a release: from answers with 95 % intervals, or from synthetic rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthdp.answers.answer import AnswerEngine, answer_engine
from synthdp.answers.answers import Answers
from synthdp.answers.expressions import grid_values
from synthdp.answers.misfit_shares import MisfitShare, misfit_shares
from synthdp.answers.question_partition import modelled_column
from synthdp.answers.questions import marginal, quantile
from synthdp.arrays import BoolArray, FloatArray, GridIndices, IntArray
from synthdp.domain.derive import derive
from synthdp.domain.encoder import Labels, Numbers, RawColumn, decode
from synthdp.domain.grid import bounds_of, grid_of
from synthdp.figures import in_figures, in_per_cent, precise_to
from synthdp.measurements import Measurements
from synthdp.pictures.view import COARSEST, FINEST, Bar, ColumnView, axis_between, marks_between, zoomed
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column, Steps
from synthdp.schema.schema import Schema

ROWS = 50_000
"""Number of synthetic rows from which pictures are drawn: a percentage then has a standard error of at most about 0.2
(50 / sqrt(rows), derived).  More would be more exact, and take longer.  A safety limit of time."""

GROUPS = 7
"""Groups of levels or intervals of a column in a picture of two columns; other levels and missing values add one group
each.  More would make bars too thin to compare.  A convention."""

FEW = 0.01
"""Fraction of the rows below which an interval is nearly empty and is joined with the next interval.  Less would draw a
row of bars from a few rows.  A convention."""

RARE = 0.002
"""Fraction of missing values from which they are a group of their own.  Less would draw a group that is too thin to
see.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairView:
    """The fractions of one column's groups within the groups of another column.

    Parameters
    ----------
    within, name
        The column whose groups are the rows of ``shares``, and the column whose fractions are shown.
    rows, columns
        Names of the groups of ``within`` and of ``name``.
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
        """Title of the picture: "NAME by WITHIN"."""
        return f"{self.name} by {self.within}"


def drawn_indices(model: SyntheticModel) -> dict[str, GridIndices]:
    """Return the grid indices of `ROWS` synthetic rows by modelled column, (rows,) each, for pictures and associations.

    The seed is fixed, so that a release's pictures agree and stay the same.
    """
    return model.sample_indices(ROWS, generator(0), independent=True)


def pair_view(model: SyntheticModel, indices: Mapping[str, GridIndices], name: str, within: str) -> PairView:
    """Return the fractions of a column's groups within the groups of another column, from synthetic rows.

    Raises
    ------
    ParameterError
        If a column is an identifier, is derived, or does not exist.
    """
    columns = [modelled_column(model, one)[1] for one in (within, name)]
    raws = [decode(column, indices[one]) for column, one in zip(columns, (within, name), strict=True)]
    return pair_of_values(dict(zip((within, name), zip(columns, raws, strict=True), strict=True)), name, within)


def pair_of_values(values: Mapping[str, tuple[Column, RawColumn]], name: str, within: str) -> PairView:
    """Return the fractions of a column's groups within the groups of another column, from given rows."""
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
    """Return the group of each value, (rows,), and the groups' names; -1 for missing values if they are rare."""
    codes, names, missing = _by_level(column, raw) if isinstance(raw, Labels) else _by_size(column, raw)
    if not missing.mean() > RARE:  # also without any row, where the mean is NaN
        return np.where(missing, -1, codes), names
    return np.where(missing, len(names), codes), [*names, "missing"]


def _by_level(column: Column, raw: Labels) -> tuple[IntArray, list[str], BoolArray]:
    """Return each row's group, (rows,), the groups' names, and whether the row's value is missing, (rows,).

    Groups are the most frequent levels and "others".  A single other level is shown by its name.  The code of a missing
    value means nothing.
    """
    counts = np.bincount(raw.codes + 1, minlength=len(raw.levels) + 1)[1:]
    frequent = np.argsort(-counts, kind="stable")
    shown = frequent if len(frequent) <= GROUPS + 1 else frequent[:GROUPS]
    shown = np.sort(shown) if column.ordered else shown
    shown = shown[counts[shown] > 0] if counts.any() else shown
    place = np.full(len(raw.levels) + 1, len(shown))
    place[shown] = np.arange(len(shown))
    codes = place[raw.codes]
    others = bool((codes[raw.codes >= 0] == len(shown)).any())
    return codes, [str(raw.levels[i]) for i in shown] + ["others"] * others, raw.gone


def _by_size(column: Column, raw: Numbers) -> tuple[IntArray, list[str], BoolArray]:
    """Return each row's group, (rows,), the groups' names, and whether its value is missing.

    Groups are intervals with about equally many rows; a value that many rows share has a group of its own.  Intervals
    of very few rows are joined with the next one.  Without any value there is one group, "none".
    """
    values, gone = raw.values, raw.gone
    there = np.sort(values[~gone])
    if not len(there):
        return np.zeros(len(values), np.int64), ["none"], gone
    starts = there[[len(there) * k // GROUPS for k in range(GROUPS)]]
    common = starts[1:][np.diff(starts) == 0]
    if len(common):  # a common value takes several quantiles: begin a group after each, and divide all others in three
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
    """Return the name of an interval of numbers or times from its first and last value.

    A name of times has the first time alone, because two times would be too long for a bar.
    """
    if column.quantity == "moment":
        ends = [str(np.datetime64(int(end), "us"))[:10] for end in (first, last)]
        return ends[0] if ends[0] == ends[1] else f"from {ends[0]}"
    if column.temporal:
        return f"from {str(column.shown(int(first))).removesuffix('.000000')}"
    ends = [in_figures(float(end), digits=6 if column.whole else 3) for end in (first, last)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def is_computed(schema: Schema, name: str) -> bool:
    """Return whether a column is derived by an expression, directly or through the column that it follows from.

    Answers with intervals cannot count the values of such a column, so that synthetic rows are counted.
    """
    rule = schema.derived.get(name)
    return rule is not None and (rule.expression is not None or is_computed(schema, str(rule.of)))


def derived_values(model: SyntheticModel, indices: Mapping[str, GridIndices]) -> dict[str, RawColumn]:
    """Return the derived columns of synthetic rows by name, from the grid indices of the modelled columns."""
    rng = generator(0)
    raw = {name: decode(column, indices[name], rng=rng) for name, column in model.schema.items()}
    for rule in model.schema.derived.values():
        raw[rule.column] = derive(model.schema, rule, raw)
    return {name: raw[name] for name in model.schema.derived}


def computed_view(schema: Schema, name: str, raw: RawColumn) -> ColumnView:
    """Return the view of a column from its values in synthetic rows.

    The view has no intervals, because it is for columns that answers with intervals cannot count.
    """
    if isinstance(raw, Labels):
        return _shares_of_levels(name, raw)
    support = schema.outputs[name].support()
    spacing = support.size / (support.denominator or 1) if isinstance(support, Steps) else 0.0
    return _shares_of_numbers(name, raw, raw.values[~raw.gone].astype(np.float64), spacing=spacing)


def _shares_of_levels(name: str, raw: Labels) -> ColumnView:
    """Return the view of levels from raw values: percentages of rows, the most frequent level first.

    Only the first `SHOWN_LEVELS` have bars; the other levels and missing values are kept apart.
    """
    shares = 100 * np.bincount(raw.codes + 1, minlength=len(raw.levels) + 1) / max(raw.rows, 1)
    named = zip(map(str, raw.levels), shares[1:].tolist(), strict=True)
    bars = sorted((Bar(level, share) for level, share in named), key=lambda bar: -bar.share)
    missing = (Bar("missing", float(shares[0])),) if shares[0] else ()
    return ColumnView(name=name, bars=tuple(bars[:SHOWN_LEVELS]), ordered=False, apart=(*bars[SHOWN_LEVELS:], *missing))


def _shares_of_numbers(name: str, raw: Numbers, known: FloatArray, *, spacing: float) -> ColumnView:
    """Return the view of numbers: percentages of rows in bins of equal width.

    ``known``, (present values,), are the numbers that are not missing.  ``spacing`` is the distance of adjacent
    possible values, 0 for real numbers.
    """
    rows = max(raw.rows, 1)
    missing = (Bar("missing", 100 * (rows - len(known)) / rows),) if len(known) < rows else ()
    if not len(known):
        return ColumnView(name=name, bars=missing or (Bar("missing", 100.0),), ordered=False)
    middle = dict(zip(QUANTILES, np.quantile(known, QUANTILES).tolist(), strict=True))
    low, high = zoomed(float(known.min()), float(known.max()), middle)
    axis = axis_between(low, high, spacing=spacing)
    ends = axis.ends
    places = np.floor((known - axis.start) / axis.step + 1e-9)  # a number that rounding moved below an end is above it
    inside = (places >= 0) & (places < axis.count)
    shares = 100 * np.bincount(places[inside].astype(np.int64), minlength=axis.count) / rows
    texts = [in_figures(end, digits=6) for end in ends]
    labels = texts[:-1] if axis.single else [f"{start} to {end}" for start, end in itertools.pairwise(texts)]
    beyond = 100 * float((~inside).sum()) / rows
    outside = (Bar("beyond", beyond),) if beyond else ()
    return ColumnView(
        name=name, ordered=True, ticks=axis.marks(), apart=(*outside, *missing), beyond=beyond,
        bars=tuple(Bar(label, share) for label, share in zip(labels, shares.tolist(), strict=True)),
        summary=f"median {in_figures(middle[0.5])}",
    )  # fmt: skip


SHOWN_LEVELS = 8
"""Levels that a picture shows, at most; the view lists the others.  More would make the picture taller than its
neighbours.  A convention."""

LISTED_LEVELS = 50
"""Levels with their own numbers in a view, at most; the rest is one entry.  More would make the list longer than anyone
reads.  A convention."""

LEAST_TOLD = 0.05
"""Smallest percentage of missing values that a summary mentions.  A smaller percentage would read "< 0.1 %".  A
convention."""
NOTHING = Bar("", 0.0)
"""A bar without rows, for an empty bin.  A convention."""

QUANTILES = (0.005, 0.025, 0.05, 0.1, 0.5, 0.9, 0.95, 0.975, 0.995)
"""Quantiles at which a picture of numbers may end, and the median.  Far values beyond would leave most rows in one
bar.  A convention."""


def column_views(model: SyntheticModel, measurements: tuple[Measurements, ...]) -> list[ColumnView]:
    """Return the view of every column but identifiers: modelled columns first, then derived columns."""
    shown = [name for name, column in model.schema.outputs.items() if not column.names_rows]
    shown.sort(key=lambda name: name in model.schema.derived)
    ask, misfits = answer_engine(model, measurements), misfit_shares(model, measurements)
    computed = [name for name in shown if is_computed(model.schema, name)]
    values = derived_values(model, drawn_indices(model)) if computed else {}
    return [
        _computed(model, name, values[name]) if name in values and name in computed
        else _view(ask, name, model.schema.outputs[name], misfits.get(name))
        for name in shown
    ]  # fmt: skip


def column_view(model: SyntheticModel, measurements: tuple[Measurements, ...], name: str) -> ColumnView:
    """Return the view of one column, which may be derived.

    Raises
    ------
    ParameterError
        If the column is an identifier, or does not exist.
    """
    if is_computed(model.schema, name):
        return _computed(model, name, derived_values(model, drawn_indices(model))[name])
    ask = answer_engine(model, measurements)
    ask.ask(marginal(name))  # refuses what cannot be shown
    column = model.schema.outputs[name]
    return _view(ask, name, column, misfit_shares(model, measurements).get(name))


def _view(ask: AnswerEngine, name: str, column: Column, misfits: MisfitShare | None) -> ColumnView:
    """Return the view of a column from answers with intervals; a derived column must be looked up, not computed.

    A column computed by an expression has no answers; see `_computed`.
    """
    if column.labelled:
        view = _levels(_bars(ask, name, None), name, ordered=column.ordered and column.quantity == "label")
    elif column.temporal or name not in ask.model.schema:
        view = _evenly(ask, name, column)
    else:
        view = _numbers(ask, name, column)
    said = None if misfits is None else (misfits.share * 100, misfits.stddev * 100)
    rule = ask.model.schema.derived.get(name)
    derived = "" if rule is None else f"looked up by {rule.of}"
    return replace(view, kind=column.in_words(), source=column.source, misfits=said, derived=derived)


def _computed(model: SyntheticModel, name: str, raw: RawColumn) -> ColumnView:
    """Return the view of a computed column from synthetic rows, since no noisy answer is about it."""
    column, rule = model.schema.outputs[name], model.schema.derived[name]
    derived = f"looked up by {rule.of}" if rule.expression is None else f"computed as {rule.expression}"
    return replace(
        computed_view(model.schema, name, raw), kind=column.in_words(), source=column.source, derived=derived
    )


def _bars(ask: AnswerEngine, name: str, bins: Any) -> list[tuple[Any, Bar]]:
    """Return (label, bar) for each group of a column from an answer, in per cent; missing values have label ``None``.

    ``bins`` is the number or the ends of the groups of a numeric column; ``None`` for a group per level.
    """
    answers = ask.ask(marginal(name) if bins is None else marginal(name, bins={name: bins}))
    per_row = 100 / max(ask.direct.total[0], 1.0)
    parts = [
        np.clip(np.asarray(p, np.float64) * per_row, 0, 100) for p in (answers.estimate, answers.lower, answers.upper)
    ]
    labels = answers.labels[name]
    texts = ["missing" if label is None else str(label) for label in labels]
    return [
        (label, Bar(text, *numbers))
        for label, text, *numbers in zip(labels, texts, *(part.tolist() for part in parts), strict=True)
    ]


def _levels(found: list[tuple[Any, Bar]], name: str, *, ordered: bool) -> ColumnView:
    """Return the view of levels from their bars; unordered or many levels are sorted by percentage.

    The first `SHOWN_LEVELS` are drawn and more are listed; all beyond `LISTED_LEVELS` are one entry.
    """
    bars = [bar for label, bar in found if label is not None]
    missing = [bar for label, bar in found if label is None]
    number = f"{len(bars)} level{'s' * (len(bars) != 1)}"
    if not ordered or len(bars) > SHOWN_LEVELS:
        bars = sorted(bars, key=lambda bar: -bar.share)
    shown, listed, rest = bars[:SHOWN_LEVELS], bars[SHOWN_LEVELS:LISTED_LEVELS], bars[LISTED_LEVELS:]
    if rest:
        listed.append(Bar(f"{len(rest)} other levels", min(sum(bar.share for bar in rest), 100.0)))
    summary = number if len(bars) <= SHOWN_LEVELS else f"the {SHOWN_LEVELS} most frequent of {number}"
    return ColumnView(
        name=name, bars=tuple(shown), ordered=False, apart=(*listed, *missing), summary=_with_missing(summary, missing)
    )


def _evenly(ask: AnswerEngine, name: str, column: Column) -> ColumnView:
    """Return the view of times, or of numbers that a rule looks up, in bins of equal width over the whole range.

    `_numbers` suits neither: its round ends are decimal, and it asks about the model's bins, which looked-up numbers do
    not have.
    """
    grid, (lower, upper) = grid_of(column), bounds_of(column)
    bins = min(max(round(2 * ask.model.rows ** (1 / 3)), COARSEST), FINEST, grid.regular)  # Rice's rule: 2 n^(1/3) bins
    found = _bars(ask, name, bins)
    regular = len(found) - (grid.releasable - grid.regular)  # special and missing values come last
    if column.temporal:
        marks = marks_between(int(lower), int(upper), column.quantity)
    else:
        marks = [(0.0, in_figures(lower, digits=6)), (1.0, in_figures(upper, digits=6))]
    summary = _median(ask.ask(quantile(name, 0.5)), column) if name in ask.model.schema else ""
    return ColumnView(
        name=name, ordered=True,
        bars=tuple(bar for _, bar in found[:regular]), apart=tuple(bar for _, bar in found[regular:]),
        ticks=tuple((place * regular, text) for place, text in marks),
        summary=_with_missing(summary, [bar for label, bar in found if label is None]),
    )  # fmt: skip


def _numbers(ask: AnswerEngine, name: str, column: Column) -> ColumnView:
    """Return the view of numbers: bins with round ends where most values lie, and the percentages beyond."""
    lower, upper = (float(bound) for bound in bounds_of(column))
    quantiles = ask.ask(quantile(name, QUANTILES))
    found = np.asarray(quantiles.estimate, np.float64).tolist()
    low, high = zoomed(lower, upper, dict(zip(QUANTILES, found, strict=True)))
    support = column.support()
    spacing = support.size / (support.denominator or 1) if isinstance(support, Steps) else 0.0
    axis = axis_between(low, high, spacing=spacing, most=round(2 * ask.model.rows ** (1 / 3)))  # Rice's rule
    inner = {end for end in axis.ends if lower < end < upper + spacing}  # rounded ends of very narrow bins may be equal
    ends = sorted({lower, *inner, max(upper + spacing, math.nextafter(lower, math.inf))})
    values = grid_values(column)[0][: grid_of(column).regular]
    below = np.append(np.searchsorted(values, ends[:-1]), np.searchsorted(values, ends[-1], side="right"))
    filled = np.flatnonzero(np.diff(below)).tolist()  # bins between two values are not answered
    answered = _bars(ask, name, tuple(ends))
    names = [f"{in_figures(ends[k], digits=6)} to {in_figures(ends[k + 1], digits=6)}" for k in filled]
    if not spacing:
        answered[: len(filled)] = [
            (label, replace(bar, label=name)) for name, (label, bar) in zip(names, answered, strict=False)
        ]
    bars, tails = [NOTHING] * axis.count, {"below": NOTHING, "above": NOTHING}
    for k, (_, bar) in zip(filled, answered, strict=False):
        place = axis.place((ends[k] + ends[k + 1]) / 2)
        if 0 <= place < axis.count:
            bars[place] = bar
        else:
            tails["below" if place < 0 else "above"] = bar
    others = [bar for _, bar in answered[len(filled) :]]
    beyond = [replace(bar, label=f"beyond: {bar.label}") for bar in tails.values() if bar is not NOTHING]
    summary = _with_missing(_median(quantiles, column), [bar for label, bar in answered if label is None])
    return ColumnView(
        name=name, bars=tuple(bars), ticks=axis.marks(), ordered=True, apart=(*beyond, *others), summary=summary,
        beyond=sum(bar.share for bar in beyond),
    )  # fmt: skip


def _median(answers: Answers, column: Column) -> str:
    """Return the median and its interval as text from an answer with quantiles; "" without any value.

    Digits below the error are left out.  The interval is left out if it is unknown, or if its rounded ends are equal.
    """
    if any(estimate != estimate for estimate in answers.estimate):  # NaN, or no time
        return ""
    at = answers.labels["q"].index(0.5)
    ends = [part[at] for part in (answers.estimate, answers.lower, answers.upper)]
    if column.temporal:
        shown = _times(column, ends)
    else:
        numbers = [float(end) for end in ends]
        least = 10.0 * column.whole  # an error of 10 leaves no decimals, as whole numbers have none
        shown = [precise_to(number, max(least, (numbers[2] - numbers[1]) / 2)) for number in numbers]
    known = answers.stddev[at] == answers.stddev[at] and len(set(shown)) > 1  # not NaN
    return f"median {shown[0]}" + (f" ({shown[1]} to {shown[2]})" if known else "")


def _times(column: Column, ends: Sequence[Any]) -> list[str]:
    """Return texts of an estimated time and of its interval's two ends; days alone for an interval above a day."""
    if column.quantity == "clock":
        return [str(end)[:8] for end in ends]
    if column.quantity == "length":
        return [str(end.astype("timedelta64[s]")) for end in ends]
    known = not any(np.isnat(end) for end in ends)
    wide = known and (ends[2] - ends[1]) > np.timedelta64(1, "D")
    texts = [str(end.astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00") for end in ends]
    return [text[:10] for text in texts] if wide else texts


def _with_missing(summary: str, missing: list[Bar]) -> str:
    """Return a summary with the percentage of missing values, if it is not tiny."""
    shares = [f"{in_per_cent(bar.share)} missing" for bar in missing if bar.share >= LEAST_TOLD]
    return " · ".join([summary, *shares] if summary else shares)
