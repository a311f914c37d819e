"""Where a monotone condition stops holding: the one search behind every inverse of a privacy formula."""

from __future__ import annotations

from collections.abc import Callable


def last_holding(holds: Callable[[float], bool], *, inside: float, outside: float, relative: float = 0.0) -> float:
    """Return the value nearest to ``outside`` where a monotone condition, true at ``inside``, still holds.

    Parameters
    ----------
    holds
        True from ``inside`` up to some border, false from there to ``outside``.  The value that is returned was
        tested (or is ``inside``), so that the answer errs to the side where the condition holds.
    inside, outside
        Ends of the interval, in either order.
    relative
        Where to stop, relative to the answer; 0 stops at neighbouring floats.
    """
    while abs(outside - inside) > relative * abs(inside):
        middle = inside + (outside - inside) / 2
        if middle in (inside, outside):
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside
