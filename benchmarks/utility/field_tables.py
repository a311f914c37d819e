"""Tables of the field benchmark: where they come from, their split, and the 32-bin form that discrete peers are given.

The form is synthdp's standard domain: at most 32 equal cells of an ordered column, a cell for each level, one for the
missing value.  Every peer that needs it gets it from here, and its cells become values here, uniformly within each cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp import Schema
from synthdp.data import adult, adult_schema
from synthdp.domain.domain import Domain, domain_of
from synthdp.domain.encoder import Labels, Numbers, RawColumn, decode, encode
from synthdp.randomness import Generator, generator
from synthdp.schema.columns import Categorical, Column, Continuous, Integer
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat
from synthdp.tables.sources.csv import CsvSource

BINS = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Benchmark:
    """A table with what is publicly known about it, and the column whose prediction is tested."""

    name: str
    rows: pd.DataFrame
    schema: Schema
    target: str | None = None


def bundled() -> Benchmark:
    """The census table that comes with the package."""
    return Benchmark(name="adult", rows=adult(), schema=adult_schema(), target="income")


def from_folder(folder: Path, targets: dict[str, str]) -> list[Benchmark]:
    """Every NAME.csv of a folder with its NAME.schema.json; ``targets`` maps names to columns."""
    tables = []
    for path in sorted(folder.glob("*.csv")):
        schema = Schema.read(path.with_suffix(".schema.json"))
        tables.append(
            Benchmark(name=path.stem, rows=read_csv(path, schema), schema=schema, target=targets.get(path.stem))
        )
    if not tables:
        raise FileNotFoundError(f"'{folder}' holds no CSV file")
    return tables


def from_openml(name: str) -> Benchmark:
    """A table of OpenML; bounds and levels are those of its rows, taken as public."""
    from sklearn.datasets import fetch_openml

    found = fetch_openml(name, as_frame=True, parser="auto")
    targets = [str(column) for column in found.target_names]
    return Benchmark(name=name, rows=found.frame, schema=declared(found.frame), target=targets[0] if targets else None)


def declared(rows: pd.DataFrame) -> Schema:
    """Bounds and levels as the rows have them.  Not private: for tables that are public anyway."""
    columns: dict[str, Column] = {}
    for name in rows:
        values, missing = rows[name].dropna(), bool(rows[name].isna().any())
        if values.dtype.kind not in "iuf" or values.nunique() <= 2:
            columns[str(name)] = Categorical(sorted(values.unique().tolist(), key=str), nullable=missing)
        elif (values == values.round()).all():
            columns[str(name)] = Integer(int(values.min()), int(values.max()), nullable=missing)
        else:
            columns[str(name)] = Continuous(float(values.min()), float(values.max()), nullable=missing)
    return Schema(columns)


def read_csv(path: Path, schema: Schema) -> pd.DataFrame:
    """A CSV file as the schema's types."""
    form = TableFormat.default(schema)
    return pd.concat([form.build(schema, block) for block in CsvSource(path).blocks(schema)], ignore_index=True)


def encoded(rows: pd.DataFrame, schema: Schema, *, numbers: bool) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Rows in the form of a plan, and its public columns.

    Parameters
    ----------
    numbers
        Whether numeric columns stay numbers, for peers that bin them on their own.

    Values that the schema does not foresee become the first cell.
    """
    raw, domain = next(FrameSource(rows).blocks(schema)), domain_of(schema, bins=BINS)
    table, columns = {}, []
    for axis in domain.axes:
        name, column = axis.name, schema[axis.name]
        if numbers and isinstance(column, (Integer, Continuous)):
            whole = isinstance(column, Integer)
            table[name] = _as_numbers(rows[name], column)
            bounds = {"lower": column.lower, "upper": column.upper}
            columns.append({"name": name, "form": "numbers", "whole": whole} | bounds)
            continue
        released = np.flatnonzero(axis.releasable)
        code = np.zeros(axis.size, np.int64)
        code[released] = np.arange(len(released))
        table[name] = pd.Series(code[axis.cells_of(encode(column, raw[name]))])
        columns.append({"name": name, "form": "cells", "cells": len(released)})
    return pd.DataFrame(table), columns


def decoded(path: Path, schema: Schema, columns: Sequence[dict[str, Any]], *, seed: int) -> pd.DataFrame:
    """Synthetic rows in the form of a plan as a table: a value drawn uniformly within each cell.

    What a peer left open in a column that has no missing value is drawn from the column's other synthetic values.
    """
    found = pd.read_csv(path, keep_default_na=False, na_values=[""])
    rng, domain = generator(seed), domain_of(schema, bins=BINS)
    raw: dict[str, RawColumn] = {}
    for public in columns:
        name, column = public["name"], schema[public["name"]]
        values = found[name].to_numpy(dtype=float)
        if public["form"] == "cells" or not column.nullable:
            values = _filled(values, rng)
        raw[name] = (
            _cell_values(domain, name, values, rng) if public["form"] == "cells" else _number_values(column, values)
        )
    return pd.DataFrame(TableFormat.default(schema).build(schema, raw))


def _cell_values(domain: Domain, name: str, codes: np.ndarray, rng: Generator) -> RawColumn:
    axis = domain.axes[domain.index(name)[0]]
    cells = np.flatnonzero(axis.releasable)[codes.astype(np.int64)]
    return decode(axis.column, axis.indices_in(cells, rng))


def _number_values(column: Column, values: np.ndarray) -> Numbers | Labels:
    missing = np.isnan(values)
    inside = np.clip(np.where(missing, float(column.lower), values), float(column.lower), float(column.upper))  # type: ignore[union-attr]
    whole = np.rint(inside).astype(np.int64) if isinstance(column, Integer) else inside
    return Numbers(whole, missing if missing.any() else None)


def _as_numbers(values: pd.Series, column: Integer | Continuous) -> pd.Series:
    x = pd.to_numeric(values, errors="coerce").clip(column.lower, column.upper)
    return x if x.isna().any() or isinstance(column, Continuous) else x.astype(np.int64)


def _filled(values: np.ndarray, rng: Generator) -> np.ndarray:
    open_ = np.isnan(values)
    if not open_.any():
        return values
    others = values[~open_] if not open_.all() else np.zeros(1)
    return np.where(open_, rng.choice(others, len(values)), values)
