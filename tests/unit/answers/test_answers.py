"""Answers with error bars: exact without noise, their error bars by brute force, equal for equal questions."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise
from scipy import sparse

import synthdp as sd
from synthdp.answers.answer import AnswerEngine
from synthdp.answers.bootstrap import FEWEST_POINTS, POINTS, Bootstrap, draw
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.leaves import gls_fine_bins
from synthdp.answers.refitted_points import refitted
from synthdp.distribution.components import Product
from synthdp.domain.domain import domain_of
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.queries.contingency import table_size
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.tables.format import TableFormat

SCHEMA = sd.Schema({
    "age": sd.Integer(0, 39, nullable=True),
    "sex": sd.Categorical(["f", "m"]),
    "city": sd.Categorical(["a", "b", "c"], nullable=True),
    "grade": sd.Ordinal(["low", "mid", "high"]),
    "member": sd.Boolean(),
    "seen": sd.Datetime("2020-01-01", "2020-01-31", resolution="D"),
})  # fmt: skip


def table(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sex = rng.integers(2, size=rows)
    age = np.clip(rng.normal(15 + 8 * sex, 6).round(), 0, 39)
    city = np.where(rng.random(rows) < 0.6, sex, rng.integers(3, size=rows))
    days = rng.integers(31, size=rows)
    return pd.DataFrame({
        "age": np.where(rng.random(rows) < 0.05, np.nan, age),
        "sex": np.array(["f", "m"])[sex],
        "city": np.where(rng.random(rows) < 0.1, None, np.array(["a", "b", "c"], object)[city]),
        "grade": np.array(["low", "mid", "high"])[np.minimum(2, (age // 12).astype(int))],
        "member": rng.random(rows) < 0.2 + 0.4 * sex,
        "seen": np.datetime64("2020-01-01") + days.astype("timedelta64[D]"),
    })  # fmt: skip


def fitted(epsilon: float = 1.0, **settings: object) -> sd.SyntheticRelease:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sd.SyntheticRelease(schema=SCHEMA, epsilon=epsilon, **settings).fit(table())


@pytest.fixture(scope="module")
def noisy() -> sd.SyntheticRelease:
    return fitted()


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> sd.SyntheticRelease:
    without_noise(monkeypatch)
    return fitted(epsilon=100.0)


def test_without_noise_every_measured_answer_is_the_truth(exact: sd.SyntheticRelease) -> None:
    real = table()
    one = exact.answer(sd.marginal("city"))
    counted = real["city"].value_counts(dropna=False)
    assert one["estimate"].tolist() == pytest.approx([counted["a"], counted["b"], counted["c"], counted[None]])
    assert set(one["basis"]) == {"measured"}
    two = exact.answer(sd.marginal("city", "sex"))
    both = real.fillna({"city": "none"}).groupby(["city", "sex"]).size()
    wanted = [both[(city or "none"), sex] for city, sex in zip(two["city"], two["sex"], strict=True)]
    assert two["estimate"].tolist() == pytest.approx(wanted)
    questions = {
        "age >= 20": real["age"] >= 20,
        "age is null": real["age"].isna(),
        "sex == 'f' and city in ('a', 'b')": (real["sex"] == "f") & real["city"].isin(["a", "b"]),
        "not member": ~real["member"],
        "seen < '2020-01-11'": real["seen"] < "2020-01-11",
    }
    for text, holds in questions.items():
        answered = exact.answer(sd.count(text)).iloc[0]
        assert answered["estimate"] == pytest.approx(holds.sum(), abs=0.5), text
        assert answered["basis"] == "measured"
    assert exact.answer(sd.mean("age"))["estimate"][0] == pytest.approx(real["age"].mean(), abs=0.01)
    assert exact.answer(sd.mean("member"))["estimate"][0] == pytest.approx(real["member"].mean())
    assert exact.answer(sd.count())["estimate"][0] == pytest.approx(len(real))
    assert exact.answer(sd.mean("age", where="age > 20"))["estimate"][0] == pytest.approx(
        real.loc[real["age"] > 20, "age"].mean(), abs=0.01
    )
    shares = [0.1, 0.5, 0.9]
    wanted = np.quantile(real["age"].dropna(), shares, method="inverted_cdf")
    assert exact.answer(sd.quantile("age", shares))["estimate"].tolist() == wanted.tolist()
    assert exact.answer(sd.quantile("grade"))["estimate"].tolist() == ["mid"]
    moment = exact.answer(sd.mean("seen"))["estimate"][0]
    assert abs(moment - real["seen"].mean()) < pd.Timedelta(hours=1)


def test_an_error_bar_is_that_of_least_squares_over_all_measured_tables(noisy: sd.SyntheticRelease) -> None:
    """Brute force over the whole table of one clique: information of every measured table that lies inside."""
    direct = GLSEstimates(noisy.release_.output, noisy.release_.measurements)
    shape = direct.model.domain.shape
    pairs = sorted({t.clique for t in direct.tables if len(t.clique) == 2})[:3]
    assert pairs
    for clique in pairs:
        cells = table_size(shape, clique)
        codes = np.array(list(itertools.product(*(range(shape[j]) for j in clique))))
        ones = np.full((1, cells), 1.0)
        keep = np.eye(cells) - ones.T @ ones / cells
        information = ones.T @ ones / direct.total[1] ** 2
        for measured in direct.tables:
            shared = tuple(j for j in measured.clique if j in clique)
            if shared:
                margin = [clique.index(j) for j in shared]
                flat = np.ravel_multi_index(codes[:, margin].T, [shape[j] for j in shared])
                design = np.eye(table_size(shape, shared))[:, flat]
                noise = measured.stddev**2 * measured.counts.size / len(design)
                information = information + keep @ design.T @ design @ keep / noise
        covariance = np.linalg.inv(information)
        weights = np.random.default_rng(1).random((4, cells))
        wanted = np.sqrt(np.einsum("ij,jk,ik->i", weights, covariance, weights))
        assert direct.linear(clique, weights).stddev == pytest.approx(wanted, rel=1e-6)


def test_leaves_have_the_covariance_of_least_squares(noisy: sd.SyntheticRelease) -> None:
    direct = GLSEstimates(noisy.release_.output, noisy.release_.measurements)
    leaves = direct.leaves(1)
    assert leaves is not None
    first = direct.first_level(1)
    assert first is not None
    assert (leaves.variance <= first[2] ** 2 * (1 + 1e-9)).all()


def test_bins_of_each_column_add_up_to_the_number_of_rows_that_all_tables_say(noisy: sd.SyntheticRelease) -> None:
    """A share of all rows is no ratio of two noisy sums of one column, of which the second may be near to 0."""
    direct = GLSEstimates(noisy.release_.output, noisy.release_.measurements)
    total, stddev = direct.total
    for column in range(len(direct.model.domain)):
        leaves = direct.leaves(column)
        assert leaves is not None
        assert abs(leaves.counts.sum() - total) < 6 * stddev
        assert leaves.variances(np.ones((1, len(leaves.counts))))[0] < 1.01 * stddev**2


@pytest.mark.landing
def test_equal_questions_get_equal_answers_also_after_saving(noisy: sd.SyntheticRelease, tmp_path) -> None:
    noisy.save(tmp_path / "r")
    loaded = sd.load(tmp_path / "r")
    for question in (
        sd.marginal("sex", "grade"),
        sd.count("age > 20 and grade == 'high' and city == 'a' and member"),
        sd.mean("age", where="sex == 'f'"),
        sd.quantile("age", [0.5], where="member"),
        sd.smooth(lambda x: np.exp(-(x**2).sum(axis=1)), columns=["age"]),
    ):
        first = AnswerEngine(noisy.release_.output, noisy.release_.measurements).ask(question).to_frame()
        pd.testing.assert_frame_equal(first, noisy.answer(question))
        pd.testing.assert_frame_equal(first, loaded.answer(question), rtol=1e-6)


@pytest.mark.landing
def test_an_answer_of_the_model_is_what_its_rows_say(noisy: sd.SyntheticRelease) -> None:
    rows = noisy.sample(60_000, random_state=0)
    text = "age > 20 and grade == 'high' and city == 'a' and member"
    answered = noisy.answer(sd.count(text)).iloc[0]
    holds = (rows["age"] > 20) & (rows["grade"] == "high") & (rows["city"] == "a") & rows["member"]
    assert answered["basis"] == "model"
    total = noisy.answer(sd.count())["estimate"][0]
    assert answered["estimate"] == pytest.approx(holds.mean() * total, abs=0.004 * total)
    mean = noisy.answer(sd.mean("age", where="sex == 'f'"))["estimate"][0]
    assert mean == pytest.approx(rows.loc[rows["sex"] == "f", "age"].mean(), abs=0.2)
    median = noisy.answer(sd.quantile("age", 0.5, where="sex == 'm'"))["estimate"][0]
    assert abs(median - rows.loc[rows["sex"] == "m", "age"].median()) <= 1
    centre = noisy.answer(sd.smooth(lambda x: np.exp(-(x**2).sum(axis=1)), columns=["age"]))["estimate"][0]
    points = np.nan_to_num((2 * rows["age"].to_numpy(dtype=float, na_value=np.nan) - 39) / 39)
    assert centre == pytest.approx(np.exp(-(points**2)).mean(), abs=0.01)


def test_cells_of_a_marginal_may_be_chosen(noisy: sd.SyntheticRelease) -> None:
    answered = noisy.answer(sd.marginal("age", bins={"age": [0, 10, 20, 39]}))
    assert answered["age"].tolist()[:3] == ["0 to 9", "10 to 19", "20 to 39"]
    assert answered["age"].isna().tolist() == [False, False, False, True]
    assert len(noisy.answer(sd.marginal("age", "sex", bins={"age": 4}))) == 2 * 5


def test_the_columns_of_an_answer_stand_in_the_order_of_the_question(noisy: sd.SyntheticRelease) -> None:
    forwards = noisy.answer(sd.marginal("sex", "city"))
    backwards = noisy.answer(sd.marginal("city", "sex"))
    assert list(backwards.columns[:2]) == ["city", "sex"]
    merged = forwards.merge(backwards, on=["city", "sex"], suffixes=("", "_2"))
    assert merged["estimate"].tolist() == pytest.approx(merged["estimate_2"].tolist())
    assert merged["standard_error"].tolist() == pytest.approx(merged["standard_error_2"].tolist())


def test_a_public_number_of_rows_has_no_error() -> None:
    release = fitted(neighbors="replace_one")
    answered = release.answer(sd.count()).iloc[0]
    assert answered["estimate"] == len(table())
    assert answered["standard_error"] == 0


@pytest.mark.slow
def test_an_explicit_model_answers_too() -> None:
    release = fitted(solver="lp")
    answered = release.answer(sd.count("age > 20 and grade == 'high' and city == 'a' and member"))
    assert answered["standard_error"][0] > 0
    assert answered["basis"][0] == "model"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: sd.marginal("height"), "'height'"),
        (lambda: sd.mean("city"), "'city'.*mean"),
        (lambda: sd.quantile("city"), "'city'.*quantiles"),
        (lambda: sd.smooth(lambda x: x, columns=["age"]), "function.*shape"),
        (lambda: sd.smooth(lambda x: x[:, 0], columns=["sex"]), "'sex'.*numbers"),
        (lambda: "age > 3", "question"),
    ],
)
def test_a_question_without_an_answer_is_refused(noisy: sd.SyntheticRelease, question, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        noisy.answer(question())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (sd.marginal, "marginal.*columns"),
        (lambda: sd.marginal("a", "a"), "once"),
        (lambda: sd.marginal("a", bins={"b": 3}), "bins.*'b'"),
        (lambda: sd.marginal("a", bins=0), "bins"),
        (lambda: sd.marginal("a", bins={"a": [3, 2]}), "bins.*edges"),
        (lambda: sd.marginal("a", bins={"a": [0, float("nan"), 50]}), "bins.*edges"),
        (lambda: sd.quantile("a", 1.0), r"\bq\b"),
        (lambda: sd.quantile("a", "median"), r"\bq\b"),
        (lambda: sd.mean(3), "name"),
        (lambda: sd.smooth(3), "function"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_when_it_is_made(make, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_drawn_groups_follow_their_shares() -> None:
    shares = sparse.csr_array([[0.2, 0.3, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    cells = np.repeat([0, 1, 2], [100_000, 10, 10])
    drawn = draw(shares, cells, generator(0))
    assert (drawn[100_000:100_010] == -1).all()
    assert (drawn[100_010:] == 2).all()
    found = np.bincount(1 + drawn[:100_000], minlength=4) / 100_000
    assert found == pytest.approx([0.5, 0.2, 0.3, 0.0], abs=0.01)


@pytest.mark.parametrize("columns", [["a", "b"], ("a", "b")])
def test_the_columns_of_a_marginal_may_come_in_a_list(columns):
    assert sd.marginal(columns) == sd.marginal("a", "b")


@pytest.mark.parametrize("columns", [[[]], [["a", "a"]], [["a", 1]], [["a"], "b"], [{"a"}]])
def test_a_list_is_refused_as_its_names_would_be(columns):
    with pytest.raises(ParameterError, match="marginal"):
        sd.marginal(*columns)


def test_columns_are_solved_and_replicates_drawn_once_however_many_questions_are_asked(
    noisy: sd.SyntheticRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved, drawn = [], []
    monkeypatch.setattr("synthdp.answers.direct.gls_fine_bins", lambda parts: solved.append(1) or gls_fine_bins(parts))
    monkeypatch.setattr(
        "synthdp.answers.bootstrap.refitted",
        lambda *parts, **options: drawn.append(1) or refitted(*parts, **options),
    )
    asker = AnswerEngine(noisy.release_.output, noisy.release_.measurements)
    for columns in itertools.combinations(SCHEMA, 2):
        asker.ask(sd.marginal(*columns))
        asker.ask(sd.count(f"{columns[0]} is null or {columns[1]} is not null"))
    asker.ask(sd.quantile("age", [0.1, 0.5], where="member and grade == 'low'"))
    assert len(solved) == len(SCHEMA)
    assert len(drawn) == 1


@pytest.mark.parametrize(("columns", "points"), [(2, POINTS), (15, 10_000), (20, 7_500), (600, FEWEST_POINTS)])
def test_of_wide_tables_the_replicates_share_fewer_points(columns: int, points: int) -> None:
    schema = sd.Schema({f"x{j}": sd.Boolean() for j in range(columns)})
    domain = domain_of(schema)
    model = SyntheticModel(
        schema=schema, domain=domain, distribution=Product(shape=domain.shape, margins=tuple(map(np.ones, domain.shape))),
        refinements=tuple(Refinement.trivial(axis) for axis in domain.axes), total=100.0,
        format=TableFormat.default(schema),
    )  # fmt: skip
    assert Bootstrap(GLSEstimates(model, ())).points == points
    assert Bootstrap(GLSEstimates(model, ()), points=500).points == 500
