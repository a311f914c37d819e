"""An account that is given up: what the ledger then has, and that nothing answers any more."""

import pandas as pd
import pytest

from synthdp import ApproxDP, Curator, Ledger, PureDP, Schema
from synthdp.domain.discretize import domain_of
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
    with pytest.raises(LedgerError, match="lost entry 7"):
        book.commit(7, ApproxDP(0.1, 0.0))
