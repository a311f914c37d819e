"""The general reduction: an interactive mechanism from any iterative database construction on listed cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from synthdp.arrays import Codes
from synthdp.checks import check_number, check_share, check_whole
from synthdp.curator.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.domain.universe import check_size, universe
from synthdp.errors import ParameterError
from synthdp.mechanisms.protocol import Spender
from synthdp.mechanisms.workload import Wish, domain_named
from synthdp.privacy.loss import Remaining, Spend
from synthdp.works.net.online import CellConstruction, OnlineSession, check_guesses, open_session

MOST_UPDATES = 1_000_000
"""Most updates that a session is opened for."""


@dataclass(frozen=True, slots=True)
class InteractiveMechanism(Spender):
    """Answer linear queries as they come, from a hypothesis of the user's own that learns from every wrong guess.

    Gupta, Roth, Ullman 2012; Blum, Roth 2011, section 3.  Privacy does not depend on the construction, which sees noisy
    answers alone; only how many updates it needs, and so the accuracy, does.

    Costs ``spend`` when it is opened, for the curator's neighbours, however many queries are asked.

    Parameters
    ----------
    construction
        From the cells, (m, d), and a number of rows to an `IterativeConstruction` whose ``weights()`` are on these cells.
    domain
        Columns and cells, or the columns by name, or ``None`` for all columns; all cells are listed.
    alpha
        How far off a guess may be, as a fraction of the rows; the number of updates is then B(alpha), unless given.
    max_updates
        c, how many wrong guesses can be found.
    queries, total_share, alarm_share
        As in `PrivateMultiplicativeWeights`.
    spend
        What a session may cost.

    Raises
    ------
    ParameterError
        If neither ``alpha`` nor ``max_updates`` is given, or the construction promises no number of updates.
    """

    construction: Callable[[Codes, int], CellConstruction]
    domain: Domain | Wish | None = None
    alpha: float | None = None
    max_updates: int | None = None
    queries: int = 1000
    total_share: float = 0.05
    alarm_share: float = 0.8
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        check_share("total_share", self.total_share)
        check_share("alarm_share", self.alarm_share)
        check_guesses(None, self.queries)
        if self.alpha is None and self.max_updates is None:
            raise ParameterError("give alpha, from which the number of updates follows, or max_updates")
        if self.alpha is not None:
            check_number("alpha", self.alpha, above=0, most=1)
        if self.max_updates is not None:
            check_whole("max_updates", self.max_updates)
        if isinstance(self.domain, Domain):
            check_size(self.domain)

    @property
    def threshold(self) -> float | None:
        """Of the watch: ``alpha`` of the rows, whose number is not known yet."""
        return None

    def open(self, curator: Curator) -> OnlineSession:
        """Open a session.

        Costs ``spend``, for the curator's neighbours; asking costs nothing more.
        """
        domain = domain_named(self.domain, curator.schema)
        return open_session(
            self,
            curator,
            domain=domain,
            updates=self.max_updates or self._bound(domain),
            construction=self.construction,
            alpha=self.alpha,
        )

    def _bound(self, domain: Domain) -> int:
        """Return B(alpha) of a construction that knows nothing yet, which does not depend on the number of rows."""
        bound = self.construction(universe(domain), 1).update_bound(self.alpha or 1.0)
        if not bound <= MOST_UPDATES:
            raise ParameterError(
                f"the construction needs {bound} updates at alpha ({self.alpha}), and at most {MOST_UPDATES} can be paid "
                "for: raise alpha, or give max_updates"
            )
        return max(1, math.floor(bound))
