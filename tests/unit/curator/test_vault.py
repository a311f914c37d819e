"""The vault in a process that is not the one that made it; `tests/privacy/test_processes.py` forks in earnest."""

from collections.abc import Callable

import pandas as pd
import pytest

from synthdp import Curator, Integer, PureDP, Schema
from synthdp.curator import guarded_table
from synthdp.domain.domain import domain_of
from synthdp.errors import PrivacyError
from synthdp.queries.marginals import one_ways

SCHEMA = Schema({"n": Integer(0, 9)})
QUERIES = one_ways(domain_of(SCHEMA))


def another_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guarded_table.os, "getpid", lambda: -1)


def a_fork_with_the_same_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guarded_table, "_forks", list(guarded_table._forks))
    guarded_table._forked()


@pytest.mark.parametrize("enter", [another_number, a_fork_with_the_same_number])
def test_another_process_is_refused_and_closes_nothing(
    monkeypatch: pytest.MonkeyPatch, enter: Callable[[pytest.MonkeyPatch], None]
) -> None:
    curator = Curator(pd.DataFrame({"n": range(10)}), schema=SCHEMA, budget=PureDP(1.0))
    with monkeypatch.context() as patch:
        enter(patch)
        with pytest.raises(PrivacyError, match="process"):
            curator.measure(QUERIES, spend=PureDP(0.5))
        curator.close()
    assert curator.remaining == PureDP(1.0)
    assert len(curator.measure(QUERIES, spend=PureDP(0.5)).values) == QUERIES.k
