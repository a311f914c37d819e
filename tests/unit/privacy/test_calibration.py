"""The noise of a loss: the least of its law, on the coarsest lattice that is fine enough, or refused."""

from __future__ import annotations

import math
from contextlib import suppress

import mpmath
import pytest
from hypothesis import example, given, strategies as st
from mpmath import mpf

from synthdp import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.errors import ParameterError, SensitivityError
from synthdp.measurements import NoiseLaw
from synthdp.privacy import composition, noise
from synthdp.privacy.calibration import FINEST, LEAST_SIGMA, calibrate, gaussian_account
from synthdp.queries.norms import Norms

norms_of_vectors = st.builds(
    lambda linf, times, spread: Norms(linf * times, linf * linf * max(1, times // spread), linf),
    st.integers(1, 50), st.integers(1, 200), st.integers(1, 5),
)  # fmt: skip


def length(norms):
    """The least length of a vector that has such norms."""
    return -(-(norms.l1**2) // norms.l2_squared)


@given(norms=norms_of_vectors, k=st.integers(1, 300), epsilon=st.floats(0.05, 5))
@example(norms=Norms(24, 120, 5), k=10, epsilon=1.0)
@example(norms=Norms(47, 470, 10), k=10, epsilon=1.0)
@example(norms=Norms(468, 46_800, 100), k=10, epsilon=1.0)
def test_pure_noise_is_the_lesser_of_two_laws(norms, k, epsilon):
    k = max(k, length(norms))
    best = calibrate(norms, PureDP(epsilon), k=k)
    spread = {law: calibrate(norms, PureDP(epsilon), k=k, law=law).noise for law in (NoiseLaw.LAPLACE, NoiseLaw.LINF)}
    assert spread[NoiseLaw.LAPLACE].scale == noise.laplace_scale(norms.l1, epsilon=epsilon)
    assert spread[NoiseLaw.LINF].scale == noise.linf_knorm_scale(norms.linf, epsilon=epsilon)
    continuous = {
        NoiseLaw.LAPLACE: math.sqrt(2) * norms.l1,
        NoiseLaw.LINF: math.sqrt((k + 1) * (k + 2) / 3) * norms.linf,
    }
    assert continuous[best.noise.law] <= min(continuous.values()) * (1 + 1e-12)
    assert best.noise == spread[best.noise.law]
    assert best.sensitivity == {NoiseLaw.LAPLACE: norms.l1, NoiseLaw.LINF: norms.linf}[best.noise.law]
    assert best.resolution == 1


@given(norms=norms_of_vectors, mu=st.floats(1e-6, 1e5))
def test_gaussian_noise_is_on_the_coarsest_lattice_that_is_fine_enough(norms, mu):
    k = length(norms)
    plan = calibrate(norms, GaussianDP(mu), k=k)
    with mpmath.workdps(50):
        spent = plan.resolution * mpmath.sqrt(norms.l2_squared) / mpmath.sqrt(mpf(plan.noise.scale) ** 2 - 4)
        assert spent <= mu
    assert plan.noise.scale >= LEAST_SIGMA
    assert plan.resolution <= FINEST
    assert plan.resolution == 1 or plan.resolution * norms.l2 / mu < 2 * LEAST_SIGMA * (1 + 1e-9)
    assert spent >= mu * (1 - 1e-9) or (plan.resolution in (1, FINEST) and plan.noise.scale == LEAST_SIGMA)
    assert (plan.noise.law, plan.noise.k, plan.sensitivity) == (NoiseLaw.GAUSSIAN, k, norms.l2)


@pytest.mark.parametrize("mu", [1e-300, 1e-12, 1.0, 1e3, 1e300])
@pytest.mark.parametrize("linf", [1, 2**30, 2**60])
def test_gaussian_noise_of_any_size_is_within_the_range_of_its_sampler_or_refused(linf, mu):
    plans = []
    with suppress(ParameterError):
        plans.append(calibrate(Norms(linf, linf**2, linf), GaussianDP(mu), k=1))
    for plan in plans:
        assert LEAST_SIGMA <= plan.noise.scale <= noise.LARGEST_SCALE
        assert plan.resolution * linf / plan.noise.scale <= mu


@pytest.mark.parametrize("law", [None, NoiseLaw.GAUSSIAN])
def test_an_approximate_loss_buys_gaussian_noise_and_one_without_delta_buys_pure_noise(law):
    loss = ApproxDP(1.0, 1e-6)
    plan = calibrate(Norms(3, 3, 1), loss, k=30, law=law)
    assert plan == calibrate(Norms(3, 3, 1), gaussian_account(loss), k=30)
    assert plan.noise.law is NoiseLaw.GAUSSIAN
    assert calibrate(Norms(3, 3, 1), ApproxDP(1.0, 0.0), k=30) == calibrate(Norms(3, 3, 1), PureDP(1.0), k=30)


def test_concentrated_noise_is_the_least_of_its_law():
    plan = calibrate(Norms(5, 5, 1), ZCDP(0.3), k=6)
    assert plan.noise.scale == noise.gaussian_scale(5, rho=0.3)
    assert (plan.resolution, plan.sensitivity, plan.noise.k) == (1, Norms(5, 5, 1).l2, 6)


@pytest.mark.parametrize(
    ("norms", "k"),
    [
        (Norms(9, 9, 1), 8),
        (Norms(10**11, 10**19, 10**8), 999),
        (Norms(4, 8, 2), 1),
        (Norms(0, 0, 0), 3),
        (Norms(1, 1, 1).times(10**200), 1),
    ],
)
@pytest.mark.parametrize("loss", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), GaussianDP(1.0)])
def test_norms_that_no_vector_of_whole_numbers_of_the_length_has_are_not_noised(norms, k, loss):
    with pytest.raises(SensitivityError):
        calibrate(norms, loss, k=k)


@pytest.mark.parametrize("loss", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), GaussianDP(1.0)])
def test_the_stddev_of_noise_is_that_of_its_sensitivity_beyond_64_bits(loss):
    """A thousand queries of a hundred million each: the squares add up to 1e19."""
    large, small = Norms(10**11, 10**19, 10**8), Norms(1000, 1000, 1)
    plans = [calibrate(norms, loss, k=1000) for norms in (large, small)]
    stddevs = [plan.noise.stddev / plan.resolution for plan in plans]
    assert stddevs[0] == pytest.approx(1e8 * stddevs[1], rel=1e-3)


@pytest.mark.parametrize(("k", "l1", "summed"), [(50, 3, True), (10_000, 20_000, False)])
def test_composed_laplace_noise_is_the_lesser_of_two_and_says_whose_sensitivity(k, l1, summed):
    plan = calibrate(Norms.within(k, 2, l1=l1), ApproxDP(1.0, 1e-6), k=k, law=NoiseLaw.LAPLACE)
    by_sum = noise.laplace_scale(l1, epsilon=1.0)
    by_parts = noise.laplace_scale(2, epsilon=composition.split(1.0, k, delta=1e-6))
    assert (by_sum < by_parts) is summed
    assert (plan.noise.scale, plan.sensitivity) == ((by_sum, l1) if summed else (by_parts, 2))


def test_laplace_noise_without_a_delta_is_that_of_pure_privacy():
    norms = Norms.within(3, 2, l1=3)
    plans = [calibrate(norms, loss, k=3, law=NoiseLaw.LAPLACE) for loss in (ApproxDP(1.0, 0.0), PureDP(1.0))]
    assert plans[0] == plans[1]
