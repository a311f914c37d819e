"""Pairs measured in products become tables, so that rows of wide tables keep relations in every basis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from no_noise import with_repeatable_noise

import synthdp as sd
from synthdp.domain.domain import Domain, axis_of
from synthdp.mechanisms import l1_pairs
from synthdp.mechanisms.cell_model import design
from synthdp.mechanisms.l1_pairs import NoisyAverages, tables_of_products
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.marginals import Marginals
from synthdp.queries.trigonometric import TensorBasis, mixed_terms

SCHEMA = sd.Schema({"x": sd.Integer(0, 7), "k": sd.Categorical(["a", "b", "c"]), "y": sd.Integer(0, 5)})
DOMAIN = Domain(tuple(axis_of(name, column, bins=8) for name, column in SCHEMA.items()))
STDDEV = 1e-4


def codes(rows: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.binomial(7, rng.beta(2, 2, rows))
    k = (rng.random(rows) < x / 7).astype(int) + (rng.random(rows) < 0.3)
    return np.column_stack([x, k, np.minimum(x * rng.random(rows), 5).astype(int)])


def averages(rows: np.ndarray, *, degree: int, noise: float = 0.0) -> NoisyAverages:
    """Averages of one-ways and of all products of pairs, with noise that a test chooses."""
    ones = Marginals(DOMAIN, ((0,), (1,), (2,)))
    products = TensorBasis(DOMAIN, mixed_terms(DOMAIN, order=2, degree=degree))
    rng = np.random.default_rng(1)
    counts = ones.sums(rows).astype(float)
    tables = tuple(
        NoisyTable(clique=clique, counts=part, stddev=max(noise, STDDEV) * len(rows))
        for clique, part in zip(ones.cliques, ones.split(counts), strict=True)
    )
    answers = np.concatenate([counts / len(rows), products.real_features(rows).mean(axis=0)])
    return NoisyAverages(
        counts=ones,
        products=(products,),
        averages=answers + noise * rng.normal(size=len(answers)),
        stddev=np.full(len(answers), max(noise, STDDEV)),
        tables=tables,
    )


def true_table(rows: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
    return Marginals(DOMAIN, (pair,)).sums(rows).astype(float)


@pytest.mark.landing
def test_without_noise_enough_products_give_the_tables_themselves() -> None:
    rows = codes()
    found = tables_of_products(averages(rows, degree=7), DOMAIN, total=len(rows))
    assert {table.clique for table in found} == {(0, 1), (0, 2), (1, 2)}
    for table in found:
        assert np.abs(table.counts - true_table(rows, table.clique)).sum() / 2 < 0.05 * len(rows)


@pytest.mark.parametrize("noise", [0.005, 0.02])
def test_the_noise_of_a_table_is_about_the_error_of_its_cells(noise: float) -> None:
    rows = codes()
    for table in tables_of_products(averages(rows, degree=7, noise=noise), DOMAIN, total=len(rows)):
        error = np.abs(table.counts - true_table(rows, table.clique)).mean()
        assert 0.2 * error < table.stddev < 5 * error


def test_features_in_chunks_are_those_of_all_points_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy, rows = averages(codes(200), degree=2), codes(57)
    whole = np.vstack(
        [
            design(noisy.counts, rows).toarray(),
            *(design(one, rows) for one in noisy.products),
        ]
    )
    monkeypatch.setattr(l1_pairs, "CHUNK", 10)
    for share in (0.0, 1.0):
        monkeypatch.setattr(l1_pairs, "DENSE", share)
        features = noisy.features(rows)
        np.testing.assert_array_equal(features.toarray() if share else features, whole)


@pytest.mark.landing
@pytest.mark.parametrize("basis", ["mixed", pytest.param("trigonometric", marks=pytest.mark.slow)])
def test_drawn_rows_keep_relations_that_were_measured_in_products(basis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_repeatable_noise(monkeypatch)
    rng = np.random.default_rng(2)
    x = rng.random(6000)
    table = pd.DataFrame({"x": x, "y": (x + rng.random(6000) / 2) % 1, "z": 1 - x, "k": np.where(x > 0.5, "u", "v")})
    schema = sd.Schema({name: sd.Continuous(0, 1) for name in "xyz"} | {"k": sd.Categorical(["u", "v"])})
    curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(3.0, 1e-6))
    release = sd.L1Fit(basis=basis, support=600).release(curator, random_state=0)
    assert "drawn from a tree" in release.receipt.notes[-1]
    made = release.sample(3000, random_state=0)
    assert made["x"].corr(made["z"]) < -0.85
    assert ((made["x"] > 0.5) == (made["k"] == "u")).mean() > 0.85
