"""Several synthetic tables: they differ as widely as the release may be off, and the rule that combines them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import synthdp as sd
from synthdp.answers.misspecification import Misspecification
from synthdp.answers.samples import replicates_of
from synthdp.errors import ParameterError

SCHEMA = sd.Schema({"a": sd.Integer(0, 3), "b": sd.Integer(0, 4), "c": sd.Categorical(["x", "y"]), "m": sd.Boolean()})


def table(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=rows)
    b = np.where(rng.random(rows) < 0.6, a + rng.integers(2, size=rows), rng.integers(5, size=rows))
    c = np.array(["x", "y"])[(rng.random(rows) < 0.2 + 0.15 * a).astype(int)]
    return pd.DataFrame({"a": a, "b": b, "c": c, "m": rng.random(rows) < 0.3})


def fitted(epsilon: float = 1.0) -> sd.SyntheticRelease:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sd.SyntheticRelease(schema=SCHEMA, epsilon=epsilon, delta=1e-6).fit(table())


ANALYSES = {
    "mean": lambda t: mean(t["b"]),
    "share": lambda t: mean(t["c"] == "y"),
    "share of two": lambda t: mean((t["c"] == "y") & (t["a"] >= 2)),
    "share of three": lambda t: mean((t["c"] == "x") & (t["a"] <= 1) & t["m"]),
    "mean of some": lambda t: mean(t.loc[t["c"] == "y", "b"]),
    "slope": lambda t: slope(t["a"], t["b"]),
}


def mean(values: pd.Series) -> tuple[float, float]:
    return float(values.mean()), float(values.astype(float).var()) / len(values)


def slope(x: pd.Series, y: pd.Series) -> tuple[float, float]:
    found = stats.linregress(x, y)
    return found.slope, found.stderr**2


def covered(releases: int, m: int, rows: int | None = None) -> float:
    held = []
    for _ in range(releases):
        tables = fitted().samples(m, rows=rows)
        for analysis in ANALYSES.values():
            estimates, variances = zip(*map(analysis, tables), strict=True)
            one = sd.combine(estimates, variances).iloc[0]
            held.append(one["lower"] <= analysis(table())[0] <= one["upper"])
    return float(np.mean(held))


@pytest.mark.slow
def test_combined_intervals_hold_what_the_private_rows_have() -> None:
    """Analyses of one release are wrong together: three releases leave room."""
    assert covered(3, 20) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 40_000])
def test_combined_intervals_hold_the_truth_as_often_as_they_say(rows: int | None) -> None:
    assert covered(30, 20, rows) > 0.9


@pytest.mark.slow
def test_tables_differ_more_than_draws_from_one_model() -> None:
    release = fitted(0.2)
    spread = [
        np.std([(t["c"] == "y").mean() for t in tables])
        for tables in (
            release.samples(30, rows=20_000),
            [release.sample(20_000, method="multinomial") for _ in range(30)],
        )
    ]
    assert spread[0] > 2 * spread[1]


def test_tables_have_the_rows_that_are_wished_and_the_columns_of_the_schema() -> None:
    tables = fitted().samples(3, rows=100, random_state=0)
    assert [one.shape for one in tables] == [(100, 4)] * 3
    assert all(list(one) == list(SCHEMA) for one in tables)
    assert all(one["b"].between(0, 4).all() for one in tables)


def test_equal_seeds_give_equal_tables_and_the_tables_of_one_seed_differ() -> None:
    release = fitted()
    first, second = (release.samples(2, rows=500, random_state=7) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert not first[0].equals(first[1])


@pytest.mark.parametrize(("m", "rows"), [(1, None), (0, None), (2.5, None), ("many", None), (2, 0), (2, "all")])
def test_a_wrong_number_of_tables_or_rows_is_refused(m: object, rows: object) -> None:
    with pytest.raises(ParameterError, match=r"^(m|rows)\b"):
        fitted().samples(m, rows=rows)


def test_a_release_that_keeps_no_noisy_tables_is_refused() -> None:
    few = {"mechanism": "mwem", "mechanism_options": {"rounds": 2}}
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=1.0, **few).fit(table())
    with pytest.raises(ParameterError, match="marginals"):
        release.samples(3)


def test_the_rule_is_that_of_the_paper() -> None:
    """Brute force: all numbers of the formula by hand."""
    estimates, variances = [3.0, 4.0, 5.0, 8.0], [0.5, 0.4, 0.6, 0.5]
    between = 1.25 * np.var(estimates, ddof=1)
    variance, freedom = between - 0.5, 3 * (1 - 0.5 / between) ** 2
    one = sd.combine(estimates, variances).iloc[0]
    assert one["estimate"] == 5.0
    assert one["standard_error"] == pytest.approx(variance**0.5)
    assert one["upper"] - 5.0 == pytest.approx(stats.t.ppf(0.975, freedom) * variance**0.5)
    assert 5.0 - one["lower"] == pytest.approx(one["upper"] - 5.0)


def test_a_variance_that_chance_makes_negative_is_the_larger_one() -> None:
    one = sd.combine([3.0, 3.1], [4.0, 4.0]).iloc[0]
    assert one["standard_error"] == pytest.approx((1.5 * 0.005) ** 0.5)


def test_several_estimates_are_combined_one_by_one() -> None:
    values, within = np.array([[1.0, 5.0], [2.0, 9.0], [4.0, 2.0]]), np.full((3, 2), 0.01)
    both = sd.combine(values, within)
    for j in range(2):
        alone = sd.combine(values[:, j], within[:, j])
        pd.testing.assert_frame_equal(both.iloc[[j]].reset_index(drop=True), alone)


@pytest.mark.parametrize(
    ("estimates", "variances", "options", "message"),
    [
        ([1.0], [1.0], {}, "estimates|variances"),
        ([1.0, 2.0], [1.0], {}, "estimates|variances"),
        ([1.0, 2.0], [1.0, 1.0, 1.0], {}, "variances.*3.*estimates.*2"),
        ([1.0, np.nan], [1.0, 1.0], {}, "finite"),
        ([1.0, 2.0], [1.0, -1.0], {}, "negative"),
        (["a", "b"], [1.0, 1.0], {}, "estimates"),
        ([1.0, 2.0], [1.0, 1.0], {"level": 1.0}, "level"),
    ],
)
def test_what_cannot_be_combined_is_refused(estimates, variances, options, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sd.combine(estimates, variances, **options)


@pytest.mark.landing
def test_tables_are_as_far_from_their_fits_as_the_drawn_ones_whatever_error_bars_put_in_beside(monkeypatch):
    release = fitted()

    def rows() -> np.ndarray:
        found = replicates_of(release.release_.model, release.release_.measurements, 3, random_state=1)
        return np.stack([one.likely.distribution.weights for one in found])

    before = rows()
    monkeypatch.setattr(Misspecification, "unrecovered_rows", lambda self, leaves, rows, rng: np.zeros_like(rows))
    np.testing.assert_array_equal(rows(), before)
