"""The error bar of a summary's answer has the right width: neither 30 % more nor 30 % less would pass."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from synthdp.curator import Curator
from synthdp.privacy.loss import ZCDP, PureDP
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.works.smooth.summary import SmoothSummary

RELEASES, LEVEL = 600, 1e-9


def plausible(z: np.ndarray) -> bool:
    """Whether standard normal draws have such a sum of squares, at p = 1e-9 on each side."""
    low, high = chi2.ppf([LEVEL, 1 - LEVEL], len(z))
    return bool(low < (z**2).sum() < high)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_errors_in_units_of_the_error_bar_are_standard_normal(neighbors):
    table = pd.DataFrame({"x": np.linspace(-0.5, 0.9, 500)})
    schema = Schema({"x": Continuous(-1, 1)})
    query = lambda p: 2 * p[:, 0] - p[:, 0] ** 3  # noqa: E731
    truth = query(table.to_numpy()).mean()
    z = np.empty(RELEASES)
    for i in range(RELEASES):
        curator = Curator(table, schema=schema, budget=ZCDP(5.0), neighbors=neighbors)
        answer = SmoothSummary(degrees=5).release(curator).output.answer(query)
        z[i] = (float(answer) - truth) / answer.stderr
    assert plausible(z)
    assert not plausible(1.3 * z)
    assert not plausible(z / 1.3)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [50, 100, 200, 400])
def test_intervals_of_means_of_small_tables_hold_the_truth_and_stay_within_the_range(rows):
    """Of Fieller's intervals .95 should hold; 300 of which .93 do would show .88 once in a thousand times."""
    schema, query = Schema({"x": Continuous(-1, 1)}), lambda p: np.exp(-2 * (p[:, 0] - 0.3) ** 2)
    inside = np.empty(300, np.bool_)
    for i in range(len(inside)):
        rng = np.random.default_rng([i, rows])
        table = pd.DataFrame({"x": np.clip(rng.normal(0.4, 0.4, rows), -1, 1)})
        curator = Curator(table, schema=schema, budget=PureDP(1.0))
        answer = SmoothSummary(smoothness=4).release(curator).answer(query)
        assert 0.0 <= answer["lower"].item() <= answer["estimate"].item() <= answer["upper"].item() <= 1.0
        inside[i] = answer["lower"].item() <= query(table.to_numpy()).mean() <= answer["upper"].item()
    assert inside.mean() > 0.88
