"""Two groups that know nothing of each other, and a node that is a member of both.

Ann and bob are one group, xue and yan another with another engine; hub is the bridge.  A question,
its answer and the answer to that cross it twice, and everybody reads them in this order.

    python examples/bridge.py

    ann: 'xue@right: yes', 'when?'
    bob: 'lunch?', 'xue@right: yes'
    xue: 'ann@left: lunch?', 'bob@left: when?'
    yan: 'ann@left: lunch?', 'yes', 'bob@left: when?'
"""

from __future__ import annotations

import asyncio

import thence
from thence.client.bridge import Bridge, unwrap

GROUPS = {"left": (("ann", "bob", "hub"), "tagged"), "right": (("hub", "xue", "yan"), "matrix")}
ANSWERS = {"xue": ("lunch?", b"yes"), "bob": ("yes", b"when?")}
COUNT = {"ann": 2, "bob": 2, "xue": 2, "yan": 3}


def show(event: thence.Delivered, members: tuple[str, ...]) -> str:
    """A message, with its sender if it came over the bridge."""
    if members[event.tag.origin] != "hub":
        return event.payload.decode()
    message = unwrap(event.payload)
    return f"{message.sender}@{message.group}: {message.payload.decode()}"


async def talk(name: str, group: thence.Group, members: tuple[str, ...]) -> list[str]:
    """Read everything, and answer what one has an answer to."""
    read: list[str] = []
    async for event in group.events():
        if isinstance(event, thence.Delivered):
            read.append(show(event, members))
            question, answer = ANSWERS.get(name, ("", b""))
            if question and read[-1].endswith(question):
                await group.broadcast(answer)
        if len(read) == COUNT[name]:
            break
    return read


async def main() -> None:
    names = sorted({name for members, _ in GROUPS.values() for name in members})
    nodes = {name: thence.Node(name, listen="tcp://127.0.0.1:0") for name in names}
    for node in nodes.values():
        await node.start()
    for node in nodes.values():
        for other in nodes.values():
            if other is not node:
                node.know(other.name, other.addresses[0])
    talks = {}
    for group, (members, engine) in GROUPS.items():
        for name in members:
            joined = await nodes[name].group(group, members=members, engine=engine)
            if name != "hub":
                talks[name] = talk(name, joined, members)
    hub = nodes["hub"].groups
    bridge = asyncio.create_task(Bridge(hub["left"], hub["right"]).run())
    await nodes["ann"].groups["left"].broadcast(b"lunch?")
    for name, read in zip(talks, await asyncio.gather(*talks.values()), strict=True):
        print(f"{name}: {', '.join(map(repr, read))}")
    bridge.cancel()
    await asyncio.gather(*(node.aclose() for node in nodes.values()))


if __name__ == "__main__":
    asyncio.run(main())
