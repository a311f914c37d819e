"""Checks of an estimator's settings before a fit, and its notes and warnings after a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from synthdp.answers.misfit_shares import SURELY, MisfitShare, misfit_columns
from synthdp.checks import check_number, check_share, check_whole, whole
from synthdp.curator import Curator
from synthdp.domain.grid import bounds_of
from synthdp.domain.refinement import Refinement
from synthdp.errors import (
    NOTHING_SPENT,
    DiscoveryError,
    DiscoveryWarning,
    MisfitWarning,
    ParameterError,
    SchemaError,
    tell_of_budget,
)
from synthdp.figures import in_figures
from synthdp.mechanisms.mechanism import NO_RELATION, TableMechanism
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import LARGE_EPSILON, PrivacyLoss, PureDP, loss_of
from synthdp.privacy.neighbors import neighbors_named
from synthdp.queries.norms import Norms
from synthdp.randomness import generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import DISCOVERED, Categorical
from synthdp.schema.schema import Schema
from synthdp.tables.source import CONNECTION, IDENTITY, FromFiles, OneTable

if TYPE_CHECKING:
    from synthdp.answers.related.unfit import Unusual
    from synthdp.curator import Discovered

RARE = "no value of it is frequent enough to be released; declare its levels, or an Identifier if it names rows"
"""Receipt text for a column without a frequent value."""

NO_RANGE = (
    "no range of it could be told from noise, or its numbers are beyond those that discovery tells apart; declare its "
    "bounds, or an Identifier if it names rows"
)
"""Receipt text for a column whose range was not found."""

LEFT_OUT, STAYS = "column {0!r} is left out: {1}", "column {0!r} stays, but its values mean nothing: {1}"
"""Receipt texts for columns in which discovery found nothing: left out, or kept with placeholder values."""

SHOWN = 10
"""Most columns that a warning names.  More would bury the advice behind them.  A convention."""


def checked_loss(estimator: Any, *, stacklevel: int) -> PrivacyLoss:
    """Return the whole privacy loss, after checks of settings that both estimators have and no later step checks.

    Warns of a large epsilon.
    """
    loss = loss_of(estimator.epsilon, estimator.delta)
    check_number("epsilon", estimator.epsilon, least=EPSILONS[0], most=EPSILONS[1])
    neighbors_named(estimator.neighbors)
    if estimator.n_rows is not None:
        check_whole("n_rows", estimator.n_rows)
    check_share("domain_budget", estimator.domain_budget)
    if estimator.on_progress is not None and not callable(estimator.on_progress):
        raise ParameterError("on_progress must be a function that takes one Progress")
    generator(estimator.random_state)
    if estimator.epsilon > LARGE_EPSILON:
        warnings.warn(
            f"epsilon ({estimator.epsilon}) is above {LARGE_EPSILON:g}, so the privacy guarantee is weak: "
            "take a smaller epsilon",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    return loss


def discovery_notes(found: Discovered) -> tuple[str, ...]:
    """Return the receipt notes on discovered domains, and on columns in which discovery found nothing."""
    why = {**dict.fromkeys(found.without_range, NO_RANGE), **dict.fromkeys(found.without_levels, RARE)}
    hidden = ((STAYS if name in found.schema else LEFT_OUT).format(name, said) for name, said in why.items())
    return (*found.notes, *hidden, *[_coarse(found)] * found.is_coarse)


def warn_of_undiscovered(found: Discovered, *, table: str | None = None, stacklevel: int) -> None:
    """Warn of columns in which discovery found nothing, or of a table whose values are mostly hidden by noise.

    The decision uses noisy answers and public numbers only, so the warning costs no budget.

    Warns
    -----
    DiscoveryWarning
        At most once: on columns without a finding, else on a table with mostly hidden values.
    """
    said = _undiscovered(found)
    if said is not None:
        said = said if table is None else f"table {table!r}: {said}"
        warnings.warn(said, DiscoveryWarning, stacklevel=stacklevel + 1)


def refuse_undiscovered(found: Discovered, account: Curator) -> None:
    """Raise DiscoveryError if discovery found too little, and give back the budget that is not spent.

    Costs at most the budget of discovery; the ledger records this cost.

    Raises
    ------
    DiscoveryError
        If `warn_of_undiscovered` would warn.
    """
    said = _undiscovered(found)
    if said is not None:
        raise DiscoveryError(f"no release was made, and {account.give_up() or 'nothing'} was spent: {said}")


def _undiscovered(found: Discovered) -> str | None:
    """Return the warning text for a discovery that found too little; None if it found enough."""
    lost = [repr(name) for name in found.hidden if name not in found.schema]
    kept = [repr(name) for name in found.hidden if name in found.schema]
    them = "it" if len(lost) == 1 else "them"
    said = [
        f"noise hides the range or the levels of {_columns(lost)}, so a synthetic table must leave {them} out"
    ] * bool(lost)
    said += [f"noise hides the values of {_columns(kept)}, so the synthetic values there mean nothing"] * bool(kept)
    if said:
        return f"{'; '.join(said)}. Declare bounds or levels, or use more rows or a larger budget"
    return _coarse(found) if found.is_coarse else None


def _coarse(found: Discovered) -> str:
    """Return the warning text for a table whose values are mostly hidden by noise."""
    held = (
        f"the values that were found occur in about {found.rows:,.0f} rows by a noisy count, which may exceed all rows"
        if found.rows >= 1
        else "nothing was found"
    )
    return (
        f"noise hides values that occur in fewer than about {found.least:,.0f} rows, and {held}: declare bounds and "
        "levels, or use more rows or a larger budget"
    )


HALF = 0.5
"""Fraction of out-of-domain values above which a column counts as mostly out of domain.  Derived: above a half, a
synthetic value is more often invented than observed."""

MEANS_NOTHING = (
    "its synthetic values rest on the few that did, so drop the column: its cells probably have another format than "
    "declared (give format=), or another type; or, if levels were discovered, most are too rare to be found: declare them"
)
"""Text for a column with mostly out-of-domain values."""


def misfit_notes(shares: Mapping[str, MisfitShare | None]) -> tuple[str, ...]:
    """Return the receipt notes on out-of-domain values: their estimated shares, and columns without a measurement."""
    clear = misfit_columns(shares)
    notes = [f"column {name!r}: {MEANS_NOTHING}" for name in _mostly_misfits(clear)]
    notes += [
        f"column {name!r}: {_percent(share)} of the values were outside the schema and were left out of the model"
        for name, share in clear.items()
    ]
    unknown = [name for name, share in shares.items() if share is None]
    if unknown:
        notes.append(f"this mechanism does not measure how many values were outside the schema: {', '.join(unknown)}")
    if len(shares) > len(clear) + len(unknown):
        others = "all other columns" if notes else "all columns"
        notes.append(f"values outside the schema, counted with noise in {others}: no more than noise explains")
    return tuple(notes)


MOSTLY_EMPTY = 0.75
"""Fraction of a column's range at one end beyond all synthetic rows, above which the receipt reports the gap.  Less
would report usual skewed columns; more stays silent about bounds that are far too wide.  A tolerance."""


def learned_notes(release: Release[SyntheticModel]) -> tuple[str, ...]:
    """Return the receipt notes on unmeasured relations, and on ends of ranges that noise hides.

    The notes use noisy answers only, so they cost no budget.
    """
    model = release.model
    asked = [one for measured in release.measurements for one in getattr(measured.queries, "cliques", ())]
    moments = any(hasattr(measured.queries, "pairs") for measured in release.measurements)
    lonely = len(model.schema) > 1 and bool(asked) and not moments and max(map(len, asked)) < 2
    lonely = lonely and NO_RELATION not in release.receipt.notes
    ends = [said for name, one in zip(model.domain.names, model.refinements, strict=True) if (said := _ends(name, one))]
    return (*[NO_RELATION] * lonely, *ends[:SHOWN])


def _ends(name: str, refinement: Refinement) -> str:
    """Return a note on where synthetic numbers of a column end, if most of its range lies beyond; otherwise "".

    The note is "" too for columns that are discovered, hold no numbers, or have no synthetic number.
    """
    axis = refinement.fine
    column, grid = axis.column, axis.grid
    filled = np.flatnonzero((refinement.weights > 0)[axis.cells] & (axis.starts < grid.regular))
    if column.quantity != "number" or column.source == DISCOVERED or not len(filled):
        return ""
    stops = np.minimum(np.append(axis.starts[1:], grid.size), grid.regular)
    lower, upper = bounds_of(column)
    found = [int(axis.starts[filled[0]]), int(stops[filled[-1]])]
    low, high = (lower + (upper - lower) * (float(end) / grid.steps) for end in grid.first_steps(np.array(found)))
    sides = [f"below about {in_figures(low, digits=2)}"] * bool(low - lower > MOSTLY_EMPTY * (upper - lower))
    sides += [f"above about {in_figures(high, digits=2)}"] * bool(upper - high > MOSTLY_EMPTY * (upper - lower))
    return (
        f"column {name!r}: no synthetic value lies {' or '.join(sides)}: real rows there, if any, are too few to "
        "stand out of the noise"
        if sides
        else ""
    )


def warn_of_misfits(shares: Mapping[str, MisfitShare | None], *, stacklevel: int) -> None:
    """Warn if columns have more out-of-domain values than noise explains.

    Warns
    -----
    MisfitWarning
        If there are such columns; the message names them and their noisy shares.
    """
    clear = misfit_columns(shares)
    if not clear:
        return
    named = [f"{name!r} ({_percent(share)})" for name, share in clear.items()]
    lost = [repr(name) for name in _mostly_misfits(clear)]
    loud = f"most values did not fit in column {_some(lost)}; {MEANS_NOTHING}. Also, " if lost else ""
    warnings.warn(
        f"{loud}the model leaves out values that do not fit the schema: column {_some(named)}. To release them, declare "
        "their levels, nullable=True or other='...'; the attribute misfits_ has the shares of all columns",
        MisfitWarning,
        stacklevel=stacklevel + 1,
    )


def _mostly_misfits(clear: Mapping[str, MisfitShare]) -> list[str]:
    """Return the columns in which significantly more than half of the values are out of domain: they mean nothing."""
    return [name for name, one in clear.items() if one.share - SURELY * one.stddev > HALF]


def unusual_notes(found: Sequence[Unusual]) -> tuple[str, ...]:
    """Return the receipt notes on persons with rows that have no parent row, are repeated or are not used."""
    clear = [one for one in found if one.is_clear(len(found))]
    if not clear:
        return ("rows that join no row above them, are repeated or were left out: no more than noise explains",)
    return tuple(f"about {_about(one)} {one.words}" for one in clear)


def few_persons(found: Unusual | None) -> tuple[str, ...]:
    """Return the note, and warning, for tables whose number of persons noise alone may explain; empty for others."""
    if found is None:
        return ()
    told = f"the tables have about {_about(found)} persons, no more than noise explains, so the synthetic tables mean "
    return (f"{told}nothing: check that the key identifies one person, or raise epsilon",)


def warn_of_unusual(found: Sequence[Unusual], few: Unusual | None, *, stacklevel: int) -> None:
    """Warn if more persons than noise explains have unusual rows, or if noise explains the number of all persons.

    Warns
    -----
    MisfitWarning
        If there are such persons; the message gives the noisy numbers.
    """
    for said in few_persons(few):
        warnings.warn(said, MisfitWarning, stacklevel=stacklevel + 1)
    clear = [f"about {_about(one)} {one.words}" for one in found if one.is_clear(len(found))]
    if clear:
        warnings.warn(
            f"{'; '.join(clear)}: check that keys have the same type and spelling in all tables, then correct the tables or "
            "raise at_most. A row is not used if it has no parent row of the same person, exceeds at_most, or repeats the "
            "row of a person",
            MisfitWarning,
            stacklevel=stacklevel + 1,
        )


def _about(one: Unusual) -> str:
    """Return a noisy number of persons with its standard error, as text."""
    return f"{in_figures(one.persons, digits=3)} (standard error {in_figures(one.stddev, digits=2)})"


def _some(named: Sequence[str]) -> str:
    """Return the first `SHOWN` names as a text, and the number of further names."""
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more


def _columns(named: Sequence[str]) -> str:
    """Return the word "column" or "columns" and the first `SHOWN` of some columns, as text."""
    return f"{'column' if len(named) == 1 else 'columns'} {_some(named)}"


def _percent(share: MisfitShare) -> str:
    """Return a fraction of out-of-domain values with its standard error as text, in per cent."""
    return f"{share.share:.2%} ± {share.stddev:.2%}"


def ignored_notes(ignored: tuple[str, ...], unit: str | None) -> tuple[str, ...]:
    """Return the receipt notes on columns of the table that the schema does not name; ``unit`` names persons."""
    lines = [f"column {name!r} is not in the schema and was ignored" for name in ignored if name != unit]
    if unit in ignored:
        lines.append(f"column {unit!r} names the privacy units; it is not in the schema and is not released")
    return tuple(lines)


KEPT = "the release is paid for, made and kept in release_: sample(), answer() and save() cost nothing"
"""Text added to an error after the spend: the release exists."""

Method = TypeVar("Method", bound=Callable[..., Any])
"""Type of a method that `tells_of_budget` decorates."""


def tells_of_budget(method: Method) -> Method:
    """Return a fitting method whose exceptions state how much budget was spent.

    If no release was made, the added text is that nothing was spent.  If the release exists, the text is that it is
    paid for.  The curator itself adds the text to errors raised while it reads.
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
"""Smallest and largest epsilon.  Derived: below, noise exceeds the range of integers; above, e^epsilon exceeds the
range of floats."""

MOST_NOISE = 1e6
"""Largest noise stddev, in rows, of one count of all rows with the whole budget. A noisier setting is refused, since
its answers would tell nothing of a usual table. A safety limit."""


class Addresses(tuple[str, ...]):
    """Holds the addresses of database tables that were read, and the identities that the databases reported for them.

    Pickling leaves out addresses of open connections, which are meaningless in another process.  It also leaves out
    everything that a database reported, such as the paths of its files.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Addresses], tuple[tuple[str, ...]]]:
        return Addresses, (tuple(one for one in self if not one.startswith((CONNECTION, IDENTITY))),)


def addresses(sources: Iterable[object]) -> Addresses:
    """Return the addresses of database tables, the databases' identities of the tables, and the paths of files.

    By them a synthetic table that would replace a table that was read is refused.  The databases are asked now.  Paths
    may be among the sources, or be read by them; their links are followed.
    """
    found: list[str | None] = []
    for one in sources:
        if isinstance(one, OneTable):
            found += [one.address, *(f"{IDENTITY}{said}" for said in one.identities())]
        files = (one,) if isinstance(one, (str, PathLike)) else one.files if isinstance(one, FromFiles) else ()
        found += [f"{IDENTITY}{Path(path).resolve()}" for path in files]
    return Addresses(text for text in found if text)


def refuse_own_tables(read: Sequence[str], sinks: Iterable[object]) -> None:
    """Raise ParameterError if synthetic rows would go into a table or a file that private rows were read from.

    A table is known by its address, and by what its database says of it when it is read and when it is written to.

    Raises
    ------
    ParameterError
        If a target is a table that was read.
    """
    if set(read) & set(addresses(sinks)):
        raise ParameterError(
            "the synthetic rows would go into the private table itself, among its real rows or in place of them: write "
            "them to another table or file"
        )


def say_what_is_left_out(mechanism: TableMechanism, missing: Sequence[str], *, label: str | None) -> None:
    """Warn of columns that a mechanism does not release; raise ParameterError if the label is among them."""
    name = type(mechanism).__name__
    if label in missing:
        raise ParameterError(f"{name} does not release column {label!r}, which is the label: choose another mechanism")
    if missing:
        warnings.warn(
            f"{name} leaves out these columns, so the synthetic table will not have them: {', '.join(missing)}; to keep "
            "them, choose another mechanism",
            UserWarning,
            stacklevel=5,
        )


def check_discoverable(schema: Schema, loss: PrivacyLoss) -> None:
    """Raise SchemaError if categories are open and delta is 0, because their discovery needs delta."""
    labelled = [name for name in schema.undeclared if isinstance(schema[name], Categorical)]
    if labelled and isinstance(loss, PureDP):
        raise SchemaError(
            f"the levels of column {labelled[0]!r} can be discovered only with a delta above 0: give delta, or declare "
            "the levels"
        )


def check_noise(loss: PrivacyLoss, rows_per_unit: int) -> None:
    """Raise ParameterError if even one count of all rows, with the whole budget, would have noise above `MOST_NOISE`.

    Noise on finer answers could then be too large to draw.
    """
    rows = whole("max_rows_per_unit", rows_per_unit, least=1)
    made = calibrate(Norms(rows, rows**2, rows), loss, k=1)
    stddev = made.noise.stddev / made.resolution
    if stddev > MOST_NOISE:
        raise ParameterError(
            f"with max_rows_per_unit={rows_per_unit} and this budget even one count of all rows would have noise of about "
            f"{stddev:,.0f} rows: lower max_rows_per_unit, or raise epsilon"
        )
