"""Released numbers are as round as the private ones, where noise lets it be seen, and nothing else changes for that."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.answers.direct import GLSEstimates
from synthdp.domain.domain import Domain
from synthdp.domain.encoder import Numbers, encode
from synthdp.domain.refinement import axis_of_roundness
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.column_rounding import rounded
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import one_ways
from synthdp.release import load, save

ROWS = 6000
SCHEMA = sd.Schema(
    {"years": sd.Continuous(0, 41, nullable=True), "loan": sd.Integer(1000, 90_000), "score": sd.Continuous(0, 1)}
)
STEP = "digit preference (rounding classes)"


def table_of(rows: int = ROWS, *, seed: int = 0) -> pd.DataFrame:
    """Years that are mostly whole, sums in hundreds, and a score with all its digits."""
    rng = np.random.default_rng(seed)
    years = np.minimum(rng.gamma(1.5, 6, rows), 41)
    return pd.DataFrame(
        {
            "years": np.where(rng.random(rows) < 0.95, years.round(), years.round(1)),
            "loan": (rng.integers(1000, 90_000, rows) // 100) * 100,
            "score": rng.random(rows),
        }
    )


def released(table: pd.DataFrame, schema: sd.Schema = SCHEMA, epsilon: float = 1.0):
    curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(epsilon, 1e-9))
    return sd.AdaptiveMarginals().release(curator, random_state=1)


@pytest.fixture(scope="module")
def release():
    return released(table_of())


def whole(values) -> float:
    values = np.asarray(values.dropna(), float)
    return float((values == np.round(values)).mean())


def test_numbers_come_out_as_round_as_they_are(release):
    synthetic = release.sample(ROWS, random_state=1)
    assert whole(synthetic["years"]) == pytest.approx(0.95, abs=0.06)
    assert whole(synthetic["loan"] / 100) > 0.95
    assert whole(synthetic["score"] * 100) < 0.09  # 4.4 standard deviations of the noise of a class
    assert [m.queries.domain.names for m in release.measurements if _cuts_leaves(m, release)] == [
        ("years", "loan", "score")
    ]


@pytest.mark.landing
def test_bins_keep_their_rows(release):
    fine = release.output.refinements[0].fine
    plain = release.output.refinements[0].weights
    synthetic = release.output.sample_indices(50_000, np.random.default_rng(0))["years"]
    share = np.bincount(fine.cells_of(synthetic), minlength=fine.size) / 50_000
    assert np.abs(share - plain / plain.sum()).sum() < 0.1


def test_it_is_a_small_part_of_what_is_spent_and_stands_in_the_receipt(release):
    items = [item for item in release.receipt.items if STEP in item.step]
    assert [item.answers for item in items] == [sum(_axis(name, column).size for name, column in SCHEMA.items())]


def test_a_saved_release_draws_the_same_rows(release, tmp_path):
    save(release, tmp_path / "r.synthdp")
    again = load(tmp_path / "r.synthdp")
    pd.testing.assert_frame_equal(again.sample(500, random_state=3), release.sample(500, random_state=3))
    assert (again.output.refinements[0].rounding == release.output.refinements[0].rounding).all()


def test_values_that_are_given_are_drawn_and_are_as_likely_as_they_are_drawn(release):
    assert (release.sample(50, given={"years": 7.0}, random_state=0)["years"] == 7.0).all()


def test_answers_take_no_notice_of_classes_as_if_they_were_bins(release):
    direct, table = GLSEstimates(release.output, release.measurements), table_of()
    for j, (name, column) in enumerate(SCHEMA.items()):
        first = OneWayTree().first_axis(name, column)
        leaves = first.groups_of(release.output.refinements[j].fine)
        found = np.bincount(leaves, weights=direct.leaves(j).counts, minlength=first.size)
        true = np.bincount(first.cells_of(encode(column, Numbers(table[name].to_numpy()))), minlength=first.size)
        assert np.abs(found - true).mean() < 30


@pytest.mark.parametrize(("rows", "epsilon"), [(200, 1.0), (ROWS, 0.02)])
def test_nothing_is_asked_where_noise_hides_it(rows, epsilon):
    release = released(table_of(rows), epsilon=epsilon)
    assert not any(STEP in item.step for item in release.receipt.items)
    assert all(one.rounding is None for one in release.output.refinements)


def test_nothing_is_asked_of_columns_without_numbers_or_whose_values_are_counted_one_by_one():
    table = pd.DataFrame({"age": np.arange(ROWS) % 60, "sex": np.where(np.arange(ROWS) % 2, "f", "m")})
    release = released(table, sd.Schema({"age": sd.Integer(0, 59), "sex": sd.Categorical(["f", "m"])}))
    assert not any(STEP in item.step for item in release.receipt.items)


def _axis(name, column):
    axis = axis_of_roundness(name, column)
    assert axis is not None
    return axis


def _cuts_leaves(measured, release) -> bool:
    queries, fine = measured.queries, {one.fine.name: one.fine for one in release.output.refinements}
    axes = getattr(getattr(queries, "domain", None), "axes", ())
    return bool(axes) and all(axis.groups_of(fine[axis.name]) is None for axis in axes)


@given(st.data())
def test_without_noise_all_bins_together_have_the_counts_of_classes(data):
    leaves, classes = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 4))
    amounts = st.lists(st.floats(0.01, 1), min_size=classes, max_size=classes)
    parts = np.array([data.draw(amounts) for _ in range(leaves)])
    parts /= parts.sum(axis=1, keepdims=True)
    rows = np.array(data.draw(st.lists(st.floats(1, 1000), min_size=leaves, max_size=leaves)))
    true = np.array(data.draw(amounts))
    shares = parts * true
    counts = rows @ (shares / shares.sum(axis=1, keepdims=True))
    found = rounded(rows, parts, np.arange(leaves), counts, 1e-9 * rows.sum())
    if found is None:
        assert counts == pytest.approx(rows @ parts, rel=1e-6)
        return
    likely, kept = found
    assert (likely > 0).all()
    assert kept == pytest.approx(rows)
    found = parts * likely
    assert rows @ (found / found.sum(axis=1, keepdims=True)) == pytest.approx(counts, rel=0.02, abs=0.01 * rows.sum())


def test_counts_that_noise_explains_change_nothing():
    parts = np.tile([0.001, 0.099, 0.9], (10, 1))
    rows, rng = np.full(10, 500.0), np.random.default_rng(0)
    found = [rounded(rows, parts, np.arange(10), rows @ parts + rng.normal(0, 100, 3), 100.0) for _ in range(300)]
    assert sum(one is not None for one in found) < 10


def test_a_bin_of_single_values_is_no_reason_to_round_others():
    parts = np.array([[1.0, 0.0], [0.01, 0.99]])  # a heap at a round value, and a bin of numbers with all digits
    assert rounded(np.array([3000.0, 2000.0]), parts, np.arange(2), np.array([3020.0, 1980.0]), 30.0) is None


def test_leaves_of_noise_between_round_values_lose_rows_to_others_of_their_bin():
    parts = np.array([[1.0, 0.0], [0.0, 1.0], [0.01, 0.99], [0.0, 1.0]])
    found = rounded(np.array([500.0, 200, 300, 50]), parts, np.array([0, 0, 0, 1]), np.array([1000.0, 50.0]), 10.0)
    assert found is not None
    likely, rows = found
    assert rows == pytest.approx([625.0, 0.0, 375.0, 50.0], abs=1)  # the last leaf is all there is of its bin
    assert likely[0] > 1000 * likely[1]


def test_one_record_moves_the_counts_by_no_more_than_is_charged():
    columns = {"x": sd.Continuous(0, 8, nullable=True), "y": sd.Integer(0, 90, special=(-1,))}
    domain = Domain(tuple(_axis(name, column) for name, column in columns.items()))
    queries = one_ways(domain)
    records = np.array([*itertools.product(*(range(size) for size in domain.shape))])
    each = np.array([queries.sums(np.asfortranarray(row[None, :])) for row in records])
    removed = max(float(np.linalg.norm(one)) for one in each)
    replaced = max(float(np.linalg.norm(a - b)) for a, b in itertools.product(each, each))
    for neighbors, attained in (("add_remove", removed), ("replace_one", replaced)):
        norms = Adjacency(neighbors).sensitivity(queries)
        assert norms.l2 == pytest.approx(attained)
