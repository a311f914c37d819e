"""The Adult census table and its schema, for examples and tests."""

from __future__ import annotations

from importlib import resources

import pandas as pd

from synthdp.schema.columns import Categorical, Column, Integer
from synthdp.schema.schema import Schema

_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_500),
    "hours-per-week": (1, 99),
}
"""Lower and upper bounds of the bundled table's columns of numbers.  The table is public, so that its own ends may be
used: the codes of the census (17, 90, 99, 99999) as they are, other ends rounded outwards.  A convention."""

_LEVELS = {
    "workclass": "Federal-gov|Local-gov|Never-worked|Private|Self-emp-inc|Self-emp-not-inc|State-gov|Without-pay",
    "education": "10th|11th|12th|1st-4th|5th-6th|7th-8th|9th|Assoc-acdm|Assoc-voc|Bachelors|Doctorate|HS-grad|Masters|"
    "Preschool|Prof-school|Some-college",
    "marital-status": "Divorced|Married-AF-spouse|Married-civ-spouse|Married-spouse-absent|Never-married|Separated|Widowed",
    "occupation": "Adm-clerical|Armed-Forces|Craft-repair|Exec-managerial|Farming-fishing|Handlers-cleaners|"
    "Machine-op-inspct|Other-service|Priv-house-serv|Prof-specialty|Protective-serv|Sales|Tech-support|Transport-moving",
    "relationship": "Husband|Not-in-family|Other-relative|Own-child|Unmarried|Wife",
    "race": "Amer-Indian-Eskimo|Asian-Pac-Islander|Black|Other|White",
    "sex": "Female|Male",
    "native-country": "Cambodia|Canada|China|Columbia|Cuba|Dominican-Republic|Ecuador|El-Salvador|England|France|Germany|"
    "Greece|Guatemala|Haiti|Holand-Netherlands|Honduras|Hong|Hungary|India|Iran|Ireland|Italy|Jamaica|Japan|Laos|Mexico|"
    "Nicaragua|Outlying-US(Guam-USVI-etc)|Peru|Philippines|Poland|Portugal|Puerto-Rico|Scotland|South|Taiwan|Thailand|"
    "Trinadad&Tobago|United-States|Vietnam|Yugoslavia",
    "income": "<=50K|>50K",
}
"""The levels of the bundled table's columns of labels, separated by "|", from its documentation."""

_NULLABLE = {"workclass", "occupation", "native-country"}
"""The bundled table's columns with missing values."""


def adult() -> pd.DataFrame:
    """Return the Adult census table: 32 561 rows of 15 mixed columns, with missing values.

    Becker, B. and Kohavi, R. (1996). Adult [Dataset]. UCI Machine Learning Repository, https://doi.org/10.24432/C5XW20.
    Licence: Creative Commons Attribution 4.0 (CC BY 4.0).  The copy is the training part; "?" became missing.
    """
    path = resources.files("synthdp.data") / "adult.csv.xz"
    with resources.as_file(path) as file:
        return pd.read_csv(file, compression="xz", keep_default_na=False, na_values=[""])


def adult_schema() -> Schema:
    """Return a schema of the Adult table: levels from its documentation, bounds that hold all values of the public table."""
    names = [
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
        "native-country",
        "income",
    ]
    columns: dict[str, Column] = {}
    for name in names:
        if name in _BOUNDS:
            columns[name] = Integer(*_BOUNDS[name])
        else:
            columns[name] = Categorical(_LEVELS[name].split("|"), nullable=name in _NULLABLE)
    return Schema(columns)
