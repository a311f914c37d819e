"""Names for every array that crosses a module border; the one rule about them: they are read-only."""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

GridIndices: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""(n,) numbers of one column's values on its finest public grid, from 0; `domain.encoder.encode` makes them."""

LARGEST_WHOLE = 2**62
"""Largest magnitude of an integer value, so that the sum or the difference of two fits in 64 bits.  A safety limit."""

MEAN_ABS = math.sqrt(2 / math.pi)
"""The mean of |Z| for a standard normal Z, √(2 / π): it turns a standard deviation into a mean absolute error.  Derived."""

Codes: TypeAlias = NDArray[np.integer[Any]]
"""(n, d) the bin of each row in each column, in range(shape[j]); `Domain.codes` makes them.  Fortran order is fastest."""

Clique: TypeAlias = tuple[int, ...]
"""Positions of the different columns of one marginal: strictly increasing, except that queries may have any order."""

Features: TypeAlias = NDArray[np.int64]
"""(n, k) integer features phi(x) of n records."""

Totals: TypeAlias = NDArray[np.int64]
"""(k,) exact integer sums of features over the rows of a table."""

Answers: TypeAlias = NDArray[np.float64]
"""(k,) answers to k queries, noisy or exact."""

Weights: TypeAlias = NDArray[np.float64]
"""(m,) non-negative weights of m support points."""

Table: TypeAlias = NDArray[np.float64]
"""A contingency table, shaped by its columns or flat in C order."""

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Sparse: TypeAlias = Any
"""A sparse array of SciPy's, whose operations have other types."""

BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]

NO_ARRAYS = (
    *(ValueError, OSError, EOFError, KeyError, MemoryError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""Exceptions that NumPy and its readers raise for a file that is not a valid npz file; callers turn them into one
sentence."""

LEVEL = 1
"""Compression level of deflate.  A safety limit of time: the usual level 6 takes three times as long for files that are 3
% smaller."""

A = TypeVar("A", bound=AnyArray)
"""The type of an array that a function returns unchanged in type."""


def packed(arrays: Mapping[str, AnyArray], *, compressed: bool = True) -> bytes:
    """Return arrays of numbers and texts as the bytes of an npz file, equal bytes for equal arrays.

    Raises
    ------
    TypeError
        If an array holds Python objects, which only a pickle could keep.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, one in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # of 1980, so that equal arrays are equal bytes
            entry.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
            content = io.BytesIO()
            try:
                np.lib.format.write_array(content, np.asarray(one), allow_pickle=False)
            except ValueError:
                raise TypeError(
                    f"array {name!r} holds Python objects: give numbers, booleans or texts of one type"
                ) from None
            archive.writestr(entry, content.getbuffer(), compresslevel=LEVEL)
    return file.getvalue()


def frozen(array: A) -> A:
    """Return ``array`` made read-only in place, because arrays that are passed between modules must not change."""
    array.setflags(write=False)
    return array


def narrow(codes: NDArray[np.integer[Any]], size: int) -> GridIndices:
    """Return ``codes``, (n,), in the smallest unsigned type that holds ``range(size)``, to save memory."""
    return codes.astype(np.min_scalar_type(max(size - 1, 0)), copy=False)
