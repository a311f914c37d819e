"""Discovery as a whole: itemised, refused in time, and what becomes of columns of which nothing is found."""

from __future__ import annotations

import datetime as dt
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded, replayed, without_noise

from synthdp.curator import Curator
from synthdp.curator.discovery import Discovered
from synthdp.curator.discovery_forecast import expected
from synthdp.curator.noisy_ranges import PARTS
from synthdp.curator.noisy_values import MAGNITUDE_BINS
from synthdp.domain.grid import grid_of
from synthdp.errors import SchemaError
from synthdp.privacy.accounting import gdp_to_delta
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.calibration import THRESHOLDS_SHARE, gaussian_account
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP, combined, components
from synthdp.schema.columns import (
    DISCOVERED,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Duration,
    Identifier,
    Integer,
    Untyped,
    check_column,
)
from synthdp.schema.schema import Schema

BUDGET = ApproxDP(1.0, 1e-9)


def discovered(values, column, *, budget=BUDGET, **options):
    curator = Curator(pd.DataFrame({"x": values}), schema=Schema({"x": column}), budget=budget, **options)
    return curator.discover(spend=budget).schema["x"]


@pytest.mark.sampled
@pytest.mark.parametrize("column", [Integer(), Continuous(), Datetime(), Duration(), Datetime(resolution="D")])
@pytest.mark.parametrize("value", [2**62, -(2**62), 0, 1, -(10**17), 10**12])
def test_whatever_is_found_is_a_column_that_can_be_coded(monkeypatch, column, value):
    without_noise(monkeypatch)
    kinds = {Datetime: "datetime64[us]", Duration: "timedelta64[us]"}
    values = pd.Series(np.full(10_000, value)).astype(kinds.get(type(column), "int64"))
    found = discovered(values, column)
    check_column("x", found)
    assert grid_of(found).size > 1


NOTHING = [[None] * 3, [np.nan] * 3, [np.inf] * 3, ["text"] * 3, [7.0] * 3, []]


@pytest.mark.sampled
@pytest.mark.parametrize("values", NOTHING)
@pytest.mark.parametrize("column", [Continuous(), Integer(), Datetime(), Duration(), Date()])
def test_a_column_whose_range_noise_hides_is_left_out_and_nothing_is_invented(values, column):
    frame = pd.DataFrame({"x": pd.Series([*values, *[None] * (2000 - len(values))], dtype=object), "c": ["a"] * 2000})
    curator = Curator(frame, schema=Schema({"x": column, "c": Categorical()}), budget=BUDGET)
    found = curator.discover(spend=BUDGET)
    assert found.without_range == ("x",)
    assert found.schema.names == curator.schema.names == ("c",)


@pytest.mark.sampled
@pytest.mark.parametrize("values", NOTHING)
@pytest.mark.parametrize("column", [Continuous(), Integer(), Datetime(), Duration(), Date(), Categorical()])
def test_where_nothing_is_found_of_any_column_it_stays_as_one_that_can_be_coded(values, column):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    found = Curator(frame, schema=Schema({"x": column}), budget=BUDGET).discover(spend=BUDGET)
    assert found.hidden == found.schema.names == ("x",)
    assert found.columns == found.notes == ()
    assert found.schema["x"].is_complete
    assert grid_of(found.schema["x"]).size > 0
    assert found.schema == Curator(frame[:0], schema=Schema({"x": column}), budget=BUDGET).discover(spend=BUDGET).schema


def test_a_hidden_column_stays_if_what_follows_cannot_do_without_it():
    frame = pd.DataFrame({"x": [None] * 2000, "y": [None] * 2000, "c": ["a"] * 2000})
    schema = Schema({"x": Continuous(), "y": Integer(), "c": Categorical()})
    found = Curator(frame, schema=schema, budget=BUDGET).discover(spend=BUDGET, takes=lambda rest: "y" in rest)
    assert found.schema.names == ("y", "c")
    assert found.without_range == ("x", "y")
    assert found.columns == ("c",)


def test_a_column_without_frequent_values_is_named_for_a_hint():
    frame = pd.DataFrame({"note": [f"note {i}" for i in range(500)], "city": ["a"] * 500})
    curator = Curator(frame, schema=Schema({"note": Categorical(), "city": Categorical()}), budget=BUDGET)
    found = curator.discover(spend=BUDGET)
    assert found.without_levels == ("note",)
    assert found.schema == Schema({"city": Categorical(("a",), source=DISCOVERED)})


def test_discovery_is_itemised_and_spends_what_it_says():
    frame = pd.DataFrame({"n": 1000 + np.arange(100).repeat(100), "c": pd.array(["a"] * 10_000, dtype="string")})
    curator = Curator(frame, budget=ApproxDP(1.0, 1e-6))
    spend = ApproxDP(0.5, 1e-7)
    curator.discover(spend=spend)
    items = curator.receipt().items
    assert list(dict.fromkeys(item.step for item in items)) == [  # one look at bounds or two
        "discovered range: n", "discovered bounds: n", "discovered digits: n", "discovered levels: c"
    ]  # fmt: skip
    together = combined([item.loss for item in items])
    whole = gaussian_account(spend, thresholds=THRESHOLDS_SHARE)
    assert together.delta == pytest.approx(THRESHOLDS_SHARE * 1e-7)
    assert 0.8 * whole.mu**2 <= together.mu**2 <= whole.mu**2 * (1 + 1e-12)
    assert gdp_to_delta(together.mu, 0.5) + together.delta <= 1e-7
    assert curator.remaining == ApproxDP(0.5, 9e-7)


def test_what_a_gaussian_account_does_not_need_for_discovery_is_left_in_it():
    frame = pd.DataFrame({"n": [None] * 500, "c": ["a"] * 500})
    account = Curator(frame, schema=Schema({"n": Continuous(), "c": Categorical()}), budget=GaussianDP(1.0, 1e-9))
    account.discover(spend=GaussianDP(0.6, 1e-9))
    assert components(account.remaining) == (pytest.approx(1 - 0.36 / 2 - 0.36 / 2 * 0.5), 0.0)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_noise_is_asked_alike_on_neighbours(monkeypatch, neighbors):
    """R8: what one row holds changes no scale, no number of answers and no order."""
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=i % 100) for i in range(10_000)]
    frame = pd.DataFrame({"n": np.arange(10_000.0), "c": ["a", "b"] * 5000, "o": pd.Series(days, dtype=object)})
    ask = lambda table: Curator(table, budget=BUDGET, neighbors=neighbors).discover(spend=BUDGET)  # noqa: E731
    first = recorded(monkeypatch)
    found = ask(frame)
    monkeypatch.undo()
    second = replayed(monkeypatch, first)
    hostile = pd.Series([["canary"], *days[1:]], dtype=object)
    other = frame.assign(n=frame["n"].where(frame.index > 0, 1e300), c=["canary", *frame["c"][1:]], o=hostile)
    assert ask(other) == found
    assert second.draws == first.draws


def test_discovery_is_refused_before_it_spends():
    frame = pd.DataFrame({"n": [1], "c": ["a"]})
    with pytest.raises(
        SchemaError,
        match=r"'c'.*delta",
    ):
        Curator(frame, budget=PureDP(1.0)).discover(spend=PureDP(1.0))
    with pytest.raises(
        SchemaError,
        match="discover",
    ):
        Curator(frame, schema=Schema({"n": Integer(0, 1)}), budget=BUDGET).discover(spend=BUDGET)
    for loss in (ZCDP(1.0), GaussianDP(1.0), ApproxDP(1.0, 0.0)):
        curator = Curator(frame, budget=loss)
        with pytest.raises(SchemaError, match="'c'"):
            curator.discover(spend=loss)
        assert curator.remaining == loss


def test_identifiers_need_no_discovery():
    assert Schema({"id": Identifier()}).undeclared == ()


def test_how_many_rows_there_are_is_known_from_what_was_found(monkeypatch):
    without_noise(monkeypatch)
    frame = pd.DataFrame({"n": np.arange(4000) % 90, "c": ["a", "b"] * 2000})
    curator = Curator(frame, budget=BUDGET)
    assert curator.about_rows == 0
    found = curator.discover(spend=BUDGET)
    assert 3500 <= found.rows <= 4000
    assert curator.about_rows == found.rows
    assert 0 < found.least < 500


@pytest.mark.parametrize(("epsilon", "coarse"), [(0.02, True), (20.0, False)])
def test_a_table_is_called_coarse_where_noise_hides_what_many_rows_hold(epsilon, coarse):
    frame = pd.DataFrame({"n": np.arange(4000) % 90, "c": ["a", "b"] * 2000})
    budget = ApproxDP(epsilon, 1e-9)
    assert Curator(frame, budget=budget).discover(spend=budget).is_coarse == coarse


FORECAST = {
    "labels": {"c": Categorical()},
    "numbers": {"n": Integer()},
    "labels of no declared type": {"u": Untyped()},
    "several": {"c": Categorical(), "n": Integer(), "u": Untyped()},
}


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("columns", FORECAST.values(), ids=FORECAST)
def test_the_forecast_is_the_noise_of_the_discovery_that_follows(monkeypatch, columns, neighbors):
    """And the number of rows, where it is private, is counted for the documented share of the budget."""
    without_noise(monkeypatch)
    texts = pd.Series(["a", "b"] * 2000, dtype=object)
    frame = pd.DataFrame({"n": np.arange(4000) % 90, "c": texts, "u": texts})[list(columns)]
    schema, budget = Schema(columns), GaussianDP(1.0, 1e-9)
    curators = [Curator(frame, schema=schema, budget=budget, neighbors=neighbors) for _ in range(2)]
    careful, plain = (one.discover(spend=budget, careful=i == 0) for i, one in enumerate(curators))
    forecast = expected(schema, curators[0].adjacency, budget, rows=4000.0)
    assert forecast.least == pytest.approx(plain.least)
    assert (forecast.rows, forecast.columns) == (4000.0, ())
    counted = neighbors == "add_remove"
    assert careful.least == pytest.approx(plain.least / (1 - COUNT_SHARE * counted) ** 0.5, rel=0.01)
    steps = [item.step for item in curators[0].receipt().items]
    assert steps.count("discovered number of rows") == counted
    assert curators[0].charges == curators[1].charges + counted


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("epsilon", [0.02, 2.0])
def test_a_careful_discovery_stops_where_its_noise_would_hide_many_rows(monkeypatch, epsilon, neighbors):
    without_noise(monkeypatch)
    frame = pd.DataFrame({"n": np.arange(4000) % 90, "m": np.arange(4000) % 7})
    budget = PureDP(epsilon)
    schema = Schema({"n": Integer(), "m": Integer()})
    curator = Curator(frame, schema=schema, budget=budget, neighbors=neighbors)
    found = curator.discover(spend=budget, careful=True)
    assert found.rows == pytest.approx(4000, abs=1 if epsilon < 1 else 500)
    assert found.is_coarse == (epsilon < 1) == (found.columns == ())
    assert curator.schema.undeclared == (("n", "m") if epsilon < 1 else ())
    assert [item.step for item in curator.receipt().items] == (
        ["discovered number of rows"] * (neighbors == "add_remove") if epsilon < 1 else mock.ANY
    )


@pytest.mark.parametrize(("hidden", "coarse"), [(0.5, True), (0.1, True), (0.07, False), (0.01, False)])
def test_a_discovery_is_coarse_if_its_noise_hides_what_a_tenth_of_the_rows_hold(hidden, coarse):
    assert Discovered(Schema({"x": Integer()}), (), rows=1000.0, least=1000 * hidden).is_coarse == coarse


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_each_histogram_states_all_its_bins_and_what_a_row_moves_in_them(monkeypatch, neighbors):
    """A replaced row leaves one bin and enters another one."""
    without_noise(monkeypatch)
    values = pd.DataFrame({"x": 1000 + np.arange(0, 90, 0.5).repeat(50)})
    curator = Curator(values, schema=Schema({"x": Continuous()}), budget=PureDP(100.0), neighbors=neighbors)
    curator.discover(spend=PureDP(100.0))
    first, *between, last = curator.receipt().items
    assert first.answers == MAGNITUDE_BINS
    assert last.answers == len(Continuous().spacings()) + 2  # zero, and numbers that no spacing divides
    assert {item.answers for item in between} <= {PARTS, 2 * PARTS}
    assert {item.sensitivity for item in (first, *between, last)} == {1.0 if neighbors == "add_remove" else 2.0}
