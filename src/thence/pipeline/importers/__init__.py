"""Logs that others wrote.

shiviz    text with vector clocks, as users of ShiViz have it
mapping   any DataFrame, column by column

An importer is a file here and a line in ``IMPORTERS``.  One that reads text has two functions:
``check(settings)`` raises UnusableInputError when the settings cannot be used, and
``translate(text, name, settings, out)`` turns the text into runs of trace records.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, NamedTuple, Protocol, cast

from thence.errors import UnusableInputError
from thence.trace.record import Record, RunInfo


class Importer(NamedTuple):
    """One kind of foreign log."""

    module: str
    summary: str
    reads: str
    """``text`` for files, ``frame`` for DataFrames."""


IMPORTERS: Final[dict[str, Importer]] = {
    "shiviz": Importer(
        "thence.pipeline.importers.shiviz",
        "Text in which each event carries a vector clock; a regular expression finds them",
        "text",
    ),
    "mapping": Importer(
        "thence.pipeline.importers.mapping",
        "Any DataFrame, its columns mapped to those of a trace",
        "frame",
    ),
}


class Output(Protocol):
    """Where a text importer puts what it finds; lines are of the whole text, from 1."""

    def run(self, info: RunInfo) -> None:
        """A run begins."""

    def record(self, record: Record) -> None:
        """One trace record of that run."""

    def found(self, line: int) -> None:
        """Something begins on this line that is now to be taken, or set aside."""

    def took(self, line: int) -> None:
        """The event that begins on this line became records."""

    def set_aside(self, line: int, reason: str, text: str, run: str | None = None) -> None:
        """What begins on this line could not be used."""

    def remark(self, line: int, reason: str) -> None:
        """The event on this line was used, and something is odd about it."""


class TextImporter(Protocol):
    """What the module of a text importer has."""

    def check(self, settings: Mapping[str, str]) -> None:
        """UnusableInputError when these settings cannot be used."""

    def translate(self, text: str, name: str, settings: Mapping[str, str], out: Output) -> None:
        """Turn a text into runs; ``name`` is for the run, or for the first part of the names."""


def text_importer(name: str) -> TextImporter:
    """The importer of this name."""
    found = IMPORTERS.get(name)
    if found is None or found.reads != "text":
        names = ", ".join(name for name, each in IMPORTERS.items() if each.reads == "text")
        raise UnusableInputError(f"there is no importer {name!r} for text: expected {names}")
    return cast(TextImporter, import_module(found.module))
