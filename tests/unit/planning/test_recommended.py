"""One epsilon of a plan is recommended, with reasons that follow from its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from synthdp.figures import WIDTH
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
    assert "good, recommended" in curve(made)
    assert "  recommend   ε = 1\n" in curve(made)


@pytest.mark.parametrize(
    ("one", "two", "independent", "word"),
    [(0.01, 0.04, 0.2, "good"), (0.01, 0.06, 0.2, "fair"), (0.01, 0.2, 0.2, "weak"), (0.11, 0.2, 0.3, "poor")],
)
def test_a_plan_has_a_verdict_and_fits_a_terminal(one, two, independent, word) -> None:
    made = replace(
        BASE, errors={1: one, 2: two}, independent={1: one, 2: independent}, noise={1: 38.0, 2: 45.0},
        by_column={"a rather long name of a column " * 3: 0.01}, advice=("say something long " * 12,), why="because " * 20,
    )  # fmt: skip
    assert made.verdict == word
    assert f"  verdict     {word}: " in str(made)
    assert "± 38 rows" in str(made)
    assert max(map(len, [*str(made).splitlines(), *curve([made, made]).splitlines()])) <= WIDTH
