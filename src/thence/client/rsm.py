"""A replicated state machine on a group whose engine orders everything for all (Garg 12.3.4).

Every member applies the same commands in the same order, its own ones included, so all have the
same state and give the same outputs, if applying depends on nothing but state and command.  Then t
crashes of t + 1 members are survived when crashes are detected reliably: the simulator knows, an
operator vouches for it (``Group.evict(name, is_dead=True)``).  Where a member is only suspected, a
majority must be left to decide that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final

from thence.client.events import Delivered
from thence.client.group import Group
from thence.errors import Full, LocalProtocolError

ONE_ORDER: Final = ("total", "causal-total", "synchronous")
Apply = Callable[[bytes], bytes]
"""Changes the state by a command; its output."""


class StateMachine:
    """One member's copy.  It takes all events of its group; use it with ``async with``."""

    def __init__(self, group: Group, apply: Apply) -> None:
        """``apply`` is called with each command, in the order of the group."""
        spec = group.driver.spec
        if spec.guarantee not in ONE_ORDER or not spec.own:
            raise LocalProtocolError(
                f"engine {spec.name} does not order everything for all: a state machine needs one "
                f"with guarantee {' or '.join(ONE_ORDER)} (thence engines)"
            )
        self.group = group
        self._apply = apply
        self.applied = 0
        """Commands applied here."""
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._task: asyncio.Task[None] | None = None

    async def submit(self, command: bytes) -> bytes:
        """Have every member apply a command; its output here.  What ``apply`` raises is raised
        here, and the machine goes on: it is the same at every member."""
        if self._task is None or self._task.done():
            raise LocalProtocolError("this state machine does not run: use it with async with")
        while True:
            try:
                tag = self.group.try_broadcast(command)
                break
            except Full:
                await self.group.until_room()
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[tag.seq] = done
        return await done

    async def __aenter__(self) -> StateMachine:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        slot = self.group.driver.slot
        try:
            async for event in self.group.events():
                if isinstance(event, Delivered):
                    self._carry_out(event.payload, event.tag.seq if event.tag.origin == slot else 0)
        finally:
            for done in self._waiting.values():
                if not done.done():
                    done.set_exception(LocalProtocolError("the state machine has stopped"))

    def _carry_out(self, command: bytes, seq: int) -> None:
        done = self._waiting.pop(seq, None)
        self.applied += 1
        try:
            output = self._apply(command)
        except Exception as error:
            if done is not None and not done.done():
                done.set_exception(error)
        else:
            if done is not None and not done.done():
                done.set_result(output)
