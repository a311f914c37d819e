"""Boosting for queries: hard queries are drawn, the median answers, and the argument for the rounds holds."""

import numpy as np
import pytest
from silence import silence
from small_worlds import binary_table, binary_world, curator_of, skewed_codes

from synthdp import ApproxDP, PureDP
from synthdp.errors import ParameterError
from synthdp.privacy import noise
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.works.net.private_boosting import PrivateBoosting, boosting_bound, boosting_rounds

SCHEMA, DOMAIN = binary_world(4)
QUERIES = Marginals(DOMAIN, all_cliques(DOMAIN, 2))
CODES = skewed_codes(4, 30_000)
TABLE = binary_table(SCHEMA, CODES)
TRUTH = QUERIES.sums(CODES)


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("budget", [PureDP(2.0), ApproxDP(2.0, 1e-6)])
def test_the_median_of_the_tables_answers(budget, neighbors):
    curator = curator_of(TABLE, SCHEMA, budget, neighbors)
    release = PrivateBoosting(QUERIES).release(curator, random_state=0)
    tables = [table.answer(QUERIES) for table in release.output.tables]
    np.testing.assert_allclose(release.output.answer(QUERIES), np.median(tables, axis=0))
    assert np.abs(release.output.answer(QUERIES) - TRUTH).max() / len(CODES) < 0.1
    assert curator.remaining is None
    assert release.loss == budget


@pytest.mark.landing
def test_without_noise_the_worst_answered_queries_are_drawn_and_answered(monkeypatch):
    silence(monkeypatch)
    drawn = []

    def largest(scores, *, scale):
        order = np.argsort(-scores, kind="stable")
        drawn.append(int(order[len(drawn) % 12]))
        return drawn[-1]

    monkeypatch.setattr(noise, "noisy_max", largest)
    mechanism = PrivateBoosting(QUERIES, rounds=9, drawn=12, accuracy=0.005, replay=2000)
    release = mechanism.release(curator_of(TABLE, SCHEMA, PureDP(1e5)), random_state=1)
    assert len(drawn) == 8 * 12
    assert np.abs(release.output.answer(QUERIES) - TRUTH).max() / len(CODES) <= 2 * boosting_bound(accuracy=0.005)


@pytest.mark.parametrize("margin", [1.0, 0.5, 0.2])
def test_after_so_many_good_rounds_no_query_fails_in_half_of_them(margin):
    """Against an adversary that, within the margin, fails the heaviest queries it can."""
    k = 40
    rounds = boosting_rounds(k, margin=margin)
    total = np.zeros(k)
    for _ in range(rounds):
        weights = np.exp(-margin * total)
        weights /= weights.sum()
        good = np.ones(k)
        for query in np.argsort(total, kind="stable"):  # fail as many of the worst as the margin allows
            fewer = np.where(np.arange(k) == query, -1, good)
            good = [good, fewer][int(weights @ fewer >= margin)]
        assert weights @ good >= margin - 1e-12  # the weights are normalised in floating point
        total += good
    assert total.min() > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"rounds": 4},
        {"rounds": 1},
        {"drawn": 0},
        {"replay": 0},
        {"accuracy": 0.0},
        {"draw_share": 1.0},
        {"total_share": 2},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ParameterError):
        PrivateBoosting(QUERIES, **settings)


def test_rounds_need_a_margin():
    with pytest.raises(ParameterError):
        boosting_rounds(10, margin=0.0)
