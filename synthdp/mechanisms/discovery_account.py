"""How the discovery of what a schema leaves open and the mechanism after it are paid from one budget."""

from __future__ import annotations

from collections.abc import Sequence

from synthdp.curator.curator import Curator
from synthdp.errors import SynthDPError
from synthdp.mechanisms.protocol import TableMechanism
from synthdp.mechanisms.survey_weights import weights_of
from synthdp.privacy.calibration import THRESHOLDS_SHARE
from synthdp.privacy.early_ends import COUNT_SHARE, EarlyEnds
from synthdp.privacy.loss import ApproxDP, GaussianDP, PrivacyLoss
from synthdp.schema.schema import Schema


def account_of(curator: Curator, mechanism: object, schema: Schema, *, ends: Sequence[float] = ()) -> Curator:
    """Return the account that discovery, weights and a mechanism are all paid from, with all that the curator has.

    It is one of Gaussian DP where something is asked before the mechanism, which can be paid from such a budget: there it
    costs its share of mu squared, which is several times less noise for the same price.

    Costs all that the curator has left, for its neighbours.

    Parameters
    ----------
    curator
        Whose budget is an epsilon, perhaps with a delta.
    mechanism
        What follows; see `Spender.gaussian`.
    schema
        Of the table.
    ends
        Shares of the account's budget after which it may be given up; see `Curator.open_account`.
    """
    currency, thresholds = _terms(curator.budget, mechanism, schema)
    return curator.open_account(currency=currency, thresholds=thresholds, ends=ends)


def refusal_costs(loss: PrivacyLoss, mechanism: object, schema: Schema, share: float) -> tuple[PrivacyLoss, ...]:
    """Return what a careful discovery costs that is given up after the number of rows, and after all of it.

    Arithmetic of public numbers: no row is read.

    Parameters
    ----------
    loss
        Of the whole release.
    mechanism, schema
        As of `account_of`.
    share
        Of `discovery_part`.
    """
    currency, thresholds = _terms(loss, mechanism, schema)
    ends = discovery_ends(share)
    early = EarlyEnds.of(loss, currency, thresholds=thresholds, shares=ends)
    return tuple(early.cost(end) for end in ends)


def _terms(loss: PrivacyLoss, mechanism: object, schema: Schema) -> tuple[type[PrivacyLoss] | None, float]:
    """Return the currency of an account, ``None`` for Gaussian DP, and the share of delta for thresholds."""
    asks_before = bool(schema.undeclared or weights_of(schema))
    if asks_before and isinstance(loss, ApproxDP) and getattr(mechanism, "gaussian", False):
        levels = any(schema[name].labelled for name in schema.undeclared)
        return None, THRESHOLDS_SHARE if levels else 0.0
    return type(loss), 0.0


def discovery_part(budget: PrivacyLoss, share: float) -> PrivacyLoss:
    """Return the part of a budget that discovery may cost: of a Gaussian one a share of mu squared, and all delta.

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
    """Return after which shares of a budget a careful discovery may be given up: the number of rows, and all of it.

    Parameters
    ----------
    share
        Of `discovery_part`.
    """
    return COUNT_SHARE * share, share


def takes(mechanism: TableMechanism, schema: Schema) -> bool:
    """Return whether a mechanism makes a table of this schema, with the workload and the target that it was given."""
    try:
        mechanism.output_schema(schema)
    except SynthDPError:
        return False
    return True
