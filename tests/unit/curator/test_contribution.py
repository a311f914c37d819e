"""Contribution bounding (R11): how far one person's rows reach, whatever the others hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import example, given, strategies as st

from synthdp.curator.contribution import Bounding, first_rows, kept_rows, mixed as splitmix64, one_row_of_each
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import Labels, Numbers, rows_of
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import one_ways
from synthdp.schema.columns import Integer
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.csv import CsvSource, write_csv

people = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 2), st.integers(0, 1)), max_size=12)
"""Rows of (owner, or -1; value; value)."""


NAMES = ["ann", "bob", "cy", "di"]
digests = Bounding(1).digests


def block(rows):
    table = np.array(rows, np.int64).reshape(-1, 3)
    values = {"x": table[:, 1].astype(np.uint8), "y": table[:, 2].astype(np.uint8)}
    return values, digests(Labels(NAMES, table[:, 0]))


def kept(*parts, rows):
    """The kept rows of some blocks, as a multiset."""
    result = kept_rows([block(part) for part in parts], rows=rows)
    return Counter(zip(result["x"].tolist(), result["y"].tolist(), strict=True))


def distance(one, two):
    return sum((one - two).values()) + sum((two - one).values())


@given(people, st.integers(1, 3), st.integers(0, 3))
@example([(0, 0, 0)] * 3, 1, 0)
def test_removing_a_unit_changes_at_most_so_many_rows(rows, most, owner):
    rest = [row for row in rows if row[0] != owner]
    assert distance(kept(rows, rows=most), kept(rest, rows=most)) <= most
    assert sum((kept(rest, rows=most) - kept(rows, rows=most)).values()) == 0


@given(people, st.integers(1, 3))
def test_each_unit_keeps_as_many_rows_as_it_may(rows, most):
    owned = Counter(owner for owner, _, _ in rows if owner >= 0)
    nobody = sum(owner < 0 for owner, _, _ in rows)
    assert sum(kept(rows, rows=most).values()) == sum(min(most, count) for count in owned.values()) + nobody


@given(people, st.integers(1, 3))
def test_what_one_unit_keeps_depends_on_its_own_rows_alone(rows, most):
    alone = [kept([row for row in rows if row[0] == owner], rows=most) for owner in range(-1, 4)]
    assert kept(rows, rows=most) == sum(alone, Counter())


@given(people, st.randoms(use_true_random=False), st.integers(1, 3), st.integers(0, 12))
def test_neither_the_order_of_rows_nor_the_ends_of_blocks_matter(rows, random, most, cut):
    mixed = list(rows)
    random.shuffle(mixed)
    assert kept(mixed[:cut], mixed[cut:], rows=most) == kept(rows, rows=most)


@given(people, st.integers(1, 3), st.integers(0, 3), st.integers(0, 12))
@example([(0, 1, 0), (0, 2, 0)], 1, 0, 1)
def test_the_first_rows_of_a_unit_depend_on_no_other_unit(rows, most, owner, cut):
    rest = [row for row in rows if row[0] != owner]
    keep = first(rows, most, cut)
    assert [row for row in keep if row[0] != owner] == first(rest, most, len(rest))
    assert sum(row[0] == owner for row in keep) <= most


@given(people, st.integers(0, 3), st.integers(0, 12))
def test_the_one_row_of_a_unit_depends_on_no_other_unit(rows, owner, cut):
    rest = [row for row in rows if row[0] != owner]
    keep = one_of_each(rows, cut)
    assert [row for row in keep if row[0] != owner] == one_of_each(rest, len(rest))
    known = [row[0] for row in rows if row[0] >= 0]
    assert sorted(row[0] for row in keep if row[0] >= 0) == sorted(set(known))
    assert sum(row[0] < 0 for row in keep) == len(rows) - len(known)


def test_the_one_row_of_a_unit_is_as_likely_a_late_one_as_an_early_one():
    rows = [(i, place, 0) for place in range(4) for i in range(4000)]
    owner = Labels([f"unit {i}" for i in range(4000)], np.array([row[0] for row in rows], np.int64))
    many: dict[object, int] = {}
    one_row_of_each(owner, many={}, seen=many)
    chosen = one_row_of_each(owner, many=many, seen={})
    places = Counter(place for (_, place, _), here in zip(rows, chosen, strict=True) if here)
    assert all(900 < places[place] < 1100 for place in range(4))


def one_of_each(rows, cut):
    many, seen, keep = {}, {}, []
    parts = [Labels(NAMES, np.array([row[0] for row in part], np.int64)) for part in (rows[:cut], rows[cut:])]
    for owner in parts:
        one_row_of_each(owner, many={}, seen=many)
    for owner in parts:
        keep += list(one_row_of_each(owner, many=many, seen=seen))
    return [row for row, here in zip(rows, keep, strict=True) if here]


def first(rows, most, cut):
    seen, keep = {}, []
    for part in (rows[:cut], rows[cut:]):
        owner = Labels(NAMES, np.array([row[0] for row in part], np.int64))
        keep += list(first_rows(owner, rows=most, seen=seen))
    return [row for row, here in zip(rows, keep, strict=True) if here]


@pytest.mark.parametrize(
    "same", [[1, 1.0, True, np.int64(1), Decimal("1.00")], ["1", np.str_("1")], [0.5, Decimal("0.5")]]
)
def test_a_unit_is_the_same_however_it_is_spelled(same):
    units = {"x": np.arange(len(same), dtype=np.uint8)}
    alone = [
        kept_rows([(units, digests(Labels([name] * len(same), np.arange(len(same)))))], rows=2)["x"] for name in same
    ]
    mixed = kept_rows([(units, digests(Labels(same, np.arange(len(same)))))], rows=2)["x"]
    assert all((one == mixed).all() for one in alone)


def test_a_missing_unit_elsewhere_makes_numbers_floats_and_changes_nothing():
    units = {"x": np.arange(50, dtype=np.uint8)}
    owners = np.arange(50) // 10
    whole = kept_rows([(units, digests(Numbers(owners)))], rows=3)["x"]
    real = kept_rows([(units, digests(Numbers(owners.astype(np.float64))))], rows=3)["x"]
    assert (whole == real).all()


@given(my.labels(), st.integers(1, 3))
def test_units_may_be_of_any_type(labels, most):
    units = {"x": np.arange(len(labels.codes), dtype=np.uint8)}
    assert len(kept_rows([(units, digests(labels))], rows=most)["x"]) <= len(labels.codes)
    assert len(first_rows(labels, rows=most, seen={})) == len(labels.codes)


def test_no_rows_are_no_rows():
    assert len(kept_rows([block([])], rows=1)["x"]) == 0
    assert len(first_rows(Labels(NAMES, np.zeros(0, np.int64)), rows=1, seen={})) == 0


def test_some_rows_of_a_raw_column():
    keep = np.array([True, False, True])
    assert rows_of(Labels(["a"], np.array([0, 0, -1])), keep).codes.tolist() == [0, -1]
    assert rows_of(Numbers(np.arange(3), np.array([True, False, False])), keep).missing.tolist() == [True, False]


@pytest.mark.parametrize("most", [1, 7])
@pytest.mark.parametrize("as_file", [False, True])
def test_ten_thousand_rows_of_one_person_reach_at_most_so_far(tmp_path, monkeypatch, most, as_file):
    monkeypatch.setattr("synthdp.tables.sources.csv.BLOCK_ROWS", 1000)
    rng = np.random.default_rng(0)
    rest = pd.DataFrame({"id": np.arange(500) // 2, "x": rng.integers(0, 9, 500)})
    busy = pd.DataFrame({"id": 999, "x": rng.integers(0, 9, 10_000)})
    both = pd.concat([busy, rest]).sample(frac=1, random_state=1)
    counts = [counted(table, tmp_path / "t.csv", most=most, as_file=as_file) for table in (both, rest)]
    assert np.abs(counts[0] - counts[1]).sum() == most


def counted(table, path, *, most, as_file):
    schema = Schema({"x": Integer(0, 9)})
    write_csv(table, path)
    source = {False: FrameSource(table), True: CsvSource(path)}[as_file]
    return PrivateTable(source, schema, Adjacency(unit="id", rows=most)).exact(one_ways(domain_of(schema)))


rows_of_units = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12)


@given(rows_of_units, st.integers(1, 3))
def test_the_rows_of_a_unit_that_are_kept_have_its_smallest_hashes(rows, most):
    """The public rule, row by row: a hash of the unit, the row, and how often the same row came before."""
    owner, x, y = np.array(rows, np.int64).reshape(-1, 3).T
    values = {"x": x.astype(np.uint8), "y": y.astype(np.uint8)}
    kept = kept_rows([(values, digests(Labels(["ann", "bob", "cy"], owner)))], rows=most)
    expected = []
    for number, name in enumerate(["ann", "bob", "cy"]):
        mine = [(a, b) for who, a, b in rows if who == number]
        unit = hashlib.sha256(f"str:{name}".encode()).hexdigest()[:32]
        words = [f"{unit}{a:08x}{b:08x}{mine[:i].count((a, b)):08x}" for i, (a, b) in enumerate(mine)]
        hashed = [(hashlib.sha256(word.encode()).digest(), *row) for word, row in zip(words, mine, strict=True)]
        expected += [(a, b) for _, a, b in sorted(hashed)[:most]]
    assert sorted(zip(kept["x"].tolist(), kept["y"].tolist(), strict=True)) == sorted(expected)


@pytest.mark.parametrize(
    ("seed", "first"), [(0, 0xE220A8397B1DCDAF), (1234567, 6457827717110365317), (2**64 - 1, 0xE4D971771B652C20)]
)
def test_rows_are_hashed_by_splitmix64_as_published(seed, first):
    """Steele, Lea, Flood 2014, with the constants of Vigna's splitmix64.c: its first number from a seed."""
    column = np.array([seed], np.uint64)
    assert splitmix64(np.zeros(1, np.uint64), column).tolist() == [first]
    assert splitmix64(column, np.zeros(1, np.uint64)).tolist() == [first]
