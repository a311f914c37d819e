"""One epsilon of a plan is recommended, with reasons that follow from its figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import synthdp as sd
from synthdp.planning.plan import ACCURATE, WEAKEST, Plan, accuracy_chart, curve, recommended

BASE = Plan(
    rows=1000, columns=3, epsilon=1.0, delta=1e-9, neighbors="add_remove", mechanism="m", why="w",
    errors={1: 0.01, 2: 0.03, 3: 0.1}, independent={1: 0.01, 2: 0.2, 3: 0.3}, by_column={"a": 0.01}, like_rows=500,
    seconds=1.0, stages={"fit": 1.0}, memory_mb=300.0, advice=(),
)  # fmt: skip


def plans(errors: dict[float, float]) -> list[Plan]:
    return [replace(BASE, epsilon=epsilon, errors={1: error / 3, 2: error}) for epsilon, error in errors.items()]


@pytest.mark.parametrize(
    ("errors", "epsilon"),
    [
        ({0.1: 0.04, 1.0: 0.01}, 0.1),
        ({0.1: 0.4, 0.3: 0.049, 1.0: 0.03}, 0.3),
        ({3.0: 0.04, 1.0: 0.06, 0.1: 0.4}, 3.0),
        ({0.1: 0.4, 1.0: 0.2, 3.0: 0.1}, 1.0),
        ({0.1: 0.4, 1.0: 0.2, 10.0: 0.01}, 1.0),
        ({10.0: 0.01}, 10.0),
    ],
)
def test_the_least_epsilon_that_is_accurate_enough_is_recommended_and_never_a_weak_one(errors, epsilon) -> None:
    chosen, reasons = recommended(plans(errors))
    assert chosen.epsilon == epsilon
    assert f"At ε = {epsilon:g}" in reasons[0]
    assert ("No ε up to" in reasons[-1]) == (
        min(e for k, e in errors.items() if k <= WEAKEST or len(errors) == 1) > ACCURATE
    )


def test_a_single_column_is_judged_by_itself() -> None:
    chosen, reasons = recommended([replace(BASE, errors={1: 0.04}, independent={1: 0.04}, columns=1)])
    assert chosen.errors == {1: 0.04}
    assert "shares of the column are expected to be off by 4 of 100 rows" in reasons[0]


def test_the_picture_has_a_point_for_each_epsilon_and_the_text_names_the_recommended_one() -> None:
    made = plans({0.1: 0.4, 0.3: 0.1, 1.0: 0.04})
    picture = accuracy_chart(made)
    assert picture.count("<circle") == 3
    assert picture.count('class="bar"') == 1
    assert "ε = 1: 4 of 100 rows" in picture
    assert accuracy_chart(made[:1]) == ""
    assert "Recommended: ε = 1\n" in curve(made)


def test_a_plan_comes_back_from_its_document() -> None:
    schema = sd.Schema({"age": sd.Integer(0, 100), "ward": sd.Categorical(["a", "b"])})
    for plan in sd.plan(schema, rows=500, epsilon=[0.3, 1.0]):
        assert Plan.of_document(json.loads(json.dumps(plan.to_document()))) == plan
