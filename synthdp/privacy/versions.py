"""Versions of the packages that make noise and accounting, for receipts."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def noise_versions() -> tuple[tuple[str, str], ...]:
    """Return name and version of each package that a guarantee rests on.

    Costs nothing: public.
    """
    return tuple((name, _version(name)) for name in ("synthdp", "opendp", "dp-accounting", "numpy"))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
