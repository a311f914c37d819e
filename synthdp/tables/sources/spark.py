"""A Spark DataFrame as a source of rows that sums where its rows are, and synthetic rows drawn on the executors.

Only whole numbers come to the driver.  Rows are encoded once and kept there, narrow, for the next question.  Every task
adds up its part; a task that is repeated gives the same sums and is counted once.  Executors need synthdp and pyarrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql.pandas.types import from_arrow_schema

from synthdp.arrays import AnyArray, Totals
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

COUNTED_ROWS = 1 << 18
"""Rows that a task counts at a time."""

_Settings: TypeAlias = tuple[Schema, str | None, Bound | None]

_FIRST, _SECOND, _PART = "digest 0", "digest 1", "part"  # not names of encoded columns, which are numbers


class SparkSource:
    """The rows of a Spark DataFrame.

    The DataFrame must give the same rows whenever Spark computes it: a part that is lost is computed again.

    Parameters
    ----------
    table
        The DataFrame.
    """

    def __init__(self, table: Any) -> None:
        if not hasattr(table, "mapInArrow"):
            raise DataError(f"the table must be a Spark DataFrame, not {type(table).__name__}")
        self._table = table
        self._encoded: tuple[_Settings, Any] | None = None

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
        """Yield all rows in blocks; see `Source.blocks`.  They come to the driver: columns to discover, and keys."""
        kinds: dict[str, Column] = {name: Identifier() for name in extra} | dict(columns)
        with _asking():
            table = self._table.select([_quoted(name) for name in kinds]).toArrow()
        for batch in table.to_batches(COUNTED_ROWS) or [pa.RecordBatch.from_pylist([], table.schema)]:
            yield read_all(batch.columns, kinds)

    def sums(
        self, statistic: Statistic, schema: Schema, *, unit: str | None = None, bound: Bound | None = None
    ) -> Totals:
        """Return the exact sums of a statistic over all rows, made and added on the executors."""
        with _asking():
            encoded = self._encode(schema, unit, bound)
            partial = encoded.mapInArrow(_Summing(statistic, schema.names), "sums binary")
            groups = max(1, math.isqrt(encoded.rdd.getNumPartitions()))
            added = partial.repartition(groups).mapInArrow(_add, "sums binary").toArrow()
        total = sum((np.frombuffer(part.as_py(), np.int64) for part in added.column("sums")), np.zeros(1, np.int64))
        if len(added) == 0:
            return statistic.sums(statistic.domain.codes(_no_rows(schema)))
        return np.asarray(total, np.int64)

    def forget(self) -> None:
        """Drop the encoded rows on the executors."""
        if self._encoded is not None:
            self._encoded[1].unpersist()
            self._encoded = None

    def _encode(self, schema: Schema, unit: str | None, bound: Bound | None) -> Any:
        """Return the rows as grid indices, column after column, kept by the executors in memory and on their disks."""
        # All that the encoded rows depend on; the very same schema, for Categorical([1]) equals Categorical([True]).
        settings: _Settings = (schema, unit, bound)
        if self._encoded is not None and self._encoded[0][0] is schema and self._encoded[0][1:] == (unit, bound):
            return self._encoded[1]
        self.forget()
        names = [*schema] if unit is None else [*schema, unit]
        chosen = self._table.selectExpr(*(f"{_quoted(name)} AS `{j}`" for j, name in enumerate(names)))
        columns = [f"`{j}` {_sql_type(column)}" for j, column in enumerate(schema.values())]
        if unit is None or bound is None:
            encoded = chosen.mapInArrow(_Encoding(schema, None), ", ".join(columns))
        else:
            digests = [f"`{name}` bigint" for name in (_FIRST, _SECOND, _PART)]
            keyed = chosen.mapInArrow(_Encoding(schema, bound), ", ".join([*columns, *digests]))
            parts = keyed.repartition(max(1, chosen.rdd.getNumPartitions()), f"`{_PART}`")
            encoded = parts.mapInArrow(_Keeping(schema, bound), ", ".join(columns))
        self._encoded = (settings, encoded.persist(StorageLevel.MEMORY_AND_DISK))
        return self._encoded[1]


class Sampler(Protocol):
    """What draws rows block by block, such as the output of a release."""

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
        format: TableFormat,  # noqa: A002
    ) -> Iterator[Any]:
        """Yield rows as tables."""
        ...


def sample_on_spark(
    session: Any, sampler: Sampler, rows: int, *, partitions: int, random_state: RandomState = None
) -> Any:
    """Return a Spark DataFrame of synthetic rows, drawn on the executors, each partition with a seed of its own.

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
        Seed of the sampling; with the same partitions the rows are the same.

    Raises
    ------
    ParameterError
        If there are fewer rows than partitions, or fewer than one partition.
    """
    check_whole("partitions", partitions, most=rows)
    seeds = generator(random_state).integers(2**63, size=partitions).tolist()
    ends = [rows * i // partitions for i in range(partitions + 1)]
    form = TableFormat.default(sampler.schema, library="pyarrow")
    example = next(iter(sampler.sample_blocks(1, random_state=0, block_rows=1, first=0, format=form)))
    parts = session.range(0, partitions, 1, partitions)
    return parts.mapInArrow(_Drawing(sampler, seeds, ends, form), from_arrow_schema(example.schema))


class _Drawing:
    """Numbers of partitions to their rows."""

    def __init__(self, sampler: Sampler, seeds: Sequence[int], ends: Sequence[int], form: TableFormat) -> None:
        self._sampler, self._seeds, self._ends, self._form = sampler, tuple(seeds), tuple(ends), form

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                first, stop = self._ends[number], self._ends[number + 1]
                for table in self._sampler.sample_blocks(
                    stop - first, random_state=self._seeds[number], block_rows=COUNTED_ROWS, first=first,
                    format=self._form,
                ):  # fmt: skip
                    yield from table.to_batches()


class _Encoding:
    """Record batches of raw values to grid indices, perhaps with the digest of each row's unit of privacy."""

    def __init__(self, schema: Schema, bound: Bound | None) -> None:
        self._schema, self._bound = schema, bound

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            indices = [encode(column, read(batch.column(j), column)) for j, column in enumerate(self._schema.values())]
            arrays = [pa.array(u.astype(_dtype(c))) for u, c in zip(indices, self._schema.values(), strict=True)]
            names = [str(j) for j in range(len(arrays))]
            if self._bound is not None:
                digest = self._bound.digests(read(batch.column(len(indices)), Identifier())).view(np.int64)
                part = np.where(digest.any(axis=1), digest[:, 0], np.arange(len(digest)))
                arrays += [pa.array(np.ascontiguousarray(part)) for part in (digest[:, 0], digest[:, 1], part)]
                names += [_FIRST, _SECOND, _PART]
            yield pa.RecordBatch.from_arrays(arrays, names)


class _Keeping:
    """All rows of some units of privacy to those that are kept."""

    def __init__(self, schema: Schema, bound: Bound) -> None:
        self._schema, self._bound = schema, bound

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        blocks = []
        for batch in batches:
            indices = _grid_indices(batch, self._schema.names)
            digest = np.column_stack([batch.column(name).to_numpy() for name in (_FIRST, _SECOND)]).view(np.uint64)
            blocks.append((indices, digest))
        if blocks:
            kept = self._bound.keep(blocks)
            arrays = [pa.array(kept[name].astype(_dtype(column))) for name, column in self._schema.items()]
            yield pa.RecordBatch.from_arrays(arrays, [str(j) for j in range(len(arrays))])


class _Summing:
    """Record batches of grid indices to the sums of a statistic, one row for a task."""

    def __init__(self, statistic: Statistic, names: Sequence[str]) -> None:
        self._statistic, self._names = statistic, tuple(names)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        total: Totals | None = None
        for indices in _gathered(batches, self._names):
            part = self._statistic.sums(self._statistic.domain.codes(indices))
            total = part if total is None else total + part
        if total is not None:
            yield _row(total)


def _add(batches: Iterable[Any]) -> Iterator[Any]:
    """Add the sums of several tasks."""
    total: Totals | None = None
    for batch in batches:
        for part in batch.column(0):
            sums = np.frombuffer(part.as_py(), np.int64)
            total = sums if total is None else total + sums
    if total is not None:
        yield _row(total)


def _row(total: Totals) -> Any:
    return pa.RecordBatch.from_arrays([pa.array([total.tobytes()], pa.binary())], ["sums"])


def _gathered(batches: Iterable[Any], names: Sequence[str]) -> Iterator[dict[str, AnyArray]]:
    """Put small batches together, so that counting is worth its tables."""
    waiting: list[dict[str, AnyArray]] = []
    rows = 0
    for batch in batches:
        waiting.append(_grid_indices(batch, names))
        rows += batch.num_rows
        if rows >= COUNTED_ROWS:
            yield {name: np.concatenate([indices[name] for indices in waiting]) for name in names}
            waiting, rows = [], 0
    if waiting:
        yield {name: np.concatenate([indices[name] for indices in waiting]) for name in names}


def _grid_indices(batch: Any, names: Sequence[str]) -> dict[str, AnyArray]:
    found = {name: batch.column(str(j)).to_numpy() for j, name in enumerate(names)}
    return {name: indices.view(indices.dtype.str.replace("i", "u")) for name, indices in found.items()}


def _no_rows(schema: Schema) -> dict[str, AnyArray]:
    return {name: np.zeros(0, np.uint8) for name in schema}


def _dtype(column: Column) -> np.dtype[np.signedinteger[Any]]:
    """Signed integers of the width of a column's grid indices: Spark has no unsigned ones, the bits are the same."""
    narrow = np.min_scalar_type(max(grid_of(column).size - 1, 0))
    return np.dtype(narrow.str.replace("u", "i"))


def _sql_type(column: Column) -> str:
    return {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"}[_dtype(column).itemsize]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _asking() -> AbstractContextManager[None]:
    """Return a context in which Spark's errors, which may quote values, are one sentence that does not."""

    def say(error: BaseException) -> DataError | None:
        if type(error).__module__.split(".")[0] not in {"pyspark", "py4j", "pyarrow"}:
            return None
        return DataError("Spark could not read the table: run an action on it in Spark itself to see why")

    return instead_of(Exception, say=say)
