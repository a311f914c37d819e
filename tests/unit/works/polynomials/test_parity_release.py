"""Parities and monomials released: exact without noise, honest about bias, bracketed, the same cost on any data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded, replayed, without_noise

from synthdp import (
    ZCDP,
    ApproxDP,
    Boolean,
    Categorical,
    Continuous,
    Curator,
    GaussianDP,
    Integer,
    Ledger,
    PureDP,
    Schema,
)
from synthdp.errors import BudgetExceededError, ParameterError
from synthdp.works.polynomials import parity_summary
from synthdp.works.polynomials.literal_queries import conjunction, disjunction, exactly_r, r_of_k, symmetric
from synthdp.works.polynomials.monomial_release import MonomialRelease
from synthdp.works.polynomials.parities import Parities
from synthdp.works.polynomials.parity_release import ParityRelease

NAMES = ("a", "b", "c", "d", "e", "f")
SCHEMA = Schema({name: Boolean() for name in NAMES})
LOSSES = [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), GaussianDP(0.3)]
BOTH = ["add_remove", "replace_one"]
LITERALS = {"a": 1, "c": 0, "d": 1, "f": 0, "b": 1}
QUERIES = [
    conjunction(LITERALS),
    disjunction(LITERALS),
    r_of_k(LITERALS, r=3),
    exactly_r(LITERALS, r=2),
    symmetric(LITERALS, lambda true: (-1.0) ** true),
    symmetric(LITERALS, [3.0, -1.0, 0.5, 0.0, 2.0, 1.0]),
]


def table(rows: int = 700, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows)
    return pd.DataFrame({name: rng.random(rows) < 0.2 + 0.6 * hidden for name in NAMES})


def truth(frame: pd.DataFrame, query) -> float:
    true = sum((frame[name].astype(int) == value).astype(int) for name, value in query.literals)
    return float(np.array(query.values)[true].mean())


def curator(frame: pd.DataFrame, loss=LOSSES[1], neighbors="add_remove", **more) -> Curator:
    return Curator(frame, schema=SCHEMA, budget=loss, neighbors=neighbors, **more)


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("weights", ["optimal", "uniform"])
def test_without_noise_all_queries_within_the_order_are_exact(loss, neighbors, weights, monkeypatch):
    without_noise(monkeypatch)
    frame = table(10**5)  # so that the announced noise hardly matters and exact polynomials are chosen
    release = ParityRelease(5, weights).release(curator(frame, loss, neighbors))
    for query in QUERIES:
        answer = release.output.answer(query)
        assert abs(float(answer) - truth(frame, query)) <= answer.truncation_bound + 1e-9
    exact = [release.output.answer(query) for query in QUERIES if release.output.answer(query).truncation_bound == 0]
    assert exact
    assert release.output.rows == pytest.approx(len(frame))


@pytest.mark.sampled
@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("mechanism", [ParityRelease, MonomialRelease])
def test_without_noise_the_error_is_within_the_stated_bias(order, mechanism, monkeypatch):
    without_noise(monkeypatch)
    frame = table()
    release = mechanism(order).release(curator(frame))
    for query in QUERIES:
        answer = release.output.answer(query)
        assert abs(float(answer) - truth(frame, query)) <= answer.truncation_bound + 1e-9


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", BOTH)
def test_without_noise_monomials_of_full_order_are_exact(neighbors, monkeypatch):
    without_noise(monkeypatch)
    frame = table()
    release = MonomialRelease(5).release(curator(frame, neighbors=neighbors))
    for query in QUERIES:
        answer = release.output.answer(query)
        assert float(answer) == pytest.approx(truth(frame, query), abs=1e-12)
        assert answer.truncation_bound == 0


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_without_noise_the_bracket_contains_the_truth(order, neighbors, monkeypatch):
    without_noise(monkeypatch)
    frame = table()
    release = ParityRelease(order).release(curator(frame, neighbors=neighbors))
    for query in QUERIES:
        bracket = release.output.answer(query, evaluator="interval", confidence=0.5)
        assert bracket.lower - 1e-6 <= truth(frame, query) <= bracket.upper + 1e-6


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("neighbors", BOTH)
def test_with_noise_the_bracket_contains_the_truth_and_shrinks_with_the_rows(loss, neighbors):
    widths = []
    for rows in (500, 50_000):
        frame = table(rows)
        release = ParityRelease(5).release(curator(frame, loss, neighbors))
        brackets = [release.output.answer(query, evaluator="interval", confidence=1 - 1e-9) for query in QUERIES]
        truths = [truth(frame, query) for query in QUERIES]
        assert all(
            bracket.lower - 1e-6 <= t <= bracket.upper + 1e-6 for bracket, t in zip(brackets, truths, strict=True)
        )
        widths.append(sum(bracket.upper - bracket.lower for bracket in brackets))
    assert widths[1] < widths[0]


@pytest.mark.landing
def test_without_noise_maximum_entropy_of_all_parities_is_the_truth(monkeypatch):
    without_noise(monkeypatch)
    frame = table(10**5)
    release = ParityRelease(5).release(curator(frame))
    for query in QUERIES:
        answer = release.output.answer(query, evaluator="max_entropy")
        assert float(answer) == pytest.approx(truth(frame, query), abs=1e-3)


def test_maximum_entropy_of_few_parities_stays_in_its_own_bracket():
    frame = table(5000)
    release = ParityRelease(2).release(curator(frame))
    for query in QUERIES:
        answer = release.output.answer(query, evaluator="max_entropy")
        assert abs(float(answer) - truth(frame, query)) < answer.truncation + 6 * answer.stderr
        assert answer.stderr > 0


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", [ParityRelease(3), ParityRelease(2, "uniform"), MonomialRelease(2)])
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_cost_is_what_the_ledger_lost_and_the_trace_is_the_same_on_neighbours(
    mechanism, neighbors, loss, monkeypatch, tmp_path
):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    spend = loss.fraction(0.5)
    frame = table(60)
    first = recorded(monkeypatch)
    watched = curator(frame, loss, neighbors, ledger=ledger, dataset="t")
    release = type(mechanism)(**{**settings_of(mechanism), "spend": spend}).release(watched)
    assert release.loss == spend
    assert watched.remaining is not None
    again = {"add_remove": frame.iloc[1:], "replace_one": frame.iloc[[3, *range(1, 60)]]}[neighbors]
    second = replayed(monkeypatch, first)
    other = type(mechanism)(**{**settings_of(mechanism), "spend": spend}).release(curator(again, loss, neighbors))
    assert first.draws == second.draws
    query = conjunction({"a": 1, "b": 0})
    assert float(other.output.answer(query)) == float(release.output.answer(query))


def settings_of(mechanism) -> dict[str, object]:
    return {name: getattr(mechanism, name) for name in mechanism.__dataclass_fields__}


def test_more_than_the_budget_is_refused():
    with pytest.raises(BudgetExceededError):
        ParityRelease(2, spend=PureDP(2.0)).release(curator(table(), PureDP(1.0)))


@pytest.mark.landing
def test_optimal_weights_beat_uniform_ones_for_what_they_are_planned_for():
    frame = table(2000)
    query = conjunction(dict.fromkeys(NAMES[:4], 1))
    for neighbors in BOTH:
        for loss in LOSSES[1:]:
            errors = [
                ParityRelease(4, weights).release(curator(frame, loss, neighbors)).output.answer(query).stderr
                for weights in ("optimal", "uniform")
            ]
            assert errors[0] < errors[1]


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", BOTH)
def test_pure_weights_are_never_worse_than_uniform_ones(neighbors):
    frame, query = table(2000), conjunction({"b": 1, "c": 1, "d": 1})
    for order in (1, 2, 3):
        errors = [
            ParityRelease(order, weights, width=3)
            .release(curator(frame, PureDP(1.0), neighbors))
            .output.answer(query)
            .stderr
            for weights in ("optimal", "uniform")
        ]
        assert errors[0] <= errors[1] * 1.1  # one is planned before, the other answered after the noise


def test_mixed_columns_are_released_by_their_bits(monkeypatch):
    without_noise(monkeypatch)
    schema = Schema(
        {"c": Categorical(["x", "y", "z"]), "i": Integer(0, 1), "age": Continuous(0, 100), "s": Boolean(nullable=True)}
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "c": rng.choice(["x", "y", "z"], 500),
            "i": rng.integers(0, 2, 500),
            "age": rng.uniform(0, 100, 500),
            "s": pd.array(rng.choice(np.array([True, False, None], object), 500), dtype="boolean"),
        }
    )
    curated = Curator(frame, schema=schema, budget=PureDP(1000.0), neighbors="replace_one")
    release = ParityRelease(4, thresholds={"age": [65]}).release(curated)
    answer = release.output.answer(conjunction({"c": "y", "i": 0, "age>=65": 1, "s": None}))
    expected = ((frame.c == "y") & (frame.i == 0) & (frame.age >= 65) & frame.s.isna()).mean()
    assert float(answer) == pytest.approx(expected, abs=1e-9)


@pytest.mark.landing
def test_a_synthetic_table_has_the_parities_of_the_private_one(monkeypatch):
    without_noise(monkeypatch)
    frame = table(20_000)
    release = ParityRelease(3).release(curator(frame))
    synthetic = release.sample(20_000, random_state=0)
    assert list(synthetic.columns) == list(NAMES)
    assert {str(dtype) for dtype in synthetic.dtypes} == {"bool"}
    pd.testing.assert_frame_equal(synthetic, release.sample(20_000, random_state=0))
    for query in (conjunction({"a": 1, "b": 1, "c": 0}), conjunction({"d": 0, "e": 0}), *QUERIES[:4]):
        assert abs(truth(synthetic, query) - truth(frame, query)) < 0.02


def test_a_synthetic_table_of_parities_of_order_one_is_independent():
    frame = table(20_000)
    model = ParityRelease(1).release(curator(frame)).output.fit(random_state=1)
    sample = model.sample(20_000, random_state=2)
    assert abs(sample.a.mean() - frame.a.mean()) < 0.02
    assert abs((sample.a & sample.b).mean() - sample.a.mean() * sample.b.mean()) < 0.02


def test_hidden_cells_never_reach_a_synthetic_table():
    schema = Schema({"c": Categorical(["x", "y", "z"]), "b": Boolean(), "age": Continuous(0, 1, special=(-1.0,))})
    frame = pd.DataFrame(
        {"c": ["x", "unforeseen", "y"] * 50, "b": [True, False, True] * 50, "age": [0.2, 0.9, -1.0] * 50}
    )
    curated = Curator(frame, schema=schema, budget=PureDP(0.5), neighbors="add_remove")
    sample = ParityRelease(2, thresholds={"age": [0.5]}).release(curated).sample(500, random_state=0)
    assert set(sample.c) <= {"x", "y", "z"}
    assert sample.age.between(-1, 1).all()


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="order"):
        ParityRelease(0)
    with pytest.raises(ParameterError, match="width"):
        ParityRelease(1, width=0)
    with pytest.raises(ParameterError, match="rows"):
        ParityRelease(1, rows=1.5)
    with pytest.raises(ParameterError, match="weights"):
        ParityRelease(1, weights="best")
    with pytest.raises(ParameterError, match="order"):
        ParityRelease(7).release(curator(table(10)))
    with pytest.raises(ParameterError, match="order"):
        MonomialRelease(0)
    many = Schema({f"b{j}": Boolean() for j in range(200)})
    frame = pd.DataFrame(np.zeros((2, 200), bool), columns=list(many))
    with pytest.raises(ParameterError, match="66018451"):
        ParityRelease(4).release(Curator(frame, schema=many, budget=PureDP(1.0)))
    release = ParityRelease(1).release(curator(table(10)))
    with pytest.raises(ParameterError, match="evaluator"):
        release.output.answer(QUERIES[0], evaluator="best")
    with pytest.raises(ParameterError, match="confidence"):
        release.output.answer(QUERIES[0], evaluator="interval", confidence=1.0)


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("rho", [0.0003, 0.003, 0.03])
def test_no_other_price_of_noise_makes_much_narrower_intervals(rho, monkeypatch):
    """In the mean of six releases, as the coefficients that an answer uses depend on noise."""
    releases = [ParityRelease(3, width=5).release(curator(table(), ZCDP(rho))).output for _ in range(6)]

    def width(price: float) -> float:
        monkeypatch.setattr(parity_summary, "NOISE_WEIGHT", price)
        answers = [release.answer(query) for release in releases for query in QUERIES]
        return float(np.mean([one.truncation_bound + 1.96 * one.stderr for one in answers]))

    usual = width(parity_summary.NOISE_WEIGHT)
    assert usual < 1.1 * min(width(price) for price in (0.25, 0.5, 1.0, 4.0, 8.0))
    assert usual < 0.95 * width(16.0)


def test_wide_queries_are_answered_by_polynomials_only():
    schema = Schema({f"b{j}": Boolean() for j in range(12)})
    frame = pd.DataFrame(np.ones((100, 12), bool), columns=list(schema))
    release = ParityRelease(2, width=12).release(Curator(frame, schema=schema, budget=PureDP(1.0)))
    query = conjunction(dict.fromkeys(schema, 1))
    assert 0 <= float(release.output.answer(query)) <= 1
    for evaluator in ("max_entropy", "interval"):
        with pytest.raises(ParameterError, match=r"\b12\b.*\b10\b"):
            release.output.answer(query, evaluator=evaluator)


def test_planned_scales_are_the_levels_of_the_statistic():
    bits = ParityRelease(3).release(curator(table(50))).output.bits
    plan = ParityRelease(3, width=6, rows=100).plan(bits, curator(table(5)).adjacency, LOSSES[1])
    assert len(Parities(bits, plan.scales).scales) == 4
    assert min(plan.scales) >= 1
