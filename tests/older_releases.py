"""A saved release of each kind, and a session: written once by one version of the package, and read by every later one.

``python tests/older_releases.py FOLDER`` (with the package on the path) writes them as the package is now.  What was
written is never written again: a new folder beside the others holds what a new version writes.  A fingerprint in
`expected.json` changes only if a field is no longer saved (that of Fourier marginals: how long the fit took).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mechanism_cases import BUDGET, CASES, SPARSE
from small_databases import SCHEMAS, every_person, frames

import synthdp as sd
from synthdp.release import save
from synthdp.release_files import fingerprint

SESSION = "sparse session"
NAMED = {
    "named auto": {},
    "named fourier_marginals": {"mechanism": "fourier_marginals", "columns": ["flag", "city"]},
    "named mwem": {"mechanism": "mwem", "columns": ["flag", "city"]},
    "named smooth_synthesis": {"mechanism": "smooth_synthesis", "columns": ["age", "pay"]},
    "named l1_fit": {"mechanism": "l1_fit", "columns": ["age", "flag", "city"]},
}
SCHEMA = sd.Schema(
    {
        "age": sd.Integer(0, 99, nullable=True),
        "pay": sd.Continuous(0, 10, special=(-1,)),
        "flag": sd.Boolean(),
        "city": sd.Categorical(["Oslo", "Rome", "Bern"], other="elsewhere"),
        "seen": sd.Date("2020-01-01", "2020-12-31"),
        "id": sd.Identifier("p"),
    },
    constraints=[sd.Forbidden({"flag": True, "age": (0, 9)})],
)


def table(rows: int = 400) -> pd.DataFrame:
    """Return rows of all kinds of columns; some do not fit the schema."""
    i = np.arange(rows)
    age = i * 7 % 100
    return pd.DataFrame(
        {
            "age": np.where(i % 13 == 0, np.nan, age), "pay": np.where(i % 17 == 0, -1.0, i * 0.37 % 10),
            "flag": (age > 30) & (i % 3 > 0), "city": np.array(["Oslo", "Rome", "Bern", "Ulm", "?"])[i * i % 5],
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(i % 366, "D"), "id": [f"p{one}" for one in i],
        }
    )  # fmt: skip


def releases() -> Iterator[tuple[str, sd.Release[Any]]]:
    """Make a release of each kind."""
    for name, case in CASES.items():
        yield name, case.release(case.world.table)[0]
    for name, settings in NAMED.items():
        options = dict(settings)
        columns = list(options.pop("columns", SCHEMA.names))
        estimator = sd.SyntheticRelease(schema=SCHEMA.part(columns), epsilon=2.0, random_state=0, **options)
        yield name, estimator.fit(table()[columns]).release_
    for name in ("pattern", "two children"):
        schema = SCHEMAS[name]
        rows = frames(list(every_person(rows=2, leaves=True))[:60], schema)
        yield f"database {name}", sd.DatabaseRelease(schema=schema, epsilon=3.0, random_state=0).fit(rows).release_


def session_curator() -> sd.Curator:
    """Return a curator of the rows on which the saved session was opened."""
    world = CASES["SparseWeights"].world
    return sd.Curator(world.table, schema=world.schema, budget=BUDGET)


def told(release: sd.Release[Any]) -> dict[str, Any]:
    """Return what a release must still say when it is read years later."""
    measured = [hashlib.sha256(one.values.tobytes()).hexdigest()[:16] for one in release.measurements]
    asked = [type(one.queries).__name__ for one in release.measurements]
    stddevs = [one.stddev for one in release.measurements]
    return {
        "output": type(release.output).__name__, "fingerprint": fingerprint(release), "loss": str(release.loss),
        "asked": asked, "measured": measured, "stddevs": stddevs,
    }  # fmt: skip


def write(folder: Path) -> None:
    """Write every release, the session, and what they say."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    expected = {}
    for name, release in releases():
        save(release, folder / name)
        expected[name] = told(sd.load(folder / name))
    session = sd.SparseWeights(max_updates=5).open(session_curator())
    for query in SPARSE[:5]:
        session.ask(query)
    expected[SESSION] = {"updates": session.updates, "columns": list(session.columns)}
    session.save(folder / SESSION)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write(Path(sys.argv[1]))
