"""Settings of a mechanism by name: which there are, what kind of value each takes, and how text becomes one.

A mechanism is a frozen dataclass, so its constructor's annotations say both; what values are allowed, it checks itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from synthdp.errors import ParameterError

_WORDS = {"true": True, "false": False}
_KINDS: dict[object, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def check_options(name: str, kind: type[Any], options: object, *, without: Collection[str]) -> None:
    """Refuse options that a mechanism's constructor does not take.

    Parameters
    ----------
    name
        What users call the mechanism.
    kind
        Its class, a dataclass.
    options
        Names and values.
    without
        Fields of it that are set elsewhere.

    Raises
    ------
    ParameterError
        If there is no such option, or a value is of another kind than it takes.
    """
    if not isinstance(options, Mapping):
        raise ParameterError("mechanism_options must map names of options to their values")
    known = _hints(kind, without)
    for option, value in options.items():
        hint = _hint(name, known, option)
        if not _fits(value, hint):
            raise ParameterError(f"option {option!r} of {name} ({value!r}) must be {_described(hint)}")


def option_of_text(name: str, kind: type[Any], option: str, text: str, *, without: Collection[str]) -> Any:
    """Return the value of an option that is given as text.

    Raises
    ------
    ParameterError
        If there is no such option, or the text is not a value of its kind.
    """
    hint = _hint(name, _hints(kind, without), option)
    for reader in _readers(hint):
        try:
            value = reader(text)
        except (ValueError, KeyError):
            continue
        if _fits(value, hint):
            return value
    raise ParameterError(f"option {option!r} of {name} ({text!r}) must be {_described(hint)}")


def _hints(kind: type[Any], without: Collection[str]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init and field.name not in without}


def _hint(name: str, known: Mapping[str, Any], option: object) -> Any:
    if option not in known:
        raise ParameterError(f"{name} has no option {option!r}; it has: {', '.join(known)}")
    return known[str(option)]


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, else the hint alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: object, hint: Any) -> bool:
    """Say whether a value is of the kind that a hint names; what a hint says beyond plain kinds is not looked into."""
    return any(_is(value, part) for part in _parts(hint))


def _is(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is None or hint is type(None):
        return value is None
    if origin is Literal:
        return any(value is one or (isinstance(value, str) and value == one) for one in get_args(hint))
    if origin is tuple and get_args(hint)[1:] == (Ellipsis,):
        return isinstance(value, (tuple, list)) and all(_is(one, get_args(hint)[0]) for one in value)
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return hint is Any or not isinstance(origin or hint, type) or isinstance(value, origin or hint)


def _readers(hint: Any) -> list[Callable[[str], Any]]:
    """Return what reads the kinds of a hint from text, the narrowest first."""
    parts = _parts(hint)
    readers: list[Callable[[str], Any]] = []
    if type(None) in parts:
        readers.append({"none": None}.__getitem__)
    readers += [kind for kind in (int, float) if kind in parts]
    if bool in parts:
        readers.append(lambda text: _WORDS[text.casefold()])
    if any(get_origin(part) is tuple and get_args(part) == (str, ...) for part in parts):
        readers.append(lambda text: tuple(name.strip() for name in text.split(",")))
    if str in parts or any(get_origin(part) is Literal for part in parts):
        readers.append(str)
    return readers


def _described(hint: Any) -> str:
    """Return what a hint takes, in words."""
    words = []
    for part in _parts(hint):
        if part is type(None):
            words.append("none")
        elif get_origin(part) is Literal:
            words += [repr(one) for one in get_args(part)]
        elif get_origin(part) is tuple:
            words.append("a list of names")
        else:
            words.append(_KINDS.get(part, f"a {getattr(part, '__name__', part)}"))
    return " or ".join(words)
