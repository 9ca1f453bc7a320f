"""Nodes with a mistake put in: a passage of one method replaced while a test runs.

A passage must occur exactly once, so that a test cannot silently change nothing when the source
moves on.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap

import msgspec
import pytest

from tests.sim.node_classes import options_of
from thence.sim.node_view import Broken
from thence.sim.nodes import run_nodes


class Mutant(msgspec.Struct, frozen=True):
    """One mistake."""

    name: str
    """What is wrong then."""
    where: str
    """``module:Class.method`` below thence.client; with a dot in it, the module below thence."""
    old: str
    new: str
    seen_in: str
    """The class of runs (node_classes.py) that shows it."""


class NotOnceError(Exception):
    """The passage to replace is not in the source exactly once."""


def plant(patch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    """Make the mistake until the patch is undone."""
    module_name, _, path = mutant.where.partition(":")
    below = "thence" if "." in module_name else "thence.client"
    module = importlib.import_module(f"{below}.{module_name}")
    owner_name, _, method = path.rpartition(".")
    # A method may stand in a class that this one is made of.
    owner = next(each for each in getattr(module, owner_name).__mro__ if method in vars(each))
    module = importlib.import_module(owner.__module__)
    source = textwrap.dedent(inspect.getsource(_function(vars(owner)[method])))
    if source.count(mutant.old) != 1:
        raise NotOnceError(f"{source.count(mutant.old)} times in {mutant.where}:\n{mutant.old}")
    made: dict[str, object] = {}
    text = source.replace(mutant.old, mutant.new)
    flags = __future__.annotations.compiler_flag
    exec(compile(text, f"<mutant of {mutant.where}>", "exec", flags), vars(module), made)
    patch.setattr(owner, method, made[method])


def _function(member: object) -> object:
    return member.fget if isinstance(member, property) else member


def first_failure(mutant: Mutant, seeds: range) -> tuple[int, str] | None:
    """The first of these runs that goes wrong, and how."""
    for seed in seeds:
        try:
            run_nodes(options_of(mutant.seen_in, seed))
        except Broken as error:
            return seed, str(error)
    return None


MUTANTS = (
    # ---- hub
    Mutant(
        "frames leave before the commit", "hub:Hub.flush",
        "    for driver in self.drivers.values():\n        try:\n            driver.commit(now)",
        "    for driver in self.drivers.values():\n        driver.exchange.written()\n"
        "        for link in self.by_peer.values():\n"
        "            if driver in link.channels.values():\n"
        "                slot = link.slots[driver.group]\n"
        "                for out in driver.frames(slot, link.opened[driver.group], False, now):\n"
        "                    link.connection.send(out)\n"
        "        try:\n            driver.commit(now)",
        "kills",
    ),
    Mutant(
        "two connections to a peer are both live", "hub:Hub._keeps",
        'self._drop(other, "replaced by a newer connection", now)', "pass", "kills",
    ),
    Mutant(
        "drivers are not told that a connection is gone", "hub:Hub.closed",
        "driver.closed(link.slots[driver.group], reason)", "pass", "breaks",
    ),
    # ---- driver
    Mutant(
        "a phantom speaks for what is consumed and not confirmed", "driver:Driver._say",
        "self.client.phantom() if ledger is None else ledger.confirmed.phantom()",
        "self.client.phantom()", "confirms",
    ),
    Mutant(
        "nothing is announced to a peer that came back", "driver:Driver.opened",
        "self.announce(now)", "pass", "joined",
    ),
    Mutant(
        "a checkpoint leaves out what waits for the application", "driver:Driver._unconfirmed",
        "unconfirmed += [entry for entry in self.queue if self.is_delivery(entry)]", "pass",
        "every commit",
    ),
    Mutant(
        "a checkpoint leaves out what was taken and not confirmed", "driver:Driver._unconfirmed",
        "for _, kind, tag in self._open_events if kind == DELIVERY",
        "for _, kind, tag in self._open_events if kind == -1", "every commit",
    ),
    Mutant(
        "a checkpoint has what waits before what was taken", "driver:Driver._unconfirmed",
        "return unconfirmed", "return unconfirmed[::-1]", "every commit",
    ),
    Mutant(
        "a broadcast does not confirm what was taken", "driver:Driver._make_room",
        "self.confirm_all()", "pass", "confirms",
    ),
    Mutant(
        "confirming the last event confirms one too few", "driver:Driver._confirm_up_to",
        "events[0][0] <= number", "events[0][0] < number", "confirms",
    ),
    Mutant(
        "taking gives no credit back", "driver:Driver.take",
        "flow.held -= 1", "pass", "tight",
    ),
    Mutant(
        "stable events come before deliveries after a restart", "driver:Driver._resume",
        "    for entry in recovered.ready:",
        "    self.queue.extend((STABLE_EVENT, tag) for tag in recovered.told)\n"
        "    recovered.told = []\n    for entry in recovered.ready:", "confirms",
    ),
    Mutant(
        "what waited before a crash is not counted as held", "driver:Driver._resume",
        "self.exchange.hold(entry.origin, entry.payload)", "pass", "confirms",
    ),
    Mutant(
        "a node whose journal failed goes on sending", "driver:Driver.frames",
        "[] if self.failed else", "", "fails, groups",
    ),
    Mutant(
        "the trace begins again after a crash", "driver:Driver.__init__",
        "trace(recovered.position)", "trace(0)", "kills",
    ),
    # ---- ledger
    Mutant(
        "an own message is written before what it confirms", "ledger:Ledger.sent",
        "self._write_events()\n    self.confirmed.send(tag)\n    self._append(Sent(encoded))",
        "self._append(Sent(encoded))\n    self._write_events()\n    self.confirmed.send(tag)",
        "never",
    ),
    Mutant(
        "what arrives is not written down", "ledger:Ledger.received",
        "self._append(Received(slot, number, batch))", "pass", "kills",
    ),
    Mutant(
        "confirmations are not written down", "ledger:Ledger._write_events",
        "self._append(Confirmed(self._events))", "pass", "never",
    ),
    Mutant(
        "the last confirmation of several is lost", "ledger:Ledger._write_events",
        "Confirmed(self._events)", "Confirmed(self._events[: max(1, len(self._events) - 1)])",
        "never",
    ),
    Mutant(
        "own messages are not written down", "ledger:Ledger.sent",
        "self._append(Sent(encoded))", "pass", "kills",
    ),
    Mutant(
        "confirmations stay staged after a checkpoint", "ledger:Ledger.checkpoint",
        "self._events.clear()", "self._events = [self._client.sent << 2]", "every commit",
    ),
    Mutant(
        "what is held back is not in a checkpoint", "ledger:Ledger.checkpoint",
        "*map(_item, ready), *pending]", "*map(_item, ready)]", "every commit",
    ),
    Mutant(
        "a commit does not say how long the trace is", "ledger:Ledger.commit",
        "self._append(Mark(position))", "pass", "never",
    ),
    Mutant(
        "what was not confirmed does not come again", "recovery:Recovery.go",
        "found.ready = list(self.ready.values())", "found.ready = []", "confirms",
    ),
    Mutant(
        "stable events that were not confirmed do not come again", "recovery:Recovery.go",
        "found.told, found.known = self.out.stable,", "found.told, found.known = [],", "confirms",
    ),
    Mutant(
        "known events come again", "recovery:Recovery._confirm",
        "self.engine.knowledge.k_told.add(packed)", "pass", "known",
    ),
    Mutant(
        "it is forgotten how much of a peer is there", "recovery:Recovery._carry_out",
        "self.found.have[entry.slot] = entry.number + len(codec.messages_of(batch)) - 1", "pass",
        "never",
    ),
    Mutant(
        "a checkpoint is read without what is there of peers", "recovery:Recovery._begin",
        "found.have, found.position = made.have, made.position",
        "found.position = made.position", "every commit",
    ),
    Mutant(
        "own messages are not sent again after a crash", "recovery:Recovery._send",
        "self.found.outbox.append(encoded)", "pass", "never",
    ),
    Mutant(
        "own dots are used twice", "recovery:Recovery._send",
        "client.sent = tag.packed", "pass", "never",
    ),
    # ---- exchange, flow, outbox
    Mutant(
        "more is acknowledged than is written down", "flow:Flow.ack",
        "self.told = self.durable", "self.told = self.have", "datagrams, joined",
    ),
    Mutant(
        "credit is one too many", "flow:Flow._limit",
        "self._messages_max - self.held", "1 + self._messages_max - self.held", "tight",
    ),
    Mutant(
        "after a reconnection it goes on after what was sent", "flow:Flow.opened",
        "self.sent = self._heard = said.have",
        "self._heard = said.have\n    self.sent = max(self.sent, said.have)", "breaks",
    ),
    Mutant(
        "the outbox is released when the first peer has it", "exchange:Exchange.release",
        "min(", "max(", "breaks",
    ),
    Mutant(
        "the outbox is never released", "exchange:Exchange.acknowledged",
        "self.release()", "pass", "plain",
    ),
    Mutant(
        "a repeated message is taken for a new one", "exchange:Exchange.arrived",
        "skip = flow.have + 1 - number", "skip = min(0, flow.have + 1 - number)",
        "datagrams, joined",
    ),
    Mutant(
        "a gap goes unnoticed", "flow:Flow.arrived",
        "self.have += count", "self.have += count + (self.have == 2)", "breaks",
    ),
    Mutant(
        "the last message of a batch is left out", "outbox:Outbox.batch",
        "end = at + last - number + 1", "end = at + max(1, last - number)", "breaks",
    ),
    Mutant(
        "a chain goes over a message that is none of it", "outbox:Outbox.batch",
        "and 0 not in seqs[at:end]", "", "bursts",
    ),
    Mutant(
        "a message of a chain comes back after a crash as the one before", "outbox:Outbox.message",
        "Message(self._slot, seq,", "Message(self._slot, seq - 1,",
        "bursts, kills",
    ),
    Mutant(
        "a burst is sent beyond what there is room for", "sending:Sending._make_room",
        "room = wanted\n", "pass\n    room = wanted\n", "bursts, tight",
    ),
    # ---- applications whose state is kept
    Mutant(
        "an application is not told again what it sent", "recovery:Recovery._send",
        "self.retold.sent(tag)", "pass", "kept",
    ),
    Mutant(
        "an application is not told again what it took", "recovery:Recovery._confirm",
        "self.retold.delivered(tag)", "pass", "kept",
    ),
    Mutant(
        "an application is not told again what is stable", "recovery:Recovery._confirm",
        "self.retold.stable(tag)", "pass", "kept",
    ),
    Mutant(
        "what is stable is told when it is forgotten", "recovery:Recovery._confirm",
        "self.engine.settle([tag])", "self.engine.settle([tag])\n    self.client.stabilised(tag)\n"
        "    if self.retold is not None:\n        self.retold.stable(tag)\n    return\n",
        "kept",
    ),
    Mutant(
        "an application is told of what was not for it", "retold:Retold.delivered",
        "if not tag.hollow:", "if True:", "kept, everything",
    ),
    Mutant(
        "a checkpoint has rows that know of more than it does", "driver:Driver._is_settled",
        "not self._open_events and ", "", "kept, confirms",
    ),
    Mutant(
        "a checkpoint is without rows", "ledger:Ledger.checkpoint",
        "() if self._kept is None else self._kept.rows()", "()", "kept",
    ),
    Mutant(
        "an application begins before its tags are there", "recovery:Recovery.go",
        "        if made is not None:\n            self._begin(made)\n"
        "        if self.retold is not None:\n            self.retold.begin()\n",
        "        if self.retold is not None:\n            self.retold.begin()\n"
        "        if made is not None:\n            self._begin(made)\n",
        "kept",
    ),
    Mutant(
        "rows are given back as they were before", "journal.memory:MemoryJournal.checkpoint",
        "if value is not None)", "if value is not None and key not in self.disk.rows)",
        "kept",
    ),
)  # fmt: skip
