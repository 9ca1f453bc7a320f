"""What the value of each data type is, said of happens-before alone.

A value is a function of the operations that took effect and of what happened before what; there is
no state, no log that is compacted, no stability, and none of the code of the types.  Everything
here is quadratic or worse and as plain as possible.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from tests.crdt.fugue_tree import FugueTree

RESET = "reset"
"""Operation of an object in a map: the map undid what it had seen."""
NOTHING = "nothing at all"
"""What an object shows that a map does not show."""


class Did(NamedTuple):
    """An operation that took effect."""

    node: str
    seq: int
    place: int
    """In its batch."""
    clock_ms: int
    past: dict[str, int]
    """How many batches of each node its own had seen."""
    name: str
    arguments: tuple[Any, ...]

    def before(self, other: Did) -> bool:
        """Whether it happened before the other."""
        if (self.node, self.seq) == (other.node, other.seq):
            return self.place < other.place
        return other.past.get(self.node, 0) >= self.seq

    @property
    def rank(self) -> tuple[int, str]:
        return self.clock_ms, self.node


History = list[Did]
Show = Callable[[History], Any]


def of(history: History, *names: str) -> History:
    return [did for did in history if did.name in names]


def unseen(kept: History, by: History) -> History:
    """Those that nothing of ``by`` comes after."""
    return [did for did in kept if not any(did.before(other) for other in by)]


def amounts(history: History) -> int:
    return sum({"inc": 1, "dec": -1}[did.name] * did.arguments[0] for did in history)


# Counters


def counter_pn(history: History) -> Any:
    return amounts(history)


def counter_resettable(history: History) -> Any:
    counted = unseen(of(history, "inc", "dec"), of(history, "reset", RESET))
    return amounts(counted) if counted else NOTHING


def counter_bounded(history: History) -> Any:
    return amounts(of(history, "inc", "dec"))


counter_ranged = counter_bounded


# Registers


def register_lww(history: History) -> Any:
    writes = unseen(of(history, "set"), history)
    return max(writes, key=lambda did: did.rank).arguments[0] if writes else NOTHING


def register_mv(history: History) -> Any:
    writes = unseen(of(history, "set"), history)
    return {repr(did.arguments[0]) for did in writes} if writes else NOTHING


def register_counter(history: History) -> Any:
    overwriting = of(history, "set", "del", RESET)
    writes = unseen(of(history, "set"), overwriting)
    counted = unseen(of(history, "inc"), overwriting)
    if not writes and not counted:
        return NOTHING
    base = max(writes, key=lambda did: did.rank).arguments[0] if writes else 0
    if not counted:
        return base
    try:
        total = Fraction(str(base.decode() if isinstance(base, bytes) else base))
    except (ValueError, OverflowError):
        return base  # an infinity, or no number
    return total + sum(Fraction(str(did.arguments[0])) for did in counted)


def expiry(history: History) -> Any:
    times = unseen(of(history, "at", "never"), history)
    if not times or any(did.name == "never" for did in times):
        return NOTHING
    return max(did.arguments[0] for did in times)


# Sets and flags


def elements(history: History, survives: Callable[[Any, Did], bool]) -> Any:
    added = {e for did in of(history, "add") for e in did.arguments if survives(e, did)}
    return added or NOTHING


def about(history: History, name: str, element: Any) -> History:
    return [did for did in of(history, name) if element in did.arguments]


def set_g(history: History) -> Any:
    return elements(history, lambda element, add: True)


def set_2p(history: History) -> Any:
    return elements(history, lambda element, add: not about(history, "remove", element))


def set_aw(history: History) -> Any:
    cleared = of(history, "clear", RESET)

    def survives(element: Any, add: Did) -> bool:
        return bool(unseen([add], about(history, "remove", element) + cleared))

    return elements(history, survives)


def set_rw(history: History) -> Any:
    cleared = of(history, "clear", RESET)

    def survives(element: Any, add: Did) -> bool:
        removes = about(history, "remove", element)
        return all(remove.before(add) for remove in removes) and bool(unseen([add], cleared))

    return elements(history, survives)


def flag_ew(history: History) -> Any:
    ends = of(history, "disable", "clear", RESET)
    return bool(unseen(of(history, "enable"), ends)) or NOTHING


def flag_dw(history: History) -> Any:
    disables = of(history, "disable")
    enables = unseen(of(history, "enable"), of(history, "clear", RESET))
    return any(all(d.before(e) for d in disables) for e in enables) or NOTHING


# Lists and texts


def sequence(history: History) -> Any:
    """The tree of the paper, told what each operation did at its origin; that is found out from
    the operations that the origin had seen."""
    told: dict[tuple[str, int, int], list[Any]] = {}
    ordered = causal(history)
    for did in ordered:
        tree = tree_of([told[other[:3]] for other in ordered if other.before(did)])
        if did.name == "insert":
            index, content = did.arguments
            marked = [(isinstance(content, str), element) for element in content]
            messages = tree.insert(index, marked, (did.node, did.seq), did.place * 1000)
        elif did.name == "delete":
            messages = tree.delete(*did.arguments)
        else:
            messages = tree.delete(0, len(tree.nodes))
        told[did[:3]] = messages
    shown = tree_of(list(told.values())).elements()
    if not shown:
        return NOTHING
    found = [element for _, element in shown]
    return "".join(found) if all(is_text for is_text, _ in shown) else found


def causal(history: History) -> History:
    """In an order in which causes come first."""
    return sorted(history, key=lambda did: (sum(did.past.values()), did.node, did.seq, did.place))


def tree_of(told: list[list[Any]]) -> FugueTree:
    tree = FugueTree()
    for messages in told:
        for message in messages:
            tree.apply(message)
    return tree


# Maps


def nested(updates: History, resets: History) -> dict[int, History]:
    """What was done to the objects of one field, by the numbers of their types."""
    found: dict[int, History] = {}
    for did in updates:
        _, code, (name, *arguments) = did.arguments
        inner = did._replace(name=name, arguments=tuple(arguments))
        found.setdefault(code, []).append(inner)
    undone = [did._replace(name=RESET, arguments=()) for did in resets]
    return {code: causal(done + undone) for code, done in found.items()}


def shown_map(fields: dict[Any, dict[int, History]]) -> Any:
    """Each field shows the object whose type has the smallest number of those that show."""
    value = {}
    for field, objects in fields.items():
        for code in sorted(objects):
            shown = SHOWN[NAMES[code]](objects[code])
            if shown is not NOTHING:
                value[field] = shown
                break
    return value or NOTHING


def fields_of(history: History) -> set[Any]:
    return {did.arguments[0] for did in of(history, "update")}


def map_uw(history: History) -> Any:
    cleared = of(history, "clear", RESET)
    return shown_map(
        {
            field: nested(
                [did for did in of(history, "update") if did.arguments[0] == field],
                about(history, "remove", field) + cleared,
            )
            for field in fields_of(history)
        }
    )


def map_rw(history: History) -> Any:
    cleared = of(history, "clear", RESET)
    fields = {}
    for field in fields_of(history):
        removes = about(history, "remove", field)
        updates = [did for did in of(history, "update") if did.arguments[0] == field]
        counted = [did for did in updates if all(remove.before(did) for remove in removes)]
        fields[field] = nested(counted, cleared)
    return shown_map(fields)


zset_uw = map_uw

SHOWN: dict[str, Show] = {
    "counter_bounded": counter_bounded,
    "counter_pn": counter_pn,
    "counter_ranged": counter_ranged,
    "counter_resettable": counter_resettable,
    "expiry": expiry,
    "flag_dw": flag_dw,
    "flag_ew": flag_ew,
    "map_rw": map_rw,
    "map_uw": map_uw,
    "register_counter": register_counter,
    "register_lww": register_lww,
    "register_mv": register_mv,
    "sequence": sequence,
    "set_2p": set_2p,
    "set_aw": set_aw,
    "set_g": set_g,
    "set_rw": set_rw,
    "zset_uw": zset_uw,
}
"""What each type shows, NOTHING if it would not be shown in a map."""
NAMES = {
    1: "register_counter",
    2: "set_aw",
    3: "map_uw",
    4: "sequence",
    5: "zset_uw",
    7: "counter_resettable",
    10: "register_lww",
    11: "register_mv",
    14: "flag_ew",
    15: "flag_dw",
    16: "map_rw",
    17: "expiry",
    18: "set_rw",
}
"""Of the types that can be nested, as they are sent."""
EMPTY: dict[str, Any] = {
    "counter_resettable": 0,
    "expiry": None,
    "flag_dw": False,
    "flag_ew": False,
    "map_rw": {},
    "map_uw": {},
    "register_counter": None,
    "register_lww": None,
    "register_mv": set(),
    "sequence": "",
    "set_2p": set(),
    "set_aw": set(),
    "set_g": set(),
    "set_rw": set(),
    "zset_uw": {},
}
"""The value of what shows nothing."""


def rights(history: History, node: str, upwards: bool = False) -> int:
    """What a replica has left of the rights to count a bounded counter down (or up)."""
    sign = -1 if upwards else 1
    own = [did for did in history if did.node == node]
    given = "transfer_up" if upwards else "transfer"
    made = "raise" if upwards else "lower"
    total = sign * amounts(of(own, "inc", "dec"))
    total += sum(did.arguments[0] for did in of(own, made))
    total -= sum(did.arguments[1] for did in of(own, given))
    got = [did for did in of(history, given) if did.arguments[0] == node]
    return total + sum(did.arguments[1] for did in got)
