"""How much time is left: known stages by their usual shares, others by their numbers."""

import pytest

from synthdp.progress import SHARES, Progress, TimeLeft


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("shares", SHARES)
def test_a_run_with_the_usual_shares_is_forecast_right(shares: dict[str, float]) -> None:
    clock = Clock()
    left = TimeLeft(clock)
    for stage, share in shares.items():
        left.enter(Progress(stage=stage, done=0, total=1))
        clock.now += 100 * share * 0.5
        if left.seconds is not None:
            assert left.seconds == pytest.approx(100 - clock.now, rel=0.01)
        clock.now += 100 * share * 0.5
    assert left.share > 0.9


def test_shares_of_a_run_add_up_to_one() -> None:
    assert [sum(shares.values()) for shares in SHARES] == pytest.approx([1.0] * len(SHARES))


def test_unknown_stages_count_alike_and_nothing_is_told_before_there_is_a_base() -> None:
    clock = Clock()
    left = TimeLeft(clock)
    left.enter(Progress(stage="a", done=0, total=4))
    clock.now = 5.0
    assert (left.seconds, str(left)) == (None, "")
    left.enter(Progress(stage="b", done=1, total=4))
    assert (left.share, left.seconds, str(left)) == (0.25, 15.0, "about 15 s left")


def test_a_stage_that_takes_longer_than_usual_never_ends_a_forecast_at_nothing() -> None:
    clock = Clock()
    left = TimeLeft(clock)
    left.enter(Progress(stage="one-ways", done=0, total=4))
    clock.now = 10.0
    left.enter(Progress(stage="fit", done=3, total=4))
    clock.now = 10_000.0
    assert left.share < 1
    assert str(left).endswith("min left")


def test_a_second_run_of_one_bar_begins_anew() -> None:
    clock = Clock()
    left = TimeLeft(clock)
    left.enter(Progress(stage="fit", done=0, total=1))
    clock.now = 100.0
    left.enter(Progress(stage="drawing rows", done=0, total=1))
    assert left.share == 0
