"""Rights to count, by replica: how a bound on a counter holds without asking anybody.

A replica may use up what it has, and only it does; others can but give it more.  So whoever carries
out an operation has seen at least the rights that its origin had, in whatever order the rest came.
"""

from __future__ import annotations

from typing import Any, Final

from thence.crdt.base import Stamp
from thence.crdt.scalars import export_exact, load_exact, text_fault

NODE_CHARS_MAX: Final = 255


class Rights:
    """How far each replica may count in one direction."""

    __slots__ = ("of", "total")

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        """Without those that have none."""
        self.total = 0

    def add(self, node: str, amount: int) -> None:
        """``amount`` more; less if it is negative."""
        self.total += amount
        left = self.of.get(node, 0) + amount
        if left:
            self.of[node] = left
        else:
            self.of.pop(node, None)

    def transfer(self, stamp: Stamp, to: str, amount: int) -> None:
        """From the replica that a stamp is of to another."""
        self.add(stamp.node, -amount)
        self.add(to, amount)

    def lack(self, node: str, amount: int) -> str:
        """Why a replica must not use this much; empty if it may."""
        left = self.of.get(node, 0)
        if amount <= left:
            return ""
        return f"{node!r} has rights to {max(left, 0)} of the {amount}; others may transfer some"

    def export(self) -> Any:
        """[node, rights, ...]."""
        return [part for node, n in self.of.items() for part in (node, export_exact(n))]

    @classmethod
    def load(cls, exported: Any) -> Rights:
        """What was exported."""
        made = cls()
        for node, amount in zip(exported[::2], exported[1::2], strict=True):
            made.add(node, load_exact(amount))
        return made


def node_fault(node: Any) -> str:
    """Why this names no replica; empty if it may name one."""
    if type(node) is not str or not node or len(node) > NODE_CHARS_MAX:
        return f"a replica is named by a text of at most {NODE_CHARS_MAX} characters"
    return text_fault(node)
