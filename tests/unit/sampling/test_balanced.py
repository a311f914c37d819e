"""Halving keeps every row with probability one half, makes tables of pairs nearer to the model, and invents nothing."""

import collections
import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from synthdp.distribution.components import Product
from synthdp.distribution.explicit import Explicit
from synthdp.queries.contingency import contingency
from synthdp.sampling.balanced import (
    MOST_CELLS,
    WORK,
    WORK_INSIDE,
    Inside,
    _blocks_of_cells,
    _numbering,
    _similar,
    balanced_inside,
    halved,
)

SHAPE = (4, 3, 5)
MARGINS = (np.array([4, 3, 2, 1.0]), np.array([1, 1, 8.0]), np.ones(5))
MODEL = Product(shape=SHAPE, margins=MARGINS)


def pair_error(codes, model, shape):
    pairs = [(0, 1), (0, 2), (1, 2)]
    return sum(np.abs(contingency(codes, shape, p) / len(codes) - model.marginal(p)).sum() for p in pairs)


def inside(rng):
    """Six cells in each group of the first two columns, in classes of two; none inside the third's."""

    def draw(codes):
        cells = codes.astype(np.int64)
        cells[:, :2] = 6 * cells[:, :2] + rng.integers(6, size=(len(codes), 2))
        return cells

    return Inside(draw, [np.arange(24) // 2, np.arange(18) // 2, np.arange(5)], [True, True, False])


def of_cells_alone(model, rows, rng, **options):
    """Rows that are balanced over coarse bins only, as where these hold one interval each."""
    columns = len(model.shape)
    codes, cells = balanced_inside(model, rows, rng, Inside(lambda codes: codes, [], [False] * columns), **options)
    assert cells is None
    return codes


def test_the_halves_of_rows_are_rows():
    codes = MODEL.sample(400, np.random.default_rng(0))
    half = halved(codes, SHAPE, np.random.default_rng(1))
    assert half.shape == (200, 3)
    whole, part = ({tuple(row): 0 for row in codes.tolist()} for _ in range(2))
    for rows, counts in ((codes, whole), (half, part)):
        for row in rows.tolist():
            counts[tuple(row)] += 1
    assert all(part[row] <= whole[row] for row in part)


def distinct_rows(shape, rows):
    """Rows of which no two are equal, in a seeded order."""
    some = np.random.default_rng(5).permutation(np.prod(shape))[:rows]
    return np.column_stack(np.unravel_index(some, shape))


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(("shape", "rows"), [(SHAPE, 8), ((2,) * 7, 64)])
@pytest.mark.parametrize("left", [0, 1])
def test_every_row_stays_with_probability_one_half(shape, rows, left):
    """With 64 rows tables of three columns count, too, and decisions are turned; a halving that is not the last does not."""
    codes, kept = distinct_rows(shape, rows), np.zeros(shape)
    for seed in range(1200):
        np.add.at(kept, tuple(halved(codes, shape, np.random.default_rng(seed), left=left).T), 1)
    rate = kept[tuple(codes.T)] / 1200
    assert np.abs(rate - 0.5).max() < 6.5 * 0.5 / np.sqrt(1200)  # p = 1e-9 each


@pytest.mark.landing
def test_each_half_is_as_likely_as_what_it_leaves_behind():
    """Exchanging all decisions leaves their law as it is."""
    codes = distinct_rows((2, 2, 3), 8)
    number = {tuple(row): i for i, row in enumerate(codes.tolist())}
    seen = collections.Counter()
    for seed in range(1500):
        half = halved(codes, (2, 2, 3), np.random.default_rng(seed))
        seen[frozenset(number[tuple(row)] for row in half.tolist())] += 1
    for kept, times in seen.items():
        others = seen[frozenset(range(8)) - kept]
        assert abs(times - others) <= 6.2 * np.sqrt(times + others)


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=5).map(tuple), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_equal_rows_are_paired_first_and_every_row_once(shape, pairs, seed):
    codes = np.random.default_rng(seed).integers(0, shape, (2 * pairs, len(shape)))
    first, second, equal = _similar(codes, shape, np.arange(len(shape)))
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(2 * pairs))
    _, times = np.unique(codes, axis=0, return_counts=True)
    assert (codes[first] == codes[second]).all(axis=1).tolist() == [True] * equal + [False] * (pairs - equal)
    assert equal == (times // 2).sum()


def test_decisions_are_made_where_no_table_tells_of_them_and_where_there_are_none():
    wide = np.column_stack([np.arange(8), np.arange(8)])
    assert len(halved(wide, (40_000, 40_000), np.random.default_rng(0))) == 4
    assert len(halved(np.zeros((8, 2), np.int64), (2, 2), np.random.default_rng(0))) == 4


def test_tables_take_bounded_memory():
    tables = _numbering(
        (31,) * 300, list(itertools.combinations(range(300), 2))
    )  # 44 850 pairs of columns with 961 cells each
    assert MOST_CELLS - 31**2 < tables.cells <= MOST_CELLS
    assert tables.factors[-1, -1] + 31**2 == tables.cells
    assert tables.factors.shape[1] * 31**2 == tables.cells


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=3, max_size=6).map(tuple),
    st.integers(1, 60),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_cells_are_numbered_once_for_each_table_and_block(shape, pairs, at_once, seed):
    """Against numbers that are counted one table and pair after another."""
    rng = np.random.default_rng(seed)
    first, second = (rng.integers(0, shape, (pairs, len(shape))) for _ in range(2))
    cliques = [c for ways in (2, 3) for c in itertools.combinations(range(len(shape)), ways)]
    sizes = [int(np.prod([shape[j] for j in c])) for c in cliques]
    expected = []
    for a, b in zip(first, second, strict=True):
        begins, cells = 0, ([], [])
        for clique, size in zip(cliques, sizes, strict=True):
            x, y = (
                begins + int(np.ravel_multi_index([row[j] for j in clique], [shape[j] for j in clique]))
                for row in (a, b)
            )
            cells[0].extend([x] * (x != y))
            cells[1].extend([y] * (x != y))
            begins += size
        expected.append(cells)
    blocks = list(_blocks_of_cells(first, second, _numbering(shape, cliques), at_once))
    assert [at for at, _ in blocks] == list(range(0, pairs, at_once))
    found = [
        (cells.first[begin:end].tolist(), cells.second[begin:end].tolist())
        for _, cells in blocks
        for begin, end in itertools.pairwise(cells.begins)
    ]
    assert found == expected


def test_tables_of_pairs_are_much_nearer_to_the_model_than_those_of_plain_draws():
    plain = np.mean([pair_error(MODEL.sample(300, np.random.default_rng(s)), MODEL, SHAPE) for s in range(20)])
    better = np.mean(
        [pair_error(of_cells_alone(MODEL, 300, np.random.default_rng(s)), MODEL, SHAPE) for s in range(20)]
    )
    assert better < 0.6 * plain


def test_impossible_rows_stay_impossible_and_evidence_holds():
    codes = np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2]])
    model = Explicit(shape=SHAPE, codes=codes, weights=np.array([0.5, 0.25, 0.25]))
    sampled = of_cells_alone(model, 101, np.random.default_rng(0))
    assert (sampled[:, 0] == sampled[:, 1]).all()
    given = of_cells_alone(model, 40, np.random.default_rng(0), given={0: np.array([0.0, 1.0, 1.0, 0.0])})
    assert set(given[:, 0].tolist()) == {1, 2}


@pytest.mark.parametrize("shape", [(5,), (2, 2)])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_any_number_of_rows_and_columns_is_drawn_repeatably(shape, rows):
    model = Product(shape=shape, margins=tuple(np.ones(k) for k in shape))
    first, second = (of_cells_alone(model, rows, np.random.default_rng(3)) for _ in range(2))
    assert first.shape == (rows, len(shape))
    assert (first == second).all()


@pytest.mark.landing
def test_large_samples_are_plain_draws():
    rows = WORK // 18 + 1
    plain = MODEL.sample(rows, np.random.default_rng(2))
    assert (of_cells_alone(MODEL, rows, np.random.default_rng(2)) == plain).all()


def test_nothing_is_halved_where_tables_have_many_more_cells_than_rows():
    model = Product(shape=(30,) * 20, margins=(np.ones(30),) * 20)
    plain = model.sample(1000, np.random.default_rng(2))  # 190 tables of 900 cells
    assert (of_cells_alone(model, 1000, np.random.default_rng(2)) == plain).all()


def test_columns_of_many_codes_need_no_large_tables():
    model = Product(shape=(40_000, 40_000, 3), margins=(np.ones(40_000), np.ones(40_000), np.ones(3)))
    sampled = of_cells_alone(model, 50, np.random.default_rng(0))  # a table of all pairs would take 12 GB
    assert sampled.shape == (50, 3)
    assert abs(np.bincount(sampled[:, 2]) - 50 / 3).max() < 2


def test_the_order_of_rows_carries_nothing():
    codes = of_cells_alone(MODEL, 2000, np.random.default_rng(4))
    first, second = (np.bincount(part[:, 2], minlength=5) for part in (codes[:1000], codes[1000:]))
    assert np.abs(first - second).max() < 6.2 * np.sqrt(2 * 200)


@pytest.mark.landing
def test_tables_of_three_columns_of_few_cells_are_nearer_to_the_model_too():
    """Twelve binary columns, each depending on all others; pairs alone leave .62 of the plain error."""
    shape, rng = (2,) * 12, np.random.default_rng(3)
    model = Explicit(shape=shape, codes=np.array(list(np.ndindex(*shape))), weights=rng.gamma(0.5, size=2**12))
    cliques = list(itertools.combinations(range(12), 3))

    def error(draw):
        rows = [draw(model, 2000, np.random.default_rng(seed)) for seed in range(3)]
        return np.abs([contingency(r, shape, c) / len(r) - model.marginal(c) for r in rows for c in cliques]).sum()

    plain = error(Explicit.sample)
    assert error(of_cells_alone) < 0.42 * plain
    assert error(functools.partial(of_cells_alone, balance=16)) < 0.33 * plain


@pytest.mark.parametrize(
    ("rows", "balance", "halvings"),
    [
        (100, 1, 4),
        (100, 16, 4),
        (100, 0, 0),
        (WORK // (18 * 7), 1, 3),
        (WORK // (18 * 3), 1, 2),
        (WORK // 18, 1, 1),
        (WORK // 18, 0.5, 0),
        (WORK // 18, 3, 2),
    ],
)
def test_so_many_rows_are_drawn_as_the_work_allows(rows, balance, halvings):
    asked = []

    class Few(Product):
        def sample(self, rows, rng, *, given=None, independent=False):
            asked.append(rows)
            return np.zeros((min(rows, 2**halvings), 3), np.int64)  # so that the test takes no time itself

    of_cells_alone(Few(shape=SHAPE, margins=MARGINS), rows, np.random.default_rng(0), balance=balance)
    assert asked == [rows * 2**halvings]


def test_cells_stay_inside_their_groups_and_their_pairs_are_nearer_to_the_model():
    fine = Product(shape=(12, 9), margins=tuple(np.repeat(margin, 3) for margin in MARGINS[:2]))

    def error(classes):
        return np.abs(contingency(classes, (12, 9), (0, 1)) / len(classes) - fine.marginal((0, 1))).sum()

    errors = np.zeros(2)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        here = inside(rng)
        codes, cells = balanced_inside(MODEL, 300, rng, here)
        assert (cells[:, :2] // 6 == codes[:, :2]).all()
        assert (cells[:, 2] == codes[:, 2]).all()
        assert pair_error(codes, MODEL, SHAPE) < 0.25
        errors += [error(one[:, :2] // 2) for one in (cells, here.draw(of_cells_alone(MODEL, 300, rng)))]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.landing
def test_every_cell_is_as_frequent_as_the_model_says():
    counts = np.zeros((24, 18))
    for seed in range(50):
        rng = np.random.default_rng(seed)
        _, cells = balanced_inside(MODEL, 240, rng, inside(rng))
        np.add.at(counts, (cells[:, 0], cells[:, 1]), 1)
    expected = 12_000 * np.outer(*(np.repeat(margin / margin.sum() / 6, 6) for margin in MARGINS[:2]))
    assert (np.abs(counts - expected) < 6.2 * np.sqrt(expected)).all()


@pytest.mark.landing
def test_nothing_is_looked_at_inside_groups_where_rows_are_many_or_differ_or_cells_are_the_groups():
    rows = WORK_INSIDE // 6 + 1
    here = inside(np.random.default_rng(0))
    assert balanced_inside(MODEL, rows, np.random.default_rng(1), here)[1] is None
    few = 5  # in 60 bins: tables of bins decide about most pairs of rows
    assert balanced_inside(MODEL, few, np.random.default_rng(1), here)[1] is None
    alone = here._replace(several=[False] * 3)
    codes, cells = balanced_inside(MODEL, 50, np.random.default_rng(1), alone)
    assert cells is None
    assert codes.shape == (50, 3)
