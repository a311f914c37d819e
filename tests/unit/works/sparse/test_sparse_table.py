"""The public weights: mass is conserved, projections hit their target, and the potential bounds the updates."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import MechanismFailure, ParameterError
from synthdp.queries.supports import DENOMINATOR, Support
from synthdp.works.sparse.bounds import projection_update_bound, smallest_slots, update_bound
from synthdp.works.sparse.sparse_table import SparseTable

VALUES = st.lists(st.integers(1, DENOMINATOR), min_size=1, max_size=12)


def support(values, first=0):
    return Support(keys=[f"k{first + i}" for i in range(len(values))], values=np.array(values, np.int64))


@given(st.lists(st.tuples(VALUES, st.integers(0, 20), st.floats(-3, 3)), min_size=1, max_size=6))
def test_mass_is_conserved_by_every_step(steps):
    table = SparseTable(60)
    for values, first, by in steps:
        asked = support(values, first)
        table.tilt(table.touch(asked), asked.weights, by=by)
        table.project(table.touch(asked), asked.weights, target=0.3 * max(values) / DENOMINATOR)
        assert table.touched_weights.sum() + table.untouched_mass == pytest.approx(1, rel=1e-9)
        assert table.touched_weights.min() >= 0
        assert len(table.place) + table.untouched == 60


@given(VALUES, st.floats(0.001, 0.999))
def test_a_projection_hits_its_target_and_keeps_the_ratios_where_the_query_is_constant(values, share):
    table, asked = SparseTable(50), support(values)
    place = table.touch(asked)
    table.project(place, asked.weights, target=share * max(values) / DENOMINATOR)
    assert table.expectation(asked) == pytest.approx(share * max(values) / DENOMINATOR, rel=1e-6)
    ratios = np.log(table.touched_weights * table.untouched / table.untouched_mass)
    np.testing.assert_allclose(ratios / asked.weights, ratios[0] / asked.weights[0], rtol=1e-6, atol=1e-9)


def test_the_projection_of_an_indicator_is_the_closed_form():
    table, asked = SparseTable(100), support([DENOMINATOR] * 10)
    table.project(table.touch(asked), asked.weights, target=0.4)
    factor = 0.4 * 0.9 / (0.1 * 0.6)
    np.testing.assert_allclose(table.touched_weights / (table.untouched_mass / 90), factor)


def test_keys_that_were_never_asked_about_have_an_untouched_weight():
    table, one = SparseTable(10), support([DENOMINATOR] * 2)
    assert table.expectation(one) == pytest.approx(0.2)
    table.project(table.touch(one), one.weights, target=0.6)
    assert table.expectation(support([DENOMINATOR] * 3, first=50)) == pytest.approx(3 * 0.4 / 8)
    np.testing.assert_array_equal(table.places(support([DENOMINATOR] * 3, first=1)), [1, -1, -1])


def test_running_out_of_slots_says_what_to_raise_and_changes_nothing():
    table = SparseTable(5)
    table.touch(support([DENOMINATOR] * 4))
    with pytest.raises(MechanismFailure, match="slots"):
        table.touch(support([DENOMINATOR] * 4, first=3))
    assert (len(table.place), table.untouched) == (4, 1)
    with pytest.raises(ParameterError, match="slots"):
        SparseTable(0)


def test_extreme_tilts_stay_finite():
    table, asked = SparseTable(100), support([DENOMINATOR] * 3)
    place = table.touch(asked)
    for by in [700.0, 700.0, -700.0, -700.0, -700.0, 650.0]:
        table.tilt(place, asked.weights, by=by)
        assert np.isfinite(table.touched_weights).all()
        assert table.touched_weights.sum() + table.untouched_mass == pytest.approx(1)
    table.project(place, asked.weights, target=0.5)
    assert np.isfinite(table.expectation(asked))


def adversarial_updates(step, *, alpha, slots, members, supports, rng):
    """Ask, each time, the query that is answered worst, until none is off by alpha; count the updates."""
    data = {f"k{i}" for i in rng.choice(4 * members, size=members, replace=False)}
    table, updates = SparseTable(slots), 0
    queries = [Support(keys=[f"k{i}" for i in rng.choice(4 * members, size=supports, replace=False)],
                       values=np.full(supports, DENOMINATOR)) for _ in range(300)]  # fmt: skip
    truth = np.array([sum(key in data for key in query.keys) / members for query in queries])
    while True:
        errors = np.array([table.expectation(query) for query in queries]) - truth
        worst = int(np.argmax(np.abs(errors)))
        if abs(errors[worst]) < alpha:
            return updates
        asked = queries[worst]
        place = table.touch(asked)
        step(table, place, asked.weights, truth[worst], -np.sign(errors[worst]) * alpha / 2)
        updates += 1


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("alpha", "seed"), [(0.2, 0), (0.2, 1), *(pytest.param(0.1, seed, marks=pytest.mark.slow) for seed in range(3))]
)
def test_the_papers_step_never_makes_more_updates_than_its_potential_allows(alpha, seed):
    slots = smallest_slots(40, alpha=alpha)
    updates = adversarial_updates(
        lambda table, place, values, _, by: table.tilt(place, values, by=by),
        alpha=alpha, slots=slots, members=30, supports=40, rng=np.random.default_rng(seed),
    )  # fmt: skip
    assert 0 < updates <= update_bound(slots, alpha=alpha)
    assert 40 * update_bound(slots, alpha=alpha) <= slots  # so that slots outlast the updates


@pytest.mark.parametrize("seed", range(3))
def test_projections_never_make_more_updates_than_pinskers_inequality_allows(seed):
    alpha, slots = 0.1, 1000
    updates = adversarial_updates(
        lambda table, place, values, target, _: table.project(place, values, target=target),
        alpha=alpha, slots=slots, members=30, supports=40, rng=np.random.default_rng(seed),
    )  # fmt: skip
    assert 0 < updates <= projection_update_bound(slots, alpha=alpha)
