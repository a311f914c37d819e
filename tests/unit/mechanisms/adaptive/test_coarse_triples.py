"""Triples over merged groups: which, what they cost, when they are measured, and that a release with them is answered."""

import numpy as np
import pandas as pd
import pytest
from no_noise import with_repeatable_noise

import synthdp as sd
from synthdp.answers.bootstrap import Bootstrap
from synthdp.answers.direct import GLSEstimates
from synthdp.distribution.explicit import Explicit
from synthdp.fit.consistency import centred
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.fit.out_of_domain import merged_tables
from synthdp.mechanisms.adaptive.coarse_triples import MOST_LEVELS, screen_triples, triples_that_matter
from synthdp.mechanisms.adaptive.energies import EstimatedRelation
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import measure_tables
from synthdp.mechanisms.adaptive.selection import Batch, Candidate, Planner
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.workload import Workload, workload_of
from synthdp.privacy.loss import PrivacyLoss
from synthdp.queries.marginals import Marginals
from synthdp.release import load, save

ROWS = 4000
SCHEMA = sd.Schema(
    {
        "a": sd.Integer(0, 19),
        "b": sd.Integer(0, 19),
        "c": sd.Integer(0, 19),
        "class": sd.Categorical(["p", "q", "r"]),
    }
)
WITH_CLASS = [(0, 1, 3), (0, 2, 3), (1, 2, 3)]


def table(parity: bool = True) -> pd.DataFrame:
    """The class is likely ``p`` where a and b are both large or both small, of which no pair of columns tells."""
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(0, 20, (3, ROWS))
    drawn = rng.choice(3, ROWS)
    if parity:
        drawn = np.where(rng.random(ROWS) < 0.9, np.where((a >= 10) == (b >= 10), 0, 1 + drawn % 2), drawn)
    return pd.DataFrame({"a": a, "b": b, "c": c, "class": np.array(["p", "q", "r"])[drawn]})


def columns_known(account: sd.Curator, schema: sd.Schema = SCHEMA) -> Knowledge:
    whole = BudgetAllocation.of(account)
    columns, left, answers = OneWayTree().measure(account, whole, share=0.2, most=0.3, total=float(ROWS))
    return Knowledge.of_columns(schema, columns, target=60.0, rows=None, left=left, measured=answers)


def known_of(budget: PrivacyLoss, rows: pd.DataFrame | None = None) -> tuple[sd.Curator, Knowledge]:
    account = sd.Curator(table() if rows is None else rows, schema=SCHEMA, budget=budget)
    return account, columns_known(account)


def test_with_a_target_those_with_it_are_candidates_and_with_a_workload_those_within_it():
    known = known_of(sd.GaussianDP(2.0))[1]
    names = SCHEMA.names
    assert triples_that_matter(known, workload_of(None, names, target="class")) == WITH_CLASS
    assert triples_that_matter(known, workload_of([["a", "b", "c"], ["a", "class"]], names)) == [(0, 1, 2)]
    assert len(triples_that_matter(known, Workload())) == 4


def test_there_are_none_where_scores_would_be_noise_or_cost_much_nor_with_laplace_noise():
    named, unnamed = Workload(None, 3), Workload()
    asked = {0.5: known_of(sd.GaussianDP(0.5))[1], 0.02: known_of(sd.GaussianDP(0.02))[1]}
    assert triples_that_matter(asked[0.5], named) == WITH_CLASS
    assert triples_that_matter(asked[0.02], named) == []
    little = known_of(sd.GaussianDP(0.2))[1]
    assert triples_that_matter(little, named) == WITH_CLASS
    assert triples_that_matter(little, unnamed) == []
    assert triples_that_matter(known_of(sd.PureDP(400.0))[1], named) == []


def test_a_column_with_misfits_is_in_none():
    rows = table()
    rows["b"] = rows["b"].astype(float)
    rows.loc[:799, "b"] = np.nan  # nothing says that it may be missing
    known = known_of(sd.GaussianDP(2.0), rows)[1]
    assert triples_that_matter(known, Workload(None, 3)) == [(0, 2, 3)]


def independent(known: Knowledge) -> Explicit:
    """Rows of independent columns."""
    rng = np.random.default_rng(0)
    margins = [margin / margin.sum() for margin in known.margins]
    codes = np.column_stack([rng.choice(len(margin), 20_000, p=margin) for margin in margins])
    return Explicit(shape=known.domain.shape, codes=codes, weights=np.ones(len(codes)))


def measured(mu: float, parity: bool) -> tuple[sd.Curator, Knowledge, Knowledge]:
    """Measure one pair that tells nothing, and then beside it the triples of the class, for half of the budget."""
    account, known = known_of(sd.GaussianDP(mu), table(parity))
    expected, noise = np.full(36, ROWS / 36), known.relative_noise((0, 1), 1)
    pair = Candidate((0, 1), EstimatedRelation(0.0, 3000.0), expected, level=1, noise=noise)
    batch = Batch({pair: 0.25})
    after = measure_tables(known, account, batch)
    past = batch.after([pair], after.left)
    workload, model = Workload(None, 3), independent(after)
    more, after = screen_triples(after, account, workload, share=0.25, model=model, triples=WITH_CLASS, past=past)
    left = 0.5 - (known.left.share - after.left.share)
    batch = Planner().choose_next_tables([*past, *more], after.left, share=left, base=[], shape=after.domain.shape)
    return account, known, measure_tables(after, account, batch)


@pytest.mark.parametrize("parity", [True, False])
def test_they_cost_what_the_batch_says_and_are_measured_where_they_tell_something(parity, monkeypatch):
    with_repeatable_noise(monkeypatch)
    account, known, after = measured(0.15, parity)
    assert after.left.share == pytest.approx(known.left.share - 0.5)
    triples = [one.clique for one in after.merged if len(one.clique) == 3]
    assert triples == ([(0, 1, 3)] if parity else [])
    steps = [item.step for item in account.receipt().items]
    assert sum("screening of triples" in step for step in steps) == 1
    assert sum("a × b × class" in step for step in steps) == parity


def test_where_they_tell_nothing_the_batch_is_measured_again_and_nothing_but_the_scores_is_lost(monkeypatch):
    with_repeatable_noise(monkeypatch)
    _, known, after = measured(0.15, parity=False)
    (pair,) = after.merged
    cost = BudgetAllocation(known.left.whole, known.left.adjacency).table_stddev(0.5) * known.relative_noise((0, 1), 1)
    assert cost < pair.stddev < 1.03 * cost


def test_only_the_interaction_of_a_triple_is_measured_over_groups_that_leave_the_target_whole():
    account, known, after = measured(20.0, parity=True)
    (triple, *_) = [one for one in after.merged if one.clique == (0, 1, 3)]
    assert triple.alone
    domain = after.coarser[-1]
    assert domain.axes[3].size == known.domain.axes[3].size
    assert 3 <= domain.axes[0].size <= MOST_LEVELS
    counts = triple.counts.reshape(triple.shape(known.domain.shape))
    kept = np.ix_(*(domain.axes[j].releasable for j in triple.clique))
    exact = account.measure(Marginals(domain, ((0, 1, 3),))).answers.reshape(counts.shape)
    assert counts[kept] == pytest.approx(centred(exact[kept]), abs=6 * triple.stddev)
    assert np.abs(counts).max() > 5 * triple.stddev


def release(monkeypatch) -> sd.Release:
    """A release that measures a triple; its noise is the same on every run."""
    with_repeatable_noise(monkeypatch)
    curator = sd.Curator(table(), schema=SCHEMA, budget=sd.GaussianDP(0.6))
    return sd.AdaptiveMarginals(target="class", listed=ListedEntropy(max_cells=1)).release(curator, random_state=0)


def alike(found: pd.DataFrame) -> dict[str, float]:
    """Return how often the class is p where a and b are alike, and elsewhere."""
    p = found["class"] == "p"
    same = (found["a"] >= 10) == (found["b"] >= 10)
    return {"alike": p[same].mean(), "else": p[~same].mean()}


@pytest.mark.landing
def test_what_a_triple_says_comes_out_and_the_bootstrap_finds_it_again(monkeypatch):
    made = release(monkeypatch)
    model = made.output
    (triple,) = [one for one in merged_tables(made.measurements, model.domain) if one.clique == (0, 1, 3)]
    assert triple.alone
    found = alike(made.sample(random_state=0))
    assert found["alike"] > 0.75
    assert found["else"] < 0.25
    bootstrap = Bootstrap(GLSEstimates(model, made.measurements))
    replicates = bootstrap.replicates
    shape = model.domain.shape
    cells = triple.merged_cells[np.ravel_multi_index(replicates.codes[:, [0, 1, 3]].T, [shape[j] for j in (0, 1, 3)])]
    tables = [np.bincount(cells, w, minlength=triple.counts.size) for w in replicates.fitted.T]
    effects = np.array([centred(one.reshape(triple.shape(shape))).ravel() for one in tables])
    assert effects[1:].mean(axis=0) @ effects[0] == pytest.approx(effects[0] @ effects[0], rel=0.15)


@pytest.mark.landing
def test_a_release_keeps_its_triples_in_its_file_and_answers_alike(monkeypatch, tmp_path):
    made = release(monkeypatch)
    save(made, tmp_path / "release")
    read = load(tmp_path / "release")
    both = [merged_tables(one.measurements, one.output.domain) for one in (made, read)]
    assert [(t.clique, t.alone) for t in both[0]] == [(t.clique, t.alone) for t in both[1]]
    assert all(np.array_equal(one.counts, other.counts) for one, other in zip(*both, strict=True))
    answers = [one.answer(sd.count("a >= 10 and b >= 10 and `class` == 'p'")) for one in (made, read)]
    pd.testing.assert_frame_equal(*answers)
    real = ((table()["a"] >= 10) & (table()["b"] >= 10) & (table()["class"] == "p")).sum()
    assert answers[0]["lower"].iloc[0] <= real <= answers[0]["upper"].iloc[0]
