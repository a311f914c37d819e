"""What a person types about a column becomes an entry of a schema, or one sentence on why not."""

from __future__ import annotations

import datetime as dt
import itertools
from types import SimpleNamespace

import pytest
from hypothesis import example, given, strategies as st

from synthdp import Boolean, Categorical, Integer, Schema
from synthdp.errors import SchemaError, SynthDPError
from synthdp.page.asking import (
    LABELLED,
    SHORT,
    answer_of,
    column_of,
    date_of,
    from_document,
    from_short,
    in_short,
    in_words,
    number_of,
    rule_of,
)
from synthdp.page.project import Project

TYPED = {
    "limits": ({"type": "integer", "lower": "0", "upper": "120", "source": "a law"}, "integer"),
    "limits of numbers": (
        {"how": "limits", "type": "continuous", "lower": "-1,5", "upper": "3.25", "source": "x"},
        "continuous",
    ),
    "limits of dates": (
        {"how": "limits", "type": "date", "lower": "2020-01-01", "upper": "2021-01-01", "source": "x"},
        "date",
    ),
    "limits of numbers among which texts stand": (
        {
            "how": "limits",
            "type": "continuous",
            "lower": "0",
            "upper": "500",
            "source": "x",
            "words": "<0.6: 0,3 | >500: 500",
        },
        "continuous",
    ),
    "list": ({"type": "categorical", "levels": "a | b\nc", "source": "a codebook"}, "categorical"),
    "list of codes": ({"how": "list", "type": "integer", "levels": "1\n2\n9", "source": "a codebook"}, "categorical"),
    "list in order": ({"how": "list", "type": "ordinal", "levels": "low|high", "source": "a form"}, "ordinal"),
    "truth": ({}, "boolean"),
    "open": ({"type": "integer"}, "integer"),
    "open categories": ({"how": "open", "type": "categorical"}, "categorical"),
    "name": ({"complete": "yes"}, "identifier"),
    "row": ({}, "identifier"),
    "complete limits": (
        {"how": "limits", "type": "integer", "lower": "0", "upper": "9", "source": "x", "complete": "yes"},
        "integer",
    ),
    "known": ({"known": "age"}, "integer"),
}


@pytest.mark.parametrize(("typed", "kind"), TYPED.values(), ids=TYPED)
def test_an_answer_is_an_entry_that_a_schema_takes_and_goes_back_into_the_form(typed, kind, request):
    how = request.node.callspec.id
    typed = {"how": how, **typed}
    made = answer_of("a column", typed, [], {})
    assert made["entry"]["type"] == kind
    column_of(made["entry"])
    assert in_words(made)
    again = answer_of("a column", made["typed"], [], {})
    assert again["entry"] == made["entry"]


def test_levels_that_were_ticked_join_those_that_were_typed_once_each():
    made = answer_of("c", {"how": "list", "levels": "b\na", "source": "s"}, ["a", "z"], {})
    assert made["entry"]["levels"] == ["b", "a", "z"]
    assert made["typed"]["levels"] == "b\na\nz"


def test_a_code_with_zeros_in_front_stays_a_text():
    assert answer_of("c", {"how": "list", "levels": "007|008", "source": "s"}, [], {})["entry"]["levels"] == [
        "007",
        "008",
    ]


@pytest.mark.parametrize("typed", [TYPED[name][0] | {"how": TYPED[name][0].get("how", name)} for name in TYPED])
def test_a_value_may_be_missing_unless_somebody_says_that_none_can(typed):
    entry = answer_of("a column", typed, [], {})["entry"]
    assert entry["type"] == "identifier" or entry.get("nullable", False) == (typed.get("complete") != "yes")


def test_a_column_that_is_left_out_has_no_entry():
    assert answer_of("c", {"how": "out"}, [], {})["entry"] is None


BAD = {
    "nothing chosen": {},
    "something else chosen": {"how": "CANARY"},
    "no lower limit": {"how": "limits", "type": "integer", "upper": "3", "source": "s"},
    "limits the wrong way round": {"how": "limits", "type": "integer", "lower": "5", "upper": "3", "source": "s"},
    "no number": {"how": "limits", "type": "integer", "lower": "five", "upper": "3", "source": "s"},
    "an infinite limit": {"how": "limits", "type": "continuous", "lower": "-inf", "upper": "3", "source": "s"},
    "digits of a whole number": {
        "how": "limits",
        "type": "integer",
        "lower": "0",
        "upper": "9",
        "decimals": "2",
        "source": "s",
    },
    "a comma of thousands or of decimals": {
        "how": "limits",
        "type": "continuous",
        "lower": "0",
        "upper": "1,500",
        "source": "s",
    },
    "limits of categories": {"how": "limits", "type": "categorical", "lower": "1", "upper": "3", "source": "s"},
    "no source": {"how": "limits", "type": "integer", "lower": "1", "upper": "3", "source": "  "},
    "a source of many lines": {"how": "list", "levels": "a|b", "source": "x" * 201},
    "a source with a control character": {"how": "list", "levels": "a|b", "source": "x\x00y"},
    "an empty list": {"how": "list", "levels": " | \n ", "source": "s"},
    "a list without a source": {"how": "list", "levels": "a|b"},
    "no such known column": {"how": "known", "known": "shoe size"},
    "a date that there is not": {
        "how": "limits",
        "type": "date",
        "lower": "2020-13-01",
        "upper": "2021-01-01",
        "source": "s",
    },
    "half a digit": {
        "how": "limits",
        "type": "continuous",
        "lower": "0",
        "upper": "1",
        "decimals": "1.5",
        "source": "s",
    },
}


@pytest.mark.parametrize("typed", BAD.values(), ids=BAD)
def test_what_cannot_be_meant_is_refused_in_one_sentence(typed):
    with pytest.raises(SchemaError) as refused:
        answer_of("c", typed, [], {})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1500", 1500),
        ("1 500", 1500),
        ("−3", -3),
        ("0,5", 0.5),
        ("1,25", 1.25),
        ("1e3", 1000.0),
        ("0.125", 0.125),
        ("1.0000", 1.0),
        ("2500.125", 2500.125),
        ("500,000", 500_000),
        ("1,500,000", 1_500_000),
        ("1.500.000", 1_500_000),
        ("12'000", 12_000),
    ],
)
def test_numbers_are_read_as_people_write_them(text, number):
    assert number_of(text) == number


@pytest.mark.parametrize(
    "text", ["", "1,500", "1.500", "-12.000", "1.500,5", "1,5,6", "nan", "1_000,000", "=1+1", "١٢x"]
)
def test_what_might_be_another_number_is_not_guessed(text):
    with pytest.raises(SchemaError):
        number_of(text)


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "integer", "lower": 0, "upper": 9, "source": "d"},
        {"type": "boolean", "source": "d"},
        {"type": "categorical", "levels": ["a", "b"], "nullable": True, "source": "d"},
        {"type": "identifier"},
        {"type": "continuous", "comment": "no bounds", "source": "d"},
        {"type": "continuous", "lower": 0, "upper": 1, "decimals": 2, "source": "d"},
        {"type": "integer", "lower": 0, "upper": 9, "source": "d", "nullable": False},
    ],
)
def test_what_a_document_says_can_be_read_and_changed_in_the_form(entry):
    made = from_document({"name": "c", **entry})
    said = {} if entry["type"] == "identifier" else {"nullable": True}
    assert column_of(made["entry"]) == column_of(
        {key: v for key, v in {"name": "c", **said, **entry}.items() if key != "comment"}
    )
    again = answer_of("c", {"source": "d", **made["typed"]}, [], {})
    assert column_of(again["entry"]) == column_of(made["entry"])


def test_a_whole_number_has_no_decimals_so_that_one_group_is_thousands():
    assert number_of("1.500", whole=True) == number_of("1,500", whole=True) == 1500


def test_no_digits_after_the_point_make_a_whole_number():
    typed = {"how": "limits", "type": "continuous", "lower": "0", "upper": "9", "decimals": "0", "source": "x"}
    assert answer_of("c", typed, [], {})["entry"]["type"] == "integer"


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("31.12.2024", "2024-12-31"),
        ("1.2.2024", "2024-02-01"),
        ("12/31/2024", "2024-12-31"),
        ("31/12/2024 08:30", "2024-12-31 08:30"),
        ("3/3/2024", "2024-03-03"),
        ("2024-12-31", "2024-12-31"),
        ("08:30", "08:30"),
    ],
)
def test_dates_are_read_as_people_write_them(text, date):
    assert date_of(text) == date


def test_a_date_that_can_be_read_in_two_ways_is_not_guessed():
    with pytest.raises(SchemaError, match="3/4/2024"):
        date_of("3/4/2024")


@pytest.mark.parametrize("typed", [TYPED[name][0] | {"how": TYPED[name][0].get("how", name)} for name in TYPED])
def test_a_line_of_the_sheet_says_what_the_card_says(typed):
    made = answer_of("c", typed, [], {})
    again = answer_of("c", from_short(in_short(made), made["typed"]), [], {})
    assert again["entry"] == made["entry"]


LEVELS = st.text(st.sampled_from('ab1"|\\ \n\r\t\u2028\u00e9') | st.characters(codec="utf-8"), max_size=6)
WHOLE = st.integers(-(10**18) + 1, 10**18 - 1)
TYPED_LEVELS = st.text(LEVELS.map(lambda text: text[:1] or "a"), max_size=12)
LIMITS = {
    "integer": st.integers(-(10**9), 10**9), "continuous": st.floats(-1e9, 1e9), "date": st.dates(),
    "datetime": st.datetimes(), "time": st.times(),
}  # fmt: skip


def same_again(made):
    """What the form and the line of an answer say, once more."""
    form = answer_of("c", made["typed"], [], {})
    line = in_short(made)
    sheet = answer_of(
        "c", {**from_short(line.strip(), {}), **{k: v for k, v in made["typed"].items() if k in KEPT}}, [], {}
    )
    return [column_of(one["entry"]) == column_of(made["entry"]) for one in (form, sheet)]


KEPT = ("type", "complete", "source", "resolution", "decimals", "words")
"""What the sheet keeps of the form."""


@given(
    st.text(LEVELS.map(lambda text: text[:1] or "a"), max_size=12),
    st.lists(LEVELS, max_size=4),
    st.sampled_from([*LABELLED]),
)
@example("yes", [], "categorical")
@example("5", [], "ordinal")
@example("", ["a|b"], "categorical")
@example("not known", [], "categorical")
@example("known: age | 0 to 5", [], "categorical")
@example("", ["Oslo ", "Oslo"], "categorical")
@example("", ["one\ntwo"], "categorical")
@example('"high" | low', ['"a|b"', '" a"', "\\"], "ordinal")
def test_a_list_of_any_values_goes_back_into_the_form_and_into_its_line_of_the_sheet(levels, ticked, kind):
    try:
        made = answer_of("c", {"how": "list", "levels": levels, "type": kind, "source": "s"}, ticked, {})
    except SchemaError:  # an empty list, or values that no column may have
        return
    assert same_again(made) == [True, True]


@given(st.one_of(st.lists(one, min_size=1, max_size=4, unique=True) for one in (LEVELS, WHOLE)))
@example(["yes"])
@example(["1", "2"])
@example([1])
def test_the_list_of_a_document_goes_back_into_the_form_and_into_its_line_of_the_sheet(levels):
    try:
        made = from_document({"name": "c", "type": "categorical", "levels": levels, "source": "d"})
    except SchemaError:
        return
    assert same_again(made) == [True, True]


@given(st.sampled_from([*LIMITS]).flatmap(lambda kind: st.tuples(st.just(kind), LIMITS[kind], LIMITS[kind])))
def test_any_limits_go_back_into_the_form_and_into_their_line_of_the_sheet(limits):
    kind, lower, upper = limits
    try:
        made = answer_of(
            "c", {"how": "limits", "type": kind, "lower": str(lower), "upper": str(upper), "source": "s"}, [], {}
        )
    except SchemaError:  # the wrong way round
        return
    assert same_again(made) == [True, True]


@pytest.mark.parametrize(
    "entry", [{"type": "time"}, {"type": "time", "lower": "08:00"}, {"type": "duration", "lower": 0, "upper": 9}]
)
def test_limits_of_a_document_go_into_their_line_of_the_sheet(entry):
    made = from_document({"name": "c", "source": "d", **entry})
    assert same_again(made) == [True, True]


@pytest.mark.parametrize("how", [*SHORT, "known"])
def test_every_other_answer_goes_into_its_line_of_the_sheet(how):
    made = answer_of("c", {"how": how, "known": "age", "type": "integer"}, [], {})
    again = answer_of("c", from_short(in_short(made), {"type": "integer"}), [], {})
    assert again["entry"] == made["entry"]


def test_quotation_marks_around_a_value_that_needs_none_belong_to_it():
    typed = {"how": "list", "levels": '"high" | low', "source": "s"}
    assert answer_of("c", typed, [], {})["entry"]["levels"] == ['"high"', "low"]
    assert answer_of("c", typed | {"levels": '"a|b" | c'}, [], {})["entry"]["levels"] == ["a|b", "c"]


@pytest.mark.parametrize("text", ["0 to 120", "0..120", "0 \u2013 120", " 0  to  120 "])
def test_limits_are_two_ends(text):
    assert from_short(text, {}) == {"how": "limits", "lower": "0", "upper": "120"}


@pytest.mark.parametrize("text", ["120", "yes, no", "to", "anything"])
def test_what_is_no_line_of_the_sheet_is_refused(text):
    with pytest.raises(SchemaError):
        from_short(text, {})


SCHEMA = Schema({
    "age": Integer(0, 120, nullable=True), "ward": Categorical(["children", "adults"]), "years": Integer(0, 120),
    "code": Categorical([1, 2, 9]), "smoker": Boolean(),
})  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "names", "texts", "words"),
    [
        ("less_equal", ("years", "age"), ("", ""), "years is at most age"),
        ("implies", ("ward", "age"), ("children", "0 to 17"), "ward"),
        ("forbidden", ("ward", "smoker"), ("children", "True"), "never"),
        ("implies", ("code", "age"), ("1 | 2", "missing"), "code"),
    ],
)
def test_a_rule_in_words_is_a_rule_of_the_schema(kind, names, texts, words):
    rule = rule_of(kind, names, texts, SCHEMA)
    import json

    document = json.loads(SCHEMA.to_json()) | {"constraints": [rule]}
    (found,) = Schema.from_json(json.dumps(document)).constraints
    assert words in found.in_words()


@pytest.mark.parametrize(
    ("kind", "names", "texts"),
    [
        ("less_equal", ("age", "age"), ("", "")),
        ("implies", ("ward", "age"), ("", "3")),
        ("implies", ("ward", "age"), ("x", "young")),
        ("strange", ("ward", "age"), ("children", "3")),
    ],
)
def test_a_rule_that_says_nothing_is_refused(kind, names, texts):
    with pytest.raises(SynthDPError):
        rule_of(kind, names, texts, SCHEMA)


def test_days_are_typed_as_they_are_written():
    made = answer_of(
        "c", {"how": "limits", "type": "date", "lower": "2020-01-01", "upper": "2021-01-01", "source": "s"}, [], {}
    )
    assert dt.date.fromisoformat(made["entry"]["lower"]) < dt.date.fromisoformat(made["entry"]["upper"])


def test_texts_among_numbers_count_as_numbers():
    typed = {"how": "limits", "type": "continuous", "lower": "0", "upper": "500", "source": "x"}
    entry = answer_of("a", {**typed, "words": "<0.6: 0,3 | a:b: 7"}, [], {})["entry"]
    assert entry["words"] == {"<0.6": 0.3, "a:b": 7}
    assert from_document(entry)["typed"]["words"] == "<0.6: 0.3 | a:b: 7"


@pytest.mark.parametrize("words", ["<0.6", "<0.6: x", ": 3"])
def test_a_text_without_a_number_is_refused(words):
    typed = {"how": "limits", "type": "continuous", "lower": "0", "upper": "500", "source": "x", "words": words}
    with pytest.raises(SynthDPError):
        answer_of("a", typed, [], {})


def test_the_people_of_the_most_similar_earlier_table_are_proposed_in_any_order() -> None:
    """Several tables of the same people: the one with the same columns counts, whichever came last."""
    columns = {"jan.csv": "abc", "other.csv": "xy", "feb.csv": "abc"}
    for order in itertools.permutations(["jan.csv", "other.csv"]):
        project = SimpleNamespace(
            columns=[{"name": name} for name in columns["feb.csv"]],
            current="feb.csv",
            tables={
                name: {
                    "people": "P" if name != "feb.csv" else None,
                    "columns": [{"name": one} for one in columns[name]],
                }
                for name in (*order, "feb.csv")
            },
        )
        assert Project.alike(project) == "P"
