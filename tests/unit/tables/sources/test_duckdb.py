"""DuckDB: the same integers from blocks and from GROUPING SETS as from a dataframe."""

from __future__ import annotations

import itertools
import math

import duckdb
import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import given, strategies as st

from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import Domain, axis_of, domain_of
from synthdp.errors import DataError
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Integer, Ordinal
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.duckdb import DuckDBSource

SCHEMA = Schema(
    {
        "age": Integer(0, 90, special=(-1,)),
        "city": Categorical(["Oslo", "L'Aquila"], nullable=True),
        "height": Continuous(0.1, 2.3, nullable=True, special=(9.5,)),
        "member": Boolean(nullable=True),
        "born": Datetime("2000-01-01", "2020-01-01", nullable=True),
        "size": Ordinal(["s", "m", "l"]),
    }
)


def table_of(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    height = rng.choice([0.1, 0.3, 2.3, 9.5, np.nan, np.inf, -np.inf, -5.0, 1.2, 1.2000000000000002], rows)
    born = pd.Series(np.datetime64("1999-06-01", "us") + rng.integers(0, 700_000_000, rows).astype("timedelta64[s]"))
    return pd.DataFrame(
        {
            "age": rng.choice([-1, -7, 0, 3, 45, 90, 95], rows),
            "city": np.array(["Oslo", "L'Aquila", None, "Paris"], object)[rng.integers(0, 4, rows)],
            "height": height,
            "member": pd.array(np.array([True, False, None], object)[rng.integers(0, 3, rows)], "boolean"),
            "born": born.where(rng.random(rows) < 0.9),
            "size": rng.choice(["s", "m", "l", "xl"], rows),
            "person": rng.integers(0, 60, rows),
        }
    )


@pytest.fixture
def database(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.from_df(table_of()).create("people")
    return tmp_path / "t.duckdb"


def test_counts_inside_duckdb_are_those_of_the_dataframe(database):
    source = DuckDBSource(database, name="people", push_down=True)
    for bins in (3, 7):
        domain = domain_of(SCHEMA, bins=bins)
        every = [c for way in (1, 2, 3) for c in all_cliques(domain, way)]
        marginals = Marginals(domain, (*every, (3, 1), (2, 0, 5)))
        counted = source.sums(marginals, SCHEMA)
        assert counted is not None
        expected = PrivateTable(FrameSource(table_of()), SCHEMA, Adjacency()).exact(marginals)
        np.testing.assert_array_equal(counted, expected)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("push_down", [False, True])
@pytest.mark.parametrize("adjacency", [Adjacency(), Adjacency(unit="person", rows=2)])
def test_a_room_gives_the_integers_of_the_dataframe(database, push_down, adjacency):
    domain = domain_of(SCHEMA, bins=4)
    marginals = Marginals(domain, all_cliques(domain, 2))
    distances = MarginalDistances(marginals, np.full(marginals.k, 3), 2)
    source = DuckDBSource(database, name="people", push_down=push_down)
    for statistic in (marginals, distances):
        expected = PrivateTable(FrameSource(table_of()), SCHEMA, adjacency).exact(statistic)
        np.testing.assert_array_equal(PrivateTable(source, SCHEMA, adjacency).exact(statistic), expected)


@given(
    st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(1, 40),
    st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.floats(-2e6, 2e6), min_size=1, max_size=30),
)  # fmt: skip
def test_the_cell_of_any_float_is_the_encoders(lower, width, bins, values):
    schema = Schema({"x": Continuous(lower, lower + width)})
    domain = Domain((axis_of("x", schema["x"], bins=bins),))
    edges = domain.axes[0].starts[:-1] / domain.axes[0].grid.regular * width + lower
    near = [w for e in edges.tolist() for w in (e, math.nextafter(e, math.inf), math.nextafter(e, -math.inf))]
    table = pd.DataFrame({"x": [*values, *near]})
    marginals = Marginals(domain, ((0,),))
    counted = DuckDBSource(duckdb.from_df(table), push_down=True).sums(marginals, schema)
    np.testing.assert_array_equal(counted, PrivateTable(FrameSource(table), schema, Adjacency()).exact(marginals))


def test_a_relation_is_read_in_blocks_whatever_its_types(database):
    relation = duckdb.sql("SELECT [1, 2] AS age, 'x' AS city FROM range(3)")
    schema = Schema({"age": Integer(0, 9, nullable=True), "city": Categorical(["x"])})
    domain = domain_of(schema, bins=3)
    marginals = Marginals(domain, ((0, 1),))
    assert DuckDBSource(relation, push_down=True).sums(marginals, schema) is None
    assert PrivateTable(DuckDBSource(relation, push_down=True), schema, Adjacency()).exact(marginals).sum() == 3


def test_a_table_without_rows_has_one_empty_block():
    source = DuckDBSource(duckdb.sql("SELECT 1 AS age FROM range(0)"))
    assert [len(block["age"].values) for block in source.blocks({"age": Integer(0, 9)})] == [0]


def test_a_statistic_that_is_no_marginal_is_not_pushed_down(database):
    from synthdp.queries.linear import Total

    assert DuckDBSource(database, name="people", push_down=True).sums(Total(domain_of(SCHEMA)), SCHEMA) is None


def test_more_tables_than_one_query_counts_are_counted_in_several(database, monkeypatch):
    from synthdp.tables.sources import duckdb as module

    monkeypatch.setattr(module, "SETS_A_QUERY", 4)
    domain = domain_of(SCHEMA, bins=3)
    marginals = Marginals(domain, tuple(itertools.combinations(range(6), 3)))
    counted = DuckDBSource(database, name="people", push_down=True).sums(marginals, SCHEMA)
    np.testing.assert_array_equal(counted, PrivateTable(FrameSource(table_of()), SCHEMA, Adjacency()).exact(marginals))


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("none.duckdb", "people", r"none\.duckdb"),
        ("t.duckdb", "persons", r"'persons'.*t\.duckdb.*people"),
    ],
)
def test_a_missing_file_or_table_is_one_clear_error(database, path, name, message):
    with pytest.raises(DataError, match=message):
        DuckDBSource(database.parent / path, name=name)


def test_a_database_of_one_table_needs_no_name(database):
    assert DuckDBSource(database).names == DuckDBSource(database, name="people").names
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE cities (name VARCHAR)")
    with pytest.raises(DataError, match=r"cities.*people"):
        DuckDBSource(database)


def test_an_error_inside_duckdb_quotes_no_value():
    relation = duckdb.sql("SELECT CAST(x AS INTEGER) AS age FROM (SELECT 'secret' || range AS x FROM range(3))")
    with pytest.raises(DataError, match="DuckDB"):
        list(DuckDBSource(relation).blocks({"age": Integer(0, 9)}))


@pytest.mark.slow
@given(my.decimal_numbers() | my.multiples(), st.integers(1, 40))
def test_numbers_of_a_lattice_are_counted_where_the_encoder_puts_them(column, bins):
    """The values themselves, the middles between them, which are rounded, and what is beyond the bounds."""
    lower, upper = float(column.lower), float(column.upper)
    near = np.linspace(lower, upper, 23)
    values = np.concatenate([near, np.nextafter(near, np.inf), [lower - 1, upper + 1, np.inf, -np.inf, np.nan]])
    table = pd.DataFrame({"whole": np.round(values[:-3]).astype(np.int64)[:20], "real": values[-20:]})
    schema = Schema({"whole": column, "real": column})
    domain = Domain(tuple(axis_of(name, column, bins=bins) for name in schema))
    marginals = Marginals(domain, [(0,), (1,), (0, 1)])
    counted = DuckDBSource(duckdb.from_df(table), push_down=True).sums(marginals, schema)
    expected = PrivateTable(FrameSource(table), schema, Adjacency()).exact(marginals)
    assert counted is not None
    assert counted.tolist() == expected.tolist()
