"""Another package's mechanism, source and column type are found by name, and loaded only when they are asked for."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp import registered
from synthdp.cli.main import main
from synthdp.errors import ParameterError, SchemaError
from synthdp.mechanisms import named
from synthdp.schema.column import COLUMN_TYPES
from synthdp.tables.sources.file_source import is_csv

PACKAGE = Path(__file__).parent / "example_extension"
BITS = sd.Schema({"a": sd.Boolean(), "b": sd.Boolean()})


def forget() -> None:
    registered.extensions.cache_clear()
    named.named.cache_clear()
    COLUMN_TYPES.pop("compass", None)
    sys.modules.pop("synthdp_example", None)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the package as an installer does: its module on the path, beside metadata that name its entry points."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = tmp_path / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"] | {
        "synthdp.sources": {**project["entry-points"]["synthdp.sources"], "csv": "no:thing"}
    }
    groups["synthdp.mechanisms"] = {
        **groups["synthdp.mechanisms"],
        "l1_fit": "no:thing",
        "broken": "no_such_module:Thing",
    }
    lines = [f"[{group}]\n" + "".join(f"{n} = {value}\n" for n, value in one.items()) for group, one in groups.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.syspath_prepend(str(PACKAGE))
    forget()
    yield
    forget()


def bits() -> pd.DataFrame:
    return pd.DataFrame({"a": [True, False] * 500, "b": [True, True, False, True] * 250})


def schema_text() -> str:
    return json.dumps(json.loads(BITS.to_json()) | {"columns": [{"name": "wind", "type": "compass"}]})


@pytest.mark.usefixtures("installed")
def test_a_mechanism_is_found_by_name_and_loaded_only_then() -> None:
    assert "fair_coins" in named.named()
    assert "synthdp_example" not in sys.modules
    made = sd.SyntheticRelease(schema=BITS, mechanism="fair_coins", mechanism_options={"yes": 1.0}, epsilon=1.0)
    assert type(made._mechanism()).__name__ == "FairCoins"
    release = made.fit(bits()).release_
    assert release.loss == sd.ApproxDP(1.0, 1e-9)
    assert 0.6 < release.sample(2000, random_state=0)["b"].mean() < 0.9


@pytest.mark.usefixtures("installed")
def test_what_synthdp_has_itself_stays_its_own() -> None:
    assert named.named()["l1_fit"].place == "synthdp.mechanisms.l1_fit:L1Fit"
    assert is_csv("table.csv")


@pytest.mark.usefixtures("installed")
def test_a_broken_package_is_named() -> None:
    with pytest.raises(ParameterError, match="broken"):
        registered.extension(registered.MECHANISMS, "broken")


@pytest.mark.usefixtures("installed")
def test_a_source_is_found_by_the_ending_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bits().to_json("table.jsonl", orient="records", lines=True)
    BITS.write("bits.json")
    done = CliRunner().invoke(main, ["release", "table.jsonl", "--schema", "bits.json", "--out", "synthetic.csv"])
    assert done.exit_code == 0, done.stderr
    assert set(pd.read_csv("synthetic.csv").columns) == {"a", "b"}


@pytest.mark.usefixtures("installed")
def test_a_column_type_is_found_by_its_name_in_a_schema_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(schema_text())
    schema = sd.Schema.read(tmp_path / "s.json")
    assert sd.Schema.from_json(schema.to_json()) == schema
    wind = np.random.default_rng(0).choice(["north", "east"], 2000)
    synthetic = sd.SyntheticRelease(schema=schema, epsilon=1.0).fit_transform(pd.DataFrame({"wind": wind}))
    assert {"north", "east"} <= set(synthetic["wind"])


def test_without_the_package_nothing_is_found(tmp_path: Path) -> None:
    forget()
    with pytest.raises(ParameterError, match="mechanism"):
        sd.SyntheticRelease(schema=BITS, mechanism="fair_coins").fit(bits())
    (tmp_path / "s.json").write_text(schema_text())
    with pytest.raises(SchemaError):
        sd.Schema.read(tmp_path / "s.json")
