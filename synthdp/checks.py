"""Checks of parameters: each raises one `ParameterError` that names the parameter, its value and what is allowed."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.errors import ParameterError

_LARGE = 2**31
"""Smallest upper limit that an error message leaves out, unless the value exceeds the limit: it would only lengthen the
message about a value that is too small or no number.  A convention."""


def check_whole(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Raise ParameterError unless a value is an integer within limits (of Python or NumPy, no boolean)."""
    whole(name, value, least=least, most=most)


def check_integral(name: str, value: float, *, least: int = 1, most: int | None = None) -> None:
    """Raise ParameterError unless a value is an integer within limits; whole floats pass too, as large numbers often are."""
    whole(name, int(value) if isinstance(value, float) and value.is_integer() else value, least=least, most=most)


def whole(name: str, value: object, *, least: int = 0, most: int | None = None) -> int:
    """Return an integer of any type as a Python integer, whose arithmetic does not overflow; refuse other values.

    Parameters
    ----------
    name
        The parameter, as its user knows it.
    value
        The user's value; a number of Python or NumPy, and no truth value.
    least, most
        The smallest and the largest value allowed.

    Raises
    ------
    ParameterError
        If the value is not a whole number, or outside the limits.
    """
    number = _index(value)
    if number is None or number < least or (most is not None and number > most):
        if most is not None and (most < _LARGE or (number is not None and number > most)):
            limits = f"from {least} to {most}"
        else:
            limits = f"of at least {least}"
        raise ParameterError(f"{name} ({value!r}) must be a whole number {limits}")
    return number


def _index(value: Any) -> int | None:
    """Return an integer of any type as a Python int, ``None`` for anything else.

    Booleans are integers in Python, but no settings.
    """
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)) or not hasattr(type(value), "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array that holds more than one number
        return None


LIMITS_OF_CONTAINERS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files that hold a container's limit of memory in bytes, of cgroups of the second and of the first version."""


def check_memory(rows: int, columns: int) -> None:
    """Raise ParameterError if sampled rows cannot lie in the memory of this computer.

    The smallest possible size is computed: a position of 8 bytes for each row, and for each cell a byte of its bin and
    a byte of the table.  Without a number of the memory, as under Windows, 1 TiB is taken.  A container's limit counts
    too.

    Raises
    ------
    ParameterError
        With the size of the rows and of the memory, in GiB.
    """
    memory = 2**40
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= {*os.sysconf_names}:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in LIMITS_OF_CONTAINERS:
        with contextlib.suppress(OSError, ValueError):  # there is no such file, or it says "max"
            memory = min(memory, int(limit.read_text()))
    least = rows * (8 + 2 * columns)
    if least > memory > 0:
        raise ParameterError(
            f"rows ({rows}) take at least {least / 2**30:,.0f} GiB, more than the memory of {memory / 2**30:,.0f} GiB: "
            "ask for fewer rows, or write them to a file with sample_to"
        )


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    infinite: bool = False,
) -> None:
    """Raise ParameterError unless a value is a number within limits; NaN is refused.

    Parameters
    ----------
    name
        The parameter, as its user knows it.
    value
        The user's value, of a type of Python or NumPy.
    above, below
        Limits that it may not reach.
    least, most
        Limits that it may reach.
    infinite
        Whether infinity is allowed within the limits.

    Raises
    ------
    ParameterError
        Otherwise.
    """
    if _is_number(value, infinite=infinite):
        inside = (
            above is None or value > above,
            least is None or value >= least,
            below is None or value < below,
            most is None or value <= most,
        )
        if all(inside):
            return
    limits = [
        f"{word} {limit}"
        for word, limit in (("above", above), ("at least", least), ("below", below), ("at most", most))
        if limit is not None
    ]
    kind = "a number" if infinite or below is not None or most is not None else "a finite number"
    link = " of " if limits and limits[0].startswith("at") else " "
    raise ParameterError(f"{name} ({value!r}) must be {kind}{link}{' and '.join(limits)}".rstrip())


def _is_number(value: object, *, infinite: bool) -> bool:
    """Return whether a value is a real number in the range of floats; NaN and booleans are none.

    Infinite numbers are numbers if ``infinite``.
    """
    if type(value) is float:
        return math.isfinite(value) or (infinite and not math.isnan(value))
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return not math.isnan(number) and (infinite or math.isfinite(number))


def check_share(name: str, value: object) -> None:
    """Raise ParameterError unless a value is strictly between 0 and 1, such as a probability or a share of a budget.

    Raises
    ------
    ParameterError
        Otherwise.
    """
    check_number(name, value, above=0, below=1)


def check_one_of(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise ParameterError, which lists the options, unless a value is one of them.

    Raises
    ------
    ParameterError
        Otherwise.
    """
    options = list(allowed)
    if not any(isinstance(value, type(option)) and value == option for option in options):
        raise ParameterError(f"{name} ({value!r}) must be one of: {', '.join(map(str, options))}")
