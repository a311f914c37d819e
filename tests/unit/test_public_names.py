"""The names of `synthdp`: each is there, and one that needs an extra says which."""

import builtins
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import synthdp


def test_a_star_import_gives_what_the_plain_installation_has_and_shadows_no_builtin() -> None:
    found: dict[str, Any] = {}
    exec("from synthdp import *", found)
    assert found.keys() - {"__builtins__"} == {"__version__", *synthdp._HOME} - {*synthdp._EXTRAS, "sum"}
    assert not found.keys() & {*vars(builtins)} - {"__builtins__"}
    assert synthdp.sum("age")


def test_names_are_listed_once_and_many() -> None:
    """The list that type checkers read is the one from which names are loaded."""
    assert len(synthdp._HOME) > 100
    assert {"SyntheticRelease", "SparkSource", "sum", "saved_as"} <= synthdp._HOME.keys()
    assert "SyntheticRelease" not in Path(synthdp.__file__).read_text(encoding="utf-8")


def test_every_name_is_found_and_is_called_so() -> None:
    here = set(synthdp._HOME) - ({"SparkSource"} if find_spec("pyspark") is None else set())
    assert {getattr(synthdp, name).__name__ for name in here} == here
    assert set(synthdp._HOME) <= set(dir(synthdp))


@pytest.mark.parametrize(
    ("name", "needed", "extra"), [("ParquetSource", "pyarrow", "arrow"), ("DuckDBSource", "duckdb", "duckdb,arrow")]
)
def test_a_name_whose_library_is_missing_says_what_to_install(
    name: str, needed: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(vars(synthdp), name, raising=False)
    monkeypatch.setattr(synthdp, "import_module", missing(needed))
    with pytest.raises(ImportError) as told:
        getattr(synthdp, name)
    assert str(told.value) == f"{name} needs {needed}: pip install 'synthdp[{extra}]'"


def test_a_fault_of_the_installation_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(synthdp), "Schema", raising=False)
    monkeypatch.setattr(synthdp, "import_module", missing("numpy"))
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        synthdp.Schema  # noqa: B018


def missing(library: str) -> Any:
    def refuse(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{library}'", name=library)

    return refuse
