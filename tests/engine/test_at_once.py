"""Stability at once: after every step, nothing is left that a look at everything would tell."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from tests.thesis.test_flagship_errata import flagship
from thence.causal.dot import SEQ_BITS, SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.at_once import NEWEST
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.bursts import post
from thence.engine.effects import Effects
from thence.engine.tag import LANE_BITS, STABLE
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.message import Message, Phantom
from thence.sim.checkers import OracleFailure
from thence.sim.walk import plan, random_walk

WALKS = 400


class LateError(Exception):
    """Something could be told and was not."""


class Heard:
    """What members said in phantoms: of each the largest number, and the newest dot by slot; what
    was usable once stays so."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[int, dict[int, int]]] = {}
        self.used: set[tuple[int, int]] = set()

    def hear(self, phantom: Phantom) -> None:
        n, newest = self.waiting.get(phantom.origin, (0, {}))
        for d in phantom.context:
            newest[d >> SEQ_BITS] = max(d, newest.get(d >> SEQ_BITS, 0))
        self.waiting[phantom.origin] = (max(n, phantom.seq), newest)

    def vouched(self, delivered: list[int]) -> set[tuple[int, int]]:
        for j, (n, newest) in self.waiting.items():
            if n <= (delivered[j] & SEQ_MAX) + 1:
                for k, d in list(newest.items()):
                    if d <= delivered[k]:
                        self.used.add((j, newest.pop(k)))
        return self.used


def known(engine: Any) -> dict[int, set[int]]:
    """By dot, who is known to have consumed what is delivered and not stable: from the definition,
    by contexts, by phantoms, and by what the application took."""
    tags = {d: tag for row in engine.rows for d, tag in row.items() if tag.pushed != STABLE}
    found: dict[int, set[int]] = {}
    for d, tag in tags.items():
        found[d] = set() if tag.hollow else {tag.origin}
        if tag.index >= 0 and not tag.hollow:
            found[d].add(engine.slot)
    for j, d in engine.heard.vouched(engine.delivered):
        if d in tags:
            found[d].add(j)
    changed = True
    while changed:
        changed = False
        for d, tag in tags.items():
            for before in (*tag.raw_context, *tag.hidden):
                if before in tags and not found[d] <= found[before]:
                    found[before] |= found[d]
                    changed = True
    return found


def check(engine: Any) -> None:
    """LateError says what should have been told."""
    members = {k for k, is_member in enumerate(engine.is_member) if is_member}
    for d, slots in known(engine).items():
        tag = engine.past.known(d)
        if engine.is_flushed and not tag.to and engine.known_by(tag) != len(slots & members):
            raise LateError(f"{tag} is known to {slots & members}, not {engine.known_by(tag)}")
        if slots >= members:
            raise LateError(f"{tag} is stable")
        k = min(engine.knowledge.k, len(tag.to) + 1) if tag.to else engine.knowledge.k
        counted = slots & ({tag.origin, *tag.to} if tag.to else members)
        if k and len(counted) >= k and d not in engine.knowledge.k_told and not tag.hollow:
            raise LateError(f"{tag} is known to {k}")


def checked(module: ModuleType) -> EngineSpec:
    """The flagship, checked after each step that may tell something."""

    class Checked(module.Tagged):  # type: ignore[name-defined, misc]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.heard = Heard()
            self.is_flushed = False

        def receive(self, peer: int, message: Any, out: Any) -> None:
            before = len(out.deliver), len(out.reject)
            super().receive(peer, message, out)
            heard = False
            if isinstance(message, Phantom) and len(out.reject) == before[1]:
                last = self.delivered[message.origin] & SEQ_MAX
                heard = message.seq > last or self.past.hollows  # else it says nothing new
                if heard:
                    self.heard.hear(message)
            self.is_flushed = False
            if len(out.deliver) > before[0] or heard:
                check(self)

        def broadcast(self, tag: Any, out: Any) -> None:
            super().broadcast(tag, out)
            self.is_flushed = False
            if not tag.stream:
                check(self)

        def flush(self, out: Any) -> None:
            super().flush(out)
            self.is_flushed = True
            check(self)

    def make_checked(members: Members, slot: int, options: EngineOptions) -> tuple[Any, Any]:
        client = module.make(members, slot, options)[0]
        engine = Checked(client.past, slot, True, 1, options.k, options.pending_per_origin_max)
        return client, engine

    return msgspec.structs.replace(module.SPEC, make=make_checked)


def first_failure(spec: EngineSpec, walks: Iterable[int]) -> OracleFailure | None:
    for seed in walks:
        options = plan(spec, seed, True)
        engine = msgspec.structs.replace(options.engine, stability_batch=1)
        try:
            random_walk(spec, msgspec.structs.replace(options, engine=engine))
        except OracleFailure as failure:
            return failure
    return None


SMALL = (
    ("at_once", "AWAIT_MEMBERS_MIN: Final = 9", "AWAIT_MEMBERS_MIN: Final = 2"),
    ("at_once", "NEWEST: Final = 4", "NEWEST: Final = 2"),
    ("at_once", "SHORT: Final = 8", "SHORT: Final = 1"),
    ("at_once", "SHORT_LOG: Final = 64", "SHORT_LOG: Final = 2"),
    ("at_once", "TOLD_MIN: Final = 8", "TOLD_MIN: Final = 1"),
)
"""What is for large groups and long logs happens in small ones too."""


@pytest.mark.parametrize("changes", [(), SMALL], ids=["as it is", "small"])
def test_after_every_step_nothing_is_left_to_tell(changes: tuple[tuple[str, str, str], ...]):
    failure = first_failure(checked(flagship(*changes)), seeds(WALKS))
    assert failure is None, failure


MISTAKES = {
    "the reach of what is named is left out": ("reach |= before.reach", "pass"),
    "a walk back goes one step only": ("work.extend(each.before)", "pass"),
    "what was taken since an own message was sent counts as before it": (
        "if slot != self.slot:  #",
        "if True:  #",
    ),
    "what the application took is not looked at": ("self.taken = place\n", "return\n"),
    "what was taken past a hollow message is not spread": (
        "self._learn(self.slot, self._walk_back(0, tag))",
        "self._learn(self.slot, 1 << tag.pushed)",
    ),
    "a hollow message says that its sender took it": (
        "if tag.aside is None or not tag.aside.hollow:",
        "if True:",
    ),
    "a phantom that came is not used": ("self.announcers.append(origin)", "pass"),
    "a phantom is not tried again when what it names came": (
        "if j == k or k in newest",
        "if j == k",
    ),
    "of what a phantom names only that is known": (
        "self._learn(j, self._walk_back(0, tag))",
        "self._learn(j, 1 << tag.pushed)",
    ),
    "only the awaited are asked": (
        "for slot in self.members:\n            fresh &=",
        "for slot in self.awaited or self.members:\n            fresh &=",
    ),
    "one awaited member is enough": ("if others != left:", "if others != left and not awaited:"),
    "this node is not waited for": ("self.slot not in awaited or taken", "True or taken"),
    "the awaited may speak unnoticed": ("if log[place].packed >> SEQ_BITS in", "if False and"),
    "phantoms of the awaited go unnoticed": ("not (self.phantoms or self.k)", "not self.k"),
    "known to k goes unnoticed": ("not (self.phantoms or self.k)", "not self.phantoms"),
    "known to k is not marked": ("self.log[place].mark(slot)", "pass"),
    "told from the newest": ("for place in _places(ripe):", "for place in _places(ripe)[::-1]:"),
    "what is forgotten is still reached": (
        "if tag.reach:\n                tag.reach = _moved(tag.reach, runs)",
        "if False:\n                pass",
    ),
    "new places are not those of before": ("runs.append((place, len(kept), 1))", "pass"),
    "who took what is not renumbered": (
        "self.consumed = [_moved(places, runs) for places in self.consumed]",
        "pass",
    ),
    "what was taken is not renumbered": ("self.taken = taken\n", "pass\n"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str):
    passage, instead = MISTAKES[mistake]
    wrong = flagship(*SMALL, ("at_once", passage, instead))
    failure = first_failure(checked(wrong), range(WALKS))
    assert failure is not None
    for broken in ("NameError", "AttributeError", "TypeError"):
        assert broken not in failure.what, "the mutant is broken, not mistaken"


def node(size: int, slot: int = 0, **options: Any) -> tuple[Tagger, Tagged, Effects]:
    names = [f"n{k:03}" for k in range(size)]
    return *make(Members(names), slot, EngineOptions(stability_batch=1, **options)), Effects()


def said(dot: int, *context: int) -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, tuple(sorted(context)), b"")


def take(client: Tagger, out: Effects) -> None:
    for tag in out.deliver:
        client.consume(tag)
    out.deliver.clear()


def told(out: Effects) -> list[int]:
    dots = [tag.packed for tag in out.stable]
    out.stable.clear()
    return dots


@pytest.mark.parametrize("size", [3, LANE_BITS, LANE_BITS + 1, 2 * LANE_BITS + 3])
def test_the_last_answer_tells_and_the_one_before_it_does_not(size: int):
    client, engine, out = node(size)
    b1 = pack(1, 1)
    engine.receive(1, said(b1), out)
    take(client, out)
    for k in range(2, size):
        assert told(out) == []
        engine.receive(k, said(pack(k, 1), b1), out)
    assert told(out) == [b1]


def test_what_only_this_application_had_to_take_is_told_by_the_flush_after_that():
    client, engine, out = node(2)
    engine.receive(1, said(pack(1, 1)), out)
    engine.flush(out)
    assert told(out) == []
    take(client, out)
    engine.flush(out)
    assert told(out) == [pack(1, 1)]
    engine.flush(out)
    assert told(out) == []


def test_a_phantom_tells_at_once():
    client, engine, out = node(3)
    b1 = pack(1, 1)
    engine.receive(1, said(b1), out)
    take(client, out)
    engine.receive(2, Phantom(2, 1, (b1,)), out)
    assert told(out) == [b1]


def test_a_phantom_that_came_early_tells_when_what_it_names_has_come():
    client, engine, out = node(3)
    b1, b2 = pack(1, 1), pack(1, 2)
    engine.receive(2, Phantom(2, 1, (b2,)), out)
    engine.receive(1, said(b1), out)
    take(client, out)
    engine.receive(1, said(b2, b1), out)
    assert told(out) == [b1], "b2 was not taken here"
    take(client, out)
    engine.flush(out)
    assert told(out) == [b2]


def test_a_phantom_that_came_before_a_message_of_its_origin_tells_when_that_has_come():
    client, engine, out = node(3)
    b1, c1 = pack(1, 1), pack(2, 1)
    engine.receive(1, said(b1), out)
    take(client, out)
    engine.receive(2, Phantom(2, 2, (b1,)), out)
    assert told(out) == [], "c's first message may be concurrent"
    engine.receive(2, said(c1), out)
    assert told(out) == [b1]


def test_a_member_that_goes_was_the_last_to_wait_for():
    client, engine, out = node(3)
    b1 = pack(1, 1)
    engine.receive(1, said(b1), out)
    take(client, out)
    engine.flush(out)
    assert told(out) == []
    client.past.members.remove(2)
    engine.dismiss(2)
    engine.flush(out)
    assert told(out) == [b1]


def test_a_member_that_comes_must_know_too():
    client, engine, out = node(2)
    b1 = pack(1, 1)
    engine.receive(1, said(b1), out)
    client.past.members.add("new")
    engine.admit()
    take(client, out)
    engine.flush(out)
    assert told(out) == []
    engine.receive(2, said(pack(2, 1), b1), out)
    assert told(out) == [b1]


def test_what_was_told_is_not_told_again_when_the_members_change():
    client, engine, out = node(3)
    b1 = pack(1, 1)
    engine.receive(1, said(b1), out)
    take(client, out)
    engine.receive(2, said(pack(2, 1), b1), out)
    assert told(out) == [b1]
    client.past.members.add("new")
    engine.admit()
    engine.receive(3, said(pack(3, 1), b1), out)
    client.past.members.remove(3)
    engine.dismiss(3)
    engine.flush(out)
    assert told(out) == []


def test_own_bursts_are_stable_up_to_the_message_that_is_answered():
    client, engine, out = node(3)
    b1 = pack(1, 1)
    engine.receive(1, said(b1), out)
    take(client, out)
    for _ in range(3):
        post(client, engine, [b""] * (NEWEST + 1), out)
    for n, answered in enumerate((NEWEST, 3 * NEWEST), start=1):
        engine.receive(1, said(pack(1, n + 1), pack(0, answered)), out)
        assert told(out) == []
        engine.receive(2, said(pack(2, n), pack(0, answered)), out)
        if n == 1:
            assert told(out) == [b1, *[pack(0, seq) for seq in range(1, NEWEST + 1)]]
        else:
            own = [d for d in told(out) if not d >> SEQ_BITS]
            assert own == [pack(0, seq) for seq in range(NEWEST + 1, answered + 1)]


def test_a_burst_that_is_released_at_once_is_told_at_once_and_in_order():
    client, engine, out = node(3)
    count = 200
    for n in range(1, count + 1):  # b and c answer each other; b's first is late
        if n > 1:
            engine.receive(1, said(pack(1, n), pack(1, n - 1), pack(2, n - 1)), out)
        context = [pack(1, n)] + ([pack(2, n - 1)] if n > 1 else [])
        engine.receive(2, said(pack(2, n), *context), out)
    assert not out.deliver
    engine.receive(1, said(pack(1, 1)), out)
    assert len(out.deliver) == 2 * count
    take(client, out)
    engine.flush(out)
    found = told(out)
    assert len(found) == 2 * count - 1, "all but the last, which b has not answered"
    assert found == [pack(1 + at % 2, 1 + at // 2) for at in range(2 * count - 1)]
