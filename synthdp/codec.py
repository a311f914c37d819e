"""Values as JSON and arrays, and back: for the classes that say by `saved_as` how a file calls them, and for no others.

A class is written as its name and the fields that its constructor takes, and read by calling that constructor, which checks
them; what a field holds is checked against its declared type first.  A class may write and read itself by ``to_saved`` and
``of_saved``.  Nothing is looked up by a name from a file but here, and no module is loaded that is not listed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from synthdp.arrays import AnyArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import FormatError, ParameterError
from synthdp.registered import saved_classes
from synthdp.schema.schema import Schema

KindT = TypeVar("KindT", bound=type[Any])

KIND = "kind"
"""The key in a JSON document that names the class of the value."""

ADDED: Mapping[str, bool] = {"added": True}
"""Metadata of a field that earlier versions did not have: absent in a file it has its default, which is not written."""

HOMES: Mapping[str, str] = {
    "CellModel": "synthdp.mechanisms.cell_model",
    "CellQueries": "synthdp.queries.linear",
    "Cosine": "synthdp.queries.trigonometric",
    "DatabaseModel": "synthdp.sampling.database_document",
    "DirectAnswers": "synthdp.mechanisms.direct_answers",
    "Explicit": "synthdp.distribution.explicit",
    "FitResult": "synthdp.fit.explicit.solver",
    "FittingRows": "synthdp.queries.linear",
    "HistogramPlan": "synthdp.privacy.key_histogram",
    "Indicator": "synthdp.queries.trigonometric",
    "KeyCounts": "synthdp.privacy.key_histogram",
    "Marginals": "synthdp.queries.marginals",
    "Measurements": "synthdp.measurements",
    "Noise": "synthdp.measurements",
    "Norms": "synthdp.queries.norms",
    "Stack": "synthdp.queries.linear",
    "ClassOffsets": "synthdp.queries.class_offsets",
    "Subset": "synthdp.queries.linear",
    "SyntheticModel": "synthdp.sampling.model_document",
    "TensorBasis": "synthdp.queries.trigonometric",
    "Total": "synthdp.queries.linear",
    "components": "synthdp.distribution.components",
    "distances": "synthdp.queries.distances",
    "explicit": "synthdp.distribution.explicit",
    "graphical": "synthdp.distribution.markov_random_field",
    "interactions": "synthdp.queries.interactions",
    "marginals": "synthdp.queries.marginals",
    "pair distances": "synthdp.queries.distances",
    "pair products": "synthdp.queries.products",
    "person distances": "synthdp.sampling.database_document",
    "person tables": "synthdp.sampling.database_document",
    "product": "synthdp.distribution.components",
    "products": "synthdp.queries.products",
    "tensor": "synthdp.queries.trigonometric",
    "total": "synthdp.queries.linear",
}
"""The module that defines each saved class, by the class's name in files, so that reading a file can import it.  The
packages below synthdp.works list their own."""

_ENDLESS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""Texts for the floats that JSON has no number for."""

_WRONG_TYPE = "the file is damaged, so load another copy: a value in it has a wrong type"
"""The error message for a file in which a value has another type than its field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How values of one class are written to and read from a file.

    Parameters
    ----------
    kind
        The class.
    name
        The class's name in files of version 2.
    short
        The class's name in files of version 1, by default ``name`` too.
    write, read
        The value to what JSON can hold, and back.
    bare
        Whether files leave the name out, because every place for such a value expects just this class.
    """

    kind: type[Any]
    name: str
    short: str
    write: Callable[[Any, Store], dict[str, Any]]
    read: Callable[[Mapping[str, Any], DocumentSource], Any]
    bare: bool = False


_BY_NAME: dict[str, Form] = {}
"""The registered `Form` objects by the class's name in files."""

_BY_KIND: dict[type[Any], Form] = {}
"""The registered `Form` objects by class."""


def saved_as(name: str) -> Callable[[KindT], KindT]:
    """Say how files call the values of a class of your own, so that releases that hold such values can be saved.

    A mechanism that is given queries of a class without a name refuses them before it spends anything, because its release
    could not be saved.  Whoever loads the release imports your class first.

    The class is a dataclass whose fields have types that a file can hold: numbers, texts, arrays, tuples and mappings of
    these, the domain, and other classes with a name.  Any other class has two methods instead: ``to_saved(store)`` returns
    a dict that JSON can hold, with ``store.write(value)`` for each part, and the classmethod ``of_saved(document, source)``
    makes the object again, with ``source.read(part, type)``.

    Parameters
    ----------
    name
        Name of the class in files, for ever: a word, a dot and another word, as in ``"mylab.Thresholds"``.

    Returns
    -------
    A decorator of the class, which it returns unchanged.

    Raises
    ------
    ParameterError
        If the name has no dot or is taken by another class, or the class is no dataclass and has no such methods.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import synthdp as sd
    >>> from synthdp.domain.domain import Domain
    >>> from synthdp.queries.linear import LinearFamily
    >>> from synthdp.queries.norms import Norms, RecordBounds
    >>> @sd.saved_as("mylab.FirstCell")
    ... @dataclass(frozen=True, eq=False)
    ... class FirstCell(LinearFamily):
    ...     domain: Domain
    ...     column: int
    ...     k = 1
    ...     bounds = RecordBounds(one=Norms(1, 1, 1), swap=Norms(1, 1, 1))
    ...
    ...     def features(self, codes):
    ...         return (codes[:, [self.column]] == 0).astype(np.int64)
    """
    if not isinstance(name, str) or "." not in name:
        raise ParameterError(
            f"the name ({name!r}) of a class outside synthdp must contain a dot, as in 'mylab.Thresholds'"
        )
    return file_form(name)


def file_form(
    name: str,
    *,
    short: str | None = None,
    bare: bool = False,
    write: Callable[[Any, Store], dict[str, Any]] | None = None,
    read: Callable[[Mapping[str, Any], DocumentSource], Any] | None = None,
) -> Callable[[KindT], KindT]:
    """Return a class decorator that registers how files hold the class's values; see `saved_as` and `Form`.

    Files of version 2 call the class ``name``, files of version 1 ``short``; ``bare`` leaves the name out, as no other
    class can stand there.  Without ``write`` and ``read`` the class's own methods are used, or else the fields of its
    constructor.
    """

    def decorated(kind: KindT) -> KindT:
        own = hasattr(kind, "to_saved") and hasattr(kind, "of_saved")
        if write is None and not own and not is_dataclass(kind):
            raise ParameterError(f"{kind.__name__} must be a dataclass, or have the methods to_saved and of_saved")
        form = Form(
            kind=kind, name=name, short=short or name, bare=bare,
            write=write or (kind.to_saved if own else lambda value, store: store.fields(value)),
            read=read or (kind.of_saved if own else lambda document, source: source.fields(kind, document)),
        )  # fmt: skip
        for one in (form.name, form.short):
            known = _BY_NAME.get(one, form).kind
            if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
                raise ParameterError(
                    f"name ({one!r}) is taken by another class, {known.__module__}.{known.__qualname__}: "
                    "choose another name"
                )
        _BY_NAME[form.name] = _BY_NAME[form.short] = _BY_KIND[kind] = form  # a notebook may define its class again
        return kind

    return decorated


@cache
def homes() -> Mapping[str, str]:
    """Return the defining module of every saved class of the package, by its name in files."""
    return {**HOMES, **saved_classes()}


def form_named(name: object) -> Form:
    """Return the `Form` of a class by its name in a file, importing the class's module.

    Raises
    ------
    FormatError
        If no class has it.
    """
    if isinstance(name, str):
        if name not in _BY_NAME and name in homes():
            import_module(homes()[name])
        if name in _BY_NAME:
            return _BY_NAME[name]
        if "." in name:
            raise FormatError(
                f"the file holds an object of class {name!r}, which is not part of synthdp: import the module that defines "
                "this class first"
            )
    raise FormatError(_WRONG_TYPE)


def form_of(kind: type[Any]) -> Form:
    """Return the `Form` of a class, importing the class's module; raise ParameterError if it cannot be saved.

    Raises
    ------
    ParameterError
        If the class is not registered.
    """
    if kind not in _BY_KIND and kind.__name__ in homes():
        import_module(homes()[kind.__name__])
    if kind not in _BY_KIND:
        raise ParameterError(
            f"an object of class {kind.__name__} cannot be saved: register the class with synthdp.saved_as"
        )
    return _BY_KIND[kind]


def constructor_fields(kind: type[Any]) -> list[str]:
    """Return the names of the dataclass fields that a class is constructed from; files hold these fields."""
    return [one.name for one in fields(kind) if one.init]


@dataclass(slots=True, kw_only=True)
class Store:
    """Collects a document's arrays under names, and its shared parts under numbers, while it is written.

    Parameters
    ----------
    brief
        Whether the file is one of version 1: classes have their short names, and equal arrays are kept apart.
    """

    brief: bool = False
    arrays: dict[str, AnyArray] = field(default_factory=dict)
    parts: dict[str, list[Any]] = field(default_factory=dict)
    foreign: bool = False
    """Whether a class from outside the package was written, whose own methods must then be tested."""
    _names: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def put(self, array: AnyArray) -> str:
        """Store an array and return its name in the document; equal arrays are stored once (not in version 1)."""
        name = f"a{len(self.arrays)}"
        if not self.brief:
            content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()
            name = self._names.setdefault((array.dtype.str, array.shape, content), name)
        self.arrays[name] = array
        return name

    def number(self, part: str, value: object) -> int:
        """Return the index of an object in the document's list ``part``, adding the object if it is new.

        Objects that many others share, such as domains, are written once.
        """
        known = self.parts.setdefault(part, [])
        for i, other in enumerate(known):
            if other is value:
                return i
        known.append(value)
        return len(known) - 1

    def axis(self, axis: Axis) -> dict[str, Any]:
        """Return an axis as JSON without its column declaration, which the schema in the file holds."""
        return {
            "name": axis.name, "starts": self.put(axis.starts), "cells": self.put(axis.cells), **axis.points_in_file,
        }  # fmt: skip

    def write(self, value: Any) -> Any:
        """Return a value as JSON can hold it; its arrays go into the store.

        Raises
        ------
        ParameterError
            If something in it is of a class that has no file form.
        """
        match value:
            case Domain():
                return self.number("domains", value)
            case Schema():
                return json.loads(value.to_json())
            case np.ndarray() if value.dtype.kind in "biuf":
                return self.put(value)
            case np.generic():
                return self.write(value.item())
            case Enum():
                return value.name
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else repr(value)
            case bytes():
                return value.hex()
            case tuple() | list():
                return [self.write(part) for part in value]
            case frozenset():
                return sorted(self.write(part) for part in value)
            case Mapping():
                return [[self.write(key), self.write(part)] for key, part in value.items()]
        form = form_of(type(value))
        self.foreign |= "." in form.name
        found = form.write(value, self)
        return found if form.bare else {KIND: form.short if self.brief else form.name, **found}

    def fields(self, value: Any) -> dict[str, Any]:
        """Return the constructor fields of a value as JSON, by name; fields added later are left out at their default."""
        of = type(value)
        absent = {one.name for one in fields(of) if one.metadata == ADDED and getattr(value, one.name) is one.default}
        return {name: self.write(getattr(value, name)) for name in constructor_fields(of) if name not in absent}


@dataclass(slots=True)
class DocumentSource:
    """The arrays and shared parts of a file, from which the values of its document are read.

    Parameters
    ----------
    arrays
        The arrays, by the names that the document calls them.
    parts
        The objects that the document names by number.
    """

    arrays: Mapping[str, AnyArray]
    parts: dict[str, Sequence[Any]] = field(default_factory=dict)

    def axis(self, document: Mapping[str, Any], schema: Schema) -> Axis:
        """Return the axis that a document describes, for its column in a schema."""
        name, starts, cells = document["name"], *(self.arrays[document[part]] for part in ("starts", "cells"))
        return Axis.of_file(name, schema[name], starts, cells, document.get("points"))

    def read(self, document: Any, expected: Any) -> Any:
        """Return the value that a document describes, checked against the expected type.

        Files may be damaged or made by others, so no type in them is trusted.

        Raises
        ------
        FormatError
            If the value is of another type.
        """
        expected = plain_type(expected)
        origin, parts = get_origin(expected), get_args(expected)
        if origin in (Union, UnionType):
            return self._choice(document, parts)
        if origin is np.ndarray or expected is np.ndarray:
            return self._array(document, parts[1] if parts else np.dtype[Any])
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {self.read(key, parts[0]): self.read(part, parts[1]) for key, part in _listed(document)}
        if isinstance(origin, type) and issubclass(origin, (tuple, frozenset, Sequence)):
            return _made_as(origin)(self._several(_listed(document), parts))
        return self._plain(document, expected)

    def fields(self, kind: Any, document: Mapping[str, Any]) -> Any:
        """Return an object of a dataclass from its fields in a document; fields `ADDED` later may be absent."""
        hints, later = _hints(kind), {one.name for one in fields(kind) if one.metadata == ADDED}
        kept = [name for name in constructor_fields(kind) if name in document or name not in later]
        return kind(**{name: self.read(document[name], hints[name]) for name in kept})

    def _choice(self, document: Any, parts: tuple[Any, ...]) -> Any:
        """Return a value read as the first type that fits, of several; raise FormatError if none does."""
        refusal = FormatError(_WRONG_TYPE)
        for part in parts:
            try:
                return self.read(document, part)
            except FormatError as error:
                refusal = error
        raise FormatError(str(refusal))

    def _several(self, items: list[Any], parts: tuple[Any, ...]) -> list[Any]:
        """Return the items of a list or tuple, each read as its declared type: one type for all, or one for each."""
        if len(parts) == 1 or parts[1:] == (...,):
            return [self.read(item, parts[0]) for item in items]
        return [self.read(item, part) for item, part in zip(items, parts, strict=True)]

    def _array(self, name: Any, dtype: Any) -> AnyArray:
        """Return an array by its name in the file; raise FormatError if its dtype is not the declared one."""
        scalar = get_origin(get_args(dtype)[0]) or get_args(dtype)[0]
        found = self.arrays[name]
        if scalar is not Any and not np.issubdtype(found.dtype, scalar):
            raise FormatError("the file is damaged, so load another copy: an array in it has a wrong type of numbers")
        return found

    def _plain(self, one: Any, expected: Any) -> Any:
        """Return a single value: a number, text, boolean, bytes, enumeration member, domain, schema or saved object.

        FormatError is raised for a value of another type than ``expected``, as in a damaged file.
        """
        text = one if isinstance(one, str) else ""
        if expected is float and (type(one) in (float, int) or text in _ENDLESS):
            return _ENDLESS[text] if text else float(one)
        if expected in (bool, int, str, NoneType) and type(one) is expected:
            return one
        if expected is bytes and isinstance(one, str):
            return bytes.fromhex(one)
        if isinstance(expected, type) and issubclass(expected, Enum) and text in expected.__members__:
            return expected[text]
        if expected is Domain:
            return self.parts["domains"][one]
        if expected is Schema:
            return read_schema(one)
        if isinstance(one, dict):
            form = form_of(expected) if KIND not in one and isinstance(expected, type) else form_named(one.get(KIND))
            made = form.read(one, self)
            if isinstance(expected, type) and isinstance(made, expected):
                return made
        raise FormatError(_WRONG_TYPE)


def check_saved(value: object) -> None:
    """Raise ParameterError if a value could not be saved, so that a release fails before its budget is spent.

    A value with classes from outside the package is written and read once, in memory.

    Raises
    ------
    ParameterError
        Naming the class, and what is wrong.
    """
    store = Store(brief=True)
    document = store.write(value)
    if not store.foreign:
        return
    try:
        parts: dict[str, Sequence[Any]] = dict(store.parts)
        DocumentSource(store.arrays, parts).read(json.loads(json.dumps(document)), type(value))
    except Exception as error:  # noqa: BLE001 - code from elsewhere
        raise ParameterError(
            f"an object of class {type(value).__name__} cannot be read back from its saved form ({type(error).__name__}: "
            f"{error}): correct to_saved and of_saved of this class"
        ) from None


def read_schema(document: Any) -> Schema:
    """Return the schema that a release's document holds."""
    return Schema.from_json(json.dumps(document), source="the release's schema")


def plain_type(hint: Any) -> Any:
    """Return the type that a type alias stands for, and any other type unchanged.

    From Python 3.12 on a type may be declared by an object that is no class: NumPy 2.5 declares ``NDArray`` so.
    """
    alias = hint if hasattr(hint, "__type_params__") else get_origin(hint)
    while hasattr(alias, "__value__"):
        hint = _filled(alias, get_args(hint))
        alias = hint if hasattr(hint, "__type_params__") else get_origin(hint)
    return hint


def _filled(alias: Any, parts: tuple[Any, ...]) -> Any:
    """Return the type behind an alias, with its type parameters replaced by ``parts``; missing parameters become ``Any``.

    Values of a file are checked against this type.
    """
    given = dict(zip(alias.__type_params__, parts, strict=True)) if parts else {}
    free = getattr(alias.__value__, "__parameters__", ())
    return alias.__value__[tuple(given.get(one, Any) for one in free)] if free else alias.__value__


def _listed(one: Any) -> list[Any]:
    """Return a list of a document; raise FormatError for any other value."""
    if not isinstance(one, list):
        raise FormatError(_WRONG_TYPE)
    return one


def _made_as(origin: Any) -> type[Any]:
    """Return the class in which a collection field is built: frozenset for frozensets, else tuple.

    Both are immutable, so that a saved object's parts cannot change.
    """
    return frozenset if origin is frozenset else tuple


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """Return the declared types of a class's fields, by name; cached, because finding them is slow."""
    return get_type_hints(kind)
