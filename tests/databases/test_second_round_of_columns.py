"""One-way tables of persons are measured a second time where noise is large for so few persons, and count once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.related.known import noisy_person_tables
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
        every = [one.queries.noisy_tables(one.answers, one.stddev) for one in rounds]
        found = list(noisy_person_tables(rounds))
        assert [one.table.name for one in found] == [one.table.name for one in every[0]]
        for i, one in enumerate(found):
            precision = sum(each[i].stddev ** -2 for each in every)
            assert one.stddev == pytest.approx(precision**-0.5)
            counts = sum(each[i].counts / each[i].stddev ** 2 for each in every) / precision
            np.testing.assert_allclose(one.counts, counts, atol=1e-9)


def test_the_more_exact_table_weighs_more() -> None:
    counts, stddev = mean_by_precision((np.array([10.0]), 3.0), (np.array([20.0]), 4.0))
    assert counts == pytest.approx([10 + 10 * 9 / 25])
    assert stddev == pytest.approx(12 / 5)
