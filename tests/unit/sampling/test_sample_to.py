"""Drawing rows into a file: the rows of the model, in blocks, whole or not at all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rule_models import model_of

import synthdp as sd
from synthdp.errors import FormatError, ParameterError, SalvageWarning
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import Boolean, Categorical, Datetime, Identifier, Integer
from synthdp.schema.constraints import Forbidden
from synthdp.schema.schema import Schema

SCHEMA = Schema(
    {
        "id": Identifier("row-"),
        "age": Integer(0, 90, nullable=True),
        "job": Categorical(["cook", "pilot"], nullable=True),
        "rich": Boolean(),
        "seen": Datetime("2020-01-01", "2021-01-01", resolution="D"),
    },
    constraints=[Forbidden({"job": "pilot", "rich": False})],
)
READERS = {
    "t.parquet": pd.read_parquet,
    "t.arrow": pd.read_feather,
    "t.csv": lambda path: pd.read_csv(path, parse_dates=["seen"]),
    "t.csv.gz": lambda path: pd.read_csv(path, parse_dates=["seen"]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("block_rows", [7, 1000])
def test_a_file_holds_the_rows_of_the_model(name, block_rows, tmp_path):
    model_of(SCHEMA).sample_to(tmp_path / name, rows=100, random_state=3, block_rows=block_rows)
    table = READERS[name](tmp_path / name)
    assert list(table.columns) == list(SCHEMA)
    assert table["id"].tolist() == [f"row-{i}" for i in range(1, 101)]
    assert set(table["job"].dropna()) <= {"cook", "pilot"}
    assert table.loc[table["job"] == "pilot", "rich"].all()
    assert table["age"].dropna().between(0, 90).all()
    assert pd.to_datetime(table["seen"]).between("2020-01-01", "2021-01-01").all()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.landing
def test_counts_over_blocks_have_the_law_of_the_model(tmp_path):
    model = model_of(SCHEMA)
    model.sample_to(tmp_path / "t.parquet", rows=20_000, random_state=3, block_rows=1000)
    found = pd.read_parquet(tmp_path / "t.parquet")["rich"].mean()
    expected = model.distribution.marginal((SCHEMA.names.index("rich"),))
    assert abs(found - expected[1]) < 6 * np.sqrt(expected[1] * expected[0] / 20_000)


def test_a_seed_repeats_the_file(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        model_of(SCHEMA).sample_to(tmp_path / name, rows=50, random_state=1, block_rows=20)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_given_values_hold_in_every_block(tmp_path):
    model_of(SCHEMA).sample_to(tmp_path / "t.parquet", rows=60, random_state=1, block_rows=20, given={"age": (3, 5)})
    assert pd.read_parquet(tmp_path / "t.parquet")["age"].between(3, 5).all()


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_failure_half_way_leaves_nothing_behind_and_keeps_the_old_file(name, tmp_path, monkeypatch):
    (tmp_path / name).write_text("old")
    model = model_of(SCHEMA)
    drawn = iter([model.sample_indices(10, np.random.default_rng(0))])

    def one_block_only(self, rows, rng, *, given=None):
        return next(drawn, None) or _disk_full()

    monkeypatch.setattr(type(model), "sample_indices", one_block_only)
    with pytest.raises(FormatError, match=name):
        model.sample_to(tmp_path / name, rows=30, random_state=0, block_rows=10)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def _disk_full():
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rows": 0}, r"\brows\b"), ({"rows": 5, "block_rows": 0}, "block_rows")],
)
def test_settings_out_of_range_are_refused(options, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        model_of(SCHEMA).sample_to(tmp_path / "t.parquet", **options)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"t\.xlsx"):
        model_of(SCHEMA).sample_to(tmp_path / "t.xlsx", rows=5)


def test_more_rows_than_memory_holds_are_refused_in_a_sentence():
    with pytest.raises(ParameterError, match=r"rows.*GiB"):
        model_of(SCHEMA).sample(10**13)


def test_memory_that_runs_out_while_rows_are_drawn_is_a_sentence(monkeypatch):
    def full(*_, **__):
        raise MemoryError

    table = pd.DataFrame({"n": [0, 1] * 50})
    release = sd.SyntheticRelease(schema=sd.Schema({"n": sd.Integer(0, 1)}), epsilon=1.0).fit(table)
    monkeypatch.setattr(SyntheticModel, "sample", full)
    with (
        pytest.warns(SalvageWarning),
        pytest.raises(ParameterError, match="memory"),
    ):
        release.sample(100)
