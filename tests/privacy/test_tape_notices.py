"""The tape can fail: builds that are broken each in one way, every one of which it must notice, and what it must not."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tape import Comparison, compared, within
from tape_worlds import DECLARED, TYPED, everything_of, typed_frame

import synthdp as sd
from synthdp.errors import DataError
from synthdp.estimators import synthetic_release
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.receipt import Receipt
from synthdp.queries.norms import Norms
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.source import Source

SMALL = DECLARED.part(["age", "pay", "city"])
PRIVATE: list[pd.DataFrame] = []
"""The table that is being released: what no honest build looks at here."""


def pair(name: str, folder: Path, *, schema: Schema | None = SMALL, **promise: Any) -> Comparison:
    """Compare two releases of the façade."""

    def of(rows: list[dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
        def run(place: Path) -> dict[str, Any]:
            PRIVATE[:] = [typed_frame(rows)]
            epsilon = 2.0 if schema is not None else 60.0
            made = sd.SyntheticRelease(schema=schema, epsilon=epsilon, delta=1e-6, random_state=0, **promise)
            return everything_of(made.fit(PRIVATE[0]), place, pages=False)

        return run

    small, large = TYPED[name].pair(promise.get("neighbors", "add_remove"), promise.get("privacy_unit"))
    return compared(of(small), of(large), folder)


def rows_of_a_unit_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Adjacency, "sensitivity", lambda self, queries: queries.bounds.one.either(Norms(1, 1, 1)))


def neighbours_are_taken_for_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Adjacency, "sensitivity", lambda self, queries: queries.bounds.one)


def categories_come_from_the_data(patch: pytest.MonkeyPatch) -> None:
    def seen(source: Source, *, without: str | None = None) -> Schema:
        levels = sorted(PRIVATE[0]["city"].dropna().unique())
        return SMALL.replace({"city": sd.Categorical(levels, nullable=True)})

    patch.setattr(synthetic_release, "infer_schema", seen)


def bounds_come_from_the_data(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        synthetic_release,
        "infer_schema",
        lambda source, without=None: SMALL.replace({"age": sd.Integer(0, int(PRIVATE[0]["age"].max()))}),
    )


def the_exact_number_of_rows_is_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Adjacency, "rows_are_public", property(lambda self: True))


def a_value_decides_a_type(patch: pytest.MonkeyPatch) -> None:
    honest = TableFormat.of

    def of(source: Source, schema: Schema) -> TableFormat:
        found = honest(source, schema)
        pay = "float32" if PRIVATE[0]["pay"].isna().any() else "float64"
        return replace(found, dtypes=tuple((name, pay if name == "pay" else one) for name, one in found.dtypes))

    patch.setattr(TableFormat, "of", of)


def noise_is_drawn_elsewhere(patch: pytest.MonkeyPatch) -> None:
    def noted(*_: object) -> tuple[str, ...]:
        count = noise.discrete_laplace(np.array([len(PRIVATE[0])]), scale=0.01)
        return (f"{count[0]} rows",)

    patch.setattr(synthetic_release, "ignored_notes", noted)


def the_receipt_counts_rows(patch: pytest.MonkeyPatch) -> None:
    honest = Receipt.__str__
    patch.setattr(Receipt, "__str__", lambda self: f"{honest(self)} of {len(PRIVATE[0])} rows")


def the_log_counts_rows(patch: pytest.MonkeyPatch) -> None:
    def noted(*_: object) -> tuple[str, ...]:
        logging.getLogger("synthdp.estimators").warning("%d rows", len(PRIVATE[0]))
        return ()

    patch.setattr(synthetic_release, "ignored_notes", noted)


def a_value_is_refused(patch: pytest.MonkeyPatch) -> None:
    def check(*_: object, **__: object) -> None:
        if (PRIVATE[0]["age"].fillna(0) > 9).any():
            raise DataError("a value of column 'age' is out of bounds")

    patch.setattr(synthetic_release, "check_noise", check)


def a_time_is_saved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(synthetic_release, "ignored_notes", lambda *_: (f"made at {time.time_ns()}",))


def an_id_is_saved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(synthetic_release, "ignored_notes", lambda *_: (f"release {secrets.token_hex(4)}",))


UNIT = {"privacy_unit": "who", "max_rows_per_unit": 3}
BROKEN: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, dict[str, Any], str]] = {
    rows_of_a_unit_are_forgotten: ("a thousand rows of a person", UNIT, "moved by"),
    neighbours_are_taken_for_others: ("at the bounds", {"neighbors": "replace_one"}, "moved by"),
    categories_come_from_the_data: ("a new category", {"schema": None}, "question"),
    bounds_come_from_the_data: ("past the bounds", {"schema": None}, "question"),
    the_exact_number_of_rows_is_used: ("another row", {}, "differs"),
    a_value_decides_a_type: ("all missing", {}, "result types differs"),
    noise_is_drawn_elsewhere: ("another row", {}, "elsewhere"),
    the_receipt_counts_rows: ("another row", {}, "differs"),
    the_log_counts_rows: ("another row", {}, "log differs"),
    a_value_is_refused: ("past the bounds", {}, "raised differs"),
    a_time_is_saved: ("another row", {}, "release.json differs"),
    an_id_is_saved: ("another row", {}, "release.json differs"),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("broken", "case"), BROKEN.items(), ids=[one.__name__ for one in BROKEN])
def test_a_broken_build_is_noticed(broken, case, tmp_path, monkeypatch):
    name, settings, said = case
    broken(monkeypatch)
    assert any(said in fault for fault in pair(name, tmp_path, **settings).faults)


@pytest.mark.slow
@pytest.mark.parametrize("case", {(name, *settings) for name, settings, _ in BROKEN.values()})
def test_the_same_pair_of_the_build_as_it_is_has_no_fault(case, tmp_path):
    name, *settings = case
    known = {"schema": None, "neighbors": "replace_one", **UNIT}
    found = pair(name, tmp_path, **{one: known[one] for one in settings})
    assert found.faults == ()
    assert found.outcome == ""


@pytest.mark.parametrize(
    ("law", "moved", "sensitivity"),
    [
        (NoiseLaw.LAPLACE, [1, -2, 0], 3.0),
        (NoiseLaw.GAUSSIAN, [3, -4], 5.0),
        (NoiseLaw.GAUSSIAN, [2**52, 0], float(2**52)),
        (NoiseLaw.LINF, [2, -7, 7], 7.0),
    ],
)
def test_a_change_is_measured_exactly(law, moved, sensitivity):
    assert within(moved, law, sensitivity)
    assert not within([moved[0] + (1 if moved[0] > 0 else -1), *moved[1:], 8], law, sensitivity)
