"""Which tables of persons are worth their noise: what several share is no gain of each, and more budget chooses more."""

from __future__ import annotations

import numpy as np
import pytest
from small_databases import SCHEMAS

from synthdp.domain.histories import Layout
from synthdp.mechanisms.adaptive.merging import MERGED
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.related.asked_tables import MOST, fineness
from synthdp.mechanisms.related.choosing import (
    beyond_shared,
    groups_that_pay,
    over,
    related,
    relations_wished,
    weights_of,
    worth_measuring,
)
from synthdp.mechanisms.related.triples import triples
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.loss import GaussianDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.person_tables import Grouping, Kind, PersonTable

LAYOUT = Layout(SCHEMAS["child of a child"])
TWO = Grouping("two", np.array([0, 1, 1]))


def budget(mu: float) -> BudgetAllocation:
    return BudgetAllocation(GaussianDP(mu, 1e-9), Adjacency(unit="id"))


def table(kind: Kind, attribute: str, other: str, *, above: int = -1, of: int = 1) -> PersonTable:
    return PersonTable(kind, of, attribute, TWO, above=above, other=other, other_grouping=TWO)


def test_what_all_tables_of_a_family_share_is_the_gain_of_the_table_that_mends_it() -> None:
    family = [table(Kind.PARENT, f"w{i}", "v", above=1, of=2) for i in range(5)]
    mends, other = table(Kind.ROW, "v", "#leaves"), table(Kind.ROW, "v", "t")
    gains = np.array([100.0, 110.0, 90.0, 100.0, 900.0, 10.0, 10.0])
    found = beyond_shared(gains, [*family, mends, other], {1: "#rows", 2: "#leaves"})
    assert found.tolist() == [0.0, 10.0, -10.0, 0.0, 800.0, 110.0, 10.0]


def test_few_tables_share_nothing_that_can_be_told() -> None:
    some = [table(Kind.PARENT, f"w{i}", "v", above=1, of=2) for i in range(3)]
    assert beyond_shared(np.array([5.0, 6.0, 7.0]), some, {}).tolist() == [5.0, 6.0, 7.0]


def test_more_budget_chooses_more_tables_and_no_number_of_them_is_the_most() -> None:
    rng = np.random.default_rng(0)
    gains = np.sort(rng.exponential(400, 200))[::-1]
    sizes, weights = np.full(200, 36.0), np.ones(200)
    chosen = [len(worth_measuring(gains, sizes, weights, budget(mu))[0]) for mu in (0.05, 0.2, 1.0, 20.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < 20
    assert chosen[-1] > 150


def test_the_choice_is_the_best_of_all_first_ones() -> None:
    """Against every number of tables, each with the noise that its share of the budget buys."""
    rng = np.random.default_rng(1)
    gains, sizes, weights = rng.exponential(300, 30), rng.integers(4, 60, 30).astype(float), rng.random(30) + 0.5
    left = budget(0.3)
    picked, order = worth_measuring(gains, sizes, weights, left)

    def gained(some: np.ndarray) -> float:
        shares = sizes[some] ** (2 / 3)
        noise = np.array([left.table_stddev(one / shares.sum()) for one in shares])
        each = np.maximum(gains[some] - 0.5 * sizes[some] * noise, -0.2 * np.maximum(gains[some], 0))
        return float(weights[some] @ each)

    best = max(range(1, 31), key=lambda j: gained(order[:j]))
    assert picked.tolist() == order[:best].tolist()


def test_strong_relations_have_finer_groups_the_more_the_larger_the_budget() -> None:
    """Finer groups show a third more of each relation here, which pays where it is more than the noise of more cells."""
    rng = np.random.default_rng(3)
    coarse = np.sort(rng.exponential(2000, 60))
    gains, sizes, weights = np.array([coarse, 4 / 3 * coarse]), np.array([[36.0], [144.0]]) * np.ones(60), np.ones(60)
    found = [groups_that_pay(gains, sizes, weights, budget(mu)) for mu in (0.05, 0.3, 3.0, 300.0)]
    assert all((np.diff(one) >= 0).all() for one in found)  # the stronger, the finer
    many = [int(one.sum()) for one in found]
    assert many == sorted(many)
    assert many[0] < 5
    assert many[-1] > 55
    assert groups_that_pay(gains[[0, 0]], sizes[[0, 0]], weights, budget(3.0)).tolist() == [0] * 60


def test_a_table_keeps_what_has_no_other_groups() -> None:
    one = table(Kind.ROW, "v", "t")
    every = Grouping("three", np.arange(3))
    groupings = {(1, "v"): {"pairs": one.grouping}, (1, "t"): {"pairs": one.other_grouping, "fine": every}}
    assert over(groupings, one, "pairs") is one
    assert over(groupings, one, "threes") is one
    changed = over(groupings, one, "fine")
    assert changed.grouping is one.grouping
    assert changed.other_grouping is every


@pytest.mark.parametrize("strength", [0.0, 30.0])
def test_a_relation_is_clear_where_noise_does_not_explain_it(strength: float) -> None:
    rng = np.random.default_rng(2)
    expected = np.full((6, 6), 100.0)
    truth = expected + strength * np.outer([1, -1] * 3, [1, -1] * 3)
    clear = [related(truth + 10 * rng.standard_normal((6, 6)), expected, 10.0) for _ in range(200)]
    assert np.mean(clear) < 0.1 if strength == 0 else all(clear)


def test_groups_are_finer_with_more_persons_and_less_noise() -> None:
    assert fineness(50_000, 11.0)["pairs"] == MERGED
    assert MERGED < fineness(50_000, 2.4)["pairs"] < fineness(200_000, 2.4)["pairs"] <= MOST
    assert fineness(50_000, 0.0) == {"threes": MERGED, "pairs": MOST, "fine": MOST, "steps": MOST + 2}
    assert fineness(50_000, 11.0)["fine"] == 2 * MERGED


def test_three_attributes_weigh_what_a_user_wishes_of_them() -> None:
    three = PersonTable.of_three(table(Kind.ROW, "v", "t"), table(Kind.PARENT, "v", "p", above=0))
    wished = relations_wished(LAYOUT.schema, {("rows.v", "rows.t", "persons.p"): 3.0, ("rows.v", "rows.t"): 1.0}, None)
    assert weights_of(LAYOUT, [three, three.parts[0]], wished).tolist() == [3.0, 4.0]


def test_tables_of_three_are_asked_only_where_noise_does_not_hide_them() -> None:
    pairs = [table(Kind.ROW, "v", "#leaves"), table(Kind.PARENT, "v", "p", above=0)]
    groupings = {(i, name): {"threes": TWO} for i, one in enumerate(LAYOUT.tables) for name in one.axes}
    asked = [
        triples(LAYOUT, groupings, pairs, [9.0, 5.0], Workload(), persons=1000, noise=lambda _, stddev=noise: stddev)
        for noise in (1.0, 20.0)
    ]
    assert [len(one) for one in asked] == [1, 0]
    assert asked[0][0].sizes(LAYOUT) == (4, 2)
