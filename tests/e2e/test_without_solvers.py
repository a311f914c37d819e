"""Packages of solvers that cannot be imported: what does not need them works, and nobody pays for finding out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKED = """
import importlib.abc, json, sys, warnings

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("highspy", "cvxpy"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Blocker())
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
import synthdp as sd
from synthdp.errors import NOTHING_SPENT, SolverUnavailableError, budget_told

b = np.arange(400) % 5
table = pd.DataFrame({"a": b > 2, "b": b})
schema = sd.Schema({"a": sd.Boolean(), "b": sd.Integer(0, 4)})
release = sd.SyntheticRelease(schema=schema, epsilon=5.0, ledger=sys.argv[1], **json.loads(sys.argv[2]))
try:
    print(len(release.fit_transform(table)) > 0, [note for note in release.receipt_.notes if "SALVAGED" in note])
except SolverUnavailableError as error:
    print("refused", budget_told(error) == NOTHING_SPENT)
print({entry.state for entry in sd.Ledger(sys.argv[1]).entries()} - {"returned"})
"""


def without_solvers(folder: Path, **settings: object) -> list[str]:
    command = [sys.executable, "-c", BLOCKED, str(folder / "l.sqlite"), json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_default_release_needs_no_solver(tmp_path):
    assert without_solvers(tmp_path) == ["True []", "{'committed'}"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["l1_fit", "mwem", "fourier_marginals"])
def test_a_solver_that_cannot_be_imported_is_refused_before_the_spend_or_another_takes_over(mechanism, tmp_path):
    said, spent = without_solvers(tmp_path, mechanism=mechanism)
    assert (said, spent) == ("refused True", "set()") or (said.startswith("True "), spent) == (True, "{'committed'}")
