"""R38: a draft names a value only if many rows have it, each value by itself; what few rows have is a range, or nothing."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.cli.main import main
from synthdp.nonprivate.draft import Draft
from synthdp.nonprivate.draft_numbers import SHARED
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.nonprivate.look import look
from synthdp.page.project import Project
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources.csv import CsvSource

RARE, COMMON = [1, 2, SHARED - 1], [SHARED, 3 * SHARED, 6 * SHARED]
VALUES: dict[str, list[Any]] = {
    "texts": ["yes", "no", "maybe", "canary", "x", "none"],
    "levels of numbers": [0, 1, 2],
    "truths as numbers": [0, 1],
    "codes": [5, 6, 7, 8, 9, -9, 999, 99_999],
    "late fees": [14.95, 14.98, 15.0, 29.91, 33.37, 250.0],
    "far apart": [0.0, 1e3, 2e6, 1234.5, 77.125],
    "logarithms": [float(np.log(k)) for k in range(1, 7)],
    "days": ["2020-01-01", "2021-05-17", "2022-12-31"],
    "mixed": ["a", 1, 2.5, "b"],
}


def tables() -> st.SearchStrategy[tuple[str, list[Any]]]:
    def rows(name: str) -> st.SearchStrategy[tuple[str, list[Any]]]:
        counts = [st.sampled_from([0, *RARE, *COMMON])] * len(VALUES[name])
        found = st.tuples(*counts).filter(any)
        return found.map(lambda some: (name, [v for v, n in zip(VALUES[name], some, strict=True) for _ in range(n)]))

    return st.sampled_from([*VALUES]).flatmap(rows)


def named(entry: dict[str, Any]) -> list[Any]:
    """Every value that the draft of a column names."""
    often = re.findall(
        r"(?:most often |, )(.+?) \([\d,]+\)", entry["seen"].partition("; most")[2].replace(" often ", ", ")
    )
    days = [one.removesuffix(" 00:00:00.000000") for one in often]
    return [*(entry.get("levels") or ()), *entry.get("special", ()), *days]


@pytest.mark.parametrize("texts", [False, True], ids=["typed", "CSV"])
@given(table=tables())
def test_every_value_that_a_draft_names_is_one_that_many_rows_have(
    tmp_path_factory: pytest.TempPathFactory, texts: bool, table: tuple[str, list[Any]]
) -> None:
    name, rows = table
    frame = pd.DataFrame({"x": pd.Series(rows, dtype=object if name == "mixed" else None)})
    source: Any = FrameSource(frame)
    if texts:
        path = tmp_path_factory.mktemp("drafts") / "t.csv"
        frame.to_csv(path, index=False)
        source = CsvSource(path)
    counts = Counter(str(row) for row in rows)
    counts += Counter({str(float(one)): n for one, n in Counter(rows).items() if not isinstance(one, str)})
    (entry,) = draft_schema(source)["columns"]
    assert [one for one in named(entry) if counts[str(one)] < SHARED] == []


def test_amounts_of_single_borrowers_are_no_levels() -> None:
    """Nearly all have 0, a few have 15, and 27 have an amount of their own; on average they repeat often."""
    amounts = [0.0] * 9000 + [15.0] * 60 + [round(14.96 + 1.37 * k, 2) for k in range(27)]
    column = draft_schema(FrameSource(pd.DataFrame({"paid_late_fees": amounts})))["columns"][0]
    assert (column["type"], "levels" in column) == ("continuous", False)
    assert not {str(amount) for amount in amounts[9060:]} & set(re.findall(r"[\d.]+", json.dumps(column)))


def test_a_level_that_one_row_has_is_another() -> None:
    rows = ["Oslo"] * 300 + ["Bergen"] * 100 + ["canary"] * 3
    document = draft_schema(FrameSource(pd.DataFrame({"city": rows})))
    assert "canary" not in json.dumps(document)
    (entry,) = document["columns"]
    assert (entry["levels"], entry["other"]) == (["Bergen", "Oslo"], "other")
    taken = ["Oslo"] * 300 + ["other"] * 100 + ["canary"]
    (entry,) = draft_schema(FrameSource(pd.DataFrame({"city": taken})))["columns"]
    assert entry["other"] not in entry["levels"]


def test_a_table_fits_the_draft_that_leaves_rare_levels_out() -> None:
    rows = pd.DataFrame({"city": ["Oslo"] * 300 + ["canary"] * 3, "late": [0] * 300 + [1] * 3})
    with pytest.warns(sd.errors.DraftWarning):
        schema = sd.draft(rows).accept_all().finish()
    assert isinstance(schema["late"], sd.Integer)
    release = sd.SyntheticRelease(schema=schema, epsilon=3.0).fit(rows)
    assert set(release.sample(400)["city"]) <= {"Oslo", "other"}


def test_a_look_shows_no_value_that_few_rows_have() -> None:
    rows = ["a"] * 5000 + ["b"] * 40 + ["canary"] * 3
    found = look(FrameSource(pd.DataFrame({"x": rows})), "x")
    assert [level for level, _ in found.levels] == ["a", "b"]


def test_what_was_seen_names_no_end(tmp_path: Path) -> None:
    """The least and the largest value belong to somebody."""
    frame = pd.DataFrame(
        {
            "n": [17.25, *np.arange(20, 80), 93.75],
            "t": [dt.datetime(2020, 1, 1, 7, 11, 13), *[dt.datetime(2021, 5, 1)] * 61],  # noqa: DTZ001
        }
    )
    for one in draft_schema(FrameSource(frame))["columns"]:
        assert not {"17.25", "93.75", "07:11:13"} & set(re.findall(r"[\d.:]+", one["seen"]))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


class Watched:
    """The modes of all files of a folder, whenever one is opened, written to or moved."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, set[int]()

    def __call__(self, event: str, _: Any) -> None:
        if event in ("open", "os.rename", "os.chmod", "os.remove"):
            with contextlib.suppress(OSError):
                self.seen |= {mode(path) for path in self.folder.iterdir()}


@pytest.fixture(scope="module")
def hooked() -> list[Watched]:
    """Whom every event of the interpreter is told to; a hook stays for ever, so there is one."""
    told: list[Watched] = []

    def hook(event: str, about: Any) -> None:
        for one in told:
            one(event, about)

    sys.addaudithook(hook)
    return told


@pytest.fixture
def watched(tmp_path: Path, hooked: list[Watched]) -> Iterator[Watched]:
    """Every event that touches a file looks at the modes in a folder."""
    folder = tmp_path / "private"
    folder.mkdir()
    found, old = Watched(folder), os.umask(0)
    hooked.append(found)
    yield found
    hooked.clear()
    os.umask(old)


def private_files() -> dict[str, Callable[[Path, Path], object]]:
    def review(table: Path, out: Path) -> None:
        run("schema", "draft", str(table), "--out", str(out))
        run("schema", "review", str(out), "--accept-all")

    def over_an_old_file(table: Path, out: Path) -> None:
        sd.draft(table).write(out)
        Draft.read(out).write(out)

    return {
        "draft": lambda table, out: sd.draft(table).write(out),
        "draft on the command line": lambda table, out: run("schema", "draft", str(table), "--out", str(out)),
        "review": review,
        "draft written again": over_an_old_file,
        "comparison": lambda table, out: sd.nonprivate_evaluate(
            sd.CsvSource(table), sd.CsvSource(table), sd.Schema({"x": sd.Integer(0, 9)})
        ).write(out),
        "comparison on the command line": lambda table, out: run(
            "nonprivate-evaluate", str(table), str(table), "--schema", str(table.with_name("s.json")), "--out", str(out)
        ),
        "risk": lambda table, out: sd.nonprivate_risk(
            *[pd.read_csv(table)] * 3, keys=["x"], schema=sd.Schema({"x": sd.Integer(0, 9)})
        ).write(out),
        "answers of the page": lambda _, out: change(out.parent),
    }


def run(*arguments: str) -> None:
    done = CliRunner(catch_exceptions=False).invoke(main, [*arguments])
    assert done.exit_code == 0, done.stderr


def change(folder: Path) -> None:
    with Project.opened(folder).changing() as project:
        project.choose("t.csv")


@pytest.mark.filterwarnings("ignore::synthdp.errors.DraftWarning")
@pytest.mark.parametrize("name", private_files())
def test_a_file_with_private_facts_is_its_owners_from_the_first_byte(
    tmp_path: Path, watched: Watched, name: str
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x\n" + "1\n2\n3\n" * 30, encoding="utf-8")
    sd.Schema({"x": sd.Integer(0, 9)}).write(tmp_path / "s.json")
    private_files()[name](table, watched.folder / "out.html")
    assert watched.seen == {0o600}
    assert {mode(path) for path in watched.folder.iterdir()} == {0o600}
