"""Columns of persons that are related with each other: shares of each stay as measured, whatever the fit has to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.randomness import generator

PERSONS, COLUMNS = 8000, 6


@pytest.mark.sampled
def test_shares_of_related_columns_are_as_measured() -> None:
    """Of six columns that follow one unseen value, the fit left the last one's shares .03 off, ten times the noise."""
    rng = np.random.default_rng(0)
    unseen = rng.integers(0, 3, PERSONS)
    codes = {f"c{i}": np.where(rng.random(PERSONS) < 0.6, unseen, rng.integers(0, 3, PERSONS)) for i in range(COLUMNS)}
    persons = pd.DataFrame({"id": range(PERSONS), **codes})
    rows = pd.DataFrame({"id": range(PERSONS), "x": rng.integers(0, 2, PERSONS)})
    schema = sd.DatabaseSchema(
        {
            "persons": sd.Schema({name: sd.Categorical([0, 1, 2]) for name in codes}),
            "rows": sd.Schema({"x": sd.Categorical([0, 1])}),
        },
        [sd.Relation("persons", "rows", key="id", at_most=1)],
    )
    release = sd.DatabaseRelease(schema=schema, epsilon=5.0, delta=1e-6, random_state=0)
    release.fit({"persons": persons, "rows": rows})
    drawn = release.release_.output.histories.draw(100_000, generator(0)).tables[0]
    for name, values in codes.items():
        found = np.bincount(drawn[name], minlength=3)[:3] / len(drawn)
        assert np.abs(found - np.bincount(values, minlength=3) / PERSONS).max() < 0.01
