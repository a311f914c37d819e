"""Wide tables: what is screened and measured, how columns are put into groups, and that the budget holds."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from no_noise import recorded, replayed

import synthdp as sd
from synthdp.distribution.components import Components
from synthdp.distribution.junction_tree import tree_cells
from synthdp.mechanisms.wide_fit import related
from synthdp.mechanisms.wide_tables import (
    CELLS_A_COLUMN,
    buckets,
    interaction_strength,
    plan_components,
    standing_out,
    whole_margins,
)
from synthdp.privacy.loss import components as loss_components
from synthdp.queries.contingency import NoisyTable
from synthdp.schema.constraints import Implies

LEVELS = list("abcd")
BLOCK, ALONE = 4, 2


def blocks(rows, count, *, seed=0):
    """So many blocks of four columns that follow one unseen value each, and two columns alone."""
    rng = np.random.default_rng(seed)
    codes = []
    for _ in range(count):
        unseen = rng.integers(0, 4, rows)
        codes += [np.where(rng.random(rows) < 0.7, unseen, rng.integers(0, 4, rows)) for _ in range(BLOCK)]
    codes += [rng.integers(0, 4, rows) for _ in range(ALONE)]
    return pd.DataFrame({f"c{j:02d}": np.array(LEVELS)[code] for j, code in enumerate(codes)})


def schema_of(table, **more):
    return sd.Schema({name: sd.Categorical(LEVELS) for name in table}, **more)


def released(table, *, budget, schema=None, **settings):
    curator = sd.Curator(table, schema=schema or schema_of(table), budget=budget)
    return curator, sd.AdaptiveMarginals(wide=3, **settings).release(curator, random_state=0)


@given(margin=st.lists(st.floats(0, 1e6), min_size=2, max_size=40), most=st.integers(2, 8), ordered=st.booleans())
def test_buckets_are_two_or_more_and_no_more_than_allowed_and_those_of_an_order_hold_neighbours(margin, most, ordered):
    found = buckets(np.array(margin), most, ordered=ordered)
    assert 2 <= found.max() + 1 <= max(most, 2)
    assert sorted(set(found.tolist())) == list(range(found.max() + 1))
    runs = 1 + np.count_nonzero(np.diff(found))
    assert runs == found.max() + 1 or not ordered or len(set(found.tolist())) == 2


@given(seed=st.integers(0, 2**32 - 1), columns=st.integers(1, 5))
def test_margins_as_whole_numbers_have_one_sum_and_are_nearly_what_they_were(seed, columns):
    rng = np.random.default_rng(seed)
    total = rng.choice([0.001, 1.0, 777.7, 1e9])
    margins = [rng.dirichlet(np.full(int(rng.integers(1, 9)), 0.3)) * total for _ in range(columns)]
    found = whole_margins(margins, 256)
    assert len({int(margin.sum()) for margin in found}) == 1
    assert all(margin.min() >= 0 for margin in found)
    assert all(np.abs(whole / 256 - margin).max() <= 2 / 256 for whole, margin in zip(found, margins, strict=True))


def test_of_noise_alone_hardly_a_distance_stands_out_and_of_relations_all_do():
    rng = np.random.default_rng(0)
    distances = rng.normal(0, 50.0, 300 * 299 // 2)
    distances[:40] += 500.0
    found = standing_out(distances, 50.0, most=10_000)
    assert set(range(40)) <= set(found.tolist())
    assert len(found) < 40 + 150
    assert list(distances[found]) == sorted(distances[found], reverse=True)


def test_an_interaction_counts_when_it_is_above_noise_and_chance():
    rng = np.random.default_rng(0)
    flat = np.full(16, 1000.0)
    noisy = [NoisyTable(clique=(0, 1), counts=flat + rng.normal(0, 50, 16), stddev=50.0) for _ in range(200)]
    assert sum(interaction_strength(table, (4, 4), total=16_000) > 0 for table in noisy) <= 2
    strong = NoisyTable(clique=(0, 1), counts=flat + 500 * (4 * np.eye(4) - 1).ravel(), stddev=50.0)
    assert interaction_strength(strong, (4, 4), total=16_000) == pytest.approx(500**2 * (4 * 9 + 12), rel=0.05)


@given(seed=st.integers(0, 2**32 - 1), columns=st.integers(1, 30), pairs=st.integers(0, 40))
def test_columns_are_in_one_group_if_cliques_join_them_and_in_none_without_a_clique(seed, columns, pairs):
    rng = np.random.default_rng(seed)
    cliques = [tuple(sorted(rng.choice(columns, 2, replace=False).tolist())) for _ in range(pairs) if columns > 1]
    groups = related(cliques, columns)
    group_of = {j: g for g, group in enumerate(groups) for j in group}
    assert set(group_of) == {j for clique in cliques for j in clique}
    assert all(group_of[a] == group_of[b] for a, b in cliques)
    joined = sum(len(group) - 1 for group in groups)
    assert joined <= len(set(cliques))  # a group of k columns needs k - 1 pairs
    for group in groups:
        inside = [clique for clique in cliques if clique[0] in group]
        assert len({j for clique in inside for j in clique}) == len(group)


def test_trees_are_of_measured_pairs_and_join_their_group_and_stay_small():
    shape = (20,) * 24
    rng = np.random.default_rng(1)
    strengths = {pair: float(rng.random()) for pair in itertools.combinations(range(12), 2)}
    strengths |= {pair: float(rng.random()) for pair in itertools.combinations(range(12, 23), 2)}
    base = [(22, 23)]
    tree = plan_components(strengths, base, shape)
    assert set(tree) <= set(strengths)
    assert len(set(tree)) == len(tree)
    assert related([*base, *tree], 24) == [tuple(range(12)), tuple(range(12, 24))]
    assert tree_cells(shape, [*base, *tree]) <= CELLS_A_COLUMN * 24
    heaviest = max(strengths, key=strengths.get)
    assert heaviest in tree


@pytest.mark.parametrize("budget", [sd.ApproxDP(1.0, 1e-9), sd.ZCDP(0.02), sd.PureDP(2.0)], ids=str)
def test_a_release_spends_its_budget_and_no_more(budget):
    curator, release = released(blocks(3000, 2), budget=budget)
    assert curator.remaining is None or max(loss_components(curator.remaining)) < 1e-9
    assert isinstance(release.output.distribution, Components)
    assert release.sample(100, random_state=0).shape == (100, 2 * BLOCK + ALONE)


def test_neighbours_give_the_same_questions_and_the_same_rows():
    table = blocks(3000, 2)
    more = pd.concat([table, table.iloc[:1].assign(c00="d", c01="a", c07="c")])
    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        one = released(table, budget=sd.ApproxDP(1.0, 1e-9))[1].sample(500, random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        second = replayed(patch, first)
        other = released(more, budget=sd.ApproxDP(1.0, 1e-9))[1].sample(500, random_state=0)
    assert first.draws == second.draws
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
def test_pairs_that_matter_are_measured_whatever_their_weights_add_up_to(weight):
    wish = {("c00", "c01"): weight, ("c00", "c02"): weight, ("c04", "c09"): weight}
    _, release = released(blocks(20_000, 2), budget=sd.ApproxDP(2.0, 1e-6), workload=wish)
    asked = {c for m in release.measurements for c in getattr(m.queries, "cliques", ()) if len(c) == 2}
    assert {(0, 1), (0, 2)} <= asked


def agreement(table, left, right):
    return float((table[left] == table[right]).mean())


@pytest.mark.landing
def test_columns_that_follow_one_unseen_value_still_do_and_others_are_independent():
    table = blocks(20_000, 3)
    _, release = released(table, budget=sd.ApproxDP(2.0, 1e-6))
    synthetic = release.sample(20_000, random_state=0)
    names = list(table)
    for first in range(0, 3 * BLOCK, BLOCK):
        for left, right in itertools.combinations(names[first : first + BLOCK], 2):
            assert agreement(synthetic, left, right) == pytest.approx(agreement(table, left, right), abs=0.05)
    for left, right in (("c00", "c04"), ("c03", "c11"), ("c12", "c13"), ("c01", "c12")):
        assert agreement(synthetic, left, right) == pytest.approx(0.25, abs=0.05)


def test_a_rule_between_columns_of_two_blocks_holds_in_every_row():
    table = blocks(4000, 2)
    table = table[~((table["c00"] == "a") & (table["c05"] != "b"))]
    schema = schema_of(table, constraints=[Implies({"c00": ["a"]}, {"c05": ["b"]})])
    _, release = released(table, budget=sd.ApproxDP(1.0, 1e-9), schema=schema)
    synthetic = release.sample(4000, random_state=0)
    assert (synthetic.loc[synthetic["c00"] == "a", "c05"] == "b").all()
    assert (synthetic["c00"] == "a").any()


def test_a_saved_release_gives_the_same_rows_and_answers(tmp_path):
    _, release = released(blocks(3000, 2), budget=sd.ApproxDP(1.0, 1e-9))
    sd.save(release, tmp_path / "wide.synth")
    again = sd.load(tmp_path / "wide.synth")
    pd.testing.assert_frame_equal(again.sample(200, random_state=1), release.sample(200, random_state=1))
    assert [m.values.tolist() for m in again.measurements] == [m.values.tolist() for m in release.measurements]


@pytest.mark.slow
def test_most_counts_of_a_wide_table_lie_within_their_intervals():
    """95 of a hundred are promised; of 90 that share one release's noise at least three quarters are asked."""
    table = blocks(20_000, 5)
    _, release = released(table, budget=sd.ApproxDP(1.0, 1e-9))
    rng, names, held = np.random.default_rng(1), list(table), []
    for _ in range(90):
        some = rng.choice(names, int(rng.integers(1, 4)), replace=False)
        values = rng.choice(LEVELS, len(some))
        found = release.answer(sd.count(" and ".join(f"{n} == '{v}'" for n, v in zip(some, values, strict=True))))
        truth = int(np.logical_and.reduce([table[n] == v for n, v in zip(some, values, strict=True)]).sum())
        held.append(bool((found["lower"] <= truth).iloc[0] and (truth <= found["upper"]).iloc[0]))
    assert np.mean(held) >= 0.75
