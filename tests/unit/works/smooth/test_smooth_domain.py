"""Where values lie on [-1, 1], how finely a table is read, and settings that nothing may shorten in silence."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.domain.encoder import Numbers, encode
from synthdp.domain.grid import bounds_of
from synthdp.errors import ParameterError
from synthdp.works.smooth.kernels import GaussianKernels, kernel_degrees
from synthdp.works.smooth.support import cells_read, scaled_points, smooth_domain

NUMBERS = {
    "whole": (sd.Integer(0, 3), np.arange(4)),
    "negative": (sd.Integer(-7, 2), np.arange(-7, 3)),
    "many": (sd.Integer(0, 10**9), np.linspace(0, 10**9, 999).astype(int)),
    "hundredths": (sd.Continuous(0, 5, decimals=2), np.arange(501) / 100),
    "real": (sd.Continuous(-3, 8), np.linspace(-3, 8, 999)),
    "far from 0": (sd.Continuous(1e15, 1e15 + 1), 1e15 + np.arange(9) / 8),
}


def curator_of(values: object, column: object, *, epsilon: float = 1e5) -> sd.Curator:
    table = pd.DataFrame({"x": values})
    return sd.Curator(table, schema=sd.Schema({"x": column}), budget=sd.PureDP(epsilon), neighbors="replace_one")


@pytest.mark.sampled
@pytest.mark.parametrize("cells", [3, 7, 300, 300_000])
@pytest.mark.parametrize("kind", list(NUMBERS))
def test_no_value_is_read_further_off_than_the_cells_say(kind, cells):
    column, values = NUMBERS[kind]
    domain = smooth_domain(sd.Schema({"x": column}), ("x",), cells=cells)
    lower, upper = bounds_of(column)
    scaled = (2 * (values - lower) - (upper - lower)) / (upper - lower)
    read = scaled_points(domain.axes[0])[domain.axes[0].cells_of(encode(column, Numbers(values)))]
    assert np.abs(scaled - read).max() <= 1 / cells_read(domain, cells) + 1e-12
    assert cells_read(domain, cells) <= cells


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("kind", ["whole", "negative", "hundredths", "real"])
def test_a_declared_bound_is_an_end_of_the_interval(kind, end):
    column, values = NUMBERS[kind]
    release = sd.SmoothSummary(degrees=2).release(curator_of(np.full(1000, values[-end]), column))
    assert float(release.output.answer(lambda x: x[:, 0])) == pytest.approx(2 * end - 1, abs=1e-3)


@pytest.mark.parametrize("kind", ["whole", "hundredths"])
def test_a_summary_and_a_synthetic_table_answer_the_same_question(kind):
    column, values = NUMBERS[kind]
    rows, question = np.repeat(values[: len(values) // 2], 20), sd.smooth(lambda x: x[:, 0], columns=["x"])
    summary = sd.SmoothSummary(degrees=3).release(curator_of(rows, column)).output.answer(question)
    table = sd.SmoothSynthesis(variant="exact", degrees=6, grid=600, lattice=10**6).release(curator_of(rows, column))
    assert float(summary) == pytest.approx(float(table.answer(question)["estimate"].iloc[0]), abs=0.01)


@pytest.mark.parametrize("sigma", [1e-9, 1e-4, 1e7, 1e200])
def test_a_width_beyond_floating_point_is_refused_before_the_spend(sigma):
    with pytest.raises(ParameterError, match="sigma"):
        sd.SmoothSummary(sigma=sigma)


@pytest.mark.parametrize("sigma", [1e-100, 1e-9, 1e-3, 1e6, 1e100])
def test_the_widest_and_the_narrowest_kernels_are_answered_within_their_bound(sigma):
    x = np.linspace(-1, 1, 500)
    release = sd.SmoothSummary(degrees=12).release(curator_of(x, sd.Continuous(-1, 1)))
    kernels = GaussianKernels(centers=np.zeros((1, 1, 1)), weights=np.ones((1, 1)), sigma=sigma)
    with np.errstate(all="ignore"):
        answer, truth = release.output.answer(kernels), kernels.averages(x[:, None])[0]
    assert abs(answer.estimate[0] - truth) <= answer.truncation_bound[0] + 12 * answer.stderr[0] + 1e-12


@pytest.mark.slow
def test_degrees_for_the_narrowest_kernels_are_found_in_a_moment():
    begin = time.process_time()
    assert 2 <= kernel_degrees(1e9, d=1, sigma=1e-3, loss=sd.PureDP(1.0)) <= 512
    assert time.process_time() - begin < 30


@pytest.mark.parametrize(
    "setting",
    [
        {"degrees": 2.5},
        {"degrees": True},
        {"nodes": float("nan")},
        {"nodes": 64.0},
        {"bound": -1.0},
        {"bound": float("nan")},
        {"bound": "1"},
    ],
)
def test_a_setting_of_an_answer_that_is_no_such_number_is_refused(setting):
    release = sd.SmoothSummary(degrees=4).release(curator_of(np.linspace(-1, 1, 500), sd.Continuous(-1, 1)))
    with pytest.raises(ParameterError, match=rf"\b{next(iter(setting))}\b"):
        release.output.answer(lambda x: x[:, 0], **setting)


@pytest.mark.parametrize(
    "setting",
    [
        {"variant": "exact", "functions": 3},
        {"variant": "exact", "candidates": 30},
        {"variant": "product", "functions": 3},
        {"variant": "product", "grid": 30},
        {"variant": "exact", "grid": 2**20 + 1},
        {"variant": "practical", "candidates": 10**9},
    ],
)
def test_a_setting_that_would_not_be_followed_is_refused(setting):
    with pytest.raises(ParameterError, match=list(setting)[-1]):
        sd.SmoothSynthesis(**setting)


def test_more_values_than_memory_has_are_refused_before_the_spend():
    curator = curator_of(np.linspace(-1, 1, 50), sd.Continuous(-1, 1))
    mechanism = sd.SmoothSynthesis(variant="practical", candidates=9_000_000, functions=20, degrees=40)
    with pytest.raises(ParameterError, match="candidates"):
        mechanism.release(curator)
    assert curator.remaining == sd.PureDP(1e5)


def test_columns_by_one_name_are_one_column():
    table = pd.DataFrame({"age": [1, 2, 3], "size": [1, 2, 3]})
    schema = sd.Schema({"age": sd.Integer(0, 9), "size": sd.Integer(0, 9)})
    curator = sd.Curator(table, schema=schema, budget=sd.PureDP(1.0))
    assert sd.SmoothSummary(columns="age", degrees=2).release(curator).output.names == ("age",)
