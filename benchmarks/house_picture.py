"""The rooms of the package and the imports between them as a picture: an earlier tree beside this one.

    git archive 5092753 | tar -x -C OLD        # a folder for the earlier tree
    python benchmarks/house_picture.py OLD docs/decisions/images/house.svg

A room is a folder directly below the package; files at the top of the package are left out.  Its area is in proportion to
its code lines.  Rooms stand in the order of the layers' contract of this tree, the highest first.  Arrows are on the left if
they go down, which the contract allows, and red and on the right if they go up.  Their width grows with the number of files
that import.
"""

from __future__ import annotations

import argparse
import ast
import math
import tomllib
from collections import Counter
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from house import ROOT, code_lines, imports_of
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch

AREA = 3e-5
"""Area of a code line, in rows of the picture squared: the largest room touches its neighbours."""


def rooms_of(root: Path) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Return the code lines of each room, and for each two rooms the number of files of the first that import the second."""
    paths = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / "synthdp").rglob("*.py"))
    }
    lines, arrows = Counter[str](), Counter[tuple[str, str]]()
    for path in paths.values():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        room = _room(root, path)
        if room is None:
            continue
        lines[room] += len(code_lines(text, tree))
        others = {_room(root, paths[one]) for one in imports_of(tree, paths, ast.walk(tree)) if one in paths}
        arrows.update((room, other) for other in others - {room, None} if other is not None)
    return lines, arrows


def _room(root: Path, path: Path) -> str | None:
    """Return the folder below the package in which a file is; ``None`` at the top."""
    folder, *deeper = path.relative_to(root / "synthdp").parts
    return folder if deeper else None


def order_of(root: Path) -> list[str]:
    """Return the names of the layers' contract, from the highest to the lowest."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    return [name.strip().removeprefix("synthdp.") for line in layers for name in line.split("|")]


def draw(axes: Axes, root: Path, order: list[str], title: str) -> None:
    """Draw the rooms of a tree, one below the other, and the arrows between them."""
    lines, arrows = rooms_of(root)
    rooms = sorted(lines, key=lambda room: order.index(room) if room in order else len(order))
    place = {room: -row for row, room in enumerate(rooms)}
    for (a, b), many in sorted(arrows.items()):
        up = place[b] > place[a]
        axes.add_patch(FancyArrowPatch(
            (0, place[a]), (0, place[b]), connectionstyle="arc3,rad=0.5", arrowstyle="-|>", shrinkA=9, shrinkB=9,
            mutation_scale=6, linewidth=0.3 + 0.25 * math.sqrt(many), color="#c0392b" if up else "#7f8c8d",
            alpha=0.9 if up else 0.45,
        ))  # fmt: skip
    for room, row in place.items():
        axes.add_patch(Circle((0, row), math.sqrt(AREA * lines[room] / math.pi) + 0.12, color="#2c3e50", zorder=3))
        axes.text(0.7, row, f"{room}, {lines[room]}", va="center", fontsize=8, zorder=4)
    ups = sum(place[b] > place[a] for a, b in arrows)
    axes.set_title(f"{title}\n{len(rooms)} rooms, {len(arrows)} arrows, {ups} up", fontsize=9)
    axes.set_xlim(-5.5, 4.5)
    axes.set_ylim(-len(rooms), 1)
    axes.set_aspect("equal")
    axes.axis("off")


def main() -> None:
    """Draw both trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    mpl.rcParams.update({"svg.hashsalt": "house", "svg.fonttype": "none"})
    figure, panels = plt.subplots(1, 2, figsize=(8, 7.5))
    order = order_of(ROOT)
    draw(panels[0], options.before, order, "before")
    draw(panels[1], ROOT, order, "now")
    figure.tight_layout()
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
