"""Threads: who shares a context?  Two workers of one node, first with one context, then with two.

The reader takes a message of the other node; the writer, in another thread, takes nothing.  With
one context for both, what the writer sends comes after the message all the same.  With a session
each, only the reader's does.

    python examples/workers.py

    one context:  the reader's message is after a:1, the writer's after b:1
    two sessions: the reader's message is after a:2, the writer's after nothing
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from thence import Delivered, Tag, blocking

WHERE = {"a": "mem://a", "b": "mem://b"}
Source = blocking.Group | blocking.Session


def in_a_thread(work: Callable[[], Tag]) -> str:
    """What the message that it sends comes after."""
    sent: list[Tag] = []
    thread = threading.Thread(target=lambda: sent.append(work()))
    thread.start()
    thread.join()
    return ", ".join(map(str, sent[0].context)) or "nothing"


def read_then_send(source: Source) -> Tag:
    while not isinstance(source.next(), Delivered):
        pass
    tag: Tag = source.broadcast(b"I have read it")
    return tag


def only_send(source: Source) -> Tag:
    tag: Tag = source.broadcast(b"I have read nothing")
    return tag


def main() -> None:
    with blocking.Group("a", peers=WHERE) as a, blocking.Group("b", peers=WHERE) as b:
        a.broadcast(b"first")
        read = in_a_thread(lambda: read_then_send(b))
        wrote = in_a_thread(lambda: only_send(b))
        print(f"one context:  the reader's message is after {read}, the writer's after {wrote}")

        reader, writer = b.session(), b.session()
        a.broadcast(b"second")
        read = in_a_thread(lambda: read_then_send(reader))
        wrote = in_a_thread(lambda: only_send(writer))
        print(f"two sessions: the reader's message is after {read}, the writer's after {wrote}")


if __name__ == "__main__":
    main()
