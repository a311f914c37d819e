"""Products of the scores of two columns, clipped: the second moments of many columns for little noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import Answers, AnyArray, Codes, Features, FloatArray, IntArray
from synthdp.checks import whole
from synthdp.codec import file_form
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError, SensitivityError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds, largest, whole_numbers
from synthdp.queries.protocol import check_overflow

LARGEST_NUMBER = 2**30
"""Largest resolution and clipping norm, so that their squares are exact.  A safety limit."""

_BELOW = 1 - 1e-9
"""Factor slightly below 1 on a row's clipping norm: floating-point rounding then never exceeds the norm.  A numerical
tolerance.
"""


class RowProducts(Protocol):
    """The clipped products, (m, k), of m rows, stored so that their means are computed fast: a fit computes them often."""

    def of_rows(self, rows: slice) -> AnyArray:
        """Return the clipped products of the rows in a slice, (rows, k), from which a fit computes slopes."""

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the mean of each product, (k,), over rows with ``weights`` (m,), to compare with noisy means."""

    def sums(self, coefficients: FloatArray) -> FloatArray:
        """Return the inner product of each row's products with ``coefficients`` (k,), (m,): a change of log-weights."""


class Products(LinearFamily, ABC):
    """Base of sums over rows of the products of two columns' scores; a subclass says how products are clipped."""

    __slots__ = ()

    domain: Domain
    scores: tuple[IntArray, ...]
    resolution: int

    @property
    @abstractmethod
    def k(self) -> int:
        """Number of products."""

    @property
    @abstractmethod
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The positions of the two columns of each product, (k,) each, in the order of the answers."""

    @property
    @abstractmethod
    def bounds(self) -> RecordBounds:
        """The sensitivity, in 1 / ``denominator``."""

    @abstractmethod
    def features(self, codes: Codes) -> Features:
        """Return each row's clipped products, (n, k), in whole multiples of 1 / ``denominator``."""

    @abstractmethod
    def clipped_alone(self, products: FloatArray) -> FloatArray:
        """Return products of two columns, any shape, clipped by the limit on a single product.

        Products are unchanged where a row's products are scaled down together: the scale depends on the other products.
        """

    @abstractmethod
    def of_codes(self, codes: Codes) -> RowProducts:
        """Return the clipped products, (m, k), of rows given as (m, d) codes of the domain's axes, for a fit."""

    @property
    def unit(self) -> str:
        """What an answer counts, for receipts: products of two scores."""
        return "products"

    @property
    def denominator(self) -> int:
        """The whole number that stands for a product of 1: the squared resolution."""
        return self.resolution**2


@file_form("products")
@dataclass(frozen=True, slots=True, eq=False)
class ClippedProducts(Products):
    """For every two columns the sum over rows of the product of their scores.

    A row whose products have a Euclidean norm above ``norm`` is scaled down to it.  So a record changes all answers
    together by at most ``norm``, however far its scores reach (Mironov et al. 2016 clip gradients so).  The scale is a
    function of the row alone: the queries stay linear.

    Parameters
    ----------
    domain
        Domain of d >= 2 axes.
    scores
        For each axis the (size,) whole-number scores of its cells, in multiples of ``resolution``.
    resolution
        The whole number that stands for a score of 1.
    norm
        Largest norm of a row's products, in multiples of ``resolution`` squared.

    Raises
    ------
    ParameterError
        If the scores do not fit the domain, or a number is not positive.
    SensitivityError
        If the scores are so large that products of theirs might overflow.
    """

    domain: Domain
    scores: tuple[IntArray, ...]
    resolution: int
    norm: int

    def __post_init__(self) -> None:
        for name in ("resolution", "norm"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1, most=LARGEST_NUMBER))
        object.__setattr__(self, "scores", _checked(self.domain, self.scores))
        check_overflow(self)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The positions of the two columns of each product, (k,) each, in the order of the answers."""
        left, right = np.triu_indices(len(self.domain), 1)
        return left, right

    @property
    def k(self) -> int:
        """Number of products."""
        return math.comb(len(self.domain), 2)

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: a record adds a vector of Euclidean length ``norm`` at most, in 1 / ``denominator``."""
        return RecordBounds.of(Norms.within(self.k, self.norm, l2_squared=self.norm**2))

    def features(self, codes: Codes) -> Features:
        """Return each row's products after clipping, (n, k), in whole multiples of 1 / ``denominator``.

        Products are rounded towards 0, so that the norm stays within ``norm``.
        """
        scores = scores_of(self.scores, codes)
        left, right = self.pairs
        return np.trunc(scores[:, left] * scores[:, right] * self.clipping(scores)[:, None]).astype(np.int64)

    def clipped_alone(self, products: FloatArray) -> FloatArray:
        """Return the products unchanged, since the scale of a row depends on all its products."""
        return products

    def of_codes(self, codes: Codes) -> RowProducts:
        """Return the clipped products of (m, d) codes, stored as scores and clipping factors: pairs are many."""
        whole_scores = scores_of(self.scores, codes)
        scaled = (whole_scores / self.resolution).astype(np.float32)
        return _EveryProduct(scaled, self.clipping(whole_scores).astype(np.float32), self.pairs)

    def clipping(self, scores: IntArray) -> FloatArray:
        """Return the factor, (n,), that scales each row's products to a norm of at most ``norm``.

        1 if they are shorter.
        """
        squares = scores**2
        squared = (squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1)) // 2  # whole numbers: exact
        factor = np.ones(len(scores))
        far = squared > self.norm**2
        factor[far] = self.clipped_to / np.sqrt(squared[far])
        return factor

    @property
    def clipped_to(self) -> float:
        """The norm to which longer rows are scaled: slightly below ``norm``, to leave room for rounding."""
        return self.norm * _BELOW


@file_form("pair products")
@dataclass(frozen=True, slots=True, eq=False)
class PairProducts(Products):
    """For some pairs of columns the sum over rows of the product of their scores, each product clipped on its own.

    The sums are exact, as all numbers are whole.  Where few pairs are asked, none loses to clipping because of a row's
    other products.

    Parameters
    ----------
    domain
        Domain of d >= 2 axes.
    scores
        For each axis the (size,) whole-number scores of its cells, in multiples of ``resolution``.
    chosen
        The positions of the two columns of each of k products: each pair once.
    resolution
        The whole number that stands for a score of 1.
    most
        Largest size of a product, in multiples of ``resolution`` squared.

    Raises
    ------
    ParameterError
        If the scores do not fit the domain, a pair is none, or a number is not positive.
    SensitivityError
        If the scores are so large that products of theirs might overflow.
    """

    domain: Domain
    scores: tuple[IntArray, ...]
    chosen: tuple[tuple[int, int], ...]
    resolution: int
    most: int

    def __post_init__(self) -> None:
        for name in ("resolution", "most"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1, most=LARGEST_NUMBER))
        object.__setattr__(self, "scores", _checked(self.domain, self.scores))
        pairs = tuple((int(a), int(b)) for a, b in self.chosen)
        if not pairs or len(set(pairs)) < len(pairs) or any(not 0 <= a < b < len(self.domain) for a, b in pairs):
            raise ParameterError(
                "chosen must hold at least one pair (a, b) of column positions with a < b, each pair once"
            )
        object.__setattr__(self, "chosen", pairs)
        check_overflow(self)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The positions of the two columns of each product, (k,) each."""
        left, right = np.array(self.chosen, np.int64).T
        return left, right

    @property
    def k(self) -> int:
        """Number of products."""
        return len(self.chosen)

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: a record changes each answer by at most ``most``, in 1 / ``denominator``."""
        return RecordBounds.of(Norms.within(self.k, self.most))

    def features(self, codes: Codes) -> Features:
        """Return each row's products, each clipped to ±``most``, (n, k), in whole multiples of 1 / ``denominator``."""
        scores = scores_of(self.scores, codes)
        left, right = self.pairs
        return np.asarray(np.clip(scores[:, left] * scores[:, right], -self.most, self.most), np.int64)

    def clipped_alone(self, products: FloatArray) -> FloatArray:
        """Return products, any shape, each clipped to ±``most`` / ``denominator``, as a row's products are."""
        most = self.most / self.denominator
        return np.asarray(np.clip(products, -most, most))

    def of_codes(self, codes: Codes) -> RowProducts:
        """Return the clipped products of (m, d) codes, stored as an (m, k) matrix: pairs are few."""
        return _FewProducts((self.features(codes) / self.denominator).astype(np.float32))


class _FewProducts(NamedTuple):
    """Products of a few pairs, stored as an (m, k) matrix."""

    products: AnyArray

    def of_rows(self, rows: slice) -> AnyArray:
        """Return the clipped products of the rows in a slice, (rows, k), from which a fit computes slopes."""
        return self.products[rows]

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the mean of each product, (k,), over rows with ``weights`` (m,), to compare with noisy means."""
        return np.asarray((weights / weights.sum()).astype(np.float32) @ self.products, np.float64)

    def sums(self, coefficients: FloatArray) -> FloatArray:
        """Return the inner product of each row's products with ``coefficients`` (k,), (m,): a change of log-weights."""
        return np.asarray(self.products @ coefficients.astype(np.float32), np.float64)


class _EveryProduct(NamedTuple):
    """Products of all pairs of columns, stored as (m, columns) scores and the (m,) factor that clips them."""

    scores: AnyArray
    clipping: AnyArray
    pairs: tuple[IntArray, IntArray]

    def of_rows(self, rows: slice) -> AnyArray:
        """Return the clipped products of the rows in a slice, (rows, k), from which a fit computes slopes."""
        left, right = self.pairs
        return self.scores[rows, left] * self.scores[rows, right] * self.clipping[rows, None]

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the mean of each product, (k,), over rows with ``weights`` (m,), to compare with noisy means."""
        weighted = self.scores * (weights / weights.sum() * self.clipping).astype(np.float32)[:, None]
        return np.asarray((self.scores.T @ weighted)[self.pairs], np.float64)

    def sums(self, coefficients: FloatArray) -> FloatArray:
        """Return the inner product of each row's products with ``coefficients`` (k,), (m,): a change of log-weights."""
        matrix = np.zeros((self.scores.shape[1],) * 2, np.float32)
        matrix[self.pairs] = coefficients
        sums = self.clipping * np.einsum("ij,ij->i", self.scores @ matrix, self.scores)
        return np.asarray(sums, np.float64)


def scores_of(scores: Sequence[IntArray], codes: Codes) -> IntArray:
    """Return the scores of each row's cells, (n, d), from the scores of all cells, (size,) per column."""
    return np.column_stack([score[codes[:, j]] for j, score in enumerate(scores)])


def _checked(domain: Domain, scores: Sequence[IntArray]) -> tuple[IntArray, ...]:
    """Return scores as int64 arrays, (size,) per column; raise unless they fit the domain and products are exact."""
    if len(domain) < 2 or [len(score) for score in scores] != list(domain.shape):
        raise ParameterError(
            "scores must hold one array of whole numbers per column, with one number per cell, for at least two columns"
        )
    found = tuple(whole_numbers("scores", score) for score in scores)
    if sum(largest(score) ** 2 for score in found) >= 2**31:
        raise SensitivityError(
            "scores are too large for exact sums in 64 bits: give smaller scores, with a smaller resolution"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductSums:
    """Noisy sums over rows of products of functions of d columns, one function of each.

    Parameters
    ----------
    axes
        The d columns and the cells that can be asked about.
    features
        For each column (f_j, cells_j): the values of its functions in the cells.
    values
        (f_1, ..., f_d) noisy sums of all products.
    variance
        Variances of their noise, in the shape of ``values``; noises are independent.
    """

    axes: tuple[Axis, ...]
    features: tuple[FloatArray, ...]
    values: FloatArray
    variance: FloatArray

    @property
    def noise(self) -> float:
        """The sum of all variances, by which the source with the least noise is chosen among several of one table."""
        return float(self.variance.sum())

    @classmethod
    def of_cells(cls, axes: Sequence[Axis], counts: FloatArray, variance: FloatArray) -> ProductSums:
        """Return noisy counts of cells, in the shape of ``axes``, as `ProductSums` of indicators: one function per cell."""
        features = tuple(np.eye(axis.size) for axis in axes)
        return cls(axes=tuple(axes), features=features, values=counts, variance=variance)


@runtime_checkable
class TellsTables(Protocol):
    """A family of queries from whose noisy answers tables of some columns can be recovered, to answer questions."""

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return what determines the noisy table of the columns ``names``, from (k,) noisy answers; ``None`` if too few.

        ``rows`` is the number of rows and its standard deviation, for a family that does not measure it.
        """
        ...
