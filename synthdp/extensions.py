"""What other packages add, found by name among the entry points of installed packages, loaded only when it is asked for.

A package says in its metadata, under one of these groups, what it has:

- ``synthdp.mechanisms``: the name for `SyntheticRelease(mechanism=...)`, and the mechanism's class;
- ``synthdp.sources``: a file's ending without its point, and a class that is made of a path and is a `Source`;
- ``synthdp.column_types``: the type's name in schema files, in lower case, and its class.

A name that synthdp has itself stays its own.  Whoever names an extension runs its code with the private rows in reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from synthdp.errors import ParameterError

MECHANISMS, SOURCES, COLUMN_TYPES = "synthdp.mechanisms", "synthdp.sources", "synthdp.column_types"


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
