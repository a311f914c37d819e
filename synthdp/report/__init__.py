"""The report of one release as an HTML page, made from the release alone: publishable, without network or scripts."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from synthdp.errors import ParameterError
from synthdp.files import writing
from synthdp.progress import ProgressCallback, silent
from synthdp.release import Release
from synthdp.release_files import fingerprint
from synthdp.report.guidelines import About
from synthdp.report.html_page import report_page
from synthdp.sampling.synthetic_model import SyntheticModel

__all__ = ["report_page", "write_report"]


def write_report(
    release: Release[Any],
    path: str | PathLike[str],
    *,
    title: str | None = None,
    target: str | None = None,
    about: About | None = None,
    on_progress: ProgressCallback = silent,
) -> None:
    """Write the report of a release, fitted or loaded, to an HTML file; see `SyntheticRelease.report`.

    ``target`` is a column whose relations are shown first; ``about`` holds the publisher's statements about the table.

    Raises
    ------
    ParameterError
        If there is no such target, a target is given for several tables, or the release holds no synthetic table.
    DataError
        If the file cannot be written.
    """
    if _is_database(release.output):
        from synthdp.report.database_report import database_page

        if target is not None:
            raise ParameterError("a report of several tables shows all columns: leave target out")
        page = database_page(release, fingerprint=fingerprint(release), title=title)
    else:
        page = report_page(
            release, fingerprint=fingerprint(release), title=title, target=target, about=about, on_progress=on_progress
        )
    with writing(path):
        Path(path).write_text(page, encoding="utf-8")


def _is_database(output: object) -> bool:
    """Return whether a release's output is a model of several tables; `DatabaseModel` is imported only if needed."""
    if isinstance(output, SyntheticModel):
        return False
    from synthdp.sampling.database_model import DatabaseModel

    return isinstance(output, DatabaseModel)
