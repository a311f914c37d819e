"""Projection, stability histogram and sparse MWEM: exact without noise, costs as promised, errors as stated."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded, replayed, without_noise

from synthdp import ZCDP, ApproxDP, Curator, GaussianDP, Integer, PureDP, marginal
from synthdp.errors import BudgetExceededError, MechanismFailure, ParameterError
from synthdp.queries.supports import KeyList, sparse_conjunction
from synthdp.schema.columns import Boolean, Categorical
from synthdp.schema.schema import Schema
from synthdp.tables.keys import overlap
from synthdp.works.sparse import bounds
from synthdp.works.sparse.projection import SparseProjection
from synthdp.works.sparse.sparse_mwem import SparseMWEM
from synthdp.works.sparse.sparse_table import Origin
from synthdp.works.sparse.stability_histogram import StabilityHistogram

RARE = [f"p{i}" for i in range(400)]
TABLE = pd.DataFrame({"person": RARE + ["often"] * 300 + ["also"] * 300})
N = len(TABLE)
QUERIES = [overlap([*RARE[10 * i : 10 * i + 100], "often"], columns=["person"]) for i in range(20)]
LOSS = ApproxDP(1.0, 1e-6)
BOTH = ["add_remove", "replace_one"]
MECHANISMS = {
    "count sketch": SparseProjection(5000),
    "signs": SparseProjection(600, projection="signs"),
    "unpeeled": SparseProjection(5000, peel=0.0),
    "histogram": StabilityHistogram(),
    "mwem": SparseMWEM(QUERIES, rounds=5),
}


def curator(table=TABLE, loss=LOSS, neighbors="replace_one", **options):
    return Curator(table, budget=loss, neighbors=neighbors, **options)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_loss_is_what_was_lost_and_covers_every_item(name, neighbors):
    asked = curator(neighbors=neighbors)
    release = MECHANISMS[name].release(asked, random_state=0)
    assert release.loss == LOSS
    assert asked.remaining is None
    with pytest.raises(BudgetExceededError):
        MECHANISMS[name].release(asked)


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("name", MECHANISMS)
def test_neighbours_with_the_same_noisy_answers_ask_for_noise_alike(name, neighbors, monkeypatch):
    other = {"add_remove": TABLE.iloc[1:], "replace_one": pd.concat([TABLE.iloc[1:], TABLE.iloc[:1] + "!"])}[neighbors]

    def run(table):
        release = MECHANISMS[name].release(curator(table, neighbors=neighbors), random_state=0)
        return [release.output.answer(query).count for query in QUERIES]

    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = run(TABLE)
    second = replayed(monkeypatch, first)
    assert run(other) == expected
    assert second.draws == first.draws


@pytest.mark.parametrize("name", ["count sketch", "signs", "unpeeled"])
def test_a_projection_without_noise_errs_by_no_more_than_its_own_spread(name, monkeypatch):
    without_noise(monkeypatch)
    release = MECHANISMS[name].release(curator(), random_state=1)
    answers = [release.output.answer(query) for query in QUERIES]
    spread = np.sqrt(2 * 101 * release.output.squared_counts / MECHANISMS[name].dimension)
    assert max(abs(answer.count - 400) for answer in answers) < 6.2 * spread
    assert all(answer.origin is Origin.RELEASED for answer in answers)


def test_peeling_takes_frequent_records_out_of_the_projection(monkeypatch):
    without_noise(monkeypatch)
    peeled, unpeeled = (
        MECHANISMS[name].release(curator(), random_state=1).output for name in ("count sketch", "unpeeled")
    )
    assert peeled.frequent.counts == {"also": 300, "often": 300}
    assert peeled.squared_counts < 800 < 100_000 < unpeeled.squared_counts
    assert peeled.answer(KeyList.of(("person",), ["often"])).count == 300


@pytest.mark.parametrize("loss", [PureDP(1.0), ZCDP(0.1), GaussianDP(0.3)])
def test_losses_without_delta_project_without_peeling(loss):
    release = SparseProjection(500).release(curator(loss=loss), random_state=0)
    assert release.output.frequent is None
    assert release.loss == loss


def test_one_sign_a_record_takes_laplace_noise_and_many_signs_gaussian_noise():
    found = {
        name: MECHANISMS[name].release(curator(), random_state=0).receipt.items[-1] for name in ("unpeeled", "signs")
    }
    assert found["unpeeled"].mechanism == "discrete Laplace"
    assert found["signs"].mechanism == "discrete Gaussian"
    assert found["unpeeled"].stddev == pytest.approx(2 * np.sqrt(2), rel=0.02)


@pytest.mark.slow
def test_error_bars_of_a_projection_cover_the_truth():
    covered, runs = 0, 30
    for seed in range(runs):
        release = MECHANISMS["count sketch"].release(curator(), random_state=seed)
        covered += sum(abs(a.count - 400) <= a.error for a in map(release.output.answer, QUERIES[::10]))
    assert covered >= 0.75 * 2 * runs


def test_a_theorems_dimension_is_refused_with_its_size():
    with pytest.raises(ParameterError, match=r"dimension.*GiB"):
        SparseProjection.of_theorem(rows=20_000, sparsity=256, queries=5000, alpha=0.01)
    mechanism = SparseProjection.of_theorem(rows=100, sparsity=2, queries=10, alpha=0.5)
    assert mechanism.projection == "signs"
    assert mechanism.dimension == bounds.theorem_dimension(rows=100, sparsity=2, queries=10, alpha=0.5)
    assert bounds.lemma_dimension(rows=20_000, sparsity=256, queries=5000) > 1e20


@pytest.mark.parametrize(
    "setting",
    [{"dimension": 0}, {"projection": "x"}, {"independence": 3}, {"peel": 1.0}, {"total_share": 0.0}],
    ids=str,
)
def test_projection_settings_out_of_range_are_refused(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        SparseProjection(**setting)


@pytest.mark.parametrize("neighbors", BOTH)
def test_a_histogram_answers_from_frequent_records_and_bounds_the_hidden_ones(neighbors):
    release = StabilityHistogram().release(curator(neighbors=neighbors))
    assert set(release.output.records) == {("often",), ("also",)}
    answer = release.output.answer(QUERIES[0])
    assert abs(answer.count - 300) <= 40
    assert abs(answer.count - 400) <= answer.error
    assert 0 < answer.stddev < 4


def test_a_histogram_needs_a_delta_and_spends_nothing_without():
    asked = curator(loss=PureDP(1.0))
    with pytest.raises(ParameterError, match="delta"):
        StabilityHistogram().release(asked)
    assert asked.remaining == PureDP(1.0)


def test_a_histogram_answers_conjunctions_over_several_columns(monkeypatch):
    without_noise(monkeypatch)
    schema = Schema({"sick": Boolean(), "city": Categorical(["x", "y"]), "smoker": Boolean()})
    rows = [(True, "x", False)] * 100 + [(True, "y", True)] * 50 + [(False, "x", True)] * 70
    table = pd.DataFrame(rows, columns=list(schema))
    release = StabilityHistogram().release(Curator(table, schema=schema, budget=LOSS))
    assert release.output.answer(sparse_conjunction(schema, {"sick": 1})).count == 150
    assert release.output.answer(sparse_conjunction(schema, {"sick": 1, "city": "y"})).count == 50
    assert release.output.answer(sparse_conjunction(schema, {"smoker": True, "city": "x"})).count == 70


@pytest.mark.parametrize("neighbors", BOTH)
def test_mwem_without_noise_learns_its_queries(neighbors, monkeypatch):
    without_noise(monkeypatch)
    queries = [KeyList.of(("person",), RARE[:200]), KeyList.of(("person",), ["often", "p399"]), *QUERIES[:3]]
    release = SparseMWEM(queries, rounds=8, sweeps=30).release(curator(neighbors=neighbors))
    np.testing.assert_allclose([release.output.answer(q).count for q in queries], [200, 301, 400, 400, 400], atol=1.0)
    assert release.output.total == N


def test_mwem_with_too_few_slots_fails_before_it_spends():
    asked = curator()
    with pytest.raises(MechanismFailure, match="slots"):
        SparseMWEM(QUERIES, slots=50).release(asked)
    assert asked.remaining == LOSS


@pytest.mark.parametrize("setting", [{"rounds": 0}, {"sweeps": 0}, {"select_share": 1.0}, {"queries": []}], ids=str)
def test_mwem_settings_out_of_range_are_refused(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        SparseMWEM(**{"queries": QUERIES, **setting})


def test_the_papers_bounds_have_the_known_values():
    assert bounds.paper_alpha(rows=10**6, sparsity=256, queries=5000, epsilon=1.0, delta=1e-6) > 1
    assert bounds.paper_alpha(rows=10**8, sparsity=256, queries=5000, epsilon=1.0, delta=1e-6) < 1
    s = bounds.smallest_slots(256, alpha=0.1)
    needed = 4 * 256 / 0.01
    assert s / (np.log(s) + 1) >= needed > (s - 1) / (np.log(s - 1) + 1)
    order = bounds.needed_independence(5000) // 2
    assert order % 2 == 0
    assert np.exp(-order) <= 0.05 / 5000
    error = bounds.projection_error_bound(dimension=10_000, sparsity=256, squared_counts=2e4, queries=5000)
    assert error == pytest.approx(np.e * (order - 1) * np.sqrt(2 * 256 * 2e4 / 1e4))
    with pytest.raises(ParameterError, match="alpha"):
        bounds.update_bound(10, alpha=0.0)


def test_sparse_queries_are_named_by_columns_and_are_the_cells_of_their_marginals():
    schema = Schema({"city": Categorical(["o", "r"]), "member": Boolean(nullable=True), "n": Integer(0, 10**6)})
    table = pd.DataFrame({"city": ["o"] * 700 + ["r"] * 300, "member": [True, False] * 500, "n": range(1000)})
    curator = Curator(table, schema=schema, budget=ApproxDP(20.0, 1e-6))
    release = SparseMWEM([("city",), ("member", "city")], rounds=6).release(curator)
    assert release.output.columns == ("city", "member")
    oslo = sparse_conjunction(schema, {"city": "o"}, columns=("city", "member"))
    assert abs(release.output.answer(oslo).count - 700) < 100


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ([], "queries"),
        ([("town",)], "'town'"),
        ([("n",)], "'n'.*levels"),
        (marginal("city", bins=3), "bins"),
    ],
)
def test_columns_that_make_no_sparse_queries_are_refused_before_the_spend(wish, said):
    schema = Schema({"city": Categorical(["o", "r"]), "n": Integer(0, 10**6)})
    curator = Curator(pd.DataFrame({"city": ["o"], "n": [1]}), schema=schema, budget=ApproxDP(1.0, 1e-6))
    with pytest.raises(ParameterError, match=said):
        SparseMWEM(wish).release(curator)
    assert curator.remaining == ApproxDP(1.0, 1e-6)


BASE = {"sparsity": 256, "queries": 5000}


def test_the_papers_number_of_updates_is_just_covered_by_its_slots():
    for alpha in (0.05, 0.3, 1.0):
        slots = bounds.smallest_slots(20, alpha=alpha)
        assert 20 * bounds.paper_update_bound(slots, alpha=alpha) <= slots
        assert 20 * bounds.paper_update_bound(slots - 1, alpha=alpha) > slots - 1
        assert 20 * bounds.update_bound(slots, alpha=alpha) < slots - 1
        assert bounds.hoeffding_update_bound(slots, alpha=alpha) < bounds.update_bound(slots, alpha=alpha)


@pytest.mark.landing
def test_a_step_lowers_the_entropy_by_what_the_bounds_count():
    """Brute force: on three records every table of a grid, all weights of a grid, all queries with values 0, 1/2, 1."""
    grid = [np.array(p) / 6 for p in itertools.product(range(7), repeat=3) if sum(p) == 6]
    inner = [w for w in grid if w.min() > 0]
    queries = [np.array(q) / 2 for q in itertools.product(range(3), repeat=3)]
    for alpha in (0.2, 0.5):
        drops = []
        for truth, weights, query in itertools.product(grid, inner, queries):
            gap = float(query @ (truth - weights))
            tilted = weights * np.exp(np.sign(gap) * alpha / 2 * query)
            moved = tilted / tilted.sum()
            kept = truth > 0
            drop = float((truth[kept] * np.log(moved[kept] / weights[kept])).sum())
            drops += [drop] if abs(gap) >= alpha else []
        assert min(drops) >= 15 * alpha**2 / 32 >= alpha**2 / 4


def test_the_papers_accuracy_is_the_fixed_point_of_its_theorem_and_its_rows_the_inverse():
    setting = {**BASE, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05}
    alpha = bounds.paper_alpha(rows=10**8, **setting)
    updates = bounds.paper_update_bound(bounds.smallest_slots(256, alpha=alpha), alpha=alpha)
    theorem = 3000 * math.sqrt(updates) * math.log(4e6) * math.log(5000 / 0.05) / 1e8
    assert alpha == pytest.approx(theorem, rel=1e-3)
    assert bounds.paper_rows(alpha=alpha, **setting) == pytest.approx(1e8, rel=2e-3)


def test_the_printed_dimension_is_larger_than_the_one_its_distortion_asks_for():
    printed = bounds.paper_dimension(rows=20_000, **BASE)
    asked = bounds.sqrt_error_dimension(rows=20_000, **BASE)
    assert printed / asked == pytest.approx(2 * math.sqrt(256))
    distortion = 2 * math.sqrt(256) / (256 + 20_000**2)
    assert asked == pytest.approx(4 * 64**2 * math.log(5000 / 0.05) / distortion**2)
    off = bounds.inner_product_bound(distortion, squared_query=256, squared_counts=20_000**2)
    assert off == pytest.approx(math.sqrt(256))
    assert bounds.lemma_dimension(rows=20_000, **BASE) > asked


def test_inner_products_are_kept_as_well_as_the_norms_of_sums_and_differences():
    rng = np.random.default_rng(0)
    for _ in range(200):
        matrix, x, y = rng.normal(size=(5, 4)) / np.sqrt(5), rng.normal(size=4), rng.normal(size=4)
        distortion = max(abs((matrix @ v) @ (matrix @ v) / (v @ v) - 1) for v in (x + y, x - y))
        bound = bounds.inner_product_bound(distortion, squared_query=x @ x, squared_counts=y @ y)
        assert abs((matrix @ x) @ (matrix @ y) - x @ y) <= bound * (1 + 1e-9)


@pytest.mark.landing
def test_sums_of_laplace_noise_seldom_exceed_the_bound_of_the_projection():
    """The moment bound of theorem 4.9's constant, and its tail on the weights of a dense projection."""
    for x in np.linspace(0.001, 0.5, 200):
        assert 1 / (1 - x) <= math.exp(2 * x)
    rng, weights = np.random.default_rng(1), np.full(400, 0.05)
    sums = rng.laplace(size=(20_000, 400)) @ weights
    for beta in (0.1, 0.01):
        assert (np.abs(sums) > np.linalg.norm(weights) * math.sqrt(8 * math.log(2 / beta))).mean() <= beta


def test_rows_for_an_accuracy_of_the_projection_give_that_accuracy():
    setting = {**BASE, "epsilon": 1.0, "delta": 1e-6}
    rows = bounds.projection_rows(alpha=0.1, **setting)
    assert bounds.projection_alpha(rows=math.ceil(rows), **setting) == pytest.approx(0.1, rel=1e-3)
