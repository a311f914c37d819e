"""Tiny domains and tables for tests that enumerate, and the curator's questions answered by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from synthdp import Boolean, Categorical, Curator, Schema
from synthdp.domain.domain import Domain, domain_of, releasable_domain, universe
from synthdp.queries.norms import Norms
from synthdp.queries.protocol import Statistic


def labelled_world(*sizes: int) -> tuple[Schema, Domain]:
    """Return a schema of categorical columns with so many levels, and its domain without hidden cells."""
    schema = Schema({f"c{j}": Categorical([f"v{i}" for i in range(size)]) for j, size in enumerate(sizes)})
    return schema, releasable_domain(domain_of(schema))


def binary_world(d: int) -> tuple[Schema, Domain]:
    schema = Schema({f"b{j}": Boolean() for j in range(d)})
    return schema, releasable_domain(domain_of(schema))


def labelled_table(schema: Schema, codes: np.ndarray) -> pd.DataFrame:
    """Return the table of cell codes of a `labelled_world`."""
    return pd.DataFrame({name: [f"v{c}" for c in codes[:, j]] for j, name in enumerate(schema)}, dtype=object)


def binary_table(schema: Schema, codes: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({name: codes[:, j].astype(bool) for j, name in enumerate(schema)})


def skewed_codes(d: int, n: int, *, seed: int = 0) -> np.ndarray:
    """Return n rows of d dependent bits."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((n, d), np.int64)
    codes[:, 0] = rng.random(n) < 0.3
    for j in range(1, d):
        codes[:, j] = rng.random(n) < np.where(codes[:, j - 1] == 1, 0.8, 0.15 + 0.05 * j)
    return codes


def curator_of(table: pd.DataFrame, schema: Schema, budget, neighbors: str = "replace_one") -> Curator:
    return Curator(table, schema=schema, budget=budget, neighbors=neighbors)


def all_tables(domain: Domain, n: int) -> Iterator[tuple[int, ...]]:
    """Yield every table of n rows as a multiset of positions in the universe."""
    return itertools.combinations_with_replacement(range(len(universe(domain))), n)


def answers(statistic: Statistic, codes: np.ndarray) -> np.ndarray:
    return statistic.finish(statistic.sums(codes))


def largest_change(statistic: Statistic, n: int, *, swap: bool) -> Norms:
    """Return the largest norms of a statistic's change over all neighbours of all tables of n rows."""
    cells = universe(statistic.domain)
    l1 = l2 = linf = 0
    for rows in all_tables(statistic.domain, n):
        before = answers(statistic, cells[list(rows)])
        kept = [rows[:i] + rows[i + 1 :] for i in range(n)] if swap else [rows]
        for rest, cell in itertools.product(kept, range(len(cells))):
            change = np.abs(answers(statistic, cells[[*rest, cell]]) - before)
            l1, l2 = max(l1, int(change.sum())), max(l2, int((change**2).sum()))
            linf = max(linf, int(change.max()))
    return Norms(l1, l2, linf)
