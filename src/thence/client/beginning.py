"""What a node of an elastic group begins with: nothing, what was handed over, or its journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from thence.causal.dot import SEQ_BITS
from thence.causal.members import Members
from thence.client.entries import Checkpoint
from thence.client.shelf import SHELVE_BYTES
from thence.engine import handover
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.frontier import Confirmed
from thence.engine.restore import State
from thence.errors import JournalError
from thence.journal.base import Journal
from thence.wire.membership import Head, View


class Beginning(msgspec.Struct):
    """What a node of an elastic group begins with."""

    members: Members
    client: Any
    engine: Any
    have: list[int]
    """By slot, the number of the last message that is there."""
    confirmed: Confirmed | None = None
    """What counts as confirmed from the beginning: a state that was handed over."""


def resumed(made: Checkpoint, spec: EngineSpec, options: EngineOptions) -> Beginning:
    """What a journal has; the ledger does the rest."""
    assert made.view is not None
    mask = sum(1 << each.slot for each in made.view.members)
    members = Members.former(made.state.members, mask)
    client, engine = spec.make(members, made.state.slot, options)
    return Beginning(members, client, engine, [0] * len(members.names))


def founded(view: View, slot: int, spec: EngineSpec, options: EngineOptions) -> Beginning:
    """Nothing was sent yet."""
    members = Members([each.id for each in view.members])
    client, engine = spec.make(members, slot, options)
    return Beginning(members, client, engine, [0] * len(members.names))


Handed = tuple[Head, State, Iterable[bytes]]
"""What a newcomer was given: the payloads are those of ``State.shelved``, in order."""


def begun(newcomer: Handed, options: EngineOptions, journal: Journal | None) -> Beginning:
    """What was handed over; payloads that were on the provider's shelf go on this node's, or into
    memory if there is none.  JournalError if there are too few."""
    head, state, payloads = newcomer
    if state.shelved:
        numbers = chain.from_iterable([range(first, last + 1) for first, last in state.shelved])
        values = zip(numbers, payloads, strict=False)
        state = _in_memory(state, values) if journal is None else _shelved(state, values, journal)
    mask = sum(1 << each.slot for each in head.view.members)
    client, engine, confirmed = handover.begin(state, mask, options)
    return Beginning(client.past.members, client, engine, list(state.confirmed), confirmed)


def _in_memory(state: State, values: Iterator[tuple[int, bytes]]) -> State:
    """The state with all payloads."""
    found = dict(values)
    messages = []
    for message in state.messages:
        payload = found.get(message.origin << SEQ_BITS | message.seq)
        messages.append(message if payload is None else replace(message, payload=payload))
    if len(found) < sum(last - first + 1 for first, last in state.shelved):
        raise _too_few()
    return replace(state, messages=tuple(messages), shelved=())


def _shelved(state: State, values: Iterator[tuple[int, bytes]], journal: Journal) -> State:
    """The same state, and its payloads on the shelf."""
    some: list[tuple[int, bytes]] = []
    count = size = 0
    for number, payload in values:
        some.append((number, payload))
        count, size = count + 1, size + len(payload)
        if size >= SHELVE_BYTES:
            journal.shelve(some)
            some, size = [], 0
    journal.shelve(some)
    if count < sum(last - first + 1 for first, last in state.shelved):
        raise _too_few()
    return state


def _too_few() -> JournalError:
    return JournalError("the state that was handed over lacks payloads")
