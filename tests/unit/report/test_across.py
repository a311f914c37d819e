"""Several tables: what noise or chance explains is no relation (SECURITY R39), and what neither explains is one."""

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.report.database_report import clear_pairs

PERSONS, VISITS = 1500, 3


def worlds(seed: int, *, related: bool) -> tuple[dict[str, pd.DataFrame], sd.DatabaseSchema]:
    """Return persons and their visits: with columns that have nothing to do with each other, or closely."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, PERSONS)
    who = np.repeat(np.arange(PERSONS), VISITS)
    chance = np.where(sex[who] == 1, 0.9, 0.1) if related else np.full(len(who), 0.4)
    persons = pd.DataFrame(
        {"id": np.arange(PERSONS), "sex": np.array(["f", "m"])[sex], "age": rng.integers(0, 90, PERSONS)}
    )
    visits = pd.DataFrame({
        "id": who, "ward": np.array(["a", "b"])[(rng.random(len(who)) < chance).astype(int)],
        "cost": rng.integers(0, 100, len(who)),
    })  # fmt: skip
    schema = sd.DatabaseSchema(
        {
            "persons": sd.Schema({"id": sd.Identifier(), "sex": sd.Categorical(["f", "m"]), "age": sd.Integer(0, 90)}),
            "visits": sd.Schema(
                {"id": sd.Identifier(), "ward": sd.Categorical(["a", "b"]), "cost": sd.Integer(0, 100)}
            ),
        },
        [sd.Relation("persons", "visits", key="id", at_most=VISITS)],
    )
    return {"persons": persons, "visits": visits}, schema


def clear(seed: int, epsilon: float, *, related: bool) -> frozenset:
    tables, schema = worlds(seed, related=related)
    return clear_pairs(sd.DatabaseRelease(schema=schema, epsilon=epsilon, delta=1e-9).fit(tables).release_)


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_independent_columns_of_two_tables_have_no_relation() -> None:
    assert clear(0, 1.0, related=False) == frozenset()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_release_of_thirty_lists_a_relation_of_independent_columns() -> None:
    assert [clear(seed, epsilon, related=False) for seed in range(10) for epsilon in (0.5, 1.0, 3.0)] == [
        frozenset()
    ] * 30


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_close_relation_of_two_tables_is_found() -> None:
    found = clear(1, 3.0, related=True)
    assert ("persons", "sex", "visits", "ward") in found
    assert ("visits", "ward", "visits", "ward") in found
    assert not any("cost" in key or "age" in key for key in found)
