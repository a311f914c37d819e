"""The net mechanism: sizes, refusals, accuracy, and what a release is."""

import itertools
import math

import numpy as np
import pytest
from small_worlds import binary_table, binary_world, curator_of, skewed_codes

from synthdp import ZCDP, ApproxDP, PureDP
from synthdp.errors import ParameterError
from synthdp.privacy import noise
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.queries.linear import CellQueries
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.works.net.net import NetMechanism, alpha_net_size, multisets, net_bound, required_size

SCHEMA, DOMAIN = binary_world(2)
QUERIES = Marginals(DOMAIN, all_cliques(DOMAIN, 1) + all_cliques(DOMAIN, 2))
CODES = skewed_codes(2, 2000)
TABLE = binary_table(SCHEMA, CODES)
TRUTH = QUERIES.sums(CODES) / len(CODES)


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("alpha", [1.0, 0.4, 0.3])
def test_the_required_size_is_a_net_for_any_table(k, alpha):
    """Every distribution on four cells has a multiset of the required size within alpha on any k of these queries."""
    size = required_size(k, alpha=alpha)
    assert 2 * k * math.exp(-2 * size * alpha**2) <= 1
    rng = np.random.default_rng(0)
    values = rng.random((k, 4))
    candidates = multisets(4, size) / size
    for truth in rng.dirichlet(np.full(4, 0.5), 10):
        assert np.abs((candidates - truth) @ values.T).max(axis=1).min() <= alpha


def test_one_row_less_than_required_is_not_proved():
    assert 2 * 40 * math.exp(-2 * (required_size(40, alpha=0.3) - 1) * 0.3**2) > 1


@pytest.mark.parametrize(("cells", "size"), [(1, 3), (3, 1), (3, 2), (3, 3), (2, 5), (4, 6)])
def test_multisets_are_all_sums_of_so_many_cells_in_lexicographic_order(cells, size):
    every = [counts for counts in itertools.product(range(size + 1), repeat=cells) if sum(counts) == size]
    assert multisets(cells, size).tolist() == [list(counts) for counts in every]


def test_the_net_counts_multisets_not_sequences():
    assert alpha_net_size(8, 10, alpha=0.3) == math.comb(8 + 17 - 1, 17)
    assert required_size(10, alpha=0.3) == 17
    assert alpha_net_size(8, 10, alpha=0.3) < 8**17


def test_too_many_candidates_are_refused_with_their_number_and_alternatives():
    _, domain = binary_world(3)
    with pytest.raises(ParameterError, match=r"62891499.*MWEM"):
        NetMechanism(Marginals(domain, all_cliques(domain, 2)), size=40)


@pytest.mark.parametrize("settings", [{"size": 0}, {"size": 2.5}, {"size": True}, {"total_share": 0.0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ParameterError):
        NetMechanism(QUERIES, **settings)


@pytest.mark.parametrize(
    "arguments",
    [
        {"k": 0, "cells": 4, "size": 2, "rows": 5, "epsilon": 1.0, "beta": 0.1},
        {"k": 3, "cells": 4, "size": 2, "rows": 5, "epsilon": 0.0, "beta": 0.1},
        {"k": 3, "cells": 4, "size": 2, "rows": 5, "epsilon": 1.0, "beta": 1.0},
    ],
)
def test_bounds_of_nonsense_are_refused(arguments):
    with pytest.raises(ParameterError):
        net_bound(arguments.pop("k"), **arguments)


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_accuracies_that_no_net_has_are_refused(alpha):
    with pytest.raises(ParameterError, match="alpha"):
        required_size(3, alpha=alpha)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.5)])
def test_the_released_table_is_small_and_within_the_bound(budget, neighbors):
    release = NetMechanism(QUERIES, size=12).release(curator_of(TABLE, SCHEMA, budget, neighbors))
    support = release.output.support
    np.testing.assert_allclose(12 * support.weights, np.rint(12 * support.weights))
    bound = net_bound(QUERIES.k, cells=4, size=12, rows=len(CODES), epsilon=0.9, beta=1e-9)
    assert np.abs(release.output.averages(QUERIES) - TRUTH).max() <= bound


def test_a_large_epsilon_finds_the_best_table_of_the_net():
    release = NetMechanism(QUERIES, size=12).release(curator_of(TABLE, SCHEMA, PureDP(5000.0)))
    averages = multisets(4, 12) / 12
    counts = QUERIES.features(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
    best = np.abs(averages @ counts - TRUTH).max(axis=1).min()
    assert np.abs(release.output.averages(QUERIES) - TRUTH).max() == pytest.approx(best, abs=1e-12)


def test_a_release_samples_rows_and_answers_queries():
    release = NetMechanism(QUERIES, size=5).release(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    sample = release.sample(50, random_state=0)
    assert list(sample.columns) == list(SCHEMA)
    assert len(sample) == 50
    sampled = QUERIES.sums(sample.to_numpy().astype(int))
    np.testing.assert_allclose(sampled, 50 * release.output.averages(QUERIES), atol=1)
    np.testing.assert_allclose(release.output.answer(QUERIES), len(CODES) * release.output.averages(QUERIES))


def test_queries_about_other_cells_are_refused():
    release = NetMechanism(QUERIES, size=3).release(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    _, other = binary_world(3)
    with pytest.raises(ParameterError, match="queries"):
        release.output.answer(Marginals(other, ((0,),)))


def test_under_zcdp_the_exponential_mechanism_chooses_at_an_eighth_of_epsilon_squared(monkeypatch):
    seen = []
    monkeypatch.setattr(noise, "exponential_mechanism", lambda scores, *, scale: seen.append(scale) or 0)
    NetMechanism(QUERIES, size=3).release(curator_of(TABLE, SCHEMA, ZCDP(0.02)))
    assert seen == [pytest.approx(2 * 3 / np.sqrt(8 * 0.02 * (1 - COUNT_SHARE)), rel=1e-12)]
    assert noise.exponential_mechanism_rho(3, scale=seen[0], monotonic=False) <= 0.02


def test_the_size_follows_from_an_accuracy():
    mechanism = NetMechanism(QUERIES, alpha=0.4)
    assert mechanism.size_for(QUERIES) == required_size(QUERIES.k, alpha=0.4)
    release = mechanism.release(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    rows = release.output.support.weights * required_size(QUERIES.k, alpha=0.4)
    np.testing.assert_allclose(rows, np.rint(rows), atol=1e-9)


def test_a_size_and_an_accuracy_contradict_each_other():
    with pytest.raises(ParameterError, match=r"size.*alpha"):
        NetMechanism(QUERIES, size=3, alpha=0.4)


def test_an_accuracy_is_promised_for_queries_in_the_unit_interval_only():
    with pytest.raises(ParameterError, match="alpha"):
        NetMechanism(CellQueries(DOMAIN, np.array([[0, 2, 0, 1]])), alpha=0.4)


def test_a_selection_that_a_loss_does_not_pay_for_is_refused_before_the_spend():
    curator = curator_of(TABLE, SCHEMA, ZCDP(0.5))
    with pytest.raises(ParameterError, match="exponential"):
        NetMechanism(QUERIES, size=2, selection="permute_and_flip").release(curator)
    assert curator.remaining == ZCDP(0.5)


def test_an_unknown_selection_is_refused():
    with pytest.raises(ParameterError, match="selection"):
        NetMechanism(QUERIES, selection="by chance")
