"""Every picture has a matplotlib figure with the numbers of its SVG; all columns in one; plans and series too."""

import html
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import ParameterError
from synthdp.pictures.column_views import column_views
from synthdp.planning.plan import Plans

pytest.importorskip("matplotlib")
SCHEMA = sd.Schema(
    {"age": sd.Integer(0, 90), "town": sd.Categorical(["a", "b", "c"], nullable=True), "member": sd.Boolean()}
)


@pytest.fixture(scope="module")
def release() -> sd.Release:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "age": rng.integers(18, 80, 2000), "town": rng.choice(["a", "b", None], 2000), "member": rng.random(2000) < 0.3
    })  # fmt: skip
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=5.0, random_state=0).fit(table).release_


@pytest.fixture(scope="module")
def plans() -> Plans:
    found = sd.plan(SCHEMA, rows=500, epsilon=[0.1, 1.0, 3.0])
    assert isinstance(found, Plans)
    return found


@pytest.mark.landing
def test_the_picture_of_a_release_has_a_chart_for_each_column(release: sd.Release) -> None:
    picture = release.plot()
    views = column_views(release.model, release.measurements)
    assert picture._repr_svg_().count('role="img"') == 1 + len(views) == 4
    charts = [chart for chart in picture.figure().axes if chart.get_title()]
    assert [chart.get_title() for chart in charts] == [view.name for view in views]
    for chart, view in zip(charts, views, strict=True):
        sides = [max(bar.get_width(), 0) if not view.ordered else bar.get_height() for bar in chart.patches]
        assert sides[: len(view.bars)] == pytest.approx(view.shares)


@pytest.mark.landing
def test_every_picture_has_a_figure_and_is_saved_by_its_ending(
    release: sd.Release, plans: Plans, tmp_path: Path
) -> None:
    pictures = [release.plot("age"), release.plot("town", by="member"), plans.plot(), plans[0].plot()]
    for picture in pictures:
        assert len(picture.figure().axes) >= 1
        picture.save(tmp_path / "p.png")
        picture.save(tmp_path / "p.svg")
        assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "p.svg").read_text().startswith("<svg")


@pytest.mark.landing
def test_the_figure_of_plans_has_the_errors_of_the_plans(plans: Plans) -> None:
    line = plans.plot().figure().axes[0].lines[0]
    assert line.get_xdata() == pytest.approx([0.1, 1.0, 3.0])
    assert line.get_ydata() == pytest.approx([100 * plan.errors[2] for plan in plans])
    assert str(plans) in html.unescape(plans._repr_html_())


def test_what_has_no_picture_is_refused(release: sd.Release, plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        Plans(plans[:1]).plot()
    with pytest.raises(ParameterError, match="column"):
        release.plot(by="age")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ParameterError, match="matplotlib"):
        release.plot("age").figure()
