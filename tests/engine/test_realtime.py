"""``realtime``: right with clocks that agree and a wait that is long enough, wrong with skew."""

from __future__ import annotations

import random

import pytest

from tests.engine.talks import Talk
from tests.seeds import seeds
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import ENGINES, make_node
from thence.errors import LocalProtocolError
from thence.message import Stamped
from thence.sim.network import NetworkOptions
from thence.sim.orders import Orders
from thence.sim.run import SimulationOptions, simulate
from thence.sim.workload import WorkloadOptions

NAMES = ["a", "b", "c"]


class Clocks:
    """One time, and how much the clock of each node is ahead."""

    def __init__(self, *ahead: int) -> None:
        self.now = 1000
        self.ahead = ahead

    def __call__(self, slot: int) -> int:
        return self.now + self.ahead[slot]


def ask_and_answer(clocks: Clocks, wait_us: int) -> Talk:
    """a asks; b answers 20 us after it took that; c gets the answer 10 us later, and the question
    another 20 us after it."""
    talk = Talk("realtime", clock=clocks, wait_us=wait_us)
    talk.say("a", "question")
    clocks.now += 10
    talk.bring("question", "b")
    clocks.now = max(clocks.now, 1000 + wait_us)
    talk.cluster.flush(1)
    talk.bring("", "b")
    clocks.now += 20
    talk.say("b", "answer")
    clocks.now += 10
    talk.bring("answer", "c")
    clocks.now += 20
    talk.bring("question", "c")
    clocks.now += 1000
    for node in range(3):
        talk.cluster.flush(node)
    talk.bring("", "a", "b", "c")
    return talk


def test_with_one_time_and_a_long_wait_an_answer_comes_after_its_question():
    talk = ask_and_answer(Clocks(0, 0, 0), wait_us=200)
    assert talk.took("c") == ["question", "answer"]
    assert talk.orders.violations("causal") == []


def test_at_a_node_whose_clock_is_ahead_it_comes_before():
    """Slide 11: clocks at different sites are not synchronized."""
    talk = ask_and_answer(Clocks(0, 0, 900), wait_us=200)
    assert talk.took("c") == ["answer", "question (late)"]
    assert talk.orders.violations("causal") == ["c took b:1 before a:1"]
    assert talk.orders.violations("fifo") == []


def test_with_a_short_wait_it_comes_before_and_the_question_is_marked_late():
    """Slide 11: how long to wait?"""
    talk = ask_and_answer(Clocks(0, 0, 0), wait_us=0)
    assert talk.took("c") == ["answer", "question (late)"]


def violations(seed: int, skew_ms: float, wait_us: int) -> tuple[list[str], list[str]]:
    """Of causal order with one order for all, and of the order of each sender."""
    spec = ENGINES["realtime"]
    options = SimulationOptions(
        seed=seed, engine="realtime", nodes=4, skew_ms=skew_ms,
        engine_options=EngineOptions(wait_us=wait_us),
        workload=WorkloadOptions(messages=15, interval_ms=5),
        network=NetworkOptions(latency_ms=10, distribution="uniform"),
    )  # fmt: skip
    orders = Orders(spec, options.names)
    simulate(options, watchers=[orders])
    assert orders.missing() == []
    return orders.violations("causal-total"), orders.violations("fifo")


def test_in_the_simulator_it_is_causal_and_total_without_skew():
    for seed in seeds(10):
        assert violations(seed, 0, 20_000) == ([], []), seed


def test_in_the_simulator_skew_or_a_short_wait_break_that_and_never_the_order_of_a_sender():
    for skew_ms, wait_us in ((60.0, 20_000), (0.0, 1_000)):
        found = [violations(seed, skew_ms, wait_us) for seed in seeds(10)]
        assert any(broken for broken, _ in found)
        assert not any(fifo for _, fifo in found)


def test_messages_are_handed_over_in_the_order_of_stamps_when_they_are_due():
    clocks = Clocks(0, 0, 0)
    options = EngineOptions(clock=clocks, wait_us=50)
    _, engine = make_node(NAMES, "c", "realtime", options)
    out = Effects()
    assert engine.due() is None
    engine.receive(1, Stamped(1, 1, (1005,), b"second"), out)
    engine.receive(0, Stamped(0, 1, (1002,), b"first"), out)
    assert (out.deliver, engine.due()) == ([], 1052)
    clocks.now = 1052
    engine.flush(out)
    assert ([tag.payload for tag in out.deliver], engine.due()) == ([b"first"], 1055)
    clocks.now = 1100
    engine.flush(out)
    assert [tag.payload for tag in out.deliver] == [b"first", b"second"]
    assert engine.waiting() == []


def test_the_stamps_of_a_sender_increase_though_its_clock_does_not():
    clocks = Clocks(0, 0, 0)
    client, engine = make_node(NAMES, "a", "realtime", EngineOptions(clock=clocks))
    out = Effects()
    for now in (1000, 1000, 900, 2000):
        clocks.now = now
        engine.broadcast(client.broadcast(b""), out)
    assert [message.stamp for message in out.send] == [(1000,), (1001,), (1002,), (2000,)]


def test_a_message_of_the_far_future_holds_up_nobody_else():
    _, engine = make_node(NAMES, "c", "realtime", EngineOptions(clock=Clocks(0, 0, 0)))
    out = Effects()
    engine.receive(0, Stamped(0, 1, (1 << 50,), b"future"), out)
    engine.receive(1, Stamped(1, 1, (999,), b"now"), out)
    assert [tag.payload for tag in out.deliver] == [b"now"]
    assert len(engine.waiting()) == 1


def test_it_needs_a_clock_and_a_wait_that_can_be():
    with pytest.raises(LocalProtocolError, match="needs a clock"):
        make_node(NAMES, "a", "realtime")
    with pytest.raises(LocalProtocolError, match="wait_us"):
        EngineOptions(wait_us=-1)


def test_the_same_simulation_has_the_same_skews():
    rng = random.Random(3)
    seed = rng.randrange(1000)
    assert violations(seed, 60.0, 5_000) == violations(seed, 60.0, 5_000)
