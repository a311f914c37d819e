"""A column type is one class: defined here, it is drafted into a schema, read, released and asked like any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from strategies import columns as any_columns

import synthdp as sd
from synthdp.distribution.explicit import Explicit
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import Labels, Numbers, decode, encode
from synthdp.domain.grid import grid_of
from synthdp.domain.refinement import Refinement
from synthdp.pictures.column_views import column_views
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import COLUMN_TYPES, Column, Known, Level, Levels, Quantity, Steps, register
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat


@dataclass(frozen=True, slots=True)
class Angle(Known):
    """A new kind of number: degrees in steps of 15."""

    quantity: ClassVar[Quantity] = "number"
    whole: ClassVar[bool] = True
    nullable: bool = False

    is_complete: ClassVar[bool] = True  # type: ignore[assignment,misc]

    def support(self) -> Steps:
        """Multiples of 15."""
        return Steps(0, 23, size=15)

    def check(self, where: str) -> None:
        """No settings."""

    def example(self) -> Self:
        """The column itself."""
        return self

    def in_words(self) -> str:
        """What it is."""
        return "angle in degrees"


@dataclass(frozen=True, slots=True)
class Grade(Known):
    """A new kind of label, with an order: school grades of a country."""

    quantity: ClassVar[Quantity] = "label"
    country: str = "no"
    nullable: bool = field(default=False)

    is_complete: ClassVar[bool] = True  # type: ignore[assignment,misc]

    def support(self) -> Levels:
        """The grades, the worst first."""
        grades: dict[str, tuple[Level, ...]] = {"no": ("1", "2", "3", "4", "5", "6"), "us": ("F", "D", "C", "B", "A")}
        return Levels(grades[self.country])

    def check(self, where: str) -> None:
        """No rule."""

    def may_hold(self, value: object) -> bool:
        """A grade."""
        return value in self.support().levels

    def example(self) -> Self:
        """The column itself."""
        return self

    def in_words(self) -> str:
        """What it is."""
        return f"grade ({self.country})"


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    before = dict(COLUMN_TYPES)
    register(Angle)
    register(Grade)
    yield
    COLUMN_TYPES.clear()
    COLUMN_TYPES.update(before)


ANGLES = 15 * np.random.default_rng(1).integers(4, 8, 2000)
GRADES = np.random.default_rng(2).choice(["A", "B", "D"], 2000)
CONTAINERS = {
    "pandas": lambda: pd.DataFrame({"wind": ANGLES.astype("int16"), "grade": GRADES}),
    "polars": lambda: pl.DataFrame({"wind": ANGLES, "grade": GRADES}, schema={"wind": pl.Int16, "grade": pl.String}),
    "pyarrow": lambda: pa.table({"wind": pa.array(ANGLES, pa.int16()), "grade": pa.array(GRADES).dictionary_encode()}),
}


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_a_table_with_new_column_types_is_released_in_its_own_types(make: Any) -> None:
    schema = sd.Schema(
        {"wind": Angle(), "grade": Grade("us")},
        constraints=[sd.Implies({"grade": ["A"]}, {"wind": [(60, 90)]})],
    )
    schema = sd.Schema.from_json(schema.to_json())
    table = make()
    release = sd.SyntheticRelease(schema=schema, epsilon=5.0)
    synthetic = release.fit_transform(table)
    before, after = TableFormat.of(FrameSource(table), schema), TableFormat.of(FrameSource(synthetic), schema)
    values = nw.from_native(synthetic, eager_only=True).to_polars()
    assert after == before
    assert set(values["wind"].value_counts(sort=True)["wind"][:4]) == {60, 75, 90, 105}
    assert (values["wind"] % 15 == 0).all()
    assert values.filter(pl.col("grade").cast(pl.String) == "A")["wind"].is_between(60, 90).all()
    assert 60 < release.answer(sd.mean("wind")).estimate[0] < 105
    assert release.answer(sd.quantile("grade", 0.5)).estimate[0] in {"B", "D"}
    assert release.answer(sd.count("grade == 'A' and wind > 80")).estimate[0] >= 0


def test_what_a_column_says_of_itself_is_what_the_report_shows() -> None:
    release = sd.SyntheticRelease(schema=sd.Schema({"wind": Angle()}), epsilon=5.0).fit(pd.DataFrame({"wind": ANGLES}))
    view = column_views(release.release_.output, release.release_.measurements)[0]
    assert view.kind == "angle in degrees"


@pytest.mark.landing
@given(any_columns, st.data())
def test_a_column_that_no_row_has_a_regular_value_of_is_shown_without_one(column: Column, data: Any) -> None:
    schema = sd.Schema({"x": column})
    domain = domain_of(schema, bins=4)
    code = data.draw(st.integers(0, domain.shape[0] - 1))
    model = SyntheticModel(
        schema=schema, domain=domain, total=1.0, format=TableFormat.default(schema),
        refinements=tuple(Refinement(axis, np.arange(axis.size), np.ones(axis.size)) for axis in domain.axes),
        distribution=Explicit(shape=domain.shape, codes=np.array([[code]]), weights=np.ones(1)),
    )  # fmt: skip
    assert not [one.summary for one in column_views(model, ()) if "nan" in one.summary or "NaT" in one.summary]


@given(any_columns)
def test_every_column_type_answers_the_questions_of_a_column(column: Column) -> None:
    assert isinstance(column, Column)
    assert COLUMN_TYPES[type(column).__name__.lower()] is type(column)
    assert column.example() == column
    assert isinstance(column.in_words(), str)
    assert column.labelled + column.measured + column.names_rows == 1


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    "levels", [[10**30, 10**30 + 1], [0, 2**64 - 1], [-(2**63) - 1, 5], [2**63 - 1, -(2**63)], [True, 2**70]]
)
def test_the_type_of_a_column_by_default_holds_its_levels(library: str, levels: list[Level]) -> None:
    """A report draws rows in default types: it failed after the spend where levels were longer than 64 bits."""
    for schema in (sd.Schema({"x": sd.Categorical(levels)}), sd.Schema({"x": sd.Ordinal(levels, nullable=True)})):
        form = TableFormat.default(schema, library=library)
        column = nw.from_native(form.build(schema, {"x": Labels(list(levels), np.array([0, 1]))}), eager_only=True)["x"]
        assert [str(cell) for cell in column.to_list()] == [str(level) for level in levels]


@given(st.integers(0, 24))
def test_values_of_steps_are_their_multiples(unit: int) -> None:
    column = Angle(nullable=True)
    raw = decode(column, np.array([unit], np.uint8))
    assert isinstance(raw, Numbers)
    assert (encode(column, raw) == unit).all()
    assert grid_of(column).regular == 24
