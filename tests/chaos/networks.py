"""Network namespaces: a member in each, all on one bridge, so that members can be cut off.

Needs ``ip`` and the right to make namespaces (root).  Everything has names of its own, and is
removed at the end in every case.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType

SUBNET = "10.201.77"


def ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check, timeout=20)


def why_not() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    if shutil.which("ip") is None:
        return "there is no command ip"
    name = f"thence-try-{os.getpid()}"
    made = ip("netns", "add", name, check=False)
    if made.returncode:
        return f"ip netns add: {made.stderr.strip() or made.returncode}"
    try:
        linked = ip("-n", name, "link", "add", "type", "veth", check=False)
        return "" if linked.returncode == 0 else f"ip link add: {linked.stderr.strip()}"
    finally:
        ip("netns", "del", name, check=False)


class Islands:
    """One namespace for each member and one for the bridge that joins them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._stem = f"thence-{os.getpid()}"
        self.names = list(names)
        self.hosts = {name: f"{SUBNET}.{at}" for at, name in enumerate(names, 1)}
        self._made: list[str] = []

    def __enter__(self) -> Islands:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def within(self, name: str) -> list[str]:
        """What a command is put behind to run in the namespace of a member."""
        return ["ip", "netns", "exec", self._space(name)]

    def partition(self, name: str, cut: bool) -> None:
        """Cut a member off from all others, or join it again."""
        ip("-n", self._space(""), "link", "set", f"to-{name}", "down" if cut else "up")

    def _space(self, name: str) -> str:
        return f"{self._stem}-{name or 'bridge'}"

    def _make(self) -> None:
        bridge = self._space("")
        for name in ("", *self.names):
            self._made.append(self._space(name))
            ip("netns", "add", self._space(name))
        ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", bridge, "link", "set", "br0", "up")
        for name in self.names:
            space = self._space(name)
            ip("-n", bridge, "link", "add", f"to-{name}", "type", "veth",
               "peer", "name", "eth0", "netns", space)  # fmt: skip
            ip("-n", bridge, "link", "set", f"to-{name}", "master", "br0", "up")
            ip("-n", space, "addr", "add", f"{self.hosts[name]}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for space in reversed(self._made):
            ip("netns", "del", space, check=False)
        self._made.clear()
