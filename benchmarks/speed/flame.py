"""Where the processor seconds of a release go, as a picture: an icicle of the functions of the package, the callers on top.

    python benchmarks/speed/flame.py adult.svg             # a release of Adult at epsilon 1, fitted and sampled
    python benchmarks/speed/flame.py small.svg --small     # twenty releases of 500 rows and 8 columns

The stack is looked at every two milliseconds of processor time.  A box's width is the time of a function and of what it
calls; boxes below 1 % are left out.  Another tree of the package is drawn by naming it first in ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import html
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY, WIDTH, ROW, LEAST = 0.002, 1100, 18, 0.01
COLOURS = ("#b8d4e8", "#cfe3c8", "#f3dfb3", "#e8c8c8", "#d8cfe8")

Stack = tuple[str, ...]


def sampled(stacks: Counter[Stack]):
    def look(_: int, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None:
            path = frame.f_code.co_filename
            if "/synthdp/" in path and not frame.f_code.co_name.startswith("<"):
                names.append(f"{Path(path).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        stacks[tuple(reversed(names))] += 1

    return look


def boxes(stacks: Counter[Stack]) -> list[tuple[int, float, float, str]]:
    """Return depth, left edge, width and name of each box; edges in parts of all time."""
    total, found = sum(stacks.values()), []

    def place(part: Counter[Stack], depth: int, left: float) -> None:
        groups: dict[str, Counter[Stack]] = {}
        for stack, times in part.items():
            if stack:
                groups.setdefault(stack[0], Counter())[stack[1:]] += times
        for name, inside in sorted(groups.items(), key=lambda item: -sum(item[1].values())):
            width = sum(inside.values()) / total
            if width >= LEAST:
                found.append((depth, left, width, name))
                place(inside, depth + 1, left)
            left += width

    place(stacks, 0, 0.0)
    return found


def drawn(stacks: Counter[Stack], seconds: float, title: str) -> str:
    found = boxes(stacks)
    height = ROW * (2 + max((depth for depth, *_ in found), default=0)) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f'<text x="2" y="13" font-size="13">{html.escape(title)}: {seconds:.2f} processor seconds</text>',
    ]
    for depth, left, width, name in found:
        x, y, wide = left * WIDTH, ROW * (depth + 1) + 4, width * WIDTH
        shown = name if len(name) * 6 < wide else name[: max(0, int(wide / 6) - 1)]
        colour = COLOURS[sum(map(ord, name.split(".")[0])) % len(COLOURS)]
        lines.append(
            f'<g><title>{html.escape(name)}: {width:.1%}</title><rect x="{x:.1f}" y="{y}" width="{wide:.1f}" '
            f'height="{ROW - 1}" fill="{colour}" stroke="white"/><text x="{x + 3:.1f}" y="{y + 12}">{html.escape(shown)}'
            "</text></g>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    import synthdp as sd

    if options.small:
        from guard import table_of

        table, schema = table_of(500, 8)
    else:
        from synthdp.data import adult, adult_schema

        table, schema = adult(), adult_schema()

    def work() -> None:
        release = sd.SyntheticRelease(schema=schema, epsilon=1.0, random_state=0).fit(table)
        release.sample(random_state=0)

    work()  # imports and public tables are no part of it
    stacks: Counter[Stack] = Counter()
    signal.signal(signal.SIGPROF, sampled(stacks))
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    start, times = time.process_time(), 20 if options.small else 1
    for _ in range(times):
        work()
    seconds = time.process_time() - start
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    title = options.title or ("500 rows of 8 columns" if options.small else "Adult, ε = 1, fit and sample")
    Path(options.path).write_text(drawn(stacks, seconds / times, title), encoding="utf-8")
    print(f"{options.path}: {seconds / times:.3f} s, {sum(stacks.values())} looks")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
