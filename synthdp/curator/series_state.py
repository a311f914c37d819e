"""The private files of a series of releases: exact sums, readable by their owner alone, deleted after the last period.

Every record is written completely or not at all, and reaches the disk before the program continues.  With a key it is
encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from synthdp.arrays import NO_ARRAYS, AnyArray, packed
from synthdp.errors import DataError, FormatError
from synthdp.files import sync_folder

WARNING = "PRIVATE: exact sums of private rows. Publish nothing of this folder; it is deleted after the last period.\n"
"""A warning in the folder of private files to whoever opens it."""

README, LOCK, SUFFIX = "PRIVATE.txt", "lock", ".private"
"""Names of the warning file and the lock file in the folder, and the suffix of the record files."""

_SEALED, _NONCE, _MAC = b"synthdp sealed 1\n", 16, 32
"""First bytes that mark an encrypted record, and lengths in bytes of its nonce and of its authentication code.  A
convention of the files."""


class PrivateState:
    """Named records of arrays on disk, in a folder that only its owner can read; they outlive the process.

    It stays on the curator's side.

    Parameters
    ----------
    folder
        Made when first written to.
    key
        A secret of at least 16 bytes that the records are encrypted with; ``None`` for none.
    """

    __slots__ = ("_key", "folder")

    def __init__(self, folder: Path, *, key: bytes | None = None) -> None:
        self.folder = folder
        self._key = None if key is None else hashlib.sha256(b"synthdp series" + key).digest()

    def has(self, name: str) -> bool:
        """Return whether a record of this name exists."""
        return self._path(name).is_file()

    def names(self, start: str) -> list[str]:
        """Return the sorted names of all records that begin with ``start``, such as the records of all periods."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self.folder.glob(f"{start}*{SUFFIX}"))

    def read(self, name: str, *, starting: str = "") -> dict[str, AnyArray]:
        """Return a record as arrays by name; only the arrays whose names begin with ``starting``.

        It stays on the curator's side.

        Raises
        ------
        FormatError
            If it is not there, was changed, or is encrypted with another key.
        """
        try:
            sealed = self._path(name).read_bytes()
        except OSError as error:
            raise FormatError(
                f"the series' private file '{self._path(name)}' cannot be read ({error.strerror}): "
                "restore the series' folder from a copy, or start a new series"
            ) from None
        try:
            with np.load(io.BytesIO(self._opened(sealed)), allow_pickle=False) as arrays:
                return {one: arrays[one] for one in arrays.files if one.startswith(starting)}
        except (*NO_ARRAYS, zipfile.BadZipFile):
            raise FormatError(
                "a record of the series' private state is damaged: restore the folder from a copy"
            ) from None

    def write(self, name: str, arrays: Mapping[str, AnyArray]) -> None:
        """Write a record of arrays whole or not at all, and wait until it is on the disk.

        A noisy answer must be on disk before it is told, or a crash would make fresh noise necessary.

        Raises
        ------
        DataError
            If it cannot be written.
        """
        content = packed(arrays, compressed=False)
        path = self._path(name)
        part = path.with_suffix(".part")
        try:
            self._make()
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(self._closed(content))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync_folder(self.folder)
        except OSError as error:
            raise DataError(
                f"the private state of the series cannot be written ({error.strerror}): check the "
                "permissions of the series' folder"
            ) from None

    def drop(self, name: str) -> None:
        """Delete a record that is not needed any more."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def forget(self) -> None:
        """Delete the folder and all records."""
        for path in sorted(self.folder.glob("*")):
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a file lock while a period is added, so that two processes cannot.

        Without file locks in the system, do nothing.

        Raises
        ------
        DataError
            If another process adds a period, or the folder cannot be written.
        """
        try:
            self._make()
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DataError(
                f"the private state of the series cannot be written ({error.strerror}): check the "
                "permissions of the series' folder"
            ) from None
        try:
            _lock(handle)
            yield
        finally:
            os.close(handle)

    def _make(self) -> None:
        """Make the folder, readable by its owner only, with a warning file in it."""
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True)
            (self.folder / README).write_text(WARNING)
            (self.folder / README).chmod(0o600)

    def _path(self, name: str) -> Path:
        """Return the path of a record's file."""
        return self.folder / f"{name}{SUFFIX}"

    def _closed(self, content: bytes) -> bytes:
        """Return a record's bytes encrypted (XOR with a SHAKE-256 stream) and authenticated (HMAC).

        Unchanged without a key.
        """
        if self._key is None:
            return content
        nonce = os.urandom(_NONCE)
        hidden = _xored(content, self._key, nonce)
        return _SEALED + nonce + hmac.digest(self._key, nonce + hidden, "sha256") + hidden

    def _opened(self, content: bytes) -> bytes:
        """Return a record's decrypted bytes; raise FormatError if the key is wrong or the bytes were changed.

        Without a key bytes are returned as they are, but encrypted ones are refused.
        """
        if self._key is None:
            if content.startswith(_SEALED):
                raise FormatError(
                    "the private state of the series is encrypted: give the key with which the series was started"
                )
            return content
        start = len(_SEALED)
        nonce, rest = content[start : start + _NONCE], content[start + _NONCE :]
        mac, hidden = rest[:_MAC], rest[_MAC:]
        if not content.startswith(_SEALED) or not hmac.compare_digest(
            mac, hmac.digest(self._key, nonce + hidden, "sha256")
        ):
            raise FormatError(
                "key does not fit the private state of the series: give the key with which the series was started"
            )
        return _xored(hidden, self._key, nonce)


def _xored(content: bytes, key: bytes, nonce: bytes) -> bytes:
    """Return bytes XORed with a SHAKE-256 stream of key and nonce; the same call encrypts and decrypts."""
    stream = hashlib.shake_256(b"stream" + key + nonce).digest(len(content))
    return bytes(np.frombuffer(content, np.uint8) ^ np.frombuffer(stream, np.uint8))


def _lock(handle: int) -> None:
    """Lock a file for this process; raise DataError if another process has it.

    On a system without such locks, do nothing.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise DataError(
            "another process is adding a period to this series: wait until that process has ended"
        ) from None
