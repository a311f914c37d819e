"""Settings under which one source may be asked, one after the other; no answer may depend on the ones before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded

from synthdp import Categorical, Continuous, Curator, Integer, PureDP, Schema
from synthdp.domain.domain import domain_of
from synthdp.queries.marginals import Marginals, all_cliques


@dataclass(frozen=True)
class Setting:
    """What a curator is given besides the source, and the cells it counts."""

    name: str
    schema: Schema
    unit: str | None = None
    rows: int = 1
    bins: int = 4


WIDE = Schema({"age": Integer(0, 99), "city": Categorical(["a", "b"], nullable=True)})
NARROW = Schema({"age": Integer(0, 20), "city": Categorical(["b"], nullable=True)})
SETTINGS = [
    Setting("every row", WIDE),
    Setting("a thousand rows of a person", WIDE, unit="who", rows=1000),
    Setting("one row of a person", WIDE, unit="who"),
    Setting("one row of a house", WIDE, unit="house"),
    Setting("other bounds and levels", NARROW, unit="who"),
    Setting("other cells", WIDE, unit="who", bins=7),
    Setting("columns in another order", Schema({name: WIDE[name] for name in reversed([*WIDE])}), unit="who"),
    Setting("a column less", Schema({"age": Continuous(0, 99)}), unit="who"),
]


def table() -> pd.DataFrame:
    """One person with most of the rows, and some others."""
    rng = np.random.default_rng(4)
    who = np.where(np.arange(240) < 180, 0, np.arange(240))
    return pd.DataFrame(
        {"age": rng.integers(0, 99, 240), "city": rng.choice(["a", "b", "c"], 240), "who": who, "house": who // 30}
    )


def curator_of(source: Any, setting: Setting) -> Curator:
    """A curator of these settings; nobody need ever close it."""
    return Curator(
        source, schema=setting.schema, budget=PureDP(1.0), privacy_unit=setting.unit, max_rows_per_unit=setting.rows
    )


def sums(curator: Curator, setting: Setting, *, share: float = 1.0) -> list[int]:
    """The exact sums that the curator would add noise to."""
    domain = domain_of(setting.schema, bins=setting.bins)
    with pytest.MonkeyPatch.context() as patch:
        trace = recorded(patch, exact=True)
        curator.measure(Marginals(domain, all_cliques(domain, 1)), spend=PureDP(share))
    return [int(value) for value in trace.outputs[-1]]


def answer(source: Any, setting: Setting) -> list[int]:
    """The exact sums of a new curator."""
    return sums(curator_of(source, setting), setting)


def every_pair(settings: list[Setting]) -> Iterator[Setting]:
    """All settings in an order in which each follows each other one."""
    for i, first in enumerate(settings):
        for second in settings[i + 1 :]:
            yield from (first, second)
        yield first
