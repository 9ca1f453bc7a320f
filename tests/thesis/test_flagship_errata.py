"""Mistakes put into the flagship's own source are caught; without them the same walks are clean.

The errata of the thesis' algorithms 4, 5, 8 to 11 in the words of the flagship, and the mistakes
that its own design invites.  All run in the interpreted form, whatever form an import gives.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import thence.engine
from tests.seeds import seeds
from tests.thesis.errata_table import spec_of
from tests.thesis.mutant import NotOnceError, walk_of
from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.forms import COMPILED
from thence.message import Message, Phantom
from thence.sim.checkers import OracleFailure
from thence.sim.walk import WalkOptions, random_walk

WALKS = 240
MODULES = tuple(
    child
    for package, _, child in (name.rpartition(".") for name in COMPILED)
    if package == "thence.engine"
    and child not in ("effects", "checks")  # values and rules that the simulator shares
)


class Mistake(msgspec.Struct, frozen=True):
    """Passages of the source, each of which must be there exactly once, and what stands instead."""

    what: str
    changes: tuple[tuple[str, str, str], ...]
    """(module, passage, instead)"""

    def engine(self) -> EngineSpec:
        """The flagship with this mistake."""
        return spec_of(flagship(*self.changes), f"tagged, {self.what}")


def flagship(*changes: tuple[str, str, str]) -> ModuleType:
    """The flagship's module from its source, changed, with siblings changed as well."""
    package = importlib.import_module("thence.engine")
    names = [f"thence.engine.{child}" for child in MODULES]
    normal = {each: importlib.import_module(each) for each in names}
    made: dict[str, ModuleType] = {}
    try:
        for child in MODULES:
            text = (Path(thence.engine.__path__[0]) / f"{child}.py").read_text(encoding="utf-8")
            for module, old, new in changes:
                if module == child:
                    if text.count(old) != 1:
                        raise NotOnceError(f"{text.count(old)} times in {module}:\n{old}")
                    text = text.replace(old, new)
            made[child] = mutant = ModuleType(f"thence.engine.{child}")
            sys.modules[mutant.__name__] = mutant
            exec(compile(text, f"<mutant of {child}.py>", "exec"), mutant.__dict__)
    finally:
        sys.modules.update(normal)
        for child, original in zip(MODULES, normal.values(), strict=True):
            setattr(package, child, original)
    return made["tagged"]


def walk(seed: int) -> WalkOptions:
    """As for the other engines, with streams, k-stability and passes of every kind."""
    return msgspec.structs.replace(
        walk_of(seed),
        streams=(0.0, 0.5)[seed % 2],
        batches=seed % 5 == 0,
        eagerness=(0.9, 0.3)[seed // 3 % 2],
        engine=EngineOptions(stability_batch=(1, 0, 3)[seed % 3], k=(0, 2)[seed // 2 % 2]),
    )


def first_failure(spec: EngineSpec, walks: range) -> OracleFailure | None:
    for seed in walks:
        try:
            random_walk(spec, walk(seed))
        except OracleFailure as failure:
            return failure
    return None


CLIENT_KNOWN = (
    "tagged",
    "    return tagger, engine\n",
    "    engine.client = tagger\n    return tagger, engine\n",
)

MISTAKES = (
    Mistake(
        "4: prose, the own dot is added to the context instead of replacing it",
        (("frontier", "self.context = {packed}", "self.context.add(packed)"),),
    ),
    Mistake(
        "4: what a consumed message names stays in the context",
        (("frontier", "        self.context.difference_update(raw_context)\n", ""),),
    ),
    Mistake(
        "3.6: tagged when the middleware takes the request, not at the call",
        (
            CLIENT_KNOWN,
            (
                "tagged",
                "        out.send.append(message_of(tag))\n",
                "        named = self.client.frontier.context\n"
                "        later = [d for d in named if d >> SEQ_BITS != self.slot]\n"
                "        tag.named = tuple(sorted({*later, *tag.raw_context}))\n"
                "        out.send.append(message_of(tag))\n",
            ),
        ),
    ),
    Mistake(
        "3.6: tagged with what is ready, not with what was consumed",
        (
            CLIENT_KNOWN,
            (
                "tagged",
                "                out.deliver.append(tag)\n                knowledge =",
                "                out.deliver.append(tag)\n"
                "                self.client.frontier.context.difference_update(context)\n"
                "                self.client.frontier.context.add(packed)\n"
                "                knowledge =",
            ),
        ),
    ),
    Mistake(
        "3:13, 5:12: a duplicate of what was delivered is taken again",
        (("tagged", "            packed <= last\n            or not 0 <", "            not 0 <"),),
    ),
    Mistake(
        "5:12: a duplicate of what waits is taken again",
        (
            (
                "tagged",
                "            or self.is_held(packed)\n            or message.origin",
                "            or message.origin",
            ),
        ),
    ),
    Mistake(
        "5:27, 9:37, 11:38: the context handed over is what is left of it",
        (
            (
                "delivery",
                "tag = Tag(self.past, packed, message.context, message.payload, [])",
                "left = tuple([d for d in message.context if d in self.past.window][-1:])\n"
                "        tag = Tag(self.past, packed, left, message.payload, [])",
            ),
        ),
    ),
    Mistake(
        "the scan of a context skips its first dot",
        (("held", "self.scanned = 0", "self.scanned = 1"),),
    ),
    Mistake(
        "the scan goes on behind the dot after the one that came",
        (
            (
                "delivery",
                "                held.scanned = i\n",
                "                held.scanned = i + 2\n",
            ),
        ),
    ),
    Mistake(
        "a predecessor on a stream is not waited for",
        (("delivery", "        for d in held.named:\n", "        for d in ():\n"),),
    ),
    Mistake(
        "only one of those who wait for a dot is woken",
        (("delivery", "for each in reversed(chain):", "for each in chain[:1]:"),),
    ),
    Mistake(
        "the next message of the origin is not woken",
        (("delivery", "heappush(oldest, (entry[0], dot + 1))", "pass"),),
    ),
    Mistake(
        "5.4: a phantom is used though messages before it are missing",
        (("stability", "elif n <= last + 1:", "else:"),),
    ),
    Mistake(
        "5.4: a phantom that is early by messages of its origin is dropped",
        (
            (
                "stability",
                "            if not newest:\n                del self.phantoms[j]\n",
                "            if not newest:\n                del self.phantoms[j]\n"
                "        else:\n            del self.phantoms[j]\n",
            ),
        ),
    ),
    Mistake(
        "5.4: a phantom that is early by what it names is dropped",
        (("stability", "            if not newest:\n", "            if True:\n"),),
    ),
    Mistake(
        "5.4: a later phantom replaces the context of an earlier one",
        (("stability", "{} if known is None else known[1]", "{}"),),
    ),
    Mistake(
        "11: stable although one member is not known to have it",
        (
            (
                "stability",
                "if tag.know & mask == mask and not",
                "if (mask & ~tag.know).bit_count() <= 1 and not",
            ),
        ),
    ),
    Mistake(
        "knowledge is pushed once and not when it has grown",
        (("stability", "if know != tag.pushed:", "if not tag.pushed:"),),
    ),
    Mistake(
        "knowledge that is pushed replaces what was known",
        (
            (
                "stability",
                "                    for before in tag.before:\n"
                "                        before.know |= know\n",
                "                    for before in tag.before:\n"
                "                        before.know = know\n",
            ),
        ),
    ),
    Mistake(
        "knowledge is pushed from old to new, one step a pass",
        (
            (
                "stability",
                "            for tag in reversed(log):\n                know = tag.know\n",
                "            for tag in log:\n                know = tag.know\n",
            ),
        ),
    ),
    Mistake(
        "11:64: stable in the wrong order",
        (
            (
                "stability",
                "        for tag in log:\n            if tag.know & mask",
                "        for tag in reversed(log):\n            if tag.know & mask",
            ),
        ),
    ),
    Mistake(
        "a message is counted for k members though one less is known to have it",
        (("stability", "self.known_by(tag) >= k:", "self.known_by(tag) >= k - 1:"),),
    ),
    Mistake(
        "what streams hide is no predecessor for stability",
        (("delivery", "edges = edges + aside.hidden", "pass"),),
    ),
    Mistake(
        "what streams hide is no predecessor of own messages",
        (("tagger", "            before = before | hidden\n", ""),),
    ),
    Mistake(
        "a phantom does not name what streams hide",
        (
            (
                "frontier",
                "self.context if not self.hidden else self.context | self.newest_hidden()",
                "self.context",
            ),
        ),
    ),
    Mistake(
        "a consumed message of a stream does not replace what it comes after",
        (("frontier", "self.context -= behind", "pass"),),
    ),
    Mistake(
        "a forgotten tag is taken to be before everything",
        (("tag", "0 <= a.gone < b.index and self.forgets", "0 <= a.gone and self.forgets"),),
    ),
    Mistake(
        "answers made after a tag was forgotten are asked about it",
        (("tag", "not 0 <= a.gone <= answers.asked:", "a.index >= answers.base:"),),
    ),
    Mistake(
        "ancestors of ancestors are read at the wrong place",
        (("tag", "known.bits >> (base - known.base)", "known.bits"),),
    ),
    Mistake(
        "the bits of ancestors begin above an unforgotten tag",
        (("tag", "self.base = min(oldest, default=self.clock)", "self.base = self.clock"),),
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_caught(mistake: Mistake):
    failure = first_failure(mistake.engine(), range(WALKS))
    assert failure is not None, mistake.what
    for broken in ("NameError", "AttributeError", "TypeError"):
        assert broken not in failure.what, "the mutant is broken, not mistaken"


def test_without_mistakes_the_same_walks_are_clean():
    assert first_failure(spec_of(flagship(), "tagged"), seeds(WALKS)) is None


def test_a_passage_that_is_not_there_exactly_once_is_an_error():
    normal = sys.modules["thence.engine.tagged"]
    with pytest.raises(NotOnceError):
        flagship(("tagged", "no such passage", ""))
    with pytest.raises(NotOnceError):
        flagship(("tag", "self", ""))
    assert sys.modules["thence.engine.tagged"] is normal
    assert thence.engine.tagged is normal


# ---- mistakes that correct peers cannot show -----------------------------------------------------

B1, B2, C1 = pack(1, 1), pack(1, 2), pack(2, 1)


def ready_and_stable(module: ModuleType, *received: Message | Phantom) -> list[list[int]]:
    """What a silent node whose application takes nothing makes ready, and calls stable."""
    _, engine = module.make(Members("abc"), 0, EngineOptions())
    out = Effects()
    for message in received:
        engine.receive(message.origin, message, out)
    engine.flush(out)
    return [[tag.packed for tag in tags] for tags in (out.deliver, out.stable)]


def test_without_the_fifo_check_a_context_that_hides_its_predecessor_overtakes_it():
    """In a correct context the predecessor at the origin is always named, directly or not."""
    second = Message(1, 2, (), b"")
    unchecked = flagship(("tagged", "if packed == last + 1 and j", "if packed > last and j"))
    assert ready_and_stable(unchecked, second) == [[B2], []]
    assert ready_and_stable(flagship(), second) == [[], []]


def test_knowledge_of_this_node_begins_when_the_application_takes_a_message():
    """Sound either way, because the queue to the application keeps the order; but "stable" says
    that the application has seen it."""
    made = "                tag = Tag(self.past, packed, context, payload, before)\n"
    eager = flagship(("tagged", made, f"{made}                tag.mark(self.slot)\n"))
    received = Message(1, 1, (), b""), Phantom(2, 1, (B1,))
    assert ready_and_stable(eager, *received) == [[B1], [B1]]
    assert ready_and_stable(flagship(), *received) == [[B1], []]


def stable_in_a_large_group(module: ModuleType) -> int:
    """How many of two messages in a row are stable when all announce the second."""
    size = 130
    client, engine = module.make(Members(f"n{n}" for n in range(size)), 0, EngineOptions())
    out = Effects()
    for message in (Message(1, 1, (), b""), Message(1, 2, (B1,), b"")):
        engine.receive(1, message, out)
    for tag in out.deliver:
        client.consume(tag)
    for slot in range(2, size):
        engine.receive(slot, Phantom(slot, 1, (B2,)), out)
    engine.flush(out)
    return len(out.stable)


@pytest.mark.parametrize("lane", ["know", "know1", "know2"])
def test_each_lane_of_knowledge_is_pushed(lane: str):
    passage = "                    before.know |= know\n                    before.know1 |= know1\n"
    passage += "                    before.know2 |= know2\n"
    without = "".join(line for line in passage.splitlines(True) if f".{lane} " not in line)
    count: Callable[[ModuleType], int] = stable_in_a_large_group
    assert count(flagship(("stability", passage, without))) == 1
    assert count(flagship()) == 2
