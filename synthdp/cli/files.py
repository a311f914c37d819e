"""The files that commands write: whole or not at all, each in the form that its ending names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from synthdp.errors import DataError, FormatError, ParameterError
from synthdp.files import replacing


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a scratch file beside ``path`` and move it there when all went well; nothing is left behind otherwise.

    Its folder is made if only that one is missing.
    """
    if path.is_dir():
        raise DataError(f"'{path}' is a folder: give a file name")
    new_folder = not path.parent.exists()
    try:
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as scratch:
            try:
                yield scratch
            except FormatError as error:
                raise FormatError(str(error).replace(str(scratch), str(path))) from None
    except OSError as error:
        raise DataError(f"'{path}' cannot be written: {error.strerror}") from None
    finally:
        if new_folder:
            with suppress(OSError):  # not empty: all went well
                path.parent.rmdir()


def check_places(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None]) -> None:
    """Raise `ParameterError` if a file to write is one that is read, or is written twice: above all the private table."""
    taken = {path.resolve(): "read" for path in inputs if path is not None}
    for path in outputs:
        if path is not None:
            if use := taken.get(path.resolve()):
                raise ParameterError(f"'{path}' is {use} by the same command: give another file name")
            taken[path.resolve()] = "written"


def check_ending(path: Path) -> None:
    """Raise `ParameterError` unless a path ends as a table does."""
    if path.suffix not in (".csv", ".parquet"):
        raise ParameterError(f"'{path}' must end in .csv or .parquet")


def receipt_text(release: Any, ending: str) -> str:
    """Return a release's receipt and privacy card as JSON or HTML, or the receipt as text, by an ending."""
    from synthdp.report.card import privacy_card
    from synthdp.report.page import card_page
    from synthdp.storage import fingerprint

    if ending == ".html":
        return card_page(release, fingerprint=fingerprint(release))
    if ending != ".json":
        return f"{release.receipt}\n"
    card = privacy_card(release, fingerprint=fingerprint(release))
    return json.dumps({**card.pop("receipt"), "card": card}, indent=1, ensure_ascii=False) + "\n"
