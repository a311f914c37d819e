"""The private table: every look is counted, and what is kept of it is closed and small."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest

from synthdp import Boolean, Curator, PureDP, Schema, parallel
from synthdp.curator import private_table as room_module
from synthdp.curator.private_table import PrivateTable
from synthdp.curator.spill import MEMORY_BYTES, SpillBuffer
from synthdp.domain.domain import Domain, domain_of
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.schema.columns import Integer
from synthdp.tables.dataframe import FrameSource


def test_every_look_at_the_rows_is_counted():
    schema = Schema({"n": Integer(0, 9)})
    room = PrivateTable(FrameSource(pd.DataFrame({"n": range(10)})), schema, Adjacency())
    queries = one_ways(domain_of(schema))
    for looks in (1, 2):
        room.exact(queries)
        assert room.reads == looks
    room.key_counts(("n",))
    list(room.raw_blocks(("n",)))
    assert room.reads == 4


@pytest.mark.parametrize(("few_rows", "threads"), [(0, True), (60, True), (61, False), (10**9, False)])
@pytest.mark.parametrize("adjacency", [Adjacency(), Adjacency("add_remove", "who", 2)], ids=["rows", "persons"])
def test_small_tables_are_read_without_threads_and_give_the_same_integers(adjacency, few_rows, threads, monkeypatch):
    table = pd.DataFrame({"n": np.arange(60) % 10, "m": np.arange(60) % 3 == 0, "who": np.arange(60) % 7})
    schema = Schema({"n": Integer(0, 9), "m": Boolean()})
    queries, started, start = one_ways(domain_of(schema)), [], threading.Thread.start
    expected = PrivateTable(FrameSource(table), schema, adjacency).exact(queries).tolist()
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread) or start(thread))
    monkeypatch.setattr(parallel, "FEW_ROWS", few_rows)
    assert PrivateTable(FrameSource(table), schema, adjacency).exact(queries).tolist() == expected
    assert (started != []) is threads


def test_the_codes_of_the_last_four_domains_are_kept_and_older_ones_closed(monkeypatch):
    coded, closed, codes, close = [], set(), Domain.codes, SpillBuffer.close
    monkeypatch.setattr(Domain, "codes", lambda domain, units: coded.append(domain) or codes(domain, units))
    monkeypatch.setattr(SpillBuffer, "close", lambda store: closed.add(id(store)) or close(store))
    schema = Schema({"n": Integer(0, 99)})
    room = PrivateTable(FrameSource(pd.DataFrame({"n": range(100)})), schema, Adjacency())
    domains = [domain_of(schema, bins=bins) for bins in (2, 3, 4, 5, 6)]
    totals = [room.exact(one_ways(domain)).tolist() for domain in domains[:4]]
    assert (coded, closed) == (domains[:4], set())
    room.exact(one_ways(domains[4]))
    assert len(closed) == 1
    assert [room.exact(one_ways(domain)).tolist() for domain in domains[1:4]] == totals[1:]
    assert coded == domains
    assert room.exact(one_ways(domains[0])).tolist() == totals[0]
    assert coded == [*domains, domains[0]]
    assert len(closed) == 2


@pytest.mark.parametrize(
    ("most", "passes"),
    [(10**6, [((0, 1),), ((1, 2),)]), (0, [((0, 1),), ((0, 1),), ((0, 1), (1, 2), (0, 1))])],
    ids=["kept", "too many to keep"],
)
def test_tables_that_were_counted_are_not_counted_again_and_are_the_same(most, passes, monkeypatch):
    counted, add = [], Marginals.add_sums
    monkeypatch.setattr(
        Marginals, "add_sums", lambda one, *rest, **how: counted.append(one.cliques) or add(one, *rest, **how)
    )
    monkeypatch.setattr(room_module, "KEPT_CELLS", most)
    schema = Schema({"a": Integer(0, 6), "b": Boolean(), "c": Boolean()})
    table = pd.DataFrame({"a": np.arange(50) % 7, "b": np.arange(50) % 3 == 0, "c": np.arange(50) % 2 == 0})
    domain = domain_of(schema)
    pair = Marginals(domain, ((0, 1),))
    asked = [pair, MarginalDistances(pair, np.full(pair.k, 3), 1), Marginals(domain, ((0, 1), (1, 2), (0, 1)))]
    room = PrivateTable(FrameSource(table), schema, Adjacency())
    found = [room.exact(one) for one in asked]
    assert counted == passes
    assert room.reads == 3  # every look counts, also at what was counted before
    for one, totals in zip(asked, found, strict=True):
        np.testing.assert_array_equal(totals, PrivateTable(FrameSource(table), schema, Adjacency()).exact(one))
    room.close()
    assert room._coded == []


def test_stores_of_buckets_and_of_codes_share_the_memory_of_one(monkeypatch):
    made = []
    monkeypatch.setattr(
        room_module, "SpillBuffer", lambda **options: made.append(options.get("memory")) or SpillBuffer(**options)
    )
    schema = Schema({"n": Integer(0, 9)})
    table = pd.DataFrame({"n": range(10), "who": range(10)})
    PrivateTable(FrameSource(table), schema, Adjacency(unit="who", rows=2)).exact(one_ways(domain_of(schema)))
    limits = [limit for limit in made if limit is not None]
    assert MEMORY_BYTES == 64 * 1024**2  # as docs/how-to/sizing.md says
    assert sorted(set(limits)) == [MEMORY_BYTES // 64, MEMORY_BYTES // 4]
    assert limits.count(MEMORY_BYTES // 64) == 64
    assert made.count(None) == 1


def test_the_number_of_rows_is_known_before_anything_is_declared():
    schema = Schema({"n": Integer(), "b": Boolean()})
    table = pd.DataFrame({"n": [1, None, 2, 2], "b": [True, None, False, True]})
    assert Curator(table, schema=schema, budget=PureDP(1.0), neighbors="replace_one").rows == 4


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_counts_are_the_same_however_few_rows_are_held_at_a_time(monkeypatch, rows):
    monkeypatch.setattr(room_module, "SLAB_ROWS", rows)
    schema = Schema({"n": Integer(0, 9)})
    numbers = np.arange(23) % 10
    table = PrivateTable(FrameSource(pd.DataFrame({"n": numbers})), schema, Adjacency())
    counts = table.exact(one_ways(domain_of(schema, bins=10)))
    assert counts.tolist() == [*np.bincount(numbers), 0]  # the last is of misfits
