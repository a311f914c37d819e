"""Attackers of a whole database release: all tables, all stages, a person with all its rows in or out.

They know the mechanism and all persons but one.  Each turns a release into one number, high if the person is there: the
noisy answers, weighed by what the person changes in each of them, or the synthetic tables alone.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.curator.private_database import private_database
from synthdp.domain.histories import Layout
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.privacy.neighbors import Adjacency
from synthdp.release import Release

PERSONS, AT_MOST, ROWS = 10, 20, 60
"""Persons who are all alike; rows that a person may have; rows that the strange one has."""

Tables = Mapping[str, pd.DataFrame]

SCHEMA = sd.DatabaseSchema(
    tables={
        "persons": sd.Schema({"p": sd.Boolean()}),
        "rows": sd.Schema({"t": sd.Integer(0, 3), **{f"v{j}": sd.Boolean() for j in range(3)}}),
        "leaves": sd.Schema({"w": sd.Boolean()}),
    },
    relations=[
        sd.Relation("persons", "rows", key="id", at_most=AT_MOST, order="t"),
        sd.Relation("rows", "leaves", key="row", at_most=2),
    ],
)


def person(number: int, *, strange: bool) -> dict[str, pd.DataFrame]:
    """All rows of one person: one of each kind, or as many as there may be and three times more, all of other values."""
    many = ROWS if strange else 1
    rows = pd.DataFrame({"id": number, "row": range(number * 1000, number * 1000 + many), "t": 3 * strange})
    return {
        "persons": pd.DataFrame({"id": [number], "p": [strange]}),
        "rows": rows.assign(**{f"v{j}": strange for j in range(3)}),
        "leaves": rows[["id", "row"]].assign(w=strange),
    }


def tables_of(*, strange: bool, persons: int = PERSONS) -> dict[str, pd.DataFrame]:
    """So many persons, of whom the last may be strange."""
    each = [person(i, strange=strange and i == persons - 1) for i in range(persons)]
    return {name: pd.concat([one[name] for one in each], ignore_index=True) for name in SCHEMA.tables}


def neighbours(relation: str) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """Without and with the strange person: one more, or instead of the last."""
    return tables_of(strange=False), tables_of(strange=True, persons=PERSONS + (relation == "add_remove"))


def codes_of(tables: Tables) -> np.ndarray:
    """The records of all persons, as the curator joins and bounds them."""
    layout = Layout(SCHEMA)
    private, _ = private_database(tables, layout.schema, Adjacency(unit="id"))
    return np.concatenate([codes for (codes,) in private._coded_as(layout.domain).codes.blocks()])


def score_of_answers(release: Release[Any], without: np.ndarray, with_: np.ndarray) -> float:
    """How much likelier the noisy answers are with the person: what it changes in each, over the variance of the noise.

    Of any statistic, scores of a screening too: the attacker computes both exact values.
    """
    score = 0.0
    for one in release.measurements:
        exact = [one.queries.finish(one.queries.sums(codes)) / one.queries.denominator for codes in (without, with_)]
        score += float((exact[1] - exact[0]) @ (one.answers - (exact[0] + exact[1]) / 2)) / one.stddev**2
    return score


def exact_mu(release: Release[Any], without: np.ndarray, with_: np.ndarray) -> float:
    """How far the exact answers of the two databases are apart, in standard deviations of the noise: mu of Gaussian DP."""
    squared = 0.0
    for one in release.measurements:
        exact = [one.queries.finish(one.queries.sums(codes)) / one.queries.denominator for codes in (without, with_)]
        squared += float(((exact[1] - exact[0]) ** 2).sum()) / one.stddev**2
    return math.sqrt(squared)


def _mechanism(tables: Tables, relation: str, claimed: sd.ApproxDP) -> Release[Any]:
    curator = sd.Curator(tables, schema=SCHEMA, budget=claimed, neighbors=relation)
    return RelatedTables(particles=50, sweeps=(1, 1)).release(curator)


def _facade(tables: Tables, relation: str, claimed: sd.ApproxDP) -> sd.DatabaseRelease:
    release = sd.DatabaseRelease(
        schema=SCHEMA, epsilon=claimed.epsilon, delta=claimed.delta, neighbors=relation, random_state=0
    )
    return release.fit(tables)


def _saved(tables: Tables, relation: str, claimed: sd.ApproxDP) -> Release[Any]:
    """The estimator, its folder, and what is read from it."""
    with tempfile.TemporaryDirectory() as folder:
        _facade(tables, relation, claimed).save(Path(folder) / "r")
        return sd.load(Path(folder) / "r")


def _like(release: sd.DatabaseRelease) -> float:
    """How many of the synthetic rows are like those of the strange person."""
    made = release.sample(500)
    like = [
        made["persons"]["p"],
        *(made["rows"][f"v{j}"] for j in range(3)),
        made["rows"]["t"] == 3,
        made["leaves"]["w"],
    ]
    scale = release.release_.output.total / 500
    return scale * sum(float(one.to_numpy(np.float64).sum()) for one in like)


@dataclass(frozen=True)
class DatabaseAttacker:
    """One attack: what is released of the tables, and how it is looked at."""

    release: Callable[[Tables, str, sd.ApproxDP], Any]
    sampled: bool = False

    @property
    def gaussian(self) -> bool:
        """Whether the claim comes from Gaussian DP and the answers are looked at."""
        return not self.sampled

    def tables(self, relation: str) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
        """The tables without the person, and with it."""
        return neighbours(relation)

    def score(self, relation: str, claimed: sd.ApproxDP) -> Callable[[Tables], float]:
        """Return a function that releases tables anew and returns one number."""
        if self.sampled:
            return lambda tables: _like(self.release(tables, relation, claimed))
        without, with_ = map(codes_of, neighbours(relation))
        return lambda tables: score_of_answers(self.release(tables, relation, claimed), without, with_)


DATABASE_ATTACKERS = {
    "RelatedTables": DatabaseAttacker(_mechanism),
    "DatabaseRelease, its folder": DatabaseAttacker(_saved),
    "DatabaseRelease, its sample": DatabaseAttacker(_facade, sampled=True),
}
