"""How the pages become a site, offline: `python -m sphinx -W -b html docs site`."""

from __future__ import annotations

import re
from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive

import synthdp
from synthdp.cli import main

project = "synthdp"
author = "the synthdp maintainers"
release = version = synthdp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
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
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "set_fit_request, set_score_request"}
napoleon_google_docstring = False
napoleon_use_rtype = False


class Commands(Directive):
    """What `--help` says of every command."""

    def run(self) -> list[nodes.Node]:
        """Return a section a command, those of groups one after the other."""
        return [self._section(name, command) for name, command in _commands(main, "synthdp")]

    @staticmethod
    def _section(name: str, command: click.Command) -> nodes.Node:
        with click.Context(command, info_name=name, max_content_width=100, terminal_width=100) as context:
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


def setup(app: Any) -> None:
    """Add what the pages need beyond the extensions."""
    app.add_directive("synthdp-commands", Commands)
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    app.connect("autodoc-process-docstring", join_sentences, priority=900)
