"""Every mechanism, small: how it is built, what it is asked, and on which table it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from strictness import warnings_kept

from synthdp import (
    MWEM,
    AdaptiveMarginals,
    ApproxDP,
    Automatic,
    AverageFamily,
    Boolean,
    Categorical,
    Continuous,
    Curator,
    DecisionListRelease,
    FourierMarginals,
    GaussianAnswers,
    InteractiveMechanism,
    L1Fit,
    LaplaceAnswers,
    MedianMechanism,
    NetMechanism,
    ParityRelease,
    PolynomialRelease,
    PrivateBoosting,
    PrivateMultiplicativeWeights,
    Schema,
    SmoothSummary,
    SmoothSynthesis,
    SparseMWEM,
    SparseProjection,
    SparseWeights,
    StabilityHistogram,
    SymmetricFamily,
    TabulatedFamily,
)
from synthdp.domain.domain import domain_of, releasable_domain
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.supports import KeyList, key_of
from synthdp.works.net.online_mechanisms import MultiplicativeWeightsConstruction
from synthdp.works.polynomials.binarized import binarize
from synthdp.works.polynomials.decision_lists import DecisionList, Rule, decision_list_columns, decision_list_schema
from synthdp.works.polynomials.monomial_release import MonomialRelease

BUDGET = ApproxDP(1.0, 1e-6)
CANARY = "canary-4711"


@dataclass(frozen=True)
class World:
    """A schema, a table of it, and rows that a neighbour may have instead of its last one."""

    schema: Schema
    table: pd.DataFrame
    strange: dict[str, dict[str, object]]

    def neighbours(self, case: str, relation: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The table, and the one with a strange row more (or instead of the last)."""
        kept = self.table if relation == "add_remove" else self.table.iloc[:-1]
        row = {**self.table.iloc[-1].to_dict(), **self.strange[case]}
        rows = [*kept.astype(object).itertuples(index=False, name=None), tuple(row[name] for name in kept.columns)]
        return self.table.astype(object), pd.DataFrame(rows, columns=kept.columns, dtype=object)


def _bits() -> World:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({f"b{j}": rng.random(40) < 0.3 + 0.2 * j for j in range(3)})
    strange = {
        "another row": {"b0": True, "b1": False, "b2": False},
        "missing": {"b0": None, "b1": float("nan")},
        "a text": {"b2": CANARY},
    }
    return World(Schema({name: Boolean() for name in table}), table, strange)


def _numbers() -> World:
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": rng.uniform(-1, 1, 40), "y": rng.uniform(-1, 1, 40)})
    schema = Schema({"x": Continuous(-1, 1), "y": Continuous(-1, 1, nullable=True)})
    strange = {
        "another row": {"x": 0.5, "y": -0.9},
        "at and past a bound": {"x": 1.0, "y": 1e300},
        "NaN and infinity": {"x": float("inf"), "y": float("nan")},
        "a text": {"x": CANARY, "y": CANARY},
    }
    return World(schema, table, strange)


def _keys() -> World:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {"city": rng.choice(list("abcd"), 60, p=[0.6, 0.2, 0.1, 0.1]), "job": rng.choice(["s", "t"], 60)}
    )
    schema = Schema({"city": Categorical(list("abcd")), "job": Categorical(["s", "t"])})
    strange = {
        "another row": {"city": "d", "job": "t"},
        "a new category": {"city": CANARY},
        "missing": {"city": None},
        "an object nobody foresaw": {"job": (1, CANARY)},
    }
    return World(schema, table, strange)


VARIABLES = ["v0", "v1", "v2", "v3"]


def _lists() -> World:
    rng = np.random.default_rng(4)

    def rule() -> Rule:
        return Rule(VARIABLES[rng.integers(4)], bool(rng.integers(2)), bool(rng.integers(2)))

    lists = [DecisionList(tuple(rule() for _ in range(rng.integers(3))), bool(rng.integers(2))) for _ in range(30)]
    table = pd.DataFrame(decision_list_columns(lists, length=2))
    first = table.columns[0]
    return World(
        decision_list_schema(VARIABLES, length=2),
        table,
        {"another row": table.iloc[0].to_dict(), "a text": {first: CANARY}, "missing": {first: None}},
    )


def _long_lists() -> World:
    """The same lists, as if they could have nine rules."""
    schema = decision_list_schema(VARIABLES, length=9)
    rng = np.random.default_rng(5)
    rules = [
        tuple(Rule(VARIABLES[rng.integers(4)], bool(rng.integers(2)), bool(rng.integers(2))) for _ in range(9))
        for _ in range(20)
    ]
    table = pd.DataFrame(decision_list_columns([DecisionList(one, True) for one in rules], length=9))
    first = table.columns[0]
    return World(schema, table, {"another row": table.iloc[0].to_dict(), "a text": {first: CANARY}})


@cache
def _tabulated() -> TabulatedFamily:
    """Fit the family once a test asks for it: its linear programs, with their solver, take a second of every collection."""
    return TabulatedFamily(BINARY.domain, ("p", "q"), FUNCTIONS, order=1)


BITS, NUMBERS, KEYS, LISTS, LONG_LISTS = _bits(), _numbers(), _keys(), _lists(), _long_lists()
BINARY = binarize(BITS.schema)
FUNCTIONS = np.random.default_rng(6).random((5, 4)).round(2)[np.arange(BINARY.domain.cells) % 5]
DOMAIN = releasable_domain(domain_of(BITS.schema))
WORKLOAD = Marginals(DOMAIN, all_cliques(DOMAIN, 2))
SPARSE = [
    KeyList.of(("city", "job"), [key_of((city, job)) for job in jobs])
    for city in "abcd"
    for jobs in (["s"], ["t"], ["s", "t"])
]


@dataclass(frozen=True)
class Case:
    """One mechanism: its world, how it is built with a spend, and how it is run."""

    world: World
    build: Callable[..., Any]
    run: Callable[[Any, Curator], Any] = lambda mechanism, curator: mechanism.release(curator, random_state=0)

    def release(
        self, table: pd.DataFrame, relation: str = "add_remove", *, budget: Any = BUDGET, **spend: Any
    ) -> tuple[Any, list[str]]:
        """Return the release and what it warned of."""
        curator = Curator(table, schema=self.world.schema, budget=budget, neighbors=relation)
        with warnings_kept() as caught:
            release = self.run(self.build(**spend), curator)
        return release, [str(one.message) for one in caught]


def _online(queries: Any) -> Callable[[Any, Curator], Any]:
    def run(mechanism: Any, curator: Curator) -> Any:
        session = mechanism.open(curator)
        for query in queries:
            session.ask(query)
        return session.close()

    return run


CASES: dict[str, Case] = {
    "LaplaceAnswers": Case(BITS, lambda **o: LaplaceAnswers(WORKLOAD, **o)),
    "GaussianAnswers": Case(BITS, lambda **o: GaussianAnswers(WORKLOAD, **o)),
    "FourierMarginals": Case(BITS, lambda **o: FourierMarginals(WORKLOAD, **o)),
    "NetMechanism": Case(BITS, lambda **o: NetMechanism(WORKLOAD, size=3, **o)),
    "MWEM": Case(BITS, lambda **o: MWEM(WORKLOAD, rounds=3, **o)),
    "PrivateBoosting": Case(BITS, lambda **o: PrivateBoosting(WORKLOAD, rounds=3, drawn=2, **o)),
    "PrivateMultiplicativeWeights": Case(
        BITS, lambda **o: PrivateMultiplicativeWeights(DOMAIN, max_updates=4, **o), _online([WORKLOAD])
    ),
    "MedianMechanism": Case(BITS, lambda **o: MedianMechanism(DOMAIN, size=3, **o), _online([WORKLOAD])),
    "ParityRelease": Case(BITS, lambda **o: ParityRelease(2, **o)),
    "MonomialRelease": Case(BITS, lambda **o: MonomialRelease(2, **o)),
    "DecisionListRelease": Case(LISTS, lambda **o: DecisionListRelease(2, **o)),
    "DecisionListRelease long": Case(LONG_LISTS, lambda **o: DecisionListRelease(9, 2, **o)),
    "PolynomialRelease": Case(BITS, lambda **o: PolynomialRelease(_tabulated(), **o)),
    "PolynomialRelease symmetric": Case(BITS, lambda **o: PolynomialRelease(SymmetricFamily(BINARY, 2, 3), **o)),
    "PolynomialRelease average": Case(BITS, lambda **o: PolynomialRelease(AverageFamily(BINARY, 2, 1.5), **o)),
    "InteractiveMechanism": Case(
        BITS,
        lambda **o: InteractiveMechanism(MultiplicativeWeightsConstruction, DOMAIN, max_updates=4, **o),
        _online([WORKLOAD]),
    ),
    "SmoothSummary": Case(NUMBERS, lambda **o: SmoothSummary(degrees=3, **o)),
    "SmoothSynthesis product": Case(NUMBERS, lambda **o: SmoothSynthesis(variant="product", candidates=200, **o)),
    "SmoothSynthesis practical": Case(
        NUMBERS, lambda **o: SmoothSynthesis(variant="practical", candidates=200, functions=4, grid=8, **o)
    ),
    "SmoothSynthesis exact": Case(
        NUMBERS, lambda **o: SmoothSynthesis(variant="exact", smoothness=3, columns=("x",), **o)
    ),
    "StabilityHistogram": Case(KEYS, StabilityHistogram),
    "SparseWeights": Case(KEYS, lambda **o: SparseWeights(max_updates=5, **o), _online(SPARSE)),
    "SparseWeights paper": Case(KEYS, lambda **o: SparseWeights(max_updates=5, update="paper", **o), _online(SPARSE)),
    "SparseProjection": Case(KEYS, lambda **o: SparseProjection(64, **o)),
    "SparseProjection signs": Case(KEYS, lambda **o: SparseProjection(64, projection="signs", peel=0.0, **o)),
    "SparseMWEM": Case(KEYS, lambda **o: SparseMWEM(SPARSE, rounds=3, **o)),
    "AdaptiveMarginals": Case(BITS, AdaptiveMarginals),
    "AdaptiveMarginals wide": Case(BITS, lambda **o: AdaptiveMarginals(wide=1, listed=ListedEntropy(max_cells=1), **o)),
    "Automatic": Case(NUMBERS, Automatic),
    "L1Fit": Case(BITS, lambda **o: L1Fit(support=50, **o)),
    "L1Fit trigonometric": Case(NUMBERS, lambda **o: L1Fit(basis="trigonometric", support=50, **o)),
}


def outputs(release: Any) -> str:
    """Everything that a release tells, as one text: arrays to the last bit."""
    return str(shown(release))


def shown(thing: Any, depth: int = 0) -> Any:
    """A value as nested tuples of texts and bytes, by its fields, for comparison."""
    if isinstance(thing, np.ndarray):
        return (str(thing.dtype), thing.shape, thing.tobytes().hex())
    if isinstance(thing, dict):
        return tuple((str(key), shown(value, depth + 1)) for key, value in thing.items())
    if isinstance(thing, (list, tuple)):
        return tuple(shown(value, depth + 1) for value in thing)
    names = [
        name
        for kind in type(thing).__mro__
        for name in getattr(kind, "__slots__", ())
        if isinstance(name, str) and not name.startswith("__")
    ] + list(getattr(thing, "__dict__", ()))
    if type(thing).__module__.startswith("synthdp") and names and depth < 12:
        return (type(thing).__name__, *((name, shown(getattr(thing, name, None), depth + 1)) for name in names))
    return f"{type(thing).__name__}:{thing}" if "0x" not in repr(thing) else type(thing).__name__
