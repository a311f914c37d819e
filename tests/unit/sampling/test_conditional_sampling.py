"""Sampling given values: the rows have the model's conditional law, cell by cell and grid point by grid point."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from rule_models import model_of
from scipy import stats

from synthdp.domain.domain import Domain
from synthdp.domain.values import mask_of_values
from synthdp.errors import ParameterError
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal
from synthdp.schema.constraints import Forbidden
from synthdp.schema.schema import Schema

SCHEMA = Schema(
    {
        "age": Integer(0, 39, nullable=True),
        "school": Ordinal(["none", "some", "all"]),
        "job": Categorical(["cook", "pilot"], other="another"),
        "rich": Boolean(),
    },
    constraints=[Forbidden({"school": "none", "job": "pilot"}), Forbidden({"age": None, "rich": True})],
)


def joint_of(model) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the probability of every row of grid points, flat, and the grid points of each column: by brute force."""
    sizes = [axis.grid.releasable for axis in model.domain.axes]
    rows = np.indices(sizes).reshape(len(sizes), -1)
    fine = [r.fine.cells_of(indices.astype(np.uint32)) for r, indices in zip(model.refinements, rows, strict=True)]
    probability = np.ones(rows.shape[1])
    cells = np.column_stack([r.coarse_cell[f] for r, f in zip(model.refinements, fine, strict=True)])
    every = model.distribution.marginal(tuple(range(len(sizes))))
    probability *= every[model.domain.ravel(cells, range(len(sizes)))]
    for r, f in zip(model.refinements, fine, strict=True):
        share = r.weights / np.bincount(r.coarse_cell, weights=r.weights)[r.coarse_cell]
        probability *= share[f] / r.fine.width[f]
    return probability, list(rows)


GIVEN = [
    {"age": (3, 17)},
    {"age": None},
    {"age": [4, 5, 31, None], "job": "another"},
    {"age": (None, 22), "school": ("some", "all")},
    {"school": ["none", "all"], "rich": True},
    {"age": 7, "job": ["cook", "pilot"], "rich": False},
]


@pytest.mark.landing
@pytest.mark.parametrize(("given", "particles"), [(GIVEN[0], 0), (GIVEN[3], 500)])
def test_rows_given_values_have_the_conditional_law_of_the_model(given, particles):
    check_conditional_law(given, particles, draws=150)


@pytest.mark.slow
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("particles", [0, 500])
def test_many_rows_given_values_have_the_conditional_law_of_the_model(given, particles):
    check_conditional_law(given, particles, draws=2000)


def check_conditional_law(given, particles, *, draws):
    """Compare the cells of many small samples with the law, and with a wrong one, by chi-square."""
    model = model_of(SCHEMA, coarse=3, bins=8, seed=3, particles=particles)
    probability, rows = joint_of(model)
    for name, value in given.items():
        j = SCHEMA.names.index(name)
        probability = probability * mask_of_values(SCHEMA[name], value)[rows[j]]
    probability /= probability.sum()
    samples = [model.sample_indices(5, np.random.default_rng(seed), given=given) for seed in range(draws)]
    drawn = [np.concatenate([sample[name] for sample in samples]).astype(int) for name in SCHEMA.names]
    cells = np.ravel_multi_index(drawn, [axis.grid.releasable for axis in model.domain.axes])
    observed = np.bincount(cells, minlength=len(probability))
    assert observed[probability == 0].sum() == 0
    likely = probability * 5 * draws > 5
    rest = ~likely & (probability > 0)
    expected = np.append(probability[likely], probability[rest].sum()) * 5 * draws
    found = np.append(observed[likely], observed[rest].sum())
    keep = expected > 0
    assert stats.chisquare(found[keep], expected[keep]).pvalue > 1e-9
    wrong = np.append(expected[keep][1:], expected[keep][0])
    assert stats.chisquare(found[keep], wrong).pvalue < 1e-9


def test_given_values_show_in_every_row():
    table = model_of(SCHEMA).sample(500, random_state=0, given={"age": (10, 19), "school": "all", "rich": True})
    assert table["age"].between(10, 19).all()
    assert (table["school"] == "all").all()
    assert table["rich"].all()


def test_a_range_that_cuts_grid_points_holds_only_values_inside_it():
    schema = Schema({"x": Continuous(0, 1), "t": Datetime("2000-01-01", "2000-12-31", resolution="D")})
    given = {"x": (0.12345, 0.23456), "t": (dt.datetime(2000, 3, 1, 12, tzinfo=dt.UTC), "2000-03-20T01:00")}
    table = model_of(schema).sample(5000, random_state=0, given=given)
    assert table["x"].between(0.12345, 0.23456).all()
    assert table["t"].min() == pd.Timestamp("2000-03-02")
    assert table["t"].max() == pd.Timestamp("2000-03-20")


def test_a_range_inside_one_grid_point_stands_for_that_grid_point():
    schema = Schema({"x": Integer(0, 2**40)})
    table = model_of(schema).sample(10, random_state=0, given={"x": (5 * 2**20 + 1, 5 * 2**20 + 2)})
    assert (abs(table["x"] - 5 * 2**20) <= 2**20).all()


def test_evidence_of_probability_zero_is_refused_in_one_sentence():
    with pytest.raises(ParameterError, match="the values given for 'school' and 'job' have probability 0 in the model"):
        model_of(SCHEMA).sample(5, random_state=0, given={"school": "none", "job": "pilot"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"height": 1}, "there is no column 'height'"),
        ({"age": 40}, "column 'age' cannot hold the value 40"),
        ({"age": "old"}, "'old' is not a value of column 'age', which is of type Integer"),
        ({"age": True}, "True is not a value of column 'age'"),
        ({"age": (9, 3)}, r"whose lower end \(9\) is above its upper end \(3\)"),
        ({"age": (60, 80)}, "column 'age' has no value between 60 and 80"),
        ({"age": []}, "no value is given for column 'age'"),
        ({"school": None}, "column 'school' cannot hold the value None"),
        ({"school": ("all", "none")}, "whose lower end"),
        ({"school": "most"}, "column 'school' cannot hold the value 'most'"),
        ({"job": "doctor"}, "column 'job' cannot hold the value 'doctor'"),
        ({"rich": [[True], {}]}, "column 'rich' cannot hold the value {}"),
    ],
)
def test_values_that_a_column_cannot_hold_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        model_of(SCHEMA).sample(5, random_state=0, given=given)


def test_an_identifier_carries_no_information():
    with pytest.raises(ParameterError, match="is an identifier"):
        mask_of_values(Identifier(), 1, name="id")


def test_a_sample_is_repeated_by_its_seed_whatever_the_threads():
    model = model_of(SCHEMA)
    pd.testing.assert_frame_equal(model.sample(300, random_state=4), model.sample(300, random_state=4))
    assert isinstance(model.domain, Domain)


def test_a_range_holds_the_special_numbers_that_lie_in_it_between_the_bounds():
    """A number that stands out is a number; a code beyond the bounds is none, whatever the range."""
    column = Integer(0, 100, special=[-1, 0, 40, 999])
    codes = range(101, 105)  # the grid indices of -1, 0, 40 and 999
    assert [mask_of_values(column, (0, 39))[unit] for unit in codes] == [False, True, False, False]
    assert [mask_of_values(column, (40, None))[unit] for unit in codes] == [False, False, True, False]
    assert [mask_of_values(column, (None, None))[unit] for unit in codes] == [False, True, True, False]
