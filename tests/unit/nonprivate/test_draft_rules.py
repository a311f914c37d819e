"""Drafts propose rules that nearly all rows keep and chance does not; a person declares or dismisses them."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import DraftWarning, SchemaError

ROWS = 2000


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    sub = rng.choice([f"{grade}{i}" for grade in "ABCD" for i in range(1, 6)], ROWS)
    start = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, ROWS), "D")
    low = rng.integers(40, 90, ROWS)
    found = pd.DataFrame(
        {
            "sub": sub,
            "grade": pd.Series([one[0] for one in sub], dtype="str"),
            "start": start,
            "end": start + pd.to_timedelta(rng.integers(0, 90, ROWS), "D"),
            "low": low,
            "middle": low + rng.integers(0, 30, ROWS),
            "apart": rng.choice(list("xyz"), ROWS),
            "far": rng.integers(1000, 2000, ROWS),
        }
    )
    found["high"] = found["middle"] + rng.integers(0, 30, ROWS)
    found.loc[:9, "end"] = pd.Timestamp("2020-01-01")  # some break it
    found.loc[10:19, "grade"] = "D"
    return found


def drafted(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DraftWarning)
        return sd.draft(table)


@pytest.fixture(scope="module")
def proposed(table):
    return drafted(table).proposed


def test_orders_that_nearly_all_rows_keep_are_proposed_but_not_those_of_chance_or_of_two_others(proposed) -> None:
    orders = {(rule.left, rule.right) for rule in proposed if isinstance(rule, sd.LessEqual)}
    assert orders == {("start", "end"), ("low", "middle"), ("middle", "high")}


@pytest.mark.parametrize("end", [0, 1])
def test_the_order_of_the_rows_does_not_change_what_is_proposed(end: int) -> None:
    """The few rows that break the rules stand together, at either end of a long table."""
    rng = np.random.default_rng(2)
    low, town = rng.integers(0, 900, 40_000), rng.integers(0, 40, 40_000)
    found = pd.DataFrame({"low": low, "high": low + rng.integers(0, 900, 40_000), "town": town, "region": town // 5})
    found = found.astype({"town": str, "region": str})
    found.loc[:599, "high"] = 0
    found.loc[:599, "region"] = rng.integers(0, 8, 600).astype(str)
    rules = {type(rule).__name__ for rule in drafted(found[:: (1, -1)[end]].reset_index(drop=True)).proposed}
    assert rules == {"LessEqual", "Derived"}


def test_a_column_that_follows_from_another_is_proposed_with_its_values(proposed) -> None:
    (rule,) = (one for one in proposed if isinstance(one, sd.Derived))
    assert (rule.column, rule.of) == ("grade", "sub")
    assert rule.values == {f"{grade}{i}": grade for grade in "ABCD" for i in range(1, 6)}


def test_it_is_said_how_many_rows_keep_a_rule(table) -> None:
    draft = drafted(table)
    said = {rule.in_words(): draft.why(rule) for rule in draft.proposed}
    kept = int((table["start"] <= table["end"]).sum())
    assert said["start is at most end"].startswith(f"{kept:,} of the 2,000 rows")
    assert said["low is at most middle"].startswith("all of the 2,000 rows")
    assert "a rule to declare or not: start is at most end" in repr(draft)


def test_nothing_proposed_is_declared_until_a_person_does(table) -> None:
    draft = drafted(table)
    assert draft.accept_all().finish().constraints == ()
    draft = drafted(table)
    for rule in draft.proposed:
        draft.declare(rule)
    assert draft.proposed == ()
    assert len(draft.accept_all().finish().constraints) == 4
    assert "grade" not in draft.finish()
    assert sd.Schema.from_json(draft.to_json()) == draft.finish()


def test_a_dismissed_rule_and_those_of_a_dropped_column_are_gone(table) -> None:
    draft = drafted(table)
    draft.dismiss(sd.LessEqual("start", "end"))
    draft.declare(sd.LessEqual("low", "middle"))
    draft.drop("sub").drop("low")
    assert [rule.in_words() for rule in draft.proposed] == ["middle is at most high"]
    assert draft.accept_all().finish().constraints == ()


def test_a_rule_that_does_not_fit_is_refused_and_nothing_changes(table) -> None:
    draft = drafted(table)
    before = draft.to_json()
    with pytest.raises(SchemaError):
        draft.declare(sd.LessEqual("low", "nothing"))
    assert draft.to_json() == before


def test_levels_that_few_rows_have_are_in_no_proposed_rule() -> None:
    rng = np.random.default_rng(3)
    city = rng.choice([f"city {i}" for i in range(30)], ROWS)
    table = pd.DataFrame({"city": city, "state": [f"state {int(one.split()[1]) % 6}" for one in city]})
    table.loc[:4, ["city", "state"]] = ["a lonely city", "a lonely state"]
    draft = drafted(table)
    assert [type(rule) for rule in draft.proposed] == [sd.Derived]
    assert "lonely" not in draft.to_json()
    schema = draft.declare(draft.proposed[0]).accept_all().finish()
    rows = sd.SyntheticRelease(schema=schema, epsilon=5.0, random_state=0).fit_transform(table)
    usual = rows[rows["city"] != "other"]
    assert len(usual) > 0
    assert all(int(a.split()[1]) % 6 == int(b.split()[1]) for a, b in zip(usual["city"], usual["state"], strict=True))


def test_small_tables_and_unrelated_columns_have_no_proposals() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.integers(0, 99, ROWS), "b": rng.integers(0, 99, ROWS), "c": rng.choice(list("xyz"), ROWS)}
    )
    assert drafted(table).proposed == ()
    few = pd.DataFrame({"a": np.arange(50), "b": np.arange(50) + 3})
    assert drafted(few).proposed == ()


def test_the_review_asks_for_every_rule_after_the_columns(table, tmp_path) -> None:
    path = tmp_path / "schema.json"
    drafted(table).write(path)
    columns = "a\n" * table.shape[1]
    result = CliRunner().invoke(main, ["schema", "review", str(path)], input=columns + "x\nd\nn\ns\nd\n")
    assert result.exit_code == 0, result.output
    assert result.output.count("rule  ") == 4
    document = json.loads(path.read_text())
    assert len(document["constraints"]) == 2
    assert len(document["proposed"]) == 1
    assert len(sd.Schema.read(path).constraints) == 2


def test_the_review_fits_the_terminal_says_a_day_as_a_day_and_no_half_of_a_comment(table, tmp_path) -> None:
    """Found by looking at a picture of it: a line of levels ran on, and a comment began with its last sentence."""
    path = tmp_path / "schema.json"
    many = table.assign(place=[f"a place with a long name {i % 30:02}" for i in range(ROWS)])
    many.loc[:4, "place"] = "rare"
    drafted(many[["start", "place", "apart"]]).write(path)
    result = CliRunner().invoke(main, ["schema", "review", str(path)], input="a\na\na\n")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines()[:-1])) <= 100  # the last one names the file
    assert "2020-01-01 to 20" in result.output
    assert not any(line.strip().startswith("Or set levels") for line in result.output.split("3 of 3")[1].splitlines())
