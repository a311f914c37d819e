"""Known attacks on synthetic-data releases, tried: metadata, files, pickles, errors, logs, overflow, membership.

Canaries are values that only one private row has; finding one anywhere outside the curator is a leak.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import pickle
import traceback
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from mechanism_cases import CASES
from no_noise import recorded, replayed
from scipy.stats import beta
from strictness import warnings_kept

from synthdp import (
    ApproxDP,
    Boolean,
    Categorical,
    Continuous,
    Curator,
    Integer,
    LaplaceAnswers,
    Ledger,
    PureDP,
    Schema,
    SyntheticRelease,
    nonprivate_evaluate,
)
from synthdp.domain.domain import domain_of, releasable_domain
from synthdp.errors import DataError, ParameterError, SalvageWarning, SynthDPError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy.calibration import Calibration
from synthdp.queries.marginals import one_ways
from synthdp.release import save
from synthdp.tables.sources.csv import CsvSource

CANARY = "canary-4711"
NUMBER = 7182818284.59
SCHEMA = Schema({"age": Integer(0, 99), "pay": Continuous(0, 100), "city": Categorical(["a", "b"])})


def table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"age": rng.integers(0, 100, rows), "pay": rng.uniform(0, 100, rows), "city": rng.choice(["a", "b"], rows)}
    )


def poisoned(rows: int = 200) -> pd.DataFrame:
    frame = table(rows).astype(object)
    frame.loc[rows] = [CANARY, NUMBER, CANARY]
    frame.index = [*range(rows), CANARY]
    frame.attrs["note"] = CANARY
    return frame


def test_sums_too_large_for_the_lattice_are_clipped_and_never_wrap():
    """A product that wraps around 64 bits would move by 2^64 where the sum moved by one."""
    exact = np.array([2**61, -(2**61), 3], np.int64)
    plan = Calibration(Noise(law=NoiseLaw.LAPLACE, scale=1.0, k=3), 2**20, 1.0)
    noisy = plan.noised(exact)
    assert noisy[0] > 2**52
    assert noisy[1] < -(2**52)
    assert abs(noisy[2] - 3 * 2**20) < 1000


def test_the_noise_grows_with_the_rows_of_a_unit():
    frame = table(20).assign(who=np.arange(20) // 4)
    scales = [
        Curator(frame, schema=SCHEMA, budget=PureDP(1.0), privacy_unit="who", max_rows_per_unit=most)
        .measure(one_ways(domain_of(SCHEMA)))
        .noise.scale
        for most in (1, 3)
    ]
    assert scales[1] == 3 * scales[0]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", CASES)
def test_only_whole_numbers_leave_the_room(name):
    """Floating-point noise has gaps that betray the value (Mironov 2012); whole numbers have none."""
    release, _ = CASES[name].release(CASES[name].world.table)
    assert all(one.values.dtype == np.int64 for one in release.measurements)


def test_the_pickle_of_an_estimator_does_not_grow_with_its_table():
    """R15, with the same noisy answers: whatever of the input were kept would be seen in the size."""

    def fitted(rows: int) -> bytes:
        return pickle.dumps(SyntheticRelease(schema=SCHEMA, random_state=0).fit(table(rows)))

    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        small = fitted(100)
    with pytest.MonkeyPatch.context() as patch:
        replayed(patch, first)
        large = fitted(100_000)
    assert len(small) == len(large)


def haystacks(frame: pd.DataFrame, folder) -> Iterator[tuple[str, bytes]]:
    """Everything that a release leaves behind, by name."""
    declared = Schema({"age": SCHEMA["age"], "pay": SCHEMA["pay"], "city": Categorical(nullable=True, other="other")})
    for name, schema in {"declared": SCHEMA, "discovered": declared}.items():
        model = SyntheticRelease(schema=schema, epsilon=2.0, delta=1e-6, ledger=folder / "l.sqlite").fit(frame)
        model.save(folder / name)
        model.sample(300).to_csv(folder / f"{name}.csv")
        made = model.sample(300)
        yield f"{name} pickle", pickle.dumps(model)
        yield f"{name} texts", "".join(map(str, (model, model.release_, model.receipt_, model.schema_))).encode()
        yield f"{name} frame", f"{made.index} {made.attrs} {made.dtypes} {made.to_dict()}".encode()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()


def test_a_value_of_one_row_is_in_no_file_no_pickle_no_text_and_no_log(tmp_path, caplog):
    needles = [CANARY.encode(), str(NUMBER).encode(), np.float64(NUMBER).tobytes()]
    with warnings_kept() as warned, caplog.at_level(logging.DEBUG):
        found = dict(haystacks(poisoned(), tmp_path))
    found["logs"] = caplog.text.encode()
    found["warnings"] = str([str(one.message) for one in warned]).encode()
    assert len(found) >= 13
    leaks = [(name, needle) for name, hay in found.items() for needle in needles if needle in hay]
    assert leaks == []


def test_a_category_that_exists_only_in_the_type_is_not_released():
    """Domain extraction: a pandas categorical lists levels that few rows, or none, have."""
    frame = table(200)
    frame["city"] = pd.Categorical(frame["city"], categories=["a", "b", CANARY])
    made = SyntheticRelease(schema=SCHEMA).fit(frame)
    assert CANARY.encode() not in pickle.dumps(made.sample(100)) + pickle.dumps(made)


def test_extreme_values_do_not_widen_the_released_domain():
    """Domain extraction: an outlier sets the range of a synthesizer that takes bounds from the data."""
    frame = pd.concat([table(200), pd.DataFrame({"age": [10**9], "pay": [1e12], "city": ["a"]})])
    made = SyntheticRelease(schema=SCHEMA, random_state=0).fit(frame).sample(500)
    assert made["age"].between(0, 99).all()
    assert made["pay"].between(0, 100).all()


def test_a_file_without_a_header_is_refused_without_a_value(tmp_path):
    """Its first row is taken for the names, so that names must not be quoted."""
    path = tmp_path / "t.csv"
    path.write_text(f"31,{CANARY},a\n32,5.0,b\n")
    with pytest.raises(DataError) as caught:
        Curator(CsvSource(path), schema=SCHEMA, budget=PureDP(1.0))
    assert CANARY not in everything_said(caught.value)
    model = SyntheticRelease(schema=SCHEMA).fit(table(50))
    with pytest.raises(DataError) as caught:
        model.transform(CsvSource(path))
    assert CANARY not in everything_said(caught.value)


def everything_said(error: BaseException | None) -> str:
    """The traceback as it is printed, and the texts of all errors behind it, also of the suppressed ones."""
    said = "" if error is None else "".join(traceback.format_exception(error))
    while error is not None:
        said += f"{error!s}\n{error!r}\n"
        error = error.__cause__ or error.__context__
    return said


class Treacherous:
    """A value whose every operation fails and quotes it."""

    def _fail(self, *_: object) -> None:
        raise ValueError(CANARY)

    __eq__ = __str__ = __repr__ = __hash__ = __float__ = __int__ = __lt__ = __bool__ = _fail  # type: ignore[assignment]


def test_a_value_whose_operations_all_fail_is_read_like_any_other():
    frame = table(50).astype(object)
    frame.iat[0, 0] = frame.iat[1, 1] = frame.iat[2, 2] = Treacherous()
    curator = Curator(frame, schema=SCHEMA, budget=PureDP(1.0))
    assert curator.measure(one_ways(domain_of(SCHEMA))).values.dtype == np.int64


BROKEN_FILES = {
    "ragged": f"age,pay,city\n1,2.0,{CANARY}\n1,{CANARY}\n".encode(),
    "an open quote": f'age,pay,city\n1,2.0,"{CANARY}\n'.encode(),
    "not UTF-8": b"age,pay,city\n1,2.0," + CANARY.encode() + b"\xff\n",
    "a null byte": f"age,pay,city\n1,2.0,{CANARY}\x00\n1,2\n".encode(),
    "an endless field": b"age,pay,city\n1,2.0," + CANARY.encode() * 100 + b",,,\n",
}


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_a_file_with_a_broken_row_is_released_and_shows_nothing_of_it(case, tmp_path, caplog, capsys):
    """Refusing it, as was done once, would tell that somebody's row is broken (R27)."""
    path = tmp_path / "t.csv"
    path.write_bytes(BROKEN_FILES[case])
    with caplog.at_level(logging.DEBUG):
        model = SyntheticRelease(schema=SCHEMA).fit(CsvSource(path))
    assert CANARY not in caplog.text + "".join(capsys.readouterr()) + str(model.receipt_) + str(model.sample(50))


DAMAGED_FILES = {
    "cut short": gzip.compress(f"age,pay,city\n1,2.0,{CANARY}\n".encode() * 999)[:-12],
    "no gzip": f"age,pay,city\n1,2.0,{CANARY}\n".encode(),
    "a header in another encoding": gzip.compress(CANARY.encode() + b"\xff,pay,city\n"),
}


@pytest.mark.parametrize("case", DAMAGED_FILES)
def test_errors_about_a_file_quote_no_value_even_in_suppressed_causes(case, tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(DAMAGED_FILES[case])
    with pytest.raises(SynthDPError) as caught:
        SyntheticRelease(schema=SCHEMA).fit(CsvSource(path))
    assert CANARY not in everything_said(caught.value)
    assert caught.value.__context__ is None


def words_of(poison: object, caplog) -> list[str]:
    """All that is said while a table with one poisoned cell in each column is released, sampled and saved."""
    frame = table(200).astype(object)
    frame.loc[200] = [poison] * 3
    caplog.clear()
    with warnings_kept() as warned, caplog.at_level(logging.DEBUG):
        model = SyntheticRelease(schema=SCHEMA, random_state=0).fit(frame)
    return [
        *(str(one.message) for one in warned),
        *(record.getMessage() for record in caplog.records),
        *map(str, (model, model.release_, model.receipt_, model.sample(5))),
    ]


POISONS = ["another", 7e300, float("nan"), None, (1, 2)]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("poison", POISONS, ids=str)
def test_two_poisoned_rows_give_the_same_words(poison, caplog):
    """R9: with the same noise, whatever stands in a cell, nothing that is said differs."""
    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = words_of("poison", caplog)
    with pytest.MonkeyPatch.context() as patch:
        replayed(patch, first)
        assert words_of(poison, caplog) == expected


def test_a_failure_after_reading_says_nothing_of_the_rows_and_ends_in_a_table(tmp_path, monkeypatch):
    from synthdp.fit.max_entropy import MaxEntropy

    def fails(*_: object, **__: object) -> None:
        raise MemoryError("the fit ran out of memory")

    monkeypatch.setattr(MaxEntropy, "__call__", fails, raising=False)
    for name in ("solve", "fit"):
        monkeypatch.setattr(MaxEntropy, name, fails, raising=False)
    with pytest.warns(SalvageWarning) as caught:
        release = SyntheticRelease(schema=SCHEMA, ledger=tmp_path / "l.sqlite").fit(poisoned())
    assert CANARY not in "".join(str(one.message) for one in caught) + str(release.receipt_)
    assert CANARY not in release.sample(50).to_csv()
    assert [entry.loss for entry in Ledger(tmp_path / "l.sqlite").entries()] == [ApproxDP(1.0, 1e-9)]


def advantage(hits: list[bool], misses: list[bool], *, p: float = 1e-6) -> float:
    """Lower confidence bound on P(guess "in" | in) - P(guess "in" | out), Clopper-Pearson."""
    low = beta.ppf(p / 2, sum(hits), len(hits) - sum(hits) + 1)
    high = beta.ppf(1 - p / 2, sum(misses) + 1, len(misses) - sum(misses))
    return float(np.nan_to_num(low) - np.nan_to_num(high, nan=1.0))


def attacked(epsilon: float, *, claimed: float, runs: int = 150) -> tuple[float, float]:
    """Membership inference with shadow releases on the weakest record; return the advantage and its bound."""
    schema = Schema({"rare": Boolean()})
    domain = releasable_domain(domain_of(schema))
    ordinary = pd.DataFrame({"rare": [False] * 30})
    target = pd.concat([ordinary, pd.DataFrame({"rare": [True]})], ignore_index=True)

    def score(frame: pd.DataFrame) -> float:
        curator = Curator(frame, schema=schema, budget=PureDP(epsilon))
        return float(LaplaceAnswers(one_ways(domain)).release(curator).measurements[0].answers[1])

    shadows = [[score(frame) for _ in range(runs)] for frame in (target, ordinary)]
    cuts = np.unique(np.concatenate(shadows))
    best = max(cuts, key=lambda cut: np.mean(shadows[0] >= cut) - np.mean(shadows[1] >= cut))
    guesses = [[score(frame) >= best for _ in range(runs)] for frame in (target, ordinary)]
    return advantage(*guesses), (math.exp(claimed) - 1) / (math.exp(claimed) + 1)


@pytest.mark.slow
def test_membership_of_the_weakest_record_is_inferred_no_better_than_promised():
    found, bound = attacked(1.0, claimed=1.0)
    assert found <= bound


@pytest.mark.slow
def test_membership_inference_notices_noise_that_is_too_small():
    """The attack works: at epsilon 4 it beats the bound of epsilon 1."""
    found, bound = attacked(4.0, claimed=1.0)
    assert found > bound


def test_a_published_comparison_gives_a_row_away_and_so_no_release_can_hold_one(tmp_path):
    """R14, reconstruction by evaluation: whoever may compare tables of their own with the real one reads it row by row.

    The attacker knows all rows but one and asks for the distance of each candidate table: zero names the row.
    """
    schema = Schema({"age": Integer(0, 9), "city": Categorical(["a", "b"])})
    known = pd.DataFrame({"age": [1, 5, 5, 9], "city": ["a", "b", "a", "b"]})
    secret = pd.DataFrame({"age": [7], "city": ["b"]})
    real = pd.concat([known, secret], ignore_index=True)
    candidates = [pd.DataFrame({"age": [age], "city": [city]}) for age in (6, 7, 8) for city in "ab"]
    told = [nonprivate_evaluate(real, pd.concat([known, one], ignore_index=True), schema) for one in candidates]
    found = [one for one, what in zip(candidates, told, strict=True) if what.scores["two_way"] < 1e-12]
    assert len(found) == 1
    assert found[0].equals(secret)
    assert all("NON-PRIVATE" in str(what) for what in told)
    with pytest.raises(ParameterError, match="Release"):
        save(told[0], tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_release_folder_holds_two_files_and_listed_fields_only(tmp_path):
    """R14, R15: the bundle is built of a list, so that nothing can come along."""
    model = SyntheticRelease(schema=SCHEMA).fit(poisoned())
    model.nonprivate_scores = {"copies": 0.25}
    model.save(tmp_path / "r")
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == ["arrays.npz", "release.json"]
    document = json.loads((tmp_path / "r" / "release.json").read_text(encoding="utf-8"))
    assert set(document) == {
        "arrays_sha256", "distribution", "domain", "domains", "format", "loss", "measurements", "mechanism", "receipt",
        "refinements", "schema", "synthdp_release", "total",
    }  # fmt: skip
    assert "nonprivate" not in json.dumps(document)
