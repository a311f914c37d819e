"""Online mechanisms: silence where the guess is right, learning where it is wrong, bounds that hold."""

import numpy as np
import pytest
from silence import silence
from small_worlds import binary_table, binary_world, curator_of, skewed_codes

from synthdp import ApproxDP, PureDP
from synthdp.domain.domain import universe
from synthdp.errors import ParameterError
from synthdp.privacy import noise
from synthdp.queries.linear import CellQueries
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.works.net.net import multisets
from synthdp.works.net.online_mechanisms import (
    MedianMechanism,
    PrivateMultiplicativeWeights,
    halvings,
    median_bound,
    pmw_bound,
    update_limit,
)

SCHEMA, DOMAIN = binary_world(3)
CODES = skewed_codes(3, 20_000)
TABLE = binary_table(SCHEMA, CODES)
QUERIES = CellQueries(DOMAIN, np.random.default_rng(0).integers(0, 2, (150, 8)))
TRUTH = QUERIES.sums(CODES)
MECHANISMS = {
    "multiplicative weights": lambda **settings: PrivateMultiplicativeWeights(DOMAIN, **settings),
    "median": lambda **settings: MedianMechanism(DOMAIN, size=8, **settings),
}


def quiet(monkeypatch) -> None:
    silence(monkeypatch)
    monkeypatch.setattr(noise, "geometric", lambda *, scale: 0)


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_without_noise_every_answer_is_within_the_threshold(monkeypatch, name, neighbors):
    quiet(monkeypatch)
    mechanism = MECHANISMS[name](threshold=400.0, max_updates=150)
    session = mechanism.open(curator_of(TABLE, SCHEMA, PureDP(1.0), neighbors))
    answers = session.ask(QUERIES)
    errors = np.abs(np.array([float(answer) for answer in answers]) - TRUTH)
    learned = np.array([answer.learned for answer in answers])
    assert (errors[learned] < 1e-2).all()
    assert (errors <= 401).all()
    assert 0 < learned.sum() < 150
    assert all(answer.checked for answer in answers)


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_was_learned_answers_again_without_alarm(monkeypatch, name):
    quiet(monkeypatch)
    session = MECHANISMS[name](threshold=3000.0, max_updates=100).open(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    session.ask(QUERIES)
    session.ask(QUERIES)
    alarms = session.watch.alarms
    session.ask(QUERIES)
    assert session.watch.alarms == alarms


@pytest.mark.sampled
@pytest.mark.parametrize("name", MECHANISMS)
def test_after_the_last_alarm_answers_are_unchecked_guesses(monkeypatch, name):
    quiet(monkeypatch)
    session = MECHANISMS[name](threshold=50.0, max_updates=2).open(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    answers = session.ask(QUERIES)
    assert session.exhausted
    assert sum(answer.learned for answer in answers) == 2
    last = max(i for i, answer in enumerate(answers) if answer.learned)
    assert not any(answer.checked for answer in answers[last + 1 :])
    np.testing.assert_allclose(
        [float(answer) for answer in answers[last + 1 :]],
        session.close().output.answer(QUERIES)[last + 1 :],
        rtol=0.5,
        atol=2e4,
    )


@pytest.mark.sampled
@pytest.mark.parametrize(("neighbors", "budget"), [("replace_one", PureDP(1.0)), ("add_remove", ApproxDP(1.0, 1e-6))])
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_session_costs_its_loss_when_opened_and_nothing_when_asked(name, neighbors, budget):
    curator = curator_of(TABLE, SCHEMA, budget, neighbors)
    session = MECHANISMS[name]().open(curator)
    assert curator.remaining is None
    session.ask(QUERIES)
    release = session.close()
    assert release.loss == budget
    assert release.output.support.weights.sum() == pytest.approx(1)


@pytest.mark.landing
def test_multiplicative_weights_learn_the_table():
    session = PrivateMultiplicativeWeights(DOMAIN, queries=QUERIES.k).open(
        curator_of(TABLE, SCHEMA, ApproxDP(2.0, 1e-6))
    )
    start = np.abs(universe_average() - TRUTH).max()
    session.ask(QUERIES)
    assert np.abs(session.close().output.answer(QUERIES) - TRUTH).max() < start / 4


def universe_average() -> np.ndarray:
    return len(CODES) * QUERIES.features(universe(DOMAIN)).mean(axis=0)


def test_a_wrong_guess_rules_out_half_of_the_small_tables(monkeypatch):
    quiet(monkeypatch)
    session = MedianMechanism(DOMAIN, size=5, threshold=200.0).open(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    left = [len(multisets(8, 5))]
    for i in range(QUERIES.k):
        one = CellQueries(DOMAIN, QUERIES.values[[i]])
        (answer,) = session.ask(one)
        left.append(len(session.construction._candidates))
        halved = answer.learned and left[-2] > 1
        assert left[-1] <= left[-2] / (1 + halved)
    assert left[-1] < left[0]


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("cells", [4, pytest.param(64, marks=pytest.mark.slow)])
def test_updates_end_before_their_limit(monkeypatch, cells):
    """Adversarially: every query that is off by alpha is asked again, with the paper's step and no noise."""
    quiet(monkeypatch)
    d = int(np.log2(cells))
    schema, domain = binary_world(d)
    table = binary_table(schema, np.ones((1000, d), int))
    alpha = 0.25
    mechanism = PrivateMultiplicativeWeights(domain, max_updates=1000, threshold=alpha * 1000, replay=0)
    session = mechanism.open(curator_of(table, schema, PureDP(1.0)))
    queries = Marginals(domain, all_cliques(domain, d))
    for _ in range(300):
        session.ask(queries)
    assert 0 < session.watch.alarms <= update_limit(cells, alpha=alpha)


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("bound", ["pmw", "median"])
def test_answers_keep_the_bound_at_its_settings(bound):
    k, n = QUERIES.k, len(CODES)
    cases = {
        "pmw": (pmw_bound(k, cells=8, rows=n, epsilon=2.0, beta=1e-6), PrivateMultiplicativeWeights, {"replay": 0}),
        "median": (median_bound(k, cells=8, size=8, rows=n, epsilon=2.0, beta=1e-6), MedianMechanism, {"size": 8}),
    }
    best, mechanism, settings = cases[bound]
    assert best.error < n
    session = mechanism(DOMAIN, max_updates=best.max_updates, threshold=best.threshold, **settings).open(
        curator_of(TABLE, SCHEMA, PureDP(2.0))
    )
    errors = np.abs([float(answer) for answer in session.ask(QUERIES)] - TRUTH)
    assert errors.max() <= best.error


@pytest.mark.landing
def test_bounds_fall_with_rows_and_rise_with_cells():
    errors = [pmw_bound(100, cells=16, rows=n, epsilon=1.0, beta=0.05).error / n for n in (10**4, 10**5, 10**6)]
    assert errors[0] > errors[1] > errors[2]
    assert (
        pmw_bound(2000, cells=2**20, rows=10**6, epsilon=1.0, beta=0.05).error
        > pmw_bound(2000, cells=4, rows=10**6, epsilon=1.0, beta=0.05).error
    )
    assert [halvings(8, 1), halvings(2, 1), halvings(8, 8)] == [3, 1, 13]


@pytest.mark.parametrize(
    "build",
    [
        lambda: PrivateMultiplicativeWeights(DOMAIN, max_updates=0),
        lambda: PrivateMultiplicativeWeights(DOMAIN, replay=-1),
        lambda: PrivateMultiplicativeWeights(DOMAIN, alarm_share=1.0),
        lambda: PrivateMultiplicativeWeights(binary_world(30)[1]),
        lambda: PrivateMultiplicativeWeights(DOMAIN, threshold=float("nan")),
        lambda: PrivateMultiplicativeWeights(DOMAIN, queries=0),
        lambda: MedianMechanism(DOMAIN, threshold=float("inf")),
        lambda: MedianMechanism(DOMAIN, queries=2.5),
        lambda: MedianMechanism(DOMAIN, size=0),
        lambda: MedianMechanism(DOMAIN, size=60),
        lambda: MedianMechanism(DOMAIN, max_updates=0),
        lambda: MedianMechanism(DOMAIN, total_share=0.0),
        lambda: update_limit(8, alpha=0.0),
        lambda: pmw_bound(10, cells=8, rows=0, epsilon=1.0, beta=0.1),
    ],
)
def test_settings_out_of_range_are_refused(build):
    with pytest.raises(ParameterError):
        build()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "query",
    [
        CellQueries(DOMAIN, np.full((1, 8), 3) * np.arange(8)),
        CellQueries(DOMAIN, np.ones((1, 8), int), denominator=3),
        Marginals(binary_world(2)[1], ((0,),)),
    ],
)
def test_queries_that_the_watch_has_no_noise_for_are_refused(query):
    session = PrivateMultiplicativeWeights(DOMAIN).open(curator_of(TABLE, SCHEMA, PureDP(1.0)))
    with pytest.raises(ParameterError):
        session.ask(query)
    assert session.watch.alarms == 0
