"""Correlations of pairs that were not measured: how far they may be off by relations that go straight."""

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.answer import AnswerEngine
from synthdp.answers.bootstrap import CORRELATION_STDDEV, Bootstrap, mean_size, unmeasured_correlation_errors
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.regression import LEAST_EIGENVALUE, Design, _changed
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.mechanisms.adaptive.selection import Planner

SCHEMA = sd.Schema({
    "a": sd.Integer(0, 63), "b": sd.Integer(0, 63), "rare": sd.Integer(0, 31), "kind": sd.Categorical(list("uvwxyz")),
})  # fmt: skip


def release(**settings: object) -> sd.SyntheticRelease:
    rng = np.random.default_rng(0)
    a = rng.integers(64, size=6000)
    table = pd.DataFrame({
        "a": a, "b": np.where(rng.random(6000) < 0.5, a, rng.integers(64, size=6000)),
        "rare": np.where(rng.random(6000) < 0.05, 31, 0), "kind": np.array(list("uvwxyz"))[rng.integers(6, size=6000)],
    })  # fmt: skip
    mechanism = AdaptiveMarginals(**settings)
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=5.0, mechanism=mechanism, random_state=0).fit(table)


@pytest.fixture(scope="module")
def blind() -> sd.SyntheticRelease:
    """A release that screened the pairs and measured none of them."""
    return release(planner=Planner(max_batch=0))


def direct(made: sd.SyntheticRelease) -> GLSEstimates:
    return GLSEstimates(made.release_.output, made.release_.measurements)


@pytest.mark.parametrize("rho", [0.1, -0.2])
def test_a_straight_relation_has_the_distance_that_the_bound_is_made_of(rho: float) -> None:
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    z, w = (((x := np.arange(len(m)) ** 1.5) - m @ x) / np.sqrt(m @ x**2 - (m @ x) ** 2) for m in (p, q))
    alone = np.outer(p, q)
    table = alone * (1 + rho * np.outer(z, w))
    assert z @ table @ w == pytest.approx(rho)
    assert np.abs(table - alone).sum() == pytest.approx(abs(rho) * (p @ np.abs(z)) * (q @ np.abs(w)))


def test_values_far_out_have_small_absolute_ones(blind: sd.SyntheticRelease) -> None:
    """Of 0 and 31 with chances .95 and .05 the mean absolute standardised value is 2 sqrt(.95 .05)."""
    model = direct(blind).model
    assert mean_size(model, 2) == pytest.approx(2 * np.sqrt(0.95 * 0.05), rel=0.15)
    assert mean_size(model, 0) == pytest.approx(np.sqrt(3) / 2, rel=0.05)  # of even ones


def test_only_pairs_that_were_not_measured_are_open(blind: sd.SyntheticRelease) -> None:
    known = direct(release())
    assert known.has((0, 1))
    assert unmeasured_correlation_errors(Bootstrap(known), [1, 0])[0, 1] == 0
    found = unmeasured_correlation_errors(Bootstrap(direct(blind)), [1, 0, 2])
    assert found == pytest.approx(found.T)
    assert (np.diag(found) == 0).all()
    assert CORRELATION_STDDEV >= found[0, 1] > found[1, 2] >= 0


@pytest.mark.landing
def test_what_is_open_is_in_the_error_of_a_correlation(
    blind: sd.SyntheticRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error() -> float:
        return float(
            AnswerEngine(blind.release_.output, blind.release_.measurements).ask(sd.correlation("b", "a")).stddev[0]
        )

    found, open_to = error(), unmeasured_correlation_errors(Bootstrap(direct(blind)), [0, 1])[0, 1]
    monkeypatch.setattr("synthdp.answers.bootstrap.CORRELATION_STDDEV", 0.0)
    assert found**2 == pytest.approx(error() ** 2 + open_to**2)


def test_slopes_vary_as_much_as_the_correlations_that_are_open() -> None:
    """Of one term the slope is the correlation times the ratio of the standard deviations."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    design = Design.of(np.column_stack([np.ones(2000), x, 3 * (0.5 * x + rng.normal(size=2000))]))
    open_to = np.zeros((3, 3))
    open_to[1, 2] = open_to[2, 1] = 0.1
    weights = np.ones((2000, 400))
    slopes = design.fits(weights, open_to)[:, 1]
    assert slopes.std() == pytest.approx(0.1 * 3 * np.sqrt(1.25), rel=0.1)
    assert slopes.mean() == pytest.approx(design.fit()[1], abs=0.06)
    assert design.fits(weights, 0 * open_to)[:, 1] == pytest.approx(design.fit()[1])


@pytest.mark.parametrize("size", [0.01, 0.3, 3.0])
def test_changed_correlations_are_those_of_some_columns(size: float) -> None:
    rng = np.random.default_rng(0)
    gram = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.6], [0.0, 0.6, 2.0]])
    for _ in range(200):
        change = size * rng.standard_normal((3, 3))
        found = _changed(gram, change)
        assert np.diag(found) == pytest.approx(np.diag(gram))
        assert found == pytest.approx(found.T)
        assert np.linalg.eigvalsh(found)[0] >= LEAST_EIGENVALUE - 1e-9
    small = _changed(gram, np.full((3, 3), 0.01)) - gram
    assert small[1, 2] == pytest.approx(0.01 * np.sqrt(2))
