"""Survey weights: classes, their means under noise, weights that add up, and totals of a population with their errors."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st
from strategies import survey_weights

import synthdp as sd
from synthdp.answers.moments import ClassWeights
from synthdp.cli.main import main
from synthdp.domain.domain import Domain, axis_of
from synthdp.domain.encoder import Numbers, decode, encode
from synthdp.domain.grid import grid_of, starts_of_classes
from synthdp.errors import ParameterError, SalvageWarning, SchemaError
from synthdp.mechanisms import survey_weights as stage
from synthdp.mechanisms.workload import weighted_too, workload_of
from synthdp.queries.class_offsets import ClassOffsets, axis_of_offsets, class_middles
from synthdp.schema.weights import MOST_CLASSES

COLUMNS = {"region": sd.Categorical(["n", "s", "w"]), "age": sd.Integer(0, 99)}
SCHEMA = sd.Schema(COLUMNS)
BOUNDS = (1, 1000)


def survey(rows: int = 3000, *, seed: int = 1) -> pd.DataFrame:
    """Rows of the north stand for few, of the west for many."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["n", "s", "w"], rows, p=[0.5, 0.3, 0.2])
    centre = pd.Series(region).map({"n": 20.0, "s": 60.0, "w": 200.0}).to_numpy()
    weight = np.clip(np.rint(centre * np.exp(0.4 * rng.standard_normal(rows))), 1, 1000).astype(int)
    return pd.DataFrame({"region": region, "perwt": weight, "age": rng.integers(18, 80, rows)})


def released(table: object, **settings: object) -> sd.SyntheticRelease:
    given = {"schema": SCHEMA, "weight": "perwt", "weight_bounds": BOUNDS, "epsilon": 3.0, "random_state": 0}
    return sd.SyntheticRelease(**{**given, **settings}).fit(table)


@cache
def usual() -> tuple[pd.DataFrame, sd.SyntheticRelease]:
    """One release that several tests look at."""
    table = survey()
    return table, released(table)


@cache
def several() -> tuple[pd.DataFrame, list[sd.SyntheticRelease]]:
    """Four releases of one table."""
    table = survey(8000)
    return table, [released(table, epsilon=2.0) for _ in range(4)]


# Classes


@given(survey_weights())
def test_classes_have_one_ratio_and_divide_the_bounds(weight):
    ends = np.array(weight.class_ends())
    assert (ends[0], ends[-1]) == (weight.lower, weight.upper)
    ratios = [b / a for a, b in pairwise(ends)]
    assert np.allclose(ratios, (weight.upper / weight.lower) ** (1 / weight.classes))


@given(survey_weights(), st.lists(st.floats(0, 1e16), min_size=1, max_size=20))
def test_every_value_lies_in_the_class_of_its_axis(weight, values):
    axis, classes = axis_of("w", weight), starts_of_classes(weight)
    indices = encode(weight, Numbers(np.array(values)))
    assert axis.size == len(classes) + grid_of(weight).size - grid_of(weight).regular
    assert (axis.cells_of(indices) == np.searchsorted(classes, indices, side="right") - 1).all()


@given(survey_weights(), st.data())
def test_a_measured_weight_is_read_back_as_the_mean_of_its_class(weight, data):
    count = len(starts_of_classes(weight))
    means = tuple(data.draw(st.lists(st.floats(0, 1e9), min_size=count, max_size=count)))
    known = weight.measured_as(means, (0.0,) * count)
    raw = decode(known, np.append(starts_of_classes(weight), grid_of(weight).regular - 1).astype(np.uint32))
    assert isinstance(raw, Numbers)
    assert raw.values.tolist() == [*means, means[-1]]
    read = sd.Schema.from_json(sd.Schema({"w": known}).to_json())["w"]
    assert read == known


@pytest.mark.parametrize(
    "settings",
    [(0, 5), (-1, 5), (5, 5), (6, 5), (1, float("inf")), ("1", 5), (True, 5), (1, 5, False, {"classes": 1}),
     (1, 5, False, {"classes": MOST_CLASSES + 1}), (1, 5, False, {"classes": 2.0}), (1, 5, False, {"means": [1.0]}),
     (1, 5, False, {"means": [-1.0], "errors": [0.0]}), (5e-324, 1e300)],
)  # fmt: skip
def test_a_weight_that_contradicts_itself_is_refused(settings):
    options = settings[3] if len(settings) > 3 else {}
    with pytest.raises(SchemaError, match="'w'"):
        sd.Schema({"w": sd.Weight(*settings[:3], **options)})


# What is asked


@given(survey_weights(), st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=50))
def test_offsets_and_counts_give_the_sums_of_weights(weight, values):
    """Without noise the sum of a class is its rows times its middle, and the offsets times half its width."""
    values = np.clip(values, weight.lower, weight.upper)
    indices = encode(weight, Numbers(values))
    axis = axis_of_offsets("w", weight)
    codes = axis.cells_of(indices).astype(np.int64)[:, None]
    middle, half = class_middles(weight)
    cells = axis_of("w", weight).cells_of(indices)
    offsets = ClassOffsets(Domain((axis,)))
    found = np.bincount(cells, minlength=len(middle))[: len(middle)] * middle + half * offsets.sums(codes) / 2**10
    exact = np.bincount(cells, weights=values, minlength=len(middle))[: len(middle)]
    grid_point = (weight.upper - weight.lower) / grid_of(weight).regular
    rows = np.bincount(cells, minlength=len(middle))[: len(middle)]
    assert (np.abs(found - exact) <= rows * (half * (2 / 256 + 1 / 1024) + 2 * grid_point)).all()


@pytest.mark.landing
def test_means_of_classes_are_found_where_rows_are_many_and_the_middle_is_taken_where_there_are_none():
    table = survey(20_000)
    column = released(table, epsilon=5.0).schema_["perwt"]
    starts = np.append(np.array(column.class_ends()), np.inf)
    kind = np.searchsorted(starts[1:-1], table["perwt"], side="right")
    for c in range(column.classes):
        mine = table["perwt"][kind == c]
        if len(mine) > 200:
            assert abs(column.means[c] - mine.mean()) < max(6 * column.errors[c], 0.01 * mine.mean())
        if len(mine) == 0:
            assert starts[c] <= column.means[c] <= starts[c + 1]


def test_the_bounds_of_the_offsets_grow_with_the_rows_of_a_person():
    table = survey(3000).assign(who=np.arange(3000) // 3)
    one, three = (released(table, privacy_unit="who", max_rows_per_unit=most) for most in (1, 3))
    noise = [
        next(m.stddev for m in made.release_.measurements if isinstance(m.queries, ClassOffsets)) for made in (one, three)
    ]  # fmt: skip
    assert noise[1] == pytest.approx(3 * noise[0], rel=0.01)


# What comes out


@pytest.mark.landing
def test_weights_add_up_to_the_population_however_many_rows_are_drawn():
    made = released(survey().astype({"perwt": float}))
    (population,) = made.release_.model.populations.values()
    for rows in (None, 1, 37, 2500):
        assert made.sample(rows)["perwt"].sum() == pytest.approx(population)


def test_whole_weights_stay_whole_and_add_up_to_within_one():
    table, made = usual()
    synthetic = made.sample(random_state=3)
    assert list(synthetic.dtypes) == list(table.dtypes)
    assert list(synthetic) == list(table)
    assert abs(int(synthetic["perwt"].sum()) - made.release_.model.populations["perwt"]) <= 1


def test_blocks_of_a_file_add_up_to_the_same(tmp_path):
    _, made = usual()
    made.release_.model.sample_to(tmp_path / "t.csv", rows=1000, block_rows=300, random_state=0)
    assert pd.read_csv(tmp_path / "t.csv")["perwt"].sum() == pytest.approx(made.release_.model.populations["perwt"])


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("rows", [[1000], [400, 600], [1, 2, 997], [250] * 4])
def test_parts_of_a_table_that_are_drawn_apart_add_up_to_the_population(rows):
    made = released(survey().astype({"perwt": float}))
    (population,) = made.release_.model.populations.values()
    found = 0.0
    for number, some in enumerate(rows):
        first = sum(rows[:number])
        blocks = made.release_.model.sample_blocks(
            some, random_state=number, block_rows=300, first=first, part_of=sum(rows)
        )
        found += sum(block["perwt"].sum() for block in blocks)
    assert found == pytest.approx(population)


def test_a_part_that_is_larger_than_its_table_is_refused():
    with pytest.raises(ParameterError, match="part_of"):
        usual()[1].release_.model.sample_blocks(60, first=50, part_of=100)


def test_the_population_and_its_shares_are_near_the_real_ones():
    table, made = usual()
    synthetic = made.sample()
    assert synthetic["perwt"].sum() == pytest.approx(table["perwt"].sum(), rel=0.08)
    shares = [one.groupby("region")["perwt"].sum() / one["perwt"].sum() for one in (table, synthetic)]
    assert np.abs(shares[0] - shares[1]).max() < 0.05
    assert abs(float(shares[0]["w"]) - 0.2) > 0.2  # which unweighted rows would have


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_libraries_get_weights_in_their_own_types(library):
    frame = pl.from_pandas(survey(2000))
    table = frame if library == "polars" else frame.to_arrow()
    made = released(table).sample()
    assert type(made) is type(table)
    assert made["perwt"].dtype == frame["perwt"].dtype if library == "polars" else made.schema.equals(table.schema)


@pytest.mark.landing
def test_a_saved_release_draws_and_answers_the_same(tmp_path):
    _, made = usual()
    made.save(tmp_path / "r")
    read = sd.load(tmp_path / "r")
    pd.testing.assert_frame_equal(read.sample(50, random_state=4), made.sample(50, random_state=4))
    question = sd.count(by="region", weight="perwt")
    pd.testing.assert_frame_equal(read.answer(question), made.answer(question))


def test_rows_without_a_weight_have_none_and_count_nothing():
    table = survey().astype({"perwt": float})
    table.loc[::4, "perwt"] = np.nan
    schema = SCHEMA.extended({"perwt": sd.Weight(*BOUNDS, nullable=True)})
    # At 3 one release in 3 000 is .1 off by noise alone.
    made = sd.SyntheticRelease(schema=schema, epsilon=5.0, random_state=0).fit(table)
    synthetic = made.sample()
    assert synthetic["perwt"].isna().mean() == pytest.approx(0.25, abs=0.03)
    assert synthetic["perwt"].sum() == pytest.approx(made.release_.model.populations["perwt"])
    assert made.answer(sd.count(weight="perwt"))["estimate"][0] == pytest.approx(table["perwt"].sum(), rel=0.1)


# Answers


QUESTIONS = {
    "population": (sd.count(weight="perwt"), lambda t, w: w.sum()),
    "some": (sd.count("age > 40 and region == 'w'", weight="perwt"), lambda t, w: w[(t.age > 40) & (t.region == "w")].sum()),
    "share": (sd.share("region == 'w'", weight="perwt"), lambda t, w: w[t.region == "w"].sum() / w.sum()),
    "share of some": (
        sd.share("region == 'w'", where="age > 40", weight="perwt"),
        lambda t, w: w[(t.region == "w") & (t.age > 40)].sum() / w[t.age > 40].sum(),
    ),
    "sum": (sd.sum("age", weight="perwt"), lambda t, w: (t.age * w).sum()),
    "mean": (sd.mean("age", where="region == 's'", weight="perwt"),
             lambda t, w: np.average(t.age[t.region == "s"], weights=w[t.region == "s"])),
}  # fmt: skip


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("name", QUESTIONS)
def test_weighted_answers_are_near_the_truth_within_their_intervals(name):
    question, exact = QUESTIONS[name]
    table, releases = several()
    truth = float(exact(table, table["perwt"]))
    found = [made.answer(question).iloc[0] for made in releases]
    assert sum(one["lower"] <= truth <= one["upper"] for one in found) >= 2
    assert np.mean([one["estimate"] for one in found]) == pytest.approx(truth, rel=0.15)
    assert all(0 < one["standard_error"] < 0.3 * truth for one in found)


def test_groups_add_up_to_the_whole():
    _, made = usual()
    groups, whole = (made.answer(sd.count(by=by, weight="perwt"))["estimate"].sum() for by in ("region", ()))
    assert groups == pytest.approx(whole)


def test_the_error_of_an_answer_is_that_of_means_and_of_rows():
    """Two groups of two classes: the error that is common to a class, and the one of each row."""
    weights = ClassWeights(
        kind=np.array([0, 1, 1, -1]),
        means=np.array([2.0, 8.0]),
        errors=np.array([0.1, 0.2]),
        within=np.array([0.3, 0.4]),
    )
    rows = np.array([[10.0], [20.0], [30.0], [99.0]])
    assert weights.summed(rows, weights.means)[0] == 10 * 2 + 50 * 8
    expected = np.sqrt((10 * 0.1) ** 2 + (50 * 0.2) ** 2 + 10 * 0.3 + 50 * 0.4)
    assert weights.error(rows, rows)[0] == pytest.approx(expected)


# What is refused, and what becomes of faults


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"weight": None}, "weight_bounds.*weight"), ({"weight_bounds": None}, "weight_bounds.*'perwt'"),
     ({"weight_bounds": 5}, "weight_bounds"), ({"weight": 7}, r"weight\b"),
     ({"mechanism": "smooth_synthesis"}, "SmoothSynthesis.*perwt"), ({"mechanism": "mwem"}, "MWEM.*perwt")],
)  # fmt: skip
def test_settings_without_sense_are_refused_before_the_spend(settings, message, tmp_path):
    with pytest.raises(ParameterError, match=message):
        released(survey(50), ledger=tmp_path / "l", dataset="d", **settings)
    assert not (tmp_path / "l").exists() or sd.Ledger(tmp_path / "l").entries("d") == []


def test_no_rule_may_name_a_weight():
    schema = sd.Schema(
        {**COLUMNS, "perwt": sd.Integer(1, 1000)}, constraints=[sd.Implies({"perwt": [(1, 5)]}, {"age": [(0, 50)]})]
    )
    with pytest.raises(SchemaError, match="'perwt'"):
        released(survey(50), schema=schema)


def test_a_fault_after_the_means_were_paid_for_leaves_a_table(monkeypatch):
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(stage, "class_means", fails)
    with pytest.warns(SalvageWarning, match="weight.*ZeroDivisionError"):
        made = released(survey(2000))
    assert made.schema_["perwt"].means == ()
    assert made.sample(10)["perwt"].between(*BOUNDS).all()


def test_the_receipt_and_the_plan_say_what_weights_cost(tmp_path):
    made = released(survey(2000), ledger=tmp_path / "l", dataset="d")
    text = " ".join(str(made.receipt_).split())
    assert any("mean of each class of weight 'perwt'" in item.step for item in made.receipt_.items)
    assert "not for the design of the survey" in text
    assert [one.loss for one in sd.Ledger(tmp_path / "l").entries("d")] == [sd.ApproxDP(3.0, 1e-9)]
    assert "weight 'perwt'" in " ".join(str(made.plan(rows=2000)).split())


@pytest.mark.parametrize("settings", [{"delta": 0}, {"neighbors": "replace_one"}, {"mechanism": "adaptive_marginals"}])
def test_weights_are_released_under_every_promise(settings):
    table = survey(3000)
    made = released(table, **settings)
    assert made.sample()["perwt"].sum() == pytest.approx(table["perwt"].sum(), rel=0.3)
    assert made.receipt_.total == sd.ApproxDP(3.0, settings.get("delta", 1e-9)) or settings.get("delta") == 0


def test_a_wished_set_is_wished_with_the_weight_too():
    schema = SCHEMA.extended({"perwt": sd.Weight(*BOUNDS)})
    wished = weighted_too(workload_of([("region", "age")], schema.names), schema)
    assert wished.weight((0, 2)) == wished.weight((1, 2)) == 1
    assert wished.weight((0, 1)) == 2
    assert weighted_too(workload_of(None, schema.names), schema).target == 2
    assert weighted_too(workload_of(None, schema.names, target="age"), schema).target == 1
    assert weighted_too(workload_of(None, SCHEMA.names), SCHEMA).target is None


def test_the_command_line_takes_a_weight(tmp_path):
    survey(1500).to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.write(tmp_path / "s.json")
    weight = ["--weight", "perwt", "--weight-bounds", "1", "1000"]
    command = [
        "release",
        str(tmp_path / "t.csv"),
        "--schema",
        str(tmp_path / "s.json"),
        "--out",
        str(tmp_path / "o.csv"),
    ]
    ran = CliRunner().invoke(main, [*command, *weight, "--save", str(tmp_path / "r"), "--json"])
    assert ran.exit_code == 0, ran.output
    assert set(pd.read_csv(tmp_path / "o.csv")) == {"region", "perwt", "age"}
    asked = CliRunner().invoke(
        main, ["answer", str(tmp_path / "r"), "--count", "age >= 0", "--weight", "perwt", "--json"]
    )
    total = json.loads(asked.output)[0]["estimate"]
    assert total == pytest.approx(survey(1500)["perwt"].sum(), rel=0.5)
    planned = CliRunner().invoke(main, ["plan", str(tmp_path / "s.json"), "--rows", "1000", *weight])
    assert "weight 'perwt'" in planned.output
    refused = CliRunner().invoke(main, [*command, "--weight", "perwt"])
    assert refused.exit_code == 2
    assert "weight_bounds" in refused.output


def test_what_does_not_scale_weights_to_the_population_refuses_them_before_the_spend(tmp_path: Path) -> None:
    table = survey(300).assign(id=range(300))
    weighed, plain = (COLUMNS | {"perwt": kind(*BOUNDS)} for kind in (sd.Weight, sd.Continuous))
    related, tables = (
        sd.Relation("homes", "survey", key="id", at_most=2),
        {"homes": table[["id", "region"]], "survey": table},
    )
    homes = sd.Schema({"region": COLUMNS["region"]})
    of_both = [sd.DatabaseSchema({"homes": homes, "survey": sd.Schema(one)}, [related]) for one in (weighed, plain)]
    book = sd.Ledger(tmp_path / "l.sqlite")
    several = sd.DatabaseRelease(schema=of_both[0], ledger=book.path, dataset="d")
    asked = (
        several.plan,
        lambda: several.fit(tables),
        lambda: sd.ReleaseSeries(schema=sd.Schema(weighed), periods=2, path=tmp_path / "s", ledger=book.path),
    )
    for one in asked:
        with pytest.raises(SchemaError, match="'perwt'"):
            one()
    assert not book.entries()
    (estimate,) = sd.DatabaseRelease(schema=of_both[1]).fit(tables).answer(sd.count(weight="perwt"))["estimate"]
    assert estimate >= 0
