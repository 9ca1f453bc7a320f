"""Replicated state machines on real groups: same outputs everywhere, also when members crash."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.meshes import mesh, run, started, until
from thence import StateMachine
from thence.client.rsm import ONE_ORDER
from thence.engine.registry import ENGINES
from thence.errors import LocalProtocolError

TOTAL = [name for name, spec in ENGINES.items() if spec.guarantee in ONE_ORDER]
SURVIVORS = [name for name in TOTAL if ENGINES[name].survives]
each_total = pytest.mark.parametrize("engine", TOTAL)
NAMES = "abc"


class Account:
    """A balance that must not go below zero."""

    def __init__(self) -> None:
        self.balance = 0
        self.log: list[bytes] = []

    def apply(self, command: bytes) -> bytes:
        change = int(command)
        if self.balance + change < 0:
            self.log.append(b"refused")
            raise ValueError("there is not enough")
        self.balance += change
        self.log.append(b"%d" % self.balance)
        return self.log[-1]


@each_total
def test_all_members_apply_the_same_commands_in_the_same_order(engine: str):
    async def main() -> None:
        async with mesh(NAMES, engine=engine) as groups:
            accounts = [Account() for _ in groups]
            machines = [
                StateMachine(group, account.apply)
                for group, account in zip(groups, accounts, strict=True)
            ]
            async with machines[0], machines[1], machines[2]:
                submitted = [
                    asyncio.create_task(machine.submit(b"%d" % (number + 10 * at)))
                    for at, machine in enumerate(machines)
                    for number in range(20)
                ]
                outputs = await asyncio.gather(*submitted)
                with pytest.raises(ValueError, match="not enough"):
                    await machines[1].submit(b"-100000")
                await until(lambda: all(machine.applied == 61 for machine in machines))
            assert accounts[0].log == accounts[1].log == accounts[2].log
            assert sorted(outputs) == sorted(accounts[0].log[:-1])

    run(main())


@pytest.mark.parametrize("engine", SURVIVORS)
@pytest.mark.parametrize("gone", NAMES)
def test_a_machine_survives_the_crash_of_any_member(engine: str, gone: str):
    async def main() -> None:
        async with started(NAMES) as nodes:
            groups = {
                name: await node.group(members=NAMES, engine=engine) for name, node in nodes.items()
            }
            for group in groups.values():
                await group.until_connected()
            accounts = {name: Account() for name in NAMES}
            machines = {name: StateMachine(groups[name], accounts[name].apply) for name in NAMES}
            left = [name for name in NAMES if name != gone]
            running = [await machine.__aenter__() for machine in machines.values()]
            submitted = [
                asyncio.create_task(machines[name].submit(b"1")) for name in NAMES for _ in range(5)
            ]
            await asyncio.sleep(0)
            await machines[gone].__aexit__(None, None, None)
            await nodes.pop(gone).aclose(drain_s=0)
            for name in left:
                groups[name].evict(gone, is_dead=True)
                groups[name].evict(gone, is_dead=True)  # once more does no harm
                assert gone not in groups[name].members
            await asyncio.gather(*submitted, return_exceptions=True)
            outputs = await asyncio.gather(*(machines[name].submit(b"1") for name in left))
            assert len(set(outputs)) == 2
            await until(lambda: machines[left[0]].applied == machines[left[1]].applied)
            assert accounts[left[0]].log == accounts[left[1]].log
            for machine in running:
                if machine is not machines[gone]:
                    await machine.__aexit__(None, None, None)

    run(main())


def test_it_needs_an_engine_that_orders_everything():
    async def main() -> None:
        async with mesh("ab", engine="fifo") as groups:
            with pytest.raises(LocalProtocolError, match="engine fifo does not order everything"):
                StateMachine(groups[0], bytes)
            with pytest.raises(LocalProtocolError, match="do not change"):
                groups[0].evict("b", is_dead=True)

    run(main())


def test_a_member_that_may_live_is_not_let_go():
    async def main() -> None:
        async with mesh("ab", engine="sequencer") as groups:
            with pytest.raises(LocalProtocolError, match="vouch for that"):
                groups[0].evict("b")
            with pytest.raises(LocalProtocolError, match="not one of the other members"):
                groups[0].evict("a", is_dead=True)
            with pytest.raises(LocalProtocolError, match="does not run"):
                await StateMachine(groups[0], bytes).submit(b"x")

    run(main())
