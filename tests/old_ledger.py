"""A ledger as version 1 wrote it: dumped from a file that the code of that time made."""

import contextlib
import sqlite3
from pathlib import Path

from synthdp import ZCDP, ApproxDP, PureDP

VERSION_1 = """
CREATE TABLE caps (dataset TEXT PRIMARY KEY, loss TEXT NOT NULL);
INSERT INTO "caps" VALUES('patients','{"kind": "ApproxDP", "epsilon": 2.0, "delta": 1e-06}');
INSERT INTO "caps" VALUES('empty','{"kind": "PureDP", "epsilon": 1.0}');
CREATE TABLE meta (version INTEGER NOT NULL);
INSERT INTO "meta" VALUES(1);
CREATE TABLE spends (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, loss TEXT NOT NULL, what TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'committed')), moment TEXT NOT NULL);
INSERT INTO "spends" VALUES(1,'patients','{"kind": "ApproxDP", "epsilon": 0.5, "delta": 1e-07}','account','committed','2026-11-22T00:16:40+00:00');
INSERT INTO "spends" VALUES(2,'patients','{"kind": "PureDP", "epsilon": 0.25}','histogram','reserved','2026-11-22T00:16:40+00:00');
INSERT INTO "spends" VALUES(3,'visits','{"kind": "ZCDP", "rho": 0.125}','account','reserved','2026-11-22T00:16:40+00:00');
"""  # noqa: E501
CAPS = {"empty": PureDP(1.0), "patients": ApproxDP(2.0, 1e-6), "visits": None}
SPENDS = [
    (1, "patients", ApproxDP(0.5, 1e-7), "account", "committed"),
    (2, "patients", PureDP(0.25), "histogram", "reserved"),
    (3, "visits", ZCDP(0.125), "account", "reserved"),
]


def write_old_ledger(path: Path) -> Path:
    """Write a ledger of version 1."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_1)
    return path


def version_of(path: Path) -> int:
    """Return the version that stands in the file."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT version FROM meta").fetchone()[0]
