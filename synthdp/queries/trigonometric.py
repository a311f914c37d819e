"""The even trigonometric (Chebyshev) basis over the ordered axes of a domain, mixed with indicators of the others.

A term multiplies one factor per column: T_m(x) = cos(m arccos x) at the cell's point x in [-1, 1] for an ordered axis,
an indicator of one cell for any axis.  Terms are rounded to whole multiples of 1 / denominator before they are summed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from synthdp.arrays import Codes, Features, FloatArray, frozen
from synthdp.checks import whole
from synthdp.codec import DocumentSource, Store, file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import LARGEST_DENOMINATOR, Norms, RecordBounds
from synthdp.queries.protocol import check_overflow


@file_form("Cosine")
@dataclass(frozen=True, slots=True, order=True)
class Cosine:
    """The factor cos(degree * arccos x) on one column, of degree 0 always 1.

    The factor is 0 in cells without a point x, such as missing values, if the degree is above 0.
    """

    column: int
    degree: int

    def is_outside(self, domain: Domain) -> bool:  # noqa: ARG002
        """Return False: only an `Indicator` may be 1 for an out-of-domain value and 0 for all others."""
        return False


@file_form("Indicator")
@dataclass(frozen=True, slots=True, order=True)
class Indicator:
    """The factor that is 1 in one cell of one column and 0 in all others."""

    column: int
    cell: int

    def is_outside(self, domain: Domain) -> bool:
        """Return whether the cell is out of domain, so that the average is 0 if all rows are in domain."""
        return not domain.axes[self.column].releasable[self.cell]


Factor: TypeAlias = Cosine | Indicator
Term: TypeAlias = tuple[Factor, ...]

_FACTORS: dict[type[Factor], str] = {Cosine: "cosine", Indicator: "indicator"}
"""The names of the two kinds of factors in files of version 1."""


@file_form("TensorBasis", short="tensor")
@dataclass(frozen=True, slots=True, eq=False)
class TensorBasis(LinearFamily):
    """Sums over rows of products of cosine and indicator factors.

    Every term lies in [-1, 1], so one record adds at most ``denominator`` to each of the k sums: l1 = k · denominator,
    l2 = sqrt(k) · denominator, attained where all cosines are 1 (x = 1).

    Parameters
    ----------
    domain
        The axes; a Cosine needs an ordered one.
    terms
        The factors of each term, on different columns.
    denominator
        The whole number that stands for 1.
    swap
        A proven bound on the change when a record is replaced, if better than twice the bound of adding one.
    most
        How many terms of one record are not 0 at most, where that is proven to be fewer than all: an indicator of a
        cell without a point, such as missing values, excludes every cosine of its column.
    """

    domain: Domain
    terms: tuple[Term, ...]
    denominator: int = 2**20
    swap: Norms | None = None
    most: int | None = None
    _tables: tuple[dict[Factor, FloatArray], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(tuple(term) for term in self.terms))
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        if not self.terms:
            raise ParameterError("terms must hold at least one term")
        for term in self.terms:
            columns = [factor.column for factor in term]
            if len(set(columns)) < len(columns) or not all(0 <= j < len(self.domain) for j in columns):
                raise ParameterError(
                    "the factors of each of terms must be on different columns, at positions from 0 to "
                    f"{len(self.domain) - 1}"
                )
        factors = sorted({f for term in self.terms for f in term}, key=lambda f: (f.column, repr(f)))
        tables: tuple[dict[Factor, FloatArray], ...] = tuple({} for _ in self.domain.axes)
        for factor in factors:
            tables[factor.column][factor] = frozen(factor_values(self.domain, factor))
        object.__setattr__(self, "_tables", tables)
        check_overflow(self)

    def to_saved(self, store: Store) -> dict[str, Any]:
        """Return what a file stores; in files of version 1 a factor is its name, its column and its degree or cell."""
        fields = store.fields(self)
        if not store.brief:
            return fields
        terms = [[[_FACTORS[type(f)], f.column, astuple(f)[1]] for f in term] for term in self.terms]
        proven = {name: fields[name] for name in ("swap", "most") if fields[name] is not None}
        return {"domain": fields["domain"], "terms": terms, "unit": self.denominator, **proven}

    @classmethod
    def of_saved(cls, document: Mapping[str, Any], source: DocumentSource) -> TensorBasis:
        """Read the basis from a file of any version."""
        if "unit" not in document:
            found: TensorBasis = source.fields(cls, document)
            return found
        kinds = {name: kind for kind, name in _FACTORS.items()}
        terms = tuple(tuple(kinds[name](column, number) for name, column, number in t) for t in document["terms"])
        swap, most = (source.read(document.get(name), kind | None) for name, kind in (("swap", Norms), ("most", int)))
        return cls(source.read(document["domain"], Domain), terms, source.read(document["unit"], int), swap, most)

    def place_of(self, column: int, cell: int) -> int | None:
        """Return the position of the answer that counts the rows in one cell of a column, ``None`` if none does.

        See `CellCounting`.
        """
        term = (Indicator(column, cell),)
        return self.terms.index(term) if term in self.terms else None

    @property
    def k(self) -> int:
        """Number of terms."""
        return len(self.terms)

    @property
    def unit(self) -> str:
        """What an answer is, for receipts: a sum over rows of products of cosines, named sums of cosines."""
        return "sums of cosines"

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: a record adds at most ``denominator`` to each of at most ``most`` terms."""
        most = self.k if self.most is None else self.most
        one = Norms.within(self.k, self.denominator, l1=most * self.denominator, l2_squared=most * self.denominator**2)
        return RecordBounds.of(one, self.swap)

    def real_features(self, codes: Codes) -> FloatArray:
        """Return the terms of each row as real numbers in [-1, 1], (n, k), before they are rounded.

        Weights are fitted with these terms; private rows are summed by the rounded terms, because exact noise needs
        whole numbers.
        """
        values = {
            factor: table[codes[:, j]] for j, tables in enumerate(self._tables) for factor, table in tables.items()
        }
        features: FloatArray = np.ones((self.k, len(codes)))  # a term is a row: factors are multiplied where they lie
        for row, term in zip(features, self.terms, strict=True):
            for factor in term:
                row *= values[factor]
        return features.T

    def features(self, codes: Codes) -> Features:
        """Return the terms of each row, (n, k), rounded to whole multiples of 1 / ``denominator``."""
        return np.rint(self.real_features(codes) * self.denominator).astype(np.int64)


def factor_values(domain: Domain, factor: Factor) -> FloatArray:
    """Return a factor's value in every cell of its axis, (size,).

    Raises
    ------
    ParameterError
        If a cosine is asked of an axis without order, or a cell does not exist.
    """
    axis = domain.axes[factor.column]
    if isinstance(factor, Indicator):
        if not 0 <= factor.cell < axis.size:
            raise ParameterError(
                f"cell ({factor.cell}) of an Indicator on column {axis.name!r} must be from 0 to {axis.size - 1}"
            )
        return np.asarray(np.arange(axis.size) == factor.cell, np.float64)
    if factor.degree < 0:
        raise ParameterError(f"degree ({factor.degree}) of a Cosine must be at least 0")
    if factor.degree == 0:
        return np.ones(axis.size)
    if not axis.grid.ordered:
        raise ParameterError(f"column {axis.name!r} has no order, which a Cosine needs: name an ordered column")
    return chebyshev(axis.points, factor.degree)


def chebyshev(x: FloatArray, degree: int) -> FloatArray:
    """Return T_degree(x) = cos(degree * arccos x), and 0 where x is NaN.

    Numbers beyond [-1, 1] count as its ends.
    """
    inside = np.nan_to_num(np.clip(x, -1.0, 1.0), nan=0.0)
    return np.where(np.isnan(x), 0.0, np.cos(degree * np.arccos(inside)))


def tensor_terms(columns: Sequence[int], t: int) -> tuple[Term, ...]:
    """Return all products of cosines of degree below ``t`` over d columns, except the constant: t^d - 1 terms."""
    degrees = itertools.product(range(t), repeat=len(columns))
    return tuple(
        tuple(Cosine(j, m) for j, m in zip(columns, degree, strict=True) if m) for degree in degrees if any(degree)
    )


def mixed_terms(domain: Domain, *, order: int, degree: int) -> tuple[Term, ...]:
    """Return the products of at most ``order`` factors on different columns of a mixed table.

    An ordered column contributes cosines of degree 1 to ``degree`` and indicators of its cells without a point
    (missing, special, other); any other column contributes the indicator of each of its cells.
    """
    per_column: list[list[Factor]] = []
    for j, axis in enumerate(domain.axes):
        pointless = np.flatnonzero(np.isnan(axis.points))
        cosines: list[Factor] = [Cosine(j, m) for m in range(1, degree + 1)] if axis.grid.ordered else []
        per_column.append(cosines + [Indicator(j, int(cell)) for cell in pointless])
    terms: list[Term] = []
    for size in range(1, order + 1):
        for chosen in itertools.combinations(per_column, size):
            terms.extend(itertools.product(*chosen))
    return tuple(terms)


def out_of_domain_terms(domain: Domain, *, order: int) -> tuple[Term, ...]:
    """Return the indicators of out-of-domain values, to be asked beside smooth functions so that such rows are known.

    Each column that has an out-of-domain cell has the indicator of the first one; with ``order`` 2 each two columns
    also have the product of theirs.
    """
    outside = [(j, np.flatnonzero(~axis.releasable)) for j, axis in enumerate(domain.axes)]
    cells = [Indicator(j, int(found[0])) for j, found in outside if len(found)]
    singles: list[Term] = [(cell,) for cell in cells]
    pairs: list[Term] = [(a, b) for i, a in enumerate(cells) for b in cells[i + 1 :]] if order > 1 else []
    return (*singles, *pairs)
