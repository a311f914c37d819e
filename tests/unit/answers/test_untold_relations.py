"""Where nothing was measured of relations, intervals hold whatever single columns allow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.answers.grouping import QuestionBinning
from synthdp.answers.unmeasured_relations import farthest, is_product, rearranged
from synthdp.domain.domain import axis_of
from synthdp.domain.refinement import Refinement
from synthdp.schema.columns import Integer

SIZE = 4
REFINEMENT = Refinement.trivial(axis_of("x", Integer(0, SIZE - 1)))
VALUES = np.arange(SIZE, dtype=np.float64)


def grouped(groups: list[int], column: int, *, valued: bool = False) -> QuestionBinning:
    """Return the division of a column of `SIZE` values into groups; -1 is in none."""
    labels = tuple(range(max(groups) + 1))
    return QuestionBinning(
        column=column, groups=np.array(groups), labels=labels, refinement=REFINEMENT, values=VALUES if valued else None
    )


@st.composite
def joint_tables(draw: st.DrawFn, columns: int) -> np.ndarray:
    """Draw the shares of rows in a table of columns of `SIZE` values, perhaps strongly related."""
    seed, sharp = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.02, 0.2, 1.0]))
    return np.random.default_rng(seed).dirichlet(np.full(SIZE**columns, sharp)).reshape([SIZE] * columns)


def margins_of(table: np.ndarray) -> list[np.ndarray]:
    every = range(table.ndim)
    found = [table.sum(axis=tuple(i for i in every if i != j)) for j in every]
    return [np.append(one, 0.0) for one in found]  # no row is out of the domain


def answered(table: np.ndarray, groupings: list[QuestionBinning], function) -> np.ndarray:
    """Return a function of the table of groups of a table of values."""
    for grouping in groupings:
        table = np.tensordot(table, grouping.cell_share[:SIZE], axes=(0, 0))
    return function(table)


def alone(margins: list[np.ndarray]) -> np.ndarray:
    table = margins[0][:SIZE]
    for one in margins[1:]:
        table = np.multiply.outer(table, one[:SIZE])
    return table


def bound(margins, groupings, function) -> tuple[np.ndarray, np.ndarray]:
    independent = answered(alone(margins), groupings, function)
    return independent, farthest(groupings, [one[:, None] for one in margins], function, independent)


@pytest.mark.parametrize("columns", [2, 3])
@given(data=st.data())
def test_no_joint_table_has_a_conjunction_further_off_and_frechets_bound_is_reached(columns, data):
    table = data.draw(joint_tables(columns))
    inside = data.draw(st.lists(st.sampled_from([[0, -1, 0, -1], [0, 0, -1, -1], [-1, -1, -1, 0]]),
                                min_size=columns, max_size=columns))  # fmt: skip
    groupings, margins = [grouped(one, j) for j, one in enumerate(inside)], margins_of(table)
    share = lambda found: found.ravel()  # noqa: E731
    independent, most = bound(margins, groupings, share)
    assert (np.abs(answered(table, groupings, share) - independent) <= most + 1e-9).all()
    parts = [float(margin[:SIZE][np.array(one) == 0].sum()) for margin, one in zip(margins, inside, strict=True)]
    furthest = max(min(parts) - independent[0], independent[0] - max(0.0, sum(parts) - columns + 1))
    if columns == 2:
        assert most[0] == pytest.approx(furthest, abs=1e-9)
    else:  # columns that exclude each other two by two cannot follow one number, but Fréchet's upper bound is reached
        assert most[0] >= min(parts) - independent[0] - 1e-9


@given(data=st.data())
def test_no_joint_table_has_a_mean_of_a_group_further_off(data):
    table = data.draw(joint_tables(2))
    groupings, margins = (
        [grouped([0, 1, 2, 3], 0, valued=False), grouped([0, 0, 0, 0], 1, valued=True)],
        margins_of(table),
    )

    def means(found: np.ndarray) -> np.ndarray:
        return found[:, 1] / np.maximum(found[:, 0], 1e-12)

    independent, most = bound(margins, groupings, means)
    there = margins[0][:SIZE] > 1e-6
    assert (np.abs(answered(table, groupings, means) - independent)[there] <= most[there] + 1e-9).all()


def test_a_table_of_independent_columns_is_told_from_another():
    margins = [np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])]
    table = np.outer(*margins).ravel()
    assert is_product(table, margins)
    assert not is_product(table + np.array([0.01, -0.01, 0, -0.01, 0.01, 0]), margins)


def test_points_are_rearranged_and_never_changed():
    points = np.random.default_rng(0).normal(size=(50, 3))
    found = list(rearranged(points))
    assert len({one.tobytes() for one in found}) == 4**3
    assert all((np.sort(one, axis=0) == np.sort(points, axis=0)).all() for one in found)


HIDDEN = np.random.default_rng(1).random(1500) < 0.4
TABLE = pd.DataFrame(
    {f"b{j}": np.where(np.random.default_rng(j).random(1500) < 0.04, ~HIDDEN, HIDDEN) for j in range(12)}
)
TABLE["x"] = np.clip(np.rint(40 + 20 * HIDDEN + 5 * np.random.default_rng(9).normal(size=1500)), 0, 100).astype(int)
TABLE["y"] = np.clip(100 - TABLE["x"] + np.random.default_rng(8).integers(-3, 4, 1500), 0, 100)
SCHEMA = sd.Schema({**{f"b{j}": sd.Boolean() for j in range(12)}, "x": sd.Integer(0, 100), "y": sd.Integer(0, 100)})
QUESTIONS = {
    "share": (sd.share("b0 == true and b1 == true"), (TABLE.b0 & TABLE.b1).mean()),
    "of some rows": (sd.share("b0 == true", where="b1 == true"), TABLE.b0[TABLE.b1].mean()),
    "count": (sd.count(where="b0 == true and b1 == false"), (TABLE.b0 & ~TABLE.b1).sum()),
    "three": (sd.share("b0 == true and b1 == true and b2 == true"), (TABLE.b0 & TABLE.b1 & TABLE.b2).mean()),
    "mean": (sd.mean("x", where="b0 == true"), TABLE.x[TABLE.b0].mean()),
    "quantile": (sd.quantile("x", where="b0 == true"), TABLE.x[TABLE.b0].median()),
    "correlation": (sd.correlation("x", "y"), TABLE.x.corr(TABLE.y)),
}


@pytest.fixture(scope="module")
def releases() -> list[sd.SyntheticRelease]:
    """Releases of so little budget that no relation is scored or measured."""
    return [sd.SyntheticRelease(schema=SCHEMA, epsilon=0.1, delta=1e-6).fit(TABLE) for _ in range(6)]


@pytest.mark.parametrize("kind", QUESTIONS)
def test_intervals_hold_relations_of_which_nothing_was_measured(kind, releases):
    question, truth = QUESTIONS[kind]
    answers = [release.answer(question).iloc[0] for release in releases]
    assert not any(np.isnan(one["standard_error"]) for one in answers)
    inside = sum(one["lower"] <= truth <= one["upper"] for one in answers)
    assert (
        inside >= 4
    )  # each misses 5 times in 100 at most: three of six do once in 500 times, and all kinds nearly never


def test_a_relation_that_was_measured_keeps_its_interval():
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=3.0, delta=1e-6).fit(TABLE)
    found = release.answer(sd.correlation("x", "y")).iloc[0]
    assert found["lower"] < TABLE.x.corr(TABLE.y) < found["upper"] < 0
