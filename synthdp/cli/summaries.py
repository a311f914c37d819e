"""``synthdp release`` with a mechanism that releases answers and no synthetic table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import synthdp
from synthdp.cli.reading import read_as, table_at
from synthdp.errors import ParameterError, tell_of_budget


def release_summary(
    table: Path,
    schema: synthdp.Schema,
    *,
    told: synthdp.CsvFormat,
    mechanism: str,
    options: Mapping[str, Any],
    epsilon: float,
    delta: float,
    save: Path | None,
    receipt: Path | None,
    unsupported: Mapping[str, bool],
    as_json: bool,
    **people: Any,
) -> None:
    """Release a mechanism's answers and save them, for later questions with ``synthdp answer``.

    Costs (epsilon, delta), for the neighbours in ``people``.

    Parameters
    ----------
    table, told
        The private rows, and how their file is read.
    schema
        Declared schema.
    mechanism, options
        Name of the mechanism, and its settings by name.
    epsilon, delta
        Privacy cost.
    save
        Folder of the release; required, because the release is the only result.
    receipt
        File of the receipt, or None; JSON or HTML by its ending, else text.
    unsupported
        Options of the command that need a synthetic table, and whether each was given.
    as_json
        Print JSON.
    people
        Settings of the `Curator`: neighbours, units, ledger.

    Raises
    ------
    ParameterError
        If ``save`` is None, or an option needs a synthetic table; then no budget is spent.

    """
    from synthdp.mechanisms.named import UNSET, mechanism_named
    from synthdp.privacy.loss import loss_of
    from synthdp.publishing import check_places, receipt_text, whole_file
    from synthdp.release_files import check_place

    wrong = [option for option, given in unsupported.items() if given]
    if wrong:
        raise ParameterError(
            f"{mechanism} releases answers and no synthetic table, so {wrong[0]} does not apply: leave this option out"
        )
    if save is None:
        raise ParameterError(
            f"{mechanism} releases answers and no synthetic table: give --save, the folder in which the "
            "release is kept for later questions"
        )
    check_places((save, receipt), inputs=(table, people["ledger"]))
    check_place(save)
    made = mechanism_named(mechanism, options=options, **UNSET)
    source = table_at(table, told, schema.csv)
    with synthdp.Curator(source, schema=read_as(schema, told), budget=loss_of(epsilon, delta), **people) as curator:
        release = made.release(curator)
    try:
        release.save(save)
        if receipt is not None:
            with whole_file(receipt) as scratch:
                scratch.write_text(receipt_text(release, receipt.suffix), encoding="utf-8")
    except Exception as error:
        tell_of_budget(error, f"{release.receipt.total} is spent, {release.receipt.record}")
        raise
    if as_json:
        click.echo(json.dumps({"release": str(save), "receipt": release.receipt.to_document()}))
    else:
        click.echo(f"{release.receipt}\n\nanswers, to be asked by synthdp answer: {save}")
