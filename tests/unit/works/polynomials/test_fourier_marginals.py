"""Fourier marginals: exact without noise, consistent always, within the bounds."""

import numpy as np
import pandas as pd
import pytest
from silence import silence
from small_worlds import binary_table, binary_world, curator_of, labelled_table, labelled_world, skewed_codes

import synthdp as sd
from synthdp import ApproxDP, PureDP, measurements
from synthdp.errors import ParameterError, SolverUnavailableError
from synthdp.fit.explicit.solver import FitStatus
from synthdp.measurements import NoiseLaw
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.works.polynomials.fourier_marginals import FourierMarginals, fourier_bound, l1_program_bound

SCHEMA, DOMAIN = binary_world(5)
WORKLOAD = Marginals(DOMAIN, all_cliques(DOMAIN, 2))
CODES = skewed_codes(5, 4000)
TABLE = binary_table(SCHEMA, CODES)
TRUTH = WORKLOAD.sums(CODES)


@pytest.fixture(autouse=True)
def _no_false_misfits(monkeypatch):
    """Noise passes for misfits in one release of a hundred, and rows that are taken away so are far beyond the noise."""
    monkeypatch.setattr(measurements, "UNLIKELY", 1e-12)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("solver", ["sifting", "lp", "mw"])
def test_without_noise_the_tables_are_exact(monkeypatch, neighbors, solver):
    silence(monkeypatch)
    curator = curator_of(TABLE, SCHEMA, PureDP(100.0), neighbors)
    output = FourierMarginals(WORKLOAD, solver=solver).release(curator).output
    np.testing.assert_allclose(output.unbiased(WORKLOAD), TRUTH, atol=1e-8)
    tolerance = 1e-6 if solver == "sifting" else 5e-3
    np.testing.assert_allclose(output.answer(WORKLOAD), TRUTH, atol=tolerance * len(CODES))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_columns_of_any_number_of_cells_are_written_in_bits(monkeypatch, neighbors):
    silence(monkeypatch)
    schema, domain = labelled_world(3, 2, 5)
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, size, 300) for size in domain.shape])
    workload = Marginals(domain, all_cliques(domain, 2))
    curator = curator_of(labelled_table(schema, codes), schema, PureDP(1.0), neighbors)
    output = FourierMarginals(workload, solver="sifting").release(curator).output
    np.testing.assert_allclose(output.unbiased(workload), workload.sums(codes), atol=1e-9)
    np.testing.assert_allclose(output.answer(workload), workload.sums(codes), atol=1e-3)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("budget", "law"),
    [(PureDP(1.0), None), (PureDP(1.0), NoiseLaw.LAPLACE), (ApproxDP(1.0, 1e-6), None)],
)
def test_tables_are_consistent_and_near(budget, law, neighbors):
    curator = curator_of(TABLE, SCHEMA, budget, neighbors)
    release = FourierMarginals(WORKLOAD, law=law).release(curator)
    output = release.output
    assert output.fit.status in (FitStatus.OPTIMAL, FitStatus.WITHIN_NOISE)
    assert str(output.fit) in release.receipt.notes[-1]
    counts = dict(zip(WORKLOAD.cliques, WORKLOAD.split(output.answer(WORKLOAD)), strict=True))
    assert all((table >= 0).all() for table in counts.values())
    first = [counts[0, j].reshape(2, 2).sum(axis=1) for j in (1, 2, 3, 4)]
    np.testing.assert_allclose(first, np.broadcast_to(first[0], (4, 2)), rtol=1e-9)
    errors = (output.unbiased(WORKLOAD) - TRUTH) / output.stddev(WORKLOAD)
    assert 0.1 < np.sqrt(np.mean(errors**2)) < 6  # Laplace tails
    assert curator.remaining is None
    assert release.sample(10, random_state=0).shape == (10, 5)


@pytest.mark.parametrize("public", [True, False])
def test_errors_keep_both_bounds(public):
    neighbors = "replace_one" if public else "add_remove"
    output = (
        FourierMarginals(WORKLOAD, law=NoiseLaw.LAPLACE, solver="sifting")
        .release(curator_of(TABLE, SCHEMA, PureDP(1.0), neighbors))
        .output
    )
    errors = np.abs(output.answer(WORKLOAD) - TRUTH)
    for bound in (fourier_bound, l1_program_bound):
        assert (errors <= bound(WORKLOAD, epsilon=1.0, beta=1e-9, public_rows=public)).all()


def test_the_papers_bound_is_twice_the_largest_noise():
    expected = 2 * 2 * 10 / 0.5 * np.log(15 / 0.05)  # 15 parities of two columns of five bits; 9 of them odd at most
    bound = fourier_bound(WORKLOAD, epsilon=0.5, beta=0.05)
    assert bound[0] == pytest.approx(expected * 9 / 10)
    assert len(bound) == WORKLOAD.k


def test_parities_cost_less_noise_than_tables():
    from synthdp.mechanisms.direct_answers import LaplaceAnswers

    parities = FourierMarginals(WORKLOAD).release(curator_of(TABLE, SCHEMA, PureDP(1.0), "add_remove")).output
    tables = LaplaceAnswers(WORKLOAD).release(curator_of(TABLE, SCHEMA, PureDP(1.0), "add_remove")).output
    assert parities.stddev(WORKLOAD).max() < tables.stddev.max() / 2


def test_tables_outside_the_workload_are_refused():
    output = FourierMarginals(WORKLOAD).release(curator_of(TABLE, SCHEMA, PureDP(1.0))).output
    with pytest.raises(ParameterError, match="workload"):
        output.unbiased(Marginals(DOMAIN, ((0, 1, 2),)))


def test_settings_out_of_range_are_refused():
    with pytest.raises(SolverUnavailableError):
        FourierMarginals(WORKLOAD, solver="cplex")
    with pytest.raises(ParameterError, match="Marginals"):
        FourierMarginals("age")
    _, domain = binary_world(16)
    with pytest.raises(ParameterError, match="ParityRelease"):
        FourierMarginals(Marginals(domain, all_cliques(domain, 5)))
    with pytest.raises(ParameterError):
        fourier_bound(WORKLOAD, epsilon=1.0, beta=0.0)


def test_counts_that_stand_for_rows_out_of_domain_have_their_noise_scaled_too(monkeypatch):
    """Half of the rows are out of domain, and the parities of the others are doubled; so is the noise."""
    silence(monkeypatch)
    schema = sd.Schema({"a": sd.Boolean(), "b": sd.Categorical(["p", "q", "r", "s"])})
    inside = pd.DataFrame({"a": [True, False] * 2000, "b": ["p", "q", "p", "r", "p", "q", "p", "s"] * 500})
    outside = inside.assign(b=np.where(np.arange(4000) < 2000, inside["b"], "z"))
    found = {}
    for name, table in (("inside", inside), ("outside", outside)):
        curator = curator_of(table, schema, PureDP(1.0), "replace_one")
        found[name] = FourierMarginals([("b",)]).release(curator).output
    np.testing.assert_allclose(found["outside"].unbiased([("b",)]), [2000.0, 1000.0, 500.0, 500.0], atol=1e-6)
    np.testing.assert_allclose(found["outside"].stddev([("b",)]), 2 * found["inside"].stddev([("b",)]))
