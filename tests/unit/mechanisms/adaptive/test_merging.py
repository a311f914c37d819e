"""Tables of merged groups: which groups, which pairs, and that a release with them is fitted, saved and answered whole."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from no_noise import with_repeatable_noise

import synthdp as sd
from synthdp.answers.bootstrap import Bootstrap
from synthdp.answers.direct import GLSEstimates
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.fit.consistency import centred
from synthdp.fit.out_of_domain import merged_tables
from synthdp.mechanisms.adaptive.energies import EstimatedRelation
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import measure_tables
from synthdp.mechanisms.adaptive.merging import merged_groups
from synthdp.mechanisms.adaptive.screening import with_noise
from synthdp.mechanisms.adaptive.selection import Batch, Candidate, Planner
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.queries.marginals import Marginals
from synthdp.release import load, save

ROWS = 2000
MERGED = 6
SCHEMA = sd.Schema(
    {
        "x": sd.Integer(0, 19, nullable=True),
        "y": sd.Integer(0, 19),
        "level": sd.Categorical([f"{i}" for i in range(12)]),
        "z": sd.Integer(0, 19),
    }
)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x, z = rng.integers(0, 20, ROWS), rng.integers(0, 20, ROWS)
    y = np.where(rng.random(ROWS) < 0.4, x, rng.integers(0, 20, ROWS))
    level = np.where(rng.random(ROWS) < 0.3, z // 2, rng.integers(0, 12, ROWS)).astype(str)
    return pd.DataFrame({"x": pd.Series(x).mask(rng.random(ROWS) < 0.2), "y": y, "level": level, "z": z})


def columns_known(account: sd.Curator) -> Knowledge:
    whole = BudgetAllocation.of(account)
    columns, left, answers = OneWayTree().measure(account, whole, share=0.2, most=0.3, total=float(ROWS))
    return Knowledge.of_columns(SCHEMA, columns, target=60.0, rows=None, left=left, measured=answers)


def axis_of(column, size: int) -> Axis:
    return Axis("a", column, np.arange(size), np.arange(size))


@given(st.lists(st.floats(-50, 500), min_size=1, max_size=40))
def test_neighbours_are_merged_to_few_groups_of_about_equal_rows(counts):
    margin = np.array(counts)
    groups = merged_groups(axis_of(sd.Integer(0, len(counts) - 1), len(counts)), margin, MERGED)
    assert (np.diff(groups) >= 0).all()
    assert set(groups) == set(range(groups.max() + 1))
    assert groups.max() < MERGED
    rows = np.maximum(margin, 0) + 1e-9
    largest = np.bincount(groups, weights=rows).max()
    assert len(counts) > MERGED or groups.max() + 1 == len(counts)
    assert largest <= max(rows.sum() / (MERGED - 1), 0) + 2 * rows.max() + 1e-6


@pytest.mark.parametrize(("narrow", "widths"), [(False, [40, 40, 40]), (True, [30, 60, 30])])
def test_groups_of_equal_weights_are_equally_wide_but_for_narrow_ends(narrow, widths):
    groups = merged_groups(axis_of(sd.Integer(0, 119), 120), np.full(120, 7.0), 3, narrow=narrow)
    assert np.bincount(groups).tolist() == widths


@given(st.lists(st.floats(0, 500), min_size=MERGED + 1, max_size=40))
def test_of_a_nominal_column_the_smallest_are_merged(counts):
    levels = [f"{i}" for i in range(len(counts))]
    groups = merged_groups(axis_of(sd.Categorical(levels), len(counts)), np.array(counts), MERGED)
    sizes = np.bincount(groups)
    assert sorted(sizes)[:-1] == [1] * (MERGED - 1)
    alone = [counts[i] for i in range(len(counts)) if sizes[groups[i]] == 1]
    merged = [counts[i] for i in range(len(counts)) if sizes[groups[i]] > 1]
    assert min(alone) >= max(merged) - 1e-6


def test_a_missing_value_is_merged_with_no_value():
    groups = merged_groups(axis_of(sd.Integer(0, 19, nullable=True), 22), np.full(22, 10.0), MERGED)
    values, special = groups[:20], groups[20:]
    assert not set(values) & set(special)


def test_the_cells_of_a_coarser_axis_are_found_and_those_of_a_crossing_one_are_not():
    column = sd.Integer(0, 19)
    fine = axis_of(column, 20)
    coarse = Axis("a", column, np.array([0, 5, 12]), np.array([0, 2, 1]))
    found = coarse.groups_of(fine)
    assert found is not None
    assert found.tolist() == [0] * 5 + [2] * 7 + [1] * 8
    assert fine.groups_of(coarse) is None
    assert coarse.groups_of(Axis("a", column, np.array([0, 4, 12]), np.array([0, 1, 2]))) is None


def test_pairs_that_were_not_measured_and_have_fewer_cells_so_are_candidates_over_merged_bins_too():
    known = columns_known(sd.Curator(table(), schema=SCHEMA, budget=sd.GaussianDP(2.0)))
    pairs = list(itertools.combinations(range(4), 2))
    cells = {
        pair: [math.prod(domain.shape[j] for j in pair) for domain in (known.domain, known.coarser[0])]
        for pair in pairs
    }
    candidates = [
        Candidate(pair, EstimatedRelation(0.0, 100.0), np.full(whole, 5.0)) for pair, (whole, _) in cells.items()
    ]
    some = [candidates[0].measured(3.0), *candidates[1:]]
    new = [one for one in with_noise(some, known, merged=True) if one.level]
    smaller = [pair for pair, (whole, merged) in cells.items() if merged < whole]
    assert len(smaller) > 1
    assert [one.clique for one in new] == [pair for pair in smaller if pair != (0, 1)]
    for one in new:
        assert one.relation.distance == 100.0
        assert one.noise == known.relative_noise(one.clique, 1)
        assert len(one.expected) == cells[one.clique][1]
        assert one.expected.sum() == pytest.approx(5.0 * cells[one.clique][0])
    assert not any(one.level for one in with_noise(some, known, merged=False))


@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_a_pair_gets_one_table_the_whole_one_where_that_pays(scale):
    """With little noise both pay, with much only few cells do."""
    budget = BudgetAllocation(sd.GaussianDP(scale), Adjacency(Neighbors.ADD_REMOVE, None, 1))
    whole = Candidate((0, 1), EstimatedRelation(0.0, 4000.0), np.full(400, 25.0))
    merged = Candidate((0, 1), EstimatedRelation(0.0, 3400.0), np.full(36, 10_000 / 36), level=1)
    batch = Planner().choose_next_tables([whole, merged], budget, share=0.5, base=[], shape=(20, 20))
    assert list(batch.shares) == [{1.0: whole, 0.05: merged}[scale]]


@pytest.mark.parametrize("budget", [sd.PureDP(400.0), sd.GaussianDP(200.0)], ids=str)
def test_a_merged_table_is_the_sum_of_the_whole_one_and_costs_what_the_batch_says(budget):
    account = sd.Curator(table(), schema=SCHEMA, budget=budget)
    known = columns_known(account)
    asked = [((0, 1), known.coarser[0]), ((2, 3), known.domain), ((1, 3), known.domain)]
    candidates = [
        Candidate(
            c,
            EstimatedRelation(0.0, 1.0),
            np.ones(np.prod([domain.shape[j] for j in c])),
            level=int(domain is known.coarser[0]),
        )
        for c, domain in asked
    ]
    after = measure_tables(known, account, Batch(dict.fromkeys(candidates, 0.05), frozenset({(0, 1), (2, 3)})))
    assert after.left.share == pytest.approx(known.left.share - 0.15)
    assert [t.clique for t in after.tables] == [(2, 3), (1, 3)]
    (merged,) = after.merged
    whole = account.measure(Marginals(known.domain, ((0, 1),))).answers
    shape = merged.shape(known.domain.shape)
    exact = np.bincount(merged.merged_cells, weights=whole).reshape(shape)
    assert centred(merged.counts.reshape(shape)) == pytest.approx(centred(exact), abs=1.0)
    assert sum("merged bins: x × y" in item.step for item in account.receipt().items) == 1


def release(monkeypatch) -> sd.Release:
    """A release that measures pairs over merged groups; its noise is the same on every run."""
    with_repeatable_noise(monkeypatch)
    curator = sd.Curator(table(), schema=SCHEMA, budget=sd.GaussianDP(0.4))
    return sd.AdaptiveMarginals().release(curator, random_state=0)


@pytest.mark.landing
def test_a_release_keeps_its_merged_tables_in_its_file_and_answers_alike(monkeypatch, tmp_path):
    made = release(monkeypatch)
    tables = merged_tables(made.measurements, made.output.domain)
    assert tables
    save(made, tmp_path / "release")
    read = load(tmp_path / "release")
    again = merged_tables(read.measurements, read.output.domain)
    assert [t.clique for t in again] == [t.clique for t in tables]
    for one, other in zip(tables, again, strict=True):
        assert np.array_equal(one.counts, other.counts)
        assert all(map(np.array_equal, one.groups, other.groups))
    answers = [one.answer(sd.count("x >= 10 and y >= 10")) for one in (made, read)]
    pd.testing.assert_frame_equal(*answers)


@pytest.mark.landing
def test_what_a_merged_table_says_comes_out_and_the_bootstrap_finds_it_again(monkeypatch):
    """Both the model and the fits to drawn tables follow the merged table, and not the pair's independence."""
    made = release(monkeypatch)
    model = made.output
    (merged, *_) = [t for t in merged_tables(made.measurements, model.domain) if t.clique == (0, 1)]
    shape = [model.domain.shape[j] for j in merged.clique]

    def corner(pair):
        """Return the rows in the two ends of the diagonal, of merged groups without the missing one."""
        found = np.bincount(merged.merged_cells, weights=pair).reshape(merged.shape(model.domain.shape))
        last = found.shape[1] - 1
        return found[0, 0] + found[last, last]

    fitted = model.distribution.marginal(merged.clique)
    alone = np.outer(fitted.reshape(shape).sum(axis=1), fitted.reshape(shape).sum(axis=0)).ravel()
    assert corner(fitted) > 1.3 * corner(alone)
    found = Bootstrap(GLSEstimates(model, made.measurements)).replicates
    cells = found.codes[:, 0].astype(int) * shape[1] + found.codes[:, 1]
    pairs = [np.bincount(cells, weights=w, minlength=len(fitted)) / w.sum() for w in found.fitted.T]
    replicated = np.array([corner(pair) for pair in pairs])
    assert replicated[0] == pytest.approx(corner(fitted), rel=0.1)
    assert replicated[1:].mean() == pytest.approx(corner(fitted), rel=0.15)


@pytest.mark.parametrize(("budget", "quiet"), [(sd.PureDP(400.0), False), (sd.GaussianDP(200.0), True)], ids=str)
def test_interactions_alone_are_measured_where_noise_is_gaussian_and_no_column_has_misfits(budget, quiet):
    rows = table()
    rows.loc[:299, "z"] = np.nan  # nothing says that it may be missing
    known = columns_known(sd.Curator(rows, schema=SCHEMA, budget=budget))
    sizes = [known.coarser[0].axes[j].releasable.sum() for j in range(4)]
    exact = np.sqrt((1 - 1 / sizes[0]) * (1 - 1 / sizes[1]))
    assert known.relative_noise((0, 1), 1) == pytest.approx(exact if quiet else 1.0)
    assert known.relative_noise((1, 3), 1) == 1.0


def test_less_noise_for_the_same_share_is_more_gain():
    loud, quiet = (
        Candidate((0, 1), EstimatedRelation(0.0, 900.0), np.full(36, 50.0), level=1, noise=noise)
        for noise in (1.0, 0.5)
    )
    assert quiet.gain(30.0) == pytest.approx(loud.gain(15.0))
    assert quiet.gain(30.0) > loud.gain(30.0)


def test_a_pair_of_which_one_column_has_one_group_left_is_no_candidate():
    known = columns_known(sd.Curator(table(), schema=SCHEMA, budget=sd.GaussianDP(2.0)))
    first, *others = known.coarser[0].axes
    single = first.merged(np.zeros(first.size, np.int64))
    known = replace(known, coarser=(Domain((single, *others)),))
    whole = Candidate((0, 1), EstimatedRelation(0.0, 100.0), np.full(math.prod(known.domain.shape[:2]), 5.0))
    assert [one.level for one in with_noise([whole], known, merged=True)] == [0]


@pytest.mark.parametrize(("mu", "alone"), [(0.01, False), (200.0, True)])
def test_interactions_of_all_groups_are_measured_where_one_ways_are_known(mu, alone):
    known = columns_known(sd.Curator(table(), schema=SCHEMA, budget=sd.GaussianDP(mu)))
    sizes = [known.domain.axes[j].releasable.sum() for j in (0, 1)]
    exact = np.sqrt((1 - 1 / sizes[0]) * (1 - 1 / sizes[1]))
    assert known.relative_noise((0, 1), 0) == pytest.approx(exact if alone else 1.0)
