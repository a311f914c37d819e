"""What a receipt says, in which words, and for which losses it can state an attacker's odds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from synthdp import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.figures import LEAST_NAME, WIDTH
from synthdp.privacy.accounting import gdp_from_approx, zcdp_from_approx
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.privacy.receipt import UNTRACKED, Item, Receipt, noise_of

HALF, WHOLE = PureDP(0.5), PureDP(1.0)


def item(step: str, *, loss=HALF, stddev=2.0, answers=3, law="discrete Laplace", unit="rows") -> Item:
    return Item(
        step=step, mechanism=law, answers=answers, sensitivity=1.0, stddev=stddev, loss=loss,
        noise=(stddev, stddev), unit=unit,
    )  # fmt: skip


def receipt(total=WHOLE, *items: Item, **options) -> Receipt:
    return Receipt(total=total, adjacency=Adjacency(), items=items, **options)


def test_a_receipt_says_promise_neighbours_odds_steps_and_record():
    text = str(receipt(PureDP(1.0), item("totals"), item("tables", answers=1), assumptions=("a", "b"), notes=("c",)))
    assert text.splitlines() == [
        "Privacy receipt",
        "  promise     ε = 1",
        "  neighbours  add or remove one row",
        "  attacker    if two neighbouring tables seem equally likely beforehand,",
        "              somebody who has seen the release can tell which is the real one",
        "              with a probability of at most 73.1%",
        "  spent on  answers  noise (± 1 stddev)  loss",
        "    totals        3  ± 2 rows            ε = 0.5",
        "    tables        1  ± 2 rows            ε = 0.5",
        "  noise       discrete Laplace, in every step",
        "  together    ε = 1",
        "  assumed     a",
        "              b",
        "  notes       c",
        "  ledger      no ledger was given: other releases of the same data are not",
        "              counted here",
    ]


WORDS = st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=LEAST_NAME)  # longer ones are not broken


@given(
    st.lists(
        st.tuples(st.lists(WORDS, min_size=1, max_size=9).map(" ".join), st.floats(1e-6, 1e12), st.integers(1, 10**9)),
        max_size=6,
    ),
    st.lists(st.lists(WORDS, min_size=1, max_size=40).map(" ".join), max_size=3),
)
def test_no_line_of_a_receipt_is_wider_than_a_terminal_and_no_word_is_lost(steps, notes):
    items = [item(step, stddev=stddev, answers=answers) for step, stddev, answers in steps]
    text = str(receipt(PureDP(1.0), *items, notes=tuple(notes)))
    assert max(map(len, text.splitlines())) <= WIDTH
    words = set(text.replace(",", " ").split())  # several steps of one kind: "kind, in 2 steps"
    kinds = {tuple(group[0].step.split()) for group in receipt(PureDP(1.0), *items).groups()}
    assert all(set(kind) <= words for kind in kinds)
    assert all(set(note.split()) <= words for note in notes)


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
    assert "    tables, in 2 steps        6  ± 1 to 2 rows       ε = 0.75\n" in str(made)


def test_noise_is_told_with_two_figures_and_in_whole_rows_from_ten_on():
    def said(*stddevs: float) -> str:
        return noise_of([item("t", stddev=stddev) for stddev in stddevs])

    assert said(0.0123) == "± 0.012 rows"
    assert said(2.0, 2.003) == "± 2 rows"
    assert said(9.94, 9.96) == "± 9.9 to 10 rows"
    assert said(41.7, 12345.6) == "± 42 to 12,346 rows"
    assert noise_of([replace(item("t", unit="people"), noise=(3.0, 4.0))]) == "± 3 to 4 people"


def test_several_laws_of_noise_each_name_their_steps():
    made = receipt(PureDP(1.0), item("a"), item("b", law="noisy max"), item("c: 1"), item("c: 2"))
    assert "  noise       discrete Laplace, in every step but these: noisy max in 'b'\n" in str(made)


def test_a_receipt_of_an_earlier_version_names_no_unit():
    old = replace(item("tables", stddev=7.3e5), noise=None, unit=None)
    assert "stddev 7.3e+05 or more" in str(receipt(PureDP(1.0), old))
    document = receipt(PureDP(1.0), old).to_document()
    assert "noise" not in document["items"][0]
    assert Receipt.from_document(document).items == (old,)


def test_a_step_with_a_colon_alone_keeps_its_whole_name():
    assert "    tables: a  " in str(receipt(PureDP(1.0), item("tables: a")))


def test_items_in_several_currencies_are_added_up_in_each():
    losses = (ApproxDP(0.1, 1e-10), GaussianDP(0.3), ApproxDP(0.2, 1e-10), GaussianDP(0.4))
    made = receipt(ApproxDP(2.0, 1e-9), *(item("t", loss=loss) for loss in losses))
    approximate, gaussian = made.sums()
    assert (approximate.epsilon, approximate.delta) == pytest.approx((0.3, 2e-10))
    assert gaussian.mu == pytest.approx(0.5)
    assert "  together    ε = 0.3, δ = 2e-10 and μ = 0.5\n" in str(made)
    other = receipt(ApproxDP(2.0, 1e-9), *(item("t", loss=loss) for loss in losses[::-1]))
    assert other.together == "μ = 0.5 and ε = 0.3, δ = 2e-10"  # neither alone is the promise


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
    said = " ".join(str(receipt(whole, *(item(f"step {i}", loss=part) for i, part in enumerate(parts)))).split())
    assert f"which is ε = {whole.epsilon:g} at δ = {whole.delta:.3g}" in said


def test_a_receipt_in_mu_says_what_mu_is():
    assert "N(μ, 1)" in str(receipt(ApproxDP(1.0, 1e-9), item("a", loss=GaussianDP(0.1))))
    assert "N(μ, 1)" not in str(receipt(PureDP(1.0), item("a")))
