"""A distribution of persons with all their rows: one log-linear conditional law per attribute, drawn forwards.

Attributes are drawn one after the other: those of the person, then of its first row, of its second row, and so on.  The
law of an attribute, given what was drawn before, is log-linear: the logarithms of several tables (`PersonTable`) add
up.  All rows share these tables.  Drawing forwards is exact and needs no junction tree, and a person may have any
number of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import betainc

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.distribution.distribution import ImpossibleEvidenceError
from synthdp.domain.histories import Layout, Order
from synthdp.domain.history_rules import LEAST, Among, Barrier, DaysToHeaps, barriers_of, days_to_heaps, open_cells
from synthdp.errors import InternalError
from synthdp.queries.person_tables import Grouping, Kind, PersonTable, group_of_mean
from synthdp.queries.persons import MOST_SIBLINGS, Persons, Rows, pair_shares, spread
from synthdp.randomness import Generator

IMPOSSIBLE = -1e9
"""The logarithm that stands for probability 0; finite, so that sums never give NaN.  A convention."""

Allowed = Mapping[tuple[int, str, int], BoolArray | FloatArray]
"""By table, attribute and rank of the row among its parent's, the fraction of each cell that is allowed."""

PROPOSALS = 8
"""Number of persons drawn for each person wanted when conditions are given; a person is then chosen in proportion to the
probability of the conditions, given its other values.  A safety limit of time: a larger number chooses fewer persons
twice."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """One table of a conditional law: a person table, and what it adds to log-probabilities.

    Parameters
    ----------
    table
        The table that was measured; its second axis is the attribute that is drawn.
    theta
        (table.shape) terms of the log-probability.
    """

    table: PersonTable
    theta: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Conditional:
    """The law of one attribute given what was drawn before.

    Parameters
    ----------
    table, attribute
        Position of the table, and name of the attribute.
    base
        (1 or groups of periods, cells) log-probabilities without the factors; `IMPOSSIBLE` for cells that are never
        drawn.
    factors
        The tables of two or three attributes that change the law.
    independent
        Of a period, the share of a parent's other rows that are independent draws, put in order, from 0 to 1; see
        `_in_order`.  At 0 a first row's period does not depend on how many rows follow.
    """

    table: int
    attribute: str
    base: FloatArray
    factors: tuple[Factor, ...] = ()
    independent: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Expectations:
    """Expected one-way tables and factors' tables, in persons: sums of probabilities, added up as rows are drawn.

    Parameters
    ----------
    ones
        By table and attribute, (1 or groups of periods, cells).
    factors
        By table and attribute, one array for each factor, shaped as its table.
    """

    ones: Mapping[tuple[int, str], FloatArray]
    factors: Mapping[tuple[int, str], Sequence[FloatArray]]

    @classmethod
    def of(cls, model: Histories) -> Expectations:
        """Return expectations that are all 0, with the shapes of a model's tables; drawing rows adds to them."""
        return cls(
            {key: np.zeros(one.base.shape) for key, one in model.conditionals.items()},
            {key: [np.zeros(f.theta.shape) for f in one.factors] for key, one in model.conditionals.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """The distribution of persons with all their rows, as one conditional law per attribute.

    Parameters
    ----------
    layout
        The record of a person.
    conditionals
        By table and attribute, in the order in which they are drawn.

    Attributes
    ----------
    barriers
        The cells that rules between two columns forbid.
    possible
        By table and attribute, (cells,) whether some row may have the cell; only for attributes with forbidden cells.
    heaps
        By table and attribute of days between two dates, the second days that many rows have; see `DaysToHeaps`.
    """

    layout: Layout
    conditionals: Mapping[tuple[int, str], Conditional]
    barriers: tuple[Barrier, ...] = field(init=False)
    possible: Mapping[tuple[int, str], BoolArray] = field(init=False)
    heaps: Mapping[tuple[int, str], DaysToHeaps] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "barriers", barriers_of(self.layout))
        object.__setattr__(self, "possible", open_cells(self.layout))
        object.__setattr__(self, "heaps", days_to_heaps(self.layout, self.barriers))

    def together(self, key: tuple[int, str]) -> tuple[tuple[int, str], ...]:
        """Return the attributes whose laws depend on each other's factors, as (table, attribute), including the given one.

        The days between two dates and the second date depend on each other if many rows have the same second date; see
        `DaysToHeaps`.  Any other attribute is returned alone.  A fit divides one step among the factors of all
        attributes returned, since a factor of one of them moves the margins of both.
        """
        for one in self.heaps.values():
            if key in (one.days, one.second):
                return one.days, one.second
        return (key,)

    def without(self, left_out: Mapping[tuple[int, str], Sequence[int]]) -> Histories:
        """Return the distribution in which attributes never have some cells, by table and attribute.

        The other cells keep their odds.  An attribute that would have no cell left is unchanged.
        """
        conditionals = dict(self.conditionals)
        for key, cells in left_out.items():
            base = conditionals[key].base.copy()
            base[:, cells] = IMPOSSIBLE
            if (base > IMPOSSIBLE / 2).any(axis=1).all():
                conditionals[key] = replace(conditionals[key], base=base)
        return Histories(self.layout, conditionals)

    def never_draws(self, key: tuple[int, str], cell: int) -> bool:
        """Return whether no row ever has a cell of an attribute, because rules or noise excluded it."""
        return bool((self.conditionals[key].base[:, cell] <= IMPOSSIBLE / 2).all())

    def draw(
        self,
        persons: int,
        rng: Generator,
        *,
        expected: Expectations | None = None,
        allowed: Allowed | None = None,
    ) -> Persons:
        """Draw persons with all their rows, under conditions on some attributes if ``allowed`` is given.

        Parameters
        ----------
        persons
            Number of persons.
        rng
            Source of the draws.
        expected
            Expected tables, to which the probabilities of all drawn rows are added, in persons, for a fit; ``None`` for
            none.
        allowed
            The fraction of each cell that is allowed, for attributes of persons, and of the first rows of tables right
            below the root.  Then `PROPOSALS` times as many persons are drawn, and chosen by the probability that they
            had to meet it.

        Raises
        ------
        ImpossibleEvidenceError
            If no person can have what is allowed.
        """
        allowed = allowed or {}
        drawn = persons * PROPOSALS if allowed else persons
        none = np.zeros(drawn, np.int64)
        tables = [Rows(np.arange(drawn), none, np.ones(drawn, np.int64), none, none)]
        weights = self._run(tables, rng, expected, allowed)
        last = max((table for table, _, _ in allowed), default=0)
        for _ in range(last):
            of_rows = self._run(self._with_next(tables), rng, expected, allowed)
            if self.layout.tables[len(tables) - 1].parent == 0:
                np.multiply.at(weights, tables[-1].parent, of_rows)
        if allowed:
            if weights.sum() <= 0:
                raise ImpossibleEvidenceError("no person of the model has the values in `given`: relax `given`")
            # Evenly spaced places among the cumulated weights: nobody is chosen twice as long as others would do.
            places = (np.arange(persons) + rng.random()) / persons * weights.sum()
            chosen = np.minimum(np.searchsorted(np.cumsum(weights), places, side="right"), drawn - 1)
            tables = _chosen(self.layout, tables, rng.permutation(chosen))
        while len(tables) < len(self.layout.tables):
            self._run(self._with_next(tables), rng, expected, allowed)
        return Persons(self.layout, tuple(tables), np.zeros(persons, np.int64))

    def _with_next(self, tables: list[Rows]) -> list[Rows]:
        """Append the next table's rows to ``tables``: as many for each parent as its count says, without values.

        Return all tables.
        """
        i = len(tables)
        table = self.layout.tables[i]
        pattern = tables[table.parent].values[table.count]
        parent, rank, many = spread(self.layout.rows_of_count(i)[pattern])
        period = np.zeros(len(parent), np.int64)
        if table.order is Order.PATTERN:
            period = self.layout.periods_of_pattern(i)[pattern[parent], rank]
        tables.append(Rows(parent, rank, many, period, table.group_of_period[period]))
        return tables

    def _run(self, tables: list[Rows], rng: Generator, expected: Expectations | None, allowed: Allowed) -> FloatArray:
        """Draw all values of the last table's rows; return the probability that each row met ``allowed``, (rows,)."""
        persons = Persons(self.layout, tuple(tables), np.zeros(len(tables[0]), np.int64))
        return _Pass(self, persons, len(tables) - 1, rng, expected, allowed).run()


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """The conditional law of one attribute, prepared for drawing.

    Parameters
    ----------
    of
        The conditional law.
    among
        State of the rules between the rows of one parent row.
    barriers
        Rules by which values drawn before forbid cells.
    possible
        (cells,) whether some row may have the cell; ``None`` if all may be drawn.
    above
        (rows,) group of the row above, by factor and position of its part; only for parts that depend on a row above.
    groupings, which
        The distinct groupings of the attribute's cells, and the position of each factor's; -1 for a factor of single
        cells.
    expected
        Array to which expected counts are added; ``None`` for none.
    by_factor
        The arrays to which each factor's expected counts are added.
    """

    of: Conditional
    among: Among
    barriers: tuple[Barrier, ...]
    possible: BoolArray | None
    above: Mapping[tuple[int, int], IntArray]
    groupings: tuple[Grouping, ...]
    which: tuple[int, ...]
    expected: FloatArray | None
    by_factor: Sequence[FloatArray]


@dataclass(slots=True, eq=False)
class _Pass:
    """The state while the rows of one table are drawn, attribute by attribute."""

    model: Histories
    persons: Persons
    table: int
    rng: Generator
    expected: Expectations | None
    allowed: Allowed

    def run(self) -> FloatArray:
        """Draw all attributes of all rows: of the first rows of all parents, then of the second rows, and so on.

        Return the probability that each row met ``allowed``, (rows,); it is 1 for rows without a condition.
        """
        rows = self.persons.tables[self.table]
        weights = np.ones(len(rows))
        shares, laws, sums = self._shares(), self._laws(), self._sums()
        for rank in range(int(rows.rank.max(initial=-1)) + 1):
            index = _by_period(rows, np.flatnonzero(rows.rank == rank))
            for law in laws:
                given = self._all_given(law, range(len(law.of.factors)), rank, index, sums)
                z = self._logarithms(law, rank, index, given)
                if (self.table, law.of.attribute) in self.model.heaps:
                    z += self._to_heaps(self.model.heaps[self.table, law.of.attribute], laws, rank, index, sums)
                probability = _softmax(z)
                mask = self.allowed.get((self.table, law.of.attribute, rank))
                if mask is not None:
                    weights[index] *= _masked(probability, mask)
                self._take(law, index, _drawn(probability, self.rng))
                self._expect(law, index, given, probability, shares)
                if self.model.layout.tables[self.table].period == law.of.attribute:
                    index = _by_period(rows, index)
            for name, both in sums.items():
                _add_ranks(both, [law.of for law in laws], name, rows, index)
        return weights

    def _shares(self) -> Mapping[Kind, FloatArray]:
        """Return the weights of rows, (rows,), in persons, for each kind of table.

        Measured tables weigh rows in this way, so expected tables must too.
        """
        i, persons = self.table, self.persons
        layout, one = persons.layout.tables[i], persons.whole(i)
        share = persons.shares(i) / one
        found = dict.fromkeys(Kind, share)
        if layout.unique and layout.groups == layout.regular_periods:
            found[Kind.ONE] = persons.even_shares(i) / one
        if i:
            found[Kind.STEP] = found[Kind.STAY] = persons.step_shares(i, 1) / one
            found[Kind.BEFORE] = persons.step_shares(i, 2) / one
        if layout.order is Order.NONE:
            found[Kind.SIBLING] = found[Kind.ALIKE] = pair_shares(persons, i, ordered=False) / one
        return found

    def _laws(self) -> list[_Law]:
        """Return the laws of the table's attributes in drawing order; set all their values to 0 first."""
        model, i, rows = self.model, self.table, self.persons.tables[self.table]
        parents, found = int(rows.parent.max(initial=-1)) + 1, []
        for key, one in model.conditionals.items():
            if key[0] != i:
                continue
            rows.values[one.attribute] = np.zeros(len(rows), np.int64)
            above = {
                (k, j): self._of_parent(part)
                for k, f in enumerate(one.factors) for j, part in enumerate(f.table.parts or (f.table,))
                if part.kind is Kind.PARENT
            }  # fmt: skip
            barriers = tuple(b for b in model.barriers if (b.table, b.attribute) == key)
            among = Among(model.layout, i, one.attribute, parents)
            into = None if self.expected is None else self.expected.ones[key]
            by_factor = [] if self.expected is None else self.expected.factors[key]
            groupings, which = _groupings_of(one)
            found.append(_Law(one, among, barriers, model.possible.get(key), above, groupings, which, into, by_factor))
        return found

    def _sums(self) -> dict[str, IntArray]:
        """Return zeros, (2, rows), by name of each attribute whose mean rank over earlier rows a law depends on.

        They will hold the sum and the number of ranks over the earlier rows of the same parent.  A rank is the place of
        a value in the order of the attribute, from 0 to `RANKS` - 1.
        """
        many = len(self.persons.tables[self.table])
        factors = (f for (i, _), one in self.model.conditionals.items() if i == self.table for f in one.factors)
        looked = {f.table.other for f in factors if f.table.kind is Kind.BEFORE and _ranks(f.table)}
        return {name: np.zeros((2, many), np.int64) for name in sorted(looked)}

    def _logarithms(
        self, law: _Law, rank: int, index: IntArray, given: Sequence[tuple[int, Sequence[IntArray]]]
    ) -> FloatArray:
        """Return unnormalised log-probabilities of an attribute's cells in the rows ``index``, (cells, rows of ``index``).

        Log-probabilities are `IMPOSSIBLE` where rules forbid a cell.  Each row is number ``rank`` of its parent's rows,
        from 0; ``given`` is the result of `_all_given`.  Cells are the first axis, since numpy adds up long rows of an
        array in a fraction of the time that many short ones take.
        """
        rows, layout, of = self.persons.tables[self.table], self.model.layout.tables[self.table], law.of
        if len(of.base) > 1:
            z = np.repeat(of.base.T, np.bincount(rows.group[index], minlength=len(of.base)), axis=1)
        else:
            z = np.broadcast_to(of.base.T, (of.base.size, len(index))).copy()
        pushed: dict[int, FloatArray] = {}  # by grouping, what factors say of its groups
        for k, groups in given:
            theta, place = of.factors[k].theta, law.which[k]
            if place < 0:
                for cells in groups:
                    earlier = of.factors[k].table.grouping.of(cells, rows.group[index - 1])
                    z[cells, np.arange(len(index))] += theta[earlier, 0]
                continue
            said = theta.T.take(groups[0], axis=1) if len(groups) == 1 else theta.T @ _times_seen(groups, len(theta))
            if place in pushed:
                pushed[place] += said
            else:
                pushed[place] = said
        for place, said in pushed.items():
            _spread_cells(z, said, law.groupings[place], rows, index)
        is_period = layout.period == of.attribute
        if is_period:
            _forbid_periods(z, rows, index, rank, rows.values[of.attribute], unique=layout.unique)
        for barrier in law.barriers:
            follow = rows.many[index] - 1 - rank if is_period and layout.unique else None
            _obey(z, barrier.possible.T.take(self._drawn_before(barrier, index), axis=1), follow)
        if law.possible is not None:
            _obey(z, law.possible[:, None], None)
        for possible in law.among.allowed(rows.parent[index], rows.many[index] - rank):
            _obey(z, possible.T, None)
        if of.independent > 0:
            before = rows.values[of.attribute][index - 1] if rank else None
            left = np.asarray(1 + of.independent * (rows.many[index] - rank - 1), np.float64)
            same = np.asarray(of.independent * self._run_of_equal(of.attribute, rank, index), np.float64)
            _in_order(z, left, before, same)
        return z

    def _run_of_equal(self, attribute: str, rank: int, index: IntArray) -> IntArray:
        """Return how many rows just before each row have one value, without a gap, (rows of ``index``,); at least 1."""
        values = self.persons.tables[self.table].values[attribute]
        found, going = np.ones(len(index), np.int64), np.ones(len(index), np.bool_)
        for back in range(2, rank + 1):
            going &= values[index - back] == values[index - 1]
            if not going.any():
                break
            found += going
        return found

    def _to_heaps(
        self, heaps: DaysToHeaps, laws: Sequence[_Law], rank: int, index: IntArray, sums: Mapping[str, IntArray]
    ) -> FloatArray:
        """Return terms of the log-probabilities of days between two dates, (cells of the days, rows of ``index``).

        With these terms, days that end at a second date which many rows have are drawn as often as rows have that date;
        see `DaysToHeaps`.
        """
        names = [law.of.attribute for law in laws]
        law, rows = laws[names.index(heaps.barrier.attribute)], self.persons.tables[self.table]
        later = {*names[names.index(heaps.barrier.days) :]}
        known = [k for k, f in enumerate(law.of.factors) if not later & _of_same_row(f.table)]
        given = self._all_given(law, known, rank, index, sums)
        barriers = tuple(
            one for one in law.barriers if not one.days and (one.above != one.table or one.other not in later)
        )
        likely = _softmax(self._logarithms(replace(law, barriers=barriers), rank, index, given))
        both = [f for f in law.of.factors if f.table.kind is Kind.ROW and f.table.other == heaps.barrier.days]
        related = np.zeros((self.model.layout.tables[self.table].groups, *heaps.possible.shape[1:]))
        for f in both:
            first, second = (
                np.broadcast_to(one.groups, (len(related), one.groups.shape[1]))
                for one in (_grouping(f.table), f.table.grouping)
            )
            related += f.theta[first[:, :, None], second[:, None, :]]
        first_day = self._drawn_before(replace(heaps.barrier, days=""), index)
        return heaps.logarithms(likely, first_day, rows.group[index], np.exp(related))

    def _take(self, law: _Law, index: IntArray, cells: IntArray) -> None:
        """Store the ``cells`` drawn for the rows ``index``; update what later draws depend on.

        Later draws depend on the values that rules between siblings forbid, and on the row's period.
        """
        rows, layout = self.persons.tables[self.table], self.model.layout.tables[self.table]
        rows.values[law.of.attribute][index] = cells
        law.among.drawn(rows.parent[index], cells)
        if layout.period == law.of.attribute:
            rows.period[index] = cells
            rows.group[index] = layout.group_of_period[cells]

    def _expect(
        self,
        law: _Law,
        index: IntArray,
        given: Sequence[tuple[int, Sequence[IntArray]]],
        probability: FloatArray,
        shares: Mapping[Kind, FloatArray],
    ) -> None:
        """Add the weighted probabilities of drawn rows' cells to the law's expected tables, in persons, in place.

        A fit computes its next step from these tables; without a fit there are none, and nothing happens.

        The rows ``index``, (n,), have ``probability``, (cells, n), in the law; ``given`` is the result of `_all_given`,
        and ``shares`` the result of `_shares`.
        """
        if law.expected is None:
            return
        rows, one = self.persons.tables[self.table], law.of
        group = rows.group[index] if len(one.base) > 1 else np.zeros(len(index), np.int64)
        weight = shares[Kind.ONE if len(one.base) > 1 else Kind.ROW][index]
        law.expected[:] += _summed_by(group, probability * weight, len(law.expected))
        grouped: dict[int, FloatArray] = {}
        for k, groups in given:
            table, place, into = one.factors[k].table, law.which[k], law.by_factor[k]
            weight = shares[table.weighs_as][index]
            if place < 0:
                for cells in groups:
                    earlier = table.grouping.of(cells, rows.group[index - 1])
                    stayed = probability[cells, np.arange(len(index))] * weight
                    into[:, 0] += np.bincount(earlier, stayed, len(into))
                continue
            if place not in grouped:
                grouped[place] = _by_group(probability, law.groupings[place], rows, index)
            weighted = grouped[place] * weight
            if len(groups) == 1:
                into += _summed_by(groups[0], weighted, len(into))
            else:
                into += _times_seen(groups, len(into)) @ weighted.T

    def _drawn_before(self, barrier: Barrier, index: IntArray) -> IntArray:
        """Return the earlier drawn cell on which a rule's restriction depends, (rows of ``index``,).

        If the restriction also depends on the days between, the result is cell * (number of cells of days) + cell of
        days.
        """
        rows_above, layout = self.persons.tables[barrier.above], self.model.layout.tables[barrier.above]
        in_pattern = barrier.other == layout.period and layout.order is Order.PATTERN
        above = rows_above.period if in_pattern else rows_above.values[barrier.other]
        if barrier.above != barrier.table:
            above = above[self.persons.ancestor(barrier.table, barrier.above)]
        if not barrier.days:
            return above[index]
        days = self.model.layout.axis(barrier.table, barrier.days).size
        return above[index] * days + self.persons.tables[self.table].values[barrier.days][index]

    def _of_parent(self, table: PersonTable) -> IntArray:
        """Return the group of an ancestor row's attribute, on which each row's law depends, (rows,)."""
        above = self.persons.tables[table.above]
        grouping = _grouping(table)
        return grouping.of(above[table.other], above.group)[self.persons.ancestor(table.table, table.above)]

    def _all_given(
        self, law: _Law, some: Iterable[int], rank: int, index: IntArray, sums: Mapping[str, IntArray]
    ) -> list[tuple[int, list[IntArray]]]:
        """Return (k, indices) of each factor k in ``some`` that applies to rows of this rank.

        ``indices`` holds, for each earlier row that the factor depends on, the position on its first axis, (rows of
        ``index``,).
        """
        found = []
        for k in some:
            groups = [self._given(law, k, index, sums, back=back) for back in _looks_back(law.of.factors[k], rank)]
            if groups:
                found.append((k, groups))
        return found

    def _given(self, law: _Law, k: int, index: IntArray, sums: Mapping[str, IntArray], *, back: int) -> IntArray:
        """Return the position on the first axis of factor ``k``'s table for some rows, (rows of ``index``,).

        The position is the group of the conditioning values.  The factor of a triple conditions on two attributes, so
        their groups are combined to one.  The conditioning row is ``back`` rows before each row.
        """
        table = law.of.factors[k].table
        if table.kind is not Kind.TRIPLE:
            return self._given_one(table, law.above.get((k, 0)), index, sums, back=back)
        a, b = (
            self._given_one(part, law.above.get((k, j)), index, sums, back=back) for j, part in enumerate(table.parts)
        )
        return a * table.parts[1].sizes(self.model.layout)[0] + b

    def _given_one(
        self, table: PersonTable, above: IntArray | None, index: IntArray, sums: Mapping[str, IntArray], *, back: int
    ) -> IntArray:
        """Return the group of a two-attribute table's conditioning attribute for some rows, (rows of ``index``,).

        For tables of equal values it is the conditioning row's cell.  In tables of the period given the row before
        (`Kind.ENTRY`), a first row has an extra group, after all others.

        Parameters
        ----------
        table
            The two-attribute table.
        above
            (rows,) group of an ancestor row's attribute; ``None`` if the conditioning row is in the same table.
        index
            Positions of the rows.
        sums
            By attribute, (2, rows) sum and number of ranks over the earlier rows of a row's parent, for conditioning on
            a mean rank.
        back
            The conditioning row is this many rows before each row; used for sibling rows and for equal values.
        """
        rows = self.persons.tables[self.table]
        if above is not None:
            return above[index]
        match table.kind:
            case Kind.STAY | Kind.ALIKE:
                return rows.values[table.attribute][index - back]
            case Kind.SIBLING:
                return _grouping(table).of(rows.values[table.other][index - back], rows.group[index - back])
            case Kind.ROW:
                return _grouping(table).of(rows.values[table.other][index], rows.group[index])
            case Kind.STEP:
                return _grouping(table).of(rows.values[table.other][index - 1], rows.group[index - 1])
            case Kind.ENTRY:
                before = _grouping(table).of(rows.values[table.other][index - 1], rows.group[index - 1])
                return np.where(rows.rank[index] > 0, before, _grouping(table).size)
        grouping = _grouping(table)
        if not _ranks(table):
            return grouping.of(rows.values[table.other][index - 2], rows.group[index - 2])
        both = sums[table.other]
        return group_of_mean(grouping, both[0, index], both[1, index])


def _groupings_of(one: Conditional) -> tuple[tuple[Grouping, ...], tuple[int, ...]]:
    """Return the distinct groupings of an attribute's cells in its factors, and the position of each factor's among them.

    The position is -1 for a factor of single cells.  So each grouping is applied only once.
    """
    different: list[Grouping] = []
    which = []
    for f in one.factors:
        mine = f.table.grouping
        if f.table.kind in (Kind.STAY, Kind.ALIKE):
            which.append(-1)
            continue
        if not any(mine is grouping for grouping in different):
            different.append(mine)
        which.append(next(i for i, grouping in enumerate(different) if mine is grouping))
    return tuple(different), tuple(which)


def _by_group(probability: FloatArray, grouping: Grouping, rows: Rows, index: IntArray) -> FloatArray:
    """Return the probability of each group of cells, (groups, rows), from the probabilities of cells, (cells, rows).

    Tables are measured over groups, so a fit compares expected counts of groups.
    """
    found = np.empty((grouping.size, len(index)))
    for g, here in _periods(grouping, rows, index):
        found[:, here] = (np.arange(grouping.size)[:, None] == grouping.groups[g]).astype(np.float64) @ probability[
            :, here
        ]
    return found


def _spread_cells(z: FloatArray, said: FloatArray, grouping: Grouping, rows: Rows, index: IntArray) -> None:
    """Add terms of groups, (groups, rows), to the log-probabilities of their cells, (cells, rows), in place.

    ``z`` holds the log-probabilities and ``said`` the terms, for the rows ``index``.  Which cells are one group depends
    on the row's group of periods.
    """
    for g, here in _periods(grouping, rows, index):
        z[:, here] += said[:, here][grouping.groups[g]]


def _by_period(rows: Rows, index: IntArray) -> IntArray:
    """Return positions of rows, sorted by the rows' group of periods.

    Then the rows of a group are a slice of any array over ``index``, which numpy neither searches nor copies.
    """
    return index[np.argsort(rows.group[index], kind="stable")]


def _periods(grouping: Grouping, rows: Rows, index: IntArray) -> Iterator[tuple[int, slice]]:
    """Yield each group of periods that a grouping distinguishes, and the slice of ``index`` that holds its rows.

    ``index`` is sorted by `_by_period`.
    """
    if len(grouping.groups) == 1:
        yield 0, slice(None)
        return
    ends = np.searchsorted(rows.group[index], np.arange(len(grouping.groups) + 1))
    for g, (start, stop) in enumerate(itertools.pairwise(ends.tolist())):
        if start < stop:
            yield g, slice(start, stop)


def _masked(probability: FloatArray, mask: BoolArray | FloatArray) -> FloatArray:
    """Multiply probabilities, (cells, rows), by a mask and normalise them, in place; return their sums before, (rows,).

    The sum is the probability that the row is allowed; persons are chosen by it.  A row with sum 0 becomes all 0.
    """
    probability *= mask[:, None]
    inside = np.asarray(probability.sum(axis=0), np.float64)
    probability /= np.maximum(inside, 1e-300)
    return inside


def _chosen(layout: Layout, tables: list[Rows], persons: IntArray) -> list[Rows]:
    """Return the rows of chosen persons in all tables, with parents renumbered; a person may be chosen more than once.

    Persons are so resampled in proportion to the probability of a condition.
    """
    found: list[Rows] = []
    chosen: list[IntArray] = []
    for i, rows in enumerate(tables):
        above = layout.tables[i].parent
        if above < 0:
            parent, rank, many, index = np.arange(len(persons)), rows.rank[persons], rows.many[persons], persons
        else:
            sizes = np.bincount(rows.parent, minlength=len(tables[above]))
            parent, rank, many = spread(sizes[chosen[above]])
            index = (np.cumsum(sizes) - sizes)[chosen[above]][parent] + rank
        values = {name: codes[index] for name, codes in rows.values.items()}
        found.append(Rows(parent, rank, many, rows.period[index], rows.group[index], values))
        chosen.append(index)
    return found


def _times_seen(groups: Sequence[IntArray], size: int) -> FloatArray:
    """Return how often each of ``size`` groups occurs among several earlier rows of each of n rows, (size, n).

    ``groups`` holds, for each earlier row, the group that it has, (n,).  One matrix product with the result adds up the
    terms, or the expected counts, of several earlier rows.
    """
    many = len(groups[0])
    places = np.concatenate([one * many + np.arange(many) for one in groups])
    return np.bincount(places, minlength=size * many).reshape(size, many).astype(np.float64)


def _summed_by(given: IntArray, weighted: FloatArray, size: int) -> FloatArray:
    """Return the sums of columns of ``weighted``, (k, n), by their position ``given``, (n,): (size, k).

    This adds the probabilities of many rows to an expected table.
    """
    found = np.empty((size, len(weighted)))
    for column, one in enumerate(weighted):
        found[:, column] = np.bincount(given, one, size)
    return found


def _grouping(table: PersonTable) -> Grouping:
    """Return the grouping of a table's conditioning attribute; raise InternalError if it has none."""
    if table.other_grouping is None:
        raise InternalError("a table of two attributes needs a grouping of each")
    return table.other_grouping


def _ranks(table: PersonTable) -> bool:
    """Return whether a table's conditioning attribute has ranks (an order), so that they can be averaged over rows."""
    return table.other_grouping is not None and table.other_grouping.ranks is not None


def _looks_back(f: Factor, rank: int) -> Sequence[int]:
    """Return how many rows back the rows are that a factor depends on, for a row of this rank (0 for a parent's first row).

    Return () if the factor does not apply to such rows, and (0,) if `_Pass._given_one` needs no such number.
    """
    match f.table.weighs_as:
        case Kind.SIBLING | Kind.ALIKE:
            return range(1, min(rank, MOST_SIBLINGS - 1) + 1)
        case Kind.STEP | Kind.STAY:
            return (1,) if rank >= 1 else ()
        case Kind.BEFORE:
            return (0,) if rank >= 2 else ()
    return (0,)


def _forbid_periods(z: FloatArray, rows: Rows, index: IntArray, rank: int, values: IntArray, *, unique: bool) -> None:
    """Forbid periods before the previous row's, in place, for the rows ``index``.

    Each of these is number ``rank`` of its parent's rows, from 0.  With ``unique`` periods, also forbid the previous
    row's, and periods after which further rows would find none left.
    """
    cells = np.arange(len(z))[:, None]
    if rank:
        z[cells < values[index - 1] + unique] = IMPOSSIBLE
    if unique:
        last = np.flatnonzero(z.max(axis=1) > IMPOSSIBLE / 2).max(initial=0)
        z[cells > last - (rows.many[index] - 1 - rank)] = IMPOSSIBLE


def _in_order(z: FloatArray, left: FloatArray, before: IntArray | None, same: FloatArray) -> None:
    """Turn the law of a single row's period into the law of the next period of several rows in order, in place.

    The periods of one parent row's rows are independent draws from the given law, sorted (order statistics).  The next
    period is the smallest draw that is left.  It is in a cell with probability s^left - t^left.  Here s is the probability
    of this cell and later ones, and t of later ones.  The cell of the previous row holds a binomial number of the draws,
    and ``same`` of them are known.  With ``left`` 1 and ``same`` 0, the law is unchanged.

    Parameters
    ----------
    z
        (cells, rows) log-probabilities of the rows' periods; `IMPOSSIBLE` before the previous row's.
    left
        (rows,) number of the independent draws that are left, including the next.
    before
        (rows,) cell of the previous row; ``None`` for first rows.
    same
        (rows,) number of the draws that are known to be in this cell.
    """
    likely = _softmax(z.copy())
    chance = np.cumsum(likely[::-1], axis=0)[::-1] ** left
    chance[:-1] -= chance[1:]
    if before is not None:
        here = before, np.arange(len(before))
        share, after = likely[here], chance.sum(axis=0) - chance[here]
        known = betainc(same, left + 1, share)
        again = np.divide(betainc(same + 1, left, share), known, out=np.zeros(len(left)), where=known > 0)
        chance *= np.divide(1 - again, after, out=np.zeros(len(left)), where=after > 0)
        chance[here] = again
    z[:] = np.where(chance > 0, np.log(np.maximum(chance, LEAST)), IMPOSSIBLE)


def _obey(z: FloatArray, allowed: BoolArray, follow: IntArray | None) -> None:
    """Forbid cells that are not allowed, in place, except in rows that would have none left; these rows are rejected later.

    ``z`` and ``allowed`` are (cells, rows).  ``follow`` is the number of rows of later periods that must still find room.
    """
    left: BoolArray = np.logical_and(z > IMPOSSIBLE / 2, allowed)
    if follow is not None:
        room = np.cumsum(left[::-1], axis=0)[::-1] > follow
        left = np.where((left & room).any(axis=0), left & room, left)
    z[~left & left.any(axis=0)] = IMPOSSIBLE


def _softmax(z: FloatArray) -> FloatArray:
    """Turn log-probabilities, (k, n), into probabilities whose columns sum to 1, in place."""
    z -= z.max(axis=0)
    np.exp(z, out=z)
    z /= z.sum(axis=0)
    return z


def _drawn(probability: FloatArray, rng: Generator) -> IntArray:
    """Draw one cell for each row from probabilities, (cells, rows); return (rows,)."""
    total = probability[0].copy()
    for one in probability[1:]:
        total += one
    wanted = rng.random(len(total)) * total
    # Added up again in the same order, the last sum is the total exactly, so that no cell of probability 0 is drawn.
    found, below = np.zeros(len(total), np.int64), probability[0].copy()
    for one in probability[1:]:
        found += below <= wanted
        below += one
    return found


def _add_ranks(both: IntArray, mine: list[Conditional], name: str, rows: Rows, index: IntArray) -> None:
    """Add the rank of some rows' values to the sum and number of ranks, and store them with the next row of the parent.

    A row's law may depend on the mean rank of the rows before it.  Values without a rank are left out.

    Parameters
    ----------
    both
        (2, rows) sums and numbers of ranks over the rows before each row, changed in place.
    mine
        The laws of the table's attributes.
    name
        The attribute whose ranks are added.
    rows
        The rows of the table.
    index
        Positions of the rows that were drawn last.
    """
    grouping = next(
        f.table.other_grouping for c in mine for f in c.factors if f.table.kind is Kind.BEFORE and f.table.other == name
    )
    if grouping is None or grouping.ranks is None:
        return
    values = rows.values[name][index]
    ranks = grouping.ranks[rows.group[index] if len(grouping.ranks) > 1 else 0, values]
    going = rows.rank[index] + 1 < rows.many[index]
    after = index[going] + 1
    both[0, after] = both[0, index[going]] + np.maximum(ranks, 0)[going]
    both[1, after] = both[1, index[going]] + (ranks >= 0)[going]


def _of_same_row(table: PersonTable) -> set[str]:
    """Return the attributes of the same row on which a table's law depends.

    An attribute that is drawn only later cannot be used, as where the days between two dates are drawn first.
    """
    return {part.other for part in table.parts or (table,) if part.kind is Kind.ROW}
