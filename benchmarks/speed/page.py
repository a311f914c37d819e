"""Time the stewards' page: its start, and the first paint of each screen in a real Chromium.

    python benchmarks/speed/page.py [--tiny]

One JSON line: seconds by the clock until the link is printed, processor seconds and memory of the server then, each of three
starts, and seconds to the first paint of each screen, the first time and again.  Needs chromium and playwright, as the
tests of the page do; the folder holds the bundled Adult table as a CSV file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from page_walk import CHROMIUM, Hand, browser, served, sync_playwright  # noqa: E402 - the folders above come first

from synthdp.data import adult  # noqa: E402

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
LONGEST = 60.0
"""Seconds to wait for a paint.  A safety limit."""

PAINTED = "performance.getEntriesByName('first-contentful-paint').map(one => one.startTime / 1000)"


def used(process: int) -> dict[str, float]:
    """Return processor seconds and resident memory, MiB, of a process of Linux."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return {"processors": seconds, "mib": round(int(resident[1]) / 1024) if resident else 0}


def paints(link: str) -> dict[str, list[float]]:
    """Return the seconds to the first paint of each screen, the first time and again."""
    found: dict[str, list[float]] = {}
    with browser() as profile:
        hand = Hand(profile.new_page())
        hand.open(link)
        for screen in SCREENS * 2:
            hand.see(screen)
            end = time.monotonic() + LONGEST
            while not hand.page.evaluate(f"{PAINTED}.length") and time.monotonic() < end:  # the page allows no eval
                time.sleep(0.02)
            found.setdefault(screen, []).extend(round(one, 3) for one in hand.page.evaluate(PAINTED))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="1 000 rows, one start")
    tiny = parser.parse_args().tiny
    if CHROMIUM is None or sync_playwright is None:
        raise SystemExit("needs chromium and playwright, which drives it")
    starts: list[dict[str, Any]] = []
    painted: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "steward"
        folder.mkdir()
        table = adult()
        (table.head(1000) if tiny else table).to_csv(folder / "adult.csv", index=False)
        for _ in range(1 if tiny else 3):
            begun = time.monotonic()
            with served(folder) as (link, server):
                starts.append({"clock": round(time.monotonic() - begun, 2), **used(server.pid)})
                painted = painted or paints(link)
    print(json.dumps({"starts": starts, "first_paint": painted, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
