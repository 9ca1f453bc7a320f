"""What a command makes of a key is whole, or the key is what it was: RENAME, COPY and STORE."""

from __future__ import annotations

import random

import pytest

from tests.client.meshes import run
from tests.store.stores import shown, world
from thence.client import replica
from thence.store.commands import copies

LIMIT_BYTES = 4000
CASES = {
    "RENAME": ("RENAME l target", "LRANGE target 0 -1", "LRANGE l 0 -1"),
    "COPY of a list": ("COPY l target REPLACE", "LRANGE target 0 -1", "LRANGE l 0 -1"),
    "COPY of a set": ("COPY u target REPLACE", "SMEMBERS target", "SMEMBERS u"),
    "COPY of a text": ("COPY x target REPLACE", "CRDT.GET target", "CRDT.GET x"),
    "SUNIONSTORE": ("SUNIONSTORE target t u", "SMEMBERS target", "SUNION t u"),
    "SORT": ("SORT l ALPHA DESC STORE target", "LRANGE target 0 -1", "SORT l ALPHA DESC"),
    "ZUNIONSTORE": (
        "ZUNIONSTORE target 2 t u",
        "ZRANGE target 0 -1 WITHSCORES",
        "ZUNION 2 t u WITHSCORES",
    ),
    "ZRANGESTORE": (
        "ZRANGESTORE target z 0 -1",
        "ZRANGE target 0 -1 WITHSCORES",
        "ZRANGE z 0 -1 WITHSCORES",
    ),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replica, "BATCH_BYTES_MAX", LIMIT_BYTES)
    monkeypatch.setattr(copies, "OPERATION_BYTES_MAX", LIMIT_BYTES)
    monkeypatch.setattr(copies, "PIECE_BYTES", LIMIT_BYTES // 4)


@pytest.mark.parametrize("case", CASES)
def test_what_is_too_large_for_one_operation_is_written_anew_in_several(case: str):
    command, after, expected = CASES[case]
    letters = random.Random(1)

    async def main() -> None:
        async with world("ab") as made:
            for number in range(30):
                word = "".join(letters.choices("abc", k=300))
                await made.do("a", f"RPUSH l {word}")
                await made.do("a", f"SADD {'tu'[number % 2]} {word} {number}")
                await made.do("a", f"SADD u {word}x")
                await made.do("a", f"ZADD z {number} {word}")
                await made.do("a", f"CRDT.TEXT INSERT x {number * 300} {word}")
            await made.do("a", "SET target precious")
            wanted = shown(await made.do("a", expected))
            await made.do("a", command)
            await made.synced()
            for name in "ab":
                assert shown(await made.do(name, after)) == wanted

    run(main())


@pytest.mark.parametrize(
    "command",
    ["RENAME t {}", "COPY t {} REPLACE", "SUNIONSTORE {} t", "SORT t ALPHA STORE {}"]
    + ["ZUNIONSTORE {} 1 t", "ZRANGESTORE {} z 0 -1"],
)
def test_what_cannot_be_written_replaces_nothing(command: str):
    target, member = "k" * (LIMIT_BYTES // 2), "m" * (LIMIT_BYTES // 2)

    async def main() -> None:
        async with world("a") as made:
            await made.do("a", f"SADD t {member}")
            await made.do("a", f"ZADD z 1 {member}")
            await made.do("a", f"SET {target} precious")
            with pytest.raises(Exception, match=f"an operation has at most {LIMIT_BYTES} bytes"):
                await made.do("a", command.format(target))
            assert await made.do("a", f"GET {target}") == "precious"
            assert await made.do("a", "EXISTS t z") == 2

    run(main())
