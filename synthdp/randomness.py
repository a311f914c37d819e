"""Randomness for sampling, never for noise.

Sampling is post-processing: it may be seeded, repeated and shared.  Noise is drawn in `synthdp.privacy.noise` from the
operating system and has no seed.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from synthdp.errors import ParameterError

Generator: TypeAlias = np.random.Generator
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def generator(random_state: RandomState = None) -> Generator:
    """Return a NumPy generator for scikit-learn's ``random_state``; for sampling only, never for noise.

    Parameters
    ----------
    random_state
        ``None`` for fresh entropy, an integer seed, or a generator that is used as it is.

    Raises
    ------
    ParameterError
        If ``random_state`` is none of these.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(random_state._bit_generator)  # noqa: SLF001 - scikit-learn hands it on
    if random_state is None or (isinstance(random_state, (int, np.integer)) and random_state >= 0):
        return np.random.default_rng(random_state)
    raise ParameterError("random_state must be None, a non-negative integer or a numpy Generator")
