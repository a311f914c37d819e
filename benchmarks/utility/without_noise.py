"""How much of a release's error is noise: the same program with some of its questions answered exactly.  Not private.

A release under `without_noise` has the same plan, shares and fit, which still take the answers for noisy ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

from synthdp import Curator
from synthdp.arrays import IntArray
from synthdp.privacy import noise

TABLES = ("marginals of several columns", "interactions")
"""How the receipt's steps begin that measure what several columns have together."""

EVERYTHING = ("",)
"""All steps: columns, scores and tables."""


@contextlib.contextmanager
def without_noise(steps: Sequence[str]) -> Iterator[None]:
    """Answer exactly every question whose step in the receipt begins with one of these.

    Parameters
    ----------
    steps
        Beginnings of steps.
    """
    exact = [False]
    each, gaussian = Curator.measure_each, noise.discrete_gaussian

    def measure_each(self: Curator, *asked: Any, steps: Sequence[str], **settings: Any) -> Any:
        exact[0] = all(step.startswith(tuple(beginnings)) for step in steps)
        try:
            return each(self, *asked, steps=steps, **settings)
        finally:
            exact[0] = False

    def draw(values: IntArray, *, scale: float) -> IntArray:
        return np.array(values) if exact[0] else gaussian(values, scale=scale)

    beginnings = tuple(steps)
    with (
        mock.patch.object(Curator, "measure_each", measure_each),
        mock.patch.object(noise, "discrete_gaussian", draw),
    ):
        yield
