"""Small tables on which the planner makes each of the measurements it may choose, whatever the noise of one release.

Of every release the questions themselves are heard, not only the answers that are published with it: its guarantee is
for all noisy answers, those of screenings among them, and no question may depend on a row but by way of such answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from mechanism_cases import World

from synthdp import (
    AdaptiveMarginals,
    ApproxDP,
    Boolean,
    Categorical,
    Continuous,
    Curator,
    Integer,
    Schema,
    SyntheticRelease,
)
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.raking import Particles
from synthdp.measurements import Measurements

CLAIMED = ApproxDP(4.0, 1e-6)
UNIT, ROWS_OF_UNIT = "who", 3
RELATIONS = ("add_remove", "replace_one", "unit")
"""One row more; one instead of the last; all rows of one more unit."""

LEVELS = list("abcdefghijklmnopqrst")

CHOSEN = {"listed": ListedEntropy(max_cells=1), "fit": MaxEntropy(max_sweeps=2)}
"""Tables are chosen though there are few cells; a quick fit, as what is looked at are the questions and their answers."""


def _fast(particles: int) -> dict[str, Any]:
    return {**CHOSEN, "particles": Particles(size=particles, sweeps=1)}


def _bits(rows: int, columns: int) -> pd.DataFrame:
    """Columns that all follow one bit."""
    rng = np.random.default_rng(7)
    same = rng.random(rows) < 0.5
    return pd.DataFrame({f"b{j}": same ^ (rng.random(rows) < 0.2) for j in range(columns)})


def _parity(rows: int) -> pd.DataFrame:
    """The class says whether two numbers are on the same side, of which no pair of columns tells."""
    a, b = np.random.default_rng(5).integers(0, 20, (2, rows))
    return pd.DataFrame({"a": a, "b": b, "class": np.where((a >= 10) == (b >= 10), "p", "q")})


def _levels(rows: int) -> pd.DataFrame:
    """Two columns of many levels; one is frequent, and the others are as frequent as each other in the first column.

    So one row more makes a level the largest of them.
    """
    number = np.arange(rows)
    x = np.where(number % 8 == 0, 0, 1 + number % (len(LEVELS) - 1))
    rng = np.random.default_rng(7)
    y = np.where(rng.random(rows) < 0.2, x, rng.permutation(x))
    return pd.DataFrame({"x": np.array(LEVELS)[x], "y": np.array(LEVELS)[y]})


def _numbers(rows: int) -> pd.DataFrame:
    """Two numbers that are nearly one, and one that follows them."""
    rng = np.random.default_rng(7)
    same, *others = rng.normal(size=(4, rows))
    scatter = {"x": 0.2, "y": 0.2, "z": 1.0}
    return pd.DataFrame({
        name: np.clip(same + size * other, -4, 4) for (name, size), other in zip(scatter.items(), others, strict=True)
    })  # fmt: skip


def _years(rows: int) -> pd.DataFrame:
    """Years, most of them whole."""
    rng = np.random.default_rng(7)
    whole = rng.integers(0, 60, rows)
    return pd.DataFrame({"years": np.where(rng.random(rows) < 0.1, whole + 0.37, whole), "works": whole < 30})


def _with_rows(table: pd.DataFrame, rows: list[dict[str, object]]) -> pd.DataFrame:
    return pd.concat([table, pd.DataFrame(rows)], ignore_index=True)


@dataclass(frozen=True)
class PlannedWorld(World):
    """A table, a row, and a mechanism that makes certain measurements of the table with and without the row.

    Parameters
    ----------
    larger
        The same table of three times the rows, for units of three.
    mechanism
        Which plans.
    steps
        How lines of every receipt begin.
    """

    larger: pd.DataFrame
    mechanism: AdaptiveMarginals
    steps: tuple[str, ...]

    def neighbours(self, case: str, relation: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Without the row and with it; of units, with as many rows of one more as are used."""
        if relation == "unit":
            table = self.larger.assign(**{UNIT: np.arange(len(self.larger)) // ROWS_OF_UNIT})
            return table, _with_rows(table, [{**self.strange[case], UNIT: -1}] * ROWS_OF_UNIT)
        kept = self.table if relation == "add_remove" else self.table[:-1]
        return self.table, _with_rows(kept, [self.strange[case]])

    def release(self, table: pd.DataFrame, relation: str, claimed: ApproxDP = CLAIMED) -> SyntheticRelease:
        """A release through the front door."""
        unit = {"privacy_unit": UNIT, "max_rows_per_unit": ROWS_OF_UNIT} if relation == "unit" else {}
        release = SyntheticRelease(
            schema=self.schema, epsilon=claimed.epsilon, delta=claimed.delta, mechanism=self.mechanism, random_state=0,
            neighbors="add_remove" if relation == "unit" else relation, **unit,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return release.fit(table)


def _world(
    make: Callable[..., pd.DataFrame], rows: int, *columns: int, schema: Schema, row: dict[str, object],
    old: dict[str, object], mechanism: AdaptiveMarginals, steps: Sequence[str],
) -> PlannedWorld:  # fmt: skip
    """The row comes instead of ``old``, which is the last."""
    return PlannedWorld(
        schema=schema, table=_with_rows(make(rows - 1, *columns), [old]),
        larger=make(ROWS_OF_UNIT * rows, *columns), strange={"another row": row}, mechanism=mechanism,
        steps=("one-way marginals", *steps),
    )  # fmt: skip


def _of_bits(rows: int, columns: int, mechanism: AdaptiveMarginals, *steps: str) -> PlannedWorld:
    """The row follows no bit, and the one that it replaces does."""
    names = [f"b{j}" for j in range(columns)]
    row: dict[str, object] = {name: j == 0 for j, name in enumerate(names)}
    schema = Schema({name: Boolean() for name in names})
    old: dict[str, object] = dict.fromkeys(names, True)
    return _world(_bits, rows, columns, schema=schema, row=row, old=old, mechanism=mechanism, steps=steps)


PLANNED: dict[str, PlannedWorld] = {
    "all interactions": _of_bits(100, 3, AdaptiveMarginals(), "interactions of up to 3 columns"),
    "interactions of pairs": _of_bits(
        3000, 3, AdaptiveMarginals(**_fast(10_000)), "screening of pairs", "interactions of several columns: ",
    ),
    "a second round": _of_bits(
        3000, 3, AdaptiveMarginals(second_stage=0.5, **_fast(10_000)), "interactions of several columns: ",
        "screening against the model",
    ),
    "merged groups and triples": _world(
        _parity, 1000, schema=Schema({"a": Integer(0, 19), "b": Integer(0, 19), "class": Categorical(["p", "q"])}),
        row={"a": 0, "b": 19, "class": "p"}, old={"a": 19, "b": 0, "class": "q"},
        mechanism=AdaptiveMarginals(target="class", **_fast(4000)),
        steps=("screening of triples", "interactions of several columns, merged bins: a × b × class"),
    ),
    "merged levels": _world(
        _levels, 608, schema=Schema({name: Categorical(LEVELS) for name in "xy"}), row={"x": "t", "y": "h"},
        old={"x": "a", "y": "a"}, mechanism=AdaptiveMarginals(**_fast(4000)),
        steps=("interactions of several columns, merged bins: x × y",),
    ),
    "products": _world(
        _numbers, 600, schema=Schema({name: Continuous(-4, 4) for name in "xyz"}),
        row={"x": 4.0, "y": -4.0, "z": 4.0}, old={"x": -4.0, "y": -4.0, "z": -4.0},
        mechanism=AdaptiveMarginals(**_fast(4000)),
        steps=(
            "pairwise products of rank scores", "pairwise products of rank scores, strongest",
            "interactions of several columns, merged",
        ),
    ),
    "round numbers": _world(
        _years, 1500, schema=Schema({"years": Continuous(0, 60), "works": Boolean()}), row={"years": 7.77, "works": False},
        old={"years": 50.0, "works": True}, mechanism=AdaptiveMarginals(**_fast(4000)),
        steps=("digit preference (rounding classes)",),
    ),
    "a wide table": _of_bits(
        300, 4, AdaptiveMarginals(wide=2, **_fast(4000)), "screening of pairs", "marginals of two columns"
    ),
}  # fmt: skip
"""Worlds by what is measured there."""


@dataclass(frozen=True)
class Heard:
    """One question: what the receipt calls it, and what was asked and answered."""

    step: str
    measured: Measurements


def heard(run: Callable[[], Any]) -> tuple[list[Heard], Any]:
    """Run, and return every question of a curator with its noisy answer, in order, and what came out."""
    questions: list[Heard] = []
    measure_each = Curator.measure_each

    def each(self: Curator, queries: Any, *, steps: Sequence[str], **settings: Any) -> list[Measurements]:
        found = measure_each(self, queries, steps=steps, **settings)
        questions.extend(map(Heard, steps, found))
        return found

    with mock.patch.object(Curator, "measure_each", each):
        out = run()
    return questions, out


def as_release(questions: Sequence[Heard]) -> SimpleNamespace:
    """All answers, as if they had been published."""
    return SimpleNamespace(measurements=tuple(one.measured for one in questions))
