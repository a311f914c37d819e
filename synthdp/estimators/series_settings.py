"""Settings of a series of releases, as its folder stores them, and checks of settings given for an existing series."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

from synthdp.checks import check_number, whole
from synthdp.curator import Ledger
from synthdp.errors import ParameterError, SchemaError
from synthdp.estimators.findings import EPSILONS
from synthdp.mechanisms.survey_weights import refuse_weights
from synthdp.privacy.neighbors import neighbors_named
from synthdp.schema.schema import schema_given

LEAST_KEY = 16
"""Smallest length of an encryption key, in bytes.  Safety limit: 128 bits cannot be found by brute force."""


def new_settings(schema: Any, *, ledger: Ledger | None, dataset: str | None, **given: Any) -> dict[str, Any]:
    """Return the settings of a new series as a JSON document, after checks.

    Parameters
    ----------
    schema
        The schema in any form that a user may give.
    ledger, dataset
        Ledger that records the series, and the name of its data there.
    given
        Other settings of `ReleaseSeries` that hold for the whole series, by name.

    Raises
    ------
    ParameterError
        If a setting is out of range.
    SchemaError
        If the schema has open bounds or levels, or a survey weight.
    """
    if schema is None:
        raise ParameterError("schema must be given to start a series")
    declared = schema_given(schema)
    if declared.undeclared:
        raise SchemaError(
            f"column {declared.undeclared[0]!r} must have declared bounds or levels, because a series discovers none"
        )
    refuse_weights(declared, by="a series")
    check_loss(given["epsilon"], given["delta"])
    neighbors_named(given["neighbors"])
    periods, most = whole("periods", given["periods"], least=1), given["max_periods_per_unit"]
    if most is None:
        most = 1 if given["privacy_unit"] is None else periods
    workload = given["workload"]
    return {
        "schema": json.loads(declared.to_json()),
        "epsilon": float(given["epsilon"]),
        "delta": float(given["delta"]),
        "periods": periods,
        "period": str(given["period"]),
        "neighbors": str(given["neighbors"]),
        "privacy_unit": given["privacy_unit"],
        "max_rows_per_unit": whole("max_rows_per_unit", given["max_rows_per_unit"], least=1),
        "max_periods_per_unit": whole("max_periods_per_unit", most, least=1, most=periods),
        "choose_again": bool(given["choose_again"]),
        "target": given["target"],
        "bins": whole("bins", given["bins"], least=2),
        "workload": None if workload is None else [sorted(one) for one in workload],
        "ledger": None if ledger is None else ledger.path.name,
        "dataset": None if ledger is None else dataset or "default",
    }


def ledger_of(ledger: str | PathLike[str] | Ledger | None, *, dataset: str | None, key: bytes | None) -> Ledger | None:
    """Return the ledger that records a series or panel; ``None`` if no ledger is given.

    Raises
    ------
    ParameterError
        If a dataset is named without a ledger, or the key of the private files is too short.
    """
    if dataset is not None and ledger is None:
        raise ParameterError(f"dataset ({dataset!r}) is a name in a ledger: give the ledger too, or leave both out")
    if key is not None and (not isinstance(key, bytes) or len(key) < LEAST_KEY):
        raise ParameterError(f"key must be bytes, of length {LEAST_KEY} or more")
    return Ledger(ledger) if ledger is not None and not isinstance(ledger, Ledger) else ledger


def check_loss(epsilon: float, delta: float) -> None:
    """Raise ParameterError unless epsilon is within `EPSILONS` and delta above 0 and below 1, for a series or panel.

    Their noise is Gaussian, which needs a delta.
    """
    check_number("epsilon", epsilon, least=EPSILONS[0], most=EPSILONS[1])
    check_number("delta", delta, above=0, below=1)


def check_same(known: Mapping[str, Any], schema: Any, **given: Any) -> None:
    """Raise ParameterError if settings differ from the settings of the series or panel in the folder.

    Nothing is checked without a schema, because the folder's settings are used then.

    Raises
    ------
    ParameterError
        If a setting differs; the message names the first one.
    """
    if schema is None:
        return
    if json.loads(schema_given(schema).to_json()) != known["schema"]:
        raise ParameterError(
            "schema differs from the schema of the series or panel in the folder: pass that schema, or another path"
        )
    for name, value in given.items():
        if value != known[name]:
            raise ParameterError(
                f"{name} is {value!r}, but the series or panel in the folder has {known[name]!r}: pass "
                f"{known[name]!r}, or another path"
            )
