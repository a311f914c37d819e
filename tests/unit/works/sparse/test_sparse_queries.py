"""Sparse queries list the keys they are about; sums over rows agree with evaluating every row."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from synthdp.errors import DataError, ParameterError
from synthdp.queries.supports import DENOMINATOR, KeyList, SparseQuery, Support, key_of, sparse_conjunction
from synthdp.schema.columns import Boolean, Categorical, Continuous
from synthdp.schema.schema import Schema
from synthdp.tables.keys import overlap

SCHEMA = Schema({"a": Boolean(), "b": Boolean(nullable=True), "c": Categorical(["x", "y", "z"]), "d": Continuous(0, 1)})
THREE = ("a", "b", "c")


@pytest.mark.parametrize("literals", [{}, {"a": True}, {"c": "y", "b": 0}, {"a": 1, "b": None, "c": "x"}])
def test_a_conjunction_is_one_on_the_declared_records_with_its_literals(literals):
    query = sparse_conjunction(SCHEMA, literals, columns=THREE)
    world = itertools.product([0, 1], [0, 1, None], "xyz")
    satisfied = {key_of(row) for row in world if all(row[THREE.index(n)] == v for n, v in literals.items())}
    assert set(query.support().keys) == satisfied
    assert query.sparsity == len(satisfied)
    assert (query.support().values == DENOMINATOR).all()
    assert isinstance(query, SparseQuery)


def test_the_size_of_a_support_is_known_without_listing_it():
    wide = Schema({f"q{j}": Boolean() for j in range(200)})
    query = sparse_conjunction(wide, {"q0": 1})
    assert query.sparsity == 2**199
    with pytest.raises(ParameterError, match="literals"):
        query.support()


@pytest.mark.parametrize(
    ("literals", "columns", "message"),
    [
        ({"e": 1}, None, "'e'"),
        ({}, ("a", "d"), "'d'.*levels"),
        ({}, ("z",), "'z'"),
    ],
)
def test_a_conjunction_over_what_is_not_declared_is_refused(literals, columns, message):
    with pytest.raises(ParameterError, match=message):
        sparse_conjunction(SCHEMA, literals, columns=columns)


def test_an_overlap_is_about_the_different_records_of_a_list_or_a_frame_of_any_library():
    names = ["ann", "bob", "ann"]
    of_list = overlap(names, columns=["person"])
    of_pandas = overlap(pd.DataFrame({"person": names}))
    of_polars = overlap(pl.DataFrame({"person": names, "more": [1, 2, 3]}), columns=["person"])
    assert of_list.sparsity == of_pandas.sparsity == of_polars.sparsity == 2
    assert (
        set(of_list.support().keys) == set(of_pandas.support().keys) == set(of_polars.support().keys) == {"ann", "bob"}
    )


def test_an_overlap_needs_the_names_of_its_columns():
    with pytest.raises(ParameterError, match="columns"):
        overlap(["ann"])
    with pytest.raises(DataError, match="'person'"):
        overlap(pd.DataFrame({"name": ["ann"]}), columns=["person"])


def test_weights_are_rounded_and_must_lie_between_zero_and_one():
    query = KeyList.weighted(("p",), {"a": 0.5, "b": 1 / 3})
    np.testing.assert_allclose(query.support().weights, [0.5, 1 / 3], atol=1 / DENOMINATOR)
    assert query.support().total({"a": 4, "c": 9}) == 2 * DENOMINATOR
    for wrong in (1.01, -0.1, float("nan")):
        with pytest.raises(ParameterError, match="values"):
            KeyList.weighted(("p",), {"a": wrong})


def test_a_support_checks_its_bounds_because_sensitivities_rest_on_them():
    with pytest.raises(ParameterError, match="1024"):
        Support(keys=["a"], values=np.array([DENOMINATOR + 1]))
    with pytest.raises(ParameterError, match="differ"):
        Support(keys=["a", "a"], values=np.array([1, 1]))
    with pytest.raises(ParameterError, match="64"):
        Support(keys=["a"], values=np.array([0.5]))
