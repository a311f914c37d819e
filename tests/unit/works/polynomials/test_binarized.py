"""Columns as bits, and literals looked up among them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from synthdp import (
    Boolean,
    Categorical,
    Continuous,
    Curator,
    Integer,
    MonomialRelease,
    Ordinal,
    ParityRelease,
    PureDP,
    Schema,
)
from synthdp.domain.encoder import encode
from synthdp.errors import ParameterError
from synthdp.tables.dataframe import FrameSource
from synthdp.works.polynomials.binarized import binarize
from synthdp.works.polynomials.literal_queries import (
    SymmetricQuery,
    conjunction,
    disjunction,
    exactly_r,
    r_of_k,
    symmetric,
)

SCHEMA = Schema(
    {
        "smoker": Boolean(),
        "male": Integer(0, 1),
        "income": Categorical(["<=50K", ">50K"]),
        "race": Categorical(["a", "b", "c"]),
        "seen": Boolean(nullable=True),
        "size": Ordinal(["S", "M", "L"]),
        "age": Continuous(0, 100, nullable=True, special=(-1.0, 150.0)),
    }
)


def bit_table(schema: Schema, frame: pd.DataFrame, **options) -> pd.DataFrame:
    bits = binarize(schema, **options)
    raw = next(iter(FrameSource(frame).blocks(schema, extra=())))
    units = {name: encode(schema[name], raw[name]) for name in bits.domain.names}
    return pd.DataFrame(bits.matrix(bits.domain.codes(units)), columns=list(bits.names)).astype(int)


def test_each_kind_of_column_has_its_bits():
    frame = pd.DataFrame(
        {
            "smoker": [True, False, True],
            "male": [1, 0, 1],
            "income": ["<=50K", ">50K", "unforeseen"],
            "race": ["a", "c", "unforeseen"],
            "seen": pd.array([True, None, False], dtype="boolean"),
            "size": ["L", "S", "M"],
            "age": [17.0, np.nan, 150.0],
        }
    )
    bits = bit_table(SCHEMA, frame, thresholds={"age": [65, 18]})
    expected = {
        "smoker": [1, 0, 1],
        "male": [1, 0, 1],
        "income": [0, 1, 0],
        "race=a": [1, 0, 0],
        "race=b": [0, 0, 0],
        "race=c": [0, 1, 0],
        "seen=False": [0, 0, 1],
        "seen=True": [1, 0, 0],
        "seen is missing": [0, 1, 0],
        "size=S": [0, 1, 0],
        "size=M": [0, 0, 1],
        "size=L": [1, 0, 0],
        "age>=18": [0, 0, 1],
        "age>=65": [0, 0, 1],
    }
    pd.testing.assert_frame_equal(bits, pd.DataFrame(expected))


@pytest.mark.parametrize(
    ("literal", "name", "sign"),
    [
        (("smoker", 1), "smoker", 1),
        (("smoker", False), "smoker", -1),
        (("income", ">50K"), "income", 1),
        (("income", "<=50K"), "income", -1),
        (("income", 0), "income", -1),
        (("race", "b"), "race=b", 1),
        (("race=b", 0), "race=b", -1),
        (("seen", False), "seen=False", 1),
        (("seen", None), "seen is missing", 1),
        (("seen is missing", 0), "seen is missing", -1),
        (("age>=18", 1), "age>=18", 1),
    ],
)
def test_literals_name_a_bit_and_its_value(literal, name, sign):
    bits = binarize(SCHEMA, thresholds={"age": [18]})
    found, signs = bits.find(SymmetricQuery((literal,), (0, 1)))
    assert (bits.names[found[0]], signs[0]) == (name, sign)


def test_levels_of_a_column_come_before_0_and_1():
    bits = binarize(Schema({"c": Categorical([1, 0])}))
    assert bits.find(conjunction({"c": 0}))[1].tolist() == [1.0]


def test_unknown_literals_are_refused():
    bits = binarize(SCHEMA)
    with pytest.raises(ParameterError, match="'d'"):
        bits.find(conjunction({"race": "d"}))
    with pytest.raises(ParameterError, match="'age'"):
        bits.find(conjunction({"age": 1}))
    with pytest.raises(ParameterError, match="literals"):
        bits.find(conjunction({"race": "a", "race=a": 0}))


def test_columns_without_bits_are_refused():
    with pytest.raises(ParameterError, match="'age'"):
        binarize(SCHEMA, columns=["age"])
    with pytest.raises(ParameterError, match="'x'"):
        binarize(SCHEMA, columns=["x"])
    with pytest.raises(ParameterError, match=r"'age'.*bound"):
        binarize(SCHEMA, thresholds={"age": [0.0]})
    with pytest.raises(ParameterError, match=r"'age'.*bound"):
        binarize(SCHEMA, thresholds={"age": [120.0]})
    with pytest.raises(ParameterError, match="'race'"):
        binarize(SCHEMA, thresholds={"race": [1.0]})
    with pytest.raises(ParameterError, match=r"thresholds.*'age'"):
        binarize(SCHEMA, thresholds={"age": []})
    with pytest.raises(ParameterError, match="thresholds"):
        binarize(Schema({"age": Continuous(0, 1)}))


def test_flips_are_the_numbers_of_bits_that_two_rows_can_differ_by():
    assert binarize(Schema({"race": Categorical(["a", "b", "c"])})).flips == (1, 2)
    assert binarize(Schema({"x": Boolean(), "y": Boolean(), "z": Boolean()})).flips == (1, 2, 3)
    bits = binarize(SCHEMA, thresholds={"age": [10, 20, 30]})
    # 3 single bits, race with an unforeseen value 0-2, seen 0-2, size 0-2, age 0-3
    assert bits.flips == tuple(range(1, 13))


def test_queries_are_functions_of_the_number_of_true_literals():
    literals = {"a": 1, "b": 0, "c": 1}
    assert conjunction(literals).values == (0, 0, 0, 1)
    assert disjunction(literals).values == (0, 1, 1, 1)
    assert r_of_k(literals, r=2).values == (0, 0, 1, 1)
    assert exactly_r(literals, r=2).values == (0, 0, 1, 0)
    assert symmetric(literals, lambda m: m / 2).values == (0, 0.5, 1, 1.5)
    assert symmetric(literals, [4, 3, 2, 1]).values == (4, 3, 2, 1)


def test_bad_queries_are_refused():
    with pytest.raises(ParameterError, match=r"\br\b"):
        r_of_k({"a": 1, "b": 1}, r=3)
    with pytest.raises(ParameterError, match="literals"):
        conjunction({})
    with pytest.raises(ParameterError, match="literals"):
        SymmetricQuery((("a", 1), ("a", 0)), (0, 0, 1))
    with pytest.raises(ParameterError, match="values"):
        symmetric({"a": 1, "b": 1}, [0, 1])


def test_thresholds_have_all_digits_that_tell_them_apart():
    schema = Schema({"size": Continuous(0, 2_000_000)})
    bits = binarize(schema, thresholds={"size": [1_234_561, 1_234_564, 1e6, 4.5]})
    assert bits.names == ("size>=4.5", "size>=1e+06", "size>=1234561", "size>=1234564")


@pytest.mark.parametrize(
    ("column", "thresholds", "joined"),
    [
        (Boolean(), None, True),
        (Categorical(["a", "b"]), None, True),
        (Categorical(["a", "b"], other="b"), None, False),
        (Categorical(["a", "b", "c"]), None, False),
        (Boolean(nullable=True), None, False),
        (Integer(0, 9), {"x": [5]}, True),
    ],
)
def test_a_receipt_says_where_a_misfit_has_the_bits_of_a_value(column, thresholds, joined):
    schema = Schema({"x": column, "free": Categorical(["u", "v"], other="v")})
    bits = binarize(schema, columns=["free", *([] if thresholds else ["x"])], thresholds=thresholds)
    assert [("of x" in note, "free" in note) for note in bits.notes] == [(True, False)] * joined
    table = pd.DataFrame({"x": [1, 2], "free": ["u", "v"]})
    for make in (ParityRelease, MonomialRelease):
        curator = Curator(table, schema=schema, budget=PureDP(1.0))
        made = make(order=1, columns=["free", *([] if thresholds else ["x"])], thresholds=thresholds).release(curator)
        assert made.receipt.notes == bits.notes
