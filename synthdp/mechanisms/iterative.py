"""Any iterative database construction gives an interactive mechanism (Gupta, Roth, Ullman 2012; Blum, Roth 2011, section 3).

A construction holds a public hypothesis about the table.  The sparse vector finds the queries on which it is off.  Each such
query is answered with noise, and the answer moves the hypothesis.  A construction that needs few such updates can answer
a great many queries.  Sparse and private multiplicative weights and the median mechanism are three of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from synthdp.privacy.above_threshold import AboveThresholdAnswer
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.supports import Support

if TYPE_CHECKING:
    from synthdp.curator import SparseVector

QueryT_contra = TypeVar("QueryT_contra", contravariant=True)


class IterativeConstruction(Protocol[QueryT_contra]):
    """A public hypothesis about a table, and the rule by which a noisy answer improves it; it reads no private row."""

    def guess(self, query: QueryT_contra) -> float:
        """Return the hypothesis's answer to a query, a sum over rows, which is compared with the private table's."""
        ...

    def check(self, query: QueryT_contra) -> None:
        """Raise an error for a query that `update` could not take; called before the private table is asked.

        Raises
        ------
        MechanismFailure
            Where the hypothesis has no room for it.
        """
        ...

    def update(self, query: QueryT_contra, answer: float, *, stddev: float) -> None:
        """Improve the hypothesis by a noisy answer on which its guess was wrong: the update rule U of the papers.

        Parameters
        ----------
        query
            The query whose guess was found to be off.
        answer
            The query's noisy sum over rows.
        stddev
            Standard deviation of the noise.
        """
        ...

    def update_bound(self, alpha: float) -> float:
        """Return B(alpha), the most updates if each is made on a guess that is off by at least ``alpha`` of the rows.

        Holds for answers that are off by at most half as much as the guess.  Infinite where no number can be promised.
        """
        ...


class QueryOutcome(NamedTuple):
    """The outcome of one query: the guess, whether it was checked, and the measured answer if the guess was far off."""

    guess: float
    """The hypothesis's answer, in rows."""
    checked: bool
    """Whether the guess was compared with the table."""
    found: AboveThresholdAnswer | None
    """The noisy answer, where the guess was found to be off."""


def interact(
    construction: IterativeConstruction[QueryT_contra],
    watch: SparseVector,
    query: QueryT_contra,
    *,
    asked: LinearQueries | Support,
) -> QueryOutcome:
    """Answer one query: compare the model's guess with the table privately, and update the model if the guess is far off.

    Returns the guess, whether it was compared, and the noisy answer if it was off.  Costs nothing beyond the cost of
    the watch (an open sparse vector session), once for all steps.

    Parameters
    ----------
    construction
        The public model (hypothesis), which an update changes in place.
    watch
        The open sparse vector.
    query
        The query, in the form that the construction takes.
    asked
        The same query in the form that the watch takes.
    """
    guess = construction.guess(query)
    if watch.exhausted:
        return QueryOutcome(guess, checked=False, found=None)
    construction.check(query)
    found = watch.ask(asked, guess=guess)
    if found is not None:
        construction.update(query, found.count, stddev=found.stddev)
    return QueryOutcome(guess, checked=True, found=found)
