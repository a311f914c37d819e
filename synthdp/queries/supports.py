"""Sparse queries: functions of a record that are non-zero on few record keys, whatever the size of the universe.

A query lists its support only when it is asked, and nothing here knows how many records there could be.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import FloatArray, IntArray, frozen
from synthdp.domain.grid import labels_of
from synthdp.errors import ParameterError
from synthdp.schema.schema import Schema, schema_given

MISSING = "\x00"
"""The part of a record key that stands for a missing value; texts that contain it are escaped.  A convention."""

BETWEEN = "\x1f"
"""The separator between the parts of a record key (ASCII's unit separator). A convention."""

LONGEST_WHOLE = 2_000
"""Longest whole number, in bits, that is written as text in a key, since Python may be set to refuse longer ones (640
digits). A safety limit.
"""

_ESCAPES = str.maketrans({"\\": "\\\\", BETWEEN: "\\u", MISSING: "\\0"})
"""How characters with a meaning in record keys are escaped inside of a part: a text is then never taken for a
separator or a missing value.
"""

_ORIGINALS = {"\\": "\\", "u": BETWEEN, "0": MISSING}
"""The escaped characters, by the letter that follows the backslash; the inverse of `_ESCAPES`."""


def part_of(value: object) -> str:
    """Return the part of a record key that stands for one value.

    Texts are themselves except for escapes, whole numbers of any type their digits, other numbers their shortest
    decimals.  Truth values are 0 and 1, times ISO 8601, bytes hexadecimal digits.  Missing values are one part together
    with infinities and values without a text of their own.
    """
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case bool() | int() if value.bit_length() <= LONGEST_WHOLE:
            return str(int(value))
        case float() if math.isfinite(value):
            return str(int(value)) if value == int(value) else repr(value)
        case dt.datetime() | dt.date() | dt.time() if value == value:  # a missing time differs from itself
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return MISSING


def key_of(values: Sequence[object]) -> str:
    """Return the key of a record from its values, one per column."""
    return BETWEEN.join(part_of(value) for value in values)


def values_of(key: str) -> tuple[str | None, ...]:
    """Return the texts of a key's values; ``None`` where missing."""
    return tuple(None if part == MISSING else _unescaped(part) for part in key.split(BETWEEN))


def _unescaped(part: str) -> str:
    """Return the text that a part of a record key stands for, with its escaped characters restored."""
    if "\\" not in part:
        return part
    letters = iter(part)
    return "".join(_ORIGINALS[next(letters)] if letter == "\\" else letter for letter in letters)


DENOMINATOR = 2**10
"""The whole number that stands for 1 in sparse queries: values are rounded to a 1024th, so that sums are exact.  A
convention.
"""

MAX_SUPPORT = 2**22
"""Most keys of a query's support that are listed.  A safety limit of memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Support:
    """The keys on which a query is not zero, and its values there.

    Parameters
    ----------
    keys
        Different record keys.
    values
        (m,) whole numbers in 0..`DENOMINATOR`, `DENOMINATOR` standing for 1.
    """

    keys: Sequence[str]
    values: IntArray

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.dtype != np.int64 or values.shape != (len(self.keys),):
            raise ParameterError("values must be one 64-bit whole number per key")
        if len(values) and not (values.min() >= 0 and values.max() <= DENOMINATOR):
            raise ParameterError(f"values must be whole numbers from 0 to {DENOMINATOR}")
        if len(set(self.keys)) < len(self.keys):
            raise ParameterError("keys must differ from each other")
        object.__setattr__(self, "values", frozen(values))

    @property
    def weights(self) -> FloatArray:
        """(m,) the query's values on its keys as real numbers in [0, 1]."""
        return np.asarray(self.values / DENOMINATOR, np.float64)

    def total(self, counts: Mapping[str, int]) -> int:
        """Return the query's sum over records, in 1024ths, from how often each key occurs."""
        occurring = np.fromiter((counts.get(key, 0) for key in self.keys), np.int64, len(self.keys))
        return int(occurring @ self.values)


@runtime_checkable
class SparseQuery(Protocol):
    """A function of a record with values in [0, 1], zero on all but few keys."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns whose values make up the key."""
        ...

    @property
    def sparsity(self) -> int:
        """The number m of keys on which the query is not zero, computed without listing them."""
        ...

    def support(self) -> Support:
        """Return the keys on which the query is not zero, listed, and its values there."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class KeyList:
    """A sparse query with a listed support; make one by `of`, `overlap` or `weighted`.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    listed
        The keys and the values on them.
    """

    columns: tuple[str, ...]
    listed: Support

    @classmethod
    def of(cls, columns: tuple[str, ...], keys: Iterable[str]) -> KeyList:
        """Return the query that is 1 on the given keys and 0 elsewhere: it counts these records."""
        different = tuple(dict.fromkeys(keys))
        return cls(columns, Support(keys=different, values=np.full(len(different), DENOMINATOR, np.int64)))

    @classmethod
    def weighted(cls, columns: tuple[str, ...], values: Mapping[str, float]) -> KeyList:
        """Return the query with a value in [0, 1] on each of some keys, rounded to a 1024th so that sums are exact.

        Raises
        ------
        ParameterError
            If a value is outside after it was rounded.
        """
        rounded = np.rint(np.array(list(values.values()), np.float64) * DENOMINATOR)
        if not np.all((rounded >= 0) & (rounded <= DENOMINATOR)):
            raise ParameterError("values must map each key to a number from 0 to 1")
        return cls(columns, Support(keys=tuple(values), values=rounded.astype(np.int64)))

    def __repr__(self) -> str:
        return f"KeyList({self.sparsity} keys of {', '.join(self.columns)})"

    @property
    def sparsity(self) -> int:
        """Number of listed keys."""
        return len(self.listed.keys)

    def support(self) -> Support:
        """Return the listed keys and the query's values on them."""
        return self.listed


@dataclass(frozen=True, slots=True)
class SparseConjunction:
    """How many rows satisfy all of some literals; make one by `sparse_conjunction`.

    The columns without a literal are free; the support is one key for every combination of their declared values.

    Parameters
    ----------
    columns
        All columns that make up a key.
    parts
        For every column the parts of a key that satisfy the query: one where there is a literal.
    """

    columns: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        literals = [
            f"{name}={parts[0]}" for name, parts in zip(self.columns, self.parts, strict=True) if len(parts) == 1
        ]
        return f"SparseConjunction({len(literals)} of {len(self.columns)} literals)"

    @property
    def sparsity(self) -> int:
        """The number of keys on which the query is 1: the product of the numbers of values of the free columns."""
        size = 1
        for parts in self.parts:
            size *= len(parts)
        return size

    def support(self) -> Support:
        """Return all keys that satisfy the literals, each with the value 1, which is stored as `DENOMINATOR`.

        Raises
        ------
        ParameterError
            If there are more than `MAX_SUPPORT`.
        """
        if self.sparsity > MAX_SUPPORT:
            raise ParameterError(
                f"the conjunction is true for {self.sparsity:.3g} possible records, and at most {MAX_SUPPORT} can "
                "be listed: fix the values of more columns in literals"
            )
        keys = [BETWEEN.join(parts) for parts in itertools.product(*self.parts)]
        return Support(keys=keys, values=np.full(len(keys), DENOMINATOR, np.int64))


def sparse_conjunction(
    schema: Any, literals: Mapping[str, object], *, columns: Sequence[str] | None = None
) -> SparseConjunction:
    """Return the query of how many rows have given values in most columns, and any declared value in the others.

    Parameters
    ----------
    schema
        A `Schema`, a reviewed draft, or a schema's document or path.  It declares the values of the free columns, which
        must be levels or truth values.
    literals
        The given value of each column that has one; the other columns are free.
    columns
        The d columns that make up a record; default: all of the schema.

    Raises
    ------
    ParameterError
        If a literal names no column, or a free column has no declared levels.

    Examples
    --------
    >>> import synthdp as sd
    >>> schema = sd.Schema({"city": sd.Categorical(["Oslo", "Rome"]), "member": sd.Boolean()})
    >>> sd.sparse_conjunction(schema, {"city": "Oslo"}).sparsity  # members and others
    2
    """
    schema = schema_given(schema)
    names = schema.names if columns is None else tuple(columns)
    for asked, there in ((names, schema.names), (literals, names)):
        unknown = [name for name in asked if name not in there]
        if unknown:
            raise ParameterError(f"column {unknown[0]!r} must be one of: {', '.join(there)}")
    return SparseConjunction(
        names,
        tuple((part_of(literals[name]),) if name in literals else _free_parts(schema, name) for name in names),
    )


def sparse_cells(schema: Schema, names: Sequence[str], *, columns: Sequence[str]) -> list[SparseConjunction]:
    """Return one conjunction per cell of the marginal of some columns, in C order of their declared values.

    Parameters
    ----------
    schema
        Declares the values.
    names
        The columns of the marginal.
    columns
        The columns that make up a record.

    Raises
    ------
    ParameterError
        If a column has no declared levels, or there are more than `MAX_SUPPORT` cells.
    """
    parts = {name: _free_parts(schema, name) for name in columns}
    if math.prod(len(parts[name]) for name in names) > MAX_SUPPORT:
        raise ParameterError(f"a marginal of {', '.join(names)} has more than {MAX_SUPPORT} cells: name fewer columns")
    cells = itertools.product(*(parts[name] for name in names))
    return [
        SparseConjunction(tuple(columns), tuple(fixed[name] if name in fixed else parts[name] for name in columns))
        for fixed in ({name: (part,) for name, part in zip(names, cell, strict=True)} for cell in cells)
    ]


def _free_parts(schema: Schema, name: str) -> tuple[str, ...]:
    """Return the key parts of all values that a column may take.

    Raises ParameterError if its levels are not declared.
    """
    column = schema[name]
    if not (column.labelled and column.is_complete):
        raise ParameterError(
            f"column {name!r} has no declared levels, so its values cannot be listed: declare its levels, or fix "
            "its value in literals"
        )
    parts = tuple(dict.fromkeys(part_of(level) for level in labels_of(column)))
    return (*parts, MISSING) if getattr(column, "nullable", False) else parts
