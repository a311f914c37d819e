import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from joint_tables import all_rows, graphs, joint_table, margin
from scipy.optimize import approx_fprime, minimize

from synthdp.errors import ParameterError
from synthdp.fit.consistency import make_consistent
from synthdp.fit.max_entropy import MaxEntropy, MaxEntropyStatus
from synthdp.queries.contingency import NoisyTable, cell_index, contingency, table_size

PRECISE = MaxEntropy(max_sweeps=3000, tolerance=1e-10)


def noisy_tables(shape, cliques, rng, *, total=100.0, stddev=3.0, possible=1.0):
    joint = rng.dirichlet(np.full(int(np.prod(shape)), 0.5)) * possible + 1e-12 * possible
    joint /= joint.sum()
    tables = []
    for clique in cliques:
        counts = total * margin(shape, joint, clique)
        tables.append(NoisyTable(clique=clique, counts=counts + stddev * rng.normal(size=counts.size), stddev=stddev))
    return tables


@st.composite
def problems(draw):
    shape, cliques = draw(graphs(most_columns=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return shape, noisy_tables(shape, cliques, rng, stddev=draw(st.sampled_from([0.5, 5.0, 50.0])))


def gradients(fit, solver, tables, shape):
    """total·μ + vθ − y of every table, by brute force on the joint table of the fitted potentials."""
    joint, log_partition = joint_table(shape, dict(fit.model.potentials))
    value = fit.total * log_partition
    result = []
    for table in tables:
        ridge, theta = solver.ridge_of(table), fit.model.potentials[table.clique]
        value += 0.5 * ridge * theta @ theta - theta @ table.counts
        result.append(fit.total * margin(shape, joint, table.clique) + ridge * theta - table.counts)
    return value, result


@given(problems())
def test_the_sweeps_reach_the_optimum(problem):
    shape, tables = problem
    fit = PRECISE.fit(tables, shape, total=100.0)
    for gradient in gradients(fit, PRECISE, tables, shape)[1]:
        assert np.abs(gradient).max() < 2e-3


@given(problems())
def test_objective_and_residual_are_those_of_the_joint_table(problem):
    shape, tables = problem
    solver = MaxEntropy(max_sweeps=2)
    fit = solver.fit(tables, shape, total=100.0)
    value, by_table = gradients(fit, solver, tables, shape)
    assert fit.objective == pytest.approx(value, abs=1e-6 * (1 + abs(value)))
    assert fit.residual == pytest.approx(max((np.abs(g).sum() for g in by_table), default=0) / 100, abs=1e-9)


@settings(max_examples=5)
@given(problems())
def test_quasi_newton_steps_reach_the_same_model_as_sweeps(problem):
    shape, tables = problem
    swept = PRECISE.fit(tables, shape, total=100.0)
    polished = MaxEntropy(max_sweeps=1, polish_steps=2000).fit(tables, shape, total=100.0)
    assert polished.objective <= swept.objective + 1e-3
    for table in tables:
        np.testing.assert_allclose(swept.model.marginal(table.clique), polished.model.marginal(table.clique), atol=2e-3)


@given(problems())
def test_polishing_never_worsens_the_objective(problem):
    shape, tables = problem
    before = MaxEntropy(max_sweeps=2, tolerance=0).fit(tables, shape, total=100.0)
    after = MaxEntropy(max_sweeps=2, tolerance=0, polish_steps=3).fit(tables, shape, total=100.0)
    assert after.objective <= before.objective + 1e-9 * abs(before.objective)


def test_the_gradient_is_the_derivative_of_the_objective():
    shape, cliques = (2, 3, 2), [(0,), (0, 1), (1, 2)]
    rng = np.random.default_rng(0)
    dual = MaxEntropy()._dual(noisy_tables(shape, cliques, rng), shape, 100.0, {})
    sizes = np.cumsum([table_size(shape, c) for c in cliques])[:-1]

    def packed(x):
        return dict(zip(cliques, np.split(x, sizes), strict=True))

    point = rng.normal(size=14)
    gradient = np.concatenate(dual.value_and_gradient(packed(point))[1])
    numeric = approx_fprime(point, lambda x: dual.value_and_gradient(packed(x))[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)


def test_the_fit_is_the_one_a_general_solver_finds_on_the_joint_table():
    shape, cliques = (2, 2, 3), [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]
    tables = noisy_tables(shape, cliques, np.random.default_rng(1), stddev=4.0)
    rows = all_rows(shape)
    design = np.concatenate([cell_index(rows, shape, c) == np.arange(table_size(shape, c))[:, None] for c in cliques])
    ridges = np.concatenate([np.full(t.counts.size, PRECISE.ridge_of(t)) for t in tables])
    answers = np.concatenate([t.counts for t in tables])

    def objective(theta):
        logits = theta @ design
        peak = logits.max()
        weights = np.exp(logits - peak)
        value = 100 * (peak + np.log(weights.sum())) + 0.5 * ridges @ theta**2 - theta @ answers
        return value, 100 * design @ (weights / weights.sum()) + ridges * theta - answers

    found = minimize(
        objective, np.zeros(len(answers)), jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 5000}
    )
    fit = PRECISE.fit(tables, shape, total=100.0)
    assert fit.objective == pytest.approx(found.fun, abs=1e-4)
    for clique, theta in zip(cliques, np.split(found.x, np.cumsum([t.counts.size for t in tables])[:-1]), strict=True):
        np.testing.assert_allclose(fit.model.potentials[clique], theta, atol=2e-3)


def test_exact_tables_on_a_tree_are_matched_when_the_ridge_is_small():
    rng = np.random.default_rng(2)
    shape = (3, 2, 4)
    codes = np.stack([rng.integers(0, k, 3000) for k in shape], axis=1)
    codes[:, 1] = np.where(rng.random(3000) < 0.7, codes[:, 0] % 2, codes[:, 1])
    cliques = [(0,), (1,), (2,), (0, 1), (1, 2)]
    tables = [NoisyTable(clique=c, counts=contingency(codes, shape, c), stddev=1e-6) for c in cliques]
    fit = MaxEntropy(tolerance=1e-9, max_sweeps=100).fit(tables, shape, total=3000.0)
    assert fit.status is MaxEntropyStatus.SETTLED
    for table in tables:
        np.testing.assert_allclose(3000 * fit.model.marginal(table.clique), table.counts, atol=1e-3)


@st.composite
def constrained(draw):
    """Tables of a distribution that keeps the constraint: a contradiction is noise, as in a release."""
    shape, cliques = draw(graphs(most_columns=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    witness = np.array([[rng.integers(k) for k in shape]])
    clique = tuple(range(min(3, len(shape))))
    allowed = rng.random(table_size(shape, clique)) < 0.6
    allowed[cell_index(witness, shape, clique)] = True
    possible = allowed[cell_index(all_rows(shape), shape, clique)]
    stddev = draw(st.sampled_from([0.5, 5.0, 50.0]))
    return shape, noisy_tables(shape, cliques, rng, stddev=stddev, possible=possible), {clique: allowed}


@pytest.mark.slow
@given(constrained())
def test_forbidden_cells_have_no_mass_and_the_rest_reaches_its_optimum(problem):
    shape, tables, allowed = problem
    fit = PRECISE.fit(tables, shape, total=100.0, allowed=allowed)
    ((clique, mask),) = allowed.items()
    assert (fit.model.marginal(clique)[~mask] == 0).all()
    assert fit.model.marginal(clique).sum() == pytest.approx(1)
    sampled = fit.model.sample(500, np.random.default_rng(0))
    assert mask[cell_index(sampled, shape, clique)].all()
    possible = mask[cell_index(all_rows(shape), shape, clique)].astype(float)
    joint = joint_table(shape, dict(fit.model.potentials))[0]
    assert (joint[possible == 0] == 0).all()
    for table in tables:
        reachable = margin(shape, possible, table.clique) > 0
        pull = PRECISE.ridge_of(table) * fit.model.potentials[table.clique][reachable] - table.counts[reachable]
        assert np.abs(100 * margin(shape, joint, table.clique)[reachable] + pull).max() < 2e-3


@given(constrained())
def test_polishing_respects_forbidden_cells(problem):
    shape, tables, allowed = problem
    fit = MaxEntropy(max_sweeps=1, polish_steps=50).fit(tables, shape, total=100.0, allowed=allowed)
    ((clique, mask),) = allowed.items()
    assert (fit.model.marginal(clique)[~mask] == 0).all()


def test_constraints_that_leave_nothing_possible_are_refused():
    allowed = {(0,): np.array([True, False]), (0, 1): np.array([False, False, True, True])}
    with pytest.raises(ParameterError, match="allowed"):
        MaxEntropy().fit([], (2, 2), total=10.0, allowed=allowed)


def test_one_ways_alone_give_independent_columns_in_one_tour():
    tables = [
        NoisyTable(clique=(0,), counts=np.array([30.0, 70.0]), stddev=1e-3),
        NoisyTable(clique=(1,), counts=np.array([20.0, 50.0, 30.0]), stddev=1e-3),
    ]
    fit = MaxEntropy().fit(tables, (2, 3), total=100.0)
    assert (fit.sweeps, fit.status) == (1, MaxEntropyStatus.SETTLED)
    np.testing.assert_allclose(fit.model.marginal((0, 1)), np.outer([0.3, 0.7], [0.2, 0.5, 0.3]).ravel(), atol=1e-5)


def test_columns_without_a_table_are_uniform():
    fit = MaxEntropy().fit([], (2, 4), total=100.0)
    np.testing.assert_allclose(fit.model.marginal((0, 1)), np.full(8, 1 / 8))
    assert fit.residual == 0


@pytest.mark.parametrize("total", [-50.0, 0.0, 1e-9])
def test_a_total_of_nothing_is_raised_to_the_floor(total):
    rng = np.random.default_rng(3)
    tables = noisy_tables((2, 3), [(0,), (1,), (0, 1)], rng, total=0.0, stddev=5.0)
    fit = MaxEntropy().fit(make_consistent(tables, (2, 3), total=total), (2, 3), total=total)
    assert fit.total == 1.0
    assert fit.model.marginal((0, 1)).sum() == pytest.approx(1)
    assert fit.model.sample(10, rng).shape == (10, 2)


def test_tables_of_zeros_give_the_uniform_distribution():
    tables = [NoisyTable(clique=c, counts=np.zeros(k), stddev=2.0) for c, k in {(0,): 2, (1,): 3, (0, 1): 6}.items()]
    fit = MaxEntropy(tolerance=1e-9).fit(tables, (2, 3), total=100.0)
    np.testing.assert_allclose(fit.model.marginal((0, 1)), np.full(6, 1 / 6), atol=1e-9)


def test_columns_with_one_code_change_nothing():
    tables = noisy_tables((2, 3), [(0,), (1,), (0, 1)], np.random.default_rng(4))
    widened = [NoisyTable(clique=tuple(2 * a for a in t.clique), counts=t.counts, stddev=t.stddev) for t in tables] + [
        NoisyTable(clique=(0, 1), counts=np.array([40.0, 60.0]), stddev=1e6)
    ]
    plain = PRECISE.fit(tables, (2, 3), total=100.0)
    wide = PRECISE.fit(widened, (2, 1, 3), total=100.0)
    np.testing.assert_allclose(plain.model.marginal((0, 1)), wide.model.marginal((0, 1, 2)), atol=1e-4)


def test_noise_far_above_the_data_leaves_finite_potentials():
    tables = noisy_tables((4, 5), [(0,), (1,), (0, 1)], np.random.default_rng(5), total=10.0, stddev=1e5)
    fit = MaxEntropy(polish_steps=20).fit(tables, (4, 5), total=10.0)
    assert all(np.isfinite(theta).all() for theta in fit.model.potentials.values())
    assert np.isfinite(fit.objective)


def test_spent_tours_are_said():
    tables = noisy_tables((3, 3, 3), [(0, 1), (1, 2), (0, 2)], np.random.default_rng(6))
    fit = MaxEntropy(max_sweeps=1, tolerance=0).fit(tables, (3, 3, 3), total=100.0)
    assert (fit.sweeps, fit.status) == (1, MaxEntropyStatus.MAX_SWEEPS)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ridge": 0.0}, r"ridge\b"),
        ({"ridge_one_way": -1.0}, "ridge_one_way"),
        ({"total_floor": 0.0}, "total_floor"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"polish_steps": -1}, "polish_steps"),
    ],
)
def test_a_setting_outside_its_range_is_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        MaxEntropy(**parameters)


def test_what_does_not_fit_is_refused():
    table = NoisyTable(clique=(0,), counts=np.zeros(2), stddev=1.0)
    with pytest.raises(ParameterError, match="tables"):
        MaxEntropy().fit([table, table], (2,), total=1.0)
    with pytest.raises(ParameterError, match="total"):
        MaxEntropy().fit([table], (2,), total=float("inf"))
    with pytest.raises(ParameterError, match="allowed"):
        MaxEntropy().fit([table], (2,), total=1.0, allowed={(0,): np.ones(3, bool)})


GROUPS = (np.array([0, 1, 1, 0]), np.array([2, 0, 1, 1, 0]))


def merged_table(shape, table, *, stddev):
    """A table of merged codes of the first two columns, made of their whole table."""
    whole = table.counts.reshape(shape[0], shape[1])
    counts = np.zeros((2, 3))
    np.add.at(counts, np.ix_(*GROUPS), whole)
    return NoisyTable(clique=table.clique, counts=counts.ravel(), stddev=stddev, groups=GROUPS)


@pytest.mark.parametrize("stddev", [0.5, 5.0, 50.0])
def test_the_sweeps_reach_the_optimum_of_tables_of_merged_codes(stddev):
    """The gradient of a merged table's potential is the sum over its groups of the joint table, by brute force."""
    shape, rng = (4, 5, 3), np.random.default_rng(7)
    whole, *others = noisy_tables(shape, [(0, 1), (0,), (1,), (1, 2)], rng, stddev=stddev)
    merged = merged_table(shape, whole, stddev=stddev)
    fit = PRECISE.fit([merged, *others], shape, total=100.0)
    joint, _ = joint_table(shape, dict(fit.model.potentials))
    theta = fit.model.potentials[(0, 1)].reshape(4, 5)
    of_groups = np.zeros((2, 3))
    of_groups[np.ix_(*GROUPS)] = theta
    assert np.array_equal(of_groups[np.ix_(*GROUPS)], theta)
    sums = np.zeros((2, 3))
    np.add.at(sums, np.ix_(*GROUPS), margin(shape, joint, (0, 1)).reshape(4, 5))
    gradient = 100.0 * sums.ravel() + PRECISE.ridge_of(merged) * of_groups.ravel() - merged.counts
    assert np.abs(gradient).max() < 2e-3


@pytest.mark.parametrize("steps", [0, 30])
def test_a_table_whose_codes_all_stay_apart_is_fitted_like_a_whole_one(steps):
    shape, rng = (4, 5, 3), np.random.default_rng(8)
    tables = noisy_tables(shape, [(0, 1), (1, 2)], rng)
    apart = NoisyTable(
        clique=(0, 1), counts=tables[0].counts, stddev=tables[0].stddev, groups=(np.arange(4), np.arange(5))
    )
    solver = MaxEntropy(polish_steps=steps)
    models = [solver.fit([first, tables[1]], shape, total=100.0).model for first in (tables[0], apart)]
    assert models[1].marginal((0, 1, 2)) == pytest.approx(models[0].marginal((0, 1, 2)), rel=1e-9)


def test_no_mass_comes_where_the_zeros_forbid_it_by_a_merged_table():
    shape, rng = (4, 5, 3), np.random.default_rng(9)
    whole = noisy_tables(shape, [(0, 1)], rng)[0]
    allowed = np.ones(20, np.bool_)
    allowed[[3, 7]] = False
    merged = merged_table(shape, whole, stddev=1.0)
    table = MaxEntropy().fit([merged], shape, total=100.0, allowed={(0, 1): allowed}).model.marginal((0, 1))
    assert (table[~allowed] == 0).all()
    assert (table[allowed] > 0).all()


@pytest.mark.parametrize("groups", [(np.array([0, 1, 1]), GROUPS[1]), (GROUPS[0], np.array([2, 0, 1, 1, 0, 0]))])
def test_groups_of_other_columns_are_refused(groups):
    with pytest.raises(ParameterError):
        MaxEntropy().fit([NoisyTable(clique=(0, 1), counts=np.ones(6), stddev=1.0, groups=groups)], (4, 5), total=6.0)
