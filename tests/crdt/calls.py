"""Calls that users of each data type might make, drawn at random: (name, argument, ...)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.crdt.specification import NAMES
from thence.crdt.base import Crdt

Call = tuple[Any, ...]
Draw = Callable[[random.Random, Any, str], Call]
"""A call for an object (None: there is none yet) at the replica of that name."""

NODES = ("na", "nb", "nc", "nd", "ne", "nf")
ELEMENTS = ("x", b"x", 3, 2.5, "\N{SNOWMAN}")
VALUES = ("word", b"7", "2.5", "0.1", 1, -4, 0.1, -0.0, 2**62)
PLAIN = (None, True, 1, 1.0, "a", b"a", 0.0, -0.0)
NUMBERS = (1, -2, 5, 0.1, 0.2, -2.5, -0.0, 2**62)
DEPTH_MAX = 3
"""Maps in maps in maps."""


def some(draw: random.Random, of: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(draw.sample(of, draw.choice((1, 1, 1, 2, 3))))


def counting(*names: str) -> Draw:
    def call(draw: random.Random, at: Any, me: str) -> Call:
        name = draw.choice(names)
        return (name,) if name == "reset" else (name, draw.choice((1, 2, 7, 2**62)))

    return call


def bounded(draw: random.Random, at: Any, me: str) -> Call:
    name = draw.choice(("inc", "dec", "dec", "dec", "transfer", "lower"))
    other = draw.choice([node for node in NODES[:4] if node != me])
    amount = draw.randint(1, 6)
    return ("transfer", other, amount) if name == "transfer" else (name, amount)


def ranged(draw: random.Random, at: Any, me: str) -> Call:
    name = draw.choice(("inc", "inc", "dec", "dec", "transfer", "transfer_up", "lower", "raise"))
    other = draw.choice([node for node in NODES[:4] if node != me])
    amount = draw.randint(1, 6)
    return (name, other, amount) if name.startswith("transfer") else (name, amount)


def writing(draw: random.Random, at: Any, me: str) -> Call:
    return ("clear",) if draw.random() < 0.2 else ("set", draw.choice(PLAIN))


def register(draw: random.Random, at: Any, me: str) -> Call:
    what = draw.random()
    if what < 0.15:
        return ("del",)
    if what < 0.5:
        return "set", draw.choice(VALUES)
    return "inc", draw.choice(NUMBERS)


def elements(*names: str) -> Draw:
    def call(draw: random.Random, at: Any, me: str) -> Call:
        name = draw.choice(names)
        return (name,) if name == "clear" else (name, *some(draw, ELEMENTS))

    return call


def switching(draw: random.Random, at: Any, me: str) -> Call:
    return (draw.choice(("enable", "enable", "enable", "disable", "disable", "clear")),)


def expiring(draw: random.Random, at: Any, me: str) -> Call:
    return ("never",) if draw.random() < 0.3 else ("at", draw.randint(0, 5))


def editing(draw: random.Random, at: Any, me: str) -> Call:
    length = 0 if at is None else len(at)
    what = draw.random()
    if length and what < 0.06:
        return ("clear",)
    if length and what < 0.35:
        start = draw.randrange(length)
        return "delete", start, draw.randint(1, min(3, length - start))
    count = draw.randint(1, 3)
    is_text = at.is_text if length else draw.random() < 0.7
    letters = draw.choices("abcdefgh", k=count)
    content: Any = "".join(letters) if is_text else [draw.choice((b"y", 4, 1.5)) for _ in letters]
    return "insert", draw.choice((0, length, draw.randint(0, length))), content


def mapping(draw: random.Random, leaves: tuple[int, ...] = ()) -> Draw:
    """Calls for maps in maps that hold few types in few fields, so that calls meet."""
    leaves = leaves or tuple(draw.sample(LEAVES, 3))
    fields = tuple(draw.sample(("f", b"f", 3, 2.5), 2))
    maps = draw.choice(((3,), (16,), (3, 16)))

    def call(draw: random.Random, at: Any, me: str, depth: int = DEPTH_MAX) -> Call:
        what = draw.random()
        if what < 0.05:
            return ("clear",)
        field = draw.choice(fields)
        if what < 0.2:
            return "remove", field
        is_map = depth > 1 and draw.random() < 0.6
        code = draw.choice(maps if is_map else leaves)
        child: Crdt | None = None if at is None else at.child(field, code)
        if is_map:
            return "update", field, code, call(draw, child, me, depth - 1)
        return "update", field, code, CALLS[NAMES[code]](draw)(draw, child, me)

    return call


def scoring(draw: random.Random, at: Any, me: str) -> Call:
    what = draw.random()
    member = draw.choice(("f", b"g", 3))
    if what < 0.05:
        return ("clear",)
    if what < 0.3:
        return "remove", member
    if what < 0.6:
        return "update", member, 1, ("set", draw.choice((*NUMBERS, float("inf"))))
    return "update", member, 1, ("inc", draw.choice(NUMBERS))


LEAVES = tuple(code for code in NAMES if code not in (3, 16))


def always(call: Draw) -> Callable[[random.Random], Draw]:
    return lambda draw: call


CALLS: dict[str, Callable[[random.Random], Draw]] = {
    "counter_bounded": always(bounded),
    "counter_pn": always(counting("inc", "dec")),
    "counter_ranged": always(ranged),
    "counter_resettable": always(counting("inc", "inc", "dec", "reset")),
    "expiry": always(expiring),
    "flag_dw": always(switching),
    "flag_ew": always(switching),
    "map_rw": mapping,
    "map_uw": mapping,
    "register_counter": always(register),
    "register_lww": always(writing),
    "register_mv": always(writing),
    "sequence": always(editing),
    "set_2p": always(elements("add", "add", "add", "remove")),
    "set_aw": always(elements("add", "add", "remove", "clear")),
    "set_g": always(elements("add")),
    "set_rw": always(elements("add", "add", "add", "remove", "clear")),
    "zset_uw": always(scoring),
}
"""What is called in one execution."""


def prepared(at: Crdt, call: Call, me: str) -> Any:
    """The operation; LocalProtocolError if it is refused."""
    name, *arguments = call
    if at.NAME in ("counter_bounded", "counter_ranged"):
        return at.prepare(name, *arguments, me=me)  # type: ignore[call-arg]
    return at.prepare(name, *arguments)
