"""What each folder of `synthdp.works` registers, found by name and loaded only when it is asked for.

A work says in its `__init__`, as text, which mechanisms and which saved classes it has.  The rest of the package imports no
work: it looks here for a name that it does not know itself.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

WORKS = "synthdp.works"


class NamedPlace(NamedTuple):
    """A mechanism that `SyntheticRelease` knows by name."""

    place: str
    """``"module:Class"``, in the work's package."""
    takes: tuple[str, ...]
    """The settings that its constructor takes under the same name; with ``"solver"``, those of explicit support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one line of work registers.

    Parameters
    ----------
    package
        Its package, ``__name__``.
    mechanisms
        Those that yield a table, by the name that users write.
    outputs, parts
        ``"module:Class"`` of what its releases hold and are saved with, and of what these are made of.
    statistics
        ``"module:Class"`` of statistics that a saved release of a synthetic model keeps, by their name in the file.
    """

    package: str
    mechanisms: Mapping[str, NamedPlace] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    statistics: Mapping[str, str] = field(default_factory=dict)

    def place(self, within: str) -> str:
        """Return the whole place of one that is given within the work's package."""
        return f"{self.package}.{within}"


@cache
def works() -> tuple[Work, ...]:
    """Return what all works register; loads their tables of names, and none of their modules."""
    folders = pkgutil.iter_modules(import_module(WORKS).__path__)
    return tuple(import_module(f"{WORKS}.{folder.name}").WORK for folder in folders)


def found_at(place: str) -> Any:
    """Return what is at ``"module:name"``, loading the module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def place_of(kind: type[Any]) -> str:
    """Return where a class is defined, as `found_at` takes it."""
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def mechanisms() -> Mapping[str, NamedPlace]:
    """Return the named mechanisms of all works, with their whole places."""
    return {
        name: NamedPlace(work.place(one.place), one.takes) for work in works() for name, one in work.mechanisms.items()
    }


@cache
def statistics() -> Mapping[str, str]:
    """Return the places of the saved statistics of all works, by their name in the file."""
    return {name: work.place(place) for work in works() for name, place in work.statistics.items()}
