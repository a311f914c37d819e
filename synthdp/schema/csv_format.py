"""The format of a text file: how fields are separated, and which are missing.  It is public and part of a schema."""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass

from synthdp.errors import ParameterError

USUAL_MISSING = (
    "NA", "N/A", "#N/A", "<NA>", "na", "n/a", "N.A.", "n.a.", "NaN", "nan", "-nan", "NULL", "null", "Null", "(null)",
    "\\N", "NaT", "None", "none", "?", "-", "--", ".",
)  # fmt: skip
"""Texts that a draft of a schema takes for missing values unless the caller names others.  The texts are fixed, so that
they reveal nothing."""

DOUBTFUL_MISSING = frozenset({"None", "none", "-", "--", "."})
"""Texts of `USUAL_MISSING` that may also be categories, as in none, some, all: a draft asks about them."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """The format of a CSV file or Excel sheet that holds a table: delimiter, encoding, texts for missing values.

    Parameters
    ----------
    delimiter
        One character between fields; ``None`` for what the first line suggests, on the command line, else a comma.
    encoding
        The name of a text encoding, a byte-order mark is skipped in UTF-8; ``None`` for what the first line suggests, on the
        command line, else as for `CsvSource`.
    missing
        Texts that stand for a missing value, besides the empty one and with spaces around or not.  The text of a
        declared level is that level all the same.

    Raises
    ------
    ParameterError
        If a setting is not a delimiter, an encoding or a list of texts.

    Examples
    --------
    >>> import synthdp as sd
    >>> schema = sd.Schema({"age": sd.Integer(0, 120, nullable=True)}, csv=sd.CsvFormat(delimiter=";", missing=["NA"]))
    >>> schema.csv.missing
    ('NA',)
    """

    delimiter: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            check_delimiter(self.delimiter)
        if self.encoding is not None:
            check_encoding(self.encoding)
        object.__setattr__(self, "missing", checked_missing(self.missing))


def is_missing(text: str, missing: Collection[str]) -> bool:
    """Return whether a field means a missing value: it is blank or, with or without spaces around it, in ``missing``."""
    return text in missing or (bare := text.strip()) in missing or not bare


def check_delimiter(delimiter: object) -> None:
    """Raise ParameterError unless a delimiter is one character other than a quote or a line end."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ParameterError("delimiter must be one character, and neither a quote nor a line end")


def check_encoding(encoding: object) -> None:
    """Raise ParameterError unless Python knows a text encoding of this name, before a file is opened with it."""
    if not isinstance(encoding, str):
        raise ParameterError("encoding must be the name of a text encoding, such as 'latin-1'")
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    except (LookupError, ValueError):
        raise ParameterError(
            f"encoding ({encoding!r}) must be the name of a text encoding, such as 'latin-1'"
        ) from None


def checked_missing(missing: object) -> tuple[str, ...]:
    """Return the texts for missing values as a tuple without repeats; raise ParameterError if they are no list of texts."""
    if isinstance(missing, (str, bytes)) or not isinstance(missing, Collection):
        raise ParameterError("missing must be a list of texts, not one text")
    if not all(isinstance(text, str) for text in missing):
        raise ParameterError("missing must be a list of texts")
    return tuple(dict.fromkeys(missing))
