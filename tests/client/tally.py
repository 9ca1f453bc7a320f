"""An application that counts, whose state is kept in the journal; also as a process to be killed.

    python -m tests.client.tally NAME FOLDER URL_A URL_B

A message says a word, which depends on its sender and number alone: so it is known what the counts
have to be.  Each number whose broadcast returned is appended to FOLDER/NAME.acked.  SIGUSR1: send
no more, and say in FOLDER/NAME.counts, again and again, what there is.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from thence.client.group import Group
from thence.client.kept import Find
from thence.config import JournalConfig, NodeConfig, TimingConfig

TIMING = TimingConfig(reconnect_ms_min=10.0, reconnect_ms_max=100.0, drain_s=5.0)
CHECKPOINT_BYTES = 4096


def word(node: str, seq: int) -> str:
    """What this message says."""
    return f"w{(seq * 7 + len(node) + ord(node[0])) % 23}"


def expected(last: dict[str, int]) -> dict[str, int]:
    """The counts when so many messages of each node were counted."""
    return dict(Counter(word(node, seq) for node, to in last.items() for seq in range(1, to + 1)))


class Tally:
    """Counts words.  A message that is missing or comes twice is an error at once."""

    is_settled = True

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.last: dict[str, int] = {}
        """By node, the number of its last message that is counted."""
        self.unstable: dict[str, list[int]] = {}
        self.begun = 0
        self.rows_found = 0
        self._changed: dict[bytes, None] = {}

    def restore(self, chunks: Iterator[bytes]) -> None:
        for chunk in chunks:
            self._load(json.loads(key) for key in chunk.split(b"\n") if key)

    def snapshot(self) -> Iterator[bytes]:
        for key in self._keys():
            yield json.dumps([key.decode(), self._row(key)]).encode() + b"\n"

    def begin(self, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
        self.begun += 1
        found = [(key.decode(), json.loads(value)) for key, value in rows]
        self.rows_found = len(found)
        self._load(found)
        self._changed = dict.fromkeys(() if found else self._keys())
        for node, numbers in self.unstable.items():
            left = [seq for seq in numbers if find(node, seq) is not None]
            assert left == numbers or not found, "those that are stable were told so"
            self.unstable[node] = left

    def sent(self, tag: Any) -> None:
        self._count(tag)

    def delivered(self, tag: Any) -> None:
        self._count(tag)

    def stable(self, tag: Any) -> None:
        node = tag.past.node_of(tag.packed)
        assert self.unstable[node].pop(0) == tag.seq, f"{tag} is stable, before another or twice"
        self._changed[b"n " + node.encode()] = None

    def _count(self, tag: Any) -> None:
        node, said = tag.past.node_of(tag.packed), tag.payload.decode()
        assert tag.seq == self.last.get(node, 0) + 1, f"{tag} after {self.last}"
        assert said == word(node, tag.seq)
        self.last[node] = tag.seq
        self.unstable.setdefault(node, []).append(tag.seq)
        self.counts[said] = self.counts.get(said, 0) + 1
        self._changed[b"w " + said.encode()] = self._changed[b"n " + node.encode()] = None

    def rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        changed, self._changed = self._changed, {}
        for key in changed:
            yield key, json.dumps(self._row(key)).encode()

    def _keys(self) -> list[bytes]:
        return [b"w " + said.encode() for said in self.counts] + [
            b"n " + node.encode() for node in self.last
        ]

    def _row(self, key: bytes) -> Any:
        what, name = key.decode().split(" ")
        return self.counts[name] if what == "w" else [self.last[name], self.unstable[name]]

    def _load(self, rows: Iterable[Any]) -> None:
        for key, value in rows:
            what, name = key.split(" ")
            if what == "w":
                self.counts[name] = value
            else:
                self.last[name], self.unstable[name] = value


async def main(name: str, folder: Path, urls: dict[str, str]) -> None:
    tally = Tally()
    peers = {peer: url for peer, url in urls.items() if peer != name}
    config = NodeConfig(
        name=name, listen=(urls[name],), peers=peers, timing=TIMING,
        journal=JournalConfig(folder=str(folder / name), checkpoint_bytes=CHECKPOINT_BYTES),
    )  # fmt: skip
    quiet = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, quiet.set)
    with (folder / f"{name}.acked").open("a", encoding="utf-8") as acked:
        async with Group(config=config, kept=tally) as group:
            group.on_deliver(tally.delivered)
            group.on_stable(tally.stable)
            while not quiet.is_set():
                seq = tally.last.get(name, 0) + 1
                tally.sent(group.try_broadcast(word(name, seq).encode()))
                await group.synced()
                print(seq, file=acked, flush=True)
                await asyncio.sleep(0.002)
            while True:
                said = {"last": tally.last, "counts": tally.counts, "unstable": tally.unstable}
                fresh = folder / f"{name}.fresh"
                fresh.write_text(json.dumps({**said, "rows": tally.rows_found}))
                os.replace(fresh, folder / f"{name}.counts")
                await asyncio.sleep(0.05)


if __name__ == "__main__":
    _, own, where, *both = sys.argv
    asyncio.run(main(own, Path(where), dict(zip("ab", both, strict=True))))
