"""Borders, constants and records of the room's small parts, which larger tests pass by."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import itertools
import math
import pkgutil
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from no_noise import without_noise

import synthdp.curator
import synthdp.privacy
from synthdp import ZCDP, ApproxDP, Boolean, Curator, Ledger, PureDP, Schema
from synthdp.curator import ledger as ledger_module
from synthdp.curator.contribution import _mix
from synthdp.curator.discovery import _level_counts, _present
from synthdp.curator.private_table import _slabs
from synthdp.domain.discretize import domain_of
from synthdp.domain.encoder import LARGEST_WHOLE, Labels, Numbers
from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy import accounting, composition, linf_knorm, noise
from synthdp.privacy.above_threshold import AboveThresholdAnswer
from synthdp.privacy.accounting import NoiseEvent
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import components
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.explicit import CellQueries
from synthdp.queries.marginals import one_ways
from synthdp.queries.norms import Norms
from synthdp.schema.columns import Integer

STATEFUL = {"Account", "PrivateTable"}
RECORDS = [
    kind
    for package in (synthdp.privacy, synthdp.curator)
    for module in pkgutil.iter_modules(package.__path__)
    for kind in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()
    if dataclasses.is_dataclass(kind) and kind.__module__ == f"{package.__name__}.{module.name}"
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_what_is_no_state_cannot_be_changed_and_nothing_can_be_added(kind):
    assert kind.__dataclass_params__.frozen is (kind.__name__ not in STATEFUL)
    assert "__slots__" in vars(kind)


# Conversions


def test_a_delta_is_a_probability_also_where_every_order_fails():
    assert accounting.zcdp_to_delta(1e6, 0.0) == 1.0
    assert accounting.zcdp_to_delta(1e6, 1.0) == 1.0


def test_a_gaussian_vector_beyond_the_table_costs_as_the_normal_law_less_a_twelfth():
    event = NoiseEvent(kind="gaussian", scale=60.0, sensitivity=4, count=3, coordinates=1)
    mu = math.sqrt(3 * 4 / (60.0**2 - 1 / 12))
    gap = 3 * accounting.rounded_gaussian_gap(60.0)
    found = accounting.pld_epsilon([event], 1e-3)
    assert found == pytest.approx(accounting.gdp_to_epsilon(mu, 1e-3 - (1 + math.exp(found)) * gap), rel=1e-5)


# Saturation


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (2**63, 2**63 - 1),
        (2**63 - 1, 2**63 - 1),
        (2**70, 2**63 - 1),
        (-(2**63), -(2**63)),
        (-(2**63) - 1, -(2**63)),
        (5, 5),
    ],
)
def test_a_number_beyond_64_bits_is_the_nearest_that_fits(value, kept):
    assert noise._saturated(value) == kept


# The sampler's arithmetic


@given(x=st.fractions(0, 8, max_denominator=64), precision=st.integers(1, 12))
def test_bounds_of_an_exponential_hold_at_few_digits_too(x, precision):
    low, high = linf_knorm._exp_bounds(x, precision)
    with localcontext(prec=60):
        exact = (Decimal(x.numerator) / Decimal(x.denominator)).exp() * 2**precision
    assert low <= exact <= high


@given(
    dimension=st.integers(1, 4),
    scale=st.fractions(Fraction(1, 4), 9, max_denominator=16),
    at=st.integers(0, 30),
    mode=st.integers(0, 30),
    doublings=st.integers(0, 3),
)
def test_a_chance_is_the_weight_at_one_place_over_that_at_another(dimension, scale, at, mode, doublings):
    chance = linf_knorm._Chance.of(dimension, scale, at=at, mode=mode, doublings=doublings)
    assert (
        Fraction(chance.numerator, chance.denominator) == Fraction(2 * at + 1, 2 * mode + 1) ** dimension * 2**doublings
    )
    assert chance.exponent == Fraction(at - mode) / scale


@given(at=st.integers(0, 30), mode=st.integers(0, 30), precision=st.integers(1, 80))
def test_whole_numbers_around_a_chance_are_on_both_sides_of_it(at, mode, precision):
    chance = linf_knorm._Chance.of(2, Fraction(5, 2), at=at, mode=mode, doublings=1)
    low, high = chance._bounds(precision)
    with localcontext(prec=80):
        exact = (
            Decimal(chance.numerator)
            / Decimal(chance.denominator)
            * (Decimal(2 * (mode - at)) / 5).exp()
            * Decimal(2) ** precision
        )
    assert low <= exact <= high
    assert high - low <= 40 + high // 4


def test_hashes_of_rows_are_those_of_splitmix64():
    """The rule by which a unit's rows are kept is public and fixed: of another hash, other rows would be kept."""
    zero = np.zeros(1, np.uint64)
    assert int(_mix(zero, np.array([0]))[0]) == 0xE220A8397B1DCDAF
    first = _mix(zero, np.array([7]))
    assert _mix(zero, np.array([7]), np.array([9]))[0] == _mix(first, np.array([9]))[0]
    assert len({int(_mix(zero, np.array([a]), np.array([b]))[0]) for a in range(30) for b in range(30)}) == 900


# Levels


def test_whole_numbers_are_levels_up_to_the_largest_that_is_exact():
    levels = [LARGEST_WHOLE, -LARGEST_WHOLE, LARGEST_WHOLE + 1, -LARGEST_WHOLE - 1]
    raw = Labels(levels, np.array([0, 1, 2, 3, 3]))
    assert _level_counts(raw) == {str(LARGEST_WHOLE): 1, str(-LARGEST_WHOLE): 1}


# The noise that is the least


@pytest.mark.parametrize(("k", "l1", "summed"), [(50, 3, True), (10_000, 20_000, False)])
def test_composed_laplace_noise_is_the_lesser_of_two_and_says_whose_sensitivity(k, l1, summed):
    plan = calibrate(Norms.within(k, 2, l1=l1), ApproxDP(1.0, 1e-6), k=k, law=NoiseLaw.LAPLACE)
    by_sum = noise.laplace_scale(l1, epsilon=1.0)
    by_parts = noise.laplace_scale(2, epsilon=composition.split(1.0, k, delta=1e-6))
    assert (by_sum < by_parts) is summed
    assert (plan.noise.scale, plan.sensitivity) == ((by_sum, l1) if summed else (by_parts, 2))


# The ledger's records


def test_an_entry_is_what_was_written_of_it(tmp_path, monkeypatch):
    class Fixed(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(ledger_module.dt, "datetime", Fixed)
    book = Ledger(tmp_path / "l.sqlite")
    unit = Adjacency("add_remove", "person", 3)
    assert book.reserve("t", PureDP(0.5), what="one") == 1
    assert book.reserve("u", ApproxDP(1.0, 1e-9), what="two", adjacency=unit) == 2
    book.commit(2)
    moment = "2026-01-02T03:04:05+00:00"
    assert book.entries() == [
        ledger_module.Entry(1, "t", PureDP(0.5), "one", "reserved", moment, Adjacency()),
        ledger_module.Entry(2, "u", ApproxDP(1.0, 1e-9), "two", "committed", moment, unit),
    ]
    assert [entry.number for entry in book.entries("u")] == [2]


def test_an_account_is_committed_by_its_first_answer(tmp_path):
    schema = Schema({"n": Integer(0, 3)})
    path = tmp_path / "l.sqlite"
    curator = Curator(pd.DataFrame({"n": [1, 2]}), schema=schema, budget=PureDP(1.0), ledger=path)
    account = curator.open_account(PureDP(0.4))
    assert [(entry.what, entry.state) for entry in Ledger(path).entries()] == [("account", "reserved")]
    account.measure(one_ways(domain_of(schema)), spend=PureDP(0.1))
    assert [(entry.what, entry.state) for entry in Ledger(path).entries()] == [("account", "committed")]
    assert curator.receipt().entries == (1,)


# Where a rule ends


@pytest.mark.parametrize(
    ("spend", "currency", "inner"),
    [
        (ApproxDP(0.5, 0.0), None, PureDP(0.5)),
        (ApproxDP(0.5, 1e-7), ApproxDP, ApproxDP(0.5, 1e-7)),
        (PureDP(0.5), ZCDP, ApproxDP(0.5, 0.0)),
    ],
)
def test_an_account_keeps_a_currency_that_needs_no_conversion(spend, currency, inner):
    schema = Schema({"n": Integer(0, 3)})
    curator = Curator(pd.DataFrame({"n": [1, 2]}), schema=schema, budget=ApproxDP(1.0, 1e-6))
    assert components(curator.open_account(spend, currency=currency).budget) == components(inner)


def test_the_number_of_rows_is_known_before_anything_is_declared():
    schema = Schema({"n": Integer(), "b": Boolean()})
    table = pd.DataFrame({"n": [1, None, 2, 2], "b": [True, None, False, True]})
    assert Curator(table, schema=schema, budget=PureDP(1.0), neighbors="replace_one").rows == 4


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (Numbers(np.array([1.0, 2.0, np.nan, np.inf]), None), [1.0, 2.0]),
        (Numbers(np.array([1, 2, 3]), np.array([False, True, False])), [1.0, 3.0]),
        (Labels(["7", "no number"], np.array([0, 1, -1, 0])), [7.0, 7.0]),
    ],
    ids=["floats", "with a mask", "texts"],
)
def test_the_numbers_of_a_column_are_the_finite_ones_that_are_there(raw, found):
    assert _present(raw).tolist() == found


def test_one_sided_noise_is_the_first_draw_that_is_not_negative(monkeypatch):
    batches = [[-1, -2, -3], [-5, 4, 0], [9]]
    monkeypatch.setattr(noise, "discrete_laplace", lambda values, *, scale: np.array(batches.pop(0)))
    assert noise.geometric(scale=1.0) == 4
    assert batches == [[9]]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 7))
def test_slabs_hold_all_rows_in_order_and_each_about_so_many(sizes, rows):
    ends = np.cumsum([0, *sizes])
    blocks = [[np.arange(a, b), -np.arange(a, b)] for a, b in itertools.pairwise(ends)]
    slabs = list(_slabs(blocks, rows))
    assert np.concatenate([slab[0] for slab in slabs]).tolist() == list(range(ends[-1]))
    assert np.concatenate([slab[1] for slab in slabs]).tolist() == [-i for i in range(ends[-1])]
    assert all(rows <= len(slab[0]) < 2 * rows for slab in slabs[:-1])
    assert len(slabs[-1][0]) < 2 * rows


# What may be watched


def watched(values: list[int], unit: int):
    domain = domain_of(Schema({"b": Boolean()}))
    table = pd.DataFrame({"b": [True] * 6})
    watch = Curator(table, schema=Schema({"b": Boolean()}), budget=PureDP(1.0)).watch(
        ("b",), max_alarms=1, threshold=1.0
    )
    return watch.ask(CellQueries(domain, np.array([(values * domain.cells)[: domain.cells]]), unit), guess=0.0)


def test_a_watched_query_is_in_a_unit_that_divides_1024():
    with pytest.raises(ParameterError, match=r"unit of a watched query \(3\) must divide 1024"):
        watched([0, 3], 3)


def test_one_row_moves_a_watched_query_by_at_most_one():
    with pytest.raises(ParameterError, match="at most 1"):
        watched([0, 5], 4)


def test_a_watched_query_in_halves_is_counted_in_halves(monkeypatch):
    without_noise(monkeypatch)
    assert watched([0, 1], 2).count == 3.0


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
def test_the_bound_of_an_alarm_is_the_quantile_of_its_law(law):
    rng = np.random.default_rng(0)
    draws = {NoiseLaw.LAPLACE: rng.laplace(0, 3 / math.sqrt(2), 200_000), NoiseLaw.GAUSSIAN: rng.normal(0, 3, 200_000)}
    beyond = np.mean(np.abs(draws[law]) > AboveThresholdAnswer(10.0, 3.0, law).bound(beta=0.05))
    assert beyond == pytest.approx(0.05, abs=0.003)
