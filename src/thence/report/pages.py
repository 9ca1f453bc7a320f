"""Pages from templates.

Autoescape is on: names of runs and nodes are others' data.  Only pictures of ours are marked safe.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

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
    return _environment().get_template(template).render(**given)
