"""Releases over time, as a user sees them: rows that stay, answers with bands, settings, the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import DataError, FormatError, ParameterError, SchemaError
from synthdp.mechanisms import public_knowledge

SCHEMA = sd.Schema({"ward": sd.Categorical(["icu", "er", "other"]), "night": sd.Boolean(), "age": sd.Integer(0, 99)})


def month(number, rows=1500):
    rng = np.random.default_rng(number)
    ward = rng.choice(["icu", "er", "other"], rows, p=[0.2 + 0.02 * number, 0.3, 0.5 - 0.02 * number])
    age = np.clip(rng.normal(50, 20, rows), 0, 99).astype(int)
    return pd.DataFrame({"ward": ward, "night": (ward == "icu") ^ (rng.random(rows) < 0.2), "age": age})


MONTHS = [month(t) for t in range(5)]


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    made = sd.ReleaseSeries(
        schema=SCHEMA,
        epsilon=4.0,
        periods=5,
        period="month",
        path=tmp_path_factory.mktemp("s") / "beds",
        random_state=0,
    )
    published = []
    for t, table in enumerate(MONTHS):
        made.add(table, history=MONTHS[:t] if t == 2 else None)
        published.append([made.rows_(s) for s in range(t + 1)])
    return made, published


def test_published_rows_never_change(series):
    made, published = series
    for t, tables in enumerate(published):
        for s, table in enumerate(tables):
            pd.testing.assert_frame_equal(table, made.rows_(s))
        assert len(tables) == t + 1


def test_a_period_without_rows_is_refused_and_does_not_count(tmp_path):
    """A receipt says that the table has at least one row."""
    made = sd.ReleaseSeries(schema=SCHEMA, epsilon=4.0, periods=2, path=tmp_path / "beds")
    for _ in range(2):
        with pytest.raises(DataError, match="rows"):
            made.add(month(0, rows=0))
    assert made.added == 0
    assert made.add(month(0)).receipt is not None


def test_a_month_has_about_as_many_rows_of_the_same_form(series):
    made, _ = series
    for t, table in enumerate(MONTHS):
        rows = made.rows_(t)
        assert list(rows.dtypes) == list(table.dtypes)
        assert abs(len(rows) - 1500) < 250
    together = pd.concat([made.rows_(t) for t in range(5)])
    assert len(together) == made.cumulative_.output.rows


def test_all_published_rows_follow_all_real_ones(series):
    made, _ = series
    real, rows = pd.concat(MONTHS), pd.concat([made.rows_(t) for t in range(5)])
    for name in ("ward", "night"):
        shares = (part[name].value_counts(normalize=True) for part in (real, rows))
        assert float(np.abs(next(shares) - next(shares)).max()) < 0.05
    icu = rows[rows["ward"] == "icu"]["night"].mean()
    assert icu > rows[rows["ward"] == "other"]["night"].mean() + 0.3


@pytest.mark.landing
def test_answers_by_period_are_near_the_truth_and_bands_are_wider(series):
    made, _ = series
    found = made.answer(sd.count("ward == 'icu'"), by="period")
    truth = np.array([(table["ward"] == "icu").sum() for table in MONTHS])
    assert list(found["period"]) == [f"month {t + 1}" for t in range(5)]
    assert (np.abs(found["estimate"] - truth) < 5 * found["standard_error"]).all()
    assert (found["band_upper"] > found["upper"]).all()
    so_far = made.answer(sd.count("ward == 'icu'"), by="period", cumulative=True)
    assert np.allclose(np.diff(so_far["estimate"]), found["estimate"][1:])


@pytest.mark.landing
def test_differences_and_trends_know_that_the_noise_is_shared(series):
    made, _ = series
    question = sd.count("ward == 'icu'")
    so_far = made.answer(question, by="period", cumulative=True)
    apart = float(np.hypot(*so_far["standard_error"].iloc[[3, 4]]))
    assert float(made.difference(question, 3, 4, cumulative=True)["standard_error"].iloc[0]) < apart
    assert np.isfinite(made.trend(question)).all(axis=None)
    assert float(made.answer(sd.mean("age"), by="period", cumulative=True)["estimate"].iloc[-1]) == pytest.approx(
        50, abs=5
    )


def test_one_item_of_the_receipt_is_the_whole_series(series):
    made, _ = series
    receipt = made.receipt_
    assert len(receipt.items) == 1
    assert str(receipt.total) == "ε = 4, δ = 1e-09"
    assert "ε = 4 at" in receipt.together
    assert any("chosen again" in note for note in receipt.notes)


def test_private_files_are_gone_after_the_last_period_and_nothing_can_be_added(series):
    made, _ = series
    assert not (made._folder.path / "private").exists()
    with pytest.raises(DataError):
        made.add(MONTHS[0])


def test_a_series_goes_on_from_its_folder_with_its_settings(series):
    made, _ = series
    again = sd.ReleaseSeries(path=made._folder.path)
    assert (again.periods, again.epsilon, again.added) == (5, 4.0, 5)
    assert again.release_(0).output.rows == made.release_(0).output.rows
    with pytest.raises(ParameterError, match="epsilon"):
        sd.ReleaseSeries(schema=SCHEMA, epsilon=3.0, periods=5, path=made._folder.path)


def test_a_report_and_a_picture_of_a_count_over_time(series, tmp_path):
    made, _ = series
    made.report(tmp_path / "report.html", counts=[sd.count("ward == 'icu'")])
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "month 5" in page
    made.plot(sd.count()).save(tmp_path / "count.svg")
    assert "<path" in (tmp_path / "count.svg").read_text()


def test_a_plan_says_how_noisy_every_period_will_be(tmp_path):
    plan = sd.ReleaseSeries(schema=SCHEMA, periods=12, path=tmp_path / "s", choose_again=False).plan(500)
    assert plan.periods["noise_so_far"].max() == pytest.approx(2.65**0.5, rel=0.01)
    assert not (tmp_path / "s").exists()


@pytest.mark.landing
def test_without_history_the_first_tables_stay_and_the_receipt_says_so(tmp_path):
    made = sd.ReleaseSeries(schema=SCHEMA, epsilon=4.0, periods=4, path=tmp_path / "s")
    for table in MONTHS[:4]:
        made.add(table)
    assert any("no earlier rows" in note for note in made.receipt_.notes)
    assert abs(made.cumulative_.output.rows - 6000) < 500


@pytest.mark.landing
def test_a_public_table_chooses_the_tables_and_is_smoothed_once(tmp_path, monkeypatch):
    smoothed, made_once = public_knowledge.smoothed_rows, []
    monkeypatch.setattr(
        public_knowledge, "smoothed_rows", lambda *given, **more: made_once.append(1) or smoothed(*given, **more)
    )
    made = sd.ReleaseSeries(schema=SCHEMA, epsilon=4.0, periods=2, path=tmp_path / "s", public=month(9, 400))
    made.add(MONTHS[0])
    made.add(MONTHS[1])
    assert made_once == [1]
    assert any("public" in note for note in made.receipt_.notes)
    icu = float(made.answer(sd.count("ward == 'icu'"))["estimate"].iloc[0])
    assert icu == pytest.approx(sum((one["ward"] == "icu").sum() for one in MONTHS[:2]), abs=200)


@pytest.mark.parametrize("how", ["path", "source", "dataframe"])
def test_a_public_table_may_be_a_file(tmp_path, how):
    public = month(9, 400)
    public.to_csv(tmp_path / "public.csv", index=False)
    given = {"path": tmp_path / "public.csv", "source": sd.CsvSource(tmp_path / "public.csv"), "dataframe": public}[how]
    made = sd.ReleaseSeries(
        schema=SCHEMA, epsilon=4.0, periods=2, path=tmp_path / "s", public=given, rows_per_period=1500
    )
    assert made._times_public() == pytest.approx(2 * 1500 / len(public))
    made.add(MONTHS[0])
    assert any("public" in note for note in made.receipt_.notes)


def test_the_number_of_rows_is_exact_where_it_is_public(tmp_path):
    made = sd.ReleaseSeries(schema=SCHEMA, epsilon=4.0, periods=2, path=tmp_path / "s", neighbors="replace_one")
    made.add(MONTHS[0])
    made.add(MONTHS[1].iloc[:700])
    assert [len(made.rows_(t)) for t in range(2)] == [1500, 700]


@pytest.mark.landing
def test_units_in_several_periods(tmp_path):
    made = sd.ReleaseSeries(
        schema=SCHEMA, epsilon=8.0, periods=3, path=tmp_path / "s", privacy_unit="who", max_periods_per_unit=2
    )
    for t in range(3):
        made.add(MONTHS[t].assign(who=[f"p{i}" for i in range(1500)]))
    rows = made.answer(sd.count(), by="period")
    assert abs(rows["estimate"].iloc[1] - 1500) < 5 * rows["standard_error"].iloc[1]
    assert abs(rows["estimate"].iloc[2]) < 5 * rows["standard_error"].iloc[2]
    assert any("first 2 periods" in line for line in made.receipt_.assumptions)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"epsilon": -1}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"periods": 0}, "periods"),
        ({"neighbors": "no"}, "neighbors"),
        ({"max_periods_per_unit": 3}, "privacy_unit"),
        ({"key": b"short"}, "key"),
        ({"dataset": "x"}, "ledger"),
        ({"path": None}, "path"),
    ],
)
def test_settings_out_of_range_are_refused(settings, names, tmp_path):
    with pytest.raises(ParameterError, match=names):
        sd.ReleaseSeries(**{"schema": SCHEMA, "path": tmp_path / "s", **settings})


def test_a_series_that_is_loaded_as_a_release_says_what_it_is(series):
    made, _ = series
    with pytest.raises(FormatError, match="ReleaseSeries"):
        sd.load(made._folder.path)


def test_open_columns_and_other_folders_are_refused(tmp_path):
    with pytest.raises(SchemaError):
        sd.ReleaseSeries(schema=sd.Schema({"a": sd.Continuous()}), path=tmp_path / "s")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(FormatError):
        sd.ReleaseSeries(schema=SCHEMA, path=tmp_path / "other")


def test_questions_that_have_no_answer_by_period_are_refused(series):
    made, _ = series
    with pytest.raises(ParameterError, match="by"):
        made.answer(sd.count(), by="ward")
    with pytest.raises(ParameterError, match="cumulative"):
        made.answer(sd.mean("age"), by="period")
    with pytest.raises(ParameterError, match="by"):
        made.answer(sd.count(by="ward"), by="period")


def run(*arguments):
    return CliRunner().invoke(main, [str(one) for one in arguments])


def test_the_command_line_starts_adds_and_tells(tmp_path):
    SCHEMA.write(tmp_path / "schema.json")
    for t in range(2):
        MONTHS[t].to_csv(tmp_path / f"{t}.csv", index=False)
    folder, ledger = tmp_path / "beds", tmp_path / "l.sqlite"
    options = ("--epsilon", 4, "--periods", 2, "--period", "month", "--ledger", ledger, "--dataset", "beds")
    begun = run("series", "start", folder, "--schema", tmp_path / "schema.json", *options)
    assert begun.exit_code == 0, begun.output
    assert len(sd.Ledger(ledger).entries("beds")) == 1
    assert run("series", "start", folder, "--schema", tmp_path / "schema.json").exit_code == 2
    for t in range(2):
        out, table = tmp_path / f"out{t}.csv", tmp_path / f"all{t}.csv"
        done = run("series", "add", folder, tmp_path / f"{t}.csv", "--out", out, "--cumulative", table)
        assert done.exit_code == 0, done.output
        assert list(pd.read_csv(out)) == list(SCHEMA)
    told = json.loads(run("series", "status", folder, "--json").output)
    assert (told["added"], len(told["rows"])) == (2, 2)
    assert len(sd.Ledger(ledger).entries("beds")) == 1
    assert told["receipt"]["entries"] == [1]
    assert "2 of 2" in run("series", "status", folder).output
    assert run("series", "add", tmp_path / "no", tmp_path / "0.csv").exit_code == 2
