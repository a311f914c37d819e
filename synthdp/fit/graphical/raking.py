"""Particles: rows drawn from the junction tree, reweighted to tables that do not fit the tree.

Last step of a fit with extras, after `max_entropy`; makes an `Explicit`.  Knows no private row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.distribution.contingency import NoisyTable, cell_index, check_tables
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.errors import ParameterError
from synthdp.fit.graphical.max_entropy import MaxEntropy
from synthdp.fit.graphical.moment_matching import NoisyProducts, ProductTilt
from synthdp.fit.graphical.proportional_step import rake
from synthdp.randomness import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Particles:
    """Settings of raking weighted rows.

    Parameters
    ----------
    size
        Number of rows drawn from the tree, >= 1.
    sweeps
        Rounds over all tables, >= 1.
    ridges
        The settings whose ridges the tables had in the tree's fit.

    Raises
    ------
    ParameterError
        If a setting is outside its range.
    """

    size: int = 200_000
    sweeps: int = 6
    ridges: MaxEntropy = field(default_factory=MaxEntropy)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ParameterError(f"size ({self.size}) must be at least 1")
        if self.sweeps < 1:
            raise ParameterError(f"sweeps ({self.sweeps}) must be at least 1")

    def fit(
        self,
        model: Graphical,
        tables: Iterable[NoisyTable],
        *,
        total: float,
        rng: Generator,
        products: NoisyProducts | None = None,
    ) -> Explicit:
        """Rake the weights of rows drawn from ``model`` to all ``tables``.

        The update of the tree's fit, with weighted rows in place of beliefs.  A table whose clique has a
        potential in ``model`` goes on from it; the others are the extras and start at 0.  In each sweep the
        products and the extras come first and the one-ways last, so that these are the most exact.

        Parameters
        ----------
        model
            The fitted tree; its structural zeros stay, since no row has them.
        tables
            Consistent tables, those of the tree and the extras.
        total
            Number of rows, as in the tree's fit (raised to its ``total_floor``).
        rng
            Source of the rows.
        products
            Noisy mean products that the rows are tilted to.

        Raises
        ------
        ParameterError
            If a table does not fit the model's shape, or ``total`` is not finite.
        """
        if not math.isfinite(total):
            raise ParameterError(f"total ({total}) must be finite")
        total = max(total, self.ridges.total_floor)
        ordered = sorted(tables, key=lambda t: (t.clique in model.potentials, len(t.clique) == 1))
        check_tables(ordered, model.shape)
        codes = model.sample(self.size, rng)
        cells = [cell_index(codes, model.shape, table.clique) for table in ordered]
        thetas = [_potential(model, table) for table in ordered]
        weights = np.full(self.size, total / self.size)
        tilt = None if products is None else ProductTilt(products, codes, weights)
        for _ in range(self.sweeps):
            if tilt is not None:
                weights *= tilt.step(weights)
                weights *= total / weights.sum()
            for table, index, theta in zip(ordered, cells, thetas, strict=True):
                expected = np.bincount(index, weights=weights, minlength=theta.size).astype(np.float64, copy=False)
                ridge = self.ridges.ridge_of(table)
                factor = rake(expected, theta, table.counts, cells=expected > 0, ridge=ridge, total=total)
                weights *= factor[index]
        return Explicit(shape=model.shape, codes=codes, weights=weights)


def _potential(model: Graphical, table: NoisyTable) -> FloatArray:
    known = model.potentials.get(table.clique)
    if known is None:
        return np.zeros(table.counts.size)
    return np.where(np.isfinite(known), known, 0.0)
