"""R36: every field of every file that leaves is on a list, which says where its value may come from."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from facade_worlds import MECHANISMS, WITH_PUBLIC, World
from mechanism_cases import CASES
from saved_fields import CLASSES, CODE, DECLARED, FILES, HIDDEN, MARKS, fields_of
from small_databases import SCHEMAS as DATABASES, every_person, frames
from tape_worlds import DECLARED as SCHEMA, base, typed_frame

import synthdp as sd
from synthdp.codec import constructor_fields, form_named
from synthdp.page.outcome import FILES as ON_THE_PAGE
from synthdp.publishing import Places, receipt_text
from synthdp.release import Release, load, save
from synthdp.report import write_report
from synthdp.schema.column import COLUMN_TYPES
from synthdp.schema.constraints import RULE_KINDS
from synthdp.schema.sibling_rules import SIBLING_KINDS


def of_mechanism(name: str, other: bool) -> Release[Any]:
    case = CASES[name]
    table = case.world.table
    return case.release(table.iloc[::-2].reset_index(drop=True) if other else table)[0]


def of_facade(name: str, other: bool) -> Release[Any]:
    columns = ["city"] if name == "NetMechanism" else ["age", "pay", "city"]
    rows = base(60)[::2] if other else base(60)
    settings = WITH_PUBLIC.get(name) or MECHANISMS[name](World(None, None))
    made = sd.SyntheticRelease(schema=SCHEMA.part(columns), epsilon=3.0, delta=1e-6, random_state=0, **settings)
    return made.fit(typed_frame(rows)).release_


def of_weights(name: str, other: bool) -> Release[Any]:
    rows = base(60)[::2] if other else base(60)
    made = sd.SyntheticRelease(
        schema=SCHEMA.part(["age", "city"]),
        weight=name,
        weight_bounds=(0.5, 1000),
        epsilon=3.0,
        delta=1e-6,
        random_state=0,
    )
    return made.fit(typed_frame(rows)).release_


def of_database(name: str, other: bool) -> Release[Any]:
    persons = list(every_person(rows=2, leaves=True))[: 30 if other else 60]
    return (
        sd.DatabaseRelease(schema=DATABASES[name], epsilon=3.0, random_state=0)
        .fit(frames(persons, DATABASES[name]))
        .release_
    )


KINDS: dict[str, tuple[Callable[[str, bool], Release[Any]], str]] = {
    **{f"mechanism {name}": (of_mechanism, name) for name in CASES},
    **{f"façade {name}": (of_facade, name) for name in MECHANISMS},
    **{f"façade with {name}": (of_facade, name) for name in WITH_PUBLIC},
    "façade with weights": (of_weights, "pay"),
    **{f"database {name}": (of_database, name) for name in DATABASES},
}


def made(kind: str, *, other: bool = False) -> Release[Any]:
    make, name = KINDS[kind]
    return make(name, other)


def document_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "release.json").read_text(encoding="utf-8"))


def unmarked(document: Mapping[str, Any], part: str = "release") -> set[str]:
    return {name for name, _ in fields_of(document, part) if name not in MARKS}


@pytest.mark.sampled("landing")
@pytest.mark.filterwarnings("ignore:SmoothSynthesis leaves out:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_every_field_and_every_array_of_a_saved_release_is_on_the_list(kind, tmp_path):
    save(made(kind), tmp_path / "r")
    document = document_of(tmp_path / "r")
    assert unmarked(document) == set()
    assert {path.name for path in (tmp_path / "r").iterdir()} <= FILES.keys()
    with np.load(tmp_path / "r" / "arrays.npz") as arrays:
        assert set(arrays.files) <= set(texts(document))


def texts(one: Any) -> Iterator[str]:
    """Yield every text of a document."""
    if isinstance(one, str):
        yield one
    for inner in one.values() if isinstance(one, dict) else one if isinstance(one, list) else ():
        yield from texts(inner)


def test_every_class_that_may_be_saved_has_all_its_fields_on_the_list():
    """A class that no release here holds, and a field that is always empty, are not forgotten."""
    for name in sorted(CLASSES):
        form = form_named(name)
        if form.bare or hasattr(form.kind, "to_saved"):  # what they write stands in releases above
            continue
        kind = form.kind
        hints = get_type_hints(kind)
        held = {f"{name}.{field}": hints[field] for field in constructor_fields(kind)}
        assert {field for field in held.keys() - MARKS.keys() if not holds_parts(held[field])} == set()


def holds_parts(hint: Any) -> bool:
    """Say whether a field holds other documents only, whose own fields are on the list."""
    inner = [one for one in get_args(hint) if one is not Ellipsis]
    return all(map(holds_parts, inner)) if inner else getattr(hint, "__module__", "").startswith("synthdp.")


def test_every_setting_of_a_column_and_a_rule_is_on_the_list():
    for part, kinds in (
        ("columns", COLUMN_TYPES.values()),
        ("constraints", [*RULE_KINDS.values(), *SIBLING_KINDS.values()]),
    ):
        settings = {f"{part}.{field.name}" for kind in kinds for field in dataclasses.fields(kind) if field.init}
        assert settings - MARKS.keys() == set()


def chosen_apart(one: Release[Any], other: Release[Any]) -> bool:
    """Say whether noise chose another mechanism, or another degree of smooth answers, for the one than for the other."""
    sizes = [[len(each.answers) for each in release.measurements] for release in (one, other)]
    return one.mechanism != other.mechanism or ("Smooth" in one.mechanism and sizes[0] != sizes[1])


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:SmoothSynthesis leaves out:UserWarning")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (i % 6 != 0)) for i, kind in enumerate(KINDS)]
)
def test_what_is_declared_or_code_is_the_same_for_another_table_under_other_noise(kind, tmp_path):
    """What gives the marks their meaning: half of the rows, in another order, move noisy fields only."""
    pair = made(kind), made(kind, other=True)
    for _ in range(50):  # a mechanism and a degree are chosen by a noisy number of rows
        if not chosen_apart(*pair):
            break
        pair = made(kind), made(kind, other=True)
    found = []
    for release in pair:
        save(release, tmp_path / "r")
        fields = defaultdict(set)
        for name, value in fields_of(document_of(tmp_path / "r")):
            fields[name].add(json.dumps(value))
        found.append(fields)
    differ = {name for name in found[0].keys() | found[1].keys() if found[0][name] != found[1][name]}
    assert {name for name in differ if MARKS[name] in (CODE, DECLARED)} == set()
    assert differ


def publish_all(release: Release[Any], folder: Path) -> None:
    """Write every other file that is published of a release."""
    write_report(release, folder / "report.html")
    for name in ("receipt.json", "card.html", "receipt.txt"):
        (folder / name).write_text(receipt_text(release, Path(name).suffix), encoding="utf-8")
    drawn = release.sample(30, random_state=0)
    for name, table in drawn.items() if isinstance(drawn, dict) else [("synthetic", drawn)]:
        table.to_csv(folder / f"{name}.csv", index=False)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("kind", ["façade auto", "façade l1_fit", "database two children"])
def test_whatever_else_is_published_is_worked_out_from_the_saved_release_alone(kind, tmp_path):
    """Pages and tables have no fields to list: written from the file, they are the same to the last byte."""
    release = made(kind)
    save(release, tmp_path / "r")
    written = []
    for name, one in (("first", release), ("again", load(tmp_path / "r"))):
        folder = tmp_path / name
        folder.mkdir()
        publish_all(one, folder)
        written.append({path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert written[0] == written[1]
    assert len(written[0]) >= 3


def test_every_field_of_a_receipt_and_its_card_is_on_the_list():
    for kind in ("façade auto", "database two children"):
        document = json.loads(receipt_text(made(kind), ".json"))
        assert unmarked(document.pop("card"), "card") | unmarked(document, "receipt") == set()


def test_every_file_of_a_published_folder_is_on_the_list():
    places = Places.within(Path())
    named = {getattr(places, one.name).name for one in dataclasses.fields(places)}
    assert named - {"release"} | ON_THE_PAGE.keys() <= FILES.keys()


def test_what_a_saved_session_hides_is_in_no_release(tmp_path):
    """Its folder goes on with the same rows: nobody else may read it, and nothing of it is called a field of a release."""
    case = CASES["SparseWeights"]
    session = case.build().open(sd.Curator(case.world.table, schema=case.world.schema, budget=sd.PureDP(1.0)))
    session.save(tmp_path / "s")
    (document,) = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "s").glob("*.json")]
    assert unmarked(document, "session") == set()
    assert any(MARKS[name] == HIDDEN for name, _ in fields_of(document, "session"))
    assert [path for path in [tmp_path / "s", *(tmp_path / "s").iterdir()] if path.stat().st_mode & 0o077] == []
