"""What noisy tables say of rows and values that did not fit several tables: post-processing of what was released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from synthdp.answers.error_bars.misfit_shares import MisfitShare
from synthdp.answers.related.known import noisy_person_tables
from synthdp.domain.histories import NO_PARENT_ROW, REPEATED_ROW, Layout
from synthdp.measurements import Measurements, beyond_noise
from synthdp.queries.related.person_tables import Kind


class Unusual(NamedTuple):
    """A group of unusual persons, such as those without a root row, with their noisy number.

    Parameters
    ----------
    words
        Who they are.
    persons
        The noisy number of them, at least 0.
    stddev
        Of its noise.
    """

    words: str
    persons: float
    stddev: float

    def is_clear(self, among: int) -> bool:
        """Return whether the number exceeds what noise explains, if ``among`` such numbers are looked at."""
        return self.persons > beyond_noise(self.stddev, among)


def unusual_persons(layout: Layout, measurements: Sequence[Measurements]) -> list[Unusual]:
    """Return the noisy numbers of persons with no root row, with several, and with rows that were not used."""
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


def unfit_values(layout: Layout, measurements: Sequence[Measurements]) -> dict[str, dict[str, MisfitShare | None]]:
    """Return the share of values outside of each column's domain, by table and column; each person counts as one.

    ``None`` where no answer says it, as of a column that orders rows with few periods: such rows are not used.
    """
    found: dict[str, dict[str, MisfitShare | None]] = {
        name: {column: None for column, kind in schema.items() if not kind.names_rows}
        for name, schema in layout.schema.tables.items()
    }
    for measured, table, noisy, stddev in noisy_person_tables(measurements):
        if table.kind not in (Kind.STATE, Kind.ONE):
            continue
        name = layout.schema.names[table.table]
        if found[name].get(table.attribute, 0) is not None:
            continue  # no column, or known by its standard cells, which come first
        hidden = ~measured.axis(table.table, table.attribute).releasable
        total = max(float(noisy.sum()), stddev, 1.0)
        error = stddev * math.sqrt(len(noisy) * int(hidden.sum())) / total
        share = min(1.0, max(0.0, float(noisy[:, hidden].sum()) / total))
        found[name][table.attribute] = MisfitShare(share, error)
    return found
