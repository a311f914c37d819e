"""What a workload costs the pairs of columns that it does not contain, as a plan says it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from synthdp.arrays import Clique
from synthdp.mechanisms.workload import workload_of
from synthdp.planning.plan import Plan
from synthdp.queries.protocol import LinearQueries

MOST_PAIRS = 6
"""Pairs of columns that the sentence names."""


def pairs_outside(workload: Any, names: Sequence[str]) -> tuple[Clique, ...]:
    """Return the pairs of columns that a workload does not contain; none where all sets matter alike."""
    if workload is None or isinstance(workload, LinearQueries):
        return ()
    wished = workload_of(workload, names)
    return tuple(pair for pair in itertools.combinations(range(len(names)), 2) if not wished.wishes(pair))


def cost_of_workload(found: Plan, alike: Plan, outside: Sequence[Clique], names: Sequence[str]) -> str:
    """Return what a workload costs the pairs that it does not contain, in a sentence.

    Parameters
    ----------
    found, alike
        Plans with the workload and without.
    outside
        The pairs.
    names
        Of all columns.
    """
    told, without = (100 * (one.other_pairs or 0.0) for one in (found, alike))
    some = ", ".join(" × ".join(names[j] for j in pair) for pair in outside[:MOST_PAIRS])
    more = f" and {len(outside) - MOST_PAIRS} more" if len(outside) > MOST_PAIRS else ""
    return (
        f"the workload leaves out {len(outside)} pairs of columns, which are expected to be off by {told:.2g} of 100 "
        f"rows; without the workload by {without:.2g}: {some}{more}"
    )
