"""What is checked before anything is spent: questions that are known before the first answer, and the noise of each.

A program that chooses its questions by earlier answers asks of tables that nobody knows yet.  Their kinds are known, and how
small and how large they can be: these are put together and calibrated.  What depends on more than that (which groups of
values a table has, scores of second moments, later levels of a tree) is left to salvage.
"""

from __future__ import annotations

import numpy as np

from synthdp.curator.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.privacy.loss import Spend
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.interactions import Interactions
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.pair_distances import PairDistances
from synthdp.queries.protocol import Statistic
from synthdp.queries.total import Total


def check_tables(curator: Curator, axes: tuple[Axis, ...], *, spend: Spend) -> None:
    """Refuse a table of whose columns, pairs of columns and their distances no noisy answers could be made.

    Costs nothing.

    Parameters
    ----------
    curator
        Whom a program will ask.
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
    """Return a question of each kind, about the columns or pairs with the fewest and with the most cells."""
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
