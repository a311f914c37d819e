"""Answers from parities and decision lists scatter as their standard errors say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from synthdp import ApproxDP, Boolean, Curator, PureDP, Schema
from synthdp.works.polynomials.decision_list_release import DecisionListRelease
from synthdp.works.polynomials.decision_lists import decision_list_columns, decision_list_schema
from synthdp.works.polynomials.literal_queries import conjunction
from synthdp.works.polynomials.monomial_release import MonomialRelease
from synthdp.works.polynomials.parity_release import ParityRelease

pytestmark = pytest.mark.slow

TIMES, P = 1000, 1e-9
SCHEMA = Schema({f"b{j}": Boolean() for j in range(4)})
FRAME = pd.DataFrame(np.random.default_rng(0).random((4000, 4)) < 0.5, columns=list(SCHEMA))
QUERY = conjunction({"b0": 1, "b1": 0, "b3": 1})
LISTS = decision_list_schema(["a", "b", "c"], length=2)
ROWS = pd.DataFrame(
    decision_list_columns(["if a: no; elif not c: yes; else no", "if b: yes; else no"] * 2000, length=2)
)


def agrees(scores: np.ndarray) -> bool:
    """Whether the scores look like standard normal ones, by the sum of their squares."""
    low, high = chi2.ppf([P / 2, 1 - P / 2], len(scores))
    return bool(low < (scores**2).sum() < high)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("mechanism", [ParityRelease(3), ParityRelease(3, "uniform"), MonomialRelease(3)])
def test_parity_answers_scatter_as_stated(mechanism, neighbors):
    truth = float((FRAME.b0 & ~FRAME.b1 & FRAME.b3).mean())
    scores = []
    for _ in range(TIMES):
        curator = Curator(FRAME, schema=SCHEMA, budget=ApproxDP(1.0, 1e-6), neighbors=neighbors)
        answer = mechanism.release(curator).output.answer(QUERY)
        scores.append((float(answer) - truth) / answer.stderr)
    assert agrees(np.array(scores))
    assert not agrees(np.array(scores) * 1.3)
    assert not agrees(np.array(scores) / 1.3)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_decision_list_answers_scatter_as_stated(neighbors):
    scores = []
    for _ in range(TIMES):
        curator = Curator(ROWS, schema=LISTS, budget=ApproxDP(1.0, 1e-6), neighbors=neighbors)
        answer = DecisionListRelease(2, 2).release(curator).output.answer({"a": 0, "b": 0, "c": 0})
        scores.append((float(answer) - 0.5) / answer.stderr)
    assert agrees(np.array(scores))
    assert not agrees(np.array(scores) * 1.3)
    assert not agrees(np.array(scores) / 1.3)


def test_brackets_hold_as_often_as_they_say_under_pure_noise():
    truth = float((FRAME.b0 & ~FRAME.b1 & FRAME.b3).mean())
    inside = 0
    for _ in range(300):
        curator = Curator(FRAME, schema=SCHEMA, budget=PureDP(1.0), neighbors="replace_one")
        bracket = ParityRelease(2).release(curator).output.answer(QUERY, evaluator="interval", confidence=0.5)
        inside += bracket.lower <= truth <= bracket.upper
    assert inside > 300 * 0.5 - 6 * np.sqrt(300 * 0.25)
