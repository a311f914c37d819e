"""Every family of statistics over a tiny domain: `tests/contracts/test_queries.py` asks all of them the same.

To add a family, add a line to `STATISTICS`: a name, and how to make it.  Keep the domain at a few dozen cells, for all
pairs of neighbouring tables are enumerated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from synthdp.domain.axis import Axis
from synthdp.domain.discretize import axis_of, domain_of
from synthdp.domain.domain import Domain
from synthdp.queries.explicit import CellQueries
from synthdp.queries.fourier.binarized import binarize
from synthdp.queries.fourier.characters import CellParities, closure
from synthdp.queries.fourier.monomials import Monomials
from synthdp.queries.fourier.parities import Parities
from synthdp.queries.marginals import Marginals, all_cliques, one_ways
from synthdp.queries.products import ClippedProducts
from synthdp.queries.protocol import Statistic
from synthdp.queries.scores.distances import MarginalDistances
from synthdp.queries.scores.query_distances import QueryDistances
from synthdp.queries.smooth.chebyshev import AverageMoment, ChebyshevTensor
from synthdp.queries.smooth.trigonometric import (
    Cosine,
    Indicator,
    TensorBasis,
    low_order_terms,
    mixed_terms,
    tensor_terms,
)
from synthdp.queries.stack import Stack
from synthdp.queries.subset import Subset
from synthdp.queries.total import Total
from synthdp.schema.columns import Boolean, Categorical, Continuous, Integer, Ordinal
from synthdp.schema.schema import Schema


def cells_of(domain: Domain) -> np.ndarray:
    """Every cell of a domain, those that are never released too; (cells, d)."""
    return np.array(list(itertools.product(*map(range, domain.shape))), np.int64)


def mixed() -> Domain:
    """An ordered, a labelled and a special-valued column, with missing and other cells: 4 x 4 x 4."""
    columns = {"n": Integer(0, 1, nullable=True), "c": Categorical(["a", "b"], nullable=True)}
    schema = Schema({**columns, "x": Continuous(0, 1, special=(-1.0,))})
    return domain_of(schema, bins=2)


def ordered() -> Domain:
    """Two ordered columns: 5 x 4."""
    return domain_of(Schema({"x": Continuous(0, 1), "y": Integer(0, 2)}), bins=4)


def bits() -> Domain:
    """Three booleans without a cell for others: 2 x 2 x 2."""
    return Domain(tuple(Axis(f"b{j}", Boolean(), np.arange(2), np.arange(2)) for j in range(3)))


def merged() -> Domain:
    """A column whose missing, other and first cells are one, and one beside it: 2 x 3."""
    lazy = Axis("m", Ordinal(["a", "b", "c"], nullable=True), np.arange(5), np.array([0, 1, 1, 0, 0]))
    return Domain((lazy, axis_of("b", Boolean())))


def expected(statistic: Statistic, finer: int) -> np.ndarray:
    """Some expected sums, none of them a whole number of rows."""
    return (np.arange(statistic.k) % 3) * finer * statistic.unit + np.arange(statistic.k) % 2


def family_of_cells() -> CellQueries:
    domain = ordered()
    return CellQueries(domain, np.random.default_rng(1).integers(-3, 4, (3, domain.cells)), unit=2)


def stack(domain: Domain) -> Stack:
    return Stack((one_ways(domain), TensorBasis(domain, mixed_terms(domain, order=1, degree=2), unit=6)))


def distances(domain: Domain, order: int, unit: int) -> MarginalDistances:
    marginals = Marginals(domain, all_cliques(domain, order))
    return MarginalDistances(marginals, expected(marginals, unit), unit)


def query_distances(queries: Statistic, resolution: int) -> QueryDistances:
    return QueryDistances(queries, expected(queries, resolution), resolution)


def products(norm: int) -> ClippedProducts:
    scores = (np.array([-9, 0, 3, 5]), np.array([1, -1, 0, 7]), np.array([2, 0, 8, -6]))
    return ClippedProducts(mixed(), scores, 4, norm)


STATISTICS: dict[str, Callable[[], Statistic]] = {
    "one-way marginals": lambda: one_ways(mixed()),
    "all marginals": lambda: Marginals(mixed(), tuple(c for k in (1, 2, 3) for c in all_cliques(mixed(), k))),
    "marginals of merged cells": lambda: Marginals(merged(), ((1, 0), (0,), (0,))),
    "distances": lambda: distances(mixed(), 1, 1),
    "distances in a finer unit": lambda: distances(mixed(), 2, 7),
    "cosines": lambda: TensorBasis(ordered(), tensor_terms((0, 1), 3)),
    "cosines in a coarse unit": lambda: TensorBasis(ordered(), low_order_terms((0, 1), order=2, degree=3), unit=3),
    "mixed terms": lambda: TensorBasis(mixed(), mixed_terms(mixed(), order=2, degree=2), unit=2**10),
    "a constant and an indicator": lambda: TensorBasis(mixed(), ((Cosine(0, 0),), (Indicator(1, 2),), ()), unit=5),
    "a stack": lambda: stack(mixed()),
    "a Chebyshev tensor": lambda: ChebyshevTensor(ordered(), 3),
    "average moments": lambda: AverageMoment(ordered()),
    "monomials": lambda: Monomials(binarize(Schema({f"b{j}": Boolean() for j in range(3)})), 2),
    "parities": lambda: Parities(binarize(Schema({f"b{j}": Boolean() for j in range(3)})), (1, 3, 2)),
    "parities of cells": lambda: CellParities(bits(), closure(bits(), ((0, 1), (1, 2)))),
    "values of cells": family_of_cells,
    "distances of queries": lambda: query_distances(family_of_cells(), 3),
    "a subset": lambda: Subset(family_of_cells(), np.array([2, 0])),
    "products of columns": lambda: products(norm=40),
    "products that no row reaches the norm of": lambda: products(norm=10_000),
    "the total": lambda: Total(mixed()),
}
"""Families of statistics, by name."""
