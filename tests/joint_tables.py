"""Brute force on tiny domains: the joint table in full, and hypothesis strategies for tiny graphical models."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from synthdp.arrays import Clique
from synthdp.queries.contingency import cell_index, table_size


def all_rows(shape: tuple[int, ...]) -> np.ndarray:
    """Every combination of codes, in C order; (cells, d)."""
    return np.array(list(itertools.product(*(range(k) for k in shape))), dtype=np.int64).reshape(-1, len(shape))


def joint_logits(shape: tuple[int, ...], potentials: dict[Clique, np.ndarray]) -> np.ndarray:
    rows = all_rows(shape)
    logits = np.zeros(len(rows))
    for clique, theta in potentials.items():
        logits += theta[cell_index(rows, shape, clique)]
    return logits


def joint_table(shape: tuple[int, ...], potentials: dict[Clique, np.ndarray]) -> tuple[np.ndarray, float]:
    """Probabilities of every combination, and log Z."""
    logits = joint_logits(shape, potentials)
    peak = logits.max()
    weights = np.exp(logits - peak)
    return weights / weights.sum(), peak + math.log(weights.sum())


def margin(shape: tuple[int, ...], joint: np.ndarray, clique: Clique) -> np.ndarray:
    return np.bincount(cell_index(all_rows(shape), shape, clique), weights=joint, minlength=table_size(shape, clique))


def subsets(d: int, largest: int) -> list[Clique]:
    return [c for size in range(largest + 1) for c in itertools.combinations(range(d), size)]


@st.composite
def shapes(draw: st.DrawFn, *, most_columns: int = 5, most_codes: int = 3) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, most_codes), min_size=1, max_size=most_columns)))


@st.composite
def graphs(draw: st.DrawFn, *, most_columns: int = 5, most_codes: int = 3) -> tuple[tuple[int, ...], list[Clique]]:
    """A shape and some different cliques of one to three columns."""
    shape = draw(shapes(most_columns=most_columns, most_codes=most_codes))
    candidates = [c for c in subsets(len(shape), 3) if c]
    return shape, draw(st.lists(st.sampled_from(candidates), unique=True, max_size=6))


@st.composite
def models(draw: st.DrawFn, *, zeros: bool = False) -> tuple[tuple[int, ...], dict[Clique, np.ndarray]]:
    """A shape and a log-potential for each of some cliques; with ``zeros``, some cells are -inf but never all."""
    shape, cliques = draw(graphs())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.3, 3.0, 30.0]))
    witness = [int(rng.integers(k)) for k in shape]
    potentials = {}
    for clique in cliques:
        theta = spread * rng.normal(size=table_size(shape, clique))
        forbidden = (rng.random(theta.size) < 0.3) & zeros
        forbidden[cell_index(np.array([witness]), shape, clique)] = False
        potentials[clique] = np.where(forbidden, -np.inf, theta)
    return shape, potentials
