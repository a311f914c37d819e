"""Versions of the packages that make noise and accounting, for receipts."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


def noise_versions() -> tuple[tuple[str, str], ...]:
    """Return name and version of each package that a guarantee rests on."""
    return tuple((name, version_of(name)) for name in ("synthdp", "opendp", "dp-accounting", "numpy"))


@cache
def version_of(name: str) -> str:
    """Return the version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
