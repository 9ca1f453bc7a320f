"""``words`` against a walk over everything that an engine really holds.

The walk knows of each attribute what it is.  One that is new is a failure until it says what it
counts: so no structure is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.graph import Node
from thence.engine.registry import ENGINES
from thence.engine.tag import STABLE, Tag
from thence.forms import interpreted_engine
from thence.sim.walk import plan, random_walk

DOT = 2
Count = Callable[[Any, int], int]
"""Words of the value of an attribute, in a group of so many."""


def free(value: Any, size: int) -> int:
    """Options, membership, single numbers of a node, what was counted elsewhere."""
    return 0


def forgotten(value: list[Tag], size: int) -> int:
    """Of the messages in a list those that are stable, which have no record any more."""
    return sum(tag.pushed == STABLE for tag in value)


def dots(value: Any, size: int) -> int:
    return DOT * len(value)


def bits(value: int) -> int:
    return -(-len(f"{value:b}") // 64) if value else 0


def sets(value: Any, size: int) -> int:
    return sum(bits(each) for each in (value if isinstance(value, list) else [value]))


def phantoms(value: Any, size: int) -> int:
    return sum(1 + DOT * len(newest) for _, newest in value.values())


def vectors(value: Any, size: int) -> int:
    """Messages with their sender and their vectors."""
    return sum(1 + len(each.vector) + len(each.application) for each in value)


def waiting(value: Any, size: int) -> int:
    """Messages with their names, what they name, and a stage."""
    return sum(
        DOT + DOT * len((*each.context, *each.stream_context, *each.hidden)) + 1
        for _, each in value.values()
    )


def chains(value: Any, size: int) -> int:
    every = [m for _, chain in value.by_first.values() for m in chain.messages()]
    return waiting({at: (at, each) for at, each in enumerate(every)}, size)


def tags(value: Any, size: int) -> int:
    """Records of the flagship: name, stage, who knows, the reach, predecessors once."""
    every: list[Tag] = [tag for row in value for tag in row.values()]
    return sum(
        DOT + 1 + -(-size // 64) + bits(tag.reach) + DOT * len((*tag.predecessors, *tag.hidden))
        for tag in every
    )


def nodes(value: Any, size: int) -> int:
    return sum(
        DOT + DOT * len(node.pred) + DOT * len(node.succ) + 1 + -(-size // 64)
        for node in value.values()
    )


def unstable(value: Any, size: int) -> int:
    return sum(DOT + len(tag.vector) for _, tag in value.values())


def left_out(names: str) -> dict[str, Count]:
    return dict.fromkeys(names.split(), free)


MATRIX: dict[str, Count] = {
    "_rows": lambda rows, size: sum(map(len, rows)),
    "_unstable": unstable,
    **left_out("_stable _lowest _slot _counter"),
}
PASSES: dict[str, Count] = {
    "log": free,
    "k_told": dots,
    "phantoms": phantoms,
    "past": lambda past, size: tags([*past.rows, past.stream_row], size),
    **left_out(
        "enabled batch k wide mask mask1 mask2 settled due_clock news seen_clock seen_length"
    ),
}
AT_ONCE: dict[str, Count] = {
    **PASSES,
    "log": forgotten,
    "consumed": sets,
    "fresh": sets,
    "told": sets,
    # The members that are awaited, or have just announced, are a handful of slots: no metadata of
    # messages.
    **left_out("slot members seen noticed taken awaited announcers"),
}
# In no count: what an engine of dots keeps for each member whatever happens, SV and Min of the
# others, and the order of delivery.
COUNTED: dict[str, dict[str, Count]] = {
    "Tagged": {
        "pending": waiting,
        "chains": chains,
        "watchers": dots,
        "stream_delivered": lambda value, size: 2 * len(value),
        **left_out(
            "past members slot stability pending_max rows delivered latest is_member ahead "
            "arrivals held_aside knowledge"
        ),
    },
    "Stability": PASSES,
    "StabilityAtOnce": AT_ONCE,
    "GraphEngine": {
        "_graph": nodes,
        "_phantoms": phantoms,
        **left_out("_delivered _everyone _members _pending_max _slot _stability"),
    },
    "VectorEngine": {
        "_delivered": lambda value, size: 2 * len(value),  # V, and R, which the thesis counts
        "_queue": vectors,
        **left_out("_members _pending _pending_max _slot _stability"),
    },
    "MatrixStability": MATRIX,
}


def attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    names = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())}
    names |= set(getattr(thing, "__dict__", ()))
    if not names:  # compiled
        names = {name for name in dir(thing) if not name.startswith("__")}
    for name in sorted(names):
        value = getattr(thing, name)
        if not callable(value):
            yield name, value


def count(thing: Any, size: int) -> int:
    """Words of one object of an engine, by what it holds."""
    counted = COUNTED[type(thing).__name__]
    words = 0
    for name, value in attributes(thing):
        assert name in counted, f"{type(thing).__name__}.{name} is not counted"
        words += counted[name](value, size)
    return words


def compared(spec: EngineSpec, seen: list[int]) -> EngineSpec:
    """An engine that is counted both ways after each step."""

    def make(members: Members, slot: int, options: EngineOptions) -> tuple[Any, Any]:
        client, engine = spec.make(members, slot, options)
        return client, Compared(engine, len(members.names), seen)

    return msgspec.structs.replace(spec, make=make)


class Compared:
    """Stands in for an engine."""

    def __init__(self, engine: Any, size: int, seen: list[int]) -> None:
        self._engine = engine
        self._size = size
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if name not in ("broadcast", "announce", "forget", "receive", "receive_many", "flush"):
            return found

        def step(*arguments: Any) -> Any:
            result = found(*arguments)
            self._compare()
            return result

        return step

    def _compare(self) -> None:
        engine = self._engine
        expected = count(engine, self._size)
        inside = getattr(engine, "knowledge", None) or getattr(engine, "_stability", None)
        if inside is not None and inside is not True:
            expected += count(inside, self._size)
        assert engine.words() == expected
        self._seen.append(expected)


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("name", ["tagged", "graph", "vector"])
def test_words_are_what_an_engine_holds(name: str, batch: int):
    seen: list[int] = []
    spec = compared(ENGINES[name], seen)
    for seed in seeds(30):
        options = plan(spec, seed, True)
        engine = msgspec.structs.replace(options.engine, stability_batch=batch)
        random_walk(spec, msgspec.structs.replace(options, engine=engine))
    assert len(set(seen)) > 20, "walks that hold something"


def test_the_record_of_a_message_has_nothing_else():
    """A new field must say what it counts, here and in ``words``."""
    counted = {"packed", "named", "aside", "pushed", "know", "know1", "know2", "reach"}
    once_more = {"before", "previous"}  # the same predecessors
    compares = {"past", "index", "gone", "answers", "body"}  # what tags are compared by; payload
    assert set(interpreted_engine().Tag.__slots__) == counted | once_more | compares
    assert set(Node.__slots__) == {"bits", "pred", "stage", "succ", "tag"}
