"""mbi 1.1's way from a fitted model to rows, with two known faults repaired as mbi 2.0 does.

Version 1.1.0, the newest that OpenDP 0.16 and SmartNoise 1.0.8 admit, (1) conditions a column on too few of the earlier
ones when measured cliques overlap, and (2) couples columns that share their parents, because each group's rows are filled
in the same order for every column (pull request 145 of the project's repository, June 2026).  The privacy is not touched:
all of it is after the fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mbi import MarkovRandomField, junction_tree, markov_random_field


class ShufflingNumpy:
    """numpy, but that rows of one group are put in a random order, not in that of the rows."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def argsort(groups: np.ndarray, **_: Any) -> np.ndarray:
        """Order of the rows by group, at random within each."""
        return np.lexsort((np.random.rand(len(groups)), groups))  # noqa: NPY002 - the state that mbi draws from


def repaired(model: MarkovRandomField) -> MarkovRandomField:
    """The same model over its junction tree's cliques, sampled without both faults."""
    markov_random_field.np = ShufflingNumpy()
    tree, _ = junction_tree.make_junction_tree(model.domain, model.cliques)
    return MarkovRandomField(
        potentials=model.potentials.expand(junction_tree.maximal_cliques(tree)),
        marginals=model.marginals,
        total=model.total,
    )
