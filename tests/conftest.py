"""Settings of all tests."""

import atexit
import contextlib
import gc
import locale
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from postgres_server import WHY_NOT, Server, started
from strictness import STRICT

IGNORED = (
    "ignore:data set .* without a cap:UserWarning",
    "ignore::synthdp.errors.DiscoveryWarning",
    "ignore::synthdp.errors.MisfitWarning",
)
"""The same lines, with the reasons, are in pyproject.toml."""

UNCLOSED = "ignore:Exception ignored in. .sqlite3.Connection:pytest.PytestUnraisableExceptionWarning"
"""From Python 3.13 on, a connection of an earlier test that was made to fail is found at whatever test runs then."""

MEMORY, ROOM = Path("/dev/shm"), 2**32
"""Where Linux keeps files in memory, and how much must be free there: the quick suite takes a fortieth of that."""

# before numpy is loaded: tests run side by side, and threads that wait for a processor burn another's
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# A busy processor is no failure.  The quick suite tries the same examples everywhere and each time; the slow one, in
# .ci/slow, tries others each time, keeps what failed in .hypothesis/examples, and prints how to try it again.
settings.register_profile(
    "random",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=10,
    print_blob=True,
    derandomize=False,  # where CI is set hypothesis would take its own profile
)
settings.register_profile("thorough", settings.get_profile("random"), max_examples=100, derandomize=False)
settings.register_profile("quick", settings.get_profile("random"), derandomize=True)
settings.load_profile("quick")  # another one by --hypothesis-profile: .ci/slow


def keep_files_in_memory() -> None:
    """Keep the files of tests in memory, where there is room: to wait for a disk takes ledgers as long as all their work.

    A folder that was asked for, by ``TMPDIR`` or ``--basetemp``, stays the one.
    """
    if "TMPDIR" in os.environ or not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return
    if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC or shutil.disk_usage(MEMORY).free < ROOM:
        return
    os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None


def pytest_configure(config: pytest.Config) -> None:
    """Make every warning an error, whoever raises it, where that was asked for."""
    if "not slow" in config.option.markexpr:  # slow tests may write gigabytes
        keep_files_in_memory()
    for line in ["error", *IGNORED, UNCLOSED] * STRICT:
        config.addinivalue_line("filterwarnings", line)
    if os.environ.get(
        "SYNTHDP_SET_LOCALE"
    ):  # as a program with windows does: numbers of C may have decimal commas then
        locale.setlocale(locale.LC_ALL, "")
        locale.setlocale(locale.LC_MESSAGES, "C")  # the words of the system are not ours to compare
    if settings.default.derandomize:
        without_constants_of_loaded_code()


def without_constants_of_loaded_code() -> None:
    """Draw none of the constants that stand in the code loaded so far, as hypothesis does since 2025.

    Which modules are loaded depends on ``-k``, on the worker, and on the tests that ran before; whether they count as code
    under test depends on the name of the folder.  A random run draws them.  There is no setting, so what finds them is
    replaced; a test in `tests/architecture` notices when that no longer helps.
    """
    with contextlib.suppress(ImportError):  # earlier ones have none
        from hypothesis.internal.conjecture import providers
        from hypothesis.internal.constants_ast import Constants

        none = Constants()
        providers._get_local_constants = lambda: none


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker whole files, unless another way was asked for: what the tests of a file share is made once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[Any]:
    """Look for no examples in docstrings of tests and helpers: each file would be imported once more, by another name."""
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without collecting garbage: modules and tests stay, and to look through them again and again takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave two of every three cases of a test marked as sampled to a later stage: the slow suite, or the one it names.

    Which third stays is decided by the test's name: of one class that many tests are about, each test tries other cases.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for test, found in cases.items():
        first = crc32(test.encode()) % min(3, len(found))
        for i, item in enumerate(found):
            if i % 3 != first:
                item.add_marker(*item.get_closest_marker("sampled").args or ("slow",))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let go of the tests: what a worker's threads still hold at its end, DuckDB's bindings print as a screen of leaks."""
    atexit.register(gc.unfreeze)  # pytest will look through all that is not frozen five times, for files left open
    session.items.clear()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of the tests that were not chosen, too: the terminal keeps them to count them."""
    if reporter := config.pluginmanager.get_plugin("terminalreporter"):
        reporter.stats.pop("deselected", None)


@pytest.fixture
def few_sweeps() -> Iterator[None]:
    """Fit databases in few sweeps: for a test, or a module of tests, that is not about how good the fit is."""
    import quick_fits

    with quick_fits.few_sweeps():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Start a PostgreSQL server for the tests of this process."""
    if WHY_NOT:
        (pytest.fail if os.environ.get("SYNTHDP_MUST_RUN") else pytest.skip)(WHY_NOT)
    with started() as server:
        yield server
