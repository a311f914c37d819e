"""``synthdp doctor``: what a security officer asks of an installation, tested here and now."""

from __future__ import annotations

import json
import os
import platform
import socket
import stat
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import click

import synthdp
from synthdp.errors import DataError, SynthDPError
from synthdp.extensions import COLUMN_TYPES, MECHANISMS, SOURCES
from synthdp.privacy.selftest import Check

OPENDP_FAULTS = {
    "0.14.0": "its discrete Laplace and Gaussian noise is biased (OpenDP issue 2638)",
    "0.14.1": "its discrete Laplace and Gaussian noise is biased (OpenDP issue 2638)",
}
"""Versions of OpenDP whose noise does not follow its law, and why."""

REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse")
"""File systems on which locks or syncs of SQLite may not hold (https://sqlite.org/faq.html#q5)."""

IN_MEMORY = ("tmpfs", "ramfs")
PACKAGES = ("synthdp", "numpy", "scipy", "pandas", "scikit-learn", "cvxpy", "highspy", "opendp", "dp-accounting")
LOOPBACK = "127.0.0.1"


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path),
    help="Where ledgers lie: who may write it, its file system and a ledger in it are tested too.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def doctor(folder: Path | None, as_json: bool) -> None:
    """Show versions and solvers, and test the noise and the security of this installation.

    Tested: the noise against its laws, the entropy source, OpenDP's version against its known faults and the page's
    address; with --folder also who may write it, and whether a ledger lasts there.

    \b
    Example:
      synthdp doctor --folder /srv/ledgers --json
    """
    from synthdp.fit.explicit.registry import SOLVERS
    from synthdp.privacy.selftest import noise_selftest
    from synthdp.privacy.versions import version_of

    versions = {name: version_of(name) for name in PACKAGES}
    in_use = {
        "lp": f"multiplicative weights, mixed by HiGHS {versions['highspy']} through CVXPY {versions['cvxpy']}",
        "sifting": "the bare linear program, by the same HiGHS",
        "mw": "multiplicative weights, of synthdp itself",
        "maxent": "maximum entropy on a junction tree, of synthdp itself; what adaptive marginals take",
    }
    noise, security = noise_selftest(), security_checks(folder, opendp=versions["opendp"])
    others = {
        group: sorted(one.name for one in entry_points(group=group)) for group in (MECHANISMS, SOURCES, COLUMN_TYPES)
    }
    others = {group: names for group, names in others.items() if names}
    if as_json:
        click.echo(
            json.dumps(
                {
                    "python": platform.python_version(),
                    "versions": versions,
                    "solvers": list(SOLVERS),
                    "solver_in_use": in_use,
                    "noise": [{"check": c.name, "passed": c.passed, "detail": c.detail} for c in noise],
                    "security": [{"check": c.name, "passed": c.passed, "detail": c.detail} for c in security],
                    "extensions": others,
                }
            )
        )
    else:
        click.echo(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
        for name, number in versions.items():
            click.echo(f"{name} {number}")
        for name, program in in_use.items():
            click.echo(f"solver {name}: {program}")
        for group, names in others.items():
            click.echo(f"of other packages, {group}: {', '.join(names)}")
        for title, checks in (("noise", noise), ("security", security)):
            for check in checks:
                click.echo(f"{title}: {'ok  ' if check.passed else 'FAIL'} {check.name}: {check.detail}")
    if not all(check.passed for check in noise):
        raise DataError("the noise of this installation does not follow its law: do not release with it")
    if failed := [check.name for check in security if not check.passed]:
        raise DataError(f"this installation fails: {', '.join(failed)}")


def security_checks(folder: Path | None, *, opendp: str) -> list[Check]:
    """Test the entropy source, OpenDP's version and the loopback; and a folder's modes and file system, and a ledger in it.

    Parameters
    ----------
    folder
        Where ledgers lie, if that is to be tested; a scratch ledger is made in it and removed.
    opendp
        OpenDP's version.
    """
    checks = [_entropy(), opendp_check(opendp), _loopback()]
    return checks if folder is None else [*checks, modes_check(folder), file_system_check(folder), _ledger(folder)]


def _entropy() -> Check:
    """Ask the kernel for numbers without waiting: it refuses as long as its generator has no seed."""
    name = "entropy source"
    try:
        if hasattr(os, "getrandom"):
            drawn = [os.getrandom(32, os.GRND_NONBLOCK) for _ in range(2)]
            how = "getrandom: the kernel's generator has its seed"
        else:
            drawn, how = [os.urandom(32) for _ in range(2)], "the operating system's generator"
    except BlockingIOError:
        return Check(name, False, "the kernel's generator has no seed yet")
    return Check(name, drawn[0] != drawn[1], how)


def opendp_check(version: str) -> Check:
    """Hold OpenDP's version against its known faults."""
    fault = OPENDP_FAULTS.get(version)
    return Check("OpenDP", fault is None, f"{version}: {fault or 'no known fault of the noise that synthdp draws'}")


def modes_check(folder: Path) -> Check:
    """Say whether others than the owner and the group may write a folder, and so replace a ledger in it."""
    name = "file modes"
    try:
        mode = folder.stat().st_mode
    except OSError as error:
        return Check(name, False, f"'{folder}' cannot be read: {error.strerror}")
    if os.name == "nt":
        return Check(name, True, "Windows has access lists instead: see the folder's properties")
    everybody = bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
    who = "everybody may replace the files in it: chmod o-w" if everybody else "only its owner and group may write"
    return Check(name, not everybody, f"'{folder}' has {stat.S_IMODE(mode):o}: {who}")


def file_system_check(folder: Path, mounts: str = "/proc/self/mounts") -> Check:
    """Say whether a folder lies on a file system on which a ledger lasts."""
    name, kind = "file system", _file_system(folder, mounts)
    if kind is None:
        return Check(name, True, "unknown here: a ledger belongs on a local disk")
    if kind in REMOTE:
        return Check(name, False, f"{kind}: over a network locks may not hold; keep ledgers on a local disk")
    if kind in IN_MEMORY:
        return Check(name, False, f"{kind}: it is in memory, a ledger here is gone with the power")
    return Check(name, True, f"{kind}, local")


def _file_system(folder: Path, mounts: str) -> str | None:
    """Return the type of the file system of a folder, as Linux lists it; the longest mount point that holds it counts."""
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    place, best, kind = folder.resolve(), -1, None
    for line in lines:
        _, where, found, *_ = [*line.split(" "), "", "", ""]
        point = Path(where.replace("\\040", " ") or "/")
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), found
    return kind


def _ledger(folder: Path) -> Check:
    """Record a spend in a scratch ledger and read it with a second connection; each commit is synced to disk."""
    name, lasting = "ledger", "a spend is on disk, synced, before rows are read; a second reader finds it"
    try:
        with tempfile.TemporaryDirectory(prefix=".synthdp-doctor-", dir=folder) as scratch:
            book = synthdp.Ledger(Path(scratch) / "ledger.sqlite")
            book.set_cap("doctor", synthdp.PureDP(1.0))
            book.reserve("doctor", synthdp.PureDP(0.5), what="a test")
            found = [entry.state for entry in synthdp.Ledger(book.path).entries("doctor")]
    except (OSError, SynthDPError) as error:
        return Check(name, False, f"no ledger can be kept in '{folder}': {getattr(error, 'strerror', None) or error}")
    return Check(name, found == ["reserved"], lasting)


def _loopback() -> Check:
    name = "loopback"
    try:
        with socket.socket() as door:
            door.bind((LOOPBACK, 0))
            host = door.getsockname()[0]
    except OSError as error:
        return Check(name, False, f"the page has no address: {error.strerror}")
    return Check(name, host == LOOPBACK, f"the page listens on {host} only, never on an address of the network")
