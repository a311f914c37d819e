"""Everything that can be reached from an object without a name that starts with an underscore, and without a call."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

LEAVES = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    np.generic,
    np.ndarray,
    np.dtype,
    pd.DataFrame,
    pd.Series,
    pd.Index,
)
"""What is looked at and not into."""

CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)
"""What is the same in every process, whatever the table is."""


def walk(*start: object) -> Iterator[tuple[str, Any]]:
    """Yield every object that can be reached, once, with the way to it."""
    waiting = [(type(one).__name__, one) for one in start]
    seen: dict[int, object] = {}  # the objects too: a number may be given again
    while waiting:
        way, thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, CODE):
            continue
        seen[id(thing)] = thing
        yield way, thing
        if not isinstance(thing, LEAVES):
            waiting.extend((way + step, found) for step, found in _steps(thing))


def _steps(thing: object) -> Iterator[tuple[str, object]]:
    if isinstance(thing, (types.MethodType, types.BuiltinMethodType)):
        yield ".__self__", thing.__self__
        return
    if sparse.issparse(thing):  # its other attributes are arrays like it, without end
        yield from (
            (f".{name}", getattr(thing, name)) for name in ("data", "indices", "indptr") if hasattr(thing, name)
        )
        return
    if isinstance(thing, partial):
        yield from (
            (f".partial[{i}]", one) for i, one in enumerate((thing.func, *thing.args, *thing.keywords.values()))
        )
    if isinstance(thing, Mapping):
        yield from ((f"[{i}]", one) for i, pair in enumerate(thing.items()) for one in pair)
    if isinstance(thing, (list, tuple, set, frozenset)):
        yield from ((f"[{i}]", one) for i, one in enumerate(thing))
    slots = [name for kind in type(thing).__mro__ for name in _listed(getattr(kind, "__slots__", ()))]
    for name in dict.fromkeys([*dir(thing), *slots, *getattr(thing, "__dict__", {})]):
        if not name.startswith("_"):
            try:
                yield f".{name}", getattr(thing, name)
            except Exception:  # noqa: BLE001 - an attribute that cannot be read leads nowhere
                continue


def _listed(slots: object) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)  # type: ignore[arg-type]
