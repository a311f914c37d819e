"""Submodular queries from noisy parities, and the bias that none of a class exceeds.

Each block is approximated by a polynomial of low degree in the number of its true literals (Chebyshev's idea, the best
one by a linear program), so parities of few bits answer it.  Post-processing of noisy answers and public arithmetic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from synthdp.checks import check_whole
from synthdp.mechanisms.estimate import Estimate
from synthdp.works.polynomials.polynomials import optimal_coefficients
from synthdp.works.polynomials.submodular import SubmodularQuery

if TYPE_CHECKING:
    from synthdp.works.polynomials.parity_summary import ParitySummary

NOISE_WEIGHT = 2.0
"""How many stddevs of noise weigh as much as the same bias when a block's polynomial is chosen."""


def submodular_average(summary: ParitySummary, query: SubmodularQuery) -> Estimate:
    """Answer a submodular query as an average over rows, with its standard error and a proven bound on its bias.

    The bias of a sum is at most the weighted sum of its blocks'; a parity that several blocks use has one noise, so that
    coefficients are added before they are squared.
    """
    coefficients: defaultdict[tuple[int, ...], float] = defaultdict(float)
    constant = value = bias = low = high = 0.0
    spread: dict[tuple[int, ...], float] = {}
    for block, weight in zip(query.blocks, query.weights, strict=True):
        order = min(summary.order, block.k)
        moments = summary.moments(block, order=order)
        bits, signs = summary.bits.find(block)
        sizes = np.array([math.comb(block.k, i) for i in range(order + 1)], np.float64)
        prices = NOISE_WEIGHT * summary.stddevs[: order + 1] * np.sqrt(sizes) / summary.rows
        prices[0] = 0.0
        b = optimal_coefficients(block.values, order, tuple(prices.tolist()))
        constant += weight * float(b.values[0])
        bias += weight * b.error
        low, high = low + weight * min(block.values), high + weight * max(block.values)
        for places, moment, stddev in zip(moments.sets[1:], moments.values[1:], moments.stddev[1:], strict=True):
            size = weight * float(b.values[len(places)])
            value += size * float(moment) / summary.rows
            parity = tuple(sorted(int(bits[place]) for place in places))
            coefficients[parity] += size * float(np.prod(signs[list(places)]))
            spread[parity] = float(stddev) / summary.rows
    variance = sum((size * spread[parity]) ** 2 for parity, size in coefficients.items())
    variance += (value * float(summary.stddevs[0]) / summary.rows) ** 2
    return Estimate(
        estimate=constant + value,
        stderr=math.sqrt(variance),
        truncation=bias,
        truncation_bound=bias,
        offset=constant,
        rows_error=float(summary.stddevs[0]) / summary.rows,
        range=(low, high),
    )


@lru_cache(maxsize=1024)
def submodular_error(k: int, order: int) -> float:
    """Return the largest bias, at parities of at most ``order`` bits, of a whole class of submodular queries.

    The class: sums of weights at most 1 of g(number of true literals among at most k), g concave, not decreasing, from 0
    to at most 1.  Such a g is a mixture of the caps min(s, c) / c, c = 1 ... k, and 0, and the distance from the
    polynomials of a degree is convex, so the worst is a cap; on fewer literals it is no worse.
    """
    check_whole("k", k)
    check_whole("order", order)
    free = (0.0,) * (order + 1)
    caps = (tuple(min(true, cap) / cap for true in range(k + 1)) for cap in range(1, k + 1))
    return max(optimal_coefficients(values, order, free).error for values in caps)
