"""The sparse vector's alarms against their exact probability: the right scale passes, one 30 % off fails, at p = 1e-9."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, chisquare

from synthdp import Curator, PureDP
from synthdp.privacy import noise
from synthdp.queries.supports import DENOMINATOR, KeyList

P = 1e-9
TABLES = {name: pd.DataFrame({"p": [f"id{i}" for i in range(n)]}) for name, n in (("with", 21), ("without", 20))}


def geometric_probabilities(scale, reach):
    weights = np.exp(-np.arange(reach) / scale)
    return weights / weights.sum()


@pytest.mark.landing
@pytest.mark.parametrize("scale", [0.7, pytest.param(4.0, marks=pytest.mark.slow)])
def test_one_sided_noise_is_geometric_and_of_no_other_scale(scale):
    draws = np.array(
        [noise.geometric(scale=scale) for _ in range(3_500)]
    )  # a wrong law passes with a chance below 1e-7
    reach = max(3, int(4 * scale))

    def p_value(of):
        expected = geometric_probabilities(of, 4000)
        expected = np.append(expected[:reach], expected[reach:].sum())
        observed = np.append(np.bincount(draws, minlength=reach)[:reach], (draws >= reach).sum())
        return chisquare(observed, expected * len(draws)).pvalue

    assert draws.min() >= 0
    assert p_value(scale) > P
    assert p_value(1.3 * scale) < P
    assert p_value(scale / 1.3) < P


def alarm_probability(deviation, threshold, plan, factor=1.0):
    """P(deviation + Geo(query) >= threshold + Geo(level)), in 1024ths of a row, both scales times a factor."""
    level, query = plan.level_scale * factor, plan.query_scale * factor
    z = np.arange(int(60 * level))
    weights = np.exp(-z / level)
    above = np.minimum(1.0, np.exp(-(threshold + z - deviation) / query))
    return float(weights @ above / weights.sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_alarms_on_neighbouring_tables_are_as_frequent_as_the_law_says(name):
    table = TABLES[name]
    query = KeyList.of(("p",), [f"id{i}" for i in range(30)]).support()
    runs, alarms, plan = 6_000, 0, None
    for _ in range(runs):
        watch = Curator(table, budget=PureDP(1.0)).watch(("p",), max_alarms=1, threshold=12.0)
        alarms += watch.ask(query, guess=17.0) is not None
        plan = watch.plan
    deviation = (len(table) - 17) * DENOMINATOR
    expected = alarm_probability(deviation, 12 * DENOMINATOR, plan)
    assert binomtest(alarms, runs, expected).pvalue > P
    for factor in (1.3, 1 / 1.3):
        assert binomtest(alarms, runs, alarm_probability(deviation, 12 * DENOMINATOR, plan, factor)).pvalue < P


def test_neighbouring_alarm_probabilities_are_within_their_epsilon():
    plan = Curator(TABLES["with"], budget=PureDP(1.0)).watch(("p",), max_alarms=1).plan
    odds = [alarm_probability((n - 17) * DENOMINATOR, 12 * DENOMINATOR, plan) for n in (20, 21)]
    assert 0.1 < math.log(odds[1] / odds[0]) < 0.8
