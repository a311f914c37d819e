"""Every notebook runs from its first cell to its last, and what it shows is what its code shows."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from notebook_pages import Notebook

pytestmark = pytest.mark.style
ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
KEYS = {
    "markdown": {"cell_type", "id", "metadata", "source"},
    "code": {"cell_type", "id", "metadata", "source", "execution_count", "outputs"},
}


def kinds(outputs):
    """What a cell shows, without the figures that noise changes."""
    return [(one["output_type"], sorted(one.get("data", ()))) for one in outputs]


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_says(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = Notebook(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = notebook.run()
    assert [kinds(outputs) for outputs in shown] == [kinds(cell["outputs"]) for cell in notebook.code]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_that_jupyter_opens(path: Path) -> None:
    """By the rules of format 4.5: the keys of a cell are these and no others, and ids differ."""
    document = json.loads(path.read_text(encoding="utf-8"))
    cells = document["cells"]
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert [set(cell) for cell in cells] == [KEYS[cell["cell_type"]] for cell in cells]
    assert len({cell["id"] for cell in cells}) == len(cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_reader_sees_synthetic_rows_and_a_picture_before_the_receipt(path: Path) -> None:
    code = Notebook(path).code
    places = {
        what: next(place for place, cell in enumerate(code) if said in "".join(cell["source"]))
        for what, said in {"rows": "synthetic.head()", "picture": "plt.subplots", "receipt": "receipt_"}.items()
    }
    assert places["rows"] < places["picture"] < places["receipt"]
    assert "text/html" in code[places["rows"]]["outputs"][0]["data"]
    assert "image/png" in code[places["picture"]]["outputs"][0]["data"]
