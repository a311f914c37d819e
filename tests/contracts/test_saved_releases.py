"""One contract for every mechanism: its release can be written, read back and asked the same, or refused in one sentence."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from mechanism_cases import CANARY, CASES, SPARSE, outputs

import synthdp as sd
from synthdp import conjunction, load, marginal, save, smooth
from synthdp.cli.main import main
from synthdp.errors import FormatError, ParameterError
from synthdp.release_files import fingerprint

pytestmark = pytest.mark.filterwarnings("ignore:the noise in each average:UserWarning")

SAVED = list(CASES)
TABLES = ("SmoothSynthesis", "AdaptiveMarginals", "Automatic", "L1Fit")
"""Whose output is a synthetic model: its file form is older, and leaves out what can be worked out again."""
BARE = [name for name in SAVED if not name.startswith(TABLES)]
ENUMERABLE = marginal("b0", "b1")
INPUTS = [dict.fromkeys(["v0", "v1", "v2", "v3"], value) for value in (0, 1)]
QUESTIONS = {
    "ParityRelease": conjunction({"b0": 1, "b2": 0}),
    "MonomialRelease": conjunction({"b0": 1, "b2": 0}),
    "DecisionListRelease": INPUTS,
    "SmoothSummary": smooth(lambda x: (x**2).sum(axis=1)),
    "DecisionListRelease long": INPUTS,
    "PolynomialRelease": [{"p": 0, "q": 1}, {"p": 1, "q": 1}],
    "PolynomialRelease symmetric": conjunction({"b0": 1, "b2": 0}),
    "PolynomialRelease average": conjunction({"b0": 1, "b2": 1}),
    **dict.fromkeys((name for name in CASES if name.startswith(("Sparse", "Stability"))), SPARSE[2]),
    **dict.fromkeys(("SmoothSynthesis product", "SmoothSynthesis practical", "Automatic"), marginal("x", bins=4)),
    **dict.fromkeys(("SmoothSynthesis exact", "L1Fit trigonometric"), marginal("x", bins=4)),
}


def question(name):
    return QUESTIONS.get(name, ENUMERABLE)


@pytest.fixture(scope="module")
def released():
    """Return the release of a case, made once."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = CASES[name].release(CASES[name].world.table)[0]
        return made[name]

    return of


@pytest.mark.sampled
@pytest.mark.parametrize("name", BARE)
def test_an_output_reads_back_to_the_last_bit(name, released, tmp_path):
    release = released(name)
    save(release, tmp_path / "r")
    assert outputs(load(tmp_path / "r").output) == outputs(release.output)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", SAVED)
def test_a_release_reads_back_with_all_that_it_tells(name, released, tmp_path):
    release = released(name)
    save(release, tmp_path / "r")
    again = load(tmp_path / "r")
    assert type(again.output) is type(release.output)
    assert [outputs(one.values) for one in again.measurements] == [outputs(one.values) for one in release.measurements]
    assert (again.mechanism, again.loss, str(again.receipt)) == (release.mechanism, release.loss, str(release.receipt))
    assert fingerprint(again) == fingerprint(load(tmp_path / "r"))


@pytest.mark.sampled
@pytest.mark.parametrize("name", SAVED)
def test_a_saved_release_gives_the_same_answers(name, released, tmp_path):
    release = released(name)
    save(release, tmp_path / "r")
    first, again = (one.answer(question(name)) for one in (release, load(tmp_path / "r")))
    assert outputs(first) == outputs(again)
    assert outputs(first) != outputs(None)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_the_files_of_a_release_hold_no_value_that_only_one_row_has(name, tmp_path):
    case = CASES[name]
    _, table = case.world.neighbours(min(case.world.strange), "add_remove")
    table.iloc[-1, 0] = CANARY
    save(case.release(table)[0], tmp_path / "r")
    with zipfile.ZipFile(tmp_path / "r" / "arrays.npz") as archive:
        unpacked = [archive.read(one) for one in archive.namelist()]
    assert not any(CANARY.encode() in one for one in [(tmp_path / "r" / "release.json").read_bytes(), *unpacked])


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", SAVED)
def test_no_array_of_a_release_is_a_pickle(name, released, tmp_path):
    save(released(name), tmp_path / "r")
    with np.load(tmp_path / "r" / "arrays.npz", allow_pickle=False) as arrays:
        assert all(arrays[one].dtype.kind in "biuf" for one in arrays.files)


@pytest.mark.parametrize("name", SAVED)
def test_a_marginal_is_answered_or_refused_in_one_sentence(name, released):
    """Never by an error of the language, whatever the output is made for."""
    said = answered(released(name), CASES[name].world.table.columns[0])
    assert "\n" not in said
    assert len(said) > 5


def answered(release, column):
    """Return the answer as a text, or the refusal."""
    try:
        return str(np.asarray(release.answer(marginal(column))).tolist())
    except ParameterError as refusal:
        return str(refusal)


def sealed(folder, document):
    """Write a document with the checksum that belongs to it."""
    document = {key: value for key, value in document.items() if key != "content_sha256"}
    content = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    (folder / "release.json").write_text(json.dumps({**document, "content_sha256": content}))


def places(document, path=()):
    """Return the path to every part of a document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(deeper for key, part in inner for deeper in places(part, (*path, key)))]


def replaced(document, path, value):
    """Return a document with another value at a path."""
    changed = json.loads(json.dumps(document))
    part = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return changed


@pytest.fixture(params=["StabilityHistogram", "SparseWeights", "ParityRelease", "NetMechanism"])
def folder(request, released, tmp_path):
    save(released(request.param), tmp_path / "r")
    return tmp_path / "r"


@pytest.mark.sampled
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("file", ["release.json", "arrays.npz"])
def test_a_file_that_was_cut_off_is_refused_in_one_sentence(file, share, folder):
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: int(share * len(content))])
    with pytest.raises(FormatError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_number_that_was_changed_is_noticed(folder):
    document = json.loads((folder / "release.json").read_text())
    (folder / "release.json").write_text(json.dumps({**document, "mechanism": "another"}))
    with pytest.raises(FormatError, match="checksum"):
        load(folder)


WRONG = [None, -1, "a text", [], {"kind": "object"}, {"kind": "CellQueries"}]


def outcome(folder):
    try:
        return type(load(folder)).__name__
    except FormatError as refusal:
        return str(refusal).count("\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", BARE)
def test_whatever_a_sealed_document_says_a_release_or_one_sentence_comes_of_it(name, released, tmp_path):
    """No error of the language: parts all over it are replaced by values of other types."""
    save(released(name), tmp_path / "r")
    document = json.loads((tmp_path / "r" / "release.json").read_text())
    seen = set()
    found = places({key: document[key] for key in ("output", "measurements", "domains")})[1:]
    for path in found[:: max(1, len(found) // 40)]:
        for value in WRONG:
            sealed(tmp_path / "r", replaced(document, path, value))
            seen.add(outcome(tmp_path / "r"))
    assert seen <= {"Release", 0}
    assert 0 in seen


@pytest.mark.parametrize("kind", ["Curator", "Schema", "object", "os.system"])
def test_no_class_but_those_with_a_form_is_made_by_a_file(kind, folder):
    document = json.loads((folder / "release.json").read_text())
    sealed(folder, {**document, "output": {**document["output"], "kind": kind}})
    with pytest.raises(FormatError, match=r"type|class"):
        load(folder)


def test_arrays_of_other_numbers_are_refused(released, tmp_path):
    folder = tmp_path / "r"
    save(released("ParityRelease"), folder)
    with np.load(folder / "arrays.npz") as arrays:
        others = {name: np.full(arrays[name].shape, "x") for name in arrays.files}
    packed = io.BytesIO()
    np.savez(packed, **others)
    (folder / "arrays.npz").write_bytes(packed.getvalue())
    document = json.loads((folder / "release.json").read_text())
    sealed(folder, {**document, "arrays_sha256": hashlib.sha256(packed.getvalue()).hexdigest()})
    with pytest.raises(FormatError):
        load(folder)


@pytest.mark.sampled
@pytest.mark.parametrize("name", SAVED)
def test_what_draws_rows_draws_them_into_a_file_too(name, released, tmp_path):
    output = released(name).output
    assert hasattr(output, "sample_to") == hasattr(output, "sample")
    if hasattr(output, "sample_to"):
        output.sample_to(tmp_path / "rows.csv", rows=5, random_state=0)
        assert len((tmp_path / "rows.csv").read_text().splitlines()) == 6


def test_the_command_line_draws_rows_of_any_table_asks_any_release_and_refuses_the_rest_in_one_line(released, tmp_path):
    for name in ("NetMechanism", "ParityRelease", "StabilityHistogram"):
        save(released(name), tmp_path / name)
    run = CliRunner().invoke
    for name in ("NetMechanism", "ParityRelease"):
        rows = tmp_path / f"{name}.csv"
        drawn = run(main, ["sample", str(tmp_path / name), "--rows", "5", "--out", str(rows)])
        assert (drawn.exit_code, len(rows.read_text().splitlines())) == (0, 6)
    asked = run(main, ["answer", str(tmp_path / "NetMechanism"), "--marginal", "b0"])
    assert (asked.exit_code, "standard_error" in asked.output) == (0, True)
    refused = run(
        main, ["sample", str(tmp_path / "StabilityHistogram"), "--rows", "5", "--out", str(tmp_path / "no.csv")]
    )
    shown = run(main, ["report", str(tmp_path / "NetMechanism"), "--out", str(tmp_path / "page.html")])
    assert [one.exit_code for one in (refused, shown)] == [2, 2]
    assert not any("Traceback" in one.output for one in (refused, asked, shown))


def test_the_command_line_releases_answers_without_a_table_and_asks_them(tmp_path):
    pd.DataFrame({"a": [True, False] * 200, "n": range(400)}).to_csv(tmp_path / "t.csv", index=False)
    sd.Schema({"a": sd.Boolean(), "n": sd.Integer(0, 399)}).write(tmp_path / "s.json")
    release = ["release", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.json"), "--epsilon", "5"]
    of_answers = [*release, "--mechanism", "smooth_summary", "--option", "degrees=3"]
    ledger = ["--ledger", str(tmp_path / "l.sqlite"), "--dataset", "d"]
    run = CliRunner().invoke
    for wrong in ([*of_answers, *ledger], [*of_answers, "--out", "x.csv", "--save", "x", *ledger], [*release, *ledger]):
        assert run(main, wrong).exit_code == 2
    assert not (tmp_path / "l.sqlite").exists()
    places = ["--save", str(tmp_path / "r"), "--receipt", str(tmp_path / "receipt.json")]
    made = run(main, [*of_answers, *places, *ledger])
    assert made.exit_code == 0, made.output
    assert "total" in (tmp_path / "receipt.json").read_text()
    page = ["--save", str(tmp_path / "p"), "--receipt", str(tmp_path / "receipt.html")]
    assert run(main, [*of_answers, *page]).exit_code == 0
    assert (tmp_path / "receipt.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    answer = run(main, ["answer", str(tmp_path / "r"), "--mean", "n", "--json"])
    (found,) = json.loads(answer.output)
    assert found["lower"] <= found["estimate"] <= found["upper"]
    assert run(main, ["answer", str(tmp_path / "r"), "--count", "n > 5"]).exit_code == 2
