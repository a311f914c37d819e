"""Sampling given values: the rows have the model's conditional law, cell by cell and grid point by grid point."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from rule_models import model_of
from scipy import stats

from synthdp.distribution.components import Product
from synthdp.domain.domain import Domain, axis_of
from synthdp.domain.refinement import Refinement
from synthdp.domain.values import mask_of_values
from synthdp.errors import ParameterError
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal
from synthdp.schema.constraints import Forbidden
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

SCHEMA = Schema(
    {
        "age": Integer(0, 39, nullable=True),
        "school": Ordinal(["none", "some", "all"]),
        "job": Categorical(["cook", "pilot"], other="another"),
        "rich": Boolean(),
    },
    constraints=[Forbidden({"school": "none", "job": "pilot"}), Forbidden({"age": None, "rich": True})],
)


ONE_ORDERED = Schema(
    {name: Categorical(["none", "some", "all"]) if name == "school" else SCHEMA[name] for name in SCHEMA},
    constraints=SCHEMA.constraints,
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
    """Compare many small samples with the law, and with a wrong one, by chi-square.

    Inside bins, ordered columns may depend on each other more than the law of the bins says (`inside_groups`), but
    neither the bins nor a column's values may change by that.  With one ordered column, all points have the joint law.
    """
    model, drawn, probability, rows = samples_given(SCHEMA, given, particles, draws)
    by_bin = [r.coarse_cell[r.fine.cells_of(np.arange(axis.grid.releasable, dtype=np.uint32))]
              for r, axis in zip(model.refinements, model.domain.axes, strict=True)]  # fmt: skip
    every = range(len(SCHEMA))
    check_law(
        model.domain.ravel(np.column_stack([by_bin[j][rows[j]] for j in every]), every), probability,
        model.domain.ravel(np.column_stack([by_bin[j][drawn[j]] for j in every]), every),
    )  # fmt: skip
    for j in every:
        check_law(rows[j], probability, drawn[j], and_not_another=False)
    listed = {name: [*value] if name == "school" else value for name, value in given.items()}
    model, drawn, probability, rows = samples_given(ONE_ORDERED, listed, particles, draws)
    sizes = [axis.grid.releasable for axis in model.domain.axes]
    check_law(np.arange(len(probability)), probability, np.ravel_multi_index(drawn, sizes))


def samples_given(schema, given, particles, draws):
    """Return a model, the grid points of samples of five rows by column, and the law of all rows of grid points."""
    model = model_of(schema, coarse=3, bins=8, seed=3, particles=particles)
    probability, rows = joint_of(model)
    for name, value in given.items():
        j = schema.names.index(name)
        probability = probability * mask_of_values(schema[name], value)[rows[j]]
    probability /= probability.sum()
    samples = [model.sample_indices(5, np.random.default_rng(seed), given=given) for seed in range(draws)]
    drawn = [np.concatenate([sample[name] for sample in samples]).astype(int) for name in schema.names]
    cells = np.ravel_multi_index(drawn, [axis.grid.releasable for axis in model.domain.axes])
    assert (probability[cells] > 0).all()
    return model, drawn, probability, rows


def check_law(cells, probability, drawn, *, and_not_another=True):
    """Check the counts of ``drawn`` cells by chi-square against the law of ``cells``, and against a wrong one.

    Of few cells, as a column given values may have, a wrong law can be the right one.
    """
    law = np.bincount(cells, weights=probability)
    observed = np.bincount(drawn, minlength=len(law))
    likely = law * len(drawn) > 5
    expected = np.append(law[likely], law[~likely].sum()) * len(drawn)
    found = np.append(observed[likely], observed[~likely].sum())
    keep = expected > 0
    if np.count_nonzero(keep) < 2:
        return  # one cell has all rows, and no row is in a cell of probability 0
    assert stats.chisquare(found[keep], expected[keep]).pvalue > 1e-9
    if and_not_another:
        wrong = np.append(expected[keep][1:], expected[keep][0])
        assert stats.chisquare(found[keep], wrong).pvalue < 1e-9


@pytest.mark.landing
def test_small_samples_invent_no_relation_inside_bins():
    """Correlations are not estimated from the few rows of a sample: the bins are independent, and so are its rows."""
    schema = Schema({"a": Integer(0, 63), "b": Integer(0, 63)})
    axes = [axis_of(name, column, bins=64) for name, column in schema.items()]
    refinements = tuple(
        Refinement(axis, np.minimum(np.arange(axis.size) // 32, 1), np.ones(axis.size)) for axis in axes
    )
    domain = Domain(tuple(refinement.coarse() for refinement in refinements))
    model = SyntheticModel(
        schema=schema, domain=domain, distribution=Product(shape=domain.shape, margins=tuple(np.full(2, 0.5) for _ in axes)),
        refinements=refinements, total=1000.0, format=TableFormat.default(schema),
    )  # fmt: skip
    related = []
    for seed in range(1500):
        drawn = [column.astype(int) for column in model.sample_indices(10, np.random.default_rng(seed)).values()]
        of_bins, inside = (np.corrcoef(*(part(column) for column in drawn))[0, 1] for part in (bin_of, place_in_bin))
        related.append(of_bins * inside)
    assert np.mean(related) < 0.004  # .008 where the sample's own correlations were used; 0 expected, +- .0013


def bin_of(values):
    return values // 32


def place_in_bin(values):
    return values % 32


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
    with pytest.raises(ParameterError, match=r"'school'.*'job'"):
        model_of(SCHEMA).sample(5, random_state=0, given={"school": "none", "job": "pilot"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"height": 1}, "'height'"),
        ({"age": 40}, "'age'.*40"),
        ({"age": "old"}, "'old'.*'age'"),
        ({"age": True}, "True.*'age'"),
        ({"age": (9, 3)}, r"'age'.*\b9\b.*\b3\b"),
        ({"age": (60, 80)}, "'age'.*60.*80"),
        ({"age": []}, "'age'"),
        ({"school": None}, "'school'.*None"),
        ({"school": ("all", "none")}, "'all'.*'none'"),
        ({"school": "most"}, "'school'.*'most'"),
        ({"job": "doctor"}, "'job'.*'doctor'"),
        ({"rich": [[True], {}]}, "'rich'.*{}"),
    ],
)
def test_values_that_a_column_cannot_hold_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        model_of(SCHEMA).sample(5, random_state=0, given=given)


def test_an_identifier_carries_no_information():
    with pytest.raises(ParameterError, match="'id'"):
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
