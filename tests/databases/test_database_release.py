"""`DatabaseRelease`: tables in, tables out, joined without a gap, ordered, repeatable, saved, and refused in time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from no_noise import without_noise

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import BudgetExceededError, DataError, FormatError, ParameterError, SchemaError
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.report import write_report
from synthdp.sampling import database_model
from synthdp.tables.history_rows import with_history

SCHEMA = sd.DatabaseSchema(
    tables={
        "persons": sd.Schema({"sex": sd.Categorical(["f", "m"]), "born": sd.Integer(1930, 2010)}),
        "visits": sd.Schema({"year": sd.Integer(2010, 2029), "cost": sd.Continuous(0, 500, nullable=True)}),
        "waves": sd.Schema({"wave": sd.Ordinal(["I", "II", "III"]), "works": sd.Boolean()}),
        "diagnoses": sd.Schema({"code": sd.Categorical(["x", "y"])}),
        "children": sd.Schema({"age": sd.Integer(0, 17)}),
    },
    relations=[
        sd.Relation("persons", "visits", key="pid", at_most=4, order="year", unique=True),
        sd.Relation("persons", "waves", key="pid", at_most=3, order="wave", unique=True),
        sd.Relation("visits", "diagnoses", key="vid", at_most=2),
        sd.Relation("persons", "children", key="pid", at_most=3),
    ],
)


def tables(persons: int = 150) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(3)
    pid = np.array([f"P{i:04}" for i in range(persons)])
    some = np.repeat(np.arange(persons), rng.integers(0, 4, persons))
    visits = pd.DataFrame(
        {"vid": np.arange(len(some)) + 1000, "pid": pid[some], "year": 2010 + np.arange(len(some)) % 20, "cost": 12.5}
    )
    waves = pd.DataFrame(
        {"pid": np.repeat(pid, 3), "wave": ["I", "II", "III"] * persons, "works": [True, True, False] * persons}
    )
    below = visits.sample(frac=0.5, random_state=1)
    return {
        "persons": pd.DataFrame(
            {"sex": rng.choice(["f", "m"], persons), "pid": pid, "born": rng.integers(1950, 1999, persons)}
        ),
        "visits": visits,
        "waves": waves,
        "diagnoses": pd.DataFrame({"pid": below["pid"], "vid": below["vid"], "code": "x"}),
        "children": pd.DataFrame({"pid": pid[::2], "age": rng.integers(0, 18, len(pid[::2]))}),
    }


@pytest.fixture(scope="module")
def release() -> sd.DatabaseRelease:
    """Fitted without noise, so that what it has learned does not hang on luck."""
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        return sd.DatabaseRelease(schema=SCHEMA, epsilon=4.0, random_state=0).fit(tables())


@pytest.fixture(scope="module")
def made(release: sd.DatabaseRelease) -> dict[str, pd.DataFrame]:
    return release.sample(300)


def test_every_synthetic_table_looks_like_the_real_one(made: dict[str, pd.DataFrame]) -> None:
    real = tables()
    assert [*made] == [*SCHEMA.tables]
    for name, table in made.items():
        assert dict(table.dtypes) == dict(real[name].dtypes), name
        assert list(table.columns) == list(real[name].columns)
    assert len(made["persons"]) == 300


def test_keys_are_fresh_and_join_without_a_gap(made: dict[str, pd.DataFrame]) -> None:
    assert made["persons"]["pid"].is_unique
    assert made["visits"]["vid"].is_unique
    assert not set(made["persons"]["pid"]) & set(tables()["persons"]["pid"])
    for child in ("visits", "waves", "diagnoses", "children"):
        assert set(made[child]["pid"]) <= set(made["persons"]["pid"])
    joined = made["diagnoses"].merge(made["visits"], on="vid", suffixes=("", "_of_visit"))
    assert len(joined) == len(made["diagnoses"])
    assert (joined["pid"] == joined["pid_of_visit"]).all()


def test_rows_keep_their_bounds_order_and_uniqueness(made: dict[str, pd.DataFrame]) -> None:
    for relation in SCHEMA.relations:
        child = made[relation.child]
        assert child.groupby(relation.key).size().max() <= relation.at_most
    assert not made["waves"].duplicated(["pid", "wave"]).any()
    assert not made["visits"].duplicated(["pid", "year"]).any()
    assert (made["visits"].groupby("pid")["year"].diff().dropna() > 0).all()
    assert made["visits"]["year"].between(2010, 2029).all()


def test_what_nobody_lacks_is_there_and_what_stays_stays(made: dict[str, pd.DataFrame]) -> None:
    assert (
        made["waves"].groupby("wave")["works"].mean()["I"]
        > 0.6
        > 0.4
        > made["waves"].groupby("wave")["works"].mean()["III"]
    )
    assert 0.8 * 3 * 300 < len(made["waves"]) <= 3 * 300
    assert (made["diagnoses"]["code"] == "x").mean() > 0.7


def test_a_saved_release_draws_the_same_rows(release: sd.DatabaseRelease, tmp_path: Path) -> None:
    release.save(tmp_path / "db.release")
    again = sd.load(tmp_path / "db.release")
    first, second = release.release_.sample(40, random_state=5), again.sample(40, random_state=5)
    assert all(first[name].equals(second[name]) for name in first)
    assert again.receipt == release.receipt_
    assert sd.release_files.fingerprint(again) == sd.release_files.fingerprint(release.release_)
    arrays = (tmp_path / "db.release" / "arrays.npz").read_bytes() + (
        tmp_path / "db.release" / "release.json"
    ).read_bytes()
    assert b"P0001" not in arrays


def test_a_damaged_release_is_refused(release: sd.DatabaseRelease, tmp_path: Path) -> None:
    release.save(tmp_path / "db.release")
    path = tmp_path / "db.release" / "release.json"
    document = json.loads(path.read_text())
    for place in ("conditionals", "schema", "formats"):
        broken = json.loads(json.dumps(document))
        broken["database"][place] = broken["database"][place].__class__()
        path.write_text(json.dumps(broken))
        with pytest.raises(FormatError):
            sd.load(tmp_path / "db.release")


def test_given_values_hold_in_every_person(release: sd.DatabaseRelease) -> None:
    found = release.sample(50, given={"sex": "f", "born": (1960, 1969)}, random_state=2)
    assert set(found["persons"]["sex"]) == {"f"}
    assert found["persons"]["born"].between(1960, 1969).all()
    assert set(found["visits"]["pid"]) <= set(found["persons"]["pid"])
    with pytest.raises(ParameterError, match="year"):
        release.sample(5, given={"year": 2012})


def test_first_rows_that_are_given_hold_in_every_person(release: sd.DatabaseRelease) -> None:
    """In a pattern of periods (waves) and in a sequence (visits), with conditions on the person, too."""
    found = release.sample(
        60, given={"sex": "f", "waves[1].wave": ["II", "III"], "waves[1].works": True, "visits[2].year": (2011, 2014)},
        random_state=4,
    )  # fmt: skip
    assert set(found["persons"]["sex"]) == {"f"}
    waves = found["waves"].groupby("pid", sort=False)
    assert len(waves) == len(found["persons"]) == 60
    assert set(waves["wave"].first()) <= {"II", "III"}
    assert waves["works"].first().all()
    second = found["visits"].groupby("pid", sort=False)["year"].nth(1)
    assert len(second) == 60
    assert second.between(2011, 2014).all()
    assert set(found["diagnoses"]["vid"]) <= set(found["visits"]["vid"])


def test_what_is_given_of_first_rows_changes_what_follows_as_the_rows_that_have_it_do(
    release: sd.DatabaseRelease,
) -> None:
    free = release.sample(3000, random_state=0)
    first = free["visits"].groupby("pid", sort=False)["year"].first()
    many = free["visits"].groupby("pid").size()[first.index[first.between(2010, 2012)]]
    asked = release.sample(3000, random_state=0, given={"visits[1].year": (2010, 2012)})
    assert asked["visits"].groupby("pid").size().mean() == pytest.approx(many.mean(), abs=0.15)


def test_a_row_of_any_table_may_be_given_and_persons_are_those_who_have_one(release: sd.DatabaseRelease) -> None:
    def have(tables: dict[str, pd.DataFrame]) -> pd.Series:
        visits = tables["visits"][tables["visits"]["year"].between(2010, 2012)]
        late = tables["diagnoses"][tables["diagnoses"]["code"] == "x"]
        return tables["persons"]["pid"].isin(visits["pid"]) & tables["persons"]["pid"].isin(late["pid"])

    free = release.sample(30_000, random_state=1)
    asked = release.sample(3000, random_state=1, given={"visits.year": (2010, 2012), "diagnoses.code": "x"})
    assert len(asked["persons"]) == 3000
    assert have(asked).all()
    wanted = free["persons"][have(free)]
    assert (asked["persons"]["sex"] == "f").mean() == pytest.approx((wanted["sex"] == "f").mean(), abs=0.05)
    many = [
        one["visits"].groupby("pid").size().reindex(who["pid"]).mean()
        for one, who in ((free, wanted), (asked, asked["persons"]))
    ]
    assert many[1] == pytest.approx(many[0], abs=0.12)
    by_text = release.sample(
        3000, random_state=1, given="visits.year >= 2010 and visits.year <= 2012 and diagnoses.code == 'x'"
    )
    assert all(by_text[name].equals(asked[name]) for name in asked)


def test_rows_that_hardly_a_person_has_are_refused_in_time(
    release: sd.DatabaseRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_model, "MOST_TRIED", 500)
    with pytest.raises(ParameterError, match="given"):
        release.sample(400, given={"diagnoses.code": "y", "visits.year": 2010})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("visits[9].cost", r"\'visits\b.*\b4\b"),
        ("visits[0].cost", r"\'visits\b.*\b4\b"),
        ("visits[1].pid", "'pid'"),
        ("diagnoses[1].code", r"\'diagnoses\[1\]\.code\'"),
        ("children[1].age", r"\'children\[1\]\.age\'.*order"),
        ("nothing[1].age", "table\\[1\\].column"),
    ],
)
def test_first_rows_that_cannot_be_given_are_refused(release: sd.DatabaseRelease, name: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        release.sample(5, given={name: 1})


def test_persons_drawn_in_blocks_are_persons_like_others(
    release: sd.DatabaseRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a folder and into memory come the same rows; keys go on from block to block, and join."""
    monkeypatch.setattr(database_model, "BLOCK_PERSONS", 70)
    found = release.sample(300, random_state=3)
    assert len(found["persons"]) == 300
    for table, key in (("persons", "pid"), ("visits", "vid")):
        assert found[table][key].is_unique
    joined = found["diagnoses"].merge(found["visits"], on=["vid", "pid"])
    assert len(joined) == len(found["diagnoses"]) > 0
    release.release_.sample_to(tmp_path / "out", rows=300, random_state=3)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.parquet" for name in found)
    for name, table in found.items():
        written = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        assert list(written.columns) == list(table.columns)
        for column in table:
            assert written[column].astype(str).tolist() == table[column].astype(str).tolist(), (name, column)
    with pytest.raises(ParameterError, match="out'"):
        release.release_.sample_to(tmp_path / "out")
    with pytest.raises(ParameterError, match="ending"):
        release.release_.sample_to(tmp_path / "new", ending=".csv")
    with pytest.raises(FormatError):
        release.release_.sample_to(tmp_path / "out" / "visits.parquet" / "new")


def test_persons_with_their_history_are_one_table(release: sd.DatabaseRelease) -> None:
    flat = sd.DatabaseSchema(
        {name: SCHEMA.tables[name] for name in ("persons", "waves")}, [SCHEMA.relation_to("waves")]
    )
    wide = with_history(tables(), flat)
    assert len(wide) == 150
    assert (wide["waves.rows"] == 3).all()
    assert (wide["waves[1].wave"] == "I").all()
    assert not wide["waves[3].works"].astype(bool).any()
    with pytest.raises(ParameterError, match="histories"):
        release.persons_with_history(10)


def test_the_receipt_adds_up_to_the_promise_and_names_whom_it_protects(release: sd.DatabaseRelease) -> None:
    text = " ".join(str(release.receipt_).split())
    assert "all rows of one value of 'pid' in all tables" in text
    assert "waves: at most 3 used" in text
    steps = [item.step for item in release.receipt_.items]
    assert steps[0] == "one-way marginals of persons"
    assert steps[-3:] == [
        "lag-one marginals of persons",
        "scores of two-attribute marginals of persons",
        "two-attribute marginals of persons",
    ]
    assert all("level" in step or "round" in step for step in steps[1:-3])
    assert release.receipt_.total == sd.ApproxDP(4.0, 1e-9)


def test_a_report_has_a_part_for_each_table_and_relation(release: sd.DatabaseRelease, tmp_path: Path) -> None:
    release.report(tmp_path / "report.html", title="People & visits")
    page = (tmp_path / "report.html").read_text()
    assert "in all tables; used of them" in page
    assert "<script" not in page
    assert "People &amp; visits" in page
    sections = set(re.findall(r'<section id="([^"]+)"', page))
    assert {f"table-{name}" for name in SCHEMA.tables} <= sections
    assert {f"relation-{i + 1}" for i in range(len(SCHEMA.relations))} <= sections
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r' id="([^"]+)"', page))
    drawn = set(re.findall(r"<h3>([^<]+)</h3>", page))
    assert {column for schema in SCHEMA.tables.values() for column in schema} <= drawn
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert "P0001" not in page
    release.save(tmp_path / "db.release")
    told = ["report", str(tmp_path / "db.release"), "--out", str(tmp_path / "again.html"), "--title", "People & visits"]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "again.html").read_text() == page
    done = CliRunner().invoke(main, [*told, "--target", "sex"])
    assert done.exit_code == 2
    with pytest.raises(DataError):
        release.report(tmp_path / "nowhere" / "report.html")


def test_tables_of_which_nobody_has_a_row_are_released_drawn_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_noise(monkeypatch)
    empty = {name: table if name == "persons" else table.iloc[:0] for name, table in tables(60).items()}
    curator = sd.Curator(empty, schema=SCHEMA, budget=sd.ApproxDP(4.0, 1e-9))
    release = RelatedTables(sweeps=(1, 2), particles=100).release(curator, random_state=0)
    assert len(release.sample(20, random_state=0)["visits"]) <= 1
    release.sample_to(tmp_path / "out", rows=20, random_state=0)
    assert len(pd.read_parquet(tmp_path / "out" / "diagnoses.parquet")) == 0
    write_report(release, tmp_path / "report.html")
    assert 'id="table-diagnoses"' in (tmp_path / "report.html").read_text()


def test_a_plan_reads_nothing_and_knows_more_budget_is_less_noise() -> None:
    release = sd.DatabaseRelease(schema=SCHEMA)
    small, large = (release.plan(rows={"persons": 5000}, epsilon=epsilon) for epsilon in (1.0, 4.0))
    assert large.persons_stddev < small.persons_stddev
    assert all(large.by_column[t][c] <= small.by_column[t][c] for t in small.by_column for c in small.by_column[t])
    assert "pid" in str(small)
    json.dumps(small.to_document())
    with pytest.raises(ParameterError, match="'visit'"):
        release.plan(rows={"visit": 5})


def test_the_noise_of_a_plan_is_that_of_the_release(release: sd.DatabaseRelease) -> None:
    plan = sd.DatabaseRelease(schema=SCHEMA, epsilon=4.0).plan(
        rows={name: len(rows) for name, rows in tables().items()}
    )
    steps = [item.step for item in release.receipt_.items]
    rounds = release.release_.measurements[: 1 + ("one-way marginals of persons, second round" in steps)]
    precision = sum((one.stddev * one.queries.denominator / one.queries.ones[0]) ** -2 for one in rounds)
    assert plan.persons_stddev == pytest.approx((2 / precision) ** 0.5, rel=0.02)


def test_a_database_of_one_table_is_the_release_of_that_table() -> None:
    schema = sd.DatabaseSchema({"persons": SCHEMA.tables["persons"]})
    found = sd.DatabaseRelease(schema=schema, epsilon=2.0, random_state=0).fit({"persons": tables()["persons"]})
    alone = sd.SyntheticRelease(schema=SCHEMA.tables["persons"], epsilon=2.0, random_state=0).fit(tables()["persons"])
    assert found.release_.mechanism == alone.release_.mechanism
    assert found.receipt_.items[0] == alone.receipt_.items[0]
    assert found.receipt_.assumptions == alone.receipt_.assumptions
    assert list(found.sample(5)["persons"].columns) == list(alone.sample(5).columns)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"visits": None}, DataError, "dataframe"),
    ({"visits": tables(9)["visits"].drop(columns="pid")}, DataError, "'pid'"),
    ({"visits": tables(9)["visits"].drop(columns="cost")}, DataError, "'cost'"),
    ({"diagnoses": tables(9)["diagnoses"].drop(columns="vid")}, DataError, "'vid'"),
    (
        {
            name: table.assign(pid=1 if name == "children" else table["pid"].astype("string"))
            for name, table in tables(9).items()
            if "pid" in table
        },
        DataError,
        "'pid'.*(number|label)",
    ),
    ({"persons": tables(9)["persons"].iloc[:0]}, DataError, "'persons'.*rows"),
    ({"more": tables(9)["persons"]}, DataError, "schema"),
]


@pytest.mark.parametrize(("change", "kind", "said"), BAD)
def test_what_is_wrong_is_said_before_anything_is_spent(
    change: dict[str, Any], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    ledger = sd.Ledger(tmp_path / "ledger.sqlite")
    ledger.set_cap("db", sd.ApproxDP(9.0, 1e-6), privacy_unit="pid")
    release = sd.DatabaseRelease(schema=SCHEMA, ledger=ledger.path, dataset="db")
    with pytest.raises(kind, match=said):
        release.fit(tables(9) | change)
    assert not list(ledger.entries())


@pytest.mark.parametrize(
    "settings",
    [{"epsilon": 0}, {"delta": 2}, {"neighbors": "none"}, {"n_rows": 0}, {"schema": None}, {"on_progress": 1}],
)
def test_a_setting_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises((ParameterError, SchemaError)):
        sd.DatabaseRelease(**{"schema": SCHEMA} | settings).fit(tables(9))


@pytest.mark.slow
def test_a_ledger_refuses_what_it_does_not_cover(tmp_path: Path) -> None:
    ledger = sd.Ledger(tmp_path / "ledger.sqlite")
    ledger.set_cap("db", sd.ApproxDP(1.5, 1e-6), privacy_unit="pid")
    release = sd.DatabaseRelease(schema=SCHEMA, ledger=ledger.path, dataset="db")
    release.fit(tables(9))
    with pytest.raises(BudgetExceededError):
        release.fit(tables(9))
    assert len(ledger.entries()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"delta": 0.0}, {"neighbors": "replace_one"}, {"epsilon": 0.01}])
def test_every_promise_makes_a_release(settings: dict[str, Any]) -> None:
    made = sd.DatabaseRelease(schema=SCHEMA, n_rows=20, random_state=1, **settings).fit_transform(tables(40))
    assert len(made["persons"]) == 20


@pytest.mark.slow
def test_a_folder_is_released_sampled_and_saved_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    for name, table in tables(60).items():
        table.to_csv(tmp_path / "db" / f"{name}.csv", index=False)
    (tmp_path / "db" / "waves.csv").unlink()
    tables(60)["waves"].to_parquet(tmp_path / "db" / "waves.parquet", index=False)
    SCHEMA.write(tmp_path / "db.json")
    place = str(tmp_path)
    told = [
        "release",
        f"{place}/db",
        "--schema",
        f"{place}/db.json",
        "--out",
        f"{place}/out",
        "--save",
        f"{place}/db.release",
    ]
    done = CliRunner().invoke(
        main,
        [*told, "--seed", "1", "--receipt", f"{place}/receipt.json", "--epsilon", "3", "--report", f"{place}/r.html"],
    )
    assert done.exit_code == 0, done.output
    assert 'id="table-waves"' in (tmp_path / "r.html").read_text()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [*(f"{name}.csv" for name in SCHEMA.tables if name != "waves"), "waves.parquet"]
    )
    joined = pd.read_csv(tmp_path / "out" / "visits.csv")["pid"].isin(
        pd.read_csv(tmp_path / "out" / "persons.csv")["pid"]
    )
    assert joined.all()
    more = ["sample", f"{place}/db.release", "--rows", "25", "--given", "sex=f", "--out", f"{place}/more", "--json"]
    done = CliRunner().invoke(main, more)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"]["persons"] == 25
    assert set(pd.read_csv(tmp_path / "more" / "persons.csv")["sex"]) == {"f"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--solver", "lp"], "--solver"),
        (["--report", "nowhere/report.html"], "cannot be written"),
        (["--out", "db"], "private tables"),
        (["--out", "full"], "new or empty folder"),
        ([], "no file"),
    ],
)
def test_the_command_line_refuses_in_one_line_what_it_cannot_do(more: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    SCHEMA.write(tmp_path / "db.json")
    for name, table in tables(5).items():
        table.to_csv(tmp_path / "db" / f"{name}.csv", index=False)
    (tmp_path / "db" / "children.csv").rename(tmp_path / "db" / f"children.{'csv' if more else 'txt'}")
    places = [str(tmp_path / one) if one in ("db", "full") else one for one in more]
    told = [
        "release",
        str(tmp_path / "db"),
        "--schema",
        str(tmp_path / "db.json"),
        "--out",
        str(tmp_path / "out"),
        *places,
    ]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
