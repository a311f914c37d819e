"""Answers from a summary: exact where theory says so, and honest about the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.answers.questions import count, marginal, smooth
from synthdp.errors import ParameterError
from synthdp.mechanisms.estimate import Estimate
from synthdp.works.smooth.chebyshev import chebyshev_table
from synthdp.works.smooth.kernels import GaussianKernels
from synthdp.works.smooth.smooth_answers import TrigonometricSummary, chebyshev_coefficients, chebyshev_nodes, on_nodes


def summary_of(points: np.ndarray, t: int, *, stddev: float = 0.0, rows_stddev: float = 0.0) -> TrigonometricSummary:
    """The summary without noise."""
    d = points.shape[1]
    product = np.ones((len(points), 1))
    for j in range(d):
        product = (product[:, :, None] * chebyshev_table(points[:, j], t)[:, None, :]).reshape(len(points), -1)
    averages = product.mean(axis=0).reshape((t,) * d)
    return TrigonometricSummary(
        names=tuple("abc"[:d]), averages=averages, stddev=stddev, rows=float(len(points)), rows_stddev=rows_stddev
    )


def points(d: int, count: int = 50, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, d))


@given(d=st.integers(1, 3), t=st.integers(2, 6), seed=st.integers(0, 2**32))
def test_a_polynomial_of_degree_below_t_is_answered_exactly(d, t, seed):
    rng = np.random.default_rng(seed)
    powers = rng.integers(0, t, (4, d))
    weights = rng.normal(size=4)
    x = points(d, seed=seed)
    query = lambda p: sum(w * np.prod(p**m, axis=1) for w, m in zip(weights, powers, strict=True))  # noqa: E731
    answer = summary_of(x, t).answer(query)
    assert float(answer) == pytest.approx(query(x).mean(), abs=1e-12)
    assert answer.truncation == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_constants_are_exact_and_free_of_noise(d):
    answer = summary_of(points(d), 3, stddev=0.5, rows_stddev=1.0).answer(lambda p: np.full(len(p), 4.25))
    assert float(answer) == pytest.approx(4.25, abs=1e-14)
    assert answer.stderr == pytest.approx(0.0, abs=1e-13)


def test_twice_as_many_nodes_as_degrees_is_enough():
    x = points(2)
    query = lambda p: np.exp(-((p - 0.3) ** 2).sum(axis=1))  # noqa: E731
    summary = summary_of(x, 8)
    few, many = summary.answer(query, nodes=16), summary.answer(query, nodes=200)
    assert float(few) == pytest.approx(float(many), abs=1e-7)


def test_the_coefficients_are_those_of_the_series():
    x = chebyshev_nodes(32)
    found = chebyshev_coefficients(3.0 + 2 * x - 5 * (2 * x**2 - 1), 4)
    np.testing.assert_allclose(found, [3, 2, -5, 0], atol=1e-13)


def test_the_error_bar_is_the_norm_of_the_coefficients():
    answer = summary_of(points(1), 4, stddev=0.1).answer(lambda p: 3 + 2 * p[:, 0] - 5 * (2 * p[:, 0] ** 2 - 1))
    assert answer.stderr == pytest.approx(0.1 * np.hypot(2, 5))


def test_a_private_number_of_rows_widens_the_error_bar():
    x = points(1) * 0.1 + 0.8
    answer = summary_of(x, 3, rows_stddev=5.0).answer(lambda p: 7 + p[:, 0])
    assert answer.stderr == pytest.approx(x.mean() * 5 / 50)


@pytest.mark.sampled
@pytest.mark.parametrize("d", [1, 2, 3])
def test_separable_queries_are_answered_as_on_the_grid(d):
    kernels = GaussianKernels.random(5, d=d, sigma=0.9, rng=np.random.default_rng(3), terms=3)
    summary = summary_of(points(d), 6, stddev=0.01, rows_stddev=2.0)
    together = summary.answer(kernels)
    for q in range(5):
        alone = summary.answer(lambda p, q=q: kernels.values(p)[:, q], nodes=64)
        assert together.estimate[q] == pytest.approx(float(alone), abs=1e-9)
        assert together.stderr[q] == pytest.approx(alone.stderr, rel=1e-6)
        assert together.truncation[q] >= alone.truncation - 1e-9


def test_the_truncation_covers_the_error_of_an_exact_summary():
    x = points(2)
    kernels = GaussianKernels.random(40, d=2, sigma=0.5, rng=np.random.default_rng(4))
    answer = summary_of(x, 5).answer(kernels)
    assert (np.abs(answer.estimate - kernels.averages(x)) <= answer.truncation + 1e-9).all()


def test_a_given_smoothness_bounds_the_truncation():
    x = points(1)
    query = lambda p: np.cos(2 * p[:, 0])  # noqa: E731
    answer = summary_of(x, 6).answer(query, bound=4.0)
    assert answer.truncation <= answer.truncation_bound
    assert abs(float(answer) - query(x).mean()) <= answer.truncation_bound
    assert summary_of(x, 6).answer(query).truncation_bound is None


def test_auto_degrees_trade_truncation_for_noise():
    rough = lambda p: np.abs(p[:, 0])  # noqa: E731
    noisy = summary_of(points(1), 40, stddev=10.0)
    quiet = summary_of(points(1), 40, stddev=0.0)
    assert noisy.answer(rough, degrees="auto").stderr < noisy.answer(rough).stderr
    assert quiet.answer(rough, degrees="auto").truncation <= quiet.answer(rough).truncation


def test_fewer_degrees_are_a_shorter_summary():
    x = points(2)
    query = lambda p: np.exp(p[:, 0] * p[:, 1])  # noqa: E731
    assert float(summary_of(x, 9).answer(query, degrees=4)) == pytest.approx(float(summary_of(x, 4).answer(query)))


def test_queries_are_evaluated_at_all_nodes_in_blocks(monkeypatch):
    from synthdp.works.smooth import smooth_answers

    monkeypatch.setattr(smooth_answers, "_POINTS_AT_ONCE", 7)
    axis = chebyshev_nodes(5)
    found = on_nodes(lambda p: p[:, 0] + 10 * p[:, 1], d=2, nodes=5)
    np.testing.assert_allclose(found, axis[:, None] + 10 * axis[None, :])


def test_many_separable_queries_are_answered_in_blocks(monkeypatch):
    from synthdp.works.smooth import smooth_answers

    kernels = GaussianKernels.random(9, d=2, sigma=0.9, rng=np.random.default_rng(3), terms=2)
    summary = summary_of(points(2), 5, stddev=0.1)
    whole = summary.answer(kernels)
    monkeypatch.setattr(smooth_answers, "_NUMBERS_AT_ONCE", 1)
    parts = summary.answer(kernels)
    np.testing.assert_allclose(parts.estimate, whole.estimate, rtol=1e-12)
    np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-12)


def test_what_does_not_fit_is_refused():
    summary = summary_of(points(2), 4)
    with pytest.raises(ParameterError):
        summary.answer(lambda p: p)
    with pytest.raises(ParameterError, match="finite"):
        summary.answer(lambda p: np.full(len(p), np.nan))
    with pytest.raises(ParameterError, match="degrees"):
        summary.answer(lambda p: p[:, 0], degrees=5)
    with pytest.raises(ParameterError, match="nodes"):
        summary.answer(lambda p: p[:, 0], nodes=5)
    with pytest.raises(ParameterError, match=r"nodes.*10000"):
        summary.answer(lambda p: p[:, 0], nodes=10_000)
    with pytest.raises(ParameterError, match="queries"):
        summary.answer(GaussianKernels.random(1, d=3, sigma=1, rng=np.random.default_rng(0)))
    with pytest.raises(ParameterError, match=r"degrees.*'auto'"):
        summary.answer(GaussianKernels.random(1, d=2, sigma=1, rng=np.random.default_rng(0)), degrees="auto")


def test_an_estimate_reads_as_a_number_and_as_an_array():
    answer = Estimate(estimate=0.5, stderr=0.1, truncation=0.02)
    assert float(answer) == 0.5
    assert np.asarray(answer) == 0.5
    low, high = answer.interval(0.95)
    assert (low, high) == pytest.approx((0.5 - 0.196 - 0.02, 0.5 + 0.196 + 0.02), abs=1e-4)
    proven = Estimate(estimate=0.5, stderr=0.0, truncation=0.02, truncation_bound=0.3).interval()
    assert proven == pytest.approx((0.2, 0.8))
    with pytest.raises(ParameterError, match="level"):
        answer.interval(1)


def test_a_smooth_question_about_some_columns_is_one_about_all():
    x = points(3)
    summary = summary_of(x, 6, stddev=0.01)
    asked = summary.answer(smooth(lambda p: p[:, 0] * p[:, 1] ** 2, columns=["c", "a"]))
    direct = summary.answer(lambda p: p[:, 2] * p[:, 0] ** 2)
    assert (float(asked), asked.stderr) == (float(direct), direct.stderr)
    assert float(asked) == pytest.approx((x[:, 2] * x[:, 0] ** 2).mean(), abs=1e-12)
    assert float(summary.answer(smooth(lambda p: p.sum(axis=1)))) == pytest.approx(x.sum(axis=1).mean(), abs=1e-12)
    with pytest.raises(ParameterError, match="'z'"):
        summary.answer(smooth(lambda p: p[:, 0], columns=["z"]))


@pytest.mark.parametrize("question", [marginal("a"), count("a > 0"), 3, None])
def test_questions_that_no_smooth_function_answers_are_refused_in_one_sentence(question):
    with pytest.raises(ParameterError, match="GaussianKernels"):
        summary_of(points(1), 4).answer(question)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_an_answer_is_never_beyond_the_range_of_its_function(side):
    averages = np.full((4,), 3.0 * side)
    averages[0] = 1.0
    summary = TrigonometricSummary(names=("x",), averages=averages, stddev=1.0, rows=50)
    answer = summary.answer(lambda points: np.abs(points[:, 0]) * side + 1)
    assert min(1, 1 + side) <= answer.estimate <= max(1, 1 + side)
    assert answer.stderr > 0


@pytest.mark.parametrize("t", [0.0, 0.05, 0.2, 0.4])
@pytest.mark.parametrize("v", [-0.7, 0.0, 0.3])
def test_fieller_s_ends_are_where_a_noisy_ratio_is_just_within_its_own_noise(v, t):
    a, offset = 0.1, 0.2
    answer = Estimate(estimate=offset + v, stderr=float(np.hypot(a, v * t)), offset=offset, rows_error=t)
    for end in np.array(answer.interval()) - offset:
        assert abs(v - end) == pytest.approx(np.hypot(1.959964 * a, 2.118285 * end * t), rel=1e-5)


def test_where_the_number_of_rows_may_be_0_the_interval_is_the_whole_range():
    answer = Estimate(estimate=0.4, stderr=0.3, rows_error=0.5, range=(-1.0, 0.9))
    assert answer.interval() == (-1.0, 0.9)


def test_answers_and_intervals_stay_within_the_functions_range_and_the_raw_answer_is_kept():
    answer = Estimate(estimate=1.4, stderr=0.1, range=(-1.0, 1.0))
    assert (float(answer), answer.raw) == (1.0, 1.4)
    assert max(answer.interval()) == 1.0
