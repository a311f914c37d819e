"""A release is made with each member of the planner left out, so that the ablations fit today's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import synthdp as sd
from synthdp import data

LEFT_OUT = {"members": ("WITHOUT", "without"), "planner": ("IDEAS", "only")}


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("program", LEFT_OUT)
def test_a_release_is_made_without_each_member(program: str, load: Callable[[str], Any]) -> None:
    names, leave_out = LEFT_OUT[program]
    module = load(program)
    table, schema = data.adult(), data.adult_schema()
    some = ["age", "education", "hours-per-week", "capital-gain", "sex", "income"]
    table, schema = table[some].head(3000), sd.Schema({name: schema[name] for name in some})
    for name in getattr(module, names):
        with getattr(module, leave_out)(name if program == "members" else f"all but {name}"):
            curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(8.0, 1e-9))
            rows = sd.AdaptiveMarginals().release(curator, random_state=0).sample(500, random_state=0)
        assert list(rows) == some
        assert len(rows) == 500
