"""Numbers, acknowledgements and credit between a group of one node and its peers."""

from __future__ import annotations

import pytest

from thence.causal.dot import pack
from thence.client.exchange import ACK_S, ACK_WITH_DATA_S, Exchange
from thence.config.node import FlowConfig
from thence.errors import WireError
from thence.message import (
    CHAIN_MESSAGES_MAX,
    Aside,
    Chain,
    Message,
    Phantom,
    VectorMessage,
)
from thence.wire import codec, talk
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

NAMES = ("a", "b", "c")
LARGE = 1 << 30


def exchange_of(names: tuple[str, ...] = NAMES, **flow: int) -> Exchange:
    """Of node a."""
    return Exchange(names, 0, FlowConfig(**flow), [0] * len(names), 1, [])


def opened(exchange: Exchange, *slots: int, have: int = 0, limit: int = 100) -> None:
    for slot in slots:
        exchange.flows[slot].opening()
        exchange.flows[slot].opened(talk.Open(0, "g", "tagged", NAMES, have, limit, LARGE))


def own(seq: int, payload: bytes = b"x", aside: Aside | None = None) -> Message:
    return Message(0, seq, (), payload, aside)


def send(exchange: Exchange, *messages: Message) -> None:
    for message in messages:
        exchange.keep(codec.encode(message), message)


def said(exchange: Exchange, slot: int, now: float = 0.0, congested: bool = False) -> list:
    found = []
    for data in exchange.frames(slot, 5, congested, now):
        ((kind, body),) = FrameReader(FRAME_BYTES_MAX).feed(data)
        if kind == talk.DATA:
            channel, number, batch = talk.read_data(body)
            assert channel == 5
            payloads = [message.payload for message in codec.decode_batch(batch)]
            found.append(("data", number, payloads))
        elif kind == talk.ACK:
            found.append(("ack", talk.read_ack(body).have, talk.read_ack(body).limit))
        else:
            found.append(("news", talk.read_news(body)[1]))
    return found


def batch(*messages: Message | VectorMessage | Chain) -> memoryview:
    return memoryview(b"".join(codec.join_batch([codec.encode(each) for each in messages])))


def theirs(seq: int, payload: bytes = b"y", slot: int = 1) -> Message:
    return Message(slot, seq, (), payload)


# ---- what goes out


def test_nothing_goes_before_the_group_is_open():
    exchange = exchange_of()
    send(exchange, own(1))
    assert said(exchange, 1) == []
    assert not exchange.owes(1, 0.0)


def test_what_was_sent_goes_once_to_each_peer():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    send(exchange, own(1, b"one"), own(2, b"two"))
    assert exchange.owes(1, 0.0)
    for slot in (1, 2):
        assert said(exchange, slot) == [("data", 1, [b"one", b"two"])]
        assert said(exchange, slot) == []
    send(exchange, own(3, b"three"))
    assert said(exchange, 2) == [("data", 3, [b"three"])]
    assert said(exchange, 1) == [("data", 3, [b"three"])]


def test_a_peer_that_is_behind_gets_what_it_lacks():
    exchange = exchange_of()
    opened(exchange, 1)
    send(exchange, own(1, b"one"), own(2, b"two"))
    said(exchange, 1)
    opened(exchange, 2, have=1)
    assert said(exchange, 2) == [("data", 2, [b"two"])]
    opened(exchange, 1, have=0)
    assert said(exchange, 1) == [("data", 1, [b"one", b"two"])]


def test_a_peer_gets_no_more_than_its_limit_allows():
    exchange = exchange_of()
    opened(exchange, 1, limit=2)
    opened(exchange, 2, limit=3)
    send(exchange, *[own(seq, b"%d" % seq) for seq in range(1, 6)])
    assert said(exchange, 2) == [("data", 1, [b"1", b"2", b"3"])]
    assert said(exchange, 1) == [("data", 1, [b"1", b"2"])]
    exchange.acknowledged(1, talk.Ack(0, 2, 4, LARGE))
    assert said(exchange, 1) == [("data", 3, [b"3", b"4"])]


def test_a_peer_gets_no_more_bytes_than_it_allows():
    exchange = exchange_of()
    opened(exchange, 1)
    flow = exchange.flows[1]
    flow.room = 2 * talk.MESSAGE_BYTES_EXTRA + 20
    send(exchange, own(1, bytes(10)), own(2, bytes(10)), own(3, bytes(10)))
    assert said(exchange, 1) == [("data", 1, [bytes(10), bytes(10)])]
    assert flow.room == 0
    exchange.acknowledged(1, talk.Ack(0, 2, 9, LARGE + 1000))
    assert said(exchange, 1) == [("data", 3, [bytes(10)])]


def test_the_frame_of_one_peer_is_not_sent_to_one_without_room_for_it():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    exchange.flows[2].room = 10
    send(exchange, own(1))
    assert said(exchange, 1) == [("data", 1, [b"x"])]
    assert said(exchange, 2) == []


def test_a_congested_connection_gets_no_messages():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    send(exchange, own(1))
    said(exchange, 2)
    assert said(exchange, 1, congested=True) == []
    assert said(exchange, 1) == [("data", 1, [b"x"])]


def test_large_messages_go_in_frames_of_their_own():
    exchange = exchange_of(batch_bytes_max=1024)
    opened(exchange, 1)
    send(exchange, own(1, bytes(1020)), own(2, bytes(1020)), own(3, b"x"), own(4, b"x"))
    found = [(number, len(payloads)) for _, number, payloads in said(exchange, 1)]
    assert found == [(1, 1), (2, 1), (3, 2)]
    assert exchange.flows[1].sent == 4


def test_a_message_for_some_reaches_the_others_without_its_payload():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    send(exchange, own(1, b"all"), own(2, b"secret", Aside("", (), (), (1,))))
    assert said(exchange, 1) == [("data", 1, [b"all", b"secret"])]
    assert said(exchange, 2) == [("data", 1, [b"all", b""])]


def test_a_node_alone_keeps_nothing():
    exchange = exchange_of(("a",))
    send(exchange, own(1), own(2))
    assert len(exchange.outbox) == 0
    assert exchange.behind() == []


# ---- acknowledgements


def test_the_outbox_forgets_what_every_peer_has():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    send(exchange, own(1), own(2))
    for slot in (1, 2):
        said(exchange, slot)
    exchange.acknowledged(1, talk.Ack(0, 2, 100, LARGE))
    assert len(exchange.outbox) == 2
    assert exchange.behind() == ["c"]
    exchange.acknowledged(2, talk.Ack(0, 1, 100, LARGE))
    assert len(exchange.outbox) == 1


@pytest.mark.parametrize("have", [1, 3, 1 << 62])
def test_an_acknowledgement_of_what_was_not_sent_is_nonsense(have: int):
    exchange = exchange_of()
    opened(exchange, 1)
    with pytest.raises(WireError, match="acknowledged"):
        exchange.acknowledged(1, talk.Ack(0, have, 100, LARGE))


def test_an_acknowledgement_after_the_end_of_a_connection_is_ignored():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.flows[1].closed()
    exchange.acknowledged(1, talk.Ack(0, 99, 100, LARGE))


def test_a_full_outbox_has_no_room_until_everybody_acknowledged():
    exchange = exchange_of(outbox_messages_max=2)
    opened(exchange, 1, 2)
    send(exchange, own(1))
    assert exchange.has_room
    send(exchange, own(2))
    assert not exchange.has_room
    for slot in (1, 2):
        said(exchange, slot)
    exchange.acknowledged(1, talk.Ack(0, 2, 100, LARGE))
    assert not exchange.has_room
    exchange.acknowledged(2, talk.Ack(0, 1, 100, LARGE))
    assert exchange.has_room


def test_an_outbox_can_be_full_of_bytes():
    exchange = exchange_of(outbox_bytes_max=1024)
    send(exchange, own(1, bytes(2000)))
    assert not exchange.has_room


def test_an_acknowledgement_waits_for_data_and_then_for_its_time():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1)), 1.0)
    exchange.written()
    assert said(exchange, 1, 1.0) == []
    assert exchange.due() == [1.0 + ACK_S]
    assert not exchange.owes(1, 1.0 + ACK_S / 2)
    assert exchange.owes(1, 1.0 + ACK_S)
    (kind, have, _limit) = said(exchange, 1, 1.0 + ACK_S)[0]
    assert (kind, have) == ("ack", 1)
    assert exchange.due() == []


def test_an_acknowledgement_goes_with_data_when_it_has_waited_a_little():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1)), 1.0)
    exchange.written()
    send(exchange, own(1))
    assert [each[0] for each in said(exchange, 1, 1.0)] == ["data"]
    send(exchange, own(2))
    found = said(exchange, 1, 1.0 + ACK_WITH_DATA_S + 0.001)
    assert [each[0] for each in found] == ["data", "ack"]


def test_what_is_not_written_down_is_not_acknowledged():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1), theirs(2)), 0.0)
    assert said(exchange, 1, 9.0)[0][:2] == ("ack", 0)
    exchange.arrived(1, 3, batch(theirs(3)), 9.0)
    exchange.written()
    assert said(exchange, 1, 99.0)[0][:2] == ("ack", 3)


# ---- what comes in


def test_messages_come_out_once_and_in_order():
    exchange = exchange_of()
    opened(exchange, 1)
    messages, _ = exchange.arrived(1, 1, batch(theirs(1), theirs(2)), 0.0)
    assert [message.seq for message in messages] == [1, 2]
    messages, whole = exchange.arrived(1, 2, batch(theirs(2), theirs(3)), 0.0)
    assert [message.seq for message in messages] == [3]
    assert [message.seq for message in codec.decode_batch(whole)] == [3]
    assert exchange.flows[1].have == exchange.flows[1].held == 3


def test_a_repetition_is_dropped_and_acknowledged_at_once():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1)), 0.0)
    exchange.written()
    said(exchange, 1, 1.0)
    assert exchange.arrived(1, 1, batch(theirs(1)), 2.0) == ([], b"")
    assert said(exchange, 1, 2.0)[0][:2] == ("ack", 1)
    assert exchange.flows[1].held == 1


def test_a_gap_is_nonsense():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1)), 0.0)
    with pytest.raises(WireError, match="message 3 after 1: some are missing"):
        exchange.arrived(1, 3, batch(theirs(3)), 0.0)


def test_a_message_of_another_origin_is_nonsense():
    exchange = exchange_of()
    opened(exchange, 1)
    with pytest.raises(WireError, match="slot 2 from slot 1"):
        exchange.arrived(1, 1, batch(theirs(1), theirs(1, slot=2)), 0.0)
    assert exchange.flows[1].have == 0


def test_more_messages_than_were_allowed_are_nonsense():
    exchange = exchange_of(credit_messages=2)
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1), theirs(2)), 0.0)
    with pytest.raises(WireError, match="2 were allowed"):
        exchange.arrived(1, 3, batch(theirs(3)), 0.0)
    assert exchange.flows[1].held == 2


def test_credit_that_was_not_told_is_not_allowed_yet():
    exchange = exchange_of(credit_messages=2)
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1), theirs(2)), 0.0)
    exchange.taken(1, b"y")
    with pytest.raises(WireError, match="allowed"):
        exchange.arrived(1, 3, batch(theirs(3)), 0.0)
    exchange.written()
    assert said(exchange, 1, 1.0) == [("ack", 2, 3)]
    exchange.arrived(1, 3, batch(theirs(3)), 1.0)


def test_more_bytes_than_were_allowed_are_nonsense():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.flows[1].held_bytes = exchange.flows[1]._bytes_max - 100
    exchange.flows[1].opening()  # on one connection a limit does not shrink
    exchange.arrived(1, 1, batch(theirs(1, bytes(36))), 0.0)
    with pytest.raises(WireError, match="bytes of messages than were allowed"):
        exchange.arrived(1, 2, batch(theirs(2, b"")), 0.0)


def test_taking_a_message_gives_its_credit_back():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(theirs(1, b"12345")), 0.0)
    exchange.taken(1, b"12345")
    assert (exchange.flows[1].held, exchange.flows[1].held_bytes) == (0, 0)
    exchange.hold(1, b"12345")
    assert exchange.flows[1].held_bytes == talk.message_bytes(b"12345")


# ---- phantoms


def test_a_phantom_goes_once_to_each_peer_that_is_there():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.say(Phantom(0, 1, ()))
    exchange.say(Phantom(0, 2, ()))
    assert said(exchange, 1) == [("news", Phantom(0, 2, ()))]
    assert said(exchange, 1) == []
    opened(exchange, 2)
    assert said(exchange, 2) == []


# ---- chains


def chained(exchange: Exchange, seq: int, *payloads: bytes) -> None:
    exchange.outbox.append_chain(seq, list(payloads))


def items(exchange: Exchange, slot: int) -> list:
    """What the one frame for a peer is made of."""
    (data,) = exchange.frames(slot, 5, False, 0.0)
    ((_, body),) = FrameReader(FRAME_BYTES_MAX).feed(data)
    return codec.decode_batch(talk.read_data(body)[2])


def test_what_comes_right_after_the_one_before_travels_as_a_chain():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    send(exchange, own(1, b"1"))
    chained(exchange, 2, b"2", b"3")
    send(exchange, own(4, b"4"))
    chained(exchange, 5, b"5")
    expected = [own(1, b"1"), Chain(0, 2, [b"2", b"3"]), own(4, b"4"), Chain(0, 5, [b"5"])]
    assert items(exchange, 1) == items(exchange, 2) == expected


def test_a_chain_is_cut_at_the_limit_and_where_a_stream_is_between():
    exchange = exchange_of()
    opened(exchange, 1, limit=2)
    chained(exchange, 2, b"2", b"3", b"4")
    assert items(exchange, 1) == [Chain(0, 2, [b"2", b"3"])]
    stream = own(1, b"s", Aside("s"))
    send(exchange, stream)
    chained(exchange, 5, b"5")
    exchange.acknowledged(1, talk.Ack(0, 1, 9, LARGE))
    assert items(exchange, 1) == [Chain(0, 4, [b"4"]), stream, Chain(0, 5, [b"5"])]


def test_a_kept_message_of_a_chain_is_encoded_when_it_is_asked_for():
    exchange = exchange_of()
    chained(exchange, 2, b"2", b"3")
    assert codec.decode(exchange.outbox.message(2)) == Message(0, 3, (pack(0, 2),), b"3")


def test_of_a_chain_that_was_partly_here_the_rest_is_new():
    exchange = exchange_of()
    opened(exchange, 1)
    taken, _ = exchange.arrived(1, 1, batch(theirs(1), Chain(1, 2, [b"2", b"3"])), 0.0)
    assert codec.messages_of(taken) == [theirs(1), *Chain(1, 2, [b"2", b"3"]).messages()]
    flow = exchange.flows[1]
    assert (flow.have, flow.held, flow.held_bytes) == (3, 3, 3 * 64 + 3)
    again, whole = exchange.arrived(1, 2, batch(Chain(1, 2, [b"2", b"3", b"four"])), 0.0)
    assert again == codec.decode_batch(whole) == [Message(1, 4, (pack(1, 3),), b"four")]
    assert (flow.have, flow.held, flow.held_bytes) == (4, 4, 4 * 64 + 7)
    assert exchange.arrived(1, 3, batch(Chain(1, 3, [b"3"])), 0.5) == ([], b"")
    assert (flow.have, flow.ack_at) == (4, 0.5)


def test_a_chain_counts_each_of_its_messages():
    exchange = exchange_of(credit_messages=2)
    opened(exchange, 1)
    with pytest.raises(WireError, match="3 messages; 2 were allowed"):
        exchange.arrived(1, 1, batch(Chain(1, 2, [b"", b"", b""])), 0.0)
    with pytest.raises(WireError, match="of slot 2 from slot 1"):
        exchange.arrived(1, 1, batch(Chain(2, 2, [b""])), 0.0)


def test_what_a_peer_repeats_in_few_bytes_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch):
    exchange = exchange_of(credit_messages=100)
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(Chain(1, 2, [b"2", b"3"]), Chain(1, 4, [b"4"])), 0.0)
    made: list[Chain] = []
    take_apart = Chain.messages

    def messages(chain: Chain) -> list[Message]:
        made.append(chain)
        return take_apart(chain)

    monkeypatch.setattr(Chain, "messages", messages)
    repeated = batch(Chain(1, 2, [b"2", b"3"]), Chain(1, 4, [b"4"]))
    assert exchange.arrived(1, 1, repeated, 0.0) == ([], b"")
    with pytest.raises(WireError, match="1002 messages; 100 were allowed"):
        exchange.arrived(1, 3, batch(Chain(1, 4, [b""] * 1000)), 0.0)
    assert made == []
    rest, _ = exchange.arrived(1, 1, batch(Chain(1, 2, [b"2", b"3"]), Chain(1, 4, [b"4", b"5"])), 0)
    assert rest == [Message(1, 5, (pack(1, 4),), b"5")]
    assert made == [Chain(1, 4, [b"4", b"5"])]


def test_chains_that_were_here_already_take_no_more_room_than_was_allowed():
    exchange = exchange_of()
    flow = exchange.flows[1]
    flow.have = 1 << 30
    opened(exchange, 1)
    chain = Chain(1, 2, [b""] * CHAIN_MESSAGES_MAX)
    with pytest.raises(WireError, match="more bytes of messages than were allowed"):
        exchange.arrived(1, 2, batch(*[chain] * 10), 0.0)
    assert exchange.arrived(1, 2, batch(Chain(1, 2, [b"2", b"3"])), 0.0) == ([], b"")
