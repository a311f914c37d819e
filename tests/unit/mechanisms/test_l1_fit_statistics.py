"""What the L1 fit is worth: near maximum entropy of its own measurements, from every interface, with a receipt."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from no_noise import with_repeatable_noise

import synthdp as sd
from synthdp.cli.main import main
from synthdp.distribution.explicit import Explicit
from synthdp.errors import ParameterError
from synthdp.fit.explicit.problem import FitProblem, pull_of
from synthdp.mechanisms.l1_fit import BASES

LEVELS = {"a": 2, "b": 3, "c": 4, "d": 3}


def labels(rows: int, *, columns: int = 4) -> pd.DataFrame:
    """Labels that are independent within three hidden classes."""
    rng = np.random.default_rng(0)
    hidden = rng.choice(3, rows)
    table = {}
    for name, size in itertools.islice(itertools.cycle(LEVELS.items()), columns):
        shares = rng.dirichlet(np.full(size, 0.7), 3).cumsum(axis=1)
        codes = np.minimum((rng.random(rows)[:, None] > shares[hidden]).sum(axis=1), size - 1)
        table[f"{name}{len(table)}"] = np.array(list("stuv"))[codes]
    return pd.DataFrame(table)


def schema_of(table: pd.DataFrame) -> sd.Schema:
    return sd.Schema({name: sd.Categorical(sorted(set(table[name]))) for name in table})


def mixed(rows: int = 400) -> tuple[pd.DataFrame, sd.Schema]:
    rng = np.random.default_rng(1)
    x = rng.random(rows)
    table = pd.DataFrame({"x": x, "y": (x + rng.random(rows)) / 2, "k": np.where(x > 0.5, "u", "v")})
    return table, sd.Schema({"x": sd.Continuous(0, 1), "y": sd.Continuous(0, 1), "k": sd.Categorical(["u", "v"])})


def released(table: pd.DataFrame, schema: sd.Schema, *, epsilon: float = 1.0, **options: object) -> sd.Release:
    curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(epsilon, 1e-6))
    return sd.L1Fit(**options).release(curator, random_state=0)  # type: ignore[arg-type]


def error(table: pd.DataFrame, release: sd.Release) -> float:
    """Mean total variation distance over all triples of columns."""
    made = release.sample(len(table), random_state=0)
    distances = []
    for triple in itertools.combinations(table.columns, 3):
        real, found = (rows.value_counts(list(triple), normalize=True) for rows in (table, made))
        distances.append(real.sub(found, fill_value=0.0).abs().sum() / 2)
    return float(np.mean(distances))


@pytest.mark.landing
def test_the_program_is_within_half_of_multiplicative_weights_and_far_better_than_without_a_pull(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_repeatable_noise(monkeypatch)
    table = labels(8000)
    schema = schema_of(table)
    best = error(table, released(table, schema, solver="mw"))
    pulled, bare = (error(table, released(table, schema, solver=solver)) for solver in ("lp", "sifting"))
    assert pulled <= 1.5 * best
    assert bare >= 2 * pulled


@pytest.mark.slow
def test_drawn_rows_come_from_a_tree_of_pairs_and_keep_what_independent_columns_lose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_repeatable_noise(monkeypatch)
    table = labels(8000, columns=10)
    release = released(table, schema_of(table), solver="lp", support=1500)
    alone = released(table, schema_of(table), support=1500, workload={(name,): 1.0 for name in table})
    assert "drawn from a tree" in release.receipt.notes[-1]
    assert error(table, release) < 0.6 * error(table, alone)


@pytest.mark.parametrize("solver", ["lp", "mw", "sifting"])
def test_the_receipt_names_the_solver_the_objective_and_the_gap(solver: str) -> None:
    release = released(labels(500), schema_of(labels(500)), solver=solver)
    assert isinstance(release.output.distribution, Explicit)
    note = release.receipt.notes[-1]
    for words in (
        f"by {solver}: ",
        "objective ",
        "gap ",
        *(() if solver == "sifting" else ("multiplicative weights ", "pull ")),
    ):
        assert words in note


def test_an_infinite_pull_leaves_independent_columns() -> None:
    table = labels(500)
    model = released(table, schema_of(table), pull=math.inf).output.distribution
    for pair in itertools.combinations(range(4), 2):
        joint = model.marginal(pair).reshape([model.shape[j] for j in pair])
        alone = np.outer(model.marginal(pair[:1]), model.marginal(pair[1:]))
        np.testing.assert_allclose(joint, alone, atol=1e-9)


def test_the_pull_grows_with_the_noise_from_nothing_to_everything() -> None:
    A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    pulls = [pull_of(A, np.full(3, noise)) for noise in (0.0, 1e-6, 1e-3, 0.1, 0.9, 1.0, 5.0)]
    assert pulls == sorted(pulls)
    assert (pulls[0], pulls[-2], pulls[-1]) == (0.0, math.inf, math.inf)


@pytest.mark.parametrize("form", [np.array, sp.csc_array])
def test_no_answer_moves_a_weight_further_than_from_the_noise_to_everything(form: type) -> None:
    rng = np.random.default_rng(0)
    A, stddev = rng.integers(0, 2, (9, 40)).astype(float), rng.choice([0.01, 0.02], 9)
    problem = FitProblem(A=A, b=np.zeros(9), stddev=stddev, pull=pull_of(form(A), stddev))
    moved = problem.row_weights[:, None] * A / problem.pull
    assert moved.max() == pytest.approx(math.log(1 / 0.02))


@pytest.mark.sampled
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("support", [40, pytest.param(5000, marks=pytest.mark.slow)], ids=["drawn", "listed"])
def test_every_basis_gives_a_table_through_the_estimator(basis: str, support: int) -> None:
    table, schema = mixed()
    options = {"basis": basis, "support": support} | ({} if basis == "marginals" else {"degree": 2})
    made = sd.SyntheticRelease(schema=schema, mechanism="l1_fit", mechanism_options=options, random_state=0)
    assert list(made.fit_transform(table)) == list(table)
    assert any("L1 fit over" in note for note in made.receipt_.notes)


@pytest.mark.sampled
@pytest.mark.parametrize("basis", BASES)
def test_every_basis_gives_a_table_on_the_command_line(basis: str, tmp_path: Path) -> None:
    table, schema = mixed()
    table.to_csv(tmp_path / "table.csv", index=False)
    schema.write(tmp_path / "schema.json")
    words = ["release", str(tmp_path / "table.csv"), "--schema", str(tmp_path / "schema.json"), "--mechanism", "l1_fit"]
    words += ["--option", f"basis={basis}", "--option", "support=60", "--solver", "lp"]
    words += [] if basis == "marginals" else ["--option", "degree=2"]
    ran = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "made.csv")])
    assert ran.exit_code == 0, ran.output
    assert list(pd.read_csv(tmp_path / "made.csv")) == list(table)


@pytest.mark.slow
def test_a_mixed_basis_measures_ordered_pairs_as_products_and_all_others_as_tables() -> None:
    table, schema = mixed()
    release = released(table, schema, basis="mixed")
    kinds = [type(one.queries).__name__ for one in release.measurements[-2:]]
    assert kinds == ["Marginals", "TensorBasis"]


@pytest.mark.parametrize("pull", [-1.0, math.nan])
def test_a_pull_out_of_range_is_refused(pull: float) -> None:
    with pytest.raises(ParameterError, match="pull"):
        sd.L1Fit(pull=pull)
