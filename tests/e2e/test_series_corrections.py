"""Corrections of earlier rows in a series, as a user sees them."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import ParameterError

SCHEMA = sd.Schema({"ward": sd.Categorical(["icu", "er", "other"]), "night": sd.Boolean()})


def month(number, rows=1200):
    rng = np.random.default_rng(number)
    return pd.DataFrame({
        "ward": rng.choice(["icu", "er", "other"], rows), "night": rng.random(rows) < 0.3,
        "who": [f"m{number}-{i}" for i in range(rows)],
    })  # fmt: skip


MONTHS = [month(t) for t in range(4)]
WRONG = MONTHS[0][MONTHS[0]["ward"] == "icu"]
"""Rows of January that should have been of another ward."""

RIGHT = WRONG.assign(ward="er")
UNITS = {"privacy_unit": "who", "max_rows_per_unit": 2, "max_periods_per_unit": 2}


def series_at(path, **settings):
    return sd.ReleaseSeries(schema=SCHEMA, epsilon=20.0, periods=4, path=path, random_state=0, **settings)


def test_corrected_rows_leave_the_counts_of_all_rows_and_published_rows_stay(tmp_path):
    made = series_at(tmp_path / "s", **UNITS)
    made.add(MONTHS[0])
    before = made.rows_(0)
    february = pd.concat([MONTHS[1], RIGHT], ignore_index=True)
    made.add(february, corrections=WRONG)
    made.add(MONTHS[2], history=[MONTHS[0], (february, WRONG)])
    pd.testing.assert_frame_equal(before, made.rows_(0))
    icu, er = (sd.count(f"ward == '{ward}'") for ward in ("icu", "er"))
    real = [sum((one["ward"] == ward).sum() for one in MONTHS[:3]) for ward in ("icu", "er")]
    for question, wanted in ((icu, real[0] - len(WRONG)), (er, real[1] + len(WRONG))):
        answer = made.answer(question).iloc[0]
        assert abs(answer["estimate"] - wanted) < 8 * answer["standard_error"] + 1
    by_month = made.answer(icu, by="period")
    wanted = (MONTHS[1]["ward"] == "icu").sum() - len(WRONG)
    assert abs(by_month["estimate"][1] - wanted) < 8 * by_month["standard_error"][1]


def test_corrections_without_a_unit_are_refused_before_anything_is_read(tmp_path):
    made = series_at(tmp_path / "s")
    made.add(MONTHS[0])
    with pytest.raises(ParameterError, match="privacy_unit"):
        made.add(MONTHS[1], corrections=WRONG)
    assert made.added == 1


@pytest.mark.landing
def test_the_command_line_takes_corrections(tmp_path):
    SCHEMA.write(tmp_path / "s.json")
    february = pd.concat([MONTHS[1], RIGHT], ignore_index=True)
    for name, one in (("jan", MONTHS[0]), ("feb", february), ("mar", MONTHS[2]), ("wrong", WRONG)):
        one.to_csv(tmp_path / f"{name}.csv", index=False)
    folder, files = (
        str(tmp_path / "s"),
        {name: str(tmp_path / f"{name}.csv") for name in ("jan", "feb", "mar", "wrong")},
    )

    def run(*arguments):
        return CliRunner().invoke(main, ["series", *map(str, arguments)], catch_exceptions=False)

    units = ["--privacy-unit", "who", "--max-rows-per-unit", 2, "--max-periods-per-unit", 2]
    assert run("start", folder, "--schema", tmp_path / "s.json", "--periods", 4, *units).exit_code == 0
    assert run("add", folder, files["jan"]).exit_code == 0
    assert run("add", folder, files["feb"], "--corrections", files["wrong"]).exit_code == 0
    history = ["--history", files["jan"], "--history", files["feb"]]
    refused = run("add", folder, files["mar"], *history)
    assert refused.exit_code == 2
    assert "history" in refused.output
    wrong_number = run("add", folder, files["mar"], *history, "--history-corrections", 3, files["wrong"])
    assert wrong_number.exit_code == 2
    assert run("add", folder, files["mar"], *history, "--history-corrections", 2, files["wrong"]).exit_code == 0
