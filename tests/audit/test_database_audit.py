"""A whole database release, a person with all its rows in or out: it stays below its claim, and broken builds do not.

Each broken build is one that exact tests catch (`mutations.py`); here an attacker who sees what is released does so too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from database_attackers import DATABASE_ATTACKERS, SCHEMA, codes_of, exact_mu, neighbours, tables_of
from no_noise import without_noise

from synthdp import ApproxDP
from synthdp.audit import gaussian_bound, score_bound, scores_of
from synthdp.curator import private_database
from synthdp.privacy.accounting import gdp_from_approx
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.person_tables import PersonTables
from synthdp.queries.persons import Persons

CLAIMED = ApproxDP(1.0, 1e-6)
RELATIONS = ["add_remove", "replace_one"]


@pytest.fixture(autouse=True)
def _few_persons_are_joined_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_database, "BUCKETS", 1)
        yield


def bound(name: str, relation: str, runs: int, *, confidence: float) -> float:
    """A lower bound on epsilon, the better of the two where the claim comes from Gaussian DP.

    So few runs that even scores which never overlap would not contradict the claim are an error of the test.
    """
    attacker = DATABASE_ATTACKERS[name]
    laws = [None, gaussian_bound] if attacker.gaussian else [None]
    # Each bound is wrong with half of the probability.
    each = 1 - (1 - confidence) / len(laws)

    def best(without: np.ndarray, with_: np.ndarray) -> float:
        return max(score_bound(without, with_, delta=CLAIMED.delta, confidence=each, bound=law) for law in laws)

    assert best(np.zeros(runs), np.ones(runs)) > CLAIMED.epsilon
    return best(*scores_of(attacker.score(relation, CLAIMED), attacker.tables(relation), runs=runs))


def forget_weights(patch: pytest.MonkeyPatch) -> None:
    """Every row of a person counts as one."""
    patch.setattr(Persons, "shares", lambda self, table: np.full(len(self.tables[table]), self.whole(table)))


def bound_each_table_alone(patch: pytest.MonkeyPatch) -> None:
    """The noise is that of the table that a person moves most, as if a person were in one table only."""

    def bounds(self: PersonTables) -> RecordBounds:
        one = Norms(0, 0, 0)
        for table, times in zip(self.tables, self.multipliers, strict=True):
            one = one.either(table.norms(self.layout).times(times))
        return RecordBounds(one, Norms.within(self.k, one.linf, l1=2 * one.l1, l2_squared=2 * one.l2_squared))

    patch.setattr(PersonTables, "bounds", property(bounds))


def join_outside(patch: pytest.MonkeyPatch) -> None:
    """Whoever gives the tables has joined them: to the curator every row is a person of its own."""

    def owners(digests: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
        ends = np.cumsum([len(one) for one in digests])
        return np.split(np.arange(ends[-1]), ends[:-1]), int(ends[-1])

    patch.setattr(private_database, "_owners", owners)


BROKEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "weight forgotten": forget_weights,
    "bound per table": bound_each_table_alone,
    "join outside": join_outside,
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_databases_of_the_audit_differ_in_all_rows_of_one_person(relation: str) -> None:
    without, with_ = neighbours(relation)
    for name in SCHEMA.tables:
        rows = [set(map(tuple, one[name].to_numpy().tolist())) for one in (without, with_)]
        changed = {row[0] for row in rows[0] ^ rows[1]}
        assert len(changed) == 1
    assert len(with_["persons"]) - len(without["persons"]) == (relation == "add_remove")


@pytest.mark.landing
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "name", ["RelatedTables", *(pytest.param(n, marks=pytest.mark.slow) for n in DATABASE_ATTACKERS if n[0] == "D")]
)
def test_without_noise_the_score_tells_a_database_with_the_person(
    name: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_noise(monkeypatch)
    attacker = DATABASE_ATTACKERS[name]
    without, with_ = map(attacker.score(relation, CLAIMED), attacker.tables(relation))
    assert with_ > without


@pytest.mark.slow
def test_a_few_releases_stay_below_the_claim() -> None:
    """A sound build is above it with probability 1e-6; one that a person moves six standard deviations is seen."""
    assert bound("RelatedTables", "add_remove", 36, confidence=1 - 1e-6) <= CLAIMED.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("name", "runs"),
    [("RelatedTables", 300), ("DatabaseRelease, its folder", 66), ("DatabaseRelease, its sample", 66)],
)
def test_no_database_release_is_seen_above_its_claim(name: str, runs: int, relation: str) -> None:
    assert bound(name, relation, runs, confidence=1 - 1e-6) <= CLAIMED.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("how", ["weight forgotten", "join outside"])
def test_a_broken_build_of_persons_is_seen_above_its_claim(
    how: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    BROKEN[how](monkeypatch)
    assert bound("RelatedTables", relation, 200, confidence=0.999) > CLAIMED.epsilon


@pytest.mark.slow
def test_a_broken_build_is_seen_in_the_folder_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many runs as show nothing of a sound build."""
    forget_weights(monkeypatch)
    assert bound("DatabaseRelease, its folder", "add_remove", 66, confidence=0.999) > CLAIMED.epsilon


def moved(relation: str) -> float:
    """The largest distance of the two databases in all answers of a release, in standard deviations of the noise."""
    pair = neighbours(relation)
    without, with_ = map(codes_of, pair)
    claims = DATABASE_ATTACKERS["RelatedTables"]
    return max(exact_mu(claims.release(tables, relation, CLAIMED), without, with_) for tables in pair)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_person_moves_all_answers_of_a_release_by_what_the_claim_allows_and_hardly_less(relation: str) -> None:
    allowed = gdp_from_approx(CLAIMED.epsilon, CLAIMED.delta)
    assert 0.5 * allowed < moved(relation) <= allowed


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("how", BROKEN)
def test_in_every_broken_build_a_person_moves_the_answers_too_far(
    how: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    BROKEN[how](monkeypatch)
    assert moved(relation) > gdp_from_approx(CLAIMED.epsilon, CLAIMED.delta)


def test_all_persons_but_one_are_alike() -> None:
    assert tables_of(strange=False)["rows"].drop(columns=["id", "row"]).drop_duplicates().shape[0] == 1
