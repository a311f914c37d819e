"""The promise for the whole class of smooth queries: its ellipsoid, its noise and its error, against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

import synthdp as sd
from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.privacy.loss import ZCDP, ApproxDP, PrivacyLoss, PureDP
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import chebyshev_table
from synthdp.works.smooth.kernels import GaussianKernels
from synthdp.works.smooth.smooth_answers import chebyshev_coefficients, chebyshev_nodes
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.theory import improved_degrees
from synthdp.works.smooth.whole_class import chain_bound, class_accuracy, class_degrees, class_noise, ellipsoid


@pytest.mark.parametrize(("order", "expected"), [(1, 1.0), (2, 1.25)])
def test_the_chain_rule_of_low_order_has_the_constant_found_by_hand(order, expected):
    """|f''| sin^2 + |f'| |cos| is largest at |cos| = 1/2."""
    assert expected <= chain_bound(order) <= expected * 1.001


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("phase", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("frequency", [0.3, 1.0])
def test_no_wave_has_steeper_derivatives_in_the_angle(order, phase, frequency):
    """All derivatives of sin(frequency x + phase) are at most 1."""
    angles = np.arange(512) * (2 * np.pi / 512)
    values = np.sin(frequency * np.cos(angles) + phase)
    waves = np.fft.fft(values) * (1j * np.fft.fftfreq(512, 1 / 512)) ** order
    assert np.abs(np.fft.ifft(waves).real).max() <= chain_bound(order) + 1e-9


def smooth_functions(d: int, order: int):
    """Functions of (..., d) points whose partial derivatives up to an order are at most 1."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        slopes, phase = rng.uniform(-1, 1, d), rng.uniform(0, 6)
        yield lambda x, a=slopes, p=phase: np.sin(x @ a + p)
    for centre in np.linspace(-1, 1, 5):
        # the derivative of this order is a step of height 1; lower ones are at most 1 on [-1, 1] with 1/order! in front
        yield (
            lambda x, c=centre: (
                np.maximum(x[..., 0] - c, 0) ** order
                / (math.factorial(order) * max(1, (1 - c) ** (order - 1), (1 - c) ** order / order))
            )
        )


@pytest.mark.parametrize(("t", "nodes"), [(4, 4), (6, 12), (9, 30)])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_the_coefficients_of_smooth_queries_lie_in_the_ellipsoid(order, d, t, nodes):
    points = np.stack(np.meshgrid(*[chebyshev_nodes(nodes)] * d, indexing="ij"), axis=-1)
    weights = ellipsoid(t, d=d, order=order, nodes=nodes)
    for function in smooth_functions(d, max(order, 1)):
        kept = chebyshev_coefficients(function(points), t)
        assert (weights * kept**2).sum() <= 1 + 1e-9


@pytest.mark.parametrize("d", [1, 2])
def test_of_order_one_a_straight_line_nearly_fills_the_ellipsoid(d):
    kept = np.zeros((8,) * d)
    kept[(1,) + (0,) * (d - 1)] = 1.0  # f(x) = x_1
    assert (ellipsoid(8, d=d, order=1, nodes=16) * kept**2).sum() == pytest.approx(1 / (2 * d), rel=0.01)


@pytest.mark.parametrize("loss", [PureDP(1.0), ZCDP(0.5)])
@pytest.mark.parametrize(("d", "t"), [(1, 8), (2, 4)])
def test_the_noise_of_the_worst_query_is_within_the_bound_and_not_far_below(loss, d, t):
    """The largest of <c, z> over the ellipsoid is sqrt(sum z^2/w^2); β = 1e-7 for 200 draws."""
    rng, k, draws = np.random.default_rng(1), t**d - 1, 200
    law = {
        PureDP: lambda: rng.gamma(k + 1, 2.0, (draws, 1)) * rng.uniform(-1, 1, (draws, k)) / 1000,
        ZCDP: lambda: rng.normal(0, 1, (draws, k)) * class_stddev(t, d, loss),
    }
    inverse = 1 / ellipsoid(t, d=d, order=2, nodes=2 * t).ravel()[1:]
    worst = np.sqrt((law[type(loss)]() ** 2 * inverse).sum(axis=1)).max()
    bound = class_noise(t, rows=1000, d=d, smoothness=2, loss=loss, beta=1e-7, nodes=2 * t)
    assert worst <= bound
    lower = {order: np.sqrt((1 / ellipsoid(t, d=d, order=order, nodes=2 * t).ravel()[1:]).sum()) for order in range(3)}
    assert bound >= worst * min(lower.values()) / lower[2]


def class_stddev(t: int, d: int, loss: PrivacyLoss) -> float:
    table = pd.DataFrame(0.0, index=range(1000), columns=[f"x{j}" for j in range(d)])
    return released(table, t, loss).stddev


def released(table: pd.DataFrame, t: int, loss: PrivacyLoss, **settings):
    schema = Schema({name: Continuous(-1, 1) for name in table})
    curator = Curator(table, schema=schema, budget=loss, neighbors="replace_one")
    return SmoothSummary(degrees=t, **settings).release(curator).output


@pytest.mark.parametrize(
    ("loss", "weighting"), [(PureDP(1.0), "equal"), (ApproxDP(1.0, 1e-6), "equal"), (ApproxDP(1.0, 1e-6), "degree")]
)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_query_that_is_aligned_with_the_noise_is_within_alpha(order, loss, weighting):
    """The worst of the class is chosen after the noise is known; β = 1e-7."""
    data, t = np.linspace(-1, 1, 1000), 6
    growth = order / 2 if weighting == "degree" else 0.0
    summary = released(pd.DataFrame({"x": data}), t, loss, weighting=weighting, smoothness=order)
    assert summary.growth == growth
    noise = summary.averages - chebyshev_table(data, t).mean(axis=0)
    alpha = class_accuracy(t, rows=1000, d=1, smoothness=order, loss=loss, beta=1e-7, growth=growth)
    fine = np.linspace(-1, 1, 2001)
    errors = []
    for power in (growth, 1 + growth, 2 + growth):
        steep = np.polynomial.chebyshev.Chebyshev(noise * np.maximum(np.arange(t), 1.0) ** (-2.0 * power))
        most = max(np.abs(steep.deriv(k)(fine)).max() for k in range(order + 1))
        query = steep / most
        errors.append(abs(float(summary.answer(lambda x, f=query: f(x[:, 0]))) - query(data).mean()))
    assert max(errors) <= alpha
    assert max(errors) > 0


@pytest.mark.parametrize(("d", "smoothness", "rate"), [(1, 2, 0.8), (1, 3, 6 / 7), (2, 3, 0.75)])
def test_where_twice_the_smoothness_exceeds_the_columns_the_improved_rate_holds_for_the_class(d, smoothness, rate):
    """Noise and truncation together fall as n^(-K/(d/2+K)); with the paper's degrees they cannot."""
    errors = []
    for rows in (1e4, 1e5):
        t = improved_degrees(rows, d=d, smoothness=smoothness, pure=False)
        noise = class_noise(t, rows=rows, d=d, smoothness=smoothness, loss=ApproxDP(1.0, 1e-6), beta=0.05, nodes=2 * t)
        errors.append(noise)
    assert math.log10(errors[0] / errors[1]) == pytest.approx(rate, abs=0.06)


def test_alpha_for_the_class_falls_with_rows_and_rises_with_confidence_columns_and_bound():
    def alpha(rows: float = 1e4, beta: float = 0.05, d: int = 1, bound: float = 1.0) -> float:
        return class_accuracy(6, rows=rows, d=d, smoothness=2, loss=PureDP(1), beta=beta, bound=bound)

    assert alpha(rows=1e5) < alpha() < alpha(beta=0.001)
    assert alpha(d=2) > alpha()
    assert alpha(bound=2.0) == pytest.approx(2 * alpha())
    for one, two in itertools.pairwise((0.5, 0.1, 1e-3, 1e-6)):
        assert alpha(beta=one) < alpha(beta=two)
    with pytest.raises(ParameterError, match="beta"):
        alpha(beta=0)


LOSS = ApproxDP(1.0, 1e-6)


@pytest.mark.landing
@pytest.mark.parametrize(("d", "smoothness", "rate"), [(1, 2, 1.0), (2, 3, 1.0)])
def test_with_noise_by_degree_the_class_has_the_best_rate(d, smoothness, rate):
    """n^-min(1, K/d) but for a logarithm where K = d, and never above equal noise at its own degrees."""

    def alpha(rows: float, growth: float) -> float:
        t = class_degrees(rows, d=d, smoothness=smoothness, loss=LOSS, growth=growth)
        return class_noise(t, rows=rows, d=d, smoothness=smoothness, loss=LOSS, beta=0.05, nodes=2 * t, growth=growth)

    by_degree = [alpha(rows, smoothness / 2) for rows in (1e4, 1e5)]
    assert math.log10(by_degree[0] / by_degree[1]) == pytest.approx(rate, abs=0.12)
    assert by_degree[0] < alpha(1e4, 0.0)


@pytest.mark.parametrize("d", [1, 2])
def test_a_summary_with_noise_by_degree_has_exact_averages_without_noise_and_error_bars_that_grow(d, monkeypatch):
    without_noise(monkeypatch)
    data = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (500, d)), columns=["x", "y"][:d])
    plain, graded = (released(data, 5, LOSS, weighting=one, smoothness=4) for one in ("equal", "degree"))
    np.testing.assert_allclose(graded.averages, plain.averages, atol=1e-4)
    stderrs = [
        graded.answer(lambda p, m=m: np.cos(m * np.arccos(p[:, 0]))).stderr / graded.stddev for m in (1, 2, 3, 4)
    ]
    np.testing.assert_allclose(stderrs, [1, 4, 9, 16], rtol=1e-3)
    assert graded.stddev < plain.stddev
    kernels = GaussianKernels.random(4, d=d, sigma=1.0, rng=np.random.default_rng(3), terms=3)
    together = graded.answer(kernels).stderr
    alone = [graded.answer(lambda p, q=q: kernels.values(p)[:, q], nodes=64).stderr for q in range(4)]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_noise_by_degree_is_refused_where_it_has_no_meaning():
    with pytest.raises(ParameterError, match="sigma"):
        SmoothSummary(sigma=1.0, weighting="degree")
    with pytest.raises(ParameterError, match="weighting"):
        SmoothSummary(weighting="best")
    with pytest.raises(ParameterError, match="law"):
        released(pd.DataFrame({"x": [0.0] * 100}), 3, PureDP(1.0), weighting="degree")


def test_a_saved_summary_with_noise_by_degree_comes_back(tmp_path):
    curator = Curator(
        pd.DataFrame({"x": np.linspace(-1, 1, 400)}), schema=Schema({"x": Continuous(-1, 1)}), budget=LOSS
    )
    release = SmoothSummary(weighting="degree").release(curator)
    release.save(tmp_path / "saved")
    again = sd.load(tmp_path / "saved")
    query = sd.smooth(lambda p: p[:, 0] ** 3)
    pd.testing.assert_frame_equal(again.answer(query), release.answer(query))
