"""What a node of an elastic group begins with: nothing, what was handed over, or its journal."""

from __future__ import annotations

from typing import Any

import msgspec

from thence.causal.members import Members
from thence.client.entries import Checkpoint
from thence.engine import handover
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.frontier import Confirmed
from thence.engine.restore import State
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


def begun(newcomer: tuple[Head, State], options: EngineOptions) -> Beginning:
    """What was handed over."""
    head, state = newcomer
    mask = sum(1 << each.slot for each in head.view.members)
    client, engine, confirmed = handover.begin(state, mask, options)
    return Beginning(client.past.members, client, engine, list(state.confirmed), confirmed)
