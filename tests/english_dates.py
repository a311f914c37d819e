"""What Python's own reader and writer of dates say in English, whatever the locale of the run."""

import locale
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def english_dates() -> Iterator[None]:
    before = locale.setlocale(locale.LC_TIME)
    locale.setlocale(locale.LC_TIME, "C")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_TIME, before)
