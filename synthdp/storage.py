"""Releases saved to a folder and loaded from one; `release_files` is how."""

from __future__ import annotations

from os import PathLike
from typing import Any

from synthdp.errors import ParameterError
from synthdp.release import Release
from synthdp.release_files import check_place as check_place, fingerprint as fingerprint, read  # noqa: PLC0414 - also here


def save(release: Release[Any], path: str | PathLike[str]) -> None:
    """Write a release to a folder; see `Release.save`."""
    if not isinstance(release, Release):
        raise ParameterError(f"release must be a Release with an output, not {type(release).__name__}")
    release.save(path)


def load(path: str | PathLike[str]) -> Release[Any]:
    """Read a release from a folder, written by this version or any earlier one.

    Raises
    ------
    FormatError
        If the folder is not a release, has another version, was changed, or holds a class of somebody's own whose module
        was not imported.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> release = sd.SyntheticRelease(schema=sd.Schema({"member": sd.Boolean()})).fit(pd.DataFrame({"member": [True] * 500}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/members.release")
    ...     again = sd.load(f"{folder}/members.release")
    >>> again.sample(10, random_state=0).equals(release.sample(10, random_state=0))
    True
    """
    return Release(**read(path))
