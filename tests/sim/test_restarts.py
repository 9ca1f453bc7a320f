"""Nodes that crash at any moment go on from what was confirmed; bugs put in are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from thence.engine.frontier import Confirmed
from thence.engine.registry import ENGINES
from thence.engine.restore import State, export_state, restore
from thence.message import Phantom
from thence.sim import restarts
from thence.sim.checkers import OracleFailure
from thence.sim.restarts import RestartCluster, restart_walk

SPEC = ENGINES["tagged"]
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_a_restart_at_any_moment_breaks_nothing(part: int):
    for seed in seeds(2000)[part::PARTS]:
        restart_walk(SPEC, seed)


def test_walks_with_restarts_reach_what_they_are_for():
    """Something to hear again, to be told again, to forget, streams, and unsent messages."""
    again = told_again = streams = forgotten = without = 0
    for seed in range(60):
        walk = restart_walk(SPEC, seed)
        assert walk.nodes.restarts >= 1
        again += sum(map(len, walk.restarting.former))
        told_again += any(walk.restarting.told_confirmed)
        streams += any(key[1] for key in walk.oracle.histories.keys)
        without += not walk.options.engine.stability
        forgotten += any(
            walk.restarting.told[n] and len(walk.restarting.tags[n]) < len(walk.oracle.histories)
            for n in range(walk.oracle.size)
        )
    assert min(again, told_again, streams, forgotten, without) > 3


# ---- bugs that the walks must find ---------------------------------------------------------------


def changed(**fields: Callable[[State], Any]) -> Callable[..., State]:
    """Exports a state with some fields replaced."""

    def export(*args: Any) -> State:
        state = export_state(*args)
        return msgspec.structs.replace(state, **{k: f(state) for k, f in fields.items()})

    return export


def restoring(after: Callable[[Any, Any, Confirmed, list[Any]], None]) -> Callable[..., list[Any]]:
    """Restores, then does something to the node."""

    def buggy(client: Any, engine: Any, confirmed: Confirmed, state: State) -> list[Any]:
        tags = restore(client, engine, confirmed, state)
        after(client, engine, confirmed, tags)
        return tags

    return buggy


def consumed_frontier(client: Any, engine: Any, confirmed: Confirmed, *rest: Any) -> State:
    confirmed.frontier.become(client.frontier)
    return export_state(client, engine, confirmed, *rest)


def reuse_own_dots(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    if client.sent & 1:
        client.sent -= 1


def nobody_heard_of_it(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    for tag in tags:
        tag.know = 0


def everybody_knows(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    for tag in tags:
        tag.know |= engine.knowledge.mask


def no_edges(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    for tag in tags:
        tag.before = []


def empty_log(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    engine.knowledge.log.clear()


def one_too_many(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    engine.delivered[(client.slot + 1) % len(engine.delivered)] += 1


def no_streams_sent(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    client.stream_sent.clear()


def no_news(client: Any, engine: Any, confirmed: Confirmed, tags: list[Any]) -> None:
    engine.knowledge.news = False
    engine.knowledge.seen_length = len(engine.knowledge.log)
    engine.knowledge.seen_clock = client.past.clock


BUGS: dict[str, tuple[str, Callable[..., Any]]] = {
    "the context is lost": ("export_state", changed(context=lambda s: ())),
    "the context is that of what was consumed": ("export_state", consumed_frontier),
    "what streams hide is lost": ("export_state", changed(hidden=lambda s: ())),
    "streams in the context are lost": ("export_state", changed(stream_context=lambda s: ())),
    "streams begin anew": ("export_state", changed(streams=lambda s: ())),
    "what was told k-stable is lost": ("export_state", changed(k_told=lambda s: ())),
    "messages are lost": ("export_state", changed(messages=lambda s: ())),
    "the newest message is lost": ("export_state", changed(messages=lambda s: s.messages[:-1])),
    "the oldest message is lost": ("export_state", changed(messages=lambda s: s.messages[1:])),
    "own dots are used twice": ("restore", restoring(reuse_own_dots)),
    "own dots on streams are used twice": ("restore", restoring(no_streams_sent)),
    "this node does not know that it has them": ("restore", restoring(nobody_heard_of_it)),
    "everybody is thought to have them": ("restore", restoring(everybody_knows)),
    "what was before what is lost": ("restore", restoring(no_edges)),
    "they never become stable": ("restore", restoring(empty_log)),
    "a message of a peer counts as delivered": ("restore", restoring(one_too_many)),
    "nobody looks for what is stable": ("restore", restoring(no_news)),
}


def first_failure(count: int = 400) -> OracleFailure | None:
    for seed in range(count):
        try:
            restart_walk(SPEC, seed)
        except OracleFailure as failure:
            return failure
    return None


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_of_restoring_is_found(bug: str, monkeypatch: pytest.MonkeyPatch):
    where, instead = BUGS[bug]
    monkeypatch.setattr(restarts, where, instead)
    assert first_failure() is not None


def test_a_phantom_that_speaks_for_what_is_not_confirmed_is_found(monkeypatch: pytest.MonkeyPatch):
    """Even by an oracle that takes what the phantom says for true: somebody is told too early."""

    def from_consumed(self: RestartCluster, i: int) -> Phantom | None:
        phantom = self.clients[i].phantom()
        self.to_middleware[i].append((restarts.ANNOUNCE, phantom))
        return phantom

    monkeypatch.setattr(RestartCluster, "client_phantom", from_consumed)
    failure = first_failure(1500)
    assert failure is not None
    assert "stable" in failure.what
