"""Keys of synthetic rows: unique, meaningless, and made of the row's number alone."""

from __future__ import annotations

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray
from synthdp.errors import ParameterError
from synthdp.schema.column import Fresh
from synthdp.schema.labels import alphabets_of, size_of
from synthdp.schema.schema import Schema

ROUNDS = 6
"""Rounds of the Feistel network that scatters keys; four already make a permutation look random.  A convention with
some margin.
"""

_STEP, _MIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""Odd multipliers that mix the bits of a number, from the generator SplitMix64. A convention."""

_ALL_BITS = 2**64 - 1
"""The largest 64-bit number, a mask to keep arithmetic within 64 bits."""


def check_enough_keys(schema: Schema, rows: int) -> None:
    """Raise an error if more rows are asked for than an identifier's pattern has different keys.

    Raises
    ------
    ParameterError
        Naming the column.
    """
    for name, column in schema.items():
        support = column.support() if column.names_rows else None
        if isinstance(support, Fresh) and support.pattern is not None and size_of(support.pattern) < rows:
            raise ParameterError(
                f"pattern {support.pattern!r} of column {name!r} has {size_of(support.pattern)} different keys, too few for "
                f"{rows} rows: ask for fewer rows, or declare a longer pattern"
            )


def keys_of_pattern(pattern: str, first: int, rows: int) -> list[str]:
    """Return unique, random-looking keys for rows first..first + rows - 1, always the same for the same rows.

    Row i has key number p(i), where p is a fixed permutation. p is a Feistel network on the fewest bits, an even
    number, that hold all key numbers; it is applied again until the result is a key number.

    Parameters
    ----------
    pattern
        Pattern of the keys; it has at least ``first + rows`` keys.
    first, rows
        Position of the first row, and number of rows.
    """
    alphabets = alphabets_of(pattern)
    leading = 0
    size = 1
    while leading < len(alphabets) and size * len(alphabets[leading]) <= LARGEST_WHOLE:
        size *= len(alphabets[leading])
        leading += 1
    numbers = scattered(np.arange(first, first + rows, dtype=np.uint64), size)
    characters = np.empty((rows, len(alphabets)), dtype="U1")
    for j in range(leading, len(alphabets)):  # what comes after decides no uniqueness
        characters[:, j] = np.array([*alphabets[j]])[_mixed(numbers, j) % np.uint64(len(alphabets[j]))]
    for j in range(leading - 1, -1, -1):
        numbers, digits = np.divmod(numbers, np.uint64(len(alphabets[j])))
        characters[:, j] = np.array([*alphabets[j]])[digits]
    keys: list[str] = characters.view(f"U{len(alphabets)}").ravel().tolist()
    return keys


def scattered(numbers: AnyArray, size: int) -> AnyArray:
    """Return the images of ``numbers``, (n,) uint64, under a fixed, random-looking permutation of 0..size - 1.

    So keys made from row numbers are different, but do not show the order of the rows.
    """
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    image, walking = _feistel(numbers, half), np.arange(len(numbers))
    walking = walking[image >= np.uint64(size)]
    while len(walking):
        image[walking] = _feistel(image[walking], half)
        walking = walking[image[walking] >= np.uint64(size)]
    return image


def _feistel(numbers: AnyArray, half: np.uint64) -> AnyArray:
    """Return the images of numbers of 2 ``half`` bits, (n,), after `ROUNDS` rounds of a Feistel network.

    The map is one to one, whatever its rounds mix, so that keys never collide.
    """
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = numbers >> half, numbers & mask
    for number in range(ROUNDS):
        left, right = right, left ^ (_mixed(right, number) & mask)
    return np.asarray((left << half) | right)


def _mixed(numbers: AnyArray, key: int) -> AnyArray:
    """Return a 64-bit hash of each number, (n,), in which every input bit matters; ``key`` selects the hash."""
    mixed = numbers + np.uint64((key + 1) * _STEP & _ALL_BITS)
    for _ in range(2):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(_MIX)
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))
