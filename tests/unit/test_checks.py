"""A parameter is let through or refused with its name and value, whatever its type."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.checks import check_integral, check_memory, check_number, check_one_of, check_share, check_whole, whole
from synthdp.errors import ParameterError

NO_NUMBERS = ["3", None, b"3", [3], math.nan, True, np.True_, np.array([1, 2]), 3j]


@given(st.integers(), st.integers(), st.integers())
def test_a_whole_number_is_let_through_within_its_limits_only(value, least, most):
    assert refused(lambda: check_whole("rows", value, least=least, most=most)) == (not least <= value <= most)
    assert refused(lambda: check_whole("rows", value, least=least)) == (value < least)


def refused(check) -> bool:
    try:
        check()
    except ParameterError:
        return True
    return False


@given(st.floats(), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_number_is_let_through_within_its_limits_only(value, low, high):
    finite = math.isfinite(value)
    assert refused(lambda: check_number("x", value, above=low, below=high)) == (not (finite and low < value < high))
    assert refused(lambda: check_number("x", value, least=low, most=high)) == (not (finite and low <= value <= high))
    assert refused(lambda: check_number("x", value, least=low, infinite=True)) == (not low <= value)
    assert refused(lambda: check_share("x", value)) == (not 0 < value < 1)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_by_name_and_value(value):
    for check in (check_whole, check_number, check_share):
        with pytest.raises(ParameterError) as refusal:
            check("rounds", value)
        assert f"rounds ({value!r})" in str(refusal.value)


@pytest.mark.parametrize("value", [1.5, 2.0, "2", np.float64(2), Fraction(2)])
def test_a_fraction_is_no_whole_number_even_where_it_is_one(value):
    with pytest.raises(ParameterError):
        check_whole("rows", value)


@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint16])
def test_whole_numbers_of_numpy_become_those_of_python(kind):
    found = whole("rows", kind(7), least=7, most=7)
    assert (type(found), found) == (int, 7)


@pytest.mark.parametrize("kind", [int, float, np.float32, np.int64, Fraction])
def test_numbers_of_any_type_are_numbers(kind):
    check_number("x", kind(3), above=0, most=3)


@pytest.mark.parametrize("value", [10**400, -(10**400), math.inf])
def test_a_number_beyond_floats_is_not_finite(value):
    with pytest.raises(ParameterError):
        check_number("x", value)


def test_a_choice_is_by_value_and_type():
    check_one_of("solver", "lp", ("lp", "mw"))
    for value in ("LP", None, 1, ["lp"], np.array(["lp"])):
        with pytest.raises(ParameterError, match=r"solver.*lp.*mw"):
            check_one_of("solver", value, ("lp", "mw"))


@pytest.mark.parametrize("value", [5, np.int64(5), 5.0, np.float64(5)])
def test_a_count_of_any_type_is_let_through_where_arithmetic_takes_it(value):
    check_integral("k", value, least=5, most=5)
    for limits in ({"least": 6}, {"most": 4}):
        with pytest.raises(ParameterError):
            check_integral("k", value, **limits)


@pytest.mark.parametrize("value", [5.5, math.nan, math.inf, "5", None, True])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(ParameterError):
        check_integral("k", value)


@given(st.integers(0, 10**6), st.integers(1, 500))
def test_rows_that_memory_may_hold_are_let_through(rows, columns):
    assert not refused(lambda: check_memory(rows, columns))
    assert refused(lambda: check_memory(10**13 + rows, columns))


def test_a_containers_limit_of_memory_counts_beside_the_computers(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr("synthdp.checks.LIMITS_OF_CONTAINERS", (tmp_path / "none", limit))
    for text, too_many in (("1048576\n", True), ("max\n", False)):
        limit.write_text(text)
        assert bool(refused(lambda: check_memory(100_000, 2))) == too_many
