"""Smooth synthesis: each variant without noise, its program's optimum, and what it costs and asks."""

from __future__ import annotations

import itertools
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from silence import silence
from strictness import warnings_kept

from synthdp.curator import Curator
from synthdp.curator.ledger import Ledger
from synthdp.errors import ParameterError, SolverUnavailableError
from synthdp.fit.explicit.column_generation import ColumnGeneration, GridProblem
from synthdp.fit.explicit.pricing import Enumeration
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.sifting import Sifting
from synthdp.fit.explicit.solver import FitStatus
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.loss import ZCDP, ApproxDP, PrivacyLoss, PureDP, Remaining
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.queries.trigonometric import Cosine
from synthdp.schema.columns import Categorical, Continuous, Integer
from synthdp.schema.constraints import LessEqual
from synthdp.schema.schema import Schema
from synthdp.works.smooth import fitted_points as smooth_exact
from synthdp.works.smooth.chebyshev import ChebyshevTensor
from synthdp.works.smooth.fitted_points import all_points, count_terms, grid_basis, on_lattice, random_terms
from synthdp.works.smooth.product import MomentOrders, plan
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.support import smooth_domain
from synthdp.works.smooth.synthesis import SmoothSynthesis
from synthdp.works.smooth.theory import exact_parameters

PURE = PureDP(1.0)
LOSSES = [PURE, ApproxDP(1.0, 1e-6), ZCDP(0.1)]
VARIANTS = ["exact", "practical", "product"]
FEW = {"exact": {}, "practical": {"candidates": 300}, "product": {"candidates": 300}}
TWO = Schema({"x": Continuous(-1, 1), "y": Continuous(-1, 1)})


def frame(rows: int = 2000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.beta(2, 4, rows) * 2 - 1
    return pd.DataFrame({"x": x, "y": np.clip(0.7 * x + rng.normal(0, 0.2, rows), -1, 1)})


def curator(
    table: pd.DataFrame, loss: PrivacyLoss = PURE, neighbors: str = "replace_one", schema: Schema = TWO, **more
) -> Curator:
    return Curator(table, schema=schema, budget=loss, neighbors=neighbors, **more)


def wide(d: int, rows: int) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(1)
    names = [f"x{j}" for j in range(d)]
    values = rng.beta(np.linspace(1, 5, d), 3, (rows, d)) * 2 - 1
    return pd.DataFrame(values, columns=names), Schema({name: Continuous(-1, 1) for name in names})


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_cost_is_known_before_and_is_what_the_ledger_lost(tmp_path, variant, loss, neighbors):
    path = tmp_path / "ledger.sqlite"
    mechanism = SmoothSynthesis(variant=variant, spend=loss.fraction(0.5), **FEW[variant])
    released = mechanism.release(curator(frame(), loss, neighbors, ledger=path, dataset="d"))
    assert mechanism.loss == released.loss == loss.fraction(0.5)
    assert [entry.loss for entry in Ledger(path).entries("d")] == [released.loss]
    assert SmoothSynthesis(variant=variant).loss == Remaining()


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_asked_does_not_depend_on_the_rows(monkeypatch, variant, neighbors):
    trace = silence(monkeypatch)
    for seed in (1, 2):
        mechanism = SmoothSynthesis(variant=variant, **FEW[variant])
        mechanism.release(curator(frame(seed=seed), neighbors=neighbors), random_state=0)
    half = len(trace) // 2
    assert half > 0
    assert trace[:half] == trace[half:]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_model_is_a_function_of_the_noisy_answers_and_public_randomness(monkeypatch, variant):
    silence(monkeypatch)
    tables = [
        SmoothSynthesis(variant=variant).release(curator(frame()), random_state=7).sample(500, random_state=3)
        for _ in range(2)
    ]
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.landing
def test_exact_follows_algorithm_1_and_meets_every_answer_up_to_the_lattice(monkeypatch):
    trace = silence(monkeypatch)
    table = frame(10_000)
    released = SmoothSynthesis(variant="exact").release(curator(table))
    sizes = exact_parameters(10_000, d=2, smoothness=2)
    assert released.output.domain.shape == (sizes.grid + 1, sizes.grid + 1)  # one more for unforeseen values
    assert trace[0][:2] == ("linf_knorm", sizes.t**2 - 1 + 2)  # and a count of misfits for each column
    basis = released.measurements[0].queries.tensor
    model = released.output.distribution
    fitted = model.weights @ basis.real_features(model.codes)
    answers = released.measurements[0].answers[: basis.k]
    np.testing.assert_allclose(fitted, answers / 10_000, atol=1.5 / sizes.lattice)
    assert released.output.rows == 10_000
    assert len(released.sample(100)) == 100


def test_the_grid_is_that_of_the_slides():
    domain = smooth_domain(TWO, ("x",), cells=33)
    expected = (2 * np.arange(33) + 1 - 33) / 33
    np.testing.assert_allclose(domain.axes[0].points[:33], expected, atol=2e-6)


def test_the_paper_s_noise_is_laplace_on_the_right_l1_sensitivity():
    released = SmoothSynthesis(variant="exact", law="laplace").release(curator(frame(1000)))
    basis = released.measurements[0].queries
    assert released.measurements[0].noise.law is NoiseLaw.LAPLACE
    assert released.measurements[0].noise.scale == pytest.approx(basis.bounds.swap.l1)
    assert basis.bounds.swap.l1 > basis.denominator * basis.tensor.t**2


def noisy_grid_problem() -> tuple[FitProblem, GridProblem]:
    """All averages of t = 3 on the full grid of N = 33 points in two columns, under heavy noise."""
    domain = smooth_domain(TWO, ("x", "y"), cells=33)
    basis, codes = ChebyshevTensor(domain, 3), all_points((33, 33))
    features = basis.real_features(codes)
    rng = np.random.default_rng(5)
    b = features[rng.integers(len(codes), size=50)].mean(axis=0) + rng.laplace(0, 0.4, basis.k)
    stddev = np.array(0.4 * np.sqrt(2))
    return FitProblem(A=features.T, b=b, stddev=stddev), GridProblem(basis=grid_basis(domain, 3), b=b, stddev=stddev)


def test_the_program_on_the_full_grid_closes_its_gap():
    listed, _ = noisy_grid_problem()
    fit = Sifting().solve(listed)
    assert fit.status is FitStatus.OPTIMAL
    assert fit.objective > 0.1
    assert fit.gap <= 1e-5
    assert fit.objective == pytest.approx(listed.objective(fit.weights), abs=1e-9)


def test_column_generation_finds_the_optimum_of_the_full_grid():
    listed, generated = noisy_grid_problem()
    np.testing.assert_allclose(generated.basis.features(all_points((33, 33))), listed.A, atol=1e-12)
    found = ColumnGeneration(pricer=Enumeration()).solve(generated)
    assert found.fit.status is FitStatus.OPTIMAL
    assert found.fit.objective == pytest.approx(Sifting().solve(listed).objective, abs=1e-5)


def test_a_grid_too_large_to_list_is_fitted_by_column_generation(monkeypatch):
    silence(monkeypatch)
    monkeypatch.setattr(smooth_exact, "LISTED", 10)
    released = SmoothSynthesis(variant="exact").release(curator(frame()))
    assert "column_generation" in released.receipt.notes[1]
    basis, model = released.measurements[0].queries.tensor, released.output.distribution
    fitted = model.weights @ basis.real_features(model.codes)
    noise = released.measurements[0].stddev / 2000
    assert np.abs(fitted - released.measurements[0].answers[: basis.k] / 2000).mean() < noise


def test_rounding_to_the_lattice():
    np.testing.assert_allclose(on_lattice(np.array([0.26, -0.49, 1.0]), 4), [0.25, -0.5, 1.0])


@pytest.mark.parametrize(("solver", "stddevs"), [("sifting", 0.0), ("lp", 1.0), ("mw", 1.0)])
def test_the_practical_variant_meets_its_averages_on_random_points(monkeypatch, solver, stddevs):
    trace = silence(monkeypatch)
    mechanism = SmoothSynthesis(variant="practical", functions=12, candidates=3000, grid=32, solver=solver)
    table, schema = wide(4, 2000)
    released = mechanism.release(curator(table, schema=schema), random_state=1)
    basis, model = released.measurements[0].queries, released.output.distribution
    assert trace == [("linf_knorm", 16, 2.0 * basis.denominator)]  # misfits are counted beside, for nothing
    fitted = model.weights @ basis.real_features(model.codes)
    measured = released.measurements[0]
    np.testing.assert_allclose(fitted, measured.answers / 2000, atol=1e-6 + stddevs * measured.stddev / 2000)


@pytest.mark.parametrize(("d", "order", "degrees"), [(1, 2, 3), (4, 1, 2), (4, 2, 3), (5, 3, 3), (3, 3, 4), (2, 9, 2)])
def test_all_products_of_low_order_and_degree_can_be_drawn_and_no_other(d, order, degrees):
    every = {
        tuple(Cosine(j, m) for j, m in enumerate(powers) if m)
        for powers in itertools.product(range(degrees), repeat=d)
        if 0 < sum(m > 0 for m in powers) <= order
    }
    count = count_terms(d, order=order, degrees=degrees)
    drawn = random_terms(d, count, order=order, degrees=degrees, rng=np.random.default_rng(0))
    assert len(drawn) == count == len(every)
    assert set(drawn) == every


def test_random_terms_are_different_and_a_draw_from_all():
    terms = random_terms(100, 50, order=3, degrees=4, rng=np.random.default_rng(0))
    assert len(set(terms)) == 50
    assert {len(term) for term in terms} == {2, 3}  # of 4 million nearly all have three columns
    assert {factor.degree for term in terms for factor in term} == {1, 2, 3}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("variant", ["exact", "practical"])
@pytest.mark.parametrize(
    ("loss", "law", "drawn"),
    [
        (PURE, None, NoiseLaw.LINF),
        (PURE, "laplace", NoiseLaw.LAPLACE),
        (PURE, NoiseLaw.LINF, NoiseLaw.LINF),
        (ApproxDP(1.0, 1e-6), None, NoiseLaw.GAUSSIAN),
        (ZCDP(0.1), "gaussian", NoiseLaw.GAUSSIAN),
    ],
)
def test_a_law_of_noise_can_be_insisted_on(variant, loss, law, drawn):
    released = SmoothSynthesis(variant=variant, law=law, **FEW[variant]).release(curator(frame(), loss, "add_remove"))
    assert released.measurements[-1].noise.law is drawn


@pytest.mark.parametrize("mechanism", [partial(SmoothSynthesis, variant="exact"), SmoothSummary])
@pytest.mark.parametrize(("loss", "law"), [(PURE, "gaussian"), (ApproxDP(1.0, 1e-6), "laplace"), (ZCDP(0.1), "linf")])
def test_a_law_that_the_budget_cannot_pay_for_is_refused_before_anything_is_spent(tmp_path, mechanism, loss, law):
    path = tmp_path / "ledger.sqlite"
    asked = curator(frame(), loss, "add_remove", ledger=path, dataset="d")
    with pytest.raises(ParameterError, match=f"law.*{law}"):
        mechanism(law=law).release(asked)
    assert Ledger(path).entries("d") == []


def test_the_sizes_of_algorithm_1_can_be_set(monkeypatch):
    trace = silence(monkeypatch)
    mechanism = SmoothSynthesis(variant="exact", degrees=4, grid=9, lattice=64, smoothness=3)
    released = mechanism.release(curator(frame()))
    assert trace[0][1] == 4**2 - 1 + 2
    assert released.output.domain.shape == (10, 10)
    assert "K = 3 with t = 4, N = 9, L = 64; it draws m = " in released.receipt.notes[0]
    assert "objective" in released.receipt.notes[1]
    assert "gap" in released.receipt.notes[1]


def test_the_receipt_of_the_practical_variant_tells_its_sizes_and_its_fit():
    table, schema = wide(3, 500)
    mechanism = SmoothSynthesis(variant="practical", order=3, degrees=2, candidates=300, grid=16)
    released = mechanism.release(curator(table, schema=schema), random_state=0)
    assert released.measurements[0].queries.most == 7
    assert "R = 7 random functions, all there are, of up to 3 columns and t = 2 degrees" in released.receipt.notes[0]
    assert "C = 300 candidates, N = 16 points per column" in released.receipt.notes[0]
    assert "objective" in released.receipt.notes[1]
    assert "gap" in released.receipt.notes[1]


def test_more_functions_than_there_are_is_refused_before_anything_is_spent(tmp_path):
    path = tmp_path / "ledger.sqlite"
    asked = curator(frame(), ledger=path, dataset="d")
    with pytest.raises(ParameterError, match="functions"):
        SmoothSynthesis(variant="practical", functions=9).release(asked)
    assert Ledger(path).entries("d") == []
    released = SmoothSynthesis(variant="practical", functions=9, degrees=4, candidates=200).release(asked)
    assert len(released.measurements[0].queries.terms) >= 9


def test_the_product_variant_meets_the_moments_of_every_column(monkeypatch):
    silence(monkeypatch)
    table, schema = wide(8, 3000)
    released = SmoothSynthesis().release(curator(table, schema=schema))
    assert released.measurements[0].noise.law is NoiseLaw.LINF
    sample = released.sample(20_000, random_state=0)
    np.testing.assert_allclose(sample.mean(), table.mean(), atol=0.01)
    np.testing.assert_allclose((2 * sample**2 - 1).mean(), (2 * table**2 - 1).mean(), atol=0.01)


@pytest.mark.landing
def test_pairs_are_measured_and_met_where_the_noise_allows(monkeypatch):
    silence(monkeypatch)
    table = frame(20_000)
    released = SmoothSynthesis().release(curator(table))
    sample = released.sample(20_000, random_state=0)
    assert sample.corr().loc["x", "y"] == pytest.approx(table.corr().loc["x", "y"], abs=0.05)
    assert "over up to 2 columns" in released.receipt.notes[0]


def test_missing_and_special_values_keep_their_shares_and_leave_the_moments_alone(monkeypatch):
    silence(monkeypatch)
    rng = np.random.default_rng(0)
    x = rng.beta(3, 2, 6000) * 2 - 1
    x[:1200], x[1200:1800] = np.nan, 9.0
    schema = Schema({"x": Continuous(-1, 1, nullable=True, special=(9.0,))})
    released = SmoothSynthesis().release(curator(pd.DataFrame({"x": x}), schema=schema))
    sample = released.sample(20_000, random_state=0)["x"]
    assert sample.isna().mean() == pytest.approx(0.2, abs=0.005)
    assert (sample == 9.0).mean() == pytest.approx(0.1, abs=0.005)
    assert sample[sample < 2].mean() == pytest.approx(x[1800:].mean(), abs=0.01)


def test_a_column_of_few_values_keeps_their_shares(monkeypatch):
    silence(monkeypatch)
    table = pd.DataFrame({"k": np.repeat([0, 1, 2], [5000, 3000, 2000])})
    released = SmoothSynthesis().release(curator(table, schema=Schema({"k": Integer(0, 2)})))
    shares = released.sample(10_000, random_state=0)["k"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.005)


@pytest.mark.landing
def test_under_much_noise_only_means_and_one_second_moment_are_measured(monkeypatch):
    trace = silence(monkeypatch)
    table, schema = wide(30, 400)
    released = SmoothSynthesis().release(curator(table, schema=schema))
    assert [length for _, length, _ in trace] == [30, 30, 1]
    assert [item.loss.epsilon for item in released.receipt.items] == pytest.approx([0.784, 0.016, 0.2])
    sample = released.sample(20_000, random_state=0)
    spread = (sample.mean() - table.mean()).abs()
    assert np.corrcoef(sample.mean(), table.mean())[0, 1] > 0.99
    assert spread.max() < 0.1
    assert (2 * sample**2 - 1).mean().mean() == pytest.approx((2 * table**2 - 1).mean().mean(), abs=0.05)


@pytest.mark.sampled
@pytest.mark.parametrize("solver", ["lp", "mw", "sifting"])
def test_a_named_solver_weighs_draws_from_the_product(monkeypatch, solver):
    silence(monkeypatch)
    table, schema = wide(3, 4000)
    mechanism = SmoothSynthesis(solver=solver, candidates=500, spend=PureDP(100.0))
    released = mechanism.release(curator(table, PureDP(100.0), schema=schema), random_state=0)
    assert len(released.output.distribution.codes) == 500
    assert f"by {solver}: " in released.receipt.notes[1]
    np.testing.assert_allclose(released.sample(20_000, random_state=0).mean(), table.mean(), atol=0.02)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_a_solver_and_one_column_are_refused_before_anything_is_spent(tmp_path, neighbors):
    path = tmp_path / "ledger.sqlite"
    table, schema = wide(1, 300)
    asked = curator(table, PureDP(1.0), neighbors, schema=schema, ledger=path, dataset="d")
    with pytest.raises(ParameterError, match="solver"):
        SmoothSynthesis(solver="lp").release(asked)
    assert Ledger(path).entries("d") == []


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_a_note_says_that_a_solver_had_no_pair_to_fit_where_noise_allows_none(neighbors):
    table, schema = wide(5, 300)
    released = SmoothSynthesis(solver="lp").release(curator(table, PureDP(1.0), neighbors, schema=schema))
    assert any("no pair" in note and "'lp'" in note for note in released.receipt.notes)


@pytest.mark.parametrize(
    ("rows", "d", "expected"),
    [(569, 30, None), (5875, 20, MomentOrders(2, 1)), (10**6, 20, MomentOrders(4, 2)), (10**7, 1, MomentOrders(32, 1))],
)
def test_the_plan_follows_the_noise(rows, d, expected):
    _, schema = wide(d, 1)
    domain = smooth_domain(schema, schema.names, cells=64)
    assert plan(rows, domain, PURE, Adjacency(Neighbors.REPLACE_ONE)) == expected


@pytest.mark.landing
def test_columns_without_order_are_left_out_and_named(monkeypatch):
    silence(monkeypatch)
    schema = Schema(
        {"x": Continuous(-1, 1), "y": Continuous(-1, 1), "c": Categorical(["a"])}, constraints=(LessEqual("x", "y"),)
    )
    released = SmoothSynthesis().release(curator(frame().assign(c="a"), schema=schema))
    made = released.sample(10)
    assert list(made.columns) == ["x", "y"]
    assert (made["x"] <= made["y"]).all()
    assert "columns left out of the synthetic table: c" in released.receipt.notes
    assert "no synthetic row breaks a declared rule" in released.receipt.notes


def test_noise_above_what_can_be_learned_is_warned_of():
    table, schema = wide(30, 100)
    with pytest.warns(UserWarning, match="noise"):
        SmoothSynthesis(spend=PureDP(0.1)).release(curator(table, schema=schema))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # which takes nothing away
        hopeless = SmoothSynthesis(spend=PureDP(0.1)).release(curator(table, schema=schema))
    assert not any("SALVAGED" in note for note in hopeless.receipt.notes)
    with warnings_kept() as said:
        SmoothSynthesis().release(curator(frame()))
    assert [str(one.message) for one in said] == []


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="variant"):
        SmoothSynthesis(variant="best")
    with pytest.raises(SolverUnavailableError, match="cplex"):
        SmoothSynthesis(solver="cplex")
    for name, value in (("smoothness", 0), ("functions", 0), ("grid", 1), ("candidates", 0), ("degrees", 1)):
        with pytest.raises(ParameterError, match=f"{name}.*{value}"):
            SmoothSynthesis(**{name: value})
    for name, value in (("degrees", 3), ("order", 2), ("lattice", 9), ("law", "laplace")):
        with pytest.raises(ParameterError, match=f"{name}.*variant"):
            SmoothSynthesis(**{name: value})
    with pytest.raises(ParameterError, match="law"):
        SmoothSynthesis(variant="exact", law="normal")
    table, schema = wide(15, 10)
    asked = curator(table, schema=schema)
    with pytest.raises(ParameterError, match=r"2\^15"):
        SmoothSynthesis(variant="exact").release(asked)
    with pytest.raises(ParameterError, match=r"200\^2"):
        SmoothSynthesis(variant="exact", degrees=200).release(curator(frame(10)))


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("shift", [-(10**13), 10**13])
@pytest.mark.parametrize(("d", "rows"), [(3, 2000), (30, 400)])
def test_answers_that_no_table_has_still_give_a_table(monkeypatch, d, rows, shift):
    for law in ("discrete_laplace", "linf_knorm"):
        monkeypatch.setattr(noise, law, lambda values, *, scale: values + shift)
    table, schema = wide(d, rows)
    sample = SmoothSynthesis().release(curator(table, schema=schema)).sample(200)
    assert sample.shape == (200, d)
    assert (sample.mean() * np.sign(shift) > 0.2).all()


@pytest.mark.landing
def test_missing_values_keep_their_shares_where_only_means_are_measured(monkeypatch):
    silence(monkeypatch)
    table, _ = wide(30, 400)
    table.iloc[:100, 0] = np.nan
    schema = Schema({name: Continuous(-1, 1, nullable=name == "x0") for name in table})
    sample = SmoothSynthesis().release(curator(table, schema=schema)).sample(4000, random_state=0)
    assert sample["x0"].isna().mean() == pytest.approx(0.25, abs=0.01)
    assert sample["x0"].mean() == pytest.approx(table["x0"].mean(), abs=0.1)
