"""One contract for every baseline: its cost is known first and equals what was lost, for both neighbour relations."""

import numpy as np
import pytest
from private_door import private_table
from silence import silence
from small_worlds import binary_table, binary_world, skewed_codes

from synthdp import ApproxDP, Curator, Ledger
from synthdp.errors import BudgetExceededError
from synthdp.mechanisms.direct_answers import GaussianAnswers, LaplaceAnswers
from synthdp.privacy import noise
from synthdp.privacy.loss import Remaining
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.works.net.mwem import MWEM
from synthdp.works.net.net import NetMechanism
from synthdp.works.net.online_mechanisms import MedianMechanism, PrivateMultiplicativeWeights
from synthdp.works.net.private_boosting import PrivateBoosting
from synthdp.works.polynomials.fourier_marginals import FourierMarginals

SCHEMA, DOMAIN = binary_world(3)
WORKLOAD = Marginals(DOMAIN, all_cliques(DOMAIN, 2))
CODES = skewed_codes(3, 300)
NEIGHBORS = {
    "replace_one": np.vstack([CODES[:-1], 1 - CODES[-1:]]),
    "add_remove": CODES[:-1],
}


class Opened:
    """An online mechanism run over the whole workload, so that it too has a release."""

    def __init__(self, mechanism):
        self.mechanism = mechanism
        self.loss = mechanism.loss

    def release(self, curator, *, random_state=None):
        session = self.mechanism.open(curator)
        session.ask(WORKLOAD)
        return session.close()


BUILD = {
    "net": lambda **spend: NetMechanism(WORKLOAD, size=4, **spend),
    "laplace": lambda **spend: LaplaceAnswers(WORKLOAD, **spend),
    "gaussian": lambda **spend: GaussianAnswers(WORKLOAD, **spend),
    "fourier": lambda **spend: FourierMarginals(WORKLOAD, **spend),
    "mwem": lambda **spend: MWEM(WORKLOAD, rounds=3, **spend),
    "boosting": lambda **spend: PrivateBoosting(WORKLOAD, rounds=3, drawn=3, **spend),
    "multiplicative weights": lambda **spend: Opened(PrivateMultiplicativeWeights(DOMAIN, max_updates=5, **spend)),
    "median": lambda **spend: Opened(MedianMechanism(DOMAIN, size=4, **spend)),
}
BUDGET = ApproxDP(1.0, 1e-6)


def curator(codes: np.ndarray, neighbors: str, **options) -> Curator:
    return Curator(binary_table(SCHEMA, codes), schema=SCHEMA, budget=BUDGET, neighbors=neighbors, **options)


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("name", BUILD)
def test_the_loss_is_known_first_and_is_what_the_ledger_lost(tmp_path, name, neighbors):
    spend = ApproxDP(0.25, 1e-7)
    mechanism = BUILD[name](spend=spend)
    assert mechanism.loss == spend
    ledger = Ledger(tmp_path / "ledger.sqlite")
    asked = curator(CODES, neighbors, ledger=ledger, dataset="small")
    release = mechanism.release(asked)
    assert release.loss == spend
    spent = asked.budget.epsilon - asked.remaining.epsilon, asked.budget.delta - asked.remaining.delta
    assert spent == pytest.approx((0.25, 1e-7))
    (entry,) = ledger.entries("small")
    assert entry.loss == spend
    assert release.receipt.items


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", BUILD)
def test_all_that_is_left_is_spent_by_default(name):
    mechanism = BUILD[name]()
    assert mechanism.loss == Remaining()
    asked = curator(CODES, "add_remove")
    assert mechanism.release(asked).loss == BUDGET
    assert asked.remaining is None


@pytest.mark.parametrize("name", BUILD)
def test_what_is_not_covered_is_refused_before_anything_is_read(name):
    asked = curator(CODES, "add_remove")
    with pytest.raises(BudgetExceededError):
        BUILD[name](spend=ApproxDP(2.0, 1e-7)).release(asked)
    assert asked.remaining == BUDGET
    assert private_table(asked).reads == 0


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("name", BUILD)
def test_noise_is_asked_for_alike_on_neighbouring_tables(monkeypatch, name, neighbors):
    """The outputs are frozen, so that only the data could change what is asked next."""
    trace = silence(monkeypatch)

    def frozen(law):
        def constant(values, *, scale):
            trace.append((law, len(values), float(scale)))
            return np.full(len(values), 40, np.int64)

        return constant

    def first(law):
        def choose(scores, *, scale):
            trace.append((law, len(scores), float(scale)))
            return 0

        return choose

    def silent(*, scale):
        """The first draw of a watch is its level: so high that no alarm is raised."""
        earlier = [law for law, _, _ in trace].count("geometric")
        trace.append(("geometric", 1, float(scale)))
        return 2**50 * (earlier == 0)

    for law in ("discrete_laplace", "discrete_gaussian", "linf_knorm"):
        monkeypatch.setattr(noise, law, frozen(law))
    for law in ("noisy_max", "exponential_mechanism"):
        monkeypatch.setattr(noise, law, first(law))
    monkeypatch.setattr(noise, "geometric", silent)
    traces = []
    for codes in (CODES, NEIGHBORS[neighbors]):
        trace.clear()
        BUILD[name]().release(curator(codes, neighbors), random_state=0)
        traces.append(list(trace))
    assert traces[0] == traces[1]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", BUILD)
def test_the_release_names_the_mechanism_and_its_neighbours(name):
    release = BUILD[name]().release(curator(CODES, "replace_one"))
    assert "replace one row" in str(release.receipt)
    assert release.mechanism in str(release)
    assert repr(release.output)
