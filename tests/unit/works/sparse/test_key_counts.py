"""Statistics of record keys: their declared bounds against brute force over neighbouring tables."""

import itertools
from collections import Counter

import numpy as np
import pytest

from synthdp.errors import ParameterError
from synthdp.queries.protocol import KeyStatistic
from synthdp.queries.supports import DENOMINATOR, KeyList
from synthdp.randomness import generator
from synthdp.works.sparse.key_counts import Deviations, KeyTotal, SparseCounts
from synthdp.works.sparse.sketches import CountSketch, SignProjection

KEYS = [f"k{i}" for i in range(6)]
QUERIES = [
    KeyList.of(("p",), KEYS[:3]),
    KeyList.of(("p",), KEYS[2:]),
    KeyList.weighted(("p",), {"k0": 0.25, "k5": 0.75, "never": 1.0}),
]
COUNTS = SparseCounts.of(QUERIES)


def sketches():
    count = CountSketch.draw(("p",), 3, independence=4, rng=generator(1), without=frozenset({"k1"}))
    signs = SignProjection.draw(("p",), 70, independence=4, rng=generator(2), without=frozenset())
    return {"count sketch": count, "signs": signs}


STATISTICS = {
    "counts": COUNTS,
    "one query": SparseCounts.of(QUERIES[:1]),
    "deviations": Deviations(COUNTS, np.array([900, 3000, 100])),
    "total": KeyTotal(("p",)),
    **sketches(),
}
ATTAINED = {"counts": ("one",), "one query": ("one", "swap"), "count sketch": ("one", "swap"), "signs": ("one",)}
TABLES = [rows for n in range(3) for rows in itertools.combinations_with_replacement([*KEYS, "elsewhere"], n)]


def moves(statistic, pairs):
    return np.array([statistic.key_totals(Counter(a)) - statistic.key_totals(Counter(b)) for a, b in pairs])


def norms(differences):
    absolute = np.abs(differences)
    return absolute.sum(axis=1).max(), (absolute**2).sum(axis=1).max(), absolute.max()


def neighbours(relation):
    if relation == "one":
        return [((*rows, key), rows) for rows in TABLES for key in [*KEYS, "elsewhere"]]
    return [((*rows, a), (*rows, b)) for rows in TABLES for a in [*KEYS, "elsewhere"] for b in KEYS]


@pytest.mark.sampled
@pytest.mark.parametrize("relation", ["one", "swap"])
@pytest.mark.parametrize("name", STATISTICS)
def test_no_neighbours_differ_by_more_than_the_declared_bounds(name, relation):
    statistic = STATISTICS[name]
    declared = getattr(statistic.bounds, relation)
    l1, l2_squared, linf = norms(moves(statistic, neighbours(relation)))
    assert isinstance(statistic, KeyStatistic)
    assert (l1 <= declared.l1, l2_squared <= declared.l2_squared, linf <= declared.linf) == (True, True, True)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "relation"), [(n, r) for n, relations in ATTAINED.items() for r in relations])
def test_bounds_are_attained(name, relation):
    declared = getattr(STATISTICS[name].bounds, relation)
    l1, l2_squared, linf = norms(moves(STATISTICS[name], neighbours(relation)))
    assert (l1, l2_squared, linf) == (declared.l1, declared.l2_squared, declared.linf)


def test_totals_are_sums_of_values_over_rows():
    counts = {"k0": 4, "k2": 1, "k5": 2, "elsewhere": 7}
    np.testing.assert_array_equal(COUNTS.key_totals(counts), [5 * DENOMINATOR, 3 * DENOMINATOR, 4 * 256 + 2 * 768])
    assert KeyTotal(("p",)).key_totals(counts) == [14]


def test_queries_must_be_about_the_same_columns():
    with pytest.raises(ParameterError, match="columns"):
        SparseCounts.of([QUERIES[0], KeyList.of(("q",), ["a"])])
    with pytest.raises(ParameterError, match="queries"):
        SparseCounts.of([])
