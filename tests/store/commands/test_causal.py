"""Tokens, and waiting for other nodes: what commands ask of the database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.store.commands.tables import TABLES
from tests.store.commands.world import Node, World
from thence.store.commands import causal
from thence.store.errors import CommandError
from thence.store.replies import Later


class Waiting(Node):
    """A node that notes what it is asked to wait for."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self.asked: list[Any] = []
        self.answer: Any = True

    def covers(self, token: bytes) -> bool:
        if token == b"nonsense":
            raise CommandError("ERR not a token of CAUSAL.TOKEN")
        return token == b"seen"

    async def wait_token(self, token: bytes, timeout_ms: int) -> bool:
        self.asked.append((token, timeout_ms))
        found: bool = self.answer
        return found

    async def wait_replicas(self, count: int, timeout_ms: int, write: Any) -> int:
        self.asked.append((count, timeout_ms, write))
        found: int = self.answer
        return found


@pytest.fixture
def node() -> Waiting:
    return Waiting("a", World(TABLES))


def later(reply: Any) -> Any:
    assert isinstance(reply, Later)

    async def wait() -> Any:
        return await reply.start()

    return asyncio.run(wait())


def test_a_token_that_is_covered_is_answered_at_once(node: Waiting):
    assert node.run("CAUSAL.WAIT", "seen") == 1
    assert node.asked == []


@pytest.mark.parametrize("answer", [True, False])
def test_a_token_that_is_not_is_waited_for(node: Waiting, answer: bool):
    node.answer = answer
    reply = later(node.run("CAUSAL.WAIT", "ahead", 250))
    assert reply == int(answer)
    assert type(reply) is int
    assert node.asked == [(b"ahead", 250)]
    assert later(node.run("CAUSAL.WAIT", "ahead")) == int(answer)
    assert node.asked[1:] == [(b"ahead", 0)]


def test_wait_asks_for_the_last_write_of_this_client(node: Waiting):
    node.session.last_write = "the write"
    node.answer = 2
    assert later(node.run("WAIT", 2, 100)) == 2
    assert node.asked == [(2, 100, "the write")]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["CAUSAL.WAIT", "nonsense"], "not a token"),
        (["CAUSAL.WAIT", "seen", "x"], "ERR timeout is not an integer or out of range"),
        (["CAUSAL.WAIT", "seen", "-1"], "ERR timeout is negative"),
        (["CAUSAL.WAIT", "seen", "1", "2"], "wrong number of arguments for 'causal.wait'"),
        (["WAIT", "x", "1"], "ERR value is not an integer or out of range"),
        (["WAIT", "1", "-1"], "ERR timeout is negative"),
    ],
)
def test_nonsense_is_refused_at_once(node: Waiting, words: list[str], fault: str):
    reply = node.run(*words)
    assert isinstance(reply, CommandError)
    assert fault in str(reply)


def test_a_timeout_is_one_that_a_loop_can_count_to():
    assert causal.timeout_ms(b"9223372036854775807") == causal.TIMEOUT_MS_MAX


def test_a_key_is_stable_once_everybody_has_it():
    world = World(TABLES, 2)
    assert world.run("CRDT.STABLE", "s") == 1
    world.run("SET", "s", "v")
    assert world.run("CRDT.STABLE", "s") == 0
    world.exchange()
    assert world.run("CRDT.STABLE", "s") == 1


def test_a_token_says_what_the_node_has_seen():
    world = World(TABLES)
    before = world.run("CAUSAL.TOKEN")
    world.run("SET", "s", "v")
    assert world.run("CAUSAL.TOKEN") != before
