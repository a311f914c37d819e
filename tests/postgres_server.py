"""A PostgreSQL server of the tests' own: in a temporary folder, on a socket that only this machine sees."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
ACCESS = "local locked all scram-sha-256\nlocal all locked scram-sha-256\nlocal all all trust\n"
"""The user `locked` needs a password."""


def binaries() -> Path | None:
    """Where the server's programs are, of the newest version that is there."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    for place in PLACES:
        folders += sorted(Path("/").glob(place[1:]), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists() and (folder / "initdb").exists()), None)


WHY_NOT = "" if binaries() else "PostgreSQL is not installed: apt-get install postgresql"


def _user() -> dict[str, int | list[int]]:
    """The server refuses to run as root: then it runs as another."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise OSError("there is no user to run PostgreSQL as")


class Server:
    """A running server.

    Parameters
    ----------
    folder
        Of its socket.
    process
        The server.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder, self.process = folder, process

    def url(self, *, user: str = "postgres", password: str = "", database: str = "postgres") -> str:
        """The address of a database."""
        return f"postgresql://{user}:{password}@/{database}?host={self.folder}"


@contextmanager
def started() -> Iterator[Server]:
    """Start a server with an empty database; it ends with the block, and with this process."""
    programs, as_user = binaries(), _user()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # the path of a socket must be short
    try:
        if as_user:
            os.chown(folder, as_user["user"], as_user["group"])  # type: ignore[arg-type]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **as_user}
        made = [programs / "initdb", "-D", folder / "data", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run([*made, "-A", "trust"], check=True, **quiet)
        access = folder / "access"
        access.write_text(ACCESS)
        access.chmod(0o644)
        dies_with_us = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        settings = {"listen_addresses": "", "hba_file": access, "shared_buffers": "32MB", "max_wal_senders": "0"}
        settings |= dict.fromkeys(("fsync", "full_page_writes", "autovacuum", "jit"), "off") | {"wal_level": "minimal"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        process = subprocess.Popen(
            [*dies_with_us, programs / "postgres", "-D", folder / "data", "-k", folder, *options], **quiet
        )
        try:
            _wait(programs, folder)
            yield Server(folder, process)
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: its files go, and connections may still be open
            process.wait(timeout=20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(programs: Path, folder: Path) -> None:
    for _ in range(200):
        if (
            subprocess.run(
                [programs / "pg_isready", "-q", "-U", "postgres", "-d", "postgres", "-h", folder], check=False
            ).returncode
            == 0
        ):
            return
        time.sleep(0.05)
    raise OSError("PostgreSQL did not start")
