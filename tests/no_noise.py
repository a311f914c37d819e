"""Noise replaced: by none, by a fixed sequence (golden tests), or recorded and replayed (equal traces on neighbours).

`without_noise` makes every draw its exact value, and `with_repeatable_noise` draws the same noise on every run.
`recorded` keeps what was drawn and how (operation, shape, scale); `replayed` hands the recorded draws out again whatever
is asked, and records how it was asked: on a neighbouring table the two traces must be equal, for control flow may depend
on noisy answers alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from synthdp.errors import InternalError
from synthdp.privacy import noise


@dataclass(frozen=True)
class Draw:
    """How noise was asked for: nothing of it may depend on the private rows."""

    operation: str
    shape: tuple[int, ...]
    settings: tuple[tuple[str, float], ...]


@dataclass
class Trace:
    """Every draw in order, with what came out."""

    draws: list[Draw] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    inside: bool = False


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every operation of the noise module return its exact answer."""
    for name, exact in EXACT.items():
        monkeypatch.setattr(noise, name, exact)


def with_repeatable_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace noise on vectors by quantiles along the golden-ratio sequence: of its size, and the same on every run.

    The noise of an l-infinity K-norm mechanism becomes normal with its marginal stddev.
    """
    at = itertools.count(1)

    def uniform(k: int) -> np.ndarray:
        return np.array([(next(at) * 0.6180339887498949) % 1 for _ in range(k)])

    def laplace(values: np.ndarray, *, scale: float) -> np.ndarray:
        u = uniform(len(values)) - 0.5
        return values - np.rint(scale * np.sign(u) * np.log1p(-2 * np.abs(u))).astype(np.int64)

    def gaussian(values: np.ndarray, *, scale: float) -> np.ndarray:
        return values + np.rint(scale * ndtri(uniform(len(values)))).astype(np.int64)

    def knorm(values: np.ndarray, *, scale: float) -> np.ndarray:
        k = len(values)
        return gaussian(values, scale=scale * math.sqrt((k + 1) * (k + 2) / 3))

    monkeypatch.setattr(noise, "linf_knorm", knorm)
    monkeypatch.setattr(noise, "discrete_laplace", laplace)
    monkeypatch.setattr(noise, "discrete_gaussian", gaussian)


def recorded(monkeypatch: pytest.MonkeyPatch, *, exact: bool = False) -> Trace:
    """Record every draw from now on; with ``exact``, draws without noise."""
    trace = Trace()
    for name, without in EXACT.items():
        monkeypatch.setattr(noise, name, _recording(name, without if exact else getattr(noise, name), trace))
    return trace


def replayed(monkeypatch: pytest.MonkeyPatch, earlier: Trace) -> Trace:
    """Hand out the outputs of an earlier trace, in order, and record how they were asked for."""
    trace = Trace()
    for name in EXACT:
        monkeypatch.setattr(
            noise, name, _recording(name, lambda *_, **__: earlier.outputs[len(trace.draws) - 1], trace)
        )
    return trace


def _recording(name: str, draw: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
    def asked(*values: Any, **settings: float) -> Any:
        if trace.inside:  # a draw made of other draws is recorded as one
            return draw(*values, **settings)
        # The keys of a thresholded histogram are private: their number is no part of how it is asked.
        shape = tuple(np.shape(value) for value in values if not isinstance(value, Mapping))
        trace.draws.append(Draw(name, tuple(map(int, np.ravel(shape))), tuple(sorted(settings.items()))))
        trace.inside = True
        try:
            output = draw(*values, **settings)
        finally:
            trace.inside = False
        trace.outputs.append(output)
        return output

    return asked


def _vector(values: np.ndarray, *, scale: float) -> np.ndarray:
    _check(values, scale)
    return values.copy()


def _largest(scores: np.ndarray, *, scale: float) -> int:
    _check(scores, scale)
    return int(np.argmax(scores))


def _zero(*, scale: float) -> int:
    _check(np.zeros(1, np.int64), scale)
    return 0


def _frequent(counts: Mapping[str, int], *, scale: float, threshold: int) -> dict[str, int]:
    _check(np.zeros(1, np.int64), scale)
    return {key: counts[key] for key in sorted(counts) if counts[key] >= threshold}


def _check(values: np.ndarray, scale: float) -> None:
    """What the real operations refuse."""
    if values.dtype != np.int64 or values.ndim != 1:
        raise InternalError("noise needs a vector of int64")
    if not 0 < scale <= noise.LARGEST_SCALE:
        raise InternalError("scale must be positive")


EXACT: dict[str, Callable[..., Any]] = {
    "discrete_laplace": _vector,
    "discrete_gaussian": _vector,
    "linf_knorm": _vector,
    "noisy_max": _largest,
    "exponential_mechanism": _largest,
    "geometric": _zero,
    "laplace_threshold": _frequent,
    "gaussian_threshold": _frequent,
}
