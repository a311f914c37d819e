"""The benchmark against the field: its harness on a few rows, its peers' protocol with made-up peers, and its claims."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthdp import Categorical, Continuous, Integer, Schema

ROOT = Path(__file__).parents[2]
UTILITY = ROOT / "benchmarks" / "utility"

RUNNER = """
import sys
sys.path.insert(0, {runners!r})
from protocol import serve

def release(plan, table):
    {body}

serve(release, packages=["numpy"])
"""


@pytest.fixture
def made_up(tmp_path, load):
    """A peer whose runner has a given body, and a table of three columns."""

    def make(body: str, **settings):
        runner = tmp_path / "runner.py"
        runner.write_text(RUNNER.format(runners=str(UTILITY / "field_runners"), body=body))
        peer = load("field_peers").Peer(name="made up", method="none", runner=str(runner), **settings)
        rng = np.random.default_rng(0)
        schema = Schema(
            {
                "x": Continuous(0.0, 1.0, nullable=True),
                "n": Integer(0, 99),
                "c": Categorical(["no", "yes", "maybe"]),
            }
        )
        rows = pd.DataFrame(
            {
                "x": np.where(rng.random(300) < 0.2, np.nan, rng.random(300)),
                "n": rng.integers(0, 100, 300),
                "c": rng.choice(["no", "yes"], 300),
            }
        )
        table = load("field_tables").Benchmark(name="tiny", rows=rows, schema=schema, target="c")

        def run(limit: float = 60.0):
            return load("field").one_run(
                table, peer, epsilon=1.0, seed=0, limit=limit, environments=tmp_path / "none", rows=None
            )

        return run

    return make


@pytest.mark.slow
def test_a_tiny_run_of_synthdp_and_independent_columns_gives_a_line_each(tmp_path):
    out = tmp_path / "field.jsonl"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        str(UTILITY / "field.py"),
        "--quick",
        "--rows",
        "1000",
        "--seeds",
        "1",
        "--out",
        str(out),
    ]
    command += ["--only", "synthdp", "--only", "independent columns"]
    subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(r["method"], r["status"], r["epsilon"]) for r in records] == [
        ("synthdp", "done", 1.0),
        ("independent columns", "done", 1.0),
    ]
    assert all(0 < r["three_way"] < 1 and 0 < r["cpu_seconds"] < 60 and r["peak_mb"] > 10 for r in records)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["cells", "numbers"])
def test_a_peer_that_returns_the_rows_has_no_error_in_the_32_cells(made_up, form):
    record = made_up("return table", form=form)()
    assert record["status"] == "done"
    assert record["two_way"] == record["three_way"] == 0
    assert record["versions"] == {"numpy": np.__version__}
    assert record["synthetic_rows"] == record["rows"] == 240


@pytest.mark.slow
def test_what_a_peer_leaves_open_is_drawn_from_the_column_if_it_has_no_missing_value(made_up):
    record = made_up('table["c"] = [None] + table["c"].tolist()[1:]; return table')()
    assert record["status"] == "done"
    assert record["two_way"] < 0.01


def test_a_failure_is_reported_as_it_happened_but_for_paths(made_up):
    record = made_up('raise ValueError("no such thing in /some/where")')()
    assert (record["status"], record["message"]) == ("failed", "ValueError: no such thing in …")
    assert "three_way" not in record


@pytest.mark.slow
def test_a_run_beyond_its_processor_time_is_ended_and_reported(made_up, load, monkeypatch):
    run = made_up("while True: pass")
    monkeypatch.setattr(load("field_peers"), "WALL_FACTOR", 60)  # the machine may be busy
    record = run(limit=1.0)
    assert (record["status"], record["message"]) == ("timed out", "no table after 1 processor seconds")
    assert 0.9 < record["cpu_seconds"] < 4


@pytest.mark.slow
def test_a_run_that_only_waits_is_ended_by_the_clock(made_up, load, monkeypatch):
    run = made_up("import time; time.sleep(60)")
    monkeypatch.setattr(load("field_peers"), "WALL_FACTOR", 1.0)
    record = run(limit=1.0)
    assert (record["status"], record["message"]) == ("timed out", "no table after 1 seconds by the clock")


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_reported(made_up, load, monkeypatch):
    peers = load("field_peers")
    monkeypatch.setitem(peers.REQUIREMENTS, "absent", ("./no-such-folder",))
    record = made_up("return table", environment="absent")()
    assert record["status"] == "not installed"
    assert record["message"].startswith("ERROR")


def test_a_folder_of_tables_with_schemas_is_read_as_it_was_written(tmp_path, load):
    schema = Schema({"n": Integer(0, 9), "c": Categorical(["1", "2"], nullable=True)})
    pd.DataFrame({"n": [1, 2, 3], "c": ["1", None, "2"]}).to_csv(tmp_path / "t.csv", index=False)
    schema.write(tmp_path / "t.schema.json")
    (found,) = load("field_tables").from_folder(tmp_path, {"t": "c"})
    assert (found.name, found.target, found.schema) == ("t", "c", schema)
    assert found.rows["n"].tolist() == [1, 2, 3]
    assert found.rows["c"].dropna().tolist() == ["1", "2"]


def test_a_table_of_openml_is_declared_by_its_rows(load, monkeypatch):
    frame = pd.DataFrame({"x": [0.5, 1.5, 2.0], "n": [1, 2, 3], "c": pd.Categorical(["a", None, "b"])})
    bunch = type("Bunch", (), {"frame": frame, "target_names": ["c"]})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: bunch)
    found = load("field_tables").from_openml("made-up")
    assert found.target == "c"
    assert found.schema == Schema(
        {"x": Continuous(0.5, 2.0), "n": Integer(1, 3), "c": Categorical(["a", "b"], nullable=True)}
    )


def test_a_line_takes_the_place_of_the_same_run(tmp_path, load):
    keep, path = load("field").keep, tmp_path / "results" / "field.jsonl"
    run = {"table": "t", "epsilon": 1.0, "method": "m", "seed": 0}
    for record in (run | {"three_way": 1}, run | {"seed": 1}, run | {"three_way": 2}):
        keep(record, path)
    assert load("field").read_results(path) == [run | {"seed": 1}, run | {"three_way": 2}]


def test_the_readme_and_the_page_say_what_the_results_say():
    command = [sys.executable, str(UTILITY / "field_report.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 0, found.stderr


def test_a_changed_result_changes_the_readme(load):
    report = load("field_report")
    records = [json.loads(line) for line in report.RESULTS.read_text(encoding="utf-8").splitlines()]
    text = report.README.read_text(encoding="utf-8")
    changed = [record | {"three_way": 0.999} if record["status"] == "done" else record for record in records]
    assert report.with_block(text, report.readme_block(records)) == text
    assert report.with_block(text, report.readme_block(changed)) != text


def test_where_a_peer_is_ahead_the_report_says_so_and_failures_keep_their_row(load):
    report = load("field_report")
    run = {"table": "adult", "epsilon": 1.0, "seed": 0, "status": "done", "date": "2026-01-01", "machine": "one"}
    records = [
        run | {"method": "synthdp", "three_way": 0.2, "auc": 0.8, "rows": 10},
        run | {"method": "dpmm MST", "three_way": 0.1, "auc": 0.7},
        run | {"method": "dpmm AIM", "status": "timed out", "message": "no table after 1 processor seconds"},
        run | {"method": report.FLOOR, "three_way": 0.05, "auc": 0.9},
    ]
    block = report.readme_block(records)
    assert "In three-way marginals, synthdp (0.2) does worse than dpmm MST (0.1)." in block
    assert "| dpmm MST | 1 | **0.1** | 0.7 |" in block
    assert "| synthdp | 1 | 0.2 | **0.8** |" in block
    assert "| dpmm AIM | 1 | timed out: no table after 1 processor seconds |" in block
