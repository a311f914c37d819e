"""What a fit found out, by noisy answers, that its user should know: notes for the receipt, and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from synthdp.answers.misfit_shares import MisfitShare, misfit_columns
from synthdp.errors import MisfitWarning

SHOWN = 10
"""Columns that a warning names."""


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
    named = [f"{name!r} ({_percent(share)})" for name, share in list(clear.items())[:SHOWN]]
    more = f" and {len(clear) - SHOWN} more" if len(clear) > SHOWN else ""
    warnings.warn(
        f"values that do not fit the schema were left out of the model, in column {', '.join(named)}{more}: "
        "declare their levels, nullable=True or a label for others if they should come out; see misfits_",
        MisfitWarning,
        stacklevel=stacklevel + 1,
    )


def _percent(share: MisfitShare) -> str:
    return f"{share.share:.2%} ± {share.stddev:.2%}"
