"""`undiscovered="refuse"`: no table rather than one of which noise hid too much; what was not spent goes back."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import DiscoveryError, DiscoveryWarning, ParameterError

LARGE = 20_000


def table(rows: int, **more: object) -> pd.DataFrame:
    place = np.arange(rows)
    return pd.DataFrame({"a": np.where(place % 3, "yes", "no"), "n": place % 50} | more)


def refusing(folder: Path, **settings: object) -> sd.SyntheticRelease:
    folder.mkdir(exist_ok=True)
    book = sd.Ledger(folder / "l.sqlite")
    book.set_cap("d", sd.ApproxDP(10.0, 1e-6), neighbors=settings.get("neighbors", "add_remove"))
    return sd.SyntheticRelease(undiscovered="refuse", ledger=book, dataset="d", **settings)


def refusal(release: sd.SyntheticRelease, frame: pd.DataFrame) -> str:
    with pytest.raises(DiscoveryError) as found:
        release.fit(frame)
    return str(found.value)


def spent(release: sd.SyntheticRelease) -> sd.ApproxDP:
    (entry,) = release.ledger.entries("d")
    assert entry.state == "committed"
    return entry.loss


def test_a_table_too_small_for_its_budget_is_refused_for_a_small_part_of_it(tmp_path: Path) -> None:
    release = refusing(tmp_path, epsilon=0.3)
    said = refusal(release, table(300))
    assert spent(release).epsilon < 0.2 * 0.3
    assert spent(release).delta == release.delta
    assert str(spent(release)) in said
    assert not hasattr(release, "release_")


def test_a_column_that_noise_hides_is_refused_for_what_discovery_costs(tmp_path: Path) -> None:
    release = refusing(tmp_path)
    frame = table(LARGE, key=[f"only {i}" for i in range(LARGE)])
    said = refusal(release, frame)
    assert "'key'" in said
    assert "only 0" not in said
    assert 0.2 < spent(release).epsilon < 0.9


def test_what_a_refusal_gives_back_is_enough_for_another_release(tmp_path: Path) -> None:
    release = refusing(tmp_path, epsilon=1.0)
    release.ledger.set_cap("d", sd.ApproxDP(1.0, 2e-9))
    refusal(release, table(100))
    left = release.ledger.left("d")
    schema = {"a": sd.Categorical(["no", "yes"]), "n": sd.Integer(0, 49)}
    again = sd.SyntheticRelease(
        schema=schema, epsilon=left.epsilon, delta=left.delta, ledger=release.ledger, dataset="d"
    )
    assert len(again.fit(table(100)).sample(5)) == 5
    assert release.ledger.left("d") is None


def test_a_table_of_which_all_is_found_is_released_and_costs_the_whole_budget(tmp_path: Path) -> None:
    release = refusing(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DiscoveryWarning)
        made = release.fit(table(LARGE)).sample(10)
    assert list(made) == ["a", "n"]
    assert spent(release) == sd.ApproxDP(1.0, 1e-9)
    assert any(item.step == "discovered number of rows" for item in release.receipt_.items)


def test_a_declared_table_is_never_refused_however_small(tmp_path: Path) -> None:
    schema = {"a": sd.Categorical(["no", "yes"]), "n": sd.Integer(0, 49)}
    release = refusing(tmp_path, schema=schema, epsilon=0.1)
    assert len(release.fit(table(20)).sample(3)) == 3
    assert spent(release) == sd.ApproxDP(0.1, 1e-9)


def test_a_refusal_before_the_first_private_answer_costs_nothing(tmp_path: Path) -> None:
    """Under replace_one the number of rows is public, and the forecast alone says that they are too few."""
    release = refusing(tmp_path, epsilon=1.0, neighbors="replace_one")
    assert "nothing was spent" in refusal(release, table(60)[["n"]])
    assert [entry.state for entry in release.ledger.entries("d")] == ["returned"]
    assert release.ledger.left("d") == sd.ApproxDP(10.0, 1e-6)
    with pytest.raises(DiscoveryError, match="spent"):
        release.set_params(ledger=None, dataset=None).fit(table(60)[["n"]])


@pytest.mark.parametrize("settings", [{"delta": 0.0}, {"mechanism": "l1_fit"}], ids=str)
def test_every_currency_gets_a_part_of_epsilon_back(settings: dict[str, object], tmp_path: Path) -> None:
    release = refusing(tmp_path, epsilon=0.5, **settings)
    refusal(release, table(60)[["n"]])
    assert spent(release).epsilon < 0.25


def test_a_refusal_without_a_ledger_says_what_was_spent() -> None:
    assert "ε = " in refusal(sd.SyntheticRelease(undiscovered="refuse", epsilon=0.3), table(200))


def test_a_model_is_not_trained_on_a_table_that_was_refused() -> None:
    from sklearn.linear_model import LogisticRegression

    model = sd.TrainOnSynthetic(LogisticRegression(), sd.SyntheticRelease(undiscovered="refuse", epsilon=0.3))
    with pytest.raises(DiscoveryError):
        model.fit(table(100)[["n"]], table(100)["a"])


@pytest.mark.parametrize("wrong", ["refuse ", "drop", None, 1])
def test_any_other_setting_is_refused_before_anything_is_spent(wrong: object, tmp_path: Path) -> None:
    release = refusing(tmp_path).set_params(undiscovered=wrong)
    with pytest.raises(ParameterError, match=r"leave_out.*refuse"):
        release.fit(table(100))
    assert release.ledger.entries() == []


def test_the_command_line_refuses_with_one_line_and_writes_no_table(tmp_path: Path) -> None:
    table(200).to_csv(tmp_path / "t.csv", index=False)
    sd.Schema({"a": sd.Categorical(["no", "yes"]), "n": sd.Integer()}).write(tmp_path / "s.json")
    out = tmp_path / "out.csv"
    asked = ["release", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.json"), "--epsilon", "0.3"]
    result = CliRunner().invoke(main, [*asked, "--out", str(out), "--undiscovered", "refuse"])
    assert result.exit_code == 2
    assert "was spent" in result.output
    assert not out.exists()


def test_neighbours_are_refused_alike_once_the_noise_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8: the refusal, its words and the ledger are a function of noisy answers."""
    from no_noise import recorded, replayed

    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        one = refusal(refusing(tmp_path / "a", epsilon=0.3), table(300))
    second = replayed(monkeypatch, first)
    other = refusal(refusing(tmp_path / "b", epsilon=0.3), pd.concat([table(300), table(1).assign(a="maybe", n=10**6)]))
    assert one == other
    assert second.draws == first.draws
