"""Pictures of the reports of tables of five shapes, as a browser shows them at two widths (docs/benchmarks/reports.md).

    python benchmarks/utility/screens.py docs/images [--releases FOLDER]

Needs Chromium and Pillow.  ``--releases`` keeps releases in a folder, and reads them from it where it has them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "speed"))
import answers as speed
from coverage import TABLES, made
from PIL import Image

from synthdp.report.html_page import report_page

SHAPES: dict[str, tuple[Callable[[], tuple[Any, Any]], str]] = {
    "adult": (TABLES["adult"], "levels and numbers"),
    "hmeq": (TABLES["hmeq"], "loans with much missing"),
    "doctor": (TABLES["doctor"], "a survey of heaped values"),
    "wide": (lambda: (speed.wide(20_000, 60), None), "60 columns"),
    "flights": (lambda: (speed.flights_like(336_776), None), "many rows and levels"),
}
WIDTHS = {1280: 4200, 390: 5200}
"""Of pictures, and how much of a page they show, in pixels."""

COLOURS = 64


def main() -> None:
    """Release, report, look."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--releases", type=Path)
    options = parser.parse_args()
    for name, (table, title) in SHAPES.items():
        kept = None if options.releases is None else options.releases / name / "00.release"
        release = made(*table(), 1.0, kept)
        page = str(report_page(release, fingerprint="for a look", title=f"{name}: {title}"))
        for width, height in WIDTHS.items():
            pictured(page, width, height, options.folder / f"report-{name}-{width}.png")


def pictured(page: str, width: int, height: int, to: Path) -> None:
    """Save what a browser shows of a page; it stands in a frame, for windows are not as narrow as phones."""
    with tempfile.TemporaryDirectory() as folder:
        frame = f'<iframe style="border:0;width:{width}px;height:{height}px" srcdoc="{escape(page)}"></iframe>'
        wrapper, shot = Path(folder) / "page.html", Path(folder) / "shot.png"
        wrapper.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">{frame}', encoding="utf-8")
        browser = shutil.which("chromium") or shutil.which("google-chrome") or "chromium-browser"
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={shot}",
             f"--window-size={max(width, 600)},{height}", f"--user-data-dir={folder}/profile", wrapper.as_uri()],
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip
        Image.open(shot).convert("RGB").crop((0, 0, width, height)).quantize(COLOURS).save(to, optimize=True)


if __name__ == "__main__":
    main()
