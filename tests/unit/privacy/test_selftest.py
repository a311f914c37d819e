"""The self-test of an installation: it passes on exact noise, and notices a wrong scale, a shift and another law."""

import numpy as np
import pytest

from synthdp.privacy import noise, selftest
from synthdp.privacy.selftest import Check, noise_selftest


def test_exact_noise_passes_and_says_what_was_measured():
    checks = noise_selftest()
    assert [check.name for check in checks] == ["discrete Laplace, scale 10", "discrete Gaussian, sigma 10"]
    assert all(check.passed for check in checks)
    assert all(f"({variance})" in check.detail for check, variance in zip(checks, ("199.8", "100.0"), strict=True))


@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_noise_of_another_scale_fails(law, factor, monkeypatch):
    original = getattr(noise, law)
    monkeypatch.setattr(noise, law, lambda values, *, scale: original(values, scale=scale * factor))
    assert [check.passed for check in noise_selftest()].count(False) == 1


@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize("shift", [-5, 5])
def test_noise_that_is_not_centred_fails(law, shift, monkeypatch):
    original = getattr(noise, law)
    monkeypatch.setattr(noise, law, lambda values, *, scale: original(values, scale=scale) + shift)
    assert [check.passed for check in noise_selftest()].count(False) == 1


def test_no_noise_fails(monkeypatch):
    for law in ("discrete_laplace", "discrete_gaussian"):
        monkeypatch.setattr(noise, law, lambda values, *, scale: values)
    assert [check.passed for check in noise_selftest()] == [False, False]


@pytest.mark.parametrize(("off", "passed"), [(5.9, True), (6.1, False), (-5.9, True), (-6.1, False)])
def test_the_mean_may_be_off_by_six_of_its_standard_deviations(off, passed):
    """Two values around a shifted mean, with exactly the variance that is expected about zero."""
    n, variance = selftest.DRAWS, 10_000.0
    mean = off * np.sqrt(variance / n)
    spread = np.sqrt(variance - mean**2)
    drawn = mean + spread * np.resize([1.0, -1.0], n)
    assert selftest._check("x", drawn, variance, kurtosis=3.0).passed is passed


@pytest.mark.parametrize(("off", "passed"), [(5.9, True), (6.1, False), (-5.9, True), (-6.1, False)])
def test_the_variance_may_be_off_by_six_of_its_standard_deviations(off, passed):
    n, variance, kurtosis = selftest.DRAWS, 10_000.0, 6.0
    found = variance * (1 + off * np.sqrt((kurtosis - 1) / n))
    drawn = np.sqrt(found) * np.resize([1.0, -1.0], n)
    assert selftest._check("x", drawn, variance, kurtosis=kurtosis) == Check(
        "x", passed, f"mean +0.000 (0), variance {found:.1f} (10000.0)"
    )
