"""Values as JSON and arrays, by the declared types of their fields: for the classes of `forms`, and for no others.

A class in the list is written as its name and the fields of its constructor, and read by calling that constructor, which
checks them.  What a field holds is checked against its declared type first.  Nothing is looked up by a name from a file
but in this list.  Under `storage`, which writes the folder.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from synthdp.arrays import AnyArray
from synthdp.domain.domain import Domain
from synthdp.errors import FormatError, ParameterError
from synthdp.measurements import Measurements
from synthdp.registered import found_at, place_of, works
from synthdp.schema.schema import Schema

OUTPUTS = ("synthdp.mechanisms.cell_model:CellModel", "synthdp.mechanisms.direct_answers:DirectAnswers")
"""Where what a release may hold, besides a `SyntheticModel`, and still be written, is; works register more."""

PARTS = (
    "synthdp.distribution.explicit:Explicit",
    "synthdp.fit.explicit.solver:FitResult",
    "synthdp.measurements:Measurements",
    "synthdp.measurements:Noise",
    "synthdp.privacy.key_histogram:HistogramPlan",
    "synthdp.privacy.key_histogram:KeyCounts",
    "synthdp.queries.explicit:CellQueries",
    "synthdp.queries.fitting:FittingRows",
    "synthdp.queries.marginals:Marginals",
    "synthdp.queries.norms:Norms",
    "synthdp.queries.stack:Stack",
    "synthdp.queries.subset:Subset",
    "synthdp.queries.total:Total",
    "synthdp.queries.trigonometric:Cosine",
    "synthdp.queries.trigonometric:Indicator",
    "synthdp.queries.trigonometric:TensorBasis",
)
"""Where what these are made of is; works register more."""

KIND = "kind"
_ENDLESS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True)
class Form:
    """How one class that is not in the list is written and read: by a table of its own, which `storage` holds.

    Parameters
    ----------
    write
        The object to a JSON document.
    read
        The document to an object.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@dataclass(slots=True)
class Arrays:
    """Arrays by name; what occurs twice is kept once."""

    named: dict[str, AnyArray] = field(default_factory=dict)
    _names: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def put(self, array: AnyArray) -> str:
        """Keep an array and return its name."""
        content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
        same = array.dtype.str, array.shape, content
        if same not in self._names:
            self._names[same] = f"a{len(self.named)}"
            self.named[self._names[same]] = array
        return self._names[same]


@cache
def outputs() -> Mapping[str, str]:
    """Return by name where each class is that a release may hold."""
    return _by_name([*OUTPUTS, *(work.place(one) for work in works() for one in work.outputs)])


@cache
def forms() -> Mapping[str, str]:
    """Return by name where each class of the list is."""
    return {**outputs(), **_by_name([*PARTS, *(work.place(one) for work in works() for one in work.parts)])}


def output_kind(document: Any) -> type[Any]:
    """Return the class of a release's output, by its document.

    Raises
    ------
    FormatError
        If no release may hold it.
    """
    name = str(document.get(KIND)) if isinstance(document, dict) else ""
    if name not in outputs():
        raise FormatError("a value of a release is of a type that it must not have")
    kind: type[Any] = found_at(outputs()[name])
    return kind


def _by_name(places: Sequence[str]) -> dict[str, str]:
    return {place.partition(":")[2]: place for place in places}


def constructor_fields(kind: type[Any]) -> list[str]:
    """Return the names of the fields that a class is made from."""
    return [one.name for one in fields(kind) if one.init]


def has_form(value: object) -> bool:
    """Return whether a value is of a class in the list, and all that it is made of."""
    try:
        written(value, Arrays(), {Domain: Form(lambda _: 0, _nothing), Schema: Form(lambda _: 0, _nothing)})
    except ParameterError:
        return False
    return True


def written(value: Any, arrays: Arrays, special: Mapping[type[Any], Form]) -> Any:
    """Return a value as what JSON can hold.

    Raises
    ------
    ParameterError
        If something in it is of a class that has no file form.
    """

    def write(one: Any) -> Any:
        if type(one) in special:
            return special[type(one)].write(one)
        match one:
            case np.ndarray() if one.dtype.kind in "biuf":
                return arrays.put(one)
            case np.generic():
                return write(one.item())
            case Enum():
                return one.name
            case None | bool() | int() | str():
                return one
            case float():
                return one if math.isfinite(one) else repr(one)
            case bytes():
                return one.hex()
            case tuple() | list():
                return [write(part) for part in one]
            case frozenset():
                return sorted(write(part) for part in one)
            case Mapping():
                return [[write(key), write(part)] for key, part in one.items()]
        kind = type(one)
        if forms().get(kind.__name__) != place_of(kind):
            raise ParameterError(f"a {kind.__name__} has no file form")
        return {KIND: kind.__name__, **{name: write(getattr(one, name)) for name in constructor_fields(kind)}}

    return write(value)


def read(document: Any, hint: Any, arrays: Mapping[str, AnyArray], special: Mapping[type[Any], Form]) -> Any:
    """Return the value that was written, if it is of the type that is expected.

    Raises
    ------
    FormatError
        If it is of another type.
    """

    def value(one: Any, expected: Any) -> Any:
        expected = plain_type(expected)
        origin, parts = get_origin(expected), get_args(expected)
        if origin in (Union, UnionType):
            return choice(one, parts)
        if origin is np.ndarray:
            return array(one, parts[1])
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {value(key, parts[0]): value(part, parts[1]) for key, part in listed(one)}
        if isinstance(origin, type) and issubclass(origin, (tuple, frozenset, Sequence)):
            return origin_of(origin)(several(listed(one), parts))
        return plain(one, expected)

    def choice(one: Any, parts: tuple[Any, ...]) -> Any:
        for part in parts:
            try:
                return value(one, part)
            except FormatError:
                continue
        raise FormatError("a value of a release is of a type that it must not have")

    def several(items: list[Any], parts: tuple[Any, ...]) -> list[Any]:
        if len(parts) == 1 or parts[1:] == (...,):
            return [value(item, parts[0]) for item in items]
        return [value(item, part) for item, part in zip(items, parts, strict=True)]

    def array(one: Any, dtype: Any) -> AnyArray:
        scalar = get_origin(get_args(dtype)[0]) or get_args(dtype)[0]
        found = arrays[one]
        if scalar is not Any and not np.issubdtype(found.dtype, scalar):
            raise FormatError("an array of a release holds other numbers than it must")
        return found

    def plain(one: Any, expected: Any) -> Any:
        text = one if isinstance(one, str) else ""
        if expected is float and (type(one) in (float, int) or text in _ENDLESS):
            return _ENDLESS[text] if text else float(one)
        if expected in (bool, int, str, NoneType) and type(one) is expected:
            return one
        if expected is bytes and isinstance(one, str):
            return bytes.fromhex(one)
        if isinstance(expected, type) and issubclass(expected, Enum) and text in expected.__members__:
            return expected[text]
        if expected in special:
            return special[expected].read(one)
        if isinstance(one, dict) and str(one.get(KIND)) in forms():
            kind = found_at(forms()[one[KIND]])
            hints = _hints(kind)
            made = kind(**{name: value(one[name], hints[name]) for name in constructor_fields(kind)})
            if isinstance(made, Measurements) and not len(made.values) == made.queries.k == made.noise.k:
                raise FormatError("the answers of a release do not fit what was asked")
            if isinstance(expected, type) and isinstance(made, expected):
                return made
        raise FormatError("a value of a release is of a type that it must not have")

    return value(document, hint)


def plain_type(hint: Any) -> Any:
    """Return the type that an alias stands for, and any other type as it is.

    From Python 3.12 on a type may be declared by an object that is no class: NumPy 2.5 declares ``NDArray`` so.
    """
    alias = hint if hasattr(hint, "__type_params__") else get_origin(hint)
    while hasattr(alias, "__value__"):
        hint = _filled(alias, get_args(hint))
        alias = hint if hasattr(hint, "__type_params__") else get_origin(hint)
    return hint


def _filled(alias: Any, parts: tuple[Any, ...]) -> Any:
    """Return what an alias stands for, with its parameters replaced by ``parts``."""
    given = dict(zip(alias.__type_params__, parts, strict=True)) if parts else {}
    free = getattr(alias.__value__, "__parameters__", ())
    return alias.__value__[tuple(given.get(one, Any) for one in free)] if free else alias.__value__


def listed(one: Any) -> list[Any]:
    """Return a list of a document, or refuse what is none."""
    if not isinstance(one, list):
        raise FormatError("a value of a release is of a type that it must not have")
    return one


def origin_of(origin: Any) -> type[Any]:
    """Return what a field declared by this origin is made as: sequences as tuples."""
    return frozenset if origin is frozenset else tuple


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _nothing(_: Any) -> Any:
    raise FormatError("a value of a release is of a type that it must not have")
