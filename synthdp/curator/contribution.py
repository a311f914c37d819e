"""Contribution bounding: a unit's rows are limited in number, by a rule that looks at the unit's rows alone."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray
from synthdp.domain.encoder import Labels, RawColumn, labels_of_numbers
from synthdp.tables.plain import plain, written

_HASHED = 1 << 16
"""Rows whose hexadecimal text is held in memory at once while rows are hashed.  A safety limit on memory."""


def kept_rows(blocks: Sequence[tuple[dict[str, GridIndices], AnyArray]], *, rows: int) -> dict[str, GridIndices]:
    """Join blocks of encoded rows and keep at most ``rows`` rows of each privacy unit (contribution bounding).

    A row without a unit counts as a unit of its own.  Of each unit the rows with the smallest SHA-256 of (unit, row,
    number of equal rows before) are kept.  So the choice depends on no other unit and on no order of rows or blocks.  A
    SQL database uses the same rule; see `synthdp.tables.sql.bounding`.

    Removing one unit changes at most ``rows`` rows of the result, which bounds the sensitivity of all later queries.

    Parameters
    ----------
    blocks
        Grid indices by column, (n,) each, and the digest of every row's unit, (n, 2); one block or more.
    rows
        Most rows to keep, >= 1.
    """
    table = {name: np.concatenate([block[name] for block, _ in blocks]) for name in blocks[0][0]}
    digest = np.concatenate([some for _, some in blocks])
    order = np.lexsort([digest[:, 1], digest[:, 0]])
    owner = np.empty(len(digest), np.int64)
    owner[order] = np.cumsum(np.concatenate([[False], (np.diff(digest[order], axis=0) != 0).any(axis=1)]))[
        : len(digest)
    ]
    many = np.flatnonzero((np.bincount(owner)[owner] > rows) & digest.any(axis=1))
    kept = np.ones(len(digest), np.bool_)
    kept[many] = _smallest(owner[many], digest[many], [column[many] for column in table.values()], rows)
    return {name: column[kept] for name, column in table.items()}


def _smallest(owner: IntArray, digest: AnyArray, columns: Sequence[GridIndices], rows: int) -> BoolArray:
    """Return an (n,) mask of the rows to keep: in each unit, the ``rows`` rows with the smallest 128-bit hashes.

    ``owner`` (n,) numbers each row's unit, ``digest`` (n, 2) is the hash of its name, ``columns`` are (n,) grid
    indices.
    """
    if len(owner) == 0:
        return np.zeros(0, np.bool_)
    row = mixed(np.zeros(len(owner), np.uint64), *columns)
    order = np.lexsort([row, owner])
    again = np.empty(len(owner), np.int64)
    again[order] = place_in_run((np.diff(owner[order]) != 0) | (row[order][1:] != row[order][:-1]))
    parts = [np.ascontiguousarray(digest).view(">u4"), *columns, again]
    high, low = np.concatenate(
        [_hashes([part[i : i + _HASHED] for part in parts]) for i in range(0, len(owner), _HASHED)]
    ).T
    order = np.lexsort([low, high, owner])
    kept = np.zeros(len(owner), np.bool_)
    kept[order] = place_in_run(np.diff(owner[order]) != 0) < rows
    return kept


def _hashes(parts: Sequence[AnyArray]) -> AnyArray:
    """Return the first 128 bits of the SHA-256 of each row's parts, (n, 2) uint64, to choose a unit's rows.

    Each of ``parts``, (n,) or (n, k), is hashed as eight hexadecimal digits a number.  A SQL database can compute the
    same.
    """
    written = np.column_stack(parts).astype(">u4").tobytes().hex().encode()
    width = len(written) // len(parts[0])
    hashes = [hashlib.sha256(written[i : i + width]).digest()[:16] for i in range(0, len(written), width)]
    return np.frombuffer(b"".join(hashes), ">u8").reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class Bounding:
    """The rule that limits the number of rows of each unit; a picklable object that can be sent to where the rows are.

    Removing one unit changes at most ``rows`` rows of what is kept.

    Parameters
    ----------
    rows
        Most rows to keep, >= 1.
    """

    rows: int

    def digests(self, unit: RawColumn) -> AnyArray:
        """Return a 128-bit hash of each row's unit, (n, 2) uint64; zeros where the unit is missing.

        Hashes let rows of one unit be compared and grouped without its name.  The digests are the first half of
        SHA-256.
        """
        position: dict[str, int] = {}
        owner = _owners(unit, position)
        texts = [hashlib.sha256(_bytes(text)).digest()[:16] for text in position]
        table = np.frombuffer(b"".join([*texts, bytes(16)]), np.uint64).reshape(-1, 2)
        return table[owner]

    def keep(self, blocks: Sequence[tuple[dict[str, GridIndices], AnyArray]]) -> dict[str, GridIndices]:
        """Return the kept rows of ``blocks`` by column, with at most ``rows`` rows of each unit; see `kept_rows`.

        The blocks must contain all rows of every unit in them, because the choice looks at all rows of a unit.
        """
        return kept_rows(blocks, rows=self.rows)


def first_rows(unit: RawColumn, *, rows: int, seen: dict[object, int]) -> BoolArray:
    """Return an (n,) mask of the rows that are among the first ``rows`` rows of their unit, or have no unit.

    ``seen`` holds the number of rows of each unit in earlier blocks, and is updated.  This function bounds contributions
    of raw values; `kept_rows` needs encoded values.  Removing one unit changes at most ``rows`` rows.
    """
    return np.asarray(_places(unit, {}, seen)[1] < rows)


def one_row_of_each(unit: RawColumn, *, many: Mapping[object, int], seen: dict[object, int]) -> BoolArray:
    """Return an (n,) mask that selects one row of each unit, so that a query of those rows has sensitivity 1.

    A hash of the unit chooses the position among its ``many`` rows.  So late rows are as likely as early ones.
    ``seen`` holds the number of rows of each unit in earlier blocks, and is updated.  Removing one unit changes at most
    one row, even if ``many`` is wrong.
    A row without a unit is a unit of its own.
    """
    position: dict[str, int] = {}
    owner, place = _places(unit, position, seen)
    wanted = np.zeros(len(position) + len(owner), np.int64)  # and 0 for each row without a unit
    for identity, number in position.items():
        digest = hashlib.sha256(_bytes(identity)).digest()[:8]
        wanted[number] = int.from_bytes(digest, "big") % max(1, many.get(identity, 0))
    return np.asarray(place == wanted[owner])


def _places(unit: RawColumn, position: dict[str, int], seen: dict[object, int]) -> tuple[IntArray, IntArray]:
    """Return two (n,) arrays: the number of each row's unit, and the row's position among its unit's rows, from 0.

    Callers keep a unit's first rows, or one row of it, by these positions.
    ``position`` maps a unit's name to its number and grows.  ``seen`` holds the number of rows of each unit in earlier
    blocks, which come first; it is updated.  A row without a unit is a unit of its own.
    """
    owner = _owners(unit, position)
    known = owner >= 0
    before = np.array([*(seen.get(identity, 0) for identity in position), 0])[owner]
    counts = np.bincount(owner[known], minlength=len(position))
    for identity, count in zip(position, counts, strict=True):
        seen[identity] = seen.get(identity, 0) + int(count)
    owner[~known] = len(position) + np.arange(np.count_nonzero(~known))
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(owner), np.int64)
    place[order] = place_in_run(np.diff(owner[order]) != 0)
    return owner, place + before


def _owners(unit: RawColumn, position: dict[str, int]) -> IntArray:
    """Return the number of each row's unit, (n,), -1 where it is missing; ``position`` maps names to numbers and grows.

    So a unit has the same number in all blocks of a table.
    """
    labels = unit if isinstance(unit, Labels) else labels_of_numbers(unit)
    texts = [written(plain(level)) for level in labels.levels]
    numbers = [-1 if text is None else position.setdefault(text, len(position)) for text in texts]
    return np.array([*numbers, -1], np.int64)[labels.codes]


def _bytes(text: str) -> bytes:
    """Return a unit's name, as `written` returns it, as bytes for hashing; different names give different bytes.

    Names that came from bytes that are not UTF-8 (surrogate escapes) give back those bytes.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    with contextlib.suppress(UnicodeEncodeError):
        raw = text.encode(errors="surrogateescape")
        if raw.decode(errors="surrogateescape") == text:
            return raw
    return b"\xff" + text.encode(errors="surrogatepass")  # no bytes; other names begin with ASCII


_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]{0,37}))(?:\.0+)?")
"""A regular expression of texts that stand for a whole number, such as "5" or "5.00": tables with types may hold the
number.  Texts with leading zeros do not match, since "05" and "5" are different keys."""


def joined(columns: Sequence[RawColumn]) -> RawColumn:
    """Return the columns of a key that joins tables as one column of labels; it is missing where any part is.

    Two rows have the same value if and only if all parts are the same: a value is the texts of its parts, each behind
    its length.  A text of a whole number, such as "5" or "5.00", is that number, since one table may hold texts where
    another one holds numbers; "05" stays a text.
    """
    if len(columns) == 1 and not isinstance(columns[0], Labels):
        return columns[0]
    parts = [column if isinstance(column, Labels) else labels_of_numbers(column) for column in columns]
    if len(columns) == 1:
        return Labels([_whole(level) for level in parts[0].levels], parts[0].codes)
    texts = [[*(written(_whole(level)) for level in part.levels), None] for part in parts]  # -1 is missing
    different, owner = np.unique(np.column_stack([part.codes for part in parts]), axis=0, return_inverse=True)
    levels: list[str] = []
    codes = np.full(len(different), -1)
    for i, row in enumerate(different.tolist()):
        found = [text[code] for text, code in zip(texts, row, strict=True)]
        sized = [f"{len(text)}:{text}" for text in found if text is not None]
        if len(sized) == len(found):
            codes[i] = len(levels)
            levels.append("".join(sized))
    return Labels(levels, codes[owner.ravel()])


def _whole(level: object) -> object:
    """Return the whole number that a text stands for, else the level as `plain` returns it.

    So the ids "7" and 7 of one person, or "7.0" after a column was read as floats, are one key.
    """
    value = plain(level)
    found = _WHOLE.fullmatch(value) if type(value) is str else None
    return value if found is None else int(found[1])


def place_in_run(starts_anew: AnyArray) -> IntArray:
    """Return the position of each of n >= 1 elements in its run of equal elements, (n,), from 0.

    ``starts_anew`` (n - 1,) is true at i if element i + 1 begins a new run.  Where a run holds one unit's rows, a limit
    on the position keeps the unit's first rows.
    """
    n = len(starts_anew) + 1
    first = np.concatenate([[True], starts_anew])
    return (np.arange(n) - np.maximum.accumulate(np.where(first, np.arange(n), 0))).astype(np.int64)


def mixed(state: AnyArray, *columns: AnyArray) -> AnyArray:
    """Return a 64-bit hash of each row, (n,) uint64, by splitmix64 over the (n,) columns; fast, but not cryptographic.

    The hash finds equal rows, and orders rows by their own values alone.  ``state`` is hashed before the columns:
    zeros, or an (n,) salt.
    """
    for column in columns:
        state = (state ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state
