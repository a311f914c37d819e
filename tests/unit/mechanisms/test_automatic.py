"""The automatic choice: by the schema, and for tables of numbers by a noisy number of rows."""

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp import ApproxDP, Categorical, Continuous, Curator, Integer, LessEqual, PureDP, Schema
from synthdp.errors import ParameterError
from synthdp.mechanisms.automatic import Automatic, may_be_smooth, one_way_noise

NUMBERS = Schema({"x": Continuous(0, 1), "y": Continuous(0, 1), "n": Integer(0, 9)})


def table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.random(rows), "y": rng.random(rows), "n": rng.integers(0, 10, rows)})


def chosen(rows: int, **settings: object) -> str:
    curator = Curator(table(rows), schema=NUMBERS, **{"budget": ApproxDP(1.0, 1e-9), **settings})
    release = Automatic().release(curator, random_state=0)
    assert curator.remaining is None
    assert len(release.sample(10)) == 10
    return release.mechanism


@pytest.mark.sampled
@pytest.mark.parametrize("settings", [{}, {"neighbors": "replace_one"}, {"budget": PureDP(1.0)}])
def test_few_rows_of_numbers_go_to_smooth_synthesis_and_many_to_marginals(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_noise(monkeypatch)
    assert chosen(200, **settings) == "SmoothSynthesis (product)"
    assert chosen(20_000, **settings) == "adaptive marginals"


def test_other_tables_are_never_smooth() -> None:
    assert may_be_smooth(NUMBERS)
    assert not may_be_smooth(Schema({"x": Continuous(0, 1)}))
    assert not may_be_smooth(Schema({"x": Continuous(0, 1), "c": Categorical(["a"])}))
    assert not may_be_smooth(Schema({"x": Integer(0, 9), "y": Integer(0, 9)}, constraints=[LessEqual("x", "y")]))


def test_the_noise_of_the_choice_is_that_of_one_histogram_a_column() -> None:
    curator = Curator(table(10), schema=NUMBERS, budget=PureDP(3.0))
    laplace = 1 / (np.sqrt(2) * np.sinh(0.5))  # epsilon 1 for each of three columns
    assert one_way_noise(NUMBERS, PureDP(3.0), curator.adjacency) == pytest.approx(laplace, rel=1e-6)


@pytest.mark.parametrize("wish", [{"workload": [("x", "nowhere")]}, {"target": "nowhere"}])
@pytest.mark.parametrize("rows", [200, 20_000])
def test_a_wish_for_an_unknown_column_is_refused_for_free_whatever_is_chosen(
    wish: dict[str, object], rows: int
) -> None:
    curator = Curator(table(rows), schema=NUMBERS, budget=PureDP(1.0))
    with pytest.raises(ParameterError):
        Automatic(**wish).release(curator, random_state=0)
    assert curator.remaining == PureDP(1.0)
