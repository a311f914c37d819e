"""Whether a warning of another package is an error: in our CI it is; a newcomer's first run must not fail by it.

`SYNTHDP_STRICT_WARNINGS=1 python -m pytest` is what CI runs.
"""

import contextlib
import os
import warnings
from collections.abc import Iterator

STRICT = os.environ.get("SYNTHDP_STRICT_WARNINGS", "0") not in ("", "0")
"""Whether each warning is an error."""

OPTIONS = ["-W", "error" if STRICT else "ignore"]
"""What Python is told in a process of its own whose error stream must stay empty."""


@contextlib.contextmanager
def warnings_kept() -> Iterator[list[warnings.WarningMessage]]:
    """Keep every warning of a block, but not of files that an earlier test left open: those are found at any moment."""
    with warnings.catch_warnings(record=True) as kept:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        yield kept
