"""Pages from templates.  Autoescape is on: names of runs and nodes are others' data."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from thence import __version__

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("thence.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **given: Any) -> str:
    """A whole page."""
    from markupsafe import Markup

    # Ours, not others' data, and no HTML: quotes in it must stay.
    style = Markup(_environment().get_template("style.css").render())
    return _environment().get_template(template).render(version=__version__, style=style, **given)


def picture(svg: str) -> Any:
    """A picture of ours, to stand in a page as it is."""
    from markupsafe import Markup

    return Markup(svg)
