"""Work by several threads looks like work by one: the same results, in order, and few blocks held."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, strategies as st

from synthdp.parallel import in_order


@given(st.lists(st.integers(), max_size=12), st.integers(1, 4))
def test_results_are_those_of_map_in_order(blocks, workers):
    assert list(in_order(lambda x: x + 1, iter(blocks), workers=workers)) == [x + 1 for x in blocks]


def test_a_slow_first_block_does_not_lose_its_place():
    def work(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    assert list(in_order(work, [0.05, 0.0, 0.0, 0.02], workers=3)) == [0.05, 0.0, 0.0, 0.02]


def test_several_threads_work_at_once_and_the_callers_own_on_a_single_block():
    meet = threading.Barrier(2, timeout=5)
    assert sorted(in_order(lambda _: meet.wait(), [0, 1], workers=2)) == [0, 1]
    assert list(in_order(lambda _: threading.current_thread(), [0], workers=2)) == [threading.current_thread()]


@pytest.mark.parametrize("workers", [2, 3])
def test_no_more_blocks_are_taken_than_threads_and_one(workers):
    taken: list[int] = []

    def blocks():
        for number in range(20):
            taken.append(number)
            yield number

    for done, _ in enumerate(in_order(lambda x: x, blocks(), workers=workers), start=1):
        assert len(taken) <= done + workers + 1


def test_the_first_error_is_raised_in_its_turn_and_ends_the_work():
    def work(block: int) -> int:
        return 10 // (2 - block)

    results = in_order(work, range(100), workers=2)
    assert [next(results), next(results)] == [5, 10]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(results) == []


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_a_block_is_raised_too(workers):
    def blocks():
        yield from (1, 2)
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends"):
        list(in_order(lambda x: x, blocks(), workers=workers))
