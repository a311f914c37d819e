"""Every error that synthdp raises on purpose, and warnings to filter by name: one sentence that a user can act on.

Messages name columns, parameters and rules; they never quote a value or a count of private rows.

SynthDPError
├── SchemaError(ValueError)      what was declared contradicts itself
├── DataError(ValueError)        the table's structure does not match the schema
├── ParameterError(ValueError)   a setting is outside its range
├── FormatError(ValueError)      a file is not what it should be
├── PrivacyError
│   ├── BudgetExceededError      the spend is not covered by what is left
│   ├── LedgerError              the ledger cannot be used
│   ├── RoomClosedError          the curator has finished its plan
│   └── SensitivityError         a query has no bound that fits in an integer sum
├── FitError
│   ├── SolverUnavailableError   no solver of that name
│   └── SolverFailedError        carries a status
├── DiscoveryError               noise hid too much of what nobody declared, and the caller wants no release then
├── MechanismFailure             a mechanism's own FAILURE outcome, with what to change
└── InternalError                a bug in synthdp

UserWarning
├── DraftWarning                 a schema was read off the rows, without noise
├── DiscoveryWarning             noise hid the range or the levels of a column that nobody declared
├── SalvageWarning               a release failed after it was paid for; what is left of it is simpler
├── MisfitWarning                values that do not fit the schema were left out of a release
├── LedgerWarning                a spend that no cap of the ledger limits
├── FitWarning                   a simpler fit was released, or weights had not converged
└── UnprotectedLabelsWarning     real labels are about to stand beside synthetic rows
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

NOTHING_SPENT = "nothing was spent"
"""The sentence that an error adds where a release was refused, or failed before its first answer."""

_BUDGET = "budget: "
"""The prefix of an exception's note on the budget, by which the note is found again."""


class SynthDPError(Exception):
    """Base of every error raised on purpose."""


class SchemaError(SynthDPError, ValueError):
    """The declared schema contradicts itself."""


class DataError(SynthDPError, ValueError):
    """The structure of a table does not match the schema."""


class ParameterError(SynthDPError, ValueError):
    """A setting is outside its range."""


class FormatError(SynthDPError, ValueError):
    """A file has another format than expected, or is damaged."""


class PrivacyError(SynthDPError):
    """The guarantee would not hold."""


class BudgetExceededError(PrivacyError):
    """The spend is not covered by what is left of the budget."""


class LedgerError(PrivacyError):
    """The ledger cannot be read, written or locked."""


class LedgerWarning(UserWarning):
    """A spend that no cap of the ledger limits: its data set has none, or its name is mistyped."""


class RoomClosedError(PrivacyError):
    """The curator is closed and no longer holds private rows."""


class SensitivityError(PrivacyError):
    """A query's sensitivity is unbounded or does not fit in an integer sum."""


class FitError(SynthDPError):
    """A distribution could not be fitted."""


class SolverUnavailableError(FitError, ValueError):
    """No solver of that name is installed."""


class SolverFailedError(FitError):
    """A solver ended without a usable answer.

    Parameters
    ----------
    message
        Text for the user.
    status
        The solver's own sentence.
    """

    def __init__(self, message: str, *, status: str) -> None:
        super().__init__(message)
        self.status = status


class MechanismFailure(SynthDPError):  # noqa: N818 - the papers call the outcome FAILURE
    """A mechanism ended in the FAILURE outcome of its paper; the message names a setting to change."""


class DiscoveryError(SynthDPError):
    """Noise hid the range or levels of an undeclared column, or values that many rows hold: no release was made.

    It is raised only if the user asked to stop in this case.  A part of the budget is spent; the message and the ledger
    state it.
    """


class InternalError(SynthDPError):
    """A bug in synthdp."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"{detail}: this is a bug in synthdp, please report it")


class FitWarning(UserWarning):
    """A fit failed and a simpler one was released, or a fit ended before its weights converged."""


class DiscoveryWarning(UserWarning):
    """No range or level of an undeclared column stands out of the noise: its synthetic values carry no information."""


class MisfitWarning(UserWarning):
    """More values than noise explains do not fit the schema; they were left out of the released model."""


class SalvageWarning(UserWarning):
    """A part of a release failed after it was paid for: the release uses the measurements with a simpler model."""


class UnprotectedLabelsWarning(UserWarning):
    """Labels of private rows are about to stand beside synthetic rows, without any privacy guarantee."""


class DraftWarning(UserWarning):
    """A schema was drafted from private rows without noise, so it is as private as the rows."""


@contextmanager
def in_table(name: str) -> Iterator[None]:
    """Put the name of one of several tables before the message of a schema, data or format error raised within.

    A message that names the table already is unchanged.
    """
    try:
        yield
    except (SchemaError, DataError, FormatError) as error:
        if f"table {name!r}" in str(error):
            raise
        told = type(error)(f"table {name!r}: {error}")
        told.__notes__ = [*getattr(error, "__notes__", ())]
        raise told from None


def tell_of_budget(error: BaseException, sentence: str, *, instead: bool = False) -> None:
    """Add a note to an error on how much of the budget is spent; a traceback and the command line show it.

    Parameters
    ----------
    error
        The error that is raised.
    sentence
        The sentence to add.
    instead
        Whether the note replaces an earlier note on the budget; default: an earlier note stays, and nothing is added.
    """
    if instead:
        error.__notes__ = [note for note in getattr(error, "__notes__", ()) if not note.startswith(_BUDGET)]
    if budget_told(error) is None:
        error.add_note(_BUDGET + sentence)


def budget_told(error: BaseException) -> str | None:
    """Return the note on the budget that an error carries, ``None`` without one."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_BUDGET)]
    return notes[0].removeprefix(_BUDGET) if notes else None
