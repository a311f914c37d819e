"""One-way tables of persons are measured a second time where noise is large for so few persons, and count once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.related.known import noisy_person_tables
from synthdp.errors import SalvageWarning
from synthdp.mechanisms.related import attribute_columns, related_tables
from synthdp.mechanisms.related.asked_tables import measure
from synthdp.queries.persons import mean_by_precision

SECOND = "one-way marginals of persons, second round"
SCHEMA = sd.DatabaseSchema(
    {"persons": sd.Schema({"sex": sd.Categorical(["f", "m"]), "age": sd.Integer(0, 90)}),
     "visits": sd.Schema({"cost": sd.Integer(0, 500), "kind": sd.Categorical(list("abc"))})},
    [sd.Relation("persons", "visits", key="pid", at_most=3)],
)  # fmt: skip


def tables(persons: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(persons), rng.integers(0, 4, persons))
    return {
        "persons": pd.DataFrame({
            "pid": range(persons), "sex": rng.choice(["f", "m"], persons), "age": rng.integers(0, 91, persons),
        }),
        "visits": pd.DataFrame({
            "pid": owner, "cost": rng.integers(0, 501, len(owner)), "kind": rng.choice(list("abc"), len(owner)),
        }),
    }  # fmt: skip


@pytest.mark.parametrize(("persons", "epsilon", "again"), [(600, 0.5, True), (20_000, 5.0, False)])
def test_few_persons_are_counted_twice_and_many_once(persons: int, epsilon: float, again: bool, tmp_path: Path) -> None:
    release = sd.DatabaseRelease(schema=SCHEMA, epsilon=epsilon, delta=1e-6, random_state=0).fit(tables(persons))
    assert (SECOND in [item.step for item in release.receipt_.items]) == again
    release.save(tmp_path / "r")
    for measured in (release.release_.measurements, sd.load(tmp_path / "r").measurements):
        rounds = measured[: 1 + again]
        assert len({len(one.queries.tables) for one in rounds}) == 1
        every = [one.person_tables for one in rounds]
        found = list(noisy_person_tables(rounds))
        assert [one.table.name for one in found] == [one.table.name for one in every[0]]
        for i, one in enumerate(found):
            precision = sum(each[i].stddev ** -2 for each in every)
            assert one.stddev == pytest.approx(precision**-0.5)
            counts = sum(each[i].counts / each[i].stddev ** 2 for each in every) / precision
            np.testing.assert_allclose(one.counts, counts, atol=1e-9)


def test_a_release_that_fails_after_the_second_round_keeps_both(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> list[float]:
        raise MemoryError

    monkeypatch.setattr(related_tables, "rows_by_table", broken)
    curator = sd.Curator(tables(600), schema=SCHEMA, budget=sd.ApproxDP(0.5, 1e-6))
    with curator, pytest.warns(SalvageWarning, match="RelatedTables"):
        release = related_tables.RelatedTables().release(curator, random_state=0)
    assert [item.step for item in release.receipt.items] == ["one-way marginals of persons", SECOND]
    assert release.output.total == pytest.approx(max(1.0, release.answer(sd.count())["estimate"].item()))


def test_splits_have_the_noise_that_was_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[float, float]] = []

    def watched(account, layout, tables, shares, budget, *, step):
        answers, counted, left = measure(account, layout, tables, shares, budget, step=step)
        if "level" in step:
            found.extend((table.attribute, stddev) for table, (_, stddev) in zip(tables, counted, strict=True))
        return answers, counted, left

    columns: list[attribute_columns.AttributeColumn] = []
    split = attribute_columns.split_columns
    monkeypatch.setattr(attribute_columns, "measure", watched)
    monkeypatch.setattr(related_tables, "split_columns", lambda *given: (columns.extend(given[2]), split(*given))[1])
    some = tables(1500)
    some["persons"]["age"] = some["persons"]["age"].where(some["persons"]["age"] % 2 == 0, 33)
    sd.DatabaseRelease(schema=SCHEMA, epsilon=3.0, delta=1e-6, random_state=0).fit(some)
    foreseen = {one.one.name: one.split_stddev for one in columns}
    assert "age" in dict(found)
    assert all(stddev <= 1.05 * foreseen[name] for name, stddev in found)


def test_a_plan_divides_the_budget_as_the_receipt_does() -> None:
    rows = {name: len(table) for name, table in tables(600).items()}
    release = sd.DatabaseRelease(schema=SCHEMA, epsilon=0.5, delta=1e-6, random_state=0)
    plan = release.plan(rows=rows).stages
    release.fit(tables(600))
    spent = {item.step: item.loss.mu**2 for item in release.receipt_.items}
    whole = sum(spent.values())
    assert sum(plan.values()) == pytest.approx(1)
    assert sum(
        share for step, share in spent.items() if "one-way" in step and "level" not in step
    ) / whole == pytest.approx(plan["one-way tables"], abs=0.02)
    assert sum(share for step, share in spent.items() if "scores of two" in step) / whole == pytest.approx(
        plan["screening"], abs=0.02
    )


def test_the_more_exact_table_weighs_more() -> None:
    counts, stddev = mean_by_precision((np.array([10.0]), 3.0), (np.array([20.0]), 4.0))
    assert counts == pytest.approx([10 + 10 * 9 / 25])
    assert stddev == pytest.approx(12 / 5)
