"""Rows that are taken back: they count -1, and cost a unit no more than rows that are new, by enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
from series_worlds import DOMAIN, QUERIES, answered, first_plan, room_of, table, terms_of, without_noise

from synthdp.errors import DataError, ParameterError, PrivacyError
from synthdp.privacy.series_factor import optimal_factor
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals, one_ways

CELLS = ((0, 0), (1, 1))


def of_unit(records):
    """The tables of two others and of one unit with some signed records: new rows, and those that are taken back."""
    new = [cell for cell, sign in records if sign > 0]
    back = [cell for cell, sign in records if sign < 0]
    return (
        table([(0, 1), (1, 1), *new], units=("x", "y", *["z"] * len(new))),
        table([(0, 1), *back], units=("w", *["z"] * len(back))),
    )


def cost(some, other, lattices):
    total = 0.0
    for before, after in zip(some, other, strict=True):
        for one, two, (_, sigma) in zip(before, after, lattices, strict=True):
            moved = one.astype(float) - two
            total += float(moved @ moved) / (sigma**2 - 4)
    return total


def worst_of(rows, most, folder, *, size, cells=CELLS):
    """The largest cost over all signed records of one unit, of so many a period, and what was promised."""
    signed = list(itertools.product(cells, (1, -1)))
    terms = terms_of(3, unit="who", rows=rows, most=most)

    def run(name, records):
        tables, back = zip(*map(of_unit, records), strict=True)
        return answered(folder / name, terms, tables, taken_back=[None, *back[1:]])

    base, lattices, _ = run("base", [(), (), ()])
    new_ones = [one for one in signed if one[1] > 0]
    choices = [[(), *itertools.combinations_with_replacement(new_ones if t == 0 else signed, size)] for t in range(3)]
    worst = 0.0
    for number, records in enumerate(itertools.product(*choices)):
        if 0 < sum(map(bool, records)) <= most:
            worst = max(worst, cost(base, run(str(number), records)[0], lattices))
    return worst, terms.mu**2


def test_a_row_and_its_correction_cost_no_more_than_the_promise(tmp_path, monkeypatch):
    without_noise(monkeypatch)
    worst, promised = worst_of(1, 2, tmp_path, size=1, cells=CELLS[:1])
    assert promised * 0.9 <= worst <= promised * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "most", "size"), [(2, 2, 2), (1, 2, 2), (1, 3, 1)])
def test_whatever_is_taken_back_no_unit_costs_more_than_the_promise(rows, most, size, tmp_path, monkeypatch):
    """More rows a period than may be used, and rows that were never there, are among them."""
    without_noise(monkeypatch)
    worst, promised = worst_of(rows, most, tmp_path, size=size)
    assert promised * 0.9 <= worst <= promised * (1 + 1e-9)


def sums_of(found, lattices, factor, *, question=1):
    told = np.array([one[question] for one in found])
    return np.linalg.inv(factor.astype(float)) @ told / lattices[question][0]


def test_a_row_that_is_taken_back_is_counted_once_less(tmp_path, monkeypatch):
    without_noise(monkeypatch)
    terms = terms_of(3, unit="who", rows=2, most=3)
    first = table([(0, 0), (1, 1)], units=("x", "y"))
    second, back = table([(0, 1)], units=("x",)), table([(0, 0)], units=("x",))
    third = table([(1, 0)], units=("v",))
    found, lattices, factor = answered(tmp_path, terms, [first, second, third], taken_back=[None, back, None])
    np.testing.assert_allclose(sums_of(found, lattices, factor, question=0).ravel(), [2, 0, 1], atol=1e-6)
    cells = sums_of(found, lattices, factor, question=2)
    np.testing.assert_allclose(cells.sum(axis=0), [0, 1, 0, 1, 1, 0, 0, 0, 0], atol=1e-6)  # missing is a level


def test_new_rows_and_corrections_of_a_unit_are_bounded_together(tmp_path, monkeypatch):
    without_noise(monkeypatch)
    terms = terms_of(3, unit="who", rows=1, most=2)
    tables = [table([(0, 0)], units=("x",))] * 2
    found, lattices, factor = answered(tmp_path, terms, tables, taken_back=[None, tables[0]])
    assert abs(sums_of(found, lattices, factor[:2, :2], question=0)[1, 0]) == pytest.approx(1)


def test_corrections_use_up_the_periods_of_a_unit(tmp_path, monkeypatch):
    without_noise(monkeypatch)
    terms = terms_of(3, unit="who", rows=1, most=2)
    one, nobody = table([(0, 0)], units=("x",)), table([(1, 1)], units=("y",))
    found, lattices, factor = answered(tmp_path, terms, [one, nobody, one], taken_back=[None, one, None])
    np.testing.assert_allclose(sums_of(found, lattices, factor, question=0).ravel(), [1, 0, 0], atol=1e-6)


def test_corrections_need_a_unit_with_several_periods_and_an_earlier_period(tmp_path):
    one = table([(0, 0)], units=("x",))
    for number, terms in enumerate((terms_of(3), terms_of(3, unit="who", most=1))):
        with (
            pytest.raises(ParameterError, match="corrections"),
            room_of(tmp_path / str(number), terms).adding(0, one, taken_back=one),
        ):
            pass
    several = terms_of(3, unit="who", most=2)
    with pytest.raises(DataError, match="earlier"), room_of(tmp_path / "a", several).adding(0, one, taken_back=one):
        pass
    room = room_of(tmp_path / "b", several)
    with room.adding(0, one):
        room.ask(*first_plan(several)[:1], QUERIES, [1.0] * 3, last=2, mu=first_plan(several)[1])
    with pytest.raises(DataError, match="columns"), room.adding(1, one, taken_back=table([(0, 0)])):
        pass


def test_a_period_is_under_way_with_its_corrections(tmp_path):
    terms = terms_of(3, unit="who", rows=2, most=2)
    one = table([(0, 0)], units=("x",))
    answered(tmp_path, terms, [one, one], taken_back=[None, one])
    room = room_of(tmp_path, terms)
    for other in (None, table([(1, 1)], units=("x",))):
        with pytest.raises(DataError, match="interrupted"), room.adding(1, one, taken_back=other):
            pass
    with room.adding(1, one, taken_back=one):
        pass


def test_history_is_given_with_the_corrections_of_its_periods(tmp_path, monkeypatch):
    """What is linear in the rows counts them; distances, which choose tables, are of the rows as they came."""
    without_noise(monkeypatch)
    terms = terms_of(3, unit="who", rows=2, most=3)
    factor, mu = first_plan(terms, last=1, part=0.3)
    one, two = table([(0, 0), (1, 1)], units=("x", "y")), table([(0, 1)], units=("x",))
    back, more = table([(0, 0)], units=("x",)), table([(1, 1)], units=("y",))
    room = room_of(tmp_path, terms)
    with room.adding(0, one):
        room.ask(factor, QUERIES, [1.0] * 3, last=1, mu=mu)
    with room.adding(1, two, taken_back=back):
        room.answers(QUERIES)
    with pytest.raises(DataError, match="history"), room.adding(2, two, earlier=[one, two]):
        pass
    distances = MarginalDistances(Marginals(DOMAIN, ((0, 1),)), np.zeros(9, np.int64), 1)
    with (
        room.adding(2, two, taken_back=more, earlier=[one, (two, back)]),
        room.open_plan(optimal_factor(1), last=2, mu=mu / 9) as account,
    ):
        counts = account.measure(one_ways(DOMAIN), spend=account.budget.fraction(0.5))
        apart = account.measure(distances, spend=account.budget.fraction(0.5))
    assert counts.values.tolist() == [counts.resolution * n for n in (2, 0, 0, 0, 2, 0)]
    plain = room_of(tmp_path / "plain", terms)
    with plain.adding(0, one.iloc[:0]):
        plain.ask(factor, QUERIES, [1.0] * 3, last=1, mu=mu)
    with plain.adding(1, one.iloc[:0]):
        plain.answers(QUERIES)
    every = pd.concat([one, two, two.assign(who="u")], ignore_index=True)
    with (
        plain.adding(2, every, earlier=[one.iloc[:0]] * 2),
        plain.open_plan(optimal_factor(1), last=2, mu=mu / 9) as account,
    ):
        same = account.measure(distances, spend=account.budget.fraction(0.5))
    assert apart.values.tolist() == same.values.tolist()


def test_whoever_answers_without_a_unit_has_no_corrections(tmp_path):
    with pytest.raises((ParameterError, PrivacyError)):
        answered(tmp_path, terms_of(2), [table([(0, 0)])] * 2, taken_back=[None, table([(0, 0)])])
