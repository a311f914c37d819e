"""Decision lists: parsed, stored as columns, made canonical, and summed as coefficients."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp import Boolean, Schema
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import encode
from synthdp.errors import ParameterError
from synthdp.tables.dataframe import FrameSource
from synthdp.works.polynomials.decision_list_release import pattern_table
from synthdp.works.polynomials.decision_lists import (
    DecisionList,
    Rule,
    decision_list_columns,
    decision_list_schema,
    possible_rules,
    variables_of,
)
from synthdp.works.polynomials.list_coefficients import ListCoefficients, canonical, list_values, subset_parities

VARIABLES = ("rural", "top10", "new car")
rules = st.builds(Rule, st.sampled_from(VARIABLES), st.booleans(), st.booleans())
lists = st.builds(DecisionList, st.lists(rules, max_size=4).map(tuple), st.booleans())
INPUTS = [dict(zip(VARIABLES, values, strict=True)) for values in itertools.product((0, 1), repeat=3)]


def codes_of(rows: list[DecisionList], variables=VARIABLES, length: int = 4) -> np.ndarray:
    schema = decision_list_schema(variables, length=length)
    frame = pd.DataFrame(decision_list_columns(rows, length=length))
    raw = next(iter(FrameSource(frame).blocks(schema, extra=())))
    return domain_of(schema).codes({name: encode(schema[name], raw[name]) for name in schema})


def statistic(m: int, length: int, order: int, scales=None, row_scale: int = 0) -> ListCoefficients:
    variables = [f"v{j}" for j in range(m)] if m != 3 else list(VARIABLES)
    tables = tuple(pattern_table(r, order).values for r in range(length + 1))
    scales = tuple([2**16] * (order + 1)) if scales is None else scales
    return ListCoefficients(
        domain_of(decision_list_schema(variables, length=length)), m, order, scales, tables, row_scale
    )


@given(lists)
def test_writing_then_parsing_gives_the_list_back(one):
    assert DecisionList.parse(str(one)) == one


def test_the_first_rule_that_applies_decides():
    one = DecisionList.parse("if rural: no; elif not top10: yes; else no")
    assert [one({"rural": r, "top10": t}) for r, t in itertools.product((0, 1), repeat=2)] == [
        True,
        False,
        False,
        False,
    ]
    assert DecisionList.parse("yes")({}) is True
    assert DecisionList.parse(" if new car : yes ;else: no") == DecisionList((Rule("new car", True, True),), False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("elif a: no; else yes", r"\b1\b.*'elif a: no'"),
        ("if a: no; if b: yes; else yes", r"\b2\b.*'if b: yes'"),
        ("if a: maybe; else yes", "'if a: maybe'"),
        ("if a: yes", "'if a: yes'"),
        ("if a: yes; no", "'no'"),
        ("", "''"),
    ],
)
def test_what_is_no_list_is_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        DecisionList.parse(text)


def test_the_schema_tells_its_variables():
    schema = decision_list_schema(VARIABLES, length=2)
    assert list(schema) == ["rule 1", "rule 2", "else"]
    assert variables_of(schema, length=2) == VARIABLES
    assert [str(rule) for rule in possible_rules(["a"])] == ["not a: no", "not a: yes", "a: no", "a: yes"]
    with pytest.raises(ParameterError, match="length"):
        variables_of(schema, length=3)
    with pytest.raises(ParameterError, match="decision_list_schema"):
        variables_of(Schema({"rule 1": Boolean()}), length=1)


@pytest.mark.parametrize("variables", [[], ["a", "a"], ["a:b"], ["not a"], [" a"], ["a;"]])
def test_variables_that_cannot_be_written_are_refused(variables):
    with pytest.raises(ParameterError, match="variable"):
        decision_list_schema(variables, length=1)


def test_a_list_that_is_too_long_is_refused():
    with pytest.raises(ParameterError, match="lists"):
        decision_list_columns(["if a: no; elif b: yes; else no"], length=1)
    with pytest.raises(ParameterError, match="length"):
        decision_list_schema(["a"], length=0)


@given(st.lists(lists, min_size=1, max_size=6))
def test_canonical_lists_decide_as_the_lists_do(rows):
    found = canonical(codes_of(rows), 3)
    for i, one in enumerate(rows):
        r = int(found.length[i])
        variables = found.variables[i, :r]
        assert len(set(variables.tolist())) == r
        for values in INPUTS:
            y = np.array([values[name] for name in VARIABLES])
            bits = y[variables] ^ (found.signs[i, :r] < 0)
            answer = list_values(r)[found.pattern[i], int((bits << np.arange(r)).sum())]
            assert bool(answer) is one(values)


@given(st.lists(lists, min_size=1, max_size=6))
def test_coefficients_of_full_order_answer_every_input_exactly(rows):
    scales = (2**16, 2**17, 2**18, 2**19)
    family = statistic(3, 4, 3, scales, row_scale=7)
    *sums, counted = family.sums(codes_of(rows))
    assert counted == 7 * len(rows)
    coefficients = np.array(sums) / np.repeat(scales, family.sizes)
    for values in INPUTS:
        signs = np.array([1 - 2 * values[name] for name in VARIABLES])
        parities = [signs[list(s)].prod() for i in range(4) for s in itertools.combinations(range(3), i)]
        truth = sum(one(values) for one in rows) - len(rows) / 2
        assert coefficients @ parities == pytest.approx(truth, abs=1e-3)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("order", "error"), [(1, 0.4), (2, 1 / 6), (3, 1 / 16), (4, 0.0)])
def test_errors_of_four_rules_are_those_of_the_table(order, error):
    assert max(pattern_table(r, order).error for r in range(5)) == pytest.approx(error, abs=1e-6)


@pytest.mark.parametrize(("r", "order"), [(0, 1), (2, 1), (3, 2), (4, 2), (4, 3)])
def test_every_pattern_is_within_the_error_of_its_polynomial(r, order):
    table = pattern_table(r, order)
    masks, parities = subset_parities(r, r)
    gap = np.abs(table.values[:, masks] @ parities.T + 0.5 - list_values(r))
    assert gap.max() <= table.error + 1e-12
    assert not table.values[:, np.bitwise_count(np.arange(2**r)) > order].any()
    # Parseval: the polynomial lies in [-1/2 - error, 1/2 + error]
    assert (table.values**2).sum(axis=1).max() <= (0.5 + table.error) ** 2 + 1e-9


@pytest.mark.parametrize(("m", "length", "order"), [(1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2)])
def test_the_bounds_are_the_largest_changes(m, length, order):
    family = statistic(m, length, order, scales=(5, 9, 14)[: order + 1], row_scale=3)
    cells = np.array(list(itertools.product(*(range(size) for size in family.domain.shape))))
    features = np.unique(family.features(cells), axis=0)
    one, swap = np.abs(features), np.abs(features[:, None] - features[None]).reshape(-1, family.k)
    for bound, vectors in ((family.bounds.one, one), (family.bounds.swap, swap)):
        assert bound.l1 == vectors.sum(axis=1).max()
        assert bound.l2_squared == (vectors**2).sum(axis=1).max()
        assert bound.linf == vectors.max()


def test_a_cell_that_is_no_rule_never_applies():
    codes = np.array([[12, 12, 1], [12, 3, 0], [12, 12, 2]])  # 12: unforeseen; 3: "rural: yes"
    family = statistic(3, 2, 2)
    sums = family.features(codes) / 2**16
    np.testing.assert_allclose(sums[0], [0.5, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(sums[2], [-0.5, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(sums[1], [0.0, -0.5, 0, 0, 0, 0, 0])
