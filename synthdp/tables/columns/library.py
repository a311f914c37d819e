"""What a dataframe library must be able to do, and the ones there are; each is imported only where it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from synthdp.domain.encoder import RawColumn
from synthdp.errors import FormatError
from synthdp.schema.columns import Column
from synthdp.tables.refusals import instead_of

_MODULES = {
    "pandas": "pandas",
    "polars": "polars",
    "polars lazy": "polars_lazy",
    "pyarrow": "arrow",
    "duckdb": "duckdb",
}
_EXTRAS = {"polars": "polars", "polars lazy": "polars", "pyarrow": "arrow", "duckdb": "duckdb,arrow"}


class Library(Protocol):
    """A module that reads and builds one library's columns."""

    def type_names(self, frame: Any, /) -> dict[str, str]:
        """Return the public name of each column's type, without values or categories."""
        ...

    def default_type(self, column: Column, /) -> str:
        """Return the name of the type that suits a column."""
        ...

    def can_be_null(self, name: str, /) -> bool:
        """Say whether a type of that name can hold a missing value."""
        ...

    def read(self, series: Any, column: Column, /) -> RawColumn:
        """Return a column's raw values, read as declared; what does not fit the declaration is missing."""
        ...

    def array(self, column: Column, raw: RawColumn, name: str, /) -> Any:
        """Return a raw column as a column of the type of that name.

        Raises
        ------
        FormatError
            If the library knows no such type, or it cannot hold the column.
        """
        ...

    def frame(self, arrays: Mapping[str, Any], /) -> Any:
        """Return a frame of columns made by `array`."""
        ...


def library_named(name: str) -> Library:
    """Return the module of a dataframe library.

    Raises
    ------
    FormatError
        If there is none of that name, or it is not installed.
    """
    if name not in _MODULES:
        raise FormatError(f"library ({name!r}) must be one of {', '.join(_MODULES)}")
    with instead_of(
        ImportError, say=FormatError(f"{name} is not installed: pip install 'synthdp[{_EXTRAS.get(name)}]'")
    ):
        return cast("Library", importlib.import_module(f"synthdp.tables.columns.{_MODULES[name]}"))
