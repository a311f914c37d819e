"""`Plan`: what to expect of a release, as data, as a document and as text.  Knows no mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from synthdp.errors import ParameterError
from synthdp.figures import entry, in_figures, text_table
from synthdp.markup import render
from synthdp.privacy.loss import best_odds

if TYPE_CHECKING:
    from synthdp.pictures.picture import Picture

WORDS = {1: "single columns", 2: "pairs", 3: "triples"}
"""What tables of one, two and three columns are called."""

ACCURATE = 0.05
"""Expected distance of tables of two columns, a part of all rows, that is accurate enough to recommend: a tolerance."""

WEAKEST = 3.0
"""Largest epsilon that is recommended, as docs/how-to/choose-epsilon.md gives it for use inside a house: a safety limit."""

USUAL = 1.0
"""Epsilon that is recommended where none is accurate enough, by the same page."""

HARDEST = 5
"""Columns that the text names, those with the largest errors."""

TRADE_OFF = "Expected error, of 100 rows, against epsilon; dashed: columns without relations"
"""What the picture of several plans shows.  A text."""

MOST_DRAWN = 20
"""Columns that the picture of a plan shows, those with the largest errors.  A convention."""

USEFUL = 0.97
"""Part of the error of independent columns above which pairs teach no relations.  A tolerance."""

POOR = 0.1
"""Expected distance of single columns, a part of all rows, above which a release is poor.  A tolerance."""

STAGES = {"one-ways": "single columns"}
"""Words for the names of stages.  A convention."""

WRONG_CELL = (
    "of 100 rows, so many would have to move to another cell to make the counts right (total variation distance)"
)
"""What an error of a plan means.  A text."""

VERDICTS = {
    "good": f"in counts over two columns at most {100 * ACCURATE:g} of 100 rows are in a wrong cell",
    "fair": (
        f"in counts over one column at most {100 * POOR:g} of 100 rows are in a wrong cell; relations "
        "between columns are less accurate"
    ),
    "weak": "only single columns are learned, and no relations between them",
    "poor": f"even single columns are off by more than {100 * POOR:g} of 100 rows",
}
"""The sentence of each verdict of a plan."""


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
        As accurate on pairs as a random sample of this number of rows.
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
    other_pairs
        Expected mean total variation distance of the tables of two columns that the workload does not contain.
    noise
        Noise in a cell of the tables of one and of two columns, in rows.
    power
        For some values of Cramér's V how likely a pair of columns that has it is told from unrelated ones, at least; empty
        where pairs are not scored: where all of them are measured or none is, or columns are very many.
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
    other_pairs: float | None = None
    noise: dict[int, float] = field(default_factory=dict)
    power: dict[float, float] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """Return the plan as a JSON document."""
        by_order = {
            name: {str(k): v for k, v in getattr(self, name).items()}
            for name in ("errors", "independent", "noise", "power")
        }
        return asdict(self) | by_order | {"advice": list(self.advice), "assumed": list(self.assumed)}

    def _repr_html_(self) -> str:
        """Return the plan as a table for a notebook."""
        return render("plan.html", plan=self, words=WORDS)

    def plot(self) -> Picture:
        """Return a picture of the expected error of each column, of 100 rows; a notebook shows it, ``save`` writes it."""
        from synthdp.pictures.axes import column_panel
        from synthdp.pictures.picture import Picture, bars
        from synthdp.pictures.view import Bar, ColumnView

        hardest = sorted(self.by_column.items(), key=lambda pair: -pair[1])[:MOST_DRAWN]
        shown = tuple(Bar(name, 100 * error) for name, error in hardest)
        title = f"expected error of each column at ε = {self.epsilon:g}"
        chart = bars(shown, title=title, name="synthdp-plan")
        view = ColumnView(name=title, bars=shown, ordered=False)
        return Picture(title=title, chart=chart, note="per cent of rows in a wrong cell", panels=(column_panel(view),))

    @property
    def verdict(self) -> str:
        """How good the release would be, in a word: good, fair, weak (no relations) or poor (not even columns)."""
        order = min(2, max(self.errors))
        if self.errors[1] > POOR:
            return "poor"
        if order == 2 and self.errors[2] > USEFUL * self.independent[2]:
            return "weak"
        return "good" if self.errors[order] <= ACCURATE else "fair"

    def __str__(self) -> str:
        """Return the plan as text of at most `synthdp.figures.WIDTH` characters a line."""
        lines = [f"Plan: {self.rows:,} rows, {self.columns} columns, ε = {self.epsilon:g}, δ = {self.delta:g}"]
        lines += entry("verdict", f"{self.verdict}: {VERDICTS[self.verdict]}")
        lines += entry("as good as", f"a random sample of about {self.like_rows:,} rows")
        rows = [
            (WORDS[order], _of_100(self, order), f"{100 * self.independent[order]:.2g}", self._noise_of(order))
            for order in self.errors
        ]
        heads = ("rows of 100 in a wrong cell", "expected", "independent columns", "noise of a count")
        lines += [*text_table(heads, rows), *entry("wrong cell", WRONG_CELL)]
        hardest = sorted(self.by_column.items(), key=lambda pair: -pair[1])[:HARDEST]
        lines += text_table(
            ("least accurate columns", "rows of 100 in a wrong cell"),
            [(name, f"{100 * error:.2g}") for name, error in hardest],
        )
        if self.power:
            seen = [(f"Cramér's V of {found:g}", f"{100 * chance:.0f}") for found, chance in self.power.items()]
            lines += text_table(("of 100 relations with", "found at least"), seen)
        if self.best_unbiased is not None and self.best_unbiased < 1:
            largest, best = WORDS[min(3, self.columns)], f"{100 * self.best_unbiased:.2g} of 100 rows"
            lines += entry("at best", f"{best} by unbiased answers to {largest}, whatever the table")
        lines += entry("mechanism", f"{self.mechanism}: {self.why}")
        stages = ", ".join(f"{STAGES.get(stage, stage)} {seconds:.1f}" for stage, seconds in self.stages.items())
        lines += entry("time", f"about {self.seconds:.1f} s ({stages})")
        lines += entry("memory", f"about {self.memory_mb:,.0f} MB")
        for title, texts in (("assumed", self.assumed), ("advice", self.advice)):
            for i, text in enumerate(texts):
                lines += entry(title if i == 0 else "", text)
        return "\n".join(lines)

    def _noise_of(self, order: int) -> str:
        """Return the noise of tables of ``order`` columns as text, in rows; "" if none is measured."""
        return f"± {in_figures(self.noise[order], digits=2)} rows" if order in self.noise else ""


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
    words = "counts over two columns" if order == 2 else "shares of the column"
    reasons = [
        f"At ε = {chosen.epsilon:g}, {words} are expected to be off by {_of_100(chosen, order)} of 100 rows.",
        (
            f"An attacker who thinks it equally likely that a unit was or was not in the table then guesses right with "
            f"probability {odds} at most."
        ),
    ]
    below, above = ordered[: ordered.index(chosen)], ordered[ordered.index(chosen) + 1 :]
    if below:
        reasons.append(f"ε = {below[-1].epsilon:g} would be safer, with {_of_100(below[-1], order)} of 100 rows.")
    if above:
        more = f"ε = {above[0].epsilon:g} would give {_of_100(above[0], order)} of 100 rows"
        reasons.append(f"{more}, and raise that probability to {_odds(above[0])}.")
    if enough is None:
        reasons.append(
            f"No ε up to {WEAKEST:g} brings the error below {100 * ACCURATE:g} of 100 rows: fewer columns or fewer "
            "categories help more than a weaker promise."
        )
    return chosen, tuple(reasons)


class Plans(list[Plan]):
    """Plans of one table at several epsilons: a list, which prints as a table and has a picture."""

    def __str__(self) -> str:
        return curve(self)

    def _repr_html_(self) -> str:
        """Return the picture and the table for a notebook."""
        picture = accuracy_chart(self)
        return render("plans.html", text=curve(self), picture=self.plot()._repr_html_() if picture else "")

    def plot(self) -> Picture:
        """Return a picture of the expected error against epsilon; a notebook shows it, and ``save`` writes it.

        Raises
        ------
        ParameterError
            If there are fewer than two epsilons.
        """
        from synthdp.pictures.axes import trade_off_panel
        from synthdp.pictures.picture import Picture

        if not (chart := accuracy_chart(self)):
            raise ParameterError("a plot of plans needs two or more epsilons: give plan() a list of epsilons")
        chosen, _ = recommended(self)
        title = f"expected error of {WORDS[min(2, max(chosen.errors))]} against ε"
        panel = trade_off_panel(
            _points(self), independent=chosen.independent[min(2, max(chosen.errors))], recommended=chosen.epsilon,
            title=title,
        )  # fmt: skip
        return Picture(title=title, chart=chart, note=TRADE_OFF, panels=(panel,))


def _points(plans: Sequence[Plan]) -> list[tuple[float, float]]:
    """Return epsilon and the expected error of tables of two columns of each plan, by epsilon."""
    return list(dict(sorted((one.epsilon, one.errors[min(2, max(one.errors))]) for one in plans)).items())


def accuracy_chart(plans: Sequence[Plan]) -> str:
    """Return the picture of the expected error of tables of two columns against epsilon; the recommended one is marked.

    Empty for plans of fewer than two epsilons.
    """
    points = _points(plans)
    if len(points) < 2:
        return ""
    chosen, _ = recommended(plans)
    from synthdp.pictures.trade_off import trade_off_chart

    return trade_off_chart(
        points, independent=chosen.independent[min(2, max(chosen.errors))], recommended=chosen.epsilon,
        title=TRADE_OFF, name="trade-off",
    )  # fmt: skip


def _of_100(plan: Plan, order: int) -> str:
    """Return a plan's expected error of tables of ``order`` columns, in per cent, as text."""
    return f"{100 * plan.errors[order]:.2g}"


def _odds(plan: Plan) -> str:
    """Return an attacker's best odds in per cent, as text."""
    return f"{100 * best_odds(plan.epsilon, plan.delta):.1f} %"


def curve(plans: Sequence[Plan]) -> str:
    """Return a text that compares several plans of one table, a line for each loss, with the plan that is recommended."""
    first, orders = plans[0], list(plans[0].errors)
    chosen, reasons = recommended(plans)
    heads = ("ε", *(WORDS[order] for order in orders), "like a sample of", "seconds", "verdict")
    rows = [
        (
            f"{plan.epsilon:g}", *(_of_100(plan, order) for order in orders), f"{plan.like_rows:,} rows",
            f"{plan.seconds:.1f}", plan.verdict + ", recommended" * (plan is chosen),
        )
        for plan in plans
    ]  # fmt: skip
    lines = [f"Plan: {first.rows:,} rows, {first.columns} columns, at several ε, δ = {first.delta:g}"]
    lines += text_table(heads, rows, left=(len(heads) - 1,))
    lines += entry("errors", f"expected in counts over 1, 2 or 3 columns: {WRONG_CELL}")
    for word in dict.fromkeys(plan.verdict for plan in plans):
        lines += entry(word, VERDICTS[word])
    for i, reason in enumerate((f"ε = {chosen.epsilon:g}", *reasons)):
        lines += entry("recommend" if i == 0 else "", reason)
    said = dict.fromkeys(text for plan in plans for text in (*plan.assumed, *plan.advice))
    for i, text in enumerate(said):
        lines += entry("advice" if i == 0 else "", text)
    return "\n".join(lines)
