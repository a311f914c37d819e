"""Plans of above-threshold answers: both parts are paid, and the spread of an answer is that of its law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synthdp import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy.above_threshold import DENOMINATOR, AboveThresholdAnswer, plan_watch
from synthdp.privacy.accounting import gdp_from_pure


@pytest.mark.parametrize(
    ("loss", "share"), [(PureDP(1.0), 0.0), (ApproxDP(1.0, 1e-6), 1.0), (ZCDP(0.1), -0.1), (PureDP(1.0), math.nan)]
)
def test_both_parts_of_a_watch_are_paid(loss, share):
    with pytest.raises(ParameterError, match="alarm_share"):
        plan_watch(loss, max_alarms=1, alarm_share=share)


@pytest.mark.parametrize("alarms", [0, -1, 1.0, True, "1", None])
def test_alarms_are_a_whole_number_of_at_least_one(alarms):
    with pytest.raises(ParameterError, match="max_alarms"):
        plan_watch(PureDP(1.0), max_alarms=alarms, alarm_share=0.5)


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
def test_the_bound_of_an_alarm_is_the_quantile_of_its_law(law):
    rng = np.random.default_rng(0)
    draws = {NoiseLaw.LAPLACE: rng.laplace(0, 3 / math.sqrt(2), 200_000), NoiseLaw.GAUSSIAN: rng.normal(0, 3, 200_000)}
    beyond = np.mean(np.abs(draws[law]) > AboveThresholdAnswer(10.0, 3.0, law).bound(beta=0.05))
    assert beyond == pytest.approx(0.05, abs=0.003)


@pytest.mark.parametrize(
    ("loss", "half"),
    [(PureDP(1.0), math.sqrt(2) / 0.5), (ZCDP(0.1), 1 / math.sqrt(0.1)), (GaussianDP(0.5), 1 / math.sqrt(0.125))],
)
def test_the_stddev_that_an_answer_tells_is_that_of_one_row_under_half_the_loss(loss, half):
    plan = plan_watch(loss, max_alarms=1, alarm_share=0.5)
    assert plan.answer_stddev == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize("max_alarms", [1, 4, 50])
@pytest.mark.parametrize("loss", [PureDP(1.0), ZCDP(0.1), GaussianDP(0.5)])
def test_the_two_noises_of_a_watch_have_the_least_variance_together(loss, max_alarms):
    plan = plan_watch(loss, max_alarms=max_alarms, alarm_share=0.5)
    together = 1 if plan.redrawn else max_alarms
    assert plan.query_scale / plan.level_scale == pytest.approx((2 * together) ** (1 / 3), rel=1e-9)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 1.7, 8.0])
def test_comparisons_cost_all_of_their_share_in_every_unit_of_loss(size, rows):
    """The epsilon of both scales together is what rho = epsilon^2 / 2 gives, or the largest that mu-GDP covers."""
    for loss in (PureDP(size), ZCDP(size), GaussianDP(size)):
        plan = plan_watch(loss, max_alarms=2, alarm_share=0.5, rows=rows)
        step = rows * DENOMINATOR
        together = 1 if plan.redrawn else 2
        epsilon = step / plan.level_scale + 2 * together * step / plan.query_scale
        part = loss.fraction(0.5).split(2)
        if isinstance(part, PureDP):
            assert epsilon == pytest.approx(2 * part.epsilon, rel=1e-6)
        elif isinstance(part, ZCDP):
            assert epsilon == pytest.approx(math.sqrt(2 * part.rho), rel=1e-6)
        else:
            assert gdp_from_pure(epsilon * (1 - 1e-6)) <= part.mu <= gdp_from_pure(epsilon * (1 + 1e-6))


@pytest.mark.parametrize("threshold", [2.0**44, -(2.0**44), 1e300, math.inf, math.nan])
def test_a_threshold_beyond_what_can_be_counted_is_refused(threshold):
    plan = plan_watch(PureDP(1.0), max_alarms=1, alarm_share=0.5)
    with pytest.raises(ParameterError, match="threshold"):
        plan.level(threshold, queries=1)
