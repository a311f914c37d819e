"""What an estimator's errors say of the budget."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from synthdp.errors import NOTHING_SPENT, tell_of_budget

KEPT = "the release is paid for, made and kept in release_: sample(), answer() and save() cost nothing"

Method = TypeVar("Method", bound=Callable[..., Any])


def tells_of_budget(method: Method) -> Method:
    """Decorate a method that fits, so that whatever it raises says what became of the budget.

    The curator says it of what was raised while it was asked; before that nothing was spent, and after it the release is
    there.
    """

    @wraps(method)
    def telling(self: Any, *given: Any, **options: Any) -> Any:
        before = getattr(self, "release_", None)
        try:
            return method(self, *given, **options)
        except BaseException as error:
            tell_of_budget(error, NOTHING_SPENT if getattr(self, "release_", None) is before else KEPT)
            raise

    return telling  # type: ignore[return-value]
