"""HTML and SVG from templates that escape whatever they are given; knows no page and no release."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, **values: Any) -> Markup:
    """Return a template of this folder, filled in.

    Parameters
    ----------
    template
        File name.
    values
        By the names that the template uses.  Text is escaped; only `Markup`, which an earlier call returned, is not.
    """
    from markupsafe import Markup

    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - autoescaped by the environment


@cache
def _environment() -> Environment:
    """Return jinja2's environment of this folder, which escapes everything; made once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("synthdp", "markup"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
