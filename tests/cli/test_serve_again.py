"""What ``thence serve`` looks after once its node has joined again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.test_node import PATIENCE_S
from tests.client.meshes import QUICK, run
from tests.store.stores import until
from tests.store.test_node import HASTY, elastic
from thence.cli.process import Stop
from thence.cli.serve import _Serving
from thence.client.node import Node
from thence.errors import JournalError
from thence.journal.sqlite import SqliteJournal
from thence.store.node import Site
from thence.store.settings import Settings


def test_a_disk_that_is_full_after_an_eviction_ends_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def main() -> None:
        rejoining = replace(HASTY, rejoin=True)
        node = Node("c", listen="mem://c", join="mem://a", timing=QUICK, membership=rejoining,
                    data=tmp_path)  # fmt: skip
        site = Site(Settings(port=0))
        async with elastic("a") as a, elastic("b", join="mem://a") as b:
            await node.start()
            await node.group(**site.hooks)
            serving = asyncio.ensure_future(_Serving(node, "main", site).serve(Stop()))
            await until(lambda: "c" in a.group.members and "b" in a.group.members)
            a.group.evict("c")
            await until(lambda: node.groups["main"].node == "c#2")
            monkeypatch.setattr(SqliteJournal, "commit", full)
            site.database.write(b"k", b"v")
            with pytest.raises(JournalError, match="the disk is full"):
                await asyncio.wait_for(serving, PATIENCE_S)
            with pytest.raises(JournalError, match="the disk is full"):
                await node.aclose(drain_s=0.0)
            for store in (b, a):
                await store.aclose(drain_s=0.0)

    def full(self: SqliteJournal) -> None:
        raise JournalError("the disk is full")

    run(main())
