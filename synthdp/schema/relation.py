"""A relation: which rows of one table belong to which row of another, how many, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from synthdp.checks import whole
from synthdp.errors import SchemaError

MOST_ROWS = 500
"""Most child rows of one parent row that a relation may declare, because a person's record has columns for each of
them. A safety limit."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of two tables: which rows of the child table belong to which row of the parent table.

    Parameters
    ----------
    parent, child
        Names of two tables.
    key
        The column, in both tables, whose equal values say which rows belong together; a tuple of columns if only all
        of them together identify a row of the parent, as a composite foreign key does.
    at_most
        How many child rows of one parent row are used.  If there are more, which ones are used does not depend on any
        other person's rows.  A public bound: it must not be read off the private tables.
    order
        A column of the child table by which the rows of a parent row are ordered: a year, a date, a number of a wave.
        ``None``: they have no order, as the members of a household.
    unique
        Whether a parent row has at most one child row with each value of ``order``, as one record a year.  Every synthetic
        row obeys it; of private rows that do not, one is used.

    Raises
    ------
    SchemaError
        If a name is not text or occurs twice in the key, or ``at_most`` is out of range.  Also if ``unique`` is asked
        without an order.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.Relation(parent="persons", child="visits", key="person_id", at_most=12, order="year").at_most
    12
    >>> sd.Relation(parent="visits", child="drugs", key=("person_id", "visit"), at_most=9).keys
    ('person_id', 'visit')
    """

    parent: str
    child: str
    key: str | tuple[str, ...]
    at_most: int
    order: str | None = None
    unique: bool = False

    def __post_init__(self) -> None:
        for name in ("parent", "child"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise SchemaError(f"{name} of a relation must be a name, not {getattr(self, name)!r}")
        object.__setattr__(self, "key", _key(self.key))
        if self.order is not None and (not isinstance(self.order, str) or not self.order):
            raise SchemaError(f"order of a relation must be the name of a column or None, not {self.order!r}")
        if not isinstance(self.unique, bool):
            raise SchemaError("unique of a relation must be True or False")
        if self.unique and self.order is None:
            raise SchemaError(
                "unique=True means that no two rows of a parent have the same value of order: give order, or "
                "remove unique=True"
            )
        object.__setattr__(self, "at_most", whole("at_most", self.at_most, least=1, most=MOST_ROWS))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key: one, or all columns of a composite key in order."""
        return (self.key,) if isinstance(self.key, str) else self.key

    @property
    def where(self) -> str:
        """The relation's name in error messages."""
        return f"relation '{self.parent}' to '{self.child}'"


def _key(given: object) -> str | tuple[str, ...]:
    """Return the key of a relation, a tuple only if it has several columns; raise SchemaError if these are no names."""
    names = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    texts = tuple(name for name in names if isinstance(name, str) and name)
    if not names or len(texts) != len(names):
        raise SchemaError(f"key of a relation must be the name of a column or a tuple of names, not {given!r}")
    if len(set(texts)) != len(texts):
        raise SchemaError(f"key of a relation must name each column once, not {given!r}")
    return texts[0] if len(texts) == 1 else texts
