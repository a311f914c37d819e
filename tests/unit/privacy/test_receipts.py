"""What a receipt says, in which words, and for which losses it can state an attacker's odds."""

from __future__ import annotations

import math

import pytest

from synthdp import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.privacy.accounting import gdp_from_approx, zcdp_from_approx
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.privacy.receipt import UNTRACKED, Item, Receipt

HALF, WHOLE = PureDP(0.5), PureDP(1.0)


def item(step: str, *, loss=HALF, stddev=2.0, answers=3) -> Item:
    return Item(step=step, mechanism="discrete Laplace", answers=answers, sensitivity=1.0, stddev=stddev, loss=loss)


def receipt(total=WHOLE, *items: Item, **options) -> Receipt:
    return Receipt(total=total, adjacency=Adjacency(), items=items, **options)


def test_a_receipt_says_promise_neighbours_odds_steps_and_record():
    text = str(receipt(PureDP(1.0), item("totals"), item("tables", answers=1), assumptions=("a", "b"), notes=("c",)))
    assert text.splitlines() == [
        "Privacy receipt",
        "  promise     ε = 1",
        "  neighbours  add or remove one row",
        "  attacker    a 50:50 guess about one unit becomes right at most 73.1% of the time",
        "  spent on",
        "    totals  ε = 0.5  3 answers, discrete Laplace noise, stddev 2",
        "    tables  ε = 0.5  1 answer, discrete Laplace noise, stddev 2",
        "  together    ε = 1",
        "  assumed     a",
        "              b",
        "  notes       c",
        f"  ledger      {UNTRACKED}",
    ]


@pytest.mark.parametrize(
    ("loss", "odds"),
    [
        (PureDP(1.0), math.e / (1 + math.e)),
        (ApproxDP(2.0, 0.01), math.exp(2) / (1 + math.exp(2)) + 0.01),
        (ApproxDP(20.0, 0.5), 1.0),
        (PureDP(800.0), 1.0),
    ],
)
def test_the_odds_are_those_of_the_best_guess(loss, odds):
    assert receipt(loss).odds == pytest.approx(odds, rel=1e-12)


@pytest.mark.parametrize("loss", [ZCDP(1.0), GaussianDP(1.0)])
def test_a_currency_without_an_epsilon_states_no_odds(loss):
    assert receipt(loss).odds is None
    assert "attacker" not in str(receipt(loss))


def test_steps_of_one_kind_are_one_line_with_the_range_of_their_noise():
    made = receipt(
        PureDP(1.0), item("tables: a", stddev=1.0), item("total"), item("tables: b", stddev=2.0, loss=PureDP(0.25))
    )
    assert [len(group) for group in made.groups()] == [2, 1]
    assert "    tables: 2 of them  ε = 0.75  6 answers, discrete Laplace noise, stddev 1 to 2" in str(made)


def test_noise_that_differs_by_a_thousandth_is_one_number():
    assert "stddev 2\n" in str(receipt(PureDP(1.0), item("t: a", stddev=2.0), item("t: b", stddev=2.001)))
    assert "stddev 2 to 2.003" in str(receipt(PureDP(1.0), item("t: a", stddev=2.0), item("t: b", stddev=2.003)))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 3e5])
def test_how_far_noise_differs_is_judged_by_its_size(unit):
    alike, apart = (
        str(receipt(PureDP(1.0), item("t: a", stddev=2 * unit), item("t: b", stddev=far * unit)))
        for far in (2.001, 2.01)
    )
    assert " to " not in alike.partition("stddev")[2]
    assert f"stddev {2 * unit:.4g} to {2.01 * unit:.4g}" in apart


def test_a_step_with_a_colon_alone_keeps_its_whole_name():
    assert "    tables: a  " in str(receipt(PureDP(1.0), item("tables: a")))


def test_items_in_several_currencies_are_added_up_in_each():
    losses = (ApproxDP(0.1, 1e-10), GaussianDP(0.3), ApproxDP(0.2, 1e-10), GaussianDP(0.4))
    made = receipt(ApproxDP(2.0, 1e-9), *(item("t", loss=loss) for loss in losses))
    approximate, gaussian = made.sums()
    assert (approximate.epsilon, approximate.delta) == pytest.approx((0.3, 2e-10))
    assert gaussian.mu == pytest.approx(0.5)
    assert "  together    ε = 0.3, δ = 2e-10 and μ = 0.5\n" in str(made)


def test_a_receipt_without_items_adds_up_nothing():
    assert receipt().sums() == ()
    assert "together" not in str(receipt())


def test_notes_are_put_after_those_that_are_there():
    noted = receipt(notes=("a",)).noted("b", "c")
    assert noted.notes == ("a", "b", "c")
    assert noted.noted() == noted


def test_a_receipt_says_where_it_is_recorded():
    assert receipt().record == UNTRACKED
    recorded = receipt(ledger="l.sqlite", dataset="t", entries=(3, 4))
    assert recorded.record == "entry 3, 4 in 'l.sqlite' for data set 't'"
    assert receipt(ledger="l.sqlite", dataset="t").record == "recorded in 'l.sqlite' for data set 't'"


def test_a_receipt_in_a_notebook_is_folded_to_its_promise_and_escaped():
    shown = receipt(PureDP(1.0), item("<b>"))._repr_html_()
    assert shown.startswith("<details><summary>Privacy receipt: ε = 1, add or remove one row</summary><pre>")
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_every_field_of_a_receipt_reads_back():
    made = Receipt(
        total=ApproxDP(1.0, 1e-9),
        adjacency=Adjacency(Neighbors.ADD_REMOVE, "who", 3),
        items=(item("a", loss=ZCDP(0.1)), item("b", loss=GaussianDP(0.1))),
        assumptions=("x",),
        notes=("y",),
        versions=(("numpy", "2"),),
        ledger="l.sqlite",
        dataset="t",
        entries=(7,),
    )
    assert Receipt.from_document(made.to_document()) == made
    older = made.to_document()
    del older["entries"]
    assert Receipt.from_document(older).entries == ()


@pytest.mark.parametrize(
    ("adjacency", "text"),
    [
        (Adjacency(), "add or remove one row"),
        (Adjacency(Neighbors.REPLACE_ONE), "replace one row"),
        (Adjacency(unit="who", rows=3), "add or remove all rows of one value of 'who' (at most 3 used)"),
    ],
)
def test_neighbours_are_said_in_words(adjacency, text):
    assert str(adjacency) == text


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (ApproxDP(1.0, 1e-9), [GaussianDP(gdp_from_approx(1.0, 1e-9) * share) for share in (0.6, 0.8)]),
        (ApproxDP(2.0, 1e-6), [ZCDP(zcdp_from_approx(2.0, 1e-6) * share) for share in (0.3, 0.7)]),
    ],
)
def test_the_parts_of_a_receipt_add_up_to_its_promise_before_the_reader_s_eyes(whole, parts):
    said = str(receipt(whole, *(item(f"step {i}", loss=part) for i, part in enumerate(parts))))
    assert f"which is ε = {whole.epsilon:g} at δ = {whole.delta:.3g}" in said


def test_a_receipt_in_mu_says_what_mu_is():
    assert "N(μ, 1)" in str(receipt(ApproxDP(1.0, 1e-9), item("a", loss=GaussianDP(0.1))))
    assert "N(μ, 1)" not in str(receipt(PureDP(1.0), item("a")))
