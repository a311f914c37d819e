"""Tables without misfits: what misfits at random did to a table is undone, exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from query_cases import of_sizes

from synthdp.fit.out_of_domain import OutOfDomain
from synthdp.measurements import beyond_noise
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.interactions import Interactions

KEPT = [np.array([True, True, True, False]), np.array([True, True, False]), np.array([True, True])]
TOTAL = 1000.0


def outside(*rows: float) -> OutOfDomain:
    return OutOfDomain(releasable=tuple(KEPT), rows=np.array(rows), total=TOTAL)


shares = st.floats(min_value=0.01, max_value=0.5)


def any_table(seed: int, clique: tuple[int, ...]) -> np.ndarray:
    """A table of 1000 rows with nothing in the cells of misfits."""
    inside = np.ones(1)
    for j in clique:
        inside = np.multiply.outer(inside, KEPT[j]).ravel()
    counts = np.random.default_rng(seed).gamma(1.0, size=len(inside)) * inside
    return counts / counts.sum() * TOTAL


@given(
    seed=st.integers(0, 10**6), clique=st.sampled_from([(0,), (0, 1), (1, 2), (0, 1, 2)]), first=shares, second=shares
)
def test_misfits_at_random_are_undone_exactly(seed: int, clique: tuple[int, ...], first: float, second: float) -> None:
    truth, misfits = any_table(seed, clique), outside(first * TOTAL, second * TOTAL, 0.0)
    struck = misfits.add(truth, clique)
    assert struck.sum() == pytest.approx(TOTAL)
    found = misfits.remove(NoisyTable(clique=clique, counts=struck, stddev=1.0))
    np.testing.assert_allclose(found.counts, truth, atol=1e-6)


@given(seed=st.integers(0, 10**6), share=shares)
def test_a_row_with_a_misfit_still_counts_in_its_other_columns(seed: int, share: float) -> None:
    """Whatever the misfits depend on, the margin of a column without any is that of all rows."""
    truth = any_table(seed, (1, 2)).reshape(3, 2)
    moved = truth[0, 0] * share
    struck = truth.copy()
    struck[0, 0] -= moved
    struck[2, 0] += moved
    table = NoisyTable(clique=(1, 2), counts=struck.ravel(), stddev=1.0)
    found = outside(0.0, moved, 0.0).remove(table).counts.reshape(3, 2)
    np.testing.assert_allclose(found.sum(axis=0), truth.sum(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1)[:2], struck.sum(axis=1)[:2] * TOTAL / (TOTAL - moved), atol=1e-6)


def test_misfits_are_none_where_noise_explains_them() -> None:
    counts = np.array([300.0, 300.0, 400.0, 9.0])
    for stddev, expected in ((5.0, 0.0), (1.0, 9.0)):
        found = OutOfDomain.estimated([NoisyTable(clique=(0,), counts=counts, stddev=stddev)], KEPT).rows
        np.testing.assert_allclose(found, [expected, 0.0, 0.0])


def test_tables_without_misfits_agree_on_their_margins() -> None:
    misfits = outside(200.0, 100.0, 0.0)
    tables = [
        NoisyTable(clique=c, counts=misfits.add(any_table(seed, c), c), stddev=1.0)
        for seed, c in enumerate([(0,), (0, 1), (0, 2)])
    ]
    found = {table.clique: table.counts for table in misfits.consistent(tables)}
    np.testing.assert_allclose(found[0, 1].reshape(4, 3).sum(axis=1), found[0,], atol=1e-6)
    np.testing.assert_allclose(found[0, 2].reshape(4, 2).sum(axis=1), found[0,], atol=1e-6)
    assert found[0,][3] == 0


@pytest.mark.parametrize("answers", [1, 15, 4000])
def test_noise_alone_passes_for_something_in_one_release_of_a_hundred(answers: int) -> None:
    """Laplace noise of stddev 3 lies above t with probability exp(-t sqrt 2 / 3) / 2; the union over all answers is 1 %."""
    bound = beyond_noise(3.0, answers)
    assert answers * math.exp(-bound * math.sqrt(2) / 3.0) / 2 == pytest.approx(0.01)


@pytest.mark.parametrize("place", [0, 1])
def test_the_noise_of_an_interaction_is_in_rows(place: int) -> None:
    queries = Interactions(of_sizes(3, 4, 2), ((0,), (2, 1)), (5, 2))
    noise = np.random.default_rng(0).normal(0, 7.0, (400, queries.k))
    found = [queries.noisy_tables(drawn, 7.0)[place] for drawn in noise]
    assert np.std([effect.counts for effect in found]) == pytest.approx(found[0].stddev, rel=0.1)
