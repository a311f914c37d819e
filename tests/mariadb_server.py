"""A MariaDB server of the tests' own: in a temporary folder, on a socket that only this machine sees."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PLACES = ("/usr/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")


def _program(name: str) -> str | None:
    return shutil.which(name) or next((f"{place}/{name}" for place in PLACES if Path(place, name).exists()), None)


def _missing() -> str:
    if _program("mariadbd") is None or _program("mariadb-install-db") is None:
        return "MariaDB is not installed: apt-get install mariadb-server-core"
    lacking = [name for name in ("sqlalchemy", "pymysql") if importlib.util.find_spec(name) is None]
    return f"{lacking[0]} is not installed" if lacking else ""


WHY_NOT = _missing()


@contextmanager
def running() -> Iterator[str]:
    """Yield the URL of a server's database for SQLAlchemy; the server ends with the context."""
    import pymysql

    folder = Path(tempfile.mkdtemp(prefix="maria"))
    user = ["--user=root"] if os.getuid() == 0 else []
    try:
        data = f"--datadir={folder}/data"
        made = [
            str(_program("mariadb-install-db")),
            "--no-defaults",
            data,
            "--auth-root-authentication-method=normal",
            *user,
        ]
        subprocess.run(made, check=True, capture_output=True, timeout=120)
        socket = folder / "s"
        asked = [str(_program("mariadbd")), "--no-defaults", data, f"--socket={socket}", "--skip-networking", *user]
        process = subprocess.Popen(
            [*asked, f"--pid-file={folder}/pid"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(300):
                with suppress(pymysql.MySQLError):
                    connection = pymysql.connect(unix_socket=str(socket), user="root")
                    break
                time.sleep(0.2)
            with connection, connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE synth CHARACTER SET utf8mb4")
            yield f"mysql+pymysql://root@localhost/synth?unix_socket={socket}"
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
