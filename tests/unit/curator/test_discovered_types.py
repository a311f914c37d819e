"""Types of columns of objects that discovery finds."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from synthdp.curator import Curator
from synthdp.privacy import noise
from synthdp.privacy.accounting import gdp_to_delta
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import ApproxDP, combined
from synthdp.privacy.neighbors import Adjacency
from synthdp.schema.columns import (
    Categorical,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Duration,
    Integer,
    Time,
)
from synthdp.schema.schema import Schema

cells = st.one_of(st.integers(-5, 5), st.floats(), st.booleans(), st.text(max_size=1))


def drawn(low: int, high: int) -> list[int]:
    return np.random.default_rng(5).integers(low, high, 3000).tolist()


OBJECTS = {
    "dates": ([dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in drawn(0, 400)], Date),
    "moments": ([dt.datetime(2020, 1, 1) + dt.timedelta(hours=i) for i in drawn(0, 400)], Datetime),  # noqa: DTZ001
    "times of day": ([dt.time(i) for i in drawn(0, 24)], Time),
    "lengths": ([dt.timedelta(minutes=i) for i in drawn(1, 400)], Duration),
    "decimals": ([decimal.Decimal(i) / 4 for i in drawn(1, 400)], Decimal),
    "whole numbers": (drawn(1, 400), Integer),
    "whole and real numbers": ([*drawn(1, 400), *(i / 4 for i in drawn(1, 400))], Continuous),
    "whole numbers and decimals": ([*drawn(1, 400), *(decimal.Decimal(i) / 4 for i in drawn(1, 400))], Decimal),
    "numbers and texts": ([1, "a"] * 1500, Categorical),
    "days and moments": ([dt.date(2020, 1, 2), dt.datetime(2020, 5, 1, 13)] * 1500, Datetime),  # noqa: DTZ001
    "texts": (["a", "b"] * 1500, Categorical),
    "dates, and one text": ([dt.date(2020, 1, 1)] * 1500 + [dt.date(2020, 9, 1)] * 1500 + ["canary"], Date),
}


def of_objects(values, budget=ApproxDP(20.0, 1e-6), **options):  # noqa: B008
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object), "y": pd.Series([True] * len(values), dtype=object)})
    curator = Curator(frame, budget=budget, **options)
    return curator.discover(spend=budget).schema.get("x"), curator.receipt().items


@pytest.mark.parametrize(("values", "kind"), OBJECTS.values(), ids=OBJECTS)
def test_what_objects_are_is_found_before_what_they_may_be(values, kind):
    found, items = of_objects(values)
    assert type(found) is kind
    assert found.is_complete
    assert found.nullable
    together = combined([item.loss for item in items])
    assert gdp_to_delta(together.mu, 20.0) + together.delta <= 1e-6 * (1 + 1e-9)
    schema = Schema({"x": found})
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("values", [[[1], [2]] * 1500, [None] * 3000])
def test_objects_that_are_neither_levels_nor_quantities_are_left_out(values):
    assert of_objects(values)[0] is None


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_what_one_object_is_moves_the_histogram_by_no_more_than_the_item_says(monkeypatch, neighbors):
    cells = ["a", None, 1, 2.5, dt.date(2020, 1, 1), dt.time(3), decimal.Decimal("1.5"), [1], pd.NaT, object()]
    base = [(), ("b",), (dt.date(2021, 1, 1),)]
    pairs = {
        "add_remove": [(table, (*table, cell)) for table in base for cell in cells],
        "replace_one": [
            pair for table in base for pair in itertools.combinations([(*table, cell) for cell in cells], 2)
        ],
    }[neighbors]

    def first(values):
        asked = []
        monkeypatch.setattr(noise, "discrete_gaussian", lambda counts, **_: (asked.append(counts.copy()), counts)[1])
        monkeypatch.setattr(noise, "gaussian_threshold", lambda _, **__: {'"a"': 1})
        items = of_objects(values, ApproxDP(1.0, 1e-6), neighbors=neighbors)[1]
        return asked[0] // calibrate(Adjacency(neighbors).histogram, items[0].loss, k=6).resolution, items[
            0
        ].sensitivity

    sensitivity = first(("b",))[1]
    counts = {id(table): first(table)[0] for pair in pairs for table in pair}
    moved = [np.square(counts[id(one)] - counts[id(two)]).sum() for one, two in pairs]
    assert max(moved) == pytest.approx(sensitivity**2)


def test_decimals_of_objects_have_the_digits_that_are_found():
    assert of_objects(OBJECTS["decimals"][0])[0].decimals == 2
    hundreds = [decimal.Decimal(i) * 100 for i in drawn(1, 400)]
    assert of_objects(hundreds)[0].decimals == 0
