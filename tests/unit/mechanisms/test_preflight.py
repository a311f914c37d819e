"""R37: every question that is known before the first answer is put together, with its noise, before anything is spent."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.curator import Curator
from synthdp.domain.domain import domain_of
from synthdp.errors import NOTHING_SPENT, ParameterError, SensitivityError, SynthDPError, budget_told
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.mechanisms.preflight import check_tables
from synthdp.queries.distances import PairDistances
from synthdp.queries.interactions import Interactions
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.norms import Norms, RecordBounds

NEIGHBORS = ("add_remove", "replace_one")
LOSSES = (sd.PureDP(1e-5), sd.PureDP(700.0), sd.ApproxDP(1.0, 1e-9), sd.ZCDP(1e-9), sd.GaussianDP(0.1))
COLUMNS = {
    "ones": sd.Categorical(["x"]),
    "flag": sd.Boolean(),
    "kind": sd.Categorical([str(i) for i in range(300)]),
    "number": sd.Continuous(0, 1),
}
IMPOSSIBLE = RecordBounds(Norms(10**6, 1, 1), Norms(10**6, 1, 1))


def table(rows: int = 200) -> pd.DataFrame:
    number = np.arange(rows)
    flags = {"ones": "x", "flag": number % 2 == 0, "kind": (number % 300).astype(str), "number": number / rows}
    return pd.DataFrame(flags)


def curator(schema: sd.Schema, loss: object, **options: object) -> Curator:
    return Curator(table(), schema=schema, budget=loss, **options)


@pytest.mark.sampled
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("unit", [None, "kind"])
def test_what_can_be_asked_is_not_refused(neighbors, loss, unit):
    columns = {name: column for name, column in COLUMNS.items() if name != unit}
    for some in itertools.chain.from_iterable(itertools.combinations(columns, n) for n in (1, 2, 3)):
        schema = sd.Schema({name: columns[name] for name in some})
        asked = curator(schema, loss, neighbors=neighbors, privacy_unit=unit)
        check_tables(asked, domain_of(schema).axes, spend=loss)
        assert asked.remaining == loss


@pytest.mark.parametrize("kind", [Marginals, PairDistances, Interactions])
@pytest.mark.parametrize("mechanism", ["auto", "adaptive_marginals", "l1_fit"])
@pytest.mark.parametrize("opened", [(), ("number",)], ids=["all declared", "one to be discovered"])
def test_a_kind_of_question_without_noise_is_refused_before_an_answer(kind, mechanism, opened, tmp_path, monkeypatch):
    monkeypatch.setattr(kind, "bounds", IMPOSSIBLE)
    declared = {**COLUMNS, **{name: sd.Continuous() for name in opened}}
    release = sd.SyntheticRelease(schema=sd.Schema(declared), mechanism=mechanism, ledger=tmp_path / "l.sqlite")
    with pytest.raises(SensitivityError) as refused:
        release.fit(table())
    assert budget_told(refused.value) == NOTHING_SPENT
    assert {entry.state for entry in sd.Ledger(tmp_path / "l.sqlite").entries()} <= {"returned"}


def test_a_look_at_noise_costs_nothing_and_refuses_what_a_measurement_refuses():
    schema = sd.Schema({"flag": sd.Boolean()})
    loss = sd.PureDP(1.0)
    asked, queries = curator(schema, loss), one_ways(domain_of(schema))
    asked.check(queries, spend=loss)
    assert asked.remaining == loss
    assert asked.receipt().items == ()
    with pytest.raises(SynthDPError):
        asked.check(queries, spend=sd.GaussianDP(1.0))


def test_a_mechanism_prepares_with_columns_that_are_still_open():
    schema = sd.Schema({"flag": sd.Boolean(), "number": sd.Continuous()})
    asked = curator(schema, sd.ApproxDP(1.0, 1e-9))
    for mechanism in (AdaptiveMarginals(), sd.Automatic(), sd.SmoothSynthesis(), sd.L1Fit()):
        mechanism.prepare(asked)
    with pytest.raises(ParameterError):
        sd.SmoothSynthesis(law="gaussian").prepare(curator(schema, sd.PureDP(1.0)))
    assert asked.receipt().items == ()
