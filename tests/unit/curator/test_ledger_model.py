"""A ledger does what a few lines of Python with a dictionary do: any order of calls, threads and forgotten commits."""

import contextlib
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from old_ledger import CAPS, SPENDS, write_old_ledger
from strictness import warnings_kept

from synthdp import ZCDP, ApproxDP, Ledger, PureDP
from synthdp.errors import BudgetExceededError, LedgerError, LedgerWarning
from synthdp.privacy.neighbors import Adjacency

DATASETS = st.sampled_from(["patients", "visits", "empty", "patient"])
RELATIONS = st.sampled_from(
    [
        Adjacency(),
        Adjacency(),
        Adjacency("replace_one"),
        Adjacency("add_remove", "person"),
        Adjacency("add_remove", "person", 3),
        Adjacency("add_remove", "house"),
    ]
)
EIGHTHS = st.integers(1, 24).map(lambda i: i / 8)  # sums of which are exact
LOSSES = st.one_of(
    EIGHTHS.map(PureDP), EIGHTHS.map(ZCDP), st.builds(ApproxDP, EIGHTHS, st.integers(0, 4).map(lambda i: i / 1024))
)
STATED = {  # what adds up, by the currency of the loss and of the cap
    (PureDP, PureDP): lambda loss: (loss.epsilon, 0.0),
    (PureDP, ApproxDP): lambda loss: (loss.epsilon, 0.0),
    (PureDP, ZCDP): lambda loss: (loss.epsilon**2 / 2, 0.0),
    (ApproxDP, ApproxDP): lambda loss: (loss.epsilon, loss.delta),
    (ZCDP, ZCDP): lambda loss: (loss.rho, 0.0),
}


MEMORY = next((folder for folder in ["/dev/shm"] if Path(folder).is_dir()), None)  # where a sync takes no time


class Refused(Exception):  # noqa: N818 - an outcome
    """The model's refusal, with the error that the ledger must raise."""


@dataclass
class DataSet:
    relation: tuple | None = None
    cap: PureDP | ApproxDP | ZCDP | None = None


@dataclass
class Model:
    """A ledger in plain Python."""

    datasets: dict[str, DataSet] = field(default_factory=dict)
    spends: list[list] = field(default_factory=list)  # name, loss, state, relation

    def numbers(self, loss, cap) -> tuple[float, float]:
        if (type(loss), type(cap)) not in STATED and not (type(loss) is ApproxDP and loss.delta == 0):
            raise Refused(LedgerError)
        plain = PureDP(loss.epsilon) if type(loss) is ApproxDP and type(cap) is not ApproxDP else loss
        return STATED[type(plain), type(cap)](plain)

    def spent(self, name, cap) -> list[tuple[float, float]]:
        return [self.numbers(loss, cap) for owner, loss, *_ in self.spends if owner == name]

    def reserve(self, name, loss, adjacency) -> int:
        found = self.datasets.get(name) or DataSet((adjacency.neighbors, adjacency.unit))
        if found.relation != (adjacency.neighbors, adjacency.unit):
            raise Refused(LedgerError)
        if found.cap is not None:
            parts = [*self.spent(name, found.cap), self.numbers(loss, found.cap)]
            whole = self.numbers(found.cap, found.cap)
            if any(sum(part[i] for part in parts) > whole[i] for i in range(2)):
                raise Refused(BudgetExceededError)
        self.datasets[name] = found
        self.spends.append([name, loss, "reserved", found.relation])
        return len(self.spends)

    def declare(self, name, relation) -> None:
        if any(owner == name and told not in (None, relation) for owner, *_, told in self.spends):
            raise Refused(LedgerError)
        self.datasets.setdefault(name, DataSet()).relation = relation

    def set_cap(self, name, cap, relation) -> None:
        found = self.datasets.get(name, DataSet((Adjacency().neighbors, None)))
        if (relation or found.relation) is None:
            raise Refused(LedgerError)
        if relation is not None and any(
            owner == name and told not in (None, relation) for owner, *_, told in self.spends
        ):
            raise Refused(LedgerError)
        self.spent(name, cap)
        self.datasets[name] = DataSet(relation or found.relation, cap)


class LedgerMachine(RuleBasedStateMachine):
    """Call the ledger and the model alike; their outcomes and what they then show must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.path = Path(self.folder.name) / "l.sqlite"
        self.book = Ledger(self.path)
        self.model = Model()

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(old=st.booleans())
    def begin(self, old: bool) -> None:
        if old:
            write_old_ledger(self.path)
            self.model.datasets = {name: DataSet(None, cap) for name, cap in CAPS.items()}
            self.model.spends = [[name, loss, state, None] for _, name, loss, _, state in SPENDS]

    def agree(self, call, expected) -> None:
        """Make a call; it must return, or raise, what the model's does."""
        try:
            wanted: object = expected()
        except Refused as refusal:
            wanted = refusal.args[0]
        try:
            got: object = call()
        except (LedgerError, BudgetExceededError) as error:
            got = type(error)
        assert got == wanted

    @rule(name=DATASETS, loss=LOSSES, adjacency=RELATIONS)
    def reserve(self, name, loss, adjacency) -> None:
        before = len(self.model.spends)
        with warnings_kept() as said:
            self.agree(
                lambda: self.book.reserve(name, loss, what="x", adjacency=adjacency),
                lambda: self.model.reserve(name, loss, adjacency),
            )
        written = len(self.model.spends) > before
        uncapped = name in self.model.datasets and self.model.datasets[name].cap is None
        assert [w.category for w in said] == [LedgerWarning] * (written and uncapped)

    @precondition(lambda self: any(dataset.relation for dataset in self.model.datasets.values()))
    @rule(data=st.data(), epsilon=EIGHTHS)
    def spend_as_it_is_counted(self, data, epsilon) -> None:
        """Most calls of real users: the same neighbours again, until the cap refuses."""
        counted = {name: dataset.relation for name, dataset in self.model.datasets.items() if dataset.relation}
        name = data.draw(st.sampled_from(sorted(counted)))
        self.reserve(name, PureDP(epsilon), Adjacency(*counted[name]))

    @precondition(lambda self: self.model.spends)
    @rule(data=st.data())
    def commit(self, data) -> None:
        """Spends that are never committed are those of processes that died."""
        number = data.draw(st.integers(1, len(self.model.spends)))
        self.book.commit(number)
        self.model.spends[number - 1][2] = "committed"

    @rule(name=DATASETS, cap=LOSSES, adjacency=st.none() | RELATIONS)
    def set_cap(self, name, cap, adjacency) -> None:
        named = {} if adjacency is None else {"neighbors": adjacency.neighbors, "privacy_unit": adjacency.unit}
        relation = None if adjacency is None else (adjacency.neighbors, adjacency.unit)
        self.agree(lambda: self.book.set_cap(name, cap, **named), lambda: self.model.set_cap(name, cap, relation))

    @rule(name=DATASETS, adjacency=RELATIONS)
    def declare(self, name, adjacency) -> None:
        self.agree(
            lambda: self.book.declare(name, neighbors=adjacency.neighbors, privacy_unit=adjacency.unit),
            lambda: self.model.declare(name, (adjacency.neighbors, adjacency.unit)),
        )

    @rule(name=DATASETS, loss=LOSSES, adjacency=RELATIONS)
    def race(self, name, loss, adjacency) -> None:
        """Four at once: as many win as would one after the other."""

        def outcome(call) -> type:
            try:
                call()
            except Refused as refusal:
                return refusal.args[0]
            except (LedgerError, BudgetExceededError) as error:
                return type(error)
            return int

        def ask(_: int) -> type:
            return outcome(lambda: Ledger(self.path).reserve(name, loss, what="x", adjacency=adjacency))

        wanted = Counter(outcome(lambda: self.model.reserve(name, loss, adjacency)) for _ in range(4))
        with warnings.catch_warnings(), ThreadPoolExecutor(4) as threads:
            warnings.simplefilter("ignore", LedgerWarning)
            assert Counter(threads.map(ask, range(4))) == wanted

    @rule()
    def reopen(self) -> None:
        self.book = Ledger(self.path)

    @invariant()
    def the_ledger_shows_what_the_model_holds(self) -> None:
        shown = [(e.dataset, e.loss, e.state, e.adjacency) for e in self.book.entries()]
        told = [(*rest, a and (a.neighbors, a.unit)) for *rest, a in shown]
        assert told == [tuple(spend) for spend in self.model.spends]
        assert self.book.datasets() == sorted(self.model.datasets)
        for name, dataset in self.model.datasets.items():
            counted = self.book.adjacency(name)
            assert (counted and (counted.neighbors, counted.unit)) == dataset.relation
            assert self.book.cap(name) == dataset.cap

    @invariant()
    def what_is_left_is_the_cap_less_all_spends_of_one_relation(self) -> None:
        for name, dataset in self.model.datasets.items():
            told = {relation for owner, *_, relation in self.model.spends if owner == name} - {None}
            assert told <= {dataset.relation}
            if dataset.cap is not None:
                with contextlib.suppress(Refused, LedgerError):
                    left, whole = self.book.left(name), self.model.numbers(dataset.cap, dataset.cap)
                    spent = sum(part[0] for part in self.model.spent(name, dataset.cap))
                    main = 0.0 if left is None else self.model.numbers(left, dataset.cap)[0]
                    assert main == max(0.0, whole[0] - spent)


LedgerMachine.TestCase.settings = settings(stateful_step_count=25)
TestLedgerMachine = LedgerMachine.TestCase
