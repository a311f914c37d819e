"""What the runners of the field benchmark share: the public plan in, a synthetic table and a report out, and the clock.

A runner is one small file that a peer's own Python runs with a folder as its argument.  It finds there

* ``plan.json``: what is public, that is method, epsilon, delta, seed, settings and the columns, each either
  ``{"name", "form": "cells", "cells": k}`` (whole numbers 0 to k - 1; the missing value, where there may be one, is one
  of them) or ``{"name", "form": "numbers", "lower", "upper", "whole"}`` (numbers, empty where missing);
* ``train.csv``: the private rows in that form;

and writes ``synthetic.csv`` in the same form (an empty field is a value that the peer left open) and ``report.json``:
seconds and processor seconds of releasing and sampling (imports, reading and writing not counted), peak memory of the
whole process, and the versions of the packages.  Standard library and numpy only.
"""

from __future__ import annotations

import csv
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

Plan = dict[str, Any]
Table = dict[str, np.ndarray]


def read_table(folder: Path, plan: Plan) -> Table:
    """The private rows: int64 for cells, float64 for numbers, NaN where missing."""
    with (folder / "train.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    fields = dict(zip(header, zip(*rows, strict=True), strict=True))
    table = {}
    for column in plan["columns"]:
        texts = fields[column["name"]]
        if column["form"] == "cells":
            table[column["name"]] = np.array(texts, np.int64)
        else:
            table[column["name"]] = np.array([float(text) if text else np.nan for text in texts])
    return table


def write_table(folder: Path, plan: Plan, table: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
    """Write the synthetic rows; None and NaN become empty fields."""
    names = [column["name"] for column in plan["columns"]]
    columns = [np.asarray(table[name], dtype=object) for name in names]
    with (folder / "synthetic.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(["" if x is None or x != x else x for x in row] for row in zip(*columns, strict=True))


def serve(
    release: Callable[[Plan, Any], Any],
    *,
    packages: Sequence[str],
    load: Callable[[Path, Plan], Any] = read_table,
    save: Callable[[Path, Plan, Any], None] = write_table,
) -> None:
    """Read what the folder holds, let the peer release and sample by the clock, write what came out."""
    folder = Path(sys.argv[1])
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    np.random.seed(plan["seed"])  # noqa: NPY002 - the state that peers draw from
    table = load(folder, plan)
    wall, processor = time.perf_counter(), time.process_time()
    synthetic = release(plan, table)
    report = {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - processor,
        "peak_mb": peak_megabytes(),
        "versions": {package: _version(package) for package in packages},
    }
    save(folder, plan, synthetic)
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree
        return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def peak_megabytes() -> float:
    """Most memory that this process held at once."""
    status = Path("/proc/self/status")
    if status.exists():  # rusage would count the parent's memory at the time of the fork as well
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024**2 if sys.platform == "darwin" else peak / 1024
