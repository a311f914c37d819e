"""Every family of statistics over a tiny domain: `tests/contracts/test_queries.py` asks all of them the same.

To add a family, add a line to `STATISTICS`, a name and how to make it, and one to `SHAPES`, how to draw one of any shape
and denominator.  Keep domains at a few dozen cells, for all pairs of neighbouring tables are enumerated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of, domain_of, releasable_domain
from synthdp.queries.class_offsets import ClassOffsets, axis_of_offsets
from synthdp.queries.distances import MarginalDistances, PairDistances
from synthdp.queries.interactions import Interactions
from synthdp.queries.linear import CellQueries, FittingRows, Stack, Subset, Total
from synthdp.queries.marginals import Marginals, all_cliques, counted_apart, one_ways
from synthdp.queries.norms import Norms
from synthdp.queries.products import ClippedProducts, PairProducts
from synthdp.queries.protocol import LinearQueries, Statistic
from synthdp.queries.trigonometric import (
    Cosine,
    Indicator,
    TensorBasis,
    Term,
    mixed_terms,
    out_of_domain_terms,
    tensor_terms,
)
from synthdp.schema.columns import Boolean, Categorical, Continuous, Integer, Ordinal, Weight
from synthdp.schema.schema import Schema
from synthdp.works.net.mwem import QueryDistances
from synthdp.works.net.net import NetScores, multisets
from synthdp.works.net.private_boosting import BoostingScores
from synthdp.works.polynomials.binarized import binarize
from synthdp.works.polynomials.decision_list_release import pattern_table, prefix_table
from synthdp.works.polynomials.decision_lists import decision_list_schema
from synthdp.works.polynomials.fourier_marginals import CellParities, closure
from synthdp.works.polynomials.list_coefficients import ListCoefficients, PrefixCoefficients
from synthdp.works.polynomials.monomial_release import Monomials
from synthdp.works.polynomials.parities import Parities
from synthdp.works.polynomials.polynomial_families import AverageConjunctions
from synthdp.works.smooth.chebyshev import AverageMoment, ChebyshevTensor, TensorWithMisfits
from synthdp.works.smooth.fitted_points import random_averages
from synthdp.works.smooth.product import MomentOrders, moment_basis


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
    return (np.arange(statistic.k) % 3) * finer * statistic.denominator + np.arange(statistic.k) % 2


def hiding() -> Domain:
    """Columns of two, three and two values that fit, and a cell for misfits in each: 3 x 4 x 3."""
    return domain_of(Schema({"a": Boolean(), "b": Ordinal(["x", "y", "z"]), "c": Boolean()}))


def moments_with_misfits(moments: MomentOrders) -> TensorBasis:
    return moment_basis(domain_of(Schema({"x": Continuous(0, 1, nullable=True), "y": Integer(0, 3)}), bins=4), moments)


def some_averages(random: tuple[Term, ...]) -> TensorBasis:
    return random_averages(domain_of(Schema({"x": Integer(0, 3), "y": Integer(0, 3)}), bins=4), random)


def family_of_cells() -> CellQueries:
    domain = ordered()
    return CellQueries(domain, np.random.default_rng(1).integers(-3, 4, (3, domain.cells)), denominator=2)


def hiding_values() -> CellQueries:
    """Values far from 0 over cells that misfits are joined to: a misfit in place of a row changes more than another row."""
    domain = releasable_domain(hiding())
    return CellQueries(domain, np.random.default_rng(1).integers(5, 8, (3, domain.cells)), denominator=2)


def misfits_of_columns(domain: Domain) -> TensorBasis:
    terms = out_of_domain_terms(domain, order=1)
    return TensorBasis(domain, terms, 1, swap=Norms(len(terms), len(terms), 1))


def stack(domain: Domain) -> Stack:
    return Stack((one_ways(domain), TensorBasis(domain, mixed_terms(domain, order=1, degree=2), denominator=6)))


def distances(domain: Domain, order: int, denominator: int) -> MarginalDistances:
    marginals = Marginals(domain, all_cliques(domain, order))
    return MarginalDistances(marginals, expected(marginals, denominator), denominator)


def pair_distances(domain: Domain, rows: int, denominator: int) -> PairDistances:
    """Expectations of so many rows, about as many in each cell."""
    ends = [np.linspace(0, rows * denominator, size + 1).astype(np.int64) for size in domain.shape]
    return PairDistances(domain, tuple(np.diff(end) for end in ends), denominator)


def query_distances(queries: Statistic, resolution: int) -> QueryDistances:
    return QueryDistances(queries, expected(queries, resolution), resolution)


def products(norm: int) -> ClippedProducts:
    scores = (np.array([-9, 0, 3, 5]), np.array([1, -1, 0, 7]), np.array([2, 0, 8, -6]))
    return ClippedProducts(mixed(), scores, 4, norm)


def some_products(most: int) -> PairProducts:
    every = products(1)
    return PairProducts(every.domain, every.scores, ((1, 2), (0, 1)), 4, most)


def lists(m: int, length: int, order: int, scales: tuple[int, ...], row_scale: int) -> ListCoefficients:
    domain = domain_of(decision_list_schema([f"v{j}" for j in range(m)], length=length))
    tables = tuple(pattern_table(r, order).values for r in range(length + 1))
    return ListCoefficients(domain, m, order, scales, tables, row_scale)


def long_lists(m: int, length: int, scales: tuple[int, ...], row_scale: int) -> PrefixCoefficients:
    domain, order = domain_of(decision_list_schema([f"v{j}" for j in range(m)], length=length)), len(scales) - 1
    return PrefixCoefficients(domain, m, order, scales, prefix_table(length, order).values, row_scale)


def offsets(classes: int, parts: int, *, nullable: bool = True) -> ClassOffsets:
    column = Weight(0.5, 100, classes=classes, nullable=nullable)
    return ClassOffsets(Domain((axis_of_offsets("w", column, parts=parts),)))


def net(queries: LinearQueries, size: int, rows: int) -> NetScores:
    cells = cells_of(queries.domain)[:4]
    return NetScores(queries, cells, multisets(len(cells), size), rows)


STATISTICS: dict[str, Callable[[], Statistic]] = {
    "one-way marginals": lambda: one_ways(mixed()),
    "all marginals": lambda: Marginals(mixed(), tuple(c for k in (1, 2, 3) for c in all_cliques(mixed(), k))),
    "marginals of merged cells": lambda: Marginals(merged(), ((1, 0), (0,), (0,))),
    "interactions": lambda: Interactions(bits(), ((0,), (1, 2), (0, 1, 2)), (5, 3, 1)),
    "interactions with misfits": lambda: Interactions(hiding(), ((1,), (2, 0), (0, 1, 2)), (1, 7, 2)),
    "interactions of merged cells": lambda: Interactions(merged(), ((1, 0), (0,), (0,)), (1, 2, 3)),
    "distances": lambda: distances(mixed(), 1, 1),
    "distances in a finer denominator": lambda: distances(mixed(), 2, 7),
    "distances of pairs": lambda: pair_distances(mixed(), 1, 1),
    "distances of pairs in a finer denominator": lambda: pair_distances(mixed(), 2, 7),
    "distances of pairs of merged cells": lambda: pair_distances(merged(), 1, 3),
    "cosines": lambda: TensorBasis(ordered(), tensor_terms((0, 1), 3)),
    "coarse cosines": lambda: TensorBasis(ordered(), mixed_terms(ordered(), order=2, degree=3), denominator=3),
    "mixed terms": lambda: TensorBasis(mixed(), mixed_terms(mixed(), order=2, degree=2), denominator=2**10),
    "a constant and an indicator": lambda: TensorBasis(
        mixed(), ((Cosine(0, 0),), (Indicator(1, 2),), ()), denominator=5
    ),
    "a stack": lambda: stack(mixed()),
    "a Chebyshev tensor": lambda: ChebyshevTensor(ordered(), 3),
    "a Chebyshev tensor with misfits": lambda: TensorWithMisfits(ChebyshevTensor(ordered(), 3)),
    "a Chebyshev tensor with misfits and growing noise": lambda: TensorWithMisfits(
        ChebyshevTensor(ordered(), 3, growth=1.0)
    ),
    "the smallest Chebyshev tensor with misfits": lambda: TensorWithMisfits(ChebyshevTensor(ordered(), 2)),
    "moments of single columns with misfits": lambda: moments_with_misfits(MomentOrders(4, 1)),
    "the second moments with misfits": lambda: moments_with_misfits(MomentOrders(2, 1)),
    "means with misfits": lambda: moments_with_misfits(MomentOrders(1, 1)),
    "moments of pairs with misfits": lambda: moments_with_misfits(MomentOrders(3, 2)),
    "random averages with misfits": lambda: some_averages(((Cosine(0, 1), Cosine(1, 2)), (Cosine(0, 2), Cosine(1, 1)))),
    "too few random averages for all misfits": lambda: some_averages(((Cosine(0, 1), Cosine(1, 2)),)),
    "average moments": lambda: AverageMoment(ordered()),
    "monomials": lambda: Monomials(binarize(Schema({f"b{j}": Boolean() for j in range(3)})), 2),
    "parities": lambda: Parities(binarize(Schema({f"b{j}": Boolean() for j in range(3)})), (1, 3, 2)),
    "parities of cells": lambda: CellParities(bits(), closure(bits(), ((0, 1), (1, 2)))),
    "parities of cells with misfits": lambda: CellParities(hiding(), closure(hiding(), ((0, 1), (1, 2)))),
    "parities with misfits, without the total": lambda: CellParities(hiding(), closure(hiding(), ((0, 1), (2,)))[1:]),
    "values of cells": family_of_cells,
    "distances of queries": lambda: query_distances(family_of_cells(), 3),
    "a subset": lambda: Subset(family_of_cells(), np.array([2, 0])),
    "values of cells of the rows that fit": lambda: FittingRows(hiding_values()),
    "scores of a net of the rows that fit": lambda: net(FittingRows(hiding_values()), 2, 5),
    "the rows that fit": lambda: FittingRows(Total(mixed())),
    "tables without misfits": lambda: counted_apart(Marginals(releasable_domain(mixed()), ((0,), (1, 2)))),
    "misfits of each column": lambda: misfits_of_columns(mixed()),
    "products of columns": lambda: products(norm=40),
    "products that no row reaches the norm of": lambda: products(norm=10_000),
    "products of some pairs of columns": lambda: some_products(most=20),
    "products of some pairs that are never clipped": lambda: some_products(most=10_000),
    "the total": lambda: Total(mixed()),
    "offsets in classes": lambda: offsets(3, 4),
    "offsets in classes of one cell": lambda: offsets(2, 1),
    "coefficients of lists": lambda: lists(2, 2, 2, (8, 5, 3), 4),
    "coefficients of long lists": lambda: long_lists(2, 2, (8, 5, 3), 4),
    "coefficients of conjunctions on average": lambda: AverageConjunctions(
        binarize(Schema({f"b{j}": Boolean() for j in range(3)})), 2, 0.3, 100
    ),
    "scores of boosting": lambda: BoostingScores(family_of_cells(), np.array([[6, 0, 2], [9, -3, 1]]), 6, 4, 2),
    "scores of a net": lambda: net(family_of_cells(), 2, 5),
}
"""Families of statistics, by name."""

UNITS = (1, 1000, 10**8, 2**31, 2**40)
"""Sizes of the whole number that stands for 1, far beyond where squares leave 64 bits."""

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]


def of_sizes(*sizes: int) -> Domain:
    """A domain of so many cells a column, down to one."""
    column = Ordinal(["a", "b", "c", "d", "e"])
    return Domain(tuple(Axis(f"c{j}", column, np.arange(5), np.minimum(range(5), n - 1)) for j, n in enumerate(sizes)))


def any_domain(draw: Draw, *, most: int = 3) -> Domain:
    return of_sizes(*draw(st.lists(st.integers(1, 3), min_size=1, max_size=most)))


def any_ordered(draw: Draw) -> Domain:
    columns = {f"x{j}": Continuous(0, 1) for j in range(draw(st.integers(1, 2)))}
    return domain_of(Schema(columns), bins=draw(st.integers(1, 4)))


def any_bits(draw: Draw) -> Any:
    return binarize(Schema({f"b{j}": Boolean() for j in range(draw(st.integers(1, 3)))}))


def any_numbers(draw: Draw, *shape: int, size: int) -> np.ndarray:
    """Whole numbers up to ``size``, most of them at an end."""
    ends = st.sampled_from([0, 1, -1, size, -size, size // 2 + 1])
    flat = draw(st.lists(ends, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return np.array(flat, np.int64).reshape(shape)


def any_marginals(draw: Draw) -> Marginals:
    domain = any_domain(draw)
    every = [c for order in range(1, len(domain) + 1) for c in all_cliques(domain, order)]
    return Marginals(domain, tuple(draw(st.lists(st.sampled_from(every), min_size=1, max_size=5))))


def any_interactions(draw: Draw, denominator: int) -> Interactions:
    marginals = any_marginals(draw)
    return Interactions(marginals.domain, marginals.cliques, tuple(denominator for _ in marginals.cliques))


def any_cells(draw: Draw, denominator: int) -> CellQueries:
    domain = any_domain(draw)
    few = any_numbers(draw, draw(st.integers(1, 4)), domain.cells, size=denominator)
    return CellQueries(domain, np.tile(few, (draw(st.sampled_from([1, 3, 500])), 1)), denominator=denominator)


def any_small_cells(draw: Draw) -> CellQueries:
    domain = any_domain(draw, most=2)
    return CellQueries(domain, any_numbers(draw, draw(st.integers(1, 3)), domain.cells, size=3), denominator=3)


def any_subset(draw: Draw, denominator: int) -> Subset:
    family = any_cells(draw, denominator)
    return Subset(family, np.array(draw(st.lists(st.integers(0, family.k - 1), min_size=1, max_size=30))))


def any_stack(draw: Draw, denominator: int) -> Stack:
    domain = any_domain(draw)
    return Stack(
        (
            CellQueries(domain, any_numbers(draw, 2, domain.cells, size=denominator), denominator=denominator),
            one_ways(domain),
        )
    )


def any_distances(draw: Draw, denominator: int) -> MarginalDistances:
    marginals = any_marginals(draw)
    return MarginalDistances(marginals, any_numbers(draw, marginals.k, size=2**63 - 1), denominator)


def any_pair_distances(draw: Draw, denominator: int) -> PairDistances:
    domain = of_sizes(*draw(st.lists(st.integers(2, 3), min_size=2, max_size=3)))
    total = draw(st.sampled_from([1, denominator, 2**60, 2**61]))
    ends = [draw(st.integers(0, size - 1)) for size in domain.shape]
    margins = [np.eye(size, dtype=np.int64)[end] * total for size, end in zip(domain.shape, ends, strict=True)]
    return PairDistances(domain, tuple(margins), denominator)


def any_query_distances(draw: Draw, denominator: int) -> QueryDistances:
    queries = any_small_cells(draw)
    return QueryDistances(queries, any_numbers(draw, queries.k, size=2**63 - 1), denominator)


def any_boosting(draw: Draw, denominator: int) -> BoostingScores:
    queries, rounds = any_small_cells(draw), draw(st.integers(1, 3))
    expected = any_numbers(draw, rounds, queries.k, size=2**63 - 1)
    return BoostingScores(queries, expected, denominator, draw(st.sampled_from([1, denominator, 2**61])), denominator)


def any_products(draw: Draw, denominator: int) -> ClippedProducts:
    domain = of_sizes(*draw(st.lists(st.integers(1, 3), min_size=2, max_size=3)))
    scores = tuple(any_numbers(draw, size, size=draw(st.sampled_from([9, 1000, 2**40]))) for size in domain.shape)
    return ClippedProducts(domain, scores, denominator, draw(st.sampled_from([1, 50, 2**20, 2**40])))


def any_pair_products(draw: Draw, denominator: int) -> PairProducts:
    every = any_products(draw, denominator)
    pairs = sorted({(j, j + 1) for j in range(len(every.domain) - 1)} | {(0, len(every.domain) - 1)})
    chosen = tuple(draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=3, unique=True)))
    return PairProducts(every.domain, every.scores, chosen, denominator, every.norm)


def any_chebyshev(draw: Draw, denominator: int) -> ChebyshevTensor:
    return ChebyshevTensor(any_ordered(draw), draw(st.integers(2, 4)), denominator=denominator)


def any_basis(draw: Draw, denominator: int) -> TensorBasis:
    domain = mixed()
    return TensorBasis(domain, mixed_terms(domain, order=draw(st.integers(1, 2)), degree=2), denominator=denominator)


def any_parities(draw: Draw, denominator: int) -> Parities:
    bits = any_bits(draw)
    scales = draw(st.lists(st.sampled_from([0, 1, denominator, denominator // 2 + 1]), min_size=2, max_size=bits.d + 1))
    return Parities(bits, tuple(scales))


def any_monomials(draw: Draw) -> Monomials:
    bits = any_bits(draw)
    return Monomials(bits, draw(st.integers(1, bits.d)))


def any_cell_parities(draw: Draw) -> CellParities:
    domain = any_domain(draw)
    every = closure(domain, (tuple(range(len(domain))),)).tolist()
    return CellParities(domain, np.array(draw(st.lists(st.sampled_from(every), min_size=1, unique=True))))


def any_lists(draw: Draw, denominator: int) -> ListCoefficients:
    length = draw(st.integers(1, 2))
    order = draw(st.integers(1, length))
    scales = tuple(draw(st.sampled_from([1, denominator])) for _ in range(order + 1))
    return lists(draw(st.integers(1, 2)), length, order, scales, draw(st.sampled_from([0, 1, denominator])))


def any_fitting(draw: Draw, denominator: int) -> FittingRows:
    domain = releasable_domain(hiding())
    values = draw(st.lists(st.integers(-(2**33), 2**33), min_size=domain.cells, max_size=domain.cells))
    return FittingRows(CellQueries(domain, np.array([values]), denominator))


SHAPES: dict[str, Callable[[Draw, int], Statistic]] = {
    "marginals": lambda draw, _: any_marginals(draw),
    "interactions": any_interactions,
    "values of cells": any_cells,
    "a subset": any_subset,
    "a stack": any_stack,
    "the rows that fit": any_fitting,
    "distances": any_distances,
    "distances of pairs": any_pair_distances,
    "distances of queries": any_query_distances,
    "scores of boosting": any_boosting,
    "scores of a net": lambda draw, denominator: net(any_small_cells(draw), draw(st.integers(1, 3)), denominator),
    "products of columns": any_products,
    "products of some pairs of columns": any_pair_products,
    "a Chebyshev tensor": any_chebyshev,
    "average moments": lambda draw, denominator: AverageMoment(any_ordered(draw), draw(st.integers(1, 3)), denominator),
    "mixed terms": any_basis,
    "parities": any_parities,
    "monomials": lambda draw, _: any_monomials(draw),
    "parities of cells": lambda draw, _: any_cell_parities(draw),
    "coefficients of lists": any_lists,
    "the total": lambda draw, _: Total(any_domain(draw)),
}
"""How to draw a family of any shape at a denominator, by name; it may be refused."""
