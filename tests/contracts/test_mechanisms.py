"""One contract for every mechanism: a cost known first and then lost, a receipt, and no value of a row shown."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle

import numpy as np
import pytest
from mechanism_cases import BUDGET, CANARY, CASES, outputs
from private_door import private_table

import synthdp
from synthdp import ApproxDP, Curator, Ledger
from synthdp.errors import BudgetExceededError, ParameterError
from synthdp.privacy.loss import Remaining

SPEND = ApproxDP(0.5, 5e-7)
RELATIONS = ["add_remove", "replace_one"]
pytestmark = pytest.mark.filterwarnings("ignore:the noise in each average:UserWarning")


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_cost_is_known_first_and_is_what_curator_and_ledger_lost(tmp_path, name, relation):
    case = CASES[name]
    mechanism = case.build(spend=SPEND)
    assert mechanism.loss == SPEND
    ledger = Ledger(tmp_path / "ledger.sqlite")
    curator = Curator(
        case.world.table, schema=case.world.schema, budget=BUDGET, neighbors=relation, ledger=ledger, dataset="t"
    )
    release = case.run(mechanism, curator)
    assert release.loss == SPEND == mechanism.loss
    lost = BUDGET.epsilon - curator.remaining.epsilon, BUDGET.delta - curator.remaining.delta
    assert lost == pytest.approx((SPEND.epsilon, SPEND.delta))
    assert [entry.loss for entry in ledger.entries("t")] == [SPEND]
    assert release.receipt.items
    assert str(release.receipt.adjacency) == str(curator.adjacency)
    assert ("replace one row" in str(release.receipt)) == (relation == "replace_one")


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", CASES)
def test_by_default_it_costs_all_that_is_left(name):
    case = CASES[name]
    assert case.build().loss == Remaining()
    curator = Curator(case.world.table, schema=case.world.schema, budget=BUDGET)
    assert case.run(case.build(), curator).loss == BUDGET
    assert curator.remaining is None


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_of_nothing_or_of_all_is_refused_when_it_is_set(share):
    """Before a curator is there to be charged."""
    built = {name: case.build() for name, case in CASES.items()}
    shares = [
        (name, field.name)
        for name, mechanism in built.items()
        for field in dataclasses.fields(mechanism)
        if field.name.endswith("_share")
    ]
    assert len(shares) > 10
    for name, setting in shares:
        with pytest.raises(ParameterError, match=setting):
            dataclasses.replace(built[name], **{setting: share})


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", CASES)
def test_what_is_not_covered_is_refused_before_a_row_is_read(name):
    case = CASES[name]
    curator = Curator(case.world.table, schema=case.world.schema, budget=BUDGET)
    with pytest.raises(BudgetExceededError):
        case.run(case.build(spend=ApproxDP(2.0, 1e-7)), curator)
    assert curator.remaining == BUDGET
    assert private_table(curator).reads == 0


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("InteractiveM", "SparseWeights"))])
def test_a_seed_that_is_none_is_refused_for_free(name):
    """A mechanism that draws nothing may take any; one that draws refuses before it spends. Two have sessions only."""
    case = CASES[name]
    curator = Curator(case.world.table, schema=case.world.schema, budget=BUDGET)
    left = BUDGET
    with contextlib.suppress(ParameterError):
        case.build().release(curator, random_state="a seed")
        left = None
    assert curator.remaining == left


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_no_value_of_a_row_is_shown_nor_kept(name):
    """A value that only one row has: in no text, no field and no byte of the release."""
    case = CASES[name]
    _, table = case.world.neighbours(min(case.world.strange), "add_remove")
    table.iloc[-1, 0] = CANARY
    release, warned = case.release(table)
    texts = [*warned, repr(release), str(release), repr(release.output), str(release.receipt), outputs(release)]
    assert not any(CANARY in text for text in texts)
    assert CANARY.encode() not in pickle.dumps(shown_parts(release))


def shown_parts(release):
    return [release.receipt.to_document(), repr(release.measurements), outputs(release.output)]


def test_every_mechanism_that_is_exported_has_a_case():
    exported = {name for name in synthdp.__all__ if hasattr(getattr(synthdp, name), "release")}
    online = {name for name in synthdp.__all__ if hasattr(getattr(synthdp, name), "open")} - {"Curator"}
    covered = {name.split()[0] for name in CASES}
    assert exported | online <= covered
    assert len(exported | online) >= 15


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_whole_numbers_of_numpy_are_settings_like_those_of_python(name):
    case = CASES[name]
    mechanism = case.build()
    fields = [field.name for field in dataclasses.fields(mechanism) if type(getattr(mechanism, field.name)) is int]
    changed = {field: np.int64(getattr(mechanism, field)) for field in fields}
    built = dataclasses.replace(case, build=lambda **spend: dataclasses.replace(case.build(**spend), **changed))
    release, _ = built.release(case.world.table)
    assert json.loads(json.dumps(release.receipt.to_document()))["items"]
