"""Nodes of the store as processes: killed, cut off and joined by others while clients work.

The short ones are part of every test run; ``make soak`` runs the long ones too.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.store_load import Load, Wrong
from tests.chaos.stores import Stores

LONG_S = float(os.environ.get("THENCE_CHAOS_S", "150"))
SHORT_S = 0.0


def torment(stores: Stores, seconds: float, between_s: float = 0.5) -> int:
    """Kill each node in turn, at least once, and start it again; how often that was."""
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end or count < len(stores.names):
        name = stores.names[count % len(stores.names)]
        stores.kill(name)
        stores.start(name)
        stores.wait_ready(name)
        time.sleep(between_s)
        count += 1
    return count


def go_through(folder: Path, seconds: float, **options: Any) -> None:
    with Stores(folder, **options) as stores:
        with Load(stores) as load:
            time.sleep(0.3)
            kills = torment(stores, seconds)
        print(f"{kills} kills in {seconds:g} s: {load.verify()}")
        stores.end()


def test_killed_in_turn_under_load_they_lose_nothing_and_do_nothing_twice(tmp_path: Path):
    go_through(tmp_path, SHORT_S)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_killed_in_turn_for_minutes_they_lose_nothing(tmp_path: Path):
    go_through(tmp_path, LONG_S)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", ["answer_early", "apply_twice", "forget_removals"])
def test_a_store_that_recovers_wrongly_is_found(tmp_path: Path, bug: str):
    with pytest.raises(Wrong):
        go_through(tmp_path, 40.0, sabotage=bug)
