"""The receipt: what was spent on what, for which neighbours, under which declared assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.errors import InternalError
from synthdp.figures import entry, text_table
from synthdp.markup import render
from synthdp.privacy.accounting import gdp_to_epsilon, zcdp_to_epsilon
from synthdp.privacy.loss import (
    ZCDP,
    ApproxDP,
    GaussianDP,
    PrivacyLoss,
    PureDP,
    best_odds,
    combined,
    from_document,
    to_document,
)
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.schema.columns import ALSO_DRAFTED, DISCOVERED, DRAFTED, Column, is_drafted
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.schema.database import DatabaseSchema
    from synthdp.schema.relation import Relation


PUBLIC = "column names, their order and their types are public; the table has at least one row"
"""What every guarantee assumes to be public, as the receipt's sentence."""

AT_RISK = ": they may tell of single rows, which no noise protects from that"
"""A warning that the receipt adds where bounds or levels were read from the private table itself."""

ONE_ROW = "each row is a unit of its own: a person with several rows is protected one row at a time"
"""The receipt's sentence on the privacy unit where no column names persons."""


def assumptions(
    declared: Schema | DatabaseSchema, complete: Schema | DatabaseSchema, adjacency: Adjacency
) -> tuple[str, ...]:
    """Return the receipt's sentences on what the guarantee assumes about units, declarations and rules.

    Parameters
    ----------
    declared
        The declarations that were made before any row was read.
    complete
        The same declarations, completed by discovery.
    adjacency
        The neighbours of the promise.
    """
    if not isinstance(declared, Schema) and not isinstance(complete, Schema):
        tables = (
            line for name in declared.names for line in _table(name, declared.tables[name], complete.tables[name])
        )
        return (*_persons(declared, adjacency), *tables)
    if not isinstance(declared, Schema) or not isinstance(complete, Schema):
        raise InternalError("one table is not several")
    return (PUBLIC, *_units(adjacency), *_declared(declared), *_open(declared, complete), *_rules(declared))


def _units(adjacency: Adjacency) -> list[str]:
    """Return the receipt's sentences on the privacy unit of one table, such as a person."""
    if adjacency.unit is None:
        return [ONE_ROW, *["the number of rows is public"] * adjacency.rows_are_public]
    who = f"a person has one id in column {adjacency.unit!r}, in one spelling; a row without an id is a unit of its own"
    return [who, *["the number of units is public"] * adjacency.rows_are_public]


def _persons(schema: DatabaseSchema, adjacency: Adjacency) -> list[str]:
    """Return the receipt's sentences on the unit of several tables, a person by their key, and on each relation."""
    lines = [
        "names, order and types of tables and columns are public",
        f"a person has one {adjacency.quoted_unit}, in one spelling in all tables; a row without one is a person of its own",
        "rows of other persons that tell of a person are not that person's: nothing protects what they say",
        *map(_related, schema.relations),
    ]
    return lines + ["the number of persons, by their keys in all tables, is public"] * adjacency.rows_are_public


def _related(relation: Relation) -> str:
    """Return the receipt's sentence on one relation between tables, such as its limit on child rows."""
    each = f"each row of {relation.parent!r} has at most {relation.at_most} rows of {relation.child!r} that are used"
    by = "" if relation.order is None else f", ordered by {relation.order!r}" + ", one each" * relation.unique
    return f"{each}{by}: declared, not taken from these tables"


def _table(name: str, declared: Schema, complete: Schema) -> list[str]:
    """Return the receipt's sentences on the declarations of one of several tables."""
    lines = (*_declared(declared), *_open(declared, complete), *_rules(declared))
    return [f"table {name!r}: {line}" for line in lines]


def _declared(schema: Schema) -> list[str]:
    """Return the receipt's sentences on the sources of declared bounds and levels, one for each source.

    Bounds that were read from private rows would break the guarantee, so the reader must see where they are from.
    Sentences on other drafted settings, and on texts that stand for missing values, follow.
    """
    read = [name for name, column in schema.items() if not column.names_rows]
    known: dict[str | None, list[str]] = {}
    for name in read:
        if name not in schema.undeclared:
            known.setdefault(schema[name].source, []).append(name)
    lines = [
        _known_from(schema[names[0]], "all columns" if names == read else ", ".join(names)) for names in known.values()
    ]
    return lines + _also_drafted(schema, read) + _missing(schema)


def _also_drafted(schema: Schema, read: list[str]) -> list[str]:
    """Return the receipt's sentences on settings beside bounds and levels that a draft read from the private rows.

    There is one for each list of such settings, which names its columns among those in ``read``.
    """
    known: dict[str, list[str]] = {}
    for name in read:
        source = str(schema[name].source)
        settings = source.partition(ALSO_DRAFTED)[2]
        if name in schema.undeclared and is_drafted(schema[name]):
            settings = "all settings"
        if settings:
            known.setdefault(settings, []).append(name)
    return [
        f"{settings} of {', '.join(names)} were {DRAFTED} and accepted{AT_RISK}" for settings, names in known.items()
    ]


def _known_from(column: Column, names: str) -> str:
    """Return the receipt's sentence on the source of some columns' bounds and levels: drafted, discovered or declared."""
    which = f"bounds and levels of {names}"
    if is_drafted(column):
        accepted = "" if "accepted" in str(column.source) else " and accepted"
        return f"{which} were {column.source}{accepted}{AT_RISK}"
    if column.source == DISCOVERED:
        return f"{which} were {DISCOVERED} by an earlier release: what it cost is not counted here"
    source = "" if column.source is None else f" (source: {column.source.partition(ALSO_DRAFTED)[0]})"
    return f"{which} were declared and do not come from this table{source}"


def _missing(schema: Schema) -> list[str]:
    """Return the receipt's sentence on the texts that mean a missing value in a text file, as a list of at most one."""
    texts = () if schema.csv is None else schema.csv.missing
    said = ", ".join(map(repr, texts))
    return [f"in a file of texts, these stand for a missing value, as was declared: {said}"] if texts else []


def _open(declared: Schema, complete: Schema) -> list[str]:
    """Return the receipt's sentences on columns whose bounds or levels were not declared."""
    found = [name for name in declared.undeclared if name not in complete.undeclared]
    lines = [f"bounds and levels of {', '.join(found)} were not declared: they were {DISCOVERED}"] if found else []
    if complete.undeclared:
        lines.append(f"bounds and levels of {', '.join(complete.undeclared)} are not known, and nothing rests on them")
    return lines


def _rules(schema: Schema) -> list[str]:
    """Return the receipt's sentence on declared rules between columns, as a list of at most one."""
    rules = len(schema.constraints)
    which = "a rule between columns was" if rules == 1 else f"{rules} rules between columns were"
    said = "; ".join(rule.in_words() for rule in schema.constraints)
    return [f"{which} declared, not taken from this table: {said}"] if rules else []


def odds_in_words(odds: float) -> str:
    """Return the receipt's sentence on an attacker's best probability of a right guess, for either neighbouring relation."""
    return (
        "if two neighbouring tables seem equally likely beforehand, somebody who has seen the release can tell which is "
        f"the real one with a probability of at most {odds:.1%}"
    )


UNTRACKED = "no ledger was given: other releases of the same data are not counted here"
"""The receipt's sentence where no ledger was given, so that other releases of the data are unknown."""

LARGEST_WRITTEN = 1e9
"""Noise standard deviations from here on are written with an exponent.  A convention."""

EXPLAINED = (
    "μ is the parameter of Gaussian DP: to tell whether one unit is in the table is at least as hard as to tell N(0, 1) "
    "from N(μ, 1) by one draw"
)
"""The receipt's sentence that explains the parameter of Gaussian DP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a receipt: a step that read private rows, with its noise and its loss.

    Parameters
    ----------
    step
        Purpose of the spend.
    mechanism
        The law of its noise.
    answers
        Number of answers.
    sensitivity
        The most that the noised vector moves between neighbours, in the norm of the law, in rows (or the step's unit).
    stddev
        Standard deviation of the noise on each number, in the same unit.
    loss
        Privacy loss of the step.
    noise, unit
        The least and the largest standard deviation of an answer's noise in what the answers count, and its name: "rows",
        "people", or another.  ``None`` in receipts of earlier versions.
    """

    step: str
    mechanism: str
    answers: int
    sensitivity: float
    stddev: float
    loss: PrivacyLoss
    noise: tuple[float, float] | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratorTerms:
    """The terms of a curator, fixed before any row was read; all its accounts share them.

    Parameters
    ----------
    total
        The most that all answers together may cost.
    schema
        The declared schema.
    ledger, dataset
        Where the spend is recorded, if anywhere: the file's name without its folder, and the data's name in it.
    place
        Where the ledger lies, as its user named it: for messages to this user, and never on a receipt.
    """

    total: PrivacyLoss
    schema: Schema | DatabaseSchema
    ledger: str | None
    dataset: str | None
    place: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The receipt of one release: every step that read private rows, its cost and noise, and the guarantee's assumptions.

    Parameters
    ----------
    total
        The whole loss, fixed before any row was read; all items together cost at most this.
    adjacency
        The neighbouring relation that the loss is stated for.
    items
        The steps in order.
    assumptions
        Sentences on the guarantee: whom it protects, and which declarations it relies on, with their sources.
    notes
        Sentences on the output for its readers.
    versions
        Versions of the packages that made the noise and the accounting.
    ledger, dataset, entries
        Name of the ledger's file without its folder, name of the data set in it, and numbers of the entries; if there
        is a ledger.
    """

    total: PrivacyLoss
    adjacency: Adjacency
    items: tuple[Item, ...]
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    ledger: str | None = None
    dataset: str | None = None
    entries: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the receipt as text of at most `synthdp.figures.WIDTH` characters a line."""
        fields = [("promise", str(self.total)), ("neighbours", str(self.adjacency))]
        if self.odds is not None:
            fields.append(("attacker", odds_in_words(self.odds)))
        lines = ["Privacy receipt", *chain.from_iterable(entry(name, said) for name, said in fields)]
        lines += _steps(self.groups())
        if self.items:
            lines += entry("noise", _laws(self.groups()))
            lines += entry("together", self.together)
        lines += chain.from_iterable(entry("", text) for text in self.explained)
        for title, texts in (("assumed", self.assumptions), ("notes", self.notes)):
            said_each = zip(chain([title], repeat("")), texts, strict=False)
            lines += chain.from_iterable(entry(head, text) for head, text in said_each)
        return "\n".join([*lines, *entry("ledger", self.record)])

    @property
    def record(self) -> str:
        """A sentence that says in which ledger the spend is recorded, and under which entries."""
        if self.ledger is None:
            return UNTRACKED
        numbers = "entry " + ", ".join(map(str, self.entries)) if self.entries else "recorded"
        return f"{numbers} in '{self.ledger}' for data set {self.dataset!r}"

    def _repr_html_(self) -> str:
        """Return the receipt as HTML for a notebook, collapsed to its guarantee."""
        return render("receipt.html", total=self.total, adjacency=self.adjacency, text=self)

    def groups(self) -> list[tuple[Item, ...]]:
        """Return the items in groups of one kind (equal first words, mechanism, kind of loss), to print a line for each."""
        found: dict[tuple[str, str, type[PrivacyLoss]], list[Item]] = {}
        for item in self.items:
            kind = item.step.partition(":")[0]
            found.setdefault((kind, item.mechanism, type(item.loss)), []).append(item)
        return [tuple(items) for items in found.values()]

    def sums(self) -> tuple[PrivacyLoss, ...]:
        """Return the total loss of the items for each kind of loss, such as Gaussian DP; the guarantee covers them all."""
        kinds = dict.fromkeys(type(item.loss) for item in self.items)
        return tuple(combined([item.loss for item in self.items if type(item.loss) is kind]) for kind in kinds)

    @property
    def together(self) -> str:
        """The items' total loss in words, and how it converts to the promised (epsilon, delta)."""
        sums = self.sums()
        said = " and ".join(map(str, sums))
        if len(sums) > 1 or not isinstance(self.total, ApproxDP):
            return said
        match sums[0]:
            case GaussianDP(mu, aside) if aside < self.total.delta:
                epsilon, how = gdp_to_epsilon(mu, self.total.delta - aside), " (squares of μ add up)"
            case ZCDP(rho):
                epsilon, how = zcdp_to_epsilon(rho, self.total.delta), ""
            case _:
                return said
        return f"{said}{how}, which is ε = {epsilon:.4g} at δ = {self.total.delta:.3g}"

    @property
    def explained(self) -> tuple[str, ...]:
        """Sentences that explain the symbols of the items' losses."""
        return (EXPLAINED,) * any(isinstance(item.loss, GaussianDP) for item in self.items)

    def noted(self, *notes: str) -> Receipt:
        """Return a copy of the receipt with more notes at its end, on what a reader should know of the output."""
        return replace(self, notes=(*self.notes, *notes))

    @property
    def odds(self) -> float | None:
        """The best probability with which an attacker tells which of two neighbouring tables is real.

        It is ``None`` for losses in zCDP or Gaussian DP alone; see `synthdp.privacy.loss.best_odds`.
        """
        if not isinstance(self.total, (PureDP, ApproxDP)):
            return None
        return best_odds(self.total.epsilon, self.total.delta if isinstance(self.total, ApproxDP) else 0.0)

    def to_document(self) -> dict[str, Any]:
        """Return the receipt as a JSON document, to be saved with a release."""
        return {
            "total": to_document(self.total),
            "neighbors": self.adjacency.neighbors.value,
            "privacy_unit": self.adjacency.unit,
            "max_rows_per_unit": self.adjacency.rows,
            **({"tables": dict(self.adjacency.tables)} if self.adjacency.tables else {}),
            "items": [
                {
                    "step": item.step,
                    "mechanism": item.mechanism,
                    "answers": item.answers,
                    "sensitivity": item.sensitivity,
                    "stddev": item.stddev,
                    "loss": to_document(item.loss),
                    **({} if item.noise is None else {"noise": list(item.noise), "unit": item.unit}),
                }
                for item in self.items
            ],
            "assumptions": list(self.assumptions),
            "notes": list(self.notes),
            "versions": dict(self.versions),
            "ledger": self.ledger,
            "dataset": self.dataset,
            "entries": list(self.entries),
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Receipt:
        """Return the receipt that a JSON document, saved with a release, describes."""
        adjacency = Adjacency(
            neighbors=Neighbors(document["neighbors"]),
            unit=document["privacy_unit"],
            rows=document["max_rows_per_unit"],
            tables=tuple(document.get("tables", {}).items()),
        )
        items = tuple(
            Item(
                **item
                | {"loss": from_document(item["loss"]), "noise": tuple(item["noise"]) if "noise" in item else None}
            )
            for item in document["items"]
        )
        return cls(
            total=from_document(document["total"]),
            adjacency=adjacency,
            items=items,
            assumptions=tuple(document["assumptions"]),
            notes=tuple(document["notes"]),
            versions=tuple(document["versions"].items()),
            ledger=document["ledger"],
            dataset=document["dataset"],
            entries=tuple(document.get("entries", ())),
        )


def _steps(groups: Sequence[tuple[Item, ...]]) -> list[str]:
    """Return the receipt's table of spends as lines of text, a row for each kind of step."""
    heads = ("spent on", "answers", "noise (± 1 stddev)", "loss")
    rows = [
        (step_of(items), f"{sum(item.answers for item in items):,}", noise_of(items), loss_of(items))
        for items in groups
    ]
    return text_table(heads, rows, left=(2, 3))


def _laws(groups: Sequence[tuple[Item, ...]]) -> str:
    """Return the noise laws in words: the most frequent one, and the steps with another."""
    by_law: dict[str, list[str]] = {}
    for items in groups:
        by_law.setdefault(items[0].mechanism, []).append(f"'{step_of(items)}'")
    most = max(by_law, key=lambda law: len(by_law[law]))
    others = [f"{law} in {', '.join(steps)}" for law, steps in by_law.items() if law != most]
    return f"{most}, in every step" + (f" but these: {'; '.join(others)}" if others else "")


def loss_of(items: Sequence[Item]) -> str:
    """Return the total loss of some items in words."""
    return str(combined([item.loss for item in items]))


def step_of(items: Sequence[Item]) -> str:
    """Return what items of one kind were for, in words; of several, with their number."""
    kind = items[0].step.partition(":")[0]
    return items[0].step if len(items) == 1 else f"{kind}, in {len(items)} steps"


def noise_of(items: Sequence[Item]) -> str:
    """Return the noise of items of one kind in words, such as "± 31 to 420 rows" (standard deviations).

    Receipts of earlier versions did not record the noise's unit: for them it is the least standard deviation alone.
    """
    noise = [item.noise for item in items if item.noise is not None]
    if len(noise) < len(items):  # of an earlier version, which knew no unit
        return f"stddev {min(item.stddev for item in items):.4g} or more"
    low, high = (_rounded(end) for end in (min(low for low, _ in noise), max(high for _, high in noise)))
    return f"± {low if low == high else f'{low} to {high}'} {items[0].unit}"


def _rounded(stddev: float) -> str:
    """Return a standard deviation with two significant digits, or as a whole number from 10 on.

    From `LARGEST_WRITTEN` on it has three digits and an exponent.
    """
    return f"{stddev:.2g}" if stddev < 9.95 else f"{stddev:,.0f}" if stddev < LARGEST_WRITTEN else f"{stddev:.3g}"
