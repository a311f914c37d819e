"""R8, R3, R11 for several tables: with the noise frozen, databases that differ in one person give the same release.

Whatever differed would be a path from private rows to the output that noise does not cover.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from no_noise import recorded, replayed
from small_databases import SCHEMAS, Person, every_person, frames

from synthdp import ApproxDP, Curator
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.storage import save

OTHERS = list(every_person(rows=2, leaves=True))[:60]
PERSONS = {
    "a person without rows": Person((True,), ()),
    "a person with more rows than are used": Person((True,), ((0, "a"), (2, "b")) * 500, ((0, True),) * 300),
    "rows of nobody": Person((), ((1, "a"), (1, "a"))),
    "a person who is there twice": Person((True, False), ((0, "b"),)),
}


def output(tables: dict[str, pd.DataFrame], name: str, folder: Path) -> tuple[str, str, bytes, bytes]:
    curator = Curator(tables, schema=SCHEMAS[name], budget=ApproxDP(1.0, 1e-9))
    release = RelatedTables(sweeps=(1, 2)).release(curator, random_state=0)
    save(release, folder)
    sampled = "".join(table.to_csv(index=False) for table in release.sample(20, random_state=1).values())
    return sampled, str(release.receipt), (folder / "release.json").read_bytes(), (folder / "arrays.npz").read_bytes()


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("a person without rows", "no order"),
        ("a person with more rows than are used", "child of a child"),
        pytest.param("rows of nobody", "pattern", marks=pytest.mark.slow),
        pytest.param("a person who is there twice", "two children", marks=pytest.mark.slow),
    ],
)
def test_databases_that_differ_in_one_person_give_the_same_trace_and_the_same_output(
    case: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = output(frames(OTHERS, SCHEMAS[name]), name, tmp_path / "a.release")
    second = replayed(monkeypatch, first)
    found = output(frames([*OTHERS, PERSONS[case]], SCHEMAS[name]), name, tmp_path / "b.release")
    assert second.draws == first.draws
    assert len(first.draws) >= 3
    assert found == expected
