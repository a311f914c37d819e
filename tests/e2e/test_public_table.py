"""A public table as the prior of a release: what it changes, what the receipt says, what is refused."""

import hashlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import DataError, ParameterError

SCHEMA = sd.Schema({"a": sd.Categorical(list("abcdef")), "b": sd.Categorical(list("uvwxyz")), "n": sd.Integer(0, 30)})


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = np.minimum(rng.geometric(0.35, rows) - 1, 5)
    b = np.clip(a + rng.integers(-1, 2, rows), 0, 5)
    n = np.clip(4 * b + rng.integers(0, 8, rows), 0, 30)
    return pd.DataFrame({"a": np.array(list("abcdef"))[a], "b": np.array(list("uvwxyz"))[b], "n": n})


def pairs_error(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    return float(
        np.mean(
            [
                0.5 * real.value_counts([a, b], normalize=True).sub(
                    synthetic.value_counts([a, b], normalize=True), fill_value=0
                ).abs().sum()
                for a, b in itertools.combinations(SCHEMA, 2)
            ]
        )
    )  # fmt: skip


PRIVATE, PUBLIC = table(4000, 0), table(800, 1)


def made(**settings: Any) -> sd.SyntheticRelease:
    return sd.SyntheticRelease(**{"schema": SCHEMA, "epsilon": 0.1, "random_state": 0, **settings}).fit(PRIVATE)


@pytest.mark.landing
def test_a_public_table_of_the_same_source_makes_a_small_release_much_better() -> None:
    without, with_it = (
        np.mean([pairs_error(PRIVATE, made(public=public).sample()) for _ in range(3)]) for public in (None, PUBLIC)
    )
    assert with_it < 0.6 * without


@pytest.mark.landing
def test_a_public_table_of_another_source_does_little_harm() -> None:
    shuffled = pd.DataFrame({name: PUBLIC[name].sample(frac=1, random_state=i).values for i, name in enumerate(SCHEMA)})
    biased = PUBLIC[PUBLIC.a > "b"]
    without = np.mean([pairs_error(PRIVATE, made(epsilon=2.0).sample()) for _ in range(3)])
    for public in (shuffled, biased):
        assert pairs_error(PRIVATE, made(epsilon=2.0, public=public).sample()) < 1.3 * without


def test_the_receipt_names_the_table_with_its_hash_and_its_promise_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "last_year.csv"
    PUBLIC.to_csv(path, index=False)
    receipt = made(public=path, public_weight=0.5).receipt_
    (note,) = [one for one in receipt.notes if "last_year.csv" in one]
    rows = made(public=PUBLIC).receipt_
    (other,) = [one for one in rows.notes if "sha256" in one]
    digest = note.partition("sha256 ")[2][:16]
    assert digest == other.partition("sha256 ")[2][:16]
    assert "0.5" in note
    assert len(digest) == 16
    assert receipt.total == made().receipt_.total
    assert "last_year" not in " ".join(item.step for item in receipt.items)


def test_the_hash_depends_on_values_alone() -> None:
    from synthdp.estimators.public_table import read_public

    digests = {read_public(one, SCHEMA).digest(SCHEMA) for one in (PUBLIC, PUBLIC[["n", "b", "a"]], PUBLIC.assign(z=1))}
    assert len(digests) == 1
    changed = PUBLIC.assign(n=PUBLIC.n.where(PUBLIC.index > 0, 30 - PUBLIC.n))
    assert read_public(changed, SCHEMA).digest(SCHEMA) not in digests
    assert len(digests.pop()) == hashlib.sha256().digest_size * 2


@pytest.mark.landing
def test_nothing_more_is_asked_and_fewer_columns_do() -> None:
    without = made().release_.loss
    for public in (PUBLIC[["a", "n"]], PUBLIC.assign(other=1), PUBLIC.head(1), PUBLIC.assign(a="never", n=-5)):
        release = made(public=public)
        assert len(release.sample(50)) == 50
        assert release.release_.loss == without


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"public": PRIVATE}, ParameterError, "private"),
        ({"public": PUBLIC.rename(columns=str.upper)}, DataError, "column"),
        ({"public": PUBLIC.head(0)}, DataError, "rows"),
        ({"public": PUBLIC, "public_weight": 0}, ParameterError, "public_weight"),
        ({"public": PUBLIC, "public_weight": 1.5}, ParameterError, "public_weight"),
        ({"public_weight": 0.5}, ParameterError, "public_weight"),
        ({"public": PUBLIC, "mechanism": "mwem"}, ParameterError, "public.*mwem"),
        ({"public": 3}, DataError, "dataframe"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_spend(
    settings: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "l.sqlite"
    with pytest.raises(error, match=words):
        made(ledger=ledger, dataset="d", **settings)
    assert not ledger.exists() or not sd.Ledger(ledger).entries("d")


def test_a_release_with_a_public_table_is_saved_answered_and_sampled_like_any_other(tmp_path: Path) -> None:
    release = made(epsilon=1.0, public=PUBLIC)
    release.save(tmp_path / "r")
    again = sd.load(tmp_path / "r")
    pd.testing.assert_frame_equal(again.sample(20, random_state=1), release.sample(20, random_state=1))
    answer = release.answer(sd.marginal("a", "b"))
    assert (answer["upper"] >= answer["lower"]).all()


def test_rows_and_labels_may_have_a_public_table_together() -> None:
    x, y = sd.SyntheticRelease(schema=SCHEMA, public=PUBLIC).fit_resample(PRIVATE[["a", "b"]], PRIVATE["n"])
    assert len(x) == len(y) > 0


def test_the_command_takes_a_public_file(tmp_path: Path) -> None:
    PRIVATE.to_csv(tmp_path / "t.csv", index=False)
    PUBLIC.to_csv(tmp_path / "last.csv", index=False)
    SCHEMA.write(tmp_path / "s.json")
    base = ["release", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.json"), "--out", str(tmp_path / "o.csv")]
    found = CliRunner().invoke(main, [*base, "--public", str(tmp_path / "last.csv"), "--public-weight", "0.5"])
    assert found.exit_code == 0, found.output
    assert "last.csv" in found.output
    same = CliRunner().invoke(main, [*base, "--public", str(tmp_path / "t.csv")])
    assert same.exit_code == 2
