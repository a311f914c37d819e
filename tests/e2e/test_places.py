"""Places within places: rows whose counts add up at every step, what the receipt says, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import ParameterError

TOWNS = [f"t{i}" for i in range(12)]
STATES = ["A"] * 5 + ["B"] * 4 + ["C"] * 3
SCHEMA = sd.Schema(
    {
        "town": sd.Categorical(TOWNS, groups=[STATES]),
        "year": sd.Categorical([1, 2, 3]),
        "kind": sd.Categorical(list("vwxyz")),
        "age": sd.Integer(0, 9),
    }
)


def table(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    town = np.minimum(rng.geometric(0.2, rows) - 1, 11)
    kind = (town + np.minimum(rng.geometric(0.5, rows) - 1, 4)) % 5
    age = np.clip(rng.normal(2 + kind, 2, rows), 0, 9).astype(int)
    return pd.DataFrame(
        {
            "town": np.array(TOWNS)[town],
            "year": rng.integers(1, 4, rows),
            "kind": np.array(list("vwxyz"))[kind],
            "age": age,
        }
    )


PRIVATE = table()


def made(**settings: Any) -> sd.SyntheticRelease:
    return sd.SyntheticRelease(
        **{"schema": SCHEMA, "epsilon": 1.0, "places": "town", "random_state": 0, **settings}
    ).fit(PRIVATE)


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    return made(workload=[("town", "year", "kind"), ("town", "year", "age")])


def test_rows_have_the_same_counts_whatever_the_seed_at_every_step(release: sd.SyntheticRelease) -> None:
    one, other = (release.sample(random_state=seed) for seed in (1, 2))
    state = dict(zip(TOWNS, STATES, strict=True))
    assert not one.equals(other)
    for columns in (["town"], ["town", "year"], ["town", "kind"], ["town", "year", "kind"]):
        pd.testing.assert_series_equal(one.value_counts(columns).sort_index(), other.value_counts(columns).sort_index())
    towns, states = (one.assign(state=one.town.map(state)).value_counts([name, "kind"]) for name in ("town", "state"))
    added = towns.groupby([towns.index.get_level_values(0).map(state), towns.index.get_level_values(1)]).sum()
    np.testing.assert_array_equal(added.sort_index().to_numpy(), states.sort_index().to_numpy())


def test_the_receipt_says_what_each_step_cost_and_the_promise_is_the_same(release: sd.SyntheticRelease) -> None:
    steps = [item.step for item in release.receipt_.items if item.step.startswith("places, step")]
    assert {step.partition(":")[0] for step in steps} == {"places, step 1", "places, step 2"}
    assert release.release_.loss == made(places=None).release_.loss


def test_a_saved_release_draws_the_same_rows(release: sd.SyntheticRelease, tmp_path: Path) -> None:
    release.save(tmp_path / "r")
    again = sd.load(tmp_path / "r")
    pd.testing.assert_frame_equal(again.sample(random_state=3), release.sample(random_state=3))
    answer = release.answer(sd.marginal("town", "kind"))
    assert (answer["upper"] >= answer["lower"]).all()


def test_fewer_rows_and_given_values_do(release: sd.SyntheticRelease) -> None:
    assert len(release.sample(100)) == 100
    assert set(release.sample(50, given={"town": "t1"}).town) == {"t1"}


def test_public_totals_of_places_are_invariants() -> None:
    totals = {("town",): PRIVATE.town.value_counts(), ("town", "kind"): PRIVATE.groupby(["town", "kind"]).size()}
    synthetic = made(public_totals=totals, epsilon=0.2).sample()
    for names, counts in totals.items():
        found = synthetic.groupby([*names]).size()
        assert found.sub(counts, fill_value=0).abs().max() == 0


@pytest.mark.landing
def test_rules_are_kept() -> None:
    rule = sd.Forbidden({"town": "t0", "kind": "v"})
    synthetic = made(schema=sd.Schema(dict(SCHEMA.items()), constraints=[rule])).sample()
    assert not ((synthetic.town == "t0") & (synthetic.kind == "v")).any()
    assert len(synthetic) > 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"places": "city"}, "'city'"),
        ({"places": "age"}, "'age'"),
        ({"mechanism": "mwem"}, "places.*mwem"),
    ],
)
def test_what_can_be_no_places_is_refused_before_the_spend(
    settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "l.sqlite"
    with pytest.raises(ParameterError, match=words):
        made(ledger=ledger, dataset="d", **settings)
    assert not ledger.exists() or not sd.Ledger(ledger).entries("d")


def test_a_plan_says_what_a_workload_costs_the_other_pairs() -> None:
    asked = sd.SyntheticRelease(schema=SCHEMA, workload=[("town", "kind")])
    found = asked.plan(rows=2000)
    (line,) = [one for one in found.advice if "leaves out 5 pairs" in one]
    assert "year × age" in line
    assert 0 < found.other_pairs < 1
    assert sd.SyntheticRelease(schema=SCHEMA).plan(rows=2000).other_pairs is None
