"""From a distribution over cells to rows of a table: the last step, free of cost and repeatable by seed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Codes, FloatArray, GridIndices, IntArray
from synthdp.checks import check_number, check_one_of, whole
from synthdp.distribution.protocol import Distribution, ImpossibleEvidenceError, draw_within_groups
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
from synthdp.sampling.inside_groups import dealt_out
from synthdp.sampling.structural_zeros import obeying, rules_between, structural_zeros
from synthdp.schema.column import Fresh
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.source import RowSink

OBEYED = "no synthetic row breaks a declared rule"
"""What a receipt says of declared rules."""

REPLACEMENTS = 30
"""How often rows whose cells let them obey no rule are replaced by new ones before they repeat others.
A safety limit of time."""

HOPELESS = 3
"""Rounds of replacements after which, if not one row obeys, rows are drawn from what the rules allow.
Tuned; not measured."""

FEWEST_REPLACED = 100
"""Rows that are drawn at least, when some are replaced.  A safety limit: fewer would cost as much time."""

BLOCK_ROWS = 1_000_000
"""Rows that are held at once when rows are drawn into a file.  A safety limit of memory."""

INTERVALS = 32
"""Where there is time, samples are balanced over this many equal intervals of a column of numbers, beside its coarse cells.
Tuned; not measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticModel:
    """A distribution over the cells of a domain that can be sampled as a table.

    Parameters
    ----------
    schema
        The columns.
    domain
        Coarse axes, one per column.
    distribution
        Over the cells of ``domain``.
    refinements
        How each coarse cell is divided.
    total
        Estimated number of rows of the private table (or the exact one, where it is public).
    format
        The outer form of the tables.
    exact
        Tables that `rows` rows have exactly, where nothing is given and they are drawn at once; in the order in which rows
        are moved to them, see `synthdp.sampling.exact_tables`.
    """

    schema: Schema
    domain: Domain
    distribution: Distribution
    refinements: tuple[Refinement, ...]
    total: float
    format: TableFormat
    exact: tuple[ExactTable, ...] = ()

    def __repr__(self) -> str:
        return f"SyntheticModel({len(self.domain)} columns, about {self.rows} rows)"

    @property
    def rows(self) -> int:
        """Default number of rows: the estimated total, at least 1."""
        return max(1, round(self.total))

    @property
    def populations(self) -> dict[str, float]:
        """What each survey weight adds up to by the model: the estimated population; the rows of `sample` do as well."""
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

    @property
    def notes(self) -> tuple[str, ...]:
        """What a receipt may say of every row that is drawn, because drawing makes sure of it."""
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
        """Draw rows, by systematic sampling: counts differ from their expectation by less than independent draws' would.

        Parameters
        ----------
        rows
            How many; default: the estimated number of private rows.
        random_state
            Seed of the sampling.  It never reaches noise.
        given
            Values that the rows must have, by column: one value, a list of values, or ``(lower, upper)`` for an ordered
            column, both inclusive, with ``None`` for no end; ``None`` alone is the missing value.  The rows have the
            model's conditional law: nothing is drawn and rejected, except to keep rules that cut through a cell.
        method
            ``"systematic"``, or ``"multinomial"`` for independent rows; which of a group's values a row gets depends on the
            others in either (`synthdp.sampling.inside_groups`).
        balance
            How many times the usual work may be done, 0 to 16, to bring the rows' tables nearer to the model's than chance
            does.  With 0 they are plain draws, the fastest; 4 takes about a tenth off their distance in twice the time.
        format
            Another outer form.

        Raises
        ------
        ParameterError
            If ``method`` is another, ``balance`` is outside its limits, ``rows`` is below 1 or more than the pattern of an
            identifier has keys, or ``given`` names no column or a combination of probability 0.
        """
        check_one_of("method", method, ("systematic", "multinomial"))
        check_number("balance", balance, least=0, most=MOST_BALANCE)
        wanted, rng = whole("rows", self.rows if rows is None else rows, least=1), generator(random_state)
        check_enough_keys(self.schema, wanted)
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
        """Return rows that were drawn as grid points of each modelled column, as `sample` returns its own.

        The labels of identifiers go on after the ``first`` rows' labels.
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
        """Draw rows into a file, in bounded memory; counts are as systematic as in `sample` within each block.

        A file of one block holds the rows that `sample` draws with the same seed.

        Parameters
        ----------
        path
            A ``.parquet``, ``.arrow``, ``.csv`` or ``.csv.gz`` file, or a table of a database as a `SqlSource`.  The file
            appears, and the rows are appended, whole or not at all.
        rows, random_state, given
            As for `sample`.
        block_rows
            Rows that are held at once.
        escape_formulas
            In CSV files, defuse texts that a spreadsheet would run; see `synthdp.tables.sources.csv.write_csv`.

        Raises
        ------
        ParameterError
            As for `sample`, or if the ending is unknown.
        FormatError
            If the file cannot be written.
        """
        from synthdp.tables.write import library_for, write_blocks

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
        format: TableFormat | None = None,  # noqa: A002
    ) -> Iterator[Any]:
        """Draw rows as tables of at most ``block_rows`` rows, one at a time; see `sample` and `sample_to`.

        Parameters
        ----------
        rows, random_state, given, format
            As for `sample`.
        block_rows
            Rows that are held at once.
        first
            Rows that were drawn elsewhere: the labels of identifiers go on after them.
        """
        wanted = whole("rows", self.rows if rows is None else rows, least=1)
        size = whole("block_rows", block_rows, least=1)
        check_enough_keys(self.schema, first + wanted)
        return self._blocks(wanted, size, generator(random_state), given, first, format or self.format)

    def _blocks(
        self, rows: int, size: int, rng: Generator, given: Mapping[str, Any] | None, first: int, form: TableFormat
    ) -> Iterator[Any]:
        """Yield synthetic rows in blocks of at most ``size``, in their outer form."""
        whole_sums = {} if given else self.populations
        for done in range(0, rows, size):
            some = min(size, rows - done)
            indices = self.sample_indices(some, rng, given=given)
            sums = {name: one * some / rows for name, one in whole_sums.items()}
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
        """Draw rows as grid points of each modelled column."""
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
        """Draw the columns that rules name from what the rules allow, knowing nothing else.

        For a model all of whose mass lies where no row obeys the rules, as noise or rows that break them may have it.
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
        """Draw rows and mend them within their cells; also which ones still break a rule."""
        evidence = {j: self._coarse_share(j, allowed[name]) for name in allowed for j in self.domain.index(name)}
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
        for j, dealt in dealt_out(self.refinements, codes, drawn, rng).items():
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
        """Move rows until they have the exact tables; a row that moved gets a new fine cell."""
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
        """Return which grid points of modelled columns given values allow; what is looked up is translated."""
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

    def _fine_share(self, j: int, allowed: BoolArray) -> FloatArray:
        """Share of each fine cell's grid points that are allowed."""
        refinement = self.refinements[j]
        parts = refinement.within(allowed)
        cells = refinement.fine.cells_of(np.arange(len(parts), dtype=np.uint32))
        return np.bincount(cells, weights=parts, minlength=refinement.fine.size).astype(np.float64)

    def _coarse_share(self, j: int, allowed: BoolArray) -> FloatArray:
        """Share of each coarse cell's mass that is allowed."""
        refinement = self.refinements[j]
        share = self._fine_share(j, allowed)
        whole = np.bincount(refinement.coarse_cell, weights=refinement.weights)
        part = np.bincount(refinement.coarse_cell, weights=refinement.weights * share)
        return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)

    def _refine(
        self, j: int, cells: AnyArray, rng: Generator, allowed: BoolArray | None = None, *, independent: bool = False
    ) -> GridIndices:
        """Draw grid points of column ``j`` for rows in these coarse cells."""
        return self._points(j, self._fine_cells(j, cells, rng, allowed, independent=independent), rng, allowed)

    def _fine_cells(
        self, j: int, cells: AnyArray, rng: Generator, allowed: BoolArray | None, *, independent: bool = False
    ) -> AnyArray:
        """Draw a fine cell of column ``j`` for rows in these coarse cells."""
        table = self.refinements[j].table(None if allowed is None else self._fine_share(j, allowed))
        return draw_within_groups(table, cells, rng, independent=independent)

    def _points(self, j: int, fine: AnyArray, rng: Generator, allowed: BoolArray | None) -> GridIndices:
        """Draw grid points of column ``j`` for rows in these fine cells."""
        if allowed is None:
            return self.refinements[j].indices_in(fine, rng)
        return self.refinements[j].indices_among(allowed, fine, rng)

    def _inside(self, allowed: Mapping[str, BoolArray], rng: Generator) -> Inside:
        """Return what is inside coarse cells: fine ones, and which of few equal intervals they are in."""

        def draw(codes: Codes) -> Codes:
            of_columns = enumerate(self.domain.names)
            return np.column_stack([self._fine_cells(j, codes[:, j], rng, allowed.get(name)) for j, name in of_columns])

        classes = [refinement.classes(INTERVALS) for refinement in self.refinements]
        both = zip(self.refinements, classes, strict=True)
        several = [len(np.unique(one.coarse_cell * len(each) + each)) > one.groups for one, each in both]
        return Inside(draw, classes, several)


class _Values(Mapping[str, RawColumn]):
    """The values of drawn rows, each column decoded when it is asked for and then forgotten: it is asked for once.

    Parameters
    ----------
    schema, indices
        The columns and the drawn grid points.
    rng
        Draws a value within each grid point that holds several, but in columns that a rule or a condition names: those
        are kept by the grid points' roundest values.
    kept
        Columns that a condition names.
    first
        Rows that were drawn elsewhere.
    sums
        What the survey weights of these rows are made to add up to, by column.
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
            whole = values if raw.missing is None else np.where(raw.missing, 0.0, values)
            raw = replace(raw, values=values * (self._sums[name] / max(float(whole.sum()), 1e-300)))
        return raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)


def _copy(source: Mapping[str, GridIndices], rows: IntArray, target: dict[str, GridIndices], at: IntArray) -> None:
    """Copy some rows of all columns to places of others, in place."""
    for name, column in target.items():
        column[at] = source[name][rows]
