"""The file of a ledger: no power cut, kill or older version takes a spend back, and every connection is closed."""

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from forks import raced
from old_ledger import CAPS, SPENDS, version_of, write_old_ledger

from synthdp import ApproxDP, Ledger, PureDP
from synthdp.curator.ledger_file import _STEPS, VERSION
from synthdp.errors import BudgetExceededError, LedgerError
from synthdp.privacy.neighbors import Adjacency

ROW, UNIT = Adjacency(), Adjacency("add_remove", "person")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace, which shows what is synced")


def known(book: Ledger) -> tuple[dict, list]:
    """Return the caps and the spends of a ledger."""
    caps = {name: book.cap(name) for name in book.datasets()}
    return caps, [(entry.number, entry.dataset, entry.loss, entry.what, entry.state) for entry in book.entries()]


class Watched(sqlite3.Connection):
    """A connection that notes how it committed, and whether it was closed."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.is_open = True
        self.commits: list[tuple[int, int]] = []

    def execute(self, statement, *arguments):
        told = [self.cursor().execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "fullfsync")]
        self.commits += [tuple(told)] * (statement == "COMMIT")
        return super().execute(statement, *arguments)

    def close(self):
        self.is_open = False
        super().close()


@pytest.fixture
def watched(monkeypatch) -> list[Watched]:
    """Every connection that is opened during a test."""
    opened: list[Watched] = []
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **k: opened.append(connect(*a, **k, factory=Watched)) or opened[-1]
    )
    return opened


WRITES = [
    lambda book: book.reserve("patients", PureDP(0.5), what="x"),
    lambda book: book.commit(1),
    lambda book: book.set_cap("patients", ApproxDP(1.0, 1e-6)),
    lambda book: book.declare("patients"),
]
READS = [
    lambda book: book.entries(),
    lambda book: book.datasets(),
    lambda book: book.cap("patients"),
    lambda book: book.left("patients"),
    lambda book: book.adjacency("patients"),
]


# A power cut


def test_every_commit_syncs_the_file_and_its_folder(watched, tmp_path):
    """EXTRA (3) syncs the folder once the journal is gone; FULL (2) leaves a journal that can come back."""
    book = Ledger(tmp_path / "l.sqlite")
    [write(book) for write in WRITES]
    Ledger(write_old_ledger(tmp_path / "old.sqlite")).declare("patients")
    commits = [commit for connection in watched for commit in connection.commits]
    assert commits == [(3, 1)] * (len(WRITES) + 1)  # the last: a migration


def test_the_name_of_a_new_file_is_synced_before_the_first_spend_is_written(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    (tmp_path / "real").mkdir()
    (tmp_path / "l.sqlite").symlink_to(tmp_path / "real" / "l.sqlite")
    Ledger(tmp_path / "l.sqlite").reserve("t", PureDP(0.5), what="x")
    assert synced == [(tmp_path / "real").stat().st_ino]


def test_a_new_file_whose_folder_cannot_be_synced_records_nothing(tmp_path, monkeypatch):
    def broken(handle):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(LedgerError, match=r"l\.sqlite"):
            Ledger(tmp_path / "l.sqlite").reserve("t", PureDP(0.5), what="x")
    assert Ledger(tmp_path / "l.sqlite").entries() == []


STEPS = """
import sys
from synthdp import ApproxDP, Ledger, PureDP
path = sys.argv[1]
print("returned: imports", flush=True)
book = Ledger(path)
book.declare("patients")
print("returned: declare", flush=True)
book.set_cap("patients", ApproxDP(9.0, 1e-6))
print("returned: cap", flush=True)
number = book.reserve("patients", PureDP(0.5), what="x")
print("returned: reserve", flush=True)
book.commit(number)
print("returned: commit", flush=True)
"""
CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?:(?P<handle>\d+)<(?P<file>[^>]*)>|AT_FDCWD<[^>]*>)?,? ?(?P<rest>.*)\) += ")


def changed_and_synced(line: str) -> tuple[set[str], set[str]]:
    """Return the files and folders that a call to the kernel changes, and those that it syncs."""
    call = CALL.match(line)
    if call is None:
        return set(), set()
    named = re.findall(r'^"(/[^"]*)"', call["rest"])
    match call["name"]:
        case "fsync" | "fdatasync":
            return set(), {call["file"]}
        case "pwrite64" | "ftruncate":
            return {call["file"]}, set()
        case "openat" if "O_CREAT" in line:
            return {str(Path(path).parent) for path in named}, set()
        case "unlink":  # a file without a name need not be synced
            return {str(Path(path).parent) for path in named}, set(named)
    return set(), set()


def unsynced(trace: str, folder: Path) -> dict[str, set[str]]:
    """Return what a power cut could take back at each moment that a call had returned."""
    found, waiting = {}, set()
    for line in trace.splitlines():
        changed, synced = changed_and_synced(line)
        waiting = (waiting - synced) | {path for path in changed if path.startswith(str(folder))}
        found |= dict.fromkeys(re.findall(r"returned: (\w+)", line), waiting)
    return found


@pytest.mark.landing
@needs_strace
@pytest.mark.parametrize("version", ["new", pytest.param("old", marks=pytest.mark.slow)])
def test_a_power_cut_after_a_call_has_returned_takes_nothing_back(version, tmp_path):
    """All writes, and all names made or removed in the folder, are synced when a call returns."""
    folder = tmp_path.resolve() / "ledger"
    folder.mkdir()
    {"new": Path, "old": write_old_ledger}[version](folder / "l.sqlite")
    calls = "trace=openat,write,pwrite64,ftruncate,fsync,fdatasync,unlink"
    command = ["strace", "-f", "-y", "-s", "200", "-e", calls, "-o", str(tmp_path / "trace")]
    subprocess.run(
        [*command, sys.executable, "-c", STEPS, str(folder / "l.sqlite")], check=True, env=ENVIRONMENT, cwd=tmp_path
    )
    found = unsynced((tmp_path / "trace").read_text(errors="replace"), folder)
    assert found == {name: set() for name in ["imports", "declare", "cap", "reserve", "commit"]}


# A kill


MOMENTS = [pytest.param(call, marks=[pytest.mark.slow] * (call not in (7, 19))) for call in range(1, 23, 3)]


def killed(step: str, path: Path, call: int) -> None:
    """Run a step in a process that is killed before its nth call that writes, syncs or removes something."""
    code = f"from synthdp import Ledger, PureDP; import sys; Ledger(sys.argv[1]).{step}"
    inject = f"inject=pwrite64,fdatasync,unlink:signal=KILL:when={call}"
    command = ["strace", "-f", "-o", os.devnull, "-e", "trace=pwrite64,fdatasync,unlink", "-e", inject]
    subprocess.run([*command, sys.executable, "-W", "ignore", "-c", code, str(path)], check=False, env=ENVIRONMENT)


@pytest.mark.landing
@pytest.mark.sampled("landing")
@needs_strace
@pytest.mark.parametrize("call", MOMENTS)
def test_a_migration_that_is_killed_at_any_moment_loses_no_spend(call, tmp_path):
    path = write_old_ledger(tmp_path / "l.sqlite")
    killed("declare('patients')", path, call)
    assert known(Ledger(path)) == (CAPS, SPENDS)
    Ledger(path).declare("patients")
    assert (known(Ledger(path)), version_of(path)) == ((CAPS, SPENDS), VERSION)


@pytest.mark.sampled("landing")
@needs_strace
@pytest.mark.parametrize("call", MOMENTS)
def test_a_spend_that_is_killed_at_any_moment_is_written_whole_or_not_at_all(call, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", PureDP(1.0))
    book.reserve("t", PureDP(0.25), what="before")
    killed("reserve('t', PureDP(0.5), what='killed')", tmp_path / "l.sqlite", call)
    assert [entry.what for entry in book.entries()] in (["before"], ["before", "killed"])
    book.reserve("t", PureDP(0.25), what="after")
    assert len({entry.number for entry in book.entries()}) == len(book.entries())


# A ledger of version 1


def test_looking_into_an_old_ledger_shows_everything_and_changes_nothing(tmp_path):
    path = write_old_ledger(tmp_path / "l.sqlite")
    before = path.read_bytes()
    book = Ledger(path)
    assert known(book) == (CAPS, SPENDS)
    assert book.left("patients") == ApproxDP(1.25, 9e-7)
    assert [book.adjacency(name) for name in CAPS] == [None] * 3
    assert [entry.adjacency for entry in book.entries()] == [None] * 3
    assert path.read_bytes() == before


@pytest.mark.parametrize("dataset", CAPS)
@pytest.mark.parametrize("adjacency", [ROW, UNIT], ids=str)
def test_nothing_is_added_to_old_spends_before_someone_says_whose_they_are(adjacency, dataset, tmp_path):
    book = Ledger(write_old_ledger(tmp_path / "l.sqlite"))
    with pytest.raises(LedgerError, match=f"'{dataset}'.*add_remove"):
        book.reserve(dataset, PureDP(0.125), what="x", adjacency=adjacency)
    with pytest.raises(LedgerError, match="add_remove"):
        book.set_cap(dataset, ApproxDP(9.0, 1e-6))
    assert known(book) == (CAPS, SPENDS)
    assert version_of(tmp_path / "l.sqlite") == 1


@pytest.mark.parametrize("adjacency", [ROW, UNIT], ids=str)
def test_old_spends_count_once_their_neighbours_are_declared(adjacency, tmp_path):
    book = Ledger(write_old_ledger(tmp_path / "l.sqlite"))
    book.declare("patients", neighbors=adjacency.neighbors, privacy_unit=adjacency.unit)
    with pytest.raises(BudgetExceededError, match=r"1\.25.*2"):
        book.reserve("patients", ApproxDP(1.5, 1e-9), what="x", adjacency=adjacency)
    book.reserve("patients", ApproxDP(1.25, 1e-9), what="y", adjacency=adjacency)
    assert book.left("patients") is None


def test_a_cap_for_named_neighbours_declares_them(tmp_path):
    book = Ledger(write_old_ledger(tmp_path / "l.sqlite"))
    book.set_cap("patients", ApproxDP(1.0, 1e-6), privacy_unit="person")
    assert (book.adjacency("patients"), book.left("patients")) == (UNIT, ApproxDP(0.25, 9e-7))


def test_a_wrong_declaration_can_be_mended_until_a_spend_rests_on_it(tmp_path):
    book = Ledger(write_old_ledger(tmp_path / "l.sqlite"))
    book.declare("patients")
    book.declare("patients", privacy_unit="person")
    book.reserve("patients", PureDP(0.25), what="x", adjacency=UNIT)
    with pytest.raises(LedgerError, match="'person'"):
        book.declare("patients")
    assert book.adjacency("patients") == UNIT


def test_data_sets_that_an_old_ledger_does_not_have_are_counted_as_in_a_new_one(tmp_path):
    book = Ledger(write_old_ledger(tmp_path / "l.sqlite"))
    book.set_cap("births", PureDP(1.0))
    book.reserve("births", PureDP(0.5), what="x")
    assert (book.left("births"), book.adjacency("patients")) == (PureDP(0.5), None)
    assert version_of(tmp_path / "l.sqlite") == VERSION


def test_a_spend_that_an_older_version_reserved_can_be_committed(tmp_path):
    book = Ledger(write_old_ledger(tmp_path / "l.sqlite"))
    book.commit(2)
    assert [entry.state for entry in book.entries("patients")] == ["committed", "committed"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_ledger_of_each_later_version_keeps_its_spends_and_takes_new_ones(version, tmp_path):
    """Version 2 is what upgrades version 1 before keys came; version 3 has keys, and no spend that was returned."""
    path = write_old_ledger(tmp_path / "l.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for step in _STEPS[1][: -len(_STEPS[2])]:
            db.execute(step)
        if version == 3:
            db.execute("ALTER TABLE spends ADD COLUMN key TEXT")
            db.execute("CREATE UNIQUE INDEX one_spend_a_key ON spends (key)")
            db.execute("UPDATE spends SET key = 'once' WHERE id = 3")
        db.execute(f"UPDATE meta SET version = {version}")
    book = Ledger(path)
    assert known(book) == (CAPS, SPENDS)
    assert [entry.number for entry in book.entries("visits", key="once")] == [3] * (version == 3)
    book.declare("patients")
    book.reserve("patients", PureDP(0.25), what="new")
    assert version_of(path) == VERSION
    assert [entry.what for entry in book.entries("patients")] == ["account", "histogram", "new"]


def declared(path, name):
    Ledger(path).declare(name)
    return name


def test_processes_that_migrate_at_once_leave_one_whole_ledger(tmp_path):
    path = write_old_ledger(tmp_path / "l.sqlite")
    assert raced([partial(declared, path, name) for name in [*CAPS, *CAPS]]) == [*CAPS, *CAPS]
    assert known(Ledger(path)) == (CAPS, SPENDS)
    assert [Ledger(path).adjacency(name) for name in CAPS] == [ROW] * 3


# A file that cannot be written, or is locked


@pytest.fixture
def read_only(monkeypatch) -> None:
    """Open every file as one that cannot be written is opened, also where the user may write everything."""
    connect = sqlite3.connect

    def opened(place, **settings):
        uri = place if place == ":memory:" else f"{Path(place).as_uri()}?mode=ro"
        return connect(uri, uri=True, **settings)

    monkeypatch.setattr(sqlite3, "connect", opened)


def new_ledger(path: Path) -> Path:
    book = Ledger(path)
    [book.declare(name) for name in CAPS]
    [book.set_cap(name, cap) for name, cap in CAPS.items() if cap is not None]
    [book.reserve(name, loss, what=what) for _, name, loss, what, _ in SPENDS]
    book.commit(1)
    return path


@pytest.mark.parametrize("write", [write_old_ledger, new_ledger])
def test_a_ledger_that_cannot_be_written_can_be_read(write, tmp_path, request):
    path = write(tmp_path / "l.sqlite")
    request.getfixturevalue("read_only")
    assert known(Ledger(path)) == (CAPS, SPENDS)


@pytest.mark.parametrize("write", [write_old_ledger, new_ledger])
@pytest.mark.parametrize("door", WRITES)
def test_a_ledger_that_cannot_be_written_refuses_every_change(door, write, tmp_path, request):
    path = write(tmp_path / "l.sqlite")
    request.getfixturevalue("read_only")
    with pytest.raises(LedgerError, match=r"l\.sqlite'.*written"):
        door(Ledger(path))
    assert known(Ledger(path)) == (CAPS, SPENDS)


@pytest.mark.sampled
@pytest.mark.parametrize("door", [*WRITES, *READS])
def test_a_locked_ledger_is_waited_for_no_longer_than_it_may_take(door, tmp_path):
    path = new_ledger(tmp_path / "l.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match=r"l\.sqlite'.*locked"):
            door(Ledger(path, seconds=0.1))
    assert known(Ledger(path)) == (CAPS, SPENDS)


# Connections


@pytest.mark.sampled
@pytest.mark.parametrize("door", [*WRITES, *READS])
@pytest.mark.parametrize(
    "write",
    [lambda path: path, write_old_ledger, new_ledger, lambda path: path.write_text("no database" * 100), Path.mkdir],
    ids=["none", "old", "new", "text", "folder"],
)
def test_every_connection_is_closed_by_whoever_opened_it(door, write, tmp_path, request):
    write(tmp_path / "l.sqlite")
    watched = request.getfixturevalue("watched")
    with contextlib.suppress(LedgerError):
        door(Ledger(tmp_path / "l.sqlite"))
    assert [connection.is_open for connection in watched] == [False] * len(watched)


def test_a_path_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(LedgerError):
        Ledger(tmp_path / ("x" * 5000)).entries()
