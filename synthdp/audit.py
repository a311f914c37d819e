"""A statistical audit of what a build releases: how much privacy an attacker is seen to gain, against the claim.

Runs a release many times on two neighbouring tables and turns an attacker's guesses into a lower bound on epsilon.  It can
show that a claim is broken, never that it holds.  Sits above the façade: it uses a build as its users do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import betaincinv, expit, ndtri

import synthdp as sd
from synthdp.arrays import LARGEST_WHOLE, FloatArray, GridIndices
from synthdp.checks import check_number, check_whole
from synthdp.domain.domain import domain_of, releasable_domain
from synthdp.domain.encoder import encode
from synthdp.errors import ParameterError
from synthdp.privacy.accounting import gdp_to_epsilon
from synthdp.privacy.loss import ApproxDP
from synthdp.privacy.neighbors import Neighbors, neighbors_named
from synthdp.queries.marginals import one_ways
from synthdp.queries.protocol import Statistic, about_keys, real_answers
from synthdp.release import Release
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource

PILOT = 0.25
"""Share of the runs that only choose the event to test; the bound uses all other runs, so that the choice does not
bias the bound.  More would find a better event, and leave fewer runs to prove it.  Tuned: half and twice of it change
bounds on epsilon of four pairs of normal scores by -.5 and -10.6 % (docs/benchmarks/constants.md)."""

CUTS = 101
"""Number of score thresholds that the pilot runs compare.  A numerical tolerance: neighbouring thresholds have one in 100
of the pilot runs between them."""

MOST_SIMULATED = 1_000_000
"""Runs up to which `least_runs` tries the bound itself.  Beyond them the number is computed by a formula without the
rounding of the runs that choose the event, which then hardly matters.  A safety limit of time."""

CountBound: TypeAlias = Callable[..., float]
"""A function from counts of an event to a bound on epsilon: `epsilon_bound` or `gaussian_bound`."""

WORLD = Schema({f"b{j}": Boolean() for j in range(3)})
"""The schema of the two neighbouring tables of an audit: three boolean columns, few, so that many releases take little
time, and several, so that pairs of columns are measured too."""

ORDINARY, STRANGE = dict.fromkeys(WORLD, False), dict.fromkeys(WORLD, True)
"""The row that both tables of an audit repeat, and the row by which they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonBound:
    """The result of one audit: a lower bound on epsilon beside the claimed one.

    Parameters
    ----------
    name, neighbors, claimed
        Name of the audited mechanism, its neighbours, and its claimed guarantee.
    epsilon
        Lower confidence bound on its true epsilon, at the claimed delta; 0 if nothing was gained.
    runs
        Releases of each of the two tables.
    confidence
        Probability with which a true claim is above the bound.
    """

    name: str
    neighbors: Neighbors
    claimed: ApproxDP
    epsilon: float
    runs: int
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether the lower bound is within the claim; if not, the claim is broken."""
        return self.epsilon <= self.claimed.epsilon

    def __str__(self) -> str:
        verdict = "within the claim" if self.holds else "ABOVE THE CLAIM: this build is not private as it says"
        return f"{self.name}, {self.neighbors}: ε ≥ {self.epsilon:.3f} of {self.claimed.epsilon:g}, {verdict}"


def neighbouring_tables(neighbors: Neighbors | str, *, rows: int = 10) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two neighbouring tables for an audit: ``rows`` equal rows, and a table with one very different row.

    By ``neighbors``, this row is added or replaces the last row.  Such tables are the easiest to distinguish, so the
    bound is sharp.
    """
    replaced = neighbors_named(str(neighbors)) is Neighbors.REPLACE_ONE
    return (
        pd.DataFrame([ORDINARY] * rows),
        pd.DataFrame([ORDINARY] * (rows - replaced) + [STRANGE]),
    )


def matched_score(release: Release[Any], schema: Schema, *, without: pd.DataFrame, with_: pd.DataFrame) -> float:
    """Return the attacker's log-likelihood ratio that a row is in the table, given a release's noisy answers.

    The ratio is computed for normal noise, up to correlations.  Each answer adds its distance from the middle of both
    tables' exact values.  The distance is multiplied by the row's change of the answer and divided by the variance of
    its noise.  This works for any statistic, also for distances, since an attacker who knows all other rows computes
    both exact values.

    Parameters
    ----------
    release
        The release, with measurements; statistics of record keys are ignored.
    schema
        Schema of the tables.
    without, with_
        The table without the row, and the one with it (more, or in place of another).
    """
    tables = [indices_of(schema, table) for table in (without, with_)]
    score = 0.0
    for measured in release.measurements:
        queries = measured.queries
        if not about_keys(queries):
            few, many = (exact_answers(queries, indices) for indices in tables)
            beyond = measured.answers - (few + many) / 2
            score += float((many - few) @ beyond) / max(measured.stddev**2, 1e-300)
    return score


def audit(
    score: Callable[[pd.DataFrame], float],
    tables: tuple[pd.DataFrame, pd.DataFrame],
    *,
    name: str,
    neighbors: Neighbors | str,
    claimed: ApproxDP,
    runs: int = 400,
    confidence: float = 0.999,
) -> EpsilonBound:
    """Release two neighbouring tables many times and return a lower confidence bound on the true epsilon.

    Parameters
    ----------
    score
        Releases a table anew and returns one number: what the attacker looks at, high if the row is there.
    tables
        Without and with the row.
    name, neighbors, claimed
        Name of the audited mechanism, its neighbours, and its claimed guarantee.
    runs
        Releases of each table; a quarter of them chooses the event.
    confidence
        Probability that the bound holds.

    Raises
    ------
    ParameterError
        If so few runs could not contradict the claim, see `least_runs`.
    """
    check_whole("runs", runs, least=1)
    needed = least_runs(claimed, confidence=confidence, above=runs - 1)
    if runs < needed:
        raise ParameterError(
            f"runs ({runs}) are too few to contradict the claim of ε = {claimed.epsilon:g} with a confidence of "
            f"{confidence:g}, however bad the build is: give at least {needed}"
        )
    without, with_ = scores_of(score, tables, runs=runs)
    return EpsilonBound(
        name=name,
        neighbors=neighbors_named(str(neighbors)),
        claimed=claimed,
        epsilon=score_bound(without, with_, delta=claimed.delta, confidence=confidence),
        runs=runs,
        confidence=confidence,
    )


def least_runs(claimed: ApproxDP, *, confidence: float, above: int = 0) -> int:
    """Return the fewest runs, more than ``above``, with which an audit can say that a claim is broken.

    With fewer the bound is within the claim even if the scores of the two tables never overlap.

    Parameters
    ----------
    claimed
        The guarantee that is audited.
    confidence
        Probability that the bound holds.
    above
        A number of runs that is less than the result.

    Raises
    ------
    ParameterError
        If no number of runs that a computer can count is enough.
    """
    check_number("confidence", confidence, above=0.5, below=1)
    # All n hits and no false one bound the event's probabilities by p = miss^(1/n) and 1 - p: p - δ > e^ε (1 - p).
    rare = (1 - claimed.delta) * float(expit(-claimed.epsilon))
    needed = math.log((1 - confidence) / 2) / math.log1p(-rare) / (1 - PILOT) if rare > 0 else math.inf
    if needed > LARGEST_WHOLE:
        raise ParameterError(
            f"epsilon ({claimed.epsilon:g}) is so large that no number of runs can contradict it: audit a smaller claim"
        )
    runs = max(math.floor(needed), above + 1, 2)
    while runs <= MOST_SIMULATED:
        apart = score_bound(np.zeros(runs), np.ones(runs), delta=claimed.delta, confidence=confidence)
        if apart > claimed.epsilon:
            return runs
        runs += 1
    return max(math.ceil(needed) + 1, above + 1)


def scores_of(
    score: Callable[[pd.DataFrame], float], tables: tuple[pd.DataFrame, pd.DataFrame], *, runs: int
) -> tuple[FloatArray, FloatArray]:
    """Return the attacker's scores of many releases of each of two tables, (runs,) each; parameters as in `audit`."""
    check_whole("runs", runs, least=2)
    without, with_ = (np.array([score(table) for _ in range(runs)], np.float64) for table in tables)
    return without, with_


def score_bound(
    without: FloatArray, with_: FloatArray, *, delta: float, confidence: float, bound: CountBound | None = None
) -> float:
    """Return a lower confidence bound on epsilon from independent scores of releases of two neighbouring tables.

    The first quarter of the scores chooses a threshold and a side.  The rest counts how often the score is beyond it.

    Parameters
    ----------
    without, with_
        (n,) scores, each of its own release.
    delta
        The claimed delta.
    confidence
        Probability that the bound holds.
    bound
        Function from counts to a bound; default: `epsilon_bound`, which supposes nothing.
    """
    bound = bound or epsilon_bound
    check_number("confidence", confidence, above=0.5, below=1)
    pilot = max(1, int(PILOT * min(len(without), len(with_))))
    runs = min(len(without), len(with_)) - pilot

    def bounded(hits: int, hit_runs: int, false_hits: int, false_runs: int) -> float:
        return bound(hits, hit_runs, false_hits, false_runs, delta=delta, confidence=confidence)

    cut, above, swapped = _event(without[:pilot], with_[:pilot], runs=runs, bound=bounded)
    likely, rare = (without, with_) if swapped else (with_, without)
    hits, false_hits = (int(((side[pilot:] >= cut) == above).sum()) for side in (likely, rare))
    return bounded(hits, len(likely) - pilot, false_hits, len(rare) - pilot)


def epsilon_bound(hits: int, runs: int, false_hits: int, false_runs: int, *, delta: float, confidence: float) -> float:
    """Return a lower confidence bound on epsilon from how often one event occurs for two neighbouring tables.

    (epsilon, delta) promises P(event) <= e^epsilon Q(event) + delta; both are bounded by Clopper and Pearson's
    intervals.

    Parameters
    ----------
    hits, runs
        Number of releases with the event, and of all releases, of the table where it should be likely (P).
    false_hits, false_runs
        Number of releases with the event, and of all releases, of the neighbouring table (Q).
    delta, confidence
        The claimed delta, and the probability that the bound holds.
    """
    likely, rare = _clopper_pearson(hits, runs, false_hits, false_runs, confidence=confidence)
    return max(0.0, math.log((likely - delta) / rare)) if likely > delta else 0.0


def gaussian_bound(hits: int, runs: int, false_hits: int, false_runs: int, *, delta: float, confidence: float) -> float:
    """Return a lower confidence bound on the epsilon of a mechanism whose claim comes from Gaussian DP.

    mu-Gaussian DP, up to a probability delta, promises P(event) - delta <= Phi(mu + Phi^-1(Q(event))) (Dong, Roth, Su
    2022).  So counts bound mu from below, and mu is an epsilon at ``delta``.  The bound is much sharper than
    `epsilon_bound`, whose parameters it has.  A contradiction refutes the claim of Gaussian DP, not the claim of
    (epsilon, delta) alone (Nasr et al. 2023).
    """
    likely, rare = _clopper_pearson(hits, runs, false_hits, false_runs, confidence=confidence)
    mu = float(ndtri(likely - delta) - ndtri(rare)) if likely > delta and rare < 1 else 0.0
    return gdp_to_epsilon(mu, delta) if mu > 0 else 0.0


def _clopper_pearson(
    hits: int, runs: int, false_hits: int, false_runs: int, *, confidence: float
) -> tuple[float, float]:
    """Return bounds on an event's probability on two tables: a lower one where it is likely, an upper one where rare.

    The event occurred in ``hits`` of ``runs`` runs of the first table, and in ``false_hits`` of ``false_runs`` of the
    other.  Both bounds hold together with ``confidence``, and a bound on epsilon needs both.  Clopper and Pearson's
    intervals are exact for binomial counts.
    """
    miss = (1 - confidence) / 2
    likely = 0.0 if hits == 0 else float(betaincinv(hits, runs - hits + 1, miss))
    rare = 1.0 if false_hits == false_runs else float(betaincinv(false_hits + 1, false_runs - false_hits, 1 - miss))
    return likely, rare


def audit_build(
    *, epsilon: float = 1.0, delta: float = 1e-6, runs: int = 200, confidence: float = 0.999, names: Sequence[str] = ()
) -> list[EpsilonBound]:
    """Audit the mechanisms of this installation, with its own noise library and numpy, for both neighbouring relations.

    Parameters
    ----------
    epsilon, delta
        The guarantee that each release claims.
    runs, confidence
        As in `audit`; the confidence is for all bounds together.
    names
        Names of the audited mechanisms, keys of `AUDITED`; default: all.
    """
    chosen = tuple(names) or tuple(AUDITED)
    unknown = [name for name in chosen if name not in AUDITED]
    if unknown:
        raise ParameterError(f"mechanism ({unknown[0]!r}) must be one of {', '.join(AUDITED)}")
    claimed = ApproxDP(epsilon, delta)
    each = 1 - (1 - confidence) / (2 * len(chosen))
    return [
        audit(
            _score_of(name, relation, claimed),
            neighbouring_tables(relation),
            name=name,
            neighbors=relation,
            claimed=claimed,
            runs=runs,
            confidence=each,
        )
        for name in chosen
        for relation in Neighbors
    ]


def _score_of(name: str, neighbors: Neighbors, claimed: ApproxDP) -> Callable[[pd.DataFrame], float]:
    """Return a function that makes a release from a table and scores how much it looks like the table with the row."""
    without, with_ = neighbouring_tables(neighbors)

    def score(table: pd.DataFrame) -> float:
        curator = sd.Curator(table, schema=WORLD, budget=claimed, neighbors=neighbors)
        return matched_score(AUDITED[name]().release(curator), WORLD, without=without, with_=with_)

    return score


def indices_of(schema: Schema, table: pd.DataFrame) -> dict[str, GridIndices]:
    """Return a table's columns as (n,) grid indices by name, encoded as the curator does."""
    (block,) = FrameSource(table).blocks(schema)
    return {name: encode(column, block[name]) for name, column in schema.items()}


def exact_answers(queries: Statistic, indices: Mapping[str, GridIndices]) -> FloatArray:
    """Return a statistic's noise-free answers, (k,), from a table's columns as grid indices; an attacker knows them."""
    return real_answers(queries, queries.finish(queries.sums(queries.domain.codes(indices))))


def _event(
    without: FloatArray, with_: FloatArray, *, runs: int, bound: Callable[[int, int, int, int], float]
) -> tuple[float, bool, bool]:
    """Return the best event of the pilot scores: a threshold, whether scores at or above it are the event, and a side.

    The side says whether the event is likelier without the row.  Best is the largest bound if ``runs`` runs came out
    like the pilot's.
    """
    cuts = np.unique(np.quantile(np.concatenate([without, with_]), np.linspace(0, 1, CUTS)))
    events = [(float(cut), above, swapped) for cut in cuts for above in (True, False) for swapped in (False, True)]

    def expected(event: tuple[float, bool, bool]) -> float:
        cut, above, swapped = event
        likely, rare = (without, with_) if swapped else (with_, without)
        counts = (((side >= cut) == above).sum() for side in (likely, rare))
        hits, false_hits = (round(runs * (float(count) + 0.5) / (len(likely) + 1)) for count in counts)
        return bound(hits, runs, false_hits, runs)

    return max(events, key=expected)


_QUERIES = one_ways(releasable_domain(domain_of(WORLD)))
"""One-way marginals of the audit's tables, for the audited mechanisms that need queries."""

AUDITED: Mapping[str, Callable[[], Any]] = {
    "LaplaceAnswers": lambda: sd.LaplaceAnswers(_QUERIES),
    "GaussianAnswers": lambda: sd.GaussianAnswers(_QUERIES),
    "MWEM": lambda: sd.MWEM(_QUERIES, rounds=3),
    "AdaptiveMarginals": sd.AdaptiveMarginals,
    "L1Fit": lambda: sd.L1Fit(support=20),
}
"""Mechanisms that the command line audits, by name: direct answers, selection and whole releases, so that each kind of
noise is covered."""
