"""Blocks of narrow arrays that are read several times: in memory up to a limit, then in a file that has no name.

Part of the private table.  Knows no column and no query.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np

from synthdp.arrays import AnyArray
from synthdp.errors import DataError

MEMORY_BYTES = 64 * 2**20
"""Most bytes that one buffer holds in memory; later blocks go to disk.  A safety limit."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Position, dtype and shape of an array in the buffer's file."""

    offset: int
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]


class SpillBuffer:
    """A list of blocks (tuples of arrays) that is kept in memory up to a limit and beyond it in a temporary file.

    The file has no name (or, where the system cannot, is deleted when it is closed) and is readable by its owner alone.
    So no private rows are left behind however the process ends.

    Parameters
    ----------
    memory
        Most bytes to hold in memory; default: `MEMORY_BYTES`.
    """

    __slots__ = ("_blocks", "_end", "_file", "_held", "_memory")

    def __init__(self, *, memory: int | None = None) -> None:
        self._memory = MEMORY_BYTES if memory is None else memory
        self._held = self._end = 0
        self._blocks: list[tuple[AnyArray | _Piece, ...]] = []
        self._file: IO[bytes] | None = None

    def __del__(self) -> None:
        if hasattr(self, "_file"):  # not where an interrupt ended the constructor
            self.close()

    @property
    def spilled(self) -> int:
        """The number of bytes on disk."""
        return self._end

    @property
    def empty(self) -> bool:
        """Whether no block was added."""
        return not self._blocks

    def add(self, arrays: Sequence[AnyArray]) -> None:
        """Append a block (a tuple of arrays): in memory while the limit allows, else on disk.

        Raises
        ------
        DataError
            If the disk is full.
        """
        size = sum(array.nbytes for array in arrays)
        if self._held + size <= self._memory:
            self._held += size
            self._blocks.append(tuple(arrays))
        else:
            self._blocks.append(tuple(self._write(array) for array in arrays))

    def blocks(self) -> Iterator[tuple[AnyArray, ...]]:
        """Yield the blocks in order of addition; arrays on disk are mapped into memory when their turn comes."""
        for block in self._blocks:
            yield tuple(self._read(part) if isinstance(part, _Piece) else part for part in block)

    def close(self) -> None:
        """Drop all blocks and delete the temporary file."""
        self._blocks = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, array: AnyArray) -> _Piece:
        """Append an array to the temporary file, column by column, and return where it lies.

        Raise DataError on a full disk.
        """
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="synthdp-")  # noqa: SIM115 - it lives as long as the store
            self._file.seek(self._end)
            self._file.write(np.asfortranarray(array).T.data)  # column after column
            self._file.flush()
        except OSError as error:
            self.close()
            raise DataError(
                f"temporary files cannot be written to '{tempfile.gettempdir()}' ({error.strerror}): free "
                "space, or set TMPDIR to another folder"
            ) from None
        piece = _Piece(self._end, array.dtype, array.shape)
        self._end += array.nbytes
        return piece

    def _read(self, piece: _Piece) -> AnyArray:
        """Return an array of the temporary file, mapped into memory, so that only used parts are read.

        Raise DataError if the file was closed meanwhile.
        """
        if self._file is None:
            raise DataError(
                "the curator was closed while its rows were read: keep the curator open until the release is made"
            )
        if 0 in piece.shape:
            return np.zeros(piece.shape, piece.dtype)
        return np.memmap(self._file, piece.dtype, "r", piece.offset, piece.shape, "F")  # only what is used is read
