"""What every mechanism promises, asked of one that lives outside of the package."""

import numpy as np
import pandas as pd
import pytest
from guide.beta_prior import BetaShares
from mechanism_cases import BITS, BUDGET
from no_noise import recorded, replayed, without_noise

from synthdp import ApproxDP, Curator
from synthdp.errors import ParameterError

SPEND = ApproxDP(0.5, 5e-7)


def curator_of(table: pd.DataFrame, relation: str = "add_remove") -> Curator:
    return Curator(table, schema=BITS.schema, budget=BUDGET, neighbors=relation)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_cost_is_known_first_and_is_what_the_curator_lost(relation: str) -> None:
    curator = curator_of(BITS.table, relation)
    release = BetaShares(spend=SPEND).release(curator)
    assert release.loss == SPEND
    assert BUDGET.epsilon - curator.remaining.epsilon == pytest.approx(SPEND.epsilon)


def test_without_noise_it_is_the_mean_of_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    release = BetaShares(yes=3.0, no=1.0).release(curator_of(BITS.table))
    expected = (BITS.table.sum() + 3) / (len(BITS.table) + 4)
    shares = [margin[1] / margin.sum() for margin in release.output.distribution.margins]
    np.testing.assert_allclose(shares, expected)
    assert release.sample(200, random_state=0).mean().to_numpy() == pytest.approx(expected.to_numpy(), abs=0.02)


@pytest.mark.parametrize("case", BITS.strange)
def test_what_is_asked_does_not_depend_on_any_row(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    table, neighbour = BITS.neighbours(case, "add_remove")
    first = recorded(monkeypatch)
    BetaShares().release(curator_of(table))
    second = replayed(monkeypatch, first)
    BetaShares().release(curator_of(neighbour))
    assert first.draws == second.draws


def test_a_prior_must_be_positive() -> None:
    with pytest.raises(ParameterError, match=r"\byes\b"):
        BetaShares(yes=0.0)
