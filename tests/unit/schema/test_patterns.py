"""Formats of keys: the language, and keys that differ in all rows."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from synthdp import AdaptiveMarginals, ApproxDP, Curator, Identifier, Integer, Schema, SyntheticRelease
from synthdp.domain.fresh_keys import keys_of_pattern, scattered
from synthdp.errors import ParameterError, SchemaError
from synthdp.schema.labels import alphabets_of, size_of

REFUSED = [
    "", "a*", "a+", "a|b", "(a)", ".", "^a", "a$", "[a", "a]", "[^a]", "[z-a]", "{3}", r"\w", "a{", "a{0}", "a\n", "a" * 201,
    "a{999}", "[\x00-\x10]", 7, "a{2}{3}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", REFUSED)
def test_other_patterns_are_refused_in_one_sentence(pattern):
    with pytest.raises(SchemaError) as refused:
        Schema({"id": Identifier(pattern=pattern), "a": Integer(0, 1)})
    assert "\n" not in str(refused.value)


def test_a_prefix_and_a_pattern_are_not_both_given():
    with pytest.raises(SchemaError, match="both"):
        Schema({"id": Identifier("P-", pattern=r"\d")})


characters = st.sampled_from([r"\d", "[A-F]", "[0-9a-f]", "x", "-", r"\.", r"\[", "[-_]", r"[\d.]", " ", "é"])
patterns = st.lists(
    st.tuples(characters, st.sampled_from(["", "{1}", "{2}"])).map("".join), min_size=1, max_size=5
).map("".join)


@given(patterns, st.integers(0, 50))
def test_keys_are_what_the_regular_expression_matches_and_differ_over_all_blocks(pattern, first):
    size = size_of(pattern)
    rows = min(size, 200)
    cut = min(first, rows)
    keys = keys_of_pattern(pattern, 0, cut) + keys_of_pattern(pattern, cut, rows - cut)
    assert len(set(keys)) == len(keys) == rows
    assert all(re.fullmatch(pattern, key) for key in keys)
    assert size == np.prod([float(len(some)) for some in alphabets_of(pattern)])


@given(st.integers(1, 3000))
def test_scattering_is_a_permutation(size):
    assert sorted(scattered(np.arange(size, dtype=np.uint64), size).tolist()) == list(range(size))


def test_keys_of_patterns_with_more_keys_than_64_bits_count_differ_too():
    keys = keys_of_pattern("[A-Z]{60}", 0, 20_000)
    assert len(set(keys)) == 20_000
    assert all(len(set(place)) == 26 for place in zip(*keys, strict=True))


def test_keys_look_random_and_are_always_the_same():
    keys = keys_of_pattern(r"\d{6}", 0, 1000)
    assert keys == keys_of_pattern(r"\d{6}", 0, 1000)
    numbers = np.array(keys, dtype=int)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.15
    assert abs(numbers.mean() - 5e5) < 5e4


def _table(n):
    return pd.DataFrame({"id": [f"real{i}" for i in range(n)], "a": np.arange(n) % 5})


SHORT = Schema({"id": Identifier(pattern=r"K\d{2}"), "a": Integer(0, 4)})


def test_too_many_rows_for_a_pattern_are_refused_before_anything_is_spent(tmp_path):
    release = SyntheticRelease(schema=SHORT, n_rows=101, ledger=tmp_path / "ledger", dataset="t")
    with pytest.raises(ParameterError, match=r"'id'.*100.*101"):
        release.fit(_table(300))
    assert not (tmp_path / "ledger").exists()


def test_too_many_rows_are_refused_when_they_are_asked_for(tmp_path):
    release = SyntheticRelease(schema=SHORT).fit(_table(300))
    assert release.sample(100)["id"].is_unique
    for ask in (
        lambda: release.sample(101),
        lambda: release.release_.sample_to(tmp_path / "x.csv", rows=101, block_rows=50),
        lambda: next(release.release_.output.sample_blocks(50, first=60)),
    ):
        with pytest.raises(ParameterError, match="'id'"):
            ask()
    assert not list(tmp_path.iterdir())


def test_real_keys_decide_no_key():
    """Two tables that differ in every real key give the same keys."""
    keys = []
    for table in (_table(50), _table(50).assign(id=pd.Series(["K01"] * 50))):
        curator = Curator(table, schema=SHORT, budget=ApproxDP(1.0, 1e-6))
        keys.append(AdaptiveMarginals().release(curator, random_state=0).sample(20)["id"].tolist())
    assert keys[0] == keys[1] == keys_of_pattern(r"K\d{2}", 0, 20)
