"""synthdp: differentially private synthetic tables, with a guarantee that holds end to end.

Names are loaded when they are first used, so that `import synthdp` is quick.
"""

from __future__ import annotations

import ast
import builtins
from importlib import import_module
from pkgutil import get_data
from typing import Any

__version__ = "0.1.0"

_NAMES = ast.parse(get_data(__name__, "__init__.pyi") or b"").body
"""The import statements of all public names, parsed into syntax trees."""

_HOME = {one.name: str(line.module) for line in _NAMES if isinstance(line, ast.ImportFrom) for one in line.names}
"""The module of each public name, so that a name is imported at its first use; type checkers read the same statements.
"""

_EXTRAS = {
    "DuckDBSource": "duckdb,arrow",
    "ParquetSource": "arrow",
    "SparkSource": "spark,arrow",
    "SqlDatabase": "sql",
    "SqlSource": "sql",
}
"""The pip extras that a name needs besides the plain installation.  `from synthdp import *` leaves these names out."""

__all__ = ["__version__", *sorted(_HOME.keys() - _EXTRAS.keys() - vars(builtins).keys())]  # noqa: PLE0604 - texts, all of them
"""What `from synthdp import *` takes: it shadows no builtin, and `synthdp.sum` is asked for by its whole name."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'synthdp' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        raise ImportError(f"{name} needs {error.name}: pip install 'synthdp[{_EXTRAS[name]}]'") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
