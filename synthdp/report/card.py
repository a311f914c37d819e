"""The privacy card: the statements that a differential-privacy claim needs, field by field, after NIST SP 800-226.

It is made from a receipt: a document for machines, a text, and rows of the report's page.
"""

from __future__ import annotations

from typing import Any

from synthdp.measurements import NoiseLaw
from synthdp.privacy.loss import ApproxDP, PureDP
from synthdp.privacy.neighbors import Neighbors
from synthdp.privacy.receipt import Receipt, odds_in_words
from synthdp.release import Release

STANDARD = "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (2025)"
"""The guideline that the card follows."""

COMPOSITION = (
    "All steps are charged to one account whose total was fixed before any row was read; later steps may depend on earlier "
    "noisy answers (a privacy filter)."
)
"""The card's text on how the privacy losses of the steps add up."""

TRUST = (
    "Central: one curator held the rows, in the memory of the machine that ran the release, and answered with noise only: "
    "whoever runs the release is trusted with the rows."
)
"""The card's text on who is trusted with the rows."""

SECURITY = (
    "Collecting, storing and giving access to the rows, before and during the release, is the publisher's duty and no part "
    "of the promise."
)
"""The card's text on the security of the rows before the release."""

SIDE_CHANNELS = "How long the release took and how much memory it used are outside the promise; do not publish them."
"""The card's text on time and memory of the release."""

BIAS = (
    "Noise is unbiased, the fitted model is not: small counts are drawn towards what larger counts imply, relations that "
    "were not measured look weaker than they are, and small groups are the least accurate. Biases of the real table are "
    "not corrected."
)
"""The card's text on the bias of the model."""


def privacy_card(release: Release[Any], *, fingerprint: str) -> dict[str, Any]:
    """Return the privacy card of a release as a document, which `card_rows` and `card_text` format.

    Parameters
    ----------
    release
        Release with the receipt to show.
    fingerprint
        The release's short name, see `release_files.fingerprint`.
    """
    receipt = release.receipt
    return {
        "standard": STANDARD,
        "release": fingerprint,
        "mechanism": release.mechanism,
        "definition": _definition(receipt),
        "parameters": _parameters(receipt),
        "unit_of_privacy": _unit(receipt),
        "neighbouring_tables": _neighbours(receipt),
        "attackers_best_odds": receipt.odds,
        "trust_model": TRUST,
        "data_security": SECURITY,
        "side_channels": SIDE_CHANNELS,
        "composition": COMPOSITION,
        "noise": _noise(receipt),
        "bias": BIAS,
        "row_count": "public" if receipt.adjacency.rows_are_public else "private; only a noisy estimate is released",
        "assumptions": list(receipt.assumptions),
        "notes": list(receipt.notes),
        "ledger": receipt.record,
        "software": dict(receipt.versions),
        "receipt": receipt.to_document(),
    }


def card_rows(card: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the card as (title, lines) for a reader; titles without lines are left out."""
    parameters = ", ".join(f"{name} = {value:g}" for name, value in card["parameters"].items())
    odds = card["attackers_best_odds"]
    rows = [
        ("Promise", [f"{card['definition']}: {parameters}"]),
        ("Unit of privacy", [card["unit_of_privacy"]]),
        ("Neighbouring tables", [card["neighbouring_tables"]]),
        (
            "Attacker's best odds",
            [] if odds is None else [odds_in_words(odds)],
        ),
        ("Number of rows", [card["row_count"]]),
        ("Trust model", [card["trust_model"]]),
        ("Data security", [card["data_security"]]),
        ("Side channels", [card["side_channels"]]),
        ("Mechanism", [card["mechanism"]]),
        ("Noise", card["noise"]),
        ("Composition", [card["composition"]]),
        ("Bias", [card["bias"]]),
        ("Assumed", card["assumptions"]),
        ("Notes", card["notes"]),
        ("Ledger", [card["ledger"]]),
        ("Software", [", ".join(f"{name} {version}" for name, version in card["software"].items())]),
        ("Release", [card["release"]]),
        ("This card follows", [card["standard"]]),
    ]
    return [(title, lines) for title, lines in rows if lines]


def _definition(receipt: Receipt) -> str:
    """Return the name of the release's privacy definition, with Greek parameters for (ε, δ); else the class's name."""
    match receipt.total:
        case PureDP():
            return "ε-differential privacy"
        case ApproxDP(_, delta):
            return "(ε, δ)-differential privacy" if delta else "ε-differential privacy"
        case _:
            return f"{type(receipt.total).__name__}"


def _parameters(receipt: Receipt) -> dict[str, float]:
    """Return the values of the release's privacy parameters by Greek letter, as the literature writes them."""
    document = {
        name: getattr(receipt.total, name) for name in ("epsilon", "delta", "rho", "mu") if hasattr(receipt.total, name)
    }
    symbols = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}
    return {symbols[name]: float(value) for name, value in document.items()}


def _unit(receipt: Receipt) -> str:
    """Return a phrase that describes the unit of privacy and how many of its rows are used."""
    adjacency = receipt.adjacency
    if adjacency.unit is None:
        return "one row of the table"
    if adjacency.tables:
        used = ", ".join(f"{name!r} at most {rows}" for name, rows in adjacency.tables)
        return f"all rows of one value of {adjacency.quoted_unit} in all tables; used of them: {used}"
    return f"all rows of one value of column '{adjacency.unit}', at most {adjacency.rows} of them used"


def _neighbours(receipt: Receipt) -> str:
    """Return a sentence on the difference of two neighbouring tables, and on what the release therefore hides."""
    if receipt.adjacency.neighbors is Neighbors.ADD_REMOVE:
        return (
            "two tables, one of which holds one unit more: the release hides whether a unit is in the real table at all"
        )
    return "two tables that differ in one unit: the release hides what a unit's rows say, not that the unit is in the table"


def _noise(receipt: Receipt) -> list[str]:
    """Return the noise laws of a release as lines, each law once."""
    laws = dict.fromkeys(item.mechanism for item in receipt.items)
    known = {str(law) for law in NoiseLaw}
    return [
        f"{law}: exact whole numbers, drawn from the operating system's entropy, never seeded" if law in known else law
        for law in laws
    ]
