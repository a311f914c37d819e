"""The allow-list of what is saved: every field of every document that leaves, and where its value may come from.

A field is named by the part of the document in which it stands and its own name, wherever that part is; a part that is a
class is named by the name that files have for it.  Arrays stand under the field that names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from synthdp.codec import homes

DECLARED = "declared"
"""Stated before a row was read: the schema, a setting, the public name or type of a column."""
NOISY = "noisy"
"""Worked out from noisy answers, together with what is declared and code."""
CODE = "code"
"""The program's own words and versions: the same for any table and any setting of that kind."""
HIDDEN = "hidden"
"""Of a saved session alone, which is private and is never published: hidden noise, and a fingerprint of the rows."""

ANY = "*"
"""Stands for a name that is the user's, not ours."""

NAMED = {
    ("database", "formats"): "format", ("schema", "tables"): "schema", ("receipt", "tables"): "receipt.tables",
    ("receipt", "versions"): "versions", ("card", "software"): "software", ("card", "parameters"): "parameters",
}  # fmt: skip
"""Fields whose keys are the user's names, or packages', and what stands under each."""

DISTRIBUTIONS = ("components", "explicit", "graphical", "product")
"""Kinds of distributions, whose fields stand under the part and the kind; other short names are those of queries."""

CLASSES = frozenset(name for name in homes() if name[0].isupper())
"""What files of either version call classes, wherever their values stand."""

_RELEASE = {
    DECLARED: {
        "release": "mechanism",
        "loss": "kind epsilon delta rho mu",
        "total": "kind epsilon delta rho mu",
        "receipt": "neighbors privacy_unit max_rows_per_unit ledger dataset tables.*",
        "schema": "synthdp_schema synthdp_database",
        "columns": "name type source reviewed nullable description synthdp_schema",
        "csv": "delimiter encoding missing",
        "constraints": (
            "rule at_least at_most column columns combinations day expression left month of right then values when year"
        ),
        "relations": "parent child key at_most order unique",
        "format": "library dtypes arrow",
        "axes": "name",
        "domains": "name",
        "fine": "name",
        "refinements": "table column",
    },
    NOISY: {
        "release": "total domain arrays_sha256 content_sha256",
        "receipt": "notes entries assumptions",
        "items": "step mechanism answers sensitivity stddev noise unit kind epsilon delta rho mu",
        "columns": (
            "levels lower upper special decimals step resolution other zone groups format words like pattern prefix first"
            " unit classes means errors"
        ),
        "axes": "starts cells table column points",
        "domains": "starts cells points",
        "fine": "starts cells points",
        "refinements": "coarse_cell weights rounding starts leaves cells points",
        "layouts": "axes",
        "model": "total domain",
        "exact": "clique counts",
        "measurements": "values resolution",
        "noise": "law scale k",
        "distribution graphical": "kind shape nodes parents potentials",
        "distribution explicit": "kind shape codes weights",
        "distribution product": "kind shape margins",
        "distribution components": "kind shape columns",
        "parts graphical": "kind shape nodes parents potentials",
        "parts explicit": "kind shape codes weights",
        "parts product": "kind shape margins",
        "queries marginals": "kind domain cliques",
        "queries interactions": "kind domain cliques weights",
        "queries distances": "kind domain cliques expected unit",
        "queries pair distances": "kind domain margins unit",
        "queries products": "kind domain scores resolution norm",
        "queries pair products": "kind domain scores resolution most chosen",
        "queries chebyshev": "kind domain t unit",
        "queries total": "kind domain",
        "queries tensor": "kind domain terms unit most",
        "queries person tables": "kind layout tables multipliers",
        "queries person distances": "kind layout tables multipliers expected",
        "database": "total",
        "conditionals": "table attribute base factors independent",
        "factors": "of theta",
        "groupings": "name groups ranks",
        "tables": "kind table attribute grouping above other other_grouping parts",
    },
    CODE: {"release": "synthdp_release domains measurements", "versions": ANY},
}

_FORMS = {
    DECLARED: {
        "DecisionListSummary": "variables", "ListFamily": "variables", "KeyCounts": "columns",
        "SparseModel": "columns schema", "FrequentRecords": "schema", "ProjectedRecords": "schema",
        "HistogramPlan": "scale threshold sensitivity law resolution", "PolynomialHash": "coefficients prime",
        "CountSketch": "columns dimension salt", "SignProjection": "columns dimension salt",
        "AverageFamily": "order width", "SymmetricFamily": "order width", "AverageConjunctions": "order chance denominator",
        "TabulatedFamily": "domain variables functions order denominator", "Binarized": "domain literals",
        "Bit": "name column cells", "Monomials": "order", "Norms": "l1 l2_squared linf", "Parities": "scales",
        "ListCoefficients": "domain m order scales tables row_scale",
        "PrefixCoefficients": "domain m order scales prefixes row_scale",
        "ChebyshevTensor": "domain t denominator points growth",
        "Cosine": "column degree", "Indicator": "column cell", "TensorBasis": "domain denominator swap most terms",
        "Total": "domain", "TrigonometricSummary": "names smoothness cells schema growth",
        "CellParities": "domain masks",
    },
    NOISY: {
        "AverageMoment": "domain degree denominator", "ClassOffsets": "domain",
        "BoostedTables": "tables", "tables": "total domain", "CellModel": "total",
        "DecisionListSummary": "error public_rows",
        "DirectAnswers": "measurements", "FourierTable": "answers", "FrequentRecords": "total total_stddev",
        "MonomialSummary": "public_rows", "ParitySummary": "public_rows", "PolynomialSummary": "rows rows_stddev",
        "ProjectedRecords": "values stddev frequent total total_stddev", "SparseModel": "total error total_stddev",
        "TrigonometricSummary": "averages stddev rows rows_stddev", "Explicit": "shape codes weights",
        "FitResult": "weights status objective bound solver objective_lp objective_mw evaluations pivots reason",
        "KeyCounts": "counts",
        "Measurements": "values resolution", "Noise": "law scale k", "SparseTable": "slots place weights untouched_weight",
        "CountSketch": "without", "SignProjection": "without", "ListFamily": "error",
        "CellQueries": "domain values denominator",
        "Marginals": "domain cliques", "Subset": "positions", "Stack": "parts", "FittingRows": "family",
    },
}  # fmt: skip

_CARD = {
    DECLARED: {"card": "mechanism definition unit_of_privacy neighbouring_tables attackers_best_odds row_count ledger",
               "parameters": ANY},
    NOISY: {"card": "release noise assumptions notes"},
    CODE: {"card": "standard trust_model data_security side_channels composition bias", "software": ANY},
}  # fmt: skip

_SESSION = {
    HIDDEN: {"watch": "level rows alarms threshold"},
    DECLARED: {
        "watch": "columns max_alarms level_scale query_scale redrawn law scale resolution sensitivity",
        "session": "columns alpha slots",
        "settings": "sparsity max_updates columns accuracy queries slots update sweeps alarm_share total_share",
    },
    NOISY: {"session": "total untouched_weight keys"},
    CODE: {"session": "format version warning"},
}

FILES = {
    "release.json": NOISY, "arrays.npz": NOISY, "synthetic.csv": NOISY, "report.html": NOISY, "receipt.json": NOISY,
    "card.html": NOISY,
}  # fmt: skip
"""Every file that a published folder may hold; what is no document of fields is worked out from the saved release alone."""


def _listed(*lists: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the mark of each field; none may have two."""
    marks: dict[str, str] = {}
    for one in lists:
        for mark, parts in one.items():
            for part, names in parts.items():
                for name in names.split():
                    if marks.setdefault(f"{part}.{name}", mark) != mark:
                        raise ValueError(f"{part}.{name} is on the list twice")
    return marks


MARKS = _listed(_RELEASE, _FORMS, _CARD, _SESSION)


def fields_of(document: Mapping[str, Any], part: str = "release") -> Iterator[tuple[str, Any]]:
    """Yield every field of a document with its value, by the part in which it stands; an empty list is a value, too."""
    kind = document.get("kind")
    if isinstance(kind, str) and kind in CLASSES:
        part, document = kind, {name: value for name, value in document.items() if name != "kind"}
    elif isinstance(kind, str) and kind in homes():
        part = f"{part if kind in DISTRIBUTIONS else 'queries'} {kind}"
    for name, value in document.items():
        yield from _values(value, part, name)


def _values(value: Any, part: str, name: str) -> Iterator[tuple[str, Any]]:
    if part == "constraints" or (part == "columns" and name != "columns"):  # one value, whatever it is made of
        yield f"{part}.{name}", value
    elif isinstance(value, Mapping) and part == "items":  # the loss of a step is chosen with the step
        yield from fields_of(value, part)
    elif isinstance(value, Mapping) and (part, name) in NAMED:
        under = NAMED[part, name]
        for inner in value.values():
            yield from fields_of(inner, under) if isinstance(inner, Mapping) else [(f"{under}.{ANY}", inner)]
    elif isinstance(value, Mapping):
        yield from fields_of(value, name)
    elif isinstance(value, list) and any(isinstance(one, (Mapping, list)) for one in value):
        for one in value:
            yield from _values(one, part, name)
    else:
        yield f"{part}.{name}", value
