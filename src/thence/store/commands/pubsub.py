"""Publish and subscribe, in causal order over all nodes: who gets an answer has got the question.

PUBLISH answers with the number of subscribers of its own node: those of others it cannot know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from thence.store.commands.base import Database, Function, command
from thence.store.commands.glob import check, matcher
from thence.store.commands.help import help_of
from thence.store.errors import CommandError, shown, wrong_subcommand
from thence.store.replies import Push, Reply, Several
from thence.store.session import Session


def _subscribing(kind: bytes, pattern: bool) -> Function:
    def subscribe(db: Database, session: Session, args: list[bytes]) -> Reply:
        # Whatever is wrong with one of them, the client is told so and has none of them.
        session.shared.topics.check(session, args, pattern)
        if pattern:
            for topic in args:
                check(topic)
        replies = []
        for topic in args:
            count = session.shared.topics.subscribe(session, topic, pattern)
            session.subscriptions = count
            replies.append(Push([kind, topic, count]))
        session.look_again()
        return Several(replies)

    return subscribe


def _unsubscribing(kind: bytes, pattern: bool) -> Function:
    def unsubscribe(db: Database, session: Session, args: list[bytes]) -> Reply:
        topics = session.shared.topics
        replies = []
        for topic in args or topics.topics_of(session, pattern):
            session.subscriptions = topics.unsubscribe(session, topic, pattern)
            replies.append(Push([kind, topic, session.subscriptions]))
        session.look_again()
        return Several(replies or [Push([kind, None, session.subscriptions])])

    return unsubscribe


def publish(db: Database, session: Session, args: list[bytes]) -> Reply:
    count = sum(1 for _ in session.shared.topics.hearers(args[0]))
    db.publish(args[0], args[1])
    return count


def channels(db: Database, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 2:
        raise CommandError(wrong_subcommand("pubsub", shown(args[0])))
    matches: Callable[[bytes], object] = matcher(args[1]) if len(args) > 1 else bool
    found = session.shared.topics.channels()
    return found if len(args) == 1 else [channel for channel in found if matches(channel)]


def numsub(db: Database, session: Session, args: list[bytes]) -> Reply:
    found: list[Reply] = []
    for channel in args[1:]:
        found += (channel, session.shared.topics.count(channel))
    return found


def numpat(db: Database, session: Session, args: list[bytes]) -> Reply:
    return session.shared.topics.pattern_count


_GROUP: Final = "pubsub"
_FLAGS: Final = "pubsub noscript loading stale"
_SUBSCRIBE: Final = _subscribing(b"subscribe", False)
_PSUBSCRIBE: Final = _subscribing(b"psubscribe", True)
_UNSUBSCRIBE: Final = _unsubscribing(b"unsubscribe", False)
_PUNSUBSCRIBE: Final = _unsubscribing(b"punsubscribe", True)
_ASKING: Final = "pubsub loading stale"
TABLE = (
    command("SUBSCRIBE", _SUBSCRIBE, -2, _FLAGS, group=_GROUP, summary="Hear channels."),
    command("PSUBSCRIBE", _PSUBSCRIBE, -2, _FLAGS, group=_GROUP, summary="Hear what matches."),
    command("UNSUBSCRIBE", _UNSUBSCRIBE, -1, _FLAGS, group=_GROUP, summary="Hear them no more."),
    command("PUNSUBSCRIBE", _PUNSUBSCRIBE, -1, _FLAGS, group=_GROUP, summary="The same, patterns."),
    command(
        "PUBLISH",
        publish,
        3,
        "write pubsub loading stale fast",
        group=_GROUP,
        summary="Tell the subscribers of all nodes; how many this node has.",
    ),
    command("PUBSUB|CHANNELS", channels, -2, _ASKING, group=_GROUP, summary="Channels heard here."),
    command("PUBSUB|NUMSUB", numsub, -2, _ASKING, group=_GROUP, summary="Who hears them, here."),
    command("PUBSUB|NUMPAT", numpat, 2, _ASKING, group=_GROUP, summary="Patterns heard here."),
    help_of(
        "PUBSUB",
        _GROUP,
        "CHANNELS [<pattern>]",
        "    Channels that somebody at this node subscribed to, of those that match.",
        "NUMPAT",
        "    How many different patterns somebody at this node subscribed to.",
        "NUMSUB [<channel> ...]",
        "    How many subscribers at this node the channels have, patterns apart.",
    ),
)
