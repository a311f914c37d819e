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
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from synthdp.errors import ParameterError

WORKS = "synthdp.works"
"""The package of the works."""


class NamedPlace(NamedTuple):
    """A mechanism that has a name."""

    place: str
    """``"module:Class"``, in the work's package."""
    takes: tuple[str, ...]
    """The settings that its constructor takes under the same name; with ``"solver"``, explicit support's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one line of work registers.

    Parameters
    ----------
    package
        Its package, ``__name__``.
    mechanisms
        Those that yield a table, or answers alone, by the name that users write.
    saved
        By the name that files have for each of its classes (`synthdp.codec.file_form`), the module in the work's package.
    """

    package: str
    mechanisms: Mapping[str, NamedPlace] = field(default_factory=dict)
    saved: Mapping[str, str] = field(default_factory=dict)

    def place(self, within: str) -> str:
        """Return the whole place of one that is given within the work's package."""
        return f"{self.package}.{within}"


@cache
def works() -> tuple[Work, ...]:
    """Return what all works register; loads their tables of names, and none of their modules."""
    folders = pkgutil.iter_modules(import_module(WORKS).__path__)
    return tuple(import_module(f"{WORKS}.{folder.name}").WORK for folder in folders)


def found_at(place: str) -> Any:
    """Return the object at ``"module:name"``, loading its module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def mechanisms() -> Mapping[str, NamedPlace]:
    """Return the named mechanisms of all works, with their whole places."""
    return {
        name: NamedPlace(work.place(one.place), one.takes) for work in works() for name, one in work.mechanisms.items()
    }


@cache
def saved_classes() -> Mapping[str, str]:
    """Return the module of each saved class of all works, by its name in files."""
    return {name: work.place(module) for work in works() for name, module in work.saved.items()}


MECHANISMS, SOURCES, COLUMN_TYPES = "synthdp.mechanisms", "synthdp.sources", "synthdp.column_types"
"""Groups of entry points by which other packages register theirs."""


@cache
def extensions(group: str) -> Mapping[str, EntryPoint]:
    """Return what installed packages have in a group, by name; loads none of it."""
    found: dict[str, EntryPoint] = {}
    for one in entry_points(group=group):
        found.setdefault(one.name, one)
    return found


def extension(group: str, name: str) -> Any:
    """Return what a package has under a name in a group, loaded now; ``None`` if there is nothing.

    Raises
    ------
    ParameterError
        If its package is broken.
    """
    found = extensions(group).get(name)
    if found is None:
        return None
    try:
        return found.load()
    except (ImportError, AttributeError):
        package = found.dist.name if found.dist is not None else found.value
        raise ParameterError(f"{name!r} of {group} cannot be loaded: its package {package!r} is broken") from None


def ending_of(name: str) -> str | None:
    """Return the ending of a file's name that some package reads, if any."""
    ending = name.rpartition(".")[2].lower()
    return ending if ending != name.lower() and ending in extensions(SOURCES) else None
