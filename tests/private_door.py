"""The one door for tests into what a curator hides: its private table, and the noise on the threshold of a watch."""

from __future__ import annotations

from typing import Any

from synthdp.curator import Curator
from synthdp.curator.private_table import PrivateTable
from synthdp.curator.sparse_vector import SparseVector


def private_table(thing: Curator | SparseVector) -> PrivateTable:
    """Return the rows behind a curator, an account or a watch."""
    return thing._vault._table


def hidden_state(watch: SparseVector) -> Any:
    """Return the noise on the threshold, how many answers were given, and whether the watch goes on."""
    return watch._state
