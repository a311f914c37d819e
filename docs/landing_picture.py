"""Draw the picture of the first page, real rows beside synthetic ones: `python docs/landing_picture.py`.

The Adult table is public; with a private one such a picture must not be published.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

import synthdp as sd
from synthdp.data import adult, adult_schema

COLUMNS = ["age", "education", "hours-per-week", "income"]
HEADS = {"hours-per-week": "hours"}
WIDTHS = [44, 118, 54, 64]
SHOWN, WIDE, GAP, LINE, TALL = 6, 400, 40, 24, 386
INK, SOFT, RULE, REAL, SYNTHETIC = "#1b1f24", "#57606a", "#d0d7de", "#57606a", "#0072b2"


def text(x: float, y: float, said: Any, *, size: int = 13, fill: str = INK, **more: str) -> str:
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"{extra}>{escape(str(said))}</text>'


def table_of(rows: Any, x: float, y: float) -> list[str]:
    """Return the first rows as a table."""
    ends = np.cumsum(WIDTHS) + x + np.arange(4) * 26
    drawn = [
        text(end, y, HEADS.get(name, name), fill=SOFT, size=12, text_anchor="end", font_weight="600")
        for name, end in zip(COLUMNS, ends, strict=True)
    ]
    drawn.append(f'<path d="M{x} {y + 8}h{WIDE - 20}" stroke="{RULE}"/>')
    for i, row in enumerate(rows[COLUMNS].head(SHOWN).itertuples(index=False)):
        drawn += [text(end, y + LINE * (i + 1), value, text_anchor="end") for value, end in zip(row, ends, strict=True)]
    return drawn


def bars_of(shares: Sequence[float], labels: Sequence[str], x: float, y: float, colour: str) -> list[str]:
    """Return horizontal bars with their shares in per cent."""
    drawn = []
    for i, (share, label) in enumerate(zip(shares, labels, strict=True)):
        top = y + 22 * i
        drawn += [
            text(x + 84, top + 12, label, size=12, fill=SOFT, text_anchor="end"),
            f'<rect x="{x + 92}" y="{top}" width="{2.6 * share:.1f}" height="15" fill="{colour}"/>',
            text(x + 98 + 2.6 * share, top + 12, f"{share:.0f} %", size=12),
        ]
    return drawn


def earners(rows: Any) -> tuple[list[float], list[str]]:
    """Return the share of incomes above 50K by education, in per cent."""
    levels = ["11th", "HS-grad", "Bachelors", "Masters", "Doctorate"]
    return [100 * float((rows["income"][rows["education"] == level] == ">50K").mean()) for level in levels], levels


def half(rows: Any, title: str, colour: str, x: float) -> list[str]:
    """Return one side of the picture: some rows, and what all say of income by education."""
    return [
        f'<rect x="{x}" y="14" width="8" height="18" fill="{colour}"/>',
        text(x + 16, 29, title, size=16, font_weight="600"),
        *table_of(rows, x, 62),
        text(x, 250, "Income above 50K, by education", size=12, fill=SOFT, font_weight="600"),
        *bars_of(*earners(rows), x, 262, colour),
    ]


def write(name: str, title: str, wide: int, parts: Sequence[str]) -> None:
    """Write an SVG file of docs/images."""
    document = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {TALL}" width="{wide}" height="{TALL}" role="img" '
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n"
        f'<title>{title}</title>\n<rect width="100%" height="100%" rx="8" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
    (Path(__file__).parent / "images" / name).write_text(document, encoding="utf-8")


def main() -> None:
    """Write docs/images/real-and-synthetic.svg, and each side by itself for narrow screens."""
    real = adult()
    synthetic = sd.SyntheticRelease(schema=adult_schema(), epsilon=1.0, random_state=0).fit_transform(real)
    sides = (real, "Real: 32,561 people", REAL), (synthetic, "Synthetic (ε = 1): no real person", SYNTHETIC)
    both = [*half(*sides[0], 20), *half(*sides[1], 20 + WIDE + GAP)]
    title = "Rows of the Adult census beside synthetic rows, and what each says of income by education"
    write("real-and-synthetic.svg", title, 2 * WIDE + GAP + 40, both)
    for name, side in zip(("real-rows.svg", "synthetic-rows.svg"), sides, strict=True):
        write(name, f"{side[1]}: rows, and income by education", WIDE + 40, half(*side, 20))


if __name__ == "__main__":
    main()
