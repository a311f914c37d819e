"""Synthetic persons of a panel over time: in each period every person gets one more state, in the noisy counts' proportions.

Bun, Gaboardi, Neunhoeffer, Zhang 2023 (arXiv:2306.07884), algorithm 1, for any number of states.  Post-processing.
"""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.distribution.explicit import Explicit
from synthdp.domain.panel_states import PanelStates
from synthdp.queries.contingency import project_to_simplex
from synthdp.randomness import Generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema

FAILURE = 0.05
"""Largest probability that any noisy count of any period falls below 0 in spite of the padding (it is then cut to 0). A
tolerance.
"""


def model_of_states(schema: Schema, states: PanelStates) -> SyntheticModel:
    """Return a model with the bins of the states, by which a release turns states into table rows.

    Its distribution is a placeholder: states come from noisy counts, not from a fitted model.
    """
    codes = np.stack(np.unravel_index(states.cells[:1], states.domain.shape), axis=1)
    unused = Explicit(shape=states.domain.shape, codes=codes, weights=np.ones(1))
    return SyntheticModel.of(schema, states.domain, unused, total=1.0)


def padding(stddev: float, *, patterns: int, releases: int) -> int:
    """Return how many synthetic persons to add to every sequence of states, so that noise takes no count below 0.

    Let S be the number of states.  The error of a synthetic count is a sum: the mean error of S earlier counts, plus
    the deviation of the count's noise from its group's mean noise.  A group is the S counts of persons with the same
    earlier states.  So the error varies at most as much as the noise.  A normal error is below -stddev sqrt(2
    log(1 / p)) with a chance of at most p, here `FAILURE` over all counts.

    Parameters
    ----------
    stddev
        Standard deviation of the noise, in persons.
    patterns, releases
        Number of counts, and number of times that all counts are released.
    """
    return math.ceil(stddev * math.sqrt(2 * math.log(patterns * releases / FAILURE)))


def first_persons(states: PanelStates, counts: FloatArray, rng: Generator) -> IntArray:
    """Return the state sequences of the first synthetic persons, (n, window), made when the first window is full.

    Parameters
    ----------
    states
        The states of the panel.
    counts
        (patterns,) noisy counts with the padding.
    rng
        Source of the order.
    """
    whole = np.maximum(np.rint(counts), 0).astype(np.int64)
    return np.asarray(rng.permutation(np.repeat(states.sequences(), whole, axis=0)), np.int64)


def next_states(states: PanelStates, lately: IntArray, counts: FloatArray, rng: Generator) -> IntArray:
    """Return the next state of every synthetic person, (n,), so that synthetic counts follow the noisy ones.

    Synthetic persons with the same last window - 1 states are divided among next states by the noisy counts.  The counts
    are shifted equally so that they add up to the number of these persons.

    Parameters
    ----------
    states
        The states of the panel.
    lately
        (n, window - 1) states of the last periods.
    counts
        (patterns,) noisy counts with the padding.
    rng
        Source of the random choice of persons for each next state, and of rounding.
    """
    groups = states.count ** (states.window - 1)
    powers = states.count ** np.arange(states.window - 2, -1, -1)
    group = lately.astype(np.int64) @ powers if states.window > 1 else np.zeros(len(lately), np.int64)
    sizes = np.bincount(group, minlength=groups)
    order = np.lexsort([rng.random(len(group)), group])
    found, begin = np.empty(len(group), np.int64), 0
    for size, wanted in zip(sizes.tolist(), counts.reshape(groups, states.count), strict=True):
        if size:
            whole = _rounded(wanted + (size - wanted.sum()) / len(wanted), size, rng)
            found[order[begin : begin + size]] = np.repeat(np.arange(states.count), whole)
            begin += size
    return found


def _rounded(wanted: FloatArray, size: int, rng: Generator) -> IntArray:
    """Round numbers of a given sum, (n,), to whole numbers of at least 0 with that sum; ties are broken at random.

    Where some are below 0, all are first projected to numbers that are not.
    """
    parts = wanted if (wanted >= 0).all() else project_to_simplex(wanted, float(size))
    low = np.floor(parts).astype(np.int64)
    left = size - int(low.sum())
    if left > 0:
        chance = np.argsort(-(parts - low) - 1e-9 * rng.random(len(parts)), kind="stable")
        low[chance[:left]] += 1
    elif left < 0:  # rounding of a sum of many parts
        for one in np.argsort(-low, kind="stable")[:-left]:
            low[one] -= 1
    return low
