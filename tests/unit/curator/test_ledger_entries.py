"""What a ledger says: what is left of a cap, in which numbers, and every entry as it was written."""

from __future__ import annotations

import datetime as dt

import pytest

from synthdp import ZCDP, ApproxDP, GaussianDP, Ledger, PureDP
from synthdp.curator import ledger as ledger_module
from synthdp.errors import BudgetExceededError
from synthdp.privacy.neighbors import Adjacency


@pytest.mark.parametrize(("cap", "left"), [(ApproxDP(0.7, 1e-6), r"0\.2.*0\.7"), (ApproxDP(0.3, 1e-6), r"0.*0\.3")])
def test_a_ledger_says_what_is_left_and_never_less_than_nothing(tmp_path, cap, left):
    book = Ledger(tmp_path / "l.sqlite")
    book.reserve("t", PureDP(0.5), what="x")
    book.set_cap("t", cap)
    with pytest.raises(BudgetExceededError, match=rf"0\.4.*'t'.*{left}"):
        book.reserve("t", PureDP(0.4), what="y")


def test_a_ledger_counts_delta_too(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", ApproxDP(1.0, 1e-6))
    book.reserve("t", ApproxDP(0.1, 7e-7), what="x")
    with pytest.raises(BudgetExceededError, match=r"5e-07.*'t'.*3e-07.*1e-06"):
        book.reserve("t", ApproxDP(0.1, 5e-7), what="y")
    book.reserve("t", ApproxDP(0.9, 3e-7), what="z")


@pytest.mark.parametrize(
    ("cap", "spend", "name"), [(ZCDP(0.1), ZCDP(0.2), "ρ"), (GaussianDP(0.1), GaussianDP(0.2), "μ²")]
)
def test_a_ledger_names_what_it_counts(tmp_path, cap, spend, name):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", cap)
    with pytest.raises(BudgetExceededError, match=f"{name}.*'t'"):
        book.reserve("t", spend, what="x")


def test_an_entry_is_what_was_written_of_it(tmp_path, monkeypatch):
    class Fixed(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(ledger_module.dt, "datetime", Fixed)
    book = Ledger(tmp_path / "l.sqlite")
    unit = Adjacency("add_remove", "person", 3)
    assert book.reserve("t", PureDP(0.5), what="one") == 1
    assert book.reserve("u", ApproxDP(1.0, 1e-9), what="two", adjacency=unit) == 2
    book.commit(2)
    moment = "2026-01-02T03:04:05+00:00"
    assert book.entries() == [
        ledger_module.Entry(1, "t", PureDP(0.5), "one", "reserved", moment, Adjacency()),
        ledger_module.Entry(2, "u", ApproxDP(1.0, 1e-9), "two", "committed", moment, unit),
    ]
    assert [entry.number for entry in book.entries("u")] == [2]
