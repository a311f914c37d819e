"""R27, end to end: releases, models, transformed rows and commands end as they would without a hostile row.

The noise of a run without the row is handed out again in the run with it, so that the two must give the same rows, in the
same types, with the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from hostile_cells import COLUMNS, CONTAINERS, Container, objects
from hostile_values import TEXTS, VALUES, Raw
from no_noise import recorded, replayed
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from strictness import warnings_kept

from synthdp import (
    Boolean,
    Categorical,
    Continuous,
    Integer,
    L1Fit,
    Schema,
    SyntheticRelease,
    TrainOnSynthetic,
    nonprivate_evaluate,
)
from synthdp.cli.main import main
from synthdp.errors import DataError
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat
from synthdp.tables.resolve import source_of
from synthdp.tables.sources.csv import CsvSource

SOME = [
    "pandas object", "pandas str", "pandas string pyarrow", "pandas category", "pandas float64", "pandas UInt64",
    "pandas period D", "pandas datetime64 s", "pandas pyarrow timestamp[s]", "pandas pyarrow dictionary of timestamp[s]",
    "polars String", "polars lazy String", "polars Enum", "pyarrow string view", "duckdb VARCHAR", "duckdb TIMESTAMP",
    "parquet dictionary", "csv",
]  # fmt: skip
"""Containers whose tables are released in full; `test_hostile_cells` asks about all of them."""


def releasable(container: Container) -> Schema:
    """The declarations that a container's type can be released as; types are public."""
    source = source_of(container.holding())
    fits = {}
    for name, column in COLUMNS.items():
        try:
            TableFormat.of(source, Schema({name: column}))
        except DataError:
            continue
        fits[name] = column
    return Schema(fits)


def twice(run: Callable[[Any], Any], without: Any, with_: Any) -> tuple[Any, Any]:
    """What a run gives without a hostile row, and with it under the same noise; what is warned of is part of it."""
    given = []
    with pytest.MonkeyPatch.context() as patch:
        trace = recorded(patch)
        given.append(_with_warnings(run, without))
    with pytest.MonkeyPatch.context() as patch:
        again = replayed(patch, trace)
        given.append(_with_warnings(run, with_))
    assert again.draws == trace.draws
    return given[0], given[1]


def _with_warnings(run: Callable[[Any], Any], table: Any) -> Any:
    with warnings_kept() as caught:
        result = run(table)
    return result, sorted(str(warning.message) for warning in caught)


def all_of(table: Any) -> tuple[Any, ...]:
    """The class, the types and the values of a table."""
    table = table.collect() if isinstance(table, pl.LazyFrame) else table
    frame = (
        table if isinstance(table, pd.DataFrame) else table.to_pandas() if hasattr(table, "to_pandas") else table.df()
    )
    return type(table), list(map(str, getattr(table, "dtypes", frame.dtypes))), frame.to_csv(index=False)


OTHERS = SOME[1::2]
IN_FULL = [pytest.param(name, marks=[pytest.mark.slow] * (name in OTHERS)) for name in SOME]


@pytest.mark.sampled
@pytest.mark.parametrize("name", IN_FULL)
def test_a_release_is_that_of_the_table_without_its_hostile_rows(name: str) -> None:
    container = CONTAINERS[name]
    schema = releasable(container)

    def run(table: Any) -> Any:
        release = SyntheticRelease(schema=schema, mechanism=L1Fit(support=30), random_state=0, n_rows=20)
        return all_of(release.fit_transform(table)), str(release.receipt_)

    one, other = twice(run, container.holding(), container.holding(*container.held().values()))
    assert other == one  # and so it shows nothing of a hostile row


@pytest.mark.sampled
@pytest.mark.parametrize("name", [one for one in IN_FULL if not one.values[0].startswith(("csv", "parquet"))])
def test_rows_are_brought_to_the_schema_as_if_hostile_rows_were_not_there(name: str) -> None:
    container = CONTAINERS[name]
    declared = {name: column for name, column in releasable(container).items() if name != "identifier"}
    release = SyntheticRelease(schema=Schema(declared), mechanism=L1Fit(support=30)).fit(container.holding())
    plain, hostile = (
        all_of(release.transform(table))[2].splitlines()
        for table in (container.holding(), container.holding(*container.held().values()))
    )
    assert hostile[: len(plain)] == plain


# Arrays and lists, which have one type or none

ROWS = [[float(i % 10), float(i % 3)] for i in range(60)]
LABELS = [i % 2 for i in range(60)]
XY = Schema({"x0": Integer(0, 9), "x1": Continuous(0, 3), "target": Integer(0, 1)})
CELLS = {name: value for name, value in VALUES.items() if not issubclass(type(value), Raw)}
REAL = {name: float(value) for name, value in VALUES.items() if issubclass(type(value), float)}


def trained(schema: Schema | None, model: Any, made: tuple[Any, Any]) -> Any:
    release = SyntheticRelease(
        schema=schema, mechanism=L1Fit(support=30), epsilon=4, delta=1e-2, random_state=0, n_rows=50
    )
    fitted = TrainOnSynthetic(model, release).fit(*made)
    return fitted.predict(ROWS).tolist(), str(fitted.predict(ROWS).dtype), str(fitted.release_.receipt_)


MODELS = {"classifier": DecisionTreeClassifier(random_state=0), "regressor": DecisionTreeRegressor(random_state=0)}
GIVEN = {
    "array": lambda rows, labels: (np.array(rows, float), np.array(labels, float)),
    "objects": lambda rows, labels: (objects([c for r in rows for c in r]).reshape(-1, 2), objects(labels)),
    "lists": lambda rows, labels: (rows, labels),
    "frame": lambda rows, labels: (
        pd.DataFrame({"x0": objects([r[0] for r in rows]), "x1": [r[1] for r in rows]}, dtype=object),
        pd.Series(objects(labels), name="target"),
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("given", GIVEN)
def test_a_model_is_that_of_the_rows_and_labels_without_the_hostile_ones(kind: str, given: str) -> None:
    """A label may be infinite, unknown, or no label at all; scikit-learn's own checks would tell."""
    cells = {"array": list(REAL.values())}.get(given, list(CELLS.values()))
    run = partial(trained, XY, MODELS[kind])
    without, with_ = GIVEN[given](ROWS, LABELS), GIVEN[given]([*ROWS, *([c, c] for c in cells)], [*LABELS, *cells])
    one, other = twice(run, without, with_)
    assert other == one


ONE_OF_A_TYPE = [*{id(type(value)): name for name, value in CELLS.items()}.values()][::6]  # some types have no hash


@pytest.mark.sampled
@pytest.mark.parametrize("cell", ONE_OF_A_TYPE)
def test_no_cell_of_a_list_decides_the_type_of_what_is_released(cell: str) -> None:
    check_cell_of_a_list(cell)


@pytest.mark.slow
@pytest.mark.parametrize("cell", sorted({*CELLS} - {*ONE_OF_A_TYPE}))
def test_no_other_cell_decides_it_either(cell: str) -> None:
    check_cell_of_a_list(cell)


def check_cell_of_a_list(cell: str) -> None:
    schema = Schema({"x0": Integer(0, 9), "x1": Continuous(0, 3, nullable=True)})

    def run(rows: Any) -> Any:
        made = SyntheticRelease(schema=schema, mechanism=L1Fit(support=30), random_state=0, n_rows=10)
        return repr(made.fit_transform(rows)), str(made.receipt_)

    one, other = twice(run, ROWS, [*ROWS, [CELLS[cell], 0.5]])
    assert other == one


@pytest.mark.parametrize("make", [list, lambda rows: objects([cell for row in rows for cell in row]).reshape(-1, 2)])
def test_no_cell_of_objects_decides_their_type(make: Callable[[Any], Any]) -> None:
    """Pandas makes texts of objects, but only if every one of them is a text."""
    schema = Schema(
        {"x0": Categorical(["a", "b"]), "x1": Categorical(["c"], nullable=True), "target": Categorical(["y", "n"])}
    )

    def run(made: tuple[Any, Any]) -> Any:
        release = SyntheticRelease(schema=schema, mechanism=L1Fit(support=30), random_state=0, n_rows=10)
        X, y = release.fit_resample(*made)
        return repr(X), X.dtype, repr(y), y.dtype

    rows, labels = [["a", "c"], ["b", "c"]] * 20, ["y", "n"] * 20
    hostile = [[cell, cell] for cell in CELLS.values()]
    one, other = twice(
        run, (make(rows), objects(labels)), (make([*rows, *hostile]), objects([*labels, *CELLS.values()]))
    )
    assert other == one


def test_labels_beside_a_table_without_objects_have_a_type() -> None:
    table = pl.DataFrame({"x0": [1.0, 2.0]})
    release = SyntheticRelease(schema=Schema({"x0": Integer(0, 9)}))
    with pytest.raises(DataError, match=r"\by\b"):
        release.fit_resample(table, [0, "4711"])


# Files and commands

BOOK = Schema({"age": Integer(0, 99), "city": Categorical(["a", "b"]), "who": Boolean(nullable=True)})
GOOD = b"age,city,who\n" + b"".join(
    b"%d,%s,%s\n" % (i, (b"a", b"b")[i % 2], (b"true", b"no")[i % 2]) for i in range(40)
)
LINES = {
    "invalid UTF-8": b"4711,\xff\xfe4711,x\n",
    "too many fields": b"4711,4711,4711,4711,4711\n",
    "too few fields": b"4711\n",
    "an open quote": b'4711,"4711,x\n',
    "text after a quote": b'4711,"4711"4711,x\n',
    "a NUL": b"4711,\x00,\x00\n",
    "a surrogate": b"4711,\xed\xa0\x80,x\n",
    "a formula": b"=cmd(),=4711+1,-4711\n",
    "a huge number": b"4711" * 5000 + b",a,no\n",
    "nothing": b",,\n",
}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.slow] * (i % 2)) for i, line in enumerate(LINES)]
)
def test_a_command_ends_as_it_would_without_the_hostile_line(line: str, tmp_path: Path) -> None:
    BOOK.write(tmp_path / "schema.json")
    (tmp_path / "plain.csv").write_bytes(GOOD)
    (tmp_path / "hostile.csv").write_bytes(GOOD + LINES[line])

    def run(table: str) -> Any:
        words = [
            "release",
            str(tmp_path / table),
            "--schema",
            str(tmp_path / "schema.json"),
            "--out",
            str(tmp_path / "o.csv"),
        ]
        ran = CliRunner().invoke(main, [*words, "--seed", "0", "--rows", "20", "--mechanism", "l1_fit"])
        return ran.exit_code, ran.stdout, ran.stderr, repr(ran.exception), (tmp_path / "o.csv").read_bytes()

    one, other = twice(run, "plain.csv", "hostile.csv")
    assert one[0][0] == 0
    assert other == one


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["pandas object", "pandas category", "csv", "polars Object", "pyarrow string"])
def test_what_reads_rows_without_noise_reads_hostile_ones_too(name: str) -> None:
    container = CONTAINERS[name]
    hostile = container.holding(*container.held().values())
    schema = Schema({name: column for name, column in COLUMNS.items() if name != "identifier"})
    assert nonprivate_evaluate(hostile, hostile, schema).scores["one_way"] == 0


@pytest.mark.parametrize("name", ["csv", "pyarrow string"])
def test_texts_can_always_be_described(name: str) -> None:
    hostile = CONTAINERS[name].holding(*CONTAINERS[name].held().values())
    assert draft_schema(source_of(hostile), without=["identifier"])["columns"]


@pytest.mark.parametrize("name", ["pandas object", "pandas category", "polars Object"])
def test_a_draft_of_objects_alone_is_refused_by_the_names_of_columns(name: str) -> None:
    hostile = CONTAINERS[name].holding(*CONTAINERS[name].held().values())
    with pytest.raises(DataError, match="'integer'"):
        draft_schema(source_of(hostile), without=["identifier"])


def test_a_comparison_of_a_file_without_a_header_quotes_none_of_it(tmp_path: Path) -> None:
    BOOK.write(tmp_path / "schema.json")
    (tmp_path / "plain.csv").write_bytes(GOOD)
    (tmp_path / "headless.csv").write_bytes(b"4711,Secret 4711,no\n" + GOOD)
    words = [str(tmp_path / name) for name in ("headless.csv", "plain.csv")]
    ran = CliRunner().invoke(main, ["nonprivate-evaluate", *words, "--schema", str(tmp_path / "schema.json")])
    assert ran.exit_code == 2
    assert "column 'age' is missing from the real table: add it; the schema has: age, city, who" in ran.stderr
    assert "4711" not in ran.stdout + ran.stderr


def test_hostile_texts_of_a_file_are_in_no_error_about_it(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    texts = [value for value in TEXTS.values() if isinstance(value, str)]
    path.write_bytes(b"x\n" + b"\n".join(text.encode(errors="surrogatepass") for text in texts))
    source = CsvSource(path)
    path.unlink()
    with pytest.raises(Exception, match=r"t\.csv") as caught:
        list(source.blocks({"x": Integer(0, 9)}))
    assert caught.value.__context__ is None


def test_a_source_of_hostile_cells_has_kinds_that_no_cell_decides() -> None:
    container = CONTAINERS["pandas object"]
    plain, hostile = (
        FrameSource(table) for table in (container.holding(), container.holding(*container.held().values()))
    )
    assert [plain.kind(name) for name in COLUMNS] == [hostile.kind(name) for name in COLUMNS]
