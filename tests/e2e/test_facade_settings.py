"""What each mechanism takes: everything else is refused in one sentence, before anything is spent (R34)."""

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from facade_worlds import MECHANISMS, TABLELESS, WORLDS, attempt
from guide.beta_prior import BetaShares

import synthdp as sd
from synthdp.errors import DataError, ParameterError, SchemaError, SynthDPError

MIXED, NUMBERS, LABELS = WORLDS["mixed"], WORLDS["numbers"], WORLDS["labels"]
LEFT_OUT = "ignore:.* leaves out"

pytestmark = pytest.mark.filterwarnings("ignore:the noise in each average")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


def spends(ledger: Path) -> int:
    return len(sd.Ledger(ledger).entries("d")) if ledger.exists() else 0


def release(world: Any = MIXED, **settings: Any) -> sd.SyntheticRelease:
    named = {"dataset": "d"} if "ledger" in settings else {}
    return sd.SyntheticRelease(schema=world.schema, **named, **settings)


# --- columns that a mechanism leaves out


def test_smooth_synthesis_of_a_mixed_table_gives_its_ordered_columns(ledger: Path) -> None:
    made = release(mechanism="smooth_synthesis", ledger=ledger)
    with pytest.warns(UserWarning, match=r"\bc\b.*\bb\b"):
        table = made.fit_transform(MIXED.table)
    assert list(table.columns) == ["x", "k", "d"]
    assert table.dtypes.equals(MIXED.table[["x", "k", "d"]].dtypes)
    assert any("c, b" in note for note in made.receipt_.notes)
    assert tuple(made.get_feature_names_out()) == made.schema_.names == ("x", "k", "d")
    assert list(made.transform(MIXED.table).columns) == ["x", "k", "d"]


def test_what_will_be_left_out_is_said_before_anything_is_spent(ledger: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=r"SmoothSynthesis.*\bc\b"):
            release(mechanism="smooth_synthesis", ledger=ledger).fit(MIXED.table)
    assert spends(ledger) == 0


def test_a_label_that_would_be_left_out_is_refused(ledger: Path) -> None:
    made = sd.SyntheticRelease(mechanism="smooth_synthesis", ledger=ledger, dataset="d", epsilon=4)
    with pytest.raises(ParameterError, match="'b'"):
        made.fit_resample(MIXED.table[["x", "k"]], MIXED.table["b"])
    assert spends(ledger) == 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.landing] * (name == "NetMechanism")) for name in [*MECHANISMS][::2]]
)
@pytest.mark.filterwarnings(LEFT_OUT)
def test_the_schema_that_a_mechanism_announces_is_that_of_its_table(name: str, ledger: Path) -> None:
    outcome = attempt(NUMBERS, {**MECHANISMS[name](NUMBERS), "epsilon": 2.0}, ledger)
    mechanism = outcome.release._mechanism()
    assert mechanism.output_schema(NUMBERS.schema).names == outcome.release.schema_.names


@pytest.mark.filterwarnings(LEFT_OUT)
def test_a_plan_of_fewer_columns_is_a_plan() -> None:
    made = release(mechanism="smooth_synthesis")
    assert set(made.plan(rows=500).by_column) == {"x", "k", "d"}


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["smooth_synthesis", "l1_fit", "mwem", "fourier_marginals"])
@pytest.mark.filterwarnings(LEFT_OUT)
def test_what_comes_out_can_be_asked_shown_and_stored(name: str, tmp_path: Path) -> None:
    made = release(NUMBERS, mechanism=name, random_state=0).fit(NUMBERS.table)
    made.save(tmp_path / "r")
    pd.testing.assert_frame_equal(sd.load(tmp_path / "r").sample(9, random_state=1), made.sample(9, random_state=1))
    assert len(made.answer(sd.marginal("k", "x"))) > 0
    made.report(tmp_path / "r.html")
    assert "nan" not in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", ["l1_fit", "smooth_synthesis", "mwem"])
@pytest.mark.filterwarnings(LEFT_OUT)
def test_every_question_has_an_answer_whatever_the_release_keeps(mechanism: str) -> None:
    world = WORLDS["dates and durations"]
    table, schema = world.table.assign(o="u"), world.schema.extended({"o": sd.Ordinal(["u", "v"])})
    made = sd.SyntheticRelease(schema=schema, mechanism=mechanism, neighbors="replace_one", epsilon=1e-4, delta=1e-9)
    made.fit(table)
    for question in (sd.mean("t"), sd.mean("l"), sd.quantile("t", [0.1, 0.9]), sd.quantile("o"), sd.count("o == 'u'")):
        assert made.answer(question)["estimate"].notna().all()


# --- mechanism objects


@pytest.mark.sampled
@pytest.mark.parametrize("name", TABLELESS)
def test_a_mechanism_that_yields_no_table_is_refused_before_anything_is_spent(name: str, ledger: Path) -> None:
    with pytest.raises(ParameterError, match=name):
        release(LABELS, mechanism=TABLELESS[name](), ledger=ledger).fit(LABELS.table)
    assert spends(ledger) == 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    "mechanism",
    [sd.AdaptiveMarginals, object(), 3, None, "AdaptiveMarginals", sd.MWEM(spend=sd.PureDP(0.1)), sd.Curator],
)
def test_what_is_no_mechanism_to_release_with_is_refused(mechanism: Any, ledger: Path) -> None:
    with pytest.raises(ParameterError):
        release(mechanism=mechanism, ledger=ledger).fit(MIXED.table)
    assert spends(ledger) == 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    "setting",
    [{"workload": ["x"]}, {"target": "x"}, {"solver": "lp"}, {"bins": 8}, {"mechanism_options": {"rounds": 2}}],
)
def test_a_mechanism_object_has_its_settings_already(setting: dict[str, Any], ledger: Path) -> None:
    with pytest.raises(ParameterError, match=next(iter(setting))):
        release(mechanism=sd.AdaptiveMarginals(), ledger=ledger, **setting).fit(MIXED.table)
    assert spends(ledger) == 0


def test_a_mechanism_from_outside_of_the_package_works(ledger: Path) -> None:
    table = pd.DataFrame({"a": [True, False] * 50, "b": [True] * 100})
    schema = sd.Schema({"a": sd.Boolean(), "b": sd.Boolean()})
    made = sd.SyntheticRelease(schema=schema, mechanism=BetaShares(), ledger=ledger, dataset="d")
    assert made.fit_transform(table).dtypes.equals(table.dtypes)
    assert spends(ledger) == 1


def test_what_a_mechanism_from_outside_cannot_take_costs_nothing(ledger: Path) -> None:
    with pytest.raises(ParameterError, match="Booleans"):
        release(mechanism=BetaShares(), ledger=ledger).fit(MIXED.table)
    assert spends(ledger) == 0


# --- the settings of named mechanisms

TAKEN = {
    "auto": {"workload", "target", "bins"},
    "adaptive_marginals": {"workload", "target", "bins"},
    "smooth_synthesis": set(),
    "l1_fit": {"workload"},
    "mwem": {"workload"},
    "fourier_marginals": {"workload"},
}
SET = {"workload": [("x", "k")], "target": "k", "bins": 16}


@pytest.mark.sampled
@pytest.mark.parametrize("setting", SET)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.filterwarnings(LEFT_OUT)
def test_a_setting_is_used_or_refused_and_never_ignored(name: str, setting: str, ledger: Path) -> None:
    outcome = attempt(MIXED, {"mechanism": name, setting: SET[setting]}, ledger)
    assert (outcome.refusal is None) is (setting in TAKEN[name])
    assert spends(ledger) == (setting in TAKEN[name])
    assert f"{setting} does not apply to {name}" in str(outcome.refusal) or setting in TAKEN[name]


SOLVERS_OF = {
    "auto": {"auto", "lp", "mw", "sifting", "maxent"},
    "adaptive_marginals": {"auto", "maxent"},
    "smooth_synthesis": {"auto", "lp", "mw", "sifting"},
    "l1_fit": {"auto", "lp", "mw", "sifting"},
    "mwem": {"auto"},
    "fourier_marginals": {"auto", "lp", "mw", "sifting"},
}


@pytest.mark.sampled
@pytest.mark.parametrize("solver", ["auto", "lp", "mw", "sifting", "maxent"])
@pytest.mark.parametrize("name", SOLVERS_OF)
@pytest.mark.filterwarnings(LEFT_OUT)
def test_a_solver_applies_or_the_refusal_names_those_that_do(name: str, solver: str, ledger: Path) -> None:
    outcome = attempt(NUMBERS, {"mechanism": name, "solver": solver}, ledger)
    assert spends(ledger) == (outcome.refusal is None) == (solver in SOLVERS_OF[name])
    words = str(outcome.refusal).rpartition("use one of ")[2].split(", ")
    assert solver in SOLVERS_OF[name] or set(words) == SOLVERS_OF[name]


def test_a_solver_names_the_mechanism_that_refuses_what_is_set_beside_it(ledger: Path) -> None:
    with pytest.raises(ParameterError, match="target"):
        release(solver="lp", target="k", ledger=ledger).fit(MIXED.table)
    assert spends(ledger) == 0


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("smooth_synthesis", {"varian": "exact"}, "'varian'.*variant"),
        ("smooth_synthesis", {"variant": "best"}, "variant"),
        ("smooth_synthesis", {"grid": "many"}, "grid"),
        ("smooth_synthesis", {"columns": "x"}, "columns"),
        ("smooth_synthesis", {"spend": sd.PureDP(1)}, "'spend'"),
        ("l1_fit", {"basis": "wavelets"}, "basis.*'marginals'"),
        ("l1_fit", {"degree": 2.5}, "degree"),
        ("l1_fit", {"support": True}, "support"),
        ("l1_fit", {"on_progress": print}, "'on_progress'"),
        ("adaptive_marginals", {"screen": 2.0}, "screen"),
        ("adaptive_marginals", {"planner": "none"}, "planner"),
        ("mwem", {"rounds": 0}, "rounds"),
        ("auto", {"rounds": 2}, "options"),
        ("l1_fit", ["degree"], "mechanism_options"),
        ("l1_fit", {3: 4}, "option.*3"),
    ],
)
def test_options_are_checked_by_name_and_kind(name: str, options: Any, words: str, ledger: Path) -> None:
    with pytest.raises(ParameterError, match=words):
        release(mechanism=name, mechanism_options=options, ledger=ledger).fit(MIXED.table)
    assert spends(ledger) == 0


def test_an_option_that_is_a_setting_too_is_set_once(ledger: Path) -> None:
    with pytest.raises(ParameterError, match="solver"):
        release(mechanism="l1_fit", solver="lp", mechanism_options={"solver": "mw"}, ledger=ledger).fit(MIXED.table)
    assert spends(ledger) == 0


@pytest.mark.filterwarnings(LEFT_OUT)
def test_options_reach_the_mechanism() -> None:
    made = release(mechanism="smooth_synthesis", mechanism_options={"variant": "practical", "columns": ["x"]})
    made.fit(MIXED.table)
    assert made.release_.mechanism == "SmoothSynthesis (practical)"
    assert made.schema_.names == ("x",)
    seen = []
    made = release(mechanism="l1_fit", mechanism_options={"support": 60}, on_progress=seen.append).fit(MIXED.table)
    assert len(made.release_.output.distribution.codes) <= 60
    assert seen


# --- any value of any parameter

STRANGE = (
    None,
    True,
    -1,
    0,
    1.5,
    math.nan,
    math.inf,
    10**30,
    "",
    "nobody",
    b"x",
    [],
    ["x", 3],
    {},
    {"x": "y"},
    object(),
)
PARAMETERS = sorted(set(sd.SyntheticRelease().get_params()) - {"ledger", "dataset"})


@pytest.mark.sampled
@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.filterwarnings(LEFT_OUT, "ignore:epsilon .* is above 5")
def test_no_value_of_a_parameter_is_paid_for_and_then_refused(name: str, tmp_path: Path) -> None:
    table = MIXED.table.assign(who=range(len(MIXED.table)))
    for number, value in enumerate(STRANGE):
        ledger = tmp_path / f"{number}.sqlite"
        settings = {"schema": MIXED.schema, "epsilon": 2.0, "ledger": ledger, "dataset": "d", name: value}
        came_out = False
        with contextlib.suppress(SynthDPError):
            came_out = len(sd.SyntheticRelease(**settings).fit(table).sample(3)) == 3
        assert spends(ledger) == came_out, (name, value)


# --- what cannot be formatted, and rules


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["levels of numbers, not declared", "levels left open"])
def test_levels_of_numbers_that_nobody_declared_come_out_as_they_went_in(name: str) -> None:
    world = WORLDS[name]
    made = sd.SyntheticRelease(schema=world.schema, epsilon=4.0, delta=1e-3).fit_transform(world.table)
    assert [str(kind) for kind in made.dtypes] == [str(kind) for kind in world.table.dtypes]
    for column in made:
        assert set(made[column].dropna()) <= set(world.table[column])
        assert len(set(made[column].dropna())) > 1


def test_levels_that_the_type_cannot_hold_are_refused_before_anything_is_spent(ledger: Path) -> None:
    world = WORLDS["a label that no whole number is"]
    with pytest.raises(DataError, match="'k'"):
        release(world, ledger=ledger).fit(world.table)
    assert spends(ledger) == 0


def test_what_a_left_out_column_cannot_hold_does_not_matter() -> None:
    table = MIXED.table.assign(c=pd.Categorical(pd.to_datetime(["2024-01-01"] * len(MIXED.table))))
    with pytest.warns(UserWarning, match="SmoothSynthesis"):
        assert len(release(mechanism="smooth_synthesis").fit(table).sample(5)) == 5


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", ["auto", "adaptive_marginals", "l1_fit"])
def test_contradictory_rules_are_refused_before_anything_is_spent(mechanism: str, ledger: Path) -> None:
    world = WORLDS["rules that contradict each other"]
    with pytest.raises(SchemaError, match="rules"):
        release(world, mechanism=mechanism, ledger=ledger).fit(world.table)
    assert spends(ledger) == 0
    curator = sd.Curator(world.table, schema=world.schema, budget=sd.PureDP(1.0))
    with pytest.raises(SchemaError, match="rules"):
        sd.AdaptiveMarginals().release(curator)
    assert curator.remaining == sd.PureDP(1.0)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "rule", [sd.LessEqual("a", "z"), sd.Forbidden({"c": "v", "a": 1}), sd.Implies({"a": 1}, {"c": "v"})]
)
def test_a_rule_needs_columns_whose_bounds_and_levels_are_declared(rule: Any) -> None:
    with pytest.raises(SchemaError, match="bounds"):
        sd.Schema({"a": sd.Integer(0, 9), "z": sd.Integer(), "c": sd.Categorical()}, constraints=[rule])


def test_open_levels_without_a_delta_cost_nothing(ledger: Path) -> None:
    with pytest.raises(SchemaError, match="delta"):
        release(WORLDS["levels left open"], delta=0.0, ledger=ledger).fit(WORLDS["levels left open"].table)
    assert spends(ledger) == 0


# --- names as queries


@dataclass(frozen=True)
class ByName:
    """A mechanism that takes queries, and what its release answers."""

    make: Callable[[Any], Any]


BY_NAME = {
    "MWEM": ByName(lambda q: sd.MWEM(q, rounds=2)),
    "FourierMarginals": ByName(sd.FourierMarginals),
    "NetMechanism": ByName(lambda q: sd.NetMechanism(q, size=2)),
    "PrivateBoosting": ByName(lambda q: sd.PrivateBoosting(q, rounds=3, drawn=2)),
    "LaplaceAnswers": ByName(sd.LaplaceAnswers),
    "GaussianAnswers": ByName(sd.GaussianAnswers),
}
FLAGS = pd.DataFrame({name: np.arange(60) % n == 0 for name, n in (("a", 2), ("b", 3), ("c", 5))})
ALIKE = [
    [("a", "b"), "c"],
    [sd.marginal("a", "b"), sd.marginal("c")],
    [["a", "b"], ("c",)],
    [sd.marginal("a", "b", bins=2), {"c"}],
]


def curator() -> sd.Curator:
    schema = sd.Schema({"a": sd.Boolean(), "b": sd.Integer(0, 1), "c": sd.Boolean()})
    return sd.Curator(FLAGS.astype({"b": int}), schema=schema, budget=sd.ApproxDP(2.0, 1e-6))


@pytest.mark.sampled
@pytest.mark.parametrize("queries", ALIKE)
@pytest.mark.parametrize("name", BY_NAME)
def test_queries_are_marginals_or_sets_of_column_names(name: str, queries: Any) -> None:
    made = BY_NAME[name].make(queries).release(curator())
    assert len(made.answer(sd.marginal("a", "b"))) == 4
    assert len(made.answer(sd.marginal("c"))) == 2


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", [sd.AdaptiveMarginals, sd.L1Fit, sd.Automatic])
@pytest.mark.parametrize("workload", [*ALIKE[:3], sd.marginal("a", "b"), {("a", "b"): 2.0}, {sd.marginal("a"): 1.0}])
def test_workloads_are_marginals_or_sets_of_column_names(mechanism: Any, workload: Any) -> None:
    assert len(mechanism(workload).release(curator()).sample(5)) == 5


@pytest.mark.sampled
@pytest.mark.parametrize("queries", [["nobody"], [()], [3], 3, [sd.marginal("a", "nobody")], [], {("a", "b"): 1.0}])
@pytest.mark.parametrize("name", BY_NAME)
def test_names_that_are_no_columns_cost_nothing(name: str, queries: Any) -> None:
    asked = curator()
    with pytest.raises(ParameterError):
        BY_NAME[name].make(queries).release(asked)
    assert asked.remaining == asked.budget


@pytest.mark.sampled
@pytest.mark.parametrize("name", BY_NAME)
def test_queries_of_another_schema_cost_nothing(name: str) -> None:
    other = sd.domain_of(sd.Schema({"a": sd.Integer(0, 1), "z": sd.Boolean()}))
    asked = curator()
    with pytest.raises(ParameterError, match="'a'"):
        BY_NAME[name].make(sd.Marginals(other, ((0, 1),))).release(asked)
    assert asked.remaining == asked.budget


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", ["auto", "l1_fit", "mwem", "fourier_marginals", "smooth_synthesis"])
@pytest.mark.parametrize(
    ("rows", "epsilon"), [(10**9, 1e-4), (10**12, 1.0), (10**15, 0.1), (10**6, 1e-5), (10**9, 1.0)]
)
def test_noise_that_is_too_large_to_draw_is_refused_before_anything_is_spent(tmp_path, mechanism, rows, epsilon):
    frame = pd.DataFrame({"a": np.arange(200) % 10, "b": np.arange(200) % 3, "who": np.arange(200)})
    schema = sd.Schema({"a": sd.Integer(0, 9), "b": sd.Integer(0, 2)})
    ledger = sd.Ledger(tmp_path / "l.sqlite")
    release = sd.SyntheticRelease(
        schema=schema, epsilon=epsilon, delta=1e-6, privacy_unit="who", max_rows_per_unit=rows, mechanism=mechanism,
        ledger=ledger, dataset="d",
    )  # fmt: skip
    with pytest.raises(ParameterError, match=r"max_rows_per_unit|budget"):
        release.fit(frame)
    assert ledger.entries() == []


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", ["auto", "l1_fit", "mwem", "fourier_marginals", "smooth_synthesis"])
@pytest.mark.parametrize(("rows", "epsilon"), [(1, 1e-5), (10**4, 1.0), (100, 1e-3)])
def test_noise_that_is_only_just_not_too_large_leaves_a_table(mechanism, rows, epsilon):
    frame = pd.DataFrame({"a": np.arange(200) % 10, "b": np.arange(200) % 3, "who": np.arange(200)})
    schema = sd.Schema({"a": sd.Integer(0, 9), "b": sd.Integer(0, 2)})
    release = sd.SyntheticRelease(
        schema=schema, epsilon=epsilon, delta=1e-6, privacy_unit="who", max_rows_per_unit=rows, mechanism=mechanism
    )
    assert len(release.fit(frame).sample(5)) == 5  # as many as noise makes of them may be millions
