"""An attacker for every mechanism, end to end: each turns one release into one number, high if the row is there.

The attackers know the mechanism, its settings, and all rows but one.  Where a release publishes noisy answers, they sum
what the row changes in each answer over the answer's variance (`matched_score`); else they ask the release, or the open
session, the queries that the row changes.  Of the planner, attackers hear every answer, scores of candidates too, which no
release publishes: so they see all that its guarantee is for.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from mechanism_cases import BITS, CASES, KEYS, WORKLOAD, Case, World
from planner_worlds import PLANNED, RELATIONS as ALL_RELATIONS, Heard, PlannedWorld, as_release, heard

from synthdp import ApproxDP, Curator, Integer, Schema, SyntheticRelease, load
from synthdp.audit import exact_answers, indices_of, matched_score
from synthdp.domain.domain import domain_of
from synthdp.measurements import Measurements
from synthdp.queries.linear import Subset
from synthdp.queries.products import ClippedProducts
from synthdp.queries.supports import KeyList, key_of

Row = Mapping[str, Any]
RELATIONS = ("add_remove", "replace_one")
FREQUENT = {"city": "a", "job": "s"}
"""The row for mechanisms that release frequent records only: no count of a rare one ever leaves them."""

SORTED = World(KEYS.schema, KEYS.table.sort_values(["city", "job"], ignore_index=True), {"another row": FREQUENT})
SAME = World(KEYS.schema, pd.DataFrame([FREQUENT] * 299 + [{"city": "d", "job": "t"}]), {"another row": FREQUENT})
PLAIN = World(
    BITS.schema, pd.DataFrame(False, range(40), [*BITS.schema]), {"another row": dict.fromkeys(BITS.schema, True)}
)
"""Tables in which almost all rows are equal: guesses about them are wrong, so that a session answers with noise."""

NUMBERS = World(
    Schema({name: Integer(0, 9) for name in "xy"}),
    pd.DataFrame({"x": np.arange(40) % 10, "y": 9 - np.arange(40) % 10}),
    {"another row": {"x": 9, "y": 9}},
)
"""Numbers of which one is large where the other is small, and a row in which both are."""


@dataclass(frozen=True)
class Known:
    """What an attacker knows: both tables, so all rows but one, which may be there, or be another."""

    without: pd.DataFrame
    with_: pd.DataFrame

    @property
    def new(self) -> Row:
        """The row that may be there."""
        return self.with_.iloc[-1].to_dict()

    @property
    def old(self) -> Row | None:
        """The row that it would replace, if any."""
        return None if len(self.with_) > len(self.without) else self.without.iloc[-1].to_dict()


@dataclass(frozen=True)
class Attacker:
    """One attack: its world, the row, and the number that it makes of one release of a table."""

    world: World
    look: Callable[[pd.DataFrame, str, ApproxDP, Known], float]
    gaussian: bool = False
    relations: tuple[str, ...] = RELATIONS

    def tables(self, relation: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The table without the row, and the one with it (more, or instead of the last)."""
        return self.world.neighbours("another row", relation)

    def score(self, relation: str, claimed: ApproxDP) -> Callable[[pd.DataFrame], float]:
        known = Known(*self.tables(relation))

        def score(table: pd.DataFrame) -> float:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.look(table, relation, claimed, known)

        return score


def _curator(case: Case, table: pd.DataFrame, relation: str, claimed: ApproxDP) -> Curator:
    return Curator(table, schema=case.world.schema, budget=claimed, neighbors=relation)


def _change(known: Known) -> np.ndarray:
    """What the row changes in each answer of the workload."""
    without, with_ = (exact_answers(WORKLOAD, indices_of(BITS.schema, table)) for table in (known.without, known.with_))
    return np.asarray(with_ - without)


def _measured(case: Case, *, gaussian: bool = False) -> Attacker:
    def look(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
        release = case.run(case.build(), _curator(case, table, relation, claimed))
        return matched_score(release, case.world.schema, without=known.without, with_=known.with_)

    return Attacker(case.world, look, gaussian=gaussian)


def _answered(case: Case) -> Attacker:
    def look(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
        release = case.run(case.build(), _curator(case, table, relation, claimed))
        return float(_change(known) @ release.output.answer(WORKLOAD))

    return Attacker(PLAIN, look)


def _asked(case: Case) -> Attacker:
    """A session is asked the queries that the row changes most first, while it has alarms left."""

    def look(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
        session, change = case.build().open(_curator(case, table, relation, claimed)), _change(known)
        asked = [i for i in np.argsort(-np.abs(change), kind="stable") if change[i] != 0]
        return sum(change[i] * session.ask(Subset(WORKLOAD, np.array([i])))[0].value for i in asked)

    return Attacker(PLAIN, look)


def _listed(row: Row) -> KeyList:
    return KeyList.of(("city", "job"), [key_of((row["city"], row["job"]))])


def _keyed(case: Case, *, session: bool = False) -> Attacker:
    def look(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
        curator = _curator(case, table, relation, claimed)
        ask = case.build().open(curator).ask if session else case.run(case.build(), curator).output.answer
        count = float(ask(_listed(known.new)).count)
        return count if known.old is None else count - float(ask(_listed(known.old)).count)

    return Attacker(SAME if session else SORTED, look)


def _multiplied(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
    """Products of the columns' scores, of which the rows' are clipped: one moves the answer by all that a row may."""
    domain = domain_of(NUMBERS.schema, bins=10)
    scores = tuple(8 * np.arange(size) - 36 for size in domain.shape)
    queries = ClippedProducts(domain, scores, resolution=8, norm=400)
    curator = Curator(table, schema=NUMBERS.schema, budget=claimed, neighbors=relation)
    release = SimpleNamespace(measurements=(curator.measure(queries),))
    return matched_score(release, NUMBERS.schema, without=known.without, with_=known.with_)


def _saved(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
    """The estimator, its folder, and what is read from it."""
    model = SyntheticRelease(
        schema=BITS.schema, epsilon=claimed.epsilon, delta=claimed.delta, neighbors=relation, random_state=0
    ).fit(table)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "r")
        return matched_score(load(Path(folder) / "r"), BITS.schema, without=known.without, with_=known.with_)


def _sampled(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
    """The synthetic table alone: how many rows are like the row."""
    model = SyntheticRelease(
        schema=BITS.schema, epsilon=claimed.epsilon, delta=claimed.delta, neighbors=relation, random_state=0
    ).fit(table)
    made = model.sample(1000)
    like = sum((made[name] == known.new[name]).to_numpy(np.float64) for name in made)
    return float(np.mean(like) * model.release_.output.total)


def _heard(world: PlannedWorld) -> Attacker:
    """A release through the front door, of which every answer of the curator is heard."""

    def look(table: pd.DataFrame, relation: str, claimed: ApproxDP, known: Known) -> float:
        questions, _ = heard(lambda: world.release(table, relation, claimed))
        return matched_score(as_release(questions), world.schema, without=known.without, with_=known.with_)

    return Attacker(world, look, gaussian=True, relations=ALL_RELATIONS)


def exact_mu(questions: Sequence[Heard], schema: Schema, without: pd.DataFrame, with_: pd.DataFrame) -> float:
    """How far the exact answers of two tables are apart, in standard deviations of the noise: mu of Gaussian DP."""
    few, many = (indices_of(schema, table) for table in (without, with_))
    return math.sqrt(sum(_squares(one.measured, few, many) for one in questions))


def _squares(one: Measurements, few: Mapping[str, Any], many: Mapping[str, Any]) -> float:
    change = exact_answers(one.queries, many) - exact_answers(one.queries, few)
    return float(change @ change) / one.stddev**2


GAUSSIAN = ("GaussianAnswers", "FourierMarginals", "AdaptiveMarginals", "L1Fit", "L1Fit trigonometric", "SmoothSummary")
ANSWERED = ("NetMechanism",)
ASKED = ("PrivateMultiplicativeWeights", "MedianMechanism", "InteractiveMechanism")
KEYED = ("StabilityHistogram", "SparseProjection", "SparseProjection signs", "SparseMWEM")
SESSIONS = ("SparseWeights", "SparseWeights paper")

ATTACKERS: dict[str, Attacker] = {
    **{name: _measured(case, gaussian=name in GAUSSIAN) for name, case in CASES.items()},
    **{name: _answered(CASES[name]) for name in ANSWERED},
    **{name: _asked(CASES[name]) for name in ASKED},
    **{name: _keyed(CASES[name]) for name in KEYED},
    **{name: _keyed(CASES[name], session=True) for name in SESSIONS},
    **{f"AdaptiveMarginals, {name}": _heard(world) for name, world in PLANNED.items()},
    "second moments": Attacker(NUMBERS, _multiplied, gaussian=True),
    "SyntheticRelease, its folder": Attacker(BITS, _saved, gaussian=True),
    "SyntheticRelease, its sample": Attacker(BITS, _sampled),
}
