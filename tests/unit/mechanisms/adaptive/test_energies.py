"""Energies: what noisy scores of all pairs say of each."""

import numpy as np
import pytest

from synthdp.mechanisms.adaptive.energies import DISTANCES, NONE, energies, prior_of
from synthdp.planning.power import seen

ROWS, PAIRS, CHANCE = 10_000.0, 300, 400.0


def said(related: int, distance: float, stddev: float, *, seed: int = 0) -> list:
    """What scores say where some of the pairs are related."""
    rng = np.random.default_rng(seed)
    true = np.where(np.arange(PAIRS) < related, distance, 0.0)
    scores = np.hypot(true, CHANCE) + stddev * rng.standard_normal(PAIRS)
    return energies(scores, np.full(PAIRS, CHANCE), stddev, total=ROWS)


@pytest.mark.parametrize("stddev", [20.0, 200.0, 2000.0])
def test_where_nothing_is_related_nothing_is_expected(stddev):
    assert max(one.expected for one in said(0, 0.0, stddev)) < 0.03 * ROWS + 0.3 * stddev


def test_relations_that_stand_out_are_seen_as_far_as_they_go():
    found = said(20, 5000.0, 500.0)
    assert max(one.none for one in found[:20]) < 0.05
    assert np.mean([one.none for one in found[20:]]) > 0.8
    assert np.mean([one.distance for one in found[:20]]) == pytest.approx(5000.0, rel=0.15)


def test_scores_far_beyond_their_noise_leave_no_doubt_and_nearer_ones_some():
    none = [said(20, distance, 500.0)[0].none for distance in (500.0, 1500.0, 5000.0)]
    assert none == sorted(none, reverse=True)
    assert none[-1] < 1e-3 < none[0]


def test_the_more_are_related_the_likelier_each_is():
    few, many = (np.median([one.none for one in said(related, 1800.0, 500.0)[:5]]) for related in (5, 150))
    assert many < few


def test_beforehand_a_pair_is_as_likely_related_as_not():
    assert prior_of(2).sum(axis=1) @ NONE == pytest.approx(0.5, abs=0.02)
    assert prior_of(2).shape == (len(NONE), len(DISTANCES))
    assert prior_of(2).sum() == pytest.approx(1.0)


def test_scores_below_what_chance_makes_are_no_sign_of_anything():
    found = energies(np.array([-500.0, 0.0, 5000.0]), np.full(3, CHANCE), 50.0, total=ROWS)
    assert found[0].none > 0.5
    assert found[2].none < 1e-6


@pytest.mark.landing
def test_as_many_relations_are_seen_as_are_foretold():
    """Relations among three hundred pairs, one after the other, each beside unrelated ones."""
    for distance, stddev in ((1000.0, 200.0), (1600.0, 300.0)):
        foretold = seen(np.full(PAIRS, distance), np.full(PAIRS, CHANCE), stddev, total=ROWS)[0]
        found = [said(1, distance, stddev, seed=seed)[0].none <= 0.5 for seed in range(40)]
        assert np.mean(found) == pytest.approx(foretold, abs=0.15)
    for distance, chance in ((0.0, 0.0), (9000.0, 1.0)):
        assert seen(np.full(PAIRS, distance), np.full(PAIRS, CHANCE), 200.0, total=ROWS)[0] == chance
