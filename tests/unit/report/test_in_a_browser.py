"""The report as a browser shows it, on a desk and on a phone: of tables of many shapes, with the network off."""

import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.report import report_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.style,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: apt-get install chromium"),
]

WORDS = "Administrative and support and waste management and remediation services"
LEVELS = [
    WORDS, WORDS.upper(), "W" * 32, "i" * 72, "Donaudampfschifffahrt", "工业和信息化部门的高级技术人员与管理人员", "x",
]  # fmt: skip


def mixed(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    n = 1500
    day = np.datetime64("2020-01-01")
    table = pd.DataFrame({
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(100, size=n)),
        "sex & <kind>": rng.choice(["f", "m"], n),
        "rate": rng.random(n),
        "seen": day + rng.integers(0, 200, n).astype("timedelta64[D]"),
        "id": np.arange(n).astype(str),
    })  # fmt: skip
    schema = {
        "age": sd.Integer(0, 99, nullable=True), "sex & <kind>": sd.Categorical(["f", "m"]), "rate": sd.Continuous(0, 1),
        "seen": sd.Datetime("2020-01-01", "2021-01-01"), "id": sd.Identifier(),
    }  # fmt: skip
    return table, schema


def long_names(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    n = 3000
    job = rng.integers(len(LEVELS), size=n)
    names = ["the_industry_in_which_the_respondent_has_worked_for_the_longest_time", WORDS, "W" * 60]
    table = pd.DataFrame({names[0]: np.array(LEVELS)[job], names[1]: rng.poisson(4 + job), names[2]: job > 3})
    return table, {names[0]: sd.Categorical(LEVELS), names[1]: sd.Integer(0, 60), names[2]: sd.Boolean()}


def numbers(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    n = 3000
    table = pd.DataFrame({
        "year": rng.integers(1950, 2021, n), "always": 2013, "people": np.exp(rng.normal(15, 2, n)).round(),
        "gain": np.where(rng.random(n) < 0.9, 0, rng.integers(1, 99_999, n)), "tiny": rng.random(n) * 1e-7,
        "cents": rng.integers(-999, 9999, n) / 100,
    })  # fmt: skip
    schema = {
        "year": sd.Integer(1900, 2030), "always": sd.Integer(2013, 2014), "people": sd.Continuous(0, 1.35e9),
        "gain": sd.Integer(0, 99_999), "tiny": sd.Continuous(0, 1e-7), "cents": sd.Continuous(-10, 100, decimals=2),
    }  # fmt: skip
    return table, schema


def one_column(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    return pd.DataFrame({"waiting": rng.gamma(2, 20, 2000).clip(0, 300)}), {"waiting": sd.Continuous(0, 300)}


def few_rows(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    table = pd.DataFrame({"a": [1, 2], "c": ["x", "y"], "d": rng.random(2)})
    return table, {"a": sd.Integer(0, 9), "c": sd.Categorical(["x", "y"]), "d": sd.Continuous(0, 1)}


def many_columns(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    values = rng.integers(0, 4, (2000, 64))
    values[:, 60:] = values[:, :4]
    names = [f"a question of which there are many, number {j}" for j in range(64)]
    return pd.DataFrame(values, columns=names), {name: sd.Integer(0, 3) for name in names}


SHAPES: dict[str, Callable[..., tuple[pd.DataFrame, dict[str, Any]]]] = {
    one.__name__: one for one in (mixed, long_names, numbers, one_column, few_rows, many_columns)
}
PROBE = """
addEventListener('load', () => {
  const round = b => [b.left, b.top, b.right, b.bottom].map(v => Math.round(10 * v) / 10);
  const found = [...document.querySelectorAll('iframe')].map(frame => {
    const d = frame.contentDocument;
    // charts lie side by side on a phone, in a part of the page that is swiped
    const style = e => frame.contentWindow.getComputedStyle(e);
    const swiped = e => !!e && (/auto|scroll/.test(style(e).overflowX) || swiped(e.parentElement));
    return {
      width: d.documentElement.scrollWidth,
      smallest: Math.min(...[...d.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)),
      colour: d.defaultView.getComputedStyle(d.querySelector('.bar')).fill,
      charts: [...d.querySelectorAll('svg')].map(s => ({
        title: s.querySelector('title').textContent, box: round(s.getBoundingClientRect()),
        place: round((s.closest('.scroll') ? s : s.closest('figure')).getBoundingClientRect()),
        marks: s.querySelectorAll('rect').length,
        texts: [...s.querySelectorAll('text')].map(t => [t.textContent, ...round(t.getBoundingClientRect())]),
        level: [...s.querySelectorAll('text:not([transform])')].map(t => round(t.getBoundingClientRect())),
      })),
      outside: [...d.querySelectorAll('main p, main h1, main h2, main h3, main dd, main summary')].filter(
        e => e.getBoundingClientRect().right > frame.clientWidth + 1 && !swiped(e)).map(e => e.textContent),
    };
  });
  document.body.innerHTML = '<pre>' + JSON.stringify(found).replace(/[<&]/g, '?') + '</pre>';
});"""


def run(*options: str, home: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr", "--window-size=1400,2000", f"--user-data-dir={home / 'profile'}", *options,
        ],
        capture_output=True, text=True, check=False, timeout=180, env={**os.environ, "HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made = {}
    for name, shape in SHAPES.items():
        table, columns = shape(np.random.default_rng(0))
        release = sd.SyntheticRelease(schema=sd.Schema(columns), epsilon=2.0, random_state=0).fit(table).release_
        made[name] = str(report_page(release, fingerprint="f", title=name))
    return made


WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def measured(pages: dict[str, str], tmp_path_factory: Any) -> dict[int, dict[str, Any]]:
    """What is where in each page at each width, seen by one browser."""
    home = tmp_path_factory.mktemp("browser")
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:2000px" srcdoc="{escape(page)}"></iframe>'
        for width in WIDTHS
        for page in pages.values()
    )
    wrapper = home / "wrapper.html"
    wrapper.write_text(f'<!DOCTYPE html><meta charset="utf-8"><script>{PROBE}</script>{frames}', encoding="utf-8")
    done = run("--dump-dom", wrapper.as_uri(), home=home)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = iter(json.loads(re.findall(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)[-1]))
    return {width: {name: next(found) for name in pages} for width in WIDTHS}


@pytest.fixture(scope="module", params=WIDTHS)
def seen(request: Any, measured: dict[int, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Width, and what is where in each page."""
    return request.param, measured[request.param]


def test_every_chart_is_drawn_without_network_or_complaint(seen: Any, pages: dict[str, str]) -> None:
    _, found = seen
    for name, page in found.items():
        assert len(page["charts"]) == pages[name].count("<svg")
        assert page["colour"] in ("rgb(0, 114, 178)", "rgb(86, 180, 233)")
        for chart in page["charts"]:
            left, top, right, bottom = chart["box"]
            assert right - left > 60
            assert bottom - top > 10
            assert chart["marks"] >= 1
            assert len(chart["texts"]) >= 2
            assert len(chart["title"]) > 3


def test_no_text_of_a_chart_is_cut_off(seen: Any) -> None:
    _, found = seen
    cut = [
        (name, chart["title"], text, box, chart["box"])
        for name, page in found.items()
        for chart in page["charts"]
        for text, *box in chart["texts"]
        if box[0] < chart["box"][0] - 1
        or box[1] < chart["box"][1] - 1
        or box[2] > chart["box"][2] + 1
        or box[3] > chart["box"][3] + 1
    ]
    assert cut == []


def test_no_chart_is_larger_than_its_place_and_no_page_scrolls_sideways(seen: Any) -> None:
    width, found = seen
    for page in found.values():
        assert page["width"] <= width
        assert page["outside"] == []
        for chart in page["charts"]:
            assert chart["box"][0] >= chart["place"][0] - 1
            assert chart["box"][2] <= chart["place"][2] + 1


def test_letters_are_large_enough_to_read(seen: Any) -> None:
    _, found = seen
    assert round(min(page["smallest"] for page in found.values()), 2) >= 9


def test_no_two_texts_of_a_line_overlap(seen: Any) -> None:
    _, found = seen
    for page in found.values():
        for chart in page["charts"]:
            lines: dict[int, list[list[float]]] = {}
            for left, _, right, bottom in chart["level"]:
                lines.setdefault(round(bottom), []).append([left, right])
            overlaps = [
                (first, second)
                for line in lines.values()
                for first, second in itertools.pairwise(sorted(line))
                if second[0] < first[1] - 1
            ]
            assert overlaps == [], chart["title"]


def test_no_page_shows_a_number_that_is_none(pages: dict[str, str]) -> None:
    for page in pages.values():
        shown = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
        assert not re.search(r"\b(nan|inf|None)\b", shown)


def test_a_year_has_no_comma(pages: dict[str, str]) -> None:
    figures = re.findall(r'<figure class="column">.*?</figure>', pages["numbers"], re.DOTALL)
    years = [figure for figure in figures if "<h3>year</h3>" in figure or "<h3>always</h3>" in figure]
    assert len(years) == 2
    assert [re.findall(r"\d,\d", figure) for figure in years] == [[], []]
    assert re.search(r">19\d0<", years[0])
    assert "1,350,000,000" in pages["numbers"]


def test_a_browser_prints_the_page_on_several_sheets(pages: dict[str, str], tmp_path: Path) -> None:
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(pages["mixed"], encoding="utf-8")
    run(f"--print-to-pdf={printed}", page.as_uri(), home=tmp_path)
    assert printed.read_bytes().startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) > 2
