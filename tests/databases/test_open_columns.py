"""Several tables whose bounds and levels nobody declared."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import duckdb
import numpy as np
import pandas as pd
import pytest
import quick_fits
from adbc_driver_postgresql import dbapi
from click.testing import CliRunner
from small_databases import SCHEMAS, Person, every_person, frames

import synthdp as sd
from synthdp.cli.main import main
from synthdp.curator import discovery
from synthdp.curator.noisy_values import MAGNITUDE_BINS, level_counts, magnitude_bins
from synthdp.curator.private_database import PrivateDatabase, private_database
from synthdp.domain.encoder import numbers_of_labels
from synthdp.errors import BudgetExceededError, DataError, DiscoveryWarning, ParameterError, SchemaError
from synthdp.privacy.loss import Remaining
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.resolve import infer_schema

pytestmark = pytest.mark.usefixtures("few_sweeps")

RELATIONS = [
    sd.Relation("people", "visits", key="pid", at_most=4),
    sd.Relation("visits", "drugs", key="vid", at_most=2),
]


def clinic(people: int = 2000) -> dict[str, pd.DataFrame]:
    """People, their visits, and what was given at a visit."""
    rng = np.random.default_rng(1)
    of = np.repeat(np.arange(people), rng.integers(0, 5, people))
    drugs = np.repeat(np.arange(len(of)), rng.integers(0, 3, len(of)))
    sex, born = rng.choice(["f", "m"], people), rng.integers(1930, 2011, people)
    ward, cost = rng.choice(["er", "icu"], len(of), p=[0.8, 0.2]), 100 * rng.random(len(of))
    return {
        "people": pd.DataFrame({"pid": range(people), "sex": sex, "born": born}),
        "visits": pd.DataFrame({"pid": of, "vid": range(len(of)), "ward": ward, "cost": cost}),
        "drugs": pd.DataFrame({"pid": of[drugs], "vid": drugs, "dose": rng.choice([5, 10, 20], len(drugs))}),
    }


CLINIC = clinic()
FIRST = "one-way marginals of persons"


@pytest.fixture(scope="module")
def fitted() -> sd.DatabaseRelease:
    with pytest.warns(UserWarning, match="epsilon"), quick_fits.few_sweeps():
        return sd.DatabaseRelease(schema=RELATIONS, epsilon=9.0, random_state=0).fit(CLINIC)


def test_bounds_and_levels_of_all_tables_are_found(fitted):
    found = fitted.schema_
    assert found.undeclared == ()
    assert found.tables["people"]["sex"].levels == ("f", "m")
    assert found.tables["visits"]["ward"].levels == ("er", "icu")
    for table, column in (("people", "born"), ("visits", "cost"), ("drugs", "dose")):
        real, kind = CLINIC[table][column], found.tables[table][column]
        assert kind.lower <= real.quantile(0.02) <= real.quantile(0.98) <= kind.upper
    drawn = fitted.sample(2000)
    assert {name: [*one] for name, one in drawn.items()} == {name: [*one] for name, one in CLINIC.items()}
    assert set(drawn["drugs"]["vid"]) <= set(drawn["visits"]["vid"])
    assert abs((drawn["visits"]["ward"] == "icu").mean() - 0.2) < 0.1
    assert abs(drawn["people"]["born"].mean() - CLINIC["people"]["born"].mean()) < 12


def sqlite_file(folder: Path) -> sd.SqlDatabase:
    with closing(sqlite3.connect(folder / "t.sqlite")) as connection, connection:
        for name, table in CLINIC.items():
            table.to_sql(name, connection, index=False)
    return sd.SqlDatabase(f"sqlite:///{folder}/t.sqlite", list(CLINIC))


def parquet_files(folder: Path) -> dict[str, sd.ParquetSource]:
    for name, table in CLINIC.items():
        table.to_parquet(folder / f"{name}.parquet")
    return {name: sd.ParquetSource(folder / f"{name}.parquet") for name in CLINIC}


def duckdb_file(folder: Path) -> sd.SqlDatabase:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        for name, table in CLINIC.items():
            connection.from_df(table).create(name)
    return sd.SqlDatabase(f"duckdb:///{folder}/t.duckdb", list(CLINIC))


def duckdb_sources(folder: Path) -> dict[str, sd.DuckDBSource]:
    duckdb_file(folder)
    return {name: sd.DuckDBSource(folder / "t.duckdb", name=name) for name in CLINIC}


def postgres_tables(url: str) -> sd.SqlDatabase:
    made = {
        "people": "pid bigint, sex text, born bigint",
        "visits": "pid bigint, vid bigint, ward text, cost float8",
        "drugs": "pid bigint, vid bigint, dose bigint",
    }
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        for name, columns in made.items():
            cursor.execute(f"DROP TABLE IF EXISTS open_{name}")
            cursor.execute(f"CREATE TABLE open_{name} ({columns})")
        connection.commit()
    return sd.SqlDatabase(url, {name: f"open_{name}" for name in made})


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("tables", [sqlite_file, parquet_files, duckdb_file, duckdb_sources, "PostgreSQL"])
def test_tables_with_types_need_no_declaration_wherever_they_are(tables, tmp_path, request):
    there = tables(tmp_path) if callable(tables) else postgres_tables(request.getfixturevalue("postgres").url())
    for name, table in CLINIC.items():
        wanted = {column: type(kind) for column, kind in infer_schema(FrameSource(table)).items()}
        assert {column: type(kind) for column, kind in infer_schema(there[name]).items()} == wanted


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("tables", [sqlite_file, parquet_files])
def test_tables_with_types_are_released_without_any_declaration(tables, tmp_path):
    with pytest.warns(UserWarning, match="epsilon"):
        made = sd.DatabaseRelease(schema=RELATIONS, epsilon=9.0, random_state=0).fit(tables(tmp_path))
    assert made.schema_.undeclared == ()
    assert made.schema_.tables["people"]["sex"].levels == ("f", "m")
    assert isinstance(made.schema_.tables["visits"]["cost"], sd.Continuous)


def test_a_table_without_types_is_named_with_what_to_do(tmp_path):
    for name, table in CLINIC.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    files = {name: sd.CsvSource(tmp_path / f"{name}.csv") for name in CLINIC}
    with pytest.raises(SchemaError, match="'people'"):
        sd.DatabaseRelease(schema=RELATIONS).fit(files)


def test_one_receipt_has_what_was_found_and_what_it_cost(fitted, tmp_path):
    steps = [item.step for item in fitted.receipt_.items]
    for step in ("discovered levels: people.sex", "discovered range: visits.cost", "discovered range: drugs.dose"):
        assert step in steps
    assert steps.index("discovered range: drugs.dose") < steps.index("one-way marginals of persons")
    assert fitted.receipt_.total == sd.ApproxDP(9.0, 1e-9) == fitted.release_.loss
    said = " ".join(fitted.receipt_.assumptions)
    assert "table 'visits': bounds and levels of ward, cost were not declared: they were discovered under noise" in said
    fitted.save(tmp_path / "r")
    assert sd.load(tmp_path / "r").output.layout.schema == fitted.schema_


def test_discovery_costs_its_share_of_the_budget(fitted):
    costs = [item.loss.mu**2 for item in fitted.receipt_.items]
    found = [item.loss.mu**2 for item in fitted.receipt_.items if item.step.startswith("discovered")]
    assert 0.2 * sum(costs) < sum(found) < 0.31 * sum(costs)


def test_a_ledger_has_one_entry_of_all_and_a_cap_is_kept_before_any_row_is_read(tmp_path):
    path = tmp_path / "l.sqlite"
    release = sd.DatabaseRelease(schema=RELATIONS, epsilon=3.0, ledger=path, dataset="clinic")
    release.fit(CLINIC)
    entries = sd.Ledger(path).entries()
    assert [(entry.loss, entry.state) for entry in entries] == [(sd.ApproxDP(3.0, 1e-9), "committed")]
    sd.Ledger(path).set_cap("clinic", sd.ApproxDP(4.0, 1e-6))
    with patch.object(PrivateDatabase, "open_table", side_effect=AssertionError), pytest.raises(BudgetExceededError):
        release.fit(CLINIC)


def test_what_is_declared_is_not_asked():
    tables = {
        "people": sd.Schema({"sex": sd.Categorical(["f", "m"]), "born": sd.Integer(1900, 2020)}),
        "visits": sd.Schema({"ward": sd.Categorical(), "cost": sd.Continuous(0, 100)}),
    }
    schema = sd.DatabaseSchema(tables, RELATIONS[:1])
    made = sd.DatabaseRelease(schema=schema, epsilon=3.0).fit({name: CLINIC[name] for name in tables})
    asked = [item.step for item in made.receipt_.items if item.step.startswith("discovered")]
    assert asked == ["discovered levels: visits.ward"]
    complete = made.schema_
    again = sd.DatabaseRelease(schema=complete, epsilon=3.0).fit({name: CLINIC[name] for name in tables})
    assert not any(item.step.startswith("discovered") for item in again.receipt_.items)


def test_a_column_without_a_finding_is_left_out_unless_somebody_wishes_for_it():
    tables = {name: CLINIC[name] for name in ("people", "visits")}
    names = [f"name {i}" for i in range(len(tables["people"]))]
    tables["people"] = tables["people"].assign(name=names)
    with pytest.warns(DiscoveryWarning, match="'people'.*'name'"):
        made = sd.DatabaseRelease(schema=RELATIONS[:1], epsilon=3.0).fit(tables)
    assert "name" not in made.schema_.tables["people"]
    assert "name" not in made.sample(5)["people"]
    with pytest.warns(DiscoveryWarning, match="'name'"):
        kept = sd.DatabaseRelease(schema=RELATIONS[:1], epsilon=3.0, target="people.name").fit(tables)
    assert set(kept.sample(5)["people"]["name"]) == {"other"}


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_pure_epsilon_finds_bounds_and_refuses_levels(neighbors):
    numbers = {name: CLINIC[name].drop(columns=["sex", "ward"], errors="ignore") for name in ("people", "visits")}
    made = sd.DatabaseRelease(schema=RELATIONS[:1], epsilon=5.0, delta=0.0, neighbors=neighbors).fit(numbers)
    assert made.schema_.undeclared == ()
    with pytest.raises(SchemaError, match="delta"):
        sd.DatabaseRelease(schema=RELATIONS[:1], delta=0.0).fit({name: CLINIC[name] for name in ("people", "visits")})


def test_what_orders_rows_or_is_in_a_rule_must_be_declared():
    tables = {"people": sd.Schema({"born": sd.Integer()}), "visits": sd.Schema({"year": sd.Integer()})}
    frames_ = {"people": CLINIC["people"], "visits": CLINIC["visits"].assign(year=2015)}
    ordered = sd.DatabaseSchema(tables, [sd.Relation("people", "visits", key="pid", at_most=3, order="year")])
    with pytest.raises(SchemaError, match="'year'"):
        sd.DatabaseRelease(schema=ordered).fit(frames_)
    with pytest.raises(SchemaError, match=r"'people.born'.*declare"):
        sd.DatabaseSchema(tables, RELATIONS[:1], [sd.LessEqual("people.born", "visits.year")])


def no_row_was_read(release: sd.DatabaseRelease, tables: Mapping[str, pd.DataFrame], error: type[Exception], said: str):
    """Fit, which must be refused before any row is read; nothing of the budget is spent then."""
    release.set_params(dataset="refused")
    with patch.object(PrivateDatabase, "open_table", side_effect=AssertionError), pytest.raises(error, match=said):
        release.fit(tables)
    assert all(entry.state == "returned" for entry in sd.Ledger(release.ledger).entries())
    assert not hasattr(release, "release_")


def test_what_cannot_be_released_is_refused_before_anything_is_discovered(tmp_path):
    tables = {name: CLINIC[name] for name in ("people", "visits")}
    one = sd.DatabaseRelease(schema=RELATIONS[:1], ledger=tmp_path / "l.sqlite")
    no_row_was_read(one.set_params(delta=0.0), tables, SchemaError, "'sex'.*delta")
    assert sd.Ledger(tmp_path / "l.sqlite").entries() == []
    people = sd.Schema({"sex": sd.Categorical(), "a": sd.Integer(0, 3), "b": sd.Integer(4, 5)})
    schema = sd.DatabaseSchema(
        {"people": people, "visits": sd.Schema({"ward": sd.Categorical()})}, RELATIONS[:1],
        [sd.LessEqual("people.b", "people.a")],
    )  # fmt: skip
    tables["people"] = tables["people"].assign(a=1, b=4)
    no_row_was_read(one.set_params(delta=1e-9, schema=schema), tables, SchemaError, "obey")


def test_what_was_declared_is_asked_alike_whatever_the_share_for_the_rest(tmp_path):
    tables = {"people": CLINIC["people"], "visits": CLINIC["visits"]}
    schema = sd.DatabaseSchema(
        {
            "people": sd.Schema({"sex": sd.Categorical(["f", "m"]), "born": sd.Integer(1900, 2020)}),
            "visits": sd.Schema({"ward": sd.Categorical(["er", "icu"]), "cost": sd.Continuous(0, 100)}),
        },
        RELATIONS[:1],
    )
    fitted_ = [sd.DatabaseRelease(schema=schema, domain_budget=share).fit(tables) for share in (0.1, 0.9)]
    first, second = ([item for item in one.receipt_.items if item.step == FIRST] for one in fitted_)
    assert first == second != []
    assert not any(item.step.startswith("discovered") for one in fitted_ for item in one.receipt_.items)
    assert all(one.schema_ == schema for one in fitted_)


def test_a_database_of_one_table_says_what_was_found_too():
    schema = sd.DatabaseSchema({"people": sd.Schema({"sex": sd.Categorical(), "born": sd.Integer()})})
    found = sd.DatabaseRelease(schema=schema, epsilon=3.0).fit({"people": CLINIC["people"]}).schema_
    assert found.undeclared == ()
    assert found.tables["people"]["sex"].levels == ("f", "m")


def test_a_table_in_order_of_time_is_looked_at_as_a_whole_whatever_the_number_of_rows_of_a_person():
    """Ten waves, one after the other, of persons who may have forty rows: the first rows would know one wave only."""
    people = 2000
    waves = pd.DataFrame({"pid": np.tile(np.arange(people), 10), "wave": np.repeat(np.arange(100, 110), people)})
    tables = {"people": CLINIC["people"].head(people), "waves": waves.assign(place="p" + waves["wave"].astype(str))}
    made = sd.DatabaseRelease(schema=[sd.Relation("people", "waves", key="pid", at_most=40)], epsilon=3.0).fit(tables)
    found = made.schema_.tables["waves"]
    assert found["wave"].lower <= 100 < 109 <= found["wave"].upper
    assert set(found["place"].levels) == set(tables["waves"]["place"])
    assert "one row of each person" in " ".join(made.receipt_.notes)


@pytest.mark.parametrize("neighbors", [*Neighbors])
def test_a_plan_foresees_what_noise_hides_and_what_is_left_for_the_tables(neighbors):
    rows = {"people": 4000, "visits": 8000}
    tables = {
        "people": sd.Schema({"sex": sd.Categorical(), "born": sd.Integer()}),
        "visits": sd.Schema({"ward": sd.Categorical(["er", "icu"]), "cost": sd.Continuous()}),
    }
    schema = sd.DatabaseSchema(tables, RELATIONS[:1])
    low, high = (sd.DatabaseRelease(schema=schema, epsilon=e, neighbors=neighbors).plan(rows=rows) for e in (0.1, 3.0))
    assert [*high.discovered] == ["people", "visits"]
    assert high.stages["discovery"] == 0.3
    assert sum(high.stages.values()) == pytest.approx(1.0)
    assert "people have it" in str(high)
    assert "30 levels" in " ".join(high.advice)
    assert sum("noise hides what many" in line for line in low.advice) == 2
    assert not any("noise hides what many" in line for line in high.advice)
    made = sd.DatabaseRelease(schema=schema, epsilon=3.0, neighbors=neighbors)
    with patch("synthdp.estimators.database_release.warn_of_undiscovered") as warned:
        made.fit({name: CLINIC[name] for name in tables})
    really = {call.kwargs["table"]: call.args[0].least for call in warned.call_args_list}
    assert really == pytest.approx(high.discovered, rel=0.5)
    ordered = [sd.Relation("people", "visits", key="pid", at_most=4, order="cost")]
    with pytest.raises(SchemaError, match="'cost'"):
        sd.DatabaseRelease(schema=sd.DatabaseSchema(tables, ordered)).plan()
    with pytest.raises(SchemaError, match=r"'sex'.*delta"):
        sd.DatabaseRelease(schema=schema, delta=0.0).plan()


def test_relations_alone_must_be_relations_of_tables_that_are_there(tmp_path):
    CLINIC["people"].to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(ParameterError, match="Relation"):
        sd.DatabaseRelease(schema=[]).fit(CLINIC)
    with pytest.raises(DataError, match="'drugs'"):
        sd.DatabaseRelease(schema=RELATIONS).fit({name: CLINIC[name] for name in ("people", "visits")})
    with pytest.raises(SchemaError, match="dataframe"):
        sd.DatabaseRelease(schema=RELATIONS[:1]).fit(
            {"people": sd.CsvSource(tmp_path / "people.csv"), "visits": CLINIC["visits"]}
        )
    with pytest.raises(ParameterError, match="DatabaseSchema"):
        sd.DatabaseRelease(schema=RELATIONS).plan()
    with pytest.raises(ParameterError, match="domain_budget"):
        sd.DatabaseRelease(schema=RELATIONS, domain_budget=1.0).fit(CLINIC)


def test_the_command_line_discovers_too_and_refuses_what_works_with_one_table_only(tmp_path):
    (tmp_path / "db").mkdir()
    tables = {"people": sd.Schema({"sex": sd.Categorical()}), "visits": sd.Schema({"cost": sd.Continuous()})}
    for name in tables:
        CLINIC[name].to_csv(tmp_path / "db" / f"{name}.csv", index=False)
    sd.DatabaseSchema(tables, RELATIONS[:1]).write(tmp_path / "db.json")
    told = ["release", str(tmp_path / "db"), "--schema", str(tmp_path / "db.json"), "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(main, [*told, "--undiscovered", "refuse"])
    assert refused.exit_code == 2
    assert "--undiscovered works with one table only" in refused.stderr
    done = CliRunner().invoke(main, [*told, "--domain-budget", "0.6", "--save", str(tmp_path / "r")])
    assert done.exit_code == 0
    items = sd.load(tmp_path / "r").receipt.items
    assert sum(item.loss.mu**2 for item in items[:3]) > 0.45 * sum(item.loss.mu**2 for item in items)
    assert all(item.step.startswith("discovered") for item in items[:3])
    assert set(pd.read_csv(tmp_path / "out" / "people.csv")["sex"]) == {"f", "m"}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("calls", [0, 1, 3, 6])
def test_a_question_that_fails_loses_no_answer_and_costs_nothing_if_it_is_the_first(calls, tmp_path):
    """The first question that fails spends nothing; after a later one there is a release, which says so."""
    made = iter(range(1000))
    noisy_histogram = discovery.noisy_histogram

    def failing(*given, **options):
        if next(made) >= calls:
            raise MemoryError
        return noisy_histogram(*given, **options)

    path = tmp_path / "l.sqlite"
    tables = {name: CLINIC[name].drop(columns=["sex", "ward"], errors="ignore") for name in ("people", "visits")}
    release = sd.DatabaseRelease(schema=RELATIONS[:1], epsilon=3.0, ledger=path, dataset="clinic")
    with patch.object(discovery, "noisy_histogram", failing):
        if calls == 0:
            with pytest.raises(MemoryError):
                release.fit(tables)
            assert all(entry.state == "returned" for entry in sd.Ledger(path).entries())
            return
        with pytest.warns(DiscoveryWarning):
            release.fit(tables)
    assert "SALVAGED" in " ".join(release.receipt_.notes)
    assert len(release.sample(10)["people"]) == 10
    assert [entry.state for entry in sd.Ledger(path).entries()] == ["committed"]


OPENED = {
    name: sd.DatabaseSchema(
        {table: one.replace({"v": sd.Categorical()}) if "v" in one else one for table, one in schema.tables.items()},
        schema.relations,
    )
    for name, schema in SCHEMAS.items()
}
NUMBERED = sd.DatabaseSchema(
    {"persons": sd.Schema({"p": sd.Categorical()}), "rows": sd.Schema({"t": sd.Integer(), "v": sd.Categorical()})},
    [sd.Relation("persons", "rows", key="id", at_most=2)],
)


def counted(private: PrivateDatabase, table: str, column: str) -> np.ndarray:
    """What the first look at a column counts, of levels "a", "b" and truth values, or of magnitudes."""
    whole: Mapping[str, int] = {}
    bins = np.zeros(MAGNITUDE_BINS, np.int64)
    for block in private.open_table(table).raw_blocks((column,)):
        if column == "t":
            raw = block[column]
            values = (raw if hasattr(raw, "values") else numbers_of_labels(raw)).values.astype(float)
            bins += np.bincount(magnitude_bins(values).astype(int), minlength=MAGNITUDE_BINS)
        else:
            whole = {key: whole.get(key, 0) + count for key, count in level_counts(block[column]).items()}
    if column == "t":
        return bins
    return np.array([whole.get(key, 0) for key in ('"a"', '"b"', "true", "false", '"True"', '"False"')])


@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.landing)])
@pytest.mark.parametrize("name", ["numbered", "child of a child", "two children"])
def test_one_person_moves_no_count_by_more_than_its_noise_is_for(name, each):
    """Every person that two or three rows can make, added to others or in the place of every other one.

    Each fourth of them in the quick suite.
    """
    schema = NUMBERED if name == "numbered" else OPENED[name]
    people = list(every_person(rows=3, leaves=name != "numbered"))[:150]
    others, people = frames(people[5:8], schema, shuffled=1), people[::each]
    opened = {(table, column) for table, column in schema.undeclared if table != "leaves"}
    found = {(neighbors, place): [] for neighbors in Neighbors for place in opened}
    noise = {}
    for one in [None, *people]:
        tables = others
        if one is not None:  # its rows come first: whose rows are used depends on no other person's
            mine = {
                table: rows.assign(id="new") for table, rows in frames([one], schema, shuffled=2).items() if len(rows)
            }
            tables = others | {
                table: pd.concat([rows, others[table]], ignore_index=True) for table, rows in mine.items()
            }
        for neighbors in Neighbors:
            private, _ = private_database(tables, schema, Adjacency(neighbors, "id", 1, (("rows", 3),)))
            noise[neighbors] = private.adjacency.of_one_row()
            for place in opened:
                found[neighbors, place].append(counted(private, *place))
    assert opened
    for (neighbors, _), counts in found.items():
        first = [0] if neighbors is Neighbors.ADD_REMOVE else range(1, len(counts))
        moved = np.concatenate([np.abs(np.array(counts)[1:] - counts[i]) for i in first])
        most = noise[neighbors].histogram
        assert moved.sum(axis=1).max() <= most.l1
        assert (moved**2).sum(axis=1).max() <= most.l2_squared
        assert moved.max() <= most.linf
        assert noise[neighbors].neighbors is Neighbors.ADD_REMOVE  # whether its rows are public or not
        assert moved.max() > 0


@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.landing)])
@pytest.mark.parametrize("neighbors", [*Neighbors])
def test_the_noise_that_is_drawn_pays_for_all_rows_of_a_person_in_both_tables_at_once(neighbors, each):
    """Of every person of up to three rows: the squared distances of all first looks, in their noise, are at most paid."""
    people = [None, *[*every_person(rows=3, leaves=False)][::each]]
    places = {("persons", "p"): "levels", ("rows", "t"): "range", ("rows", "v"): "levels"}
    counts: dict[tuple[str, str], list[np.ndarray]] = {place: [] for place in places}
    other = Person((True,), ((1, "b"),))
    unkeyed = {name: rows.assign(id=None) for name, rows in frames([other], NUMBERED).items()}  # each row is a person
    for one in people:
        tables = frames([other, *[one] * (one is not None)], NUMBERED, shuffled=2)
        tables = {name: pd.concat([unkeyed[name], rows], ignore_index=True) for name, rows in tables.items()}
        private, _ = private_database(tables, NUMBERED, Adjacency(neighbors, "id", 1, (("rows", 2),)))
        for place, found in counts.items():
            found.append(counted(private, *place))
    with sd.Curator(tables, schema=NUMBERED, budget=sd.ApproxDP(3.0, 1e-9), neighbors=neighbors) as curator:
        curator.discover_tables(spend=Remaining())
        items = {item.step: item for item in curator.receipt().items}
    moved, paid = np.zeros((len(people), len(people))), 0.0
    for (table, column), what in places.items():
        item, found = items[f"discovered {what}: {table}.{column}"], np.array(counts[table, column], float)
        moved += ((found[:, None] - found) ** 2).sum(axis=2) / item.stddev**2
        paid += item.loss.mu**2
    most = moved[0].max() if neighbors is Neighbors.ADD_REMOVE else moved[1:, 1:].max()
    assert 0.45 * paid < most <= 1.001 * paid
    assert paid <= sum(item.loss.mu**2 for item in items.values()) * (1 + 1e-9)


def test_losses_of_the_tables_are_together_what_was_given():
    tables = {
        "a": sd.Schema({"x": sd.Integer(), "l": sd.Categorical()}), "b": sd.Schema({"y": sd.Continuous()}),
        "c": sd.Schema({"k": sd.Categorical(), "m": sd.Categorical()}),
    }  # fmt: skip
    for loss in (sd.GaussianDP(0.3, 1e-10), sd.PureDP(0.7)):
        parts = discovery.divided(tables, loss)
        assert [*parts] == [*tables]
        if isinstance(loss, sd.PureDP):
            assert sum(part.epsilon for part in parts.values()) == pytest.approx(loss.epsilon)
            continue
        assert sum(part.mu**2 for part in parts.values()) == pytest.approx(loss.mu**2)
        assert sum(part.delta for part in parts.values()) == pytest.approx(loss.delta)
        assert parts["b"].delta == 0
        alone = [discovery.parts_of(tables[name], parts[name]) for name in tables]
        weights = {name: one.mu**2 for some in alone for name, one in some.items()}
        assert weights["l"] == pytest.approx(weights["x"]) == pytest.approx(weights["m"])


def test_every_pair_of_kinds_of_columns_is_in_the_brute_force():
    kinds = {type(one).__name__ for table in NUMBERED.tables.values() for one in table.values()}
    assert kinds == {"Integer", "Categorical"}
    assert len(list(itertools.islice(every_person(rows=3, leaves=True), 150))) == 150
