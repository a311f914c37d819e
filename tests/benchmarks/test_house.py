"""The shape of the package in figures: the listed new features are of this tree."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.style
def test_new_features_are_files_and_definitions_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import house

    try:
        counted = house.same_features(ROOT, house.new_features())
    finally:
        del sys.modules["house"]
    files, lines = counted["files, code lines of all features"]
    assert 300 < counted["files of the features that 5092753 had"] < files
    assert 30_000 < counted["code lines of them"] < lines


@pytest.mark.style
def test_the_picture_draws_every_room_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import house_picture

    monkeypatch.setattr(sys, "argv", ["house_picture.py", str(ROOT), str(tmp_path / "new" / "house.svg")])
    try:
        house_picture.main()
        lines, arrows = house_picture.rooms_of(ROOT)
    finally:
        for name in ("house_picture", "house"):
            del sys.modules[name]
    drawn = (tmp_path / "new" / "house.svg").read_text()
    assert all(drawn.count(f"{room}, {many}<") == 2 for room, many in lines.items())  # both trees are this one
    assert drawn.count(f"{len(lines)} rooms, {len(arrows)} arrows, 0 up") == 2
