"""What should come out right: sets of columns and how much each matters, or the queries that a user names by columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from synthdp.answers.questions import Marginal, marginal
from synthdp.arrays import Clique
from synthdp.codec import check_saved
from synthdp.domain.domain import Domain, axis_of
from synthdp.errors import ParameterError
from synthdp.mechanisms.mechanism import check_declared, part_of
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.protocol import LinearQueries
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.queries.supports import SparseQuery

FAVOURED = 3.0
"""Factor on the weight of tables that a user favours: tables with the target column, and sets of a workload relative to
pairs in no set.  A larger weight brings favoured relations nearer to the private ones, and takes budget from others, which
are not to be lost.  Tuned for a target: half and twice of it change the three-way error of three tables by -.3 and +.8 %
(docs/benchmarks/constants.md).  Tuned for a workload: on six triples of Adult, by `benchmarks/utility/places.py`."""

BINS = 32
"""Most equal bins of a numeric column in queries that are named by columns alone.  More answer finer questions, with
fewer rows in a bin against the same noise.  A convention: as many as `bins` of a release by default."""

WorkloadSpec: TypeAlias = Marginal | Marginals | str | Iterable[Marginal | Sequence[str] | str]
"""Sets of columns by name: marginals, sets of column names, or a list of either."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Which sets of columns matter, and how much: the mechanism's measure of utility.

    Parameters
    ----------
    weights
        For sorted sets of column positions, how much they matter; ``None`` for all sets alike.
    target
        Position of a column whose relations matter most.
    rest
        Weight of a set that no wished set contains.
    """

    weights: tuple[tuple[Clique, float], ...] | None = None
    target: int | None = None
    rest: float = 0.0

    def wishes(self, clique: Clique) -> bool:
        """Return whether a set of the workload contains this clique; always true if all sets matter alike.

        Tables that are not wished share a small part of the budget.
        """
        return self.weights is None or any(set(clique) <= set(wished) for wished, _ in self.weights)

    def weight(self, clique: Clique) -> float:
        """Return how much a table of these columns matters: the sum of the weights of all wished sets that contain it.

        The weight is 1 if all sets matter alike. A table of one or two columns that lies in no wished set has the
        weight ``rest``. Tables with the target count `FAVOURED` times.
        """
        inside = set(clique)
        weight = 1.0 if self.weights is None else sum(w for wished, w in self.weights if inside <= set(wished))
        weight = weight or (self.rest if len(clique) < 3 else 0.0)
        return weight * (FAVOURED if self.target in inside else 1.0)

    def with_rest(self) -> Workload:
        """Return the workload with a small weight on pairs that it does not contain, so that they are not lost.

        Unchanged if all sets matter alike.
        """
        if self.weights is None:
            return self
        return replace(self, rest=float(np.mean([weight for _, weight in self.weights])) / FAVOURED)


def workload_of(
    wish: Workload | Mapping[Any, float] | WorkloadSpec | None, names: Sequence[str], *, target: str | None = None
) -> Workload:
    """Convert the user's description by column names to a `Workload` by column positions.

    Parameters
    ----------
    wish
        Marginals or sets of column names, or a mapping from them to weights; ``None`` for all sets alike.
    names
        All column names in order.
    target
        Name of a column whose relations matter most.

    Raises
    ------
    ParameterError
        If a name is unknown, a weight is not positive, or a marginal has bins of its own.
    """
    if isinstance(wish, Workload):
        return wish
    goal = None if target is None else _position(target, names)
    if wish is None:
        return Workload(None, goal)
    pairs = list(wish.items()) if isinstance(wish, Mapping) else [(columns, 1.0) for columns in _listed(wish)]
    weights = []
    for columns, weight in pairs:
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not weight > 0:
            raise ParameterError(f"the weight ({weight!r}) of a workload's columns must be a positive number")
        if isinstance(columns, Marginal) and columns.bins:
            raise ParameterError(
                "leave bins out of the marginals of this workload, because the mechanism chooses the bins itself"
            )
        weights.append((tuple(sorted({_position(name, names) for name in _names(columns)})), float(weight)))
    if not weights:
        raise ParameterError("workload must name at least one set of columns")
    return Workload(tuple(weights), goal)


def weighted_too(workload: Workload, schema: Schema) -> Workload:
    """Return a workload that also asks for each set together with the survey weight, so weighted results are right.

    If all sets matter alike, the survey weight becomes the target, unless there is one.
    """
    weights = tuple(j for j, column in enumerate(schema.values()) if column.class_ends())
    if not weights:
        return workload
    if workload.weights is None:
        return workload if workload.target is not None else replace(workload, target=weights[0])
    weighted = tuple((tuple(sorted({*columns, *weights})), much) for columns, much in workload.weights)
    return replace(workload, weights=(*workload.weights, *weighted))


def queries_of(wish: LinearQueries | WorkloadSpec | None, schema: Schema) -> LinearQueries:
    """Return the user's queries, or the marginals of the columns that the user names.

    Marginals of named columns are over the cells in which a released row may lie; numbers have at most `BINS` equal
    bins unless a marginal says how many.

    Parameters
    ----------
    wish
        Queries; marginals or sets of column names; ``None`` for all pairs of columns.
    schema
        Schema of the curator's table.

    Raises
    ------
    ParameterError
        If a name is unknown, a named column has undeclared bounds or levels, or two marginals divide a column
        differently.
    """
    if isinstance(wish, LinearQueries):
        return wish
    if isinstance(wish, Mapping):
        raise ParameterError(
            "this mechanism takes no weights of queries: give a list of marginals or of sets of column names"
        )
    if wish is None:
        whole = _domain(schema, schema.names, {})
        return Marginals(whole, all_cliques(whole, min(2, len(whole))))
    return marginals_on(wish, schema)


def domain_named(wish: Domain | WorkloadSpec | None, schema: Schema) -> Domain:
    """Return the user's domain, or the domain of the columns that the user names; of all columns for ``None``.

    Errors as in `queries_of`.
    """
    if isinstance(wish, Domain):
        return wish
    return _domain(schema, schema.names, {}) if wish is None else marginals_on(wish, schema).domain


@overload
def tables_of(wish: WorkloadSpec | None, schema: Schema) -> Marginals: ...


@overload
def tables_of(wish: LinearQueries | WorkloadSpec | None, schema: Schema) -> LinearQueries: ...


def tables_of(wish: LinearQueries | WorkloadSpec | None, schema: Schema) -> LinearQueries:
    """Return the user's queries as `queries_of` does, with out-of-domain values counted apart, since no row is dropped.

    In marginals each column gets one more cell, for its out-of-domain values, unless it has one already.  Queries of
    other families count only rows that are in domain in all columns.

    Raises
    ------
    ParameterError
        As `queries_of` does, or if a release could not be saved with the answers.
    """
    queries = queries_of(wish, schema)
    if not isinstance(queries, Marginals):
        from synthdp.queries.linear import FittingRows

        check_saved(queries)
        return FittingRows(queries)
    from synthdp.domain.domain import domain_with_misfits

    return Marginals(domain_with_misfits(queries.domain), queries.cliques)


def marginals_on(wish: WorkloadSpec, schema: Schema, domain: Domain | None = None) -> Marginals:
    """Return the marginals of named sets of columns, over a given domain or one made for them.

    Errors as in `queries_of`.
    """
    if isinstance(wish, Marginals):
        return wish
    asked = _listed(wish)
    if not asked:
        raise ParameterError("queries must name at least one set of columns")
    bins: dict[str, int] = {}
    for one in asked:
        for name, count in one.bins if isinstance(one, Marginal) else ():
            if not isinstance(count, int):
                raise ParameterError(
                    f"bins of column {name!r} must be a whole number, the number of bins of equal width"
                )
            if bins.setdefault(name, count) != count:
                raise ParameterError(f"column {name!r} must have the same bins in all marginals of a workload")
    cliques = [_names(one) for one in asked]
    named = {name for clique in cliques for name in clique}
    for name in (name for clique in cliques for name in clique):
        _position(name, schema.names)
    if domain is None:
        domain = _domain(schema, [name for name in schema if name in named], bins)
    for axis in domain.axes:
        cells = int((axis.starts < axis.grid.regular).sum())
        if min(bins.get(axis.name, cells), axis.grid.regular) != cells:
            raise ParameterError(f"column {axis.name!r} was released in {cells} bins: leave bins out, or give {cells}")
    return Marginals(domain, tuple(domain.index(*clique) for clique in cliques))


def sparse_queries_of(wish: Sequence[SparseQuery] | WorkloadSpec | None, schema: Schema) -> Sequence[SparseQuery]:
    """Return the user's sparse queries, or a sparse query for each cell of the named marginals; all pairs for ``None``.

    A sparse query of a cell is about all named columns, so that all queries have one domain.

    Raises
    ------
    ParameterError
        If there is none, a name is unknown, a marginal has bins, or a column has no declared levels.
    """
    from synthdp.queries.supports import SparseQuery, sparse_cells

    asked: list[Any] = list(combinations(schema.names, min(2, len(schema)))) if wish is None else _listed(wish)
    if not asked:
        raise ParameterError("queries is an empty list: give at least one sparse query, or one set of column names")
    if all(isinstance(one, SparseQuery) for one in asked):
        return asked
    if any(isinstance(one, Marginal) and one.bins for one in asked):
        raise ParameterError(
            "leave bins out of a marginal of sparse queries, because its cells are the declared values"
        )
    sets = [_names(one) for one in asked]
    for name in (name for names in sets for name in names):
        _position(name, schema.names)
    columns = [name for name in schema.names if any(name in names for names in sets)]
    return [query for names in sets for query in sparse_cells(schema, names, columns=columns)]


def asked_of_names(question: Any) -> Any:
    """Turn one set of column names into a question for its marginal; return any other question unchanged.

    Raises
    ------
    ParameterError
        If several sets are named: each is a question of its own.
    """
    if isinstance(question, str):
        return marginal(question)
    if not isinstance(question, (list, tuple)) or not question:
        return question
    if len(question) == 1 and not isinstance(question[0], str):
        return asked_of_names(question[0])
    if not all(isinstance(name, str) for name in question):
        raise ParameterError(
            "one marginal must be one list of column names: ask about several lists one after the other"
        )
    return marginal(*question)


def check_domain(queries: LinearQueries, schema: Schema) -> None:
    """Raise an error if a column of the queries is declared otherwise in the schema, or is not in the schema.

    The answers would count other cells than the queries name.

    Raises
    ------
    ParameterError
        Naming the first such column.
    """
    for axis in queries.domain.axes:
        if axis.name not in schema or schema[axis.name] != axis.column:
            raise ParameterError(f"column {axis.name!r} of the queries must be declared exactly as in the schema")


def _domain(schema: Schema, names: Sequence[str], bins: Mapping[str, int]) -> Domain:
    """Return the domain of named columns, without the bins that a released row never has.

    ``bins`` holds the most bins of some columns; other columns have at most `BINS`.  ParameterError is raised if all
    named columns are identifiers.
    """
    columns = part_of(schema, names)
    check_declared(columns, why="the cells of the queries are made of them")
    if all(column.names_rows for column in columns.values()):
        raise ParameterError("queries need at least one column that is not an identifier")
    axes = [axis_of(name, column, bins=bins.get(name, BINS)) for name, column in columns.items()]
    from synthdp.domain.domain import releasable_domain

    return releasable_domain(Domain(tuple(axes)))


def _listed(wish: Any) -> list[Any]:
    """Return the sets of columns that a user named, as a list; raise ParameterError unless it can be read as one."""
    if isinstance(wish, Marginals):
        return [tuple(wish.domain.names[j] for j in clique) for clique in wish.cliques]
    if isinstance(wish, (Marginal, str)):
        return [wish]
    if not isinstance(wish, Iterable):
        raise ParameterError(
            "a workload must be a list of marginals or of sets of column names, such as [('age', 'sex')]"
        )
    return list(wish)


def _names(one: object) -> tuple[str, ...]:
    """Return the distinct column names of one set; raise ParameterError if it is not a set of names."""
    if isinstance(one, Marginal):
        return one.columns
    names = (one,) if isinstance(one, str) else tuple(one) if isinstance(one, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            "a workload must be a list of marginals or of sets of column names, such as [('age', 'sex')]"
        )
    return tuple(dict.fromkeys(names))


def _position(name: object, names: Sequence[str]) -> int:
    """Return a column's position; raise ParameterError if no column has this name."""
    if name not in names:
        raise ParameterError(f"there is no column {name!r}; the schema has: {', '.join(names)}")
    return list(names).index(str(name))
