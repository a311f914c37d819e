"""The private files of a series of releases: exact sums, readable by their owner alone, deleted after the last period.

Every record is written whole or not at all and reaches the disk before its writer goes on.  With a key it is encrypted.
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
"""What the folder says to whoever opens it."""

README, LOCK, SUFFIX = "PRIVATE.txt", "lock", ".private"
"""Names of the warning and of the lock in the folder, and the ending of records' names."""

_SEALED, _NONCE, _MAC = b"synthdp sealed 1\n", 16, 32
"""First bytes of an encrypted record, and bytes of its nonce and of its authentication code.  A convention of the files."""


class PrivateState:
    """Records of arrays by name in a folder that only its owner can read.

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
        """Say whether there is a record of a name."""
        return self._path(name).is_file()

    def names(self, start: str) -> list[str]:
        """Return the names of all records that begin so, in order."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self.folder.glob(f"{start}*{SUFFIX}"))

    def read(self, name: str, *, starting: str = "") -> dict[str, AnyArray]:
        """Return a record, or its arrays whose names start so.

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
        """Write a record whole or not at all, and wait until it is on the disk.

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
        """Keep other processes out while a period is added; where the system has no such locks, nothing does.

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
        """Make the folder, which only its owner may read, with its warning."""
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True)
            (self.folder / README).write_text(WARNING)
            (self.folder / README).chmod(0o600)

    def _path(self, name: str) -> Path:
        """Return the file of a record."""
        return self.folder / f"{name}{SUFFIX}"

    def _closed(self, content: bytes) -> bytes:
        """Encrypt with a stream of SHAKE-256 and then authenticate with HMAC, keys and nonce apart."""
        if self._key is None:
            return content
        nonce = os.urandom(_NONCE)
        hidden = _xored(content, self._key, nonce)
        return _SEALED + nonce + hmac.digest(self._key, nonce + hidden, "sha256") + hidden

    def _opened(self, content: bytes) -> bytes:
        """Return a record's bytes decrypted; raise FormatError for another key, or changed bytes."""
        if self._key is None:
            if content.startswith(_SEALED):
                raise FormatError("the private state of the series is encrypted: give its key")
            return content
        start = len(_SEALED)
        nonce, rest = content[start : start + _NONCE], content[start + _NONCE :]
        mac, hidden = rest[:_MAC], rest[_MAC:]
        if not content.startswith(_SEALED) or not hmac.compare_digest(
            mac, hmac.digest(self._key, nonce + hidden, "sha256")
        ):
            raise FormatError("the private state of the series was not encrypted with this key")
        return _xored(hidden, self._key, nonce)


def _xored(content: bytes, key: bytes, nonce: bytes) -> bytes:
    """Return bytes xored with a stream of the key and the nonce; twice gives the bytes again."""
    stream = hashlib.shake_256(b"stream" + key + nonce).digest(len(content))
    return bytes(np.frombuffer(content, np.uint8) ^ np.frombuffer(stream, np.uint8))


def _lock(handle: int) -> None:
    """Lock a file for this process; raise DataError if another process has it."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise DataError("another process is adding a period to this series: wait until it has ended") from None
