"""The zoo: it runs, its page is made of its results, and nothing in them is silently wrong."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def zoo() -> Any:
    spec = importlib.util.spec_from_file_location("zoo", ROOT / "benchmarks" / "zoo" / "zoo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["zoo"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    text = (ROOT / "benchmarks" / "results" / "zoo.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore")
def test_a_table_goes_the_whole_way(zoo: Any) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.integers(0, 40, 400) / 2, "kind": rng.choice(["a", "b"], 400)})
    found = zoo.run("made up", table, 3.0)
    assert set(found["seconds"]) == {"draft", "plan", "release", "report", "evaluate"}
    assert (found["digits"], found["types"], found["left_out"]) == ("1 of 1", "2 of 2", 0)
    assert "made up" in zoo.page([found])
    assert "| 3 |" in zoo.summary([found])


def test_the_page_is_made_of_the_results(zoo: Any, lines: list[dict[str, Any]]) -> None:
    text = (ROOT / "docs" / "benchmarks" / "zoo.md").read_text(encoding="utf-8")
    for name, made in (("table", zoo.page(lines)), ("summary", zoo.summary(lines))):
        (shown,) = re.findall(rf"<!-- {name}:start -->\n(.*)<!-- {name}:end -->", text, re.DOTALL)
        assert shown == made


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_at_least_25_tables_came_out_and_a_third_of_them_was_drawn_after_the_work(
    lines: list[dict[str, Any]], epsilon: float
) -> None:
    some = [found for found in lines if found["epsilon"] == epsilon]
    assert len(some) >= 25
    assert len({found["table"] for found in some}) == len(some)
    assert 3 * sum("drawn" in found for found in some) >= len(some) - 1
    assert not [found["table"] for found in some if "refused" in found or "broke" in found]


def test_none_of_them_has_invented_values_other_types_or_numbers_out_of_range(lines: list[dict[str, Any]]) -> None:
    for found in lines:
        assert found["misfits"] == 0, found["table"]
        assert found["invented_missing"] == 0, found["table"]
        assert found["out_of_range"] < 0.01, found["table"]
        for name in ("digits", "types"):
            right, of = found[name].split(" of ")
            assert right == of, found["table"]
