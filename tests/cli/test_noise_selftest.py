"""The self-test of an installation: it passes on exact noise, and notices a wrong scale, a shift and another law."""

import numpy as np
import pytest
from scipy.stats import chi2

from synthdp.cli import security_checks
from synthdp.cli.security_checks import noise_selftest
from synthdp.privacy import noise

LAWS = ["discrete_laplace", "discrete_gaussian"]


def spoil(monkeypatch, law, change):
    """Put noise in the place of a law: a function of its exact noise of any scale."""
    original = getattr(noise, law)
    monkeypatch.setattr(noise, law, lambda values, *, scale: change(lambda c=1: original(values, scale=scale * c)))


def failed():
    return [check.name for check in noise_selftest() if not check.passed]


@pytest.fixture
def fewer(monkeypatch):
    """So many draws are enough to notice what is far off."""
    monkeypatch.setattr(security_checks, "DRAWS", 10_000)


@pytest.mark.usefixtures("fewer")  # `synthdp doctor` draws them all: tests/cli/test_cli.py
def test_exact_noise_passes_and_says_what_was_measured():
    checks = noise_selftest()
    assert [check.name.split(",")[0] for check in checks] == ["discrete Laplace"] * 3 + ["discrete Gaussian"] * 3
    assert all(check.passed for check in checks)
    assert all("chi-square" in check.detail for check in checks)


@pytest.mark.landing
@pytest.mark.usefixtures("fewer")
@pytest.mark.parametrize("factors", [(0.7, 1.4), pytest.param((1.4, 0.7), marks=pytest.mark.slow)])
def test_noise_of_another_scale_fails(factors, monkeypatch):
    for law, factor in zip(LAWS, factors, strict=True):
        spoil(monkeypatch, law, lambda draw, factor=factor: draw(factor))
    assert len(failed()) == 6


@pytest.mark.landing
@pytest.mark.usefixtures("fewer")
@pytest.mark.parametrize("shifts", [(-2, 2), pytest.param((2, -2), marks=pytest.mark.slow)])
def test_noise_that_is_not_centred_fails(shifts, monkeypatch):
    for law, shift in zip(LAWS, shifts, strict=True):
        spoil(monkeypatch, law, lambda draw, shift=shift: draw() + shift)
    assert len(failed()) == 6


@pytest.mark.landing
@pytest.mark.usefixtures("fewer")
def test_noise_whose_mean_and_variance_are_right_but_not_its_law_fails(monkeypatch):
    """OpenDP 0.14.0: every third value came too often.  Here an odd value goes to a neighbour, up or down alike."""
    rng = np.random.default_rng(5)

    def rarely_odd(draw):
        drawn = draw()
        return drawn + (drawn % 2) * rng.choice([-1, 0, 0, 0, 0, 0, 0, 1], drawn.size)

    for law in LAWS:
        spoil(monkeypatch, law, rarely_odd)
    assert len(failed()) == 6


def test_no_noise_fails(monkeypatch):
    for law in LAWS:
        monkeypatch.setattr(noise, law, lambda values, *, scale: values)
    assert len(failed()) == 6


@pytest.mark.parametrize(("over", "passed"), [(-1.0, True), (1.0, False)])
def test_a_histogram_passes_up_to_the_limit(over, passed):
    """Every value as often as it should be, but for two that should be equally frequent: chi-square is known."""
    weights = np.exp(-np.abs(np.arange(-90, 91)) / 1.5)
    often = np.rint(weights / weights.sum() * 10**6).astype(int)
    values = int((often >= security_checks.FEWEST).sum()) + 2
    excess = round(np.sqrt((chi2.isf(security_checks.FALSE_ALARM, values - 1) + over) * often[91] / 2))
    often[[89, 91]] += [-excess, excess]
    assert security_checks._check("x", np.repeat(np.arange(-90, 91), often), 1.5, 1).passed is passed
