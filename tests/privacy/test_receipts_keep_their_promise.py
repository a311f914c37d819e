"""R31: whatever way the façade is called, what comes out keeps the promise on its own receipt, for its own neighbours.

By brute force: every table of up to three rows of one Boolean column, and every pair of them that the receipt calls
neighbours.  The noisy answers of one run are handed out again on all tables; then the privacy loss of the worst outcome
is the sum over the draws of how far the exact answers are apart, in the norm of the law, over its scale.  It is infinite
if anything that comes out differs, such as the number of rows.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from synthdp import Boolean, Categorical, Integer, Schema, SyntheticRelease
from synthdp.errors import DataError, ParameterError, UnprotectedLabelsWarning
from synthdp.privacy import noise
from synthdp.privacy.neighbors import Neighbors

EPSILON = 1.0
SCHEMA = Schema({"b": Boolean()})
LABELLED = Schema({"b": Boolean(), "target": Boolean()})
TABLES = [rows for n in (1, 2, 3) for rows in itertools.combinations_with_replacement([False, True], n)]
NORMS: dict[str, Callable[[np.ndarray], float]] = {
    "discrete_laplace": lambda change: float(np.abs(change).sum()),
    "linf_knorm": lambda change: float(np.abs(change).max()),
}

Call = Callable[[SyntheticRelease, pd.DataFrame], Any]
CALLS: dict[str, tuple[dict[str, Any], Call]] = {
    "fit_transform(X)": ({}, lambda release, X: release.fit_transform(X)),
    "fit_transform(X), replace one": ({"neighbors": "replace_one"}, lambda release, X: release.fit_transform(X)),
    "fit_transform(X, y)": ({}, lambda release, X: release.fit_transform(X, np.zeros(len(X)))),
    "fit_transform(X, y), replace one": (
        {"neighbors": "replace_one"},
        lambda release, X: release.fit_transform(X, np.zeros(len(X))),
    ),
    "fit_transform(X, y) with n_rows": ({"n_rows": 2}, lambda release, X: release.fit_transform(X, np.zeros(len(X)))),
    "fit_resample(X, y)": (
        {"schema": LABELLED},
        lambda release, X: release.fit_resample(X, pd.Series(X["b"].tolist(), name="target")),
    ),
    "l1_fit": ({"mechanism": "l1_fit"}, lambda release, X: release.fit_transform(X, np.zeros(len(X)))),
}


def run(rows: tuple[bool, ...], call: str, outputs: list[Any] | None) -> tuple[list[tuple[str, Any, float]], Any, Any]:
    """Return each draw (law, exact answers, scale), the receipt, and what came out, given the noisy answers if any."""
    settings, do = CALLS[call]
    release = SyntheticRelease(**{"schema": SCHEMA, "epsilon": EPSILON, "delta": 0.0, "random_state": 0, **settings})
    asked: list[tuple[str, Any, float]] = []

    def draw(name: str, real: Callable[..., Any], values: Any, *, scale: float) -> Any:
        asked.append((name, values.copy(), scale))
        return real(values, scale=scale) if outputs is None else outputs[len(asked) - 1]

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnprotectedLabelsWarning)
        trace = recorded(patch)
        for name in NORMS:
            patch.setattr(noise, name, partial(draw, name, getattr(noise, name)))
        made = do(release, pd.DataFrame({"b": list(rows)}))
    assert {draw.operation for draw in trace.draws} <= set(NORMS)  # another law would need a norm of its own
    return asked, release.receipt_, (made, list(trace.outputs))


def are_neighbours(a: tuple[bool, ...], b: tuple[bool, ...], relation: Neighbors) -> bool:
    gone, come = Counter(a) - Counter(b), Counter(b) - Counter(a)
    change = sorted((gone.total(), come.total()))
    return change == ([0, 1] if relation is Neighbors.ADD_REMOVE else [1, 1])


def loss(first: Any, second: Any) -> float:
    """The log-ratio of the probabilities of the outcome that tells two tables apart best."""
    (asked, _, (made, _)), (others, _, (other, _)) = first, second
    same = [(name, scale, len(values)) for name, values, scale in asked] == [
        (name, scale, len(values)) for name, values, scale in others
    ]
    if not same or str(made) != str(other):
        return math.inf
    return sum(
        NORMS[name](values - moved) / scale for (name, values, scale), (_, moved, _) in zip(asked, others, strict=True)
    )


def worst(call: str, relation: Neighbors | None = None) -> tuple[float, float]:
    """Return the largest loss over all neighbours, by default those of the receipt, and what the receipt promises."""
    _, receipt, (_, kept) = run(TABLES[0], call, None)
    runs = {rows: run(rows, call, kept) for rows in TABLES}
    wanted = relation or receipt.adjacency.neighbors
    pairs = [(a, b) for a, b in itertools.combinations(TABLES, 2) if are_neighbours(a, b, wanted)]
    assert pairs
    return max(loss(runs[a], runs[b]) for a, b in pairs), receipt.total.epsilon


@pytest.mark.sampled
@pytest.mark.parametrize("call", CALLS)
def test_what_comes_out_keeps_the_promise_on_the_receipt(call: str) -> None:
    lost, promised = worst(call)
    assert promised == EPSILON
    assert 0.4 * EPSILON < lost <= EPSILON * (1 + 1e-9)


def test_an_add_or_remove_release_is_worth_half_as_much_against_replacing() -> None:
    """Why y cannot simply be added to it: replacing a row is removing one and adding one (group privacy)."""
    lost, promised = worst("fit_transform(X)", Neighbors.REPLACE_ONE)
    assert 1.5 * promised < lost <= 2 * promised * (1 + 1e-9)


def test_the_number_of_rows_tells_everything_against_adding_a_row() -> None:
    lost, _ = worst("fit_transform(X, y)", Neighbors.ADD_REMOVE)
    assert lost == math.inf


PEOPLE = pd.DataFrame({"age": np.arange(600) % 80, "who": np.arange(600) // 2})
LABELS = np.where(PEOPLE["age"] > 40, "old", "young")
AGES = Schema({"age": Integer(0, 99)})


def test_with_a_y_the_promise_is_restated_in_full() -> None:
    release = SyntheticRelease(schema=AGES, epsilon=0.7, delta=1e-7)
    with pytest.warns(UnprotectedLabelsWarning):
        made = release.fit_transform(PEOPLE[["age"]], LABELS)
    receipt = release.receipt_
    assert len(made) == len(PEOPLE)
    assert receipt.adjacency.neighbors is Neighbors.REPLACE_ONE
    assert (receipt.total.epsilon, receipt.total.delta) == (0.7, 1e-7)
    assert "number of rows is public" in " ".join(receipt.assumptions)
    assert "labels in y are real" in " ".join(receipt.notes)
    assert release.get_params()["neighbors"] == "add_remove"
    assert release.release_.receipt == receipt


def test_with_a_y_and_a_privacy_unit_it_is_refused_before_any_spend(tmp_path: Path) -> None:
    """One person's ten thousand rows would come out as ten thousand rows."""
    one = pd.DataFrame({"age": [30] * 10_237, "who": "anna"})
    release = SyntheticRelease(
        schema=AGES, privacy_unit="who", max_rows_per_unit=3, ledger=tmp_path / "l.sqlite", dataset="d"
    )
    with pytest.raises(ParameterError, match="privacy_unit"):
        release.fit_transform(one, np.zeros(len(one)))
    with pytest.raises(ParameterError, match="privacy_unit"):
        make_pipeline(release, LogisticRegression()).fit(one, np.zeros(len(one)))
    assert not (tmp_path / "l.sqlite").exists()


def test_with_a_privacy_unit_and_n_rows_a_y_makes_nothing_public() -> None:
    release = SyntheticRelease(schema=AGES, privacy_unit="who", max_rows_per_unit=2, n_rows=50)
    with pytest.warns(UnprotectedLabelsWarning):
        made = release.fit_transform(PEOPLE, LABELS)
    assert len(made) == 50
    assert release.receipt_.adjacency.neighbors is Neighbors.ADD_REMOVE


@pytest.mark.parametrize("y", [np.zeros(599), [], 7, {"age": 1}, [[1], [1, 2]]], ids=str)
def test_a_y_that_has_no_label_for_every_row_is_refused_before_any_spend(y: Any, tmp_path: Path) -> None:
    release = SyntheticRelease(schema=AGES, ledger=tmp_path / "l.sqlite", dataset="d")
    with (
        pytest.warns(UnprotectedLabelsWarning),
        pytest.raises(DataError, match="label") as caught,
    ):
        release.fit_transform(PEOPLE[["age"]], y)
    assert caught.value.__context__ is None
    assert not (tmp_path / "l.sqlite").exists()


def test_real_labels_beside_synthetic_rows_are_warned_about_with_a_way_out() -> None:
    steps = make_pipeline(SyntheticRelease(schema=AGES), LogisticRegression())
    with pytest.warns(UnprotectedLabelsWarning) as caught:
        steps.fit(PEOPLE[["age"]], LABELS)
    said = str(caught[0].message)
    assert all(way in said for way in ("REAL", "fit_resample", "imbalanced-learn", "TrainOnSynthetic"))
    assert not any(str(level) in said for level in ("old", "young", len(PEOPLE)))


def test_a_warning_made_an_error_stops_before_any_spend(tmp_path: Path) -> None:
    release = SyntheticRelease(schema=AGES, ledger=tmp_path / "l.sqlite", dataset="d")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnprotectedLabelsWarning)
        with pytest.raises(UnprotectedLabelsWarning):
            release.fit_transform(PEOPLE[["age"]], LABELS)
    assert not (tmp_path / "l.sqlite").exists()


def test_labels_that_are_released_with_their_rows_are_not_warned_about() -> None:
    schema = AGES.extended({"target": Categorical(["old", "young"])})
    rows, labels = SyntheticRelease(schema=schema).fit_resample(PEOPLE[["age"]], LABELS)
    assert len(rows) == len(labels)
    assert set(labels) <= {"old", "young"}
