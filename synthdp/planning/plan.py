"""`Plan`: expected cost and accuracy of a release, as data, as a document and as text.

The module uses no mechanism.
"""

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
"""Names of marginals of one, two and three columns in texts.  A convention."""

ACCURATE = 0.05
"""Expected total variation distance of two-column marginals that is accurate enough to recommend an epsilon.  Less
would recommend larger epsilons; more would call poor relations good.  A tolerance."""

WEAKEST = 3.0
"""Largest epsilon that is recommended, as docs/how-to/choose-epsilon.md gives it for use inside an organisation.  If all
plans have larger epsilons, the smallest epsilon is recommended.  A safety limit."""

USUAL = 1.0
"""Epsilon that is recommended if no epsilon is accurate enough, from docs/how-to/choose-epsilon.md.  A convention."""

HARDEST = 5
"""Number of columns, with the largest errors, that the text of a plan lists.  More would make the text long.  A
convention."""

TRADE_OFF = "Expected error, of 100 rows, against epsilon; dashed: columns without relations"
"""Title of the picture that compares several plans."""

MOST_DRAWN = 20
"""Most columns in the picture of a plan, which shows the columns with the largest errors.  More would make the picture
longer than a page.  A convention."""

USEFUL = 0.97
"""Fraction of the error of independent columns above which a release is taken to learn no relations.  Less would also
count weak relations as none; at 1, chance would count as learning.  A tolerance."""

POOR = 0.1
"""Expected total variation distance of single columns above which a release is called poor.  Less would warn of
releases that are good enough for rough shares.  A tolerance."""

STAGES = {"one-ways": "single columns"}
"""Display names of stages of a release.  A convention."""

WRONG_CELL = (
    "of 100 rows, so many would have to move to another cell to make the counts right (total variation distance)"
)
"""Explanation of an error of a plan, for its texts."""

VERDICTS = {
    "good": f"in counts over two columns at most {100 * ACCURATE:g} of 100 rows are in a wrong cell",
    "fair": (
        f"in counts over one column at most {100 * POOR:g} of 100 rows are in a wrong cell; relations "
        "between columns are less accurate"
    ),
    "weak": "only single columns are learned, and no relations between them",
    "poor": f"even single columns are off by more than {100 * POOR:g} of 100 rows",
}
"""Explanation of each verdict of a plan, for its texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Holds the expected cost and accuracy of a release, from a dry run on simulated rows.

    Parameters
    ----------
    rows, columns
        Assumed size of the table.
    epsilon, delta, neighbors
        The privacy guarantee.
    mechanism, why
        The mechanism that would run, and the reason for this choice.
    errors
        Expected mean total variation distance of marginals of 1, 2 and 3 columns, on the 32-bin form of the table.
    independent
        The same errors for synthetic columns that are drawn independently of each other.
    by_column
        Expected total variation distance of each column's one-way marginal.
    like_rows
        Size of a random sample of private rows that is as accurate on two-column marginals.
    seconds, stages
        Expected time in CPU seconds, in all and by stage.
    memory_mb
        Expected peak memory in megabytes.
    advice
        Warnings and suggestions, as sentences.
    assumed
        Assumptions on columns that the schema leaves open or that were not reviewed, as sentences.
    like_epsilon
        Set if the schema leaves columns open.  The smallest of a few tried epsilons at which a fully declared schema
        would be as accurate.
    refused_for
        Set if the schema leaves columns open.  Two epsilons that a refusal (``undiscovered="refuse"``) costs: after the
        number of rows is estimated, and after all of discovery.
    best_unbiased
        Smallest mean error that unbiased answers to all three-column marginals can have, in closed form; None if the
        cells of the domain cannot be enumerated.  A release that measures all interactions should be at least as
        accurate.
    other_pairs
        Expected mean total variation distance of the two-column marginals outside the workload.
    noise
        Noise stddev of a cell in one-column and in two-column marginals, in rows.
    power
        By value of Cramér's V, a lower bound on the chance that a pair of columns with this value is detected.  Empty
        if pairs are not scored: if all or none are measured, or columns are very many.
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
        """Return the plan as a dictionary for JSON; numbers of columns become text keys."""
        by_order = {
            name: {str(k): v for k, v in getattr(self, name).items()}
            for name in ("errors", "independent", "noise", "power")
        }
        return asdict(self) | by_order | {"advice": list(self.advice), "assumed": list(self.assumed)}

    def _repr_html_(self) -> str:
        """Return the plan as an HTML table for a notebook."""
        return render("plan.html", plan=self, words=WORDS)

    def plot(self) -> Picture:
        """Return a picture of the expected error of each column, in rows per 100.

        A notebook shows the picture, and its ``save`` method writes it.
        """
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
        """Return the expected quality in a word: good, fair, weak (no relations) or poor (single columns are wrong)."""
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
        """Return the noise of marginals of ``order`` columns as text, in rows; "" if none is measured."""
        return f"± {in_figures(self.noise[order], digits=2)} rows" if order in self.noise else ""


def recommended(plans: Sequence[Plan]) -> tuple[Plan, tuple[str, ...]]:
    """Return the recommended plan of several plans of one table, and the reasons, one sentence each.

    The recommended epsilon is the smallest at which two-column marginals are expected to be off by at most `ACCURATE`.
    If no epsilon up to `WEAKEST` is accurate enough, the one up to `WEAKEST` that is nearest to `USUAL` is
    recommended.  If all are above `WEAKEST`, the smallest is.

    Parameters
    ----------
    plans
        One or more plans of the same table.
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
    """Holds the plans of one table at several epsilons: a list that prints as a table and has a picture."""

    def __str__(self) -> str:
        return curve(self)

    def _repr_html_(self) -> str:
        """Return the picture and the table as HTML for a notebook."""
        picture = accuracy_chart(self)
        return render("plans.html", text=curve(self), picture=self.plot()._repr_html_() if picture else "")

    def plot(self) -> Picture:
        """Return a picture of the expected error of two-column marginals against epsilon, in rows of 100.

        For a table of one column it is that column's error.

        A notebook shows the picture, and its ``save`` method writes it.

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
    """Return the points of the chart: each plan's epsilon with its expected error of two-column marginals, by epsilon.

    Errors have the unit of `Plan.errors`. For a table of one column, the error of its one-way marginal is returned.
    """
    return list(dict(sorted((one.epsilon, one.errors[min(2, max(one.errors))]) for one in plans)).items())


def accuracy_chart(plans: Sequence[Plan]) -> str:
    """Return an SVG chart of the expected error against epsilon, with the recommended epsilon marked.

    The error is of two-column marginals (of the only column of a table), in rows of 100.  Return "" for fewer than two
    epsilons.
    """
    points = _points(plans)
    if len(points) < 2:
        return ""
    chosen, _ = recommended(plans)
    from synthdp.pictures.line_charts import trade_off_chart

    return trade_off_chart(
        points, independent=chosen.independent[min(2, max(chosen.errors))], recommended=chosen.epsilon,
        title=TRADE_OFF, name="trade-off",
    )  # fmt: skip


def _of_100(plan: Plan, order: int) -> str:
    """Return a plan's expected error of marginals of ``order`` columns as text, in rows per 100."""
    return f"{100 * plan.errors[order]:.2g}"


def _odds(plan: Plan) -> str:
    """Return an attacker's largest chance to guess membership correctly as text, in per cent."""
    return f"{100 * best_odds(plan.epsilon, plan.delta):.1f} %"


def curve(plans: Sequence[Plan]) -> str:
    """Return a text that compares several plans of one table, one line per epsilon, with a recommendation."""
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
