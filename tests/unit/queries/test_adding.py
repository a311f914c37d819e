"""Sums that are added in place are the sums, however rows are cut and however many threads add them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import pytest

from synthdp import Integer, Schema
from synthdp.domain.domain import domain_of
from synthdp.parallel import in_order
from synthdp.queries.distances import MarginalDistances, PairDistances
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.protocol import AddingStatistic

DOMAIN = domain_of(Schema({f"x{j}": Integer(0, 6) for j in range(6)}), bins=7)
TABLES = Marginals(DOMAIN, tuple(clique for ways in (1, 2, 3) for clique in all_cliques(DOMAIN, ways)))
KINDS: dict[str, Callable[[], Any]] = {
    "tables": lambda: TABLES,
    "distances": lambda: MarginalDistances(TABLES, np.full(TABLES.k, 9), 2),
    "distances of pairs": lambda: PairDistances(DOMAIN, (np.full(DOMAIN.shape[0], 9),) * len(DOMAIN), 2),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_threads_add_in_place_are_the_sums_of_all_rows(kind: str) -> None:
    statistic = KINDS[kind]()
    assert isinstance(statistic, AddingStatistic)
    codes = np.asfortranarray(np.random.default_rng(0).integers(0, 7, (40_000, 6)).astype(np.uint8))
    total, adding = np.zeros(statistic.cells_added, np.int64), Lock()
    blocks = (codes[start : start + 1000] for start in range(0, len(codes), 1000))
    for _ in in_order(partial(statistic.add_sums, total, adding=adding), blocks, workers=4):
        pass
    np.testing.assert_array_equal(total, statistic.sums(codes))
