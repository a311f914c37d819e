"""Work on blocks by several threads: numpy and pyarrow compute outside the interpreter's lock.

Results come in the order of the blocks, whatever the threads do.  Knows no rows and no queries.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
"""The type of a block of work."""
R = TypeVar("R")
"""The type of the result of one block."""

WORKERS = min(4, os.cpu_count() or 1)
"""Most threads; each holds a block of its own.  A safety limit of memory."""


FEW_ROWS = 1 << 14
"""Fewest rows of a table on which several threads work; with fewer rows threads take longer to start than to
work.  A safety limit of time."""


def workers_for(rows: int) -> int:
    """Return the number of threads for work on a table's columns or units: one if it has few rows."""
    return WORKERS if rows >= FEW_ROWS else 1


def in_order(work: Callable[[T], R], blocks: Iterable[T], *, workers: int = WORKERS) -> Iterator[R]:
    """Yield ``work(block)`` for every block, in order, computed by several threads.

    The caller's own thread takes the blocks one by one, while other threads work on earlier blocks; no more than
    ``workers`` + 1 blocks are held at once.  The first error, of a block or of the work on it, is raised in its turn.

    Parameters
    ----------
    work
        A function that may run several times at once; a single block is left to the caller's own thread.
    blocks
        The arguments of its calls.
    workers
        Threads; 1 for none but the caller's.
    """
    blocks = iter(blocks)
    first = list(itertools.islice(blocks, 2))
    alone, blocks = workers == 1 or len(first) < 2, itertools.chain(first, blocks)
    del first
    if alone:
        yield from map(work, blocks)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="synthdp") as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(work, block))
                del block  # or the last one would be held twice
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
