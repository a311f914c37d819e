"""What every distribution over coded rows can do: marginals, samples under evidence, and systematic draws of rows.

Stands between `fit`, which makes distributions, and everything that draws rows or answers from them.  Also
the type of evidence, and its check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, FloatArray, IntArray, Table
from synthdp.checks import check_whole
from synthdp.errors import ParameterError
from synthdp.queries.contingency import Shape
from synthdp.randomness import Generator

Evidence: TypeAlias = Mapping[int, BoolArray | FloatArray]
"""For some columns j, a (k_j,) mask of the codes that remain possible, or how likely each code makes what was seen.

Likelihoods are finite numbers >= 0, up to a factor; the law is then proportional to the model's times theirs.
"""


@runtime_checkable
class Distribution(Protocol):
    """A probability distribution over rows of d codes."""

    @property
    def shape(self) -> Shape:
        """The number of codes of each of the d columns."""
        ...

    def marginal(self, clique: Clique) -> Table:
        """Return the (cells,) probabilities of the table of ``clique``, flat in C order; (1,) for no columns.

        Raises
        ------
        ParameterError
            If ``clique`` is not strictly increasing or lies outside the columns, or its table cannot be
            computed.
        """
        ...

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Draw rows; systematic rather than independent draws, so that counts stay near their expectations.

        Each row has the distribution's law, and the rows are exchangeable: their order carries nothing.

        Parameters
        ----------
        rows
            Number of rows, >= 0.
        rng
            Source of randomness.
        given
            Known values of every row, column by column; the law is then the exact conditional one.
        independent
            Draw each row on its own instead: counts then scatter as a multinomial law says.

        Returns
        -------
        (rows, d) codes, Fortran order, smallest unsigned type for all columns.

        Raises
        ------
        ParameterError
            If ``rows`` is negative, the evidence does not fit the columns, or it has probability 0.
        """
        ...


def check_evidence(given: Evidence | None, shape: Sequence[int]) -> dict[int, FloatArray]:
    """Return the evidence as likelihoods by column, (k_j,) each, with a largest value of 1; nothing for ``None``.

    Raises
    ------
    ParameterError
        If it does not fit the columns, or rules out every code of one.
    """
    likelihoods: dict[int, FloatArray] = {}
    for column, weights in (given or {}).items():
        if not 0 <= column < len(shape):
            raise ParameterError(
                f"given names column {column}, but columns are numbered from 0 to {len(shape) - 1}: give such a number"
            )
        found = np.asarray(weights)
        if found.dtype.kind not in "bf" or found.shape != (shape[column],):
            raise ParameterError(f"given of column {column} must be an array of {shape[column]} booleans or numbers")
        likelihood = found.astype(np.float64)
        if not np.isfinite(likelihood).all() or (likelihood < 0).any():
            raise ParameterError(f"given of column {column} must hold finite numbers of at least 0")
        if not likelihood.any():
            raise impossible(given or {})
        likelihoods[column] = likelihood / likelihood.max()
    return likelihoods


def check_rows(rows: int) -> None:
    """Raise ParameterError if ``rows`` is negative."""
    check_whole("rows", rows, least=0)


class ImpossibleEvidenceError(ParameterError):
    """The evidence has probability 0 in the distribution."""


def impossible(given: Evidence) -> ImpossibleEvidenceError:
    """Return the error for evidence of probability 0; it names columns, never codes."""
    columns = ", ".join(str(column) for column in sorted(given))
    which = f"column {columns}" if len(given) == 1 else f"columns {columns}"
    return ImpossibleEvidenceError(
        f"given asks for values of {which} that have probability 0 in the distribution: give other values"
    )


def codes_dtype(shape: Sequence[int]) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned type that holds every column's codes."""
    return np.min_scalar_type(max(shape, default=1) - 1)


_SMALL_GROUP = 256
"""Groups of on average fewer rows than this are shuffled all together, larger ones each on its own, which is then
faster.  A safety limit of time: either way all orders are equally likely."""


def systematic_counts(probabilities: FloatArray, totals: IntArray, rng: Generator) -> IntArray:
    """Round ``totals[:, None] * probabilities`` at random to whole numbers that sum to ``totals``.

    Parameters
    ----------
    probabilities
        (g, k) non-negative weights of each group, with a positive sum; they need not be normalised.
    totals
        (g,) rows of each group.
    rng
        Source of one uniform offset a group.

    Returns
    -------
    (g, k) counts with the right expectation; each differs from it by less than one, as does each sum over
    neighbouring cells.  A cell of probability 0 has count 0, exactly.
    """
    cumulative = np.cumsum(probabilities, axis=1)
    cumulative /= cumulative[:, -1:]  # the last entry is 1 exactly, also where trailing cells have probability 0
    cumulative *= totals[:, None]
    cumulative += rng.random(len(totals))[:, None]
    bounds = np.minimum(cumulative.astype(np.int64), totals[:, None])
    bounds[:, 1:] -= bounds[:, :-1].copy()
    return bounds


def multinomial_counts(probabilities: FloatArray, totals: IntArray, rng: Generator) -> IntArray:
    """Draw the counts of ``totals`` independent rows of each group, (g, k); parameters as for `systematic_counts`."""
    normalised = probabilities / probabilities.sum(axis=1, keepdims=True)
    return rng.multinomial(totals, normalised).astype(np.int64, copy=False)


def draw_within_groups(
    probabilities: FloatArray, group: AnyArray, rng: Generator, *, independent: bool = False
) -> AnyArray:
    """Draw for each row a cell from its group's distribution, systematically within each group.

    Parameters
    ----------
    probabilities
        (g, k) weights; groups without rows may have any weights.
    group
        (n,) group of each row, in ``range(g)``.
    rng
        Source of randomness.
    independent
        Draw each row on its own instead: counts then scatter as a multinomial law says.

    Returns
    -------
    (n,) cells in the smallest unsigned type.  Within a group the counts are systematic and their assignment
    to rows is a uniformly random one, so that rows that are exchangeable stay so.
    """
    k = probabilities.shape[1]
    totals = np.bincount(group, minlength=len(probabilities))
    present = np.flatnonzero(totals)
    rounding = multinomial_counts if independent else systematic_counts
    counts = rounding(probabilities[present], totals[present], rng)
    cells = np.tile(np.arange(k, dtype=np.min_scalar_type(max(k - 1, 0))), len(present))
    values = np.repeat(cells, counts.ravel())
    ends = np.cumsum(totals[present])
    if len(present) * _SMALL_GROUP > len(group):
        order = rng.permutation(len(group))
        order = order[np.argsort(group[order], kind="stable")]
    else:
        for first, end in pairwise([0, *ends.tolist()]):
            rng.shuffle(values[first:end])
        if len(present) <= 1:
            return values
        radix = group.astype(np.min_scalar_type(len(totals) - 1), copy=False)  # one or two bytes are sorted by digits
        order = np.argsort(radix, kind="stable")
    drawn = np.empty_like(values)
    drawn[order] = values
    return drawn
