"""What the answers of several periods say, and rows that stay: decoded sums, refits, rows that complete others."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from series_worlds import QUERIES

import synthdp as sd
from synthdp.domain.domain import domain_of
from synthdp.measurements import Measurements, Noise, NoiseLaw
from synthdp.mechanisms.series_asked import (
    AskedPlan,
    Repeated,
    correlation_of,
    of_fewer_rows,
    rows_between,
    stages_of,
    whole_answers,
)
from synthdp.mechanisms.series_periods import model_of_rows, rows_of_period
from synthdp.mechanisms.series_refit import Refit
from synthdp.privacy.series_factor import optimal_factor, prefix_covariance
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals


def test_decoded_sums_are_exact_without_noise_and_say_their_error():
    factor, sums = optimal_factor(4), np.random.default_rng(0).integers(0, 50, (4, 9))
    one = Repeated(queries=QUERIES[2], multiplier=3, sigma=2.0**20)
    answers = [3 * factor[t] @ sums for t in range(4)]
    for count in range(1, 5):
        prefix = one.decoded(factor, answers[:count], np.ones(count))
        np.testing.assert_allclose(prefix.answers, sums[:count].sum(axis=0), atol=0.01)
        wanted = 2.0**20 / 3 * np.sqrt(prefix_covariance(factor)[count - 1, count - 1])
        assert prefix.stddev == pytest.approx(wanted, rel=1e-6)
        np.testing.assert_allclose(
            one.decoded(factor, answers[:count], np.eye(count)[-1]).answers, sums[count - 1], atol=0.01
        )


def test_the_errors_of_decoded_sums_have_their_law():
    factor, rng = optimal_factor(6), np.random.default_rng(3)
    one = Repeated(
        queries=Marginals(domain_of(sd.Schema({"a": sd.Boolean()}), bins=1), ((0,),)), multiplier=1, sigma=2.0**22
    )
    noise = np.rint(rng.normal(0, 2.0**22, (6, 400 * one.queries.k))).astype(np.int64).reshape(6, 400, one.queries.k)
    found = [one.decoded(factor, list(noise[:, i]), np.ones(6)) for i in range(400)]
    scores = np.array([each.answers / each.stddev for each in found]).ravel()
    assert stats.kstest(scores, "norm").pvalue > 1e-6


def test_distances_of_fewer_rows_are_the_same_part_of_them():
    queries = MarginalDistances(QUERIES[2], np.zeros(9, np.int64), 256)
    law = Noise(law=NoiseLaw.GAUSSIAN, scale=2.0**20, k=1)
    found = Measurements(queries=queries, values=np.array([256 * 2**10 * 40]), resolution=2**10, noise=law)
    assert found.answers[0] == pytest.approx(40)
    assert of_fewer_rows(found, 4).answers[0] == pytest.approx(10)


def test_how_many_rows_came_between_two_plans_is_known_by_both():
    earlier, later = (
        whole_answers(QUERIES[0], np.array([100.0]), 3.0),
        whole_answers(QUERIES[0], np.array([160.0]), 4.0),
    )
    other = whole_answers(QUERIES[2], np.zeros(9), 1.0)
    (found,) = rows_between((later, other), (earlier,))
    assert (found.answers[0], found.stddev) == (pytest.approx(60, abs=0.01), pytest.approx(5.0, rel=1e-5))
    assert rows_between((other,), (earlier,)) == ()


def test_plans_have_noise_of_their_own():
    def plan(start, last):
        return AskedPlan(
            start=start,
            last=last,
            factor=optimal_factor(last - start + 1),
            release=None,
            statistics=(),
            places=(),
            note="",
        )

    found = correlation_of([plan(0, 1), plan(2, 4)], 4)
    np.testing.assert_allclose(np.diag(found), 1.0)
    assert not found[:2, 2:].any()
    assert 0 < found[0, 1] < 1
    assert found[2, 3] == pytest.approx(found[3, 2])


@pytest.mark.parametrize(("periods", "starts"), [(1, [0]), (3, [0]), (4, [0, 2]), (12, [0, 2])])
def test_tables_are_chosen_again_in_the_third_period_of_four_or_more(periods, starts):
    stages = stages_of(periods, again=True)
    assert [stage.start for stage in stages] == starts
    assert stages[-1].last == periods - 1
    assert len(stages_of(periods, again=False)) == 1


SCHEMA = sd.Schema({"a": sd.Categorical(["x", "y", "z"]), "b": sd.Boolean(), "age": sd.Integer(0, 99)})


def rows(count, seed):
    rng = np.random.default_rng(seed)
    a = rng.choice(["x", "y", "z"], count, p=[0.6, 0.3, 0.1])
    return pd.DataFrame({"a": a, "b": (a == "x") ^ (rng.random(count) < 0.1), "age": rng.integers(20, 60, count)})


@pytest.fixture(scope="module")
def release():
    return (
        sd.SyntheticRelease(schema=SCHEMA, epsilon=5.0, random_state=0, mechanism="adaptive_marginals")
        .fit(rows(4000, 0))
        .release_
    )


def test_a_refit_to_the_same_answers_is_the_same_distribution(release):
    model = Refit()(release.output, release.measurements, np.random.default_rng(0))
    for clique in ((0,), (1,), (0, 1)):
        ours, before = (one.distribution.marginal(clique) for one in (model, release.output))
        np.testing.assert_allclose(ours, before, atol=0.03)  # 25 releases: up to .016, by the noise of the release
    assert model.total == pytest.approx(4000, abs=60)
    ages = model.sample(2000, random_state=0)["age"]
    assert 38 < ages.mean() < 42


def test_rows_of_a_period_complete_what_is_published(release):
    model, rng = release.output, np.random.default_rng(0)
    skewed = model.sample_indices(1000, rng, given={"a": "x"})
    found = rows_of_period(model, skewed, rng)
    assert len(found["a"]) == model.rows - 1000
    together = np.concatenate([skewed["a"], found["a"]])
    shares = np.bincount(together, minlength=3)[:3] / len(together)
    np.testing.assert_allclose(shares, [0.6, 0.3, 0.1], atol=0.03)


def test_no_rows_are_drawn_where_enough_are_published(release):
    model, rng = release.output, np.random.default_rng(0)
    published = model.sample_indices(model.rows + 10, rng)
    assert len(rows_of_period(model, published, rng)["a"]) == 0
    assert model_of_rows(model, rows_of_period(model, published, rng)).rows == 1


def test_the_model_of_a_periods_rows_has_their_counts(release):
    drawn = release.output.sample_indices(500, np.random.default_rng(0))
    model = model_of_rows(release.output, drawn)
    assert model.rows == 500
    np.testing.assert_allclose(model.distribution.marginal((1,))[:2], np.bincount(drawn["b"], minlength=2)[:2] / 500)
