"""Whatever the linear program does after a spend, a release has weights and a sentence that says so."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import FitWarning, SolverFailedError
from synthdp.fit.explicit import l1_program, sifting
from synthdp.fit.explicit.linear_program import Minimum, minimise

Patch = pytest.MonkeyPatch


def _raised(error: BaseException) -> Callable[[Patch], None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    def inject(patch: Patch) -> None:
        for module in (l1_program, sifting):
            patch.setattr(module, "minimise", fail)

    return inject


def _missing(*parts: str) -> Callable[[Patch], None]:
    def inject(patch: Patch) -> None:
        for part in parts:
            patch.setitem(sys.modules, part, None)

    return inject


def _changed(**fields: Callable[[Minimum], Any]) -> Callable[[Patch], None]:
    """Return a fault in what HiGHS returns."""

    def found(*arguments: Any, **settings: Any) -> Minimum:
        whole = minimise(*arguments, **settings)
        assert whole is not None
        return whole._replace(**{name: change(whole) for name, change in fields.items()})

    def inject(patch: Patch) -> None:
        for module in (l1_program, sifting):
            patch.setattr(module, "minimise", found)

    return inject


def _stopped(patch: Patch) -> None:
    def few(*arguments: Any, options: Any, **settings: Any) -> Minimum | None:
        return minimise(*arguments, options={**options, "simplex_iteration_limit": 2}, **settings)

    for module in (l1_program, sifting):
        patch.setattr(module, "minimise", few)


def _nothing(patch: Patch) -> None:
    for module in (l1_program, sifting):
        patch.setattr(module, "minimise", lambda *_, **__: None)


FAULTS: dict[str, Callable[[Patch], None]] = {
    "highspy is not installed": _missing("highspy"),
    "cvxpy is not installed": _missing("cvxpy"),
    "a library does not load": _raised(OSError("libstdc++.so.6: version not found")),
    "memory runs out": _raised(MemoryError()),
    "the solver reports an error": _raised(SolverFailedError("HiGHS ended without a solution", status="error")),
    "an option is refused": _raised(ValueError("unknown option")),
    "arithmetic fails": _raised(ZeroDivisionError("division by zero")),
    "an array has another shape": _raised(IndexError("index 3 is out of bounds")),
    "no solution is found": _nothing,
    "multipliers are not numbers": _changed(duals=lambda found: np.full(found.duals.shape, np.nan)),
    "multipliers are all zero": _changed(duals=lambda found: np.zeros(found.duals.shape)),
    "there are no multipliers": _changed(duals=lambda _: np.empty(0)),
    "variables are not numbers": _changed(x=lambda found: np.full(found.x.shape, np.nan)),
    "it stops before its end": _stopped,
}


def table(rows: int = 400) -> pd.DataFrame:
    """Two numbers that are related, and labels that go with the first."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    numbers = {"x": np.tanh(x), "y": np.tanh(x + rng.normal(size=rows))}
    return pd.DataFrame(numbers).assign(k=np.where(x > 0, "u", "v"), b=rng.random(rows) < 0.3)


SCHEMA = sd.Schema(
    {"x": sd.Continuous(-1, 1), "y": sd.Continuous(-1, 1), "k": sd.Categorical(["u", "v"]), "b": sd.Boolean()}
)
MECHANISMS = {
    "L1Fit": sd.L1Fit(basis="mixed", support=60),
    "L1Fit, sifting": sd.L1Fit(support=60, solver="sifting"),
    "FourierMarginals": sd.FourierMarginals([("k", "b")]),
    "SmoothSynthesis, product": sd.SmoothSynthesis(candidates=200),
    "SmoothSynthesis, practical": sd.SmoothSynthesis(variant="practical", candidates=200),
    "SmoothSynthesis, exact": sd.SmoothSynthesis(variant="exact", degrees=3, grid=9),
}


def released(mechanism: Any) -> sd.Release[Any]:
    """Release with enough budget for pairs."""
    curator = sd.Curator(table(), schema=SCHEMA, budget=sd.ApproxDP(30.0, 1e-6))
    release = mechanism.release(curator, random_state=0)
    assert curator.remaining is None
    return release


@pytest.mark.sampled
@pytest.mark.parametrize("name", MECHANISMS)
def test_without_a_fault_nothing_is_said(name: str, recwarn: pytest.WarningsRecorder) -> None:
    release = released(MECHANISMS[name])
    assert not any("fail" in note or "stopped" in note for note in release.receipt.notes)
    assert not [one for one in recwarn if issubclass(one.category, FitWarning)]


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_whatever_the_program_does_there_are_weights_and_a_sentence(name: str, fault: str, monkeypatch: Patch) -> None:
    FAULTS[fault](monkeypatch)
    if "sifting" in name and "not installed" in fault:
        curator = sd.Curator(table(), schema=SCHEMA, budget=sd.ApproxDP(30.0, 1e-6))
        with pytest.raises(sd.errors.SolverUnavailableError):
            MECHANISMS[name].release(curator)
        assert curator.remaining == sd.ApproxDP(30.0, 1e-6)
        return
    with pytest.warns(FitWarning):
        release = released(MECHANISMS[name])
    assert len(release.output.sample(5)) == 5
    assert any("fail" in note or "stopped" in note or "limit" in note for note in release.receipt.notes)


@pytest.mark.sampled
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_filter_that_makes_errors_of_warnings_takes_no_weights_away(name: str, monkeypatch: Patch) -> None:
    FAULTS["memory runs out"](monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = released(MECHANISMS[name])
    assert not any("SALVAGED" in note for note in release.receipt.notes)
    assert any("made the fit instead" in note for note in release.receipt.notes)
