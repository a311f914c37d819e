"""Forms that statistical offices ask for: a privacy label, a table after NIST SP 800-226, and an entry in a registry.

The label follows a proposal (arXiv 2507.15997) that has no published schema: the schema `LABEL_SCHEMA` is synthdp's
own.  The entry follows the registry of OpenDP and NIST (arXiv 2509.13509).  All are filled in from the release.  Fields
that only the publisher can fill in hold the text `PUBLISHER`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from synthdp.domain.axis import Axis
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.privacy.receipt import Receipt, odds_in_words
from synthdp.release import Release
from synthdp.report.card import BIAS, COMPOSITION, SECURITY, SIDE_CHANNELS, TRUST, privacy_card

FALSE_ALARM = 0.05
"""Probability that noise alone makes an empty cell show k people or more: the usual level of a test.  A convention."""

ORDERS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}
"""Names of marginals of one, two and three columns, for texts.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSize:
    """The smallest cell count that is distinguishable from an empty cell, for marginals of one order.

    Parameters
    ----------
    order
        Number of columns of the marginal.
    columns
        Columns of the marginal with the least noise among all of this order.
    stddev
        Standard deviation of the noise in its cells, in rows; all measurements of the marginal are combined.
    k
        Smallest distinguishable count.
    """

    order: int
    columns: tuple[str, ...]
    stddev: float
    k: int


Cells = tuple[tuple[str, bytes, bytes], ...]
"""The axes of a marginal, each by its `_cells`: marginals with equal `Cells` have equal cells."""


def cell_sizes(release: Release[Any]) -> tuple[CellSize, ...]:
    """Return the smallest distinguishable cell count k by number of columns, from the marginal with the least noise.

    An empty cell shows k or more with probability 5 % at most: k is that quantile of its noise, 1.645 σ for a Gaussian.
    Measurements of one marginal are combined by their precision, 1 / σ² = Σ 1 / σᵢ².  Marginals of the same columns in
    other bins, such as states and their counties, have other cells and are not combined.  Finer marginals, and
    marginals of more columns, have more noise and are not summed up either.
    """
    precision: dict[Cells, float] = {}
    multiple: dict[Cells, float] = {}
    for one in release.measurements:
        whole = (table for table in one.tables if not table.alone)
        if one.domain is not None and one.stddev > 0:
            for table in whole:
                axes = [one.domain.axes[j] for j in table.clique]
                cells = tuple(_cells(axis) for axis in axes if axis.size > 1)  # one cell parts no rows
                if not cells:
                    continue
                precision[cells] = precision.get(cells, 0.0) + one.stddev**-2
                multiple[cells] = max(multiple.get(cells, 0.0), one.quantile(2 * FALSE_ALARM) / one.stddev)
    best: dict[int, Cells] = {}
    for cells, sharpness in precision.items():
        if sharpness > precision.get(best.get(len(cells), ()), 0.0):
            best[len(cells)] = cells
    return tuple(
        CellSize(
            order=order, columns=tuple(name for name, _, _ in best[order]), stddev=precision[best[order]] ** -0.5,
            k=math.ceil(multiple[best[order]] * precision[best[order]] ** -0.5),
        )
        for order in sorted(best)
    )  # fmt: skip


def _cells(axis: Axis) -> tuple[str, bytes, bytes]:
    """Return what identifies an axis's cells: column name, starts of the runs of grid points, cell of each run.

    Tables with the same cells are measurements of one marginal.
    """
    return axis.name, axis.starts.tobytes(), axis.cells.tobytes()


def office_words(release: Release[Any]) -> list[str]:
    """Return a comparison of the release's noise with the suppression of small cells, as short texts.

    Statistical offices know cell suppression better than epsilon.
    """
    sizes, receipt = cell_sizes(release), release.receipt
    if not sizes:
        return ["No table of counts was measured, so that no least size of a cell can be stated for this release."]
    who, least = who_counts(receipt), min(sizes, key=lambda size: size.k)
    found = (
        f"Counts were published with noise. The counts over {' × '.join(least.columns)} have the least noise, of standard "
        f"deviation {least.stddev:.3g}. With this noise, an empty cell shows {least.k} or more with a probability of 5 % at "
        f"most. So a cell with fewer {who} cannot be distinguished from an empty cell at the usual level."
    )
    picture = (
        "The comparison is an illustration, not the promise: no cell was suppressed, and what protects a person is the "
        f"noise in every answer. The promise is {receipt.total}. Cells of the synthetic table may be smaller than k: their "
        "rows are made up."
    )
    lines = [f"The noise protects about as if every cell below {least.k} {who} were suppressed.", found]
    lines += [
        f"{ORDERS.get(size.order, f'counts over {size.order} columns').capitalize()}: about as if cells below k = {size.k} "
        f"{who} were suppressed (least noise: {' × '.join(size.columns)}, standard deviation {size.stddev:.3g})."
        for size in sizes
    ]
    return [*lines, picture]


def who_counts(receipt: Receipt) -> str:
    """Return the word for the unit of a count: "people" if a person has one row, else "rows"."""
    return "people" if receipt.adjacency.rows == 1 and not receipt.adjacency.tables else "rows"


PUBLISHER = "To be stated by the publisher"
"""Text of a field that only the publisher can fill in."""

VARIANTS = {PureDP: "Pure DP", ApproxDP: "Approximate DP", ZCDP: "Zero-concentrated DP", GaussianDP: "Custom"}
"""The registry's name of each privacy definition.  The registry has none for Gaussian DP, hence "Custom"."""

EXACT = (
    "Noise is drawn as whole numbers from the operating system's entropy by OpenDP's exact samplers: no floating-point "
    "number touches a private count, so that the known attacks on rounding do not apply."
)
"""Text on the exact sampling of noise."""

BOUNDED = "The sensitivity of each step is bounded before its noise is drawn; the bounds are in receipt.json."
"""Text on the sensitivity of each step."""

POST = (
    "The synthetic rows, the report, the answers and every other file of this folder are computed from the noisy answers "
    "alone."
)
"""Text on the computations after the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The publisher's public statements about a table.

    Parameters
    ----------
    title
        Title of the table.
    publisher, region, sector
        Publisher, described region, and one of `SECTORS`.
    use, contact
        Intended use, and the contact for questions.
    date
        Date of publication, YYYY-MM-DD.
    units, meanings
        Unit and meaning of each column, by name.
    """

    title: str = "Synthetic table"
    publisher: str = PUBLISHER
    region: str = PUBLISHER
    sector: str | None = None
    use: str = PUBLISHER
    contact: str = PUBLISHER
    date: str = "1900-01-01"
    units: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)


SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
"""The sectors that the registry of OpenDP and NIST distinguishes; `registry_entry` writes one of them."""


LABEL_SCHEMA = "privacy-label.schema.json"
"""File name of the JSON Schema of a privacy label, in this package and in every folder to publish."""


@cache
def label_schema() -> str:
    """Return synthdp's own JSON Schema of a privacy label, as text, because arXiv 2507.15997 has no such schema."""
    return (files("synthdp.report") / LABEL_SCHEMA).read_text(encoding="utf-8")


def privacy_label(release: Release[Any], about: About, *, fingerprint: str) -> dict[str, Any]:
    """Return the privacy label of a release, a document that `label_schema` describes."""
    card = privacy_card(release, fingerprint=fingerprint)
    receipt = release.receipt
    return {
        "$schema": LABEL_SCHEMA,
        "label": "privacy label for differential privacy, after arXiv 2507.15997, in a form of synthdp's own",
        "release": fingerprint,
        "who": {
            "publisher": about.publisher,
            "contact": about.contact,
            "trust_model": "central",
            "trusted_with_rows": TRUST,
        },
        "what": {
            "definition": card["definition"],
            "parameters": card["parameters"],
            "attackers_best_odds": receipt.odds,
            "privacy_unit": card["unit_of_privacy"],
            "neighbouring_tables": card["neighbouring_tables"],
            "assumed": list(receipt.assumptions),
        },
        "how": {
            "mechanism": release.mechanism,
            "noise": card["noise"],
            "composition": COMPOSITION,
            "post_processing": POST,
            "software": dict(receipt.versions),
        },
        "how_often": {
            "releases": "one release of a fixed table; each further release of the same rows adds its own privacy loss",
            "ledger": receipt.record,
        },
        "in_office_words": office_words(release),
    }


def sp_800_226(release: Release[Any], *, fingerprint: str) -> list[tuple[str, str, str]]:
    """Return (topic, question, answer) for each topic of NIST SP 800-226, about this release."""
    card, receipt = privacy_card(release, fingerprint=fingerprint), release.receipt
    parameters = ", ".join(f"{name} = {value:g}" for name, value in card["parameters"].items())
    odds = "" if receipt.odds is None else f" {odds_in_words(receipt.odds).capitalize()}."
    noise = "; ".join(card["noise"])
    unit = f"One unit is {card['unit_of_privacy']}. Neighbours are {card['neighbouring_tables']}."
    assumed = " ".join(f"{line[:1].upper()}{line[1:]}." for line in receipt.assumptions)
    synthetic = (
        "The synthetic table is drawn from a model that was fitted to noisy counts, which is post-processing. Standard "
        "errors computed as if its rows were real are too small; the release itself answers with error bars that include "
        "the noise."
    )
    return [
        ("The promise", "Is the guarantee a formal one?", f"Yes: {card['definition']}."),
        ("The privacy parameter", "Which values do ε and δ have, and what do they mean?", f"{parameters}.{odds}"),
        ("The variant", "Which definition, and is δ small?", f"{card['definition']}: {parameters}."),
        ("The unit of privacy", "Whom does one unit cover?", unit),
        ("Composition", "How do several answers add up?", f"{COMPOSITION} Ledger: {receipt.record}."),
        ("Post-processing", "What is done after the noise?", POST),
        ("Mechanisms", "Which mechanism, and how is sensitivity bounded?", f"{release.mechanism}; {noise}. {BOUNDED}"),
        ("Utility", "How accurate is the release?", "report.html gives errors of counts over one to three columns."),
        ("Bias", "For whom is the release less accurate?", BIAS),
        ("Synthetic data", "What is special about synthetic data?", synthetic),
        ("Query model", "Are questions answered interactively?", "No: all private answers were given before publication."),
        ("Threat model", "Whom must one trust?", TRUST),
        ("Implementation", "How are floating-point attacks and side channels treated?", f"{EXACT} {SIDE_CHANNELS}"),
        ("Data security", "Who guards the rows themselves?", SECURITY),
        ("Data collection", "How were the rows collected?", f"{PUBLISHER}; the collection is no part of the promise."),
        ("Assumptions", "What does the promise rest on?", assumed),
    ]  # fmt: skip


def registry_entry(release: Release[Any], about: About, *, fingerprint: str, columns: int) -> dict[str, Any]:
    """Return a draft entry for the registry of OpenDP and NIST as a document, filled in from the release."""
    card, receipt = privacy_card(release, fingerprint=fingerprint), release.receipt
    names = {"ε": "epsilon", "δ": "delta", "ρ": "rho"}  # the registry has no parameter μ: `VARIANTS` calls it "Custom"
    parameters = {names[name]: value for name, value in card["parameters"].items() if name in names}
    basic = {
        "name": about.title,
        "data_curators": [about.publisher],
        "intended_use": about.use,
        "data_product_type": "Synthetic data",
        "data_product_region": about.region,
        "description": f"Synthetic table of {columns} columns with a receipt, made with synthdp; release {fingerprint}.",
        "publication_date": about.date,
        **({"data_product_sector": about.sector} if about.sector else {}),
    }
    return {
        "url_slug": f"synthdp-{fingerprint}",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": VARIANTS.get(type(receipt.total), "Custom"),
                "data_domain": "Tables with the columns of datapackage.json; "
                + (
                    "their number of rows is public." if receipt.adjacency.rows_are_public else "of any number of rows."
                ),
                "unprotected_quantities": "; ".join(receipt.assumptions),
            },
            "privacy_loss": {
                "privacy_unit": card["unit_of_privacy"],
                "privacy_unit_details": card["neighbouring_tables"],
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"{receipt.total}; spent on: {receipt.together}",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": TRUST,
                "release_type": "One release",
                "release_type_details": f"Ledger: {receipt.record}.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {"post_processing": POST, "composition": COMPOSITION},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Bounds and levels were declared or found under noise, see the "
                "receipt's assumptions; settings were fixed before any row was read.",
                "mechanisms": f"{release.mechanism}: {'; '.join(card['noise'])}. {EXACT} Software: "
                + ", ".join(f"{name} {version}" for name, version in card["software"].items()),
                "justification": " ".join(office_words(release)[:2]),
            },
            "administrative": {
                "notes": "Written by synthdp from the release; fields that a release cannot know are left to the publisher.",
                "registry_authors": [about.publisher],
            },
        },
    }


def as_yaml(value: Any, indent: int = 0) -> str:
    """Return nested dicts and lists as YAML text; texts are quoted as in JSON, which is valid YAML."""
    pad = "  " * indent
    if isinstance(value, dict):
        return "".join(
            f"{pad}{name}:\n{as_yaml(one, indent + 1)}"
            if isinstance(one, (dict, list)) and one
            else f"{pad}{name}: {_scalar(one)}\n"
            for name, one in value.items()
        )
    return "".join(f"{pad}- {_scalar(one)}\n" for one in value)


def _scalar(value: Any) -> str:
    """Return a number or a text as YAML; "1e-06" becomes "1.0e-06", because YAML reads the first form as a text."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text
