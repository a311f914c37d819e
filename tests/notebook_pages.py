"""The code of a notebook, run cell by cell as its reader would: `tests/docs/test_notebooks.py` runs every notebook.

A cell is Python; what its last line is worth is shown, as Jupyter shows it: as HTML, as a picture, else as text, and not
after a semicolon.
``python tests/notebook_pages.py docs/tutorial/*.ipynb`` writes what was shown into the notebooks.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


class Notebook:
    """A notebook file, and the names that its cells have defined so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.names: dict[str, Any] = {"__name__": "__main__"}

    @property
    def code(self) -> list[dict[str, Any]]:
        """The cells that are run, in order."""
        return [cell for cell in self.document["cells"] if cell["cell_type"] == "code"]

    def run(self) -> list[list[dict[str, Any]]]:
        """Run all cells and return what each shows, as notebook files hold it."""
        import matplotlib as mpl

        mpl.use("agg")
        return [self._shown(number, "".join(cell["source"])) for number, cell in enumerate(self.code, 1)]

    def _shown(self, number: int, source: str) -> list[dict[str, Any]]:
        tree = ast.parse(source, tree_name(self.path, number))
        last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, tree_name(self.path, number), "exec", dont_inherit=True), self.names)
            value = eval(compile(last, tree_name(self.path, number), "eval"), self.names) if last else None
        outputs: list[dict[str, Any]] = []
        if printed.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
        outputs += [displayed(picture) for picture in pictures()]
        if value is not None and not source.rstrip().endswith(";"):
            outputs.append(displayed(data_of(value)) | {"output_type": "execute_result", "execution_count": number})
        return outputs


def tree_name(path: Path, number: int) -> str:
    """Return what a traceback calls a cell."""
    return f"{path.name}, cell {number}"


def data_of(value: Any) -> dict[str, Any]:
    """Return a value as Jupyter shows it: text, and HTML if it has some."""
    html = getattr(value, "_repr_html_", lambda: None)()
    return ({"text/html": lines(html)} if html else {}) | {"text/plain": lines(repr(value))}


def pictures() -> list[dict[str, Any]]:
    """Return the open figures as pictures, and close them."""
    import matplotlib.pyplot as plt

    found = []
    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", dpi=80, bbox_inches="tight", metadata={"Software": None})
        found.append({"image/png": base64.b64encode(file.getvalue()).decode("ascii")})
    plt.close("all")
    return found


def displayed(data: dict[str, Any]) -> dict[str, Any]:
    """Return an output of a cell."""
    return {"output_type": "display_data", "data": data, "metadata": {}}


def lines(text: str) -> list[str]:
    """Return a text as notebook files hold it."""
    return text.splitlines(keepends=True)


def write_outputs(path: Path) -> None:
    """Run a notebook and write what was shown into it."""
    notebook = Notebook(path)
    for number, (cell, outputs) in enumerate(zip(notebook.code, notebook.run(), strict=True), 1):
        cell |= {"execution_count": number, "outputs": outputs}
    path.write_text(json.dumps(notebook.document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write_outputs(Path(argument))
