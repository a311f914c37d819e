"""The benchmark of releases over time: its months, and a tiny run."""

import json

import pandas as pd
import pytest


def test_months_share_all_rows_out(load):
    bench = load("series")
    months = bench.months_of(pd.DataFrame({"a": range(100)}))
    assert len(months) == bench.MONTHS
    assert sorted(pd.concat(months)["a"]) == list(range(100))
    assert list(bench.so_far(months, 2)["a"]) == [*range(0, 100, 12), *range(1, 100, 12)]


def test_a_public_tenth_is_none_of_the_private_rows(load):
    bench = load("series")
    months, public = bench.adult_in_months(0, public=True, rows=600)
    assert len(public) == 60
    assert sum(map(len, months)) == 540


@pytest.mark.slow
def test_a_tiny_run_tells_every_error(load, tmp_path):
    bench = load("series")
    bench.series_of("again", 0, tmp_path / "out.jsonl", rows=1200, last=3)
    bench.single_of("split", 0, tmp_path / "out.jsonl", rows=1200, last=1)
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(one["arm"], one["month"]) for one in records] == [("again", 1), ("again", 3), ("split", 1)]
    assert all(0 < one["error"] < 1 for one in records)


@pytest.mark.slow
def test_a_long_series_is_compared_with_one_release_of_the_same_tables(load, tmp_path):
    load("series").long_series(4, 0, tmp_path / "out.jsonl", rows=1200)
    record = json.loads((tmp_path / "out.jsonl").read_text())
    assert 0 < record["one_shot"] < 1
    assert record["ratio"] == record["error"] / record["one_shot"]
