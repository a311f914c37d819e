"""The released summary: what it costs, what it asks, and what it says without noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from silence import silence

from synthdp.curator import Curator
from synthdp.curator.ledger import Ledger
from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy.loss import ZCDP, ApproxDP, PrivacyLoss, PureDP, Remaining
from synthdp.schema.columns import Categorical, Continuous, Integer
from synthdp.schema.schema import Schema
from synthdp.works.smooth.kernels import GaussianKernels
from synthdp.works.smooth.summary import SmoothSummary

SCHEMA = Schema({"x": Continuous(-1, 1), "c": Categorical(["a", "b"]), "y": Continuous(0, 10)})
LOSSES = [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)]


def frame(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.uniform(-1, 1, rows), "c": "a", "y": rng.uniform(0, 10, rows)})


def scaled(table: pd.DataFrame) -> np.ndarray:
    return np.column_stack([table.x, table.y / 5 - 1])


PURE = PureDP(1.0)


def curator(table: pd.DataFrame, loss: PrivacyLoss = PURE, neighbors: str = "replace_one", **more) -> Curator:
    return Curator(table, schema=SCHEMA, budget=loss, neighbors=neighbors, **more)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", LOSSES)
def test_without_noise_polynomials_are_answered_up_to_the_grid(monkeypatch, loss, neighbors):
    silence(monkeypatch)
    table = frame()
    released = SmoothSummary(degrees=4).release(curator(table, loss, neighbors))
    query = lambda p: 1 + p[:, 0] ** 3 - 2 * p[:, 0] * p[:, 1] ** 2  # noqa: E731
    assert float(released.output.answer(query)) == pytest.approx(query(scaled(table)).mean(), abs=2e-5)


def test_only_ordered_columns_are_summarised_unless_named():
    assert SmoothSummary(degrees=3).release(curator(frame())).output.names == ("x", "y")
    assert SmoothSummary(degrees=3, columns=("y",)).release(curator(frame())).output.names == ("y",)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_cost_is_known_before_and_is_what_the_ledger_lost(tmp_path, loss, neighbors):
    path = tmp_path / "ledger.sqlite"
    mechanism = SmoothSummary(spend=loss.fraction(0.5))
    asked = curator(frame(), loss, neighbors, ledger=path, dataset="d")
    released = mechanism.release(asked)
    assert mechanism.loss == released.loss == loss.fraction(0.5)
    assert [entry.loss for entry in Ledger(path).entries("d")] == [released.loss]
    assert SmoothSummary().loss == Remaining()


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_what_is_asked_does_not_depend_on_the_rows(monkeypatch, neighbors):
    trace = silence(monkeypatch)
    for seed in (1, 2):
        SmoothSummary().release(curator(frame(seed=seed), neighbors=neighbors))
    half = len(trace) // 2
    assert half > 0
    assert trace[:half] == trace[half:]


def test_the_number_of_rows_is_measured_only_where_it_is_private():
    public = SmoothSummary(degrees=3).release(curator(frame()))
    private = SmoothSummary(degrees=3).release(curator(frame(), neighbors="add_remove"))
    assert [item.step for item in public.receipt.items] == ["Chebyshev averages"]
    assert [item.step for item in private.receipt.items] == ["number of rows", "Chebyshev averages"]
    assert (public.output.rows, public.output.rows_stddev) == (300, 0)
    assert private.output.rows_stddev > 0


def test_the_noise_of_the_averages_is_that_of_the_measurement():
    released = SmoothSummary(degrees=3).release(curator(frame()))
    assert released.output.stddev == pytest.approx(released.measurements[0].stddev / 300)
    assert released.measurements[0].noise.law is NoiseLaw.LINF
    laplace = SmoothSummary(degrees=3, law=NoiseLaw.LAPLACE).release(curator(frame()))
    assert laplace.output.stddev > released.output.stddev


def test_the_rules_order_the_degrees():
    paper, improved = (
        SmoothSummary(degrees=rule).release(curator(frame(3000))).output.degrees for rule in ("paper", "improved")
    )
    assert (paper, improved) == (4, 8)


def test_missing_values_count_as_spread_by_the_arcsine_law(monkeypatch):
    """Their average of f is (1/π) ∫ f(x) / √(1 − x²) dx, here of x²: one half."""
    silence(monkeypatch)
    schema = Schema({"x": Continuous(-1, 1, nullable=True)})
    table = pd.DataFrame({"x": [0.5, np.nan, np.nan, np.nan]})
    asked = Curator(table, schema=schema, budget=PureDP(1.0), neighbors="replace_one")
    answer = SmoothSummary(degrees=3).release(asked).output.answer(lambda p: p[:, 0] ** 2)
    assert float(answer) == pytest.approx((0.25 + 3 * 0.5) / 4, abs=1e-4)


def test_kernel_workloads_are_answered_within_their_error_bars():
    table = frame(5000)
    kernels = GaussianKernels.random(30, d=2, sigma=0.7, rng=np.random.default_rng(0))
    answer = SmoothSummary(smoothness=6).release(curator(table)).output.answer(kernels)
    off = np.abs(answer.estimate - kernels.averages(scaled(table)))
    assert (off <= 8 * answer.stderr + answer.truncation + 1e-4).all()


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="smoothness"):
        SmoothSummary(smoothness=0)
    with pytest.raises(ParameterError, match="degrees"):
        SmoothSummary(degrees="best")
    with pytest.raises(ParameterError, match="degrees"):
        SmoothSummary(degrees=1)
    with pytest.raises(ParameterError, match="cells"):
        SmoothSummary(cells=1)
    with pytest.raises(ParameterError, match="total_share"):
        SmoothSummary(total_share=1)


def test_what_cannot_be_released_is_refused_before_anything_is_spent():
    asked = curator(frame())
    with pytest.raises(ParameterError, match="SmoothSynthesis"):
        SmoothSummary(degrees=1001).release(asked)
    with pytest.raises(ParameterError, match="'c'"):
        SmoothSummary(columns=("c",)).release(asked)
    assert asked.remaining == PureDP(1.0)
    nominal = Curator(pd.DataFrame({"c": ["a"]}), schema=Schema({"c": Categorical(["a", "b"])}), budget=PureDP(1.0))
    with pytest.raises(ParameterError, match="schema"):
        SmoothSummary().release(nominal)
    wide = Schema({f"x{j}": Integer(0, 9) for j in range(21)})
    many = Curator(pd.DataFrame(0, index=[0], columns=list(wide)), schema=wide, budget=PureDP(1.0))
    with pytest.raises(ParameterError, match=r"2\^21"):
        SmoothSummary().release(many)
