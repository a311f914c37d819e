"""Weights of synthetic rows, raked to public totals: they meet them, stay as near as can be, and refuse what cannot be."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import synthdp as sd
from synthdp.errors import ParameterError


def table(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"region": rng.choice(["n", "s", "w"], rows), "old": rng.random(rows) < 0.3, "perwt": rng.uniform(1, 90, rows)}
    )


TOTALS = {"region": {"n": 4000, "s": 3000, "w": 9000}, ("old",): {True: 6000, False: 10_000}}


def test_groups_add_up_and_each_weight_has_one_factor_for_every_total():
    rows = table()
    found = sd.rake_weights(rows, "perwt", TOTALS)
    for totals, name in zip(TOTALS.values(), ("region", "old"), strict=True):
        assert pd.Series(found).groupby(rows[name]).sum().to_dict() == pytest.approx(totals, rel=1e-6)
    factors = np.log(found / rows["perwt"]).groupby([rows["region"], rows["old"]])
    assert factors.std().max() < 1e-9
    by = factors.mean().unstack()
    gaps = by[True] - by[False]
    np.testing.assert_allclose(gaps, gaps.iloc[0], atol=1e-7)  # no factor but those of the two totals


def test_crossed_totals_and_other_libraries():
    rows = table(60)
    crossed = {("region", "old"): pd.Series(1.0, pd.MultiIndex.from_product([["n", "s", "w"], [True, False]]))}
    found = sd.rake_weights(pl.from_pandas(rows), "perwt", crossed)
    assert found.sum() == pytest.approx(6)


@pytest.mark.parametrize(
    "totals",
    [
        {}, {"region": {"n": 1, "s": 1}}, {"region": {"n": 1, "s": 1, "w": -1}}, {"region": 5},
        {"region": {"n": 1, "s": 1, "w": 1, "x": 1}}, {**TOTALS, "old": {True: 1, False: 1}},
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_refused(totals):
    with pytest.raises(ParameterError):
        sd.rake_weights(table(60), "perwt", totals)
    rows = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], "w": [1.0, 1.0]})
    with pytest.raises(ParameterError):
        sd.rake_weights(rows, "w", {"a": {"x": 1, "y": 3}, "b": {"u": 2, "v": 2}})
    with pytest.raises(ParameterError):
        sd.rake_weights(rows.assign(w=0.0), "w", {"a": {"x": 1, "y": 3}})
