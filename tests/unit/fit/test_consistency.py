import numpy as np
import pytest
from hypothesis import given, strategies as st
from joint_tables import all_rows, graphs, margin

from synthdp.errors import ParameterError
from synthdp.fit.consistency import (
    gls_effects,
    gls_total,
    make_consistent,
    make_merged_consistent,
)
from synthdp.queries.contingency import NoisyTable, cell_index, contingency, table_size


@st.composite
def measured(draw):
    """A shape and noisy tables of one to three columns, some of them twice, with different noise."""
    shape, cliques = draw(graphs(most_columns=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = []
    for clique in cliques + cliques[:2]:
        stddev = float(rng.uniform(0.5, 5))
        counts = 10 + stddev * rng.normal(size=table_size(shape, clique))
        tables.append(NoisyTable(clique=clique, counts=counts, stddev=stddev))
    return shape, tables


def least_squares(shape, tables, total):
    """The joint table that fits all tables best under the total, by dense algebra; and the map from noise to it."""
    rows = all_rows(shape)
    cells = len(rows)
    designs = [(cell_index(rows, shape, t.clique) == np.arange(t.counts.size)[:, None]) / t.stddev for t in tables]
    design = np.concatenate([np.zeros((1, cells)), *designs])
    answers = np.concatenate([[0.0], *(t.counts / t.stddev for t in tables)])
    uniform = np.full(cells, total / cells)
    null = np.linalg.svd(np.ones((1, cells)))[2][1:].T
    free = design @ null
    free[np.abs(free) < 1e-12] = 0  # rounding alone, where the total decides everything
    inverse = null @ np.linalg.pinv(free, rcond=1e-10)
    return uniform + inverse @ (answers - design @ uniform), inverse


@given(measured(), st.floats(-5, 500))
def test_every_table_is_the_generalised_least_squares_estimate(case, total):
    shape, tables = case
    joint, _ = least_squares(shape, tables, total)
    for table in make_consistent(tables, shape, total=total):
        np.testing.assert_allclose(table.counts, margin(shape, joint, table.clique), atol=1e-7 * (1 + abs(total)))


@given(measured())
def test_the_standard_error_is_that_of_the_generalised_least_squares_estimate(case):
    shape, tables = case
    _, inverse = least_squares(shape, tables, 100.0)
    effects = gls_effects(tables, shape, total=100.0)
    rows = all_rows(shape)
    for table in tables:
        cells = cell_index(rows, shape, table.clique) == np.arange(table.counts.size)[:, None]
        deviations = np.sqrt(((cells @ inverse) ** 2).sum(axis=1))
        np.testing.assert_allclose(deviations, effects.stddev(table.clique), atol=1e-8)


@given(measured())
def test_tables_agree_on_every_margin_they_share(case):
    shape, tables = case
    consistent = make_consistent(tables, shape, total=80.0)
    for first in consistent:
        for second in consistent:
            shared = tuple(a for a in first.clique if a in second.clique)
            one, other = (
                np.bincount(
                    cell_index(
                        all_rows([shape[a] for a in t.clique]),
                        [shape[a] for a in t.clique],
                        tuple(t.clique.index(a) for a in shared),
                    ),
                    weights=t.counts,
                )
                for t in (first, second)
            )
            np.testing.assert_allclose(one, other, atol=1e-8)


@given(measured())
def test_consistent_tables_stay_as_they_are(case):
    shape, tables = case
    once = make_consistent(tables, shape, total=50.0)
    twice = make_consistent(once, shape, total=50.0)
    assert [t.clique for t in once] == [t.clique for t in twice]
    for first, second in zip(once, twice, strict=True):
        np.testing.assert_allclose(first.counts, second.counts, atol=1e-8)


def test_one_ways_come_first_and_other_cliques_once_each_with_the_noise_of_their_average():
    shape = (2, 3)
    tables = [
        NoisyTable(clique=(0, 1), counts=np.zeros(6), stddev=3.0),
        NoisyTable(clique=(1,), counts=np.zeros(3), stddev=2.0),
        NoisyTable(clique=(0, 1), counts=np.zeros(6), stddev=4.0),
    ]
    consistent = make_consistent(tables, shape, total=12.0)
    assert [t.clique for t in consistent] == [(0,), (1,), (0, 1)]
    assert consistent[2].stddev == pytest.approx((1 / 9 + 1 / 16) ** -0.5)
    assert consistent[0].stddev == pytest.approx((1 / 27 + 1 / 48) ** -0.5)
    assert consistent[1].stddev == pytest.approx((1 / 4 + 1 / 18 + 1 / 32) ** -0.5)


def test_exact_tables_of_one_data_set_are_not_changed():
    rng = np.random.default_rng(0)
    shape = (3, 2, 4)
    codes = np.stack([rng.integers(0, k, 500) for k in shape], axis=1)
    tables = [
        NoisyTable(clique=c, counts=contingency(codes, shape, c), stddev=s)
        for c, s in {(0,): 1.0, (0, 1): 2.0, (1, 2): 3.0, (0, 1, 2): 4.0}.items()
    ]
    for table in make_consistent(tables, shape, total=500.0):
        np.testing.assert_allclose(table.counts, contingency(codes, shape, table.clique), atol=1e-9)


def test_an_unmeasured_clique_is_estimated_by_its_measured_effects_and_has_no_error():
    tables = [NoisyTable(clique=(0,), counts=np.array([30.0, 10.0]), stddev=1.0)]
    effects = gls_effects(tables, (2, 2), total=40.0)
    np.testing.assert_allclose(effects.table((0, 1)), [15, 15, 5, 5])
    with pytest.raises(ParameterError, match="clique"):
        effects.stddev((0, 1))


def test_a_column_with_one_code_holds_the_total():
    tables = [NoisyTable(clique=(0, 1), counts=np.array([3.0, 5.0]), stddev=1.0)]
    consistent = make_consistent(tables, (1, 2), total=10.0)
    np.testing.assert_allclose(consistent[0].counts, [10.0])
    np.testing.assert_allclose(consistent[2].counts, [4.0, 6.0])


def test_the_pooled_total_weighs_tables_by_precision():
    tables = [
        NoisyTable(clique=(0,), counts=np.array([40.0, 60.0]), stddev=1.0),
        NoisyTable(clique=(1,), counts=np.array([50.0, 40.0, 20.0]), stddev=2.0),
    ]
    estimate, stddev = gls_total(tables)
    assert estimate == pytest.approx((100 / 2 + 110 / 12) / (1 / 2 + 1 / 12))
    assert stddev == pytest.approx((1 / 2 + 1 / 12) ** -0.5)
    with pytest.raises(ParameterError, match="tables"):
        gls_total([])


def test_a_total_that_is_no_number_is_refused():
    with pytest.raises(ParameterError, match="total"):
        make_consistent([], (2,), total=float("nan"))


def test_merged_tables_get_the_margins_of_the_others_and_keep_their_interactions():
    shape, rng = (4, 5), np.random.default_rng(3)
    ones = [NoisyTable(clique=(j,), counts=rng.normal(50, 9, size), stddev=2.0) for j, size in enumerate(shape)]
    groups = (np.array([0, 1, 1, 0]), np.array([2, 0, 1, 1, 0]))
    merged = NoisyTable(clique=(0, 1), counts=rng.normal(40, 9, 6), stddev=3.0, groups=groups)
    pooled = gls_effects(ones, shape, total=240.0)
    (found,) = make_merged_consistent([merged], pooled)
    before, after = merged.counts.reshape(2, 3), found.counts.reshape(2, 3)
    assert after.sum(axis=1) == pytest.approx(np.bincount(groups[0], weights=pooled.table((0,))))
    assert after.sum(axis=0) == pytest.approx(np.bincount(groups[1], weights=pooled.table((1,))))
    centred = [t - t.mean(axis=0) - t.mean(axis=1, keepdims=True) + t.mean() for t in (before, after)]
    assert centred[1] == pytest.approx(centred[0])


def test_an_interaction_that_is_measured_twice_has_the_noise_of_both():
    tables = [NoisyTable(clique=(j,), counts=np.array([30.0, 10.0]), stddev=1.0) for j in range(2)]
    sign = np.array([1.0, -1.0, -1.0, 1.0])
    effects = [NoisyTable(clique=(0, 1), counts=k * sign, stddev=s, alone=True) for k, s in ((2.0, 3.0), (6.0, 4.0))]
    *_, pair = make_consistent([*tables, *effects], (2, 2), total=40.0)
    precisions = np.array([1 / 9, 1 / 16])
    assert pair.stddev == pytest.approx(precisions.sum() ** -0.5)
    mean = precisions @ [2.0, 6.0] / precisions.sum()
    np.testing.assert_allclose(pair.counts, np.array([20.0, 10.0, 10.0, 0.0]) + mean * sign)
