"""The general algorithm on families of polynomials: exact without noise, exact norms, and its instances agree."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp import (
    AverageFamily,
    Boolean,
    Categorical,
    Curator,
    DecisionListRelease,
    ListFamily,
    ParityRelease,
    PolynomialRelease,
    PureDP,
    Schema,
    SymmetricFamily,
    TabulatedFamily,
    conjunction,
    disjunction,
    r_of_k,
)
from synthdp.domain.domain import domain_of
from synthdp.errors import ParameterError
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.works.polynomials.binarized import binarize
from synthdp.works.polynomials.decision_list_release import plan_at
from synthdp.works.polynomials.decision_lists import DecisionList, decision_list_columns, decision_list_schema
from synthdp.works.polynomials.literal_queries import SymmetricQuery
from synthdp.works.polynomials.polynomial_families import symmetric_degree
from synthdp.works.polynomials.polynomial_release import paper_rows, provable_rows

NAMES = ["a", "b", "c", "d"]
SCHEMA = Schema({name: Boolean() for name in NAMES})
TABLE = pd.DataFrame(np.random.default_rng(3).random((200, 4)) < [0.9, 0.7, 0.5, 0.3], columns=NAMES)
BITS = binarize(SCHEMA)
BOTH = ["add_remove", "replace_one"]


def release(family, monkeypatch, table=TABLE, schema=SCHEMA, neighbors="replace_one"):
    without_noise(monkeypatch)
    curator = Curator(table, schema=schema, budget=PureDP(1.0), neighbors=neighbors)
    return PolynomialRelease(family).release(curator)


COLORS = Schema({"color": Categorical(["red", "green", "blue"])})
COLOR_DOMAIN = domain_of(COLORS)
FUNCTIONS = np.random.default_rng(4).random((COLOR_DOMAIN.cells, 8))
DRAWN = pd.DataFrame({"color": ["red"] * 50 + ["green"] * 30 + ["blue"] * 20})


def asked(variables):
    return [dict(zip(variables, bits[::-1], strict=True)) for bits in itertools.product((0, 1), repeat=len(variables))]


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_any_functions_are_answered_within_their_polynomials_error(order, neighbors, monkeypatch):
    family = TabulatedFamily(COLOR_DOMAIN, ("p", "q", "r"), FUNCTIONS, order)
    answer = release(family, monkeypatch, DRAWN, COLORS, neighbors).output.answer(asked(family.variables))
    truth = (0.5 * FUNCTIONS[0] + 0.3 * FUNCTIONS[1] + 0.2 * FUNCTIONS[2]).astype(float)
    assert np.abs(answer.estimate - truth).max() <= family.error + 1e-9
    np.testing.assert_array_equal(answer.truncation_bound, family.error)


def test_functions_at_full_order_have_no_error_but_rounding():
    assert TabulatedFamily(COLOR_DOMAIN, ("p", "q", "r"), FUNCTIONS, 3).error < 1e-3


@pytest.mark.parametrize(
    "query", [conjunction({"a": 1, "b": 0}), disjunction({"c": 1, "d": 1}), r_of_k(dict.fromkeys("abd", 1), r=2)]
)
def test_symmetric_queries_are_a_family(query, monkeypatch):
    found = release(SymmetricFamily(BITS, 3, 4), monkeypatch).output.answer(query)
    curator = Curator(TABLE, schema=SCHEMA, budget=PureDP(1.0), neighbors="replace_one")
    assert float(found) == pytest.approx(
        float(ParityRelease(3, weights="uniform").release(curator).output.answer(query))
    )
    assert float(found.stderr) > 0


@pytest.mark.landing
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_error_of_every_symmetric_query_is_within_its_own_bound(order, monkeypatch):
    """All 0/1 functions of how many of four literals hold, on rows of every kind: the bound holds and is reached."""
    queries = [
        SymmetricQuery(tuple(dict.fromkeys(NAMES, 1).items()), values)
        for values in itertools.product((0.0, 1.0), repeat=5)
    ]
    worst = np.zeros(len(queries))
    for true in range(5):
        table = pd.DataFrame([[i < true for i in range(4)]] * 50, columns=NAMES)
        found = release(SymmetricFamily(BITS, order, 4), monkeypatch, table).output.answer(queries)
        gap = np.abs(np.asarray(found.raw) - [query.values[true] for query in queries])
        assert (gap <= np.asarray(found.truncation_bound) + 1e-9).all()
        worst = np.maximum(worst, gap)
    np.testing.assert_allclose(worst, found.truncation_bound, atol=1e-6)


def test_a_symmetric_query_may_have_any_values(monkeypatch):
    many = SymmetricQuery((("a", 1), ("b", 1)), (0.0, 1.0, 2.0))  # how many of two bits are 1
    found = release(SymmetricFamily(BITS, 2, 4), monkeypatch).output.answer(many)
    assert float(found) == pytest.approx(TABLE["a"].mean() + TABLE["b"].mean())
    assert float(found) > 1


def test_decision_lists_are_a_family(monkeypatch):
    variables, text = ("x", "y", "z"), ["if x: no; elif not y: yes; else no", "else yes", "if z: yes; else no"] * 20
    schema = decision_list_schema(variables, length=2)
    plan = plan_at(variables, 2, 2, Adjacency(Neighbors.REPLACE_ONE), PureDP(1.0))
    table = pd.DataFrame(decision_list_columns(text, length=2))
    found = release(ListFamily(variables, plan.statistic, plan.error), monkeypatch, table, schema).output.answer(
        asked(variables)
    )
    truth = [np.mean([DecisionList.parse(one)(values) for one in text]) for values in asked(variables)]
    np.testing.assert_allclose(found.estimate, truth, atol=1e-4)
    curator = Curator(table, schema=schema, budget=PureDP(1.0), neighbors="replace_one")
    same = DecisionListRelease(2, 2).release(curator).output.answer(asked(variables))
    np.testing.assert_allclose(found.estimate, same.estimate, atol=1e-6)


def sets_of_bits():
    return [chosen for size in range(1, 5) for chosen in itertools.combinations(NAMES, size)]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_average_learner_is_off_by_its_root_mean_square_at_most_over_its_queries(order, monkeypatch):
    """Over all sets of bits with their chances; the empty set has the answer 1, which no query asks."""
    family = AverageFamily(BITS, order, 2.0)
    found = release(family, monkeypatch)
    squares, weight = 0.0, 0.0
    for chosen in sets_of_bits():
        chance = 0.5**4
        error = float(found.output.measured.answers @ family.monomials(conjunction(dict.fromkeys(chosen, 1)))) / 200
        squares += chance * (error - TABLE[list(chosen)].all(axis=1).mean()) ** 2
        weight += chance
    assert math.sqrt(squares) <= family.error + 1e-3
    assert found.output.answer(conjunction({"a": 1})).truncation_bound is None


@pytest.mark.parametrize("order", [1, 3])
def test_the_norms_of_the_average_learner_are_those_of_all_rows(order):
    statistic = AverageFamily(BITS, order, 1.2).statistic
    codes = np.array(list(itertools.product((0, 1), repeat=4)))
    features = statistic.features(codes)
    one, swap = statistic.bounds.one, statistic.bounds.swap
    assert (one.l1, one.linf) == (np.abs(features).sum(axis=1).max(), np.abs(features).max())
    assert one.l2_squared == (features**2).sum(axis=1).max()
    changes = features[:, None] - features[None]
    assert np.abs(changes).sum(axis=2).max() <= swap.l1
    assert (changes**2).sum(axis=2).max() <= swap.l2_squared
    assert np.abs(changes).max() <= swap.linf
    np.testing.assert_array_equal(statistic.sums(codes), features.sum(axis=0))


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("r", "degree"), [(1, 6), (2, 9), (4, 12), (8, 15)])
def test_the_degrees_of_r_of_sixteen(r, degree):
    values = (0.0,) * r + (1.0,) * (17 - r)
    assert symmetric_degree(values, error=0.1) == degree


def test_the_rows_of_the_paper_are_the_provable_ones_at_half_the_error_for_the_bias():
    assert paper_rows(100, 1.2, error=0.1, epsilon=1.0) == pytest.approx(
        4 * 1.2 * 100**2 * math.log(100 / 0.05) / (1.0 * 0.1)
    )
    provable = provable_rows(100, 1.2, error=0.1, bias=0.0, epsilon=1.0)
    assert paper_rows(100, 1.2, error=0.1, epsilon=1.0) == pytest.approx(2 * provable)
    with pytest.raises(ParameterError, match="bias"):
        provable_rows(10, 1.0, error=0.1, bias=0.1, epsilon=1.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PolynomialRelease("a family"), "family.*str"),
        (lambda: TabulatedFamily(COLOR_DOMAIN, ("p",), FUNCTIONS, 1), "functions.*shape"),
        (lambda: TabulatedFamily(COLOR_DOMAIN, ("p", "q", "r"), FUNCTIONS + 1, 1), "functions"),
        (lambda: AverageFamily(BITS, 2, 4.0), "width"),
        (lambda: SymmetricFamily(BITS, 2, 5), "width"),
        (lambda: AverageFamily(BITS, 2, 1.0).monomials(conjunction({"a": 0})), "conjunctions"),
        (lambda: SymmetricFamily(BITS, 2, 1).monomials(conjunction({"a": 0, "b": 1})), "literals"),
    ],
)
def test_what_is_no_family_or_query_is_refused(make, said):
    with pytest.raises(ParameterError, match=said):
        make()
