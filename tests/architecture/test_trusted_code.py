"""The shape of the trusted code: its records cannot be changed, and a call says by name what each number is."""

import dataclasses
import importlib
import inspect
import pkgutil

import synthdp.curator
import synthdp.privacy
from synthdp import Curator

MODULES = [
    importlib.import_module(f"{package.__name__}.{module.name}")
    for package in (synthdp.privacy, synthdp.curator)
    for module in pkgutil.iter_modules(package.__path__)
]
CLASSES = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if inspect.isclass(kind) and kind.__module__ == module.__name__
]
RECORDS = {kind.__name__: kind for kind in CLASSES if dataclasses.is_dataclass(kind)}
STATEFUL = {"Account", "PeriodRows", "PrivateDatabase", "PrivateTable", "_OneRowEach"}
SHORT = {"AboveThresholdAnswer", "Account", "Adjacency", "ApproxDP", "Bounding", "Calibration", "Discovered",
         "Entry", "GaussianDP", "PeriodRows", "PureDP", "PrivateDatabase", "PrivateTable", "RepeatedNoise", "ZCDP",
         "_OneRowEach", "_Piece"}  # fmt: skip
"""Records that may be made by position; all others name their fields."""


def test_what_is_no_state_cannot_be_changed_and_nothing_can_be_added():
    assert {name for name, kind in RECORDS.items() if not kind.__dataclass_params__.frozen} == STATEFUL
    assert [name for name, kind in RECORDS.items() if "__slots__" not in vars(kind)] == []


def test_long_records_are_made_by_name():
    by_place = {name for name, kind in RECORDS.items() if not all(field.kw_only for field in dataclasses.fields(kind))}
    assert by_place == SHORT
    assert [name for name in SHORT if any(field.kw_only for field in dataclasses.fields(RECORDS[name]))] == []


def test_every_argument_can_be_named():
    found = [found for place in (*MODULES, *CLASSES) for found in vars(place).values()]
    bare = [getattr(one, "__func__", getattr(one, "fget", one)) for one in found]
    functions = {f for f in bare if inspect.isfunction(f) and f.__module__.startswith("synthdp.")}
    assert len(functions) > 150
    for function in functions:
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        assert inspect.Parameter.POSITIONAL_ONLY not in kinds, function


def test_nobody_inherits_from_a_curator():
    assert Curator.__final__
