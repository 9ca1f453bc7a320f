"""What ``--debug link`` and ``--debug order`` show: the exchange with peers, and the order.

Nothing of it is there in a node that was not asked for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from thence.causal.dot import Dot
from thence.client.runtime import Runtime
from thence.client.tracing import Tracing
from thence.message import Phantom, WireMessage
from thence.telemetry.logs import LINK, ORDER, event

_link: Final = logging.getLogger(LINK)
_order: Final = logging.getLogger(ORDER)

MakeTracing = Callable[[int], Tracing]


def watch_links(runtime: Runtime) -> None:
    """Log acknowledgements, what is sent again, and how datagrams fare."""
    runtime.watch(_LinkWatch(runtime).look)


def watch_order(runtime: Runtime) -> None:
    """Log the hold-back queues as they change."""
    runtime.watch(_OrderWatch(runtime).look)


def debug_tracing(group: str, names: Sequence[str], make: MakeTracing | None) -> MakeTracing:
    """Log what a trace is told, beside the trace if there is one."""

    def made(at: int) -> Tracing:
        return OrderLog(group, names, None if make is None else make(at))

    return made


class _LinkWatch:
    """Compares at the end of each turn with the turn before."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._flows: dict[tuple[str, str], tuple[int, ...]] = {}
        self._stats: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        hub = self._runtime.hub
        for driver in hub.drivers.values():
            for flow in driver.exchange.peers:
                self._look_at(driver.group, flow)
        for peer, link in hub.by_peer.items():
            stats = getattr(link.connection, "stats", None)
            if stats is None:
                continue
            found = (stats.resent, stats.timeouts)
            if self._stats.get(peer, (0, 0)) != found:
                self._stats[peer] = found
                event(
                    _link, logging.DEBUG, "datagrams sent again", peer=peer, resent=stats.resent,
                    timeouts=stats.timeouts, rtt_ms=stats.rtt_ms, timeout_ms=stats.timeout_ms,
                    in_flight=stats.in_flight, window=stats.window,
                )  # fmt: skip

    def _look_at(self, group: str, flow: Any) -> None:
        key, fields = (group, flow.name), {"group": group, "peer": flow.name}
        acked, told, resent, sent = self._flows.get(key, (0, 0, 0, 0))
        now = (flow.acked, flow.told, flow.resent, flow.sent)
        if now == (acked, told, resent, sent):
            return
        self._flows[key] = now
        if flow.resent != resent:
            again = flow.resent - resent
            event(_link, logging.DEBUG, "sends again", **fields, messages=again, after=flow.acked)
        elif flow.sent > sent:
            event(_link, logging.DEBUG, "sent", **fields, up_to=flow.sent, credit_up_to=flow.limit)
        if flow.acked != acked:
            event(_link, logging.DEBUG, "acknowledged", **fields, up_to=flow.acked, of=flow.sent)
        if flow.told != told:
            limit = flow.told_limit
            event(
                _link, logging.DEBUG, "acknowledges", **fields, up_to=flow.told, credit_up_to=limit
            )


class _OrderWatch:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: dict[str, list[int]] = {}

    def look(self) -> None:
        for driver in self._runtime.hub.drivers.values():
            waiting = driver.engine.waiting()
            held = [each.dot for each in waiting]
            if held == self._held.get(driver.group, []):
                continue
            self._held[driver.group] = held
            first = {}
            if waiting:
                first = {
                    "first": driver.dot(waiting[0].dot),
                    "waits_for": driver.dot(waiting[0].missing),
                }
            event(
                _order, logging.DEBUG, "hold-back queue", group=driver.group, held=len(held),
                **first,
            )  # fmt: skip


class _NoLog:
    """Stands for the log of a node that writes none."""

    ended = False

    def __len__(self) -> int:
        return 0

    def append(self, *given: Any, **more: Any) -> int:
        return 0

    def flush(self) -> int:
        return 0

    def due(self, now: float) -> bool:
        return False

    def seal(self, position: int) -> None:
        pass

    def close(self) -> None:
        pass


class OrderLog(Tracing):
    """Logs what happens to messages, with their stamps: dot and immediate predecessors."""

    def __init__(self, group: str, names: Sequence[str], inner: Tracing | None) -> None:
        log: Any = _NoLog() if inner is None else inner.log
        super().__init__(log, names, False)
        self._group = group
        self._inner = inner or Tracing(log, names, False)

    def sent(self, now_us: int, tag: Any, message: WireMessage) -> None:
        self._say("sent", dot=self._dot(tag), after=_stamp(tag))
        self._inner.sent(now_us, tag, message)

    def arrived(self, now_us: int, messages: Sequence[WireMessage]) -> None:
        first, last = (getattr(message, "seq", 0) for message in (messages[0], messages[-1]))
        origin = self._names[messages[0].origin]
        self._say("arrived", origin=origin, first=first, last=last, messages=len(messages))
        self._inner.arrived(now_us, messages)

    def ready(self, now_us: int, tags: Sequence[Any]) -> None:
        for tag in tags:
            self._say("ready", dot=self._dot(tag), after=_stamp(tag))
        self._inner.ready(now_us, tags)

    def delivered(self, now_us: int, tag: Any) -> None:
        self._say("delivered", dot=self._dot(tag))
        self._inner.delivered(now_us, tag)

    def told(self, now_us: int, tag: Any) -> None:
        self._say("stable", dot=self._dot(tag))
        self._inner.told(now_us, tag)

    def announced(self, now_us: int, phantom: Phantom, context: Sequence[Dot]) -> None:
        self._say("phantom", dot=self._phantom_dot(phantom), after=_joined(context))
        self._inner.announced(now_us, phantom, context)

    def heard(self, now_us: int, phantom: Phantom, peer: str) -> None:
        named = [self._named(packed) for packed in phantom.context]
        self._say("phantom heard", dot=self._phantom_dot(phantom), after=_joined(named))
        self._inner.heard(now_us, phantom, peer)

    def restarted(
        self, now_us: int, taken: Sequence[Dot], told: Sequence[Dot],
        members: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        more = {} if members is None else {"members": ", ".join(members)}
        self._say("restarted", taken=_joined(taken), told=_joined(told), **more)
        self._inner.restarted(now_us, taken, told, members)

    def ended(self, now_us: int) -> None:
        self._inner.ended(now_us)

    def _say(self, text: str, **fields: object) -> None:
        event(_order, logging.DEBUG, text, group=self._group, **fields)


def _joined(dots: Sequence[Any]) -> str:
    return ",".join(map(str, dots)) or "-"


def _stamp(tag: Any) -> str:
    """Its immediate predecessors, or the vector of an engine that tags by vectors."""
    vector = getattr(tag, "vector", None)
    return str(list(vector)) if vector is not None else _joined(getattr(tag, "context", ()))
