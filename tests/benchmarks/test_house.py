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
