"""From a sensitivity and a privacy loss to a law of noise, and from that law to the largest error of k averages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import gammainccinv, ndtri

from synthdp.arrays import LARGEST_WHOLE, IntArray
from synthdp.checks import check_integral, check_number, check_share
from synthdp.errors import ParameterError, SensitivityError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import accounting, composition, noise
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PrivacyLoss, PureDP
from synthdp.privacy.receipt import Item
from synthdp.queries.norms import Norms

LEAST_SIGMA = 2**20
"""Smallest sigma, in integer steps, of noise under Gaussian DP: above it, discrete noise costs at most 2e-12 of mu more
than continuous noise.  A numerical tolerance."""

THRESHOLDS_SHARE = 0.1
"""Share of a promised delta for the thresholds by which discovery releases labels; the rest buys Gaussian noise.  A
larger share finds rarer labels by lower thresholds, but leaves all counts more noise.  A tolerance: it raises the noise of
all counts by .3 to .7 %, and thresholds by 6 to 9 %.  (Epsilon is .1 to 5, delta 1e-9 or 1e-6.)"""

FINEST = 2**26
"""Largest factor by which sums are multiplied before Gaussian noise is added, to make the steps of the noise finer than
a row.  With this factor, sums up to 10^8 still lie below `noise.LARGEST_VALUE`, 2^53.  The least possible noise stddev
is then `LEAST_SIGMA` / FINEST, 1/64 of a row.  A safety limit."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The noise that will be added to a vector of integer sums: law, scale, and the factor for finer noise.

    Parameters
    ----------
    noise
        The law on the multiplied vector.
    resolution
        Whole number by which the vector is multiplied before noise is added.
    sensitivity
        Sensitivity of the vector before the noise, in the norm of the law, in whole numbers.
    """

    noise: Noise
    resolution: int
    sensitivity: float

    def noised(self, exact: IntArray) -> IntArray:
        """Return (k,) exact integer sums, multiplied by ``resolution``, with noise added.

        Costs the loss that this was calibrated for.
        """
        most = noise.LARGEST_VALUE // self.resolution  # clipped before it is multiplied: a product must not wrap
        values = np.ascontiguousarray(np.clip(exact, -most, most) * self.resolution)
        match self.noise.law:
            case NoiseLaw.LAPLACE:
                return noise.discrete_laplace(values, scale=self.noise.scale)
            case NoiseLaw.GAUSSIAN:
                return noise.discrete_gaussian(values, scale=self.noise.scale)
        return noise.linf_knorm(values, scale=self.noise.scale)

    def item(self, step: str, loss: PrivacyLoss, *, denominator: int = 1) -> Item:
        """Return the receipt's line on these answers; ``denominator`` is the integer that stands for one row."""
        stddev = self.noise.stddev / (self.resolution * denominator)
        return Item(
            step=step,
            mechanism=str(self.noise.law),
            answers=self.noise.k,
            sensitivity=self.sensitivity / denominator,
            stddev=stddev,
            loss=loss,
            noise=(stddev, stddev),
            unit="rows",
        )


class SelectionLaw(StrEnum):
    """Mechanisms that choose the index of a large score."""

    PERMUTE_AND_FLIP = "permute_and_flip"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A mechanism that chooses the index of a large score, with its noise scale.

    Parameters
    ----------
    choose
        From (m,) whole-number scores and the scale to a position.
    mechanism
        Name of the mechanism.
    sensitivity
        Most that a score moves, in whole numbers.
    scale
        Scale of the noise on each score.
    stddev
        Standard deviation of that noise, in the unit of whole-number scores.
    """

    choose: Callable[..., int]
    mechanism: str
    sensitivity: int
    scale: float
    stddev: float

    def chosen(self, scores: IntArray) -> int:
        """Return the index of a large one of (m,) exact integer scores.

        Costs the loss that this was planned for.
        """
        return int(self.choose(scores, scale=self.scale))

    def item(self, step: str, loss: PrivacyLoss, *, denominator: int) -> Item:
        """Return the receipt's line on this selection; ``denominator`` is the integer that stands for a score of 1."""
        return Item(
            step=step,
            mechanism=self.mechanism,
            answers=1,
            sensitivity=self.sensitivity / denominator,
            stddev=self.stddev / denominator,
            loss=loss,
            noise=(self.stddev / denominator, self.stddev / denominator),
            unit="rows",
        )


def calibrate(norms: Norms, loss: PrivacyLoss, *, k: int, law: NoiseLaw | None = None) -> Calibration:
    """Return the least noise for which a vector of integer sums costs at most a given privacy loss.

    Pure losses take Laplace noise on the L1 norm or K-norm noise on the maximum norm, whichever is smaller; the others
    take Gaussian noise on the L2 norm, an (epsilon, delta) through Gaussian DP.  Where Laplace noise is insisted on, an
    (epsilon, delta) also pays for it by k-fold composition of the coordinates (Kairouz, Oh, Viswanath 2015).

    A draw with the result costs at most ``loss``.

    Parameters
    ----------
    norms
        Sensitivity of the vector, in whole numbers.
    loss
        The largest loss.
    k
        Length of the vector.
    law
        A law to insist on.

    Raises
    ------
    ParameterError
        If the law does not suit the loss, or its scale would leave 2^53.
    SensitivityError
        If no vector of this length has such norms.
    """
    if not 0 < norms.l1**2 <= k * norms.l2_squared:
        raise SensitivityError(
            f"no vector of {k} whole numbers has an l1 norm of {norms.l1} and a squared l2 norm of {norms.l2_squared}: "
            "the query states its sensitivities wrongly; if it is not a query class of your own, report this as a bug"
        )
    if norms.linf >= LARGEST_WHOLE:
        raise SensitivityError(
            f"one unit can change an integer sum by {norms.linf:.4g}, which must be below {LARGEST_WHOLE:.4g}: lower "
            "the resolution (whole steps per unit) or max_rows_per_unit"
        )
    if isinstance(loss, ApproxDP) and loss.delta > 0 and law is NoiseLaw.LAPLACE:
        return _composed_laplace(norms, loss, k=k)
    if isinstance(loss, ApproxDP):
        loss = PureDP(loss.epsilon) if loss.delta == 0 else gaussian_account(loss)
    match loss:
        case PureDP(epsilon):
            plans = {
                NoiseLaw.LAPLACE: lambda: _plan(
                    NoiseLaw.LAPLACE, noise.laplace_scale(norms.l1, epsilon=epsilon), k, norms.l1
                ),
                NoiseLaw.LINF: lambda: _plan(
                    NoiseLaw.LINF, noise.linf_knorm_scale(norms.linf, epsilon=epsilon), k, norms.linf
                ),
            }
            if law is None:
                better = NoiseLaw.LINF.distribution.stddev(norms.linf, k) < math.sqrt(2) * norms.l1  # at epsilon 1
                law = NoiseLaw.LINF if better else NoiseLaw.LAPLACE
            if law not in plans:
                raise ParameterError(
                    f"{law} noise gives no pure epsilon-DP: give a delta above 0, or take Laplace noise"
                )
            return plans[law]()
        case ZCDP(rho):
            _only_gaussian(law)
            return _plan(NoiseLaw.GAUSSIAN, noise.gaussian_scale(norms.l2_squared, rho=rho), k, norms.l2)
        case GaussianDP(mu):
            _only_gaussian(law)
            return _gaussian(norms.l2, mu, k)
    raise ParameterError(
        f"loss must be a PureDP, ApproxDP, ZCDP or GaussianDP, from which the noise is computed, not {loss}"
    )


def plan_selection(linf: int, loss: PrivacyLoss, *, law: SelectionLaw | None = None) -> Selection:
    """Return the least noisy selection mechanism for a loss: permute-and-flip, or under zCDP the exponential one.

    A selection by it costs at most ``loss``, for neighbours that move every score by at most ``linf``.  ``law`` insists
    on one of the two.

    Raises
    ------
    ParameterError
        If the loss is in Gaussian DP, or permute-and-flip is to be paid in zCDP.
    """
    match loss:
        case ZCDP(_) if law is SelectionLaw.PERMUTE_AND_FLIP:
            raise ParameterError(
                "the permute-and-flip mechanism cannot be charged to a zCDP budget: choose the exponential "
                "mechanism, or give a PureDP budget"
            )
        case ZCDP(rho):
            return _exponential(linf, noise.exponential_mechanism_scale(linf, rho=rho, monotonic=False))
        case PureDP(epsilon) | ApproxDP(epsilon, _):
            scale = noise.noisy_max_scale(linf, epsilon=epsilon, monotonic=False)
            if law is SelectionLaw.EXPONENTIAL:  # 2 linf / epsilon for both (docs/proofs/selection.md)
                return _exponential(linf, scale)
            return Selection(choose=noise.noisy_max, mechanism="noisy max", sensitivity=linf, scale=scale, stddev=scale)
    raise ParameterError(
        "the choice by a noisy maximum has no privacy loss in Gaussian DP: give the curator a budget in PureDP, "
        "ApproxDP or ZCDP"
    )


def _exponential(linf: int, scale: float) -> Selection:
    """Return the exponential mechanism, with the stddev of the Gumbel noise that it is equivalent to, for the receipt."""
    return Selection(
        choose=noise.exponential_mechanism,
        mechanism="exponential mechanism",
        sensitivity=linf,
        scale=scale,
        stddev=scale * math.pi / math.sqrt(6),  # of the Gumbel noise whose maximum has the same law
    )


def account_inside(
    loss: PrivacyLoss, currency: type[PrivacyLoss] | None, *, thresholds: float = 0.0, ends: float = 0.0
) -> PrivacyLoss:
    """Return a budget inside a loss that adds up over adaptive spends: an (epsilon, delta) becomes zCDP or Gaussian DP.

    Spending the result costs at most ``loss``, adaptively or not.

    Parameters
    ----------
    loss
        The largest loss of the account.
    currency
        For an (epsilon, delta): `ZCDP`, `ApproxDP` for its own, or Gaussian DP.
    thresholds, ends
        For Gaussian DP: the shares of delta that are set aside for thresholds, and for early ends.
    """
    if not isinstance(loss, ApproxDP) or currency is ApproxDP:
        return loss
    if loss.delta == 0:
        return PureDP(loss.epsilon)
    if currency is ZCDP:
        return ZCDP(accounting.zcdp_from_approx(loss.epsilon, loss.delta))
    return gaussian_account(loss, thresholds=thresholds, ends=ends)


def gaussian_account(loss: ApproxDP, *, thresholds: float = 0.0, ends: float = 0.0) -> GaussianDP:
    """Return the largest Gaussian-DP budget inside an (epsilon, delta), delta above 0.

    Integer noise is Gaussian DP exactly, so nothing is set aside for it (docs/proofs/gaussian-filter.md, Theorem 3); for
    thresholds on keys that nobody listed, a part of delta is (docs/proofs/thresholded-gaussian.md, Theorem 3).

    Spending the result costs at most ``loss``, adaptively or not.

    Parameters
    ----------
    loss
        The (epsilon, delta).
    thresholds, ends
        The shares of delta that are set aside for thresholds, and for ends before the whole is spent (see `EarlyEnds`); each
        at least 0, together below 1.
    """
    aside = loss.delta * thresholds
    return GaussianDP(accounting.gdp_from_approx(loss.epsilon, loss.delta - aside - loss.delta * ends), aside)


def _gaussian(l2: float, mu: float, k: int) -> Calibration:
    """Return discrete Gaussian noise of mu-GDP for k sums of L2 sensitivity ``l2``, and a factor for the sums.

    Sums are multiplied by a power of 2, at most `FINEST`, so that sigma is 2^20 lattice steps or more: then discrete
    noise costs hardly more than continuous noise.  Where the largest factor gives less, sigma is raised to 2^20.
    """
    if l2 / mu > noise.LARGEST_SCALE / 2:
        raise ParameterError(
            f"a privacy loss of mu = {mu:.3g} (Gaussian DP) would need noise above the largest supported scale, "
            "2**53: give a larger budget or a smaller max_rows_per_unit"
        )
    resolution = 2 ** math.ceil(math.log2(min(max(LEAST_SIGMA * mu / l2, 1.0), FINEST)))
    sigma = max(float(LEAST_SIGMA), accounting.discrete_gaussian_sigma(resolution * l2, mu=mu))
    return Calibration(Noise(law=NoiseLaw.GAUSSIAN, scale=sigma, k=k), resolution, l2)


def _composed_laplace(norms: Norms, loss: ApproxDP, *, k: int) -> Calibration:
    """Return the smaller of two Laplace noises for k sums that cost an (epsilon, delta).

    One is for the L1 norm at the whole epsilon, without delta.  The other is for the maximum norm, at the epsilon at
    which k composed coordinates cost the whole.
    """
    each = composition.split(loss.epsilon, k, delta=loss.delta)
    scales = noise.laplace_scale(norms.l1, epsilon=loss.epsilon), noise.laplace_scale(norms.linf, epsilon=each)
    sensitivity = norms.l1 if scales[0] <= scales[1] else norms.linf
    return _plan(NoiseLaw.LAPLACE, min(scales), k, sensitivity)


def _plan(law: NoiseLaw, scale: float, k: int, sensitivity: float) -> Calibration:
    """Return a `Calibration` of k answers with noise of one scale, added to the sums as they are (resolution 1)."""
    return Calibration(Noise(law=law, scale=scale, k=k), 1, sensitivity)


def _only_gaussian(law: NoiseLaw | None) -> None:
    """Raise ParameterError for Laplace noise: budgets in zCDP and Gaussian DP are charged for Gaussian noise only.

    ``None`` leaves the choice to the calibration, which then takes Gaussian noise.
    """
    if law not in (None, NoiseLaw.GAUSSIAN):
        raise ParameterError(
            f"{law} noise cannot be charged to a ZCDP or GaussianDP budget: choose Gaussian noise, or give a PureDP "
            "budget"
        )


def laplace_bound(k: int, *, sensitivity: float, epsilon: float, beta: float, delta: float = 0.0) -> float:
    """Return a bound α on the largest error of k answers with Laplace noise, α = Δ(k/ε)ln(k/β).

    For δ > 0 it is Δ√(8k ln(1/δ))/ε·ln(k/β) (Roth, lecture 5, Theorem 3).

    Parameters
    ----------
    k
        Number of queries, each answered with its own Laplace noise.
    sensitivity
        Δ of one query.
    epsilon, delta
        The loss of all answers together.
    beta
        Probability that some answer is off by more than α.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    each = epsilon / k if delta == 0 else epsilon / math.sqrt(8 * k * math.log(1 / delta))
    return sensitivity / each * math.log(k / beta)


def laplace(k: int, *, sensitivity: float, epsilon: float, beta: float, delta: float = 0.0, rule: str = "pld") -> float:
    """Return the exact (1 − β)-quantile α of the largest error of k answers with Laplace noise.

    The scale b is the least that the composition ``rule`` allows (basic if δ = 0).  P(max |zᵢ| ≤ α) = (1 − e^(−α/b))^k.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    each = epsilon / k if delta == 0 else composition.split(epsilon, k, delta=delta, rule=rule)
    return -sensitivity / each * math.log(_one_tail(k, beta))


def gaussian_bound(k: int, *, sensitivity: float, epsilon: float, delta: float, beta: float) -> float:
    """Return a bound α on the largest error of k answers with Gaussian noise of the classical σ, proved for ε ≤ 1.

    α = σ√(2 ln(2k/β)) with σ = Δ√k·√(2 ln(1.25/δ))/ε (Dwork, Roth 2014, Theorem A.1, and a union bound).
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    if epsilon > 1:
        raise ParameterError(f"epsilon ({epsilon}) must be at most 1, because the theorem behind this bound assumes it")
    sigma = sensitivity * math.sqrt(2 * k * math.log(1.25 / delta)) / epsilon
    return sigma * math.sqrt(2 * math.log(2 * k / beta))


def gaussian(k: int, *, sensitivity: float, epsilon: float, delta: float, beta: float) -> float:
    """Return the exact (1 − β)-quantile α of the largest error of k answers with Gaussian noise of the least σ.

    σ = Δ√k/μ with μ of `accounting.gdp_from_approx`.  P(max |zᵢ| ≤ α) = (2Φ(α/σ) − 1)^k.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    sigma = sensitivity * math.sqrt(k) / accounting.gdp_from_approx(epsilon, delta)
    return float(-sigma * ndtri(_one_tail(k, beta) / 2))


def linf_knorm(k: int, *, sensitivity: float, epsilon: float, beta: float) -> float:
    """Return the exact (1 − β)-quantile α of the largest error of k answers of the ℓ∞ K-norm mechanism.

    max |zᵢ| has the gamma law of shape k and scale Δ/ε (Hardt, Talwar 2010).
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    return sensitivity / epsilon * float(gammainccinv(k, beta))


def _one_tail(k: int, beta: float) -> float:
    """Return the tail probability p of one answer with (1 − p)^k = 1 − β, so that all k answers are within the bound."""
    return -math.expm1(math.log1p(-beta) / k)


def _check(k: int, *, sensitivity: float, epsilon: float, beta: float) -> None:
    """Raise ParameterError unless k, sensitivity and ε are positive and β is between 0 and 1."""
    check_integral("k", k)
    check_number("sensitivity", sensitivity, above=0)
    check_number("epsilon", epsilon, above=0)
    check_share("beta", beta)
