"""Noisy histograms of numbers, and noisy tables of two of them, brought nearer to the truth by what shapes are likely."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import least_squares

import synthdp as sd
from synthdp.domain.domain import axis_of
from synthdp.fit import person_shrinkage
from synthdp.fit.person_shrinkage import smoothed, towards
from synthdp.mechanisms.related.attribute_columns import first_estimate

CELLS = np.arange(24)
SCORES = np.vstack([np.exp(-(((CELLS - middle) / 2.2) ** 2) / 2) for middle in (8, 10, 12)])
SCORES = SCORES / SCORES.sum(axis=1, keepdims=True) * 3000
"""Numbers that grow from one period to the next, far from both ends of their cells."""

FLAT = np.full((4, 10), 300.0)
ATOM = np.where(CELLS == 17, 1500.0, SCORES)
COUNTS = np.tile(3000 * 0.4 ** np.arange(24.0) * 0.6, (3, 1))
"""As visits in a year: most have none."""


TRUTHS = {"growing": SCORES, "flat": FLAT, "counts": COUNTS, "atom": ATOM, "alone": SCORES[1:2]}


def estimate(
    noisy: np.ndarray,
    stddev: float,
    together: tuple[np.ndarray, float] | None = None,
    of_groups: np.ndarray | None = None,
) -> np.ndarray:
    """The estimated histograms of a column, by group of periods."""
    bins = noisy.shape[1]
    axis = axis_of("n", sd.Integer(0, bins - 1), bins=bins)
    beyond = np.zeros((len(noisy), axis.size - bins))  # no value is out of the domain
    if together is not None:
        together = np.column_stack([together[0], beyond[:1]]), together[1]
    found = first_estimate(
        axis, (np.column_stack([noisy, beyond]), stddev), together, by_root=False, total=1.0,
        releasable=axis.releasable, of_groups=of_groups,
    )  # fmt: skip
    return found[:, :bins]


@cache
def releases_of(name: str, stddev: float) -> tuple[np.ndarray, np.ndarray]:
    return releases(TRUTHS[name], stddev)


def releases(truth: np.ndarray, stddev: float, *, times: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Noisy histograms, estimated and only cut at 0, (times, groups, cells) each."""
    rng = np.random.default_rng(7)
    noisy = [truth + rng.normal(0, stddev, truth.shape) for _ in range(times)]
    both = [(estimate(one, stddev), np.maximum(one, 0)) for one in noisy]
    smooth, plain = (np.array(some) for some in zip(*both, strict=True))
    return smooth, plain


def distance(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(found - truth).sum() / found[:, 0, 0].size / truth.sum())


@pytest.mark.landing
def test_persons_far_from_all_others_are_not_made_of_noise() -> None:
    smooth, plain = releases_of("growing", 40.0)
    far = np.abs(CELLS - np.array([[8], [10], [12]])) > 9
    assert smooth[:, far].sum() < 0.06 * plain[:, far].sum()


def test_the_spread_of_a_number_survives_noise() -> None:
    smooth, plain = releases_of("alone", 40.0)

    def error(found: np.ndarray) -> float:
        shares = found / found.sum(axis=2, keepdims=True)
        variance = (shares * CELLS**2).sum(axis=2) - (shares * CELLS).sum(axis=2) ** 2
        return float(np.abs(np.log(variance / 2.2**2)).mean())

    assert error(smooth) < 0.4 * error(plain)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "part"), [("growing", 0.7), ("flat", 0.6), ("counts", 0.6)])
@pytest.mark.parametrize("stddev", [10.0, 40.0])
def test_estimated_histograms_are_nearer_to_the_truth_than_noisy_ones(name: str, part: float, stddev: float) -> None:
    estimated, noisy = releases_of(name, stddev)
    assert distance(estimated, TRUTHS[name]) < part * distance(noisy, TRUTHS[name])


@pytest.mark.landing
def test_a_smooth_histogram_comes_nearer_to_the_truth() -> None:
    smooth, plain = releases_of("growing", 40.0)
    assert distance(smooth, SCORES) < 0.6 * distance(plain, SCORES)


@pytest.mark.landing
def test_a_value_that_many_have_keeps_its_share() -> None:
    smooth, _ = releases_of("atom", 20.0)
    assert np.abs(smooth[:, :, 17] - 1500).mean() < 3 * 20.0
    assert smooth[:, :, [16, 18]].max() < 1000


def test_with_hardly_any_noise_a_histogram_stays() -> None:
    jagged = np.abs(np.random.default_rng(1).normal(500, 200, (3, 24)))
    assert np.abs(estimate(jagged, 1e-3) - jagged).max() < 0.1


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["growing", "flat", "counts"])
def test_counts_of_all_periods_together_bring_their_sum_nearer_to_the_truth(name: str) -> None:
    truth, rng, errors = TRUTHS[name], np.random.default_rng(5), np.zeros(2)
    for _ in range(12):
        noisy = truth + rng.normal(0, 40.0, truth.shape)
        together = truth.sum(axis=0, keepdims=True) + rng.normal(0, 20.0, (1, truth.shape[1]))
        for i, counted in enumerate([None, (together, 20.0)]):
            errors[i] += np.abs(estimate(noisy, 40.0, counted).sum(axis=0) - truth.sum(axis=0)).sum()
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.parametrize("row", [None, 0])
def test_periods_add_up_to_all_periods_together_even_if_noise_hides_some(row: int | None) -> None:
    noisy = SCORES + np.random.default_rng(2).normal(0, 40.0, SCORES.shape)
    if row is not None:
        noisy[row] = -100.0  # a period without persons
    together = np.maximum(SCORES.sum(axis=0, keepdims=True), 0)
    found = estimate(noisy, 40.0, (together, 1e-6))
    assert (found >= 0).all()
    assert np.abs(found.sum(axis=0) - together).sum() < 0.05 * together.sum()


@given(
    arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(1, 26)), elements=st.floats(-1e6, 1e6)),
    st.floats(1e-3, 1e6),
)
def test_whatever_noise_says_estimates_are_finite_and_at_least_nothing(noisy: np.ndarray, stddev: float) -> None:
    found = estimate(noisy, stddev)
    assert found.shape == noisy.shape
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() > 0


@given(
    arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 26)), elements=st.floats(-1e6, 1e6)),
    st.floats(1e-3, 1e6),
)
def test_whatever_noise_says_a_histogram_is_finite_and_at_least_nothing(noisy: np.ndarray, stddev: float) -> None:
    found = smoothed(noisy, stddev, lambda n: np.maximum(n, 0))
    assert found.shape == noisy.shape
    assert np.isfinite(found).all()
    assert (found >= 0).all()


def related(strength: float, size: int = 9, total: float = 4000.0) -> np.ndarray:
    """A table of a number and the next: eight groups of it in order, and one of missing values."""
    score = np.append(np.linspace(-1, 1, size - 1), 0)
    there = np.append(np.ones(size - 1), 0)
    table = np.exp(
        strength * np.outer(score, score) - strength * np.abs(score[:, None] - score) * np.outer(there, there)
    )
    table[-1, -1] = 4.0
    return table / table.sum() * total


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("strength", [0.0, 1.0, 3.0])
def test_a_table_of_two_numbers_comes_nearer_to_the_truth_by_an_association(strength: float) -> None:
    truth, rng, errors = related(strength), np.random.default_rng(3), np.zeros(2)
    even = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    for _ in range(8):
        noisy = truth + rng.normal(0, 35.0, truth.shape)
        with_order = towards(noisy, even, 35.0, same=True, ordered=(8, 8))
        errors += [np.abs(found - truth).sum() for found in (with_order, towards(noisy, even, 35.0))]
    assert errors[0] < (1.1 if strength == 0 else 0.8) * errors[1]


def test_a_relation_that_is_no_association_of_order_is_found_all_the_same() -> None:
    truth = 4.0 + 396.0 * np.eye(9)[[3, 1, 8, 0, 6, 2, 7, 4, 5]]
    even = np.full((9, 9), truth.mean())
    found = towards(truth + np.random.default_rng(4).normal(0, 20.0, (9, 9)), even, 20.0, same=True, ordered=(8, 8))
    assert np.abs(found - truth).sum() < 0.4 * np.abs(even - truth).sum()


@given(
    arrays(np.float64, (7, 5), elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, (7, 5), elements=st.floats(0, 1e6)),
    st.floats(1e-3, 1e5),
    st.sampled_from([(0, 0), (7, 5), (6, 4), (3, 3)]),
)
def test_whatever_noise_says_a_table_is_finite_and_at_least_nothing(
    noisy: np.ndarray, expected: np.ndarray, stddev: float, ordered: tuple[int, int]
) -> None:
    found = towards(noisy, expected, stddev, ordered=ordered)
    assert np.isfinite(found).all()
    assert (found >= 0).all()


@pytest.mark.parametrize(
    ("ordered", "same"), [((2, 7), True), ((7, 2), True), ((2, 2), True), ((3, 3), False), ((3, 7), False)]
)
def test_with_two_groups_association_and_closeness_are_one_pattern(
    ordered: tuple[int, int], same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(person_shrinkage, "LEAST_GROUPS", 2)
    association, closeness, *_ = person_shrinkage.features(ordered, ordered, same=False)
    assert np.allclose(np.ptp(association - closeness), 0) == same


CONTRACTS = np.vstack([np.full((4, 24), 300.0), np.full(24, 150.0)])
CONTRACTS[:, 23] = [0, 0, 700, 3000, 4000]
"""The last day of contracts, by group of periods in which they began: of the later ones many are cut at one day."""


def test_a_heap_of_later_periods_is_as_large_as_the_periods_themselves_are() -> None:
    """Sums over the bins of a group are noisier than the counts of its periods, which say how many rows it has."""
    shares = CONTRACTS.sum(axis=1) / CONTRACTS.sum()
    heap, off = CONTRACTS[:, 23].sum() / CONTRACTS.sum(), []
    for known in (None, shares):
        errors = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            noisy = CONTRACTS + rng.normal(0, 120, CONTRACTS.shape)
            together = CONTRACTS.sum(axis=0, keepdims=True) + rng.normal(0, 60, (1, 24)), 60.0
            found = estimate(noisy, 120.0, together, known)
            errors.append(shares @ (found[:, 23] / found.sum(axis=1)) - heap)
            if known is not None:
                np.testing.assert_allclose(found.sum(axis=1) / found.sum(), shares, atol=2e-3)
        off.append(np.sqrt(np.mean(np.square(errors))))
    assert off[1] < 0.6 * off[0]


CLAIMS = np.array(
    [
        [9258, 8115, 4955, 6249, 2911], [2222, 969, 63, 3108, 821], [400, 68, 0, 1027, 130], [76, 2, 0, 257, 11],
        [18, 1, 0, 71, 0], [1, 0, 0, 3, 0],
    ],
    np.float64,
)  # fmt: skip
"""Policies by number of claims (0, 1, 2, 3, 4 to 5, more) and type: few have many, and most of these are of one type."""


def test_a_type_with_more_rows_keeps_them_though_noise_hides_who_has_many() -> None:
    """Each noisy table is shrunk, but not to the same number of rows for all types."""
    rows = np.array([0, 1, 2, 3, 4.3, 6.5])
    expected = np.outer(CLAIMS.sum(axis=1), CLAIMS.sum(axis=0)) / CLAIMS.sum()
    true = rows @ CLAIMS / (rows @ CLAIMS).sum()
    errors = []
    for ordered in ((0, 0), (6, 0)):
        found = []
        for seed in range(12):
            noisy = CLAIMS + np.random.default_rng(seed).normal(0, 86, CLAIMS.shape)
            found.append(rows @ towards(noisy, expected, 86.0, ordered=ordered))
        errors.append(np.mean([one / one.sum() for one in found], axis=0) - true)
    assert abs(errors[0]).max() > 0.03  # of all claims
    assert abs(errors[1]).max() < 0.02
    turned = towards(noisy.T, expected.T, 86.0, ordered=(0, 6))
    np.testing.assert_allclose(turned.T, towards(noisy, expected, 86.0, ordered=(6, 0)), rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_no_other_slopes_are_nearer_to_a_noisy_table(seed: int) -> None:
    """Nobody has the last type, as nobody has a missing value, so that noise alone determines its slope."""
    rng, true = np.random.default_rng(seed), np.column_stack([CLAIMS, np.zeros(len(CLAIMS))])
    noisy = true + rng.normal(0, 86, true.shape)
    margins = [np.maximum(true.sum(axis=axis) + rng.normal(0, 40, 6), 0) for axis in (1, 0)]
    margins = [margin / margin.sum() * true.sum() for margin in margins]
    expected, slopes = np.outer(*margins) / true.sum(), person_shrinkage.features(true.shape, (6, 0), same=False)

    def gap(theta: np.ndarray) -> np.ndarray:
        table = (expected + 1e-3) * np.exp(np.tensordot(theta, slopes[0], axes=1))
        return np.asarray((noisy - person_shrinkage.raked(table, margins)).ravel() / 86)

    found = person_shrinkage.associated(noisy, expected, margins, 86.0, slopes)
    best = least_squares(gap, np.zeros(len(slopes[0])), bounds=(-12, 12))
    assert (((noisy - found) / 86) ** 2).sum() < 2 * best.cost + 1  # the noise alone has 36
