"""How many child rows parents have, where noise is large beside the persons and up to sixty rows are allowed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from no_noise import with_repeatable_noise

import synthdp as sd
from synthdp.measurements import beyond_noise
from synthdp.mechanisms.column_sizes import past_the_largest


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e4, 1e4)), st.floats(1e-3, 1e3))
def test_a_number_is_past_the_largest_if_neither_it_nor_any_above_is_more_than_noise(
    counts: np.ndarray, stddev: float
) -> None:
    limit, many = beyond_noise(stddev, 2 * len(counts)), len(counts)
    first, last = many, 0
    for width in (1, 2, 4, 8, 16, 32):  # a run of numbers counts if all of it is outside of what shorter runs found
        sums = {start: counts[start : start + width].sum() for start in range(many - width + 1)}
        runs = [start for start, sum_ in sums.items() if sum_ > limit * np.sqrt(width)]
        runs = [start for start in runs if start >= last or start + width <= first]
        if runs:
            first, last = min(first, runs[0]), max(last, runs[-1] + width)
    last = last or many
    while last < many and counts[last] > stddev:
        last += 1
    assert np.flatnonzero(past_the_largest(counts, stddev)).tolist() == list(range(last, many))


@pytest.mark.parametrize(("persons", "epsilon", "mean"), [(300, 5.0, 0.5), (300, 1.0, 3.0), (2000, 1.0, 0.5)])
def test_noise_far_above_all_numbers_of_rows_makes_no_rows(
    persons: int, epsilon: float, mean: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = sd.DatabaseSchema(
        {"p": sd.Schema({"c": sd.Categorical(["0", "1"])}), "k": sd.Schema({"t": sd.Categorical(["a", "b"])})},
        [sd.Relation("p", "k", key="id", at_most=60)],
    )
    times = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        parents = pd.DataFrame({"id": range(persons), "c": rng.choice(["0", "1"], persons)})
        of = np.repeat(np.arange(persons), rng.poisson(mean, persons))
        kids = pd.DataFrame({"id": of, "t": rng.choice(["a", "b"], len(of))})
        with_repeatable_noise(monkeypatch)
        release = sd.DatabaseRelease(schema=schema, epsilon=epsilon, delta=1e-9, random_state=seed)
        made = release.fit({"p": parents, "k": kids}).sample()
        times.append(len(made["k"]) / len(kids) * persons / len(made["p"]))
    assert np.median(times) < 1.6
    assert max(times) < 3
