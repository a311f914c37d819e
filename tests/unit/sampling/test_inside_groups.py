"""Values inside groups move together where groups do; no row leaves its group, and no value its column."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp import Categorical, Continuous, Integer, Ordinal, Schema
from synthdp.distribution.explicit import Explicit
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of
from synthdp.domain.grid import grid_of
from synthdp.domain.refinement import Refinement
from synthdp.sampling import inside_groups
from synthdp.sampling.inside_groups import dealt_out
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.tables.format import TableFormat

ROWS = 20_000


def grouped(column, fine: int, groups: int, weights=None) -> Refinement:
    """The refinement of some leaves by equal groups; special and missing values have one of their own."""
    axis = axis_of("x", column, bins=fine)
    regular = int((axis.starts < axis.grid.regular).sum())
    cell = np.append(np.arange(regular) * groups // regular, np.full(axis.size - regular, groups))
    return Refinement(axis, cell, np.ones(axis.size) if weights is None else weights)


def normal(rows: int, correlation: float, seed: int = 0) -> np.ndarray:
    covariance = np.array([[1, correlation], [correlation, 1]])
    return np.clip(np.random.default_rng(seed).multivariate_normal([0, 0], covariance, rows), -3.99, 3.99)


def indices_of(values: np.ndarray, refinement: Refinement) -> np.ndarray:
    regular = refinement.fine.grid.regular
    return ((values + 4) / 8 * regular).astype(np.uint32)


def rank_correlation(indices) -> float:
    return pd.DataFrame(dict(enumerate(indices))).corr("spearman").iloc[0, 1]


def deal(values: np.ndarray, groups: int):
    """Rows in groups of normal values, whose places inside were drawn independently, before and after they are dealt out."""
    refinement, rng = grouped(Continuous(-4, 4), 256, groups), np.random.default_rng(1)
    true = [indices_of(column, refinement) for column in values.T]
    codes = np.column_stack([refinement.coarse_cell[refinement.fine.cells_of(one)] for one in true])
    apart = [one.copy() for one in true]
    for column, code in zip(apart, codes.T, strict=True):
        for group in np.unique(code):
            rows = np.flatnonzero(code == group)
            column[rows] = column[rng.permutation(rows)]
    dealt = dealt_out([refinement] * 2, codes, apart, rng)
    return true, codes, apart, [dealt.get(j, column) for j, column in enumerate(apart)]


@pytest.mark.parametrize("correlation", [0.9, 0.6, -0.8])
def test_a_correlation_that_groups_hide_comes_back(correlation):
    true, _, apart, dealt = deal(normal(ROWS, correlation), 6)
    wanted = rank_correlation(true)
    assert abs(rank_correlation(apart)) < 0.9 * abs(wanted)
    assert rank_correlation(dealt) == pytest.approx(wanted, abs=0.03)


def test_columns_that_are_independent_are_left_alone():
    refinement = grouped(Continuous(-4, 4), 256, 6)
    values = normal(ROWS, 0.0)
    true = [indices_of(column, refinement) for column in values.T]
    codes = np.column_stack([refinement.coarse_cell[refinement.fine.cells_of(one)] for one in true])
    assert dealt_out([refinement] * 2, codes, true, np.random.default_rng(0)) == {}


@given(st.integers(0, 10**6), st.integers(2, 300), st.sampled_from([-0.95, 0.5, 0.95]))
def test_no_row_leaves_its_group_and_no_value_its_column(seed, rows, correlation):
    _, codes, apart, dealt = deal(normal(rows, correlation, seed), 5)
    for before, after, group in zip(apart, dealt, codes.T, strict=True):
        first, second = np.lexsort((before, group)), np.lexsort((after, group))
        assert (before[first] == after[second]).all()


def test_missing_values_stay_where_they_are():
    column = Integer(0, 255, nullable=True)
    refinement, rng = grouped(column, 256, 4), np.random.default_rng(2)
    level = rng.integers(256, size=4000)
    first = np.where(rng.random(4000) < 0.2, grid_of(column).null, level)
    second = np.where(
        rng.random(4000) < 0.2, grid_of(column).null, np.clip(level + rng.integers(-20, 20, 4000), 0, 255)
    )
    indices = [one.astype(np.uint16) for one in (first, second)]
    codes = np.column_stack([refinement.coarse_cell[refinement.fine.cells_of(one)] for one in indices])
    dealt = dealt_out([refinement] * 2, codes, indices, rng)
    assert set(dealt) == {0, 1}
    for before, after in zip(indices, dealt.values(), strict=True):
        missing = before == grid_of(column).null
        assert ((after == grid_of(column).null) == missing).all()


def test_columns_without_order_or_of_one_value_a_group_are_not_touched():
    nominal = Refinement.trivial(axis_of("n", Categorical(list("abcd"))))
    alone = Refinement.trivial(axis_of("o", Ordinal(list("abcd"))))
    code = np.random.default_rng(0).integers(4, size=500)
    codes, indices = np.column_stack([code, code, code]), [code.astype(np.uint8)] * 3
    assert dealt_out([nominal, alone, alone], codes, indices, np.random.default_rng(0)) == {}


def test_a_group_whose_values_lie_apart_from_each_other_is_dealt_out_too():
    """A value that a rule names has a group of its own, between the others of its bin."""
    column = Integer(0, 99)
    axis = Axis("x", column, np.arange(100), np.arange(100))
    cell = np.where(np.arange(100) == 20, 3, np.arange(100) // 34)
    refinement, rng = Refinement(axis, cell, np.ones(100)), np.random.default_rng(3)
    values = np.clip((normal(5000, 0.95) + 3) / 6 * 100, 0, 99).astype(np.int64)
    codes, indices = cell[values], [column.astype(np.uint8) for column in values.T]
    for one, code in zip(indices, codes.T, strict=True):
        for group in range(4):
            rows = np.flatnonzero(code == group)
            one[rows] = one[rng.permutation(rows)]
    dealt = dealt_out([refinement] * 2, codes, indices, rng)
    for j, one in dealt.items():
        assert (cell[one] == codes[:, j]).all()
    assert rank_correlation(dealt.values()) > rank_correlation(indices) + 0.02


@pytest.mark.landing
def test_rows_of_a_model_move_together_within_its_groups():
    column = Continuous(-4, 4)
    values = normal(ROWS, 0.9)
    refinement = grouped(column, 64, 4)
    true = [indices_of(one, refinement) for one in values.T]
    codes = np.column_stack([refinement.coarse_cell[refinement.fine.cells_of(one)] for one in true])
    schema = Schema({"x": column, "y": column})
    refinements = tuple(
        Refinement(
            Axis(name, column, refinement.fine.starts, refinement.fine.cells), refinement.coarse_cell,
            np.bincount(refinement.fine.cells_of(one), minlength=refinement.fine.size).astype(float),
        )
        for name, one in zip("xy", true, strict=True)
    )  # fmt: skip
    domain = Domain(tuple(one.coarse() for one in refinements))
    model = SyntheticModel(
        schema=schema, domain=domain, refinements=refinements, total=ROWS, format=TableFormat.default(schema),
        distribution=Explicit(shape=domain.shape, codes=codes, weights=np.ones(ROWS)),
    )  # fmt: skip
    drawn = model.sample(random_state=0)
    assert drawn.corr().iloc[0, 1] == pytest.approx(0.9, abs=0.03)
    within = model.sample(2000, random_state=0, given={"x": (-4, 0)})
    assert within["x"].max() <= 0
    assert within.corr().iloc[0, 1] > 0.7


def test_of_many_rows_only_few_columns_are_dealt_out(monkeypatch):
    refinement, values = grouped(Continuous(-4, 4), 256, 4), normal(4000, 0.9)
    true = [indices_of(one, refinement) for one in (*values.T, *values.T)]
    codes = np.column_stack([refinement.coarse_cell[refinement.fine.cells_of(one)] for one in true])
    dealt = [set(dealt_out([refinement] * 4, codes, true, np.random.default_rng(0)))]
    for work in (2 * 4000, 4000 - 1):
        monkeypatch.setattr(inside_groups, "WORK", work)
        dealt.append(set(dealt_out([refinement] * 4, codes, true, np.random.default_rng(0))))
    assert [len(one) for one in dealt] == [4, 2, 0]
