"""``thence crdts``: the data types that merge, one line each."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec
from cyclopts import Parameter

from thence.crdt.base import Crdt
from thence.crdt.children import UNREMOVABLE
from thence.crdt.registry import CRDTS


class Said(NamedTuple):
    """What the table says of a data type."""

    summary: str
    wins: str
    """Which of concurrent operations."""


SAID: Final[dict[str, Said]] = {
    "register_counter": Said(
        "a value that is also counted up, as a string of Redis",
        "the last set; increments add up",
    ),
    "set_aw": Said("a set", "add over remove"),
    "map_uw": Said("a map of objects of any type", "update over remove"),
    "sequence": Said("a list or a text", "all inserts, each in one piece"),
    "zset_uw": Said("members with scores, as a sorted set of Redis", "update over remove"),
    "counter_pn": Said("a counter", "all add up"),
    "counter_resettable": Said("a counter that can be reset", "inc and dec over reset"),
    "counter_bounded": Said("a counter that stays above a bound", "all: who may is settled before"),
    "counter_ranged": Said("a counter that stays in a range", "all: who may is settled before"),
    "register_lww": Said("a value", "the last set, by clock and name"),
    "register_mv": Said("the values that nobody has overwritten", "all sets, side by side"),
    "set_g": Said("a set that only grows", "all adds"),
    "set_2p": Said("a set to which nothing comes back", "remove over any add, later ones too"),
    "flag_ew": Said("a flag", "enable over disable"),
    "flag_dw": Said("a flag", "disable over enable"),
    "map_rw": Said("a map of objects of any type", "remove over update"),
    "expiry": Said("when something expires", "never, then the latest"),
    "set_rw": Said("a set", "remove over add"),
}


def command(*, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> int:
    """List the data types: what they are and which of concurrent operations wins, one line each.

    Parameters
    ----------
    as_json
        Print one JSON array instead of the table.
    """
    rows = [describe(kind) for kind in CRDTS.values()]
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
    else:
        print(table(rows), end="")
    return 0


def describe(kind: type[Crdt]) -> dict[str, str | int | bool | list[str]]:
    """The public facts about a data type, in the order in which they are printed."""
    said = SAID[kind.NAME]
    return {
        "name": kind.NAME,
        "code": kind.CODE,
        "in_maps": kind.NAME not in UNREMOVABLE,
        "operations": list(kind.OPS),
        "wins": said.wins,
        "summary": said.summary,
    }


def table(rows: list[dict[str, str | int | bool | list[str]]]) -> str:
    """A plain table, columns as wide as their widest cell; the summary comes last."""
    cells = [list(rows[0])] if rows else []
    cells += [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in cells
    )


def _cell(value: str | int | bool | list[str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, list) else str(value)
