"""HTML and SVG from templates that escape every value; the module depends on no page and no release."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, **values: Any) -> Markup:
    """Return a template of the folder `templates`, filled in, as escaped markup.

    Parameters
    ----------
    template
        File name.
    values
        Values by their name in the template.  Text is escaped, except for `Markup` that an earlier call returned.

    """
    from markupsafe import Markup

    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - autoescaped by the environment


@cache
def _environment() -> Environment:
    """Return the jinja2 environment of the templates, which escapes every value; it is made once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("synthdp", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
