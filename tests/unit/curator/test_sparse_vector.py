"""The sparse vector technique: its exact law on neighbours, its cost, and its state."""

import itertools
import json
import math
import stat

import numpy as np
import pandas as pd
import pytest
from no_noise import Draw, recorded, without_noise
from private_door import hidden_state

from synthdp import ZCDP, ApproxDP, Boolean, Curator, GaussianDP, PureDP, Schema
from synthdp.curator.saved_watch import SavedSession
from synthdp.curator.sparse_vector import SparseVector
from synthdp.domain.domain import domain_of
from synthdp.errors import (
    DataError,
    FormatError,
    ParameterError,
    PrivacyError,
    RoomClosedError,
)
from synthdp.measurements import NoiseLaw
from synthdp.privacy import accounting, noise
from synthdp.privacy.above_threshold import AboveThresholdPlan, plan_watch
from synthdp.queries.linear import CellQueries, Subset
from synthdp.queries.marginals import one_ways
from synthdp.queries.supports import DENOMINATOR, KeyList

LOSSES = [PureDP(1.0), ApproxDP(1.0, 1e-6), ApproxDP(1.0, 0.0), ZCDP(0.02), GaussianDP(0.3)]
TABLE = pd.DataFrame({"p": [f"id{i}" for i in range(50)]})


def support(count: int):
    return KeyList.of(("p",), [f"id{i}" for i in range(count)]).support()


def watch(loss=LOSSES[0], *, threshold=5.0, max_alarms=3, table=TABLE, neighbors="add_remove", **options):
    curator = Curator(table, budget=loss, neighbors=neighbors, **options)
    return curator, curator.watch(("p",), max_alarms=max_alarms, threshold=threshold)


# The law: probabilities of all outcomes, computed exactly, on the worst neighbours that there are.


def outcome_probabilities(totals, *, thresholds, level_scale, query_scale, max_alarms, redrawn):
    """P(bits) of every outcome of a stream, by summing over the level's noise; deviations are whole numbers."""

    def passes(deviation, bar):  # P(deviation + Geo >= bar)
        return min(1.0, math.exp(-(bar - deviation) / query_scale))

    levels = [(z, (1 - math.exp(-1 / level_scale)) * math.exp(-z / level_scale)) for z in range(int(60 * level_scale))]

    def run(position, alarms):
        """Outcomes from here: dict of bits -> vector over the level's values (not yet summed)."""
        if position == len(totals) or alarms == max_alarms:
            return {(): np.ones(len(levels))}
        quiet = np.array([1 - passes(totals[position], thresholds[position] + z) for z, _ in levels])
        after_alarm = run(position + 1, alarms + 1)
        after_silence = run(position + 1, alarms)
        if redrawn:
            masses = np.array([p for _, p in levels])
            after_alarm = {bits: np.full(len(levels), masses @ v) for bits, v in after_alarm.items()}
        found = {(0, *bits): quiet * v for bits, v in after_silence.items()}
        return found | {(1, *bits): (1 - quiet) * v for bits, v in after_alarm.items()}

    masses = np.array([p for _, p in levels])
    return {bits: float(masses @ v) for bits, v in run(0, 0).items()}


@pytest.mark.sampled
@pytest.mark.parametrize(("redrawn", "max_alarms"), [(False, 1), (False, 2), (True, 1), (True, 2)])
def test_every_outcome_has_probabilities_within_its_epsilon_on_all_neighbours(redrawn, max_alarms):
    level_scale, query_scale, delta = 2.0, 3.0, 1
    together = 1 if redrawn else max_alarms
    runs = max_alarms if redrawn else 1
    epsilon = runs * (delta / level_scale + 2 * together * delta / query_scale)
    settings = {
        "level_scale": level_scale,
        "query_scale": query_scale,
        "max_alarms": max_alarms,
        "redrawn": redrawn,
        "thresholds": (2, 2, 2),
    }
    largest = 0.0
    for totals in itertools.product([1, 3], repeat=3):
        for move in itertools.product([-1, 0, 1], repeat=3):
            here = outcome_probabilities(totals, **settings)
            there = outcome_probabilities(tuple(t + m for t, m in zip(totals, move, strict=True)), **settings)
            assert sum(here.values()) == pytest.approx(1, abs=1e-9)
            assert min(*here.values(), *there.values()) > 0
            largest = max(largest, *(abs(math.log(here[b] / there[b])) for b in here))
    assert 0.6 * epsilon < largest <= epsilon + 1e-9


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("max_alarms", [1, 7, 100])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_parts_of_a_plan_cost_no_more_than_the_whole(loss, max_alarms, rows):
    plan = plan_watch(loss, max_alarms=max_alarms, alarm_share=0.8, rows=rows)
    delta = rows * DENOMINATOR
    together, runs = (1, max_alarms) if plan.redrawn else (max_alarms, 1)
    epsilon = noise.laplace_epsilon(delta, scale=plan.level_scale)
    epsilon += noise.laplace_epsilon(2 * together * delta, scale=plan.query_scale)
    sigma = plan.answer.noise.scale / (plan.answer.resolution * delta)
    match loss:
        case PureDP(whole) | ApproxDP(whole, 0.0):
            assert plan.answer.noise.law is NoiseLaw.LAPLACE
            assert runs * epsilon + max_alarms / sigma == pytest.approx(whole, rel=1e-9)
        case ZCDP(rho):
            assert runs * epsilon**2 / 2 + max_alarms / (2 * sigma**2) == pytest.approx(rho, rel=1e-9)
        case GaussianDP(mu):
            squares = runs * accounting.gdp_from_pure(epsilon) ** 2 + max_alarms / sigma**2
            assert squares == pytest.approx(mu**2, rel=1e-6)
        case ApproxDP(whole, small) if plan.redrawn:
            squares = runs * accounting.gdp_from_pure(epsilon) ** 2 + max_alarms / sigma**2
            assert 0.9 * small < accounting.gdp_to_delta(math.sqrt(squares), whole) <= small
        case ApproxDP(whole, small):
            assert 0.9 * small < accounting.gdp_to_delta(math.sqrt(max_alarms) / sigma, whole - epsilon) <= small


def test_few_alarms_are_paid_as_one_pure_part_and_many_by_composition():
    plans = [plan_watch(ApproxDP(1.0, 1e-6), max_alarms=c, alarm_share=0.8) for c in (5, 200)]
    assert [plan.redrawn for plan in plans] == [False, True]


def test_without_noise_alarms_are_exactly_the_guesses_that_are_off_by_the_threshold(monkeypatch):
    without_noise(monkeypatch)
    _, quiet = watch(max_alarms=10)
    for guess, alarm in [(20, False), (15.001, False), (15, True), (24.999, False), (25, True), (0, True)]:
        found = quiet.ask(support(20), guess=guess)
        assert (found is not None) == alarm
        assert found is None or found.count == 20


def test_the_budget_is_charged_when_a_watch_opens_and_never_again(monkeypatch):
    without_noise(monkeypatch)
    curator = Curator(TABLE, budget=PureDP(2.0))
    opened = curator.watch(("p",), max_alarms=2, threshold=5, spend=PureDP(1.5))
    left = curator.remaining
    assert left == PureDP(0.5)
    for _ in range(100):
        assert opened.ask(support(20), guess=18) is None
    assert opened.alarms == 0
    assert opened.ask(support(20), guess=0) is not None
    assert curator.remaining == left
    assert len(curator.receipt().items) == 1


def test_no_more_alarms_are_raised_than_were_paid_for(monkeypatch):
    without_noise(monkeypatch)
    _, opened = watch(max_alarms=2)
    alarms = [opened.ask(support(20), guess=0) for _ in range(2)]
    assert all(alarms)
    assert opened.exhausted
    with pytest.raises(PrivacyError, match="max_alarms"):
        opened.ask(support(20), guess=0)


def test_a_continued_watch_has_the_same_hidden_level_and_answers_alike(monkeypatch, tmp_path):
    monkeypatch.setattr(noise, "geometric", lambda *, scale: round(scale / 3))
    curator, opened = watch(max_alarms=5)
    first = [opened.ask(support(20), guess=g) is None for g in (19, 0, 18)]
    _, straight = watch(max_alarms=5)
    assert [straight.ask(support(20), guess=g) is None for g in (19, 0, 18)] == first
    before = hidden_state(opened)
    save(curator, opened, tmp_path / "s")
    with Curator(TABLE.iloc[::-1], budget=PureDP(1e-9)).resume_watch(tmp_path / "s") as saved:
        again = saved.watch
    assert (hidden_state(again), again.plan, again.threshold) == (before, opened.plan, opened.threshold)
    guesses = (19, 500, 20, 700, 21)
    assert [again.ask(support(20), guess=g) is None for g in guesses] == [
        straight.ask(support(20), guess=g) is None for g in guesses
    ]


def test_a_watch_is_saved_in_a_new_folder_of_new_folders(tmp_path):
    curator, opened = watch()
    path = tmp_path / "some" / "folder"
    save(curator, opened, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert continued(Curator(TABLE, budget=PureDP(1.0)), path).alarms == 0


def test_a_saved_session_shows_nothing_of_its_files(tmp_path):
    curator, opened = watch()
    save(curator, opened, tmp_path / "s")
    shown = repr(SavedSession.read(tmp_path / "s"))
    assert not any(word in shown for word in ("document", "arrays", "warning", "receipt"))


def save(curator, opened, path):
    opened.save(path, {"receipt": curator.receipt().to_document()}, b"")


def continued(curator, path):
    with curator.resume_watch(path) as saved:
        return saved.watch


def test_a_watch_is_continued_on_its_own_rows_and_columns_and_for_its_own_neighbours_only(tmp_path):
    curator, opened = watch()
    save(curator, opened, tmp_path / "s")
    with pytest.raises(DataError, match="session"):
        continued(Curator(TABLE.iloc[1:], budget=PureDP(1.0)), tmp_path / "s")
    with pytest.raises(DataError, match="'p'"):
        continued(Curator(TABLE.rename(columns={"p": "q"}), budget=PureDP(1.0)), tmp_path / "s")
    with pytest.raises(PrivacyError, match="neighbors"):
        continued(Curator(TABLE, budget=PureDP(1.0), neighbors="replace_one"), tmp_path / "s")
    assert continued(Curator(TABLE, budget=PureDP(1.0)), tmp_path / "s").alarms == 0


@pytest.mark.parametrize("missing", ["watch", "receipt"])
def test_a_damaged_watch_is_refused(missing, tmp_path):
    curator, opened = watch()
    save(curator, opened, tmp_path / "s")
    file = tmp_path / "s" / "session.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, missing: {"columns": ["p"]}}))
    with pytest.raises(FormatError):
        continued(Curator(TABLE, budget=PureDP(1.0)), tmp_path / "s")


def test_a_closed_room_is_not_watched():
    curator, opened = watch()
    curator.close()
    with pytest.raises(RoomClosedError):
        opened.ask(support(2), guess=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_alarms": 0}, "max_alarms"),
        ({"alarm_share": 1.0}, "alarm_share"),
        ({"queries": 0, "threshold": None}, "queries"),
        ({"queries": 1.5}, "queries"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_spent(settings, message):
    curator = Curator(TABLE, budget=PureDP(1.0))
    with pytest.raises(ParameterError, match=message):
        curator.watch(("p",), **{"max_alarms": 2, "threshold": 1.0, **settings})
    with pytest.raises(DataError, match="'q'"):
        curator.watch(("q",), max_alarms=2)
    assert curator.remaining == PureDP(1.0)


def test_a_unit_of_several_rows_needs_as_much_more_noise():
    table = TABLE.assign(who=[i // 2 for i in range(50)])
    curator = Curator(table, budget=PureDP(1.0), privacy_unit="who", max_rows_per_unit=2)
    two = curator.watch(("p",), max_alarms=3).plan
    one = Curator(table, budget=PureDP(1.0)).watch(("p",), max_alarms=3).plan
    assert two.query_scale == pytest.approx(2 * one.query_scale)
    assert two.answer_stddev == pytest.approx(2 * one.answer_stddev, rel=1e-3)


def test_a_watch_shows_neither_rows_nor_noise():
    _, opened = watch(threshold=100_000.0)
    opened.ask(support(20), guess=20)
    assert repr(opened) == "SparseVector(0 of 3 alarms)"
    with pytest.raises(PrivacyError):
        opened.__reduce__()


def test_silence_bounds_how_far_a_guess_was_off():
    plan = AboveThresholdPlan(
        max_alarms=4, level_scale=100.0, query_scale=200.0, redrawn=False,
        answer=plan_watch(PureDP(1.0), max_alarms=4, alarm_share=0.5).answer,
    )  # fmt: skip
    assert plan.silence_bound(10.0, beta=0.05) == pytest.approx(10 + (100 * math.log(20) + 1) / DENOMINATOR)
    assert plan.threshold_for(1000) == pytest.approx(200 * math.log(1000) / DENOMINATOR)


def opened(rows: int = 6, **options):
    schema = Schema({"b": Boolean()})
    domain = domain_of(schema)
    curator = Curator(pd.DataFrame({"b": [True] * rows}), schema=schema, budget=PureDP(1.0), **options)
    return curator.watch(("b",), max_alarms=2, threshold=1.0), domain


def test_a_watch_is_asked_one_query_at_a_time():
    watch_, domain = opened()
    with pytest.raises(ParameterError, match="query"):
        watch_.ask(one_ways(domain), guess=0.0)


def test_the_total_of_cells_is_that_of_the_query(monkeypatch):
    without_noise(monkeypatch)
    watch_, domain = opened(6)
    alarm = watch_.ask(Subset(one_ways(domain), np.array([1])), guess=0.0)
    assert alarm.count == 6.0
    assert watch_.ask(Subset(one_ways(domain), np.array([1])), guess=5.5) is None


@pytest.mark.parametrize(("threshold", "rows"), [(5.0, 5.0), (0.5, 0.5), (2.0001, 2.0)])
def test_a_threshold_is_a_whole_number_of_1024ths_of_a_row(threshold, rows):
    _, opened_watch = watch(threshold=threshold)
    assert opened_watch.threshold == round(threshold * 1024)
    assert opened_watch.threshold_rows == rows
    assert opened_watch.silence_bound(beta=0.1) == opened_watch.plan.silence_bound(rows, beta=0.1)


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -math.inf, 1e300])
def test_a_threshold_that_is_no_number_of_rows_is_refused_and_nothing_is_spent(threshold):
    curator = Curator(TABLE, budget=PureDP(1.0))
    with pytest.raises(ParameterError, match="threshold"):
        curator.watch(("p",), max_alarms=1, threshold=threshold)
    assert curator.remaining == PureDP(1.0)


def test_a_total_far_below_zero_is_clipped_before_it_is_multiplied(monkeypatch):
    """A product that wraps around 64 bits has no sensitivity."""
    without_noise(monkeypatch)
    _, opened_watch = watch(GaussianDP(0.3), threshold=1.0)
    most = noise.LARGEST_VALUE // opened_watch.plan.answer.resolution
    for total in (-(2**62), 2**62):
        monkeypatch.setattr(SparseVector, "_total", lambda self, table, query, total=total: total)
        alarm = opened_watch.ask(support(1), guess=0.0)
        assert alarm.count == math.copysign(most, total) / DENOMINATOR


@pytest.mark.parametrize("loss", [PureDP(1.0), ZCDP(0.1)])
def test_an_alarm_is_deviation_plus_noise_against_threshold_plus_noise(monkeypatch, loss):
    without_noise(monkeypatch)
    guesses = [20.0, 17.5, 16.0, 15.0, 30.0]
    for level, more in itertools.product([0, 700, 5000], [0, 1, 699, 3000]):
        _, opened_watch = watch(loss, threshold=4.0, max_alarms=len(guesses))
        drawn = {opened_watch.plan.level_scale: level, opened_watch.plan.query_scale: more}
        monkeypatch.setattr(noise, "geometric", lambda *, scale, drawn=drawn: drawn[scale])
        alarms = [opened_watch.ask(support(20), guess=guess) is not None for guess in guesses]
        assert alarms == [abs(20 - guess) * DENOMINATOR + more >= 4 * DENOMINATOR + level for guess in guesses]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_an_alarm_is_noised_by_the_law_and_at_the_scale_that_were_paid_for(monkeypatch, loss):
    _, opened_watch = watch(loss, threshold=1e-3)
    trace = recorded(monkeypatch, exact=True)
    alarm = opened_watch.ask(support(20), guess=1e6)
    answer = opened_watch.plan.answer
    drawn = {NoiseLaw.LAPLACE: "discrete_laplace", NoiseLaw.GAUSSIAN: "discrete_gaussian"}[answer.noise.law]
    assert trace.draws[-1] == Draw(drawn, (1,), (("scale", answer.noise.scale),))
    assert [draw.operation for draw in trace.draws] == ["geometric", "geometric", drawn]
    assert (alarm.count, alarm.law, alarm.stddev) == (20, answer.noise.law, opened_watch.plan.answer_stddev)


def watched(values, unit, *, rows=1):
    """The watch of a table of six rows of ``True``, asked for a query with two values and the same for what is neither."""
    schema = Schema({"b": Boolean()})
    domain = domain_of(schema)
    table = pd.DataFrame({"b": [True] * 6, "who": range(6)})
    more = {"privacy_unit": "who", "max_rows_per_unit": rows} if rows > 1 else {}
    watch = Curator(table, schema=schema, budget=PureDP(1.0), **more).watch(("b",), max_alarms=1, threshold=0.5)
    return watch.ask(CellQueries(domain, np.array([[*values, 0][: domain.cells]]), unit), guess=0.0)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(
    ("values", "unit", "count"), [([0, 1], 1, 6.0), ([0, 1], 2, 3.0), ([0, 3], 4, 4.5), ([0, 4], 4, 6.0)]
)
def test_a_watched_query_is_counted_in_its_own_unit(monkeypatch, values, unit, count, rows):
    without_noise(monkeypatch)
    assert watched(values, unit, rows=rows).count == count


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("values", "unit"), [([0, 2], 1), ([0, 5], 4), ([-5, 0], 4)])
def test_a_watched_query_that_a_row_moves_by_more_than_one_is_refused(values, unit, rows):
    with pytest.raises(ParameterError, match="weights"):
        watched(values, unit, rows=rows)


def test_a_watched_query_is_in_a_unit_that_divides_1024():
    with pytest.raises(ParameterError, match=r"1/1024.*1/3"):
        watched([0, 3], 3)
