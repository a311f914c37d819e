"""Records of a benchmark as JSON lines: on the screen as they come, and at the end of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def tell(record: Mapping[str, Any], out: Path | None) -> None:
    """Print a record, which may hold numbers and arrays of NumPy, and append it to a file, if there is one."""
    line = json.dumps(record, default=lambda value: np.asarray(value).tolist())
    print(line, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def keep(records: Sequence[Mapping[str, Any]], table: str, out: Path | None) -> None:
    """Print a Markdown table of all records, and write both in the place of earlier ones, if there is a file."""
    print(table)
    if out is not None:
        out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        out.with_suffix(".md").write_text(table + "\n", encoding="utf-8")
