"""Schemas: JSON and back, and one clear sentence for everything that contradicts itself."""

from __future__ import annotations

import datetime as dt
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.errors import FormatError, SchemaError
from synthdp.schema.columns import (
    COLUMN_TYPES,
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Duration,
    Identifier,
    Integer,
    Ordinal,
    Time,
)
from synthdp.schema.schema import Schema

TYPES = [kind.__name__ for kind in COLUMN_TYPES.values()]


@given(my.schemas(st.one_of(my.columns, my.undeclared_columns)))
def test_json_and_back_gives_an_equal_schema(schema):
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.to_json() == schema.to_json()


@given(my.schemas())
def test_json_is_plain_and_has_a_version(schema):
    document = json.loads(schema.to_json())
    assert document["synthdp_schema"] in {1, 3, 4}
    assert [column["name"] for column in document["columns"]] == list(schema)


@given(my.schemas())
def test_pickling_gives_an_equal_schema(schema):
    assert pickle.loads(pickle.dumps(schema)) == schema


@given(my.schemas(st.one_of(my.columns, my.undeclared_columns)))
def test_undeclared_columns_are_those_without_bounds_or_levels(schema):
    assert schema.undeclared == tuple(name for name in schema if not schema[name].is_complete)


@given(my.grouped())
def test_the_levels_of_a_group_stand_side_by_side_at_every_step(column):
    paths = [column.groups[: k + 1] for k in range(len(column.groups))]
    listed = len(column.levels)
    for path, starts in zip(paths, column.starts_of_groups(), strict=True):
        groups = list(zip(*path, strict=True))
        runs = [i for i in range(listed) if i == 0 or groups[i] != groups[i - 1]]
        assert len(runs) == len(set(groups))
        assert [start for start in starts if start < listed] == runs
    again = Categorical(column.levels, other=column.other, groups=column.groups)
    assert (again, again.levels) == (column, column.levels)


@given(my.grouped())
def test_a_hierarchy_keeps_the_group_of_each_level_and_survives_a_file(column):
    back = Schema.from_json(Schema({"a": column}).to_json())["a"]
    assert back == column
    assert back.groups == column.groups


def test_writing_and_reading_a_file(tmp_path):
    schema = Schema({"größe": Continuous(0, 2.5), "país": Categorical(["Perú", "日本"])})
    schema.write(tmp_path / "s.json")
    assert Schema.read(tmp_path / "s.json") == schema


def test_a_schema_keeps_the_order_of_its_columns():
    schema = Schema({"b": Boolean(), "a": Boolean()})
    assert schema.names == ("b", "a")
    assert schema != Schema({"a": Boolean(), "b": Boolean()})
    assert schema.replace({"b": Integer(0, 1)}).names == ("b", "a")


def test_numbers_of_numpy_become_pythons_own():
    schema = Schema({
        "i": Integer(np.int64(1), np.int8(5), special=np.array([-1])),
        "c": Continuous(np.float64(0.5), np.float32(2)),
        "o": Ordinal(np.array(["x", "y"])),
        "p": Ordinal(pd.Index([1, 2])),
        "d": Duration(np.int64(1), np.timedelta64(60_000, "ms")),
    })  # fmt: skip
    assert Schema.from_json(schema.to_json()) == schema
    assert type(schema["i"].lower) is int
    assert schema["d"].steps == (1, 60)


def test_moments_are_utc_in_steps_of_the_resolution():
    zoned = Datetime("1970-01-02T01:00+01:00", dt.datetime(1970, 1, 3, tzinfo=dt.UTC), resolution="h")
    assert zoned.steps == (24, 48)
    assert zoned == Datetime(dt.date(1970, 1, 2), np.datetime64("1970-01-03"), resolution="h")
    assert Datetime("1969-12-31", "1970-01-01", resolution="D").steps == (-1, 0)


def test_lengths_are_steps_of_the_resolution():
    assert Duration(dt.timedelta(0), dt.timedelta(days=1), resolution="min").steps == (0, 1440)


BAD = {
    "no column": (lambda: Schema({}), "a schema needs at least one column"),
    "no mapping": (lambda: Schema([("a", Boolean())]), "columns must be a dict of columns by name, not of type list"),
    "name": (lambda: Schema({1: Boolean()}), "column names must be texts, not int"),
    "class": (lambda: Schema({"a": Boolean}),
              f"column 'a': the type must be one of {', '.join(TYPES)}, such as Integer(0, 120)"),
    "order": (lambda: Schema({"age": Integer(5, 2)}), "column 'age': lower (5) must be below upper (2)"),
    "equal": (lambda: Schema({"x": Continuous(5.0, 5.0)}), "column 'x': lower (5.0) must be below upper (5.0)"),
    "one bound": (lambda: Schema({"a": Continuous(None, 1)}), "column 'a': lower and upper must be given together"),
    "text bound": (lambda: Schema({"a": Continuous("0", 1)}), "column 'a': bounds and special values must be numbers"),
    "boolean bound": (lambda: Schema({"a": Integer(0, True)}), "column 'a': bounds and special values must be numbers"),
    "nan": (lambda: Schema({"a": Continuous(float("nan"), 1)}), "column 'a': bounds and special values must be finite"),
    "inf": (lambda: Schema({"a": Continuous(0, float("inf"))}), "column 'a': bounds and special values must be finite"),
    "huge": (lambda: Schema({"a": Continuous(0, 10**400)}), "column 'a': bounds and special values must be finite"),
    "wide": (lambda: Schema({"a": Continuous(-1e308, 1e308)}), "column 'a': upper minus lower must be a finite number"),
    "fraction": (lambda: Schema({"a": Integer(0.5, 2)}),
                 "column 'a': bounds and special values of an Integer must be whole numbers"),
    "too large": (lambda: Schema({"a": Integer(0, 2**63)}),
                  "column 'a': bounds and special values of an Integer must lie within ±2**62"),
    "special": (lambda: Continuous(0, 1, special=-1), "special must be a list of values, not int"),
    "special nan": (lambda: Schema({"a": Continuous(0, 1, special=(float("nan"),))}),
                    "column 'a': bounds and special values must be finite"),
    "special twice": (lambda: Schema({"a": Integer(0, 1, special=(7, 7.0))}),
                      "column 'a': special values must differ from each other"),
    "nullable": (lambda: Schema({"a": Boolean(nullable="no")}), "column 'a': nullable must be True or False"),
    "no level": (lambda: Schema({"a": Categorical([])}), "column 'a': levels must not be empty"),
    "text of levels": (lambda: Categorical("abc"), "levels must be a list of values, not str"),
    "one level": (lambda: Ordinal(5), "levels must be a list of values, not int"),
    "repeated": (lambda: Schema({"a": Categorical(["x", "x"])}),
                 "column 'a': levels must differ from each other, also when written as text"),
    "same text": (lambda: Schema({"a": Ordinal(["1", 1])}),
                  "column 'a': levels must differ from each other, also when written as text"),
    "same number": (lambda: Schema({"a": Categorical([1, True])}),
                    "column 'a': levels must differ from each other, also when written as text"),
    "null level": (lambda: Schema({"a": Categorical([None, "x"])}),
                   "column 'a': levels must be texts, numbers or booleans, not missing values or lists"),
    "list level": (lambda: Schema({"a": Categorical([["x"]])}),
                   "column 'a': levels must be texts, numbers or booleans, not missing values or lists"),
    "nan level": (lambda: Schema({"a": Categorical([float("nan")])}),
                  "column 'a': levels must not hold NaN or infinity: declare missing values by nullable=True instead"),
    "other": (lambda: Schema({"a": Categorical(["x"], other=3)}), "column 'a': other must be a text label"),
    "other number": (lambda: Schema({"a": Categorical([1, 2], other="1")}),
                     "column 'a': other ('1') must differ from every level, also from levels that are numbers or booleans"),
    "no date": (lambda: Datetime("soon", "later"), "'soon' is not a date or time in ISO 8601, such as 2026-01-31T12:00"),
    "number date": (lambda: Datetime(5, 6),
                    "bounds of a Datetime must be dates, datetimes or texts in ISO 8601, such as 2026-01-31T12:00"),
    "nat": (lambda: Datetime(pd.NaT, "2020-01-01"),
                    "bounds of a Datetime must be dates, datetimes or texts in ISO 8601, such as 2026-01-31T12:00"),
    "far": (lambda: Datetime(np.datetime64("90000-01-01"), np.datetime64("90001-01-01")),
            "bounds of a Datetime must lie in the years 1 to 9999"),
    "same day": (lambda: Schema({"a": Datetime("2020-01-01T01:00", "2020-01-01T02:00", resolution="D")}),
                 ("column 'a': lower (2020-01-01T01:00:00.000000) and upper (2020-01-01T02:00:00.000000) are the same "
                  "time at resolution 'D': give a finer resolution, or bounds further apart")),
    "same minute": (lambda: Schema({"a": Time("10:00:01", "10:00:59", resolution="min")}),
                    ("column 'a': lower (10:00:01) and upper (10:00:59) are the same time at resolution 'min': "
                     "give a finer resolution, or bounds further apart")),
    "falling": (lambda: Schema({"a": Datetime("2020-01-01T02:00", "2020-01-01T01:00", resolution="D")}),
                "column 'a': lower (2020-01-01T02:00:00.000000) must be below upper (2020-01-01T01:00:00.000000)"),
    "resolution": (lambda: Schema({"a": Datetime("2020-01-01", "2021-01-01", resolution="week")}),
                   "column 'a': resolution ('week') must be one of D, h, min, s, ms, us"),
    "odd resolution": (lambda: Schema({"a": Duration(0, 1, resolution=["s"])}),
                       "column 'a': resolution (['s']) must be one of D, h, min, s, ms, us"),
    "length": (lambda: Schema({"a": Duration(0.5, 1)}),
               "column 'a': bounds of a Duration must be timedeltas or whole numbers, in multiples of its resolution"),
    "long": (lambda: Schema({"a": Duration(0, 10**15, resolution="D")}),
             "column 'a': bounds of a Duration must lie within ±2**62 microseconds"),
    "groups": (lambda: Categorical(["x"], groups=["y"]), "each of groups must be a list of values, not str"),
    "too few groups": (lambda: Schema({"a": Categorical(["x", "y"], groups=[["p", "p"], ["q"]])}),
                       "column 'a': each list of groups must have one group for every level"),
    "groups of open levels": (lambda: Schema({"a": Categorical(groups=[["p"]])}),
                              "column 'a': each list of groups must have one group for every level"),
    "list as a group": (lambda: Schema({"a": Categorical(["x"], groups=[[["p"]]])}),
                        "column 'a': groups must be texts, numbers or booleans"),
    "nan as a group": (lambda: Schema({"a": Categorical(["x"], groups=[[float("nan")]])}),
                       "column 'a': groups must be finite"),
    "prefix": (lambda: Schema({"a": Identifier(3)}), "column 'a': prefix must be a text, not int"),
    "pattern": (lambda: Schema({"a": Identifier(pattern=["a"])}), "column 'a': pattern must be a text, not list"),
    "formats": (
        lambda: Schema({"a": Datetime("2020-01-01", "2021-01-01", format=["%d.%m.%Y"])}),
        "column 'a': format must be a text, not list",
    ),
    "words of truth": (lambda: Schema({"a": Boolean(format={"yes": "no"})}), "column 'a': format must be a text, not dict"),
    "a condition as a rule": (
        lambda: sd.Forbidden("a == 3"),
        "a Forbidden rule needs a dict of values by column, such as {'age': (0, 15), 'status': 'married'}, not str",
    ),
    "a condition that implies": (
        lambda: sd.Implies({"a": 3}, "b == 4"),
        "an Implies rule needs a dict of values by column, such as {'age': (0, 15), 'status': 'married'}, not str",
    ),
    "a number of combinations": (
        lambda: sd.Combinations("a", 3),
        "a Combinations rule needs a list of columns and a list of combinations of their values",
    ),
    "a list of sources": (
        lambda: sd.Derived("a", of=["b"], values={1: 2}),
        "a Derived rule names columns by texts: correct column and of",
    ),
    "null identifier": (lambda: Identifier(nullable=True),
                        "an Identifier is never missing in the output: remove nullable=True"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_a_contradiction_is_refused_in_one_sentence(make, message):
    with pytest.raises(SchemaError) as refused:
        make()
    assert str(refused.value) == message


def document(**column):
    return json.dumps({"synthdp_schema": 1, "columns": [{"name": "a", **column}]})


BAD_JSON = {
    "broken": ("[1", FormatError, "the schema is not valid JSON (line 1): correct the file"),
    "deep": ("[" * 100_000, FormatError, "the schema is not valid JSON (line ?): correct the file"),
    "list": ("[]", FormatError, "the schema is not a synthdp schema: its JSON must have the key 'synthdp_schema'"),
    "version": ('{"synthdp_schema": 99}', FormatError,
                ("the schema has schema version 99, but this synthdp reads 1 to 5 only: "
                 "install a newer synthdp")),
    "no columns": ('{"synthdp_schema": 1}', FormatError, "the schema must have 'columns', a list of JSON objects"),
    "no name": ('{"synthdp_schema": 1, "columns": [{}]}', FormatError,
                "every column of the schema must have a 'name' that is a text"),
    "twice": ('{"synthdp_schema": 1, "columns": [{"name": "a", "type": "boolean"}, {"name": "a", "type": "boolean"}]}',
              SchemaError, "the schema declares column 'a' twice: remove one of the two"),
    "type": (document(type="text"), SchemaError,
             f"column 'a' of the schema must have one of these types: {', '.join(TYPES).lower()}"),
    "draft": (document(type="boolean", reviewed=False), SchemaError,
              ("column 'a' of the schema is a draft taken from the table: check it against public knowledge, then set "
              '"reviewed" to true, or go through the columns with `synthdp schema review`')),
    "setting": (document(type="integer", maximum=5), SchemaError,
                "column 'a' of the schema has an unknown setting 'maximum': remove it or correct its name"),
    "levels": (document(type="ordinal"), SchemaError, "column 'a' of the schema needs 'levels': add this setting"),
    "levels text": (document(type="ordinal", levels="abc"), SchemaError,
                    "levels must be a list for column 'a' of the schema"),
    "groups text": (document(type="categorical", levels=["a"], groups="p"), SchemaError,
                    "groups must be a list for column 'a' of the schema"),
    "groups of text": (document(type="categorical", levels=["a"], groups=["p"]), SchemaError,
                       "column 'a' of the schema: each of groups must be a list of values, not str"),
    "nullable": (document(type="boolean", nullable="yes"), SchemaError,
                 "nullable must be true or false for column 'a' of the schema"),
    "date": (document(type="datetime", lower=3, upper=5), SchemaError,
             ("column 'a' of the schema: bounds of a Datetime must be dates, "
              "datetimes or texts in ISO 8601, such as 2026-01-31T12:00")),
    "bounds": (document(type="integer", lower="x", upper="y"), SchemaError,
               "column 'a': bounds and special values must be numbers"),
    "infinite": ('{"synthdp_schema": 1, "columns": [{"name": "a", "type": "integer", "lower": 0, "upper": 1e400}]}',
                 SchemaError, "column 'a': bounds and special values must be finite"),
    "rules": ('{"synthdp_schema": 1, "columns": [{"name": "a", "type": "boolean"}], "constraints": 5}',
              FormatError, "the schema must have 'constraints' that is a list of rules"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "message"), BAD_JSON.values(), ids=BAD_JSON)
def test_a_bad_document_is_refused_in_one_sentence(text, kind, message):
    with pytest.raises(kind) as refused:
        Schema.from_json(text)
    assert str(refused.value) == message


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inside: st.one_of(st.lists(inside, max_size=2), st.dictionaries(st.text(max_size=2), inside, max_size=2)),
    max_leaves=4,
)
settings = st.dictionaries(
    st.sampled_from(["lower", "upper", "levels", "groups", "special", "resolution", "other", "prefix"]),
    plain,
    max_size=4,
)
kinds = ["continuous", "integer", "categorical", "ordinal", "boolean", "datetime", "duration", "identifier"]


@given(settings, st.sampled_from(kinds))
def test_any_settings_make_a_schema_or_one_clear_error(settings, kind):
    assert reads_back_or_names_the_column(document(**settings, type=kind))


def reads_back_or_names_the_column(text):
    try:
        schema = Schema.from_json(text)
    except (SchemaError, FormatError) as refused:
        return "'a'" in str(refused)
    return Schema.from_json(schema.to_json()) == schema


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"none\.json"):
        Schema.read(tmp_path / "none.json")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "s.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match=r"s\.json"):
        Schema.read(tmp_path / "s.json")
