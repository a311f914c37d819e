"""The division of the plan's budget among its stages.  Arithmetic on public numbers and noisy answers.

Shares are fractions of the whole budget, unless the text names another whole.
"""

from __future__ import annotations

import numpy as np

from synthdp.mechanisms.adaptive.energies import TYPICAL
from synthdp.mechanisms.allocation import BudgetAllocation

FIRST_COUNT_SHARE = 0.005
"""Share of the budget for a first noisy count of rows, which the other shares depend on.  A tolerance: all other answers
have .25 % more Gaussian noise, and half and twice of it change nothing beyond scatter (docs/benchmarks/constants.md)."""

LATER = 0.3
"""Fraction of the budget left after the one-ways for each round of measuring tables after the first.  The scores of a later
round are against a fitted model.  A larger one leaves more for tables of three columns, and less for the first pairs.
Tuned: half and one and a half of it change the three-way error of four tables at epsilon 5 and 10 by -.8 and -1.7 %
(docs/benchmarks/planner.md)."""

ROUND_SIGNAL = 7_500.0
"""Signal (rows / stddev of a table measured with the whole budget) above which there are two rounds.  With a higher
limit, more tables have a single round.  Tuned: half and twice of it change the three-way error of two
tables of many rows by 0 and -1.7 % (docs/benchmarks/constants.md)."""

ONE_WAYS_KNOWN = 1_500.0
"""Signal (rows / stddev of a table measured with the whole budget) above which only a pair's interaction is measured.
The one-ways are then so accurate that the pair's margins would hardly improve them.  Below this signal whole tables are
measured, which improve the one-ways too.  Chosen by hand in an early version: from this signal on three-way tables gained,
and single columns lost.  Hardly any table of docs/benchmarks/planner.md reaches it."""

SCREEN = 0.1
"""Fraction of a budget for finding out which relations are strong.  Scores of candidate tables cost this fraction of a
round's budget, unless they would be noisier than `score_noise`. Products of all pairs cost at most this fraction of the
remaining budget, and the strongest products as much again.  A larger one chooses tables better, and measures them
worse.  Tuned: half and twice of it change the three-way error of five tables by +.6 and +.4 % for scores.  For products
they change it by +.4 and -.1 % (docs/benchmarks/constants.md)."""

MOST_SCREEN = 0.2
"""The largest share of a round that screening costs.  A larger one spends more on scores, and less on tables.  Tuned: half
and twice of it change the three-way error of five tables by +1.1 and +.5 % (docs/benchmarks/constants.md)."""

LOUDEST_SCORE = 2 * TYPICAL[2]
"""Largest stddev of a score, as a fraction of the rows, at which pairs are screened at all.  Derived: beyond it noise alone
is louder than twice a typical relation, and would choose."""


def rounds_of(
    budget: BudgetAllocation, *, total: float, second_stage: float | None, triples: bool = False, fitted: bool = False
) -> list[tuple[str, float]]:
    """Return the rounds of measuring tables: what scores are compared with, and the fraction of the budget for each.

    Scores of the first round are against ``independence`` of all columns.  Later rounds score pairs and triples over
    coarse bins against the fitted ``model``, and ``triples`` over merged bins.

    Parameters
    ----------
    budget
        The remaining budget.
    total
        Estimated number of rows.
    second_stage
        Fraction for all later rounds, 0 for none; ``None`` to decide by the signal.
    triples
        Whether triples over merged bins may be measured.
    fitted
        Whether tables of several columns were measured already, so that the first round has a model.
    """
    again = signal(budget, total) > ROUND_SIGNAL if second_stage is None else second_stage > 0
    later = ["model"] * (again and not fitted) + ["triples"] * (triples and second_stage != 0)
    part = LATER * len(later) if second_stage is None else second_stage * bool(later)
    return [("model" if fitted else "independence", 1 - part), *((one, part / len(later)) for one in later)]


def signal(budget: BudgetAllocation, total: float) -> float:
    """Return the number of rows in standard deviations of the noise of a table that costs the whole budget.

    A larger signal means relatively less noise; several decisions depend on it.
    """
    return total / budget.table_stddev(1.0)


def score_noise(order: int) -> float:
    """Return the stddev of a score that screening aims at, as a fraction of the rows, for candidates of 2 or 3 columns.

    The stddev is half of the typical strength of a relation (`TYPICAL`), so that a typical relation is two stddevs
    above noise.
    """
    return TYPICAL[order] / 2


def screening_part(budget: BudgetAllocation, *, share: float, pairs: int, total: float) -> float:
    """Return the fraction of a round's budget, from 0 to below 1, for scoring candidates.

    The fraction is larger than `SCREEN` if scores would be noisy: strong relations still show, and gain more than
    scores cost.  It is 0 if the noise of scores would exceed `LOUDEST_SCORE`.

    Parameters
    ----------
    budget
        The remaining budget.
    share
        Share of the whole budget for the round.
    pairs
        Number of candidates of two columns.
    total
        Estimated number of rows.
    """
    if pairs < 2:
        return SCREEN
    noise = budget.table_stddev(share / pairs) / total
    part = float(np.clip((noise / score_noise(2)) ** (1 / budget.exponent), SCREEN, MOST_SCREEN))
    return part if noise * part**-budget.exponent < LOUDEST_SCORE else 0.0
