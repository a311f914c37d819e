"""The texts of a folder to publish, made from the release alone: evidence page, README, citation and data files."""

from __future__ import annotations

import json
from typing import Any

from synthdp.markup import render
from synthdp.privacy.receipt import odds_in_words
from synthdp.release import Release
from synthdp.report.dictionary import FIELDS, as_csv, dictionary_rows
from synthdp.report.guidelines import (
    LABEL_SCHEMA,
    PUBLISHER,
    About,
    as_yaml,
    label_schema,
    office_words,
    privacy_label,
    registry_entry,
    sp_800_226,
)
from synthdp.report.html_page import citation_of, promise_of

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
