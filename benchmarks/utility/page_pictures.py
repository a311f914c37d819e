"""Take the pictures of docs/tutorial/steward-screens.md: every screen of the page for stewards, in two sizes and colours.

    python benchmarks/utility/page_pictures.py [FOLDER]

Needs Chromium and playwright; about a minute.  FOLDER is docs/images by default.
"""

from __future__ import annotations

import base64
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from e2e.test_page_in_a_browser import write_adult  # noqa: E402 - after the path
from page_walk import Hand, browser, served  # noqa: E402 - after the path

WIDE, NARROW = (1280, 1056), (390, 1140)
"""Sizes of a screen in pixels, as they are taken."""

SHOWN = {1280: 630, 390: 230}
"""Widths of the two in a picture."""

PIXELS = """async () => {
  const images = [...document.images];
  await Promise.all(images.map((one) => one.decode()));
  const canvas = document.createElement("canvas"), boxes = images.map((one) => one.getBoundingClientRect());
  [canvas.width, canvas.height] = [%d, Math.ceil(Math.max(...boxes.map((box) => box.bottom))) + 12];
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#81888f"; pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.imageSmoothingQuality = "high";
  images.forEach((one, i) => pen.drawImage(one, boxes[i].x, boxes[i].y, boxes[i].width, boxes[i].height));
  const data = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  let text = ""; for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
  return [canvas.width, canvas.height, btoa(text)];
}"""
"""What Chromium does to put four screens beside each other, and to give their pixels."""


def walk(hand: Hand, screens: Pictures) -> None:
    """Go from the folder to the ledger, and take each screen on the way."""
    hand.press("adult.csv")
    hand.wait("The table was read")
    screens.take("table")
    hand.follow("Go on: who is protected?")
    hand.take("All that the table says of one person")
    hand.press("Save and go on")
    screens.take("people")
    hand.see("columns")
    hand.press("Use codebook.csv")
    hand.wait("Go on to the promise")
    screens.take("columns")
    screens.take("column", "columns/5")
    hand.see("rules")
    screens.take("rules")
    hand.see("promise")
    hand.type("About how many rows", "30000")
    hand.press("Plan", exact=True)
    hand.wait("Recommended: ε")
    screens.take("promise")
    hand.promise()
    hand.release()
    hand.wait("See what can be published")
    screens.take("release")
    hand.see("publish")
    hand.wait("Download everything")
    screens.take("publish")
    hand.see("questions")
    hand.choose("Column", "age")
    hand.press("Ask")
    hand.wait("standard error")
    screens.take("questions")
    screens.take("ledger")


class Pictures:
    """Screens of one page, each taken four times and put beside each other."""

    def __init__(self, hand: Hand, contexts: dict[tuple[int, str], Any], folder: Path) -> None:
        self.hand, self.folder = hand, folder
        self.pages = {key: context.new_page() for key, context in contexts.items()}
        self.table = next(iter(contexts.values())).new_page()

    def take(self, name: str, path: str | None = None) -> None:
        """Take one screen: of the page that was walked, the same address in the other sizes and colours."""
        rows = []
        for colours in ("light", "dark"):
            images = []
            for width in (WIDE[0], NARROW[0]):
                page = self.pages[width, colours]
                page.goto(f"{self.hand.base}/{path or name}")
                page.wait_for_load_state("networkidle")
                source = base64.b64encode(page.screenshot()).decode()
                images.append(f'<img width="{SHOWN[width]}" src="data:image/png;base64,{source}">')
            rows.append(
                f'<div style="display:flex;gap:12px;align-items:flex-start;margin:12px">{"".join(images)}</div>'
            )
        self.table.set_content(f'<body style="margin:0;width:{sum(SHOWN.values()) + 36}px">{"".join(rows)}')
        width, height, text = self.table.evaluate(PIXELS % (sum(SHOWN.values()) + 36))
        pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)[:, :, :3]
        (self.folder / f"page-screen-{name}.png").write_bytes(with_few_colours(pixels))


def with_few_colours(pixels: np.ndarray) -> bytes:
    """Return a picture, (height, width, 3), as a PNG of the 256 colours that it has most of; others become the nearest."""
    codes = (pixels.astype(np.int64) >> 2) @ np.array([4096, 64, 1])
    found, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 12, (found >> 6) & 63, found & 63], axis=1) * 255 // 63
    kept = np.argsort(-counts)[:256]
    nearest = ((colours[:, None] - colours[kept][None]) ** 2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    lines = np.pad(nearest[places].reshape(codes.shape), ((0, 0), (1, 0)))
    head = struct.pack(">IIBBBBB", codes.shape[1], codes.shape[0], 8, 3, 0, 0, 0)
    palette = colours[kept].astype(np.uint8).tobytes()
    parts = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def main() -> None:
    """Walk the page and write the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    with tempfile.TemporaryDirectory() as scratch:
        table = write_adult(Path(scratch) / "census", dictionary=True)
        with served(table) as (link, _), browser(viewport={"width": WIDE[0], "height": WIDE[1]}) as first:
            hand = Hand(first.new_page())
            hand.open(link)
            contexts: dict[tuple[int, str], Any] = {}
            for width, height in (WIDE, NARROW):
                for colours in ("light", "dark"):
                    contexts[width, colours] = first.browser.new_context(
                        viewport={"width": width, "height": height}, color_scheme=colours,
                        storage_state=first.storage_state(),
                    )  # fmt: skip
            walk(hand, Pictures(hand, contexts, folder))


if __name__ == "__main__":
    main()
