"""The error bar of a summary's answer has the right width: neither 30 % more nor 30 % less would pass."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from synthdp.curator.curator import Curator
from synthdp.privacy.loss import ZCDP
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
