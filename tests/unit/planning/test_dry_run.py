"""Plans: from the schema alone, better with more budget, honest when nothing can be learned."""

import json

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import DiscoveryError, ParameterError
from synthdp.planning.dry_run import MOST_ROWS, noise_of_counts, simulated_table
from synthdp.planning.plan import curve
from synthdp.randomness import generator

SCHEMA = sd.Schema({
    "age": sd.Integer(0, 99, nullable=True),
    "city": sd.Categorical(["a", "b", "c", "d"]),
    "sex": sd.Boolean(),
    "rate": sd.Continuous(0, 1),
    "seen": sd.Datetime("2020-01-01", "2021-01-01"),
    "id": sd.Identifier(),
})  # fmt: skip


@pytest.mark.landing
def test_more_budget_promises_less_error() -> None:
    low, high = sd.plan(SCHEMA, rows=3000, epsilon=[0.1, 10])
    for order in (1, 2, 3):
        assert high.errors[order] < low.errors[order]
    assert high.like_rows > low.like_rows
    assert low.errors[1] < low.errors[2] < low.errors[3]
    assert set(high.by_column) == set(SCHEMA)
    assert sum(high.stages.values()) == pytest.approx(high.seconds, rel=1e-6)


@pytest.mark.landing
def test_where_nothing_can_be_learned_the_plan_says_so() -> None:
    hopeless = sd.plan(SCHEMA, rows=300, epsilon=0.05)
    assert any("nothing beyond one-way marginals can be learned" in line for line in hopeless.advice)
    assert "nothing beyond" in str(hopeless)
    rich = sd.plan(SCHEMA, rows=20_000, epsilon=5)
    assert not any("nothing beyond" in line for line in rich.advice)


@pytest.mark.slow
def test_a_large_table_is_run_on_fewer_rows_with_its_signal() -> None:
    small, large = (sd.plan(SCHEMA, rows=rows, epsilon=0.3) for rows in (MOST_ROWS, 10 * MOST_ROWS))
    assert large.rows == 10 * MOST_ROWS
    assert large.errors[2] < small.errors[2]
    assert large.memory_mb > small.memory_mb


def test_a_plan_is_a_document() -> None:
    planned = sd.SyntheticRelease(schema=SCHEMA, epsilon=2.0, n_rows=900).plan()
    assert planned.rows == 900
    document = json.loads(json.dumps(planned.to_document()))
    assert document["epsilon"] == 2.0
    assert document["mechanism"]
    assert document["noise"]["1"] == planned.noise[1] > 0
    assert planned.mechanism in str(planned)


@pytest.mark.slow
def test_a_named_mechanism_has_a_dry_run() -> None:
    planned = sd.SyntheticRelease(schema=SCHEMA, mechanism="l1_fit").plan(rows=400)
    assert planned.mechanism == "L1 fit"
    assert planned.why == "as you asked"


@pytest.mark.landing
def test_protecting_all_rows_of_a_person_promises_more_error() -> None:
    one, ten = (
        sd.SyntheticRelease(schema=SCHEMA, privacy_unit="person", max_rows_per_unit=most).plan(rows=4000)
        for most in (1, 10)
    )
    assert ten.errors[1] > 2 * one.errors[1]


@pytest.mark.landing
def test_fewer_bins_measure_fewer_numbers() -> None:
    table = pd.DataFrame({"x": np.arange(500) % 100, "y": np.arange(500) % 2 == 0})
    schema = sd.Schema({"x": sd.Integer(0, 99), "y": sd.Boolean()})
    for mechanism in ("auto", "adaptive_marginals"):
        for bins in (4, 32):
            fitted = sd.SyntheticRelease(schema=schema, bins=bins, mechanism=mechanism).fit(table)
            asked = {item.step: item.answers for item in fitted.receipt_.items}
            assert asked["one-way marginals"] == bins + 4  # x missing; y false, true, missing
    with pytest.raises(ParameterError, match="bins"):
        sd.SyntheticRelease(schema=schema, bins=1).fit(table)


def test_a_plan_after_a_fit_is_for_as_many_rows_as_the_fit_found() -> None:
    schema = sd.Schema({"x": sd.Integer(0, 9)})
    fitted = sd.SyntheticRelease(schema=schema, epsilon=5.0).fit(pd.DataFrame({"x": np.arange(700) % 10}))
    assert fitted.plan().rows == round(fitted.release_.output.total)
    assert fitted.plan(rows=50).rows == 50


def test_a_curve_has_a_line_for_each_loss() -> None:
    text = curve(sd.plan(SCHEMA, rows=500, epsilon=[0.1, 1.0]))
    assert [line.split()[0] for line in text.splitlines()[2:4]] == ["0.1", "1"]
    assert "at ε = 0.1 and 500 rows nothing beyond one-way marginals can be learned" in " ".join(text.split())


def test_made_up_rows_come_from_the_schema_and_the_seed_alone() -> None:
    first, second = (simulated_table(SCHEMA, 50, generator(3)) for _ in range(2))
    assert all((first[name] == second[name]).all() for name in SCHEMA)


def test_a_plan_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ParameterError, match="rows"):
        sd.plan(SCHEMA, rows=0)
    with pytest.raises(ParameterError, match="schema"):
        sd.SyntheticRelease().plan()


@pytest.mark.landing
def test_open_columns_are_rehearsed_and_their_price_is_said_before_any_spend() -> None:
    levels = {f"c{i}": sd.Categorical(tuple(range(30))) for i in range(4)}
    declared = sd.plan(sd.Schema(levels), rows=6000, epsilon=1.0)
    left_open = sd.plan(sd.Schema(dict.fromkeys(levels, sd.Categorical(other="other"))), rows=6000, epsilon=1.0)
    assert declared.like_epsilon is None
    assert left_open.like_epsilon < 1
    assert left_open.errors[1] > declared.errors[1]
    assert "to leave these 4 columns open costs" in left_open.advice[0]
    assert left_open.advice[0] in " ".join(str(left_open).split())
    assert json.loads(json.dumps(left_open.to_document()))["like_epsilon"] == left_open.like_epsilon


@pytest.mark.parametrize("settings", [{}, {"delta": 0.0}, {"neighbors": "replace_one"}], ids=str)
def test_a_plan_says_what_a_refusal_would_cost_and_the_ledger_has_just_that(tmp_path, settings) -> None:
    ledger = sd.Ledger(tmp_path / "l.sqlite")
    schema = sd.Schema({"n": sd.Integer()})
    release = sd.SyntheticRelease(
        schema=schema, epsilon=0.3, undiscovered="refuse", ledger=ledger, dataset="d", **settings
    )
    planned = release.plan(rows=20)
    with pytest.raises(DiscoveryError):
        release.fit(pd.DataFrame({"n": range(20)}))
    (entry,) = ledger.entries("d")
    early, late = planned.refused_for
    spent = 0.0 if entry.state == "returned" else entry.loss.epsilon
    assert spent == pytest.approx(early)
    assert early < late < 0.3
    assert f"{early:.3g}" in planned.advice[1]
    assert sd.plan(sd.Schema({"n": sd.Integer(0, 19)}), rows=20).refused_for is None


@pytest.mark.slow
def test_open_columns_of_numbers_and_moments_are_rehearsed_too() -> None:
    opened = sd.Schema({
        "age": sd.Integer(), "rate": sd.Continuous(), "seen": sd.Datetime(), "sex": sd.Boolean(),
    })  # fmt: skip
    found = sd.plan(opened, rows=20_000, epsilon=3.0)
    assert set(found.by_column) == set(opened)
    assert found.like_epsilon is not None


@pytest.mark.landing
def test_a_plan_names_the_open_columns_of_which_nothing_will_be_found() -> None:
    found = sd.plan(sd.Schema({"c": sd.Categorical(), "n": sd.Continuous()}), rows=100, epsilon=0.1)
    assert any(said.endswith("n, c") for said in found.assumed)
    assert str(found.assumed[-1]) in str(found)
    clear = sd.plan(sd.Schema({"c": sd.Categorical(), "n": sd.Continuous()}), rows=10_000, epsilon=3.0)
    assert len(clear.assumed) == len(found.assumed) - 1


@pytest.mark.slow
def test_a_plan_says_what_the_best_unbiased_answers_would_leave_where_that_is_known():
    """Sixteen binary columns of 21 574 rows, as NLTCS has: .0051 at epsilon 1, and the plan expects no more."""
    bits = sd.Schema({f"b{j}": sd.Boolean() for j in range(16)})
    found = sd.plan(bits, rows=21_574, epsilon=1.0)
    assert found.best_unbiased == pytest.approx(0.0051, abs=1e-4)
    assert found.errors[3] < 1.1 * found.best_unbiased
    assert "0.51 of 100 rows" in str(found)


def test_a_plan_without_gaussian_noise_or_with_too_many_cells_knows_no_best_way():
    bits = sd.Schema({f"b{j}": sd.Boolean() for j in range(3)})
    assert sd.plan(bits, rows=500, epsilon=1.0, delta=0.0).best_unbiased is None
    assert (
        sd.plan(sd.Schema({f"x{j}": sd.Integer(0, 999) for j in range(4)}), rows=500, epsilon=1.0).best_unbiased is None
    )


@pytest.mark.slow
def test_the_noise_of_single_columns_is_foretold_and_that_of_a_large_table_scaled() -> None:
    rows = 45_000
    planned = sd.plan(SCHEMA, rows=rows, epsilon=0.5)
    rng = np.random.default_rng(3)
    table = pd.DataFrame({
        "age": rng.integers(0, 99, rows), "city": rng.choice(list("abcd"), rows), "sex": rng.random(rows) < 0.5,
        "rate": rng.random(rows), "seen": pd.Timestamp("2020-05-01"), "id": np.arange(rows).astype(str),
    })  # fmt: skip
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=0.5, delta=1e-9).fit(table).release_
    first = next(one.stddev for one in release.measurements if isinstance(one.queries, sd.Marginals))
    assert planned.noise[1] == pytest.approx(first, rel=0.1)
    assert (
        noise_of_counts(release.measurements)[1] < first
    )  # no relation is there, so what is left goes to columns again


@pytest.mark.landing
def test_a_wide_range_of_real_numbers_is_advised_to_say_its_decimals() -> None:
    wide = sd.Schema({"a": sd.Continuous(0, 1e7), "b": sd.Integer(0, 9)})
    known = sd.Schema({"a": sd.Continuous(0, 1e7, decimals=2), "b": sd.Integer(0, 9)})
    said = [" ".join(sd.plan(schema, rows=500, epsilon=1.0).advice) for schema in (wide, known)]
    assert "column 'a' is usually empty: declare decimals=" in said[0]
    assert "usually empty" not in said[1]


@pytest.mark.landing
def test_a_plan_says_which_relations_would_be_seen() -> None:
    schema = sd.Schema({name: sd.Categorical(list("abcdef")) for name in "abcdefgh"})
    low, high = sd.plan(schema, rows=4000, epsilon=[0.3, 3])
    assert list(high.power) == sorted(high.power)
    assert list(high.power.values()) == sorted(high.power.values())
    assert all(low.power[strength] <= high.power[strength] for strength in high.power)
    assert high.power[0.4] > 0.9
    assert low.power[0.05] < 0.2
    assert "of 100 relations with" in str(high)
    assert json.loads(json.dumps(high.to_document()))["power"]["0.4"] == high.power[0.4]
    assert not sd.plan(schema, rows=300, epsilon=0.05).power  # scores would be noise alone
