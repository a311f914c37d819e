"""Tiny databases in which every possible person can be listed, with rows in all tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.curator.private_database import private_database
from synthdp.domain.histories import Layout, Order
from synthdp.mechanisms.related.asked_tables import count_groupings, grouping_of
from synthdp.mechanisms.related.choosing import always, attributes, candidates, cells_of, one_way, unusual
from synthdp.mechanisms.related.triples import triples
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.person_tables import Kind, PersonTable

PERSONS = sd.Schema({"p": sd.Boolean()})
ROWS = sd.Schema({"t": sd.Integer(0, 2), "v": sd.Categorical(["a", "b"])})
LEAVES = sd.Schema({"w": sd.Boolean()})


def _related(order: str | None, *, unique: bool, at_most: int = 2) -> sd.Relation:
    return sd.Relation("persons", "rows", key="id", at_most=at_most, order=order, unique=unique)


SCHEMAS = {
    "pattern": sd.DatabaseSchema({"persons": PERSONS, "rows": ROWS}, [_related("t", unique=True, at_most=3)]),
    "sequence": sd.DatabaseSchema({"persons": PERSONS, "rows": ROWS}, [_related("t", unique=False, at_most=3)]),
    "no order": sd.DatabaseSchema({"persons": PERSONS, "rows": ROWS}, [_related(None, unique=False, at_most=3)]),
    "child of a child": sd.DatabaseSchema(
        {"persons": PERSONS, "rows": ROWS, "leaves": LEAVES},
        [_related("t", unique=True), sd.Relation("rows", "leaves", key="row", at_most=2)],
    ),
    "keys of several columns": sd.DatabaseSchema(
        {"persons": PERSONS, "rows": ROWS, "leaves": LEAVES},
        [
            sd.Relation("persons", "rows", key=("area", "number"), at_most=2, order="t", unique=True),
            sd.Relation("rows", "leaves", key=("area", "number", "place"), at_most=2),
        ],
    ),
    "two children": sd.DatabaseSchema(
        {"persons": PERSONS, "rows": ROWS, "leaves": LEAVES},
        [_related("t", unique=False), sd.Relation("persons", "leaves", key="id", at_most=1)],
    ),
}


@dataclass(frozen=True)
class Person:
    """All rows of one person: the root's, the children's, and of each leaf the row it belongs to."""

    root: tuple[bool, ...]
    rows: tuple[tuple[int, str], ...]
    leaves: tuple[tuple[int, bool], ...] = ()


def every_person(*, rows: int, leaves: bool) -> Iterator[Person]:
    """Every person with no, one or two root rows, and at most so many rows and two leaves."""
    kinds = list(itertools.product(range(3), "ab"))
    for many in range(rows + 1):
        for mine in itertools.combinations_with_replacement(kinds, many):
            for root in ((), (True,), (True, False)):
                yield Person(root, mine)
            if leaves:
                for below in itertools.combinations_with_replacement(itertools.product(range(2), (False, True)), 2):
                    yield Person((False,), mine, below)


def frames(persons: Sequence[Person], schema: sd.DatabaseSchema, *, shuffled: int = 0) -> dict[str, pd.DataFrame]:
    """The tables of some persons, rows in any order; with the same keys in columns that are none by themselves."""
    who = [(f"n{i}", "ns"[i % 2], i // 2) for i in range(len(persons))]
    made = {
        "persons": (["p"], [(*who[i], p) for i, one in enumerate(persons) for p in one.root]),
        "rows": (
            ["row", "place", "t", "v"],
            [
                (*who[i], f"n{i}r{j}", f"{j}", t, v)
                for i, one in enumerate(persons)
                for j, (t, v) in enumerate(one.rows)
            ],
        ),
        "leaves": (
            ["row", "place", "w"],
            [(*who[i], f"n{i}r{j}", f"{j}", w) for i, one in enumerate(persons) for j, w in one.leaves],
        ),
    }
    found = {}
    for name in schema.tables:
        columns, rows = made[name]
        rows = [rows[i] for i in np.random.default_rng(shuffled).permutation(len(rows))]
        values = zip(*rows, strict=True) if rows else itertools.repeat(())
        named = dict(zip(["id", "area", "number", *columns], map(list, values), strict=False))
        found[name] = pd.DataFrame({key: np.array(one, object) if key in "pw" else one for key, one in named.items()})
    return found


def codes_of(tables: dict[str, pd.DataFrame], layout: Layout) -> np.ndarray:
    """The records of all persons."""
    private, _ = private_database(tables, layout.schema, Adjacency(unit=layout.schema.unit))
    return np.concatenate([codes for (codes,) in private._coded_as(layout.domain).codes.blocks()])


def tables_of(layout: Layout) -> list[PersonTable]:
    """Every table that a release may measure, of groupings that keep cells apart."""
    groupings = {}
    for one in attributes(layout):
        axis = layout.axis(one.table, one.name)
        flat = np.where(axis.releasable, 100.0, 0.0)[None].repeat(layout.tables[one.table].groups, axis=0)
        groupings[one.table, one.name] = (
            count_groupings(layout, one.counts)
            if one.counts >= 0
            else {name: grouping_of(axis, flat, 1.0, groups=6, name=name) for name in ("threes", "pairs", "steps")}
        )
    ones = [one_way(layout, one) for one in attributes(layout)]
    for one in attributes(layout):  # what is measured of levels that are too many for a person that is listed
        of = layout.tables[one.table]
        if of.order is not Order.ROOT and of.at_most > 1:
            kind = Kind.ALIKE if of.order is Order.NONE else Kind.STAY
            ones.append(PersonTable(kind, one.table, one.name, cells_of(layout, one)))
    pairs = candidates(layout, groupings)
    threes = triples(layout, groupings, pairs, [1.0] * len(pairs), Workload(), persons=1e9, noise=lambda _: 1.0)
    return [*unusual(layout), *ones, *always(layout, groupings), *pairs, *threes]
