"""The command ``synthdp ledger``: spent budget by data set, its neighbouring relation, and the rest of each cap."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import synthdp
from synthdp.errors import DataError, LedgerError, ParameterError

if TYPE_CHECKING:
    from synthdp import Ledger
    from synthdp.privacy.loss import PrivacyLoss


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--dataset", help="Only this data set.")
@click.option("--cap", type=float, help="Set the most epsilon that may ever be spent on --dataset.")
@click.option("--cap-delta", type=float, help="The delta that goes with --cap; default: 0.")
@click.option("--neighbors", help="Whom --dataset is counted for: add_remove or replace_one.")
@click.option("--privacy-unit", help="The column that names whom it is counted for; default: every row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def ledger(
    path: Path,
    dataset: str | None,
    cap: float | None,
    cap_delta: float | None,
    neighbors: str | None,
    privacy_unit: str | None,
    as_json: bool,
) -> None:
    """Show what was spent, by data set; set a cap, or declare for which neighbours a data set is counted.

    \b
    Examples:
      synthdp ledger hospital.sqlite
      synthdp ledger hospital.sqlite --dataset patients --cap 3 --cap-delta 1e-6
      synthdp ledger hospital.sqlite --dataset visits --cap 3 \\
          --privacy-unit patient
      synthdp ledger old.sqlite --dataset patients --neighbors add_remove
    """
    given = {"--cap": cap, "--cap-delta": cap_delta, "--neighbors": neighbors, "--privacy-unit": privacy_unit}
    told = [option for option, value in given.items() if value is not None]
    if told and dataset is None:
        raise ParameterError(f"{told[0]} needs --dataset, the name of the data it is for")
    if cap_delta is not None and cap is None:
        raise ParameterError("--cap-delta needs --cap, the epsilon that it goes with")
    if cap is None and not path.is_file():
        raise DataError(
            f"there is no ledger '{path}': give the path of an existing ledger, or start one with --dataset and --cap"
        )
    book = synthdp.Ledger(path)
    if cap is not None and dataset is not None:
        limit = synthdp.ApproxDP(cap, cap_delta or 0.0)
        book.set_cap(dataset, limit, neighbors=neighbors, privacy_unit=privacy_unit)
    elif told and dataset is not None:
        _check_there(book, dataset)
        book.declare(dataset, neighbors=neighbors or "add_remove", privacy_unit=privacy_unit)
    if dataset is not None:
        _check_there(book, dataset)
    names = book.datasets() if dataset is None else [dataset]
    if as_json:
        click.echo(json.dumps({name: _document(book, name) for name in names}, indent=1))
        return
    for name in names:
        click.echo("\n".join(_lines(book, name)))


def _check_there(book: Ledger, dataset: str) -> None:
    """Raise DataError, which names similar data sets, unless the ledger has this one."""
    names = book.datasets()
    if dataset not in names:
        close = get_close_matches(dataset, names) or names[:3]
        meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise DataError(f"ledger '{book.path}' has no data set {dataset!r}{meant}")


def _lines(book: Ledger, name: str) -> list[str]:
    """Return the lines about one data set: spends, neighbours, cap and remaining budget."""
    entries, cap, counted = book.entries(name), book.cap(name), book.adjacency(name)
    declare = f"synthdp ledger '{book.path}' --dataset '{name}' --neighbors add_remove (or replace_one)"
    lines = [
        f"{name}: {len(entries)} spend{'s' * (len(entries) != 1)}",
        f"  neighbours  {f'not recorded by an older version: {declare}' if counted is None else counted.relation}",
        f"  cap         {'none: spends are recorded, not limited' if cap is None else cap}",
    ]
    if cap is not None:
        lines.append(f"  left        {_left(book, name) or 'nothing'}")
    return lines + [f"  {e.number:>4}  {e.moment}  {e.state:<9}  {e.loss}  {e.what}" for e in entries]


def _left(book: Ledger, name: str) -> PrivacyLoss | str | None:
    """Return the remaining budget of a data set, or the reason why it cannot be computed; None if nothing is left."""
    try:
        return book.left(name)
    except LedgerError as error:
        return str(error)


def _document(book: Ledger, name: str) -> dict[str, Any]:
    """Return a data set's state as a JSON document."""
    from synthdp.privacy.loss import to_document

    cap, counted, left = book.cap(name), book.adjacency(name), _left(book, name)
    return {
        "neighbors": None if counted is None else counted.neighbors.value,
        "privacy_unit": None if counted is None else counted.unit,
        "cap": None if cap is None else to_document(cap),
        "left": left if left is None or isinstance(left, str) else to_document(left),
        "spends": [
            {
                "number": e.number,
                "what": e.what,
                "state": e.state,
                "moment": e.moment,
                "loss": to_document(e.loss),
                "max_rows_per_unit": None if e.adjacency is None else e.adjacency.rows,
            }
            for e in book.entries(name)
        ],
    }
