"""Rules between tables: exact in every synthetic row, whatever the private rows say; declared, written, read and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from no_noise import without_noise
from small_databases import codes_of

import synthdp as sd
from synthdp.domain.histories import Layout
from synthdp.errors import SchemaError
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.release import save

RULES: dict[str, Any] = {
    "not before birth": sd.LessEqual("persons.born", "visits.year"),
    "not after death": sd.LessEqual("visits.year", "persons.died"),
    "age": sd.Derived("visits.age", "visits.year - persons.born"),
    "never both": sd.Forbidden({"persons.sex": "m", "visits.code": ["p", "q"]}),
    "only those": sd.Implies(when={"persons.sex": "f"}, then={"visits.cost": [None, (0, 99)]}),
    "bill after visit": sd.LessEqual("visits.year", "bills.paid"),
    "bill after birth": sd.LessEqual("persons.born", "bills.paid"),
    "delay": sd.Derived("bills.delay", "bills.paid - visits.year + 0 * persons.born"),
    "looked up": sd.Derived("visits.who", of="persons.sex", values={"f": "woman", "m": "man"}),
}


def database(
    *names: str, order: str | None = "year", unique: bool = False, years: tuple[int, int] = (1960, 2019)
) -> sd.DatabaseSchema:
    """Persons with visits and their bills, with some of the rules."""
    persons = {
        "sex": sd.Categorical(["f", "m"]),
        "born": sd.Integer(1950, 2019, nullable=True),
        "died": sd.Integer(1950, 2019, nullable=True),
    }
    visits = {
        "year": sd.Integer(*years),
        "cost": sd.Continuous(0, 500, nullable=True),
        "code": sd.Categorical(["p", "q", "r"]),
        **({"age": sd.Integer(nullable=True)} if "age" in names else {}),
        **({"who": sd.Categorical()} if "looked up" in names else {}),
    }
    bills = {
        "paid": sd.Integer(1950, 2024),
        **({"delay": sd.Integer(nullable=True)} if "delay" in names else {}),
    }
    return sd.DatabaseSchema(
        tables={"persons": sd.Schema(persons), "visits": sd.Schema(visits), "bills": sd.Schema(bills)},
        relations=[
            sd.Relation("persons", "visits", key="id", at_most=4, order=order, unique=unique),
            sd.Relation("visits", "bills", key="visit", at_most=2),
        ],
        rules=[RULES[name] for name in names],
    )


def private(seed: int, years: tuple[int, int], *, persons: int = 120) -> dict[str, pd.DataFrame]:
    """Rows that know nothing of any rule: most break some."""
    rng = np.random.default_rng(seed)
    rows = 3 * persons
    visits = {
        "id": rng.integers(0, persons, rows),
        "visit": range(rows),
        "year": rng.integers(years[0], years[1] + 1, rows),
        "cost": rng.gamma(2, 60, rows),
        "code": rng.choice(["p", "q", "r"], rows),
    }
    root = {"id": range(persons), "sex": rng.choice(["f", "m"], persons)}
    root |= {name: rng.integers(1950, 2020, persons) for name in ("born", "died")}
    below = rng.integers(0, rows, persons)
    bills = {"id": visits["id"][below], "visit": below, "paid": rng.integers(1950, 2025, persons)}
    return {"persons": pd.DataFrame(root), "visits": pd.DataFrame(visits), "bills": pd.DataFrame(bills)}


def joined(made: dict[str, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    visits = made["visits"].merge(made["persons"], on="id", validate="many_to_one")
    bills = made["bills"].merge(visits, on="visit", validate="many_to_one", suffixes=("", "_"))
    assert len(visits) == len(made["visits"])
    assert len(bills) == len(made["bills"])
    return visits, bills


def equal(found: pd.Series, expected: pd.Series) -> bool:
    """Whether whole numbers are the same, and missing together."""
    return found.astype("Float64").equals(expected.astype("Float64"))


OBEYS: dict[str, Any] = {
    "not before birth": lambda visits, bills: not (visits["born"] > visits["year"]).any(),
    "not after death": lambda visits, bills: not (visits["year"] > visits["died"]).any(),
    "age": lambda visits, bills: equal(visits["age"], visits["year"] - visits["born"]),
    "never both": lambda visits, bills: not ((visits["sex"] == "m") & visits["code"].isin(["p", "q"])).any(),
    "only those": lambda visits, bills: not ((visits["sex"] == "f") & (visits["cost"] > 99)).any(),
    "bill after visit": lambda visits, bills: not (bills["year"] > bills["paid"]).any(),
    "bill after birth": lambda visits, bills: not (bills["born"] > bills["paid"]).any(),
    "delay": lambda visits, bills: equal(bills["delay"], bills["paid"] - bills["year"] + 0 * bills["born"]),
    "looked up": lambda visits, bills: (visits["who"] == visits["sex"].map({"f": "woman", "m": "man"})).all(),
}


def released(schema: sd.DatabaseSchema, tables: dict[str, pd.DataFrame]) -> sd.Release[Any]:
    curator = sd.Curator(tables, schema=schema, budget=sd.ApproxDP(2.0, 1e-9))
    return RelatedTables(particles=200, sweeps=(1, 2)).release(curator, random_state=0)


@settings(max_examples=3, deadline=None)
@given(
    names=st.sets(st.sampled_from(sorted(RULES)), min_size=1),
    form=st.sampled_from([("year", False, (1960, 2019)), ("year", True, (2000, 2019)), ("year", True, (2000, 2005)),
                          (None, False, (1960, 2019))]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_every_synthetic_database_obeys_its_rules(
    names: set[str], form: tuple[str | None, bool, tuple[int, int]], seed: int
) -> None:
    schema = database(*names, order=form[0], unique=form[1], years=form[2])
    made = released(schema, private(seed, form[2])).sample(300, random_state=seed)
    visits, bills = joined(made)
    assert all(OBEYS[name](visits, bills) for name in names), names
    assert not form[1] or not made["visits"].duplicated(["id", "year"]).any()
    ordered = made["visits"].groupby("id")["year"].diff().dropna() >= 0
    assert form[0] is None or ordered.all()


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("unique", "years"), [(True, (2000, 2005)), (True, (1990, 2019)), (False, (1960, 2019))])
def test_rules_are_kept_by_what_is_drawn_and_hardly_by_what_is_left_out(
    unique: bool, years: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_noise(monkeypatch)
    schema = database("not before birth", "never both", unique=unique, years=years)
    model = released(schema, private(3, years)).output
    drawn = len(model.draw(400, np.random.default_rng(0))[0].tables[1])
    assert len(model.sample(400, random_state=0)["visits"]) > 0.9 * drawn > 100


def test_rows_of_the_private_tables_that_break_a_rule_are_counted_like_others() -> None:
    """Whether a private row breaks a rule is a private fact: what the curator counts does not depend on rules."""
    tables = private(1, (1960, 2019), persons=40)
    sums = []
    for names in ((), ("not before birth", "never both")):
        codes = codes_of(tables, Layout(database(*names)))
        sums.append(codes[np.lexsort(codes.T)])
    assert (sums[0] == sums[1]).all()


@pytest.mark.usefixtures("few_sweeps")
def test_a_release_with_rules_is_saved_and_says_them(tmp_path: Path) -> None:
    release = released(database(*RULES), private(2, (1960, 2019)))
    save(release, tmp_path / "db.release")
    again = sd.load(tmp_path / "db.release")
    first, second = release.sample(30, random_state=1), again.sample(30, random_state=1)
    assert all(first[name].equals(second[name]) for name in first)
    assert "visits.age is visits.year - persons.born" in " ".join(str(release.receipt).split())
    assert str(first["visits"]["age"].dtype) == "Int64"


KINDS: dict[str, tuple[Any, Any]] = {
    "moments": (
        sd.Datetime("2000-01-01", "2020-01-01"),
        lambda whole: pd.Timestamp("2000-01-01") + pd.to_timedelta(whole % (7000 * 86400), "s"),
    ),
    "reals": (sd.Continuous(0, 1000, decimals=2), lambda whole: (whole % 100_000) / 100),
    "large numbers": (sd.Integer(0, 10**9), lambda whole: whole),
}


@pytest.mark.parametrize("kind", ["moments", "reals", pytest.param("large numbers", marks=pytest.mark.slow)])
def test_an_order_holds_for_the_values_that_come_out(kind: str) -> None:
    """Of columns whose grid points stand for many values each."""
    column, values = KINDS[kind]
    schema = sd.DatabaseSchema(
        tables={"persons": sd.Schema({"a": column}), "visits": sd.Schema({"at": column, "b": column})},
        relations=[sd.Relation("persons", "visits", key="id", at_most=3, order="at")],
        rules=[sd.LessEqual("persons.a", "visits.at"), sd.LessEqual("visits.b", "persons.a")],
    )
    rng = np.random.default_rng(5)
    persons = pd.DataFrame({"id": range(100), "a": values(rng.integers(0, 10**9, 100))})
    visits = pd.DataFrame({"id": rng.integers(0, 100, 200)})
    tables = {
        "persons": persons,
        "visits": visits.assign(**{name: values(rng.integers(0, 10**9, 200)) for name in ("at", "b")}),
    }
    made = released(schema, tables).sample(1000, random_state=0)
    joined = made["visits"].merge(made["persons"], on="id")
    assert not (joined["a"] > joined["at"]).any()
    assert not (joined["b"] > joined["a"]).any()
    assert (made["visits"].sort_values(["id", "at"], kind="stable").index == made["visits"].index).all()


def test_rows_are_in_order_though_one_grid_point_stands_for_all_their_values() -> None:
    moments = KINDS["moments"][0]
    schema = sd.DatabaseSchema(
        tables={"persons": sd.Schema({"a": sd.Boolean()}), "visits": sd.Schema({"at": moments})},
        relations=[sd.Relation("persons", "visits", key="id", at_most=3, order="at")],
    )
    persons = pd.DataFrame({"id": range(100), "a": [True, False] * 50})
    seconds = pd.to_timedelta(np.arange(300), "s")  # less than one grid point of twenty years stands for
    visits = pd.DataFrame({"id": np.repeat(range(100), 3), "at": pd.Timestamp("2010-05-05") + seconds})
    with pytest.warns(UserWarning, match="epsilon"):
        fitted = sd.DatabaseRelease(schema=schema, epsilon=50.0).fit({"persons": persons, "visits": visits})
    made = fitted.sample(2000)["visits"]
    assert len(made) > 2000
    assert (made.sort_values(["id", "at"], kind="stable").index == made.index).all()


@pytest.mark.slow
def test_a_column_that_is_computed_is_not_read() -> None:
    schema = database("age")
    tables = private(2, (1960, 2019), persons=30)
    tables["visits"]["age"] = -(10**6)
    release = sd.DatabaseRelease(schema=schema, epsilon=2.0, n_rows=50, random_state=0)
    made = release.fit_transform(tables)
    assert "visits.age' is not in the schema" not in " ".join(str(release.receipt_).split())
    assert made["visits"]["age"].dropna().between(-59, 69).all()
    assert "age" not in schema.tables["visits"]


@given(st.sets(st.sampled_from(sorted(RULES))))
@settings(max_examples=10, deadline=None)
def test_a_schema_with_rules_is_written_and_read(names: set[str]) -> None:
    schema = database(*sorted(names))
    again = sd.DatabaseSchema.from_json(schema.to_json())
    assert again == schema
    assert [rule.in_words() for rule in again.rules] == [rule.in_words() for rule in schema.rules]


BAD: dict[str, tuple[Any, str]] = {
    "no table": (sd.LessEqual("born", "visits.year"), "table.column"),
    "an unknown column": (sd.LessEqual("persons.birth", "visits.year"), "'birth'"),
    "three columns": (
        sd.Forbidden({"persons.sex": "m", "persons.born": 1950, "visits.code": "p"}),
        r"persons\.sex.*persons\.born.*visits\.code",
    ),
    "other kinds": (sd.LessEqual("persons.born", "visits.cost"), r"\'persons\.born\'.*\'visits\.cost\'"),
    "an unknown value": (sd.Forbidden({"persons.sex": "x", "visits.code": "p"}), "'x'"),
    "no rule": ("born <= year", "rules"),
    "from below": (sd.Derived("persons.born", "visits.year + 0"), r"\'persons\.born\'.*\'visits\.year\'"),
    "a real number": (sd.Derived("visits.cost", "1.5 * persons.born"), r"\'visits\.cost\'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_rule_that_cannot_be_kept_is_refused_in_a_sentence(case: str) -> None:
    rule, said = BAD[case]
    plain = database()
    with pytest.raises(SchemaError, match=said):
        sd.DatabaseSchema(plain.tables, plain.relations, rules=[rule])


def test_tables_side_by_side_have_no_rule_between_their_rows() -> None:
    tables = {name: sd.Schema({"t": sd.Integer(0, 9)}) for name in ("root", "a", "b")}
    relations = [sd.Relation("root", name, key="id", at_most=2) for name in "ab"]
    with pytest.raises(SchemaError, match=r"'a\.t'.*'b\.t'"):
        sd.DatabaseSchema(tables, relations, rules=[sd.LessEqual("a.t", "b.t")])
