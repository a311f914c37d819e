"""Files and folders that are written whole or not at all, each beside its place and then moved there.

A saved watch has a protocol of its own, in `curator.saved_watch`: it must be continued at most once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from synthdp.errors import DataError, SynthDPError


@contextmanager
def writing(path: str | PathLike[str], *, refusal: type[SynthDPError] = DataError) -> Iterator[None]:
    """Replace errors of the operating system by one that names the path, the reason and what to do.

    Parameters
    ----------
    path
        The file or folder that the ``with`` body writes.
    refusal
        Class of the new error, which keeps no link to the original.
    """
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "the disk may be full"
        said = refusal(f"'{path}' cannot be written ({why}): give a path in a writable folder with free space")
        try:
            raise said from None
        finally:
            said.__context__ = None


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Lend a new, empty file beside ``path``, of the same ending; it replaces ``path`` after the ``with`` body.

    If the body fails nothing is left behind, so that no half-written file is taken for a result.  If ``path`` exists
    and is no regular file, such as a device, ``path`` itself is lent.

    Parameters
    ----------
    path
        The place.
    private
        Whether only the owner may read the file, from its first byte on.

    Raises
    ------
    OSError
        If the file cannot be made or moved.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}{path.suffix}")
    try:
        beside.touch(0o600 if private else 0o666, exist_ok=False)
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a text that reveals private rows into a file that only its owner may read, from its first byte on.

    Raises
    ------
    OSError
        If the file cannot be made or moved.
    """
    with replacing(path, private=True) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Lend a new folder that takes the place of ``folder`` after the ``with`` body; parents that are missing are made.

    If the body fails, ``folder`` stays as it was.

    Raises
    ------
    OSError
        If the folder cannot be made or moved.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    scratch.mkdir(mode=0o700)
    try:
        fresh = scratch / "new"
        fresh.mkdir(mode=0o755)
        yield fresh
        _exchange(fresh, folder, old=scratch / "old")
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(scratch)


def _exchange(fresh: Path, folder: Path, *, old: Path) -> None:
    """Move the folder ``fresh`` to ``folder``, and what is there to ``old``; if the second move fails, move it back."""
    if folder.exists():
        folder.rename(old)
    try:
        fresh.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that the names of new and renamed files in it survive a power cut.

    Raises
    ------
    OSError
        If the system cannot do so.
    """
    if os.name == "nt":  # where a folder cannot be opened, and its entries are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
