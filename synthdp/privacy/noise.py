"""Exact noise on integers, drawn from the operating system's entropy: the only module that calls OpenDP.

The curator passes exact integer sums and gives out the results.  No draw can be seeded, so that no caller can repeat
one.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtr

from synthdp.arrays import IntArray
from synthdp.checks import check_integral, check_number
from synthdp.errors import InternalError, ParameterError, PrivacyError
from synthdp.queries.norms import root_up


def noise_versions() -> tuple[tuple[str, str], ...]:
    """Return name and version of each package that a guarantee rests on, for the receipt."""
    return tuple((name, version_of(name)) for name in ("synthdp", "opendp", "dp-accounting", "numpy"))


@cache
def version_of(name: str) -> str:
    """Return the version of an installed package, or "not installed"; the receipt names it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


LARGEST_VALUE = 2**53
"""Largest integer that noise is added to; larger ones are clipped.  Clipping never increases a difference of two values,
so every sensitivity still holds.  A safety limit."""

LARGEST_SCALE = 2.0**53
"""Largest noise scale: a draw then exceeds int64 with probability below e⁻¹⁰⁰⁰.  OpenDP clips such a draw, which is
post-processing.  A safety limit."""

_FIRST_UNBIASED = (0, 14, 2)
"""First version of OpenDP whose sampler is right.  Earlier ones divided large rationals wrongly, and drew some values too
often (opendp/opendp issue 2638)."""

_SQUARES = 2**126
"""Upper limit on squared L2 sensitivities.  Derived: the square of 2^63, the limit on all other sensitivities, which are
64-bit integers."""

_SLACK = 1e-10
"""Relative error that is added to tail probabilities, and subtracted from the argument of the normal tail.  The slack
covers rounding of sums and of the normal tail in double precision, down to probabilities of 1e-300.  A numerical
tolerance."""

_RANGES = 2**12
"""Up to this number of keys of one unit, each number of keys is bounded by itself; larger numbers are bounded in this many
ranges, to save time.  More ranges would make the delta of a threshold slightly smaller.  A safety limit of time."""

_Cost: TypeAlias = Callable[[float], float]
"""A function from the scale of noise to the loss that the noise costs, an epsilon or a rho."""


def check_opendp() -> None:
    """Refuse a version of OpenDP whose noise has the wrong distribution.

    Raises
    ------
    PrivacyError
        If the installed version has this fault, or is unknown.
    """
    installed = version_of("opendp")
    if tuple(int(part) for part in re.findall(r"\d+", installed)[:3]) < _FIRST_UNBIASED:
        raise PrivacyError(
            f"OpenDP {installed} draws noise of a wrong distribution: run pip install --upgrade 'opendp>=0.14.2'"
        )


def discrete_laplace(values: IntArray, *, scale: float) -> IntArray:
    """Add independent discrete Laplace noise, P(z) ∝ exp(−|z|/scale), to each integer.

    Costs ε = Δ₁/scale (`laplace_epsilon`) for neighbours whose values differ by at most Δ₁ in L1.

    Parameters
    ----------
    values
        (k,) int64.  Magnitudes above 2⁵³ are clipped; a static bound on the sums keeps them below.
    scale
        0 < scale ≤ 2⁵³, in multiples of ``values``.

    Raises
    ------
    ParameterError
        If ``scale`` is out of range.
    InternalError
        If ``values`` is not a vector of int64.

    Notes
    -----
    The sampler is exact (Canonne, Kamath, Steinke 2020, Algorithm 2, in OpenDP's rational arithmetic).
    """
    dp = _opendp()
    _check_scale(scale)
    measurement = dp.make_laplace(dp.int_vector, dp.l1, scale=float(scale))
    return _noised(measurement, values, one=1)


def discrete_gaussian(values: IntArray, *, scale: float) -> IntArray:
    """Add independent discrete Gaussian noise, P(z) ∝ exp(−z²/2·scale²), to each integer.

    Costs ρ = Δ₂²/(2·scale²) of zCDP (`gaussian_rho`) for neighbours whose values differ by at most Δ₂ in L2.

    Parameters
    ----------
    values
        (k,) int64.  Magnitudes above 2⁵³ are clipped; a static bound on the sums keeps them below.
    scale
        σ of the law, 0 < scale ≤ 2⁵³, in multiples of ``values``.

    Raises
    ------
    ParameterError
        If ``scale`` is out of range.
    InternalError
        If ``values`` is not a vector of int64.

    Notes
    -----
    The sampler is exact (Canonne, Kamath, Steinke 2020, Algorithm 3, in OpenDP's rational arithmetic).
    """
    dp = _opendp()
    _check_scale(scale)
    measurement = dp.make_gaussian(dp.int_vector, dp.l2, scale=float(scale))
    return _noised(measurement, values, one=1.0)


def geometric(*, scale: float) -> int:
    """Draw one integer z ≥ 0 with P(z) ∝ exp(−z/scale): the one-sided noise of the sparse vector technique.

    Costs the loss that is stated for the mechanism that adds it (`synthdp.privacy.above_threshold`).

    Parameters
    ----------
    scale
        0 < scale ≤ 2⁵³.

    Notes
    -----
    A discrete Laplace draw, given that it is not negative, has exactly this distribution.  So independent draws are
    made in a batch, and the first that is not negative is taken.
    """
    while True:
        drawn = discrete_laplace(np.zeros(8, np.int64), scale=scale)
        kept = drawn[drawn >= 0]
        if len(kept):
            return int(kept[0])


def noisy_max(scores: IntArray, *, scale: float) -> int:
    """Choose the position of a high score by permute-and-flip.

    Costs ε = 2Δ∞/scale, or Δ∞/scale for monotonic scores (`noisy_max_epsilon`), for neighbours whose scores
    differ by at most Δ∞ each.

    Parameters
    ----------
    scores
        (m,) int64 scores, m ≥ 1; higher is better.
    scale
        0 < scale ≤ 2⁵³.

    Returns
    -------
    int
        A position in ``range(m)``.

    Notes
    -----
    OpenDP's noisy max under max-divergence is permute-and-flip (McKenna, Sheldon 2020): visit the candidates
    in random order and take the first that passes a coin of probability exp((score − max)/scale).  It is the
    law of the maximum of scores with exponential noise, and never worse than the exponential mechanism.
    """
    dp = _opendp()
    _check_scale(scale)
    return _chosen(dp.make_noisy_max(dp.int_vector, dp.linf, dp.max_divergence, scale=float(scale)), scores)


def exponential_mechanism(scores: IntArray, *, scale: float) -> int:
    """Choose position i with probability ∝ exp(scores[i]/scale).

    Costs ρ = (2Δ∞/scale)²/8 of zCDP, or (Δ∞/scale)²/8 for monotonic scores (`exponential_mechanism_rho`): its
    range is bounded, so it costs a quarter of what `noisy_max` of the same scale costs under zCDP.

    Parameters
    ----------
    scores
        (m,) int64 scores, m ≥ 1; higher is better.
    scale
        0 < scale ≤ 2⁵³.

    Notes
    -----
    OpenDP's noisy max under zCDP: the maximum of scores with Gumbel noise.  ε²/8: Cesar, Rogers 2020.
    """
    dp = _opendp()
    _check_scale(scale)
    return _chosen(dp.make_noisy_max(dp.int_vector, dp.linf, dp.zcdp, scale=float(scale)), scores)


def laplace_threshold(counts: Mapping[str, int], *, scale: float, threshold: int) -> dict[str, int]:
    """Return the keys whose noisy count reaches ``threshold``, with that count (the stability histogram).

    Costs the (ε, δ) of `laplace_threshold_cost`, for neighbours whose counts differ in at most l0 keys, by linf each
    and l1 in all; an absent key counts zero.

    Parameters
    ----------
    counts
        Exact counts of the keys that occur.  A count of zero is the same as absence.
    scale
        0 < scale ≤ 2⁵³.
    threshold
        1 ≤ threshold ≤ 2⁵³.

    Returns
    -------
    dict
        Sorted by key, so that the order reveals nothing about the rows.

    Notes
    -----
    OpenDP gets the keys' positions instead of the keys.  The mechanism treats all keys alike, so that renaming them
    leaves its distribution unchanged.  Positions avoid texts in C strings.
    """
    _check_scale(scale)
    _check_threshold(threshold)
    keys, exact = _occurring(counts)
    kept = _threshold(scale, threshold)(dict(enumerate(exact)))
    return {keys[position]: int(kept[position]) for position in sorted(kept)}


def gaussian_threshold(counts: Mapping[str, int], *, scale: float, threshold: int) -> dict[str, int]:
    """Return the keys whose count reaches ``threshold`` with discrete Gaussian noise, with that count.

    Costs mu of Gaussian DP as `discrete_gaussian` does, for neighbours whose counts differ by at most Δ₂ in L2.  Costs
    also the δ of `gaussian_threshold_delta`, for the keys that only one of them has.

    Parameters
    ----------
    counts
        Exact counts of the keys that occur, perhaps multiplied by a resolution.  A count of zero is the same as
        absence.
    scale
        0 < scale ≤ 2⁵³.
    threshold
        1 ≤ threshold ≤ 2⁵³.

    Returns
    -------
    dict
        Sorted by key, so that the order reveals nothing about the rows.
    """
    _check_scale(scale)
    _check_threshold(threshold)
    keys, exact = _occurring(counts)
    if not keys:
        return {}
    noisy = discrete_gaussian(np.array(exact, np.int64), scale=scale)
    return {key: int(count) for key, count in zip(keys, noisy, strict=True) if count >= threshold}


def _occurring(counts: Mapping[str, int]) -> tuple[list[str], list[int]]:
    """Return the keys with a non-zero count, sorted, and their counts, clipped to `LARGEST_VALUE`.

    The order then reveals nothing about the rows.
    """
    keys = sorted(key for key, count in counts.items() if count != 0)
    return keys, [max(-LARGEST_VALUE, min(int(counts[key]), LARGEST_VALUE)) for key in keys]


def linf_knorm(values: IntArray, *, scale: float) -> IntArray:
    """Add noise of law P(z) ∝ exp(−max|zᵢ|/scale) on integer vectors (the ℓ∞ K-norm mechanism).

    Costs ε = Δ∞/scale (`linf_knorm_epsilon`) for neighbours whose values differ by at most Δ∞ in each of
    the k coordinates.

    Parameters
    ----------
    values
        (k,) int64.  Magnitudes above 2⁵³ are clipped; a static bound on the sums keeps them below.
    scale
        2⁻¹⁰ ≤ scale ≤ 2⁵³, in multiples of ``values``.

    Notes
    -----
    The coordinates are dependent; each has standard deviation `linf_knorm.stddev`, 2.45 times below the deviation of
    independent Laplace noise of the same cost when k is large.  Hardt, Talwar 2010; the exact discrete law, its sampler
    and the proofs are in ``docs/proofs/linf-knorm.md``.
    """
    _check_scale(scale)
    _check_vector(values)
    if not values.size:
        return values.copy()
    from synthdp.privacy import linf_knorm as linf_knorm_law

    drawn = linf_knorm_law.draw(values.size, scale=Fraction(float(scale)), bits=secrets.randbits)
    clipped = np.clip(values, -LARGEST_VALUE, LARGEST_VALUE).tolist()
    return np.array([_saturated(x + z) for x, z in zip(clipped, drawn, strict=True)], dtype=np.int64)


def laplace_epsilon(l1_sensitivity: int, *, scale: float) -> float:
    """Return the ε that `discrete_laplace` costs at a scale, computed by OpenDP for its own sampler."""
    dp = _opendp()
    _check_scale(scale)
    _check_sensitivity(l1_sensitivity, name="l1_sensitivity")
    return _finite(dp.make_laplace(dp.int_vector, dp.l1, scale=float(scale)).map(int(l1_sensitivity)))


def gaussian_rho(l2_squared: int, *, scale: float) -> float:
    """Return the zCDP ρ that `discrete_gaussian` costs for a squared L2 sensitivity, computed by OpenDP."""
    dp = _opendp()
    _check_scale(scale)
    _check_sensitivity(l2_squared, name="l2_squared", below=_SQUARES)
    distance = root_up(int(l2_squared))
    return _finite(dp.make_gaussian(dp.int_vector, dp.l2, scale=float(scale)).map(distance))


def noisy_max_epsilon(linf_sensitivity: int, *, scale: float, monotonic: bool) -> float:
    """Return the ε that `noisy_max` costs at a scale, computed by OpenDP.

    ``monotonic``: whether one more row changes all scores in the same direction (counts under add-or-remove-one).
    """
    dp = _opendp()
    return _noisy_max_cost(dp.max_divergence, linf_sensitivity, scale=scale, monotonic=monotonic)


def exponential_mechanism_rho(linf_sensitivity: int, *, scale: float, monotonic: bool) -> float:
    """Return the zCDP ρ that `exponential_mechanism` costs at a scale, computed by OpenDP.

    ``monotonic``: whether one more row changes all scores in the same direction (counts under add-or-remove-one).
    """
    dp = _opendp()
    return _noisy_max_cost(dp.zcdp, linf_sensitivity, scale=scale, monotonic=monotonic)


def linf_knorm_epsilon(linf_sensitivity: int, *, scale: float) -> float:
    """Return the ε of `linf_knorm`: Δ∞/scale, rounded up."""
    _check_scale(scale)
    _check_sensitivity(linf_sensitivity, name="linf_sensitivity")
    exact = Fraction(int(linf_sensitivity)) / Fraction(float(scale))
    epsilon = float(exact)
    return _finite(epsilon if Fraction(epsilon) >= exact else math.nextafter(epsilon, math.inf))


def laplace_threshold_cost(l0: int, l1: int, linf: int, *, scale: float, threshold: int) -> tuple[float, float]:
    """Return the (ε, δ) of `laplace_threshold`, computed by OpenDP.

    Parameters
    ----------
    l0, l1, linf
        At most l0 keys change, by at most linf each, by at most l1 in all.
    scale
        0 < scale ≤ 2⁵³.
    threshold
        linf < threshold ≤ 2⁵³.

    Notes
    -----
    OpenDP releases a key whose noisy count *equals* the threshold but leaves that case out of its δ (opendp/opendp
    issue 2922).  So the δ of ``threshold − 1`` is taken, where the two agree.
    """
    _check_scale(scale)
    _check_threshold(threshold)
    for name, value in (("l0", l0), ("l1", l1), ("linf", linf)):
        _check_sensitivity(value, name=name)
    if threshold <= linf:
        raise ParameterError(f"threshold ({threshold}) must be above linf ({linf})")
    epsilon, delta = _threshold(scale, threshold - 1).map((int(l0), int(l1), int(linf)))
    return _finite(epsilon), _finite(delta)


def gaussian_threshold_delta(rows: int, *, scale: float, threshold: int, resolution: int = 1) -> float:
    """Return the delta that a threshold costs: an upper bound on the probability to release any key that only one unit has.

    Parameters
    ----------
    rows
        Largest number of rows of a unit, in which its keys occur.
    scale
        Scale of the discrete Gaussian noise, 0 < scale ≤ 2⁵³.
    threshold
        The threshold on noisy counts, 1 ≤ threshold ≤ 2⁵³.
    resolution
        The whole number by which counts were multiplied before the noise.

    Notes
    -----
    If a unit has l such keys, none has more than rows − l + 1 of its rows.  The probability is then at most l times the
    probability for one key with this count.  Numbers l beyond a limit are bounded in ranges, by the largest l and the
    largest probability.

    P(Z ≥ m) ≤ P(N(0, scale²) ≥ m − 1) for whole m ≥ 1 (Canonne, Kamath, Steinke 2020, Proposition 25).  Here m is
    threshold − count, so that a noisy count *equal* to the threshold is included.  For m < 1 the probability is taken
    as 1.
    """
    _check_scale(scale)
    _check_threshold(threshold)
    check_integral("rows", rows, most=LARGEST_VALUE)
    check_integral("resolution", resolution, most=LARGEST_VALUE)
    keys = np.unique(np.floor(np.geomspace(1, rows, min(rows, _RANGES))))
    keys = np.union1d(keys, np.arange(1.0, min(rows, _RANGES) + 1))
    most = np.append(keys[1:] - 1, rows)
    margin = float(threshold) - (rows - keys + 1) * float(resolution)
    tail = np.where(margin < 1, 1.0, ndtr(-(margin - 1) * (1 - _SLACK) / scale) * (1 + _SLACK))
    return float(min(1.0, (most * tail).max() * (1 + _SLACK) + math.ulp(0.0)))


@cache
def gaussian_threshold_for(rows: int, *, scale: float, delta: float, resolution: int = 1) -> int:
    """Return the smallest threshold at which `gaussian_threshold_delta` is at most ``delta``.

    ``rows`` is the most rows of a unit; counts were multiplied by ``resolution``.

    Raises
    ------
    ParameterError
        If no threshold up to 2⁵³ has so small a chance.
    """
    _check_target(delta, name="delta")
    return _smallest_threshold(
        0, lambda at: gaussian_threshold_delta(rows, scale=scale, threshold=at, resolution=resolution), delta=delta
    )


def laplace_scale(l1_sensitivity: int, *, epsilon: float) -> float:
    """Return the smallest float scale at which `laplace_epsilon` is at most ``epsilon``."""
    _check_target(epsilon, name="epsilon")
    _check_sensitivity(l1_sensitivity, name="l1_sensitivity", least=1)
    return _smallest_scale(
        l1_sensitivity / epsilon, lambda scale: laplace_epsilon(l1_sensitivity, scale=scale), target=epsilon
    )


def gaussian_scale(l2_squared: int, *, rho: float) -> float:
    """Return the smallest float scale at which `gaussian_rho` is at most ``rho``."""
    _check_target(rho, name="rho")
    _check_sensitivity(l2_squared, name="l2_squared", least=1, below=_SQUARES)
    return _smallest_scale(
        math.sqrt(l2_squared / (2 * rho)), lambda scale: gaussian_rho(l2_squared, scale=scale), target=rho
    )


def noisy_max_scale(linf_sensitivity: int, *, epsilon: float, monotonic: bool) -> float:
    """Return the smallest float scale at which `noisy_max_epsilon` is at most ``epsilon``.

    ``monotonic``: whether one more row changes all scores in the same direction.
    """
    _check_target(epsilon, name="epsilon")
    _check_sensitivity(linf_sensitivity, name="linf_sensitivity", least=1)
    return _smallest_scale(
        (1 if monotonic else 2) * linf_sensitivity / epsilon,
        lambda scale: noisy_max_epsilon(linf_sensitivity, scale=scale, monotonic=monotonic),
        target=epsilon,
    )


def exponential_mechanism_scale(linf_sensitivity: int, *, rho: float, monotonic: bool) -> float:
    """Return the smallest float scale at which `exponential_mechanism_rho` is at most ``rho``.

    ``monotonic``: whether one more row changes all scores in the same direction.
    """
    _check_target(rho, name="rho")
    _check_sensitivity(linf_sensitivity, name="linf_sensitivity", least=1)
    return _smallest_scale(
        (1 if monotonic else 2) * linf_sensitivity / math.sqrt(8 * rho),
        lambda scale: exponential_mechanism_rho(linf_sensitivity, scale=scale, monotonic=monotonic),
        target=rho,
    )


def linf_knorm_scale(linf_sensitivity: int, *, epsilon: float) -> float:
    """Return the smallest float scale at which `linf_knorm_epsilon` is at most ``epsilon``."""
    _check_target(epsilon, name="epsilon")
    _check_sensitivity(linf_sensitivity, name="linf_sensitivity", least=1)
    return _smallest_scale(
        linf_sensitivity / epsilon,
        lambda scale: linf_knorm_epsilon(linf_sensitivity, scale=scale),
        target=epsilon,
    )


@cache
def laplace_threshold_for(l0: int, l1: int, linf: int, *, epsilon: float, delta: float) -> tuple[float, int]:
    """Return the smallest scale, and then the smallest threshold, at which `laplace_threshold` costs (ε, δ).

    Neighbours differ in at most ``l0`` counts, by ``linf`` each and ``l1`` in all.

    Raises
    ------
    ParameterError
        If ``delta`` is below the least that OpenDP can certify (about 1e-16 a key).
    """
    _check_target(delta, name="delta")
    scale = laplace_scale(l1, epsilon=epsilon)
    return scale, _smallest_threshold(
        int(linf), lambda at: laplace_threshold_cost(l0, l1, linf, scale=scale, threshold=at)[1], delta=delta
    )


@cache
def _opendp() -> SimpleNamespace:
    """Return the parts of OpenDP that this module uses, by name: mechanisms, metrics, domains and measures.

    The parts are imported at the first use, from submodules: OpenDP's prelude takes ten times as long.
    """
    check_opendp()
    from opendp.domains import atom_domain, map_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace, make_laplace_threshold, make_noisy_max
    from opendp.measures import max_divergence, zero_concentrated_divergence
    from opendp.metrics import absolute_distance, l01inf_distance, l1_distance, l2_distance, linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return SimpleNamespace(
        make_gaussian=make_gaussian,
        make_laplace=make_laplace,
        make_laplace_threshold=make_laplace_threshold,
        make_noisy_max=make_noisy_max,
        max_divergence=max_divergence(),
        zcdp=zero_concentrated_divergence(),
        int_vector=vector_domain(atom_domain(T="i64")),
        int_map=map_domain(atom_domain(T="i64"), atom_domain(T="i64")),
        l1=l1_distance(T="i64"),
        l2=l2_distance(T="f64"),
        linf=linf_distance(T="i64", monotonic=False),
        linf_monotonic=linf_distance(T="i64", monotonic=True),
        l01inf=l01inf_distance(absolute_distance(T="i64")),
    )


def _noised(measurement: Any, values: IntArray, *, one: float) -> IntArray:
    """Return (k,) integers with the noise of an OpenDP measurement, clipped to `LARGEST_VALUE` before.

    Its cost at a sensitivity of 1 (``one``, in the metric's type) is computed first: that refuses bad parameters.
    """
    _check_vector(values)
    _finite(measurement.map(one))
    clipped = np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)
    return np.asarray(measurement(clipped), dtype=np.int64)


def _chosen(measurement: Any, scores: IntArray) -> int:
    """Return the index that an OpenDP selection chooses among (m,) integer scores.

    Its cost is computed first, because that refuses bad parameters.  Scores are clipped to `LARGEST_VALUE`, which never
    increases the difference of two scores.
    """
    _check_vector(scores)
    if not scores.size:
        raise ParameterError("scores is empty: it must hold the score of at least one candidate")
    _finite(measurement.map(1))
    clipped = np.clip(scores, -LARGEST_VALUE, LARGEST_VALUE)
    return int(measurement(clipped))


def _noisy_max_cost(measure: object, linf_sensitivity: int, *, scale: float, monotonic: bool) -> float:
    """Return the loss of a noisy maximum of scores with this sensitivity, computed by OpenDP.

    It is an epsilon or a rho, by ``measure``.
    """
    dp = _opendp()
    _check_scale(scale)
    _check_sensitivity(linf_sensitivity, name="linf_sensitivity")
    metric = dp.linf_monotonic if monotonic else dp.linf
    return _finite(dp.make_noisy_max(dp.int_vector, metric, measure, scale=float(scale)).map(int(linf_sensitivity)))


def _threshold(scale: float, threshold: int) -> Any:
    """Return OpenDP's mechanism that releases the keys whose counts with Laplace noise reach a threshold."""
    dp = _opendp()
    return dp.make_laplace_threshold(dp.int_map, dp.l01inf, scale=float(scale), threshold=int(threshold))


def _smallest_threshold(low: int, cost: Callable[[int], float], *, delta: float) -> int:
    """Return the smallest threshold above ``low`` whose cost is at most ``delta``, by bisection.

    Raise ParameterError if none up to `LARGEST_VALUE` is.
    """
    high = LARGEST_VALUE
    if cost(high) > delta:
        raise ParameterError(f"delta ({delta}) is too small for any threshold up to 2**53: give a larger delta")
    while high - low > 1:  # the cost at `high` is within delta; `low` is unknown or too low
        middle = (low + high) // 2
        if cost(middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def _smallest_scale(guess: float, cost: _Cost, *, target: float) -> float:
    """Return the smallest float scale whose cost is at most ``target``, walking up from the closed form ``guess``.

    The guess is a few units in the last place too low, because OpenDP rounds every cost up.
    """
    scale = guess
    while cost(scale) > target:
        scale = math.nextafter(scale, math.inf)
    return scale


def _saturated(value: int) -> int:
    """Return an integer clipped to 64 bits: post-processing of a draw that does not fit."""
    return max(-(2**63), min(value, 2**63 - 1))


def _finite(cost: float) -> float:
    """Return a loss computed by OpenDP as a float; raise an error if it is infinite, as for a scale of 0."""
    if not math.isfinite(cost):
        raise ParameterError("scale is so small that the privacy loss is infinite: give a larger scale")
    return float(cost)


def _check_scale(scale: float) -> None:
    """Raise ParameterError unless a scale is positive and at most `LARGEST_SCALE`."""
    check_number("scale", scale, above=0, most=LARGEST_SCALE)


def _check_target(value: float, *, name: str) -> None:
    """Raise ParameterError unless a target is a positive number."""
    check_number(name, value, above=0)


def _check_threshold(threshold: int) -> None:
    """Raise ParameterError unless a threshold is a whole number from 1 to `LARGEST_VALUE`."""
    check_integral("threshold", threshold, most=LARGEST_VALUE)


def _check_sensitivity(value: int, *, name: str, least: int = 0, below: int = 2**63) -> None:
    """Raise ParameterError unless a sensitivity is a whole number from ``least`` to below ``below``."""
    if int(value) != value or not least <= value < below:
        most = f"2**{below.bit_length() - 1}"
        raise ParameterError(f"{name} ({value}) must be an integer of at least {least} and below {most}")


def _check_vector(values: IntArray) -> None:
    """Raise InternalError unless values are one axis of int64."""
    if values.dtype != np.int64 or values.ndim != 1:
        raise InternalError(f"noise needs a vector of int64, not {values.ndim} axes of {values.dtype}")
