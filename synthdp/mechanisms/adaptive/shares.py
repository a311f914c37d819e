"""How the adaptive plan divides its budget among its stages.  Arithmetic on public numbers and noisy answers.

All shares are fractions of the whole budget, unless a name says of what else they are a part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synthdp.mechanisms.budget import BudgetAllocation
from synthdp.privacy.loss import PureDP

FIRST_COUNT_SHARE = 0.005
"""Share of a first estimate of the number of rows, on which the other shares depend."""

ONE_WAY_LEVEL = 0.1
"""Share of the first level of the one-ways when its noise, summed over a column, is .2 % of the rows."""

ONE_WAYS = (0.1, 0.8)
"""Least and largest share of the first level of the one-ways."""

ONE_WAYS_OF_OPTIMUM = 0.06
"""Most that the first level of the one-ways costs where all interactions are measured, main effects among them."""

DEEP_SHARE = 0.75
"""The deeper levels of the one-way trees may cost this much of the first level's share."""

ROUNDS = ([1.0], [0.7, 0.3], [0.5, 0.5])
"""Parts of what the one-ways leave for each round of tables, by the signal."""

ROUND_SIGNALS = (7_500.0, 15_000.0)
"""Signals (rows / stddev of a table measured with the whole budget) above which the next entry of ROUNDS pays."""

SCREENS = (0.07, 0.1)
"""Part of the first and of the second round that goes to its screening."""

LAPLACE_SCREEN = 0.2
"""The same with Laplace noise, for either round."""

LEAST_SHARE = 0.02
"""A share that is worth measuring the one-ways again for, when nothing else was."""


def one_way_share(cells: Sequence[int], budget: BudgetAllocation, *, total: float) -> float:
    """Return the share of the first level of the one-ways: more where their noise is large for the number of rows.

    Parameters
    ----------
    cells
        Of the first histogram of each column.
    budget
        What is left.
    total
        Estimated number of rows.
    """
    if len(cells) == 1:
        return budget.share * 0.5
    noise = budget.table_stddev(1 / len(cells)) * float(np.mean(cells)) / total
    return float(np.clip(ONE_WAY_LEVEL + 0.22 * math.log10(noise / 0.002), *ONE_WAYS))


def parts_of_rounds(budget: BudgetAllocation, *, total: float, second_stage: float | None) -> list[float]:
    """Return the part of what the one-ways leave that goes to each round of tables.

    Parameters
    ----------
    budget
        What is left.
    total
        Estimated number of rows.
    second_stage
        The part of the second round, 0 for none; ``None`` to decide by the signal.
    """
    if second_stage is not None:
        return [1 - second_stage, second_stage] if second_stage > 0 else [1.0]
    signal = total / budget.table_stddev(1.0)
    return ROUNDS[sum(signal > limit for limit in ROUND_SIGNALS)]


def screening_part(budget: BudgetAllocation, number: int) -> float:
    """Return the part of a round, 0 or 1, that goes to its screening."""
    return LAPLACE_SCREEN if isinstance(budget.whole, PureDP) else SCREENS[number]
