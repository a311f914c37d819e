"""Cases in which a whole epsilon was once spent for nothing (issue 36, item 6), and what errors say of the budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.curator.discovery import PARTS, histogram_plan
from synthdp.domain.domain import domain_of
from synthdp.errors import (
    NOTHING_SPENT,
    BudgetExceededError,
    DataError,
    ParameterError,
    SalvageWarning,
    SynthDPError,
    budget_told,
)
from synthdp.mechanisms.adaptive import adaptive_marginals
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import one_ways
from synthdp.tables.sources.sql import SqlSource

SCHEMA = sd.Schema({"a": sd.Integer(0, 9), "b": sd.Boolean()})


def table(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.integers(0, 10, rows), "b": rng.random(rows) < 0.4})


def states(path: Path) -> list[str]:
    return [entry.state for entry in sd.Ledger(path).entries()]


@pytest.mark.parametrize("loss", [sd.PureDP(0.5), sd.GaussianDP(0.5)], ids=str)
@pytest.mark.parametrize(
    "adjacency",
    [Adjacency(), Adjacency("replace_one"), Adjacency("add_remove", "who", 3), Adjacency("replace_one", "who")],
)
def test_discovery_can_ask_for_any_number_of_bins(adjacency, loss):
    for bins in (*range(1, 2 * PARTS + 2), 2048):
        assert histogram_plan(adjacency, loss, bins).noise.k == bins


def test_a_column_of_ones_is_discovered_under_replace_one(tmp_path):
    ones = pd.DataFrame({"a": np.ones(20_000, np.int64)})
    release = sd.SyntheticRelease(neighbors="replace_one", ledger=tmp_path / "l.sqlite")
    assert 1 in set(release.fit_transform(ones)["a"])
    with pytest.warns(sd.errors.UnprotectedLabelsWarning):
        assert len(sd.SyntheticRelease().fit_transform(ones, np.zeros(20_000))) == 20_000


def test_an_undeclared_column_of_one_and_true_is_released(tmp_path):
    mixed = pd.DataFrame({"o": np.array([1, True, "x"] * 300, object)})
    release = sd.SyntheticRelease(ledger=tmp_path / "l.sqlite", epsilon=5.0)
    assert len(release.fit_transform(mixed)) > 0
    assert states(tmp_path / "l.sqlite") == ["committed"]


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:epsilon:UserWarning")
@pytest.mark.filterwarnings("ignore:SmoothSynthesis leaves out:UserWarning")
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("epsilon", [100.0, 700.0])
@pytest.mark.parametrize(
    "mechanism",
    ["auto", "smooth_synthesis", pytest.param("mwem", marks=pytest.mark.landing), "fourier_marginals", "l1_fit"],
)
def test_a_huge_pure_epsilon_has_noise_that_can_be_divided_by(mechanism, epsilon, neighbors):
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=epsilon, delta=0.0, neighbors=neighbors, mechanism=mechanism)
    assert abs(len(release.fit_transform(table())) - 300) < 10
    assert not any("SALVAGED" in note for note in release.receipt_.notes)


@pytest.fixture
def counted(tmp_path: Path) -> Any:
    known = table()
    persons, visits = known.assign(id=range(300)), pd.DataFrame({"id": range(300), "year": [2018] * 300})
    with duckdb.connect(str(tmp_path / "t.duckdb")) as db:
        for name, one in (("known", known), ("persons", persons), ("visits", visits)):
            db.register("shown", one)
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM shown")
            db.unregister("shown")
    return lambda name: SqlSource(f"duckdb:///{tmp_path / 't.duckdb'}", table=name, push="counts")


def test_counts_in_a_database_have_a_public_number_of_rows(counted, tmp_path):
    release = sd.SyntheticRelease(schema=SCHEMA, neighbors="replace_one", ledger=tmp_path / "l.sqlite")
    assert len(release.fit_transform(counted("known"))) == 300
    assert states(tmp_path / "l.sqlite") == ["committed"]


def test_what_asks_for_values_of_a_source_of_counts_is_refused_before_the_spend(counted, tmp_path):
    book = sd.Ledger(tmp_path / "l.sqlite")
    schema = sd.DatabaseSchema(
        tables={"persons": SCHEMA, "visits": sd.Schema({"year": sd.Integer(2018, 2019)})},
        relations=[sd.Relation("persons", "visits", key="id", at_most=2, order="year")],
    )
    with pytest.raises(DataError, match="counts") as refused:
        sd.DatabaseRelease(schema=schema, ledger=tmp_path / "l.sqlite").fit(
            {name: counted(name) for name in schema.tables}
        )
    assert budget_told(refused.value) == NOTHING_SPENT
    curator = sd.Curator(counted("known"), schema=SCHEMA, budget=sd.ApproxDP(1.0, 1e-6), ledger=book)
    with pytest.raises(DataError, match="counts"):
        sd.StabilityHistogram(columns=("a",)).release(curator)
    assert book.entries() == []


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("kind", [ValueError, MemoryError, ImportError, np.linalg.LinAlgError])
def test_a_fit_that_fails_leaves_the_next_simpler_one(kind, monkeypatch, tmp_path):
    def fails(*_: object, **__: object) -> None:
        raise kind("private 4711")

    monkeypatch.setattr(adaptive_marginals, "fit_distribution", fails)
    release = sd.SyntheticRelease(schema=SCHEMA, ledger=tmp_path / "l.sqlite")
    with pytest.warns(SalvageWarning, match=kind.__name__):
        release.fit(table())
    assert len(release.sample(10)) == 10
    assert any("SALVAGED" in note and "4711" not in note for note in release.receipt_.notes)
    release.report(tmp_path / "r.html")
    assert "SALVAGED" in (tmp_path / "r.html").read_text(encoding="utf-8")
    release.save(tmp_path / "saved")
    assert len(sd.load(tmp_path / "saved").sample(10)) == 10
    assert float(release.answer(sd.count("b == True"))["estimate"].iloc[0]) > 0
    assert states(tmp_path / "l.sqlite") == ["committed"]


def test_salvage_asks_the_curator_nothing(monkeypatch):
    asked = sd.Curator(table(), schema=SCHEMA, budget=sd.ApproxDP(1.0, 1e-6))
    items = []

    def fails(stages: Any) -> Any:
        next(stages)
        items.extend(asked.receipt().items)
        raise ValueError

    monkeypatch.setattr(adaptive_marginals, "last_of", fails)
    with pytest.warns(SalvageWarning):
        left = sd.AdaptiveMarginals().release(asked)
    assert [*left.receipt.items] == [*asked.receipt().items] == items
    assert len(left.measurements) == len(asked.measured)


def test_single_columns_come_out_as_they_were_measured(monkeypatch):
    monkeypatch.setattr(adaptive_marginals, "last_of", lambda stages: ([*stages], 1 / 0))
    real = table(5000)
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=5.0)
    with pytest.warns(SalvageWarning):
        made = release.fit_transform(real)
    assert abs(made["b"].mean() - real["b"].mean()) < 0.05
    assert abs(made["a"].mean() - real["a"].mean()) < 0.3
    assert abs(len(made) - 5000) < 300


def interrupted(book: Path) -> None:
    with sd.Curator(table(), schema=SCHEMA, budget=sd.ApproxDP(0.2, 1e-9), ledger=book) as curator:
        curator.open_account()
        raise KeyboardInterrupt


def test_errors_say_what_became_of_the_budget(tmp_path):
    book = tmp_path / "l.sqlite"
    with pytest.raises(ParameterError) as refused:
        sd.SyntheticRelease(schema=SCHEMA, target="nobody", ledger=book).fit(table())
    assert budget_told(refused.value) == NOTHING_SPENT
    sd.Ledger(book).set_cap("default", sd.ApproxDP(1.5, 1e-6))
    release = sd.SyntheticRelease(schema=SCHEMA, ledger=book).fit(table())
    with pytest.raises(BudgetExceededError) as over:
        release.fit(table())
    assert budget_told(over.value) == NOTHING_SPENT
    with pytest.raises(KeyboardInterrupt) as stopped:
        interrupted(book)
    told = budget_told(stopped.value) or ""
    assert "ε = 0.2" in told
    assert f"entry 2: `synthdp ledger {book}` shows it" in told
    assert states(book) == ["committed", "reserved"]


def test_an_error_says_what_was_spent_and_not_what_might_have_been(tmp_path):
    queries = one_ways(domain_of(SCHEMA))

    def measured(**settings: Any) -> None:
        with sd.Curator(table(), schema=SCHEMA, budget=sd.PureDP(1.0), **settings) as curator:
            curator.measure(queries, spend=sd.PureDP(0.25))
            curator.measure(queries, spend=sd.PureDP(0.125))
            raise ZeroDivisionError

    def failing(**settings: Any) -> str:
        with pytest.raises(ZeroDivisionError) as failed:
            measured(**settings)
        return budget_told(failed.value) or ""

    assert failing().startswith("ε = 0.375 is spent")
    assert failing(ledger=tmp_path / "l.sqlite").startswith("ε = 0.375 is in the ledger as entries 1, 2")


def test_the_real_cost_of_an_account_is_added_to_what_else_was_spent(tmp_path):
    queries = one_ways(domain_of(SCHEMA))
    book = sd.Ledger(tmp_path / "l.sqlite")
    with sd.Curator(table(), schema=SCHEMA, budget=sd.PureDP(1.0), ledger=book) as curator:
        curator.measure(queries, spend=sd.PureDP(0.5))
        account = curator.open_account(ends=(0.1,))
        account.measure(queries, spend=sd.PureDP(0.05))
        account.give_up()
        assert curator.became.startswith("ε = 0.55 is in the ledger as entries 1, 2")
    assert sum(entry.loss.epsilon for entry in book.entries()) == pytest.approx(0.55)


def test_a_run_that_ends_before_its_first_answer_may_be_made_again_under_its_key(monkeypatch, tmp_path):
    once = sd.Ledger(tmp_path / "l.sqlite", key="spring")
    release = sd.SyntheticRelease(schema=SCHEMA, ledger=once)
    with monkeypatch.context() as broken:
        broken.setattr(adaptive_marginals, "count_rows_from", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError) as failed:
            release.fit(table())
    assert budget_told(failed.value) == NOTHING_SPENT
    assert states(tmp_path / "l.sqlite") == ["returned"]
    assert len(release.fit_transform(table())) > 0
    assert states(tmp_path / "l.sqlite") == ["returned", "committed"]


def test_what_cannot_be_written_is_saved_elsewhere(monkeypatch, tmp_path):
    from synthdp import publishing

    table().to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.write(tmp_path / "s.json")
    monkeypatch.setattr(publishing, "_write", lambda *_, **__: 1 / 0)
    told = ["release", "t.csv", "--schema", "s.json", "--out", "out.csv", "--ledger", "l.sqlite"]
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, told)
    assert result.exit_code == 2
    assert "ε = 1" in result.stderr
    assert "out.csv.release" in result.stderr
    assert len(sd.load("out.csv.release").sample(7)) == 7


def test_the_command_line_says_that_nothing_was_spent(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    table()[["a"]].to_csv("t.csv", index=False)
    SCHEMA.write("s.json")
    result = CliRunner().invoke(main, ["release", "t.csv", "--schema", "s.json", "--out", "out.csv"])
    assert result.exit_code == 2
    assert result.stderr.rstrip().endswith(f"({NOTHING_SPENT})")


def test_a_release_that_cannot_be_drawn_from_is_drawn_from_by_columns(monkeypatch):
    release = sd.SyntheticRelease(schema=SCHEMA).fit(table()).release_
    kind = type(release.output.distribution)
    monkeypatch.setattr(kind, "sample", lambda *_, **__: 1 / 0)
    with pytest.warns(SalvageWarning):
        assert len(release.sample(20)) == 20
    with pytest.raises(SynthDPError):
        release.sample(0)
