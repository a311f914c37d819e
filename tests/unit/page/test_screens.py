"""The path from a file to a folder to publish, screen by screen, and all that may go wrong on it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from no_noise import with_repeatable_noise
from page_client import Visitor

import synthdp as sd
from synthdp.cli.main import main
from synthdp.page import work
from synthdp.page.jobs import Job
from synthdp.page.project import FILE, Project
from synthdp.page.work import NO_SPACE, UNEXPECTED

CANARY = "CANARY-7f3a"
EVIL = '=cmd|"<script>alert(1)</script>'
DICTIONARY = f'''name,type,min,max,levels,source
age,integer,0,120,,a law
ward,categorical,,,children|adults,the hospital
"{EVIL.replace('"', '""')}",categorical,,,yes|no,the form
'''
ROWS = 600


def write_table(folder: Path) -> None:
    """Write a table with a rare value that names somebody, free text, and a column name that is an attack."""
    rng = np.random.default_rng(0)
    ward = np.where(rng.random(ROWS) < 0.4, "children", "adults")
    ward[0] = CANARY
    age = np.where(ward == "children", rng.integers(0, 18, ROWS), rng.integers(18, 90, ROWS))
    lines = ["age,ward,note," + '"' + EVIL.replace('"', '""') + '"']
    words = [f"{CANARY} came in on day {i} with a cough and a cold" for i in range(ROWS)]
    lines += [f"{a},{w},{t},{'yes' if a % 3 else 'no'}" for a, w, t in zip(age, ward, words, strict=True)]
    folder.mkdir(exist_ok=True)
    (folder / "wards.csv").write_text("\n".join(lines) + "\n")
    (folder / "codebook.csv").write_text(DICTIONARY)


def number_of(visitor: Visitor, name: str) -> str:
    return str(visitor.project.files.index(name))


def prepared(folder: Path) -> Visitor:
    """Walk to the plan."""
    write_table(folder)
    visitor = Visitor(folder)
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "wards.csv"))
    visitor.get("table")
    visitor.post("people", protects="row")
    visitor.post("document", file=number_of(visitor, "codebook.csv"))
    return visitor


def planned(visitor: Visitor) -> Any:
    visitor.post("promise", rows="600", epsilon="", delta="1e-9", neighbors="add_remove")
    return visitor.post("promise/choose", choice="1")


def key_on(answer: Any) -> str:
    return re.search(r'name="key" value="(\w+)"', answer.text)[1]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything was answered and planned."""
    folder = tmp_path_factory.mktemp("template") / "f"
    planned(prepared(folder))
    return folder


@pytest.fixture
def ready(template: Path, tmp_path: Path) -> Visitor:
    """A page that opens such a folder anew."""
    return Visitor(Path(shutil.copytree(template, tmp_path / "f")))


def load_arrays(place: str) -> dict[str, bytes]:
    with np.load(Path(place, "release", "arrays.npz")) as arrays:
        return {name: arrays[name].tobytes() for name in arrays}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Visitor:
    """The whole path, once, with noise that can be drawn again."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        with_repeatable_noise(monkeypatch)
        visitor = prepared(tmp_path_factory.mktemp("page") / "hospital")
        visitor.get("columns/1")
        visitor.post("columns/1/look")
        visitor.post("rules", first="1", first_values="children", kind="implies", second="0", second_values="0 to 17")
        summary = planned(visitor)
        visitor.key = key_on(summary)
        visitor.post("release", key=visitor.key, note="the yearly table", cap="3")
    return visitor


def test_a_file_and_a_codebook_become_a_folder_to_publish(walked):
    (release,) = walked.project.state["releases"]
    folder = walked.folder / release["folder"]
    assert release["state"] == "done"
    assert {path.name for path in folder.iterdir()} == {
        "synthetic.csv",
        "report.html",
        "receipt.json",
        "card.html",
        "for-the-board",
        "release",
    }
    lines = (folder / "synthetic.csv").read_text().splitlines()
    assert len(lines) == release["rows"] + 1 > ROWS / 2
    for line in lines[1:]:
        age, ward, _ = line.split(",")
        assert ward != "children" or float(age) <= 17


def test_after_a_release_there_is_a_verdict_on_every_column_and_a_list_of_relations(walked):
    release = walked.project.state["releases"][0]
    assert [name for name, _, _ in release["verdicts"]] == ["age", "ward", EVIL]
    assert {word for _, word, _ in release["verdicts"]} <= {"good", "fair", "poor"}
    assert [set(one[:2]) for one in release["relations"]][:1] == [{"age", "ward"}]  # which a rule and the rows make
    screen = walked.get("release").text
    assert screen.index("What may be relied on") > screen.index("Done.")
    assert "age and ward: " in screen


def test_the_code_that_is_shown_runs(walked, monkeypatch):
    code = re.search(r"<pre tabindex=\"0\">(import synthdp.*?)</pre>", walked.get("publish").text, re.DOTALL)[1]
    monkeypatch.chdir(walked.folder)
    exec(compile(code, "the page", "exec"), {})
    assert dict(sd.Schema.read("schema.json")) == dict(walked.project.schema())
    Path("schema.json").unlink()


def test_one_epsilon_is_recommended_with_reasons_and_a_picture(walked):
    screen = walked.get("promise").text
    assert re.search(r"Recommended: ε = [\d.]+", screen)
    assert screen.count("<circle") == 4
    assert "are expected to be off by" in screen
    assert "registry of live births" in screen


def test_what_is_published_is_what_the_command_line_makes_of_the_same_answers(walked, tmp_path, monkeypatch):
    with_repeatable_noise(monkeypatch)
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path)
    Path("schema.json").write_text(json.dumps(walked.project.document()))
    asked = walked.project.request() | {
        "job": "release",
        "path": "wards.csv",
        "folder": "page",
        "ledger": "ledger.sqlite",
        "dataset": "wards",
        "key": "k",
        "note": "n",
        "about": {"title": "A synthetic table and its privacy card"},  # as the report of the command line has it
        "epsilon": 1.0,
        "seed": 1,
    }
    assert work.run(asked, lambda _: None)["result"]
    Path("ledger.sqlite").unlink()
    with_repeatable_noise(monkeypatch)
    told = {
        "--schema": "schema.json",
        "--seed": "1",
        "--ledger": "ledger.sqlite",
        "--dataset": "wards",
        "--out": "cli/synthetic.csv",
        "--receipt": "cli/receipt.json",
        "--report": "cli/report.html",
        "--save": "cli/release",
    }
    options = [word for pair in told.items() for word in pair]
    made = CliRunner(catch_exceptions=False).invoke(main, ["release", "wards.csv", "--escape-formulas", *options])
    assert made.exit_code == 0, made.stderr
    for name in ("synthetic.csv", "report.html", "receipt.json", "release/release.json"):
        assert Path("page", name).read_bytes() == Path("cli", name).read_bytes(), name
    assert load_arrays("page") == load_arrays("cli")


def test_the_ledger_says_once_what_was_spent_for_what_and_under_which_plan(walked):
    (entry,) = sd.Ledger(walked.project.ledger).entries()
    assert (entry.what, entry.state, entry.key) == ("the yearly table", "committed", walked.key)
    assert entry.loss == sd.ApproxDP(1.0, 1e-9)


def test_the_same_button_a_second_time_spends_nothing(walked):
    answer = walked.post("release", key=walked.key)
    assert "released already" in walked.said(answer)
    assert len(sd.Ledger(walked.project.ledger).entries()) == len(walked.project.state["releases"]) == 1


def test_the_receipt_and_the_card_say_how_each_column_is_known(walked):
    folder = walked.folder / walked.project.state["releases"][0]["folder"]
    for name in ("receipt.json", "card.html", "report.html"):
        text = (folder / name).read_text()
        assert all(source in text for source in ("a law", "the hospital", "the form")), name


def test_a_value_of_one_person_is_in_no_answer_no_address_and_no_file_but_the_table(walked):
    for answer in walked.seen:
        assert CANARY not in answer.text
        assert not any(CANARY in value for _, value in answer.headers)
    files = [path for path in walked.folder.rglob("*") if path.is_file() and path.name != "wards.csv"]
    assert len(files) > 6
    for path in files:
        assert CANARY.encode() not in path.read_bytes(), path


def test_what_is_published_does_not_say_where_on_this_machine_it_was_made(walked):
    folder = walked.folder / walked.project.state["releases"][0]["folder"]
    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert str(walked.folder).encode() not in path.read_bytes(), path


def test_names_of_columns_and_files_are_in_no_title_address_and_cookie(walked):
    for path in (
        "table",
        "people",
        "columns",
        "columns/1",
        "rules",
        "promise",
        "release",
        "publish",
        "questions",
        "ledger",
    ):
        title = re.search("<title>(.*?)</title>", walked.get(path).text)[1]
        assert not {"wards", "age", "ward", "codebook"} & set(re.findall(r"\w+", title.lower()))
    for answer in walked.seen:
        told = answer.header("location") + answer.header("set-cookie")
        assert not re.search("wards|codebook|age=|children", told)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "table",
        "people",
        "columns",
        "columns/0",
        "columns/1",
        "columns/2",
        "columns/3",
        "rules",
        "promise",
        "release",
        "publish",
        "questions",
        "ledger",
        "static/page.css",
        "static/page.js",
        "publish/0/file/0",
    ],
)
def test_every_screen_is_there(walked, path):
    assert walked.get(path).status == 200


def test_the_server_makes_a_screen_in_a_tenth_of_a_second(walked):
    for path in (
        "table",
        "people",
        "columns",
        "columns/0",
        "rules",
        "promise",
        "release",
        "publish",
        "questions",
        "ledger",
    ):
        took = []
        for _ in range(3):
            before = time.process_time()
            walked.get(path)
            took.append(time.process_time() - before)
        assert min(took) < 0.1, (path, took)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "job", ["read", "document", "look", "propose", "plan", "release", "results", "describe", "answer", "compare"]
)
def test_every_screen_is_there_while_a_job_runs_after_it_failed_and_after_it_was_stopped(walked, job):
    kept = dict(walked.site.jobs._jobs)
    made = walked.site.jobs._jobs[job] = Job(job, walked.folder, about=getattr(kept.get(job), "about", None))
    for state in ("running", "failed", "stopped"):
        made.state = state
        for path in ("table", "columns", "columns/1", "rules", "promise", "release", "publish", "questions"):
            assert walked.get(path).status == 200, (state, path)
    walked.site.jobs._jobs = kept


def test_a_script_in_a_column_name_is_text_on_every_screen(walked):
    screens = [answer.body for answer in walked.seen if answer.header("content-type").startswith("text/html")]
    assert any(b"&lt;script&gt;alert" in body for body in screens)
    assert not [body for body in screens if b"<script>alert" in body]


def test_the_answers_are_kept_in_one_file_that_only_the_owner_may_read(walked):
    assert stat.S_IMODE((walked.folder / FILE).stat().st_mode) == 0o600
    assert not [path for path in walked.folder.iterdir() if path.name.startswith(".")]


def test_after_a_crash_the_page_opens_where_it_was_with_all_answers(walked):
    again = Visitor(walked.folder)
    assert again.project.state == walked.project.state
    assert "Done." in again.get("release").text or "This plan was released" in again.get("release").text


def test_the_zip_holds_what_is_published_and_nothing_else(walked):
    (walked.folder / walked.project.state["releases"][0]["folder"] / "private.txt").write_text("x")
    answer = walked.get("publish/0/zip")
    names = zipfile.ZipFile(io.BytesIO(answer.body)).namelist()
    assert names[:4] == ["synthetic.csv", "report.html", "receipt.json", "card.html"]
    board = {name.removeprefix("for-the-board/") for name in names[4:]}
    assert all(name.startswith("for-the-board/") for name in names[4:])
    assert {"README.md", "datapackage.json", "SHA256SUMS", "synthetic.csv"} <= board
    archive = zipfile.ZipFile(io.BytesIO(answer.body))
    assert archive.read("synthetic.csv") == archive.read("for-the-board/synthetic.csv")
    sums = dict(line.split("  ")[::-1] for line in archive.read("for-the-board/SHA256SUMS").decode().splitlines())
    assert board == {*sums, "SHA256SUMS"}
    (walked.folder / walked.project.state["releases"][0]["folder"] / "private.txt").unlink()


def test_what_the_publisher_says_fills_the_folder_and_the_rows_stay(walked):
    folder = walked.folder / walked.project.state["releases"][0]["folder"]
    rows = (folder / "synthetic.csv").read_bytes()
    said = {"publisher": "Office <b>", "region": "Here", "use": "Teaching", "contact": "who@example.org"}
    screen = walked.post("publish/0/about", title=" A\ttable ", **said)
    assert "It is written." in screen.text
    board = folder / "for-the-board"
    assert (folder / "report.html").read_bytes() == (board / "report.html").read_bytes()
    assert "Office &lt;b&gt;" in (board / "report.html").read_text()
    assert rows == (folder / "synthetic.csv").read_bytes() == (board / "synthetic.csv").read_bytes()
    readme, entry, label = (
        (board / name).read_text() for name in ("README.md", "registry-entry.yaml", "privacy-label.json")
    )
    assert readme.startswith("# A table\n")
    for text, words in (
        (readme, ["contact"]),
        (entry, ["publisher", "region", "use"]),
        (label, ["publisher", "contact"]),
    ):
        assert "To be stated by the publisher" not in text
        assert all(said[word] in text for word in words)
    assert walked.project.about() == {"title": "A table", **said}


def test_the_report_is_framed_without_a_script(walked):
    answer = walked.get("publish/0/report")
    policy = answer.header("content-security-policy")
    assert "sandbox" in policy
    assert "script" not in policy
    assert answer.status == 200


def test_a_formula_in_a_column_name_is_defused_in_what_is_published(walked):
    folder = walked.folder / walked.project.state["releases"][0]["folder"]
    header = (folder / "synthetic.csv").read_text().splitlines()[0]
    assert EVIL.replace('"', '""') in header
    assert header.split(",", 2)[2].startswith("\"'=")


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "kind",
    [
        {"kind": "mean", "first": "0"},
        {"kind": "quantile", "first": "0", "where": "ward == 'adults'"},
        {"kind": "marginal", "first": "1", "second": "0"},
        {"kind": "count", "where": "age >= 18"},
    ],
)
def test_a_question_is_answered_with_an_interval_and_costs_nothing(walked, kind):
    before = sd.Ledger(walked.project.ledger).entries()
    answer = walked.post("questions", **kind)
    assert "standard error" in answer.text
    assert sd.Ledger(walked.project.ledger).entries() == before


@pytest.mark.parametrize(
    "kind",
    [
        {"kind": "mean"},
        {"kind": "count"},
        {"kind": "strange", "first": "0"},
        {"kind": "marginal", "first": "1", "where": "age > 20"},
        {"kind": "mean", "first": "77"},
        {"kind": "mean", "first": "1"},
        {"kind": "count", "where": "age >="},
        {"kind": "count", "where": "CANARY > 1"},
    ],
)
def test_a_question_that_cannot_be_meant_gets_one_sentence(walked, kind):
    answer = walked.post("questions", **kind)
    assert walked.said(answer)
    assert UNEXPECTED not in answer.text


def test_the_private_drawer_is_closed_until_it_is_asked_for_and_shows_frequent_values_only(tmp_path):
    visitor = prepared(tmp_path / "f")
    assert "PRIVATE" not in visitor.get("columns/1").text
    drawer = visitor.post("columns/1/look", how="list", levels="one more", source="s")
    assert "PRIVATE: from the real rows" in drawer.text
    assert all(f'name="tick" value="{level}"' in drawer.text for level in ("children", "adults"))
    assert CANARY not in drawer.text
    assert "one more" in drawer.text
    assert "PRIVATE: from" not in visitor.post("columns/1/hide").text
    assert "PRIVATE: from" not in visitor.get("columns/2").text


def test_limits_start_empty_whatever_the_rows_hold(tmp_path):
    write_table(tmp_path)
    visitor = Visitor(tmp_path)
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "wards.csv"))
    card = visitor.get("columns/0").text
    assert re.findall(r'name="(?:lower|upper|source)"[^>]* value="([^"]*)"', card) == ["", "", ""]
    kept = json.loads((tmp_path / FILE).read_text())
    assert set(kept["tables"]["wards.csv"]["columns"][0]) == {"name", "guess", "why"}


def test_free_text_is_left_out_and_said_so(tmp_path):
    visitor = prepared(tmp_path / "f")
    assert "free text" in visitor.get("table").text
    assert "note" not in visitor.project.schema()


def test_a_changed_answer_makes_the_plan_stale_and_the_button_dead(ready):
    visitor = ready
    key = key_on(visitor.get("release"))
    visitor.post("columns/0", how="limits", type="integer", lower="0", upper="119", source="another law")
    assert 'name="key"' not in visitor.get("release").text
    assert "plan again" in visitor.get("promise").text
    assert "plan again" in visitor.said(visitor.post("release", key=key))
    assert not visitor.project.ledger.exists()


def test_planning_again_makes_the_button_dead_until_a_promise_is_taken(ready):
    visitor = ready
    key = key_on(visitor.get("release"))
    visitor.post("promise", rows="600", epsilon="", delta="1e-9", neighbors="add_remove")
    assert 'name="key"' not in visitor.get("release").text
    assert "plan again" in visitor.said(visitor.post("release", key=key))
    assert not visitor.project.ledger.exists()


def test_a_cap_that_is_reached_refuses_in_one_sentence_and_nothing_is_spent(ready):
    visitor = ready
    visitor.post("ledger", epsilon="0.5", delta="1e-6")
    key = key_on(visitor.get("release"))
    answer = visitor.post("release", key=key)
    assert "only ε = 0.5" in answer.text
    assert "nothing was spent under this plan" in answer.text
    assert sd.Ledger(visitor.project.ledger).entries() == []
    assert not list(visitor.folder.glob("*.published-*"))


@pytest.mark.slow
def test_a_large_epsilon_takes_a_second_click(tmp_path):
    visitor = prepared(tmp_path / "f")
    visitor.post("promise", rows="600", epsilon="7", delta="1e-9", neighbors="add_remove")
    assert "weak promise" in visitor.post("promise/choose", choice="7").text
    assert visitor.project.state["promise"]["epsilon"] is None
    assert "Spend ε = 7" in visitor.post("promise/choose", choice="7", sure="yes").text


def test_a_form_of_another_table_changes_nothing(tmp_path):
    visitor = prepared(tmp_path / "f")
    stale, before = visitor.project.number, json.dumps(visitor.project.state)
    (visitor.folder / "other.csv").write_text("age\n1\n2\n3\n")
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "other.csv"))
    answer = visitor.post("columns/0", how="out", number=stale)
    assert "another table" in visitor.said(answer) or visitor.project.state["answers"] == {}
    assert json.dumps(visitor.project.tables["wards.csv"]) == before


def test_a_full_disk_is_said_and_the_earlier_answers_stay(tmp_path, monkeypatch):
    visitor = prepared(tmp_path / "f")
    before, kept = json.dumps(visitor.project.state["answers"]), (visitor.folder / FILE).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        answer = visitor.post("columns/0", how="limits", type="integer", lower="1", upper="2", source="typed in vain")
    assert NO_SPACE in visitor.said(answer)
    assert "typed in vain" in answer.text
    assert (visitor.folder / FILE).read_bytes() == kept
    assert json.dumps(visitor.project.state["answers"]) == before
    assert not [path for path in visitor.folder.iterdir() if path.name.startswith(".")]


def test_a_disk_that_is_full_after_the_spend_leaves_a_release_that_is_finished_without_another(ready, monkeypatch):
    visitor = ready
    key = key_on(visitor.get("release"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("synthdp.dossier.write_report", full)
        answer = visitor.post("release", key=key, cap="1")
    assert "No space left" in answer.text
    assert "spent (entry 1)" in answer.text
    assert "Write them now" in visitor.get("publish").text
    assert "Download everything" in visitor.post("publish/0/finish").text
    assert len(sd.Ledger(visitor.project.ledger).entries()) == 1


OUTSIDE = ["../secret.csv", "/etc/passwd", "-1", "999", "0x0", "", "1 ", "secret.csv", "%2e%2e"]


@pytest.mark.sampled
@pytest.mark.parametrize("number", OUTSIDE)
def test_no_file_outside_the_folder_can_be_named(tmp_path, number):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    visitor = prepared(tmp_path / "f")
    os.symlink(tmp_path / "secret.csv", visitor.folder / "linked.csv")
    assert "linked.csv" not in visitor.get("table").text
    assert "not in the folder any more" in visitor.said(visitor.post("document", file=number))
    assert "secret" not in json.dumps(visitor.project.files)


@pytest.mark.parametrize(
    "path",
    [
        "publish/0/file/9",
        "publish/0/file/-1",
        "publish/9/zip",
        "publish/x/report",
        "columns/99",
        "columns/x",
        "publish/0/file/..",
    ],
)
def test_an_address_that_is_not_there_is_a_sentence(walked, path):
    answer = walked.get(path)
    assert answer.status == 409
    assert walked.said(answer)


def test_a_folder_of_a_release_that_points_elsewhere_is_refused(tmp_path):
    visitor = prepared(tmp_path / "f")
    (tmp_path / "elsewhere").mkdir()
    for name in ("synthetic.csv", "report.html", "receipt.json", "card.html"):
        (tmp_path / "elsewhere" / name).write_text("private")
    for place in ("../elsewhere", str(tmp_path / "elsewhere")):
        visitor.project.state["releases"] = [{"key": "k", "folder": place, "epsilon": 1, "state": "done", "rows": 1}]
        assert visitor.get("publish/0/file/0").status == 409
        assert b"private" not in visitor.get("publish/0/zip").body


def test_a_column_that_names_persons_is_not_offered_for_a_rule(tmp_path):
    visitor = prepared(tmp_path / "f")
    assert "age</option>" in visitor.get("rules").text
    visitor.post("people", protects="person", unit="0", rows="3")
    assert "age</option>" not in visitor.get("rules").text


@pytest.mark.slow
def test_a_comparison_with_the_real_rows_knows_what_was_discovered(ready):
    ready.post("columns/0", how="open", type="integer")
    key = key_on(planned(ready))
    ready.post("release", key=key, cap="1")
    answer = ready.post("publish/0/compare")
    assert "NON-PRIVATE" in answer.text
    assert "Not done" not in answer.text


def test_a_cap_can_be_set_again_for_another_unit_before_anything_is_spent(ready):
    ready.post("ledger", epsilon="2", delta="1e-6")
    ready.post("people", protects="person", unit="1", rows="3", same="0")
    assert ready.said(ready.post("ledger", epsilon="1", delta="1e-6")) == ""
    assert sd.Ledger(ready.project.ledger).adjacency("wards.csv").unit == "ward"


def test_a_number_stays_with_its_file_when_others_come_and_go(tmp_path):
    project = Project.opened(tmp_path)
    (tmp_path / "b.csv").write_text("x")
    (before,) = project.listed((".csv",))
    (tmp_path / "a.csv").write_text("x")
    assert {name: place for place, name, _ in project.listed((".csv",))}["b.csv"] == before[0]


def test_a_person_may_have_several_rows(tmp_path):
    visitor = prepared(tmp_path / "f")
    visitor.post("people", protects="person", unit="0", rows="3")
    assert visitor.project.request()["privacy_unit"] == "age"
    assert visitor.project.request()["max_rows_per_unit"] == 3
    assert visitor.project.schema()["age"].names_rows
    assert visitor.said(visitor.post("people", protects="person", unit="0", rows="many"))
    assert visitor.said(visitor.post("people", protects="person", unit="77", rows="1"))


def begun(folder: Path) -> Visitor:
    """Choose the table, and answer nothing."""
    write_table(folder)
    visitor = Visitor(folder)
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "wards.csv"))
    return visitor


def test_who_is_protected_is_asked_before_any_column_and_has_no_answer_by_itself(tmp_path):
    visitor = begun(tmp_path / "f")
    screen = visitor.get("")
    assert "<h1>Who is protected?</h1>" in screen.text
    assert "checked" not in screen.text
    assert "No answer is set in advance" in visitor.said(visitor.post("people"))
    visitor.post("document", file=number_of(visitor, "codebook.csv"))
    assert not visitor.project.open_columns
    assert "who is protected" in visitor.said(visitor.post("promise", rows="600", epsilon=""))
    assert visitor.project.plan is None
    assert "<h1>What is known" in visitor.post("people", protects="row").text


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "typed", [{"unit": "", "rows": "3"}, {"unit": "0"}, {"unit": "0", "rows": "0"}, {"unit": "0", "rows": "x"}]
)
def test_a_person_needs_a_column_and_a_number_of_rows_which_no_row_decides(tmp_path, typed):
    visitor = begun(tmp_path / "f")
    answer = visitor.post("people", protects="person", **typed)
    assert visitor.said(answer)
    assert visitor.project.people is None
    assert 'name="rows" inputmode="numeric" value="' + typed.get("rows", "") + '"' in answer.text


@pytest.mark.parametrize("way_out", [{"how": "row"}, {"how": "out"}, None])
def test_a_column_that_names_a_person_and_is_not_the_unit_stops_the_way(tmp_path, way_out):
    visitor = prepared(tmp_path / "f")
    visitor.post("columns/0", how="name")
    assert "names a person, and another unit is protected" in visitor.get("columns").text
    assert "ten times less" in visitor.said(visitor.post("promise", rows="600", epsilon=""))
    if way_out is None:
        visitor.post("people", protects="person", unit="0", rows="2")
    else:
        visitor.post("columns/0", **way_out)
    assert visitor.project.unprotected() is None
    visitor.project.request()


def test_a_copy_of_a_table_under_another_name_has_no_budget_of_its_own_unless_its_people_are_others(walked, tmp_path):
    folder = Path(shutil.copytree(walked.folder, tmp_path / "f"))
    shutil.copy(folder / "wards.csv", folder / "copy.csv")
    visitor = Visitor(folder)
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "copy.csv"))
    screen = visitor.get("people").text
    assert "proposed, because the columns are alike" in screen
    assert re.search(r'name="same" value="0" checked', screen)
    visitor.post("people", protects="row", same="0")
    visitor.post("document", file=number_of(visitor, "codebook.csv"))
    planned(visitor)
    assert "ε = 2" in visitor.get("release").text  # what the first release left of the cap of 3
    visitor.post("ledger", epsilon="1.5", delta="1e-6")
    answer = visitor.post("release", key=key_on(visitor.get("release")))
    assert "only ε = 0.5" in answer.text
    assert [entry.dataset for entry in sd.Ledger(visitor.project.ledger).entries()] == ["wards.csv"]
    visitor.post("people", protects="row", same="new")
    assert visitor.project.people == "copy.csv"


def test_a_new_table_with_a_name_that_the_ledger_knows_is_asked_about_too(tmp_path):
    visitor = begun(tmp_path / "f")
    sd.Ledger(visitor.project.ledger).set_cap("wards.csv", sd.ApproxDP(1.0, 1e-6))
    assert "the people of an earlier table" in visitor.said(visitor.post("people", protects="row"))
    visitor.post("people", protects="row", same="new")
    assert visitor.project.people == "wards.csv (2)"


def test_the_people_of_an_earlier_spend_are_protected_as_they_were_then_and_stay_whose_they_are(walked, tmp_path):
    visitor = Visitor(Path(shutil.copytree(walked.folder, tmp_path / "f")))
    answer = visitor.post("people", protects="person", unit="0", rows="2")
    assert "protect each row" in visitor.said(answer)
    assert "cannot change" in visitor.said(visitor.post("people", protects="row", same="new"))
    assert visitor.project.people == "wards.csv"


def test_nothing_is_spent_before_there_is_a_cap_that_covers_it(ready):
    key = key_on(ready.get("release"))
    for cap, why in (("", "the largest ε"), ("0.5", "must cover this release"), ("many", "plain digits")):
        assert why in ready.said(ready.post("release", key=key, cap=cap))
    assert not ready.project.ledger.exists() or sd.Ledger(ready.project.ledger).entries() == []
    assert ready.project.state["releases"] == []


def test_all_columns_can_be_answered_in_one_sheet_with_one_source(tmp_path):
    visitor = begun(tmp_path / "f")
    visitor.post("people", protects="row")
    names = [one["name"] for one in visitor.project.columns]
    texts = {
        "age": ("0 to 120", "integer"),
        "ward": ("children | adults", "categorical"),
        EVIL: ("yes | no", "categorical"),
    }
    lines = {
        key: value
        for i, name in enumerate(names)
        if name in texts
        for key, value in ((f"what-{i}", texts[name][0]), (f"type-{i}", texts[name][1]))
    }
    refused = visitor.post("sheet", **lines)
    assert "age: Say from where you know" in visitor.said(refused)
    assert 'value="0 to 120"' in refused.text  # what was typed is still there
    assert visitor.project.state["answers"] == {}
    assert "3 columns saved" in visitor.post("sheet", source="the codebook", **lines).text
    assert not visitor.project.open_columns
    assert {column.source for column in visitor.project.schema().values()} == {"the codebook"}
    before = json.dumps(visitor.project.state)
    assert "0 columns saved" in visitor.post("sheet", source="another", **lines).text
    assert json.dumps(visitor.project.state) == before
    visitor.post("sheet", **{**lines, "what-0": "0 to 99"})  # a changed answer keeps its source
    assert visitor.project.schema()["age"] == sd.Integer(0, 99, nullable=True, source="the codebook")
    assert "ward: Write limits" in visitor.said(visitor.post("sheet", **{**lines, "what-1": "anything"}))


def test_the_answers_of_last_year_answer_the_columns_that_both_tables_have(tmp_path):
    visitor = prepared(tmp_path / "f")
    visitor.post("rules", first="1", first_values="children", kind="implies", second="0", second_values="0 to 17")
    visitor.post("missing", codes="-999")
    text = (visitor.folder / "wards.csv").read_text().splitlines()
    (visitor.folder / "next.csv").write_text("\n".join([text[0] + ",new", *(line + ",1" for line in text[1:])]))
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "next.csv"))
    visitor.post("people", protects="row", same="0")
    assert visitor.project.people == "wards.csv"
    assert "Use the answers about wards.csv" in visitor.get("columns").text
    assert "3 columns were answered as before" in visitor.post("recall", table="0").text
    before = visitor.project.tables["wards.csv"]
    assert visitor.project.state["answers"] == before["answers"]
    assert visitor.project.state["rules"] == before["rules"]
    assert visitor.project.state["missing"] == ["-999"]
    assert [visitor.project.columns[i]["name"] for i in visitor.project.open_columns] == ["new"]
    assert "table that is not there" in visitor.said(visitor.post("recall", table="9"))


def test_a_code_that_means_missing_is_no_value(tmp_path):
    folder = tmp_path / "f"
    write_table(folder)
    text = (folder / "wards.csv").read_text().splitlines()
    rest = [line.replace(line.split(",")[0], "-999", 1) if i % 3 == 0 else line for i, line in enumerate(text[1:])]
    (folder / "wards.csv").write_text("\n".join([text[0], *rest]) + "\n")
    visitor = Visitor(folder)
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "wards.csv"))
    visitor.post("people", protects="row")
    visitor.post("missing", codes="-999 | <0.6")
    visitor.post("document", file=number_of(visitor, "codebook.csv"))
    assert {"-999", "<0.6"} <= set(visitor.project.schema().csv.missing)
    asked = {"path": "wards.csv", "csv": visitor.project.document()["csv"], "name": "age", "job": "look"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert work.run(asked, lambda _: None)["result"]["missing"] == pytest.approx(1 / 3, abs=0.01)


def test_answers_of_an_older_page_are_read_and_who_is_protected_is_asked_again(tmp_path):
    visitor = prepared(tmp_path / "f")
    saved = json.loads((visitor.folder / FILE).read_text())
    for name in ("people", "missing"):
        del saved["tables"]["wards.csv"][name]
    (visitor.folder / FILE).write_text(json.dumps(saved))
    assert "<h1>Who is protected?</h1>" in Visitor(visitor.folder).get("").text


@pytest.mark.parametrize("content", ["", "a,b\n", "no header at all"])
def test_a_file_that_is_no_table_gets_one_sentence(tmp_path, content):
    (tmp_path / "t.csv").write_text(content)
    visitor = Visitor(tmp_path)
    visitor.get("table")
    answer = visitor.post("table", file="0")
    assert visitor.said(answer)
    assert visitor.project.state["columns"] is None


def test_a_table_taken_for_a_codebook_is_refused_and_shows_none_of_its_rows(tmp_path):
    visitor = prepared(tmp_path / "f")
    (visitor.folder / "more.csv").write_text((visitor.folder / "wards.csv").read_text())
    visitor.get("table")
    answer = visitor.post("document", file=number_of(visitor, "more.csv"))
    assert "must hold name and type" in visitor.get("columns").text
    assert CANARY not in answer.text


def test_a_file_of_answers_that_was_damaged_is_not_written_over(tmp_path):
    (tmp_path / FILE).write_text("{")
    with pytest.raises(sd.errors.FormatError, match=r"synthdp-page\.json"):
        Project.opened(tmp_path)
    assert (tmp_path / FILE).read_text() == "{"


@pytest.fixture
def excel(tmp_path: Path) -> Visitor:
    """A page whose folder has an Excel file of two sheets, which are two tables; the first is chosen."""
    with pd.ExcelWriter(tmp_path / "years.xlsx") as book:
        pd.DataFrame({"age": range(40)}).to_excel(book, sheet_name="2023", index=False)
        pd.DataFrame({"age": range(40), "ward": ["a", "b"] * 20}).to_excel(book, sheet_name="2024", index=False)
    visitor = Visitor(tmp_path)
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "years.xlsx"))
    return visitor


def names_of(visitor: Visitor) -> list[str]:
    return [one["name"] for one in visitor.project.columns]


def test_a_sheet_of_an_excel_file_is_a_table(excel):
    assert names_of(excel) == ["age"]
    assert "Which sheet?" in excel.get("table").text
    excel.post("people", protects="row")
    excel.post("columns/0", how="open", type="integer")
    assert excel.project.state["answers"]
    excel.post("table", sheet="0")  # which is the table already: nothing is dropped
    assert excel.project.state["answers"]
    excel.post("table", sheet="1")
    assert names_of(excel) == ["age", "ward"]
    assert excel.project.state["answers"] == {}
    assert excel.project.people is None
    assert excel.project.rows()["sheet"] == "2024"
    excel.post("columns/1/look")
    assert [level for level, _ in excel.site.jobs["look"].result["levels"]] == ["a", "b"]


@pytest.mark.parametrize("sheet", ["2", "-1", "2024", ""])
def test_a_sheet_that_is_not_there_is_refused(excel, sheet):
    answer = excel.post("table", sheet=sheet)
    assert "sheet is not in the file" in excel.said(answer)
    assert names_of(excel) == ["age"]


def test_after_a_release_another_sheet_has_the_same_people(excel):
    excel.post("people", protects="row")
    with excel.project.changing() as project:
        project.state["releases"].append({"key": "k", "folder": "f", "epsilon": 1.0, "state": "done", "rows": 1})
        project.take_sheet("1")
    assert excel.project.people == "years.xlsx"
    assert len(excel.project.state["releases"]) == 1


def test_rows_of_another_length_than_the_header_are_said_and_not_kept(tmp_path):
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1\n1,2,3\n" + "3,4\n" * 50)
    visitor = Visitor(tmp_path)
    visitor.get("table")
    screen = visitor.post("table", file=number_of(visitor, "ragged.csv")).text
    assert "2 rows have more or fewer fields than the header" in screen
    assert "uneven" not in (tmp_path / FILE).read_text()


def test_a_rule_that_nearly_all_rows_keep_is_shown_and_declared_by_a_person_alone(tmp_path):
    rng = np.random.default_rng(1)
    came = rng.integers(0, 50, 400)
    went = came + rng.integers(0, 30, 400)
    went[0] = came[0] - 1 if came[0] else came[0]
    other = rng.integers(0, 99, 400)
    lines = ["came,went,other", *(f"{a},{b},{c}" for a, b, c in zip(came, went, other, strict=True))]
    (tmp_path / "stays.csv").write_text("\n".join(lines) + "\n")
    visitor = Visitor(tmp_path)
    visitor.get("table")
    visitor.post("table", file=number_of(visitor, "stays.csv"))
    visitor.post("people", protects="row")
    for place in range(3):
        visitor.post(f"columns/{place}", how="limits", type="integer", lower="0", upper="100", source="a form")
    assert "came is never above went" not in visitor.get("rules").text
    shown = visitor.post("rules/propose").text
    assert shown.index("PRIVATE") < shown.index("came is never above went")
    assert "other is never above" not in shown
    assert visitor.project.state["rules"] == []
    assert "came is never above went" not in (tmp_path / FILE).read_text()
    visitor.post("rules/0/take")
    (rule,) = visitor.project.schema().constraints
    assert rule == sd.LessEqual("came", "went")
    assert "declared" in visitor.get("rules").text
    visitor.post("rules/forget")
    assert "PRIVATE" not in visitor.get("rules").text
