"""The store of a private table and its use: what is on disk comes back as it was, and nothing is left behind."""

from __future__ import annotations

import os
import tempfile
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp.curator import private_table as room_module, spill as store_module
from synthdp.curator.contribution import Bounding
from synthdp.curator.private_table import PrivateTable
from synthdp.curator.spill import SpillBuffer
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import Labels, Numbers
from synthdp.errors import DataError, InternalError
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.schema.columns import Categorical, Continuous, Integer
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource

SCHEMA = Schema({"a": Integer(0, 9), "b": Categorical(["x", "y"], nullable=True), "c": Continuous(0, 1)})


class BlocksOfRows:
    """A dataframe given out in blocks of some rows."""

    def __init__(self, table: pd.DataFrame, rows: int) -> None:
        self.table, self.rows = table, rows
        self.names = tuple(table.columns)

    def blocks(self, columns, *, extra=()):
        for start in range(0, max(1, len(self.table)), self.rows):
            yield from FrameSource(self.table.iloc[start : start + self.rows]).blocks(columns, extra=extra)


def table_of(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    letters = np.array(["x", "y", None, "z"], object)[rng.integers(0, 4, rows)]
    units = np.array([*"pqrs", None], object)[rng.integers(0, 5, rows)]
    return pd.DataFrame({"a": rng.integers(0, 10, rows), "b": letters, "c": rng.random(rows), "unit": units})


def sums_of(source, adjacency) -> np.ndarray:
    domain = domain_of(SCHEMA, bins=4)
    return PrivateTable(source, SCHEMA, adjacency).exact(Marginals(domain, all_cliques(domain, 2)))


ARRAYS = st.lists(
    st.tuples(st.sampled_from([np.uint8, np.uint16, np.uint32]), st.integers(0, 20), st.integers(1, 3)), max_size=8
)


@given(ARRAYS, st.sampled_from([0, 30, 10**6]), st.integers(0, 99))
def test_blocks_come_back_as_they_were_from_memory_and_from_disk(kinds, memory, seed):
    rng = np.random.default_rng(seed)
    blocks = [
        (
            rng.integers(0, 250, rows).astype(dtype),
            np.asfortranarray(rng.integers(0, 250, (rows, columns)).astype(dtype)),
        )
        for dtype, rows, columns in kinds
    ]
    store = SpillBuffer(memory=memory)
    for block in blocks:
        store.add(block)
    for _ in range(2):
        for before, after in zip(blocks, store.blocks(), strict=True):
            for x, y in zip(before, after, strict=True):
                np.testing.assert_array_equal(x, y)
                assert x.dtype == y.dtype
    store.close()


def test_a_spilled_store_leaves_no_file_and_no_other_user_may_read_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = SpillBuffer(memory=10)
    store.add([np.arange(100, dtype=np.uint32)])
    assert store.spilled == 400
    assert list(tmp_path.iterdir()) == []
    assert os.fstat(store._file.fileno()).st_mode & 0o077 == 0
    store.close()
    assert [block[0].tolist() for block in store.blocks()] == []


def test_a_full_disk_is_one_clear_error(monkeypatch):
    class FullDisk:
        def seek(self, offset: int) -> None: ...

        def close(self) -> None: ...

        def write(self, data: object) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FullDisk())
    with pytest.raises(DataError, match="TMPDIR"):
        SpillBuffer(memory=0).add([np.arange(3, dtype=np.uint8)])


@pytest.mark.sampled
@pytest.mark.parametrize("memory", [0, 700, 10**8])
@pytest.mark.parametrize("rows", [7, 64, 1000])
@pytest.mark.parametrize("adjacency", [Adjacency(), Adjacency(unit="unit", rows=3)])
def test_block_size_memory_and_order_never_change_the_integers(memory, rows, adjacency, monkeypatch):
    expected = sums_of(FrameSource(table_of(150)), adjacency)
    monkeypatch.setattr(store_module, "MEMORY_BYTES", memory)
    monkeypatch.setattr(room_module, "MEMORY_BYTES", memory)
    np.testing.assert_array_equal(sums_of(BlocksOfRows(table_of(150), rows), adjacency), expected)
    shuffled = table_of(150).sample(frac=1, random_state=1)
    np.testing.assert_array_equal(sums_of(BlocksOfRows(shuffled, rows), adjacency), expected)


@pytest.mark.parametrize("kept", [1, 3])
def test_removing_all_rows_of_a_unit_changes_at_most_so_many_rows_wherever_they_lie(kept):
    """R11 with a unit whose rows are spread over every block."""
    table = table_of(800)
    adjacency = Adjacency(unit="unit", rows=kept)
    domain = domain_of(SCHEMA, bins=4)
    with_all = PrivateTable(BlocksOfRows(table, 13), SCHEMA, adjacency).exact(Marginals(domain, ((0, 1, 2),)))
    without = PrivateTable(BlocksOfRows(table[table["unit"] != "p"], 13), SCHEMA, adjacency).exact(
        Marginals(domain, ((0, 1, 2),))
    )
    difference = with_all - without
    assert difference.min() >= 0
    assert difference.sum() == kept


def test_a_second_question_reads_the_source_no_more():
    reads = []

    class Counting(BlocksOfRows):
        def blocks(self, columns, *, extra=()):
            reads.append(1)
            yield from super().blocks(columns, extra=extra)

    room = PrivateTable(Counting(table_of(100), 10), SCHEMA, Adjacency())
    for bins in (2, 3, 2):
        domain = domain_of(SCHEMA, bins=bins)
        room.exact(Marginals(domain, ((0,),)))
    assert len(reads) == 1


def test_digests_keep_units_apart_and_missing_ones_missing():
    unit = Labels(["p", "q", 1], np.array([0, 1, -1, 2, 0]))
    digests = Bounding(1).digests
    found = [tuple(one) for one in digests(unit).tolist()]
    assert found[0] == found[4]
    assert found[2] == (0, 0)
    assert len(set(found)) == 4
    same = digests(Numbers(np.array([1.0, np.nan])))
    np.testing.assert_array_equal(same[0], digests(unit)[3])
    assert not same[1].any()


def test_a_failed_read_keeps_no_half_table():
    class Failing(BlocksOfRows):
        def blocks(self, columns, *, extra=()):
            yield from FrameSource(self.table).blocks(columns, extra=extra)
            raise DataError("the file ends in the middle of a row")

    room = PrivateTable(Failing(table_of(10), 10), SCHEMA, Adjacency())
    domain = domain_of(SCHEMA)
    for _ in range(2):
        with pytest.raises(DataError, match="middle"):
            room.exact(Marginals(domain, ((0,),)))


def test_blocks_on_disk_without_a_row_come_back_without_a_row():
    store = SpillBuffer(memory=0)
    store.add([np.arange(3, dtype=np.uint8), np.zeros((0, 2), np.uint16)])
    (block,) = store.blocks()
    assert block[0].tolist() == [0, 1, 2]
    assert (block[1].dtype, block[1].shape) == (np.uint16, (0, 2))
    store.close()


def test_a_store_that_is_closed_while_it_is_read_says_so():
    store = SpillBuffer(memory=0)
    store.add([np.arange(3, dtype=np.uint8)])
    reading = store.blocks()
    store.add([np.arange(3, dtype=np.uint8)])
    next(reading)
    blocks = store._blocks
    store.close()
    store._blocks = blocks
    with pytest.raises(DataError, match="closed"):
        next(store.blocks())


@pytest.mark.parametrize(("limit", "size", "spilled"), [(10, 5, 5), (12, 6, 6), (11, 4, 4), (3, 4, 12), (12, 4, 0)])
def test_memory_is_used_up_to_its_limit_and_not_beyond(limit, size, spilled):
    store = SpillBuffer(memory=limit)
    for _ in range(3):
        store.add([np.arange(size, dtype=np.uint8)])
    assert store.spilled == spilled
    assert [block[0].tolist() for block in store.blocks()] == [list(range(size))] * 3
    store.close()


class Summing(BlocksOfRows):
    """A table that sums where its rows are; it knows whether it was told to forget them."""

    forgotten = False

    def sums(self, statistic, schema, *, unit=None, bound=None):
        self.asked = (unit, bound)
        room = PrivateTable(FrameSource(self.table), schema, Adjacency())
        return sum(statistic.sums(codes) for (codes,) in room._coded_as(statistic.domain).codes.blocks())

    def forget(self) -> None:
        self.forgotten = True


def test_a_table_that_sums_where_it_is_gives_the_same_integers_and_forgets_when_the_room_closes():
    source = Summing(table_of(200), 10)
    room = PrivateTable(source, SCHEMA, Adjacency())
    statistic = Marginals(domain_of(SCHEMA, bins=4), ((0, 1),))
    expected = PrivateTable(FrameSource(table_of(200)), SCHEMA, Adjacency()).exact(statistic)
    np.testing.assert_array_equal(room.exact(statistic), expected)
    assert room.reads == 1
    assert source.asked == (None, None)
    room.close()
    assert source.forgotten


def test_a_table_that_sums_is_told_whose_rows_to_bound():
    source = Summing(table_of(200), 10)
    room = PrivateTable(source, SCHEMA, Adjacency(unit="unit", rows=3))
    room.exact(Marginals(domain_of(SCHEMA, bins=4), ((0, 1),)))
    assert source.asked == ("unit", Bounding(3))


class WrongSums(Marginals):
    """A statistic that breaks its promise of k 64-bit whole numbers."""

    def finish(self, sums):
        return sums.astype(np.float64)


class TooManySums(Marginals):
    """A statistic that returns one number more than it says."""

    def finish(self, sums):
        return np.append(sums, 0)


@pytest.mark.parametrize("kind", [WrongSums, TooManySums])
def test_only_so_many_whole_numbers_as_were_said_can_be_noised(kind):
    room = PrivateTable(FrameSource(table_of(10)), SCHEMA, Adjacency())
    with pytest.raises(InternalError, match="64"):
        room.exact(kind(domain_of(SCHEMA, bins=4), ((0, 1),)))


class NoBlocks(BlocksOfRows):
    def blocks(self, columns, *, extra=()):
        return iter(())


def test_a_source_without_any_block_is_an_error_of_the_source():
    room = PrivateTable(NoBlocks(table_of(10), 5), SCHEMA, Adjacency())
    with pytest.raises(InternalError, match="block"):
        room.exact(Marginals(domain_of(SCHEMA, bins=4), ((0, 1),)))


@pytest.mark.parametrize("rows", [7, 500])
@pytest.mark.parametrize("kept", [1, 3])
def test_record_keys_count_at_most_so_many_rows_of_a_unit(kept, rows):
    """R11 for record keys: removing all rows of a unit changes the counts by as many as are kept."""
    table = table_of(500)

    def counts(some: pd.DataFrame) -> Counter:
        room = PrivateTable(BlocksOfRows(some, rows), SCHEMA, Adjacency(unit="unit", rows=kept))
        return Counter(room.key_counts(("a", "b")))

    with_all, without = counts(table), counts(table[table["unit"] != "p"])
    assert sum((with_all - without).values()) == kept
    assert not without - with_all
    assert sum(with_all.values()) == 4 * kept + int(table["unit"].isna().sum())


def test_record_keys_of_the_unit_itself_are_counted_too():
    room = PrivateTable(FrameSource(table_of(100)), SCHEMA, Adjacency(unit="unit", rows=2))
    counts = room.key_counts(("unit",))
    assert sorted(counts.values())[:4] == [2, 2, 2, 2]


def test_a_constructor_that_an_interrupt_ended_leaves_nothing_that_complains():
    SpillBuffer.__new__(SpillBuffer).__del__()
