"""What is written takes the place of what was there whole, or leaves it as it was with nothing beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from synthdp.files import replacing, replacing_folder


def test_a_file_appears_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with replacing(path) as beside:
        beside.write_text("new")
        assert (path.read_text(), beside.suffix, beside.parent) == ("old", ".csv", tmp_path)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_file_that_could_not_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(TypeError), replacing(path) as beside, beside.open("w") as file:
        file.writelines(["ne", None])
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["table.csv"]


@pytest.mark.skipif(os.name == "nt", reason="permissions are POSIX's")
def test_a_file_has_the_permissions_that_the_process_gives_new_files(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "table.csv"):
        pass
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "table.csv")]
    assert modes[0] == modes[1]


@pytest.mark.skipif(os.name == "nt", reason="there is no /dev/null")
def test_a_device_is_written_and_stays() -> None:
    with replacing(Path(os.devnull)) as given:
        given.write_text("gone")
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("there", [(), ("old",)])
def test_a_folder_that_cannot_be_moved_leaves_what_was_there(tmp_path: Path, monkeypatch, there) -> None:
    folder = tmp_path / "a.release"
    for name in there:
        folder.mkdir()
        (folder / name).touch()
    moved = Path.rename

    def refused(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError(28, "No space left on device")
        return moved(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(OSError, match=r"\b28\b"), replacing_folder(folder) as fresh:
        (fresh / "document").touch()
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) == list(there)
    assert len(os.listdir(tmp_path)) == len(there)


def test_a_folder_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "a.release"
    for name in ("first", "second"):
        with replacing_folder(folder) as fresh:
            (fresh / name).touch()
        assert os.listdir(folder) == [name]
    assert os.listdir(folder.parent) == ["a.release"]
