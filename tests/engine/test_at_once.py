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
from thence.engine.base import EngineOptions, EngineSpec
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


def known(engine: Any) -> dict[int, set[int]]:
    """By dot, who is known to have consumed what is delivered and not stable: from the definition,
    by contexts, phantoms and what the application took."""
    tags = {d: tag for row in engine.rows for d, tag in row.items() if tag.pushed != STABLE}
    found: dict[int, set[int]] = {}
    for d, tag in tags.items():
        found[d] = set() if tag.hollow else {tag.origin}
        if tag.index >= 0 and not tag.hollow:
            found[d].add(engine.slot)
    for j, (n, newest) in engine.knowledge.phantoms.items():
        for d in newest.values() if n <= (engine.delivered[j] & SEQ_MAX) + 1 else ():
            if d in tags and engine.delivered[d >> SEQ_BITS] >= d:
                found[d].add(j)
    for d, tag in tags.items():  # used phantoms are forgotten, so what is known stays known
        found[d].update(k for k in range(len(engine.rows)) if tag.knows(k))
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
        if slots >= members:
            raise LateError(f"{tag} is stable")
        k = min(engine.knowledge.k, len(tag.to) + 1) if tag.to else engine.knowledge.k
        counted = slots & ({tag.origin, *tag.to} if tag.to else members)
        if k and len(counted) >= k and d not in engine.knowledge.k_told and not tag.hollow:
            raise LateError(f"{tag} is known to {k}")


def checked(module: ModuleType) -> EngineSpec:
    """The flagship, checked after each step that may tell something."""

    class Checked(module.Tagged):  # type: ignore[name-defined, misc]
        def receive(self, peer: int, message: Any, out: Any) -> None:
            before = len(out.deliver), len(out.reject)
            super().receive(peer, message, out)
            heard = False
            if isinstance(message, Phantom) and len(out.reject) == before[1]:
                last = self.delivered[message.origin] & SEQ_MAX
                heard = message.seq > last or self.past.hollows  # else it says nothing new
            if len(out.deliver) > before[0] or heard:
                check(self)

        def broadcast(self, tag: Any, out: Any) -> None:
            super().broadcast(tag, out)
            if not tag.stream:
                check(self)

        def flush(self, out: Any) -> None:
            super().flush(out)
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


def test_after_every_step_nothing_is_left_to_tell():
    failure = first_failure(checked(flagship()), seeds(WALKS))
    assert failure is None, failure


MISTAKES = {
    "what is known spreads one step only": (
        "work.append(before)\n        elif",
        "pass\n        elif",
    ),
    "what the application took is not looked at": (
        "self._taken(untaken.popleft(), ripe)",
        "untaken.popleft()",
    ),
    "what was taken past a hollow message is not spread": (
        "if self.past.hollows and tag",
        "if False and tag",
    ),
    "a hollow message says that its sender took it": (
        "tag.aside is None or not tag.aside.hollow",
        "True",
    ),
    "a phantom that came is not used": ("self.announcers.append(origin)", "pass"),
    "a phantom is not tried again when what it names came": (
        "if j == k or k in newest",
        "if j == k",
    ),
    "what a phantom says is not spread": ("                    self._spread(j, tag, ripe)\n", ""),
    "found in the order of the search": ("ripe.sort(key=_index)", "pass"),
    "told again": ("tag.pushed = STABLE\n", "pass\n"),
    "known to k is looked at only where somebody took it": ("self.changed.extend(work)", "pass"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str):
    passage, instead = MISTAKES[mistake]
    failure = first_failure(checked(flagship(("at_once", passage, instead))), range(WALKS))
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
