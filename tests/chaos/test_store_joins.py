"""Nodes that join a store and leave it while clients write: nothing is lost, nothing twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.chaos.store_load import Load
from tests.chaos.stores import Stores

BALLAST = 20_000


def fill(stores: Stores, name: str) -> None:
    """So that there is a state to hand over."""
    with stores.client(name) as client, client.pipeline(transaction=False) as pipe:
        for number in range(BALLAST):
            pipe.set(f"ballast:{number}", "x" * 50)
        pipe.execute()


def join(stores: Stores, name: str) -> None:
    """Begin a node that takes over the state, and look at once."""
    stores.add(name)
    stores.start(name)
    stores.wait_ready(name)
    with stores.client(name) as client:
        assert client.get(f"ballast:{BALLAST - 1}") == "x" * 50


def test_a_node_joins_and_leaves_while_clients_write(tmp_path: Path):
    with Stores(tmp_path, "ab", is_journaled=False, is_elastic=True) as stores:
        fill(stores, "a")
        with Load(stores) as load:
            join(stores, "c")
            time.sleep(0.5)
        print(load.verify())
        stores.stop("b")
        stores.names.remove("b")
        load.verify()
        stores.end()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nodes_join_and_leave_for_a_minute(tmp_path: Path):
    with Stores(tmp_path, "ab", is_journaled=False, is_elastic=True) as stores:
        fill(stores, "a")
        with Load(stores) as load:
            for name in "cdefg":
                join(stores, name)
                time.sleep(2.0)
                if name != "g":
                    stores.stop(name)
                    stores.names.remove(name)
        print(load.verify())
        stores.end()
