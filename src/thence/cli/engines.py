"""``thence engines``: what there is to choose from, one line each."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from thence.engine.base import EngineSpec
from thence.engine.registry import ENGINES


def command(*, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> int:
    """List the engines: what they guarantee and offer, one line each.

    Parameters
    ----------
    as_json
        Print one JSON array instead of the table.
    """
    if as_json:
        rows = [describe(spec) for spec in ENGINES.values()]
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
    else:
        print(table(list(ENGINES.values())), end="")
    return 0


def describe(spec: EngineSpec) -> dict[str, str | bool | list[str]]:
    """The public facts about an engine, in the order in which they are printed."""
    return {
        "name": spec.name,
        "guarantee": spec.guarantee,
        "reach": list(spec.reach),
        "tags": spec.tags,
        "stability": spec.stability,
        "phantoms": spec.phantoms,
        "k_stability": spec.k_stability,
        "streams": spec.streams,
        "own": spec.own,
        "survives": spec.survives,
        "summary": spec.summary,
    }


def table(specs: list[EngineSpec]) -> str:
    """A plain table, columns as wide as their widest cell; the summary comes last."""
    facts = [describe(spec) for spec in specs]
    rows = [list(facts[0])] if facts else []
    rows += [[_cell(value) for value in row.values()] for row in facts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def _cell(value: str | bool | list[str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else ",".join(value)
