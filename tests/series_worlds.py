"""Small series for tests: rooms that answer without noise, and tables of a few rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from synthdp import Boolean, Schema
from synthdp.curator.series_account import SeriesTerms
from synthdp.curator.series_room import SeriesRoom
from synthdp.domain.domain import domain_of
from synthdp.privacy import noise
from synthdp.privacy.loss import ApproxDP
from synthdp.privacy.neighbors import Adjacency, neighbors_named
from synthdp.privacy.series_factor import cost_matrix, largest_first, optimal_factor
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, one_ways

SCHEMA = Schema({"a": Boolean(), "b": Boolean()})
DOMAIN = domain_of(SCHEMA)
QUERIES = (Total(DOMAIN), one_ways(DOMAIN), Marginals(DOMAIN, ((0, 1),)))


def table(rows, units=None):
    """A table of pairs of truth values, perhaps with a unit for each."""
    frame = pd.DataFrame(rows, columns=["a", "b"]).astype(bool)
    return frame if units is None else frame.assign(who=[str(one) for one in units])


def without_noise(monkeypatch):
    """Let every noisy answer be the number that noise would be added to, and let nothing wait for the disk."""
    monkeypatch.setattr(noise, "discrete_gaussian", lambda values, *, scale: np.array(values, np.int64))
    monkeypatch.setattr("os.fsync", lambda handle: None)


def terms_of(periods, *, neighbors="add_remove", unit=None, rows=1, most=1):
    adjacency = Adjacency(neighbors_named(neighbors), unit, rows)
    return SeriesTerms(loss=ApproxDP(1.0, 1e-9), adjacency=adjacency, periods=periods, most_periods=most)


def room_of(folder, terms):
    return SeriesRoom(folder / "private", schema=SCHEMA, terms=terms)


def first_plan(terms, *, last=None, part=1.0):
    """The factor of a plan from the first period on, and what its first answers may cost."""
    last = terms.periods - 1 if last is None else last
    factor = optimal_factor(last + 1, min(terms.most_periods, last + 1))
    columns = [t if t <= last else -1 for t in range(terms.periods)]
    costs = cost_matrix(factor, columns, first_rows=1)
    mu = largest_first(np.zeros_like(costs), costs, terms.most_periods, mu=terms.mu * part**0.5)
    return factor, mu


def answered(folder, terms, tables, *, queries=QUERIES, parts=None, taken_back=None):
    """All answers of a series whose questions are known, and the noise of each: one list a period."""
    factor, mu = first_plan(terms)
    room, found = room_of(folder, terms), []
    parts = parts or [1.0] * len(queries)
    for t, one in enumerate(tables):
        with room.adding(t, one, taken_back=None if taken_back is None else taken_back[t]):
            if t == 0:
                answers, lattices = room.ask(factor, queries, parts, last=terms.periods - 1, mu=mu)
            else:
                answers = room.answers(queries)
        found.append(answers)
    return found, lattices, factor
