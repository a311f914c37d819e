"""The folder to publish: from the release alone, whole or not at all, and each description fits what it describes."""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import json
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.cli.main import main
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.dossier import FILES, check_folder, kept_release, publish_folder, write_folder
from synthdp.errors import DataError, ParameterError
from synthdp.queries.marginals import Marginals
from synthdp.report.guidelines import (
    LABEL_SCHEMA,
    About,
    as_yaml,
    cell_sizes,
    office_words,
    privacy_label,
    registry_entry,
)

TABLE = pd.DataFrame({
    "member": [True, False] * 200,
    "age": [*range(40)] * 10,
    "town": ["a, b", 'c"d', None, "e"] * 100,
    "seen": [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-02-03")] * 200,
})  # fmt: skip
SCHEMA = sd.Schema({
    "member": sd.Boolean(),
    "age": sd.Integer(0, 99, source="a law"),
    "town": sd.Categorical(["a, b", 'c"d', "e"], nullable=True),
    "seen": sd.Date("2020-01-01", "2020-12-31"),
})  # fmt: skip
REGISTRY = {"url_slug", "status", "tier", "deployment"}
PARTS = {
    "basic", "dp_variant", "privacy_loss", "deployment_model", "accounting", "implementation", "administrative",
}  # fmt: skip
BASIC = {
    "name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
    "publication_date",
}  # fmt: skip


def settings(**more: object) -> sd.SyntheticRelease:
    return sd.SyntheticRelease(**{"schema": SCHEMA, "epsilon": 1.0, **more})


@pytest.fixture(scope="module")
def release() -> sd.Release:
    return settings().fit(TABLE).release_


@pytest.fixture(scope="module")
def folder(release: sd.Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("published") / "out"
    write_folder(release, place, about=About(title="T", publisher="An office", date="2026-01-31"), random_state=0)
    return place


def test_every_file_is_there_is_named_in_the_readme_and_has_its_checksum(folder: Path) -> None:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "synthetic.csv", "README.md", "release/release.json", "release/arrays.npz", *(set(FILES) - {"release/"}),
    }  # fmt: skip
    readme = (folder / "README.md").read_text("utf-8")
    assert all(f"`{name}`" in readme for name in [*FILES, "synthetic.csv"])
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in found - {"SHA256SUMS"}}


def test_the_folder_comes_from_the_release_alone(folder: Path, release: sd.Release, tmp_path: Path) -> None:
    again = sd.load(folder / "release")
    write_folder(
        again, tmp_path / "out", about=About(title="T", publisher="An office", date="2026-01-31"), random_state=0
    )
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".npz" and path.name not in ("SHA256SUMS", "release.json"):
            assert path.read_bytes() == (tmp_path / "out" / path.relative_to(folder)).read_bytes(), path.name


def test_the_data_package_says_what_the_table_holds(folder: Path) -> None:
    package = json.loads((folder / "datapackage.json").read_text("utf-8"))
    (resource,) = package["resources"]
    table = pd.read_csv(folder / resource["path"], dtype=str, keep_default_na=False)
    assert resource["rows"] == len(table)
    assert resource["bytes"] == (folder / resource["path"]).stat().st_size
    fields = {field["name"]: field for field in resource["schema"]["fields"]}
    assert list(fields) == list(table.columns)
    assert {name: field["type"] for name, field in fields.items()} == {
        "member": "boolean", "age": "integer", "town": "string", "seen": "date",
    }  # fmt: skip
    for name, field in fields.items():
        rules, values = field["constraints"], table[name]
        assert not (rules["required"] and (values == "").any())
        assert set(values) <= {*rules.get("enum", values), ""}
        if "minimum" in rules:
            assert values.astype(int).between(rules["minimum"], rules["maximum"]).all()
    assert set(table["member"]) <= {*fields["member"]["trueValues"], *fields["member"]["falseValues"]}


def test_the_dictionary_names_levels_and_what_may_be_missing(folder: Path) -> None:
    with (folder / "dictionary.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["column"]: row for row in csv.DictReader(file)}
    assert rows["town"]["levels"] == 'a, b | c"d | e'
    assert rows["town"]["missing"].startswith("may be missing")
    assert rows["age"]["missing"] == "never missing"
    assert rows["age"]["known_from"] == "a law"


def test_the_registry_entry_has_the_fields_that_the_registry_asks_for(release: sd.Release) -> None:
    entry = registry_entry(release, About(), fingerprint="f" * 16, columns=4)
    assert set(entry) == REGISTRY
    assert set(entry["deployment"]) == PARTS
    assert set(entry["deployment"]["basic"]) >= BASIC
    assert entry["deployment"]["dp_variant"]["variant_name"] == "Approximate DP"
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-9}
    assert entry["deployment"]["administrative"]["registry_authors"]


def test_yaml_is_read_back_as_it_was_meant(release: sd.Release) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads what we write")
    entry = registry_entry(release, About(title='a: "b" #c', use="1e5"), fingerprint="0" * 16, columns=4)
    assert yaml.safe_load(as_yaml(entry)) == entry


@pytest.mark.parametrize("more", [{}, {"delta": 0.0}, {"neighbors": "replace_one"}])
def test_the_label_is_what_its_schema_describes(release: sd.Release, folder: Path, more: dict[str, object]) -> None:
    check = pytest.importorskip("jsonschema", reason="jsonschema knows whether a label fits").Draft202012Validator
    schema = json.loads((folder / LABEL_SCHEMA).read_text("utf-8"))
    check.check_schema(schema)
    label = json.loads((folder / "privacy-label.json").read_text("utf-8"))
    if more:
        label = privacy_label(settings(**more).fit(TABLE).release_, About(contact="me"), fingerprint="0" * 16)
    check(schema).validate(json.loads(json.dumps(label)))
    for part in ("who", "what", "how", "how_often"):
        assert not check(schema).is_valid({**label, part: {}})
        assert not check(schema).is_valid({**label, part: {**label[part], "another": "x"}})


@pytest.mark.filterwarnings("ignore:epsilon:UserWarning")
def test_tables_of_other_cells_of_the_same_column_are_not_combined(release: sd.Release) -> None:
    axis = Axis("age", sd.Integer(0, 99), [0, 10, 20, 30], [0, 1, 2, 3])
    halves = Axis("age", sd.Integer(0, 99), [0, 20], [0, 1])
    known = next(one for one in release.measurements if isinstance(one.queries, Marginals) and one.stddev > 0)

    def measured(*axes: Axis) -> list[object]:
        return [
            replace(known, queries=Marginals(Domain((one,)), ((0,),)), values=np.zeros(one.size, int)) for one in axes
        ]

    def least(*axes: Axis) -> float:
        return cell_sizes(replace(release, measurements=measured(*axes)))[0].stddev

    assert least(axis, halves) == pytest.approx(known.stddev)
    assert least(axis, axis) == pytest.approx(known.stddev / math.sqrt(2))


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore:epsilon:UserWarning")
def test_k_is_the_quantile_of_the_noise_of_the_best_measured_table(release: sd.Release) -> None:
    sizes = cell_sizes(release)
    ones = [
        one
        for one in release.measurements
        if type(one.queries).__name__ == "Marginals" and len(one.queries.cliques) > 1
    ]
    least = min(one.stddev for one in ones)
    assert sizes[0].order == 1
    assert sizes[0].stddev <= least
    assert sizes[0].k == math.ceil(NormalDist().inv_cdf(0.95) * sizes[0].stddev)
    assert f"below {min(size.k for size in sizes)} people" in office_words(release)[0]
    strong = cell_sizes(settings(epsilon=10.0).fit(TABLE).release_)
    assert strong[0].k < sizes[0].k


def test_a_signature_is_verified_by_its_own_program(release: sd.Release, tmp_path: Path) -> None:
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        pytest.skip("needs ssh-keygen")
    key = tmp_path / "key"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    write_folder(release, tmp_path / "out", about=About(date="2026-01-31"), key=key)
    (tmp_path / "signers").write_text(f"office {(tmp_path / 'key.pub').read_text()}")
    command = [keygen, "-Y", "verify", "-f", tmp_path / "signers", "-I", "office", "-n", "synthdp"]
    sums = (tmp_path / "out" / "SHA256SUMS").read_bytes()
    for text, code in ((sums, 0), (sums + b"x", 255)):
        done = subprocess.run(
            [*command, "-s", tmp_path / "out" / "SHA256SUMS.sig"], input=text, capture_output=True, check=False
        )
        assert done.returncode == code


def test_a_paid_release_is_kept_when_its_folder_cannot_be_written(tmp_path: Path, monkeypatch) -> None:
    book, place = sd.Ledger(tmp_path / "l.sqlite"), tmp_path / "out"

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("synthdp.dossier.evidence_files", full)
        with pytest.raises(DataError, match="out'"):
            publish_folder(TABLE, settings(ledger=book.path), place, about=About())
    assert (place.exists(), kept_release(place).exists()) == (False, True)
    write_folder(sd.load(kept_release(place)), place, about=About())
    assert (place / "SHA256SUMS").exists()
    assert len(book.entries()) == 1


@pytest.mark.parametrize(
    ("error", "more"),
    [
        (ParameterError, {"about": About(sector="Magic")}),
        (ParameterError, {"about": About(date="today")}),
        (ParameterError, {"ending": ".txt"}),
        (ParameterError, {"key": Path("no-such-key")}),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_spend(tmp_path: Path, error, more) -> None:
    book = sd.Ledger(tmp_path / "l.sqlite")
    with pytest.raises(error):
        publish_folder(TABLE, settings(ledger=book.path), tmp_path / "out", **{"about": About(), **more})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(DataError):
        publish_folder(TABLE, settings(ledger=book.path), tmp_path / "mine", about=About())
    assert (book.entries(), (tmp_path / "mine" / "letter.txt").exists()) == ([], True)


def test_the_command_publishes_a_table_and_then_its_release(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    SCHEMA.write("s.json")
    done = CliRunner().invoke(main, ["publish", "t.csv", "--schema", "s.json", "--out", "first", "--json"])
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "s.json", "t.csv"]
    assert CliRunner().invoke(main, ["publish", "first/release", "--out", "second"]).exit_code == 0
    assert json.loads(done.stdout)["rows"] == len(pd.read_csv("second/synthetic.csv"))
    assert CliRunner().invoke(main, ["publish", "t.csv", "--out", "third"]).exit_code == 2


@given(st.dates())
def test_every_day_of_the_calendar_may_be_the_date_of_publication(day: dt.date) -> None:
    check_folder(Path("no such folder"), About(date=day.isoformat()), ending=".csv", key=None)


@pytest.mark.parametrize(
    "date",
    [
        "2026-13-45", "2026-1-234", "2026-02-30", "2025-02-29", "0000-01-01", "20260131", "2026-W05-6", "2026-031",
        "2026-01-31T00:00", " 2026-01-31", "2026-01-31\n", "26-01-31", "٢٠٢٦-٠١-٣١", "",
    ],
)  # fmt: skip
def test_a_date_that_is_no_day_is_refused(date: str) -> None:
    with pytest.raises(ParameterError, match="date"):
        check_folder(Path("no such folder"), About(date=date), ending=".csv", key=None)
