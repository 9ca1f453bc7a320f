"""What chapter 8 of the thesis states in numbers, each with its panel and section.

Its figures are pictures; only what its text says can be put beside ours.  It measured an Erlang
program on machines of Emulab (8.2.3): orders of magnitude and directions can be compared, not
microseconds.  Sizes are bytes, times microseconds; its KB and MB are taken as powers of ten.
"""

from __future__ import annotations

from typing import Final

import msgspec

SIZE: Final = 128
"""Nodes: what it states, it states for the largest group."""
SIZES: Final = (4, 8, 16, 32, 64, 128)
GRAPH: Final = "graph"
"""The engine that is its E2E TCB."""
VECTOR: Final = "vector"
"""The engine that is its optimised E2E VV."""
CLASSIC: Final = "cbcast-e2e"
"""The engine that is its classical E2E VV: vectors of the middleware and of the application."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A number that it states of a panel and an engine at 128 nodes."""

    panel: str
    section: str
    engine: str
    text: str
    low: float | None = None
    """At least this; None: not said."""
    high: float | None = None
    """At most this; None: not said."""
    note: str = ""

    @property
    def middle(self) -> float:
        """Where it is drawn."""
        ends = [end for end in (self.low, self.high) if end is not None]
        return sum(ends) / len(ends)


KB, MB, MS, S = 1e3, 1e6, 1e3, 1e6
_SWAPPED: Final = "the sentence in print has the two swapped"


def _at(panel: str, section: str, engine: str, text: str, low: float | None,
        high: float | None, note: str = "") -> Published:  # fmt: skip
    return Published(
        panel=panel, section=section, engine=engine, text=text, low=low, high=high, note=note
    )


PUBLISHED: Final = (
    _at("28a", "8.4.1", GRAPH, "at worst 80", None, 80),
    _at("28a", "8.4.1", CLASSIC, "256", 256, 256),
    _at("28b", "8.4.1", GRAPH, "negligible", None, None),
    _at("28b", "8.4.1", CLASSIC, "more than 500 KB", 500 * KB, None),
    _at("29a", "8.4.1", CLASSIC, "more than 40 MB", 40 * MB, None),
    _at("29b", "8.4.1", GRAPH, "2 to 3 ms", 2 * MS, 3 * MS),
    _at("29b", "8.4.1", CLASSIC, "above 10 ms", 10 * MS, None),
    _at("30a", "8.4.2", GRAPH, "at worst 80", None, 80),
    _at("30a", "8.4.2", VECTOR, "128", 128, 128),
    _at("30b", "8.4.2", GRAPH, "negligible", None, None),
    _at("30b", "8.4.2", VECTOR, "more than 250 KB", 250 * KB, None),
    _at("32a", "8.4.4", GRAPH, "less than 2.5 MB", None, 2.5 * MB, _SWAPPED),
    _at("32a", "8.4.4", VECTOR, "more than 20 MB", 20 * MB, None, _SWAPPED),
    _at("32b", "8.4.4", GRAPH, "almost negligible", None, None, "in print of figure 32a"),
    _at("32b", "8.4.4", VECTOR, "around 7 MB", 7 * MB, 7 * MB, "in print of figure 32a"),
    _at("33a", "8.4.4", GRAPH, "2 to 3 ms", 2 * MS, 3 * MS),
    _at("33a", "8.4.4", VECTOR, "above 10 ms", 10 * MS, None),
    _at("33b", "8.4.4", GRAPH, "2 to 3 ms", 2 * MS, 3 * MS),
    _at("33b", "8.4.4", VECTOR, "above 10 ms", 10 * MS, None),
    _at("34a", "8.4.5", GRAPH, "in the order of 40 µs", 40, 40),
    _at("34a", "8.4.5", VECTOR, "in the order of 40 µs, lower", 40, 40),
    _at("34b", "8.4.5", GRAPH, "50 to 270 µs", 50, 270),
    _at("34b", "8.4.5", VECTOR, "25 to 50 µs", 25, 50),
    _at("35a", "8.4.5", GRAPH, "in the order of 40 µs", 40, 40),
    _at("35a", "8.4.5", VECTOR, "in the order of 40 µs, lower", 40, 40),
    _at("35b", "8.4.5", GRAPH, "around 75 µs", 75, 75),
    _at("35b", "8.4.5", VECTOR, "around 25 µs", 25, 25),
    _at("36a", "8.4.6", VECTOR, "10 to 12 ms", 10 * MS, 12 * MS),
    _at("36b", "8.4.6", GRAPH, "around 50 ms at most", None, 50 * MS),
    _at("36b", "8.4.6", VECTOR, "around 1.7 s", 1.7 * S, 1.7 * S),
    _at("37a", "8.4.6", GRAPH, "around 6 ms", 6 * MS, 6 * MS),
    _at("37a", "8.4.6", VECTOR, "around 11 ms", 11 * MS, 11 * MS),
    _at("37b", "8.4.6", GRAPH, "around 70 ms", 70 * MS, 70 * MS),
    _at("37b", "8.4.6", VECTOR, "around 2.2 s", 2.2 * S, 2.2 * S),
)


def published(panel: str) -> list[Published]:
    """What is stated of a panel."""
    return [each for each in PUBLISHED if each.panel == panel]
