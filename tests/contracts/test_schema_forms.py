"""Every call that takes a schema takes each of its forms: an object, a reviewed draft, a document and a path."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import DraftWarning, ParameterError, SchemaError
from synthdp.tables.history_rows import with_history

TABLE = pd.DataFrame({"age": np.arange(400) % 91, "sex": ["f", "m"] * 200})
SCHEMA = sd.Schema({"age": sd.Integer(0, 90), "sex": sd.Categorical(["f", "m"])})
TABLES = {
    "persons": pd.DataFrame({"key": range(200), "sex": ["f", "m"] * 100}),
    "visits": pd.DataFrame({"key": np.repeat(range(200), 2), "cost": np.arange(400) % 91}),
}
RELATIONS = [sd.Relation("persons", "visits", key="key", at_most=2)]
DATABASE = sd.DatabaseSchema(
    {"persons": sd.Schema({"sex": sd.Categorical(["f", "m"])}), "visits": sd.Schema({"cost": sd.Integer(0, 90)})},
    RELATIONS,
)

OF_ONE: dict[str, Callable[[Any], Any]] = {
    "compare": lambda schema: sd.compare(TABLE, TABLE, schema),
    "curator": lambda schema: sd.Curator(TABLE, schema=schema, budget=sd.PureDP(1.0)),
    "domain_of": sd.domain_of,
    "evaluate": lambda schema: sd.nonprivate_evaluate(TABLE[:200], TABLE[200:], schema),
    "plan": lambda schema: sd.plan(schema, rows=300),
    "release": lambda schema: sd.SyntheticRelease(schema=schema, epsilon=5.0).fit(TABLE),
    "risk": lambda schema: sd.nonprivate_risk(
        TABLE[:100], TABLE[100:200], TABLE[200:], keys=["age"], target="sex", schema=schema
    ),
    "sparse_conjunction": lambda schema: sd.sparse_conjunction(schema, {"age": 3}),
}
OF_SEVERAL: dict[str, Callable[[Any], Any]] = {
    "compare": lambda schema: sd.compare(TABLES, TABLES, schema),
    "curator": lambda schema: sd.Curator(TABLES, schema=schema, budget=sd.PureDP(1.0)),
    "evaluate": lambda schema: sd.nonprivate_evaluate(TABLES, TABLES, schema),
    "plan": lambda schema: sd.plan(schema, rows=300),
    "release": lambda schema: sd.DatabaseRelease(schema=schema, epsilon=5.0).fit(TABLES),
    "with_history": lambda schema: with_history(TABLES, schema),
}


def drafted(several: bool) -> Any:
    with pytest.warns(DraftWarning):
        return sd.draft(TABLES, relations=RELATIONS) if several else sd.draft(TABLE)


@pytest.mark.parametrize("call", sorted(OF_ONE))
def test_every_form_of_a_schema_of_one_table_is_taken(call: str, tmp_path: Any) -> None:
    SCHEMA.write(tmp_path / "s.json")
    draft = drafted(several=False).accept_all()
    for form in (SCHEMA, dict(SCHEMA), json.loads(SCHEMA.to_json()), tmp_path / "s.json", draft):
        OF_ONE[call](form)


@pytest.mark.parametrize("call", sorted(OF_SEVERAL))
def test_every_form_of_a_schema_of_several_tables_is_taken(call: str, tmp_path: Any) -> None:
    DATABASE.write(tmp_path / "s.json")
    draft = drafted(several=True).accept_all()
    for form in (DATABASE, json.loads(DATABASE.to_json()), tmp_path / "s.json", draft):
        OF_SEVERAL[call](form)


def test_a_schema_of_one_table_and_of_several_are_not_mistaken() -> None:
    with pytest.raises(ParameterError, match="DatabaseRelease"):
        sd.SyntheticRelease(schema=DATABASE).fit(TABLE)
    with pytest.raises(SchemaError, match="SyntheticRelease"):
        sd.DatabaseRelease(schema=SCHEMA).fit(TABLES)


@pytest.mark.parametrize("call", sorted(OF_ONE.keys() - {"plan"}))
def test_a_draft_that_nobody_reviewed_is_refused_by_every_call_but_a_plan(call: str) -> None:
    with pytest.raises(SchemaError, match=r"'age'.*review"):
        OF_ONE[call](drafted(several=False))


@pytest.mark.parametrize("call", sorted(OF_SEVERAL))
def test_a_draft_of_several_tables_that_nobody_reviewed_is_refused(call: str) -> None:
    with pytest.raises(SchemaError, match=r"'sex'.*review"):
        OF_SEVERAL[call](drafted(several=True))
