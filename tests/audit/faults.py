"""A release that dies at a stage: run as a process by test_faults.py.

    python faults.py STAGE FOLDER

Fits a table, saves the release and writes a sample, and kills itself (as kill -9 does) when the stage begins.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp import Categorical, Integer, Ledger, Schema, SyntheticRelease
from synthdp.curator import Curator
from synthdp.curator.private_table import PrivateTable
from synthdp.errors import LedgerWarning, SynthDPError
from synthdp.privacy import noise

SCHEMA = Schema({"age": Integer(0, 9), "city": Categorical(["a", "b"])})


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(0, 10, 300), "city": rng.choice(["a", "b"], 300)})


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def full(*_: Any, **__: Any) -> None:
    """From now on no file grows beyond a page: what a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


PLACES = {
    "before the spend": (Ledger, "reserve"),
    "between spend and read": (PrivateTable, "_grid_indices"),
    "while measuring": (noise, "discrete_gaussian"),
    "after measuring, before the fit is done": (Curator, "receipt"),
    "while writing the release": (Path, "rename"),
}


def main(stage: str, folder: Path) -> int:
    warnings.simplefilter("ignore", LedgerWarning)  # what is looked for is the spend, not its limit
    fault = full if stage.startswith("disk full ") else die
    place = stage.removeprefix("disk full ")
    if place in PLACES:
        owner, name = PLACES[place]
        original = getattr(owner, name)

        def struck(*arguments: Any, **options: Any) -> Any:
            fault()
            return original(*arguments, **options)

        setattr(owner, name, struck)
    try:
        model = SyntheticRelease(schema=SCHEMA, ledger=folder / "l.sqlite", dataset="t").fit(table())
        if place == "before the release is saved":
            fault()
        model.save(folder / "t.release")
    except SynthDPError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
