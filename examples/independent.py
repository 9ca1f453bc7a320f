"""Messages of one sender that do not depend on each other (Garg's problem 12.6).

A builder tells of two builds that have nothing to do with each other, and then of a release that is
made of both.  The news of the first build is late.  In the usual order everything else would wait
for it, because one node's messages come in the order of sending; with a stream for each build and
explicit dependencies only the release waits.

    python examples/independent.py

    usual order: nothing | nothing | docs start, app start, docs done, release
    explicit: app start | nothing | docs start, docs done, release
"""

from __future__ import annotations

import thence

NAMES = ("builder", "reader")
NEWS = ("docs start", "app start", "docs done", "release")


def send(explicit: bool) -> list[thence.Message]:
    """What the builder puts on the wire."""
    client, engine = thence.make_node(NAMES, "builder")
    out = thence.Effects()
    after = {"docs start": (), "app start": (), "docs done": (0,), "release": (1, 2)}
    sent: list[thence.Tag] = []
    for news in NEWS:
        stream = news.split()[0]
        causes = [sent[at] for at in after[news]]
        how = {"stream": stream, "after": causes} if explicit else {}
        sent.append(client.broadcast(news.encode(), **how))
        engine.broadcast(sent[-1], out)
    return out.send


def read(messages: list[thence.Message]) -> str:
    """What the reader takes after each arrival; the first message is the last to arrive."""
    client, engine = thence.make_node(NAMES, "reader")
    told = []
    for arriving in (messages[1:2], messages[2:], messages[:1]):
        out = thence.Effects()
        for message in arriving:
            engine.receive(0, message, out)
        for tag in out.deliver:
            client.consume(tag)
        told.append(", ".join(tag.payload.decode() for tag in out.deliver) or "nothing")
    return " | ".join(told)


if __name__ == "__main__":
    print("usual order:", read(send(explicit=False)))
    print("explicit:", read(send(explicit=True)))
