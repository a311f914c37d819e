"""Pictures in a notebook: the report's own charts, whose bars are the shares that they name; stamped beside real rows."""

import itertools
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, strategies as st

import synthdp as sd
from synthdp.errors import DataError, ParameterError
from synthdp.figures import in_figures, in_per_cent, multiples, precise_to, round_step, shortened, width_of
from synthdp.pictures.column_views import column_view, column_views, grouped
from synthdp.pictures.picture import bars, decades, heat_map, histogram, triangle
from synthdp.pictures.view import FINEST, SINGLE, Bar, axis_between, marks_between, zoomed

ROWS = 4_000
SCHEMA = sd.Schema(
    {
        "age": sd.Integer(0, 120),
        "born": sd.Integer(1900, 2020),
        "gain": sd.Integer(0, 100_000),
        "pay": sd.Continuous(0, 1e6, decimals=2),
        "rate": sd.Continuous(-1, 1),
        "seen": sd.Datetime("2020-01-01", "2021-01-01", nullable=True),
        "town": sd.Categorical([f"town {i}" for i in range(12)], nullable=True),
        "member": sd.Boolean(),
        "code": sd.Integer(0, 10, special=[99]),
        "wealth": sd.Integer(0, 10**9),
        "id": sd.Identifier(),
        "twice": sd.Integer(),
        "word": sd.Categorical(),
    },
    constraints=[
        sd.Derived("twice", "2 * age"),
        sd.Derived("word", of="member", values={True: "member", False: "guest"}),
    ],
)
MODELLED = [name for name in SCHEMA if name != "id"]
NUMERIC = ["age", "born", "gain", "pay", "rate", "code", "wealth"]


def real() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(18, 90, ROWS)
    seen = np.datetime64("2020-01-01") + rng.integers(0, 200, ROWS).astype("timedelta64[D]")
    return pd.DataFrame({
        "age": age,
        "born": 2010 - age,
        "gain": np.where(rng.random(ROWS) < 0.92, 0, rng.integers(1000, 20_000, ROWS)),
        "pay": np.exp(rng.normal(8, 1, ROWS)).clip(0, 1e6).round(2),
        "rate": rng.uniform(-1, 1, ROWS),
        "seen": np.where(rng.random(ROWS) < 0.3, np.datetime64("NaT", "ns"), seen),
        "town": [None if i > 11 else f"town {i}" for i in rng.integers(14, size=ROWS)],
        "member": rng.random(ROWS) < 0.25,
        "wealth": rng.exponential(2000, ROWS).round(),
        "code": np.where(rng.random(ROWS) < 0.2, 99, rng.integers(0, 11, ROWS)),
        "id": np.arange(ROWS).astype(str),
    })  # fmt: skip


REAL = real()


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=5.0, random_state=0).fit(REAL)


@pytest.fixture(scope="module")
def views(release: sd.SyntheticRelease) -> dict[str, Any]:
    return {view.name: view for view in column_views(release.release_.model, release.release_.measurements)}


def share_between(name: str, label: str) -> float:
    """Return the share of real rows in a bin, by its name, in per cent."""
    ends = [float(end) for end in label.removeprefix("beyond: ").split(" to ")]
    return 100 * float(((ends[0] <= REAL[name]) & (REAL[name] <= ends[-1])).mean())


@pytest.mark.parametrize(
    "name", [name for name in NUMERIC if name != "wealth"]
)  # whose labels are as coarse as its grid
def test_a_bar_is_the_share_of_the_rows_that_its_label_names(views: dict[str, Any], name: str) -> None:
    view = views[name]
    named = [bar for bar in view.numbers if bar.label]
    assert len(named) >= 8
    for bar in named:  # four times as far as 95 % of all noise goes, and what the ends of a leaf leave open
        assert abs(bar.share - share_between(name, bar.label)) <= 0.3 + 2 * (bar.high - bar.low), bar.label


@pytest.mark.parametrize("name", MODELLED)
def test_what_is_drawn_and_what_is_told_apart_are_all_rows(views: dict[str, Any], name: str) -> None:
    view = views[name]
    assert sum(bar.share for bar in view.numbers) == pytest.approx(100, abs=3)
    assert all(0 <= bar.share <= 100 for bar in view.numbers)
    assert all(
        bar.low <= bar.share + 1e-9 and bar.share <= bar.high + 1e-9 <= 100 + 1e-6 for bar in view.numbers if bar.label
    )


@pytest.mark.parametrize("name", NUMERIC)
def test_a_mark_stands_where_its_value_is(views: dict[str, Any], name: str) -> None:
    """The bin to its right, or above it, begins with it; nothing that is drawn has another place."""
    view = views[name]
    assert 2 <= len(view.ticks) <= 9
    values = [float(text.replace(",", "")) for _, text in view.ticks]
    places = [math.floor(place + 1e-6) for place, _ in view.ticks]
    width = (values[-1] - values[0]) / (places[-1] - places[0])
    start = values[0] - width * places[0]
    begins = [(k, float(bar.label.split(" to ")[0])) for k, bar in enumerate(view.bars) if bar.label]
    assert begins[1:]
    for k, begin in begins[1:]:  # the first may begin with the column's lower bound
        assert start + width * (k - 1e-3) <= begin < start + width * (k + 1 - 1e-3)


@pytest.mark.parametrize("name", ["age", "born", "pay", "rate", "wealth"])
def test_the_middle_of_the_rows_fills_much_of_the_axis(views: dict[str, Any], name: str) -> None:
    """However far away the declared bounds are: the bars between the first and the last decile are an eighth of all."""
    view = views[name]
    below = np.cumsum(view.shares) / sum(view.shares)
    assert np.sum((below > 0.1) & (below < 0.9)) >= len(view.bars) / 8


RANGES = [
    (low, width, kind)
    for width, kind in [
        (1, sd.Integer),
        (7, sd.Integer),
        *itertools.product([10**6, 2**61], [sd.Integer, sd.Continuous]),
    ]
    for low in (0, 10**9, -(10**15), 2**61)
]


@pytest.mark.sampled("landing")
@pytest.mark.filterwarnings("ignore:epsilon")
@pytest.mark.parametrize(
    ("low", "width", "kind"),
    [pytest.param(*one, marks=[pytest.mark.slow] * (i % 5 > 0)) for i, one in enumerate(RANGES)],
)
def test_numbers_of_any_range_have_a_picture(low: int, width: int, kind: Any) -> None:
    """Those of a narrow range far from zero are hard to tell apart."""
    schema = sd.Schema({"x": kind(low, low + width)})
    values = np.array([low + width * i // 4 for i in range(5)] * 40)
    release = sd.SyntheticRelease(schema=schema, epsilon=500.0, delta=1e-9).fit(pd.DataFrame({"x": values}))
    view = column_view(release.release_.model, release.release_.measurements, "x")
    shown = sum(bar.share for bar in (*view.bars, *view.apart) if bar.share == bar.share)
    assert shown == pytest.approx(100, abs=2)
    assert "<svg" in release.plot("x")._repr_svg_()


@pytest.mark.parametrize("name", ["gain", "pay", "age"])
def test_no_histogram_is_one_bar(release: sd.SyntheticRelease, name: str) -> None:
    """At least three bars are taller than a tenth of the tallest."""
    chart = release.plot(name).chart
    heights = [float(height) for height in re.findall(r'class="bar"[^>]*height="([\d.]+)"', chart)]
    assert sum(height > max(heights) / 10 for height in heights) >= 3


def test_what_lies_beyond_the_range_is_said(views: dict[str, Any], release: sd.SyntheticRelease) -> None:
    view = views["pay"]
    beyond = [bar for bar in view.apart if bar.label.startswith("beyond")]
    assert beyond
    assert view.beyond == pytest.approx(sum(bar.share for bar in beyond))
    assert "beyond" in release.plot("pay").note
    assert views["rate"].beyond == 0


def test_bins_of_real_numbers_are_named_by_round_ends(views: dict[str, Any]) -> None:
    assert all(len(end) <= 5 for bar in views["rate"].bars for end in bar.label.split(" to "))


def test_levels_come_with_the_most_frequent_first_and_none_is_lost(views: dict[str, Any]) -> None:
    view = views["town"]
    assert view.shares == sorted(view.shares, reverse=True)
    assert {bar.label for bar in view.numbers} == {f"town {i}" for i in range(12)} | {"missing"}


def test_a_special_value_is_told_apart(views: dict[str, Any]) -> None:
    view = views["code"]
    special = [bar for bar in view.apart if float(bar.label) == 99]
    assert special[0].share == pytest.approx(20, abs=2)
    assert len(view.bars) == 11


# In a notebook ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*MODELLED, "word"])
def test_a_plot_is_the_report_s_chart_as_an_svg_of_its_own(
    release: sd.SyntheticRelease, name: str, tmp_path: Path
) -> None:
    picture = release.plot(name)
    view = column_view(release.release_.model, release.release_.measurements, name)
    assert picture.chart.count('class="bar"') == sum(bool(bar.label) for bar in view.bars)
    root = ET.fromstring(picture._repr_svg_())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert picture._repr_svg_() in picture._repr_html_()
    assert "NON-PRIVATE" not in picture._repr_svg_()
    assert "var(" not in picture._repr_svg_()  # what other programs than browsers do not know
    assert repr(picture) == f"picture of {name}"
    picture.save(tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_text(encoding="utf-8") == picture._repr_svg_()


HOSTILE = ["<script>", "]]>", "&amp;", "\x00\x0b", "\ud7ff\uffff", "'\"", "}} {{ 1 }}", "\u202e"]


@pytest.mark.sampled
@pytest.mark.parametrize("name", HOSTILE)
def test_a_picture_is_xml_whatever_names_and_levels_are(name: str) -> None:
    table = pd.DataFrame({name: HOSTILE * 50, "b": range(8 * 50)})
    made = sd.SyntheticRelease(schema=sd.Schema({name: sd.Categorical(HOSTILE), "b": sd.Integer(0, 400)})).fit(table)
    for picture in (
        made.plot(name),
        made.plot("b", by=name),
        made.plot(name, by="b"),
        sd.compare(table, table).plot(name),
    ):
        ET.fromstring(picture._repr_svg_())
        assert "<script" not in picture._repr_html_()


@pytest.mark.landing
def test_a_loaded_release_has_the_same_pictures(release: sd.SyntheticRelease, tmp_path: Path) -> None:
    release.save(tmp_path / "r")
    again = sd.load(tmp_path / "r")
    for name in ("age", "town"):
        assert again.plot(name) == release.plot(name) == release.release_.plot(name)
    assert again.plot("born", by="age") == release.plot("born", by="age")


def test_a_pair_shows_shares_within_groups(release: sd.SyntheticRelease) -> None:
    picture = release.plot("born", by="age")
    numbers = [float(n) for n in re.findall(r"<title>[^<]*: ([\d.]+) %</title>", picture.chart)]
    rows = round(sum(numbers) / 100)
    assert rows >= 5
    assert sum(numbers) == pytest.approx(100 * rows, abs=3)
    assert len(numbers) % rows == 0
    assert picture.title == "born by age"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("id",), "identifier"),
        (("other",), "other"),
        (("age", "age"), "column.*columns"),
        (("age", "id"), "id"),
    ],
)
def test_what_has_no_picture_is_refused(release: sd.SyntheticRelease, columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        release.plot(columns[0], **dict(zip(["by"], columns[1:], strict=False)))


def test_a_picture_that_cannot_be_written_says_so(release: sd.SyntheticRelease, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing/p\.svg"):
        release.plot("member").save(tmp_path / "missing" / "p.svg")


# Beside real rows ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def synthetic(release: sd.SyntheticRelease) -> pd.DataFrame:
    return release.sample(5000, random_state=1)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["as they are", "as declared"])
@pytest.mark.parametrize("name", MODELLED)
def test_every_picture_with_real_rows_is_stamped(
    synthetic: pd.DataFrame, name: str, schema: Any, tmp_path: Path
) -> None:
    picture = sd.compare(REAL, synthetic, schema).plot(name)
    picture.save(tmp_path / "p.svg")
    for text in (repr(picture), picture._repr_svg_(), picture._repr_html_(), (tmp_path / "p.svg").read_text("utf-8")):
        assert "NON-PRIVATE" in text
        assert "publication" in text
    ET.fromstring(picture._repr_svg_())


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_a_comparison_shows_each_table_s_own_shares(library: Any) -> None:
    a = pd.DataFrame({"x": ["u"] * 30 + ["v"] * 70, "y": np.arange(100) % 4})
    b = pd.DataFrame({"x": ["v"] * 40 + [None] * 10, "y": [1] * 50})
    found = sd.compare(library(a), library(b))
    levels = re.findall(r"<title>(\w+): ([\d.]+) %; beside it ([\d.]+) %</title>", found.plot("x").chart)
    assert {name: (float(ours), float(real)) for name, ours, real in levels} == {
        "v": (80, 70), "u": (0, 30), "missing": (20, 0),
    }  # fmt: skip
    shares = re.findall(r"<title>from [\d.]+: ([\d.]+) %; beside it ([\d.]+) %</title>", found.plot("y").chart)
    assert [(float(ours), float(real)) for ours, real in shares] == [(0, 25), (100, 25), (0, 25), (0, 25)]


def test_a_comparison_shows_no_row_in_its_name() -> None:
    found = sd.compare(pd.DataFrame({"x": ["secret"]}), pd.DataFrame({"x": ["public"]}))
    assert "secret" not in repr(found)
    assert "NON-PRIVATE" in repr(found)


@pytest.mark.parametrize(
    ("real", "synthetic", "name", "error", "message"),
    [
        ({"x": [1.5]}, {"y": [1.0]}, "x", DataError, "'x'.*synthetic"),
        ({"x": [1.5]}, {"x": [1.0]}, "y", DataError, "'y'"),
        ({"x": [1.5]}, {"x": pd.Series([], dtype=float)}, "x", DataError, "synthetic.*rows"),
    ],
)
def test_what_cannot_be_compared_is_refused_without_a_value(
    real: Any, synthetic: Any, name: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        sd.compare(pd.DataFrame(real), pd.DataFrame(synthetic)).plot(name)
    assert "1.5" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [[np.nan] * 5, [0.0] * 5, [1e300, -1e300], [5], [True, False], [None, None], pd.to_datetime(["2020-01-01"] * 3),
     pd.to_timedelta([1, 2, 900], unit="h"), [1e-300, 2e-300]],
)  # fmt: skip
def test_any_values_can_be_compared(values: Any) -> None:
    table = pd.DataFrame({"x": values})
    assert "svg" in sd.compare(table, table).plot("x")._repr_html_()


# Charts and figures -------------------------------------------------------------------------------------------------

SHARES = st.floats(0, 100, allow_nan=False)


def bar_of(label: str, ends: tuple[float, float, float], *, known: bool) -> Bar:
    low, share, high = sorted(ends)
    return Bar(label, share, low, 3 * high) if known else Bar(label, share)


BARS = st.lists(
    st.builds(bar_of, st.text(min_size=1, max_size=60), st.tuples(SHARES, SHARES, SHARES), known=st.booleans()),
    min_size=1,
    max_size=40,
)


@given(BARS, st.booleans())
def test_no_axis_of_shares_goes_beyond_all_rows(shown: list[Bar], logarithmic: bool) -> None:
    drawn = histogram(shown, [(0.0, "0")], title="t", name="n", logarithmic=logarithmic)
    levels = [float(level) for level in re.findall(r">([\d.e-]+)\u00a0%</text>", drawn)]
    assert 2 <= len(levels) <= 12
    assert max(levels) <= 100
    assert max(levels) >= min(max(bar.share for bar in shown), 100) * (1 - 1e-9)


@given(BARS)
def test_nothing_is_drawn_outside_of_a_picture(shown: list[Bar]) -> None:
    charts = [bars(shown[:8], title="t", name="n"), histogram(shown, [(1.0, "x")], title="t", name="n"),
              histogram(shown, [], title="t", name="n", logarithmic=True)]  # fmt: skip
    for chart in charts:
        width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', chart).groups())
        boxes = re.findall(r'<rect[^>]*x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)" height="([-\d.]+)"', chart)
        for x, y, wide, tall in (map(float, box) for box in boxes):
            assert 0 <= x <= x + wide <= width
            assert -0.01 <= y <= y + tall <= height + 0.01


def test_charts_escape_what_they_show() -> None:
    hostile = [Bar("<b>", 1.0, 0.0, 2.0), Bar("<i>&", 2.0)]
    drawn = bars(hostile, title="<t>", name="n")
    drawn += histogram(hostile, [(0.0, "<x>")], title="<t>", name="h")
    drawn += triangle(["<a>", "<b>"], [[1, 0.25], [0.25, 1]], title="<t>", name="m")
    drawn += heat_map(["<r>"], ["<c>"], [[1.0]], title="<t>", name="p")
    for forbidden in ("<b>", "<t>", "<i>", "<x>", "<a>", "<r>", "<c>"):
        assert forbidden not in drawn
    assert ">.25<" in drawn


@given(st.integers(-9999, 9999))
def test_a_number_of_four_digits_is_written_without_a_comma(number: int) -> None:
    assert in_figures(number) == in_figures(float(number)) == str(number)


@given(st.integers(-(10**14), 10**14))
def test_a_whole_number_can_be_read_back(number: int) -> None:
    assert int(in_figures(number).replace(",", "")) == number


@given(st.floats(-1e300, 1e300), st.floats(1e-9, 1e9))
@example(6.1e-5, 6.1e-5)
def test_a_number_is_written_as_precisely_as_it_is_known(number: float, error: float) -> None:
    assert abs(float(precise_to(number, error).replace(",", "")) - number) <= max(
        0.06 * error, 1e-3 * abs(number), 1e-12
    )


@given(st.floats(0, 100))
def test_a_share_above_nothing_never_reads_as_nothing(share: float) -> None:
    assert (in_per_cent(share) == "0.0\u00a0%") == (share == 0)


@given(st.text(max_size=200), st.floats(20, 400))
def test_a_shortened_text_fits(text: str, width: float) -> None:
    short = shortened(text, width)
    assert width_of(short) <= width + 1e-9
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


@given(st.floats(1e-300, 1e300))
def test_steps_are_round(least: float) -> None:
    step = round_step(least)
    assert least * (1 - 1e-6) <= step <= least * 2.5 * (1 + 1e-6)
    assert f"{step:e}".split("e")[0].rstrip("0").rstrip(".") in ("1", "2", "5")


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.sampled_from([0.0, 1.0, 0.01, 15.0]), st.integers(0, 200))
@example(99999999999.5, 1.0, 0.0, 0)
def test_bins_hold_the_range_and_are_not_too_many(low: float, width: float, spacing: float, most: int) -> None:
    low, high = (
        (low, low + width)
        if not spacing
        else (spacing * round(low / spacing), spacing * round((low + width) / spacing))
    )
    axis = axis_between(low, high, spacing=spacing, most=most)
    slack = 1e-6 * axis.step + 1e-9 * max(abs(low), abs(high))
    assert axis.ends[0] <= low + slack
    assert axis.ends[-1] >= high - slack
    assert 1 <= axis.count <= max(FINEST, SINGLE) + 2
    places = [place for place, _ in axis.marks()]
    assert all(-1e-6 <= place <= axis.count + 1e-6 for place in places)
    assert all(a < b for a, b in itertools.pairwise(places))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_the_range_that_is_shown_lies_within_the_bounds_and_holds_nearly_all(values: list[float]) -> None:
    lower, upper = min(values), max(values)
    tails = (0.005, 0.025, 0.05, 0.1, 0.9, 0.95, 0.975, 0.995)
    low, high = zoomed(lower, upper, dict(zip(tails, np.quantile(values, tails).tolist(), strict=True)))
    assert lower <= low <= high <= upper
    assert np.mean([low <= value <= high for value in values]) >= 0.89 - 2 / len(values)


@given(st.integers(-(10**17), 10**17), st.integers(0, 10**17), st.sampled_from(["moment", "length", "clock"]))
@example(0, 3_668_958_204_121_668, "moment")
def test_marks_of_times_lie_on_the_axis_in_order(low: int, width: int, quantity: Any) -> None:
    low, width = (low % 86_400_000_000, min(width, 3_600_000_000)) if quantity == "clock" else (low, width)
    marks = marks_between(low, low + width, quantity)
    assert len(marks) <= 9
    assert all(0 <= place <= 1 for place, _ in marks)
    assert [place for place, _ in marks] == sorted(place for place, _ in marks)
    assert len({text for _, text in marks}) == len(marks)


def test_a_logarithmic_axis_ends_at_all_rows() -> None:
    assert decades([Bar("a", 99.0, 98.9, 99.1), Bar("b", 0.5, 0.4, 0.6)]) == [0.1, 1, 10, 100]
    assert decades([Bar("a", 100.0), Bar("b", 0.0)])[-1] == 100
    assert multiples(0.1, 0, 0.3) == [0, 0.1, 0.2, 0.3]


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan")), st.just(0.0)), min_size=1, max_size=100))
def test_groups_of_numbers_are_intervals_in_order_that_hold_every_value(values: list[float]) -> None:
    from synthdp.domain.encoder import Numbers

    array = np.array(values)
    codes, names = grouped(sd.Continuous(-1e6, 1e6, nullable=True), Numbers(array))
    assert len(codes) == len(array)
    assert codes.max() < len(names)
    there = ~np.isnan(array)
    assert (codes[there] >= 0).all()
    order = np.argsort(array[there], kind="stable")
    assert (np.diff(codes[there][order]) >= 0).all()
    assert len(names) <= 13
