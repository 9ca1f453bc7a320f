"""What the engines' calls cost in real CPU time, beside the virtual time in which they take none.

``around`` puts a clock around the engine of each node.  A call that released a message or told
that one is stable becomes a row: when (virtual), how long (thread CPU time), how many of each.  The
k-th ``ready`` record of a node's log is of the row where the sum of ``ready`` passes k; likewise
``stable`` records, which follow in the order in which the engine told them.  Hollow messages have
no records and are not counted.

Reading the clock takes some time itself, part of which falls between its two readings:
``clock_ns`` is how much.  It is told, and not subtracted.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import thread_time_ns
from typing import Any, Final

from thence.engine.base import Engine
from thence.engine.effects import Effects
from thence.message import Phantom, WireMessage
from thence.sim.clock import Clock

_READINGS: Final = 2001


class Meter:
    """Of a whole run."""

    clock: Clock
    """Set by the run before anything happens."""

    def __init__(self) -> None:
        self.engines: list[MeteredEngine] = []

    def around(self, slot: int, engine: Engine) -> Engine:
        """The engine of the next slot, measured."""
        self.engines.append(MeteredEngine(self, engine))
        return self.engines[-1]

    def write(self, folder: Path, names: Sequence[str]) -> None:
        """The file of the rows, beside the trace; never part of what is repeated byte for byte."""
        from thence.trace.work import CpuWriter, Total  # and pyarrow, which simulations do without

        with CpuWriter(folder, clock_ns()) as writer:
            for name, engine in zip(names, self.engines, strict=True):
                writer.calls(name, engine.rows, Total(calls=engine.calls, ns=engine.ns))


class MeteredEngine:
    """An engine and the time that its calls took."""

    def __init__(self, meter: Meter, engine: Engine) -> None:
        self._meter = meter
        self._engine = engine
        self._receive = engine.receive
        self._forget = engine.forget
        self.rows = array("q")
        """t_us, ns, ready, stable of each call that has one: four numbers in a row."""
        self.calls = 0
        self.ns = 0

    def __getattr__(self, name: str) -> Any:
        """What is not measured."""
        return getattr(self._engine, name)

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        begin = thread_time_ns()
        self._receive(peer, message, out)
        self._took(thread_time_ns() - begin, out)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        begin = thread_time_ns()
        self._engine.receive_many(peer, messages, out)
        self._took(thread_time_ns() - begin, out)

    def broadcast(self, tag: Any, out: Effects) -> None:
        begin = thread_time_ns()
        self._engine.broadcast(tag, out)
        self._took(thread_time_ns() - begin, out)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        begin = thread_time_ns()
        self._engine.announce(phantom, out)
        self._took(thread_time_ns() - begin, out)

    def flush(self, out: Effects) -> None:
        begin = thread_time_ns()
        self._engine.flush(out)
        self._took(thread_time_ns() - begin, out)

    def forget(self, tag: Any) -> None:
        begin = thread_time_ns()
        self._forget(tag)
        self.ns += thread_time_ns() - begin
        self.calls += 1

    def waiting(self) -> Any:
        return self._engine.waiting()

    def words(self) -> int:
        return self._engine.words()

    def _took(self, ns: int, out: Effects) -> None:
        self.ns += ns
        self.calls += 1
        if out.deliver or out.stable:
            ready, stable = _recorded(out.deliver), _recorded(out.stable)
            if ready or stable:
                self.rows.extend((self._meter.clock.now_us, ns, ready, stable))


def _recorded(tags: list[Any]) -> int:
    """How many of them have a record; engines without multicasts have no hollow tags."""
    return sum(not getattr(tag, "hollow", False) for tag in tags)


def clock_ns() -> int:
    """What two readings of the clock with nothing between them measure."""
    found = []
    for _ in range(_READINGS):
        begin = thread_time_ns()
        found.append(thread_time_ns() - begin)
    return int(median(found))
