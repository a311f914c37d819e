"""Solvers by name, and the choice between them."""

from __future__ import annotations

import math

import pytest
from contracts.fit_problems import constructed

from synthdp.errors import ParameterError, SolverFailedError, SolverUnavailableError
from synthdp.fit.explicit.l1_highs import L1Highs
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.explicit.problem import ProblemSize
from synthdp.fit.explicit.registry import Auto, solver_named

LARGE = ProblemSize(k=20_000, m=1_000_000, nonzeros=20_000_000_000)
SMALL = ProblemSize(k=50, m=1000, nonzeros=50_000)


@pytest.mark.parametrize("name", ["lp", "mw", "auto"])
def test_a_solver_is_found_under_its_own_name(name):
    assert solver_named(name).name == name
    assert solver_named(name, seconds=3.0).seconds == 3.0


def test_named_solvers_have_no_time_limit_unless_given_and_auto_has_one():
    limits = [solver_named(name).seconds for name in ("lp", "mw", "auto")]
    assert limits == [math.inf, math.inf, 60.0]


def test_an_unknown_name_is_refused_with_what_there_is():
    with pytest.raises(SolverUnavailableError, match=r"^solver 'mosek' is not installed; available: lp, mw$"):
        solver_named("mosek")


def test_auto_takes_the_program_where_it_fits_its_budget():
    assert Auto().choose(SMALL).name == "lp"
    assert Auto().estimate(SMALL) == L1Highs().estimate(SMALL)


def test_auto_takes_the_program_with_a_pull_over_a_few_thousand_drawn_rows_and_not_over_very_many():
    drawn = ProblemSize(k=4155, m=4784, nonzeros=435_000, plain=False)
    assert Auto().choose(drawn).name == "lp"
    assert Auto().choose(LARGE._replace(plain=False)).name == "mw"
    assert L1Highs().estimate(drawn).seconds < L1Highs().estimate(drawn._replace(plain=True)).seconds


@pytest.mark.parametrize(
    ("auto", "size"),
    [(Auto(), LARGE), (Auto(seconds=1e-3), SMALL), (Auto(memory_bytes=1.0), SMALL), (Auto(seconds=math.inf), LARGE)],
)
def test_auto_takes_multiplicative_weights_where_the_program_exceeds_time_or_memory(auto, size):
    assert auto.choose(size).name == "mw"
    assert auto.estimate(size) == MultiplicativeWeights().estimate(size)


def test_auto_falls_back_where_the_program_fails(monkeypatch):
    def fail(self, problem):
        raise SolverFailedError("no", status="It failed.")

    known = constructed(12, 300, seed=2)
    assert Auto().solve(known.problem).solver == "lp"
    monkeypatch.setattr(L1Highs, "solve", fail)
    result = Auto().solve(known.problem)
    assert result.solver == "mw"
    assert result.objective - result.gap <= known.optimum


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"seconds": 0.0}, r"seconds \(0.0\) must be"),
        ({"memory_bytes": 0.0}, r"memory_bytes \(0.0\) must be"),
    ],
)
def test_a_budget_outside_its_range_is_refused(settings_, message):
    with pytest.raises(ParameterError, match=message):
        Auto(**settings_)
