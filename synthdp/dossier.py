"""`synthdp publish`: one folder with everything that a board and a reader need, complete or absent.

All files are made from the release alone: evidence page, README, citation and data files.  The paid release is saved
beside the folder before anything else is written.  It moves into the folder when the folder is complete, and otherwise
stays, so that nothing is paid for twice.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import synthdp as sd
from synthdp.errors import DataError, FormatError, ParameterError
from synthdp.files import replacing_folder, writing
from synthdp.markup import render
from synthdp.privacy.receipt import odds_in_words
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.publishing import receipt_text
from synthdp.randomness import RandomState
from synthdp.release import Release, save
from synthdp.release_files import DOCUMENT, check_place, fingerprint
from synthdp.report import write_report
from synthdp.report.dictionary import FIELDS, as_csv, data_package, dictionary_rows
from synthdp.report.guidelines import (
    LABEL_SCHEMA,
    PUBLISHER,
    SECTORS,
    About,
    as_yaml,
    label_schema,
    office_words,
    privacy_label,
    registry_entry,
    sp_800_226,
)
from synthdp.report.html_page import citation_of, promise_of
from synthdp.sampling.database_model import DatabaseModel
from synthdp.sampling.synthetic_model import SyntheticModel

FILES = {
    "report.html": "a report: what the synthetic table holds, and how accurate statistics of the table are expected to be",
    "evidence.html": "how the people in the real table are protected: in words, as a privacy label, along NIST SP 800-226",
    "card.html": "the privacy card: the promise, what it assumes, and what each step cost",
    "receipt.json": "the receipt: what each step cost of the privacy budget, and what the promise assumes",
    "dictionary.csv": "the data dictionary: names, types, units, levels, what may be missing",
    "datapackage.json": "the data dictionary for machines, after the Frictionless Data Package standard",
    "privacy-label.json": "the privacy label for machines",
    LABEL_SCHEMA: "the JSON Schema of the privacy label: synthdp's own, because none has been published",
    "sp800-226.csv": "what this release says to each topic of NIST SP 800-226",
    "registry-entry.yaml": "a draft entry for the registry of differential privacy deployments that OpenDP and NIST keep",
    "CITATION.cff": "how to cite this table",
    "release/": "the release itself: more rows and answers with error bars can be drawn from it, at no further privacy loss",
    "SHA256SUMS": "checksums of all files, which `sha256sum -c SHA256SUMS` compares",
}
"""Description of each published file by name, for the README."""


def evidence_files(release: Release[Any], about: About, *, fingerprint: str, table: str, rows: int) -> dict[str, str]:
    """Return the texts of all published files that need no sampling of the release, by file name.

    ``table`` and ``rows`` are the name of the file of synthetic rows and their number, for the README.
    """
    schema = release.output.schema
    label = privacy_label(release, about, fingerprint=fingerprint)
    guideline = sp_800_226(release, fingerprint=fingerprint)
    columns = dictionary_rows(schema, units=about.units, meanings=about.meanings)
    entry = registry_entry(release, about, fingerprint=fingerprint, columns=len(columns))
    page = render(
        "evidence.html", title=about.title, promise=promise_of(release.receipt), loss=release.receipt.total,
        words=office_words(release), label=_label_rows(label), guideline=guideline, dictionary=columns, heads=FIELDS,
    )  # fmt: skip
    topics = [dict(zip(("topic", "question", "answer"), line, strict=True)) for line in guideline]
    return {
        "evidence.html": page,
        "dictionary.csv": as_csv(columns, FIELDS),
        "privacy-label.json": json.dumps(label, indent=1, ensure_ascii=False) + "\n",
        LABEL_SCHEMA: label_schema(),
        "sp800-226.csv": as_csv(topics, ("topic", "question", "answer")),
        "registry-entry.yaml": as_yaml(entry),
        "CITATION.cff": _citation(about, fingerprint),
        "README.md": _readme(release, about, fingerprint=fingerprint, table=table, rows=rows),
    }


def _label_rows(label: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the privacy label as (title, lines) rows for the evidence page; titles come from the label's schema."""
    parts, rows = json.loads(label_schema())["properties"], []
    for part in ("who", "what", "how", "how_often"):
        for name, value in label[part].items():
            if value is None:
                continue
            if isinstance(value, dict):
                joined = " = " if name == "parameters" else " "
                value = ", ".join(
                    f"{key}{joined}{one:g}" if isinstance(one, float) else f"{key}{joined}{one}"
                    for key, one in value.items()
                )
            if isinstance(value, float):
                value = odds_in_words(value)
            words = f"{parts[part]['title']}: {parts[part]['properties'][name]['title']}"
            rows.append((words, value if isinstance(value, list) else [value]))
    return rows


def _citation(about: About, fingerprint: str) -> str:
    """Return the text of CITATION.cff, in YAML."""
    return as_yaml({
        "cff-version": "1.2.0",
        "type": "dataset",
        "message": "If you use this table, please cite it.",
        "title": f"{about.title} (differentially private synthetic table, release {fingerprint})",
    }) + f'authors:\n  - name: {json.dumps(about.publisher, ensure_ascii=False)}\nversion: "{fingerprint}"\n' + (
        f'date-released: "{about.date}"\n'
    )  # fmt: skip


def _readme(release: Release[Any], about: About, *, fingerprint: str, table: str, rows: int) -> str:
    """Return the text of README.md of a folder to publish: uses, limits, files and citation of the table."""
    words = office_words(release)
    public, columns = release.receipt.adjacency.rows_are_public, len(release.output.schema.outputs)
    lines = [
        f"# {about.title}",
        "",
        (
            f"A synthetic table: {'' if public else 'about '}{rows:,} made-up rows of {columns} columns, drawn from noisy "
            f"statistics of a real table. **No row is a person's.** {promise_of(release.receipt)} ({release.receipt.total})."
        ),
        "",
        f"{words[0]} The page evidence.html shows how this comparison is computed.",
        "",
        "## What it is good for",
        "",
        "- Shares, means, quantiles, and counts over one to three columns; report.html says how accurate to expect them.",
        "- Writing and testing programs before the real rows are seen; teaching; deciding whether to ask for the real rows.",
        '- Answers with error bars: `synthdp answer release --share "CONDITION"`, or `sd.load(...).answer(...)`.',
        "",
        "## What it must not be used for",
        "",
        "- To learn or decide anything about one person: each row is made up, even a row that looks like somebody.",
        "- Counts of small groups: the noise is as large as such counts.",
        "- Rare events, outliers, the largest values, and relations of four or more columns that were not measured.",
        (
            "- Standard errors and tests as if the rows were real: such errors are too small. `release.analyse` gives "
            "errors that include the noise."
        ),
        "- Joining with another table row by row: no synthetic row belongs to a real person.",
        "",
    ]
    if release.receipt.notes:
        lines += ["## What to know of this release", "", *(f"- {note}" for note in release.receipt.notes), ""]
    files = {table: "the synthetic rows", **FILES}
    lines += ["## Files", "", *(f"- `{name}`: {what}" for name, what in files.items()), "", "## How to cite", ""]
    who = "" if about.publisher == PUBLISHER else f"{about.publisher}: "
    lines += [f"{who}{about.title}. {citation_of(release, fingerprint)}", ""]
    if about.contact != PUBLISHER:
        lines += [f"Questions: {about.contact}", ""]
    if PUBLISHER in (about.publisher, about.region, about.use, about.contact):
        lines += [
            (
                f'Fields that only the publisher can fill in hold the words "{PUBLISHER}" in CITATION.cff, '
                "privacy-label.json and registry-entry.yaml."
            ),
            "",
        ]
    return "\n".join(lines)


SUMS, NAMESPACE = "SHA256SUMS", "synthdp"
"""The name of the checksum file, and the namespace of ssh-keygen signatures, which states a signature's purpose."""

BLOCK = 1 << 20
"""Bytes of a file that are read at once while its checksum is computed.  A safety limit on memory."""


def kept_release(folder: Path) -> Path:
    """Return the path of the paid release while its publication folder is being written, so that a failure loses nothing."""
    return folder.with_name(f"{folder.name}.release")


def check_folder(folder: Path, about: About, *, ending: str, key: Path | None) -> None:
    """Raise an error if a folder cannot be written or signed as asked, before anything is read or spent.

    Raises
    ------
    ParameterError
        If ``ending`` is neither .csv nor .parquet, the sector is unknown, or the date is no day.  Also if the key or
        its program is missing.
    DataError
        If there is something else at the folder's place.
    """
    if ending not in (".csv", ".parquet"):
        raise ParameterError(f"format ({ending.lstrip('.')!r}) must be csv or parquet")
    if about.sector is not None and about.sector not in SECTORS:
        raise ParameterError(f"sector ({about.sector!r}) must be one of {', '.join(SECTORS)}")
    if not _is_day(about.date):
        raise ParameterError(f"date ({about.date!r}) must be a day of the calendar, written YYYY-MM-DD")
    if folder.exists() and not (folder.is_dir() and ((folder / SUMS).is_file() or not any(folder.iterdir()))):
        raise DataError(f"'{folder}' exists and was not published by synthdp: give another path")
    check_place(kept_release(folder))
    if key is not None:
        _signing(key, Path(SUMS))


def _is_day(text: str) -> bool:
    """Return whether a text is a day of the calendar in the form YYYY-MM-DD; other forms of ISO 8601 are not."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def publish_folder(
    source: Any,
    settings: sd.SyntheticRelease,
    folder: Path,
    *,
    about: About,
    ending: str = ".csv",
    rows: int | None = None,
    key: Path | None = None,
    on_progress: ProgressCallback = silent,
) -> int:
    """Make a release of private rows and write the folder to publish; return the number of synthetic rows.

    Costs the loss of ``settings``, for its neighbours.

    Parameters
    ----------
    source
        The rows.
    settings
        The release; it is fitted.
    folder
        To write; its parents are made.
    about
        The publisher's statements about the table.
    ending
        Ending of the table's file, ``.csv`` or ``.parquet``.
    rows
        Number of rows of the synthetic table; default: the noisy estimate of the real number.
    key
        A private key to sign the checksums with, of ssh-keygen or minisign; only its first 80 bytes are read here.
    on_progress
        Called at each stage after the fit, which has a callback of its own.

    Raises
    ------
    SynthDPError
        In one sentence.  Before the spend nothing is left behind; after it the saved release, which the sentence names.
    """
    check_folder(folder, about, ending=ending, key=key)
    made = settings.fit(source)
    kept = kept_release(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made.save(kept)
    try:
        count = write_folder(
            made.release_, folder, about=about, ending=ending, rows=rows, key=key, target=settings.target,
            random_state=settings.random_state, saved=kept, on_progress=on_progress,
        )  # fmt: skip
    except DataError as error:
        raise DataError(
            f"{error}; the release is paid for and kept in '{kept}': publish the release from there"
        ) from None
    shutil.rmtree(kept, ignore_errors=True)
    return count


def write_folder(
    release: Release[Any],
    folder: Path,
    *,
    about: About,
    ending: str = ".csv",
    rows: int | None = None,
    key: Path | None = None,
    target: str | None = None,
    random_state: RandomState = None,
    table: Path | None = None,
    saved: Path | None = None,
    on_progress: ProgressCallback = silent,
) -> int:
    """Write the folder to publish of an existing release, from the release alone and at no cost; see `publish_folder`.

    Return the number of synthetic rows.  ``table`` is a file of rows that were drawn from the release before, and
    ``saved`` its saved folder; both are copied if given.
    """
    check_folder(folder, about, ending=ending, key=key)
    if isinstance(release.output, DatabaseModel):
        raise ParameterError(
            "a folder to publish is of one table, and this release is of several: write them by `synthdp sample`, and "
            "their page by `synthdp report`"
        )
    if not isinstance(release.output, SyntheticModel):
        raise ParameterError(
            f"a release by {release.mechanism} is not one synthetic table, and only a table can be published: use a "
            "mechanism that yields a table"
        )
    name, model = f"synthetic{ending}", release.output
    count = int(model.rows if rows is None else rows)
    try:
        with writing(folder), replacing_folder(folder) as fresh:
            on_progress(Progress(stage="drawing rows", done=0, total=1))
            if table is None:
                model.sample_to(fresh / name, rows=count, random_state=random_state)
            else:
                shutil.copyfile(table, fresh / name)
            short = fingerprint(release)
            for path in (fresh / "receipt.json", fresh / "card.html"):
                path.write_text(receipt_text(release, path.suffix), encoding="utf-8")
            known = target if target in model.schema.outputs else None
            write_report(
                release, fresh / "report.html", title=about.title, target=known, about=about, on_progress=on_progress
            )
            texts = evidence_files(release, about, fingerprint=short, table=name, rows=count)
            for file, text in texts.items():
                (fresh / file).write_text(text, encoding="utf-8", newline="")
            package = data_package(
                model.schema, name=f"synthdp-{short}", title=about.title, rows=count, path=name,
                digest=_digest(fresh / name), size=(fresh / name).stat().st_size,
            )  # fmt: skip
            (fresh / "datapackage.json").write_text(
                json.dumps(package, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
            if saved is None:
                save(release, fresh / "release")
            else:
                shutil.copytree(saved, fresh / "release")
            _write_sums(fresh)
            if key is not None:
                _sign(key, fresh / SUMS)
    except FormatError as error:
        raise DataError(
            f"'{folder}' cannot be written ({error}): give a path in a writable folder with free space"
        ) from None
    return count


def is_release(path: Path) -> bool:
    """Return whether a path is the folder of a saved release."""
    return (path / DOCUMENT).is_file()


def _write_sums(folder: Path) -> None:
    """Write the SHA-256 checksums of all files of a folder into it, so that readers can verify the files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{_digest(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8", newline="")


def _digest(path: Path) -> str:
    """Return a file's SHA-256 as hexadecimal text."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def _signing(key: Path, sums: Path) -> list[str]:
    """Return the command that signs the checksum file: minisign's if the key begins as its keys do, else ssh-keygen's."""
    try:
        with key.open("rb") as file:
            head = file.read(80)
    except OSError as error:
        raise ParameterError(f"the key '{key}' cannot be read: {error.strerror}") from None
    of_minisign = head.startswith(b"untrusted comment:")
    program = shutil.which("minisign" if of_minisign else "ssh-keygen")
    if program is None:
        raise ParameterError(f"the key '{key}' needs {'minisign' if of_minisign else 'ssh-keygen'}: install it")
    if of_minisign:
        return [program, "-S", "-s", str(key), "-m", str(sums)]
    return [program, "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(sums)]


def _sign(key: Path, sums: Path) -> None:
    """Sign the checksum file with a key; raise DataError, which quotes no part of the key, if that fails."""
    done = subprocess.run(_signing(key, sums), check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603
    if done.returncode:
        raise DataError(
            f"the checksums could not be signed with '{key}': give a private key of OpenSSH that ssh-keygen can read"
        )
