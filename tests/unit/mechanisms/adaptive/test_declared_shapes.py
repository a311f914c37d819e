"""A declared shape helps where it is right, hardly harms where it is wrong, and forbids nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import lognorm

import synthdp as sd
from synthdp.errors import SchemaError
from synthdp.fit.public_shrinkage import combined
from synthdp.mechanisms.column_shapes import expected_counts

EDGES = np.linspace(0, 100, 33)


def law(kind: str) -> np.ndarray:
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    shares = {
        "lognormal": np.diff(lognorm.cdf(EDGES, 0.6, scale=25)),
        "normal": np.exp(-(((middle - 60) / 12) ** 2) / 2),
        "exponential": np.exp(-middle / 20),
        "uniform": np.ones(32),
        "increasing": middle,
        "decreasing": 100 - middle,
        "smooth": 1 + np.sin(middle / 15),
    }[kind]
    return shares / shares.sum()


def errors(truth: np.ndarray, like: str, noise: float) -> tuple[float, float]:
    """Return the mean L1 errors of what is drawn towards a shape and of the noisy counts."""
    rng, found = np.random.default_rng(0), []
    for _ in range(60):
        counts = rng.multinomial(2000, truth)
        noisy = counts + rng.normal(0, noise, 32)
        shaped, _ = combined(noisy, expected_counts(noisy, EDGES, like, stddev=noise), noise, ratio=1.0)
        found.append([np.abs(one - counts).sum() for one in (shaped, noisy)])
    return tuple(np.mean(found, axis=0).tolist())


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(
    "kind", ["lognormal", "normal", "exponential", "uniform", "increasing", "decreasing", "smooth"]
)
def test_the_right_shape_takes_noise_off(kind: str) -> None:
    shaped, noisy = errors(law(kind), kind, 40.0)
    assert shaped < 0.8 * noisy


@pytest.mark.parametrize(
    ("truth", "like"), [("normal", "exponential"), ("lognormal", "increasing"), ("smooth", "uniform")]
)
def test_a_wrong_shape_hardly_harms(truth: str, like: str) -> None:
    shaped, noisy = errors(law(truth), like, 15.0)
    assert shaped < 1.03 * noisy


def test_parameters_are_found() -> None:
    counts = 1e6 * law("lognormal")
    np.testing.assert_allclose(expected_counts(counts, EDGES, "lognormal", stddev=1.0), counts, atol=2e3)
    counts = 1e6 * law("normal")
    np.testing.assert_allclose(expected_counts(counts, EDGES, "normal", stddev=1.0), counts, atol=4e3)


def test_a_release_takes_a_declared_shape_and_saves_it(tmp_path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"pay": np.minimum(rng.lognormal(10, 0.7, 500), 2e5), "flag": rng.random(500) < 0.5})
    schema = sd.Schema({"pay": sd.Continuous(0, 2e5, like="lognormal"), "flag": sd.Boolean()})
    release = sd.SyntheticRelease(schema=schema, epsilon=0.5, random_state=0).fit(table)
    release.save(tmp_path / "r")
    assert sd.load(tmp_path / "r").model.schema["pay"].like == "lognormal"
    assert sd.Schema.from_json(schema.to_json()) == schema
    assert release.sample(200).pay.between(0, 2e5).all()


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(SchemaError, match="lognormal"):
        sd.Schema({"pay": sd.Continuous(0, 1, like="bell")})
