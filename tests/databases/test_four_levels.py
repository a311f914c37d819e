"""Persons, their policies, claims of these and payments of these: any depth is joined, weighed and drawn alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from small_databases import codes_of, tables_of

import synthdp as sd
from synthdp.curator import Curator
from synthdp.domain.histories import Layout
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.privacy.loss import loss_of
from synthdp.queries.person_tables import PersonTables

SCHEMA = sd.DatabaseSchema(
    {
        "persons": sd.Schema({"p": sd.Boolean()}),
        "policies": sd.Schema({"v": sd.Categorical(["a", "b"])}),
        "claims": sd.Schema({"t": sd.Integer(0, 2)}),
        "payments": sd.Schema({"w": sd.Boolean()}),
    },
    [
        sd.Relation("persons", "policies", key="id", at_most=2),
        sd.Relation("policies", "claims", key="policy", at_most=2, order="t"),
        sd.Relation("claims", "payments", key="claim", at_most=2),
    ],
)


def made(persons: int, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Persons with up to three rows each of what each row has; one more than is used."""
    found = {"persons": pd.DataFrame({"id": np.arange(persons), "p": (rng.random(persons) < 0.5).astype(object)})}
    above = pd.DataFrame({"id": np.arange(persons)})
    for name, key in (("policies", "policy"), ("claims", "claim"), ("payments", None)):
        rows = above.loc[above.index.repeat(rng.integers(0, 4, len(above)))].reset_index(drop=True)
        value = {"policies": rng.choice(["a", "b"], len(rows)), "claims": rng.integers(0, 3, len(rows))}
        column = {"policies": "v", "claims": "t", "payments": "w"}[name]
        found[name] = rows.assign(**{column: value.get(name, (rng.random(len(rows)) < 0.3).astype(object))})
        if key is not None:
            found[name][key] = np.arange(len(rows))
            above = found[name][["id", *([key] if name == "policies" else ["policy", key])]]
    return found


def test_a_person_moves_tables_of_four_levels_by_no_more_than_their_bounds() -> None:
    """Of many persons by chance, whose rows fill every place and more."""
    layout = Layout(SCHEMA)
    tables = made(200, np.random.default_rng(0))
    queries = PersonTables(layout, tuple(found := tables_of(layout)), tuple(1 + i % 3 for i in range(len(found))))
    added = np.array([queries.sums(record[None]) for record in np.unique(codes_of(tables, layout), axis=0)])
    one, swap = queries.bounds.one, queries.bounds.swap
    assert added.sum(axis=1).max() <= one.l1
    assert (added**2).sum(axis=1).max() <= one.l2_squared
    moved = added - added[np.argmax((added**2).sum(axis=1))]
    assert (moved**2).sum(axis=1).max() <= swap.l2_squared
    assert np.abs(moved).sum(axis=1).max() <= swap.l1
    for table, times, start, stop in zip(
        queries.tables, queries.multipliers, queries.offsets[:-1], queries.offsets[1:], strict=True
    ):
        assert added[:, start:stop].sum(axis=1).max() <= table.norms(layout).times(times).l1


def test_rows_far_below_join_the_rows_above_them() -> None:
    """Every used row hangs on a used row; what it is is what the tables say, person by person."""
    layout = Layout(SCHEMA)
    tables = made(1, np.random.default_rng(3))
    tables["policies"] = pd.DataFrame({"id": [0], "policy": [5], "v": ["b"]})
    tables["claims"] = pd.DataFrame({"id": [0, 0], "policy": [5, 6], "claim": [7, 8], "t": [2, 1]})
    tables["payments"] = pd.DataFrame(
        {"id": [0] * 3, "policy": [5] * 3, "claim": [7, 7, 8], "w": np.array([True, True, False], object)}
    )
    (record,) = codes_of(tables, layout)
    claims, payments = (layout.place[1]["#claims"][0], layout.place[2]["#payments"][0])
    assert (record[claims], record[payments]) == (1, 2)
    assert record[layout.place[0]["#left out of payments"][0]] == 1  # its claim is of no policy
    assert [record[layout.place[3]["w"][slot]] for slot in range(2)] == [1, 1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_synthetic_tables_of_four_levels_are_joined() -> None:
    tables = made(300, np.random.default_rng(1))
    with Curator(tables, schema=SCHEMA, budget=loss_of(5.0, 1e-9)) as curator:
        release = RelatedTables(sweeps=(2, 4), particles=300).release(curator, random_state=0)
    found = release.sample(random_state=0)
    for child, parent, key in (
        ("policies", "persons", "id"),
        ("claims", "policies", "policy"),
        ("payments", "claims", "claim"),
    ):
        assert set(found[child][key]) <= set(found[parent][key])
        assert len(found[child]) > 0
    joined = found["payments"].merge(found["claims"], on="claim").merge(found["policies"], on="policy")
    assert len(joined) == len(found["payments"])
    assert (joined["id"] == joined["id_x"]).all()


def test_a_plan_warns_of_means_that_a_heavy_tail_hides() -> None:
    """Of few persons and of many, from public facts alone."""
    schema = sd.DatabaseSchema(
        {"persons": sd.Schema({"pay": sd.Continuous(0, 1e6)}), "visits": sd.Schema({"cost": sd.Continuous(0, 1e6)})},
        [sd.Relation("persons", "visits", key="id", at_most=5)],
    )
    release = sd.DatabaseRelease(schema=schema, epsilon=1.0)
    few, many = (release.plan(rows={"persons": n, "visits": 2 * n}).advice for n in (500, 1_000_000))
    assert any("declare narrower bounds" in line and "visits.cost" in line for line in few)
    assert not any("narrower bounds" in line for line in many)
