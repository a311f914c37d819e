"""`sample(given=...)` takes conditions as `answer` does, beside values by column."""

from __future__ import annotations

import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import ParameterError

SCHEMA = sd.Schema({"age": sd.Integer(0, 9), "sex": sd.Categorical(["F", "M"]), "b": sd.Boolean(nullable=True)})
TABLE = pd.DataFrame({"age": [*range(10)] * 40, "sex": ["F", "M"] * 200, "b": [True, None, False, True] * 100})


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=3.0, random_state=0).fit(TABLE)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ("age > 3", lambda rows: rows["age"] > 3),
        ("age > 3 and sex == 'F'", lambda rows: (rows["age"] > 3) & (rows["sex"] == "F")),
        (["age <= 3", "age != 2"], lambda rows: (rows["age"] <= 3) & (rows["age"] != 2)),
        ("b is null", lambda rows: rows["b"].isna()),
        ("age == 1 or age == 8", lambda rows: rows["age"].isin([1, 8])),
        ({"age": (4, None)}, lambda rows: rows["age"] >= 4),
    ],
)
def test_every_row_meets_the_condition(release: sd.SyntheticRelease, given, holds, tmp_path) -> None:
    assert holds(release.sample(60, given=given)).all()
    assert holds(release.release_.sample(60, given=given)).all()
    release.release_.sample_to(tmp_path / "t.parquet", rows=30, given=given)
    assert holds(pd.read_parquet(tmp_path / "t.parquet")).all()


@pytest.mark.parametrize("given", ["age >", "age > 3 or sex == 'F'", "nobody == 1", "age > 100", 7, [7], {"nobody": 1}])
def test_what_is_no_condition_is_refused(release: sd.SyntheticRelease, given) -> None:
    with pytest.raises(ParameterError):
        release.sample(5, given=given)
    assert len(release.sample(5)) == 5


def test_persons_of_several_tables_are_drawn_by_a_condition_on_the_root() -> None:
    schema = sd.DatabaseSchema(
        tables={"persons": sd.Schema({"p": sd.Boolean()}), "rows": sd.Schema({"v": sd.Categorical(["a", "b"])})},
        relations=[sd.Relation(parent="persons", child="rows", key="id", at_most=2)],
    )
    tables = {
        "persons": pd.DataFrame({"id": range(60), "p": [True, False] * 30}),
        "rows": pd.DataFrame({"id": [*range(60)] * 2, "v": ["a", "b"] * 60}),
    }
    release = sd.DatabaseRelease(schema=schema, epsilon=5.0, random_state=0).fit(tables)
    assert release.sample(20, given="p == true")["persons"]["p"].all()
    assert not release.sample(20, given={"p": False})["persons"]["p"].any()
