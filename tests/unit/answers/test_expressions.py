"""The language of conditions: what it means, by pandas on the same rows, and how it refuses."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp import Boolean, Categorical, Continuous, Datetime, Duration, Identifier, Integer, Ordinal, Schema
from synthdp.answers.expressions import columns_of, comparisons_of, parse, points_where, truth
from synthdp.errors import ParameterError

SCHEMA = Schema({
    "age": Integer(0, 9, special=(-1,)),
    "city": Categorical(["a", "it's", "c d"], nullable=True),
    "grade": Ordinal(["low", "mid", "high"]),
    "member": Boolean(nullable=True),
    "seen": Datetime("2020-01-01", "2020-01-05", resolution="D", nullable=True),
    "took": Duration(0, 9, resolution="h"),
    "hours-per-week": Integer(0, 9),
    "two words": Continuous(0, 1),
    "id": Identifier(),
})  # fmt: skip
DAY = dt.date(2020, 1, 1)


def values(name: str) -> list[object]:
    """Every value of a column, in the order of its grid points."""
    numbers = list(range(10))
    return {
        "age": [*numbers, -1],
        "city": ["a", "it's", "c d", None],
        "grade": ["low", "mid", "high"],
        "member": [False, True, None],
        "seen": [*(DAY + dt.timedelta(days=i) for i in range(5)), None],
        "took": numbers,
        "hours-per-week": numbers,
    }[name]


def where(text: str) -> list[object]:
    """The values of the one column of a condition for which it holds."""
    tree = parse(text)
    (name,) = columns_of(tree)
    holds = truth(tree, {c: points_where(c, SCHEMA) for c in comparisons_of(tree)})
    return [value for value, holding in zip(values(name), holds, strict=True) if holding]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age >= 7", [7, 8, 9]),
        ("7 <= age", [7, 8, 9]),
        ("3 < age <= 5", [4, 5]),
        ("3 <= age < 5", [3, 4]),
        ("age == -1", [-1]),
        ("age = 4", [4]),
        ("not age < 8", [8, 9]),
        ("age in (1, 2, 2,)", [1, 2]),
        ("age not in [0,1,2,3,4,5,6,7]", [8, 9, -1]),
        ("age == 1 or age == 2 and age == 3", [1]),
        ("(age == 1 or age == 2) and age != 2", [1]),
        ("age < 1.5e0 and age > -.5", [0, 1]),
        ("city == 'it\\'s'", ["it's"]),
        ('city in ("c d", "a")', ["a", "c d"]),
        ("city != 'a'", ["it's", "c d"]),
        ("city is null", [None]),
        ("city IS NOT NULL AND city != 'a'", ["it's", "c d"]),
        ("grade >= 'mid'", ["mid", "high"]),
        ("member", [True]),
        ("not member", [False, None]),
        ("member == false", [False]),
        ("seen > '2020-01-03'", [DAY + dt.timedelta(days=3), DAY + dt.timedelta(days=4)]),
        ("seen <= '2020-01-01T23:00'", [DAY]),
        ("took < 2", [0, 1]),
        ("hours-per-week > 8", [9]),
        ("`hours-per-week` > 8", [9]),
    ],
)
def test_a_condition_holds_for_exactly_these_values(text: str, expected: list[object]) -> None:
    assert where(text) == expected


@given(
    lower=st.integers(-3, 12),
    upper=st.integers(-3, 12),
    listed=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    inverted=st.booleans(),
)
def test_conditions_mean_what_pandas_means(lower: int, upper: int, listed: list[int], *, inverted: bool) -> None:
    text = f"{'not ' * inverted}(age > {lower} and age <= {upper} or age in ({', '.join(map(str, listed))}))"
    frame = pd.DataFrame({"age": values("age")})
    python = text.replace(f"({', '.join(map(str, listed))})", str(listed))
    assert where(text) == frame[frame.eval(python)]["age"].tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text"),
        ("age >", r"\b6\b.*value"),
        ("age > 3 age", r"\b9\b.*'and', 'or'"),
        ("age ; 3", r"\b5\b.*';'"),
        ("age == '3", r"\b8\b"),
        ("(age > 3", r"'\)'"),
        ("age in 3", "list"),
        ("age in (3", r"','.*'\)'"),
        ("age is 3", "'null'"),
        ("age not 3", "'in'"),
        ("3 < 4", "column"),
        ("'two words' < 4", "backticks"),
        ("two words < 4", "backticks"),
        ("3", "comparison"),
        ("__import__('os')", "'and', 'or'"),
        ("age.__class__ == 3 ** 9", r"'\*'"),
        ("(" * 60 + "age" + ")" * 60, r"\b50\b"),
        ("not " * 60 + "member", r"\b50\b"),
        (" or ".join(["age == 1"] * 300), r"\b200\b"),
        ("a" * 20_000, "10000.*20000"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("height > 3", "'height'"),
        ("age == 'x'", "'age'.*numbers"),
        ("age == true", "'age'.*numbers"),
        ("city == 'b'", "'city'.*'b'.*'a'"),
        ("city < 'b'", "'city'.*order"),
        ("member == 1", "'member'.*1.*true.*false"),
        ("seen > 'yesterday'", "'seen'.*'yesterday'"),
        ("age > null", "`age is null`"),
        ("id == 'x'", "identifier"),
    ],
)
def test_what_the_schema_cannot_hold_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        [points_where(comparison, SCHEMA) for comparison in comparisons_of(parse(text))]


@given(st.text(max_size=60))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        tree = parse(text)
    except ParameterError as error:
        assert "\n" not in str(error) or "\n" in repr(text)  # noqa: PT017
        return
    assert columns_of(tree)


def test_a_huge_number_is_a_number() -> None:
    assert where("age < 1" + "0" * 400) == values("age")
    assert np.isinf(next(comparisons_of(parse("age < 1e999"))).values[0])


@pytest.mark.parametrize(("text", "word"), [("a > 1 & b > 2", "and"), ("a > 1 | b > 2", "or"), ("~a", "not")])
def test_signs_of_other_languages_are_answered_with_the_word_that_is_meant(text, word):
    with pytest.raises(ParameterError, match=f"'{word}'"):
        parse(text)
