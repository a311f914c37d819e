"""Solvers by name, and the one function that fits answers that are paid for."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from contracts.fit_problems import constructed, pulled
from strictness import warnings_kept

from synthdp.errors import FitWarning, SolverUnavailableError
from synthdp.fit.explicit import registry
from synthdp.fit.explicit.registry import SOLVERS, ready, solved, solver_named
from synthdp.fit.explicit.solver import FitStatus

PULLED, PLAIN = pulled(12, 300, seed=3).problem, constructed(12, 300, seed=2).problem


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_is_found_under_its_own_name(name):
    assert solver_named(name).name == name


def test_auto_is_the_program():
    assert solver_named("auto") is SOLVERS["lp"]


@pytest.mark.parametrize("ask", [solver_named, ready, lambda name: solved(PULLED, name)])
def test_an_unknown_name_is_refused_with_what_there_is(ask):
    with pytest.raises(SolverUnavailableError, match=r"'mosek'.*sifting"):
        ask("mosek")


@pytest.mark.parametrize("missing", ["highspy", "cvxpy"])
def test_without_highs_only_sifting_is_refused_before_the_spend(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    for name in ("auto", "lp", "mw"):
        ready(name)
    with pytest.raises(SolverUnavailableError, match=r"highspy.*cvxpy"):
        ready("sifting")


@pytest.mark.parametrize("name", SOLVERS)
def test_a_fit_that_ends_well_warns_of_nothing(name):
    with warnings_kept() as said:
        found = solved(PULLED, name)
    assert [str(one.message) for one in said] == []
    assert found.reason == ""
    assert f"by {found.solver}: objective" in str(found)


def test_sifting_minimises_the_misfit_alone():
    found = solved(PULLED, "sifting")
    assert PULLED.misfit(found.weights) < PULLED.misfit(solved(PULLED, "lp").weights)
    assert found.objective == pytest.approx(float(PULLED.row_weights @ np.abs(PULLED.A @ found.weights - PULLED.b)))


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("no luck\nat all"), KeyError("x")])
@pytest.mark.parametrize("name", ["lp", "sifting"])
def test_any_error_of_a_solver_leaves_the_weights_of_multiplicative_weights(name, error, monkeypatch):
    def fail(*_, **__):
        raise error

    solver = SOLVERS[name]
    monkeypatch.setattr(type(solver), "solve", fail)
    rescue = pytest.MonkeyPatch()
    with rescue.context() as patch:
        patch.setattr(registry, "SOLVERS", {**SOLVERS, "mw": _Prior()})
        with pytest.warns(FitWarning, match=type(error).__name__):
            found = solved(PULLED, name)
    assert found.status is FitStatus.FAILED
    assert "at all" not in found.reason


class _Prior:
    name = "mw"

    def solve(self, problem):
        from synthdp.fit.explicit.solver import FitResult

        objective = problem.objective(problem.start)
        return FitResult(
            weights=problem.start.copy(), status=FitStatus.LIMIT, objective=objective, bound=0.0, solver="mw"
        )


def test_a_gap_above_the_noise_is_warned_of(monkeypatch):
    monkeypatch.setattr(registry, "SOLVERS", {**SOLVERS, "lp": _Prior()})
    with pytest.warns(FitWarning, match="gap"):
        solved(PULLED, "lp")
