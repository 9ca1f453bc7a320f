"""How pictures look and how they are saved: the same input gives the same bytes.

Colours are those of Okabe and Ito, which people with every kind of colour vision tell apart;
markers and line styles differ too, so that a grey print can be read.  Text and frames have one
colour of their own that stands for "the colour of text": on the page it follows light and dark.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from thence.report.data import FLAGSHIP, FLAGSHIP_DEFAULT, RIVAL, Variant

# It tells of its font cache, once, as a warning.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK: Final = "#1b1c1d"
GRID: Final = "#d3d4d5"
PAPER: Final = "#ffffff"
PNG_DPI: Final = 144
SALT: Final = "thence"

RC: Final[Any] = {  # matplotlib's type is a literal of every name that there is
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.unicode_minus": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 10.5,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "svg.fonttype": "none",
    "svg.hashsalt": SALT,
    "text.color": INK,
    "text.parse_math": False,  # names are others' data: a dollar is a dollar
    "xtick.color": INK,
    "xtick.labelsize": 10,
    "ytick.color": INK,
    "ytick.labelsize": 10,
}


class Look(msgspec.Struct, frozen=True):
    """Of one variant, in every picture of a page."""

    colour: str
    marker: str
    line: str
    is_hollow: bool = False

    @property
    def fill(self) -> str:
        """Of the marker."""
        return "none" if self.is_hollow else self.colour


FLAGSHIP_LOOK: Final = Look("#0072B2", "o", "-")
DEFAULT_LOOK: Final = Look("#56B4E9", "o", "--", True)
RIVAL_LOOKS: Final = (
    Look("#D55E00", "s", "-"),
    Look("#009E73", "^", "-."),
    Look("#CC79A7", "D", ":"),
)
OTHER_LOOKS: Final = (
    Look("#E69F00", "v", "--", True),
    Look("#999999", "P", "-."),
    Look("#AA8800", "X", ":"),
)


def looks(variants: tuple[Variant, ...]) -> dict[str, Look]:
    """By name.  The role decides, so that the flagship is blue on every page."""
    found: dict[str, Look] = {}
    for variant in variants:
        if variant.role == FLAGSHIP:
            found[variant.name] = FLAGSHIP_LOOK
        elif variant.role == FLAGSHIP_DEFAULT:
            found[variant.name] = DEFAULT_LOOK
        else:
            row = RIVAL_LOOKS if variant.role == RIVAL else OTHER_LOOKS
            taken = sum(look in row for look in found.values())
            found[variant.name] = row[taken % len(row)]
    return found


@contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """An empty picture of so many inches, in our style."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        yield Figure(figsize=(width, height), layout="constrained")


class Picture(msgspec.Struct, frozen=True):
    """A picture that was drawn."""

    name: str
    svg: str
    """For a page: follows its colours."""


def save(figure: Figure, folder: Path, name: str, label: str) -> Picture:
    """Write NAME.svg and NAME.png; ``label`` says what it shows to whoever cannot see it."""
    text = _svg(figure)
    (folder / f"{name}.svg").write_text(text, encoding="utf-8")
    figure.savefig(folder / f"{name}.png", dpi=PNG_DPI, metadata={"Software": None})
    return Picture(name, inline(text, name, label))


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    # A date would make every report another one.
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


_ID: Final = re.compile(r'(\bid="|href="#|url\(#)')
_SIZE: Final = re.compile(r'<svg\b[^>]*?width="([\d.]+)pt"', re.DOTALL)


def inline(svg: str, name: str, label: str) -> str:
    """An SVG file as a part of a page: no prologue, ids of its own, colours of the page."""
    body = svg[svg.index("<svg") :]
    width = _SIZE.search(body)
    body = re.sub(r"\n <metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    # Ids are unique in a page, not only in a picture.
    body = re.sub(r' xmlns(:xlink)?="[^"]*"', "", body)  # HTML knows what an SVG is
    body = _ID.sub(rf"\g<1>{name}-", body)
    body = body.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    body = body.replace(f"fill: {PAPER}", "fill: none")
    points = float(width.group(1)) if width else 600
    head = f'<svg role="img" aria-label="{_escaped(label)}" style="width: {points / 12:.1f}rem"'
    body = re.sub(r'(<svg\b[^>]*?) width="[\d.]+pt"', r"\1", body, count=1, flags=re.DOTALL)
    body = re.sub(r'(<svg\b[^>]*?) height="[\d.]+pt"', r"\1", body, count=1, flags=re.DOTALL)
    return head + body.removeprefix("<svg")


def _escaped(text: str) -> str:
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )
