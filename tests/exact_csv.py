"""CSV files with every float as it was written."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd


def exact_csv(path: Path | str) -> pd.DataFrame:
    """Return the table of a file; pandas before 3 reads the last digit of a float well only if asked to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer ones warn that it need not be asked for
        return pd.read_csv(path, float_precision="round_trip")
