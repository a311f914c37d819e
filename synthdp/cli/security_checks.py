"""The checks of ``synthdp doctor``: drawn noise against its laws, and the security of an installation."""

from __future__ import annotations

import math
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import chi2

import synthdp
from synthdp.arrays import IntArray
from synthdp.errors import SynthDPError
from synthdp.privacy import noise

DRAWS = 40_000
"""Draws of each check of a noise law. More would find smaller errors of a sampler, and take longer. A convention."""

FALSE_ALARM = 1e-9
"""Probability that correct noise fails a check.  So small that a failure means wrong noise, not chance.
A convention."""

FEWEST = 10
"""Least expected number of draws of a histogram bin; rarer values are pooled in the end bins, as a chi-square test
needs.  A convention."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check of the noise.

    Parameters
    ----------
    name, passed, detail
        Name of the check, whether it passed, and its numbers as text.
    """

    name: str
    passed: bool
    detail: str


def noise_selftest() -> list[Check]:
    """Draw from every noise law of this installation and test each histogram against the exact probabilities.

    A sampler may have the right mean and variance and be wrong value by value: OpenDP 0.14.0 drew a third of the
    residues modulo a whole scale 13 % too often.  Hence small whole scales, a fraction, and the whole histogram.
    """
    zeros = np.zeros(DRAWS, np.int64)
    drawn = [
        *((f"discrete Laplace, scale {s:g}", noise.discrete_laplace(zeros, scale=s), s, 1) for s in (1.5, 3.0, 10.0)),
        *((f"discrete Gaussian, sigma {s:g}", noise.discrete_gaussian(zeros, scale=s), s, 2) for s in (2.0, 5.0, 10.0)),
    ]
    return [_check(*one) for one in drawn]


def _check(name: str, drawn: IntArray, scale: float, power: int) -> Check:
    """Return the chi-square test of a histogram of draws against the law P(z) ∝ exp(-|z / scale|^power / power)."""
    reach = math.ceil(60 * scale)
    z = np.arange(-reach, reach + 1)
    expected = np.exp(-(np.abs(z / scale) ** power) / power)
    expected *= drawn.size / expected.sum()
    end = int(z[expected >= FEWEST].max()) + 1
    observed = np.bincount(np.clip(drawn, -end, end) + end, minlength=2 * end + 1)
    expected = np.bincount(np.clip(z, -end, end) + end, weights=expected)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    limit = float(chi2.isf(FALSE_ALARM, observed.size - 1))
    return Check(name, statistic <= limit, f"chi-square {statistic:.0f}, at most {limit:.0f}")


OPENDP_FAULTS = {
    "0.14.0": "its discrete Laplace and Gaussian noise is biased (OpenDP issue 2638)",
    "0.14.1": "its discrete Laplace and Gaussian noise is biased (OpenDP issue 2638)",
}
"""Versions of OpenDP whose noise has a wrong distribution, with the fault."""

REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse")
"""Network file systems, on which SQLite's locks or syncs may not hold (https://sqlite.org/faq.html#q5)."""

IN_MEMORY = ("tmpfs", "ramfs")
"""File systems in memory, which lose a ledger without power."""

LOOPBACK = "127.0.0.1"
"""The IPv4 loopback address, at which the page must listen, since other machines cannot reach it."""


def security_checks(folder: Path | None, *, opendp: str) -> list[Check]:
    """Return the security checks of this installation, and of a folder for ledgers if one is given.

    Parameters
    ----------
    folder
        Folder of ledgers to check, or None; a scratch ledger is made in it and removed.
    opendp
        OpenDP's version.
    """
    checks = [_entropy(), opendp_check(opendp), _loopback()]
    return checks if folder is None else [*checks, modes_check(folder), file_system_check(folder), _ledger(folder)]


def _entropy() -> Check:
    """Return the check of the entropy source: the kernel's generator must have its seed.

    Noise could be guessed otherwise.
    """
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
    """Return the check of OpenDP's version against its known faults."""
    fault = OPENDP_FAULTS.get(version)
    return Check("OpenDP", fault is None, f"{version}: {fault or 'no known fault of the noise that synthdp draws'}")


def modes_check(folder: Path) -> Check:
    """Return the check that not everybody can write a folder; otherwise anybody could replace a ledger in it."""
    name = "file modes"
    try:
        mode = folder.stat().st_mode
    except OSError as error:
        return Check(name, False, f"'{folder}' cannot be read: {error.strerror}")
    if os.name == "nt":
        return Check(name, True, "Windows has access lists instead: see the folder's properties")
    # with the sticky bit only its owner can replace a file, even where everybody may write
    everybody = bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
    who = "everybody may replace the files in it: chmod o-w" if everybody else "only its owner and group may write"
    return Check(name, not everybody, f"'{folder}' has {stat.S_IMODE(mode):o}: {who}")


def file_system_check(folder: Path, mounts: str = "/proc/self/mounts") -> Check:
    """Return the check that a folder is on a file system on which a ledger lasts; an unknown file system passes."""
    name, kind = "file system", _file_system(folder, mounts)
    if kind is None:
        return Check(name, True, "unknown here: a ledger belongs on a local disk")
    if kind in REMOTE:
        return Check(name, False, f"{kind}: over a network locks may not hold; keep ledgers on a local disk")
    if kind in IN_MEMORY:
        return Check(name, False, f"{kind}: it is in memory, a ledger here is gone with the power")
    return Check(name, True, f"{kind}, local")


def _file_system(folder: Path, mounts: str) -> str | None:
    """Return the type of a folder's file system from Linux's list of mounts, None if there is no list.

    The longest mount point above the folder counts.  Over a network, and in memory, a ledger does not last.
    """
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
    """Return the check that a spend in a scratch ledger is visible to a second connection.

    Otherwise two releases could spend the same budget.
    """
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
    """Return the check that the page's address is the loopback address, which other machines cannot reach."""
    name = "loopback"
    try:
        with socket.socket() as door:
            door.bind((LOOPBACK, 0))
            host = door.getsockname()[0]
    except OSError as error:
        return Check(name, False, f"the page has no address: {error.strerror}")
    return Check(name, host == LOOPBACK, f"the page listens on {host} only, never on an address of the network")
