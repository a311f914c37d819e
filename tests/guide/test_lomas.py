"""What stands between lomas and synthdp: its metadata as a schema, and a release that its own client asks for."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest

import synthdp as sd

EXAMPLE = Path(__file__).parents[2] / "examples" / "lomas"
METADATA: dict[str, Any] = {
    "max_ids": 3, "rows": 2000, "row_privacy": False,
    "columns": {
        "person": {"type": "int", "precision": 64, "lower": 0, "upper": 10**6, "private_id": True, "nullable": False},
        "sex": {"type": "string", "cardinality": 2, "categories": ["f", "m"], "nullable": False},
        "age": {"type": "int", "precision": 64, "lower": 0, "upper": 120, "nullable": False},
        "wage": {"type": "float", "precision": 64, "lower": 0.0, "upper": 9000.0, "nullable": True},
        "name": {"type": "string", "nullable": False},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def mapping() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lomas_schema", EXAMPLE / "lomas_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_metadata_become_a_schema(mapping: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(
        json.dumps(mapping.schema_of(METADATA, ["sex", "age", "wage"])), encoding="utf-8"
    )
    schema = sd.Schema.read(tmp_path / "schema.json")
    assert schema["sex"] == sd.Categorical(["f", "m"], source="metadata of lomas")
    assert schema["age"] == sd.Integer(0, 120, source="metadata of lomas")
    assert schema["wage"] == sd.Continuous(0, 9000, nullable=True, source="metadata of lomas")
    assert mapping.unit_of(METADATA) == ("person", 3)
    assert mapping.unit_of(METADATA | {"row_privacy": True}) == (None, 1)


def test_what_the_metadata_do_not_tell_is_refused(mapping: ModuleType) -> None:
    with pytest.raises(ValueError, match="name"):
        mapping.schema_of(METADATA, ["name"])
    nobody = METADATA | {"columns": {"age": METADATA["columns"]["age"]}}
    with pytest.raises(ValueError, match="private_id"):
        mapping.unit_of(nobody)


def served(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + 120
    while time.monotonic() < end and server.poll() is None:
        try:
            urlopen(f"{url}/docs", timeout=5).close()
            return
        except (URLError, OSError):
            time.sleep(0.5)
    raise AssertionError(f"the server of lomas did not start: {log.read_text()[-3000:]}")


def test_a_client_of_lomas_gets_a_release(tmp_path: Path) -> None:
    """Run lomas' own server and client; set SYNTHDP_LOMAS_PYTHON to a Python that has both."""
    python, program = os.environ.get("SYNTHDP_LOMAS_PYTHON"), Path(sys.executable).with_name("synthdp")
    if python is None or not program.exists():
        pytest.skip(
            "SYNTHDP_LOMAS_PYTHON names no Python with lomas-server and lomas-client, or synthdp is not installed"
        )
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"person": np.arange(2000) // 2, "sex": rng.choice(["f", "m"], 2000), "age": rng.integers(18, 90, 2000)}
    )
    people["wage"] = np.where(people["sex"] == "f", 4000.0, 3000.0) + rng.normal(0, 300, 2000)
    people["name"] = "n" + people["person"].astype(str)
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "metadata.yaml").write_text(json.dumps(METADATA), encoding="utf-8")  # JSON is YAML
    access = {"database_type": "PATH_DB"}
    user = {
        "dataset_name": "PEOPLE",
        "initial_epsilon": 3.0,
        "initial_delta": 0.001,
        "total_spent_epsilon": 0.0,
        "total_spent_delta": 0.0,
    }
    admin = {
        "users": [{"user_name": "Dr. Antartica", "may_query": True, "datasets_list": [user]}],
        "datasets": [{
            "dataset_name": "PEOPLE", "dataset_access": access | {"path": str(tmp_path / "people.csv")},
            "metadata_access": access | {"path": str(tmp_path / "metadata.yaml")},
        }],
        "queries": [],
    }  # fmt: skip
    (tmp_path / "admin.yaml").write_text(json.dumps(admin), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "develop_mode": False, "submit_limit": 0.0, "private_db_credentials": [],
        "server": {"time_attack": {"method": "jitter", "magnitude": 0.0}, "host_ip": "127.0.0.1", "host_port": port,
                   "log_level": "warning", "reload": False, "workers": 1},
        "admin_database": {"db_type": "yaml", "db_file": str(tmp_path / "admin.yaml")},
        "dp_libraries": {"opendp": {"contrib": True, "floating_point": True, "honest_but_curious": True}},
    }  # fmt: skip
    (tmp_path / "config.yaml").write_text(json.dumps({"runtime_args": {"settings": settings}}), encoding="utf-8")
    (tmp_path / "secrets.yaml").write_text("{}", encoding="utf-8")
    (tmp_path / "ledgers").mkdir(mode=0o700)
    for name in ("lomas_synthdp.py", "lomas_synthdp_client.py", "lomas_schema.py", "serve.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"SYNTHDP": str(program), "SYNTHDP_LEDGERS": str(tmp_path / "ledgers"), "OTEL_SDK_DISABLED": "true"}
    command = [python, "serve.py", "config.yaml", "secrets.yaml"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            served(f"http://127.0.0.1:{port}", server, tmp_path / "log")
            asks = f"""
from lomas_client.client import Client
from lomas_synthdp_client import SynthdpClient, SynthdpQuery
client = Client("http://127.0.0.1:{port}", "Dr. Antartica", "PEOPLE")
ask = SynthdpClient(client)
print(ask.cost(epsilon=1.0, delta=1e-9).epsilon, client.get_total_spent_budget().total_spent_epsilon)
answer = ask.query(epsilon=1.0, delta=1e-9, select_cols=["sex", "age", "wage"])
answer.result.df_samples.to_csv("samples.csv", index=False)
print(answer.epsilon, client.get_total_spent_budget().total_spent_epsilon)
for refused in (dict(epsilon=1.0, select_cols=["name"]), dict(epsilon=2.5)):  # this client cannot read its server's errors
    print(client.http_client.post("synthdp_query", SynthdpQuery(dataset_name="PEOPLE", delta=1e-9, **refused)).text)
print(client.get_total_spent_budget().total_spent_epsilon)
"""
            ran = subprocess.run(
                [python, "-c", asks], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
        finally:
            server.terminate()
            server.wait()
    assert ran.returncode == 0, ran.stderr + (tmp_path / "log").read_text()
    lines = ran.stdout.strip().splitlines()
    assert lines[:2] == ["1.0 0.0", "1.0 1.0"]
    assert "without categories" in ran.stdout
    assert "Not enough budget" in ran.stdout
    assert lines[-1] == "1.0"
    samples = pd.read_csv(tmp_path / "samples.csv")
    assert list(samples.columns) == ["sex", "age", "wage"]
    assert 1500 < len(samples) < 2500
    assert samples["age"].between(0, 120).all()
    assert set(samples["sex"]) <= {"f", "m"}
    wages = pd.to_numeric(samples["wage"]).groupby(samples["sex"]).mean()
    assert wages["f"] - wages["m"] > 500
