"""Random commands, the same to a real Redis and to ours: the same replies, letter by letter."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from tests.seeds import seeds
from tests.store.commands.comparison import ours_as_client
from tests.store.commands.pairs import Pair, ServedPair
from tests.store.commands.redis_server import Client, needs_redis, redis_server
from tests.store.commands.requests import request
from tests.store.commands.tables import TABLES
from tests.store.commands.templates import TEMPLATES, templates_of
from tests.store.commands.world import World
from thence.store.node import Store
from thence.store.settings import Settings

COMMANDS_PER_SEED: Final = 1000


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("redis")
    with redis_server(folder) as connection:
        yield connection


@needs_redis
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("kind", list(TEMPLATES))
def test_random_commands_are_answered_as_by_redis(client: Client, kind: str, nodes: int):
    templates = templates_of(TEMPLATES[kind])
    for seed in seeds(1):
        draw = random.Random(f"{kind} {nodes} {seed}")
        pair = Pair(client, nodes, draw)
        for _ in range(COMMANDS_PER_SEED):
            pair.run(request(draw, draw.choice(templates)))
        pair.same_everywhere()


@needs_redis
def test_patterns_match_as_in_redis(client: Client):
    client.run(b"FLUSHALL")
    world = World(TABLES)
    for size in range(1, 4):
        for letters in product(b"ab]^-\\", repeat=size):
            client.run(b"SET", bytes(letters), b"")
            world.run("SET", bytes(letters), "")
    for seed in seeds(400):
        draw = random.Random(seed)
        pattern = bytes(draw.choices(b"ab]^-\\*?[[", k=draw.randint(1, 7)))
        ours = ours_as_client(world.run(b"KEYS", pattern))
        assert sorted(ours) == sorted(client.run(b"KEYS", pattern)), pattern


@contextmanager
def served() -> Iterator[int]:
    """The port of a store of one node, which runs in a thread of its own."""
    started: Future[int] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with Store("a", settings=Settings(port=0)) as store:
            started.set_result(int(store.address.rpartition(":")[2]))
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield started.result(10.0)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10.0)
        loop.close()


@needs_redis
@pytest.mark.parametrize("protocol", [2, 3])
def test_random_commands_over_a_connection_are_answered_as_by_redis(tmp_path: Path, protocol: int):
    templates = [each for text in TEMPLATES.values() for each in templates_of(text)]
    with redis_server(tmp_path) as client, served() as port:
        ours = Client(port)
        for connection in (client, ours):
            connection.run(b"HELLO", b"%d" % protocol)
        for seed in seeds(1):
            draw = random.Random(f"served {protocol} {seed}")
            pair = ServedPair(client, ours, draw)
            for _ in range(3 * COMMANDS_PER_SEED):
                pair.run(request(draw, draw.choice(templates)))
            pair.same_everywhere()
        ours.close()
