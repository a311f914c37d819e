"""How the pages become a site, offline: `python -m sphinx -W -b html docs site`."""

from __future__ import annotations

from typing import Any

import synthdp

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


def setup(app: Any) -> None:
    """Let napoleon read the sentence of a property as a sentence, not as "type: description"."""

    def blank_line_first(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
        if what in ("property", "attribute", "data"):
            lines.insert(0, "")

    app.connect("autodoc-process-docstring", blank_line_first, priority=100)
