"""What is tried and checked before a spend, the account that it opens, and what is kept of a release that fails after it."""

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
from synthdp.mechanisms.protocol import TableMechanism
from synthdp.mechanisms.survey_weights import weights_of
from synthdp.privacy.budget import COUNT_SHARE, EarlyEnds
from synthdp.privacy.calibration import THRESHOLDS_SHARE
from synthdp.privacy.loss import ApproxDP, GaussianDP, PrivacyLoss, Remaining, Spend
from synthdp.queries.distances import MarginalDistances, PairDistances
from synthdp.queries.interactions import Interactions
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.protocol import Statistic
from synthdp.release import Release, model_of_single_columns
from synthdp.schema.schema import Schema


def check_tables(curator: Curator, axes: tuple[Axis, ...], *, spend: Spend) -> None:
    """Raise an error if a table's columns or pairs are too large for noisy answers within the spend.

    Tries each kind of question that a mechanism may ask later, so that it does not fail after spending.  Costs nothing.

    Parameters
    ----------
    curator
        The curator that a program will ask.
    axes
        The cells of each column.
    spend
        All that the program may cost.

    Raises
    ------
    ParameterError, SensitivityError
        As `Curator.check`.
    """
    if axes:
        for statistic in _kinds(Domain(axes)):
            curator.check(statistic, spend=spend)


def _kinds(domain: Domain) -> list[Statistic]:
    """Return one question of each kind, on the columns or pairs with the fewest and the most cells.

    The extreme cases.
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
"""What a program knows after a stage, or what a fit returns: any type."""
Ask = Callable[..., Release[Any]]
"""A mechanism's method ``release``, which `salvaged` decorates."""
Simplest = Callable[[Any, Curator, tuple[Measurements, ...]], tuple[Any, tuple[str, ...]]]
"""Makes the simplest output of a mechanism that failed: from it, the curator and what was measured.  Returns notes
too.
"""


def last_of(stages: Iterator[T]) -> tuple[T, Exception | None]:
    """Run a program's stages and return what it knew last, and the error that stopped it, if any.

    What was paid for is so not lost.

    Parameters
    ----------
    stages
        Yields what is known after each stage.

    Raises
    ------
    Exception
        What stopped it before it knew anything.
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
    """Return the result of the first fit that does not fail, and the error of the very first, if any.

    Given from the best to the simplest, so that a paid release is made in any case.

    Raises
    ------
    Exception
        That of the last, if all fail.
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
    """Return a decorator of a mechanism's ``release``: it calls ``prepare`` first, and salvages what was paid for.

    See `release_of`.

    Parameters
    ----------
    simplest
        Function that makes the simplest model, for a mechanism that fails as a whole.
    prepares
        Whether it prepares; else ``release`` sees to that before its first charge, as by another mechanism's.
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
    """Run a mechanism; if it fails after answers were paid for, return the simplest release of these instead.

    Costs what ``ask`` costs, for the curator's neighbours, and nothing more for what is left.

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
        What failed before the first answer: then nothing is spent.
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
        Function from the error to the result that is left.

    Raises
    ------
    DiscoveryError
        If the caller would rather have no release, and said so before.
    Exception
        What failed before the first answer: then nothing is spent.
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
    """Call functions that warn or note something about a finished release, ignoring their errors, since it is paid for.

    Raises
    ------
    Warning
        Where a filter makes errors of warnings.
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

    It is in Gaussian DP where something is asked before a mechanism that such a budget can pay: a step then costs its
    share of mu squared, which is several times less noise for the same price.  Costs all that the curator has left, for
    its neighbours.

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
    """Return the budget that `account_of` would open with, by which a plan foresees noise before any data is read.

    Arithmetic on public numbers.

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
    """Return the cost of a careful discovery that is given up after the row count, and after all of it.

    So a plan can say beforehand what a refused release costs.  Arithmetic on public numbers: no row is read.

    Parameters
    ----------
    loss
        Loss of the whole release.
    mechanism, schema
        As of `account_of`.
    share
        Of `discovery_part`.
    """
    currency, thresholds = _terms(loss, mechanism, schema)
    ends = discovery_ends(share)
    early = EarlyEnds.of(loss, currency, thresholds=thresholds, shares=ends)
    return tuple(early.cost(end) for end in ends)


def _terms(loss: PrivacyLoss, mechanism: object, *schemas: Schema) -> tuple[type[PrivacyLoss] | None, float]:
    """Return the currency of the account (``None``: Gaussian DP), and the share of delta for finding levels.

    Levels are found by a threshold on noisy counts.  The share is 0 where no levels are open, or the account is not in
    Gaussian DP.
    """
    asks_before = any(schema.undeclared or weights_of(schema) for schema in schemas)
    if asks_before and isinstance(loss, ApproxDP) and getattr(mechanism, "gaussian", False):
        levels = any(schema[name].labelled for schema in schemas for name in schema.undeclared)
        return None, THRESHOLDS_SHARE if levels else 0.0
    return type(loss), 0.0


def discovery_part(budget: PrivacyLoss, share: float) -> PrivacyLoss:
    """Return the part of a budget that discovery may cost.

    It is ``share`` of the budget.  For Gaussian DP it is ``share`` of mu squared, which adds up, and all of delta,
    which only the thresholds that find levels use.

    Parameters
    ----------
    budget
        Of `account_of`.
    share
        0 < share < 1.
    """
    if isinstance(budget, GaussianDP):
        return GaussianDP(budget.fraction(share).mu, budget.delta)
    return budget.fraction(share)


def discovery_ends(share: float) -> tuple[float, float]:
    """Return the shares of the budget spent when a careful discovery may be given up.

    These are after the row count, and at its end.  An account must know them before any row is read; see `EarlyEnds`.

    Parameters
    ----------
    share
        Of `discovery_part`.
    """
    return COUNT_SHARE * share, share


def takes(mechanism: TableMechanism, schema: Schema) -> bool:
    """Return whether a mechanism can make a table of this schema with its workload and target.

    A discovery asks it before it leaves out a column in which it found nothing.
    """
    try:
        mechanism.output_schema(schema)
    except SynthDPError:
        return False
    return True
