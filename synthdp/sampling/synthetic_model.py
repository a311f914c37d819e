"""From a distribution over bins to rows of a table: the last step, which costs no budget and is repeatable by seed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Protocol

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Codes, FloatArray, GridIndices, IntArray
from synthdp.checks import check_memory, check_number, check_one_of, whole
from synthdp.distribution.distribution import Distribution, ImpossibleEvidenceError, draw_within_groups
from synthdp.distribution.explicit import Explicit
from synthdp.domain.derive import followed, leading_to
from synthdp.domain.domain import Domain
from synthdp.domain.encoder import Numbers, RawColumn, decode, fresh_labels
from synthdp.domain.fresh_keys import check_enough_keys
from synthdp.domain.grid import grid_of, starts_of_classes
from synthdp.domain.refinement import Refinement
from synthdp.domain.rules import rules_of
from synthdp.domain.values import mask_of_values
from synthdp.errors import ParameterError
from synthdp.parallel import in_order, workers_for
from synthdp.randomness import Generator, RandomState, generator
from synthdp.sampling.balanced import MOST_BALANCE, Inside, balanced_inside
from synthdp.sampling.exact_tables import ExactTable, moved_to_tables
from synthdp.sampling.inside_groups import FEWEST_ROWS, dealt_out
from synthdp.sampling.structural_zeros import obeying, rules_between, structural_zeros
from synthdp.schema.column import Fresh
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.source import RowSink

OBEYED = "no synthetic row breaks a declared rule"
"""Receipt note of a release whose schema declares rules."""

REPLACEMENTS = 30
"""Number of times that rows which cannot satisfy the rules are replaced by new draws; rows that still fail then become
copies of valid rows.  A safety limit of time."""

HOPELESS = 3
"""Number of replacement rounds without any valid row after which rows are drawn from the rules alone.  A safety limit of
time: more wait longer for a model that may have no valid row; fewer give up models that have some."""

FEWEST_REPLACED = 100
"""Smallest number of rows that are drawn to replace invalid rows.  A safety limit: fewer rows would take as much
time."""

BLOCK_ROWS = 1_000_000
"""Default number of rows in memory when rows are drawn into a file.  A safety limit of memory."""

INTERVALS = 32
"""Number of equal intervals of a numeric column over which samples are balanced, in addition to coarse bins, if time
allows.  More make tables with many nearly empty cells, which cannot be balanced; fewer are hardly finer than
coarse bins.  A convention: as many as `bins` of a release by default.  Half and twice of it change the three-way error of
five tables by +.1 and 0 % (docs/benchmarks/constants.md)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticModel:
    """Holds a distribution over the bins of a domain, and all that is needed to sample it as a table.

    Parameters
    ----------
    schema
        The columns.
    domain
        The coarse bins, one axis per column.
    distribution
        The joint distribution of the coarse bins of ``domain``.
    refinements
        For each column, the fine bins of each coarse bin and their weights.
    total
        Estimated number of private rows, or the exact number if it is public.
    format
        The library and types of the tables.
    exact
        Marginals that a sample has exactly, if it has `rows` rows, is drawn at once and without ``given``.  Their order
        is the order in which rows are moved, see `synthdp.sampling.exact_tables`.
    """

    schema: Schema
    domain: Domain
    distribution: Distribution
    refinements: tuple[Refinement, ...]
    total: float
    format: TableFormat
    exact: tuple[ExactTable, ...] = ()

    @classmethod
    def of(
        cls,
        schema: Schema,
        domain: Domain,
        distribution: Distribution,
        *,
        total: float,
        refinements: tuple[Refinement, ...] | None = None,
        exact: tuple[ExactTable, ...] = (),
    ) -> SyntheticModel:
        """Return a model of tables in the schema's default format.

        Without ``refinements`` the fine bins are the coarse bins.  The other parameters are fields of the class.
        """
        if refinements is None:
            refinements = tuple(map(Refinement.trivial, domain.axes))
        return cls(
            schema=schema, domain=domain, distribution=distribution, refinements=refinements, total=total,
            format=TableFormat.default(schema), exact=exact,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"SyntheticModel({len(self.domain)} columns, about {self.rows} rows)"

    @property
    def rows(self) -> int:
        """Return the default number of rows of a sample: the estimated total, at least 1."""
        return max(1, round(self.total))

    @property
    def populations(self) -> dict[str, float]:
        """Return the expected sum of each survey weight column over all rows, by name: the estimated population size.

        Samples rescale their weights to these sums.
        """
        found = {}
        for j, refinement in enumerate(self.refinements):
            column, fine = self.schema[self.domain.names[j]], refinement.fine
            values = np.array(column.class_values())
            if len(values):
                starts = fine.starts[fine.starts < fine.grid.regular]
                of_cell = np.zeros(fine.size)
                of_cell[fine.cells[: len(starts)]] = values[
                    np.searchsorted(starts_of_classes(column), starts, side="right") - 1
                ]
                share = refinement.table()
                share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
                mean = self.distribution.marginal((j,)) @ (share @ of_cell)
                found[self.domain.names[j]] = max(self.total, 1.0) * float(mean)
        return found

    def with_rows(self, codes: Codes, weights: FloatArray) -> SyntheticModel:
        """Return the model with weighted rows, (n, d) codes and (n,) weights, as its distribution."""
        return replace(self, distribution=Explicit(shape=self.domain.shape, codes=codes, weights=weights))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the receipt notes that hold for every sampled row: a note on declared rules, if there are any."""
        return (OBEYED,) if self.schema.constraints else ()

    def sample(
        self,
        rows: int | None = None,
        *,
        random_state: RandomState = None,
        given: Mapping[str, Any] | None = None,
        method: str = "systematic",
        balance: float = 1.0,
        format: TableFormat | None = None,  # noqa: A002 - the word users know
    ) -> Any:
        """Return a table of rows drawn by systematic sampling.

        Counts then vary less around their expected values than with independent draws.

        Parameters
        ----------
        rows
            The number of rows; default: the estimated number of private rows.
        random_state
            Seed of the sampling; privacy noise never uses it.
        given
            Values that the rows must have, by column: one value, a list of values, or ``(lower, upper)`` for an ordered
            column, both inclusive, with ``None`` for no end; ``None`` alone is the missing value.  The rows follow the
            model's conditional distribution.  Rows are rejected only if a rule cuts through a bin.
        method
            ``"systematic"``, or ``"multinomial"`` for independent rows.  With both, the values inside a bin are
            permuted among its rows (`synthdp.sampling.inside_groups`).
        balance
            Limit of work, 0 to 16 times the usual work, to bring the tables of the rows nearer to the model's.  With 0,
            rows are plain draws, which are fastest; 4 takes about a tenth off the distance in twice the time.
        format
            Another library or other types for the table.

        Raises
        ------
        ParameterError
            If ``method`` is unknown or ``balance`` is outside its limits.  If ``rows`` is below 1, more than the
            number of keys of an identifier, or more than memory holds.  If ``given`` names an unknown column or values
            of probability 0.
        """
        check_one_of("method", method, ("systematic", "multinomial"))
        check_number("balance", balance, least=0, most=MOST_BALANCE)
        wanted, rng = whole("rows", self.rows if rows is None else rows, least=1), generator(random_state)
        check_enough_keys(self.schema, wanted)
        check_memory(wanted, len(self.schema))
        independent = method == "multinomial"
        indices = self.sample_indices(wanted, rng, given=given, independent=independent, balance=balance)
        sums = {} if given else self.populations
        return (format or self.format).build(
            self.schema, _Values(self.schema, indices, rng, kept=given or (), sums=sums)
        )

    def table_of(
        self,
        indices: Mapping[str, GridIndices],
        rng: Generator,
        *,
        first: int = 0,
        format: TableFormat | None = None,  # noqa: A002 - the word users know
    ) -> Any:
        """Return drawn rows as a table, in the same form as `sample` returns.

        ``indices`` holds the (rows,) grid points of each modelled column.  Identifiers start after the labels of
        ``first`` rows.  Survey weights are not rescaled to `populations`.
        """
        return (format or self.format).build(self.schema, _Values(self.schema, dict(indices), rng, first=first))

    def sample_to(
        self,
        path: str | PathLike[str] | RowSink,
        *,
        rows: int | None = None,
        random_state: RandomState = None,
        given: Mapping[str, Any] | None = None,
        block_rows: int = BLOCK_ROWS,
        escape_formulas: bool = False,
    ) -> None:
        """Draw rows into a file or database table, in bounded memory.

        Rows are balanced within each block only.  A file of one block holds the rows that `sample` draws with the same
        seed.

        Parameters
        ----------
        path
            A ``.parquet``, ``.arrow``, ``.csv`` or ``.csv.gz`` file, or a table of a database as a `SqlSource`.  The
            file appears, and the rows are appended, whole or not at all.
        rows, random_state, given
            As for `sample`.
        block_rows
            Number of rows in memory at once.
        escape_formulas
            In CSV files, defuse texts that a spreadsheet would run; see `synthdp.tables.sources.csv.write_csv`.

        Raises
        ------
        ParameterError
            As for `sample`, or if the ending is unknown.
        FormatError
            If the file cannot be written.
        """
        from synthdp.tables.sources.write import library_for, write_blocks

        form = self.format.for_files(self.schema, library="pyarrow" if isinstance(path, RowSink) else library_for(path))
        blocks = self.sample_blocks(rows, random_state=random_state, given=given, block_rows=block_rows, format=form)
        if isinstance(path, RowSink):
            path.write(blocks)
        else:
            write_blocks(path, blocks, escape_formulas=escape_formulas)

    def sample_blocks(
        self,
        rows: int | None = None,
        *,
        random_state: RandomState = None,
        given: Mapping[str, Any] | None = None,
        block_rows: int = BLOCK_ROWS,
        first: int = 0,
        part_of: int | None = None,
        format: TableFormat | None = None,  # noqa: A002
    ) -> Iterator[Any]:
        """Return an iterator over tables of at most ``block_rows`` sampled rows.

        A large sample then needs little memory.

        Parameters
        ----------
        rows, random_state, given, format
            As for `sample`.
        block_rows
            Number of rows in memory at once.
        first
            Number of rows drawn elsewhere before; labels of identifiers start after theirs.
        part_of
            Number of rows of the whole sample, if other calls draw the rest of it; survey weights of these rows then add
            up to their share of the population.  Default: these rows are the whole sample.

        Raises
        ------
        ParameterError
            As for `sample`, or if the whole sample has fewer rows than ``first`` and ``rows`` together.
        """
        wanted = whole("rows", self.rows if rows is None else rows, least=1)
        size = whole("block_rows", block_rows, least=1)
        of = wanted if part_of is None else whole("part_of", part_of, least=first + wanted)
        check_enough_keys(self.schema, first + wanted)
        return self._blocks(wanted, size, generator(random_state), given, first, of, format or self.format)

    def _blocks(
        self,
        rows: int,
        size: int,
        rng: Generator,
        given: Mapping[str, Any] | None,
        first: int,
        of: int,
        form: TableFormat,
    ) -> Iterator[Any]:
        """Yield tables of at most ``size`` sampled rows each.

        Sums of survey weights are divided among the ``of`` rows of the whole sample: each table has the share of its rows.
        """
        whole_sums = {} if given else self.populations
        for done in range(0, rows, size):
            some = min(size, rows - done)
            indices = self.sample_indices(some, rng, given=given)
            sums = {name: one * some / of for name, one in whole_sums.items()}
            yield form.build(
                self.schema, _Values(self.schema, indices, rng, kept=given or (), first=first + done, sums=sums)
            )

    def sample_indices(
        self,
        rows: int,
        rng: Generator,
        *,
        given: Mapping[str, Any] | None = None,
        independent: bool = False,
        balance: float = 1.0,
    ) -> dict[str, GridIndices]:
        """Return sampled rows as (rows,) grid points of each modelled column; all rows satisfy the rules.

        Rows that break a rule are replaced by new draws, then by copies of valid rows.  If no row is valid, the rows
        are drawn from the rules alone.
        """
        rows = whole("rows", rows, least=1)
        allowed = self._conditions(given or {})
        indices, wrong = self._draw(rows, rng, allowed, independent, balance)
        for number in range(REPLACEMENTS):
            if not len(wrong):
                return indices
            if number == HOPELESS and len(wrong) == rows:
                break
            fresh, broken = self._draw(max(2 * len(wrong), FEWEST_REPLACED), rng, allowed, independent, balance)
            good = np.setdiff1d(np.arange(len(fresh[self.domain.names[0]])), broken)[: len(wrong)]
            _copy(fresh, good, indices, wrong[: len(good)])
            wrong = wrong[len(good) :]
        good = np.setdiff1d(np.arange(rows), wrong)
        if not len(good):
            return indices | self._obeying(rows, rng, given or {})
        _copy(indices, rng.choice(good, len(wrong)), indices, wrong)
        return indices

    def _obeying(self, rows: int, rng: Generator, given: Mapping[str, Any]) -> dict[str, GridIndices]:
        """Return the columns that rules name, as (rows,) grid points, drawn uniformly from the allowed rows.

        This is the last resort for a model without mass on valid rows, as noise can leave it.  Raise ParameterError if
        no row is found.  Columns that no rule names keep their drawn values.
        """
        domain, distribution = obeying(self.schema)
        columns = self.schema.part(domain.names)
        trivial = tuple(Refinement.trivial(axis) for axis in domain.axes)
        spare = replace(self, schema=columns, domain=domain, distribution=distribution, refinements=trivial)
        allowed = {name: mask for name, mask in self._conditions(given).items() if name in columns}
        for _ in range(REPLACEMENTS):
            with contextlib.suppress(ParameterError):
                drawn, wrong = spare._draw(max(2 * rows, FEWEST_REPLACED), rng, allowed, independent=True)  # noqa: SLF001
                good = np.setdiff1d(np.arange(len(drawn[domain.names[0]])), wrong)
                if len(good):
                    chosen = rng.choice(good, rows)
                    return {name: column[chosen] for name, column in drawn.items()}
        raise ParameterError(
            "no row was found that obeys all rules of the schema"
            + (" and has the given values: give other values" if given else ": change or remove a rule")
        )

    def _draw(
        self, rows: int, rng: Generator, allowed: Mapping[str, BoolArray], independent: bool, balance: float = 1.0
    ) -> tuple[dict[str, GridIndices], IntArray]:
        """Return drawn rows as (rows,) grid points by column, and the positions of rows that still break a rule.

        Rows that break a rule are first repaired within their bins; the caller replaces the others.  ``allowed`` holds
        masks of grid points by column.
        """
        evidence = {
            j: self.refinements[j].share_of_groups(allowed[name]) for name in allowed for j in self.domain.index(name)
        }
        cells: Codes | None = None
        try:
            if independent:
                codes = self.distribution.sample(rows, rng, given=evidence or None, independent=True)
            else:
                inside = self._inside(allowed, rng)
                codes, cells = balanced_inside(
                    self.distribution, rows, rng, inside, given=evidence or None, balance=balance
                )
                if not evidence and rows == self.rows:
                    codes, cells = self._made_exact(codes, cells, rng)
        except ImpossibleEvidenceError:
            names = " and ".join(repr(name) for name in allowed)
            raise ParameterError(
                f"the values given for {names} have probability 0 in the model: give other values"
            ) from None
        seeds = rng.integers(2**63, size=len(self.domain))

        def indices_of(j: int) -> GridIndices:
            mask, own = allowed.get(self.domain.names[j]), generator(int(seeds[j]))
            if cells is None:
                return self._refine(j, codes[:, j], own, mask, independent=independent)
            return self._points(j, cells[:, j], own, mask)

        drawn = list(in_order(indices_of, range(len(self.domain)), workers=workers_for(rows)))
        if 0 < rows < FEWEST_ROWS:
            more = self.distribution.sample(FEWEST_ROWS - rows, rng, given=evidence or None)
            learned_from = np.concatenate([codes, more])
        else:
            learned_from = codes
        for j, dealt in dealt_out(self.refinements, codes, drawn, rng, learned_from=learned_from).items():
            drawn[j] = dealt
        indices = dict(zip(self.domain.names, drawn, strict=True))
        rules = rules_of(self.schema)
        if not rules:
            return indices, np.zeros(0, np.int64)
        from synthdp.sampling.constraint_repair import Repair

        def redraw(name: str, some: IntArray, mask: BoolArray | None) -> GridIndices:
            j = self.domain.index(name)[0]
            return self._refine(j, codes[some, j], rng, mask)

        return indices, Repair(self.domain, rules, codes, indices, allowed, redraw, rng).mend()

    def _made_exact(self, codes: Codes, cells: Codes | None, rng: Generator) -> tuple[Codes, Codes | None]:
        """Return coarse and fine bins of the rows, (rows, d) each, changed so that the rows have the exact tables.

        A changed row gets a new fine bin.  ``cells`` may be None, if no fine bins were drawn.  Tables of another number
        of rows are ignored.
        """
        tables = [one for one in self.exact if one.rows == len(codes)]
        if not tables:
            return codes, cells
        rules = structural_zeros(self.schema, self.domain) if self.schema.constraints else {}
        moved = moved_to_tables(codes, self.domain.shape, tables, rng, allowed=rules)
        if cells is not None:
            cells = np.array(cells, order="F")
            for j in range(len(self.domain)):
                changed = np.flatnonzero(moved[:, j] != codes[:, j])
                if len(changed):
                    cells[changed, j] = self._fine_cells(j, moved[changed, j], rng, None)
        return moved, cells

    def _conditions(self, given: Mapping[str, Any]) -> dict[str, BoolArray]:
        """Return by modelled column a mask of the grid points that the ``given`` values allow.

        A condition on a looked-up column is translated into its source column.  Raise ParameterError if nothing is
        allowed.
        """
        allowed: dict[str, BoolArray] = {}
        for name, value in given.items():
            source, _ = followed(self.schema, name)
            column = self.schema.outputs[name]
            wanted = mask_of_values(column, value, name=name)
            if source != name:
                led = leading_to(self.schema, name, wanted[: grid_of(column).releasable])
                wanted = np.append(led, np.zeros(grid_of(self.schema[source]).size - len(led), np.bool_))
            allowed[source] = wanted & allowed.get(source, True)
            if not allowed[source].any():
                raise ParameterError(
                    f"the values given for {name!r} have probability 0 in the model: give other values"
                )
        return allowed

    def _refine(
        self, j: int, cells: AnyArray, rng: Generator, allowed: BoolArray | None = None, *, independent: bool = False
    ) -> GridIndices:
        """Draw a grid point of column ``j`` for each row, inside the row's coarse bin in ``cells``, (rows,).

        With a mask, only allowed grid points are drawn.  ``independent`` draws replace systematic sampling.
        """
        return self._points(j, self._fine_cells(j, cells, rng, allowed, independent=independent), rng, allowed)

    def _fine_cells(
        self, j: int, cells: AnyArray, rng: Generator, allowed: BoolArray | None, *, independent: bool = False
    ) -> AnyArray:
        """Draw a fine bin of column ``j`` for each row, inside the row's coarse bin in ``cells``, (rows,).

        With a mask, only fine bins with allowed grid points are drawn.  ``independent`` draws replace systematic
        sampling.
        """
        if allowed is None and (only := self.refinements[j].only_cells) is not None:  # there is nothing to draw
            return only[cells]
        table = self.refinements[j].table(None if allowed is None else self.refinements[j].share(allowed))
        return draw_within_groups(table, cells, rng, independent=independent)

    def _points(self, j: int, fine: AnyArray, rng: Generator, allowed: BoolArray | None) -> GridIndices:
        """Draw a grid point of column ``j`` for each row, inside the row's fine bin, (rows,).

        With a mask, only allowed grid points are drawn.
        """
        if allowed is None:
            return self.refinements[j].indices_in(fine, rng)
        return self.refinements[j].indices_among(allowed, fine, rng)

    def _inside(self, allowed: Mapping[str, BoolArray], rng: Generator) -> Inside:
        """Return the sampler of fine bins inside coarse bins, and the intervals that `balanced_inside` balances."""

        def draw(codes: Codes) -> Codes:
            of_columns = enumerate(self.domain.names)
            return np.column_stack([self._fine_cells(j, codes[:, j], rng, allowed.get(name)) for j, name in of_columns])

        classes = [refinement.classes(INTERVALS) for refinement in self.refinements]
        both = zip(self.refinements, classes, strict=True)
        several = [len(np.unique(one.coarse_cell * len(each) + each)) > one.groups for one, each in both]
        return Inside(draw, classes, several)


class _Values(Mapping[str, RawColumn]):
    """Maps each column to the values of drawn rows.

    A column is decoded when it is read, and its grid points are then freed: each column can be read once.

    Parameters
    ----------
    schema, indices
        The columns and the drawn grid points.
    rng
        Draws a value inside each grid point that stands for several.  Columns named by a rule or a condition take the
        roundest value instead, so that the rule or condition stays satisfied.
    kept
        Columns that a condition names.
    first
        Number of rows drawn elsewhere before; labels of identifiers start after theirs.
    sums
        By survey weight column, the sum to which the weights of these rows are rescaled.
    """

    def __init__(
        self,
        schema: Schema,
        indices: dict[str, GridIndices],
        rng: Generator,
        *,
        kept: Iterable[str] = (),
        first: int = 0,
        sums: Mapping[str, float] | None = None,
    ) -> None:
        self._schema, self._indices, self._first, self._sums = schema, indices, first, sums or {}
        named = {*kept, *(name for rule in rules_between(schema) for name in rule.names)}
        wide = [name for name, column in schema.items() if grid_of(column).width > 1 and name not in named]
        self._seeds = dict(zip(wide, rng.integers(2**63, size=len(wide)).tolist(), strict=True))

    def __getitem__(self, name: str) -> RawColumn:
        column, indices = self._schema[name], self._indices.pop(name)
        support = column.support()
        if isinstance(support, Fresh):
            return fresh_labels(support, len(indices), first=self._first)
        raw = decode(column, indices, rng=generator(self._seeds[name]) if name in self._seeds else None)
        if name in self._sums and isinstance(raw, Numbers):
            values = raw.values.astype(np.float64)
            whole = np.where(raw.gone, 0.0, values)
            raw = replace(raw, values=values * (self._sums[name] / max(float(whole.sum()), 1e-300)))
        return raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)


class _HasModel(Protocol):
    """An output with the model of its rows."""

    @property
    def model(self) -> SyntheticModel:
        """The model that draws rows."""
        ...


class DrawnFromModel:
    """Base class of outputs whose rows are drawn from one model, their ``model``."""

    __slots__ = ()

    def sample(self: _HasModel, rows: int | None = None, **options: Any) -> Any:
        """Draw synthetic rows as a table; see `SyntheticModel.sample`."""
        return self.model.sample(rows, **options)

    def sample_to(self: _HasModel, path: str | PathLike[str] | RowSink, **options: Any) -> None:
        """Draw synthetic rows into a file; see `SyntheticModel.sample_to`."""
        self.model.sample_to(path, **options)


def _copy(source: Mapping[str, GridIndices], rows: IntArray, target: dict[str, GridIndices], at: IntArray) -> None:
    """Copy the rows at ``rows`` of ``source`` to the positions ``at`` of ``target``, in all columns, in place.

    Valid rows take the places of rows that break a rule.
    """
    for name, column in target.items():
        column[at] = source[name][rows]
