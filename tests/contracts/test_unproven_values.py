"""A missing value, or a label for others that discovery invented, comes out only where noise does not explain it."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from no_noise import with_repeatable_noise
from scipy import stats

import synthdp as sd
from synthdp.distribution.components import Product
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.domain import domain_of
from synthdp.domain.refinement import Refinement
from synthdp.errors import DiscoveryWarning, MisfitWarning
from synthdp.measurements import ONE_SIDED, UNLIKELY, by_noise_alone, findings
from synthdp.sampling.restriction import without_points
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.tables.format import TableFormat

ROWS = 3000
pytestmark = pytest.mark.filterwarnings("ignore:epsilon", "ignore:SmoothSynthesis leaves out")


@cache
def table() -> pd.DataFrame:
    """Texts, whole and real numbers, truth values: all there."""
    rng = np.random.default_rng(2)
    columns = {f"label {i}": rng.choice(["x", "y", "z"], ROWS) for i in range(3)}
    columns |= {f"real {i}": rng.normal(size=ROWS).round(1) for i in range(2)}
    columns |= {"whole": rng.integers(0, 50, ROWS), "truth": rng.random(ROWS) < 0.4}
    return pd.DataFrame(columns)


def release(frame: pd.DataFrame, **settings: Any) -> pd.DataFrame:
    return sd.SyntheticRelease(delta=1e-6, random_state=0, **settings).fit_transform(frame)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("mechanism", "options"), [("auto", None), ("l1_fit", {"support": 300}), ("smooth_synthesis", None)]
)
def test_a_complete_table_comes_out_complete_and_of_its_own_types(mechanism: str, options: Any) -> None:
    whole = table()
    drawn = [release(whole, epsilon=3.0, mechanism=mechanism, mechanism_options=options) for _ in range(2)]
    complete = [not found.isna().any().any() for found in drawn]
    assert any(complete)  # noise passes for a missing value in one release of fifty, at most
    found = drawn[complete.index(True)]
    assert (found.dtypes == whole.dtypes[found.columns]).all()


@pytest.mark.slow
def test_no_label_for_others_is_invented_where_all_levels_were_found() -> None:
    found = release(table(), epsilon=20.0)
    for name in ("label 0", "label 1", "label 2"):
        assert set(found[name]) == {"x", "y", "z"}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["auto", "smooth_synthesis"])
def test_values_that_are_often_missing_are_missing_in_what_comes_out(mechanism: str) -> None:
    whole = table()
    gone = np.random.default_rng(3).random(ROWS) < 0.2
    found = release(whole.assign(**{"real 0": whole["real 0"].mask(gone)}), epsilon=20.0, mechanism=mechanism)
    assert abs(found["real 0"].isna().mean() - gone.mean()) < 0.02
    assert not found.drop(columns="real 0").isna().any().any()


def test_what_is_seldom_missing_comes_out_once_the_noise_is_small_enough() -> None:
    """With less noise never fewer: a rare value that was declared does not vanish for good."""
    schema = sd.Schema({"x": sd.Integer(0, 9, nullable=True)})
    frame = pd.DataFrame({"x": np.where(np.arange(ROWS) % 100 == 0, np.nan, np.arange(ROWS) % 10.0)})
    shares = [
        np.median([release(frame, schema=schema, epsilon=epsilon)["x"].isna().mean() for _ in range(3)])
        for epsilon in (0.05, 5.0, 200.0)
    ]
    assert shares[0] <= shares[1] + 0.002
    assert shares[1] == pytest.approx(0.01, abs=0.005)
    assert shares[2] == pytest.approx(0.01, abs=0.001)


def test_a_value_that_a_rule_asks_for_is_kept() -> None:
    columns = {"a": sd.Boolean(), "b": sd.Integer(0, 9, nullable=True)}
    schema = sd.Schema(columns, constraints=[sd.Implies({"a": True}, {"b": None})])
    frame = pd.DataFrame({"a": np.arange(ROWS) % 100 == 0, "b": np.arange(ROWS) % 10.0})
    frame.loc[frame["a"], "b"] = np.nan
    found = release(frame, schema=schema, epsilon=0.5)
    assert found["b"][found["a"].astype(bool)].isna().all()


def test_a_complete_column_from_which_another_is_computed_comes_out_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    with_repeatable_noise(monkeypatch)
    columns = {"a": sd.Integer(0, 9, nullable=True), "b": sd.Integer(0, 19, nullable=True)}
    frame = pd.DataFrame({"a": pd.array(np.arange(600) % 10, "Int64")})
    found = [
        release(frame, schema=sd.Schema(columns, constraints=[sd.Derived("b", "a * 2")]), epsilon=0.1)
        for _ in range(12)
    ]
    assert all(one.notna().all().all() for one in found)
    assert all((one["b"] == 2 * one["a"]).all() for one in found)


def test_a_column_of_nothing_but_missing_values_stays_missing() -> None:
    schema = sd.Schema({"x": sd.Integer(0, 9, nullable=True)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", MisfitWarning)
        found = release(pd.DataFrame({"x": np.full(ROWS, np.nan)}), schema=schema, epsilon=2.0)
    assert found["x"].isna().mean() > 0.95


SCHEMA = sd.Schema({"x": sd.Ordinal(["a", "b", "c"], nullable=True), "y": sd.Boolean()})
DOMAIN = domain_of(SCHEMA)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4, 0.0])[:, None] * np.array([0.3, 0.7, 0.0])
DISTRIBUTIONS = {
    "explicit": Explicit(shape=DOMAIN.shape, codes=np.argwhere(WEIGHTS >= 0), weights=WEIGHTS.ravel()),
    "product": Product(shape=DOMAIN.shape, margins=(WEIGHTS.sum(axis=1), WEIGHTS.sum(axis=0))),
    "graphical": Graphical.calibrated(
        junction_tree(DOMAIN.shape, [(0, 1)]), {(0, 1): np.log(np.maximum(WEIGHTS, 1e-300)).ravel()}
    ),
}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_a_unit_left_out_of_a_model_leaves_the_others_in_proportion(kind: str) -> None:
    model = SyntheticModel(
        schema=SCHEMA, domain=DOMAIN, distribution=DISTRIBUTIONS[kind], total=1000.0, format=TableFormat.default(SCHEMA),
        refinements=tuple(Refinement.trivial(axis) for axis in DOMAIN.axes),
    )  # fmt: skip
    without = without_points(model, [("x", 3)])
    np.testing.assert_allclose(without.distribution.marginal((0,))[:3], np.array([1, 2, 3]) / 6, atol=1e-9)
    np.testing.assert_allclose(without.distribution.marginal((1,))[:2], [0.3, 0.7], atol=1e-9)
    assert without.sample(500, random_state=0)["x"].notna().all()


def test_a_unit_that_shares_its_cell_is_left_out_of_it() -> None:
    (axis,) = domain_of(sd.Schema({"x": SCHEMA["x"]})).axes
    refinement = Refinement(axis, np.array([0, 0, 1, 1, 1]), np.array([3.0, 1.0, 0.0, 5.0, 0.0]))
    schema = sd.Schema({"x": SCHEMA["x"]})
    model = SyntheticModel(
        schema=schema, domain=type(DOMAIN)((refinement.coarse(),)), total=1000.0, format=TableFormat.default(schema),
        distribution=Product(shape=(2,), margins=(np.array([0.5, 0.5]),)), refinements=(refinement,),
    )  # fmt: skip
    drawn = without_points(model, [("x", 3)]).sample(1000, random_state=0)["x"]
    assert drawn.notna().all()
    assert (drawn == "c").mean() == pytest.approx(0.5, abs=0.01)


def test_a_range_or_levels_that_noise_hides_are_said() -> None:
    few = pd.DataFrame({"number": [None] * 5985 + [1.0, 2.0, 3.0] * 5, "label": [f"only {i}" for i in range(6000)],
                        "found": ["a", "b"] * 3000})  # fmt: skip
    release = sd.SyntheticRelease(delta=1e-9)
    with pytest.warns(DiscoveryWarning, match="'number'.*'label'"):
        made = release.fit_transform(few)
    assert list(made.columns) == list(release.schema_) == ["found"]
    for name in ("number", "label"):
        assert any(f"{name!r} is left out" in note for note in release.receipt_.notes)


def test_where_noise_hides_every_column_all_stay_and_none_is_said_to_mean_anything() -> None:
    few = pd.DataFrame({"number": [1.0, 2.0, 3.0] * 5, "label": [f"only {i}" for i in range(15)]})
    release = sd.SyntheticRelease(epsilon=0.1, delta=1e-9)
    with pytest.warns(DiscoveryWarning, match=r"'number'.*'label'"):
        made = release.fit_transform(few)
    assert list(made.columns) == ["number", "label"]
    assert release.schema_["label"].levels == (release.schema_["label"].other,)
    for name in few:
        assert any(f"{name!r} stays" in note for note in release.receipt_.notes)


def test_a_label_that_noise_hides_stays_as_other_values_alone() -> None:
    rows = pd.DataFrame({"number": [1.0, 2.0, 3.0] * 2000})
    release = sd.SyntheticRelease(epsilon=0.5)
    with pytest.warns(DiscoveryWarning, match="'target'"):
        _, labels = release.fit_resample(rows, [f"only {i}" for i in range(6000)])
    assert set(labels) == {"other"}
    assert list(release.schema_) == ["number", "target"]


def test_what_was_found_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DiscoveryWarning)
        release(table()[["whole", "label 0"]], epsilon=5.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_findings_are_those_of_the_step_up_by_its_definition(chances: list[float]) -> None:
    found, ordered = findings(chances), sorted(chances)
    noise = min(2 * (1 + sum(one > 0.5 for one in chances)), len(chances))
    assert found == max(
        [0, *(k for k in range(1, len(ordered) + 1) if ordered[k - 1] <= min(UNLIKELY * k / noise, ONE_SIDED))]
    )
    assert found >= sum(one <= UNLIKELY / len(chances) for one in chances)  # never fewer than by the union bound


def test_where_values_are_missing_in_all_columns_each_is_judged_nearly_by_itself() -> None:
    """What its own interval of 95 % excludes from 0 is kept: the columns say together that hardly one is complete."""
    assert findings([0.024] * 6) == findings([1e-9] * 5 + [0.024]) == 6
    assert findings([0.026] * 40) == 0


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_where_nothing_is_there_anything_is_found_once_in_a_hundred_times(law: str) -> None:
    rng = np.random.default_rng(7)
    noise = rng.normal(size=(4000, 40)) if law == "normal" else rng.laplace(scale=0.5**0.5, size=(4000, 40))
    wrong = sum(findings([by_noise_alone(one, 1.0, normal=law == "normal") for one in row]) > 0 for row in noise)
    assert wrong <= stats.binom.ppf(1 - 1e-6, len(noise), 1.2 * UNLIKELY)


def test_of_many_columns_with_missing_values_few_come_out_without_and_the_receipt_names_them() -> None:
    rng = np.random.default_rng(1)
    rows, gone = 800, {f"gone {i}": 0.3 + i / 60 for i in range(24)}
    frame = pd.DataFrame(
        {name: np.where(rng.random(rows) < share, np.nan, rng.integers(0, 9, rows)) for name, share in gone.items()}
    )
    frame = frame.assign(**{f"whole {i}": rng.integers(0, 9, rows).astype(float) for i in range(6)})
    schema = sd.Schema({name: sd.Integer(0, 9, nullable=True) for name in frame})
    estimator = sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-6)
    found = estimator.fit_transform(frame).isna().mean()
    lost = [name for name in gone if found[name] == 0]
    assert len(lost) <= 12
    assert sum(found[name] > 0 for name in frame if name not in gone) <= 2
    said = " ".join(estimator.receipt_.notes)
    assert all(repr(name) in said for name in lost[:2])


def test_what_comes_out_without_missing_values_has_an_interval_that_holds_none() -> None:
    rng = np.random.default_rng(4)
    rows = 400
    frame = pd.DataFrame(
        {f"x{i}": np.where(np.arange(rows) < i + 10, np.nan, rng.integers(0, 3, rows)) for i in range(24)}
    )
    estimator = sd.SyntheticRelease(
        schema=sd.Schema({name: sd.Integer(0, 2, nullable=True) for name in frame}), delta=1e-6
    )
    complete = estimator.fit_transform(frame).notna().all()
    lower = {name: estimator.answer(sd.count(f"{name} is null"))["lower"][0] for name in frame}
    assert complete.any()
    assert all(lower[name] == 0 for name in frame if complete[name])
    (share,) = estimator.answer(sd.share(f"{complete.idxmax()} is null"))["lower"]
    assert share == 0


def test_a_column_in_which_hardly_a_value_fits_is_said_first_with_the_likely_cause() -> None:
    frame = pd.DataFrame({"paid": ["652,53", "7,20", "81,00"] * 1000 + ["5"] * 10, "x": [1, 2] * 1505})
    schema = sd.Schema({"paid": sd.Continuous(0, 1600), "x": sd.Integer(1, 2)})
    with pytest.warns(MisfitWarning, match="'paid'.*format="):
        estimator = sd.SyntheticRelease(schema=schema, epsilon=3.0, delta=1e-6).fit(frame)
    assert any("'paid'" in note and "format=" in note for note in estimator.receipt_.notes)
