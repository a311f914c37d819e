"""Submodular queries: what is one, and answers and biases against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from silence import silence

from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.privacy.loss import ApproxDP
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema
from synthdp.works.polynomials.literal_queries import (
    SubmodularQuery,
    capped,
    concave_sum,
    coverage,
    submodular_error,
    symmetric,
)
from synthdp.works.polynomials.parity_release import ParityRelease

NAMES = [f"b{j}" for j in range(6)]
SCHEMA = Schema({name: Boolean() for name in NAMES})


def table(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.random((rows, 6)) < rng.uniform(0.1, 0.6, 6), columns=NAMES)


def truth(query: SubmodularQuery, frame: pd.DataFrame) -> float:
    total = np.zeros(len(frame))
    for block, weight in zip(query.blocks, query.weights, strict=True):
        true = sum((frame[name] == value).astype(int) for name, value in block.literals)
        total += weight * np.array(block.values)[true]
    return float(total.mean())


def literals(*places: int, value: bool = True) -> dict[str, bool]:
    return {NAMES[j]: value for j in places}


QUERIES = [
    coverage([literals(0, 1, 2), literals(2, 3), literals(1, 3, 4, 5)], [0.5, 0.2, 0.3]),
    coverage([literals(0, 1, value=False), literals(1, 2, 3, value=False)]),
    capped(literals(*range(6)), cap=2),
    capped(literals(0, 1, 2), cap=3),
    concave_sum([literals(0, 1, 2, 3), literals(2, 3, 4, 5)], math.sqrt, [2.0, 1.0]),
    concave_sum([literals(*range(5))], lambda true: true * (5 - true)),  # a cut: concave and not monotone
]


@pytest.mark.parametrize("query", QUERIES)
def test_each_true_literal_adds_no_more_to_a_larger_set_than_to_a_smaller(query):
    names = sorted({name for block in query.blocks for name, _ in block.literals})

    def value(true: frozenset[str]) -> float:
        counts = [sum(name in true for name, _ in block.literals) for block in query.blocks]
        parts = zip(query.weights, query.blocks, counts, strict=True)
        return sum(weight * block.values[count] for weight, block, count in parts)

    subsets = [frozenset(s) for size in range(len(names)) for s in itertools.combinations(names, size)]
    for small, large in itertools.product(subsets, subsets):
        for added in set(names) - large if small <= large else ():
            assert value(small | {added}) - value(small) >= value(large | {added}) - value(large) - 1e-12


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("query", QUERIES)
def test_without_noise_an_answer_is_off_by_no_more_than_its_stated_bias(monkeypatch, query, order):
    silence(monkeypatch)
    curator = Curator(table(), schema=SCHEMA, budget=ApproxDP(500.0, 1e-6), neighbors="replace_one")
    answer = ParityRelease(order=order).release(curator).output.answer(query)
    assert abs(float(answer) - truth(query, table())) <= answer.truncation_bound + 1e-6
    assert answer.truncation_bound <= 2 * max(1e-6, sum(query.weights) * max(max(b.values) for b in query.blocks))


@pytest.mark.parametrize("query", QUERIES[:4])
def test_with_parities_as_wide_as_the_blocks_the_answer_is_unbiased(monkeypatch, query):
    silence(monkeypatch)
    curator = Curator(table(), schema=SCHEMA, budget=ApproxDP(500.0, 1e-6), neighbors="replace_one")
    answer = ParityRelease(order=6).release(curator).output.answer(query)
    assert answer.truncation == pytest.approx(0, abs=1e-6)
    assert float(answer) == pytest.approx(truth(query, table()), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_standard_error_is_that_of_the_noise_where_blocks_share_parities(neighbors):
    """Two blocks that overlap in three columns; 40 releases, and a chi-square at less than one in a million."""
    query = concave_sum([literals(0, 1, 2, 3), literals(1, 2, 3, 4)], math.sqrt, [3.0, 2.0])
    frame, answers = table(300), []
    for _ in range(40):
        curator = Curator(frame, schema=SCHEMA, budget=ApproxDP(5.0, 1e-6), neighbors=neighbors)
        answers.append(ParityRelease(order=4).release(curator).output.answer(query))
    gaps = np.array([float(answer) - truth(query, frame) for answer in answers])
    ratio = float((gaps**2).sum() / sum(answer.stderr**2 for answer in answers))
    assert 0.25 < ratio < 2.7


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("k", "order"), [(3, 1), (4, 2), (6, 2), (8, 3), (8, 8)])
def test_no_query_of_the_class_has_a_larger_bias(k, order):
    rng = np.random.default_rng(0)
    bound = submodular_error(k, order)
    for _ in range(20):
        steps = -np.sort(-rng.exponential(1.0, k) * rng.integers(0, 2, k))
        values = np.concatenate([[0.0], np.cumsum(steps / max(steps.sum(), 1e-9))])
        K = np.array([[float(s**i) for i in range(order + 1)] for s in range(k + 1)])
        worst = np.abs(K @ np.linalg.lstsq(K, values, rcond=None)[0] - values).max()
        assert bound >= worst / (1 + math.sqrt(k + 1)) - 1e-7  # least squares against the best polynomial
    assert bound <= 0.5
    assert submodular_error(k, k) == pytest.approx(0, abs=1e-6)
    assert submodular_error(max(k - 1, order, 1), order) <= bound + 1e-7


@pytest.mark.landing
def test_the_bias_falls_with_the_order_and_rises_with_the_width():
    errors = {(k, t): submodular_error(k, t) for k in (3, 5, 8) for t in (1, 2, 4)}
    assert errors[3, 1] < errors[5, 1] < errors[8, 1]
    assert errors[8, 1] > errors[8, 2] > errors[8, 4]
    assert errors[8, 4] < 0.1


def test_what_is_no_submodular_query_is_refused():
    with pytest.raises(ParameterError, match="function"):
        concave_sum([literals(0, 1, 2)], lambda true: true**2)
    with pytest.raises(ParameterError, match="value"):
        coverage([literals(0, 1), literals(1, 2, value=False)])
    with pytest.raises(ParameterError, match="weights"):
        coverage([literals(0, 1)], [-1.0])
    with pytest.raises(ParameterError, match="weights"):
        coverage([literals(0), literals(1)], [1.0])
    with pytest.raises(ParameterError, match="weights"):
        coverage([])
    with pytest.raises(ParameterError, match="cap"):
        capped(literals(0, 1, 2), cap=4)
    curator = Curator(table(), schema=SCHEMA, budget=ApproxDP(1.0, 1e-6))
    released = ParityRelease(order=2).release(curator)
    with pytest.raises(ParameterError, match="evaluator"):
        released.output.answer(QUERIES[0], evaluator="interval")
    assert SubmodularQuery((symmetric(literals(0), [0, 1]),), (1.0,)).width == 1
