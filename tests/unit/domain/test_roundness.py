"""How round numbers are is public, the same wherever values are coded, and decides what is drawn inside a bin."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of
from synthdp.domain.encoder import Numbers, decode, encode
from synthdp.domain.grid import bounds_of, grid_of
from synthdp.domain.refinement import FEWEST, MOST, POWERS, Refinement, axis_of_roundness
from synthdp.errors import InternalError
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import one_ways
from synthdp.schema.column import Steps
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.duckdb import DuckDBSource
from synthdp.tables.sources.sql import SqlSource
from synthdp.tables.sql.counting import cell_sql

REALS = my.continuous(numbers=st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))
NUMBERS = st.one_of(my.integers(largest=10**7), my.decimal_numbers(), my.multiples(), REALS)
YEARS = sd.Continuous(0, 41, nullable=True, special=(-1,))


def asked(column) -> list[Fraction]:
    """The powers of ten with few multiples within the bounds, but not very few, the widest first."""
    lower, upper = (Fraction(repr(bound)) for bound in bounds_of(column))
    powers = [Fraction(10) ** power for power in POWERS]
    count = [math.floor(upper / power) - math.ceil(lower / power) + 1 for power in powers]
    return [power for power, found in zip(powers, count, strict=True) if FEWEST <= found <= MOST]


@given(NUMBERS, st.data())
def test_a_value_with_digits_is_as_round_as_the_widest_power_of_ten_that_it_is_a_multiple_of(column, data):
    axis, grid = axis_of_roundness("x", column), grid_of(column)
    if axis is None or not isinstance(column.support(), Steps):
        return
    points = np.unique(data.draw(st.lists(st.integers(0, grid.regular - 1), min_size=1, max_size=20)))
    values = [Fraction(repr(value)) for value in decode(column, points.astype(np.uint32)).values.tolist()]
    spacings = asked(column)
    wanted = [
        next((i for i, s in enumerate(spacings) if (value / s).denominator == 1), len(spacings)) for value in values
    ]
    found = axis.cells_of(points).astype(int).tolist()
    classes = {(a, b) for a, b, value in zip(wanted, found, values, strict=True) if float(value) not in grid.special}
    assert len(dict(classes)) == len(classes) == len({b for _, b in classes})  # the same classes, in the same order
    assert [b for _, b in sorted(classes)] == sorted(b for _, b in classes)


@given(REALS, st.data())
def test_a_number_lies_in_the_class_of_its_power_of_ten_or_in_a_rounder_one(column, data):
    axis, grid = axis_of_roundness("x", column), grid_of(column)
    if axis is None:
        return
    lower, upper = (Fraction(repr(bound)) for bound in bounds_of(column))
    for i, spacing in enumerate(asked(column)):
        times = data.draw(st.integers(math.ceil(lower / spacing), math.floor(upper / spacing)))
        point = encode(column, Numbers(np.array([float(times * spacing)])))
        if point[0] < grid.regular:
            assert axis.cells_of(point)[0] <= i


@pytest.mark.parametrize(
    "column",
    [
        sd.Boolean(), sd.Categorical(["a", "b"]), sd.Integer(1, 5), sd.Integer(0, 10**9),
        sd.Date("2000-01-01", "2020-01-01"),
        sd.Continuous(0, 5e-320), sd.Identifier(), sd.Categorical([10, 20, 30]), sd.Continuous(1e300, 1.1e300),
    ],
)  # fmt: skip
def test_columns_whose_numbers_are_all_alike_or_stand_for_several_have_no_classes(column):
    assert axis_of_roundness("x", column) is None


def test_the_classes_of_years_of_work():
    axis = axis_of_roundness("x", YEARS)
    values = np.array([7.0, 41.0, 0.0, 7.5, 7.55, 7.123456, -1.0, np.nan])
    assert axis.cells_of(encode(YEARS, Numbers(values))).tolist() == [0, 0, 0, 1, 2, 2, 3, 3]
    assert np.bincount(axis.cells_of(np.arange(axis.grid.size)))[:2].tolist() == [42, 411 - 42]


@pytest.mark.landing
def test_databases_count_the_classes_as_they_are_counted_here(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "years": np.where(rng.random(3000) < 0.9, rng.integers(0, 42, 3000), rng.random(3000).round(3) * 41),
            "loan": rng.integers(10, 900, 3000) * rng.choice([100, 99], 3000),
        }
    )
    table.loc[:99, "years"] = np.nan
    table.loc[100:130, "years"] = -1
    schema = sd.Schema({"years": YEARS, "loan": sd.Integer(1000, 90_000)})
    queries = one_ways(Domain(tuple(axis_of_roundness(name, column) for name, column in schema.items())))
    wanted = PrivateTable(FrameSource(table), schema, Adjacency()).exact(queries)
    assert wanted.sum() == 2 * len(table)
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.from_df(table).create("people")
    for push_down in (False, True):
        source = DuckDBSource(tmp_path / "t.duckdb", name="people", push_down=push_down)
        assert (PrivateTable(source, schema, Adjacency()).exact(queries) == wanted).all()
    years = one_ways(Domain(queries.domain.axes[:1]))
    pushed = DuckDBSource(tmp_path / "t.duckdb", name="people", push_down=True).sums(years, schema)
    assert pushed is not None
    assert (pushed == wanted[: years.k]).all()
    counted = SqlSource(f"duckdb:///{tmp_path / 't.duckdb'}", table="people", push="counts")
    assert (counted.sums(queries, schema) == wanted).all()


@pytest.mark.landing
@given(st.integers(0, 10**6))
def test_the_cell_of_a_grid_index_is_the_same_in_sql_whatever_the_runs(seed):
    rng = np.random.default_rng(seed)
    column = sd.Integer(0, 1999)
    dense = rng.random(grid_of(column).size - 1) < rng.choice([0.2, 0.9, 1.0])
    starts = np.append(0, np.flatnonzero(dense) + 1)
    axis = Axis(
        "x", column, starts, np.unique(rng.integers(0, rng.choice([2, 30]), len(starts)), return_inverse=True)[1]
    )
    index = np.arange(axis.grid.size)
    found = duckdb.sql(f"SELECT {cell_sql(axis, 'range')} AS c FROM range({len(index)}) ORDER BY range").fetchnumpy()[
        "c"
    ]
    assert (found == axis.cells_of(index)).all()


def rounded(**likely: float) -> Refinement:
    """Years of work in four bins of ten, with the likelihoods of whole ones, tenths and others."""
    axis = axis_of("x", YEARS, bins=4)
    rounding = np.array([likely["whole"], likely["tenths"], likely["others"], 1.0])
    return Refinement(axis, np.arange(axis.size), np.ones(axis.size), rounding)


def test_grid_points_are_drawn_as_their_classes_say_and_inside_their_bin():
    refinement, rng = rounded(whole=1.0, tenths=0.01, others=1e-9), np.random.default_rng(1)
    cells = np.repeat(np.arange(4), 5000)
    drawn = refinement.indices_in(cells, rng)
    assert (refinement.fine.cells_of(drawn) == cells).all()
    share = np.bincount(axis_of_roundness("x", YEARS).cells_of(drawn), minlength=3) / len(cells)
    mass = np.array([42, 369 * 0.01, (refinement.fine.grid.regular - 411) * 1e-9])
    assert share[:3] == pytest.approx(mass / mass.sum(), abs=0.01)
    whole = np.bincount(decode(YEARS, drawn).values.astype(int), minlength=42)
    assert whole[1:41].min() > 350  # each whole year, alike


@given(st.integers(0, 10**6), st.sampled_from([1.0, 1e-3, 1e-9]))
def test_the_parts_of_a_bin_add_up_and_conditions_are_kept(seed, others):
    refinement, rng = rounded(whole=1.0, tenths=0.1, others=others), np.random.default_rng(seed)
    releasable = refinement.fine.grid.releasable
    cells, likely = refinement.fine.cells_of(np.arange(releasable)), refinement._likely(np.arange(releasable))
    assert refinement.share(np.ones(refinement.fine.grid.size, bool)) == pytest.approx(refinement.fine.releasable * 1.0)
    allowed = rng.random(refinement.fine.grid.size) < rng.choice([1e-4, 0.5])
    allowed[refinement.fine.starts] = True
    where = rng.integers(0, 4, 50)
    drawn = refinement.indices_among(allowed, where, rng)
    assert allowed[drawn].all()
    assert (refinement.fine.cells_of(drawn) == where).all()
    part, whole = (np.bincount(cells, likely * mine, refinement.fine.size) for mine in (allowed[:releasable], 1))
    assert refinement.share(allowed) * whole == pytest.approx(part)


def test_a_refinement_needs_a_likelihood_for_every_class():
    axis = axis_of("x", YEARS, bins=4)
    for rounding in (np.ones(3), np.zeros(4)):
        with pytest.raises(InternalError, match="likelihood"):
            Refinement(axis, np.arange(axis.size), np.ones(axis.size), rounding)
    plain = axis_of("x", sd.Integer(1, 5))
    with pytest.raises(InternalError, match="likelihood"):
        Refinement(plain, np.arange(plain.size), np.ones(plain.size), np.ones(2))
