"""Relations that go on within cells, and those that a fit has too weakly: error bars know of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers import answer as engine
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.misspecification import AttenuationCorrection, within_bin_tilts
from synthdp.distribution.explicit import Explicit
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.sampling.synthetic_model import SyntheticModel

ROWS = 4000


def diagonal(cells: int = 12) -> np.ndarray:
    """The table of two columns of which one follows from the other."""
    return np.diag(np.full(cells, ROWS / cells))


def between(table: np.ndarray, part: float) -> np.ndarray:
    """A table that is drawn towards independence by a part."""
    alone = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return (1 - part) * table + part * alone


def test_a_relation_that_noise_has_spread_is_found_again_from_the_noisy_table() -> None:
    truth = diagonal()
    noisy = truth + np.random.default_rng(0).normal(0, 12, truth.shape)
    fitted = between(truth, 0.1)
    found = AttenuationCorrection.of(fitted, noisy, 12.0)
    assert found is not None
    sharper = fitted * (1 + found.change(0.0))
    assert np.abs(sharper - truth).sum() < 0.4 * np.abs(fitted - truth).sum()


def test_a_sharper_table_has_the_margins_of_the_fitted_one() -> None:
    rng = np.random.default_rng(1)
    fitted = between(rng.dirichlet(np.full(42, 0.2)).reshape(6, 7) * ROWS, 0.3)
    found = AttenuationCorrection.of(fitted, fitted + 0.2 * (fitted - between(fitted, 1.0)), 5.0)
    assert found is not None
    for change in found.changes:
        sharper = fitted * (1 + change)
        assert sharper.min() >= 0
        assert sharper.sum(axis=1) == pytest.approx(fitted.sum(axis=1), rel=0.03)
        assert sharper.sum(axis=0) == pytest.approx(fitted.sum(axis=0), rel=0.03)


@pytest.mark.parametrize(
    "table", [between(diagonal(), 1.0), np.zeros((3, 4)), diagonal(1)], ids=["even", "empty", "one"]
)
def test_where_columns_are_independent_nothing_is_sharpened(table: np.ndarray) -> None:
    assert AttenuationCorrection.of(table, table + 1.0, 5.0) is None


def test_a_fit_that_has_all_of_the_relation_is_left_alone() -> None:
    fitted = between(diagonal(), 0.2)
    assert AttenuationCorrection.of(fitted, between(fitted, 0.2), 0.5) is None


def halved(values: np.ndarray) -> SyntheticModel:
    """Two columns of numbers, each of two cells, whose rows are those of ``values``, spread within the cells."""
    schema = sd.Schema({"x": sd.Integer(0, 63), "y": sd.Integer(0, 63)})
    domain, fine = sd.domain_of(schema, bins=2), sd.domain_of(schema, bins=64)
    codes = (values >= 32).astype(np.uint8)
    refinements = tuple(
        Refinement(axis, axis.starts[np.argsort(axis.cells)] // 32, np.ones(axis.size)) for axis in fine.axes
    )
    return SyntheticModel(
        schema=schema, domain=domain, total=float(len(values)), format=sd.TableFormat.default(schema),
        distribution=Explicit(shape=domain.shape, codes=codes, weights=np.ones(len(codes))), refinements=refinements,
    )  # fmt: skip


@pytest.mark.parametrize("sign", [1, -1])
def test_relations_go_on_within_cells_in_the_direction_that_they_have_between_them(sign: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(64, size=ROWS)
    y = np.clip(sign * (x - 32) + 32 + rng.integers(-16, 16, ROWS), 0, 63)
    values = np.column_stack([x, y])
    model = halved(values)
    inside = (values >= 32) * 32 + rng.integers(32, size=values.shape)  # independent within cells
    found = within_bin_tilts(model, inside)
    assert found.shape == (ROWS, 2)
    assert np.abs(found).max() <= 1
    for weights in (1 + found).T:
        assert (np.minimum(weights, 0) == 0).all()
        tilted = np.cov(inside.T, aweights=weights / weights.mean())[0, 1]
        assert sign * tilted > sign * np.cov(inside.T)[0, 1] * 1.02


def test_of_independent_columns_nothing_goes_on_within_cells() -> None:
    values = np.random.default_rng(3).integers(64, size=(ROWS, 2))
    assert np.abs(within_bin_tilts(halved(values), values)).mean() < 0.05


def test_the_variance_of_a_heavy_tail_is_known_worse_than_that_of_an_even_column() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame({
        "even": rng.integers(1000, size=ROWS), "tail": np.minimum(rng.lognormal(2, 1.2, ROWS), 10_000).astype(int),
        "kind": rng.choice(["a", "b"], ROWS),
    })  # fmt: skip
    schema = sd.Schema({
        "even": sd.Integer(0, 999), "tail": sd.Integer(0, 10_000), "kind": sd.Categorical(["a", "b"]),
    })  # fmt: skip
    release = sd.SyntheticRelease(schema=schema, epsilon=1.0, random_state=0).fit(table).release_
    direct = GLSEstimates(release.model, tuple(release.measurements))
    even, tail, kind = (direct.variance_error(j) for j in range(3))
    assert 0 < even < 0.5 * tail <= 0.5
    assert kind == 0


def test_a_table_that_a_model_cannot_list_is_counted_in_rows_drawn_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = halved(np.random.default_rng(5).integers(64, size=(ROWS, 2)))
    question = sd.count("x >= 10 and y < 40")
    listed = engine.answer(model, (), question)

    class Wide(Explicit):
        def marginal(self, clique: tuple[int, ...]) -> np.ndarray:
            raise ParameterError(f"clique {clique} is too large")

    law = model.distribution
    wide = replace(model, distribution=Wide(shape=law.shape, codes=law.codes, weights=law.weights))
    monkeypatch.setattr(engine, "SAMPLED", 50_000)
    drawn = engine.answer(wide, (), question)
    assert drawn["estimate"][0] == pytest.approx(listed["estimate"][0], abs=0.03 * ROWS)
