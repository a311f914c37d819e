"""How the pages become a site, offline: `python -m sphinx -W -b html docs site`."""

from __future__ import annotations

import json
import re
from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from myst_parser.parsers.sphinx_ import MystParser
from sphinx import addnodes

import synthdp
from synthdp.cli.main import main

project = "synthdp"
author = "the synthdp maintainers"
release = version = synthdp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".ipynb": "notebook"}
exclude_patterns = [
    "_build", "paper",  # the paper is built by its journal
    "audit/mutations.md", "audit/mutation-score.md", "audit/fuzz.md",  # lists for developers, in the repository alone
    "benchmarks/plans.md", "benchmarks/sweep.md", "benchmarks/wide.md",  # parts of benchmarks/planner.md
]  # fmt: skip
default_role = "code"  # `name` in a docstring

html_theme = "furo"
html_title = f"synthdp {release}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_css_files = ["site.css"]
html_static_path = ["_static"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c7a", "color-brand-content": "#0b5c7a"},
    "dark_css_variables": {"color-brand-primary": "#7cc7e8", "color-brand-content": "#7cc7e8"},
}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_typehints = "none"
autodoc_mock_imports = ["pyspark"]  # 450 MB for one entry
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "set_fit_request, set_score_request"}
napoleon_google_docstring = False
napoleon_use_rtype = False

LONG_NAME = 40
RAISED = re.compile(
    r"(?<=\S)\^(?:\{([^{}]+)\}|\(((?:[^()]|\([^()]*\))*)\)|([−-]?(?:[\d.]*\d|\w|‖[^‖]+‖))(?!\w))"
    r"|((?<![A-Za-z0-9_])(?:[A-Za-z]\u0302?|max|min|sup|sum)|[α-ωΑ-Ω∑∏∫ℓ])_(?:\{([^{}]+)\}|([A-Za-z0-9]{1,2}|[α-ω∞ℤ])(?![A-Za-z0-9_]))"
)
"""x^2, x^{ab} and x^(ab) above the line; x_i and x_{ij} below it."""


class NotebookParser(MystParser):
    """A notebook as a page: its texts, its code, and what each cell showed."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the notebook as the page of Markdown that says the same."""
        super().parse("\n\n".join(map(_cell, json.loads(inputstring)["cells"])), document)


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    """Return what a cell showed: a picture, HTML or text."""
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
    if "image/png" in data:
        image = f'<img class="shown" alt="picture" src="data:image/png;base64,{data["image/png"].strip()}">'
        return f"```{{raw}} html\n{image}\n```"
    if "text/html" in data:
        return f'````{{raw}} html\n<div class="shown">{data["text/html"]}</div>\n````'
    return f"```text\n{data.get('text/plain', ''.join(output.get('text', '')))}\n```"


class Commands(Directive):
    """What `--help` says of every command."""

    def run(self) -> list[nodes.Node]:
        """Return a section a command, those of groups one after the other."""
        return [self._section(name, command) for name, command in _commands(main, "synthdp")]

    @staticmethod
    def _section(name: str, command: click.Command) -> nodes.Node:
        with click.Context(command, info_name=name, **main.context_settings, terminal_width=80) as context:
            text = command.get_help(context)
        title, block = nodes.title(text=name), nodes.literal_block(text, text, language="text")
        return nodes.section("", title, block, ids=[name.replace(" ", "-")])


def _commands(command: click.Command, name: str) -> list[tuple[str, click.Command]]:
    inner = command.commands if isinstance(command, click.Group) else {}
    return [(name, command), *(found for key in inner for found in _commands(inner[key], f"{name} {key}"))]


def escape_bars(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Let |x| be an absolute value, not the name of a substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`[^`]*`)", line)
            lines[i] = "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts)


def join_sentences(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Give a property its first sentence back, which napoleon takes for "type: description"."""
    for line in [line for line in lines if what == "property" and line.startswith(":type: ")]:
        lines.remove(line)
        lines[0] = f"{line.removeprefix(':type: ')}: {lines[0]}"


def plain_defaults(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Show a default that has no short text as three dots."""
    return signature and re.sub(r"=<[^<>]*>", "=...", signature), returned


def mark_long_code(_app: Any, doctree: nodes.document) -> None:
    """Let long names in tables be broken: the style sheet keeps short ones on one line."""
    for literal in doctree.findall(nodes.literal):
        if max(map(len, literal.astext().split()), default=0) > LONG_NAME:
            literal["classes"].append("long")


def set_formulas(_app: Any, doctree: nodes.document) -> None:
    """Set powers and indices of formulas, which the pages hold as plain text, above and below the line."""
    for text in list(doctree.findall(nodes.Text)):
        if isinstance(text.parent, (nodes.FixedTextElement, nodes.literal, addnodes.desc_signature, nodes.raw)):
            continue
        parts, end = [], 0
        for found in RAISED.finditer(text):
            above, base, below = found[1] or found[2] or found[3], found[4], found[5] or found[6]
            parts.append(nodes.Text(text[end : found.start()] + (base or "")))
            parts.append(nodes.superscript(text=above) if above else nodes.subscript(text=below))
            end = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def setup(app: Any) -> None:
    """Add what the pages need beyond the extensions."""
    app.add_directive("synthdp-commands", Commands)
    app.add_source_parser(NotebookParser)
    app.connect("autodoc-process-signature", plain_defaults)
    app.connect("doctree-read", mark_long_code)
    app.connect("doctree-read", set_formulas)
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    app.connect("autodoc-process-docstring", join_sentences, priority=900)
