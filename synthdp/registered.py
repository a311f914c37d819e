"""The mechanisms and saved classes that each folder of `synthdp.works` registers, loaded only when one is used.

A work lists them in its `__init__`, as text.  The rest of the package imports no work: an unknown name is looked up
here.
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
"""The package whose subpackages each implement one line of published work and register their mechanisms."""


class NamedPlace(NamedTuple):
    """Where a mechanism's class is defined, and the settings it takes, so that it can be loaded by name."""

    place: str
    """``"module:Class"``, in the work's package."""
    takes: tuple[str, ...]
    """The settings that its constructor takes under the same name; with ``"solver"``, explicit support's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The mechanisms and saved classes that one subpackage of `synthdp.works` registers.

    Parameters
    ----------
    package
        Package of the work, ``__name__``.
    mechanisms
        Mechanisms of the work by the name that users write; they yield a table, or answers alone.
    saved
        By the name that files have for each of its classes (`synthdp.codec.file_form`), the module in the work's package.
    """

    package: str
    mechanisms: Mapping[str, NamedPlace] = field(default_factory=dict)
    saved: Mapping[str, str] = field(default_factory=dict)

    def place(self, within: str) -> str:
        """Return a full module path from a path within this work's package."""
        return f"{self.package}.{within}"


@cache
def works() -> tuple[Work, ...]:
    """Return the registrations of all subpackages of `synthdp.works`; imports none of their modules, to start fast."""
    folders = pkgutil.iter_modules(import_module(WORKS).__path__)
    return tuple(import_module(f"{WORKS}.{folder.name}").WORK for folder in folders)


def found_at(place: str) -> Any:
    """Return the object at ``"module:name"``, importing its module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def mechanisms() -> Mapping[str, NamedPlace]:
    """Return where each named mechanism of all works is defined, and the settings that it takes, by name."""
    return {
        name: NamedPlace(work.place(one.place), one.takes) for work in works() for name, one in work.mechanisms.items()
    }


@cache
def saved_classes() -> Mapping[str, str]:
    """Return the defining module of each saved class of all works, by its name in files."""
    return {name: work.place(module) for work in works() for name, module in work.saved.items()}


MECHANISMS, SOURCES, COLUMN_TYPES = "synthdp.mechanisms", "synthdp.sources", "synthdp.column_types"
"""Entry-point groups by which other packages register mechanisms, table sources and column types."""


@cache
def extensions(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group from installed packages, by name; imports none of them."""
    found: dict[str, EntryPoint] = {}
    for one in entry_points(group=group):
        found.setdefault(one.name, one)
    return found


def extension(group: str, name: str) -> Any:
    """Return the object that an installed package registers under a name in a group, imported; ``None`` if none does.

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
        raise ParameterError(
            f"extension {name!r} of {group} cannot be loaded: update or reinstall its package {package!r}"
        ) from None


def ending_of(name: str) -> str | None:
    """Return the ending of a file name if an installed package registers a reader for it, else ``None``."""
    ending = name.rpartition(".")[2].lower()
    return ending if ending != name.lower() and ending in extensions(SOURCES) else None
