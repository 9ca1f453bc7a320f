"""A real Redis and ours, which get the same requests; what may differ, and why."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from tests.store.commands.comparison import SORTS, as_number, fault, matches, ours_as_client
from tests.store.commands.redis_server import Client
from tests.store.commands.tables import TABLES
from tests.store.commands.world import Node, World

# What differs, and why.  Each is one of those that docs/reference/store_commands.md lists.


def _huge_float(words: list[bytes], ours: Any, theirs: Any) -> bool:
    """Redis counts strings and hashes up in 80 bits, with exponents to 4932; ours has 64 bits."""
    if words[0].upper() not in (b"INCRBYFLOAT", b"HINCRBYFLOAT"):
        return False
    huge = [b"e400" in word.lower() or b"e-400" in word.lower() for word in words]
    return any(huge) or (fault(ours) is not None and as_number(theirs) == math.inf)


def _last_digits(words: list[bytes], ours: Any, theirs: Any) -> bool:
    """The same: 64 bits have fewer digits."""
    if words[0].upper() not in (b"INCRBYFLOAT", b"HINCRBYFLOAT") or ours == theirs:
        return False
    numbers = [as_number(reply) for reply in (ours, theirs)]
    return all([isinstance(n, float) for n in numbers]) and math.isclose(*numbers, rel_tol=1e-15)


def _stale_errno(words: list[bytes], ours: Any, theirs: Any) -> bool:
    """Redis 7.0 takes numbers for wrong after a number that was too large, in any command before:
    it does not reset ``errno``."""
    wrong = fault(theirs) is not None and "converted into double" in str(theirs)
    return wrong and words[0].decode().upper() in SORTS and fault(ours) is None


def _newer_rank(words: list[bytes], ours: Any, theirs: Any) -> bool:
    """ZRANK has WITHSCORE since 7.2, so that more words are not too many."""
    return words[0].upper() in (b"ZRANK", b"ZREVRANK") and len(words) > 3


def _one_database(words: list[bytes], ours: Any, theirs: Any) -> bool:
    """There is one database, with the number 0."""
    return words[0].upper() == b"COPY" and fault(ours) == "ERR DB index is out of range"


def _untracked(words: list[bytes], ours: Any, theirs: Any) -> bool:
    """How often and when values are used is not kept; nothing has a compact form while small."""
    return words[0].upper() == b"OBJECT" and words[1].upper() in (
        b"IDLETIME",
        b"ENCODING",
        b"REFCOUNT",
    )


def _smaller_strings(words: list[bytes], ours: Any, theirs: Any) -> bool:
    """A string of ours has 8 MiB at most, as the settings of the server say."""
    return fault(ours) == "ERR bit offset is not an integer or out of range" and fault(theirs) in (
        None,
        fault(ours),
    )


DIFFERENCES: Final[tuple[Callable[[list[bytes], Any, Any], bool], ...]] = (
    _huge_float,
    _last_digits,
    _stale_errno,
    _newer_rank,
    _one_database,
    _untracked,
    _smaller_strings,
)


class Pair:
    """A real server and ours, which get the same."""

    def __init__(self, client: Client, nodes: int, draw: random.Random) -> None:
        self.client = client
        self.draw = draw
        self.world = World(TABLES, nodes)
        self.history: list[list[bytes]] = []
        self.node = self.world.nodes[0]
        client.run(b"FLUSHALL")

    def choose_node(self) -> Node:
        """Any node may run the next command: it knows what the one before did."""
        if len(self.world.nodes) > 1 and self.draw.random() < 0.3:
            self.world.exchange(stabilise=self.draw.random() < 0.5)
            self.node = self.draw.choice(self.world.nodes)
        elif self.draw.random() < 0.1 and len(self.world.nodes) == 1:
            self.world.stabilise()
        return self.node

    def answer(self, node: Node, words: list[bytes]) -> Any:
        """What a client of ours reads."""
        return ours_as_client(node.run(*words))

    def run(self, words: list[bytes]) -> None:
        node = self.choose_node()
        self.history.append(words)
        self.world.now_ms = time.time_ns() // 1_000_000
        mixed = self.is_by_name_over_scores(words) or self.is_set_as_it_comes(words)
        ours = self.answer(node, words)
        theirs = self.client.run(*self.to_theirs(words, ours))
        if mixed and fault(ours) == fault(theirs):
            self.forget(words)
            return
        if words[0].upper() == b"SPOP" and fault(ours) is None:
            theirs = theirs if isinstance(ours, list | set) else None
            assert not isinstance(ours, list | set) or theirs == len(ours), self.story(ours, theirs)
            return
        if any([differs(words, ours, theirs) for differs in DIFFERENCES]):
            self.forget(words)
            return
        assert matches(words, ours, theirs), self.story(ours, theirs)

    def is_by_name_over_scores(self, words: list[bytes]) -> bool:
        """By name, over members of different scores: Redis says that the result is unspecified."""
        if not any([b"LEX" in word.upper() for word in words]):
            return False
        for key in words[1:3]:
            order = self.client.run(b"ZRANGE", key, b"0", b"-1", b"WITHSCORES")
            if isinstance(order, list) and order:
                is_nested = isinstance(order[0], list)
                scores = [pair[1] for pair in order] if is_nested else order[1::2]
                if len({*scores}) > 1:
                    return True
        return False

    def is_set_as_it_comes(self, words: list[bytes]) -> bool:
        """Sets have no order."""
        if words[0].decode().upper() not in SORTS or len(words) < 2:
            return False
        options = [word.upper() for word in words]
        constant = any([option == b"BY" and b"*" not in by for option, by in pairwise(options)])
        return constant and self.client.run(b"TYPE", words[1]) == b"set"

    def to_theirs(self, words: list[bytes], ours: Any) -> list[bytes]:
        """The request for the real server, which has to pop what ours popped."""
        if words[0].upper() != b"SPOP" or fault(ours) is not None:
            return words
        popped = list(ours) if isinstance(ours, list | set) else [] if ours is None else [ours]
        return [b"SREM", words[1], *popped] if popped else [b"EXISTS", b"nothing"]

    def forget(self, words: list[bytes]) -> None:
        """After a difference: both forget the keys."""
        if len(words) > 1:
            self.client.run(b"DEL", *words[1:])
            self.answer(self.node, [b"DEL", *words[1:]])

    def same_everywhere(self) -> None:
        """Every key, with what it holds."""
        self.world.exchange()
        names = sorted(self.client.run(b"KEYS", b"*"))
        for node in self.world.nodes:
            assert sorted(node.keys()) == names, self.story(sorted(node.keys()), names)
            self.node = node
            self.same_values(node, names)

    def same_values(self, node: Node, names: list[bytes]) -> None:
        for key in names:
            kind = self.client.run(b"TYPE", key)
            reading: dict[bytes, list[bytes]] = {
                b"string": [b"GET", key],
                b"hash": [b"HGETALL", key],
                b"list": [b"LRANGE", key, b"0", b"-1"],
                b"set": [b"SMEMBERS", key],
                b"zset": [b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
            }
            for words in (reading[kind], [b"TTL", key], [b"TYPE", key]):
                ours = self.answer(node, words)
                theirs = self.client.run(*words)
                assert matches(words, ours, theirs), self.story(ours, theirs)

    def story(self, ours: Any, theirs: Any) -> str:
        last = "\n".join([repr(words) for words in self.history[-12:]])
        return f"\nours:   {ours!r}\ntheirs: {theirs!r}\nafter {len(self.history)}:\n{last}"


class ServedPair(Pair):
    """A real server and one of ours, each with a client that is connected to it."""

    def __init__(self, client: Client, ours: Client, draw: random.Random) -> None:
        super().__init__(client, 1, draw)
        self.ours = ours
        ours.run(b"FLUSHALL")

    def answer(self, node: Node, words: list[bytes]) -> Any:
        return self.ours.run(*words)

    def same_everywhere(self) -> None:
        names = sorted(self.client.run(b"KEYS", b"*"))
        assert sorted(self.ours.run(b"KEYS", b"*")) == names
        self.same_values(self.node, names)
