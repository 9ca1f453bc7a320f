"""Who subscribed to what, against the plainest way to keep it; and messages over a server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.raw import Client, run, served
from thence.store import topics
from thence.store.commands.glob import matcher
from thence.store.errors import CommandError
from thence.store.topics import Topics

NAMES = st.sampled_from([b"a", b"b", b"ab", b"a*", b"*", b"?"])
STEPS = st.lists(
    st.tuples(st.sampled_from("sud"), st.integers(0, 2), NAMES, st.booleans()), max_size=40
)


@given(STEPS)
def test_hearers_are_those_who_subscribed_and_have_not_left(steps: list[Any]):
    made: Topics[int] = Topics(matcher)
    expected: dict[tuple[int, bytes, bool], None] = {}
    for kind, who, topic, pattern in steps:
        if kind == "s":
            expected[who, topic, pattern] = None
            count = made.subscribe(who, topic, pattern)
            assert count == len([each for each in expected if each[0] == who])
        elif kind == "u":
            expected.pop((who, topic, pattern), None)
            count = made.unsubscribe(who, topic, pattern)
            assert count == len([each for each in expected if each[0] == who])
        else:
            expected = {each: None for each in expected if each[0] != who}
            made.drop(who)
        for channel in (b"a", b"b", b"ab", b"c"):
            by_name = [(w, None) for w, name, p in expected if not p and name == channel]
            by_pattern = [(w, name) for w, name, p in expected if p and matcher(name)(channel)]
            assert sorted(made.hearers(channel), key=repr) == sorted(by_name + by_pattern, key=repr)
            assert made.count(channel) == len(by_name)
        assert set(made.channels()) == {name for _, name, p in expected if not p}
        assert made.pattern_count == len({name for _, name, p in expected if p})
        for who in range(3):
            for flag in (False, True):
                own = [name for w, name, p in expected if w == who and p == flag]
                assert made.topics_of(who, flag) == own
    if not expected:
        assert not made._of
        assert not made._channels
        assert not made._patterns


def test_subscriptions_of_one_client_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topics, "SUBSCRIPTIONS_MAX", 2)
    made: Topics[int] = Topics(matcher)
    made.subscribe(1, b"a", False)
    made.subscribe(1, b"b", True)
    made.check(1, [b"b", b"b"], True)
    for many in ([b"c"], [b"a", b"c"]):
        with pytest.raises(CommandError, match="at most 2"):
            made.check(1, many, False)
    made.check(2, [b"c", b"d", b"d"], False)


@pytest.mark.parametrize(
    "words", [["SUBSCRIBE", "a", "b", "c"], ["PSUBSCRIBE", "a*", "?" * 2000]], ids=lambda w: w[0]
)
def test_a_refused_subscription_subscribes_to_nothing(
    words: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(topics, "SUBSCRIPTIONS_MAX", 2)

    async def main() -> None:
        async with served() as site:
            client = await site.client()
            assert "at most" in str(await client.do(*words))
            assert await client.do("GET", "k") is None  # not refused: there is no subscription
            assert await client.do("PUBLISH", "a", "x") == 0

    run(main())


def test_a_pattern_is_made_ready_once():
    asked: list[bytes] = []

    def counting(pattern: bytes) -> Any:
        asked.append(pattern)
        return matcher(pattern)

    made: Topics[int] = Topics(counting)
    patterns = [b"%d?" % number for number in range(1000)]
    for pattern in patterns:
        made.subscribe(1, pattern, True)
        made.subscribe(2, pattern, True)
    for _ in range(10):
        assert len(list(made.hearers(b"7x"))) == 2
    assert asked == patterns
    made.drop(1)
    made.unsubscribe(2, b"7?", True)
    assert not list(made.hearers(b"7x"))
    made.drop(2)
    assert not made._matchers


@pytest.mark.parametrize("protocol", [2, 3])
def test_messages_go_to_channels_and_patterns(protocol: int):
    async def main() -> None:
        async with served() as site:
            client, speaker = await site.client(), await site.client()
            await client.do("HELLO", str(protocol))
            assert await client.do("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
            assert await client.do("PSUBSCRIBE", "n*") == [b"psubscribe", b"n*", 2]
            assert await speaker.do("PUBLISH", "news", "hello") == 2
            assert await client.reply() == [b"message", b"news", b"hello"]
            assert await client.reply() == [b"pmessage", b"n*", b"news", b"hello"]
            assert await speaker.do("PUBLISH", "other", "x") == 0
            assert await speaker.do("PUBSUB", "CHANNELS") == [b"news"]
            assert await speaker.do("PUBSUB", "CHANNELS", "x*") == []
            assert await speaker.do("PUBSUB", "NUMSUB", "news", "x") == [b"news", 1, b"x", 0]
            assert await speaker.do("PUBSUB", "NUMPAT") == 1
            client.close()
            await client.writer.wait_closed()
            while site.server.clients > 1:
                await speaker.do("PING")
            assert await speaker.do("PUBLISH", "news", "hello") == 0
            assert await speaker.do("PUBSUB", "CHANNELS") == []

    run(main())


async def _raw(client: Client, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await client.reader.read(count - len(data))
    return data


def test_in_resp3_messages_are_pushes_and_other_commands_go_on():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("HELLO", "3")
            client.send("SUBSCRIBE", "c")
            expected = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
            assert await _raw(client, len(expected)) == expected
            client.send("PUBLISH", "c", "x")
            expected = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n:1\r\n"
            assert await _raw(client, len(expected)) == expected
            assert await client.do("GET", "k") is None

    run(main())


def test_a_message_waits_for_the_commit_like_a_reply():
    async def main() -> None:
        async with served() as site:
            hearing, speaker = await site.client(), await site.client()
            await hearing.do("SUBSCRIBE", "c")
            site.gate.uncommitted = True
            speaker.send("PUBLISH", "c", "x")
            assert await hearing.is_silent()
            site.gate.commit()
            assert await hearing.reply() == [b"message", b"c", b"x"]
            assert await speaker.reply() == 1

    run(main())


def test_after_leaving_a_channel_nothing_comes():
    async def main() -> None:
        async with served() as site:
            client, speaker = await site.client(), await site.client()
            await client.do("SUBSCRIBE", "c")
            await speaker.do("PUBLISH", "c", "1")
            client.send("UNSUBSCRIBE")
            await speaker.do("PING")
            assert await client.reply() == [b"message", b"c", b"1"]
            assert await client.reply() == [b"unsubscribe", b"c", 0]
            await speaker.do("PUBLISH", "c", "2")
            assert await client.do("GET", "k") is None

    run(main())
