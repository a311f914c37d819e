"""The view of a column that is computed from others: how often synthetic rows have its values, since no answer counts it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from synthdp.arrays import FloatArray, GridIndices
from synthdp.domain.derive import derive
from synthdp.domain.encoder import Labels, Numbers, RawColumn, decode
from synthdp.figures import in_figures
from synthdp.pictures.axes import axis_between, zoomed
from synthdp.pictures.view import Bar, ColumnView
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Steps
from synthdp.schema.schema import Schema

QUANTILES = (0.005, 0.025, 0.05, 0.1, 0.5, 0.9, 0.95, 0.975, 0.995)
SHOWN_LEVELS = 8


def is_computed(schema: Schema, name: str) -> bool:
    """Say whether a column is computed by an expression, or looked up by one that is: then no answer counts its values."""
    rule = schema.derived.get(name)
    return rule is not None and (rule.expression is not None or is_computed(schema, str(rule.of)))


def derived_values(model: SyntheticModel, indices: Mapping[str, GridIndices]) -> dict[str, RawColumn]:
    """Return the derived columns of synthetic rows, given as grid points of the modelled ones."""
    rng = generator(0)
    raw = {name: decode(column, indices[name], rng=rng) for name, column in model.schema.items()}
    for rule in model.schema.derived.values():
        raw[rule.column] = derive(model.schema, rule, raw)
    return {name: raw[name] for name in model.schema.derived}


def computed_view(schema: Schema, name: str, raw: RawColumn) -> ColumnView:
    """Return the view of a computed column, from its values in synthetic rows."""
    if isinstance(raw, Labels):
        return _levels(name, raw)
    missing = np.zeros(len(raw.values), np.bool_) if raw.missing is None else raw.missing
    support = schema.outputs[name].support()
    spacing = support.size / (support.denominator or 1) if isinstance(support, Steps) else 0.0
    return _numbers(name, raw, raw.values[~missing].astype(np.float64), spacing=spacing)


def _levels(name: str, raw: Labels) -> ColumnView:
    shares = 100 * np.bincount(raw.codes + 1, minlength=len(raw.levels) + 1) / max(len(raw.codes), 1)
    named = zip(map(str, raw.levels), shares[1:].tolist(), strict=True)
    bars = sorted((Bar(level, share) for level, share in named), key=lambda bar: -bar.share)
    missing = (Bar("missing", float(shares[0])),) if shares[0] else ()
    return ColumnView(name=name, bars=tuple(bars[:SHOWN_LEVELS]), ordered=False, apart=(*bars[SHOWN_LEVELS:], *missing))


def _numbers(name: str, raw: Numbers, known: FloatArray, *, spacing: float) -> ColumnView:
    rows = max(len(raw.values), 1)
    missing = (Bar("missing", 100 * (rows - len(known)) / rows),) if len(known) < rows else ()
    if not len(known):
        return ColumnView(name=name, bars=missing or (Bar("missing", 100.0),), ordered=False)
    middle = dict(zip(QUANTILES, np.quantile(known, QUANTILES).tolist(), strict=True))
    low, high = zoomed(float(known.min()), float(known.max()), middle)
    axis = axis_between(low, high, spacing=spacing)
    ends = axis.ends
    places = np.floor((known - axis.start) / axis.step + 1e-9)
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
