"""Attacks on a release with nothing declared: values of one person, at the ends, at the threshold, and by counting."""

import datetime as dt
import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise
from scipy.stats import beta, norm

from synthdp import ApproxDP, Curator, SyntheticRelease
from synthdp.curator.noisy_ranges import NoisyCounts
from synthdp.curator.noisy_values import MAGNITUDE_BINS, magnitude_bins, without_heaps
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.accounting import gdp_to_delta
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.loss import GaussianDP

CANARY = "canary-4711"


def rows_of(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"who": np.arange(n) // 2, "x": rng.integers(10, 90, n) / 1.0, "city": rng.choice(["a", "b"], n)}
    )


def text_of(table: pd.DataFrame, **options: object) -> tuple[str, SyntheticRelease]:
    release = SyntheticRelease(random_state=0, **options)
    made = release.fit_transform(table)
    return made.to_csv() + str(release.receipt_) + repr(release.schema_) + repr(release.misfits_), release


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("extreme", [1e300, -1e12, 4711e-30, np.inf, 99999.0, -1.0])
def test_a_person_with_rows_of_their_own_level_and_at_the_ends_of_the_world_is_not_seen(extreme: float) -> None:
    table = rows_of()
    theirs = pd.DataFrame({"who": 10**6, "x": [extreme] * 3000, "city": CANARY})
    together = pd.concat([table, theirs], ignore_index=True)
    said, release = text_of(together, epsilon=3.0, delta=1e-9, privacy_unit="who", max_rows_per_unit=2)
    assert CANARY not in said
    assert set(release.schema_["city"].levels) == {"a", "b"}
    assert release.schema_["x"].special == ()
    assert 0 <= release.schema_["x"].lower <= 16
    assert 80 <= release.schema_["x"].upper <= 128


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_levels_of_single_rows_are_never_seen_whatever_is_found_beside_them(neighbors: str) -> None:
    table = rows_of().drop(columns="who")
    table.loc[:500, "city"] = [f"{CANARY}-{i}" for i in range(501)]
    table["note"] = [f"{CANARY}-{i}" for i in range(len(table))]
    said, release = text_of(table, epsilon=5.0, delta=1e-6, neighbors=neighbors)
    assert release.schema_.names == ("x", "city")
    assert CANARY not in said


def bound_on_delta(hits: int, misses: int, runs: int, epsilon: float) -> float:
    """A lower bound on the delta between two tables, by the counts of one event; wrong once in 10^5 times."""
    low = beta.ppf(5e-6, hits, runs - hits + 1) if hits else 0.0
    high = beta.ppf(1 - 5e-6, misses + 1, runs - misses) if misses < runs else 1.0
    return float(low - math.exp(epsilon) * high)


def found_levels(rows: int, loss: GaussianDP, runs: int) -> int:
    frame = pd.DataFrame({"c": ["a"] * 500 + ["b"] * rows})
    return sum(len(Curator(frame, budget=loss).discover(spend=loss).schema["c"].levels) == 2 for _ in range(runs))


@pytest.mark.slow
def test_an_audit_of_neighbours_at_the_threshold_finds_no_more_than_mu_and_delta_allow() -> None:
    """The event is fixed: the second level is found.  Where half of all runs find it, one more row tells most."""
    runs = 1500
    loss = GaussianDP(1.0, 0.05)
    counts = [found_levels(rows, loss, runs) for rows in (1, 2, 3)]
    assert counts[0] <= beta.ppf(1 - 5e-6, 0.05 * runs + 1, runs - 0.05 * runs) * runs + runs * 0.05
    for one, more in ((0, 1), (1, 2)):
        for epsilon in (0.0, 0.5, 1.0):
            claimed = gdp_to_delta(loss.mu, epsilon) + loss.delta
            assert bound_on_delta(counts[more], counts[one], runs, epsilon) <= claimed
            assert bound_on_delta(runs - counts[one], runs - counts[more], runs, epsilon) <= claimed


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_exact_law_of_finding_a_level_keeps_its_promise_at_every_number_of_rows(
    monkeypatch: pytest.MonkeyPatch, neighbors: str
) -> None:
    """Of the noise and the threshold that a discovery asks for: all neighbouring numbers of rows, up to far beyond it."""
    asked: list[tuple[float, int]] = []
    drawn = noise.gaussian_threshold

    def spy(counts: Mapping[str, int], *, scale: float, threshold: int) -> dict[str, int]:
        asked.append((scale, threshold))
        return drawn(counts, scale=scale, threshold=threshold)

    monkeypatch.setattr(noise, "gaussian_threshold", spy)
    frame = pd.DataFrame({"c": ["a"] * 500, "d": ["b"] * 500}, dtype="string")
    curator = Curator(frame, budget=GaussianDP(1.0, 1e-3), neighbors=neighbors)
    curator.discover(spend=GaussianDP(1.0, 1e-3))
    (item, _), ((scale, threshold), _) = curator.receipt().items, asked
    assert isinstance(item.loss, GaussianDP)
    resolution = round(scale / item.stddev)
    rows = np.arange(2 * threshold // resolution + 2)
    found = norm.sf((threshold - resolution * rows) / scale)  # the lattice is far finer than the noise
    found[0] = 0.0  # a level that no row has is never looked at
    assert scale > 2**19
    assert found[1] <= item.loss.delta
    for epsilon in np.linspace(0, 6, 25):
        claimed = gdp_to_delta(item.loss.mu, float(epsilon)) + item.loss.delta
        for one, more in ((found[:-1], found[1:]), (1 - found[1:], 1 - found[:-1])):
            assert (more - np.exp(epsilon) * one).max() <= claimed * (1 + 1e-6)
            assert (one - np.exp(epsilon) * more).max() <= claimed * (1 + 1e-6)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("code", [-1.0, 99999.0])
def test_the_exact_law_of_finding_a_heap_keeps_its_promise_at_every_number_of_rows(code: float, neighbors: str) -> None:
    """Of the noise that a discovery asks for: all neighbouring numbers of rows with the code, from none to far beyond."""
    frame = pd.DataFrame({"x": np.arange(20.0, 64.0)})
    curator = Curator(frame, budget=GaussianDP(1.0, 1e-9), neighbors=neighbors)
    curator.discover(spend=GaussianDP(1.0, 1e-9))
    item = curator.receipt().items[0]
    assert isinstance(item.loss, GaussianDP)
    least = next(n for n in range(1, 1000) if code in heaps_of(code, n, item.stddev))
    rows = np.arange(3 * least)
    found = norm.sf((least - rows) / item.stddev)
    assert found[0] < 1e-6
    for epsilon in np.linspace(0, 3, 13):
        claimed = gdp_to_delta(item.loss.mu, float(epsilon))
        for one, more in ((found[:-1], found[1:]), (1 - found[1:], 1 - found[:-1])):
            assert (more - np.exp(epsilon) * one).max() <= claimed * (1 + 1e-6) + 1e-15


def heaps_of(code: float, rows: int, stddev: float) -> tuple[float, ...]:
    """The heaps among so many rows with a code and many others, where every draw of so much noise is 0."""
    numbers = np.append(np.arange(20.0, 64.0).repeat(1000), np.full(rows, code))
    counts = np.bincount(magnitude_bins(numbers).astype(int), minlength=MAGNITUDE_BINS).astype(float)
    return without_heaps(NoisyCounts(rows=counts, stddev=stddev, law=NoiseLaw.GAUSSIAN))[1]


CANARIES = {
    "finer digits": {"x": 12.345678},
    "a number among whole ones": {"n": 0.5},
    "another type": {"o": CANARY},
    "a level": {"c": CANARY},
    "a level that is called other": {"c": "other"},
    "a code": {"x": 99999.0, "n": -1.0},
    "the least that there is": {"x": 5e-324, "n": -np.inf},
    "the largest that there is": {"x": 1e308, "n": -1e308},
    "nothing": {"x": np.nan, "n": np.nan, "o": None, "c": None},
}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES)
def test_what_a_row_holds_that_no_other_does_changes_nothing_that_is_found(
    monkeypatch: pytest.MonkeyPatch, canary: dict[str, object]
) -> None:
    """Without noise, where only thresholds stand between a row and what is found of its columns."""
    without_noise(monkeypatch)
    rng = np.random.default_rng(1)
    columns = {
        "x": np.round(rng.uniform(10, 80, 4000), 2), "n": rng.integers(1, 90, 4000).astype(float),
        "o": pd.Series([dt.date(2020, 1, 1 + i % 28) for i in range(4000)], dtype=object), "c": rng.choice(["a", "b"], 4000),
    }  # fmt: skip
    frame = pd.DataFrame(columns)
    more = pd.concat([frame, frame.iloc[:1].assign(**canary).astype(frame.dtypes)], ignore_index=True)
    one, two = (
        Curator(table, budget=ApproxDP(1.0, 1e-6)).discover(spend=ApproxDP(1.0, 1e-6)) for table in (frame, more)
    )
    assert one.schema == two.schema
    assert one.hidden == two.hidden == ()
    assert CANARY not in repr(two)


def events() -> dict[str, Callable[[SyntheticRelease], bool]]:
    return {
        "the range reaches the outlier": lambda fit: fit.schema_["x"].upper >= 2**20,
        "the level is found": lambda fit: "z" in fit.schema_["c"].levels,
        "there are more rows than without": lambda fit: fit.release_.output.total > 300,
    }


@pytest.mark.slow
def test_an_audit_of_the_whole_undeclared_release_finds_no_more_than_the_promise() -> None:
    """On tables with and without a person whose ten rows have a level and an extreme of their own."""
    frame = pd.DataFrame({"who": np.arange(300), "x": np.arange(300.0) % 50, "c": "a"})
    more = pd.concat([frame, pd.DataFrame({"who": 10**6, "x": [2.0**20] * 10, "c": "z"})], ignore_index=True)
    loss, runs = ApproxDP(4.0, 0.02), 400
    counts = {name: [0, 0] for name in events()}
    for i, table in enumerate((frame, more)):
        for _ in range(runs):
            release = SyntheticRelease(
                epsilon=loss.epsilon, delta=loss.delta, privacy_unit="who", max_rows_per_unit=10, n_rows=10
            )
            release.fit(table)
            for name, holds in events().items():
                counts[name][i] += {"x", "c"} <= set(release.schema_) and holds(release)
    for without, with_them in counts.values():
        assert bound_on_delta(with_them, without, runs, loss.epsilon) <= loss.delta
        assert bound_on_delta(without, with_them, runs, loss.epsilon) <= loss.delta


def test_the_parts_of_the_whole_undeclared_release_add_up_to_its_promise() -> None:
    loss = ApproxDP(1.0, 1e-9)
    _, release = text_of(rows_of().drop(columns="who"), epsilon=loss.epsilon, delta=loss.delta)
    (together,) = release.receipt_.sums()
    account = gaussian_account(loss, thresholds=0.1)
    assert isinstance(together, GaussianDP)
    assert together.mu <= account.mu * (1 + 1e-9)
    assert together.delta <= account.delta * (1 + 1e-9)
    assert gdp_to_delta(together.mu, loss.epsilon) + together.delta <= loss.delta * (1 + 1e-9)
