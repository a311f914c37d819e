"""A workload: which sets of columns should come out right, and how much each matters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from synthdp.distribution.contingency import Clique
from synthdp.errors import ParameterError

TARGET_WEIGHT = 3.0
"""How much more a table with the target column matters."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Weights on sets of columns.

    Costs nothing: a wish.

    Parameters
    ----------
    weights
        For sorted sets of column positions, how much they matter; ``None`` for all sets alike.
    target
        Position of a column whose relations matter most.
    """

    weights: tuple[tuple[Clique, float], ...] | None = None
    target: int | None = None

    def weight(self, clique: Clique) -> float:
        """Return how much a table matters: the weights of all wished sets that contain it, together.

        Costs nothing: arithmetic.
        """
        inside = set(clique)
        weight = 1.0 if self.weights is None else sum(w for wished, w in self.weights if inside <= set(wished))
        return weight * (TARGET_WEIGHT if self.target in inside else 1.0)


def workload_of(
    wish: Workload | Mapping[Sequence[str] | str, float] | Iterable[Sequence[str] | str] | None,
    names: Sequence[str],
    *,
    target: str | None = None,
) -> Workload:
    """Return the workload that a user describes by column names.

    Costs nothing: reads no row.

    Parameters
    ----------
    wish
        Sets of column names, or a mapping from them to weights; ``None`` for all sets alike.
    names
        All column names in order.
    target
        Name of a column whose relations matter most.

    Raises
    ------
    ParameterError
        If a name is unknown or a weight is not positive.
    """
    if isinstance(wish, Workload):
        return wish
    goal = None if target is None else _position(target, names)
    if wish is None:
        return Workload(None, goal)
    pairs = list(wish.items()) if isinstance(wish, Mapping) else [(columns, 1.0) for columns in wish]
    weights = []
    for columns, weight in pairs:
        chosen = (columns,) if isinstance(columns, str) else tuple(columns)
        if not isinstance(weight, (int, float)) or not weight > 0:
            raise ParameterError(f"the weight ({weight!r}) of a workload's columns must be a positive number")
        weights.append((tuple(sorted({_position(name, names) for name in chosen})), float(weight)))
    return Workload(tuple(weights), goal)


def _position(name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise ParameterError(f"there is no column {name!r}; the schema has: {', '.join(names)}")
    return list(names).index(name)
