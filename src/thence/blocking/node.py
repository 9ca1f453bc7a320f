"""One node with several groups, for threads."""

from __future__ import annotations

from typing import Any

from thence.blocking.background import Caller
from thence.blocking.group import Group
from thence.client import node as asynchronous
from thence.client.station import DEFAULT_GROUP
from thence.config import NodeConfig


class Node:
    """One node with several groups, for threads; see ``thence.Node``."""

    def __init__(
        self, name: str = "", *, config: NodeConfig | None = None, **settings: Any
    ) -> None:
        """As ``thence.Node``."""
        self._caller = Caller()
        self._node = asynchronous.Node(name, config=config, **settings)
        self.groups: dict[str, Group] = {}

    @property
    def name(self) -> str:
        """Of the node."""
        return self._node.name

    @property
    def addresses(self) -> list[str]:
        """Where it listens, with the ports that were chosen."""
        return self._caller.call(lambda: self._node.addresses)

    def start(self) -> Node:
        """Listen and begin to dial."""
        self._caller.begin()
        try:
            self._caller.wait(self._node.start())
        except BaseException:
            self._caller.end()
            raise
        return self

    def know(self, peer: str, url: str) -> None:
        """Say where a peer can be reached, now or again."""
        self._caller.call(self._node.know, peer, url)

    def group(self, name: str = DEFAULT_GROUP, **how: Any) -> Group:
        """Take part in a group; ``how``: ``members``, ``engine``, ``options``, ``snapshot``,
        ``restore``."""
        made = self._caller.wait(self._node.group(name, **how))
        self.groups[name] = Group.of(made, self._caller)
        return self.groups[name]

    def rejoin(self, name: str = DEFAULT_GROUP, **how: Any) -> Group:
        """Take part again in a group that this node is out of; ``how``: ``snapshot``, ``restore``.

        Events of the old ``Group`` end.
        """
        made = self._caller.wait(self._node.rejoin(name, **how))
        self._caller.wait(self.groups[name].end_pump())
        self.groups[name] = Group.of(made, self._caller)
        return self.groups[name]

    def close(self, drain_s: float | None = None) -> None:
        """Wait until the others have what was sent, and let go; may be called again."""
        if self._caller.is_on:
            try:
                self._caller.wait(self._node.aclose(drain_s=drain_s))
                for group in self.groups.values():
                    self._caller.wait(group.end_pump())
            finally:
                self._caller.end()

    def __enter__(self) -> Node:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(None if kind is None else 0.0)
