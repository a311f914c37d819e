"""The encoding of a schema as SQL: the very grid index that `synthdp.domain.encoder.encode` gives, for any value.

Whole numbers and moments are counted in whole steps; reals go through the same floating-point operations, in the same
order, as the encoder's; levels are compared as they are.  A column for which that cannot be promised has no expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import partial

import numpy as np
import pyarrow as pa

from synthdp.arrays import AnyArray, GridIndices, narrow
from synthdp.domain.grid import Grid, bounds_of, grid_of
from synthdp.schema.column import Fresh, Interval, Level, Levels, Steps
from synthdp.schema.columns import Column
from synthdp.schema.schema import Schema
from synthdp.schema.times import CALENDAR
from synthdp.tables.sql.types import SelectedColumn

MOST_LEVELS = 1000
"""Most levels of a column that is encoded in SQL, where each is a comparison; columns with more are encoded in Python.
A safety limit."""

_FARTHEST = 2**62
"""Largest integer value encoded in SQL; beyond it 64-bit arithmetic could overflow.  A safety limit."""

_MOST_DIGITS = 2**50
"""Largest numerator or denominator of decimal values encoded in SQL, and largest bound of a column of PostgreSQL
numerics that are cast to floats.  Beyond it floats may be one step off.  A safety limit."""

_LEAST = 1e-290
"""Smallest absolute value of a PostgreSQL numeric that is cast to a float unchanged.  Smaller numbers whose
float is not 0 become this value, because their floats have fewer digits.  A safety limit."""

with localcontext(prec=800):
    _ZERO = Decimal(2) ** -1075
"""Derived: texts of numbers up to here are 0 as floats of 64 bits, whose least is twice that."""

_WIDEST, _NARROWEST = 1e200, 1e-200
"""Largest and smallest width of an interval of real numbers encoded in SQL: PostgreSQL refuses arithmetic that over- or
underflows, as products and quotients of such widths cannot.  Other intervals are encoded in Python.  Safety limits."""


def _standard_literal(text: str) -> str:
    """Return a text as a literal of standard SQL, in single quotes."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Words:
    """The SQL types, literals and functions in which databases differ where values are encoded.

    Parameters
    ----------
    kinds
        The database's type names, and what they are here.
    divide
        Division of whole numbers, rounded down.
    even
        The function that rounds to the nearest whole number, halves to the even one.
    micros
        Microseconds since 1970 of a moment.
    text
        A text as it is compared, byte by byte.
    days
        Days since 1970 of a date.
    real
        The type of floating-point numbers of 64 bits.
    literal
        A text, as it stands in a query.
    """

    kinds: Mapping[str, str]
    divide: str
    even: str
    micros: str
    text: str
    days: str = "({0}) - date '1970-01-01'"
    real: str = "double precision"
    literal: Callable[[str], str] = _standard_literal


WORDS: Mapping[str, Words] = {
    "postgres": Words(
        {
            "int2": "whole", "int4": "whole", "int8": "whole", "float4": "real", "float8": "real", "bool": "truth",
            "text": "text", "varchar": "text", "bpchar": "text", "date": "day", "timestamp": "moment",
            "timestamptz": "zoned", "numeric": "numeric",
        },
        "/", "round({0})", "CAST(extract(epoch from {0}) * 1000000 AS bigint)", 'CAST({0} AS text) COLLATE "C"',
    ),
    "duckdb": Words(
        {
            "TINYINT": "whole", "SMALLINT": "whole", "INTEGER": "whole", "BIGINT": "whole", "UTINYINT": "whole",
            "USMALLINT": "whole", "UINTEGER": "whole", "FLOAT": "real", "DOUBLE": "real", "BOOLEAN": "truth",
            "VARCHAR": "text", "DATE": "day", "TIMESTAMP": "moment", "TIMESTAMP WITH TIME ZONE": "zoned",
        },
        "//", "round_even({0}, 0)", "epoch_us({0})", "{0}",
    ),
}  # fmt: skip
"""The SQL words of databases whose arithmetic is proven to equal the encoder's, by dialect."""

SPARK = Words(
    {
        "tinyint": "whole", "smallint": "whole", "int": "whole", "bigint": "whole", "float": "real", "double": "real",
        "boolean": "truth", "string": "text", "date": "day",
    },
    "div", "rint({0})", "unix_micros({0})", "{0}", "unix_date({0})", "double",
    lambda text: f"CAST(X'{text.encode().hex()}' AS string)",  # no quote, no escape, no variable
)  # fmt: skip
"""The SQL words of Spark, whose arithmetic is proven to equal the encoder's too."""


@dataclass(frozen=True, slots=True)
class Stages:
    """SQL that computes the grid index of one column in up to four nested queries, so that nothing is computed twice.

    Each query may use names that the one before it computed.

    Parameters
    ----------
    first
        From the table: what each later stage needs, by name.
    later
        Expressions by name that the following stages replace, stage by stage.
    index
        The name of the result.
    """

    first: Mapping[str, str]
    later: tuple[Mapping[str, str], ...]
    index: str


def stages_of(column: Column, asked: SelectedColumn, value: str, j: int, words: Words) -> Stages | None:
    """Return SQL that computes a column's grid index, as up to four nested queries.

    ``None`` if SQL cannot reproduce `encode` exactly: the values are then fetched and encoded in Python.

    Parameters
    ----------
    column
        The column's declaration.
    asked
        The selected column, with its database type.
    value
        The column's name, quoted.
    j
        Number of the column in the query, by which names are made unique.
    words
        SQL expressions of the database's dialect.
    """
    kind, name, grid = words.kinds.get(asked.kind), f"g{j}", grid_of(column)
    if kind is None:
        kind, value = _as_it_comes(asked, value)
    if kind == "numeric":
        kind, value = ("real", _as_float(value)) if _has_room(column) else (None, value)
    match column.support():
        case Fresh():
            return Stages({name: "0"}, (), name)
        case Levels(levels):
            levelled = _of_levels(levels, grid, kind, value, words)
            return None if levelled is None else Stages({name: levelled}, (), name)
        case Steps() as steps if steps.denominator is None:
            whole = _whole(column, steps, kind, value, words)
            if whole is None:
                return None
            return Stages({f"w{j}": whole}, ({name: _of_steps(steps, grid, f"w{j}", words)},), name)
        case Steps() as steps if kind in {"whole", "real"} and column.quantity == "number":
            return _of_decimals(steps, grid, value, j, words)
        case Interval() as interval if kind in {"whole", "real"} and column.quantity == "number":
            return _of_interval(interval, grid, value, j, words)
    return None


def _as_it_comes(asked: SelectedColumn, value: str) -> tuple[str | None, str]:
    """Return the kind and SQL of a PostgreSQL value that is fetched as a text or as microseconds, to be encoded as fetched.

    An enum, uuid or inet is compared as its text, a time of day and an interval as microseconds.  The kind is ``None``
    for any other value, whose SQL stays as it is.
    """
    if asked.sql == "{}" or asked.arrives is None or asked.sql.startswith("convert_to"):
        return None, value
    if pa.types.is_string(asked.arrives):
        return "text", f"({asked.sql.format(value)})"
    if pa.types.is_time(asked.arrives) or pa.types.is_duration(asked.arrives):
        return ("clock" if pa.types.is_time(asked.arrives) else "length"), f"({asked.sql.format(value)})"
    return None, value


def _has_room(column: Column) -> bool:
    """Return whether PostgreSQL numerics of a column get the encoder's bins after `_as_float` and a cast to floats."""
    support = column.support()
    if column.quantity != "number" or not isinstance(support, Interval | Steps):
        return False
    if isinstance(support, Steps) and support.denominator is None:
        return False  # read as texts, whole numbers are whole to the last digit
    ends = bounds_of(column)
    return max(map(abs, (*ends, *support.special))) < _MOST_DIGITS and all(
        one == 0 or abs(one) > _LEAST for one in support.special
    )


def _as_float(value: str) -> str:
    """Return SQL that clips a PostgreSQL numeric so that a cast to a float cannot over- or underflow; NaN becomes null.

    Values beyond 2^53, and so beyond all bounds, become ±2^53.  Values near 0 become ±`_LEAST`, or 0 where the
    value's float is 0.
    """
    zero, least, most = (f"CAST('{one:f}' AS numeric)" for one in (_ZERO, Decimal(str(_LEAST)), Decimal(2**53)))
    return (
        f"(CASE WHEN {value} = CAST('NaN' AS numeric) THEN NULL WHEN {value} > {most} THEN {most} "
        f"WHEN {value} < -{most} THEN -{most} WHEN {value} BETWEEN -{zero} AND {zero} THEN 0 "
        f"WHEN {value} > 0 AND {value} < {least} THEN {least} WHEN {value} < 0 AND {value} > -{least} THEN -{least} "
        f"ELSE {value} END)"
    )


def _of_levels(levels: tuple[Level, ...], grid: Grid, kind: str | None, value: str, words: Words) -> str | None:
    """Return SQL for the grid index of a label, or ``None`` if levels have several types or are too many."""
    types = {type(level) for level in levels}
    wanted = {"text": str, "truth": bool, "whole": int}.get(kind or "")
    if wanted is None or types != {wanted} or len(levels) > MOST_LEVELS:
        return None
    literals = {_literal(level, words): i for i, level in enumerate(levels)}
    if None in literals:
        return None
    compared = words.text.format(value) if kind == "text" else value
    whens = " ".join(f"WHEN {literal} THEN {i}" for literal, i in literals.items())
    return f"CASE WHEN {value} IS NULL THEN {_null(grid)} ELSE CASE {compared} {whens} ELSE {grid.other} END END"


def _literal(level: Level, words: Words) -> str | None:
    """Return a level as an SQL literal; ``None`` for a text that cannot stand in a query."""
    if isinstance(level, bool):
        return str(level).lower()
    if isinstance(level, str):
        return words.literal(level) if "\0" not in level and _is_unicode(level) else None
    return f"CAST({level} AS bigint)" if abs(level) < 2**63 else None


def _is_unicode(text: str) -> bool:
    """Return whether a text is valid Unicode, which databases require."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(column: Column, steps: Steps, kind: str | None, value: str, words: Words) -> str | None:
    """Return SQL for a value as an integer (microseconds for times), or ``None`` if the database cannot do it exactly."""
    ends = (steps.value(steps.first), steps.value(steps.last) + steps.size)
    if max(map(abs, ends)) >= _FARTHEST or any(abs(special) >= _FARTHEST for special in steps.special):
        return None
    if column.quantity == "number":
        if kind == "whole":
            return f"CAST({value} AS bigint)"
        if kind == "real" and max(map(abs, ends)) < 2**52 and steps.size == 1 and steps.offset == 0:
            real = f"CAST({value} AS {words.real})"
            near = words.even.format(_clipped(real, -(2**53), 2**53, words.real))
            return f"CASE WHEN {real} = CAST('NaN' AS {words.real}) THEN NULL ELSE CAST({near} AS bigint) END"
    if column.quantity == kind and kind in {"clock", "length"}:
        return value
    if column.quantity == "moment" and kind in {"day", "moment", "zoned"}:
        first, last, sort = {
            "day": ("0001-01-01", "9999-12-31", "date"),
            "moment": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "timestamp"),
            "zoned": ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00", "timestamptz"),
        }[kind]
        inside = f"CASE WHEN {value} > {sort} '{last}' THEN {sort} '{last}' ELSE {value} END"
        days = f"CAST({words.days.format(inside)} AS bigint) * 86400000000"
        micros = days if kind == "day" else words.micros.format(f"({inside})")
        # the earliest moments have no microseconds that fit: compared first
        return f"CASE WHEN {value} < {sort} '{first}' THEN {CALENDAR[0]} ELSE {micros} END"
    return None


def _of_steps(steps: Steps, grid: Grid, whole: str, words: Words) -> str:
    """Return SQL for the grid index of an integer; where ``whole`` is null, the index of a missing value."""
    low, high = steps.value(steps.first), steps.value(steps.last) + steps.size - 1
    half, most = 0 if steps.rounds_down else steps.size // 2, steps.last - steps.first
    above = f"({whole} - ({low}))"
    step = above if steps.size == 1 else f"(({above} + {half}) {words.divide} {steps.size})"
    point = _of_runs(step, grid, words)
    special = {grid.regular + i: int(number) for i, number in enumerate(grid.special) if number == int(number)}
    whens = "".join(f"WHEN {whole} = {number} THEN {index} " for index, number in special.items())
    last = int(grid.points_of(np.array([most], np.uint64))[0])
    nearer = f"WHEN {whole} >= {high - half} THEN {last} " if half else f"WHEN {whole} > {high} THEN {last} "
    return f"CASE WHEN {whole} IS NULL THEN {_null(grid)} {whens}WHEN {whole} < {low} THEN 0 {nearer}ELSE {point} END"


def _of_runs(step: str, grid: Grid, words: Words) -> str:
    """Return SQL for the grid index of a step number counted from the lower bound: a grid point may hold many steps."""
    if grid.width == 1:
        return step
    if not grid.runs:
        return f"({step} {words.divide} {grid.width})"
    above = [f"({step} - {run.step})" for run in grid.runs]
    inside = [
        f"{run.point} + {one if run.width == 1 else f'({one} {words.divide} {run.width})'}"
        for run, one in zip(grid.runs, above, strict=True)
    ]
    whens = " ".join(
        f"WHEN {step} < {after.step} THEN {one}" for one, after in zip(inside, grid.runs[1:], strict=False)
    )
    return f"(CASE {whens} ELSE {inside[-1]} END)" if whens else f"({inside[-1]})"


def _of_decimals(steps: Steps, grid: Grid, value: str, j: int, words: Words) -> Stages | None:
    """Return SQL stages for the grid index of a decimal number; ``None`` if it has too many digits for exact floats.

    SQL counts the steps by the encoder's own operations on floats.  SQL clips values before it counts, and the encoder
    clips the counts, with equal results.  ``j`` is a number that no other column of the query has.
    """
    denominator, ends = steps.denominator or 1, [steps.offset + at * steps.size for at in (steps.first, steps.last)]
    if max(*map(abs, ends), denominator) > _MOST_DIGITS:
        return None
    real_of = partial(_real, kind=words.real)
    x, w, g = f"x{j}", f"w{j}", f"g{j}"
    first = _clipped_real(value, float(steps.value(steps.first)), float(steps.value(steps.last)), grid, j, words)
    counted = f"({x} * {real_of(float(denominator))} - {real_of(float(steps.offset))}) / {real_of(float(steps.size))}"
    count = {w: f"CAST({words.even.format(f'({counted})')} AS bigint) - {steps.first}"}
    last = int(grid.points_of(np.array([steps.last - steps.first], np.uint64))[0])
    point = f"WHEN {w} < 0 THEN 0 WHEN {w} >= {steps.last - steps.first} THEN {last} ELSE {_of_runs(w, grid, words)}"
    return Stages(first, (count, {g: f"CASE WHEN {g} >= 0 THEN {g} {point} END"}), g)


def _of_interval(interval: Interval, grid: Grid, value: str, j: int, words: Words) -> Stages | None:
    """Return SQL stages for the grid index of a real number; ``None`` if the bounds are too wide or too narrow for it.

    ``j`` is a number that no other column of the query has.
    """
    lower, upper, parts = float(interval.lower), float(interval.upper), grid.regular
    if not _NARROWEST <= upper - lower <= _WIDEST or max(abs(lower), abs(upper)) > _WIDEST:
        return None
    real_of = partial(_real, kind=words.real)
    x, k, g = f"x{j}", f"k{j}", f"g{j}"
    first = _clipped_real(value, lower, upper, grid, j, words)
    # A difference too small to be divided lies in the first part, as does its quotient.
    above = f"({x} - {real_of(lower)})"
    part = (
        f"CASE WHEN {above} < {real_of(1e-290 * max(1.0, upper - lower))} THEN 0 ELSE "
        f"floor({above} / {real_of(upper - lower)} * {real_of(float(parts))}) END"
    )
    start = {k: f"CASE WHEN {part} > {parts - 1} THEN {parts - 1} ELSE CAST({part} AS bigint) END"}

    def edge(at: str) -> str:
        return f"({real_of(lower)} + {real_of(upper - lower)} * (CAST({at} AS {words.real}) / {real_of(float(parts))}))"

    down = {k: f"CASE WHEN {k} > 0 AND {x} < {edge(k)} THEN {k} - 1 ELSE {k} END"}
    up = {
        g: f"CASE WHEN {g} >= 0 THEN {g} WHEN {k} < {parts - 1} AND {x} >= {edge(f'({k} + 1)')} THEN {k} + 1 ELSE {k} END"
    }
    return Stages(first, (start, down, up), g)


def _clipped_real(value: str, lower: float, upper: float, grid: Grid, j: int, words: Words) -> dict[str, str]:
    """Return SQL for a number as a float within its bounds, ``xj``, and for the grid index of a missing or special value.

    The index, ``gj``, is -1 for all other values.
    """
    real_of = partial(_real, kind=words.real)
    real, low, high = f"CAST({value} AS {words.real})", real_of(lower), real_of(upper)
    missing = f"{real} IS NULL OR {real} = CAST('NaN' AS {words.real})"
    special = "".join(f"WHEN {real} = {real_of(s)} THEN {grid.regular + i} " for i, s in enumerate(grid.special))
    return {
        f"x{j}": f"CASE WHEN {missing} THEN {low} WHEN {real} < {low} THEN {low} WHEN {real} > {high} THEN {high} "
        f"ELSE {real} END",
        f"g{j}": f"CASE WHEN {missing} THEN {_null(grid)} {special}ELSE -1 END",
    }


def _null(grid: Grid) -> int:
    """Return the grid index of a missing value: out of domain, or "other", if the column cannot have one."""
    return grid.other if grid.null is None else grid.null


def _real(number: float, *, kind: str) -> str:
    """Return SQL for a float literal, exact to the last bit."""
    return f"CAST('{float(number)!r}' AS {kind})"


def _clipped(value: str, low: int, high: int, kind: str = "bigint") -> str:
    """Return SQL for a value clipped to two bounds, which are cast to the SQL type ``kind``."""
    least, most = f"CAST({low} AS {kind})", f"CAST({high} AS {kind})"
    return f"(CASE WHEN {value} < {least} THEN {least} WHEN {value} > {most} THEN {most} ELSE {value} END)"


def layers(columns: Mapping[str, Stages], also: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what each of some nested queries selects, SQL by name; the last one has all grid indices.

    An expression cannot use another of the same query, so each stage is a query around the one before.

    Parameters
    ----------
    columns
        The stages of each column.
    also
        Further expressions of the table's columns, by name.
    """
    here = dict(also)
    for stages in columns.values():
        here |= stages.first
    found = [dict(here)]
    for number in range(max((len(stages.later) for stages in columns.values()), default=0)):
        changed = {
            name: sql for one in columns.values() if number < len(one.later) for name, sql in one.later[number].items()
        }
        here |= changed
        found.append({name: changed.get(name, name) for name in here})
    return found


def encoded(rows: str, columns: Mapping[str, Stages], also: Mapping[str, str]) -> str:
    """Return a query of the grid indices of some columns, and of further expressions, by name.

    Parameters
    ----------
    rows
        Table or query of the rows, as it stands in a FROM clause.
    columns
        The stages of each column: expressions that use the results of the stage before.
    also
        Further expressions of the table's columns, by name.
    """
    query = rows
    for number, layer in enumerate(layers(columns, also)):
        parts = [sql if sql == name else f"{sql} AS {name}" for name, sql in layer.items()]
        source = query if number == 0 else f"({query} OFFSET 0) stage{number - 1}"  # OFFSET: computed once
        query = f"SELECT {', '.join(parts) or '1 AS nothing'} FROM {source}"  # noqa: S608
    return query


MOST_PACKED = 2**62
"""Most combinations of grid indices that are packed into one signed 64-bit integer, which above 2^63 would overflow.  A
safety limit."""


def packs_of(schema: Schema, names: Sequence[str]) -> list[list[str]]:
    """Return columns divided into packs, in order; each pack fits in one 64-bit integer, to send fewer bytes.

    Parameters
    ----------
    schema
        The declarations of the columns.
    names
        Names of the columns to pack, in order.
    """
    packs: list[list[str]] = []
    room = 0
    for name in names:
        size = grid_of(schema[name]).size
        if room < size:
            packs.append([])
            room = MOST_PACKED
        packs[-1].append(name)
        room //= size
    return packs


def packed_sql(schema: Schema, stages: Mapping[str, Stages], pack: Sequence[str]) -> str:
    """Return SQL for the integer of a pack, from the grid indices of its columns."""
    flat = f"CAST({stages[pack[0]].index} AS bigint)"
    for name in pack[1:]:
        flat = f"({flat} * {grid_of(schema[name]).size} + {stages[name].index})"
    return flat


def unpacked(packed: AnyArray, schema: Schema, pack: Sequence[str]) -> dict[str, GridIndices]:
    """Return the grid indices of a pack's columns, (n,) each, by name, from the integers of `packed_sql`.

    Parameters
    ----------
    packed
        (n,) whole numbers.
    schema
        The declarations.
    pack
        The columns.
    """
    found = {}
    for name in pack[:0:-1]:
        size = grid_of(schema[name]).size
        rest = packed // size
        found[name] = narrow(packed - rest * size, size)
        packed = rest
    return found | {pack[0]: narrow(packed, grid_of(schema[pack[0]]).size)}
