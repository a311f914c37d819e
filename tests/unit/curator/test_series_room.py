"""The room of a series: what all its answers together cost a unit, by enumeration; and that it tells nothing twice."""

import itertools
import stat

import numpy as np
import pytest
from hypothesis import given, strategies as st
from series_worlds import DOMAIN, QUERIES, SCHEMA, answered, first_plan, room_of, table, terms_of, without_noise

from synthdp import Curator, GaussianDP, Ledger
from synthdp.curator.series_account import CHARGED
from synthdp.curator.series_room import SeriesRoom
from synthdp.curator.series_state import PrivateState, clipped, lattice
from synthdp.errors import BudgetExceededError, DataError, FormatError, ParameterError, PrivacyError, SynthDPError
from synthdp.privacy import noise
from synthdp.privacy.accounting import discrete_gaussian_sigma
from synthdp.privacy.calibration import FINEST, LEAST_SIGMA
from synthdp.privacy.series_factor import UNIT, cost_matrix, largest_first, optimal_factor
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.norms import Norms
from synthdp.works.sparse.key_counts import KeyTotal

CELLS = list(itertools.product((0, 1), (0, 1)))
STREAM = (table([(0, 0), (1, 1)]), table([(1, 0)]), table([(0, 1), (0, 1)]))


def cost(some, other, lattices):
    """The square of mu that tells two noiseless series apart, by every answer of both: docs/proofs/gaussian-filter.md."""
    total = 0.0
    for before, after in zip(some, other, strict=True):
        for one, two, (_, sigma) in zip(before, after, lattices, strict=True):
            moved = one.astype(float) - two
            total += float(moved @ moved) / (sigma**2 - 4)
    return total


@pytest.mark.sampled
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_no_neighbouring_series_are_told_apart_beyond_the_promise_and_some_are_as_far(neighbors, tmp_path, monkeypatch):
    without_noise(monkeypatch)
    terms = terms_of(3, neighbors=neighbors)
    base, lattices, _ = answered(tmp_path / "base", terms, STREAM)
    worst, number = 0.0, 0
    for t, one in enumerate(STREAM):
        rows = list(one.itertuples(index=False, name=None))
        for i in range(len(rows)):
            others = [] if neighbors == "add_remove" else [(cell,) for cell in CELLS]
            for more in others or [()]:
                changed = table(rows[:i] + rows[i + 1 :] + list(more))
                other = [*STREAM[:t], changed, *STREAM[t + 1 :]]
                found, _, _ = answered(tmp_path / str(number), terms, other)
                worst, number = max(worst, cost(base, found, lattices)), number + 1
    assert worst <= terms.mu**2 * (1 + 1e-9)
    assert worst >= terms.mu**2 * (
        0.9 if neighbors == "add_remove" else 0.6
    )  # under replace_one the total says nothing


@pytest.mark.sampled
@pytest.mark.parametrize(("most", "rows"), [(2, 2), (1, 1), (2, 1), (3, 1)])
def test_a_unit_in_several_periods_costs_no_more_than_the_promise(most, rows, tmp_path, monkeypatch):
    without_noise(monkeypatch)
    terms = terms_of(3, unit="who", rows=rows, most=most)
    others = [table([(0, 1), (1, 1)], units=("x", "y")) for _ in range(3)]
    base, lattices, _ = answered(tmp_path / "base", terms, others)
    worst = 0.0
    sets = [s for size in (1, 2, 3) for s in itertools.combinations(range(3), size)]
    for number, there in enumerate(sets):
        stream = [
            table([(0, 1), (1, 1), *[(0, 0)] * 3], units=("x", "y", "z", "z", "z")) if t in there else one
            for t, one in enumerate(others)
        ]
        found, _, _ = answered(tmp_path / str(number), terms, stream)
        worst = max(worst, cost(base, found, lattices))
    assert terms.mu**2 * 0.9 <= worst <= terms.mu**2 * (1 + 1e-9)


def planned(folder, terms, tables, programs, again=2):
    """Two plans: of the periods before ``again``, and from it on with all rows; each a program over a curator."""
    room, told, sigmas = room_of(folder, terms), [], []
    stages = [(0, again - 1, 0.4), (again, len(tables) - 1, 1.0)]
    kept, lattice = [], []
    for t, one in enumerate(tables):
        stage = next((s for s in stages if s[0] == t), None)
        with room.adding(t, one, earlier=tables[:t] if stage and t else None):
            if stage is None:
                answers = room.answers(kept)
                told += answers
                sigmas += lattice
                continue
            start, last, part = stage
            merged = min(terms.most_periods, start + 1)
            factor = optimal_factor(last - start + 1, 1)
            columns = [max(0, s - start) if s <= last else -1 for s in range(terms.periods)]
            costs = cost_matrix(factor, columns, first_rows=merged)
            mu = largest_first(room.costs(before=t), costs, terms.most_periods, mu=terms.mu * part**0.5)
            with room.open_plan(factor, last=last, mu=mu, weight=1 + start) as account:
                found = programs[start > 0](account)
                keep = room.keep(found)
            kept, lattice = [found[i].queries for i in keep], [sigma for _, sigma in room.lattices()]
            told += [one.values for one in found]
            sigmas += [one.noise.scale for one in found]
    return told, sigmas


def of_one_ways(account):
    return [
        account.measure(one_ways(DOMAIN), spend=account.budget.fraction(0.8)),
        account.measure(distances(), spend=account.budget.fraction(0.2)),
    ]


def of_pairs(account):
    return [
        account.measure(distances(), spend=account.budget.fraction(0.3)),
        account.measure(Marginals(DOMAIN, ((0, 1),)), spend=account.budget.fraction(0.7)),
    ]


def distances():
    return MarginalDistances(Marginals(DOMAIN, ((0, 1),)), np.zeros(9, np.int64), 1)


@pytest.mark.parametrize(("most", "unit", "again"), [(1, None, 2), (2, "who", 2), (2, "who", 1), (3, "who", 2)])
def test_plans_that_count_earlier_rows_again_keep_the_promise(most, unit, again, tmp_path, monkeypatch):
    """Screening is asked once, tables in every period; a row that counts in both plans pays both."""
    without_noise(monkeypatch)
    terms = terms_of(4, unit=unit, most=most)
    units = None if unit is None else ("x", "y")
    tables = [table([(0, 1), (1, 1)], units=units) for _ in range(4)]
    base, sigmas = planned(tmp_path / "base", terms, tables, (of_one_ways, of_pairs), again)
    worst = 0.0
    for number, there in enumerate(s for size in (1, most) for s in itertools.combinations(range(4), size)):
        more = [
            table([(0, 1), (1, 1), (0, 0)], units=None if unit is None else ("x", "y", "z")) if t in there else one
            for t, one in enumerate(tables)
        ]
        found, _ = planned(tmp_path / str(number), terms, more, (of_one_ways, of_pairs), again)
        moved = (a.astype(float) - b for a, b in zip(base, found, strict=True))
        worst = max(worst, sum(float(d @ d) / (s**2 - 4) for d, s in zip(moved, sigmas, strict=True)))
    assert terms.mu**2 * 0.8 <= worst <= terms.mu**2 * (1 + 1e-9)


def test_the_answers_are_the_factor_times_the_sums(tmp_path, monkeypatch):
    without_noise(monkeypatch)
    found, lattices, factor = answered(tmp_path, terms_of(3), STREAM)
    sums = np.array([[2], [1], [2]])
    for t in range(3):
        assert found[t][0] == lattices[0][0] * (factor[t, : t + 1] @ sums[: t + 1])


def test_a_plan_beyond_what_is_left_is_refused(tmp_path):
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    room = room_of(tmp_path, terms)
    with room.adding(0, STREAM[0]), pytest.raises(BudgetExceededError):
        room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=mu * 1.001)
    with room.adding(0, STREAM[0]):
        room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=mu)


@pytest.mark.parametrize("costly", [0, 1, 2])
def test_a_plan_is_charged_for_each_of_its_periods(costly, tmp_path):
    """Of three periods one has twice the weight of the others, and so four times the cost."""
    terms = terms_of(4)
    factor = np.diag([UNIT] * 3)
    factor[costly, costly] *= 2
    most = terms.mu * factor[0, 0] / (2 * UNIT)
    room = room_of(tmp_path, terms)
    with room.adding(0, STREAM[0]):
        with pytest.raises(BudgetExceededError):
            room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=most * 1.0001)
        room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=most * 0.9999)


WRONG = {
    "of another shape": np.eye(2, dtype=np.int64),
    "of no square": np.eye(3, 2, dtype=np.int64),
    "of fractions": np.eye(3),
    "with an entry above the diagonal": np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]]),
    "with a zero on the diagonal": np.diag([1, 0, 1]),
    "with a negative diagonal": np.diag([1, -1, 1]),
    "with an entry that is too large": np.diag([1, 1, 2 * UNIT + 1]),
    "with an entry that is too far below zero": np.array([[1, 0, 0], [-2 * UNIT - 1, 1, 0], [0, 0, 1]]),
}


@pytest.mark.parametrize("factor", WRONG.values(), ids=WRONG)
def test_a_factor_that_is_no_lower_triangle_of_small_whole_numbers_is_refused(factor, tmp_path):
    room = room_of(tmp_path, terms_of(3))
    with room.adding(0, STREAM[0]):
        with pytest.raises(ParameterError, match="factor"):
            room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=1e-3)
        room.ask(np.diag([1, 1, 2 * UNIT]), QUERIES, [1.0] * 3, last=2, mu=1e-6)


def test_a_plan_ends_with_the_last_period_of_the_series(tmp_path):
    room = room_of(tmp_path, terms_of(3))
    with room.adding(0, STREAM[0]), pytest.raises(ParameterError, match="factor"):
        room.ask(np.diag([1] * 4), QUERIES, [1.0] * 3, last=3, mu=1e-3)


def test_before_and_after_a_period_nothing_is_told(tmp_path):
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    room = room_of(tmp_path, terms)
    asked = (
        lambda: room.seed,
        room.lattices,
        lambda: room.answers(QUERIES),
        lambda: room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=mu),
        lambda: room.open_plan(factor, last=2, mu=mu),
    )
    for t in range(2):
        for ask in asked:
            with pytest.raises(SynthDPError):
                ask()
        with room.adding(t, STREAM[t]):
            assert room.entry is None
            assert room.seed >= 0
            if t == 0:
                room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=mu)
            else:
                room.answers(QUERIES)


@given(st.integers(1, 10**6), st.floats(1e-6, 1e6), st.integers(1, 2 * UNIT))
def test_sums_lie_on_the_coarsest_lattice_of_the_factor_that_is_fine_enough(l2, mu, first):
    plan = lattice(Norms(l2, l2 * l2, l2), mu, 1, first)
    steps, rest = divmod(plan.resolution, first)
    assert rest == 0 < steps
    least = LEAST_SIGMA * mu / l2
    assert plan.resolution >= min(least, FINEST)
    assert steps == 1 or (steps - 1) * first < min(least, FINEST)
    assert plan.noise.scale == max(LEAST_SIGMA, discrete_gaussian_sigma(plan.resolution * plan.sensitivity, mu=mu))
    assert plan.sensitivity >= l2


@given(st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3), st.integers(1, 2**30), st.integers(0, 99))
def test_sums_of_any_size_are_clipped_to_what_noise_can_be_added_to(sums, multiplier, number):
    """Alike in all periods: the weighted sums stay in range, and sums that are small enough stay as they are."""
    factor = np.tril(np.random.default_rng(number).integers(-2 * UNIT, 2 * UNIT, (3, 3)))
    found = clipped(np.array(sums), factor, multiplier)
    weighed = [sum(abs(int(w)) for w in row) * max(abs(int(one)) for one in found) * multiplier for row in factor]
    assert max(weighed) <= noise.LARGEST_VALUE
    most = max(sum(abs(int(w)) for w in row) for row in factor)
    for one, kept in zip(sums, found, strict=True):
        assert kept == one or abs(int(kept) + np.sign(int(kept))) * most * multiplier > noise.LARGEST_VALUE


def test_other_questions_than_the_planned_ones_are_refused(tmp_path):
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    room = room_of(tmp_path, terms)
    with room.adding(0, STREAM[0]):
        room.ask(factor, QUERIES[:1], [1.0], last=2, mu=mu)
    both = Marginals(DOMAIN, ((0,), (1,), (0, 1)))
    with room.adding(1, STREAM[1]):
        for other in ([both], [*QUERIES], [distances()]):
            with pytest.raises(PrivacyError):
                room.answers(other)


def test_as_many_sums_of_which_a_row_moves_more_are_refused(tmp_path):
    """A row is in one of the nine cells of a pair, and in a cell of each of three one-way marginals."""
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    room, pair, ones = room_of(tmp_path, terms), Marginals(DOMAIN, ((0, 1),)), Marginals(DOMAIN, ((0,), (1,), (0,)))
    assert pair.k == ones.k
    with room.adding(0, STREAM[0]):
        room.ask(factor, [pair], [1.0], last=2, mu=mu)
    with room.adding(1, STREAM[1]):
        with pytest.raises(PrivacyError, match="sensitivity"):
            room.answers([ones])
        room.answers([pair])


@pytest.mark.parametrize("periods", [1, 2, 3])
def test_what_is_asked_once_has_the_noise_of_the_whole_column_of_the_factor(periods, tmp_path):
    """It costs what a sum costs that is asked again in every period, and has less noise by the norm of the column."""
    factor = np.tril(np.full((periods, periods), UNIT))
    with Curator(STREAM[0], schema=SCHEMA, budget=GaussianDP(1.0)) as curator:
        alone = curator.measure(distances(), spend=GaussianDP(0.01)).stddev
    room = room_of(tmp_path, terms_of(3))
    with room.adding(0, STREAM[0]), room.open_plan(factor, last=periods - 1, mu=0.1) as account:
        once = account.measure(distances(), spend=GaussianDP(0.01)).stddev
    assert once == pytest.approx(alone / periods**0.5, rel=1e-6)


def test_units_have_rows_in_as_many_periods_as_they_may_and_no_more(tmp_path, monkeypatch):
    without_noise(monkeypatch)
    terms = terms_of(4, unit="who", most=2)
    tables = [table([(1, 1), (0, 0)], units=("x", f"y{t}")) for t in range(4)]
    found, lattices, factor = answered(tmp_path, terms, tables)
    sums = np.linalg.inv(factor.astype(float)) @ np.array([one[0][0] for one in found]) / lattices[0][0]
    np.testing.assert_allclose(sums, [2, 2, 1, 1], atol=1e-6)


def test_the_same_period_is_told_the_same_and_other_rows_are_refused(tmp_path):
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    first, again = room_of(tmp_path, terms), room_of(tmp_path, terms)
    with first.adding(0, STREAM[0]):
        told, _ = first.ask(factor, QUERIES, [1.0] * 3, last=2, mu=mu)
    with again.adding(0, STREAM[0].iloc[::-1]):
        twice, _ = again.ask(factor, QUERIES, [1.0] * 3, last=2, mu=mu)
    assert [one.tolist() for one in told] == [one.tolist() for one in twice]
    with pytest.raises(DataError), again.adding(0, STREAM[1]):
        pass


def test_a_later_period_is_told_the_same_when_it_is_asked_again(tmp_path):
    terms = terms_of(3)
    answered(tmp_path, terms, STREAM[:1])
    told = []
    for _ in range(2):
        room = room_of(tmp_path, terms)
        with room.adding(1, STREAM[1]):
            told.append([one.tolist() for one in room.answers(QUERIES)])
    assert told[0] == told[1]


def test_a_period_cannot_be_added_before_earlier_ones(tmp_path):
    room = room_of(tmp_path, terms_of(3))
    with pytest.raises(FormatError), room.adding(1, STREAM[0]):
        pass


def test_a_new_plan_needs_the_earlier_rows_unchanged(tmp_path):
    terms = terms_of(3)
    factor, mu = first_plan(terms, last=0, part=0.3)
    room = room_of(tmp_path, terms)
    with room.adding(0, STREAM[0]):
        room.ask(factor, QUERIES, [1.0] * 3, last=0, mu=mu)
    for wrong in ([STREAM[1]], [], [STREAM[0], STREAM[0]]):
        with pytest.raises(DataError, match="history"), room.adding(1, STREAM[1], earlier=wrong):
            pass
    with room.adding(1, STREAM[1]), pytest.raises(PrivacyError):
        room.open_plan(optimal_factor(2), last=2, mu=mu)
    with room.adding(1, STREAM[1], earlier=[STREAM[0].iloc[::-1]]), room.open_plan(optimal_factor(2), last=2, mu=mu):
        pass


def test_the_ledger_is_charged_once_for_the_whole_series(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_cap("beds", terms_of(3).loss)
    for _ in range(3):
        room = SeriesRoom(tmp_path / "private", schema=SCHEMA, terms=terms_of(3), ledger=ledger, dataset="beds")
        room.start()
    assert [entry.loss for entry in ledger.entries("beds")] == [terms_of(3).loss]
    other = SeriesRoom(tmp_path / "other", schema=SCHEMA, terms=terms_of(3), ledger=ledger, dataset="beds")
    with pytest.raises(BudgetExceededError):
        other.start()


def test_a_series_that_stopped_before_it_noted_its_entry_is_not_charged_again(tmp_path):
    """The entry was reserved; the note of its number is what a crash may leave out."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_cap("beds", terms_of(3).loss)
    rooms = [SeriesRoom(tmp_path / "p", schema=SCHEMA, terms=terms_of(3), ledger=ledger, dataset="beds") for _ in "ab"]
    rooms[0].start()
    before = rooms[0].entry
    PrivateState(tmp_path / "p").drop(CHARGED)
    assert rooms[1].entry is None
    rooms[1].start()
    assert [entry.number for entry in ledger.entries("beds")] == [before] == [rooms[1].entry]


def test_private_files_are_readable_by_their_owner_alone_and_go(tmp_path):
    terms = terms_of(2)
    answered(tmp_path, terms, STREAM[:2])
    folder = tmp_path / "private"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    room_of(tmp_path, terms).forget()
    assert not folder.exists()


def test_with_a_key_nothing_can_be_read_or_changed_without_it(tmp_path):
    state = PrivateState(tmp_path / "p", key=b"k" * 32)
    state.write("sums", {"x": np.arange(5)})
    assert state.read("sums")["x"].tolist() == list(range(5))
    path = next((tmp_path / "p").glob("sums*"))
    for key in (None, b"other" * 8):
        with pytest.raises(FormatError):
            PrivateState(tmp_path / "p", key=key).read("sums")
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(FormatError):
        state.read("sums")


def test_another_process_cannot_add_at_the_same_time(tmp_path):
    room, other = room_of(tmp_path, terms_of(2)), room_of(tmp_path, terms_of(2))
    with room.adding(0, STREAM[0]), pytest.raises(DataError), other.adding(0, STREAM[0]):
        pass


def test_terms_cannot_change(tmp_path):
    room_of(tmp_path, terms_of(3)).start()
    with pytest.raises(PrivacyError, match="periods"):
        room_of(tmp_path, terms_of(4)).start()
    with pytest.raises(PrivacyError, match="neighbors"):
        room_of(tmp_path, terms_of(3, neighbors="replace_one")).start()


def test_noise_is_drawn_anew_for_every_period_and_series(tmp_path):
    found = [answered(tmp_path / str(i), terms_of(2), STREAM[:1])[0][0] for i in range(2)]
    assert not np.array_equal(found[0][2], found[1][2])


def test_periods_in_which_a_unit_may_be_need_a_unit():
    with pytest.raises(ParameterError, match="privacy_unit"):
        terms_of(3, most=2)
    with pytest.raises(ParameterError, match="periods"):
        terms_of(0)
    with pytest.raises(ParameterError, match="neighbors"):
        terms_of(3, unit="who", neighbors="replace_one", most=2)


def test_an_ordinary_curator_noises_as_before(tmp_path):
    with Curator(STREAM[0], schema=SCHEMA, budget=GaussianDP(1.0)) as curator:
        found = curator.measure(one_ways(DOMAIN), spend=GaussianDP(0.5))
    assert found.stddev == pytest.approx(2 * 2**0.5, rel=1e-6)


def test_the_account_of_a_plan_measures_and_answers_nothing_else(tmp_path):
    """Whatever else a curator answers would neither be written down nor count what a row is worth here."""
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    room = room_of(tmp_path, terms)
    scores = distances()
    with room.adding(0, STREAM[0]), room.open_plan(factor, last=2, mu=mu, weight=3) as account:
        part = account.budget.fraction(0.1)
        for ask in (
            lambda: account.select(scores, spend=part),
            lambda: account.discover(spend=part),
            lambda: account.histogram(("a",), spend=part),
            lambda: account.histogram((), spend=part),
            lambda: account.watch(("a",), max_alarms=1, spend=part),
            lambda: account.watch((), max_alarms=1, spend=part),
            lambda: account.resume_watch(tmp_path / "no").__enter__(),
            lambda: account.measure(KeyTotal(("a",)), spend=part),
        ):
            with pytest.raises(SynthDPError):
                ask()
        account.measure(one_ways(DOMAIN), spend=part)


def test_the_first_period_of_a_plan_is_answered_once(tmp_path):
    """Neither as a later period nor by a second plan of the same terms is anything told beyond what was paid for."""
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    room = room_of(tmp_path, terms)
    with room.adding(0, STREAM[0]):
        with room.open_plan(factor, last=2, mu=mu) as account:
            account.measure(one_ways(DOMAIN))
        with pytest.raises(PrivacyError):
            room.ask(factor, QUERIES, [1.0] * 3, last=2, mu=mu)
        with room.open_plan(factor, last=2, mu=mu) as account, pytest.raises(PrivacyError):
            account.measure(Marginals(DOMAIN, ((0, 1),)))
        with pytest.raises(PrivacyError):
            room.answers([])


@pytest.mark.parametrize("parts", [[1.0], [1.0, 2.0, -1.0], [1.0, 0.0, 1.0]])
def test_parts_of_a_plan_are_positive_and_one_a_question(parts, tmp_path):
    terms = terms_of(3)
    factor, mu = first_plan(terms)
    room = room_of(tmp_path, terms)
    with room.adding(0, STREAM[0]), pytest.raises(ParameterError, match="parts"):
        room.ask(factor, QUERIES, parts, last=2, mu=mu)
