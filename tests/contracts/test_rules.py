"""Every mechanism that yields a table obeys every kind of rule in every row, on tables most of whose rows break it."""

from __future__ import annotations

import calendar
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exact_csv import exact_csv

from synthdp import (
    MWEM,
    AdaptiveMarginals,
    ApproxDP,
    CalendarDate,
    Categorical,
    Combinations,
    Continuous,
    Curator,
    Derived,
    Forbidden,
    FourierMarginals,
    Identifier,
    Iff,
    Implies,
    Integer,
    L1Fit,
    LessEqual,
    NetMechanism,
    PrivateMultiplicativeWeights,
    Schema,
    SmoothSynthesis,
    SyntheticRelease,
    load,
    marginal,
    save,
)
from synthdp.errors import SchemaError
from synthdp.mechanisms.workload import marginals_on
from synthdp.sampling.synthetic_model import OBEYED

MECHANISMS: dict[str, Callable[[Schema], Any]] = {
    "adaptive marginals": lambda _: AdaptiveMarginals(),
    "L1 fit": lambda _: L1Fit(support=400),
    "smooth synthesis": lambda _: SmoothSynthesis(candidates=200),
    "MWEM": lambda _: MWEM(rounds=3, replay=20),
    "Fourier marginals": lambda _: FourierMarginals(solver="mw"),
    "net mechanism": lambda schema: NetMechanism(_halves(schema), size=2),
    "private multiplicative weights": lambda schema: Session(
        PrivateMultiplicativeWeights(marginals_on(_halves(schema), schema).domain, max_updates=2)
    ),
}
"""Those that are no name for one of these: `Automatic` is the first or the third."""


def _halves(schema: Schema) -> Any:
    """Tables of halves of each column, whose cells the rules cut through."""
    return [marginal(*(name for name, column in schema.items() if not column.names_rows), bins=2)]


@dataclass(frozen=True)
class Session:
    """A mechanism for queries that come one by one, asked none."""

    mechanism: Any

    def release(self, curator: Curator, *, random_state: int) -> Any:
        return self.mechanism.open(curator).close() if random_state == 0 else None


NAMES = {0: "none", 1: "one", 2: "some", 3: "some", 4: "many", 5: None}


@dataclass(frozen=True)
class World:
    """A schema with rules, and which rows of a table obey them, told by pandas and not by this package."""

    schema: Schema
    obeys: Callable[[pd.DataFrame], pd.Series]


def _pair(*rules: Any, columns: dict[str, Any] | None = None, least: int = 0) -> Schema:
    return Schema({"a": Integer(least, 5), "b": Integer(0, 4), **(columns or {})}, constraints=rules)


def _is_day(row: tuple[int, int, int]) -> bool:
    year, month, day = row
    return day <= calendar.monthrange(year, month)[1]


WORLDS = {
    "order": World(_pair(LessEqual("a", "b")), lambda t: t["a"] <= t["b"]),
    "forbidden": World(_pair(Forbidden({"a": (1, 5), "b": [0, 1, 2]})), lambda t: ~((t["a"] > 0) & (t["b"] < 3))),
    "implication": World(_pair(Implies({"a": (1, 4)}, {"b": 2})), lambda t: ~t["a"].between(1, 4) | (t["b"] == 2)),
    "equivalence": World(
        _pair(Iff({"a": -1}, {"b": 0}), least=-1), lambda t: (t["a"] == -1) == (t["b"] == 0)
    ),
    "combinations": World(
        _pair(Combinations(("a", "b"), [(0, 3), (1, 3), (2, 0), ((4, 5), [1, 2])])),
        lambda t: (t["a"] * 10 + t["b"]).isin([3, 13, 20, 41, 42, 51, 52]),
    ),
    "three columns": World(
        _pair(Combinations(("a", "c", "b"), [(0, 1, 3), (1, 0, 3), (2, 0, 0)]), columns={"c": Integer(0, 1)}),
        lambda t: (t["a"] * 100 + t["c"] * 10 + t["b"]).isin([13, 103, 200]),
    ),
    "dates": World(
        Schema(
            {"year": Integer(1999, 2000), "month": Integer(2, 4), "day": Integer(28, 31)},
            constraints=[CalendarDate("year", "month", "day")],
        ),
        lambda t: pd.Series(map(_is_day, t[["year", "month", "day"]].itertuples(index=False, name=None))),
    ),
    "a sum": World(
        _pair(Derived("total", "a - 2 * b + 7"), columns={"total": Integer()}),
        lambda t: t["total"] == t["a"] - 2 * t["b"] + 7,
    ),
    "a quotient of real numbers": World(
        Schema(
            {"x": Continuous(0, 1), "y": Continuous(1, 2), "rate": Continuous()},
            constraints=[Derived("rate", "(x - 0.5) / y")],
        ),
        lambda t: t["rate"] == (t["x"] - 0.5) / t["y"],
    ),
    "a label of a code": World(
        _pair(Derived("name", of="a", values=NAMES), columns={"name": Categorical(nullable=True)}),
        lambda t: (t["name"] == t["a"].map(NAMES)) | (t["name"].isna() & (t["a"] == 5)),
    ),
    "what is derived from a derived column": World(
        _pair(
            Derived("total", "a + b"), Derived("large", of="total", values={k: k > 4 for k in range(10)}),
            columns={"total": Integer(0, 9), "large": Categorical([False, True])},
        ),
        lambda t: (t["total"] == t["a"] + t["b"]) & (t["large"] == (t["total"] > 4)),
    ),
    "several at once": World(
        _pair(
            LessEqual("a", "b"), Implies({"a": 2}, {"b": 4}), Derived("total", "a + b"), columns={"total": Integer()}
        ),
        lambda t: (t["a"] <= t["b"]) & ((t["a"] != 2) | (t["b"] == 4)) & (t["total"] == t["a"] + t["b"]),
    ),
    "a key with a format": World(
        _pair(LessEqual("a", "b"), columns={"key": Identifier(pattern=r"[A-C]\d{3}")}),
        lambda t: t["key"].astype(str).str.fullmatch(r"[A-C]\d{3}") & ~t["key"].duplicated() & (t["a"] <= t["b"]),
    ),
}  # fmt: skip

WRONG = {"total": 0, "rate": 0.0, "name": "?", "large": False, "key": "?"}
"""What real tables hold in columns that are not read."""


def _table(schema: Schema, rows: int = 400) -> pd.DataFrame:
    """Rows of independent columns; those that are derived hold nothing that is right."""
    rng = np.random.default_rng(5)
    numbers = {
        name: rng.integers(column.lower, column.upper + 1, rows) if column.whole
        else rng.uniform(column.lower, column.upper, rows)
        for name, column in schema.items() if column.quantity == "number"
    }  # fmt: skip
    wrong = {name: [WRONG[name]] * rows for name in schema.outputs if name not in numbers}
    return pd.DataFrame(numbers | wrong)


def _released(mechanism: str, world: World) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        curator = Curator(_table(world.schema), schema=world.schema, budget=ApproxDP(1.0, 1e-6))
        return MECHANISMS[mechanism](curator.schema).release(curator, random_state=0)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("mechanism", "rule"),
    [
        pytest.param(mechanism, rule, marks=[pytest.mark.slow] * (i > 0 and (i + j) % 2))
        for (i, mechanism), (j, rule) in itertools.product(enumerate(MECHANISMS), enumerate(WORLDS))
    ],
)
def test_every_synthetic_row_obeys_every_rule_about_its_columns(mechanism: str, rule: str) -> None:
    world = WORLDS[rule]
    release = _released(mechanism, world)
    table = release.model.sample(700, random_state=1)
    assert len(table) == 700
    outputs = release.model.schema.outputs
    assert set(table) == set(outputs)
    assert set(outputs) >= set(world.schema.outputs) - {"key"}
    assert world.obeys(table.assign(**dict.fromkeys(set(world.schema.outputs) - set(outputs), _keys()))).all()
    assert OBEYED in release.receipt.notes


def _keys() -> list[str]:
    """Keys for those mechanisms that leave identifiers out."""
    return [f"A{i:03}" for i in range(700)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=[pytest.mark.slow] * (i % 2)) for i, rule in enumerate(WORLDS)]
)
def test_files_and_saved_releases_obey_the_rules_too(rule: str, tmp_path: Any) -> None:
    world = WORLDS[rule]
    release = _released("adaptive marginals", world)
    save(release, tmp_path / "saved")
    again = load(tmp_path / "saved")
    pd.testing.assert_frame_equal(again.sample(50, random_state=2), release.sample(50, random_state=2))
    again.sample_to(tmp_path / "rows.csv", rows=650, block_rows=200, random_state=3)
    again.sample_to(tmp_path / "rows.parquet", rows=650, block_rows=200, random_state=3)
    for table in (
        exact_csv(tmp_path / "rows.csv"),
        pd.read_parquet(tmp_path / "rows.parquet"),
    ):
        assert list(table) == list(world.schema.outputs)
        assert world.obeys(table).all()


@pytest.mark.sampled
@pytest.mark.parametrize("rule", WORLDS)
def test_rules_cost_nothing_and_what_is_derived_is_not_read(rule: str) -> None:
    """The same columns are measured, whether or not there are derived ones, and whatever those hold."""
    world = WORLDS[rule]
    release = _released("adaptive marginals", world)
    bare = World(Schema(dict(world.schema)), world.obeys)
    alone = _released("adaptive marginals", bare)
    assert release.loss == alone.loss
    first, second = (r.measurements[1].queries.domain for r in (release, alone))
    assert first.names == second.names == world.schema.names


@pytest.mark.sampled
@pytest.mark.parametrize("rule", WORLDS)
def test_rules_survive_json_and_stand_in_the_receipt_and_the_report(rule: str, tmp_path: Any) -> None:
    world = WORLDS[rule]
    assert Schema.from_json(world.schema.to_json()) == world.schema
    estimator = SyntheticRelease(schema=world.schema, random_state=0).fit(_table(world.schema))
    estimator.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    said = next(line for line in estimator.receipt_.assumptions if "between columns" in line)
    names = {name for rule in world.schema.constraints for name in [*vars_of(rule)]}
    assert all(name in said and name in page for name in names)
    assert estimator.get_feature_names_out().tolist() == list(world.schema.outputs)


def vars_of(rule: Any) -> tuple[str, ...]:
    """Return a column name of a rule of any kind."""
    return (rule.column,) if isinstance(rule, Derived) else ()


CONTRADICTIONS = {
    "no combination obeys the order": [Combinations(("a", "b"), [(5, 0), (4, 1)]), LessEqual("a", "b")],
    "both sides of an equivalence exclude each other": [Iff({"a": (0, 5)}, {"b": 0}), Forbidden({"a": (0, 5), "b": 0})],
    "two lists that share no combination": [Combinations(("a", "b"), [(0, 0)]), Combinations(("b", "a"), [(1, 1)])],
    "no such day": [CalendarDate(None, "month", "day"), Implies({"a": (0, 5)}, {"month": 4}),
                    Implies({"b": (0, 4)}, {"day": 31})],
}  # fmt: skip


@pytest.mark.parametrize("rules", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_rules_that_contradict_each_other_are_refused_before_anything_is_spent(
    mechanism: str, rules: list[Any]
) -> None:
    schema = _pair(*rules, columns={"month": Integer(1, 12), "day": Integer(28, 31)})
    curator = Curator(_table(schema, 50), schema=schema, budget=ApproxDP(1.0, 1e-6))
    with pytest.raises(SchemaError, match="rules"):
        MECHANISMS[mechanism](curator.schema).release(curator, random_state=0)
    assert curator.remaining == curator.budget
