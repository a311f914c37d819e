"""The non-private comparison: stamped, zero for copies, and no part of it can enter a release."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import DataError, ParameterError, SchemaError
from synthdp.nonprivate import evaluate, measures
from synthdp.progress import Progress
from synthdp.randomness import generator

PACKAGE = Path(sd.__file__).parent
SCHEMA = sd.Schema({
    "age": sd.Integer(0, 99, nullable=True),
    "rate": sd.Continuous(0, 1),
    "city": sd.Categorical(["a", "b", "c"], nullable=True),
    "seen": sd.Datetime("2020-01-01", "2021-01-01", nullable=True),
    "took": sd.Duration(0, 90, resolution="min"),
    "member": sd.Boolean(),
})  # fmt: skip


def table(rows: int = 1500, *, seed: int = 0, tied: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(100, size=rows).astype(float)
    member = age > 50 if tied else rng.random(rows) < 0.49
    return pd.DataFrame({
        "age": np.where(rng.random(rows) < 0.05, np.nan, age),
        "rate": np.clip(age / 100 + 0.1 * rng.random(rows), 0, 1) if tied else rng.random(rows),
        "city": np.where(rng.random(rows) < 0.1, None, rng.choice(["a", "b", "c"], rows)),
        "seen": np.datetime64("2020-01-01") + rng.integers(300, size=rows).astype("timedelta64[D]"),
        "took": rng.integers(90, size=rows).astype("timedelta64[m]").astype("timedelta64[s]"),
        "member": member,
    })  # fmt: skip


def test_a_copy_is_at_no_distance_and_is_no_news() -> None:
    found = sd.nonprivate_evaluate(table(), table(), SCHEMA, target="member")
    for name in ("one_way", "two_way", "three_way", "ks", "correlation", "smooth", "sharp"):
        assert found.scores[name] == 0.0, name
    assert found.scores["pmse_ratio"] < 1e-3
    assert found.scores["auc"] > 0.95
    assert found.no_privacy_evidence["copies"] == 1.0


@pytest.mark.slow
def test_a_fresh_sample_is_nearer_than_a_table_without_relations() -> None:
    near = sd.nonprivate_evaluate(table(), table(seed=1), SCHEMA, target="member")
    far = sd.nonprivate_evaluate(table(), table(seed=1, tied=False), SCHEMA, target="member")
    for name in ("two_way", "three_way", "correlation", "smooth"):
        assert near.scores[name] < far.scores[name], name
    assert 0.5 < near.scores["pmse_ratio"] < 1.6
    assert far.scores["pmse_ratio"] > 2
    assert near.scores["auc"] > far.scores["auc"] + 0.2
    assert {"age", "rate", "member"} >= {*far.worst_pairs[0][:2]}


def test_the_distance_of_two_tables_is_what_it_says() -> None:
    schema = sd.Schema({"a": sd.Boolean()})
    real, synthetic = (pd.DataFrame({"a": [True] * k + [False] * (10 - k)}) for k in (3, 7))
    found = sd.nonprivate_evaluate(real, synthetic, schema)
    assert found.scores["one_way"] == pytest.approx(0.4)
    assert found.columns == {"a": pytest.approx(0.4)}


def test_everything_it_gives_is_stamped(tmp_path: Path) -> None:
    found = sd.nonprivate_evaluate(table(300), table(300, seed=1), SCHEMA)
    document = json.loads(json.dumps(found.to_document()))
    assert document["nonprivate"] is True
    found.write(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (str(found), document["warning"], page):
        assert "NON-PRIVATE" in text
        assert "not for publication" in text
        assert "no evidence about privacy" in str(found)
    assert page.count('class="banner"') == 2
    assert "#b00020" in page


def test_a_changed_real_table_changes_no_byte_of_a_release(tmp_path: Path) -> None:
    made = sd.SyntheticRelease(schema=SCHEMA, random_state=0).fit(table(300))
    made.save(tmp_path / "before")
    sd.nonprivate_evaluate(table(300, seed=5), made.sample(), SCHEMA)
    made.save(tmp_path / "after")
    for name in ("release.json", "arrays.npz"):
        assert (tmp_path / "before" / name).read_bytes() == (tmp_path / "after" / name).read_bytes()


def test_public_results_start_with_nonprivate() -> None:
    assert [name for name in sd.__all__ if "evaluate" in name] == ["nonprivate_evaluate"]
    assert evaluate.NonprivateEvaluation.__name__.lower().startswith("nonprivate")


@pytest.mark.parametrize(
    ("real", "synthetic", "message"),
    [
        (lambda: table().drop(columns="age"), table, "'age'.*real"),
        (table, lambda: table().iloc[:0], "synthetic.*rows"),
        (table, lambda: 3, "synthetic.*dataframe"),
    ],
)
def test_tables_that_cannot_be_compared_are_refused(real, synthetic, message: str) -> None:
    with pytest.raises(DataError, match=message):
        sd.nonprivate_evaluate(real(), synthetic(), SCHEMA)


@pytest.mark.parametrize("column", [sd.Integer(None, None), sd.Categorical(None, other="other")])
def test_a_column_whose_bounds_or_levels_are_open_is_refused_in_a_sentence(column) -> None:
    rows = pd.DataFrame({"a": [1, 2, 3] * 20, "b": [True, False, True] * 20})
    with pytest.raises(SchemaError, match="'a'"):
        sd.nonprivate_evaluate(rows, rows, sd.Schema({"a": column, "b": sd.Boolean()}))


@pytest.mark.slow
def test_rows_of_one_class_tell_nothing_apart() -> None:
    real = table(200)
    found = sd.nonprivate_evaluate(real, real, SCHEMA, target="member", held_out=real[real["member"]])
    assert found.scores["auc"] == found.scores["auc_real"] == 0.5
    assert json.loads(json.dumps(found.to_document(), allow_nan=False))["scores"]["auc"] == 0.5


@pytest.mark.parametrize("target", ["ages", "id", ""])
def test_a_target_that_is_no_column_is_refused_in_a_sentence(target: str) -> None:
    table = pd.DataFrame({"id": ["x", "y"] * 30, "age": [1, 2] * 30, "sex": ["f", "m"] * 30})
    schema = sd.Schema({"id": sd.Identifier(), "age": sd.Integer(0, 9), "sex": sd.Categorical(["f", "m"])})
    with pytest.raises(ParameterError, match=r"age.*sex"):
        sd.nonprivate_evaluate(table, table, schema, target=target)


@pytest.mark.landing
def test_kernel_errors_are_those_of_every_row_and_centre() -> None:
    rng = np.random.default_rng(0)
    real, synthetic = (
        pd.DataFrame({"a": rng.uniform(0, 1, n), "b": rng.normal(0.5, 0.2, n).clip(0, 1)}) for n in (900, 700)
    )
    schema = sd.Schema({"a": sd.Continuous(0, 1), "b": sd.Continuous(0, 1)})
    rows = [measures.points(frame, schema) for frame in (real, synthetic)]
    for widths in ((0.5,), (2.0, 4.0)):
        draws, worst = generator(1), 0.0
        for width in widths:
            for _ in range(measures.KERNEL_QUERIES // measures.CENTRES // len(widths)):
                centres = draws.uniform(-1, 1, (measures.CENTRES, 2))
                weights = draws.uniform(0, 1, (measures.CENTRES, measures.CENTRES))
                weights /= weights.sum(axis=1, keepdims=True)
                means = [np.exp(-((x[:, None] - centres) ** 2).sum(axis=2) / (2 * width**2)).mean(axis=0) for x in rows]
                worst = max(worst, np.abs(weights @ (means[0] - means[1])).max())
        assert measures.kernel_error(real, synthetic, schema, widths=widths) == pytest.approx(worst, rel=1e-4, abs=1e-6)


@pytest.mark.landing
def test_distances_to_the_closest_record_are_those_of_every_row() -> None:
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({
            "a": np.where(rng.random(40) < 0.2, np.nan, rng.integers(0, 9, 40)), "b": rng.choice(["x", "y", "z"], 40),
        })
        for _ in range(2)
    ]  # fmt: skip
    schema = sd.Schema({"a": sd.Integer(0, 8, nullable=True), "b": sd.Categorical(["x", "y", "z"])})

    def gower(one: pd.Series, other: pd.Series) -> float:
        missing = int(np.isnan(one["a"])) + int(np.isnan(other["a"]))
        number = [abs(one["a"] - other["a"]) / 8, 1.0, 0.0][missing]
        return (number + (one["b"] != other["b"])) / 2

    def median(rows: pd.DataFrame, others: pd.DataFrame, *, apart: bool) -> float:
        nearest = [
            min(gower(row, other) for j, other in others.iterrows() if not (apart and i == j))
            for i, row in rows.iterrows()
        ]
        return float(np.median(nearest))

    found = measures.closest_records(*frames, schema)
    assert found["closest_synthetic"] == pytest.approx(median(frames[1], frames[0], apart=False), abs=1e-6)
    assert found["closest_real"] == pytest.approx(median(frames[0], frames[0], apart=True), abs=1e-6)


@pytest.mark.landing
def test_progress_is_told_stage_by_stage_and_comes_to_its_end() -> None:
    told: list[Progress] = []
    sd.nonprivate_evaluate(table(), table(seed=1), SCHEMA, target="member", on_progress=told.append)
    assert [one.done for one in told] == list(range(len(told)))
    assert {one.total for one in told} == {len(told)}


@pytest.mark.slow
def test_kernel_queries_of_many_rows_are_asked_of_some_of_them(monkeypatch):
    """A table of a few hundred thousand rows is compared in seconds, and nearly as if all were asked."""
    rng = np.random.default_rng(0)
    schema = sd.Schema({"x": sd.Continuous(0, 1)})
    real, other = (pd.DataFrame({"x": rng.beta(2, b, 20_000)}) for b in (2, 3))
    of_all = measures.kernel_error(real, other, schema, widths=(2.0,))
    monkeypatch.setattr(measures, "KERNEL_ROWS", 5_000)
    asked = []
    monkeypatch.setattr(measures, "_kernels", lambda x, *rest, f=measures._kernels: asked.append(len(x)) or f(x, *rest))
    assert abs(measures.kernel_error(real, other, schema, widths=(2.0,)) - of_all) < 0.05
    assert set(asked) == {5_000}
    assert measures.kernel_error(real, real, schema, widths=(0.5,)) == 0
