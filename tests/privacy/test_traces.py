"""R8, R3, R15: with the noise frozen, everything that comes out is equal on neighbours, and is asked for in one way.

A run on one table is recorded; on its neighbour the same noisy answers are handed out again.  The two must ask for noise
in the same way (operation, shape, scale) and produce the same table, receipt and files: whatever differed would be a
path from private rows to the output that noise does not cover.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from no_noise import recorded, replayed
from privacy_worst_cases import SCHEMA, WORST_CASES

from synthdp import AdaptiveMarginals, ApproxDP, Curator, L1Fit, PureDP, SyntheticRelease
from synthdp.release import save

BUDGETS = {"approximate": ApproxDP(1.0, 1e-9), "pure": PureDP(1.0), "large": ApproxDP(20.0, 1e-9)}
MECHANISMS = {"adaptive": AdaptiveMarginals(), "l1": L1Fit(support=60)}


def output(mechanism, table: pd.DataFrame, budget, folder: Path) -> tuple[str, str, bytes, bytes]:
    curator = Curator(table, schema=SCHEMA, budget=budget)
    release = mechanism.release(curator, random_state=0)
    save(release, folder)
    sampled = release.sample(40, random_state=1).to_csv(index=False)
    return sampled, str(release.receipt), (folder / "release.json").read_bytes(), (folder / "arrays.npz").read_bytes()


def in_turns(cases: Iterable[str], others: Iterable[object]) -> list[Any]:
    """Every case with one of the others, in turns; the rest of the product is ``slow``."""
    product = itertools.product(enumerate(cases), enumerate(others))
    return [pytest.param(case, other, marks=[pytest.mark.slow] * ((i + j) % 2)) for (i, case), (j, other) in product]


@pytest.mark.sampled
@pytest.mark.parametrize(("case", "mechanism"), in_turns(WORST_CASES, MECHANISMS))
def test_neighbours_give_the_same_trace_and_the_same_output(
    case: str, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = WORST_CASES[case]
    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = output(MECHANISMS[mechanism], small, BUDGETS["approximate"], tmp_path / "a.release")
    second = replayed(monkeypatch, first)
    found = output(MECHANISMS[mechanism], large, BUDGETS["approximate"], tmp_path / "b.release")
    assert second.draws == first.draws
    assert len(first.draws) >= 2
    assert found == expected


@pytest.mark.parametrize(
    "budget",
    [pytest.param("approximate", marks=pytest.mark.slow), "pure", pytest.param("large", marks=pytest.mark.landing)],
)
def test_every_kind_of_budget_has_equal_traces(budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = WORST_CASES["a value past a bound"]
    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = output(AdaptiveMarginals(), small, BUDGETS[budget], tmp_path / "a.release")
    second = replayed(monkeypatch, first)
    found = output(AdaptiveMarginals(), large, BUDGETS[budget], tmp_path / "b.release")
    assert second.draws == first.draws
    assert found == expected


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:epsilon")
@pytest.mark.parametrize(("case", "epsilon"), in_turns(sorted(set(WORST_CASES) - {"empty or one row"}), [2.0, 300.0]))
def test_the_facade_with_nothing_declared_has_equal_traces(
    case: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discovery included.  Types are public, so both tables are given the same ones.

    At the smaller budget nothing is found of tables so small, at the larger one something.
    """
    small, large = (table.astype(object) for table in WORST_CASES[case])

    def run(table: pd.DataFrame) -> tuple[str, str, str]:
        release = SyntheticRelease(epsilon=epsilon, delta=1e-6, random_state=0).fit(table)
        return release.sample(30).to_csv(index=False), str(release.receipt_), repr(release.schema_)

    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = run(small)
    second = replayed(monkeypatch, first)
    found = run(large)
    assert second.draws == first.draws
    assert found == expected


def test_a_trace_that_depends_on_the_data_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: a curator that sizes its question by the rows has another trace on a neighbour."""
    from synthdp.domain.domain import domain_of
    from synthdp.queries.marginals import Marginals

    def leaky(table: pd.DataFrame) -> None:
        domain = domain_of(SCHEMA, bins=2 + len(table) % 2)
        Curator(table, schema=SCHEMA, budget=PureDP(1.0)).measure(Marginals(domain, ((0,),)))

    small, large = WORST_CASES["a new category"]
    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        leaky(small)
    second = replayed(monkeypatch, first)
    leaky(large)
    assert second.draws != first.draws
