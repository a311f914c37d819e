"""Commands for several tables: they read a folder of files and write a folder of files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import synthdp
from synthdp.cli.reading import progress_bar, refuse_for_several, table_at
from synthdp.errors import DataError, FormatError, ParameterError, tell_of_budget
from synthdp.files import replacing_folder
from synthdp.publishing import kept_in, receipt_text, whole_file, written_in

ENDINGS = (".parquet", ".csv", ".csv.gz", ".arrow", ".duckdb", ".xlsx")
"""File endings under which a table is looked for in a folder, by its name. One usual ending for each format: more would
make it unclear which file is meant. A convention."""


def release_database(
    folder: Path,
    schema_path: Path,
    *,
    out: Path,
    save: Path | None,
    receipt: Path | None,
    report: Path | None,
    rows: int | None,
    seed: int | None,
    told: synthdp.CsvFormat,
    as_json: bool,
    unsupported: Mapping[str, bool],
    **promise: Any,
) -> None:
    """Release the tables of a folder into another folder; each file has the name of its table.

    Costs the budget in ``promise``, once for all tables.

    Raises
    ------
    DataError, ParameterError
        If a file is missing, an output path exists, or an option is for one table only; then no budget is spent.
    """
    from synthdp.estimators.database_release import DatabaseRelease
    from synthdp.release_files import check_place

    refuse_for_several(unsupported)
    schema = synthdp.DatabaseSchema.read(schema_path)
    files = {name: file_of(folder, name) for name in schema.tables}
    _check_out(out, folder)
    for path in (receipt, report):
        if path is not None and not path.absolute().parent.is_dir():
            raise DataError(f"'{path}' cannot be written, because its folder does not exist: make the folder first")
    if save is not None:
        check_place(save)
    sources = {name: table_at(path, told, schema.tables[name].csv) for name, path in files.items()}
    made = DatabaseRelease(schema=schema, random_state=seed, **promise)
    try:
        with progress_bar() as on_progress:
            made.set_params(on_progress=on_progress).fit(sources)
        if save is not None:
            made.save(save)
        written = write_tables(made.sample(rows), out, endings={name: path.suffix for name, path in files.items()})
        if receipt is not None:
            with whole_file(receipt) as scratch:
                scratch.write_text(receipt_text(made.release_, receipt.suffix), encoding="utf-8")
        if report is not None:
            with whole_file(report) as scratch:
                made.report(scratch)
    except Exception as error:
        if hasattr(made, "release_"):
            tell_of_budget(error, kept_in(made.release_, save, beside=out), instead=True)
        raise
    try:
        _tell(written, out, receipt=made.receipt_, as_json=as_json)
    except Exception as error:
        tell_of_budget(error, written_in(made.receipt_, out))
        raise


def sample_database(
    model: Any, *, out: Path, rows: int | None, seed: int | None, given: Mapping[str, Any] | None, as_json: bool
) -> None:
    """Draw persons from a saved release and write their tables as CSV files into a new folder."""
    _check_out(out, None)
    tables = model.sample(rows, random_state=seed, given=given)
    _tell(write_tables(tables, out, endings={}), out, receipt=None, as_json=as_json)


def file_of(folder: Path, table: str) -> Path:
    """Return the path of a table's file in a folder.

    Raises
    ------
    DataError
        If there is no such folder, or it has no file of the table, or more than one.
    """
    if not folder.is_dir():
        raise DataError(f"'{folder}' is no folder: give the folder that has one file for each table")
    found = [folder / f"{table}{ending}" for ending in ENDINGS if (folder / f"{table}{ending}").exists()]
    if len(found) != 1:
        which = "no file" if not found else "more than one file"
        raise DataError(
            f"'{folder}' has {which} of table {table!r}: give one, such as '{table}.csv' or '{table}.parquet'"
        )
    return found[0]


def write_tables(tables: Mapping[str, Any], out: Path, *, endings: Mapping[str, str]) -> dict[str, int]:
    """Write tables into a new folder; return the number of rows by table.

    A table is written as Parquet if its private file is Parquet, else as CSV.

    Raises
    ------
    DataError
        If the folder cannot be written.
    """
    from synthdp.tables.sources.csv import write_csv

    try:
        with replacing_folder(out) as scratch:
            for name, synthetic in tables.items():
                if endings.get(name) == ".parquet":
                    synthetic.to_parquet(scratch / f"{name}.parquet", index=False)
                else:
                    write_csv(synthetic, scratch / f"{name}.csv")
    except (OSError, FormatError) as error:
        raise DataError(
            f"'{out}' cannot be written ({getattr(error, 'strerror', None) or 'see the file system'}): give another folder"
        ) from None
    return {name: len(synthetic) for name, synthetic in tables.items()}


def _check_out(out: Path, folder: Path | None) -> None:
    """Raise unless the output folder is new or empty, and is not the folder of the private tables."""
    if folder is not None and out.resolve() == folder.resolve():
        raise ParameterError(f"'{out}' is the folder of the private tables: give another folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"'{out}' already exists: give the path of a new or empty folder")


def _tell(written: Mapping[str, int], out: Path, *, receipt: Any, as_json: bool) -> None:
    """Print the number of written rows by table, the folder and the receipt, as text or JSON."""
    if as_json:
        document = {"rows": dict(written), "out": str(out)}
        click.echo(json.dumps(document | ({} if receipt is None else {"receipt": receipt.to_document()})))
        return
    if receipt is not None:
        click.echo(f"{receipt}\n")
    for name, rows in written.items():
        click.echo(f"{rows} synthetic rows of {name}")
    click.echo(f"in {out}")
