"""Progress bars on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from synthdp.progress import Progress, ProgressCallback, silent


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """Draw progress on a terminal, nothing in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, description=progress.stage, completed=progress.done, total=progress.total)

        yield show
