"""A Spark DataFrame as a source of rows that sums where its rows are, and synthetic rows drawn on the executors.

Only whole numbers come to the driver.  Rows are encoded once and kept there, narrow, for the next question.  Every task
adds up its part; a task that is repeated gives the same sums and is counted once.  Executors need synthdp and pyarrow.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from synthdp.arrays import AnyArray, GridIndices, Totals
from synthdp.checks import check_whole
from synthdp.domain.encoder import RawColumn, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError
from synthdp.queries.protocol import Statistic
from synthdp.randomness import RandomState, generator
from synthdp.schema.columns import Column, Identifier
from synthdp.schema.schema import Schema
from synthdp.tables.columns.arrow import read, read_all
from synthdp.tables.format import TableFormat
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import Bound
from synthdp.tables.sql.encoding import SPARK, layers, packed_sql, packs_of, stages_of, unpacked
from synthdp.tables.sql.types import SelectedColumn

MOST_PARTS = 256
"""Most partitions whose sums come to the driver one by one; more are first added up by a shuffle, to spare its memory.
A safety limit."""

COUNTED_ROWS = 1 << 18
"""Rows that a block of one task holds, encoded or drawn.  More take more of its memory, fewer make more blocks.  A
safety limit."""

LARGEST_COMPILED = 8000
"""Largest bytecode size of a method that Java's HotSpot compiles (``-XX:-DontCompileHugeMethods`` lifts it).  Larger
generated methods would run interpreted.  A safety limit."""

_Settings: TypeAlias = tuple[Schema, str | None, Bound | None]

_BLOCK = "block binary"
"""The only column, as Spark's schema text, of the rows that a worker returns: blocks of encoded rows as bytes."""

_FIRST, _SECOND, _PART = "digest 0", "digest 1", "part"  # not names of encoded columns, which are numbers
"""Names of three columns beside the encoded ones: the halves of a unit's hash, and the partition its rows go to."""


class SparkSource:
    """A source of the rows of a Spark DataFrame, or of a table by its name, which sums on the executors.

    Rows are encoded once, where they are, and kept there for the next question; nothing need be cached beforehand.  The
    DataFrame must give the same rows whenever Spark computes it: a part that is lost is computed again.

    Parameters
    ----------
    table
        The DataFrame, or a table's or view's name in the active session's catalogue, such as ``"lake.people.visits"``.

    Raises
    ------
    DataError
        If it is neither, or the executors' Python has not what is needed.
    """

    def __init__(self, table: Any) -> None:
        if isinstance(table, str):
            table = _named(table)
        if not hasattr(table, "mapInArrow"):
            raise DataError(f"the table must be a Spark DataFrame, not {type(table).__name__}")
        self._table = table
        self._encoded: tuple[_Settings, Any, int] | None = None
        _check_workers(table.sparkSession)

    def __repr__(self) -> str:
        return f"SparkSource({len(self.names)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._table.columns)

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        with _asking():
            return bool(self._table.isEmpty())

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks of raw values; see `Source.blocks`.

        Here private rows come to the driver, which is needed for columns to be discovered, and for record keys.
        """
        kinds: dict[str, Column] = {name: Identifier() for name in extra} | dict(columns)
        with _asking():
            table = self._table.select([_quoted(name) for name in kinds]).toArrow()
        for batch in table.to_batches(COUNTED_ROWS) or [pa.RecordBatch.from_pylist([], table.schema)]:
            yield read_all(batch.columns, kinds)

    def sums(
        self, statistic: Statistic, schema: Schema, *, unit: str | None = None, bound: Bound | None = None
    ) -> Totals:
        """Return a statistic's exact integer sums over all rows, (k,), computed and added on the executors.

        The driver gets the sums and no private row.  If a ``unit`` column is given, ``bound`` keeps some rows of each unit.
        """
        with _asking(), _own_python(self._table.sparkSession), _compiled(self._table.sparkSession):
            encoded, parts = self._encode(schema, unit, bound)
            added = encoded.mapInArrow(_Summing(statistic, schema), "sums binary")
            if parts > MOST_PARTS:
                added = added.repartition(math.isqrt(parts)).mapInArrow(_add, "sums binary")
            added = added.toArrow()
        total = sum((np.frombuffer(part.as_py(), np.int64) for part in added.column("sums")), np.zeros(1, np.int64))
        if len(added) == 0:
            return statistic.sums(statistic.domain.codes(_no_rows(schema)))
        return np.asarray(total, np.int64)

    def forget(self) -> None:
        """Drop the encoded rows that executors keep for the next query."""
        if self._encoded is not None:
            with contextlib.suppress(Exception):  # the session may have ended
                self._encoded[1].unpersist()
            self._encoded = None

    def _encode(self, schema: Schema, unit: str | None, bound: Bound | None) -> tuple[Any, int]:
        """Return the rows as grid indices, in a Spark DataFrame, and the number of partitions of the source.

        Executors keep the rows if they can.  By the number `sums` decides whether partial sums are first added up by a
        shuffle.  With a privacy unit, rows beyond its limit are left out.
        """
        # All that the encoded rows depend on; the very same schema, for Categorical([1]) equals Categorical([True]).
        settings: _Settings = (schema, unit, bound)
        if self._encoded is not None and self._encoded[0][0] is schema and self._encoded[0][1:] == (unit, bound):
            return self._encoded[1:]
        self.forget()
        chosen, form = _prepared(self._table, schema, unit)
        if unit is None or bound is None:
            encoded = chosen.mapInArrow(_Encoding(form), _BLOCK)
        else:
            columns = [f"`{j}` {_sql_type(column)}" for j, column in enumerate(schema.values())]
            digests = [f"`{name}` bigint" for name in (_FIRST, _SECOND, _PART)]
            keyed = chosen.mapInArrow(_Keying(form, bound), ", ".join([*columns, *digests]))
            # by all cores: Spark's own choice for a shuffle of few bytes may be one part, and a part must fit in memory
            together = keyed.repartition(max(_parts(chosen), _cores(self._table.sparkSession)), f"`{_PART}`")
            encoded = together.mapInArrow(_Keeping(schema, bound), _BLOCK)
        parts = _parts(chosen)
        with contextlib.suppress(Exception):  # some clusters keep nothing: rows are encoded again for each question
            encoded = encoded.persist(StorageLevel.MEMORY_AND_DISK)
        self._encoded = (settings, encoded, parts)
        return encoded, parts


class Sampler(Protocol):
    """An object that draws synthetic rows block by block, such as the output of a release."""

    @property
    def schema(self) -> Schema:
        """The columns of the rows."""
        ...

    def sample_blocks(
        self,
        rows: int,
        *,
        random_state: int,
        block_rows: int,
        first: int,
        part_of: int,
        format: TableFormat,  # noqa: A002
    ) -> Iterator[Any]:
        """Yield ``rows`` synthetic rows as tables of at most ``block_rows`` rows, in ``format``.

        ``first`` is the number of rows drawn elsewhere before: labels of identifiers start after theirs.  ``part_of`` is
        the number of rows of the whole sample, by which survey weights are scaled.
        """
        ...


def sample_on_spark(
    session: Any, sampler: Sampler, rows: int, *, partitions: int, random_state: RandomState = None
) -> Any:
    """Return a Spark DataFrame of synthetic rows that the executors draw, each partition with a seed of its own.

    Parameters
    ----------
    session
        The Spark session.
    sampler
        The output of a release.
    rows
        Rows in all.
    partitions
        Parts of nearly equal size.
    random_state
        Seed of the sampling; equal seeds and equal ``partitions`` give equal rows.

    Raises
    ------
    ParameterError
        If there are fewer rows than partitions, or fewer than one partition.
    """
    check_whole("partitions", partitions, most=rows)
    seeds = generator(random_state).integers(2**63, size=partitions).tolist()
    ends = [rows * i // partitions for i in range(partitions + 1)]
    form = TableFormat.default(sampler.schema, library="pyarrow")
    example = next(iter(sampler.sample_blocks(1, random_state=0, block_rows=1, first=0, part_of=rows, format=form)))
    _check_workers(session)
    parts = session.range(0, partitions, 1, partitions)
    with _own_python(session):
        return parts.mapInArrow(_Drawing(sampler, seeds, ends, form), from_arrow_schema(example.schema))


class _Drawing:
    """A Spark task that turns partition numbers into the synthetic rows of those partitions."""

    def __init__(self, sampler: Sampler, seeds: Sequence[int], ends: Sequence[int], form: TableFormat) -> None:
        self._sampler, self._seeds, self._ends, self._form = sampler, tuple(seeds), tuple(ends), form

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                first, stop = self._ends[number], self._ends[number + 1]
                for table in self._sampler.sample_blocks(
                    stop - first, random_state=self._seeds[number], block_rows=COUNTED_ROWS, first=first,
                    part_of=self._ends[-1], format=self._form,
                ):  # fmt: skip
                    yield from table.to_batches()


@dataclass(frozen=True, slots=True)
class _Form:
    """The layout of rows that Spark sends to Python workers: packed grid indices, then raw values, then perhaps the unit.

    Parameters
    ----------
    schema
        The columns.
    packs
        Columns that Spark encodes, pack by pack.
    values
        Columns that Spark does not encode.
    """

    schema: Schema
    packs: Sequence[Sequence[str]]
    values: Sequence[str]

    def indices(self, batch: Any) -> dict[str, GridIndices]:
        """Return the grid indices of a batch, (rows,) for each column, in the schema's order."""
        found: dict[str, GridIndices] = {}
        for pack, cells in zip(self.packs, batch.columns, strict=False):
            found |= unpacked(cells.to_numpy(zero_copy_only=False), self.schema, pack)
        for name, cells in zip(self.values, batch.columns[len(self.packs) :], strict=False):
            found[name] = encode(self.schema[name], read(cells, self.schema[name]))
        return {name: found[name] for name in self.schema}


def _prepared(table: Any, schema: Schema, unit: str | None) -> tuple[Any, _Form]:
    """Return a Spark table to send to Python workers, and its layout.

    The table holds grid indices of the columns that Spark SQL encodes exactly, and the values of others.
    """
    kinds = {field.name: field.dataType.simpleString() for field in table.schema.fields}
    stages = {}
    for j, (name, column) in enumerate(schema.items()):
        found = stages_of(column, SelectedColumn(name, kinds[name]), _quoted(name), j, SPARK)
        if found is not None:
            stages[name] = found
    packs, values = packs_of(schema, [*stages]), [name for name in schema if name not in stages]
    raw = {f"v{i}": _quoted(name) for i, name in enumerate(values if unit is None else [*values, unit])}
    for layer in layers(stages, raw):
        table = table.selectExpr(*(f"{sql} AS {name}" for name, sql in layer.items()))
    flat = [f"{packed_sql(schema, stages, pack)} AS p{i}" for i, pack in enumerate(packs)]
    return table.selectExpr(*flat, *raw), _Form(schema, packs, values)


class _Encoding:
    """A Spark task that turns batches laid out as `_Form` into blocks of grid indices, each block one cell of bytes."""

    def __init__(self, form: _Form) -> None:
        self._form = form

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        yield from _blocks(map(self._form.indices, batches), self._form.schema)


class _Keying:
    """A Spark task that turns batches laid out as `_Form` into rows of grid indices, with the hash of each row's unit.

    Spark then brings all rows of a unit to one partition.
    """

    def __init__(self, form: _Form, bound: Bound) -> None:
        self._form, self._bound = form, bound

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        schema = self._form.schema
        for batch in batches:
            indices = self._form.indices(batch)
            arrays = [pa.array(indices[name].astype(_dtype(column))) for name, column in schema.items()]
            digest = self._bound.digests(read(batch.columns[-1], Identifier())).view(np.int64)
            part = np.where(digest.any(axis=1), digest[:, 0], np.arange(len(digest)))
            arrays += [pa.array(np.ascontiguousarray(one)) for one in (digest[:, 0], digest[:, 1], part)]
            names = [*map(str, range(len(schema))), _FIRST, _SECOND, _PART]
            yield pa.RecordBatch.from_arrays(arrays, names)


class _Keeping:
    """A Spark task that drops rows beyond each unit's limit, and packs the others into blocks of grid indices."""

    def __init__(self, schema: Schema, bound: Bound) -> None:
        self._schema, self._bound = schema, bound

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        held = []
        for batch in batches:
            digest = np.column_stack([batch.column(name).to_numpy() for name in (_FIRST, _SECOND)]).view(np.uint64)
            held.append((_grid_indices(batch, self._schema.names), digest))
        if held:
            yield from _blocks([self._bound.keep(held)], self._schema)


class _Summing:
    """A Spark task that turns blocks of grid indices into a statistic's sums, one row of bytes for each task."""

    def __init__(self, statistic: Statistic, schema: Schema) -> None:
        self._statistic, self._schema = statistic, schema

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        total: Totals | None = None
        for batch in batches:
            for block in batch.column(0):
                part = self._statistic.sums(self._statistic.domain.codes(_unblocked(block.as_buffer(), self._schema)))
                total = part if total is None else total + part
        if total is not None:
            yield _row(total)


def _add(batches: Iterable[Any]) -> Iterator[Any]:
    """Add the sums of several Spark tasks, and yield them as one row."""
    total: Totals | None = None
    for batch in batches:
        for part in batch.column(0):
            sums = np.frombuffer(part.as_py(), np.int64)
            total = sums if total is None else total + sums
    if total is not None:
        yield _row(total)


def _row(total: Totals) -> Any:
    """Return a statistic's sums as a batch of one row, whose cell holds the 64-bit integers as bytes."""
    return pa.RecordBatch.from_arrays([pa.array([total.tobytes()], pa.binary())], ["sums"])


def _blocks(parts: Iterable[dict[str, GridIndices]], schema: Schema) -> Iterator[Any]:
    """Yield the grid indices of rows as blocks of bytes, about `COUNTED_ROWS` rows each, column after column.

    Spark's own rows would take more memory.
    """
    waiting: list[dict[str, GridIndices]] = []
    rows = 0

    def block() -> Any:
        columns = (
            np.concatenate([part[name] for part in waiting]).astype(_dtype(column).str.replace("i", "u"), copy=False)
            for name, column in schema.items()
        )
        return pa.RecordBatch.from_arrays([pa.array([b"".join(column.tobytes() for column in columns)])], ["block"])

    for part in parts:
        waiting.append(part)
        rows += len(next(iter(part.values())))
        if rows >= COUNTED_ROWS:
            yield block()
            waiting, rows = [], 0
    if waiting:
        yield block()


def _unblocked(block: Any, schema: Schema) -> dict[str, AnyArray]:
    """Return the (rows,) grid indices of each column in a block of bytes, in which Spark keeps encoded rows."""
    dtypes = {name: np.dtype(_dtype(column).str.replace("i", "u")) for name, column in schema.items()}
    rows = len(block) // sum(dtype.itemsize for dtype in dtypes.values())
    found, start = {}, 0
    for name, dtype in dtypes.items():
        found[name] = np.frombuffer(block, dtype, rows, start)
        start += rows * dtype.itemsize
    return found


def _grid_indices(batch: Any, names: Sequence[str]) -> dict[str, AnyArray]:
    """Return a batch's columns as (rows,) grid indices (numbers of values on a column's finest grid), by name.

    Spark has no unsigned integers, so the bytes of its signed integers are read as unsigned.
    """
    found = {name: batch.column(str(j)).to_numpy() for j, name in enumerate(names)}
    return {name: indices.view(indices.dtype.str.replace("i", "u")) for name, indices in found.items()}


def _no_rows(schema: Schema) -> dict[str, AnyArray]:
    """Return empty grid indices, (0,), for each column: the sums of a table without rows are still defined."""
    return {name: np.zeros(0, np.uint8) for name in schema}


def _dtype(column: Column) -> np.dtype[np.signedinteger[Any]]:
    """Return a signed integer dtype of the width of a column's grid indices.

    Spark has no unsigned integers; the bits are the same.
    """
    narrow = np.min_scalar_type(max(grid_of(column).size - 1, 0))
    return np.dtype(narrow.str.replace("u", "i"))


def _sql_type(column: Column) -> str:
    """Return the name of the signed Spark integer type that has the width of a column's grid indices."""
    return {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"}[_dtype(column).itemsize]


def _quoted(name: str) -> str:
    """Return a name in backticks, as Spark SQL needs."""
    return "`" + name.replace("`", "``") + "`"


def _named(table: str) -> Any:
    """Return the DataFrame of a table's name; raise DataError if no session runs or the catalogue has none."""
    session = SparkSession.getActiveSession()
    if session is None:
        raise DataError(
            "the name of a Spark table needs a running session: call SparkSession.builder.getOrCreate() first"
        )
    with instead_of(Exception, say=DataError(f"Spark's catalogue has no table {table!r}, or it may not be read")):
        found = session.table(table)
        found.schema  # noqa: B018 - Spark Connect looks the table up only now
    return found


def _parts(table: Any) -> int:
    """Return a table's number of partitions, or 1 where Spark does not say, as through Spark Connect."""
    with contextlib.suppress(Exception):
        return max(1, int(table.rdd.getNumPartitions()))
    return 1


def _cores(session: Any) -> int:
    """Return how many tasks the cluster runs at once, or 1 if it does not say; rows are divided into that many parts."""
    with contextlib.suppress(Exception):
        return int(session.sparkContext.defaultParallelism)
    return 1


@contextlib.contextmanager
def _own_python(session: Any) -> Iterator[None]:
    """Let Spark workers on this machine run this Python, unless the user named another.

    Spark's own choice is any python3 on the path, which may lack synthdp.
    """
    context = None
    with contextlib.suppress(Exception):
        context = session.sparkContext
    named = "PYSPARK_PYTHON" in os.environ or (context is not None and context.getConf().get("spark.pyspark.python"))
    if context is None or named or not context.master.startswith("local"):
        yield
        return
    before, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


@contextlib.contextmanager
def _compiled(session: Any) -> Iterator[None]:
    """Limit the size of methods that Spark generates, for the ``with`` body, so that Java compiles them.

    Uncompiled, the encoding of many columns takes four times as long.
    """
    name, before = "spark.sql.codegen.hugeMethodLimit", None
    with contextlib.suppress(Exception):  # some clusters let no setting change
        before = session.conf.get(name)
        session.conf.set(name, str(min(int(before), LARGEST_COMPILED)))
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(Exception):
                session.conf.set(name, before)


_CHECKED: WeakSet[Any] = WeakSet()
"""Spark sessions whose executors were found to have all packages, so that each is checked once."""

_OTHER_PYTHON = "the executors run another version of Python than this one: set PYSPARK_PYTHON"
"""The error message for executors that run another version of Python."""

_LACKS = (
    ("No module named 'synthdp'", "synthdp is missing in the executors' Python: install the same version there"),
    ("No module named", "a package that synthdp needs is missing in the executors' Python: install synthdp[arrow] there"),
    ("PYTHON_VERSION_MISMATCH", _OTHER_PYTHON),
    ("Python in worker has different version", _OTHER_PYTHON),
    ("Cannot run program", "the executors find no Python: set PYSPARK_PYTHON to its path on the executors"),
)  # fmt: skip
"""Parts of a worker's error messages, and what each means for the user."""


def _check_workers(session: Any) -> None:
    """Raise DataError, with a list of what is missing, if a session's executors cannot run synthdp.

    The check runs one small job, once a session, before anything is spent.

    Raises
    ------
    DataError
        Saying what is missing.
    """
    if session in _CHECKED:
        return

    def say(error: BaseException) -> DataError:
        words = str(error)
        told = next((sentence for sign, sentence in _LACKS if sign in words), None)
        return DataError(told or "the executors' Python does not start: see the executors' log")

    with instead_of(Exception, say=say), _own_python(session):
        there = session.range(1).mapInArrow(_Version(), "version string").collect()[0][0]
    here = _version()
    if there != here:
        raise DataError(
            f"the Spark executors have synthdp {there}, but this Python has {here}: install the same version on both"
        )
    _CHECKED.add(session)


class _Version:
    """A Spark task that returns the version of synthdp on the executor."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([_version()])], ["version"])


def _version() -> str:
    """Return the version of synthdp, which must be the same on the executors."""
    return str(sys.modules["synthdp"].__version__)


def _asking() -> AbstractContextManager[None]:
    """Return a context manager that turns Spark's errors, which may quote values, into one sentence."""

    def say(error: BaseException) -> DataError | None:
        if type(error).__module__.split(".")[0] not in {"pyspark", "py4j", "pyarrow"}:
            return None
        return DataError("Spark could not read the table: run an action on it in Spark itself to see why")

    return instead_of(Exception, say=say)
