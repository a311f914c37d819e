"""Conditions on rows to draw, such as ``age > 30 and sex == 'F'``, as what each column may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from synthdp.answers.expressions import Both, Node, columns_of, comparisons_of, parse, points_where, truth
from synthdp.domain.grid import grid_of
from synthdp.domain.values import Allowed
from synthdp.errors import ParameterError
from synthdp.schema.schema import Schema


def allowed_by(conditions: Iterable[str], schema: Schema) -> dict[str, Allowed]:
    """Return which grid points of each column some conditions allow, for ``sample(given=...)``.

    Parameters
    ----------
    conditions
        Texts in the language of `synthdp.answers.expressions.parse`; a row must meet all of them.  Each part that ``and``
        joins speaks of one column, so that rows are drawn from the conditional law without rejection.
    schema
        Of the rows.

    Raises
    ------
    ParameterError
        If a text cannot be read, a part speaks of several columns, or nothing meets it.
    """
    allowed: dict[str, Allowed] = {}
    for part in (part for text in conditions for part in _parts(parse(text))):
        names = sorted(columns_of(part))
        if len(names) != 1:
            raise ParameterError(
                f"a condition on rows to draw joins columns by 'and' alone, but one part speaks of {' and '.join(names)}"
            )
        (name,) = names
        found = {comparison: points_where(comparison, schema) for comparison in comparisons_of(part)}
        mask = np.zeros(grid_of(schema.outputs[name]).size, np.bool_)
        visible = truth(part, found)
        mask[: len(visible)] = visible
        allowed[name] = Allowed(mask & allowed[name].mask if name in allowed else mask)
    empty = [name for name, one in allowed.items() if not one.mask.any()]
    if empty:
        raise ParameterError(f"no value of column {empty[0]!r} meets the condition")
    return allowed


def _parts(node: Node) -> Iterator[Node]:
    """Yield the parts that ``and`` joins."""
    if isinstance(node, Both):
        yield from _parts(node.left)
        yield from _parts(node.right)
    else:
        yield node
