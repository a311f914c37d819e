"""Attacks with a control group: right by brute force, stamped, loud about copiers and quiet about strangers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st
from sklearn.metrics import roc_auc_score

import synthdp as sd
from synthdp.cli.main import main
from synthdp.data import adult, adult_schema
from synthdp.errors import DataError, ParameterError
from synthdp.nonprivate import attacks
from synthdp.nonprivate.attacks import joint_tables
from synthdp.nonprivate.risk import NO_EVIDENCE, STAMP, THRESHOLDS, NonprivateRisk

KEYS, TARGET = ["age", "city", "job"], "ill"
ROWS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=12)


def people(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    return pd.DataFrame({
        "age": age,
        "city": rng.choice(list("abcdefgh"), rows),
        "job": rng.choice(list("uvwxyz"), rows),
        "pay": np.round(rng.lognormal(10, 1, rows)),
        "ill": rng.random(rows) < age / 120,
    })  # fmt: skip


def attacked(train: pd.DataFrame, synthetic: pd.DataFrame, holdout: pd.DataFrame, **more: object) -> NonprivateRisk:
    return sd.nonprivate_risk(train, synthetic, holdout, **{"keys": KEYS, "target": TARGET, **more})


@given(a=ROWS, b=ROWS)
def test_replicated_uniques_and_disclosive_keys_are_those_of_their_definitions(a, b) -> None:
    frames = [pd.DataFrame(rows, columns=["x", "y", "t"]) for rows in (a, b, a)]
    tables = joint_tables(frames, None)
    keys = [(x, y) for x, y, _ in a], [(x, y) for x, y, _ in b]
    unique = [keys[0].count(key) == 1 and keys[1].count(key) == 1 for key in keys[0]]
    assert attacks.replicated_uniques(tables.train, tables.synthetic, [0, 1]).tolist() == unique
    told = [{t for x, y, t in b if (x, y) == key} for key in keys[0]]
    right = [told[i] == {a[i][2]} for i in range(len(a))]
    assert attacks.disclosive(tables.train, tables.synthetic, [0, 1], 2).tolist() == right
    assert attacks.copied(tables.train, tables.synthetic).tolist() == [row in b for row in a]


@given(st.lists(st.integers(0, 4), min_size=2, max_size=9), st.lists(st.integers(0, 4), min_size=2, max_size=9))
def test_the_area_is_that_of_all_pairs_and_its_error_that_of_their_means(a, b) -> None:
    area, error = attacks.auc_with_error(np.array(a, float), np.array(b, float))
    wins = np.array([[(x > y) + (x == y) / 2 for y in b] for x in a])
    assert area == pytest.approx(roc_auc_score([1] * len(a) + [0] * len(b), a + b))
    by_hand = np.var(wins.mean(axis=1), ddof=1) / len(a) + np.var(wins.mean(axis=0), ddof=1) / len(b)
    assert error == pytest.approx(np.sqrt(by_hand))


def test_the_nearest_rows_are_the_nearest() -> None:
    frames = [people(rows, seed) for rows, seed in ((70, 0), (300, 1), (50, 2))]
    tables = joint_tables(frames, None)
    found, least = attacks._distances(tables.train, tables, [0, 1, 3], 4)
    scale = [np.ptp(frames[1][name]) for name in ("age", "pay")]
    for i, row in frames[0].iterrows():
        gaps = (
            np.minimum(1, np.abs(frames[1]["age"] - row["age"]) / scale[0])
            + (frames[1]["city"] != row["city"])
            + np.minimum(1, np.abs(frames[1]["pay"] - row["pay"]) / scale[1])
        ).to_numpy()
        assert least[i] == pytest.approx(gaps.min() / 3, abs=1e-5)
        assert np.sort(gaps[found[i]]) == pytest.approx(np.sort(gaps)[:4], abs=1e-4)


def test_a_value_is_the_same_however_a_table_writes_it() -> None:
    plain = pd.DataFrame({"n": [1.0, 2.0, None], "s": ["x", None, "y"]})
    texts = pd.DataFrame({"n": ["1", "2.0", None], "s": ["x", None, "y"]}, dtype=object)
    tables = joint_tables((plain, texts, plain), None)
    assert tables.numeric == (True, False)
    assert (tables.train.exact == tables.synthetic.exact).all()


@pytest.mark.landing
@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(20), marks=pytest.mark.slow)], ids=["once", "20 times"])
def test_a_planted_copier_is_caught_every_time(seeds: range) -> None:
    caught = 0
    for seed in seeds:
        train, holdout, fresh = (people(800, 3 * seed + k) for k in range(3))
        synthetic = pd.concat([fresh[80:], train[:80]])  # one row in ten is a person's
        caught += not attacked(train, synthetic, holdout).passed
    assert caught == len(seeds)


@pytest.mark.landing
def test_a_bootstrap_fails_by_every_kind_of_attack_and_a_fresh_sample_by_none() -> None:
    train, holdout, fresh = (people(1500, seed) for seed in range(3))
    broken = {m.name for m in attacked(train, train.sample(frac=1, replace=True, random_state=0), holdout).broken}
    assert broken >= {"copies", "replicated_uniques", "disclosive", "singling_out", "linkage", "membership"}
    assert attacked(train, fresh, holdout).passed


@pytest.mark.landing
def test_what_everybody_may_learn_is_no_risk() -> None:
    train, holdout, fresh = (people(1000, seed).assign(ill=lambda t: t["age"] > 50) for seed in range(3))
    found = attacked(train, fresh, holdout)
    rapid = next(m for m in found.measures if m.name == "rapid")
    assert min(rapid.members, rapid.control) > 0.9
    assert found.passed


def test_the_result_is_stamped_and_what_may_be_published_holds_no_figure(tmp_path) -> None:
    train, holdout = people(200, 0), people(200, 1)
    found = attacked(train, train, holdout, thresholds={"linkage": 0.07})
    found.write(tmp_path / "risk.html")
    for text in (
        str(found),
        found._repr_html_(),
        json.dumps(found.to_document()),
        (tmp_path / "risk.html").read_text(),
    ):
        assert STAMP in text
        assert "prove nothing" in text
    assert "prove nothing" in NO_EVIDENCE
    said = found.publishable()
    assert said["passed"] is False
    assert {one["measure"]: one["most"] for one in said["thresholds"]} == {**THRESHOLDS, "linkage": 0.07}
    assert all(set(one) == {"measure", "target", "most", "passed"} for one in said["thresholds"])


@pytest.mark.landing
def test_a_threshold_decides_and_chance_does_not() -> None:
    train, holdout, fresh = (people(150, seed) for seed in range(3))
    assert attacked(train, fresh, holdout, thresholds=dict.fromkeys(THRESHOLDS, 0.0)).passed
    assert attacked(train, train, holdout, thresholds=dict.fromkeys(THRESHOLDS, 1.0)).passed
    assert not attacked(train, train, holdout).passed


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("keys", {"keys": []}),
        ("keys", {"keys": ["shoe"]}),
        ("target", {"target": "shoe"}),
        ("target", {"target": "age"}),
        ("thresholds", {"thresholds": {"luck": 0.1}}),
        ("membership", {"thresholds": {"membership": 2.0}}),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(name: str, more: dict[str, object]) -> None:
    table = people(100, 0)
    with pytest.raises(ParameterError, match=name):
        attacked(table, table, table, **more)


def test_a_control_group_that_is_none_is_refused() -> None:
    table = people(100, 0)
    with pytest.raises(DataError, match="holdout"):
        attacked(table, table, table[:5])
    with pytest.raises(DataError, match="synthetic"):
        attacked(table, table[:0], table)


def test_a_schema_brings_values_to_what_they_may_hold() -> None:
    schema = sd.Schema({"age": sd.Integer(0, 99), "ill": sd.Boolean(), "id": sd.Identifier()})
    table = people(200, 0).assign(id=range(200))
    found = sd.nonprivate_risk(
        table, table, people(200, 1).assign(id=range(200)), keys=["age"], target="ill", schema=schema
    )
    assert found.keys == ("age",)


def test_the_command_ends_with_one_where_a_threshold_is_broken(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, seed in (("in", 0), ("out", 1), ("fresh", 2)):
        people(300, seed).to_csv(f"{name}.csv", index=False)
    command = ["risk", "in.csv", "in.csv", "--holdout", "out.csv", "--keys", "age,city", "--target", "ill"]
    failed = CliRunner().invoke(main, [*command, "--json", "--out", "risk.html", "--publishable", "said.json"])
    assert failed.exit_code == 1
    document = json.loads(failed.stdout)
    assert (document["passed"], document["warning"]) == (False, STAMP)
    assert json.loads((tmp_path / "said.json").read_text()) == document["publishable"]
    assert STAMP in (tmp_path / "risk.html").read_text()
    command[2] = "fresh.csv"
    assert CliRunner().invoke(main, command).exit_code == 0
    refused = CliRunner().invoke(main, [*command, "--threshold", "membership"])
    assert (refused.exit_code, "--threshold" in refused.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:epsilon")
def test_of_adult_epsilon_50_fails_and_epsilon_1_passes() -> None:
    table = adult()
    order = np.random.default_rng(0).permutation(len(table))
    train, holdout = table.iloc[order[: len(table) // 2]], table.iloc[order[len(table) // 2 :]]
    for epsilon, passes in ((1.0, True), (50.0, False)):
        synthetic = sd.SyntheticRelease(schema=adult_schema(), epsilon=epsilon).fit_transform(train)
        found = sd.nonprivate_risk(train, synthetic, holdout, keys=["age", "sex", "education"], target="occupation")
        assert found.passed is passes, str(found)
