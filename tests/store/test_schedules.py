"""What two replicas make of concurrent commands, against the documentation of Active-Active."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.client.meshes import run
from tests.store.schedules import SCHEDULES, Schedule
from tests.store.stores import World, shown, world
from tests.tracked import ROOT

PAGE = ROOT / "docs" / "howto" / "store.md"
NAMES = {"1": "a", "2": "b"}
APART_S = 0.003
"""Between two commands, so that clocks show which came first."""


async def play(made: World, schedule: Schedule, is_stable: bool, patch: pytest.MonkeyPatch) -> None:
    await made.cut()
    for line in schedule.text.strip().splitlines():
        first, _, rest = line.strip().partition(" ")
        if first == "sync":
            await made.heal()
            if is_stable:
                await made.stable()
            await made.cut()
        elif first == "same":
            now_ns = time.time_ns()
            patch.setattr("thence.client.replica.time.time_ns", lambda now_ns=now_ns: now_ns)
        elif first == "wait":
            await asyncio.sleep(int(rest) / 1000)
        else:
            command, _, expected = rest.partition(" => ")
            reply = shown(await made.do(NAMES[first], command))
            if expected:
                assert reply == expected, line
            await asyncio.sleep(APART_S)
    await made.heal()


@pytest.mark.parametrize("is_stable", [False, True], ids=["at once", "stable between"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: each.name)
def test_two_replicas_come_out_as_documented(
    schedule: Schedule, is_stable: bool, monkeypatch: pytest.MonkeyPatch
):
    async def main() -> None:
        async with world("ab") as made:
            await play(made, schedule, is_stable, monkeypatch)

    run(main())


def test_the_documentation_lists_every_schedule_with_what_differs():
    page = PAGE.read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    found = {row[0].strip(): (row[1].strip(), row[2].strip()) for row in rows if len(row) == 3}
    for each in SCHEDULES:
        source, outcome = found[each.name]
        assert (f"({each.source})" in source) if each.source else source == "not in there"
        assert outcome == (each.differs or ("as documented" if each.source else "ours"))
