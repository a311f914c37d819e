"""Record the errors and warnings of the package as users meet them: the call that raises each, its values filled in.

    python benchmarks/utility/seen_messages.py FILE [pytest options]

Runs the quick tests that expect an error or a warning, and writes one example of each place of the package that raises:
path, line, class, message and the outermost call of the package with its arguments.  The file is what
``reading_cards.py --seen`` shows with a message; about 4 minutes on two cores.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]

LONGEST = 160
"""Characters of an argument that a card shows whole.  A convention."""

SEEN: dict[tuple[str, int], dict[str, Any]] = {}
"""The first example of each place, by path and line."""

ON_THE_WAY = ("telling", "__call__", "dispatch", "wrapper")
"""Functions of the package that only pass a call on."""


def _shown(value: Any) -> str:
    """Return a short text of an argument: small values whole, others by their type."""
    if hasattr(value, "shape") and getattr(value, "shape", ()) != ():
        return f"<{type(value).__name__} of shape {tuple(value.shape)}>"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - an argument that was made to fail
        text = ""
    return text if 0 < len(text) <= LONGEST and " at 0x" not in text else f"<{type(value).__name__}>"


def _name_of(frame: FrameType) -> str:
    """Return the public name of a call: a class for its constructor, class and method for a method."""
    name, first = frame.f_code.co_name, next(iter(frame.f_code.co_varnames), "")
    owner = frame.f_locals.get(first) if first in ("self", "cls") else None
    if owner is None:
        return name
    kind = owner if isinstance(owner, type) else type(owner)
    return kind.__name__ if name in ("__init__", "__post_init__", "__new__") else f"{kind.__name__}.{name}"


def call_of(frame: FrameType) -> str:
    """Return a call as text, without arguments that have their default values."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if code.co_name == "__post_init__" and "self" in frame.f_locals:
        fields = getattr(frame.f_locals["self"], "__dataclass_fields__", {})
        values = {name: getattr(frame.f_locals["self"], name, None) for name in fields}
        defaults = {name: one.default for name, one in fields.items()}
    else:
        values = {name: frame.f_locals.get(name) for name in names if name not in ("self", "cls")}
        defaults = {}
        owner = type(frame.f_locals.get("self")) if "self" in names else None
        function = getattr(owner, code.co_name, None) if owner else frame.f_globals.get(code.co_name)
        if callable(function):
            try:
                defaults = {name: one.default for name, one in inspect.signature(function).parameters.items()}
            except (TypeError, ValueError):
                defaults = {}
    shown = [f"{name}={_shown(value)}" for name, value in values.items() if _shown(value) != _shown(defaults.get(name))]
    return f"{_name_of(frame)}({', '.join(shown)})"


def note(kind: str, message: str) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Note where a message comes from and which call of the package led to it; return the new places, and the innermost.

    A function that makes an error for several others is noted with the lines that call it, too.
    """
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the only way to the caller
    while frame is not None and frame.f_code.co_filename.endswith("synthdp/errors.py"):
        frame = frame.f_back
    package = str(ROOT / "synthdp")
    if frame is None or not frame.f_code.co_filename.startswith(package):
        return [], []  # a test's own, or another package's
    places, outermost, typed, step = [], frame, "", ""
    while frame is not None:
        name, module = frame.f_code.co_name, str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_filename.startswith(package) and len(places) < 3:
            places.append((str(Path(frame.f_code.co_filename).relative_to(ROOT)), frame.f_lineno))
        if module.split(".", 1)[0] == "synthdp" and not name.startswith("<") and name not in ON_THE_WAY:
            outermost = frame
        if module in ("synthdp.page.prepare", "synthdp.page.outcome") and not name.startswith("_"):
            step = f", at: {name.replace('_', ' ')}"
        if module == "click.testing" and name == "invoke":
            typed = "$ synthdp " + shlex.join(map(str, frame.f_locals["args"] or ()))
        frame = frame.f_back
    if outermost.f_globals.get("__name__", "").startswith("synthdp.page."):
        typed = f"on the page for stewards{step}"
    call = re.sub(r"PosixPath\(('[^']*')\)", r"\1", typed or call_of(outermost))
    shown = {
        name: re.sub(r"/tmp/(?:[^'\s:;,]*/)?([^/'\s:;,]*)", r"\1", one)
        for name, one in (("call", call), ("message", message))
    }
    fresh = [place for place in places if place not in SEEN]
    for depth, place in enumerate(fresh):
        SEEN[place] = {"kind": kind, **shown, "depth": depth + places.index(fresh[0])}
    return fresh, places[:1]


def pytest_configure() -> None:
    """Listen to every error of the package and to every warning."""
    from synthdp.errors import SynthDPError
    from synthdp.tables.refusals import _InsteadOf

    def noted(self: SynthDPError, *parts: Any) -> None:
        super(SynthDPError, self).__init__(*parts)
        kind, message, inner = type(self).__name__, str(parts[0]) if parts else "", sys.exc_info()[1]
        self.new_at, self.noted_at = note(kind, message)  # type: ignore[attr-defined]
        if self.noted_at and str(inner) and str(inner) in message:  # an error whose text became a part of this one
            for place in getattr(inner, "noted_at", ()):
                SEEN[place] |= {"kind": kind, "message": message}

    begin, end = _InsteadOf.__init__, _InsteadOf.__exit__

    def begun(self: Any, kinds: Any, say: Any) -> None:
        begin(self, kinds, say)  # an error that was made and may never be raised is not seen yet
        self.waiting = {place: SEEN.pop(place, None) for place in getattr(say, "new_at", ())}

    def ended(self: Any, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, self._kinds):
            SEEN.update({place: one for place, one in self.waiting.items() if one and place not in SEEN})
        end(self, kind, error, trace)

    _InsteadOf.__init__, _InsteadOf.__exit__ = begun, ended  # type: ignore[method-assign]
    warn = warnings.warn

    def warned(message: Any, category: Any = None, stacklevel: int = 1, **others: Any) -> None:
        note((category or UserWarning).__name__, str(message))
        warn(message, category, stacklevel + 1, **others)

    SynthDPError.__init__ = noted  # type: ignore[method-assign]
    warnings.warn = warned  # type: ignore[assignment]


def pytest_sessionfinish() -> None:
    """Write what was seen, an example a line."""
    rows = [{"path": path, "line": line, **seen} for (path, line), seen in sorted(SEEN.items())]
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    Path(os.environ["SEEN_MESSAGES"]).write_text(text + "\n", encoding="utf-8")


EXPECTS = ("raises(", "warns(", "refuse", "main(", "error", "invoke(", "run(")
"""What the source of a test holds if it meets an error or a warning."""


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the tests whose source expects an error or a warning."""
    kept, left = [], []
    for item in items:
        source = inspect.getsource(item.function) if hasattr(item, "function") else ""
        (kept if any(word in source for word in EXPECTS) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def main() -> None:
    """Run the tests and write the file."""
    settings = {
        **os.environ,
        "SEEN_MESSAGES": str(Path(sys.argv[1]).resolve()),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
    }
    plugins = ["-p", "no:cacheprovider", "-p", "benchmarks.utility.seen_messages"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *sys.argv[2:], "tests"]
    subprocess.run(command, check=False, cwd=ROOT, env=settings)


if __name__ == "__main__":
    main()
