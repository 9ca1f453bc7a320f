"""What a real Redis 7.0 answered to each command, word by word, and what ours answers.

A transcript is requests (``> SET s hello``) and replies as hiredis shows them, of one client and an
empty server.  Where redis-server is installed the transcripts are held against it, too.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import hiredis
import pytest

from tests.store.commands.comparison import matches, ours_as_client
from tests.store.commands.redis_server import needs_redis, redis_server
from tests.store.commands.tables import TABLES
from tests.store.commands.world import World

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
each = pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)


def steps(path: Path) -> list[tuple[str, list[bytes], Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for asked, answered in zip(lines[::2], lines[1::2], strict=True):
        words = [word.encode() for word in shlex.split(asked.removeprefix("> "))]
        expected = eval(answered, {"ReplyError": hiredis.ReplyError})
        found.append((asked, words, expected))
    return found


@each
@pytest.mark.parametrize("is_stable", [True, False], ids=["stable", "unstable"])
def test_replies_are_those_of_the_transcript(path: Path, is_stable: bool):
    world = World(TABLES)
    for asked, words, expected in steps(path):
        ours = ours_as_client(world.run(*words))
        assert matches(words, ours, expected), (asked, ours, expected)
        if is_stable:
            world.stabilise()


@each
def test_another_node_would_have_answered_the_same(path: Path):
    world = World(TABLES, 3)
    for number, (asked, words, expected) in enumerate(steps(path)):
        ours = ours_as_client(world.nodes[number % 3].run(*words))
        assert matches(words, ours, expected), (asked, ours, expected)
        world.exchange(stabilise=number % 4 == 0)


@needs_redis
@each
def test_transcripts_are_of_a_real_redis(path: Path, tmp_path: Path):
    with redis_server(tmp_path) as client:
        for asked, words, expected in steps(path):
            assert matches(words, client.run(*words), expected), asked


def test_transcripts_have_every_command_of_redis():
    """Those of the tables here; CRDT and CAUSAL are no commands of Redis."""
    asked = {words[0].decode() for path in TRANSCRIPTS for _, words, _ in steps(path)}
    ours = {command.name.partition("|")[0] for table in TABLES for command in table}
    missing = {name for name in ours - asked if "." not in name}
    assert missing == {"RANDOMKEY", "WAIT", "PEXPIRE"}
