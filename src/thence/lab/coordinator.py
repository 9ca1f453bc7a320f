"""The coordinator of a lab on many machines (thesis 8.2.1): waits for workers, hands out the nodes
of each run, starts and stops it, and collects the logs.

What is said and done in a run is decided in assignment.py, who is a worker in door.py; here are the
run folders.  A run in which a worker is lost, or a node fails, is tried once more when all workers
are there again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from thence.blocking.background import Caller
from thence.errors import ThenceError
from thence.lab.assignment import Assignment, Effects
from thence.lab.door import Door, Worker, WorkersOptions
from thence.lab.orders import GroupOrders, orders_of
from thence.lab.plan import RunPlan
from thence.lab.processes import (
    NODES_FOLDER,
    Progress,
    begin_folder,
    close_folder,
    ended_by_signals,
)

TRIES: Final = 2
"""Of each run."""
TICK_S: Final = 0.1

Say = Callable[[str], None]
Workers = dict[str, Worker]


class Coordinator:
    """For the thread that goes through the runs; connections are served in the background.

    ``with Coordinator(options, say) as coordinator: coordinator.run(plan, folder, progress)``.
    ``say`` is told, in the same thread, what a person should know.
    """

    def __init__(self, options: WorkersOptions, say: Say) -> None:
        """UnusableInputError if the options cannot be."""
        options.check()
        self._options = options
        self._say = say
        self._caller = Caller()
        self._door: Door | None = None
        self._runs = 0

    def __enter__(self) -> Coordinator:
        self._caller.begin()
        try:
            self._door = self._caller.call(Door, self._options)
            self._caller.wait(self._door.open())
        except BaseException:
            self._caller.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(kind is None)

    def close(self, is_done: bool) -> None:
        """Send the workers home when all is done, else let them wait for the next coordinator;
        may be called again."""
        if self._caller.is_on:
            try:
                self._caller.wait(self.door.close("all runs are done" if is_done else ""))
            finally:
                self._caller.end()

    @property
    def door(self) -> Door:
        """Where workers come in."""
        assert self._door is not None, "used outside `with`"
        return self._door

    def run(self, plan: RunPlan, folder: Path, progress: Progress | None) -> None:
        """Carry a plan out on the workers; the run folder is complete then."""
        orders = orders_of(plan)
        with ended_by_signals():
            for left in reversed(range(TRIES)):
                workers = self._wait(progress)
                info = begin_folder(plan, "workers", folder, is_one_machine=False)
                failed = self._try(orders, workers, folder, progress)
                if not failed:
                    close_folder(folder, info)
                    return
                if not left:
                    raise ThenceError(failed)
                self._say(f"{failed}; the run is tried once more")

    def _try(
        self, orders: GroupOrders, workers: Workers, folder: Path, progress: Progress | None
    ) -> str:
        """Why it failed, if it did."""
        self._runs += 1
        work = self._caller.call(Work, self.door, workers, folder, self._runs, orders)
        try:
            while not self._caller.wait(work.go_on()):
                if progress is not None:
                    progress("deliveries", work.assignment.delivered, orders.deliveries)
        finally:
            self._caller.wait(work.end())
        return work.assignment.failed

    def _wait(self, progress: Progress | None) -> Workers:
        """All workers, once they are here; ThenceError if that takes too long."""
        wanted, deadline = self._options.workers, time.monotonic() + self._options.wait_s
        while (here := len(found := self._here())) < wanted:
            if progress is not None:
                progress("waiting for workers", here, wanted)
            if time.monotonic() > deadline:
                refused = self.door.refused
                raise ThenceError(
                    f"{here} of {wanted} workers are there after {self._options.wait_s:g} s; start "
                    f"the others with: thence lab worker --coordinator {self.door.address}"
                    + (f" (refused last: {refused})" if refused else "")
                )
            time.sleep(TICK_S)
        return found

    def _here(self) -> Workers:
        return self._caller.call(self.door.workers.copy)


class Work:
    """One try of one run: carries out what its assignment says."""

    def __init__(
        self, door: Door, workers: Workers, folder: Path, run: int, orders: GroupOrders
    ) -> None:
        self._door = door
        self._folder = folder
        self._workers = workers  # one that has gone meanwhile is missed at the first look
        self._clock = asyncio.get_running_loop().time
        seats = {name: worker.seat for name, worker in self._workers.items()}
        self.assignment = Assignment(run, orders, seats, self._clock())
        self._out = Effects()
        self.assignment.begin(self._out)
        (folder / NODES_FOLDER).mkdir()

    async def go_on(self) -> bool:
        """Some of the run; whether it is over."""
        assignment = self.assignment
        await self._carry_out()
        until = self._clock() + TICK_S
        while not assignment.failed and not assignment.is_done and self._clock() < until:
            await self._hear(until)
            for name, worker in self._workers.items():
                if self._door.workers.get(name) is not worker:
                    assignment.lost(name, worker.why)
            assignment.tick(self._clock(), self._out)
            await self._carry_out()
        return bool(assignment.failed) or assignment.is_done

    async def _hear(self, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                worker, said = await self._door.inbox.get()
        except TimeoutError:
            return
        if self._workers.get(worker.name) is worker:
            self.assignment.receive(worker.name, said, self._clock(), self._out)

    async def _carry_out(self) -> None:
        out, self._out = self._out, Effects()
        for write in out.write:
            path = self._folder / NODES_FOLDER / write.file
            with path.open("ab") as file:
                file.write(write.data)
            if write.is_last:
                os.replace(path, self._folder / write.file)
        for name, message in out.send:
            await self._door.send(self._workers[name], message)

    async def end(self) -> None:
        """Have the workers forget the run, and send away who broke the rules."""
        if self.assignment.bad:
            await self._door.expel(self._workers[self.assignment.bad], self.assignment.failed)
        self.assignment.drop(self._out)
        await self._carry_out()
        shutil.rmtree(self._folder / NODES_FOLDER, ignore_errors=True)
