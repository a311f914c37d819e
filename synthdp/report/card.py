"""The privacy card: what a differential-privacy claim must state, field by field, after NIST SP 800-226.

Made from a receipt; as a document for machines, as text, and as rows of the report's page.
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
"""What the card says of composition."""

TRUST = (
    "Central: one curator held the rows, in the memory of the machine that ran the release, and answered with noise only: "
    "whoever runs the release is trusted with the rows."
)
"""What the card says of whom one must trust."""

SECURITY = (
    "Collecting, storing and giving access to the rows, before and during the release, is the publisher's duty and no part "
    "of the promise."
)
"""What the card says of the rows before the release."""

SIDE_CHANNELS = "How long the release took and how much memory it used are outside the promise; do not publish them."
"""What the card says of time and memory."""

BIAS = (
    "Noise is unbiased, the fitted model is not: small counts are drawn towards what larger counts imply, relations that "
    "were not measured look weaker than they are, and small groups are the least accurate. Biases of the real table are "
    "not corrected."
)
"""What the card says of bias."""


def privacy_card(release: Release[Any], *, fingerprint: str) -> dict[str, Any]:
    """Return the card as a document.

    Parameters
    ----------
    release
        Whose receipt is shown.
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
    """Return the card as titles and lines for a reader."""
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


def card_text(card: dict[str, Any]) -> str:
    """Return the card as text."""
    lines = ["Privacy card"]
    for title, texts in card_rows(card):
        lines += [f"  {title if i == 0 else '':<22}{text}" for i, text in enumerate(texts)]
    return "\n".join(lines)


def _definition(receipt: Receipt) -> str:
    """Return the name of the release's privacy definition."""
    match receipt.total:
        case PureDP():
            return "ε-differential privacy"
        case ApproxDP(_, delta):
            return "(ε, δ)-differential privacy" if delta else "ε-differential privacy"
        case _:
            return f"{type(receipt.total).__name__}"


def _parameters(receipt: Receipt) -> dict[str, float]:
    """Return the parameters of the release's loss, by symbol."""
    document = {
        name: getattr(receipt.total, name) for name in ("epsilon", "delta", "rho", "mu") if hasattr(receipt.total, name)
    }
    symbols = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}
    return {symbols[name]: float(value) for name, value in document.items()}


def _unit(receipt: Receipt) -> str:
    """Return what the unit of privacy is, as a phrase."""
    adjacency = receipt.adjacency
    if adjacency.unit is None:
        return "one row of the table"
    if adjacency.tables:
        used = ", ".join(f"{name!r} at most {rows}" for name, rows in adjacency.tables)
        return f"all rows of one value of column '{adjacency.unit}' in all tables; used of them: {used}"
    return f"all rows of one value of column '{adjacency.unit}', at most {adjacency.rows} of them used"


def _neighbours(receipt: Receipt) -> str:
    """Return what two neighbouring tables differ in."""
    if receipt.adjacency.neighbors is Neighbors.ADD_REMOVE:
        return (
            "two tables, one of which holds one unit more: the release hides whether a unit is in the real table at all"
        )
    return "two tables that differ in one unit: the release hides what a unit's rows say, not that the unit is in the table"


def _noise(receipt: Receipt) -> list[str]:
    """Return the laws of noise of a release, as lines."""
    laws = dict.fromkeys(item.mechanism for item in receipt.items)
    known = {str(law) for law in NoiseLaw}
    return [
        f"{law}: exact whole numbers, drawn from the operating system's entropy, never seeded" if law in known else law
        for law in laws
    ]
