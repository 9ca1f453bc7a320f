"""pycrdt (Yjs) and loro, used as their documentation says.

- ``local``: a transaction of the calls, and the bytes for the others, which the library hands to a
  callback: cheaper than asking it for what is new since a state (``get_update``, ``export``);
- ``remote``: ``apply_update``, ``import_``.

Neither has all of our types.  A set is a map of its elements; a counter of pycrdt is a map of what
each replica counted, the sum of which is the value, as is usual with Yjs; loro has a counter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import loro
import pycrdt

from benchmarks.crdt.workload import Call

CLIENTS = (2_147_483_646, 2_147_483_647)


class Theirs:
    """Two documents, and the times that they took."""

    def __init__(self, kind: str, per_message: int = 1) -> None:
        self.kind = kind
        self.per_message = per_message
        self.seconds = {"local": 0.0, "remote": 0.0, "stable": 0.0}
        self.bytes = 0
        self.sent: list[list[bytes]] = [[], []]

    def calls(self, calls: Sequence[Call]) -> list[Call]:
        """Calls as ``carry_out`` takes them."""
        return list(calls)

    def local(self, slot: int, calls: Sequence[Call]) -> list[bytes]:
        """One side carries out calls; the messages."""
        size = self.per_message
        start = time.process_time()
        for at in range(0, len(calls), size):
            self.carry_out(slot, calls[at : at + size])
        self.seconds["local"] += time.process_time() - start
        messages = self.sent[slot][:]
        self.sent[slot].clear()
        self.bytes += sum(map(len, messages))
        return messages

    def carry_out(self, slot: int, calls: Sequence[Call]) -> None:
        """Calls that share a message."""
        raise NotImplementedError

    def remote(self, slot: int, messages: list[bytes]) -> None:
        """The other side's messages take effect."""
        raise NotImplementedError

    def settle(self) -> None:
        """They have no stability."""

    def value(self, slot: int) -> Any:
        """What the users of one side read."""
        raise NotImplementedError

    def stamps_left(self) -> int:
        """There are none that could go."""
        return 0


class Pycrdt(Theirs):
    """A document of pycrdt on each side."""

    def __init__(self, kind: str, per_message: int = 1) -> None:
        super().__init__(kind, per_message)
        self.docs = [pycrdt.Doc[Any](client_id=client) for client in CLIENTS]
        self.roots: list[Any] = []
        self.counted = [0, 0]
        self.names = ["a", "b"]
        self.incoming = False
        for slot, doc in enumerate(self.docs):
            self.roots.append(doc.get("k", type=pycrdt.Text if kind == "sequence" else pycrdt.Map))
            doc.observe(self._sender(slot))

    def _sender(self, slot: int) -> Any:
        sent = self.sent[slot]

        def send(event: Any) -> None:
            if not self.incoming:
                sent.append(event.update)

        return send

    def carry_out(self, slot: int, calls: Sequence[Call]) -> None:
        root = self.roots[slot]
        with self.docs[slot].transaction():
            for call in calls:
                name = call[0]
                if name == "set":
                    root[call[1]] = call[2]
                elif name == "add":
                    root[call[1]] = True
                elif name == "remove":
                    root.pop(call[1], None)
                elif name == "insert":
                    root.insert(call[1], call[2])
                elif name == "delete":
                    del root[call[1] : call[1] + call[2]]
                else:
                    self.counted[slot] += call[1] if name == "inc" else -call[1]
                    root[self.names[slot]] = self.counted[slot]

    def remote(self, slot: int, messages: list[bytes]) -> None:
        self.incoming = True
        apply = self.docs[slot].apply_update
        start = time.process_time()
        for update in messages:
            apply(update)
        self.seconds["remote"] += time.process_time() - start
        self.incoming = False

    def value(self, slot: int) -> Any:
        root = self.roots[slot]
        if self.kind == "sequence":
            return str(root)
        found = {name: root[name] for name in root}
        if self.kind in ("counter_pn", "register_counter"):
            return int(sum(found.values()))
        return set(found) if self.kind == "set_aw" else found


class Loro(Theirs):
    """A document of loro on each side."""

    def __init__(self, kind: str, per_message: int = 1) -> None:
        super().__init__(kind, per_message)
        self.docs = [loro.LoroDoc() for _ in CLIENTS]  # type: ignore[no-untyped-call]
        self.roots: list[Any] = []
        self.subscriptions: list[Any] = []
        for slot, doc in enumerate(self.docs):
            doc.peer_id = CLIENTS[slot]
            if kind == "sequence":
                root: Any = doc.get_text("k")
            elif kind in ("counter_pn", "register_counter"):
                root = doc.get_counter("k")
            else:
                root = doc.get_map("k")
            self.roots.append(root)
            self.subscriptions.append(doc.subscribe_local_update(self._sender(slot)))

    def _sender(self, slot: int) -> Any:
        sent = self.sent[slot]

        def send(update: bytes) -> bool:
            sent.append(update)
            return True

        return send

    def carry_out(self, slot: int, calls: Sequence[Call]) -> None:
        root = self.roots[slot]
        for call in calls:
            name = call[0]
            if name == "set":
                root.insert(call[1], call[2])
            elif name == "add":
                root.insert(call[1], True)
            elif name == "remove":
                if root.get(call[1]) is not None:
                    root.delete(call[1])
            elif name == "insert":
                root.insert(call[1], call[2])
            elif name == "delete":
                root.delete(call[1], call[2])
            elif name == "inc":
                root.increment(call[1])
            else:
                root.decrement(call[1])
        self.docs[slot].commit()

    def remote(self, slot: int, messages: list[bytes]) -> None:
        import_ = self.docs[slot].import_
        start = time.process_time()
        for update in messages:
            import_(update)
        self.seconds["remote"] += time.process_time() - start

    def value(self, slot: int) -> Any:
        root = self.roots[slot]
        if self.kind == "sequence":
            return root.to_string()
        if self.kind in ("counter_pn", "register_counter"):
            return int(root.value)
        found = root.get_value()
        return set(found) if self.kind == "set_aw" else dict(found)
