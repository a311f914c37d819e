"""Periods of a parent row's rows: independent draws in order, so that several rows begin earlier than one."""

import itertools
from collections import Counter

import numpy as np
import pytest

import synthdp as sd
from synthdp.distribution.history_model import Conditional, Histories
from synthdp.domain.histories import Layout
from synthdp.sampling.possible_rules import evenly

SHARES = np.array([0.1, 0.4, 0.2, 0.3])
SCHEMA = sd.DatabaseSchema(
    {"persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}), "rows": sd.Schema({"time": sd.Ordinal([*"abcd"])})},
    [sd.Relation("persons", "rows", key="id", at_most=3, order="time")],
)


def histories(many: int, independent: float) -> Histories:
    """Persons with ``many`` rows each, whose periods have `SHARES` and nothing to do with each other."""
    layout = Layout(SCHEMA)
    conditionals = dict(evenly(layout).histories.conditionals)
    for (table, name), one in conditionals.items():
        if name == "#rows":
            base = np.where(np.arange(one.base.shape[1]) == many, 0.0, -50.0)[None]
        elif name == "time":
            base = np.log(np.append(SHARES, [1e-20] * (one.base.shape[1] - len(SHARES))))[None]
        else:
            continue
        conditionals[table, name] = Conditional(table, name, base, independent=independent if name == "time" else 0.0)
    return Histories(layout, conditionals)


@pytest.mark.parametrize("many", [1, 2, 3])
def test_periods_have_the_law_of_independent_draws_in_order(many: int) -> None:
    persons = 40_000
    rows = histories(many, 1.0).draw(persons, np.random.default_rng(many)).tables[1]
    drawn = Counter(map(tuple, rows["time"].reshape(-1, many).tolist()))
    wanted: Counter[tuple[int, ...]] = Counter()
    for cells in itertools.product(range(4), repeat=many):
        wanted[tuple(sorted(cells))] += SHARES[list(cells)].prod() * persons
    assert set(drawn) <= set(wanted)
    for cells, expected in wanted.items():
        assert abs(drawn[cells] - expected) < 5 * np.sqrt(expected), cells


def test_a_first_period_does_not_depend_on_the_number_of_rows_where_none_are_independent() -> None:
    rows = histories(3, 0.0).draw(40_000, np.random.default_rng(0)).tables[1]
    first = np.bincount(rows["time"].reshape(-1, 3)[:, 0], minlength=4) / 40_000
    np.testing.assert_allclose(first, SHARES, atol=0.015)


@pytest.mark.parametrize("many", [2, 3])
def test_the_less_rows_are_independent_the_later_is_the_first(many: int) -> None:
    means = []
    for independent in (0.0, 0.25, 0.5, 0.75, 1.0):
        rows = histories(many, independent).draw(20_000, np.random.default_rng(0)).tables[1]
        periods = rows["time"].reshape(-1, many)
        assert (np.diff(periods, axis=1) >= 0).all()
        means.append(periods[:, 0].mean())
    assert (np.diff(means) < -0.05).all()
