"""One contract for every family of statistics: exact bounds, exact integers, sums that add up (R5)."""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from query_cases import SHAPES, STATISTICS, UNITS, cells_of

from synthdp.errors import ParameterError, SensitivityError
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.norms import Norms
from synthdp.queries.protocol import LARGEST_TABLE, LinearQueries, Statistic, check_overflow, real_answers

LINEAR = [name for name in STATISTICS if not name.startswith(("distances", "scores"))]

family = pytest.mark.parametrize("family", STATISTICS, indirect=True)
linear = pytest.mark.parametrize("queries", LINEAR, indirect=True)


@cache
def made(name):
    """Make a family once a test asks for it: some are fitted, which no collection should wait for."""
    return STATISTICS[name]()


@pytest.fixture(scope="module", name="family")
def _family(request):
    return made(request.param)


@pytest.fixture(scope="module", name="queries")
def _queries(request):
    return made(request.param)


def answers(family, codes):
    return family.finish(family.sums(codes))


def largest(changes):
    """The exact norms of the largest of some integer vectors, (m, k): in Python's integers, which never overflow."""
    changes = abs(np.asarray(changes).astype(object))
    return Norms(int(changes.sum(axis=1).max()), int((changes**2).sum(axis=1).max()), int(changes.max()))


def within(change, bound):
    return change.l1 <= bound.l1 and change.l2_squared <= bound.l2_squared and change.linf <= bound.linf


def tables(family, rows):
    """Some tables of a few rows, the empty one among them."""
    cells = cells_of(family.domain)
    rng = np.random.default_rng(rows)
    return [cells[rng.integers(0, len(cells), rows)] for _ in range(3)]


def rows_of(data, family, most=8):
    picked = data.draw(st.lists(st.integers(0, family.domain.cells - 1), max_size=most))
    return cells_of(family.domain)[picked]


def test_all_families_but_distances_and_scores_are_linear():
    assert [name for name in STATISTICS if isinstance(made(name), LinearQueries)] == LINEAR


@family
def test_a_family_keeps_the_protocol(family):
    assert isinstance(family, Statistic)
    assert family.denominator >= 1
    check_overflow(family)
    empty = answers(family, np.zeros((0, len(family.domain)), np.int64))
    assert empty.shape == (family.k,)
    assert empty.dtype == np.int64


@family
@pytest.mark.parametrize("rows", [pytest.param(0, marks=pytest.mark.landing), 4])
def test_adding_any_record_changes_the_answers_within_the_bounds(family, rows):
    """Brute force over all records, beside several tables."""
    cells = cells_of(family.domain)
    for table in tables(family, rows):
        before = answers(family, table)
        changes = [answers(family, np.vstack([table, cell[None]])) - before for cell in cells]
        assert within(largest(changes), family.bounds.one)


@family
@pytest.mark.parametrize("rows", [pytest.param(0, marks=pytest.mark.landing), 3])
def test_replacing_any_record_changes_the_answers_within_the_bounds(family, rows):
    """Brute force over all pairs of records, beside several tables."""
    cells = cells_of(family.domain)
    table = tables(family, rows)[0]
    each = np.array([answers(family, np.vstack([table, cell[None]])) for cell in cells])
    for one in each:
        assert within(largest(each - one), family.bounds.swap)


@family
def test_bounds_of_a_swap_are_no_worse_than_two_additions(family):
    assert within(family.bounds.swap, family.bounds.one.times(2))


def beside(family, table):
    """The answers of a table, given by its sums, with each record added to it, as Python's integers; (cells, k)."""
    each = [family.sums(cell[None]) for cell in cells_of(family.domain)]
    return np.array([family.finish(table + one) for one in each]).astype(object)


def drawn(make, data, denominator):
    """A family of any shape, or nothing if it is refused: what may not be asked cannot be wrong."""
    made = []
    with suppress(ParameterError, SensitivityError):
        made.append(make(data.draw, denominator))
    return made


@pytest.mark.sampled
@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
@given(data=st.data(), denominator=st.sampled_from(UNITS) | st.integers(1, 2**62))
def test_bounds_hold_for_every_shape_and_unit_beside_the_empty_and_the_largest_table(make, data, denominator):
    """Brute force over all records and all pairs of them: no sum, no square, no difference may leave 64 bits."""
    for family in drawn(make, data, denominator):
        first = family.sums(cells_of(family.domain)[:1])
        for rows in (0, 1, LARGEST_TABLE - 1):
            table = first * rows
            each, before = beside(family, table), family.finish(table).astype(object)
            assert within(largest(each - before), family.bounds.one)
            assert within(largest((each[:, None] - each[None]).reshape(-1, family.k)), family.bounds.swap)


@pytest.mark.sampled
@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
@given(data=st.data(), denominator=st.sampled_from(UNITS))
def test_every_family_that_is_not_refused_can_be_noised_in_every_currency(make, data, denominator):
    for family in drawn(make, data, denominator):
        for adjacency in (Adjacency(), Adjacency("replace_one"), Adjacency(unit="id", rows=3)):
            norms = adjacency.sensitivity(family)
            for loss in (PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.5), GaussianDP(1.0)):
                assert calibrate(norms, loss, k=family.k).noise.stddev > 0


@pytest.mark.sampled
@family
@given(data=st.data())
def test_sums_add_up_over_any_division_into_blocks(family, data):
    one, two = rows_of(data, family), rows_of(data, family)
    assert (family.sums(np.vstack([one, two])) == family.sums(one) + family.sums(two)).all()


@pytest.mark.sampled
@family
@given(data=st.data())
def test_neither_order_nor_layout_nor_type_of_codes_matter(family, data):
    codes = rows_of(data, family)
    expected = answers(family, codes)
    for same in (
        codes[::-1],
        np.asfortranarray(codes),
        codes.astype(np.uint8),
        np.asfortranarray(codes.astype(np.uint16)),
    ):
        assert (answers(family, same) == expected).all()


@pytest.mark.sampled
@linear
@given(data=st.data())
def test_linear_answers_are_the_sums_of_the_features(queries, data):
    codes = rows_of(data, queries)
    features = queries.features(codes)
    assert features.dtype == np.int64
    assert features.shape == (len(codes), queries.k)
    assert (answers(queries, codes) == features.sum(axis=0)).all()


@linear
def test_features_of_every_cell_are_within_the_bounds(queries):
    features = queries.features(cells_of(queries.domain))
    assert within(largest(features), queries.bounds.one)
    pairs = [one - two for one, two in itertools.combinations(features, 2)]
    assert within(largest(pairs), queries.bounds.swap)


TIGHT = ["one-way marginals", "all marginals", "marginals of merged cells", "parities", "values of cells", "the total"]


@pytest.mark.parametrize("name", TIGHT)
def test_bounds_are_reached(name):
    """A bound that no record reaches pays for noise in vain."""
    features = made(name).features(cells_of(made(name).domain))
    assert largest(features) == made(name).bounds.one


@pytest.mark.sampled
@family
def test_the_rows_of_a_unit_count_together(family):
    """R11: k rows of one person, wherever they lie."""
    rows, cells = 3, cells_of(family.domain)
    rng = np.random.default_rng(0)
    table = tables(family, 3)[0]
    before = answers(family, table)
    sensitivity = Adjacency(unit="id", rows=rows).sensitivity(family)
    many = [answers(family, np.vstack([table, cells[rng.integers(0, len(cells), rows)]])) - before for _ in range(50)]
    same = [answers(family, np.vstack([table, *[cell[None]] * rows])) - before for cell in cells]
    assert within(largest([*many, *same]), sensitivity)


@family
def test_real_answers_are_whole_ones_over_the_unit(family):
    whole = answers(family, cells_of(family.domain))
    assert np.allclose(real_answers(family, whole) * family.denominator, whole, rtol=0, atol=1e-9)
