"""R16: what a file calls a class, and a query class of somebody's own, which is saved whole or refused before the spend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp import codec
from synthdp.arrays import FloatArray
from synthdp.codec import DocumentSource, Store, check_saved, saved_as
from synthdp.domain.domain import Domain, domain_of
from synthdp.errors import FormatError, ParameterError
from synthdp.measurements import Measurements
from synthdp.queries.linear import LinearFamily, Stack
from synthdp.queries.norms import Norms, RecordBounds

SCHEMA = sd.Schema({"n": sd.Integer(0, 9), "b": sd.Boolean()})
TABLE = pd.DataFrame({"n": np.arange(60) % 10, "b": np.arange(60) % 3 == 0})
BUDGET = sd.ApproxDP(1.0, 1e-6)


class Below(LinearFamily):
    """How many rows lie in the first cells of a column."""

    k = 1
    bounds = RecordBounds(Norms(1, 1, 1), Norms(1, 1, 1))
    domain: Domain
    column: int
    cells: int

    def features(self, codes):
        return (codes[:, [self.column]] < self.cells).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Unnamed(Below):
    domain: Domain
    column: int
    cells: int


@saved_as("tests.Named")
@dataclass(frozen=True, eq=False)
class Named(Below):
    domain: Domain
    column: int
    cells: int


@saved_as("tests.Itself")
class Itself(Below):
    """No dataclass: it writes and reads itself."""

    def __init__(self, domain: Domain, cells: int):
        self.domain, self.column, self.cells = domain, 0, cells

    def to_saved(self, store: Store) -> dict[str, Any]:
        return {"domain": store.write(self.domain), "first": self.cells}

    @classmethod
    def of_saved(cls, document: Mapping[str, Any], source: DocumentSource) -> Itself:
        return cls(source.read(document["domain"], Domain), source.read(document["first"], int))


@saved_as("tests.Unreadable")
@dataclass(frozen=True, eq=False)
class Unreadable(Below):
    domain: Domain
    column: int
    cells: Any  # a type that says nothing, so that a file's value cannot be checked


MAKE = {
    "named": lambda domain: Named(domain, 0, 3),
    "itself": lambda domain: Itself(domain, 3),
    "inside": lambda domain: Stack((Named(domain, 0, 3), sd.Marginals(domain, ((1,),)))),
}
REFUSED = {
    "unnamed": lambda domain: Unnamed(domain, 0, 3),
    "unreadable": lambda domain: Unreadable(domain, 0, 3),
    "inside": lambda domain: Stack((Unnamed(domain, 0, 3), sd.Marginals(domain, ((1,),)))),
}
MECHANISMS = {
    "LaplaceAnswers": sd.LaplaceAnswers,
    "GaussianAnswers": sd.GaussianAnswers,
    "PrivateBoosting": lambda queries: sd.PrivateBoosting(queries, rounds=3, drawn=1),
    "MWEM": lambda queries: sd.MWEM(queries, rounds=2),
}


def curator() -> sd.Curator:
    return sd.Curator(TABLE, schema=SCHEMA, budget=BUDGET)


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_release_of_queries_of_ones_own_is_saved_whole(make, mechanism, tmp_path):
    release = mechanism(make(domain_of(SCHEMA))).release(curator())
    release.save(tmp_path / "r")
    again = sd.load(tmp_path / "r")
    assert len(again.measurements) == len(release.measurements) > 0
    codes = np.array([[0, 0], [3, 1], [9, 0]], np.uint8)
    for one, other in zip(again.measurements, release.measurements, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        assert type(one.queries) is type(other.queries)
        np.testing.assert_array_equal(one.queries.features(codes), other.queries.features(codes))


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_could_not_be_saved_is_refused_before_the_spend(make, mechanism, tmp_path):
    asked = sd.Curator(TABLE, schema=SCHEMA, budget=BUDGET, ledger=tmp_path / "ledger.sqlite", dataset="d")
    with pytest.raises(ParameterError, match=r"Unnamed|class"):
        mechanism(make(domain_of(SCHEMA))).release(asked)
    assert asked.remaining == BUDGET
    assert asked.receipt().entries == ()


def test_a_facade_refuses_it_too(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    estimator = sd.SyntheticRelease(
        schema=SCHEMA, mechanism="mwem", workload=Unnamed(domain_of(SCHEMA), 0, 3), ledger=ledger, dataset="d"
    )
    with pytest.raises(ParameterError, match="saved_as"):
        estimator.fit(TABLE)


def test_a_file_of_a_class_that_was_not_imported_says_so(tmp_path, monkeypatch):
    sd.LaplaceAnswers(Named(domain_of(SCHEMA), 0, 3)).release(curator()).save(tmp_path / "r")
    monkeypatch.delitem(codec._BY_NAME, "tests.Named")
    with pytest.raises(FormatError, match=r"'tests\.Named'.*import"):
        sd.load(tmp_path / "r")


@pytest.mark.parametrize("name", ["Marginals", "marginals", "mine", "", 3])
def test_the_packages_own_names_cannot_be_taken(name):
    with pytest.raises(ParameterError, match="name"):
        saved_as(name)(Unnamed)


def test_a_name_is_one_classes_and_stays_when_a_notebook_defines_it_again():
    with pytest.raises(ParameterError, match=r"'tests\.Named'"):
        saved_as("tests.Named")(Unnamed)
    again = dataclass(frozen=True, eq=False)(type("Named", (Named,), {"__module__": __name__, "__qualname__": "Named"}))
    try:
        assert codec.form_of(saved_as("tests.Named")(again)).kind is again
    finally:
        saved_as("tests.Named")(Named)


def test_a_class_that_no_file_can_describe_has_no_name():
    with pytest.raises(ParameterError, match="dataclass"):
        saved_as("tests.Bare")(Below)


@saved_as("tests.Everything")
@dataclass(frozen=True)
class Everything:
    number: int
    real: float
    word: str
    flag: bool
    content: bytes
    nothing: int | None
    several: tuple[int, ...]
    pair: tuple[str, float]
    mapping: Mapping[str, int]
    some: frozenset[str]
    reals: FloatArray
    any_array: np.ndarray


@given(
    value=st.builds(
        Everything, number=st.integers(), real=st.floats(), word=st.text(), flag=st.booleans(), content=st.binary(),
        nothing=st.none() | st.integers(), several=st.lists(st.integers()).map(tuple),
        pair=st.tuples(st.text(), st.floats()), mapping=st.dictionaries(st.text(), st.integers()),
        some=st.frozensets(st.text()), reals=st.lists(st.floats()).map(np.array).map(lambda a: a.astype(np.float64)),
        any_array=st.lists(st.integers(0, 9)).map(lambda a: np.array(a, np.int16)),
    ),
    brief=st.booleans(),
)  # fmt: skip
def test_every_type_of_field_reads_back(value, brief):
    store = Store(brief=brief)
    again = DocumentSource(store.write(value) and store.arrays).read(store.write(value), Everything)
    for name in codec.constructor_fields(Everything):
        one, other = getattr(again, name), getattr(value, name)
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other or repr(one) == repr(other)


def test_a_number_of_a_file_is_what_it_says():
    store = Store()
    document = store.write(
        Everything(1, math.inf, "", True, b"", None, (), ("", 0.0), {}, frozenset(), np.zeros(1), np.zeros(1))
    )
    for name, wrong in {
        "number": True,
        "word": 3,
        "flag": 1,
        "several": [1.0],
        "reals": "b0",
        "mapping": [["a", "b"]],
    }.items():
        with pytest.raises((FormatError, KeyError)):
            DocumentSource(store.arrays).read({**document, name: wrong}, Everything)


def test_a_check_before_the_spend_reads_nothing_that_is_the_packages_own(monkeypatch):
    monkeypatch.setattr(DocumentSource, "read", None)
    check_saved(sd.Marginals(domain_of(SCHEMA), ((0,), (1,))))


def test_a_domain_of_other_columns_than_the_models_is_saved_with_them(tmp_path):
    release = sd.SyntheticRelease(schema=SCHEMA, random_state=0).fit(TABLE).release_
    other, known = domain_of(sd.Schema({"m": sd.Integer(0, 4)})), release.measurements[0]
    measured = Measurements(
        queries=sd.Marginals(other, ((0,),)), values=np.arange(other.cells), resolution=known.resolution,
        noise=replace(known.noise, k=other.cells),
    )  # fmt: skip
    replace(release, measurements=(measured,)).save(tmp_path / "r")
    (again,) = sd.load(tmp_path / "r").measurements
    assert again.queries.domain.axes[0].column == sd.Integer(0, 4)
    np.testing.assert_array_equal(again.values, np.arange(other.cells))
