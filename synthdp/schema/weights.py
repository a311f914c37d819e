"""The weight of a survey: how many units of a population each row stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from synthdp.errors import SchemaError
from synthdp.figures import in_figures
from synthdp.schema.column import Interval, Known, Quantity, is_finite_number, register, values_as_tuple

CLASSES = 16
"""Number of bins of a survey weight, by default.  More tell unequal weights better apart, and leave each bin fewer rows
beside the same noise.  A convention of a setting's default: weighted by unweighted error is 1.39, by half and twice of it
1.54 and 1.22, within the scatter of two releases (docs/benchmarks/weights.md)."""

MOST_CLASSES = 64
"""Most bins of a survey weight: every marginal with it has that many times as many cells.  A safety limit."""


@register
@dataclass(frozen=True, slots=True, repr=False)
class Weight(Known):
    """The survey weight of a row, lower <= w <= upper; weights beyond are clipped.

    The weight is counted in classes whose bounds have one ratio, ``(upper / lower) ** (1 / classes)``.  A release
    measures what the rows of a class stand for on average.  A synthetic row has the mean of its class, times a factor.
    The factor makes all weights of a synthetic table add up to the estimated population, however many rows are drawn.
    Releases of several tables, and series, refuse a weight.

    Parameters
    ----------
    lower, upper
        Public bounds, 0 < lower < upper.
    nullable
        Whether a row may have no weight.
    classes
        Number of classes, from 2 to 64.
    means, errors
        The mean of each class and its standard error: found by a release under noise, never declared.

    Examples
    --------
    >>> from synthdp import Weight
    >>> [round(end) for end in Weight(1, 10_000, classes=4).class_ends()]
    [1, 10, 100, 1000, 10000]
    """

    quantity: ClassVar[Quantity] = "number"
    lower: float
    upper: float
    nullable: bool = False
    classes: int = field(default=CLASSES, kw_only=True)
    means: tuple[float, ...] = field(default=(), kw_only=True)
    errors: tuple[float, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "classes"):
            value = getattr(self, name)
            object.__setattr__(self, name, value.item() if isinstance(value, np.generic) else value)
        for name in ("means", "errors"):
            object.__setattr__(self, name, values_as_tuple(name, getattr(self, name)))

    @property
    def is_complete(self) -> bool:
        """True, because a weight cannot be declared without bounds."""
        return True

    def support(self) -> Interval:
        """Return the possible values: the interval between the bounds."""
        return Interval(float(self.lower), float(self.upper))

    def check(self, where: str) -> None:
        """Raise SchemaError unless bounds, classes, means and errors are consistent."""
        for name in ("lower", "upper"):
            if not is_finite_number(getattr(self, name)):
                raise SchemaError(f"{where}: {name} must be a finite number")
        if not 0 < self.lower < self.upper:
            raise SchemaError(
                f"{where}: lower ({self.lower}) of a weight must be above 0 and below upper ({self.upper})"
            )
        if not math.isfinite(self.upper / self.lower) or self.upper / self.lower <= 1:
            raise SchemaError(f"{where}: upper divided by lower must be a finite floating-point number above 1")
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or not 2 <= self.classes <= MOST_CLASSES:
            raise SchemaError(f"{where}: classes ({self.classes!r}) must be a whole number from 2 to {MOST_CLASSES}")
        found = (*self.means, *self.errors)
        if len(self.means) != len(self.errors) or not all(is_finite_number(one) and one >= 0 for one in found):
            raise SchemaError(
                f"{where}: means and errors must be two lists of the same length, of numbers of at least 0"
            )

    def example(self) -> Self:
        """Return the column itself, because it is always complete."""
        return self

    def class_ends(self) -> tuple[float, ...]:
        """Return the edges of the classes, (classes + 1,), at equal ratios: a class of large weights is wider."""
        ratio = math.log(self.upper / self.lower)
        inner = (self.lower * math.exp(ratio * i / self.classes) for i in range(1, self.classes))
        return (float(self.lower), *inner, float(self.upper))

    def class_values(self) -> tuple[float, ...]:
        """Return the mean weight of each class, (classes,), or nothing before a release has measured it."""
        return self.means

    def class_errors(self) -> tuple[float, ...]:
        """Return the standard error of each class's mean weight, (classes,), or nothing before a release has measured it."""
        return self.errors

    def measured_as(self, means: tuple[float, ...], errors: tuple[float, ...]) -> Self:
        """Return the column with the noisy class means, and their standard errors, that a release measured."""
        return replace(self, means=means, errors=errors)

    def in_words(self) -> str:
        """Return a phrase for the column's type, bounds and classes, for receipts and lists of columns."""
        low, high = (in_figures(bound, digits=6) for bound in (self.lower, self.upper))
        return f"survey weight, {low} to {high}, in {self.classes} classes"
