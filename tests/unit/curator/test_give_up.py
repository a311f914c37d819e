"""An account that is given up: what the ledger then has, and that nothing answers any more."""

import copy
import pickle
import tempfile

import pandas as pd
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from synthdp import ApproxDP, Curator, Ledger, PureDP, Schema
from synthdp.curator.ledger import Reservation
from synthdp.domain.domain import domain_of
from synthdp.errors import BudgetExceededError, LedgerError, PrivacyError, RoomClosedError
from synthdp.queries.marginals import one_ways
from synthdp.schema.columns import Integer

SCHEMA = Schema({"n": Integer(0, 9)})
TABLE = pd.DataFrame({"n": range(10)})
QUERIES = one_ways(domain_of(SCHEMA))
WHOLE = ApproxDP(1.0, 1e-6)


@pytest.fixture
def book(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("default", WHOLE)
    return book


def opened(book):
    return Curator(TABLE, schema=SCHEMA, budget=WHOLE, ledger=book).open_account(ends=(0.1, 0.5))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.4])
def test_an_account_that_is_given_up_leaves_what_it_cost_in_the_ledger(book, share):
    account = opened(book)
    account.measure(QUERIES, spend=account.budget.fraction(share))
    cost = account.give_up()
    (entry,) = book.entries()
    assert (entry.loss, entry.state) == (cost, "committed")
    assert cost.epsilon < WHOLE.epsilon
    assert book.left("default") is None or book.left("default").epsilon == pytest.approx(1.0 - cost.epsilon)


def test_what_is_left_of_the_cap_can_be_spent_and_no_more(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("default", ApproxDP(1.0, 2e-6))
    account = opened(book)
    account.measure(QUERIES, spend=account.budget.fraction(0.1))
    cost = account.give_up()
    left = ApproxDP(1.0 - cost.epsilon, 1e-6)
    with pytest.raises(BudgetExceededError):
        book.reserve("default", ApproxDP(left.epsilon * 1.01, 1e-6), what="too much")
    book.reserve("default", left, what="the rest")


def test_a_program_that_failed_says_the_cost_of_the_account_that_was_given_up():
    """Without a ledger, which would tell it too."""
    curator = Curator(TABLE, schema=SCHEMA, budget=WHOLE)
    account = curator.open_account(ends=(0.1, 0.5))
    account.measure(QUERIES, spend=account.budget.fraction(0.1))
    assert curator.became.startswith(f"{WHOLE} is spent")
    cost = account.give_up()
    assert cost.epsilon < WHOLE.epsilon
    assert curator.became.startswith(f"{cost} is spent")


def test_nothing_answers_after_an_account_was_given_up(book):
    account = opened(book)
    account.give_up()
    with pytest.raises(RoomClosedError):
        account.measure(QUERIES, spend=account.budget.fraction(0.1))


def test_an_account_without_ends_or_that_spent_more_than_they_say_costs_all_that_was_reserved(book):
    account = opened(book)
    account.open_account(account.budget.fraction(0.51))
    assert account.give_up() == WHOLE
    assert [entry.loss for entry in book.entries()] == [WHOLE]


def test_what_an_account_within_was_given_counts_though_it_asked_nothing(book):
    account = opened(book)
    account.open_account(account.budget.fraction(0.3))
    cost = account.give_up()
    assert cost.epsilon > opened_cost(0.05)


def opened_cost(share):
    account = Curator(TABLE, schema=SCHEMA, budget=WHOLE).open_account(ends=(0.1, 0.5))
    account.measure(QUERIES, spend=account.budget.fraction(share))
    return account.give_up().epsilon


def test_the_curator_of_a_table_itself_is_not_given_up():
    with pytest.raises(PrivacyError, match="account"):
        Curator(TABLE, schema=SCHEMA, budget=WHOLE).give_up()


def test_an_entry_is_never_raised(book):
    number = book.reserve("default", ApproxDP(0.5, 1e-7), what="a release")
    for more in (ApproxDP(0.6, 1e-7), ApproxDP(0.5, 2e-7)):
        with pytest.raises(LedgerError):
            book.commit(number, more)
    assert [(entry.loss, entry.state) for entry in book.entries()] == [(ApproxDP(0.5, 1e-7), "reserved")]
    book.commit(number, PureDP(0.2))
    assert [(entry.loss, entry.state) for entry in book.entries()] == [(PureDP(0.2), "committed")]


def test_an_entry_that_is_lost_is_said_to_be(book):
    with pytest.raises(LedgerError, match=r"\b7\b"):
        book.commit(7)
    with pytest.raises(LedgerError):
        book.commit(7, ApproxDP(0.1, 0.0))


def state(book):
    return [(entry.loss, entry.state) for entry in book.entries()]


STRANGERS = {
    "whoever reads a receipt": lambda book, number: (book, int(number)),
    "another ledger of the same file": lambda book, number: (Ledger(book.path), number),
    "a copy": lambda book, number: (copy.deepcopy(book), number),
    "a copy of the number": lambda book, number: (book, copy.deepcopy(number)),
    "a copy that was sent": lambda book, number: pickle.loads(pickle.dumps((Ledger(book.path), number))),
    "another number": lambda book, number: (book, Reservation(int(number))),
}


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("who", STRANGERS.values(), ids=STRANGERS)
def test_only_who_holds_an_entry_may_lower_or_return_it(book, who, committed):
    number = book.reserve("default", WHOLE, what="account")
    if committed:
        book.commit(int(number))  # which anybody may
    before = state(book)
    ledger, known = who(book, number)
    with pytest.raises(LedgerError):
        ledger.commit(known, PureDP(0.1))
    with pytest.raises(LedgerError):
        ledger.give_back(known)
    assert state(book) == before
    book.commit(number, PureDP(0.1))


def test_an_entry_is_lowered_once(book):
    number = book.reserve("default", WHOLE, what="account")
    assert book.commit(number, PureDP(0.5)) == PureDP(0.5)
    for again in (lambda: book.commit(number, PureDP(0.1)), lambda: book.give_back(number)):
        with pytest.raises(LedgerError):
            again()
    assert state(book) == [(PureDP(0.5), "committed")]
    book.commit(number)
    assert state(book) == [(PureDP(0.5), "committed")]


def test_an_entry_that_a_copy_of_the_process_lowered_is_not_lowered_again(book):
    number = book.reserve("default", WHOLE, what="account")
    other, known = copy.deepcopy((book, number))  # as a fork copies both; what is written in the file stands
    other._held = {int(known): (known, book._held[int(number)][1])}
    other.commit(known, PureDP(0.5))
    with pytest.raises(LedgerError):
        book.commit(number, PureDP(0.1))
    assert state(book) == [(PureDP(0.5), "committed")]


def test_an_account_that_was_asked_nothing_costs_nothing(book):
    account = opened(book)
    assert account.give_up() is None
    assert [entry.state for entry in book.entries()] == ["returned"]
    assert book.left("default") == WHOLE
    with pytest.raises(RoomClosedError):
        account.measure(QUERIES, spend=account.budget.fraction(0.1))
    assert opened(book).give_up() is None


def test_a_key_whose_account_was_asked_nothing_may_be_used_again(tmp_path):
    book = Ledger(tmp_path / "l.sqlite", key="plan")
    book.set_cap("default", WHOLE)
    assert opened(book).give_up() is None
    account = opened(book)
    account.measure(QUERIES, spend=account.budget)
    assert account.give_up() == WHOLE


def test_what_others_reserved_meanwhile_keeps_an_entry_whole(tmp_path):
    """They may have been asked in turns; another data set has other rows."""
    book = Ledger(tmp_path / "l.sqlite")
    for name in ("default", "other"):
        book.set_cap(name, ApproxDP(2.0, 2e-6))
    first, second = opened(book), opened(book)
    book.reserve("other", WHOLE, what="account")
    for account in (first, second, first, second):
        account.measure(QUERIES, spend=account.budget.fraction(0.05))
    assert first.give_up() == WHOLE
    assert second.give_up().epsilon < WHOLE.epsilon
    assert [entry.loss == WHOLE for entry in book.entries("default")] == [True, False]


class InTurns(RuleBasedStateMachine):
    """Accounts of one data set that are opened, asked and given up in any order."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.cap = PureDP(4.0)
        self.book = Ledger(f"{self.folder.name}/l.sqlite")
        self.book.set_cap("default", self.cap)
        self.open, self.spent, self.lowered = {}, {}, {}

    def teardown(self):
        self.folder.cleanup()

    def entry(self, number):
        return next(entry for entry in self.book.entries() if entry.number == number)

    @rule()
    def open_one(self):
        try:
            account = Curator(TABLE, schema=SCHEMA, budget=PureDP(1.0), ledger=self.book).open_account(ends=(0.25, 0.5))
        except BudgetExceededError:
            return
        number = self.book.entries()[-1].number
        self.open[number], self.spent[number] = account, 0.0

    @precondition(lambda self: self.open)
    @rule(data=st.data(), share=st.sampled_from([0.1, 0.25, 0.3]))
    def ask(self, data, share):
        number = data.draw(st.sampled_from(sorted(self.open)))
        try:
            self.open[number].measure(QUERIES, spend=PureDP(share))
        except BudgetExceededError:
            return
        self.spent[number] += share

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def give_up(self, data):
        number = data.draw(st.sampled_from(sorted(self.open)))
        last = number == self.book.entries()[-1].number
        cost = self.open.pop(number).give_up()
        if cost is None:
            assert self.spent[number] == 0
            assert self.entry(number).state == "returned"
            return
        assert cost == self.entry(number).loss
        assert last or cost == PureDP(1.0)
        self.lowered[number] = cost

    @invariant()
    def the_ledger_counts_at_least_what_was_answered_and_all_that_is_open(self):
        counted = {entry.number: entry.loss.epsilon for entry in self.book.entries() if entry.state != "returned"}
        assert all(spent <= counted.get(number, 0.0) + 1e-9 for number, spent in self.spent.items())
        assert all(counted[number] == 1.0 for number in self.open)
        assert all(self.entry(number).loss == cost for number, cost in self.lowered.items())
        assert sum(counted.values()) <= self.cap.epsilon + 1e-9


TestInTurns = InTurns.TestCase
