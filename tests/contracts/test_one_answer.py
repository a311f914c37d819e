"""Every mechanism's release has one answer: the same questions, the same kind of result, or a refusal in a sentence."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

import synthdp as sd
from synthdp.answers.answers import UNKNOWN
from synthdp.answers.noisy_sums import NoisySums, answered
from synthdp.errors import ParameterError
from synthdp.mechanisms.named import UNSET, mechanism_named, named, yields_tables

ROWS = 400


def rows_of_all():
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "a": rng.random(ROWS) < 0.3,
            "c": rng.choice(list("xyz"), ROWS, p=[0.2, 0.3, 0.5]),
            "e": rng.random(ROWS) < 0.5,
            "n": rng.integers(0, 5, ROWS),
        }
    )


TABLE = rows_of_all()
SCHEMA = sd.Schema({"a": sd.Boolean(), "c": sd.Categorical(list("xyz")), "e": sd.Boolean(), "n": sd.Integer(0, 4)})
LABELS = ["a", "c", "e"]
OPTIONS = {
    "parity_release": {"order": 2}, "monomial_release": {"order": 2}, "net_mechanism": {"size": 2},
    "median_mechanism": {"size": 1}, "private_multiplicative_weights": {"max_updates": 3},
    "sparse_projection": {"dimension": 200}, "sparse_mwem": {"rounds": 3},
}  # fmt: skip
COLUMNS = {"smooth_synthesis": ["n"], "smooth_summary": ["n"], "laplace_answers": [*LABELS, "n"]}
MECHANISMS = [name for name in named() if name != "decision_list_release"]
ANSWER = ["estimate", "standard_error", "lower", "upper", "basis"]
QUESTIONS = [
    sd.count(), sd.count("a"), sd.count("a or c == 'x'"), sd.count("a", by="e"), sd.marginal("a", "c"), sd.mean("a"),
    sd.share("a", where="c == 'x'"), sd.sum("n"), sd.mean("n"), sd.variance("n"), sd.quantile("n"),
]  # fmt: skip


def released(name, *, table=TABLE, epsilon=3.0):
    columns = COLUMNS.get(name, LABELS)
    pure = name == "net_mechanism"
    budget = sd.PureDP(epsilon) if pure else sd.ApproxDP(epsilon, 1e-6)
    curator = sd.Curator(table[columns], schema=SCHEMA.part(columns), budget=budget)
    return mechanism_named(name, options=OPTIONS.get(name), **UNSET).release(curator, random_state=0)


made = cache(released)
"""The release of a mechanism by its name, which several tests ask."""


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_question_gets_the_same_kind_of_result_or_a_sentence(name):
    taken, refusals = 0, list[str]()
    for question in QUESTIONS:
        try:
            answer = made(name).answer(question)
        except ParameterError as refusal:
            refusals.append(str(refusal))
            continue
        taken += 1
        assert isinstance(answer, pd.DataFrame)
        assert [column for column in answer if column in ANSWER] == ANSWER
        known = answer["standard_error"].notna()
        assert (answer["basis"][~known & answer["estimate"].notna()] == UNKNOWN).all()
        assert (answer["lower"][known] <= answer["upper"][known]).all()
    assert taken >= 2
    assert not any("\n" in refusal for refusal in refusals)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_saved_release_gives_the_same_answers(name, tmp_path):
    made(name).save(tmp_path / "r")
    read = sd.load(tmp_path / "r")
    for question in (sd.count(), sd.sum("n") if name.startswith("smooth") else sd.marginal("a", "c")):
        pd.testing.assert_frame_equal(read.answer(question), made(name).answer(question))


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", MECHANISMS)
def test_one_answer_is_a_number_and_several_are_none(name):
    answer = made(name).answer(sd.count())
    assert float(answer) == answer["estimate"].item()
    with pytest.raises(TypeError):
        float(pd.concat([answer, answer]).pipe(type(answer)))


@pytest.mark.parametrize(
    "name", ["laplace_answers", "gaussian_answers", "parity_release", "monomial_release", "fourier_marginals"]
)
def test_without_noise_what_was_measured_is_counted_exactly(monkeypatch, name):
    without_noise(monkeypatch)
    release = released(name)
    both = (TABLE["a"] & (TABLE["c"] == "x")).sum()
    asked = {
        sd.count("a and c == 'x'"): both,
        sd.count("a or c != 'x'"): (TABLE["a"] | (TABLE["c"] != "x")).sum(),
        sd.share("a", where="c == 'x'"): both / (TABLE["c"] == "x").sum(),
        sd.mean("a"): TABLE["a"].mean(),
        sd.sum("a", where="not e"): (TABLE["a"] & ~TABLE["e"]).sum(),
        sd.count(): ROWS,
    }
    for question, truth in asked.items():
        answer = release.answer(question)
        assert float(answer) == pytest.approx(truth, abs=1e-6)
        assert answer["basis"].item() == "measured"
    by = release.answer(sd.count("a", by="e"))
    np.testing.assert_allclose(by["estimate"], TABLE.groupby("e")["a"].sum().to_numpy(), atol=1e-6)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", ["laplace_answers", "parity_release", "monomial_release", "fourier_marginals"])
@pytest.mark.parametrize(
    "question", [sd.count("a and c == 'x'"), sd.mean("a", where="c != 'y'"), sd.share("a", where="e")]
)
def test_a_standard_error_is_that_of_the_noise_to_first_order(name, question):
    """The answer is a function of noisy numbers with independent noise: sum of squared slopes times their variance."""
    output = made(name).output
    parts = {
        "laplace_answers": lambda: output._tables,
        "fourier_marginals": lambda: (output.parities,),
    }.get(name, lambda: (output.measured,))()

    def answer(measured):
        rows = float(measured[0].answers[0]), measured[0].stddev
        return answered(NoisySums(SCHEMA.part(LABELS), measured, rows), question)

    variance = 0.0
    for i, part in enumerate(parts):
        for k in range(len(part.values)):
            moved = replace(part, values=part.values + part.resolution * (np.arange(len(part.values)) == k))
            slope = answer((*parts[:i], moved, *parts[i + 1 :])).estimate[0] - answer(parts).estimate[0]
            variance += (slope * part.queries.denominator * part.stddev) ** 2
    assert answer(parts).stddev[0] == pytest.approx(variance**0.5, rel=0.05)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if not yields_tables(name)])
def test_what_yields_no_table_is_refused_by_name_before_any_spend(name, tmp_path):
    ledger = tmp_path / "l.sqlite"
    release = sd.SyntheticRelease(
        schema=SCHEMA, mechanism=name, mechanism_options=OPTIONS.get(name), ledger=ledger, dataset="d"
    )
    with pytest.raises(ParameterError, match="output_schema"):
        release.fit(TABLE)
    assert not ledger.exists()


@pytest.mark.landing
@pytest.mark.parametrize(
    "mechanism", [sd.ParityRelease(order=2), sd.PrivateBoosting(), sd.PrivateMultiplicativeWeights()]
)
def test_parities_boosting_and_online_weights_make_tables(mechanism):
    part = TABLE[LABELS]
    made = sd.SyntheticRelease(schema=SCHEMA.part(LABELS), mechanism=mechanism, delta=1e-6, epsilon=5.0)
    synthetic = made.fit_transform(part)
    assert list(synthetic.columns) == LABELS
    assert abs(synthetic["a"].mean() - part["a"].mean()) < 0.3
    assert float(made.answer(sd.count("a"))) == pytest.approx(part["a"].sum(), abs=120)


def test_a_condition_that_cuts_a_released_cell_is_refused():
    curator = sd.Curator(TABLE[["n"]], schema=SCHEMA.part(["n"]), budget=sd.PureDP(1.0))
    release = sd.LaplaceAnswers([sd.marginal("n", bins={"n": 2})]).release(curator)
    with pytest.raises(ParameterError, match="'n'"):
        release.answer(sd.count("n > 0"))
    mean = release.answer(sd.mean("n"))
    assert mean["bias"].item() > 0
    assert mean["lower"].item() < TABLE["n"].mean() < mean["upper"].item()


def test_thresholds_answer_what_they_tell_apart_and_nothing_else():
    schema = sd.Schema({"n": sd.Integer(0, 4), "a": sd.Boolean()})
    curator = sd.Curator(TABLE[["n", "a"]], schema=schema, budget=sd.PureDP(5.0))
    release = sd.ParityRelease(order=2, thresholds={"n": [2]}).release(curator)
    assert float(release.answer(sd.count("n >= 2 and a"))) == pytest.approx(
        ((TABLE["n"] >= 2) & TABLE["a"]).sum(), abs=30
    )
    with pytest.raises(ParameterError, match="'n'"):
        release.answer(sd.count("n >= 3"))


def test_a_missing_option_is_named():
    with pytest.raises(ParameterError, match="'order'"):
        sd.SyntheticRelease(schema=SCHEMA, mechanism="parity_release").fit(TABLE)
