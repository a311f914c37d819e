"""What a release refuses or warns of before a row is read or anything is spent, and what its errors say of the budget."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

from synthdp.checks import whole
from synthdp.errors import NOTHING_SPENT, ParameterError, SchemaError, tell_of_budget
from synthdp.mechanisms.protocol import TableMechanism
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import PrivacyLoss, PureDP
from synthdp.queries.norms import Norms
from synthdp.schema.columns import Categorical
from synthdp.schema.schema import Schema
from synthdp.tables.source import OneTable

KEPT = "the release is paid for, made and kept in release_: sample(), answer() and save() cost nothing"

Method = TypeVar("Method", bound=Callable[..., Any])


def tells_of_budget(method: Method) -> Method:
    """Decorate a method that fits, so that whatever it raises says what became of the budget.

    The curator says it of what was raised while it was asked; before that nothing was spent, and after it the release is
    there.
    """

    @wraps(method)
    def telling(self: Any, *given: Any, **options: Any) -> Any:
        before = getattr(self, "release_", None)
        try:
            return method(self, *given, **options)
        except BaseException as error:
            tell_of_budget(error, NOTHING_SPENT if getattr(self, "release_", None) is before else KEPT)
            raise

    return telling  # type: ignore[return-value]


EPSILONS = (1e-5, 700.0)
"""Least and largest epsilon: below, noise exceeds what whole numbers hold; above, e^epsilon exceeds what floats do."""

MOST_NOISE = 1e6
"""Largest stddev, in rows, that a number of rows may have if it is all that is asked for the budget."""


def addresses(sources: Iterable[object]) -> tuple[str, ...]:
    """Return the addresses of tables of databases among some sources."""
    return tuple(one.address for one in sources if isinstance(one, OneTable) and one.address is not None)


def refuse_own_tables(read: Sequence[str], sinks: Iterable[object]) -> None:
    """Refuse to append synthetic rows to a table that private rows were read from.

    Raises
    ------
    ParameterError
        If one is, as far as addresses tell.
    """
    if set(read) & set(addresses(sinks)):
        raise ParameterError(
            "this is the table that was just read: synthetic rows among private ones could not be told apart; write them "
            "to another table"
        )


def say_what_is_left_out(mechanism: TableMechanism, missing: Sequence[str], *, label: str | None) -> None:
    """Warn of the columns that will not come out; a label must."""
    name = type(mechanism).__name__
    if label in missing:
        raise ParameterError(f"{name} leaves out column {label!r}, the label: choose another mechanism")
    if missing:
        warnings.warn(
            f"{name} leaves out: {', '.join(missing)}; they will not be in the synthetic table",
            UserWarning,
            stacklevel=5,
        )


def check_discoverable(schema: Schema, loss: PrivacyLoss) -> None:
    """Refuse levels that are left open where there is no delta to discover them with."""
    labelled = [name for name in schema.undeclared if isinstance(schema[name], Categorical)]
    if labelled and isinstance(loss, PureDP):
        raise SchemaError(f"the levels of column {labelled[0]!r} must be declared, or discovered with a delta above 0")


def check_noise(loss: PrivacyLoss, rows_per_unit: int) -> None:
    """Refuse a budget of which all would not do to count rows: noise on finer answers might be too large to draw."""
    rows = whole("max_rows_per_unit", rows_per_unit, least=1)
    made = calibrate(Norms(rows, rows**2, rows), loss, k=1)
    stddev = made.noise.stddev / made.resolution
    if stddev > MOST_NOISE:
        raise ParameterError(
            f"with max_rows_per_unit={rows_per_unit} and this budget the number of rows alone would have noise of about "
            f"{stddev:,.0f} rows: take fewer rows of a unit, or a larger epsilon"
        )
