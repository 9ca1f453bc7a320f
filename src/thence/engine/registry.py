"""``ENGINES``: every protocol there is, by name.  Adding one is a file and a line here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thence.causal.members import Members
from thence.engine import (
    cbcast,
    compressed,
    compressed_broadcast,
    fifo,
    graph,
    history,
    lamport,
    last_sender,
    matrix,
    piggyback,
    realtime,
    scalar,
    sequencer,
    skeen,
    synchronous,
    tagged,
    token,
    vector,
)
from thence.engine.base import EngineOptions, EngineSpec
from thence.errors import LocalProtocolError

ENGINES: dict[str, EngineSpec] = {
    spec.name: spec
    for spec in (
        tagged.SPEC,
        vector.SPEC,
        graph.SPEC,
        cbcast.SPEC,
        cbcast.SPEC_E2E,
        fifo.SPEC,
        history.SPEC,
        piggyback.SPEC,
        scalar.SPEC,
        last_sender.SPEC,
        realtime.SPEC,
        matrix.SPEC,
        compressed.SPEC,
        compressed_broadcast.SPEC,
        synchronous.SPEC,
        sequencer.SPEC,
        token.SPEC,
        lamport.SPEC,
        skeen.SPEC,
    )
}
DEFAULT_ENGINE = tagged.SPEC.name


def make_node(
    members: Iterable[str],
    name: str,
    engine: str = DEFAULT_ENGINE,
    options: EngineOptions = EngineOptions(),
) -> tuple[Any, Any]:
    """The client and the engine of node ``name`` in a static group.

    Every node lists the members in the same order.  Engines have clients of their own kind, hence
    the loose types; ``Client`` and ``Engine`` in engine/base.py say what all of them offer.
    """
    group = Members(members)
    if engine not in ENGINES:
        raise LocalProtocolError(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    return ENGINES[engine].make(group, group.slot(name), options)
