"""NON-PRIVATE tests of the risk of a synthetic table, by attacks with a control group; for people who may see the rows.

Each test reports a difference: the attack's success rate against people whose rows the table was made of (members),
minus its success rate against people who were not in it (the control group).  Success that is equal for both comes from
the population, which the table is published to describe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from synthdp.arrays import IntArray
from synthdp.checks import check_number
from synthdp.errors import DataError, ParameterError
from synthdp.files import write_private
from synthdp.markup import render
from synthdp.nonprivate import attacks
from synthdp.nonprivate.attacks import Tables, joint_tables
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.randomness import Generator, RandomState, generator
from synthdp.schema.schema import schema_given
from synthdp.tables.refusals import instead_of

STAMP = "NON-PRIVATE: reads private rows: not for publication"
"""Warning that stands on every report of attacks."""

NO_EVIDENCE = (
    "Distances to the closest record prove nothing: a table that copies people can keep them large, and a private one can "
    "make them small (arXiv 2505.01524). They are shown because boards ask for them, and no threshold applies to them."
)
"""Text that a report shows with distances to the closest record."""

PASSING = (
    "A pass says that these attacks, of these strengths, found nothing above the thresholds; the promise for all attacks "
    "is the receipt's. The outcome itself was computed from private rows, outside the promise."
)
"""Text that a report shows with a pass or a fail, about the limits of such a result."""

THRESHOLDS: Mapping[str, float] = MappingProxyType(
    {
        "copies": 0.005, "replicated_uniques": 0.005, "disclosive": 0.005, "rapid": 0.02, "singling_out": 0.05,
        "linkage": 0.05, "inference": 0.05, "membership": 0.03,
    }
)  # fmt: skip
"""Largest allowed difference of success rates, members minus control group, by attack, as a fraction.  A tolerance:
synthetic rows of half of Adult at epsilon = 1 stay below, at 50 they do not."""

MEANING = {
    "copies": "the whole row comes in the table",
    "replicated_uniques": "RepU: keys unique among the people and unique in the table",
    "disclosive": "DiSCO: keys whose synthetic rows all have one target, the right one",
    "rapid": "RAPID: target predicted with confidence by a model of the table",
    "singling_out": "a guess from the table fits exactly one person",
    "linkage": "keys and other columns, looked up apart, lead to one synthetic row",
    "inference": "the synthetic row with the nearest keys has the right target",
    "membership": "membership attack: area under the curve, .5 for a coin",
}
"""Description of each attack by name, for reports."""

FEWEST = 40
"""Fewest rows of the train table and of the holdout table; with fewer the control group is too small.  A safety limit.
"""

Z = 2.5758
"""Standard errors on each side of a 99 % interval.  Derived: the .995 quantile of the normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskMeasure:
    """Holds the success of one attack against members and against the control group.

    Parameters
    ----------
    name
        One of `THRESHOLDS`.
    target
        The column that the attack tries to learn, or ``None``.
    members, control
        Success rate in each group, a fraction; for the membership attack the area under the curve, and .5.
    difference, lower, upper
        Members minus control group, and its 99 % interval.
    threshold
        Largest allowed difference.
    """

    name: str
    target: str | None
    members: float
    control: float
    difference: float
    lower: float
    upper: float
    threshold: float

    @property
    def passed(self) -> bool:
        """Whether the difference is at most the threshold, or its 99 % interval includes values up to 0."""
        return self.difference <= self.threshold or self.lower <= 0

    @property
    def title(self) -> str:
        """Description of the attack for reports, with its target."""
        return MEANING[self.name] + (f", {self.target}" if self.target else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NonprivateRisk:
    """Holds the success of all attacks on a synthetic table.

    Not private and not for publication; `publishable` returns the part that may be published.

    Parameters
    ----------
    measures
        The attacks' results.
    keys
        Columns that the attacker knows of a person.
    people
        Rows in each of the two groups, at most: some attacks use fewer.
    no_privacy_evidence
        Median distances to the closest synthetic row, by group; they are no evidence about privacy.
    warning
        Text that stands on every report.
    """

    measures: tuple[RiskMeasure, ...]
    keys: tuple[str, ...]
    people: int
    no_privacy_evidence: dict[str, float]
    warning: str = field(default=STAMP)

    @property
    def passed(self) -> bool:
        """Whether every attack passed."""
        return all(measure.passed for measure in self.measures)

    @property
    def broken(self) -> tuple[RiskMeasure, ...]:
        """The attacks that failed: above their threshold, and significantly above 0."""
        return tuple(measure for measure in self.measures if not measure.passed)

    def publishable(self) -> dict[str, Any]:
        """Return the part that may be published: the thresholds, set beforehand, and pass or fail of each attack."""
        return {
            "keys": list(self.keys),
            "passed": self.passed,
            "thresholds": [
                {"measure": m.name, "target": m.target, "most": m.threshold, "passed": m.passed} for m in self.measures
            ],
            "meaning": PASSING,
        }

    def to_document(self) -> dict[str, Any]:
        """Return all results as a dictionary for JSON, with `warning`; it is not for publication."""
        return {
            "warning": self.warning,
            "nonprivate": True,
            "passed": self.passed,
            "keys": list(self.keys),
            "people": self.people,
            "measures": [
                {
                    "measure": m.name, "target": m.target, "members": m.members, "control": m.control,
                    "difference": m.difference, "interval": [m.lower, m.upper], "threshold": m.threshold, "passed": m.passed,
                }
                for m in self.measures
            ],
            "no_privacy_evidence": {**self.no_privacy_evidence, "why": NO_EVIDENCE},
            "publishable": self.publishable(),
        }  # fmt: skip

    def __str__(self) -> str:
        width = max(len(m.title) for m in self.measures)
        lines = [
            self.warning, "", f"Known of a person: {', '.join(self.keys)}. Control: people who were not in it.", "",
            f"  {'in per cent of people':<{width}}  members  control   difference, 99 % interval   at most",
        ]  # fmt: skip
        for m in self.measures:
            a, b, d, low, high, most = (
                100 * x for x in (m.members, m.control, m.difference, m.lower, m.upper, m.threshold)
            )
            verdict = "ok" if m.passed else "BROKEN"
            lines.append(
                f"  {m.title:<{width}}  {a:7.2f}  {b:7.2f}  {d:+7.2f}  ({low:+6.2f} to {high:+6.2f})  {most:7.2f}  {verdict}"
            )
        lines += ["", f"  {NO_EVIDENCE}"]
        lines += [f"    {name}: {value:.4f}" for name, value in self.no_privacy_evidence.items()]
        lines += ["", f"{'pass' if self.passed else 'FAIL'}: {PASSING}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the attacks as an HTML table for a notebook, with `warning`."""
        return render("risk.html", risk=self, why=NO_EVIDENCE, a_pass=PASSING)

    def write(self, path: str | PathLike[str]) -> None:
        """Write an HTML page of the attacks with a red banner; only the file's owner may read it.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        page = render("risk_page.html", title="NON-PRIVATE risk test", risk=self, why=NO_EVIDENCE, a_pass=PASSING)
        with instead_of(
            OSError,
            say=lambda e: DataError(f"'{path}' cannot be written ({getattr(e, 'strerror', e)}): give another path"),
        ):
            write_private(Path(path), page)


def nonprivate_risk(
    train: Any,
    synthetic: Any,
    holdout: Any,
    *,
    keys: Sequence[str],
    target: str | Sequence[str] = (),
    schema: Any = None,
    thresholds: Mapping[str, float] | None = None,
    random_state: RandomState = 0,
    on_progress: ProgressCallback = silent,
) -> NonprivateRisk:
    """Return the success of attacks on a synthetic table, compared with people who were not in it.  Not private.

    The result is stamped and must not be published.  Its `NonprivateRisk.publishable` returns only the thresholds, set
    beforehand, and whether the table passed.

    Parameters
    ----------
    train
        The private rows that the synthetic table was made of.
    synthetic
        The table to attack.
    holdout
        Private rows of the same population, not used for the synthetic table: the control group.  Best are as many rows
        as in ``train``.
    keys
        Columns that an attacker knows of a person, such as age, sex and region.
    target
        A column, or several, that the attacker tries to learn.
    schema
        Schema by which values are clipped and relabelled first; default: values stay as they are.
    thresholds
        Largest allowed difference of success rates, as a fraction, by attack; set them before you look.  Other attacks
        keep their default, see `synthdp.nonprivate.risk.THRESHOLDS`.

    random_state
        Seed of the choice of attacked people and of the attacks.
    on_progress
        Called with each stage as it begins.

    Raises
    ------
    DataError
        If a table cannot be read or lacks a column, or the control group is too small.
    ParameterError
        If keys or target name no shared column, thresholds name no attack, or a target is a key.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.integers(90, size=400), "pay": rng.normal(size=400), "ill": rng.random(400) < 0.3})
    >>> copied = sd.nonprivate_risk(table[:200], table[:200], table[200:], keys=["age", "pay"], target="ill")
    >>> copied.passed
    False
    """
    rng = generator(random_state)
    most = _thresholds(thresholds)
    keys = list(dict.fromkeys([keys] if isinstance(keys, str) else keys))
    targets = list(dict.fromkeys([target] if isinstance(target, str) else target))
    on_progress(Progress(stage="reading", done=0, total=5))
    tables = joint_tables((train, synthetic, holdout), None if schema is None else schema_given(schema))
    for name, given in (("keys", keys), ("target", targets)):
        if unknown := [column for column in given if column not in tables.names]:
            raise ParameterError(
                f"{name}: column {unknown[0]!r} must be in the train, the synthetic and the holdout table: add it, or name "
                "another column"
            )
    if not keys:
        raise ParameterError("keys must name at least one column that an attacker knows")
    if both := [column for column in targets if column in keys]:
        raise ParameterError(
            f"target: {both[0]!r} is also a key: the attacker knows the keys already, so choose another target"
        )
    if len(tables.holdout) < FEWEST or len(tables.train) < FEWEST:
        raise DataError(f"the train and holdout tables must have {FEWEST} rows or more each")
    people = min(len(tables.train), len(tables.holdout))
    groups = [table.part(rng.permutation(len(table))[:people]) for table in (tables.train, tables.holdout)]
    known, wanted = ([tables.names.index(name) for name in names] for names in (keys, targets))
    measures: list[RiskMeasure] = []

    def add(name: str, found: Sequence[IntArray], column: str | None = None) -> None:
        measures.append(_compared(name, column, found[0], found[1], most[name]))

    on_progress(Progress(stage="uniques and disclosive keys", done=1, total=5))
    add("copies", [attacks.copied(group, tables.synthetic) for group in groups])
    add("replicated_uniques", [attacks.replicated_uniques(group, tables.synthetic, known) for group in groups])
    for column, j in zip(targets, wanted, strict=True):
        add("disclosive", [attacks.disclosive(group, tables.synthetic, known, j) for group in groups], column)
    on_progress(Progress(stage="attacker's models", done=2, total=5))
    for column, j in zip(targets, wanted, strict=True):
        add("rapid", attacks.predicted(groups, tables, known, j, rng), column)
    on_progress(Progress(stage="singling out, linkage and inference", done=3, total=5))
    if singled := attacks.singled_out(groups, tables, rng):
        add("singling_out", singled)
    some = [group.part(np.arange(min(len(group), attacks.ATTACKS))) for group in groups]
    others = [j for j in range(len(tables.names)) if j not in known]
    if others:
        add("linkage", [attacks.linked(group, tables, known, others) for group in some])
    for column, j in zip(targets, wanted, strict=True):
        add("inference", [attacks.inferred(group, tables, known, j) for group in some], column)
    on_progress(Progress(stage="membership", done=4, total=5))
    measures.append(_membership(tables, most["membership"], rng))
    return NonprivateRisk(
        measures=tuple(measures),
        keys=tuple(keys),
        people=people,
        no_privacy_evidence={
            f"median distance of {who} to the closest synthetic row": attacks.closest_distance(group, tables)
            for who, group in zip(("members", "others"), some, strict=True)
        },
    )


def _thresholds(given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the thresholds of all attacks: given ones or defaults.  Raise ParameterError for an unknown attack."""
    for name, value in (given or {}).items():
        if name not in THRESHOLDS:
            raise ParameterError(f"thresholds names {name!r}, which must be one of {', '.join(THRESHOLDS)}")
        check_number(f"threshold {name}", value, least=0, most=1)
    return {**THRESHOLDS, **(given or {})}


def _compared(name: str, column: str | None, members: IntArray, control: IntArray, most: float) -> RiskMeasure:
    """Return an attack's success rates in both groups, and their difference with a 99 % interval.

    ``members`` and ``control`` hold for each person whether the attack succeeded, 0 or 1.  ``most`` is the largest
    difference that passes.  The interval adds one success and one failure to each group, so that it holds for few
    successes (Agresti, Caffo 2000).  The success rate of an empty group is 0.
    """
    m, n = len(members), len(control)
    a, b = (int(members.sum()) + 1) / (m + 2), (int(control.sum()) + 1) / (n + 2)
    half = Z * sqrt(a * (1 - a) / (m + 2) + b * (1 - b) / (n + 2))
    shares = [float(found.mean()) if len(found) else 0.0 for found in (members, control)]
    return RiskMeasure(
        name=name, target=column, members=shares[0], control=shares[1], difference=shares[0] - shares[1],
        lower=a - b - half, upper=a - b + half, threshold=most,
    )  # fmt: skip


def _membership(tables: Tables, most: float, rng: Generator) -> RiskMeasure:
    """Return the result of a membership attack: the area under the curve, and its difference from .5.

    ``most`` is the threshold.  Half of the holdout rows are the attacker's knowledge of the population, half are the
    control group.
    """
    order = rng.permutation(len(tables.holdout))
    half = len(order) // 2
    reference, control = tables.holdout.part(order[:half]), tables.holdout.part(order[half:])
    members = tables.train.part(rng.permutation(len(tables.train))[: len(control)])
    area, error = attacks.auc_with_error(*attacks.membership_scores([members, control], reference, tables, rng))
    return RiskMeasure(
        name="membership", target=None, members=area, control=0.5, difference=area - 0.5, lower=area - Z * error - 0.5,
        upper=area + Z * error - 0.5, threshold=most,
    )  # fmt: skip
