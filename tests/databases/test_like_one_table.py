"""What one table has several have, too: targets and workloads, misfits, files, comparisons, and refusals in time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from strictness import warnings_kept

import synthdp as sd
from synthdp.domain.histories import Layout
from synthdp.errors import DataError, MisfitWarning, ParameterError
from synthdp.mechanisms.related.choosing import relations_wished, weights_of
from synthdp.queries.person_tables import Grouping, Kind, PersonTable

pytestmark = pytest.mark.usefixtures("few_sweeps")

SCHEMA = sd.DatabaseSchema(
    tables={
        "persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}),
        "visits": sd.Schema({"kind": sd.Categorical(["a", "b"]), "cost": sd.Integer(0, 9)}),
        "bills": sd.Schema({"paid": sd.Boolean()}),
    },
    relations=[
        sd.Relation("persons", "visits", key="pid", at_most=2),
        sd.Relation("visits", "bills", key="vid", at_most=1),
    ],
)


def tables(persons: int = 600) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    pid, owner = np.arange(persons), np.repeat(np.arange(persons), 2)
    visits = pd.DataFrame({"pid": owner, "vid": np.arange(len(owner)), "kind": rng.choice(["a", "b"], len(owner))})
    visits["cost"] = rng.integers(0, 10, len(owner))
    bills = visits[["pid", "vid"]].assign(paid=rng.random(len(owner)) < 0.5)
    return {
        "persons": pd.DataFrame({"pid": pid, "sex": rng.choice(["f", "m"], persons)}),
        "visits": visits,
        "bills": bills,
    }


def released(given: dict[str, pd.DataFrame], **settings: object) -> sd.DatabaseRelease:
    return sd.DatabaseRelease(schema=SCHEMA, epsilon=4.0, random_state=0, **settings).fit(given)


def some_table(kind: Kind, table: int, attribute: str, above: int, other: str) -> PersonTable:
    cells = Grouping("cells", np.arange(2))
    return PersonTable(kind, table, attribute, cells, above, other, cells)


def test_relations_with_the_target_weigh_more_and_others_than_the_wished_ones_nothing() -> None:
    layout = Layout(SCHEMA)
    some = [
        some_table(Kind.PARENT, 1, "kind", 0, "sex"), some_table(Kind.ROW, 1, "cost", -1, "kind"),
        some_table(Kind.ROW, 1, "kind", -1, "#bills"),
    ]  # fmt: skip
    plain, aimed, wished = (
        weights_of(layout, some, relations_wished(SCHEMA, *given))
        for given in ((None, None), (None, "persons.sex"), ([("visits.kind", "bills.rows")], None))
    )
    assert plain.tolist() == [1, 1, 1]
    assert aimed[0] > aimed[1] == aimed[2] == 1
    assert wished.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "settings", [{"target": "sex"}, {"target": "persons.pid"}, {"workload": [("visits.kind", "kind")]}]
)
def test_a_column_that_is_not_there_is_refused_before_the_spend(settings: dict[str, object], tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    with pytest.raises(ParameterError, match="column"):
        released(tables(), ledger=ledger, dataset="d", **settings)
    assert not ledger.exists()


def test_a_target_and_a_workload_make_a_release() -> None:
    made = released(tables(), target="bills.paid", workload=[("bills.paid", "visits.cost")]).sample(50)
    assert set(made) == set(SCHEMA.tables)


def test_children_whose_person_disagrees_with_their_parents_are_counted_and_warned_of() -> None:
    given = tables()
    given["bills"]["pid"] = np.roll(given["bills"]["pid"].to_numpy(), 400)
    with pytest.warns(MisfitWarning, match="bills"):
        release = released(given)
    assert "have rows of bills that are not used" in " ".join(str(release.receipt_).split())
    assert "have rows of bills that are not used" in " ".join(str(sd.Release.receipt.__get__(release.release_)).split())


def test_rows_without_a_person_and_repeated_persons_are_counted() -> None:
    given = tables()
    given["persons"] = pd.concat([given["persons"].iloc[300:], given["persons"].iloc[-200:]])
    with pytest.warns(MisfitWarning, match="persons.*more.*persons"):
        released(given)


def test_values_that_do_not_fit_are_told_by_table_and_column() -> None:
    given = tables()
    given["visits"].loc[::3, "kind"] = "c"
    with pytest.warns(MisfitWarning, match=r"visits\.kind"):
        release = released(given)
    share = release.misfits_["visits"]["kind"]
    assert share.share == pytest.approx(1 / 3, abs=6 * share.stddev)
    assert release.misfits_["persons"]["sex"].share < 5 * release.misfits_["persons"]["sex"].stddev


def test_a_table_that_fits_gives_no_warning() -> None:
    said = []
    for _ in range(2):  # noise alone warns once in a thousand releases or so: of two in a row once in a million
        with warnings_kept() as caught:
            release = released(tables())
        said.append([str(one.message) for one in caught])
        if not caught:
            break
    assert not said[-1], said
    assert "no more than noise explains" in " ".join(str(release.receipt_).split())


def test_persons_are_drawn_into_a_folder_and_no_sink_is_mistaken_for_one(tmp_path: Path) -> None:
    release = released(tables())
    release.sample_to(tmp_path / "made", rows=40, random_state=1)
    drawn = release.sample(40, random_state=1)
    assert len(pd.read_parquet(tmp_path / "made" / "visits.parquet")) == len(drawn["visits"])
    with pytest.raises(ParameterError, match="folder"):
        release.sample_to(object())


def test_tables_are_compared_by_name() -> None:
    given = tables()
    found = sd.compare(given, given, SCHEMA)
    assert list(found) == list(SCHEMA.tables)
    assert "NON-PRIVATE" in repr(found["visits"].plot("cost"))


def test_tables_are_evaluated_by_name_and_a_target_is_of_one_of_them() -> None:
    given = tables(200)
    found = sd.nonprivate_evaluate(given, given, SCHEMA, target="visits.kind")
    assert list(found) == list(SCHEMA.tables)
    assert all("NON-PRIVATE" in str(one) for one in found.values())
    assert "auc" in found["visits"].scores
    assert "auc" not in found["bills"].scores
    with pytest.raises(ParameterError, match="target"):
        sd.nonprivate_evaluate(given, given, SCHEMA, target="kind")
    with pytest.raises(DataError, match="'persons'"):
        sd.nonprivate_evaluate(given, {}, SCHEMA)


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(
    "question", [sd.mean("cost", by="sex"), sd.quantile("cost", 0.5, by="sex"), sd.variance("cost", by="sex")]
)
def test_a_group_that_nobody_is_in_has_an_answer_as_wide_as_can_be(question: object) -> None:
    given = tables(400)
    given["persons"]["sex"] = "f"
    found = released(given).answer(question)
    assert np.isfinite(found[["estimate", "standard_error", "lower", "upper"]].to_numpy(float)).all()


@pytest.mark.landing
def test_what_no_row_has_is_refused_in_a_sentence() -> None:
    release = released(tables(400))
    with pytest.raises(ParameterError, match="question"):
        release.answer(sd.mean("cost", where="visits.rows > 1 and visits.rows < 1"))


def test_one_table_of_a_database_is_never_written_to_the_table_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        pd.DataFrame({"age": np.arange(1000) % 80}).to_sql("t", connection, index=False)
        pd.DataFrame({"age": [0]}).to_sql("made", connection, index=False)
    schema = sd.DatabaseSchema({"t": sd.Schema({"age": sd.Integer(0, 100)})})
    release = sd.DatabaseRelease(schema=schema, epsilon=1.0, random_state=0)
    release.fit({"t": sd.SqlSource(f"sqlite:///{path}", table="t")})
    with pytest.raises(ParameterError):
        release.sample_to(sd.SqlSource(f"sqlite:///{path}", table="t"), rows=10)
    release.sample_to(sd.SqlSource(f"sqlite:///{path}", table="made"), rows=10)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        assert connection.execute("SELECT count(*) FROM made").fetchone() == (11,)
