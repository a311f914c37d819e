"""Checks before a spend, the account that pays for a release, and the simpler release if something fails after a spend."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from synthdp.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import DiscoveryError, SalvageWarning, SynthDPError, tell_of_budget
from synthdp.measurements import Measurements
from synthdp.mechanisms.mechanism import TableMechanism
from synthdp.mechanisms.survey_weights import weights_of
from synthdp.privacy.budget import COUNT_SHARE, EarlyEnds
from synthdp.privacy.calibration import THRESHOLDS_SHARE
from synthdp.privacy.loss import ApproxDP, GaussianDP, PrivacyLoss, Remaining, Spend
from synthdp.queries.distances import MarginalDistances, PairDistances
from synthdp.queries.interactions import Interactions
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.protocol import Statistic
from synthdp.release import Release
from synthdp.sampling.single_columns import model_of_single_columns
from synthdp.schema.schema import Schema


def check_tables(curator: Curator, axes: tuple[Axis, ...], *, spend: Spend) -> None:
    """Raise an error if a table's columns or pairs are too large for noisy answers within the spend.

    Each kind of statistic that a mechanism may ask later is checked, so that it does not fail after spending.  Costs
    nothing.

    Parameters
    ----------
    curator
        The curator that a program will ask.
    axes
        The bins of each column.
    spend
        The largest cost of the program.

    Raises
    ------
    ParameterError, SensitivityError
        As `Curator.check`.
    """
    if axes:
        for statistic in _kinds(Domain(axes)):
            curator.check(statistic, spend=spend)


def _kinds(domain: Domain) -> list[Statistic]:
    """Return one statistic of each kind, on the columns or pairs with the fewest and with the most bins.

    If these extremes can be answered, all others can.
    """
    found: list[Statistic] = [Total(domain), one_ways(domain)]
    order = sorted((j for j, size in enumerate(domain.shape) if size > 1), key=lambda j: domain.shape[j])
    if len(order) < 2:
        return found
    for a, b in {tuple(sorted(order[:2])), tuple(sorted(order[-2:]))}:
        pair = Domain((domain.axes[a], domain.axes[b]))
        table = Marginals(pair, ((0, 1),))
        found += [table, MarginalDistances(table, np.zeros(table.k, np.int64), 1)]
        if all(axis.releasable.sum() > 1 for axis in pair.axes):
            found.append(Interactions(pair, ((0,), (1,), (0, 1)), (1, 1, 1)))
    several = Domain(tuple(domain.axes[j] for j in sorted(order)))
    margins = tuple(np.eye(1, size, dtype=np.int64)[0] for size in several.shape)
    found.append(PairDistances(several, margins, 1))
    return found


T = TypeVar("T")
"""The state of a program after a stage, or the result of a fit: any type."""
Ask = Callable[..., Release[Any]]
"""A mechanism's method ``release``, which `salvaged` decorates."""
Simplest = Callable[[Any, Curator, tuple[Measurements, ...]], tuple[Any, tuple[str, ...]]]
"""Makes the simplest output of a mechanism that failed, from the mechanism, the curator and the measurements; returns the
output and notes for the receipt."""


def last_of(stages: Iterator[T]) -> tuple[T, Exception | None]:
    """Run a program's stages and return the last state, and the error that stopped the program, or ``None``.

    So noisy answers that were paid for are not lost.

    Parameters
    ----------
    stages
        Yields the state after each stage.

    Raises
    ------
    Exception
        An error of the first stage, before there is any state.
    """
    best: list[T] = []
    try:
        for known in stages:
            best = [known]
    except Exception as error:
        if not best:
            raise
        return best[0], error
    return best[0], None


def first_that_works(*fits: Callable[[], T]) -> tuple[T, Exception | None]:
    """Return the result of the first fit that does not fail, and the error of the very first fit, or ``None``.

    Fits are given from the best to the simplest, so that a release that was paid for is made in any case.

    Raises
    ------
    Exception
        The error of the last fit, if all fail.
    """
    failed: Exception | None = None
    for fit in fits[:-1]:
        try:
            return fit(), failed
        except Exception as error:  # noqa: BLE001 - whatever it is, it was paid for
            failed = failed or error
    return fits[-1](), failed


def single_columns(mechanism: Any, curator: Curator, measured: tuple[Measurements, ...]) -> tuple[Any, tuple[str, ...]]:
    """Return the model of independent columns from the answers of a failed release, and notes that say so."""
    rows = curator.about_rows if curator.adjacency.rows_are_public or not measured else 0.0
    return model_of_single_columns(mechanism.output_schema(curator.schema), measured, rows=rows)


def salvaged(simplest: Simplest = single_columns, *, prepares: bool = True) -> Callable[[Ask], Ask]:
    """Return a decorator of a mechanism's ``release``, so that it refuses before the first charge or makes a release.

    If nothing has been charged, ``prepare`` is called first, which may refuse.  If ``release`` fails after a charge,
    `release_of` makes the simplest release of the answers.

    Parameters
    ----------
    simplest
        Function that makes the simplest model, for a mechanism that fails as a whole.
    prepares
        Whether ``prepare`` is called first; if not, ``release`` must prepare before its first charge.
    """

    def decorated(release: Ask) -> Ask:
        @wraps(release)
        def kept(self: Any, curator: Curator, **options: Any) -> Release[Any]:
            def asked() -> Release[Any]:
                if prepares and not curator.charges:  # later it would be too late to refuse
                    self.prepare(curator)
                return release(self, curator, **options)

            return release_of(self, curator, asked, simplest=simplest)

        return kept

    return decorated


def release_of(
    mechanism: Any,
    curator: Curator,
    ask: Callable[[], Release[Any]],
    *,
    simplest: Simplest = single_columns,
) -> Release[Any]:
    """Run a mechanism; if it fails after answers were paid for, return the simplest release made of these answers.

    Costs what ``ask`` costs, for the curator's neighbours; the simplest release costs nothing more.

    Parameters
    ----------
    mechanism
        A mechanism that makes tables.
    curator
        The curator that it asks.
    ask
        Function that runs it.
    simplest
        Function that makes the simplest model, for a mechanism that fails as a whole.

    Raises
    ------
    Exception
        An error before the first answer: then nothing is spent.
    """
    since, spend = len(curator.measured), mechanism.spend
    loss = curator.budget if isinstance(spend, Remaining) else spend

    def rescued(error: Exception) -> Release[Any]:
        measured = curator.measured[since:]
        model, notes = simplest(mechanism, curator, measured)
        receipt, name = curator.receipt(notes=(*notes, *model.notes)), type(mechanism).__name__
        made = Release(mechanism=f"{name}, failed", output=model, loss=loss, receipt=receipt, measurements=measured)
        return made.salvaged(name, error)

    return after_the_spend(curator, ask, rescued)


def after_the_spend(curator: Curator, ask: Callable[[], T], otherwise: Callable[[Exception], T]) -> T:
    """Run a program that asks a curator; if it fails after an answer was paid for, return ``otherwise(error)``.

    Parameters
    ----------
    curator
        The curator that it asks.
    ask
        The program.
    otherwise
        Function from the error to the result in its place.

    Raises
    ------
    DiscoveryError
        If discovery found too little and the caller wants no release in that case.
    Exception
        An error before the first answer: then nothing is spent.
    """
    charges = curator.charges
    try:
        return ask()
    except DiscoveryError:
        raise
    except Exception as error:
        if curator.give_back() or curator.charges == charges:
            tell_of_budget(error, curator.became)
            raise
        return otherwise(error)


def say(*sayings: Callable[[], object]) -> None:
    """Call functions that warn or note something about a finished release.

    An error of a function only gives a `SalvageWarning`, since the release is paid for and must reach the caller.

    Raises
    ------
    Warning
        If a filter turns warnings into errors.
    """
    for saying in sayings:
        try:
            saying()
        except Warning:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the release is made
            with suppress(SalvageWarning):
                note = f"something about the release could not be said ({type(error).__name__})"
                warnings.warn(note, SalvageWarning, stacklevel=2)


def account_of(curator: Curator, mechanism: object, *schemas: Schema, ends: Sequence[float] = ()) -> Curator:
    """Open the account that pays for discovery, survey weights and the mechanism, with the curator's whole budget.

    The account is in Gaussian DP if something is asked before the mechanism and the mechanism accepts such a budget.  A
    step then costs its share of mu squared, which means several times less noise for the same epsilon.  Costs all that
    the curator has left, for its neighbours.

    Parameters
    ----------
    curator
        A curator whose budget is an epsilon, perhaps with a delta.
    mechanism
        The mechanism that follows; see `HasPrivacyCost.gaussian`.
    schemas
        Schema of the table, or schemas of several tables.
    ends
        Shares of the account's budget after which it may be given up; see `Curator.open_account`.
    """
    currency, thresholds = _terms(curator.budget, mechanism, *schemas)
    return curator.open_account(currency=currency, thresholds=thresholds, ends=ends)


def account_budget(loss: PrivacyLoss, mechanism: object, *schemas: Schema) -> PrivacyLoss:
    """Return the budget that `account_of` would open with, from which a plan computes noise before any row is read.

    If something is discovered before the mechanism and the mechanism allows it, an (epsilon, delta) loss becomes a
    Gaussian one, less the share of delta for open levels; else the budget is ``loss``.

    Parameters
    ----------
    loss
        Loss of the whole release.
    mechanism, schemas
        As of `account_of`.
    """
    currency, thresholds = _terms(loss, mechanism, *schemas)
    return EarlyEnds.of(loss, currency, thresholds=thresholds, shares=()).budget


def refusal_costs(loss: PrivacyLoss, mechanism: object, schema: Schema, share: float) -> tuple[PrivacyLoss, ...]:
    """Return the cost of a careful discovery that is given up after the row count, and of one given up at its end.

    A plan states these costs of a refused release beforehand.  They are computed from public numbers.

    Parameters
    ----------
    loss
        Loss of the whole release.
    mechanism, schema
        As in `account_of`.
    share
        Share of the budget that discovery may cost, as in `discovery_part`.
    """
    currency, thresholds = _terms(loss, mechanism, schema)
    ends = discovery_ends(share)
    early = EarlyEnds.of(loss, currency, thresholds=thresholds, shares=ends)
    return tuple(early.cost(end) for end in ends)


def _terms(loss: PrivacyLoss, mechanism: object, *schemas: Schema) -> tuple[type[PrivacyLoss] | None, float]:
    """Return the kind of privacy loss of the account (``None``: Gaussian DP), and the share of delta for finding levels.

    Levels are found by a threshold on noisy counts.  The share is 0 if no levels are open, or the account is not in
    Gaussian DP.
    """
    asks_before = any(schema.undeclared or weights_of(schema) for schema in schemas)
    if asks_before and isinstance(loss, ApproxDP) and getattr(mechanism, "gaussian", False):
        levels = any(schema[name].labelled for schema in schemas for name in schema.undeclared)
        return None, THRESHOLDS_SHARE if levels else 0.0
    return type(loss), 0.0


def discovery_part(budget: PrivacyLoss, share: float) -> PrivacyLoss:
    """Return the part of a budget that discovery may cost.

    The part is ``share`` of the budget.  In Gaussian DP it is ``share`` of mu squared, because mu squared adds up.  All
    of delta is included, because only the thresholds that find levels use it.

    Parameters
    ----------
    budget
        Budget of the account.
    share
        Share for discovery, 0 < share < 1.
    """
    if isinstance(budget, GaussianDP):
        return GaussianDP(budget.fraction(share).mu, budget.delta)
    return budget.fraction(share)


def discovery_ends(share: float) -> tuple[float, float]:
    """Return the shares of the budget spent when a careful discovery may be given up: after the row count and at its end.

    An account must be told them before any row is read; see `EarlyEnds`.

    Parameters
    ----------
    share
        Share for discovery, as in `discovery_part`.
    """
    return COUNT_SHARE * share, share


def takes(mechanism: TableMechanism, schema: Schema) -> bool:
    """Return whether a mechanism can make a table of this schema with its workload and target.

    Discovery calls it before it leaves out a column in which it found nothing.
    """
    try:
        mechanism.output_schema(schema)
    except SynthDPError:
        return False
    return True
