"""Who read what before writing?  Three members of a real group, over tcp on this machine.

Ann asks, bob answers, cat says something without having read either.  Each of them knows, from the
tags alone, what is an answer and what crossed the question, and when that can no longer change.

    python examples/lunch.py

    ann: 'yes!' came after 'lunch?'; 'hello' crossed it; nothing else ever will
    bob: 'yes!' came after 'lunch?'; 'hello' crossed it; nothing else ever will
    cat: 'yes!' came after 'lunch?'; 'hello' crossed it; nothing else ever will
"""

from __future__ import annotations

import asyncio
from typing import Any

import thence

NAMES = ("ann", "bob", "cat")


async def talk(group: thence.Group, says: bytes | None, answers: bytes | None) -> str:
    """Say something, answer the question, and stop when the question is stable."""
    read: dict[bytes, Any] = {}
    later, crossed = "", ""
    stable = False
    if says:
        read[says] = await group.broadcast(says)
    async for event in group.events():
        if isinstance(event, thence.Delivered):
            # Compared as they come: once a message is stable it is forgotten.
            for text, tag in read.items():
                if b"lunch?" not in (text, event.payload):
                    continue
                (other,) = {text.decode(), event.payload.decode()} - {"lunch?"}
                if tag.concurrent(event.tag):
                    crossed = other
                else:
                    later = other
            read[event.payload] = event.tag
            if answers and event.payload == b"lunch?":
                read[answers] = await group.broadcast(answers)
                later = answers.decode()
        elif isinstance(event, thence.Stable) and event.tag == read.get(b"lunch?"):
            stable = True
        if stable and len(read) == len(NAMES):
            break
    return f"{later!r} came after 'lunch?'; {crossed!r} crossed it; nothing else ever will"


async def main() -> None:
    nodes = {name: thence.Node(name, listen="tcp://127.0.0.1:0") for name in NAMES}
    for node in nodes.values():
        await node.start()
    for node in nodes.values():  # in real life a file of members says where they are
        for other in nodes.values():
            if other is not node:
                node.know(other.name, other.addresses[0])
    ann, bob, cat = [await node.group(members=NAMES) for node in nodes.values()]
    told = await asyncio.gather(
        talk(ann, b"lunch?", None), talk(bob, None, b"yes!"), talk(cat, b"hello", None)
    )
    for name, text in zip(NAMES, told, strict=True):
        print(f"{name}: {text}")
    await asyncio.gather(*(node.aclose() for node in nodes.values()))


if __name__ == "__main__":
    asyncio.run(main())
