"""A distribution from public rows: it is one, obeys rules, and is nearer to the source than the rows."""

import numpy as np

from synthdp.domain.public_rows import UNKNOWN
from synthdp.fit.smoothed_rows import SmoothedRows, smoothed_rows
from synthdp.queries.contingency import contingency

SHAPE = (8, 6, 5)


def chain(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a = np.minimum(rng.geometric(0.3, rows) - 1, 7)
    b = np.clip(np.rint(a + rng.normal(0, 1.5, rows)), 0, 5).astype(np.int64)
    return np.column_stack([a, b, np.clip(np.rint(b + rng.normal(0, 1.5, rows)), 0, 4).astype(np.int64)])


def smoothed(codes: np.ndarray, **settings: object) -> SmoothedRows:
    margins = [np.ones(size) for size in SHAPE]
    return smoothed_rows(codes, SHAPE, margins, **{"zeros": {}, "rng": np.random.default_rng(2), **settings})


def error(found: np.ndarray, truth: np.ndarray) -> float:
    return 0.5 * float(np.abs(found / found.sum() - truth / truth.sum()).sum())


def test_smoothed_rows_are_nearer_to_their_source_than_the_rows() -> None:
    public, source = chain(300, 0), contingency(chain(400_000, 1), SHAPE, (0, 1, 2))
    made = smoothed(public)
    model = contingency(made.codes, SHAPE, (0, 1, 2), made.weights)
    assert error(model, source) < 0.9 * error(contingency(public, SHAPE, (0, 1, 2)), source)


def test_weights_are_a_distribution_and_one_ways_stay() -> None:
    public = chain(500, 3)
    made = smoothed(public)
    assert (made.weights >= 0).all()
    assert abs(made.weights.sum() - 1) < 1e-9
    for j in range(3):
        assert error(contingency(made.codes, SHAPE, (j,), made.weights), contingency(public, SHAPE, (j,))) < 0.01


def test_shuffled_columns_have_no_relations() -> None:
    shuffled = np.column_stack([np.random.default_rng(j).permutation(chain(500, 4)[:, j]) for j in range(3)])
    assert smoothed(shuffled).related == 0


def test_a_forbidden_combination_does_not_occur() -> None:
    mask = np.ones((8, 6), np.bool_)
    mask[0, 1] = False
    made = smoothed(chain(500, 5), zeros={(0, 1): mask.ravel()})
    assert not ((made.codes[:, 0] == 0) & (made.codes[:, 1] == 1)).any()


def test_unknown_values_are_drawn_from_the_margins() -> None:
    public = chain(400, 6)
    public[:, 2] = UNKNOWN
    margins = [np.ones(8), np.ones(6), np.array([1.0, 0, 0, 0, 1])]
    possible = {(2,): margins[2] > 0}
    made = smoothed_rows(public, SHAPE, margins, zeros=possible, rng=np.random.default_rng(0))
    assert set(np.unique(made.codes[:, 2])) <= {0, 4}


def test_few_or_equal_rows_do() -> None:
    for rows in (0, 1, 2, 5):
        assert abs(smoothed(np.zeros((rows, 3), np.int64)).weights.sum() - 1) < 1e-9
