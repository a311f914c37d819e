"""MWEM: tables and queries as parts, replay, and the paper's bound."""

import numpy as np
import pytest
from silence import silence
from small_worlds import binary_table, binary_world, curator_of, skewed_codes

from synthdp import ApproxDP, PureDP
from synthdp.errors import ParameterError
from synthdp.privacy import noise
from synthdp.queries.linear import CellQueries, Subset
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.works.net.listed_cells import CellFit
from synthdp.works.net.mwem import MWEM, mwem_bound

SCHEMA, DOMAIN = binary_world(5)
WORKLOAD = Marginals(DOMAIN, all_cliques(DOMAIN, 2))
CODES = skewed_codes(5, 4000)
TABLE = binary_table(SCHEMA, CODES)
TRUTH = WORKLOAD.sums(CODES) / len(CODES)
CELLS = np.random.default_rng(0).integers(0, 2, (60, 32))
QUERIES = CellQueries(DOMAIN, CELLS)


def error(release, queries=WORKLOAD, truth=TRUTH) -> float:
    return float(np.abs(release.output.averages(queries) - truth).max())


def silent_selection(monkeypatch) -> list[int]:
    chosen: list[int] = []

    def largest(scores, *, scale):
        chosen.append(int(np.argmax(scores)))
        return chosen[-1]

    monkeypatch.setattr(noise, "noisy_max", largest)
    monkeypatch.setattr(noise, "exponential_mechanism", largest)
    return chosen


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_without_noise_it_measures_each_table_once_and_fits_all_of_them(monkeypatch, neighbors):
    silence(monkeypatch)
    chosen = silent_selection(monkeypatch)
    release = MWEM(WORKLOAD, rounds=10, replay=3000).release(curator_of(TABLE, SCHEMA, PureDP(1e4), neighbors))
    assert len(set(chosen)) >= 8
    assert error(release) < 2e-3


def test_without_noise_the_worst_query_is_chosen(monkeypatch):
    silence(monkeypatch)
    chosen = silent_selection(monkeypatch)
    MWEM(QUERIES, rounds=1).release(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    uniform = CELLS.mean(axis=1) * len(CODES)
    assert chosen == [int(np.argmax(np.abs(QUERIES.sums(CODES) - uniform)))]


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_replay_beats_the_single_update_by_far(budget):
    errors = {
        replay: error(MWEM(WORKLOAD, rounds=10, replay=replay).release(curator_of(TABLE, SCHEMA, budget)))
        for replay in (0, 200)
    }
    assert errors[200] < errors[0] / 3


def test_single_queries_are_parts_of_any_other_family():
    release = MWEM(QUERIES, rounds=8).release(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    _, _, *parts = [part.queries for part in release.measurements]  # after what counts misfits
    assert len(parts) == 8
    assert all(isinstance(part, Subset) and part.k == 1 for part in parts)
    start = np.abs(CELLS.mean(axis=1) - QUERIES.sums(CODES) / len(CODES)).max()
    assert error(release, QUERIES, QUERIES.sums(CODES) / len(CODES)) < start


def test_the_papers_form_keeps_the_papers_bound():
    release = MWEM(QUERIES, rounds=12, replay=0, average=True).release(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    bound = mwem_bound(QUERIES.k, cells=32, rows=len(CODES), rounds=12, epsilon=1.0) / len(CODES)
    assert error(release, QUERIES, QUERIES.sums(CODES) / len(CODES)) <= bound


def test_the_bound_is_the_papers():
    expected = 2 * 1000 * np.sqrt(np.log(16) / 9) + 10 * 9 * np.log(50) / 0.5
    assert mwem_bound(50, cells=16, rows=1000, rounds=9, epsilon=0.5) == pytest.approx(expected)
    with pytest.raises(ParameterError):
        mwem_bound(50, cells=16, rows=0, rounds=9, epsilon=0.5)


def test_the_average_of_the_rounds_is_released_on_request(monkeypatch):
    tables = []
    add = CellFit.add

    def recorded(self, *arguments):
        add(self, *arguments)
        tables.append(self.weights)

    monkeypatch.setattr(CellFit, "add", recorded)
    release = MWEM(WORKLOAD, rounds=3, average=True).release(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    np.testing.assert_allclose(release.output.support.weights, np.mean(tables, axis=0))


def test_the_single_update_is_the_papers():
    cells = np.array([[0], [1]])
    _, domain = binary_world(1)
    fit = CellFit(cells, 100, replay=0)
    fit.add(CellQueries(domain, np.array([[0, 1]])), np.array([80.0]), 1.0)
    factor = np.exp((80 - 50) / (2 * 100))
    np.testing.assert_allclose(fit.weights, [1 / (1 + factor), factor / (1 + factor)])


@pytest.mark.parametrize("settings", [{"rounds": 0}, {"rounds": True}, {"replay": -1}, {"total_share": 1.0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ParameterError):
        MWEM(WORKLOAD, **settings)


def test_a_universe_that_cannot_be_listed_is_refused_before_anything_is_spent():
    schema, domain = binary_world(30)
    curator = curator_of(binary_table(schema, np.zeros((3, 30), int)), schema, PureDP(1.0))
    with pytest.raises(ParameterError, match="cells"):
        MWEM(Marginals(domain, all_cliques(domain, 1))).release(curator)
    assert curator.remaining == PureDP(1.0)
