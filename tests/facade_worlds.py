"""Kinds of tables and ways to release them, for the façade matrix: small, and each with something of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import synthdp as sd
from synthdp.errors import SynthDPError

ROWS = 40


@dataclass(frozen=True)
class World:
    """A table, and what is declared of it (``None`` for nothing)."""

    table: Any
    schema: sd.Schema | None


def _numbers(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({"x": rng.random(rows), "k": rng.integers(0, 9, rows)})


def _labels(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame({"c": rng.choice(list("abc"), rows), "d": pd.Categorical(rng.choice(list("uv"), rows))})


def _mixed(rows: int = ROWS) -> pd.DataFrame:
    flags = pd.DataFrame({"b": np.random.default_rng(3).random(rows) < 0.5})
    return pd.concat([_numbers(rows), _labels(rows), flags], axis=1)


def _times(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    days, seconds = (pd.to_timedelta(rng.integers(0, 100, rows), unit) for unit in ("D", "s"))
    return pd.DataFrame({"t": pd.Timestamp("2024-01-01") + days, "l": seconds, "b": rng.random(rows) < 0.5})


def _levels_of_numbers() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "whole": pd.Categorical(rng.choice([1, 2, 3], 300)),
            "real": pd.Categorical(rng.choice([1.5, 2.0, 3.0], 300)),
            "flag": pd.Categorical(rng.random(300) < 0.5),
        }
    )


X, K = sd.Continuous(0, 1), sd.Integer(0, 9)
C, D = sd.Categorical(list("abc")), sd.Ordinal(["u", "v"])
MIXED = {"x": X, "k": K, "c": C, "d": D, "b": sd.Boolean()}

WORLDS: dict[str, World] = {
    "numbers": World(_numbers(), sd.Schema({"x": sd.Continuous(0, 1, nullable=True, special=(-1,)), "k": K})),
    "labels": World(_labels(), sd.Schema({"c": C, "d": sd.Categorical(["u", "v"], other="else")})),
    "mixed": World(_mixed(), sd.Schema(MIXED)),
    "Booleans": World(_mixed()[["b"]].assign(e=True), sd.Schema({"b": sd.Boolean(), "e": sd.Boolean(nullable=True)})),
    "dates and durations": World(
        _times(),
        sd.Schema(
            {
                "t": sd.Datetime("2024-01-01", "2024-12-31", resolution="D"),
                "l": sd.Duration(0, 100, nullable=True),
                "b": sd.Boolean(),
            }
        ),
    ),
    "an identifier": World(
        _mixed()[["k", "b"]].assign(id=[f"p{i}" for i in range(ROWS)]),
        sd.Schema({"id": sd.Identifier("p"), "b": sd.Boolean(), "k": K}),
    ),
    "an identifier alone": World(pd.DataFrame({"id": range(ROWS)}), sd.Schema({"id": sd.Identifier()})),
    "nothing declared": World(pd.concat([_mixed(300), _times(300)[["t", "l"]]], axis=1), None),
    "levels of numbers, not declared": World(_levels_of_numbers(), None),
    "levels left open": World(
        _mixed(300)[["k", "b"]], sd.Schema({"k": sd.Categorical(), "b": sd.Boolean(nullable=True)})
    ),
    "a label that no whole number is": World(_mixed()[["k"]], sd.Schema({"k": sd.Categorical(other="else")})),
    "categories of dates, not declared": World(pd.DataFrame({"t": pd.Categorical(_times()["t"])}), None),
    "free text, not declared": World(pd.DataFrame({"s": [f"text {i}" for i in range(ROWS)]}), None),
    "polars, not declared": World(pl.DataFrame({"k": [1, 2] * 100, "s": ["a", "b"] * 100}), None),
    "arrow, levels of numbers, not declared": World(
        pa.table({"k": pa.array([1, 2] * 100).dictionary_encode(), "x": pa.array([0.5, None] * 100)}), None
    ),
    "rules": World(
        pd.DataFrame({"a": np.arange(ROWS) % 5, "z": 5 + np.arange(ROWS) % 4, "b": [True, False] * (ROWS // 2)}),
        sd.Schema(
            {"a": K, "z": K, "b": sd.Boolean()},
            constraints=[sd.LessEqual("a", "z"), sd.Implies({"b": True}, {"a": (0, 3)})],
        ),
    ),
    "rules that all rows break": World(
        pd.DataFrame({"a": [900.0] * ROWS, "z": [10.0] * ROWS}),
        sd.Schema({name: sd.Continuous(0, 1000) for name in "az"}, constraints=[sd.LessEqual("a", "z")]),
    ),
    "rules that contradict each other": World(
        pd.DataFrame({"a": [5, 6] * 20, "b": [True, False] * 20}),
        sd.Schema(
            {"a": sd.Integer(5, 9), "b": sd.Boolean()},
            constraints=[sd.Implies({"b": [True, False]}, {"a": n}) for n in (5, 6)],
        ),
    ),
    "one row": World(_mixed(1), sd.Schema(MIXED)),
    "one row of numbers": World(_numbers(1), sd.Schema({"x": X, "k": K})),
    "all missing": World(
        pd.DataFrame({"x": [np.nan] * ROWS, "c": [None] * ROWS}),
        sd.Schema({"x": sd.Continuous(0, 1, nullable=True), "c": sd.Categorical(["a"], nullable=True)}),
    ),
    "nothing as declared": World(
        pd.DataFrame({"x": ["?"] * ROWS, "c": ["?"] * ROWS}), sd.Schema({"x": X, "c": sd.Categorical(["a", "b"])})
    ),
    "one column": World(_numbers()[["x"]], sd.Schema({"x": X})),
    "one level": World(pd.DataFrame({"c": ["a"] * ROWS}), sd.Schema({"c": sd.Categorical(["a"])})),
    "one value each": World(
        pd.DataFrame({"k": [0] * ROWS, "x": [0.0] * ROWS}),
        sd.Schema({"k": sd.Integer(0, 1), "x": sd.Continuous(0, 1e-300)}),
    ),
}

Make = Callable[[World], dict[str, Any]]


def _named(name: str, **options: Any) -> Make:
    return lambda world: {"mechanism": name, "mechanism_options": options or None}


def _object(make: Callable[[], Any]) -> Make:
    return lambda world: {"mechanism": make()}


MECHANISMS: dict[str, Make] = {
    "auto": _named("auto"),
    "adaptive_marginals": _named("adaptive_marginals", second_stage=0.3),
    "smooth_synthesis": _named("smooth_synthesis"),
    "smooth_synthesis, practical": _named("smooth_synthesis", variant="practical", candidates=100, functions=8, grid=8),
    "smooth_synthesis, exact": _named("smooth_synthesis", variant="exact"),
    "l1_fit": _named("l1_fit", support=100),
    "l1_fit, trigonometric": _named("l1_fit", basis="trigonometric", support=100, degree=2),
    "l1_fit, mixed": _named("l1_fit", basis="mixed", support=100, degree=2),
    "mwem": _named("mwem", rounds=2, replay=20),
    "fourier_marginals": _named("fourier_marginals"),
    "Automatic": _object(sd.Automatic),
    "AdaptiveMarginals": _object(sd.AdaptiveMarginals),
    "SmoothSynthesis": _object(lambda: sd.SmoothSynthesis(candidates=100)),
    "L1Fit": _object(lambda: sd.L1Fit(support=100)),
    "MWEM": _object(lambda: sd.MWEM(rounds=2, replay=0, average=True)),
    "FourierMarginals": _object(sd.FourierMarginals),
    "NetMechanism": _object(lambda: sd.NetMechanism(None, size=2)),
}

WITH_PUBLIC: dict[str, dict[str, Any]] = {
    "places": {"places": "city"},
    "a public table": {"public": pd.DataFrame({"age": [20, 30, 40] * 9, "city": ["a", "b", "a"] * 9})},
    "public totals": {"public_totals": {("city",): {"a": 30, "b": 30}}},
}
"""Settings of what is public, and of places; each with every column declared."""

TABLELESS: dict[str, Callable[[], Any]] = {
    "LaplaceAnswers": lambda: sd.LaplaceAnswers(None),
    "GaussianAnswers": lambda: sd.GaussianAnswers(None),
    "MonomialRelease": lambda: sd.MonomialRelease(1),
    "DecisionListRelease": lambda: sd.DecisionListRelease(2),
    "SmoothSummary": sd.SmoothSummary,
    "StabilityHistogram": sd.StabilityHistogram,
    "SparseProjection": sd.SparseProjection,
    "SparseWeights": sd.SparseWeights,
    "SparseMWEM": lambda: sd.SparseMWEM([sd.KeyList.of(("b",), ["x"])]),
}

SOLVERS = ("auto", "lp", "mw", "maxent")

PROMISES: dict[str, dict[str, Any]] = {
    "add_remove": {"epsilon": 1.0, "delta": 1e-6},
    "replace_one, pure": {"epsilon": 2.0, "delta": 0.0, "neighbors": "replace_one"},
    "unit of two rows": {"epsilon": 4.0, "delta": 1e-6, "privacy_unit": "who", "max_rows_per_unit": 2},
    "unit of one row, replace_one": {
        "epsilon": 3.0, "delta": 1e-6, "neighbors": "replace_one", "privacy_unit": "who",
    },
    "tiny epsilon": {"epsilon": 1e-4, "delta": 1e-9, "neighbors": "replace_one"},
    "large epsilon": {"epsilon": 20.0, "delta": 0.0},
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a user sees of one attempt: the fitted release and rows of it, or a refusal; and what was spent."""

    refusal: SynthDPError | None
    spends: int
    release: Any = None
    sample: Any = None
    columns: tuple[str, ...] = field(default=())

    @property
    def table_came_out(self) -> bool:
        """Whether rows came out, of columns that went in."""
        names = tuple(self.sample.columns) if hasattr(self.sample, "columns") else ()
        if isinstance(self.sample, pa.Table):
            names = tuple(self.sample.column_names)
        return bool(names) and set(names) <= set(self.columns) and len(self.sample) == 7


def attempt(world: World, settings: Mapping[str, Any], ledger: Path) -> Outcome:
    """Release a world and use what comes out; only the library's own refusals are caught."""
    table = _with_units(world.table) if "privacy_unit" in settings else world.table
    columns = tuple(world.schema.names if world.schema is not None else _names(table))
    made = sd.SyntheticRelease(schema=world.schema, ledger=ledger, dataset="d", **settings)
    try:
        made.fit(table)
        rows = made.sample(7)
    except SynthDPError as refusal:
        return Outcome(refusal, _spends(ledger))
    return Outcome(None, _spends(ledger), made, rows, columns)


def _spends(ledger: Path) -> int:
    return len(sd.Ledger(ledger).entries("d")) if ledger.exists() else 0


def _names(table: Any) -> list[str]:
    return list(table.column_names if isinstance(table, pa.Table) else table.columns)


def _with_units(table: Any) -> Any:
    if isinstance(table, pd.DataFrame):
        return table.assign(who=np.arange(len(table)) // 2)
    units = np.arange(len(table)) // 2
    if isinstance(table, pl.DataFrame):
        return table.with_columns(pl.Series("who", units))
    return table.append_column("who", pa.array(units))
