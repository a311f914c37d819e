"""The exact output law of the net mechanism on every neighbouring table of a tiny world, in rational arithmetic."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare
from small_worlds import all_tables, answers, curator_of, labelled_table, labelled_world

from synthdp import PureDP
from synthdp.domain.domain import universe
from synthdp.privacy import noise
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.queries.linear import CellQueries
from synthdp.works.net.net import NetMechanism, NetScores, multisets

SCHEMA, DOMAIN = labelled_world(3)
CELLS = universe(DOMAIN)
SIZE = 2
CANDIDATES = multisets(3, SIZE)
FAMILIES = {
    "a threshold": [[0, 1, 1]],
    "two thresholds": [[0, 1, 1], [0, 0, 1]],
    "all indicators": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "an average": [[0, 1, 2]],
}
COIN = Fraction(1, 2)
"""exp(-1 / scale): with the scale 2 linf / epsilon, e^epsilon is 4^linf exactly."""


def permute_and_flip_law(scores: np.ndarray, coin: Fraction | float = COIN) -> list[Fraction]:
    """P(r) = p_r * integral over t in [0, 1] of prod_{j != r} (1 - p_j t), with p the coins' chances.

    Candidates arrive at uniform times; r is taken at time t if its coin says so and each that came before failed.
    """
    chances = [coin ** int(max(scores) - score) for score in scores]
    law = []
    for r, chance in enumerate(chances):
        polynomial = [Fraction(1)]
        for p in chances[:r] + chances[r + 1 :]:
            shifted = [Fraction(0), *(-p * c for c in polynomial)]
            polynomial = [a + b for a, b in zip([*polynomial, Fraction(0)], shifted, strict=True)]
        law.append(chance * sum(c / (i + 1) for i, c in enumerate(polynomial)))
    return law


def law_of(queries: CellQueries, table: tuple[int, ...], rows: int) -> list[Fraction]:
    return permute_and_flip_law(answers(NetScores(queries, CELLS, CANDIDATES, rows), CELLS[list(table)]))


def swaps(n: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for table in all_tables(DOMAIN, n):
        for i in range(n):
            for cell in range(len(CELLS)):
                yield table, tuple(sorted((*table[:i], *table[i + 1 :], cell)))


def additions(n: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for table in all_tables(DOMAIN, n):
        for cell in range(len(CELLS)):
            yield table, tuple(sorted((*table, cell)))
            yield tuple(sorted((*table, cell))), table


def largest_ratio(
    queries: CellQueries, pairs: Iterator[tuple[tuple[int, ...], tuple[int, ...]]], rows: int
) -> Fraction:
    laws: dict[tuple[int, ...], list[Fraction]] = {}
    largest = Fraction(0)
    for pair in pairs:
        for table in pair:
            laws.setdefault(table, law_of(queries, table, rows))
        largest = max(largest, *(p / q for p, q in zip(laws[pair[0]], laws[pair[1]], strict=True)))
    return largest


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_replaced_row_changes_a_probability_by_more_than_the_loss(name, n):
    queries = CellQueries(DOMAIN, np.array(FAMILIES[name]))
    bounds = NetScores(queries, CELLS, CANDIDATES, n).bounds
    assert 1 < largest_ratio(queries, swaps(n), n) <= (1 / COIN) ** (2 * bounds.swap.linf)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rows", [1, 3])
def test_no_added_row_changes_a_probability_by_more_than_the_loss(name, rows):
    """``rows`` is a public estimate here: any number must do."""
    queries = CellQueries(DOMAIN, np.array(FAMILIES[name]))
    bounds = NetScores(queries, CELLS, CANDIDATES, rows).bounds
    assert 1 < largest_ratio(queries, additions(2), rows) <= (1 / COIN) ** (2 * bounds.one.linf)


def test_the_loss_is_attained_exactly():
    """With the query (0, 1, 1) one candidate lies below all others: moving the truth away from it moves only its gap."""
    queries = CellQueries(DOMAIN, np.array(FAMILIES["a threshold"]))
    bounds = NetScores(queries, CELLS, CANDIDATES, 4).bounds
    assert largest_ratio(queries, swaps(4), 4) == (1 / COIN) ** (2 * bounds.swap.linf) == 16
    assert largest_ratio(queries, additions(1), 4) == (1 / COIN) ** (2 * bounds.one.linf) == 16


def test_half_the_noise_would_be_caught():
    queries = CellQueries(DOMAIN, np.array(FAMILIES["a threshold"]))
    assert largest_ratio(queries, swaps(4), 4) > (1 / COIN) ** NetScores(queries, CELLS, CANDIDATES, 4).bounds.swap.linf


def test_the_law_sums_to_one_and_prefers_high_scores():
    law = permute_and_flip_law(np.array([-3, 0, -1, -1]))
    assert sum(law) == 1
    assert law[1] > law[2] == law[3] > law[0] > 0


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_mechanism_hands_over_these_scores_with_this_scale(monkeypatch, neighbors):
    seen = []
    monkeypatch.setattr(noise, "noisy_max", lambda scores, *, scale: seen.append((scores, scale)) or 0)
    monkeypatch.setattr(noise, "discrete_laplace", lambda values, *, scale: values)
    queries = CellQueries(DOMAIN, np.array(FAMILIES["two thresholds"]))
    codes = CELLS[[0, 1, 2, 2]]
    curator = curator_of(labelled_table(SCHEMA, codes), SCHEMA, PureDP(0.7), neighbors)
    NetMechanism(queries, size=SIZE, total_share=0.1).release(curator)
    scores = NetScores(queries, CELLS, CANDIDATES, 4)
    epsilon = (0.7 if neighbors == "replace_one" else 0.63) * (1 - COUNT_SHARE)
    ((handed, scale),) = seen
    np.testing.assert_array_equal(handed, answers(scores, codes))
    assert scale == pytest.approx(2 * scores.bounds.swap.linf / epsilon, rel=1e-12)
    assert 2 * Fraction(scores.bounds.swap.linf) / Fraction(scale) <= Fraction(epsilon) * (1 + Fraction(1, 10**12))


@pytest.mark.slow
def test_released_tables_follow_the_exact_law_and_no_other_scale():
    """Through the whole mechanism: 2500 releases of one table."""
    queries = CellQueries(DOMAIN, np.array(FAMILIES["two thresholds"]))
    codes = CELLS[[0, 0, 1, 2]]
    table = labelled_table(SCHEMA, codes)
    loss = PureDP(2 * SIZE * math.log(2) / (1 - COUNT_SHARE))
    draws = 2500
    counts = np.zeros(len(CANDIDATES))
    position = {tuple(candidate): i for i, candidate in enumerate(CANDIDATES)}
    for _ in range(draws):
        support = NetMechanism(queries, size=SIZE).release(curator_of(table, SCHEMA, loss)).output.support
        drawn = np.zeros(3, int)
        drawn[support.codes[:, 0]] = np.rint(SIZE * support.weights)
        counts[position[tuple(drawn)]] += 1
    scores = answers(NetScores(queries, CELLS, CANDIDATES, 4), codes)
    assert chisquare(counts, draws * np.array(permute_and_flip_law(scores), float)).pvalue > 1e-9
    for factor in (1.3, 1 / 1.3):
        assert chisquare(counts, draws * np.array(permute_and_flip_law(scores, 0.5**factor))).pvalue < 1e-5


def softmax_law(scores: np.ndarray) -> list[Fraction]:
    weights = [COIN ** int(max(scores) - score) for score in scores]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_exponential_mechanism_keeps_the_same_loss_at_the_same_scale(name):
    queries = CellQueries(DOMAIN, np.array(FAMILIES[name]))
    scores = NetScores(queries, CELLS, CANDIDATES, 3)
    largest = Fraction(0)
    for pair in swaps(3):
        before, after = (softmax_law(answers(scores, CELLS[list(table)])) for table in pair)
        largest = max(largest, *(p / q for p, q in zip(before, after, strict=True)))
    assert 1 < largest <= (1 / COIN) ** (2 * scores.bounds.swap.linf)


def test_the_mechanism_hands_these_scores_to_the_exponential_mechanism_with_this_scale(monkeypatch):
    seen = []
    monkeypatch.setattr(noise, "exponential_mechanism", lambda scores, *, scale: seen.append((scores, scale)) or 0)
    monkeypatch.setattr(noise, "discrete_laplace", lambda values, *, scale: values)
    queries = CellQueries(DOMAIN, np.array(FAMILIES["two thresholds"]))
    codes = CELLS[[0, 1, 2, 2]]
    curator = curator_of(labelled_table(SCHEMA, codes), SCHEMA, PureDP(0.7), "replace_one")
    NetMechanism(queries, size=SIZE, selection="exponential").release(curator)
    scores = NetScores(queries, CELLS, CANDIDATES, 4)
    ((handed, scale),) = seen
    np.testing.assert_array_equal(handed, answers(scores, codes))
    assert scale == pytest.approx(2 * scores.bounds.swap.linf / (0.7 * (1 - COUNT_SHARE)), rel=1e-12)
