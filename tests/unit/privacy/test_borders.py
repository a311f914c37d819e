"""Laws of the room's small parts at their borders: who is counted, what is mirrored, how far a limit reaches."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import pkgutil
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, strategies as st
from no_noise import recorded, without_noise

import synthdp.curator
import synthdp.privacy
from synthdp import ZCDP, ApproxDP, Boolean, Curator, GaussianDP, Ledger, PureDP, Schema
from synthdp.curator import private_table as room_module
from synthdp.curator.contribution import _hash, _mix, kept_rows
from synthdp.curator.discovery import EXPONENTS, PARTS, _power_bins, _range
from synthdp.curator.private_table import PrivateTable
from synthdp.curator.spill import MEMORY_BYTES, Store
from synthdp.domain.discretize import domain_of
from synthdp.domain.encoder import Labels
from synthdp.errors import BudgetExceededError, ParameterError, SensitivityError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import accounting, accuracy, composition, linf_knorm, noise
from synthdp.privacy.above_threshold import plan_watch
from synthdp.privacy.accounting import NoiseEvent
from synthdp.privacy.calibration import Calibration
from synthdp.privacy.key_answers import KeyAnswers
from synthdp.privacy.linf_knorm import SMALLEST_SCALE
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.queries.explicit import CellQueries
from synthdp.queries.marginals import one_ways
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.schema.columns import Continuous, Datetime, Duration, Integer
from synthdp.schema.times import CALENDAR, whole_bounds
from synthdp.tables.sources.dataframe import FrameSource

MODULES = [
    importlib.import_module(f"{package.__name__}.{module.name}")
    for package in (synthdp.privacy, synthdp.curator)
    for module in pkgutil.iter_modules(package.__path__)
]
CLASSES = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if inspect.isclass(kind) and kind.__module__ == module.__name__
]
BARE = [
    getattr(found, "__func__", getattr(found, "fget", found))
    for place in (*MODULES, *CLASSES)
    for found in vars(place).values()
]
FUNCTIONS = {
    f for f in BARE if inspect.isfunction(f) and f.__module__.startswith(("synthdp.privacy", "synthdp.curator"))
}
SHORT = {"AboveThresholdAnswer", "Account", "Adjacency", "ApproxDP", "Bounding", "Calibration", "Check", "Discovered",
         "Entry", "GaussianDP", "PureDP", "Remaining", "PrivateTable", "ZCDP", "_Piece", "_Remaining"}  # fmt: skip
"""Records that may be made by position; all others name their fields."""


def test_every_argument_can_be_named():
    assert len(FUNCTIONS) > 150
    for function in FUNCTIONS:
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        assert inspect.Parameter.POSITIONAL_ONLY not in kinds, function


@pytest.mark.parametrize("kind", [k for k in CLASSES if dataclasses.is_dataclass(k)], ids=lambda kind: kind.__name__)
def test_long_records_are_made_by_name(kind):
    assert all(field.kw_only is (kind.__name__ not in SHORT) for field in dataclasses.fields(kind))


def test_nobody_inherits_from_a_curator():
    assert Curator.__final__


def test_what_is_made_once_is_made_once():
    assert noise._opendp() is noise._opendp()
    assert linf_knorm._envelope(3, Fraction(5, 2)) is linf_knorm._envelope(3, Fraction(5, 2))


# Who is counted


@pytest.mark.parametrize(
    ("adjacency", "moved"),
    [
        (Adjacency(), Norms(1, 1, 1)),
        (Adjacency(Neighbors.REPLACE_ONE), Norms(2, 2, 1)),
        (Adjacency(Neighbors.ADD_REMOVE, "who", 3), Norms(3, 9, 3)),
        (Adjacency(Neighbors.REPLACE_ONE, "who", 1), Norms(2, 2, 1)),
    ],
)
def test_a_histogram_moves_by_one_count_of_each_row_that_comes_or_goes(adjacency, moved):
    assert adjacency.histogram == moved


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
    with pytest.raises(ParameterError, match="at most 1"):
        watched(values, unit, rows=rows)


# Accounts inside accounts


def long_statistic(domain, k):
    return SimpleNamespace(
        domain=domain,
        k=k,
        unit=1,
        bounds=RecordBounds.of(Norms(1, 1, 1)),
        sums=lambda codes: np.zeros(k, np.int64),
        finish=lambda sums: sums,
    )


@pytest.mark.parametrize("nested", [0, 1, 2])
@pytest.mark.parametrize("budget", [GaussianDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), PureDP(1.0)], ids=str)
def test_an_account_answers_as_many_numbers_as_it_can_pay_however_deep_it_is(monkeypatch, budget, nested):
    """The guarantee depends on what is spent, not on how many numbers are noised or in which account."""
    without_noise(monkeypatch)
    schema = Schema({"n": Integer(0, 9)})
    asked = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget)
    for _ in range(nested):
        asked = asked.open_account()
    many = long_statistic(domain_of(schema), 10**7 + 1)
    values = asked.measure(many).values
    assert values.shape == (many.k,)


@pytest.mark.parametrize("budget", [GaussianDP(0.7), ApproxDP(1.0, 1e-9), ApproxDP(30.0, 1e-15)], ids=str)
@pytest.mark.parametrize("nested", [0, 1, 3])
def test_all_gaussian_noise_of_a_tree_of_accounts_costs_no_more_than_its_root(budget, nested):
    """Theorem 3 of the Gaussian filter, from what came out: sums of Delta^2 / (sigma^2 - 4), in exact numbers."""
    schema = Schema({"n": Integer(0, 9)})
    tables = one_ways(domain_of(schema))
    root = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget).open_account()
    measured = []
    account = root
    for _ in range(nested):
        measured.append(account.measure(tables, spend=account.remaining.fraction(0.3)))
        account = account.open_account(account.remaining.fraction(0.7))
        measured.append(account.measure(tables, spend=account.remaining.fraction(0.5)))
    measured.append(account.measure(tables))
    spent = sum(Fraction(part.resolution) ** 2 / (Fraction(part.noise.scale) ** 2 - 4) for part in measured)
    assert spent <= Fraction(root.budget.mu) ** 2


@pytest.mark.parametrize("budget", [GaussianDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), PureDP(1.0)], ids=str)
@pytest.mark.parametrize("ask", ["measure", "select"])
def test_what_cannot_be_summed_is_refused_before_it_is_paid_for(budget, ask):
    schema = Schema({"n": Integer(0, 9)})
    curator = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget)
    wide = long_statistic(domain_of(schema), 3)
    wide.bounds = RecordBounds.of(Norms.within(3, 2**40))
    with pytest.raises(SensitivityError, match="lower the resolution"):
        getattr(curator, ask)(wide, spend=budget.fraction(0.5))
    assert curator.remaining == budget
    assert curator.receipt().items == ()


@pytest.mark.parametrize("budget", [GaussianDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), PureDP(1.0)], ids=str)
def test_a_statistic_that_no_replaced_row_can_move_is_answered_in_every_currency(budget):
    schema = Schema({"n": Integer(0, 9)})
    domain = domain_of(schema)
    curator = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget, neighbors="replace_one")
    constant = CellQueries(domain, np.ones((1, domain.cells), np.int64))
    assert constant.bounds.swap == Norms(0, 0, 0)
    assert curator.measure(constant).values.shape == (1,)


# What is read and what is held


def test_every_look_at_the_rows_is_counted():
    schema = Schema({"n": Integer(0, 9)})
    room = PrivateTable(FrameSource(pd.DataFrame({"n": range(10)})), schema, Adjacency())
    queries = one_ways(domain_of(schema))
    for looks in (1, 2):
        room.exact(queries)
        assert room.reads == looks
    room.key_counts(("n",))
    list(room.raw_blocks(("n",)))
    assert room.reads == 4


def test_the_codes_of_the_last_four_domains_are_kept_and_older_ones_closed():
    schema = Schema({"n": Integer(0, 99)})
    room = PrivateTable(FrameSource(pd.DataFrame({"n": range(100)})), schema, Adjacency())
    domains = [domain_of(schema, bins=bins) for bins in (2, 3, 4, 5, 6)]
    totals = [room.exact(one_ways(domain)).tolist() for domain in domains[:4]]
    first = room._codes[-1][1]
    assert [domain for domain, _ in room._codes] == domains[3::-1]
    room.exact(one_ways(domains[4]))
    assert [domain for domain, _ in room._codes] == domains[:0:-1]
    assert list(first.blocks()) == []
    kept = list(room._codes)
    assert [room.exact(one_ways(domain)).tolist() for domain in domains[1:4]] == totals[1:]
    assert room._codes == kept
    assert room.exact(one_ways(domains[0])).tolist() == totals[0]


def test_stores_of_buckets_and_of_codes_share_the_memory_of_one(monkeypatch):
    made = []
    monkeypatch.setattr(room_module, "Store", lambda **options: made.append(options.get("memory")) or Store(**options))
    schema = Schema({"n": Integer(0, 9)})
    table = pd.DataFrame({"n": range(10), "who": range(10)})
    PrivateTable(FrameSource(table), schema, Adjacency(unit="who", rows=2)).exact(one_ways(domain_of(schema)))
    limits = [limit for limit in made if limit is not None]
    assert MEMORY_BYTES == 64 * 1024**2  # as docs/how-to/sizing.md says
    assert sorted(set(limits)) == [MEMORY_BYTES // 64, MEMORY_BYTES // 4]
    assert limits.count(MEMORY_BYTES // 64) == 64
    assert made.count(None) == 1


# The sampler


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_scale_is_taken_down_to_the_smallest(dimension):
    coins = [0, 1, 0]  # no doubling, to the right, accepted
    assert linf_knorm.draw(dimension, scale=SMALLEST_SCALE, bits=lambda _: coins.pop(0)) == [0] * dimension
    assert Fraction(1, 1024) == SMALLEST_SCALE
    with pytest.raises(ParameterError, match="scale"):
        linf_knorm.draw(dimension, scale=SMALLEST_SCALE - Fraction(1, 10**9), bits=lambda _: 0)


@given(
    dimension=st.integers(1, 5),
    at=st.integers(0, 20),
    mode=st.integers(0, 20),
    scale=st.fractions(1, 9, max_denominator=8),
)
def test_a_chance_is_compared_with_one_by_its_sign(dimension, at, mode, scale):
    assume(at != mode)
    chance = linf_knorm._Chance.of(dimension, scale, at=at, mode=mode, doublings=0)
    log = dimension * math.log((2 * at + 1) / (2 * mode + 1)) - float((at - mode) / scale)
    assert chance.compared_with_one() == math.copysign(1, log)


@pytest.mark.parametrize(
    ("dimension", "scale"), [(1, Fraction(1, 2)), (1, Fraction(7)), (3, Fraction(10, 3)), (40, Fraction(9, 4))]
)
def test_the_mode_is_where_the_weights_are_largest_and_a_step_halves_them(dimension, scale):
    envelope = linf_knorm._envelope(dimension, scale)
    k = np.arange(0, 40 * dimension + 200)
    weights = dimension * np.log(2 * k + 1) - k / float(scale)
    assert envelope.mode == np.argmax(weights)
    half = weights[envelope.mode] - np.log(2)
    assert weights[envelope.mode + envelope.step] <= half
    assert envelope.step > envelope.mode or weights[envelope.mode - envelope.step] <= half
    assert envelope.step <= 2.5 * np.sqrt(dimension) * float(scale) + 2


@pytest.mark.parametrize(("words", "kept"), [([5, 6, 3], 3), ([4], 4), ([7, 0], 0)])
def test_what_is_beyond_a_bound_is_drawn_again(words, kept):
    waiting = list(words)
    assert linf_knorm._below(5, lambda length: [waiting.pop(0), length != 3][length != 3]) == kept
    assert not waiting


# Discovery


EDGES = st.integers(0, 4 * EXPONENTS)


@given(EDGES, EDGES)
def test_the_range_of_mirrored_bins_is_the_mirrored_range(one, two):
    first, last = min(one, two), max(one, two)
    lower, upper = _range(first, last)
    mirrored = _range(4 * EXPONENTS - last, 4 * EXPONENTS - first)
    zeros = first == last == 2 * EXPONENTS
    assert lower < upper
    assert (mirrored == (-upper, -lower)) is not zeros


@given(st.integers(-EXPONENTS, EXPONENTS - 3), st.integers(0, 8))
def test_a_range_over_a_factor_of_four_begins_at_zero(power, more):
    first = int(_power_bins(np.array([2.0**power]))[0])
    last = min(first + more, 4 * EXPONENTS)
    top = 2.0 ** (power + 1 + last - first)
    assert _range(first, last) == ((0.0, top) if more >= 1 else (2.0**power, top))


@pytest.mark.parametrize("value", [2.0**63, 1e300, np.finfo(float).max])
def test_the_last_bins_hold_all_larger_numbers(value):
    assert _power_bins(np.array([value, -value, 0.0])).tolist() == [4 * EXPONENTS, 0, 2 * EXPONENTS]


def test_a_discovery_asks_for_a_histogram_of_powers_and_one_of_parts(monkeypatch):
    trace = recorded(monkeypatch, exact=True)
    curator = Curator(pd.DataFrame({"n": np.arange(100.0)}), schema=Schema({"n": Continuous()}), budget=PureDP(1.0))
    curator.discover(spend=PureDP(0.8))
    assert [draw.shape for draw in trace.draws] == [(4 * EXPONENTS + 1,), (PARTS,)]
    items = curator.receipt().items
    assert [item.answers for item in items] == [4 * EXPONENTS + 1, PARTS]
    assert [item.loss for item in items] == [PureDP(0.4)] * 2
    assert [item.sensitivity for item in items] == [1, 1]


def test_a_discovery_of_levels_says_their_noise():
    frame = pd.DataFrame({"c": ["a"] * 300, "who": range(300)})
    loss = ApproxDP(1.0, 1e-6)
    curator = Curator(frame[["c"]], budget=loss, neighbors="replace_one")
    curator.discover(spend=loss)
    (item,) = curator.receipt().items
    assert item.sensitivity == 2.0
    assert item.stddev == pytest.approx(np.sqrt(2) * 2, rel=0.02)


MOMENTS = {
    "before 1970": ["1423-05-06", "1444-01-01"],
    "the first years": ["0001-01-01", "0003-01-01"],
    "the last years": ["9990-01-01", "9999-12-31"],
    "around 1970": ["1969-12-01", "1970-02-01"],
}


@pytest.mark.parametrize("resolution", ["D", "s", "us"])
@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
def test_moments_of_all_years_lie_within_what_is_found(monkeypatch, moments, resolution):
    without_noise(monkeypatch)
    values = np.repeat(np.array(moments, "datetime64[us]"), 5000)
    schema = Schema({"t": Datetime(resolution=resolution)})
    found = (
        Curator(pd.DataFrame({"t": values}), schema=schema, budget=PureDP(4.0)).discover(spend=PureDP(4.0)).schema["t"]
    )
    assert np.datetime64(found.lower) <= values.min()
    assert values.max() - np.timedelta64(1, resolution) <= np.datetime64(found.upper)
    assert CALENDAR[0] <= np.datetime64(found.lower, "us").astype(int)
    assert np.datetime64(found.upper, "us").astype(int) <= CALENDAR[1]


def test_lengths_are_found_in_their_own_resolution(monkeypatch):
    without_noise(monkeypatch)
    values = np.repeat(np.array([-7_200, -3_600], "timedelta64[s]"), 5000)
    schema = Schema({"t": Duration(resolution="h")})
    found = (
        Curator(pd.DataFrame({"t": values}), schema=schema, budget=PureDP(4.0)).discover(spend=PureDP(4.0)).schema["t"]
    )
    assert -3 <= found.lower <= -2
    assert -1 <= found.upper <= 0


@given(st.floats(-50, 50), st.floats(-50, 50), st.integers(-9, 9), st.integers(1, 18))
def test_whole_bounds_are_two_numbers_of_the_reach_around_the_interval(one, two, first, size):
    low, high = whole_bounds(min(one, two), max(one, two), first, first + size)
    assert first <= low < high <= first + size
    around = [x for x in range(first, first + size + 1) if min(one, two) - 1 < x < max(one, two) + 1]
    assert low <= min(around, default=low)
    assert high >= max(around, default=high)
    assert low >= min(np.floor(min(one, two)), first + size - 1) or low == first
    assert high <= max(np.ceil(max(one, two)), low + 1)


# What a receipt says of each question


def halves(schema: Schema) -> CellQueries:
    """Three queries over a Boolean and what is neither, in quarters of a row."""
    return CellQueries(domain_of(schema), np.array([[0, 3, 0, 0], [1, 2, 0, 0], [4, 0, 0, 0]]), 4)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 0.0), ApproxDP(1.0, 1e-6), ZCDP(0.5), GaussianDP(1.0)])
def test_a_measured_step_says_noise_and_sensitivity_in_rows(budget, neighbors):
    schema = Schema({"b": Boolean(nullable=True)})
    curator = Curator(pd.DataFrame({"b": [True]}), schema=schema, budget=budget, neighbors=neighbors)
    queries = halves(schema)
    measured = curator.measure(queries, spend=budget.fraction(0.5), step="here")
    (item,) = curator.receipt().items
    norms = curator.adjacency.sensitivity(queries)
    norm = {NoiseLaw.LAPLACE: norms.l1, NoiseLaw.LINF: norms.linf, NoiseLaw.GAUSSIAN: norms.l2}[measured.noise.law]
    assert (item.step, item.mechanism, item.answers) == ("here", str(measured.noise.law), 3)
    assert item.sensitivity == pytest.approx(norm / 4)
    assert item.stddev == pytest.approx(measured.stddev)
    assert item.stddev == pytest.approx(measured.noise.stddev / measured.resolution / 4)
    assert item.loss == budget.fraction(0.5)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.5)])
def test_a_selection_says_noise_and_sensitivity_in_rows(budget, neighbors):
    schema = Schema({"b": Boolean(nullable=True)})
    curator = Curator(pd.DataFrame({"b": [True]}), schema=schema, budget=budget, neighbors=neighbors)
    spend = {ZCDP: ZCDP(0.125)}.get(type(budget), PureDP(0.5))
    curator.select(halves(schema), spend=spend)
    (item,) = curator.receipt().items
    linf = curator.adjacency.sensitivity(halves(schema)).linf
    scale = 2 * linf / {ZCDP: 1.0}.get(type(budget), 0.5) / 4  # of e^(score / scale): rho = (2 linf / scale)^2 / 8
    spread = {ZCDP: np.pi / np.sqrt(6)}.get(type(budget), 1.0)
    assert (item.step, item.answers) == ("selection", 1)
    assert item.mechanism == {ZCDP: "exponential mechanism"}.get(type(budget), "noisy max")
    assert item.sensitivity == linf / 4
    assert item.stddev == pytest.approx(scale * spread)


def test_a_histogram_of_keys_and_a_watch_say_their_noise():
    table = pd.DataFrame({"p": ["a"] * 5, "who": range(5)})
    curator = Curator(table, budget=ApproxDP(2.0, 1e-6), privacy_unit="who", max_rows_per_unit=3)
    counts = curator.histogram(("p",), spend=ApproxDP(1.0, 1e-7))
    watch = curator.watch(("p",), max_alarms=4, spend=PureDP(0.5), alarm_share=0.75, queries=100)
    first, second = curator.receipt().items
    assert (first.step, first.answers, first.sensitivity) == ("frequent records", 1, 3.0)
    assert first.stddev == counts.plan.stddev
    assert first.stddev == pytest.approx(np.sqrt(2) * 3, rel=0.01)
    assert (second.step, second.answers, second.sensitivity) == ("watch", 4, 3.0)
    assert second.mechanism == "sparse vector with geometric noise; discrete Laplace"
    assert second.stddev == watch.plan.answer_stddev
    assert second.stddev == pytest.approx(np.sqrt(2) * 3 * 4 / (0.25 * 0.5), rel=1e-3)
    assert watch.plan == plan_watch(ApproxDP(0.5, 0.0), max_alarms=4, alarm_share=0.75, rows=3)
    assert watch.threshold == round(watch.plan.threshold_for(100) * 1024)


def test_the_default_of_a_watch_is_a_share_of_four_fifths_and_ten_thousand_queries():
    curator = Curator(pd.DataFrame({"p": ["a"]}), budget=PureDP(1.0))
    watch = curator.watch(("p",), max_alarms=2)
    assert watch.plan == plan_watch(PureDP(1.0), max_alarms=2, alarm_share=0.8)
    assert watch.threshold == round(watch.plan.threshold_for(10_000) * 1024)
    assert watch.plan.threshold_for(1) == watch.plan.query_scale / 1024


# The ledger


@pytest.mark.parametrize(("cap", "left"), [(ApproxDP(0.7, 1e-6), "0.2 of 0.7"), (ApproxDP(0.3, 1e-6), "0 of 0.3")])
def test_a_ledger_says_what_is_left_and_never_less_than_nothing(tmp_path, cap, left):
    book = Ledger(tmp_path / "l.sqlite")
    book.reserve("t", PureDP(0.5), what="x")
    book.set_cap("t", cap)
    with pytest.raises(
        BudgetExceededError, match=rf"spend ε = 0\.4 on data set 't', but only ε = {left} is left in ledger"
    ):
        book.reserve("t", PureDP(0.4), what="y")


def test_a_ledger_counts_delta_too(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", ApproxDP(1.0, 1e-6))
    book.reserve("t", ApproxDP(0.1, 7e-7), what="x")
    with pytest.raises(BudgetExceededError, match=r"spend δ = 5e-07 on data set 't', but only δ = 3e-07 of 1e-06"):
        book.reserve("t", ApproxDP(0.1, 5e-7), what="y")
    book.reserve("t", ApproxDP(0.9, 3e-7), what="z")


@pytest.mark.parametrize(
    ("cap", "spend", "name"), [(ZCDP(0.1), ZCDP(0.2), "ρ"), (GaussianDP(0.1), GaussianDP(0.2), "μ²")]
)
def test_a_ledger_names_what_it_counts(tmp_path, cap, spend, name):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", cap)
    with pytest.raises(BudgetExceededError, match=f"spend {name} = "):
        book.reserve("t", spend, what="x")


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, 2**62, -(2**53), -(2**53) - 1, -(2**63), 3])
def test_k_norm_noise_is_added_to_the_nearest_number_that_a_float_holds(monkeypatch, value):
    monkeypatch.setattr(linf_knorm, "draw", lambda dimension, *, scale, bits: [0] * dimension)
    clipped = max(-(2**53), min(value, 2**53))
    assert noise.linf_knorm(np.array([value, 0], np.int64), scale=1.0).tolist() == [clipped, 0]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.0, 1.5, math.nan])
@pytest.mark.parametrize("loss", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)])
def test_both_parts_of_a_watch_are_paid(loss, share):
    with pytest.raises(ParameterError, match=r"^alarm_share \(.*\) must be above 0 and below 1$"):
        plan_watch(loss, max_alarms=1, alarm_share=share)


@pytest.mark.parametrize("alarms", [0, -1, 1.0, True, "1", None])
def test_alarms_are_a_whole_number_of_at_least_one(alarms):
    with pytest.raises(ParameterError, match=r"^max_alarms \(.*\) must be a whole number of at least 1$"):
        plan_watch(PureDP(1.0), max_alarms=alarms, alarm_share=0.5)


# Numbers


@pytest.mark.parametrize("kind", [int, float, np.int64, np.float64])
def test_whole_numbers_of_any_type_are_taken(kind):
    cost = noise.laplace_threshold_cost(2, 1000, 500, scale=9.0, threshold=900)
    assert noise.laplace_threshold_cost(kind(2), kind(1000), kind(500), scale=9.0, threshold=kind(900)) == cost
    assert noise.laplace_epsilon(kind(700), scale=2.0) == 350.0
    assert noise.gaussian_scale(kind(700), rho=1.0) == noise.gaussian_scale(700, rho=1.0)
    assert noise.laplace_threshold({"a": kind(10**6)}, scale=1.0, threshold=kind(1000)).keys() == {"a"}
    assert NoiseEvent(kind="laplace", scale=1.0, sensitivity=kind(700), count=kind(300)).tabulated
    assert composition.basic(0.5, kind(300)) == 150.0
    assert accuracy.linf_knorm(kind(300), sensitivity=1.0, epsilon=1.0, beta=0.1) > 300


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.inf, math.nan])
@pytest.mark.parametrize("rule", composition.RULES)
def test_every_rule_of_composition_needs_a_positive_epsilon(rule, epsilon):
    with pytest.raises(ParameterError, match=r"^epsilon \(.*\) must be positive and finite$"):
        composition.RULES[rule](epsilon, 3, delta=1e-6)
    with pytest.raises(ParameterError, match=r"^epsilon \(.*\) must be positive and finite$"):
        composition.split(epsilon, 3, delta=1e-6, rule=rule)


@pytest.mark.parametrize("k", [0, -1, 1.5])
@pytest.mark.parametrize("rule", composition.RULES)
def test_every_rule_of_composition_needs_a_number_of_queries(rule, k):
    with pytest.raises(ParameterError, match=r"^k \(.*\) must be an integer of at least 1$"):
        composition.RULES[rule](0.5, k, delta=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-9, math.nan])
@pytest.mark.parametrize("rule", [rule for rule in composition.RULES if rule != "basic"])
def test_every_rule_but_basic_composition_needs_a_delta(rule, delta):
    with pytest.raises(ParameterError, match=r"^delta \(.*\) must be "):
        composition.RULES[rule](0.5, 3, delta=delta)


@pytest.mark.parametrize("rule", [rule for rule in composition.RULES if rule != "pld"])  # which takes seconds
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_part_of_a_budget_is_the_largest_whose_parts_fit(rule, epsilon):
    each = composition.split(epsilon, 20, delta=1e-6, rule=rule)
    assert composition.RULES[rule](each, 20, delta=1e-6) <= epsilon
    assert composition.RULES[rule](each * 1.001, 20, delta=1e-6) > epsilon


@pytest.mark.parametrize(("resolution", "unit"), [(1, 1), (8, 1), (1, 4), (16, 4)])
def test_answers_about_keys_are_in_rows(resolution, unit):
    plan = Calibration(Noise(law=NoiseLaw.GAUSSIAN, scale=48.0, k=3), resolution, 1.0)
    answers = KeyAnswers(values=np.array([-96, 0, 160]), unit=unit, plan=plan)
    assert answers.answers.tolist() == [value / resolution / unit for value in (-96, 0, 160)]
    assert answers.stddev == 48.0 / resolution / unit


def test_a_delta_that_the_lattice_nearly_uses_up_buys_no_epsilon():
    event = NoiseEvent(kind="gaussian", scale=40.0, sensitivity=4)
    used = 2 * accounting.rounded_gaussian_gap(40.0)
    assert accounting.pld_epsilon([event], used + 1e-13) == math.inf
    assert accounting.pld_epsilon([event], used + 0.9e-11) == math.inf
    assert accounting.pld_epsilon([event], 2 * used) < 1.0


rows_of_units = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12)


@given(rows_of_units, st.integers(1, 3))
def test_the_rows_of_a_unit_that_are_kept_have_its_smallest_hashes(rows, most):
    """The public rule, row by row: a hash of the unit, the row, and how often the same row came before."""
    owner, x, y = np.array(rows, np.int64).reshape(-1, 3).T
    units = {"x": x.astype(np.uint8), "y": y.astype(np.uint8)}
    kept = kept_rows([(units, Labels(["ann", "bob", "cy"], owner))], rows=most)
    zero = np.zeros(1, np.uint64)
    expected = []
    for number, name in enumerate(["ann", "bob", "cy"]):
        mine = [(a, b) for who, a, b in rows if who == number]
        hashed = []
        for i, (a, b) in enumerate(mine):
            row = _mix(zero, np.array([a]), np.array([b]))
            repeat = np.array([mine[:i].count((a, b))])
            hashed.append((int(_mix(np.array([_hash(f"str:{name}")], np.uint64), row, repeat)[0]), a, b))
        expected += [(a, b) for _, a, b in sorted(hashed)[:most]]
    assert sorted(zip(kept["x"].tolist(), kept["y"].tolist(), strict=True)) == sorted(expected)
