"""Noisy numbers of persons with unusual rows, out-of-domain values or missing ones, in a release of several tables.

The module is post-processing of noisy tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from synthdp.answers.leaves import number_of_rows
from synthdp.answers.misfit_shares import (
    MisfitShare,
    PointCount,
    by_noise,
    pooled,
    special_points,
    unproven_notes,
)
from synthdp.answers.related.known import noisy_person_tables, persons_with_rows
from synthdp.domain.histories import NO_PARENT_ROW, REPEATED_ROW, Layout
from synthdp.measurements import Measurements, NoiseLaw, beyond_noise
from synthdp.queries.person_tables import Kind
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.rules_across import Place, dotted

MOST_PERSONS = "persons may have one in all of their rows, or more persons in some"
"""The end of a receipt's note on missing values of several tables: "up to about 12 persons may have one in all of their
rows, or more persons in some", where one is a missing value.  All rows of a person together count 1."""


class Unusual(NamedTuple):
    """Holds the noisy number of persons with one kind of unusual rows, such as persons without a root row.

    Parameters
    ----------
    words
        Description of these persons.
    persons
        Their noisy number, at least 0.
    stddev
        Stddev of the noise, in persons.
    """

    words: str
    persons: float
    stddev: float

    def is_clear(self, among: int) -> bool:
        """Return whether the number exceeds what noise explains, if ``among`` such numbers are tested together."""
        return self.persons > beyond_noise(self.stddev, among)


def unusual_persons(layout: Layout, measurements: Sequence[Measurements]) -> list[Unusual]:
    """Return the noisy numbers of persons with no root row, with several root rows, or with unused rows.

    Receipts report them, because such rows are missing in the model.
    """
    found = []
    for _, table, noisy, stddev in noisy_person_tables(measurements):
        if table.kind is Kind.STATE:
            states = noisy[0]
            missing = [code for code in range(len(states) - 1) if code & NO_PARENT_ROW]
            several = [code for code in range(len(states) - 1) if code == REPEATED_ROW]
            root = layout.schema.root
            for words, codes in (("have no row", missing), ("have more than one row", several)):
                number = float(states[codes].sum())
                found.append(Unusual(f"persons {words} of {root}", max(0.0, number), stddev * math.sqrt(len(codes))))
        of = next((one.name for one in layout.tables[1:] if one.left_out == table.attribute), None)
        if of is not None:
            number = max(0.0, float(noisy[0, 1]))
            found.append(Unusual(f"persons have rows of {of} that are not used", number, stddev))
    return found


def persons_by_noise(measurements: Sequence[Measurements]) -> Unusual | None:
    """Return the noisy number of persons if noise alone explains it, for a note; ``None`` otherwise.

    A person key of few values, such as a region, makes one person of many people.  Noise then hides all tables.
    """
    for _, table, noisy, stddev in noisy_person_tables(measurements):
        if table.kind is Kind.STATE:
            found = Unusual("persons", max(0.0, float(noisy[0].sum())), stddev * math.sqrt(len(noisy[0])))
            return None if found.is_clear(1) else found
    return None


def unfit_values(layout: Layout, measurements: Sequence[Measurements]) -> dict[str, dict[str, MisfitShare | None]]:
    """Return the fraction of out-of-domain values, by table and column; each person has weight 1.

    It is a fraction of the persons with rows of the table, whose number all tables without the column tell.  A fraction
    is ``None`` if no noisy table determines it.  An example is a column that orders rows by few periods, because rows
    with an out-of-domain period are not used.
    """
    found: dict[str, dict[str, MisfitShare | None]] = {
        name: {column: None for column, kind in schema.items() if not kind.names_rows}
        for name, schema in layout.schema.tables.items()
    }
    persons = [persons_with_rows(measurements, i) for i in range(len(layout.tables))]
    for measured, table, noisy, stddev in noisy_person_tables(measurements):
        if table.kind not in (Kind.STATE, Kind.ONE):
            continue
        name = layout.schema.names[table.table]
        if found[name].get(table.attribute, 0) is not None:
            continue  # no column, or known by its standard cells, which come first
        hidden = ~measured.axis(table.table, table.attribute).releasable
        own = float(noisy.sum()), stddev * math.sqrt(noisy.size)
        rows, noise = number_of_rows(persons[table.table], without=table.attribute) or own
        total = max(rows, noise, 1.0)
        share = min(1.0, max(0.0, float(noisy[:, hidden].sum()) / total))
        error = math.hypot(stddev * math.sqrt(len(noisy) * int(hidden.sum())), share * noise) / total
        found[name][table.attribute] = MisfitShare(share, error)
    return found


def unproven_places(layout: Layout, measurements: Sequence[Measurements]) -> dict[tuple[Place, int], PointCount]:
    """Return the grid points of all tables' columns whose noisy counts noise alone explains, with these counts.

    Missing values and labels for others are tested, as in one table (`special_points`). Synthetic rows should not have
    the points that are returned. A count and its noise are in persons: all rows of a person together count 1.
    """
    counts: dict[tuple[Place, int], list[PointCount]] = {point: [] for point in _special_places(layout.schema)}
    for one in measurements:
        normal = one.noise.law is NoiseLaw.GAUSSIAN
        for measured, table, noisy, stddev in noisy_person_tables([one]):
            place = layout.schema.names[table.table], table.attribute
            for point in (point for point in counts if table.kind is Kind.ONE and point[0] == place):
                cell = measured.axis(table.table, table.attribute).cell_of_alone(point[1])
                if cell is not None:
                    noise = max(stddev, 1e-9) * math.sqrt(len(noisy))
                    counts[point].append(PointCount(float(noisy[:, cell].sum()), noise, normal))
    return by_noise({point: pooled(found) for point, found in counts.items()})


def unproven_persons_notes(unproven: Mapping[tuple[Place, int], PointCount], schema: DatabaseSchema) -> tuple[str, ...]:
    """Return the receipt note on missing values of several tables that noise hides, or nothing."""
    named = {(dotted(place), index): count for (place, index), count in unproven.items()}
    columns = {dotted((name, column)): schema.tables[name][column] for (name, column), _ in unproven}
    return unproven_notes(named, columns, most=MOST_PERSONS)


def _special_places(schema: DatabaseSchema) -> list[tuple[Place, int]]:
    """Return the `special_points` of all tables, by table and column, without columns that rules across tables name."""
    ruled = {place for one in schema.conditions for place in (one.above, one.below)}
    ruled |= {one.place for one in schema.among}
    return [
        ((name, column), index)
        for name, one in schema.tables.items() for column, index in special_points(one)
        if (name, column) not in ruled
    ]  # fmt: skip
