"""Noisy tables of merged codes: read from a release's answers, freed of misfits, made to agree with all other tables.

A weak relation of two columns of many codes is measured over few groups of them, where a table of all codes would be
mostly noise.  Post-processing of noisy tables; knows no row and no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import BoolArray, Clique, IntArray
from synthdp.domain.domain import Domain
from synthdp.fit.graphical.consistency import make_merged_consistent
from synthdp.fit.out_of_domain import OutOfDomain
from synthdp.measurements import Measurements
from synthdp.queries.contingency import NoisyTable


def merged_tables(measurements: Iterable[Measurements], domain: Domain) -> list[NoisyTable]:
    """Return the tables of several columns that were measured over merged cells of a domain, columns in increasing order.

    Of some only the interaction was measured: their margins say nothing, and are those of other tables in any fit.

    Parameters
    ----------
    measurements
        Noisy answers of a release, of whatever kind.
    domain
        Whose cells were merged.
    """
    found = []
    for measured in measurements:
        own = measured.domain
        if own is None or own is domain or own.names != domain.names:
            continue
        for table in measured.tables:
            groups = [own.axes[j].groups_of(domain.axes[j]) for j in table.clique]
            merged = tuple(of for of in groups if of is not None)
            if len(table.clique) > 1 and len(merged) == len(groups):
                # The interaction of a pair takes the margins of the one-ways: a table, as those of all codes become.
                found.append(replace(table, groups=merged, alone=table.alone and len(table.clique) > 2))
    return pooled_repeats(found)


def pooled_repeats(tables: Iterable[NoisyTable]) -> list[NoisyTable]:
    """Return tables of merged codes, those of the same groups of the same columns averaged by precision."""
    found: dict[tuple[Clique, tuple[bytes, ...]], NoisyTable] = {}
    for table in tables:
        key = table.clique, tuple(np.asarray(groups, np.int64).tobytes() for groups in table.groups or ())
        before = found.get(key)
        if before is None:
            found[key] = table
            continue
        precisions = before.stddev**-2, table.stddev**-2
        counts = (before.counts * precisions[0] + table.counts * precisions[1]) / sum(precisions)
        found[key] = replace(table, counts=counts, stddev=sum(precisions) ** -0.5)
    return list(found.values())


def merged_in_domain(merged: Iterable[NoisyTable], out_of_domain: OutOfDomain) -> list[NoisyTable]:
    """Return tables of merged codes as they would be if all rows were in domain, over the codes in domain alone.

    Parameters
    ----------
    merged
        No group holds both codes that are in domain and others.
    out_of_domain
        Of the columns, over all codes.
    """
    found = []
    for table in merged:
        groups = dict(zip(table.clique, table.groups or (), strict=True))
        releasable = out_of_domain.releasable
        remain = tuple(_remaining(groups[j], cells) if j in groups else cells for j, cells in enumerate(releasable))
        inside = replace(out_of_domain, releasable=remain).inside(replace(table, groups=None))
        renumbered = tuple((np.cumsum(remain[j]) - 1)[of[releasable[j]]] for j, of in groups.items())
        found.append(replace(inside, groups=renumbered))
    return found


def consistent_merged(
    tables: Sequence[NoisyTable], merged: Sequence[NoisyTable], out_of_domain: OutOfDomain
) -> tuple[NoisyTable, ...]:
    """Return tables of merged codes without out-of-domain values that agree with tables of all codes.

    Parameters
    ----------
    tables
        Those of all codes, the one-ways among them.
    merged, out_of_domain
        As in `merged_in_domain`.

    Returns
    -------
    Tables of all groups, with a 0 in those that are not in domain.
    """
    if not merged:
        return ()
    pooled = out_of_domain.pooled(tables)
    agreed = make_merged_consistent(merged_in_domain(merged, out_of_domain), pooled)
    found = []
    for table, whole in zip(agreed, merged, strict=True):
        inside = np.ones(1, np.bool_)
        for j, of in zip(whole.clique, whole.groups or (), strict=True):
            inside = np.logical_and.outer(inside, _remaining(of, out_of_domain.releasable[j])).ravel()
        counts = np.zeros(whole.counts.size)
        counts[inside] = table.counts
        found.append(replace(whole, counts=counts, stddev=table.stddev))
    return tuple(found)


def _remaining(groups: IntArray, kept: BoolArray) -> BoolArray:
    """Return which groups hold codes that are kept."""
    return np.bincount(groups, weights=kept) > 0
