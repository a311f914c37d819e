"""`Plan`: what to expect of a release, as data, as a document and as text.  Knows no mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from synthdp.markup import render
from synthdp.pictures.trade_off import trade_off_chart
from synthdp.privacy.loss import best_odds

WORDS = {1: "single columns", 2: "pairs", 3: "triples"}

ACCURATE = 0.05
"""Expected distance of tables of two columns, a part of all rows, that is accurate enough to recommend: a tolerance."""

WEAKEST = 3.0
"""Largest epsilon that is recommended, as docs/how-to/choose-epsilon.md gives it for use inside a house: a safety limit."""

USUAL = 1.0
"""Epsilon that is recommended where none is accurate enough, by the same page."""

HARDEST = 5
"""Columns that the text names, those with the largest errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to expect of a release.

    Parameters
    ----------
    rows, columns
        Size of the table, as assumed.
    epsilon, delta, neighbors
        The promise.
    mechanism, why
        What would run, and the reason.
    errors
        Expected mean total variation distance of marginals of 1, 2 and 3 columns, on the 32-bin form of the table.
    independent
        The same for synthetic columns that have nothing to do with each other.
    by_column
        Expected total variation distance of each column's own table.
    like_rows
        As accurate on pairs as a random sample of so many rows.
    seconds, stages
        Expected time, in all and by stage.
    memory_mb
        Expected peak memory.
    advice
        What to know or change.
    assumed
        What the plan took for granted of columns that the schema leaves open or nobody has reviewed.
    like_epsilon
        Where the schema leaves columns open: about the epsilon at which it would do as well if it declared them, the least
        of a few that were tried.
    refused_for
        Where the schema leaves columns open: the epsilon that a refusal (``undiscovered="refuse"``) costs after the number
        of rows was estimated, and after all of discovery.
    best_unbiased
        The error that unbiased answers to all tables of three columns (or of all there are) would have at best, in closed
        form, where all cells can be listed: a release that measures all interactions is meant to be no worse.
    """

    rows: int
    columns: int
    epsilon: float
    delta: float
    neighbors: str
    mechanism: str
    why: str
    errors: dict[int, float]
    independent: dict[int, float]
    by_column: dict[str, float]
    like_rows: int
    seconds: float
    stages: dict[str, float]
    memory_mb: float
    advice: tuple[str, ...]
    assumed: tuple[str, ...] = ()
    like_epsilon: float | None = None
    refused_for: tuple[float, float] | None = None
    best_unbiased: float | None = None
    noise: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> Plan:
        """Return the plan that a document of `to_document` holds."""
        by_order = {name: {int(k): v for k, v in document[name].items()} for name in ("errors", "independent", "noise")}
        texts = {name: tuple(document[name]) for name in ("advice", "assumed")}
        refused = document["refused_for"]
        return cls(**document | by_order | texts | {"refused_for": None if refused is None else tuple(refused)})

    def to_document(self) -> dict[str, Any]:
        """Return the plan as a JSON document."""
        by_order = {
            name: {str(k): v for k, v in getattr(self, name).items()} for name in ("errors", "independent", "noise")
        }
        return asdict(self) | by_order | {"advice": list(self.advice), "assumed": list(self.assumed)}

    def _repr_html_(self) -> str:
        """Return the plan as a table for a notebook."""
        return render("plan.html", plan=self, words=WORDS)

    def __str__(self) -> str:
        lines = [
            f"Plan for {self.rows:,} rows and {self.columns} columns at ε = {self.epsilon:g}, δ = {self.delta:g}",
            f"  mechanism   {self.mechanism}: {self.why}",
            "  expected    mean total variation distance of tables of",
        ]
        lines += [
            f"                {WORDS[order]:<16}{error:.3f}   (independent columns: {self.independent[order]:.3f})"
            for order, error in self.errors.items()
        ]
        if self.best_unbiased is not None:
            largest = WORDS[min(3, self.columns)]
            lines.append(
                f"                best unbiased answers to {largest}: {self.best_unbiased:.3g}, whatever the table"
            )
        if self.noise:
            said = ", ".join(f"{WORDS[order]} {stddev:,.1f}" for order, stddev in self.noise.items())
            lines.append(f"  noise       standard deviation of measured counts, in rows: {said}")
        worst = sorted(self.by_column.items(), key=lambda pair: -pair[1])[:HARDEST]
        lines += [
            f"              as accurate as a random sample of about {self.like_rows:,} rows",
            f"              hardest columns: {', '.join(f'{name} {error:.3f}' for name, error in worst)}",
            f"  time        about {self.seconds:.1f} s ({', '.join(f'{k} {v:.1f}' for k, v in self.stages.items())})",
            f"  memory      about {self.memory_mb:,.0f} MB",
        ]
        lines += [f"  {'assumed' if i == 0 else '':<10}  {text}" for i, text in enumerate(self.assumed)]
        lines += [f"  {'advice' if i == 0 else '':<10}  {text}" for i, text in enumerate(self.advice)]
        return "\n".join(lines)


def recommended(plans: Sequence[Plan]) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of one table that is recommended, and the reasons, a sentence each.

    It is the least epsilon at which tables of two columns (of one, where there is one column) are expected to be off by at
    most `ACCURATE` of all rows; where no epsilon up to `WEAKEST` is, the one nearest to `USUAL`.

    Parameters
    ----------
    plans
        One or more, of the same table.
    """
    ordered = sorted(plans, key=lambda one: one.epsilon)
    order = min(2, max(ordered[0].errors))
    offered = [one for one in ordered if one.epsilon <= WEAKEST] or ordered[:1]
    enough = next((one for one in offered if one.errors[order] <= ACCURATE), None)
    chosen = enough or min(offered, key=lambda one: abs(math.log(one.epsilon / USUAL)))
    odds = _odds(chosen)
    words = "tables of two columns" if order == 2 else "shares of the column"
    reasons = [
        f"At ε = {chosen.epsilon:g}, {words} are expected to be off by {_of_100(chosen, order)} of 100 rows.",
        f"A 50:50 guess about one protected unit then becomes right at most {odds} of the time.",
    ]
    below, above = ordered[: ordered.index(chosen)], ordered[ordered.index(chosen) + 1 :]
    if below:
        reasons.append(f"ε = {below[-1].epsilon:g} would be safer, with {_of_100(below[-1], order)} of 100 rows.")
    if above:
        more = f"ε = {above[0].epsilon:g} would give {_of_100(above[0], order)} of 100 rows"
        reasons.append(f"{more}, and a guess is then right up to {_odds(above[0])} of the time.")
    if enough is None:
        reasons.append(
            f"No ε up to {WEAKEST:g} brings the error below {100 * ACCURATE:g} of 100 rows: fewer columns or fewer "
            "categories help more than a weaker promise."
        )
    return chosen, tuple(reasons)


def accuracy_chart(plans: Sequence[Plan]) -> str:
    """Return the picture of the expected error of tables of two columns against epsilon; the recommended one is marked.

    Empty for plans of fewer than two epsilons.
    """
    points = dict(sorted((one.epsilon, one.errors[min(2, max(one.errors))]) for one in plans))
    if len(points) < 2:
        return ""
    chosen, _ = recommended(plans)
    order = min(2, max(chosen.errors))
    return trade_off_chart(
        list(points.items()), independent=chosen.independent[order], recommended=chosen.epsilon,
        title="Expected error, of 100 rows, against epsilon; dashed: columns without relations", name="trade-off",
    )  # fmt: skip


def _of_100(plan: Plan, order: int) -> str:
    return f"{100 * plan.errors[order]:.2g}"


def _odds(plan: Plan) -> str:
    return f"{100 * best_odds(plan.epsilon, plan.delta):.1f} %"


def curve(plans: list[Plan]) -> str:
    """Return several plans of one table as one table, a line for each loss: the trade-off between privacy and error."""
    orders = list(plans[0].errors)
    heads = ["ε", *(WORDS[order] for order in orders), "like a sample of", "seconds"]
    lines = [f"Trade-off for {plans[0].rows:,} rows and {plans[0].columns} columns: expected error by privacy loss"]
    lines.append("  " + "".join(f"{head:>18}" for head in heads))
    for plan in plans:
        errors = [f"{plan.errors[order]:.3f}" for order in orders]
        cells = [f"{plan.epsilon:g}", *errors, f"{plan.like_rows:,} rows", f"{plan.seconds:.1f}"]
        lines.append("  " + "".join(f"{cell:>18}" for cell in cells))
    chosen, reasons = recommended(plans)
    lines += [f"  Recommended: ε = {chosen.epsilon:g}", *(f"    {reason}" for reason in reasons)]
    said = [(plan, text) for plan in plans for text in (*plan.assumed, *plan.advice)]
    return "\n".join([*lines, *dict.fromkeys(f"  {text}" for _, text in said)])
