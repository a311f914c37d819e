"""One sentence in place of a library's error: such an error may quote cells, and so may whatever it hangs on.

Every error of a library that reads rows passes here.  ``raise ... from None`` would not do: the error that was caught
stays in ``__context__``, which error collectors, debuggers and loggers show.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from synthdp.errors import InternalError, SynthDPError

Said: TypeAlias = SynthDPError | Callable[[BaseException], SynthDPError | None]
"""What to raise, or what makes it of the error; ``None`` lets the error pass."""


def instead_of(*kinds: type[BaseException], say: Said) -> AbstractContextManager[None]:
    """Return a context in which errors of some kinds become one of ours, to which nothing of them clings.

    Parameters
    ----------
    kinds
        The errors to replace.
    say
        What to raise, or what makes it of the error.  Neither may hold a value of a row.

    Examples
    --------
    >>> with instead_of(ValueError, say=SynthDPError("the file is damaged")):
    ...     int("canary")
    Traceback (most recent call last):
        ...
    synthdp.errors.SynthDPError: the file is damaged
    """
    return _InsteadOf(kinds, say)


def reading(name: str) -> AbstractContextManager[None]:
    """Return a context for reading one column: should a value ever stop it, which is a bug, nothing tells the value."""
    return _InsteadOf(
        (Exception,),
        lambda error: (
            None
            if isinstance(error, (SynthDPError, MemoryError, ImportError))
            else InternalError(f"column {name!r} could not be read")
        ),
    )


class _InsteadOf(AbstractContextManager[None]):
    def __init__(self, kinds: tuple[type[BaseException], ...], say: Said) -> None:
        self._kinds, self._say = kinds, say

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, self._kinds):
            return
        refusal = self._say if isinstance(self._say, SynthDPError) else self._say(error)
        del kind, error, trace  # they would stand in the frame that the new error's traceback shows
        if refusal is None:
            return
        try:
            raise refusal
        finally:
            refusal.__context__ = None
