"""The folder of a saved watch: written whole or not at all, and continued exactly once.

It holds hidden noise, so it is as private as the table and only its owner can read it.  The file `SESSION` makes a folder
one that can be continued: it comes and goes by one renaming, which the system does as a whole and for one process only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from synthdp.errors import FormatError, PrivacyError
from synthdp.files import sync_folder

FORMAT = "synthdp private session"
"""The name of this file format, written in its files so that other files are refused."""

VERSION = 1
"""Version of the files of a saved session.  A convention: each change adds one."""
SESSION, CONTINUED, ARRAYS = "session.json", "session.continued.json", "session.npz"
"""Names of the files of a saved session: its state, the state's new name once it was continued, and its arrays."""

WARNING = "PRIVATE: holds hidden noise and a fingerprint of the table; publish the closed session's release instead"
"""A warning in the file of a saved session to whoever opens it."""


class SavedDraft:
    """A sparse vector session that is being saved to a folder, whole or not at all.

    **The folder is private**: keep it on the curator's side.

    Parameters
    ----------
    folder
        A new one, or one in which no session was ever saved.
    """

    __slots__ = ("_files", "_folder", "_part", "_publishing")

    def __init__(self, folder: Path) -> None:
        self._folder, self._part = folder, folder / f"{SESSION}.part"
        self._files: list[Path] = []  # those that are ours to delete
        self._publishing = False

    def publish(self, document: Mapping[str, Any], arrays: bytes) -> None:
        """Write both files of the session, and then allow it to be continued, by one renaming.

        **The folder is private**: keep it on the curator's side.

        Raises
        ------
        FormatError
            If a session was saved there before, or the folder cannot be written.
        """
        text = json.dumps({"format": FORMAT, "version": VERSION, "warning": WARNING, **document})
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._new(self._part) as file:  # nobody else writes there from now on
                _refuse_used(self._folder)
                with self._new(self._folder / ARRAYS) as other:
                    _write(other, arrays)
                _write(file, text.encode())
            self._publishing = True
            self._part.rename(self._folder / SESSION)
        except FileExistsError:
            raise FormatError(f"'{self._folder}' holds a saved session already: choose another folder") from None
        except OSError as error:
            raise FormatError(
                f"the session cannot be written to '{self._folder}' ({error.strerror}): choose another folder"
            ) from None
        _sync_folder(self._folder)

    def discard(self) -> bool:
        """Delete the written files, if nobody can continue the session; return whether that is certain.

        The caller may go on with its session only then, so that its budget is used once.
        """
        if self._publishing:
            try:
                self._part.unlink()  # still there, so it was not renamed, and now it cannot be
            except OSError:
                return False
        for path in self._files:
            with contextlib.suppress(OSError):
                path.unlink()
        return True

    def _new(self, path: Path) -> IO[bytes]:
        """Open a new file that only its owner can read."""
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._files.append(path)
        return file


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SavedSession:
    """A saved sparse vector session that was read and not yet continued.

    The session stays on the curator's side.

    Parameters
    ----------
    folder
        Folder in which it was saved.
    text
        The file `SESSION`: private.
    document
        Its settings as JSON, which are private.
    arrays
        The file `ARRAYS`.
    """

    folder: Path
    text: bytes
    document: dict[str, Any]
    arrays: bytes

    @classmethod
    def read(cls, folder: Path) -> SavedSession:
        """Read a saved session from a folder without changing the folder.

        The session stays on the curator's side.

        Raises
        ------
        FormatError
            If it is not a saved session.
        PrivacyError
            If it was continued already.
        """
        text = arrays = None
        with contextlib.suppress(OSError):
            text, arrays = (folder / SESSION).read_bytes(), (folder / ARRAYS).read_bytes()
        if (folder / CONTINUED).exists():  # asked after reading: another process may take it while this one looks
            raise _continued(folder)
        if text is None or arrays is None:
            raise FormatError(f"'{folder}' is not a saved session: give the folder that save() wrote")
        document = _parsed(text)
        if document is None:  # said here, where no caught error remembers the text
            raise FormatError(
                f"'{folder}' is not a saved session that this synthdp reads (version {VERSION}): continue "
                "it with the synthdp that saved it, or open a new session"
            )
        return cls(folder=folder, text=text, document=document, arrays=arrays)

    def claim(self) -> None:
        """Rename the session's file, so that no other process can continue it: its budget may be spent only once.

        Raises
        ------
        FormatError
            If the folder cannot be written.
        PrivacyError
            If another process was first.
        """
        try:
            (self.folder / SESSION).rename(self.folder / CONTINUED)
            _sync_folder(self.folder)  # a power cut must not bring it back
            found = (self.folder / CONTINUED).read_bytes()
        except (FileNotFoundError, FileExistsError):
            raise _continued(self.folder) from None
        except OSError as error:
            raise FormatError(
                f"the session in '{self.folder}' cannot be continued ({error.strerror}): make its folder writable"
            ) from None
        if found != self.text:  # continued, deleted, and another saved there since it was read
            raise _continued(self.folder)


def _refuse_used(folder: Path) -> None:
    """Raise FileExistsError if a session was ever saved in a folder, so that two sessions cannot be mistaken."""
    if (folder / SESSION).exists() or (folder / CONTINUED).exists():
        raise FileExistsError


def _parsed(text: bytes) -> dict[str, Any] | None:
    """Return the document of a session's file, or None if it is of another format or damaged."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    known = isinstance(document, dict) and (document.get("format"), document.get("version")) == (FORMAT, VERSION)
    return document if known else None


def _continued(folder: Path) -> PrivacyError:
    """Return the error for a session that was continued before."""
    return PrivacyError(
        f"the session in '{folder}' was continued already, and its budget is spent only once: open a new session"
    )


def _write(file: IO[bytes], content: bytes) -> None:
    """Write bytes to a file, and wait until they are on the disk."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Sync a folder to disk after a renaming, where the system supports it."""
    with contextlib.suppress(OSError):
        sync_folder(folder)
