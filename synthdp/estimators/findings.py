"""What a fit found out, by noisy answers, that its user should know: notes for the receipt, and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from synthdp.answers.misfit_shares import MisfitShare, misfit_columns
from synthdp.errors import DiscoveryWarning, MisfitWarning, SchemaError
from synthdp.schema.schema import Schema

RARE = (
    "column {0!r} is left out: no value of it is frequent enough to be released; declare its levels, or an Identifier if it "
    "names rows"
)
NO_RANGE = "column {0!r} is left out: no range of it could be told from noise; declare its bounds"

SHOWN = 10
"""Columns that a warning names."""


def check_label(label: str | None, schema: Schema) -> None:
    """Refuse to go on without the classes of a label, which must come out.

    Raises
    ------
    SchemaError
        If discovery left it out.
    """
    if label is not None and label not in schema.outputs:
        raise SchemaError(f"no value of the label {label!r} could be told from noise: declare its levels or bounds")


def discovery_notes(*, without_range: Sequence[str], without_levels: Sequence[str]) -> tuple[str, ...]:
    """Return the receipt's lines about columns in which discovery found nothing."""
    return (*map(NO_RANGE.format, without_range), *map(RARE.format, without_levels))


def warn_of_undiscovered(columns: Sequence[str], *, stacklevel: int) -> None:
    """Warn of columns in which discovery found nothing.

    Warns
    -----
    DiscoveryWarning
        With their names.
    """
    if columns:
        warnings.warn(
            f"left out, for no range or no levels could be told from noise: column {_some([*map(repr, columns)])}; "
            "declare bounds or levels, or use more rows or a larger budget",
            DiscoveryWarning,
            stacklevel=stacklevel + 1,
        )


def misfit_notes(shares: Mapping[str, MisfitShare | None]) -> tuple[str, ...]:
    """Return what a receipt says of the values that did not fit the schema."""
    clear = misfit_columns(shares)
    notes = [
        f"column {name!r}: {_percent(share)} of the values did not fit the schema and were left out of the model"
        for name, share in clear.items()
    ]
    unknown = [name for name, share in shares.items() if share is None]
    if unknown:
        notes.append(f"not measured by this mechanism, how many values did not fit the schema: {', '.join(unknown)}")
    if len(shares) > len(clear) + len(unknown):
        others = "in all other columns" if notes else "in all columns"
        notes.append(f"values that did not fit the schema, {others}: no more than noise explains")
    return tuple(notes)


def warn_of_misfits(shares: Mapping[str, MisfitShare | None], *, stacklevel: int) -> None:
    """Warn if more values did not fit the schema than noise explains.

    Warns
    -----
    MisfitWarning
        With the columns and their noisy shares.
    """
    clear = misfit_columns(shares)
    if not clear:
        return
    named = [f"{name!r} ({_percent(share)})" for name, share in clear.items()]
    warnings.warn(
        f"values that do not fit the schema were left out of the model, in column {_some(named)}: "
        "declare their levels, nullable=True or a label for others if they should come out; see misfits_",
        MisfitWarning,
        stacklevel=stacklevel + 1,
    )


def _some(named: Sequence[str]) -> str:
    """Return the first few of some columns, and how many there are beside them."""
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more


def _percent(share: MisfitShare) -> str:
    return f"{share.share:.2%} ± {share.stddev:.2%}"
