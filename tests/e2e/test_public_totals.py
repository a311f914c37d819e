"""Public totals: kept exactly by the model and by its rows; refused before the spend where they are wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings as hypothesis_settings, strategies as st

import synthdp as sd
from synthdp.cli.main import main
from synthdp.distribution.components import Product
from synthdp.distribution.explicit import Explicit
from synthdp.errors import ParameterError
from synthdp.mechanisms.public_knowledge import raked_exactly

REGIONS = [f"r{i}" for i in range(12)]
SCHEMA = sd.Schema(
    {
        "region": sd.Categorical(REGIONS),
        "sex": sd.Categorical(["f", "m"]),
        "age": sd.Integer(0, 99),
        "flag": sd.Boolean(),
    }
)


def table(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    region = np.minimum(rng.geometric(0.25, rows) - 1, 11)
    return pd.DataFrame(
        {
            "region": np.array(REGIONS)[region],
            "sex": rng.choice(["f", "m"], rows),
            "age": np.clip(rng.normal(40 + 2 * region, 15), 0, 99).astype(int),
            "flag": rng.random(rows) < 0.3,
        }
    )


PRIVATE = table()
TOTALS: dict[Any, Any] = {
    ("region",): PRIVATE.region.value_counts(),
    ("sex", "region"): PRIVATE.groupby(["sex", "region"]).size(),
}


@pytest.mark.sampled
@pytest.mark.parametrize("keys", [[("region",)], [("sex", "region")], [*TOTALS]])
@pytest.mark.parametrize("epsilon", [0.05, 2.0])
def test_synthetic_rows_keep_the_totals(keys: list[Any], epsilon: float) -> None:
    asked = {key: TOTALS[key] for key in keys}
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=epsilon, public_totals=asked, random_state=0).fit(PRIVATE)
    synthetic = release.sample()
    assert len(synthetic) == len(PRIVATE)
    for names, totals in asked.items():
        gap = synthetic.groupby([*names]).size().sub(totals, fill_value=0)
        assert gap.abs().max() == 0
    assert all(any(" × ".join(names) in note for note in release.receipt_.notes) for names in asked)


def test_totals_of_a_rare_value_and_of_none_are_kept() -> None:
    totals = PRIVATE.region.value_counts() + 0
    totals["r0"], totals["r11"] = totals["r0"] + totals["r11"], 0
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=0.1, public_totals={"region": totals}, random_state=0)
    synthetic = release.fit(PRIVATE).sample()
    assert "r11" not in set(synthetic.region)


@pytest.mark.landing
@given(st.integers(0, 10_000))
@hypothesis_settings(max_examples=20)
def test_raking_reaches_every_total_that_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joint = rng.integers(1, 9, (3, 4, 2)) * (rng.random((3, 4, 2)) < 0.8) + np.eye(3, 4, dtype=np.int64)[..., None]
    totals = [((0, 1), joint.sum(2).ravel().astype(float)), ((2,), joint.sum((0, 1)).astype(float))]
    margins = tuple(np.ones(size) for size in joint.shape)
    model = raked_exactly(Product(shape=joint.shape, margins=margins), totals, zeros={}, rng=rng)
    for clique, counts in totals:
        np.testing.assert_allclose(model.marginal(clique), counts / counts.sum(), atol=1e-7)


def test_a_total_of_what_no_row_has_gets_rows() -> None:
    model = Explicit(shape=(2, 3), codes=np.array([[0, 0], [0, 1]]), weights=np.array([0.5, 0.5]))
    found = raked_exactly(model, [((0,), np.array([1.0, 3.0]))], zeros={}, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.marginal((0,)), [0.25, 0.75])


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        ([1, 2], "dict"),
        ({"place": {"x": 1}}, "'place'"),
        ({"age": {1: 3}}, "'age'"),
        ({"region": {"nowhere": 3}}, "'nowhere'.*'region'"),
        ({"region": {"r0": -1}}, "region"),
        ({"region": {"r0": 0}}, "region"),
        ({"region": 7}, "Series"),
        ({("region", "sex"): {"r0": 7}}, "region"),
        ({"region": {"r0": 10}, "sex": {"f": 4, "m": 5}}, "contradict"),
        ({("region", "sex"): {("r0", "f"): 10}, "sex": {"m": 10}}, "sex"),
        ({"region": {"r0": 1}, ("region",): {"r0": 1}}, "twice"),
    ],
)
def test_wrong_totals_are_refused_before_the_spend(totals: Any, words: str, tmp_path: Path) -> None:
    ledger = tmp_path / "l.sqlite"
    release = sd.SyntheticRelease(schema=SCHEMA, public_totals=totals, ledger=ledger, dataset="d")
    with pytest.raises(ParameterError, match=words):
        release.fit(PRIVATE)
    assert not ledger.exists() or not sd.Ledger(ledger).entries("d")


def test_the_command_takes_a_file_of_totals(tmp_path: Path) -> None:
    PRIVATE.to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.write(tmp_path / "s.json")
    PRIVATE.region.value_counts().to_csv(tmp_path / "regions.csv")
    asked = ["release", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.json"), "--out", str(tmp_path / "o.csv")]
    found = CliRunner().invoke(main, [*asked, "--public-totals", str(tmp_path / "regions.csv")])
    assert found.exit_code == 0, found.output
    assert len(pd.read_csv(tmp_path / "o.csv")) == len(PRIVATE)
    (tmp_path / "wrong.csv").write_text("region,rows\nr0,many\n")
    assert CliRunner().invoke(main, [*asked, "--public-totals", str(tmp_path / "wrong.csv")]).exit_code == 2
