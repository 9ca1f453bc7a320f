"""When is a group of processes done?  Pure: what nodes say of themselves in, a verdict out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from thence.errors import ThenceError
from thence.lab.orders import GroupOrders

STALL_S: Final = 60.0
"""A group that makes no progress for so long has failed."""
QUIET_S: Final = 1.0
"""Where not all messages become stable: no more do when none did for so long."""


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """How far a node is."""

    sent: int
    delivered: int
    stable: int


class Watch:
    """Looks at a group again and again until everything is delivered and, as far as it can be,
    stable."""

    def __init__(self, orders: GroupOrders, now: float) -> None:
        self._orders = orders
        self._wait_s = max(STALL_S, 10 * orders.interval_ms / 1000)
        self._quiet_s = max(QUIET_S, _longest_s(orders))
        self._before: dict[str, Counts] = {}
        self._progress = 0
        self._moved = now

    @property
    def delivered(self) -> int:
        """Deliveries so far, of ``orders.deliveries``."""
        return sum(each.delivered for each in self._before.values())

    def look(self, counts: Mapping[str, Counts], now: float) -> bool:
        """Whether the group is done; ThenceError if it has stopped before that."""
        self._before = found = dict(counts)
        if (progress := self._progress_of(found)) > self._progress:
            self._progress, self._moved = progress, now
        quiet_s = now - self._moved
        if len(found) == len(self._orders.nodes) and all(map(self._has_all, found)):
            if not self._orders.is_stability_on:
                return True
            if self._orders.all_stable:
                if all(each.stable >= self._orders.messages for each in found.values()):
                    return True
            elif quiet_s > self._quiet_s:
                return True
        if quiet_s > self._wait_s:
            raise ThenceError(
                f"the group has made no progress for {self._wait_s:g} s: {self._state()}"
            )
        return False

    def _progress_of(self, counts: Mapping[str, Counts]) -> int:
        """Grows while a group makes progress, and has an end.

        Counts come from other machines: a node that counts on for ever, or up and down, must not
        keep a run going.
        """
        most = self._orders.messages
        found = len(counts)
        for each in counts.values():
            found += sum(min(count, most) for count in (each.sent, each.delivered, each.stable))
        return found

    def _has_all(self, name: str) -> bool:
        own, found = self._orders.node(name).send, self._before[name]
        return found.sent >= own and found.delivered >= self._orders.takes(name)

    def _state(self) -> str:
        silent = [name for name in self._orders.names if name not in self._before]
        behind = [name for name in self._before if not self._has_all(name)]
        if silent:
            return f"{', '.join(silent)} did not say a word"
        if behind:
            name = behind[0]
            each, own = self._before[name], self._orders.node(name).send
            return (
                f"{name} sent {each.sent:,} of {own:,} messages and took {each.delivered:,} of "
                f"{self._orders.takes(name):,}"
            )
        name, each = min(self._before.items(), key=lambda item: item[1].stable)
        return f"at {name} {each.stable:,} of {self._orders.messages:,} messages became stable"


def _longest_s(orders: GroupOrders) -> float:
    """What is on its way for that long must not count as the end."""
    delays = [ms for node in orders.nodes for ms in (*node.delay_to.values(),
                                                     *node.vary_to.values())]  # fmt: skip
    phantoms = [node.phantom_ms or 0.0 for node in orders.nodes]
    return 3 * max([0.0, *delays, *phantoms]) / 1000
