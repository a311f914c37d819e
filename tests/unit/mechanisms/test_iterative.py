"""Iterative database constructions: the bound B(alpha) of each against an adversary, and what a new one takes."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pandas as pd
import pytest

from synthdp import ApproxDP, Boolean, Curator, InteractiveMechanism, Schema
from synthdp.domain.domain import domain_of, releasable_domain, universe
from synthdp.errors import MechanismFailure, ParameterError
from synthdp.queries.linear import CellQueries
from synthdp.queries.supports import DENOMINATOR, Support
from synthdp.works.net.online_mechanisms import MedianConstruction, MultiplicativeWeightsConstruction, net_distance
from synthdp.works.sparse.bounds import SparseConstruction, smallest_slots
from synthdp.works.sparse.sparse_table import SparseTable

ROWS = 12
SCHEMA = Schema({"a": Boolean(), "b": Boolean()})
DOMAIN = releasable_domain(domain_of(SCHEMA))
CELLS = universe(DOMAIN)
TABLES = [np.array(counts) for counts in itertools.product(range(0, ROWS + 1, 4), repeat=4) if sum(counts) == ROWS]
SUBSETS = [np.array(values) for values in itertools.product((0, 1), repeat=4)]
QUERIES = [CellQueries(DOMAIN, values[None, :]) for values in SUBSETS]


class GradientConstruction:
    """A vector on the cells that is moved by (alpha / |X|) q, as Frieze and Kannan cut a matrix."""

    def __init__(self, cells, rows, *, alpha=0.25):
        self.cells, self.rows, self.alpha = cells, rows, alpha
        self.vector = np.zeros(len(cells))

    def guess(self, query):
        return self.rows * float(query.features(self.cells)[:, 0] @ self.vector) / query.denominator

    def check(self, query):
        """Take any query."""

    def update(self, query, answer, *, stddev):
        step = self.alpha / len(self.cells) * np.sign(answer - self.guess(query))
        self.vector += step * query.features(self.cells)[:, 0] / query.denominator

    def update_bound(self, alpha):
        return len(self.cells) / alpha**2

    def weights(self):
        positive = np.maximum(self.vector, 0)
        return positive if positive.any() else np.ones(len(self.cells))


def test_a_new_construction_takes_no_more_than_thirty_lines():
    assert len(inspect.getsource(GradientConstruction).splitlines()) <= 30


LISTED = {
    "multiplicative weights": (lambda: MultiplicativeWeightsConstruction(CELLS, ROWS), 0.25),
    "median": (lambda: MedianConstruction(CELLS, ROWS, size=24, queries=len(QUERIES)), 0.3),
    "gradient": (lambda: GradientConstruction(CELLS, ROWS), 0.25),
}


def updates(construction, asked, truth, alpha, *, off=0.0, most=1000):
    """Ask the query on which the guess is worst until none is off by alpha; answers are off by a part of that."""
    for count in range(most):
        gaps = [true - construction.guess(query) for query, true in zip(asked, truth, strict=True)]
        worst = int(np.argmax(np.abs(gaps)))
        if abs(gaps[worst]) < alpha * ROWS:
            return count
        construction.update(asked[worst], truth[worst] - off * gaps[worst], stddev=0.0)
    return most


@pytest.mark.sampled
@pytest.mark.parametrize("off", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("name", LISTED)
def test_no_sequence_of_wrong_guesses_needs_more_updates_than_the_bound(name, off):
    make, alpha = LISTED[name]
    needed = [
        updates(make(), QUERIES, [float(counts @ values) for values in SUBSETS], alpha, off=off) for counts in TABLES
    ]
    assert 0 < max(needed) <= make().update_bound(alpha)


SPARSE = [
    Support(keys=list(keys), values=np.full(len(keys), DENOMINATOR))
    for size in (1, 2)
    for keys in itertools.combinations("abcdef", size)
]


@pytest.mark.parametrize("rule", ["paper", "projection"])
@pytest.mark.parametrize("counts", [(12, 0, 0, 0, 0, 0), (2, 2, 2, 2, 2, 2), (6, 0, 3, 0, 0, 3), (0, 11, 1, 0, 0, 0)])
def test_sparse_weights_need_no_more_updates_than_their_bound_and_slots_outlast_them(rule, counts):
    alpha = 0.25
    table = SparseTable(smallest_slots(2, alpha=alpha))
    construction = SparseConstruction(table=table, total=ROWS, alpha=alpha, update_rule=rule)
    of = dict(zip("abcdef", counts, strict=True))
    made = updates(construction, SPARSE, [float(sum(of[key] for key in query.keys)) for query in SPARSE], alpha)
    assert made <= construction.update_bound(alpha)
    assert table.untouched > 0


def test_a_sparse_query_without_room_is_refused_before_the_table_is_asked():
    construction = SparseConstruction(table=SparseTable(1), total=ROWS, alpha=0.5)
    with pytest.raises(MechanismFailure, match="slots"):
        construction.check(SPARSE[-1])


def test_the_median_promises_nothing_nearer_than_the_multisets_lie():
    made = MedianConstruction(CELLS, ROWS, size=3, queries=100)
    assert made.update_bound(net_distance(100, size=3) * 0.99) == math.inf
    assert made.update_bound(net_distance(100, size=3) * 1.01) < 10


TABLE = pd.DataFrame({"a": [True] * 900 + [False] * 100, "b": [True] * 500 + [False] * 500})


def opened(**settings):
    curator = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(5.0, 1e-6), neighbors="replace_one")
    return InteractiveMechanism(GradientConstruction, **settings).open(curator)


def test_a_new_construction_answers_queries_named_by_columns_and_is_released():
    session = opened(alpha=0.25)
    answers = [answer for _ in range(5) for answer in session.ask([("a", "b"), "b"])]
    assert len(answers) == 30
    assert any(answer.learned for answer in answers)
    release = session.close()
    assert release.sample(10, random_state=0).shape == (10, 2)
    assert release.output.answer([("a",)])[1] > release.output.answer([("a",)])[0]


def test_the_number_of_updates_follows_from_the_bound():
    assert opened(alpha=0.5).watch.plan.max_alarms == 16
    assert opened(alpha=0.5, max_updates=3).watch.plan.max_alarms == 3


def test_a_session_needs_an_accuracy_or_a_number_of_updates():
    with pytest.raises(ParameterError, match=r"alpha.*max_updates"):
        opened()


def test_a_construction_that_promises_no_number_is_refused_before_the_spend():
    curator = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-6))

    def make(cells, rows):
        return MedianConstruction(cells, rows, size=3, queries=100)

    with pytest.raises(ParameterError, match=r"alpha.*0\.1"):
        InteractiveMechanism(make, alpha=0.1).open(curator)
    assert curator.remaining == ApproxDP(1.0, 1e-6)
