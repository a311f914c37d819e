"""Declared hierarchies of very many levels: what is asked, what one row can change, and what comes out."""

import itertools

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp import (
    Boolean,
    Categorical,
    Curator,
    GaussianDP,
    Implies,
    Integer,
    Schema,
    SyntheticRelease,
)
from synthdp.domain.domain import Domain
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.column_tree import ColumnTree, first_trees
from synthdp.queries.marginals import one_ways as histogram

STATES, COUNTIES, TRACTS = 20, 10, 10
CODES = [f"{s:02d}-{c}-{t}" for s in range(STATES) for c in range(COUNTIES) for t in range(TRACTS)]
BY_STATE, BY_COUNTY = [code[:2] for code in CODES], [code[:4] for code in CODES]
PLACE = Categorical(CODES, groups=[BY_STATE, BY_COUNTY])
TINY = Categorical(list("abcdef"), groups=[list("ppqqqq"), list("uvwwxy")], nullable=True)
LOUD = OneWayTree(bins=2, heavy=0.5)


def rows_of(*counts: tuple[str, int]) -> list[str]:
    return [code for code, times in counts for _ in range(times)]


def measured(values: list[str], column: Categorical, *, tree: OneWayTree, budget: float = 8.0):
    account = Curator(pd.DataFrame({"x": values}), schema=Schema({"x": column}), budget=GaussianDP(budget))
    return tree.measure(account, BudgetAllocation.of(account), share=0.4, most=0.9, total=float(len(values)))


def trees_of_tiny():
    """Every tree that some noise can make of the tiny column, and the leaves to be split: at least one, at both steps."""
    axis = LOUD.first_axis("x", TINY)
    first = first_trees([axis], [np.zeros(axis.size)], 1.0, total=9.0, steps=[LOUD.steps(TINY)])[0]
    for split in splits(first):
        yield first, split
        second = first.grown(split, np.zeros(first.parts(split, fan=LOUD.fan).size), 1.0, fan=LOUD.fan)
        yield from ((second, others) for others in splits(second))


def splits(tree: ColumnTree) -> list[np.ndarray]:
    wide = np.flatnonzero(tree.stops - tree.starts > 1).tolist()
    chosen = (some for k in range(1, len(wide) + 1) for some in itertools.combinations(wide, k))
    return [np.isin(np.arange(len(tree.starts)), some) for some in chosen]


def test_one_row_changes_one_count_of_any_histogram_of_a_hierarchy_by_one():
    """By brute force: all trees, all tables of up to two rows, all neighbours of both kinds."""
    values = range(8)  # six levels, the missing one, and what the schema does not foresee
    seen = 0
    for tree, split in trees_of_tiny():
        axis = tree.parts(split, fan=LOUD.fan)
        queries = histogram(Domain((axis,)))
        rows = [
            axis.cells_of(np.array(one, np.uint32)) for k in (0, 1, 2) for one in itertools.product(values, repeat=k)
        ]
        counts = {len(row): [] for row in rows}
        for row in rows:
            counts[len(row)].append(np.bincount(row.astype(int), minlength=queries.k))
        by_rows = [np.array(counts[k]) for k in (0, 1, 2)]
        for fewer, more in itertools.pairwise(by_rows):
            least = np.abs(more[:, None] - fewer).sum(axis=2).min(axis=1)
            assert (least == 1).all()
        swaps = np.abs(by_rows[1][:, None] - by_rows[1])
        assert swaps.sum(axis=2).max() <= queries.bounds.swap.l1 == 2
        assert (swaps**2).sum(axis=2).max() <= queries.bounds.swap.l2_squared == 2
        assert queries.bounds.one.l1 == queries.bounds.one.l2_squared == 1
        seen += 1
    assert seen > 5


def test_only_the_groups_of_a_group_with_rows_are_counted_at_the_next_step():
    values = rows_of(("03-4-7", 3000), ("03-4-8", 1000), ("11-0-0", 2000))
    columns, _, answers = measured(values, PLACE, tree=OneWayTree())
    sizes = [len(found.answers) for found in answers]
    rest = 1  # what does not fit, at first; then all that is not asked
    assert sizes == [STATES + rest, 2 * COUNTIES + rest, 2 * TRACTS + rest]
    leaves = columns[0].axis
    assert leaves.size == STATES - 2 + 2 * (COUNTIES - 1) + 2 * TRACTS + 1


def test_levels_with_rows_are_found_in_a_hierarchy():
    values = rows_of(("03-4-7", 3000), ("03-4-8", 1000), ("11-0-0", 2000))
    (column,), _, _ = measured(values, PLACE, tree=OneWayTree())
    at = {code: i for i, code in enumerate(PLACE.levels)}
    cells = column.axis.cells_of(np.array([at["03-4-7"], at["03-4-8"], at["11-0-0"]], np.uint32))
    assert column.weights[cells] == pytest.approx([3000, 1000, 2000], abs=60)  # over 20 standard deviations


def test_few_levels_are_counted_at_once_whatever_their_groups():
    few = Categorical(list("abcdef"), groups=[list("ppqqqq")])
    plain = Categorical(list("abcdef"))
    axes = [OneWayTree().first_axis("x", column) for column in (few, plain)]
    assert axes[0].starts.tolist() == axes[1].starts.tolist()


def table() -> pd.DataFrame:
    """Two states have nearly all rows, in tracts of a few rows each; whoever lives in an even county has the flag."""
    rng = np.random.default_rng(5)
    state, county, tract = (
        rng.choice([3, 11], 20_000, p=[0.7, 0.3]),
        rng.integers(0, 4, 20_000),
        rng.integers(0, 10, 20_000),
    )
    code = [CODES[(s * COUNTIES + c) * TRACTS + t] for s, c, t in zip(state, county, tract, strict=True)]
    return pd.DataFrame({"place": code, "flag": county % 2 == 0, "age": rng.integers(0, 90, 20_000)})


SCHEMA = Schema({"place": PLACE, "flag": Boolean(), "age": Integer(0, 89)})


@pytest.fixture(scope="module")
def release() -> SyntheticRelease:
    return SyntheticRelease(schema=SCHEMA, epsilon=0.2, delta=1e-6, random_state=0).fit(table())


@pytest.mark.slow
def test_relations_of_groups_are_kept_where_each_of_their_levels_is_rare(release):
    made = release.sample(20_000, random_state=1)
    county = made["place"].astype(str).str[3].astype(int)
    assert (county < 4).mean() > 0.9
    known = made[county < 4]
    assert (known["flag"] == (county[county < 4] % 2 == 0)).mean() > 0.9


@pytest.mark.slow
def test_a_saved_release_of_a_hierarchy_gives_the_same_rows(release, tmp_path):
    release.save(tmp_path / "r")
    again = sd.load(tmp_path / "r")
    assert again.output.schema == release.release_.output.schema
    kept = release.release_.output.sample(500, random_state=3)
    pd.testing.assert_frame_equal(again.output.sample(500, random_state=3), kept)


@pytest.mark.slow
def test_the_bar_of_a_level_that_noise_hides_in_its_group_reaches_all_rows_of_the_group():
    """100 rows of a state are too few to be looked for in its counties: all may be of one tract, as here."""
    values = rows_of(("03-4-7", 3000), ("11-0-0", 100))
    made = SyntheticRelease(schema=Schema({"place": PLACE}), epsilon=0.5, delta=1e-6, random_state=0)
    made.fit(pd.DataFrame({"place": values}))
    tract, state = (
        made.answer(sd.count(f"place in {[code for code in CODES if code.startswith(some)]}")).iloc[0]
        for some in ("11-0-0", "11-")
    )
    assert state["estimate"] > 0  # 7 standard deviations
    assert tract["lower"] < 0.1 * state["estimate"] < 0.9 * state["estimate"] < tract["upper"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["auto", "l1_fit", "mwem"])
def test_a_rule_may_name_a_level_that_noise_hides_in_its_group(mechanism):
    rules = [Implies({"place": ["00-0-0", "03-1-1"]}, {"flag": [True]})]
    schema = Schema(dict(SCHEMA), constraints=rules)
    fitted = SyntheticRelease(schema=schema, epsilon=0.5, delta=1e-6, mechanism=mechanism, random_state=0)
    obeyed = table()
    obeyed.loc[obeyed["place"] == "03-1-1", "flag"] = True
    made = fitted.fit(obeyed).sample(20_000, random_state=1)
    named = made["place"].isin(["00-0-0", "03-1-1"])
    assert made.loc[named, "flag"].all()
