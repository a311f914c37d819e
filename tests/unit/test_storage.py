"""R16: a release's folder is read whole and unchanged, or refused in one sentence; nothing in it is ever run."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mechanism_cases import CASES

from synthdp import (
    ApproxDP,
    Boolean,
    Curator,
    Integer,
    L1Fit,
    LaplaceAnswers,
    Schema,
    SyntheticRelease,
    load,
    release_files,
)
from synthdp.arrays import packed
from synthdp.domain.domain import domain_of
from synthdp.errors import DataError, FormatError, ParameterError
from synthdp.queries.linear import Subset
from synthdp.queries.marginals import one_ways
from synthdp.release import save
from synthdp.release_files import fingerprint

SCHEMA = Schema({"n": Integer(0, 9), "b": Boolean()})
TABLE = pd.DataFrame({"n": np.arange(60) % 10, "b": np.arange(60) % 3 == 0})


def test_a_file_of_arrays_holds_these_arrays_and_nothing_that_only_a_pickle_could_keep():
    """NumPy 2.0 takes the setting allow_pickle for one more array."""
    with np.load(io.BytesIO(packed({"a0": np.arange(3), "a1": np.array(["x"])})), allow_pickle=False) as file:
        assert file.files == ["a0", "a1"]
    with pytest.raises(TypeError, match="a1"):
        packed({"a1": np.array([None])})


def released(**options) -> SyntheticRelease:
    return SyntheticRelease(schema=SCHEMA, random_state=0, **options).fit(TABLE)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "r"
    released().save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A copy of a release that may be damaged."""
    made = tmp_path / "r"
    made.mkdir()
    for name in ("release.json", "arrays.npz"):
        (made / name).write_bytes((saved / name).read_bytes())
    return made


def change(folder: Path, **fields) -> None:
    """Write other fields into the document."""
    document = json.loads((folder / "release.json").read_text())
    (folder / "release.json").write_text(json.dumps(document | fields))


def pack(folder: Path, content: bytes) -> None:
    """Write other arrays, with the right checksum."""
    (folder / "arrays.npz").write_bytes(content)
    change(folder, arrays_sha256=hashlib.sha256(content).hexdigest())


MECHANISMS = {
    "graphical": "auto",
    "explicit": L1Fit(support=30),
    "explicit, trigonometric": L1Fit(support=30, basis="trigonometric"),
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_release_reads_back_as_it_was(mechanism, tmp_path):
    made = released(mechanism=mechanism)
    made.save(tmp_path / "r")
    again = load(tmp_path / "r")
    assert fingerprint(again) == fingerprint(made.release_)
    assert str(again.receipt) == str(made.receipt_)
    assert again.loss == made.release_.loss
    pd.testing.assert_frame_equal(again.sample(30, random_state=1), made.release_.sample(30, random_state=1))
    assert [type(one.queries) for one in again.measurements] == [
        type(one.queries) for one in made.release_.measurements
    ]
    for one, other in zip(again.measurements, made.release_.measurements, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        assert (one.noise, one.resolution) == (other.noise, other.resolution)


@pytest.mark.parametrize("name", ["SmoothSynthesis product", "AdaptiveMarginals", "Automatic"])
def test_the_files_of_every_synthetic_model_read_back(name, tmp_path):
    release, _ = CASES[name].release(CASES[name].world.table)
    save(release, tmp_path / "r")
    again = load(tmp_path / "r")
    assert fingerprint(again) == fingerprint(load(tmp_path / "r"))
    pd.testing.assert_frame_equal(again.sample(20, random_state=2), release.sample(20, random_state=2))


def test_any_part_that_differs_changes_the_fingerprint(folder):
    first = fingerprint(load(folder))
    change(folder, total=61.5)
    assert fingerprint(load(folder)) != first
    assert len(first) == 16


class Bomb:
    """What a pickle would run."""

    ran = False

    def __reduce__(self):
        return setattr, (Bomb, "ran", True)


def test_nothing_in_the_arrays_is_unpickled(folder):
    packed = io.BytesIO()
    np.savez(packed, a0=np.array([Bomb()], dtype=object), allow_pickle=True)
    pack(folder, packed.getvalue())
    with pytest.raises(FormatError, match=r"arrays\.npz"):
        load(folder)
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        archive.writestr("a0.npy", pickle.dumps(Bomb()))
    pack(folder, packed.getvalue())
    with pytest.raises(FormatError):
        load(folder)
    assert not Bomb.ran


def test_a_zip_bomb_is_refused_before_it_is_unpacked(folder, monkeypatch):
    with zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a0.npy", bytes(10**6))
    pack(folder, packed.getvalue())
    monkeypatch.setattr(release_files, "_check_size", lambda size, name, most=10**5: original(size, name, most))
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(FormatError, match=r"arrays\.npz.*100,000"):
        load(folder)


original = release_files._check_size


def test_an_array_that_says_it_is_huge_is_refused(folder):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**50,)})
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        archive.writestr("a0.npy", header.getvalue())
    pack(folder, packed.getvalue())
    with pytest.raises(FormatError, match=r"arrays\.npz"):
        load(folder)


def test_a_document_beyond_the_limit_is_refused_unread(folder, monkeypatch):
    monkeypatch.setattr(release_files, "MOST_DOCUMENT_BYTES", 100)
    with pytest.raises(FormatError, match=r"release\.json.*\b100\b"):
        load(folder)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("name", ["release.json", "arrays.npz"])
def test_a_file_that_was_cut_off_is_refused(name, share, folder):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(share * len(content))])
    with pytest.raises(FormatError):
        load(folder)


def test_a_bit_that_flipped_is_noticed(folder):
    content = bytearray((folder / "arrays.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "arrays.npz").write_bytes(bytes(content))
    with pytest.raises(FormatError, match=r"arrays\.npz.*release\.json"):
        load(folder)


@pytest.mark.parametrize("version", [0, 3, "1", True, 1.0, None])
def test_a_release_of_another_version_says_so(version, folder):
    change(folder, synthdp_release=version)
    with pytest.raises(FormatError, match=f"version.*{version!r}"):
        load(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[" * 100_000, "\x00"])
def test_a_document_of_something_else_is_refused(text, folder):
    (folder / "release.json").write_text(text)
    with pytest.raises(FormatError):
        load(folder)


CONTRADICTIONS = {
    "no schema": {"schema": {}},
    "another domain": {"domain": 7},
    "no refinements": {"refinements": []},
    "a distribution of no kind": {"distribution": {"kind": "dreamt", "shape": [1]}},
    "a distribution of another shape": {"distribution": {"kind": "product", "shape": [1], "margins": []}},
    "a loss of no kind": {"loss": {"kind": "FreeDP"}},
    "a receipt of nothing": {"receipt": {}},
    "a total of words": {"total": "many"},
    "measurements of nobody": {"measurements": [{"queries": {"kind": "total", "domain": 9}}]},
}


@pytest.mark.parametrize("fields", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_document_that_contradicts_itself_is_refused_in_one_sentence(fields, folder):
    change(folder, **fields)
    with pytest.raises(FormatError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(FormatError, match="nowhere"):
        load(tmp_path / "nowhere")


def test_what_is_no_release_is_never_overwritten(tmp_path):
    place = tmp_path / "work"
    place.mkdir()
    (place / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="work'"):
        released().save(place)
    assert (place / "thesis.txt").read_text() == "years of work"


def test_a_release_is_replaced_whole_and_nothing_is_left_beside_it(folder):
    before = (folder / "release.json").read_bytes()
    released().save(folder)
    assert (folder / "release.json").read_bytes() != before
    assert [path.name for path in folder.parent.iterdir()] == ["r"]


def test_what_no_file_could_hold_is_refused_before_anything_is_spent(tmp_path):
    curator = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-6))
    with pytest.raises(ParameterError, match="HomeMade"):
        LaplaceAnswers(HomeMade(one_ways(domain_of(SCHEMA)), np.arange(2))).release(curator)
    assert curator.remaining == ApproxDP(1.0, 1e-6)
    release = LaplaceAnswers(one_ways(domain_of(SCHEMA))).release(curator)
    for field in (
        {"output": object()},
        {"measurements": (dataclasses.replace(release.measurements[0], queries=Bomb()),)},
    ):
        with pytest.raises(ParameterError, match="class"):
            dataclasses.replace(release, **field).save(tmp_path / "r")
    assert not (tmp_path / "r").exists()


class HomeMade(Subset):
    """Queries of a class that a user wrote, and of which files know no name."""


def test_a_small_release_asks_for_little_memory_whatever_the_limits(folder, monkeypatch):
    monkeypatch.setattr(release_files, "MOST_ARRAY_BYTES", 2**62)
    monkeypatch.setattr(release_files, "MOST_DOCUMENT_BYTES", 2**62)
    assert load(folder).sample(3).shape == (3, 2)
