"""The stewards' page in a real Chromium that can resolve no name: the whole path, and all that may go wrong on it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_walk import ROOT, Hand, browser, needs_browser, served

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.page.guard import forward

pytestmark = [needs_browser, pytest.mark.slow]

CANARY = "CANARY-7f3a"
SCREENS = (
    "table",
    "people",
    "columns",
    "columns/0",
    "columns/1",
    "rules",
    "promise",
    "release",
    "publish",
    "questions",
    "ledger",
)
DICTIONARY = (
    "name,type,min,max,levels,source\nage,integer,0,120,,a law\nward,categorical,,,children|adults,the hospital\n"
)


def write_wards(folder: Path, rows: int = 600) -> Path:
    rng = np.random.default_rng(0)
    ward = np.where(rng.random(rows) < 0.4, "children", "adults")
    ward[0] = CANARY
    age = np.where(ward == "children", rng.integers(0, 18, rows), rng.integers(18, 90, rows))
    folder.mkdir()
    lines = [f"{a},{w}" for a, w in zip(age, ward, strict=True)]
    (folder / "wards.csv").write_text("\n".join(["age,ward", *lines]) + "\n")
    (folder / "codebook.csv").write_text(DICTIONARY)
    return folder


def write_adult(folder: Path, *, dictionary: bool) -> Path:
    folder.mkdir()
    adult().to_csv(folder / "adult.csv", index=False)
    lines = ["name,type,min,max,levels,nullable,source"]
    for column in json.loads(adult_schema().to_json())["columns"]:
        levels = json.dumps(column["levels"]).replace('"', '""') if "levels" in column else ""
        ends = f"{column.get('lower', '')},{column.get('upper', '')}"
        missing = "yes" if column.get("nullable") else "no"
        lines.append(f'{column["name"]},{column["type"]},{ends},"{levels}",{missing},the census codebook')
    if dictionary:
        (folder / "codebook.csv").write_text("\n".join(lines) + "\n")
    return folder


@contextlib.contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[tuple[Hand, Any]]:
    with served(folder) as (link, child), browser(**settings) as context:
        hand = Hand(context.new_page())
        hand.open(link)
        yield hand, child


def to_the_plan(hand: Hand) -> None:
    """Walk from the folder to the summary of what would be released, with a codebook."""
    hand.press("wards.csv")
    hand.wait("The table was read")
    hand.follow("Go on: who is protected?")
    hand.take("All that the table says of one person")
    hand.press("Save and go on")
    hand.press("Use codebook.csv")
    hand.wait("Go on to the promise")
    hand.follow("Go on to the promise")
    hand.type("About how many rows", "600")
    hand.press("Plan", exact=True)
    hand.wait("Recommended: ε")
    hand.promise()
    hand.wait("Spend ε = 1 and release")


def spends(folder: Path) -> list[tuple[str, str]]:
    return [(str(entry.loss), entry.state) for entry in sd.Ledger(folder / "ledger.sqlite").entries()]


def outside(hand: Hand) -> set[str]:
    """Return whom the browser asked beyond this machine."""
    return {url for url in hand.asked if not re.match(r"http://127\.0\.0\.1:\d+/|data:", url)}


def test_from_a_table_of_15_columns_to_a_folder_by_hand_in_at_most_80_interactions(tmp_path):
    folder = write_adult(tmp_path / "census", dictionary=False)
    with opened(folder) as (hand, _):
        hand.press("adult.csv")
        hand.wait("The table was read")
        hand.follow("Go on: who is protected?")
        hand.take("All that the table says of one person")
        hand.press("Save and go on")
        hand.follow("Answer the next column by itself")
        for column in json.loads(adult_schema().to_json())["columns"]:
            hand.answer(column)
        hand.type("About how many rows", "30000")
        hand.press("Plan", exact=True)
        hand.wait("Recommended: ε")
        hand.promise()
        hand.release()
        hand.wait("See what can be published")
        assert hand.done <= 80, hand.done
        assert not outside(hand)
    made = sd.load(folder / "adult.published-1" / "release")
    assert list(made.output.schema) == list(adult_schema())
    assert spends(folder) == [("ε = 1, δ = 1e-09", "committed")]


def test_with_a_data_dictionary_15_interactions_are_enough(tmp_path):
    folder = write_adult(tmp_path / "census", dictionary=True)
    with opened(folder) as (hand, _):
        hand.press("adult.csv")
        hand.wait("The table was read")
        hand.follow("Go on: who is protected?")
        hand.take("All that the table says of one person")
        hand.press("Save and go on")
        hand.press("Use codebook.csv")
        hand.wait("15 columns were answered")
        hand.follow("Go on to the promise")
        hand.type("About how many rows", "30000")
        hand.press("Plan", exact=True)
        hand.wait("Recommended: ε")
        hand.promise()
        hand.release()
        slowest = max(_seconds(hand, screen) for screen in SCREENS)
        hand.see("release")
        hand.wait("See what can be published")
        with hand.page.expect_download() as download:
            hand.follow("See what can be published")
            hand.follow("Download everything")
        assert download.value.suggested_filename == "synthetic.zip"
        assert hand.done <= 15, hand.done
        assert slowest < 0.3, slowest
    declared = sd.load(folder / "adult.published-1" / "release").output.schema
    assert {name: declared[name] for name in adult_schema()} == dict(adult_schema())


def write_survey(folder: Path, name: str) -> None:
    """Write a table of 32 columns, of numbers, of categories and of times."""
    rng, rows = np.random.default_rng(3), 400
    lines = [",".join(f"q{j}" for j in range(32))]
    numbers = rng.integers(0, 90, (rows, 32))
    lines += [",".join(str(n) if j % 2 else ("yes", "no", "both")[n % 3] for j, n in enumerate(row)) for row in numbers]
    (folder / name).write_text("\n".join(lines) + "\n")


def test_32_columns_take_at_most_60_interactions_by_hand_and_12_with_the_answers_of_last_year(tmp_path):
    folder = tmp_path / "survey"
    folder.mkdir()
    write_survey(folder, "last.csv")
    with opened(folder) as (hand, _):
        hand.press("last.csv")
        hand.wait("The table was read")
        hand.follow("Go on: who is protected?")
        hand.take("All that the table says of one person")
        hand.press("Save and go on")
        for j in range(32):
            hand.type(f"What q{j} may hold", "0 to 120" if j % 2 else "yes | no | both")
        hand.type("How do you know what you fill in here", "the questionnaire")
        hand.press("Save the columns")
        hand.wait("32 columns saved")
        assert not outside(hand)
        for form in FORMS:
            looked_at(hand, "columns", *form)
        hand.follow("Go on to the promise")
        to_the_folder(hand)
        assert hand.done <= 60, hand.done
        write_survey(folder, "this.csv")
        hand.see("table")
        before = hand.done
        hand.press("this.csv")
        hand.wait("The table was read: 32")
        hand.follow("Go on: who is protected?")
        hand.take("All that the table says of one person")
        hand.press("Save and go on")
        hand.press("Use the answers about last.csv")
        hand.follow("Go on to the promise")
        to_the_folder(hand)
        assert hand.done - before <= 12, hand.done - before
    assert len(spends(folder)) == 2
    assert sd.Ledger(folder / "ledger.sqlite").datasets() == ["last.csv"]


def to_the_folder(hand: Hand) -> None:
    """Go from the promise to the folder that can be published."""
    hand.type("About how many rows", "400")
    hand.press("Plan", exact=True)
    hand.wait("Recommended: ε")
    hand.promise()
    hand.wait("Spend ε = 1 and release")
    hand.release()
    hand.wait("See what can be published")


def _seconds(hand: Hand, screen: str) -> float:
    """Return the least time of five in which the server answered, a release running or not."""
    return min(
        hand.page.evaluate(
            "async a => { const t = performance.now(); await (await fetch(a)).text(); return performance.now() - t }",
            f"{hand.base}/{screen}",
        )
        / 1000
        for _ in range(5)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wards(tmp_path_factory.mktemp("page") / "hospital")


@pytest.fixture(scope="module")
def walked(folder: Path) -> Iterator[tuple[Hand, Any]]:
    """A page on which a release was made, a private drawer and a comparison were opened, and a question was asked."""
    with opened(folder) as (hand, child):
        to_the_plan(hand)
        hand.release()
        hand.wait("See what can be published")
        hand.see("questions")
        hand.choose("Column", "age")
        hand.press("Ask")
        hand.wait("standard error")
        hand.see("publish")
        hand.press("Compare with the real rows")
        hand.wait("total variation distance")
        hand.see("columns/1")
        hand.press("Look at the private rows")
        hand.wait("Frequent values")
        yield hand, child


FORMS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)]


def looked_at(hand: Hand, screen: str, scheme: str, width: int, there: str = "main") -> None:
    """Look at a screen on which something is: axe finds nothing wrong, and nothing needs to be scrolled sideways."""
    from axe_core_python.sync_playwright import Axe

    source = Path(sys.modules[Axe.__module__].__file__).parent
    hand.page.emulate_media(color_scheme=scheme)
    hand.page.set_viewport_size({"width": width, "height": 900})
    hand.see(screen)
    hand.page.locator(there).first.wait_for()
    for more in hand.page.locator("summary").all():
        more.click()
    hand.page.evaluate(next(source.rglob("axe.min.js")).read_text())
    broken = hand.page.evaluate("axe.run(document, {iframes: false}).then(r => r.violations)")
    assert [(one["id"], [node["target"] for node in one["nodes"]]) for one in broken] == [], screen
    assert hand.page.evaluate("document.documentElement.scrollWidth") <= width, screen


@pytest.mark.parametrize(("scheme", "width"), FORMS)
def test_axe_finds_nothing_wrong_and_nothing_needs_to_be_scrolled_sideways(walked, scheme, width):
    hand, _ = walked
    for screen in SCREENS:
        looked_at(hand, screen, scheme, width)


def broken_off(hand: Hand, server: int, screen: str, button: str) -> None:
    """Start a job and look at its screen while its child is held, and after it was killed."""
    hand.press(button)
    _until(lambda: _children(server))
    (worker,) = _children(server)
    os.kill(worker, signal.SIGSTOP)
    for form in FORMS:
        looked_at(hand, screen, *form, "[data-job]")
    os.kill(worker, signal.SIGKILL)
    for form in FORMS:
        looked_at(hand, screen, *form, ".bad")


def test_axe_finds_nothing_wrong_while_a_job_runs_and_after_it_failed(walked, folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    shutil.copy(copy / "wards.csv", copy / "others.csv")
    with opened(copy) as (hand, server):
        hand.see("table")
        broken_off(hand, server.pid, "table", "others.csv")
        hand.press("wards.csv")
        hand.wait("The table was read")
        hand.see("columns")
        if not hand.page.get_by_role("button", name="Use codebook.csv").is_visible():
            hand.page.locator("summary").first.click()
        broken_off(hand, server.pid, "columns", "Use codebook.csv")
        hand.see("columns/1")
        broken_off(hand, server.pid, "columns/1", "Look at the private rows")
        hand.see("questions")
        hand.choose("Column", "age")
        broken_off(hand, server.pid, "questions", "Ask")
        hand.see("publish")
        broken_off(hand, server.pid, "publish", "Compare with the real rows")
        (copy / "wards.published-1" / "report.html").unlink()
        hand.see("publish")
        broken_off(hand, server.pid, "publish", "Write them now")
        hand.see("promise")
        broken_off(hand, server.pid, "promise", "Plan")
        hand.promise()
        broken_off(hand, server.pid, "release", "Spend ε = 1 and release")


def test_a_second_page_on_one_folder_is_refused_in_one_sentence_and_the_first_goes_on(tmp_path):
    folder = write_wards(tmp_path / "hospital")
    with opened(folder) as (hand, server):
        to_the_plan(hand)
        command = [sys.executable, "-m", "synthdp", "page", f"{folder}/../hospital", "--no-browser"]
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert (second.returncode, second.stdout, len(second.stderr.splitlines())) == (2, "", 1)
        assert "running already" in second.stderr
        hand.release()
        hand.wait("See what can be published")
        server.kill()
        server.wait()
    with opened(folder) as (hand, _):
        hand.see("publish")
        hand.wait("Download everything")
    assert len(spends(folder)) == 1


def test_each_screen_is_three_small_requests_so_that_it_is_painted_at_once(walked):
    """How long the paint takes depends on what else the machine does; docs/tutorial/steward.md says what was measured."""
    hand, _ = walked
    for screen in SCREENS:
        before = len(hand.asked)
        hand.see(screen)
        kinds = "performance.getEntriesByType"
        sizes = hand.page.evaluate(f"[...{kinds}('navigation'), ...{kinds}('resource')].map(one => one.transferSize)")
        framed = screen == "publish"  # the report is large, and comes by itself
        assert len([url for url in hand.asked[before:] if not url.startswith("data:")]) == 3 + framed, screen
        assert sum(sorted(sizes)[: 3 if framed else None]) < 30_000, screen


def test_the_browser_asked_nobody_else_and_keeps_nothing(walked, folder):
    hand, _ = walked
    hand.see("publish")
    assert not outside(hand)
    assert hand.page.evaluate("localStorage.length + sessionStorage.length") == 0
    crumbs = hand.page.context.cookies()
    assert [(one["httpOnly"], one["sameSite"], CANARY in one["value"]) for one in crumbs] == [(True, "Strict", False)]
    assert not any(CANARY in url or "ward" in url for url in hand.asked)
    log = (folder.parent / f"{folder.name}.log").read_text()
    assert log.startswith("The page is open at")
    assert len(log.splitlines()) == 2


def test_a_value_of_one_person_is_on_no_screen(walked, folder):
    hand, _ = walked
    for screen in SCREENS:
        hand.see(screen)
        assert CANARY not in hand.page.content()
        assert "ward" not in hand.page.title()
    for path in folder.rglob("*"):
        assert path.name == "wards.csv" or not path.is_file() or CANARY.encode() not in path.read_bytes(), path


def test_the_address_cannot_be_opened_in_another_browser(walked):
    hand, _ = walked
    hand.see("ledger")
    with contextlib.closing(hand.page.context.browser.new_context()) as stranger:
        told = stranger.new_page().goto(hand.page.url)
        assert told.status == 403


def test_a_file_that_leads_to_the_link_opens_the_page(tmp_path):
    """As the command starts a browser; the file is another site, from which no cookie would be sent after a redirect."""
    folder = write_wards(tmp_path / "hospital")
    with served(folder) as (link, _), browser() as context:
        (tmp_path / "open.html").write_text(forward(link))
        hand = Hand(context.new_page())
        hand.open((tmp_path / "open.html").as_uri())
        hand.see("table")
        assert "wards.csv" in hand.text


def test_a_form_on_another_site_cannot_post_here(walked, folder, tmp_path):
    hand, _ = walked
    before = (folder / "synthdp-page.json").read_bytes()
    (tmp_path / "evil.html").write_text(
        f'<form method="post" action="{hand.base}/rules/0/drop"><input name="form" value="x"><button>go</button></form>'
    )
    other = hand.page.context.new_page()
    other.goto((tmp_path / "evil.html").as_uri())
    with other.expect_response("**/drop") as told:
        other.get_by_role("button").click()
    assert told.value.status == 403
    other.close()
    assert (folder / "synthdp-page.json").read_bytes() == before


def test_a_double_click_two_tabs_and_the_back_button_spend_once(tmp_path):
    folder = write_wards(tmp_path / "hospital")
    with opened(folder) as (hand, _):
        to_the_plan(hand)
        hand.see("ledger")
        hand.type("The most ε", "3")
        hand.press("Set the cap")
        hand.see("release")
        second = Hand(hand.page.context.new_page())
        second.page.goto(hand.page.url)
        hand.page.get_by_role("button", name="Spend ε = 1 and release").dblclick(no_wait_after=True)
        second.page.get_by_role("button", name="Spend ε = 1 and release").click()
        second.wait("See what can be published")
        hand.page.goto(f"{hand.base}/release")
        hand.wait("See what can be published")
        second.page.go_back()
        second.page.go_back()
        for button in second.page.get_by_role("button", name="Spend").all():
            button.click()
        hand.see("ledger")
        assert "spent" in hand.text
    assert spends(folder) == [("ε = 1, δ = 1e-09", "committed")]
    assert len(list(folder.glob("*.published-*"))) == 1


def _until(true: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    assert true()


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            after = path.read_text().rpartition(")")[2].split()
            found += [int(path.parent.name)] * (int(after[1]) == pid and after[0] != "Z")
    return found


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _frozen_after_its_spend(folder: Path, server: int) -> int:
    """Return the child that releases, held where it has spent and not yet finished."""
    _until(lambda: spends(folder))
    (worker,) = _children(server)
    os.kill(worker, signal.SIGSTOP)
    return worker


def test_stop_ends_the_child_and_the_page_says_what_the_ledger_says(tmp_path):
    folder = write_wards(tmp_path / "hospital", rows=200_000)
    with opened(folder) as (hand, child):
        to_the_plan(hand)
        hand.release()
        _frozen_after_its_spend(folder, child.pid)
        hand.press("Stop")
        hand.wait("The ledger says")
        text = hand.text
        assert not _children(child.pid)
        assert "ε = 1, δ = 1e-09" in text
        assert "cannot be given back" in text
        assert not hand.page.get_by_role("button", name="Spend").all()
    assert len(spends(folder)) == 1


def test_a_child_that_is_killed_ends_in_a_sentence_and_the_ledger_is_right(tmp_path):
    folder = write_wards(tmp_path / "hospital", rows=200_000)
    with opened(folder) as (hand, child):
        to_the_plan(hand)
        hand.release()
        os.kill(_frozen_after_its_spend(folder, child.pid), signal.SIGKILL)
        hand.wait("Not finished.")
        assert "counts as spent" in hand.text or ", spent (entry 1)" in hand.text
    assert len(spends(folder)) == 1


def test_after_the_server_is_killed_its_child_ends_and_a_new_page_tells_the_truth(tmp_path):
    folder = write_wards(tmp_path / "hospital", rows=200_000)
    with opened(folder) as (hand, child):
        to_the_plan(hand)
        hand.release()
        worker = _frozen_after_its_spend(folder, child.pid)
        child.kill()
        child.wait()
        os.kill(worker, signal.SIGCONT)
        hand.wait("The page has ended")
        _until(lambda: not _runs(worker), 30)
    with opened(folder) as (hand, _):
        hand.see("release")
        assert "The ledger says: ε = 1, δ = 1e-09" in hand.text
        assert not hand.page.get_by_role("button", name="Spend").all()
    assert len(spends(folder)) == 1


def test_the_whole_path_can_be_walked_by_keyboard_alone(tmp_path):
    folder = write_wards(tmp_path / "hospital")
    with opened(folder) as (hand, _):
        page = hand.page

        def reach(name: str) -> None:
            focused = "document.activeElement.innerText || document.activeElement.labels?.[0]?.innerText || ''"
            tabs = (page.keyboard.press("Tab") or page.evaluate(focused) for _ in range(80))
            assert any(name in text for text in tabs), f"{name} cannot be reached: {hand.text}"

        def press(name: str, key: str = "Enter") -> None:
            reach(name)
            page.keyboard.press(key)

        press("wards.csv")
        hand.wait("The table was read")
        press("Go on: who is protected?")
        hand.wait("What is one row?")
        reach("All that the table says")
        page.keyboard.press("Space")
        page.keyboard.press("Enter")
        hand.wait("What is known about each column?")
        press("Answer the next column by itself")
        hand.wait("column 1 of 2")
        press("Limits are known", "Space")
        for field, text in (("Lowest", "0"), ("Highest", "120"), ("How do you know", "a law")):
            reach(field)
            page.keyboard.type(text)
        page.keyboard.press("Enter")
        hand.wait("column 2 of 2")
        reach("Limits are known")
        page.keyboard.press("ArrowDown")
        for field, text in (("The values", "children|adults"), ("How do you know", "the hospital")):
            reach(field)
            page.keyboard.type(text)
        press("Save and go on")
        hand.wait("Every column has an answer")
        reach("About how many rows")
        page.keyboard.type("600")
        page.keyboard.press("Enter")
        hand.wait("Recommended: ε")
        if "Recommended: ε = 1" not in hand.text:
            press("Every ε that was planned")
        press("Take ε = 1")
        hand.wait("Spend ε = 1 and release")
        reach("The most ε")
        page.keyboard.type("3")
        press("Spend ε = 1")
        hand.wait("See what can be published")
        press("See what can be published")
        hand.wait("Download everything")
    assert len(spends(folder)) == 1


def test_the_whole_path_can_be_walked_without_a_script(tmp_path):
    folder = write_wards(tmp_path / "hospital")
    with opened(folder, java_script_enabled=False) as (hand, _):
        to_the_plan(hand)
        hand.release()
        hand.wait("See what can be published")
    assert len(spends(folder)) == 1


def test_the_port_is_bound_on_this_machine_alone_and_the_page_ends_when_it_is_told_to(tmp_path):
    folder = write_wards(tmp_path / "hospital")
    with served(folder) as (link, child):
        port = int(re.search(r":(\d+)/", link)[1])
        bound = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        assert {one[1].partition(":")[0] for one in bound if one[1].endswith(f":{port:04X}")} == {"0100007F"}
        with socket.create_connection(("127.0.0.1", port)):
            pass
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0


def test_its_benchmark_runs_and_every_screen_is_painted() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "speed" / "page.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {*json.loads(done.stdout)["first_paint"]} == {*SCREENS}
