"""The audit: its bounds are sound and have power, every mechanism stays below its claim, and a broken one does not."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from attackers import ATTACKERS, exact_mu
from click.testing import CliRunner
from hypothesis import given, strategies as st
from mechanism_cases import CASES, KEYS
from no_noise import with_repeatable_noise, without_noise
from planner_worlds import CLAIMED, PLANNED, PlannedWorld, heard
from scipy.stats import binom, binomtest

from synthdp import ApproxDP, Curator, PureDP
from synthdp.audit import (
    ORDINARY,
    STRANGE,
    WORLD,
    EpsilonBound,
    audit,
    audit_build,
    epsilon_bound,
    gaussian_bound,
    indices_of,
    least_runs,
    matched_score,
    neighbouring_tables,
    score_bound,
)
from synthdp.cli.installation import audit as command
from synthdp.cli.main import main
from synthdp.domain.domain import domain_of
from synthdp.errors import ParameterError
from synthdp.privacy import noise
from synthdp.privacy.accounting import gdp_from_approx, gdp_to_epsilon
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.protocol import real_answers

RELATIONS = ["add_remove", "replace_one"]

FEW = least_runs(ApproxDP(1.0, 1e-6), confidence=0.999)
"""Runs that can just contradict a claim of 1."""


@given(st.floats(0.01, 0.99), st.floats(0, 3), st.integers(5, 60), st.sampled_from([0.0, 0.05]))
def test_the_bound_exceeds_the_truth_no_more_often_than_it_says(p, epsilon, runs, delta):
    """Exactly, over all outcomes of two binomials whose probabilities are at the edge of the promise."""
    likely, rare = min(1.0, math.exp(epsilon) * p + delta), p
    outcomes = range(runs + 1)
    wrong = 0.0
    for false_hits in outcomes:
        weight = binom.pmf(false_hits, runs, rare)
        above = [
            hits
            for hits in outcomes
            if epsilon_bound(hits, runs, false_hits, runs, delta=delta, confidence=0.9) > epsilon + 1e-9
        ]
        wrong += weight * sum(binom.pmf(hits, runs, likely) for hits in above)
    assert wrong <= 0.1 + 1e-9


def test_the_bound_is_that_of_clopper_and_pearson():
    likely = binomtest(90, 100).proportion_ci(0.99, method="exact").low
    rare = binomtest(10, 100).proportion_ci(0.99, method="exact").high
    expected = math.log((likely - 0.01) / rare)
    assert epsilon_bound(90, 100, 10, 100, delta=0.01, confidence=0.99) == pytest.approx(expected, rel=1e-9)
    assert epsilon_bound(0, 100, 0, 100, delta=0.0, confidence=0.99) == 0
    assert epsilon_bound(100, 100, 100, 100, delta=0.0, confidence=0.99) == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_laplace_noise_of_another_scale_is_caught_and_the_right_one_is_not(sign):
    """Two Laplace laws one apart: at scale 1 epsilon is 1; at half of it 2, which 1000 runs show."""
    rng = np.random.default_rng(0)

    def bound(scale: float) -> float:
        scores = [sign * (rng.laplace(0, scale, 4000) + there) for there in (0, 1)]
        return score_bound(*scores, delta=0.0, confidence=0.999)

    assert 0.5 < bound(1.0) <= 1
    assert bound(0.5) > 1.5


def test_a_gaussian_bound_is_below_the_truth_and_close_to_it():
    """Two normal laws mu apart: the bound sees most of mu, of a half more too much, and more than Clopper-Pearson."""
    rng, delta = np.random.default_rng(0), 1e-6

    def bounds(mu: float) -> list[float]:
        scores = [rng.normal(there * mu, 1.0, 20_000) for there in (0, 1)]
        found = [score_bound(*scores, delta=delta, confidence=0.999, bound=law) for law in (gaussian_bound, None)]
        return [*found, gdp_to_epsilon(mu, delta)]

    gaussian, any_law, truth = bounds(0.5)
    assert 0.8 * truth < gaussian <= truth
    assert any_law < 0.75 * gaussian
    assert bounds(0.75)[0] > truth


def test_a_gaussian_bound_of_counts_that_show_nothing_is_zero():
    assert gaussian_bound(0, 100, 0, 100, delta=1e-6, confidence=0.99) == 0
    assert gaussian_bound(100, 100, 100, 100, delta=1e-6, confidence=0.99) == 0
    assert gaussian_bound(50, 100, 50, 100, delta=1e-6, confidence=0.99) == 0


def test_equal_scores_prove_nothing():
    assert score_bound(np.zeros(100), np.zeros(100), delta=0.0, confidence=0.99) == 0


def direct(runs: int, relations: tuple[str, ...] = ("add_remove",)) -> list[float]:
    """One count through the curator: the least of what can be audited."""
    domain = domain_of(WORLD)

    def score(table: pd.DataFrame, relation: str) -> float:
        curator = Curator(table, schema=WORLD, budget=PureDP(1.0), neighbors=relation)
        return float(curator.measure(Marginals(domain, ((0,),))).answers[1])

    return [
        audit(
            lambda table, relation=relation: score(table, relation),
            neighbouring_tables(relation),
            name="one table",
            neighbors=relation,
            claimed=ApproxDP(1.0, 0.0),
            runs=runs,
        ).epsilon
        for relation in relations
    ]


@pytest.mark.slow
def test_a_build_with_a_quarter_of_the_noise_is_above_its_claim(monkeypatch):
    assert max(direct(200)) <= 1
    for law in ("discrete_laplace", "linf_knorm"):
        original = getattr(noise, law)
        quieter = lambda values, *, scale, original=original: original(values, scale=scale / 4)  # noqa: E731
        monkeypatch.setattr(noise, law, quieter)
    assert min(direct(200)) > 1


@pytest.mark.slow
def test_twenty_thousand_releases_of_one_count_stay_below_the_claim():
    found = direct(20_000, tuple(RELATIONS))
    assert max(found) <= 1
    assert found[0] > 0.6


def world_audit(
    name: str, relation: str, runs: int, *, confidence: float = 0.999, epsilon: float = 4.0
) -> EpsilonBound:
    """The bound of one mechanism, end to end, on neighbouring tables of its world."""
    attacker, claimed = ATTACKERS[name], ApproxDP(epsilon, 1e-6)
    return audit(
        attacker.score(relation, claimed),
        attacker.tables(relation),
        name=name,
        neighbors="add_remove" if relation == "unit" else relation,
        claimed=claimed,
        runs=runs,
        confidence=confidence,
    )


HIDDEN = ("NetMechanism", "MedianMechanism")
"""Without noise they choose among the same few candidates on both tables: the score differs by their noise alone."""


ATTACKED = [(name, relation) for name, attacker in ATTACKERS.items() for relation in attacker.relations]


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(("name", "relation"), [one for one in sorted(ATTACKED) if one[0] not in HIDDEN])
def test_the_score_tells_a_table_with_the_row_from_one_without_it(name, relation, monkeypatch):
    """Without noise the score is higher where the row is, so that the audit looks where it should."""
    without_noise(monkeypatch)
    attacker = ATTACKERS[name]
    without, with_ = map(attacker.score(relation, ApproxDP(4.0, 1e-6)), attacker.tables(relation))
    assert with_ > without


PLANS = [(name, relation) for name in PLANNED for relation in ATTACKERS[f"AdaptiveMarginals, {name}"].relations]


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(("name", "relation"), PLANS)
def test_the_planner_makes_the_measurements_that_its_worlds_are_for(name, relation, monkeypatch):
    """With and without the row, and each of them moves with the row: no attacker looks at less than its name says."""
    with_repeatable_noise(monkeypatch)
    world = PLANNED[name]
    tables = world.neighbours("another row", relation)
    for table in tables:
        questions, release = heard(lambda table=table: world.release(table, relation))
        assert [one.step for one in questions] == [item.step for item in release.receipt_.items]
        for step in world.steps:
            asked = [one for one in questions if one.step.startswith(step)]
            moved = exact_mu(asked, world.schema, *tables)
            # of a replaced row the distances of its old and its new cell may cancel, whichever way noise bent the model
            assert moved > 0 or (asked and relation == "replace_one" and step == "screening against the model")


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "relation"), PLANS)
def test_a_row_moves_all_answers_of_a_planned_release_by_what_the_claim_allows_and_hardly_less(
    name, relation, monkeypatch
):
    """Of every question that is asked, scores too, the exact change over the noise: no sample, and no chance."""
    with_repeatable_noise(monkeypatch)
    world, allowed = PLANNED[name], gdp_from_approx(CLAIMED.epsilon, CLAIMED.delta)
    tables = world.neighbours("another row", relation)
    least = 0.7 if relation == "replace_one" else 0.97  # two rows differ in some columns, and not most in every answer
    for table in tables:
        questions, _ = heard(lambda table=table: world.release(table, relation))
        assert least * allowed < exact_mu(questions, world.schema, *tables) <= allowed


def some_records(world: PlannedWorld, many: int) -> pd.DataFrame:
    """The row of the attack, values of all rows at random in every column, and values that fit no column."""
    rng = np.random.default_rng(1)
    drawn = {name: rng.choice(world.table[name].to_numpy(object), many) for name in world.schema}
    for values in drawn.values():
        values[rng.random(many) < 0.1] = None
    return pd.concat([pd.DataFrame([world.strange["another row"]]), pd.DataFrame(drawn)], ignore_index=True)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", PLANNED)
def test_no_record_moves_all_answers_of_a_planned_release_beyond_the_claim(name, relation, monkeypatch):
    """Brute force over records, of all questions together: added to the table, or in place of any of some rows."""
    with_repeatable_noise(monkeypatch)
    world = PLANNED[name]
    questions, _ = heard(lambda: world.release(world.table, relation))
    records, gone = some_records(world, 60), world.table.iloc[-20:]
    among = [indices_of(world.schema, table) for table in (world.table, records, gone)]
    squared = 0.0
    for queries, stddev in ((one.measured.queries, one.measured.stddev) for one in questions):
        table, more, fewer = (queries.domain.codes(indices) for indices in among)
        sums = queries.sums(table)
        before = real_answers(queries, queries.finish(sums))
        rests = [sums] if relation == "add_remove" else [sums - queries.sums(row[None]) for row in fewer]
        added = [queries.sums(row[None]) for row in more]
        after = np.array([[real_answers(queries, queries.finish(rest + one)) for one in added] for rest in rests])
        squared = squared + ((after - before) ** 2).sum(axis=2) / stddev**2
    assert np.sqrt(np.max(squared)) <= gdp_from_approx(CLAIMED.epsilon, CLAIMED.delta)


def test_every_mechanism_has_an_attacker():
    assert set(CASES) <= set(ATTACKERS)


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("name", [*ATTACKERS][::8])
def test_a_few_releases_of_a_mechanism_stay_below_the_claim(name):
    """Many of every mechanism are slow."""
    runs = least_runs(ApproxDP(0.4, 1e-6), confidence=0.999)
    assert world_audit(name, "add_remove", runs, epsilon=0.4).holds


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), ATTACKED)
def test_no_mechanism_is_seen_above_its_claim(name, relation):
    assert world_audit(name, relation, 60, epsilon=1.0).holds


def test_the_tables_of_the_audit_differ_in_one_row():
    small, large = neighbouring_tables("add_remove")
    assert len(large) == len(small) + 1
    small, large = neighbouring_tables("replace_one")
    assert len(large) == len(small)
    assert (small != large).any(axis=1).sum() == 1
    assert ORDINARY != STRANGE


@pytest.mark.slow
def test_the_command_reports_every_mechanism_and_says_when_a_claim_is_broken(monkeypatch):
    run = CliRunner().invoke(command, ["--mechanism", "LaplaceAnswers", "--runs", "40", "--json"])
    assert run.exit_code == 0, run.output
    assert [found["holds"] for found in json.loads(run.output)] == [True, True]
    monkeypatch.setattr(noise, "discrete_laplace", lambda values, *, scale: values)
    monkeypatch.setattr(noise, "linf_knorm", lambda values, *, scale: values)
    monkeypatch.setattr(noise, "discrete_gaussian", lambda values, *, scale: values)
    run = CliRunner().invoke(command, ["--mechanism", "LaplaceAnswers", "--runs", "40"])
    assert run.exit_code == 1
    assert "ABOVE THE CLAIM" in run.output


@pytest.mark.landing
def test_the_whole_build_is_audited_for_both_neighbours():
    runs = least_runs(ApproxDP(0.2, 1e-6), confidence=1 - 0.001 / 2)
    bounds = audit_build(epsilon=0.2, runs=runs, names=["LaplaceAnswers"])
    assert [bound.name for bound in bounds] == ["LaplaceAnswers", "LaplaceAnswers"]
    assert all(bound.holds for bound in bounds)


@pytest.mark.parametrize(
    "call",
    [
        lambda: audit_build(runs=0, names=["MWEM"]),
        lambda: audit_build(runs=FEW - 1, names=["MWEM"]),
        lambda: least_runs(ApproxDP(1.0, 0.0), confidence=1.0),
        lambda: least_runs(ApproxDP(1000.0, 0.0), confidence=0.95),
        lambda: audit_build(names=["nobody"]),
        lambda: score_bound(np.zeros(9), np.zeros(9), delta=0.0, confidence=0.2),
    ],
)
def test_settings_out_of_range_are_refused(call):
    with pytest.raises(ParameterError):
        call()


@pytest.mark.landing
@pytest.mark.sampled("landing")
@pytest.mark.parametrize("confidence", [0.95, 0.999, 0.9999])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 1.0, 2.0])
def test_the_fewest_runs_are_those_with_which_scores_that_never_overlap_break_the_claim(epsilon, confidence):
    """One run fewer is within any claim of so much; and whatever number is given, the next one that is enough is named."""
    claimed = ApproxDP(epsilon, 1e-6)

    def breaks(runs: int) -> bool:
        apart = np.zeros(runs), np.arange(1.0, runs + 1)
        return score_bound(*apart, delta=claimed.delta, confidence=confidence) > epsilon

    least = least_runs(claimed, confidence=confidence)
    enough = [breaks(runs) for runs in range(2, least + 10)]
    assert enough.index(True) + 2 == least
    for above in range(least + 5):
        assert least_runs(claimed, confidence=confidence, above=above) == 2 + enough.index(True, max(above - 1, 0))


def test_large_claims_need_runs_that_are_computed_not_tried():
    runs = [least_runs(ApproxDP(epsilon, 0.0), confidence=0.95) for epsilon in (10.0, 12.0, 14.0, 30.0)]
    assert np.diff(np.log(runs)) == pytest.approx([2, 2, 16], abs=0.01)


@pytest.mark.parametrize("runs", [1, 8, FEW])
def test_runs_that_could_never_contradict_the_claim_are_refused_with_the_number_needed(runs, monkeypatch):
    """And nothing is released before."""
    monkeypatch.setattr("synthdp.audit.scores_of", None)
    run = CliRunner().invoke(main, ["audit", "--mechanism", "LaplaceAnswers", "--runs", str(runs)])
    assert (run.exit_code, len(run.stderr.splitlines())) == (2, 1)
    needed = least_runs(ApproxDP(1.0, 1e-6), confidence=1 - 0.001 / 2)
    assert f"runs ({runs})" in run.stderr
    assert f"at least {needed}" in run.stderr


def test_measurements_of_keys_count_nothing():
    release, _ = CASES["StabilityHistogram"].release(CASES["StabilityHistogram"].world.table)
    assert matched_score(release, KEYS.schema, without=KEYS.table, with_=KEYS.table[:-1]) == 0
    assert one_ways(domain_of(WORLD)).k == 9
