"""Rules within a row of any table and between the rows of one parent row: exact in every synthetic row, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import synthdp as sd
from synthdp.domain.histories import Layout
from synthdp.errors import ParameterError, SchemaError
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.release import save
from synthdp.sampling.possible_rules import check_rules, evenly

ROLES = ["head", "spouse", "child"]
RULES: dict[str, Any] = {
    "in the root": sd.LessEqual("homes.built", "homes.sold"),
    "stay ends after it begins": sd.LessEqual("stays.begun", "stays.ended"),
    "period first": sd.LessEqual("stays.year", "stays.paid"),
    "children pay nothing": sd.Implies(when={"members.role": "child"}, then={"members.income": [None, (0, 500)]}),
    "never both": sd.Forbidden({"members.role": "spouse", "members.line": [1, 2]}),
    "one head": sd.RowsPerParent("members.role", "head", at_least=1, at_most=1),
    "at most one spouse": sd.RowsPerParent("members.role", ["spouse"], at_most=1),
    "some stay is paid": sd.RowsPerParent("stays.kind", ["a", None], at_least=1),
    "own line": sd.UniquePerParent("members.line"),
    "own code": sd.UniquePerParent("bills.code"),
    "own moment": sd.UniquePerParent("stays.begun"),
    "grade": sd.NeverFalls("stays.grade"),
    "meter": sd.NeverFalls("stays.meter"),
    "ended": sd.NeverFalls("stays.ended"),
    "built before begun": sd.LessEqual("homes.built", "stays.begun"),
}


def database(
    *names: str, unique: bool = False, years: tuple[int, int] = (1990, 2019), own: bool = False
) -> sd.DatabaseSchema:
    """Homes with members in no order, stays in the order of a year, and bills of stays."""
    tables = {
        "homes": {"built": sd.Integer(1900, 2019), "sold": sd.Integer(1900, 2019, nullable=True)},
        "members": {
            "role": sd.Categorical(ROLES),
            "income": sd.Continuous(0, 9000, nullable=True),
            "line": sd.Integer(1, 5, nullable=True),
        },
        "stays": {
            "begun": sd.Integer(1950, 2024),
            "ended": sd.Integer(1950, 2024, nullable=True),
            "year": sd.Integer(*years),
            "paid": sd.Integer(1980, 2030),
            "kind": sd.Categorical(["a", "b", "c"], nullable=True),
            "grade": sd.Ordinal(["I", "II", "III", "IV"]),
            "meter": sd.Integer(0, 10**8, nullable=True),
        },
        "bills": {"code": sd.Categorical(["x", "y"])},
    }
    some = [sd.LessEqual("begun", "ended")] if own else []
    return sd.DatabaseSchema(
        tables={name: sd.Schema(one, constraints=some if name == "stays" else []) for name, one in tables.items()},
        relations=[
            sd.Relation("homes", "members", key="home", at_most=4),
            sd.Relation("homes", "stays", key="home", at_most=4, order="year", unique=unique),
            sd.Relation("stays", "bills", key="stay", at_most=2),
        ],
        rules=[RULES[name] for name in names],
    )


def private(seed: int, *, homes: int = 100) -> dict[str, pd.DataFrame]:
    """Rows that know nothing of any rule."""
    rng = np.random.default_rng(seed)
    many = 3 * homes
    home, of_bill = rng.integers(0, homes, many), rng.integers(0, many, homes)
    root = {name: rng.integers(1900, 2020, homes) for name in ("built", "sold")}
    members = {"role": rng.choice(ROLES, many), "income": rng.gamma(2, 900, many), "line": rng.integers(1, 6, many)}
    stays = {name: rng.integers(1980, 2020, many) for name in ("begun", "ended", "year", "paid")}
    stays |= {"kind": rng.choice(["b", "c"], many), "grade": rng.choice(["I", "II", "III", "IV"], many)}
    bills = {"home": home[of_bill], "stay": of_bill, "code": "x"}
    return {
        "homes": pd.DataFrame({"home": range(homes), **root}),
        "members": pd.DataFrame({"home": rng.integers(0, homes, many), **members}),
        "stays": pd.DataFrame({"home": home, "stay": range(many), **stays, "meter": rng.integers(0, 10**8, many)}),
        "bills": pd.DataFrame(bills),
    }


def count(table: pd.DataFrame, key: str, named: pd.Series) -> pd.Series:
    """How many rows of each parent row that has rows are named."""
    return named.groupby(table[key]).sum()


def falls(table: pd.DataFrame, values: pd.Series) -> bool:
    """Whether a value is below an earlier one of its parent row."""
    some = values.dropna().astype(float)
    return bool((some < some.groupby(table["home"]).cummax()).any())


OBEYS: dict[str, Callable[[dict[str, pd.DataFrame]], bool]] = {
    "in the root": lambda t: not (t["homes"]["built"] > t["homes"]["sold"]).any(),
    "stay ends after it begins": lambda t: not (t["stays"]["begun"] > t["stays"]["ended"]).any(),
    "period first": lambda t: not (t["stays"]["year"] > t["stays"]["paid"]).any(),
    "children pay nothing": lambda t: not ((t["members"]["role"] == "child") & (t["members"]["income"] > 500)).any(),
    "never both": lambda t: not ((t["members"]["role"] == "spouse") & t["members"]["line"].isin([1, 2])).any(),
    "one head": lambda t: (count(t["members"], "home", t["members"]["role"] == "head") == 1).all(),
    "at most one spouse": lambda t: (count(t["members"], "home", t["members"]["role"] == "spouse") <= 1).all(),
    "some stay is paid": lambda t: (
        count(t["stays"], "home", (t["stays"]["kind"] == "a") | t["stays"]["kind"].isna()) >= 1
    ).all(),
    "own line": lambda t: not t["members"].dropna(subset=["line"]).duplicated(["home", "line"]).any(),
    "own code": lambda t: not t["bills"].duplicated(["stay", "code"]).any(),
    "own moment": lambda t: not t["stays"].duplicated(["home", "begun"]).any(),
    "grade": lambda t: not falls(t["stays"], t["stays"]["grade"].map({"I": 1, "II": 2, "III": 3, "IV": 4})),
    "meter": lambda t: not falls(t["stays"], t["stays"]["meter"]),
    "ended": lambda t: not falls(t["stays"], t["stays"]["ended"]),
    "built before begun": lambda t: (
        not ((merged := t["stays"].merge(t["homes"], on="home"))["built"] > merged["begun"]).any()
    ),
}


def released(schema: sd.DatabaseSchema, tables: dict[str, pd.DataFrame]) -> sd.Release[Any]:
    curator = sd.Curator(tables, schema=schema, budget=sd.ApproxDP(2.0, 1e-9))
    return RelatedTables(particles=150, sweeps=(1, 1)).release(curator, random_state=0)


def check_joins(made: dict[str, pd.DataFrame], homes: int) -> None:
    assert len(made["homes"]) == homes
    assert made["homes"]["home"].is_unique
    for child, parent, key in (("members", "homes", "home"), ("stays", "homes", "home"), ("bills", "stays", "stay")):
        assert set(made[child][key]) <= set(made[parent][key])


forms = st.sampled_from([(False, (1990, 2019)), (True, (1990, 2019)), (True, (2000, 2005))])


@settings(max_examples=8, deadline=None)
@given(names=st.sets(st.sampled_from(sorted(RULES)), min_size=1), form=forms, seed=st.integers(0, 999))
def test_every_database_that_is_drawn_obeys_its_rules(
    names: set[str], form: tuple[bool, tuple[int, int]], seed: int
) -> None:
    """Of a law in which all cells are equally likely, which breaks rules as often as can be."""
    model = evenly(Layout(database(*sorted(names), unique=form[0], years=form[1])))
    made = model.sample(80, random_state=seed)
    check_joins(made, 80)
    assert all(OBEYS[name](made) for name in names), names
    assert not (made["stays"].groupby("home")["year"].diff().dropna() < form[0]).any()


@pytest.mark.usefixtures("few_sweeps")
def test_a_release_of_rows_that_break_every_rule_obeys_all_of_them(tmp_path: Path) -> None:
    schema = database(*RULES)
    release = released(schema, private(0))
    made = release.sample(100, random_state=0)
    check_joins(made, 100)
    assert [name for name in RULES if not OBEYS[name](made)] == []
    save(release, tmp_path / "db.release")
    again = sd.load(tmp_path / "db.release").sample(100, random_state=0)
    assert all(made[name].equals(again[name]) for name in made)
    assert all(rule.in_words() in " ".join(str(release.receipt).split()) for rule in schema.rules)


@pytest.mark.parametrize("name", ["own line", "own code", "own moment", "one head", "grade", "meter", "in the root"])
def test_a_rule_is_kept_by_what_is_drawn_and_hardly_by_what_is_left_out(name: str) -> None:
    for table, (drawn, kept, _) in evenly(Layout(database(name))).kept_rows(300, np.random.default_rng(1)).items():
        assert kept > 0.97 * drawn > 100, table


def test_the_rules_of_a_tables_own_schema_are_kept() -> None:
    schema = database(own=True)
    made = evenly(Layout(schema)).sample(200, random_state=0)
    assert not (made["stays"]["begun"] > made["stays"]["ended"]).any()
    assert "stays: begun is at most ended" in schema.obeyed
    assert sd.DatabaseSchema.from_json(schema.to_json()) == schema


@given(st.sets(st.sampled_from(sorted(RULES))))
@settings(max_examples=10, deadline=None)
def test_rules_are_written_and_read(names: set[str]) -> None:
    schema = database(*sorted(names))
    again = sd.DatabaseSchema.from_json(schema.to_json())
    assert again == schema
    assert again.obeyed == schema.obeyed
    assert len(again.among) == len(schema.among)


BAD: dict[str, tuple[Any, str]] = {
    "of the root": (sd.UniquePerParent("homes.built"), r"\'homes\.built\'"),
    "too few values": (sd.UniquePerParent("members.role"), r"\'members\.role\'.*\b3\b.*\b4\b"),
    "the order": (sd.UniquePerParent("stays.year"), "unique=True"),
    "an unknown level": (sd.RowsPerParent("members.role", "lodger", at_most=1), "'lodger'"),
    "numbers": (sd.RowsPerParent("members.line", 1, at_most=1), "levels"),
    "all levels": (sd.RowsPerParent("members.role", ROLES, at_most=1), r"\'members\.role\'.*at_most"),
    "no order of rows": (sd.NeverFalls("members.line"), r"\'members\.line\'.*order"),
    "no order of values": (sd.NeverFalls("stays.kind"), r"\'stays\.kind\'.*order"),
    "an unknown column": (sd.NeverFalls("stays.height"), "'height'"),
    "no table": (sd.UniquePerParent("line"), "table.column"),
    "side by side": (sd.LessEqual("members.line", "stays.year"), r"\'members\.line\'.*\'stays\.year\'"),
    "three columns": (
        sd.Forbidden({"stays.begun": 1990, "stays.ended": 1990, "stays.kind": "a"}),
        r"stays\.begun.*stays\.ended.*stays\.kind",
    ),
    "no rule": ("stays.begun <= stays.ended", "rules"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_rule_that_cannot_be_kept_is_refused_in_a_sentence(case: str) -> None:
    rule, said = BAD[case]
    plain = database()
    with pytest.raises(SchemaError, match=said) as caught:
        sd.DatabaseSchema(plain.tables, plain.relations, rules=[rule])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{}, {"at_least": 2}, {"at_most": -1}, {"at_least": 1, "at_most": 0}, {"at_most": "one"}]
)
def test_a_count_of_rows_that_says_nothing_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises((SchemaError, ParameterError)):
        sd.RowsPerParent("members.role", "head", **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"at_most": 1}, "at most 1 has"), ({"at_most": 11}, "at most 11 have"), ({"at_most": 0}, "exactly 0 have"),
        ({"at_least": 1}, "at least 1 has"), ({"at_least": 1, "at_most": 21}, "at least 1 and at most 21 have"),
    ],
)  # fmt: skip
def test_a_count_of_rows_is_said_in_grammatical_words(settings: dict[str, Any], said: str) -> None:
    words = sd.RowsPerParent("members.role", "head", **settings).in_words()
    assert words == f"of the rows of one parent row, {said} members.role head"


def test_a_rule_between_rows_is_none_of_one_table() -> None:
    with pytest.raises(SchemaError, match="UniquePerParent"):
        sd.Schema({"a": sd.Integer(0, 3)}, constraints=[sd.UniquePerParent("t.a")])  # type: ignore[list-item]


CONTRADICTIONS: dict[str, list[Any]] = {
    "two by two": [sd.Forbidden({"homes.a": [0, 1], "homes.b": [0, 1]})],
    "three by three": [
        *(sd.Forbidden({f"homes.{x}": v, f"homes.{y}": v}) for x, y in ("ab", "bc", "ac") for v in (0, 1))
    ],
    "of one row": [*(sd.Forbidden({f"rows.{x}": v, f"rows.{y}": v}) for x, y in ("ab", "bc", "ac") for v in (0, 1))],
    "across": [sd.Forbidden({"homes.a": [0, 1], "rows.a": [0, 1]})],
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_rules_that_contradict_each_other_are_refused_before_anything_is_spent(case: str, tmp_path: Path) -> None:
    columns = {name: sd.Categorical([0, 1]) for name in "abc"}
    schema = sd.DatabaseSchema(
        {"homes": sd.Schema(columns), "rows": sd.Schema(columns)},
        [sd.Relation("homes", "rows", key="home", at_most=2)],
        rules=CONTRADICTIONS[case],
    )
    with pytest.raises(SchemaError) as caught:
        check_rules(Layout(schema))
    assert "\n" not in str(caught.value)
    table = pd.DataFrame({"home": range(30), "a": 0, "b": 1, "c": 0})
    release = sd.DatabaseRelease(schema=schema, epsilon=1.0, ledger=tmp_path / "ledger.sqlite", dataset="homes")
    with pytest.raises(SchemaError):
        release.fit({"homes": table, "rows": table})
    assert not sd.Ledger(tmp_path / "ledger.sqlite").entries()


def test_first_records_of_a_table_with_rules_are_not_given() -> None:
    model = evenly(Layout(database("grade")))
    with pytest.raises(ParameterError, match=r"'stays\[1\]\.grade'.*'stays'"):
        model.sample(10, given={"stays[1].grade": "II"})
    assert (model.sample(10, random_state=0, given={"built": 1950})["homes"]["built"] == 1950).all()


def test_given_values_that_no_person_has_who_obeys_are_refused() -> None:
    model = evenly(Layout(database("in the root")))
    made = model.sample(40, random_state=0, given={"built": 1950, "sold": (1940, 1960)})["homes"]
    assert len(made) == 40
    assert made["sold"].between(1950, 1960).all()
    with pytest.raises(ParameterError):
        model.sample(10, random_state=0, given={"built": 1955, "sold": 1954})
