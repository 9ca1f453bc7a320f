"""The rules of the oracle one by one, told by hand what happened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sim.naive import NaiveTag, naive
from thence.causal.dot import pack
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import ForgottenTagError
from thence.message import Aside, Message, Phantom, StreamDot, VectorMessage
from thence.sim.checkers import Oracle, OracleFailure

A1, A2, B1 = pack(0, 1), pack(0, 2), pack(1, 1)


def told(**options: Any) -> Oracle:
    """a sent a:1, b consumed it and sent b:1, a consumed that."""
    oracle = Oracle(naive(), ["a", "b"], EngineOptions(**options), replay="again")
    first, second = NaiveTag(0, 1, b"", ()), NaiveTag(1, 1, b"", (A1,))
    oracle.sent(0, first, None)
    oracle.ready(1, first)
    oracle.consumed(1, first)
    oracle.sent(1, second, None)
    oracle.ready(0, second)
    oracle.consumed(0, second)
    return oracle


def tag(origin: int, seq: int, *context: int) -> NaiveTag:
    return NaiveTag(origin, seq, b"", context)


def test_a_failure_carries_its_replay():
    with pytest.raises(OracleFailure, match="replay: again"):
        told().fail("wrong")


def test_what_nobody_sent_cannot_be_consumed():
    with pytest.raises(OracleFailure, match="nobody sent"):
        told().consumed(0, tag(1, 2))


def test_a_message_concurrent_with_a_stable_one_is_found_at_its_consumption():
    """Soundness by definition, whatever the engine thought it knew."""
    oracle = Oracle(naive(), ["a", "b"])
    oracle.sent(0, tag(0, 1), None)
    oracle.sent(1, tag(1, 1), None)
    oracle.told[0] = 1
    with pytest.raises(OracleFailure, match=r"not after {a:1} that it was told are stable"):
        oracle.consumed(0, tag(1, 1))


def test_stable_needs_something_of_every_other_member():
    oracle = told()
    oracle.stable_ready(0, tag(0, 1))
    with pytest.raises(OracleFailure, match="nothing that a sent after it"):
        oracle.stable_ready(1, tag(1, 1, A1))


def test_a_phantom_counts_once_what_was_sent_before_it_is_delivered():
    oracle = told()
    second = tag(0, 2, B1)
    oracle.sent(0, second, None)
    phantom = Phantom(0, 3, (A2,))
    oracle.phantom_made(0, phantom)
    oracle.arriving(1, 0, phantom)
    with pytest.raises(OracleFailure, match="nothing that a sent after it"):
        oracle.stable_ready(1, tag(1, 1, A1))
    oracle.ready(1, second)
    oracle.stable_ready(1, tag(1, 1, A1))


@pytest.mark.parametrize(
    "phantom", [Phantom(0, 1, (B1,)), Phantom(1, 2, (B1,)), Phantom(0, 2, ()), Phantom(0, 2, (A1,))]
)
def test_a_phantom_that_lies_is_found(phantom: Phantom):
    with pytest.raises(OracleFailure):
        told().phantom_made(0, phantom)


def test_there_is_no_stability_where_none_was_asked_for():
    with pytest.raises(OracleFailure, match="without stability"):
        told(stability=False).stable_ready(0, tag(0, 1))
    with pytest.raises(OracleFailure, match="nobody asked"):
        told().k_stable_ready(0, tag(0, 1))


def test_k_stable_counts_members():
    told(k=2).k_stable_ready(0, tag(0, 1))
    with pytest.raises(OracleFailure, match="1 members are known"):
        told(k=2).k_stable_ready(1, tag(1, 1, A1))


def test_k_stable_is_told_once_and_after_consumption():
    oracle = told(k=1)
    oracle.k_stabilised(0, tag(0, 1))
    with pytest.raises(OracleFailure, match="twice"):
        oracle.k_stabilised(0, tag(0, 1))
    oracle.sent(0, tag(0, 2, B1), None)
    with pytest.raises(OracleFailure, match="before it consumed it"):
        oracle.k_stabilised(1, tag(0, 2, B1))


@pytest.mark.parametrize(
    "message",
    [
        Message(1, 1, (), b""),
        Message(1, 1, (A1, B1), b""),
        Message(1, 1, (A1,), b"", Aside("", (StreamDot(0, "s", 1),))),
        Message(1, 1, (A1,), b"", Aside("", (), (A1,))),
        VectorMessage(1, (0, 1), b""),
        VectorMessage(1, (2, 1), b""),
        VectorMessage(1, (1, 1), b"", (0, 1)),
    ],
)
def test_what_travels_must_be_the_tag(message: Any):
    oracle = told()
    oracle.wired(1, Message(1, 1, (A1,), b""))
    oracle.wired(1, VectorMessage(1, (1, 1), b""))
    with pytest.raises(OracleFailure):
        oracle.wired(1, message)


@dataclass(eq=False)
class StreamTag(NaiveTag):
    stream: str = ""


def test_a_message_of_a_stream_is_after_what_it_names_and_nothing_else():
    oracle = told()
    named = StreamTag(1, 1, b"", (A1,), None, "s")
    oracle.sent(1, named, [tag(0, 1)])
    assert oracle.truth.expected[2].past == 0b01
    unordered = StreamTag(1, 1, b"", (), None, "t")
    oracle.sent(1, unordered, ())
    assert oracle.truth.expected[3].past == 0
    late = StreamTag(1, 2, b"", (B1,), None, "t")
    with pytest.raises(OracleFailure, match=r"is wrong about {a:1, b:1}"):
        oracle.sent(1, late, ())


def test_streams_take_no_part_in_stability():
    oracle = told()
    named = StreamTag(1, 1, b"", (), None, "s")
    oracle.sent(1, named, ())
    oracle.ready(0, named)
    oracle.told[0] = 0b01
    oracle.consumed(0, named)
    with pytest.raises(OracleFailure, match="its own stream"):
        oracle.stable_ready(0, named)


class Liar:
    """Says that everything is concurrent with everything."""

    def __lt__(self, other: object) -> bool:
        return False

    def precedes(self, other: object) -> bool:
        return False

    def concurrent(self, other: object) -> bool:
        return True


class Forgetful(Liar):
    def precedes(self, other: object) -> bool:
        raise ForgottenTagError("gone")


def test_a_wrong_answer_about_two_tags_is_found():
    oracle = told()
    oracle.tags[0] = {0: Liar(), 1: Liar()}
    with pytest.raises(OracleFailure, match="their histories say"):
        oracle.compare(0, 0, 1)


def test_only_what_is_stable_may_be_forgotten():
    oracle = told()
    oracle.tags[0] = {0: Forgetful(), 1: Forgetful()}
    with pytest.raises(ForgottenTagError):
        oracle.compare(0, 0, 1)
    oracle.told[0] = 0b01
    oracle.compare(0, 0, 1)


def test_waiting_must_name_what_is_lacking():
    oracle = told()
    late, later = Message(0, 2, (B1,), b""), Message(0, 3, (A2,), b"")
    oracle.sent(0, tag(0, 2, B1), None)
    oracle.sent(0, tag(0, 3, A2), None)
    for message in (late, later):
        oracle.wired(0, message)
    oracle.arriving(1, 0, later)
    oracle.arrived(1, 0, later)
    oracle.check_waiting(1, [((0, "", 3), (0, "", 2))])
    for wrong in ([], [((0, "", 3), (0, "", 1))], [((0, "", 2), (0, "", 3))]):
        with pytest.raises(OracleFailure):
            oracle.check_waiting(1, wrong)


def test_vectors_of_engines_that_cover_may_count_more_but_not_less():
    oracle = Oracle(ENGINES["cbcast"], ["a", "b"])
    client, _ = ENGINES["cbcast"].make(_members(), 0, EngineOptions())
    oracle.sent(0, client.broadcast(b""), None)
    oracle.wired(0, VectorMessage(0, (1, 5), b""))
    oracle.sent(0, client.broadcast(b""), None)
    with pytest.raises(OracleFailure, match="nobody sent"):
        oracle.wired(0, VectorMessage(0, (0, 5), b""))


def _members() -> Any:
    from thence.causal.members import Members

    return Members(["a", "b"])


def test_the_examples_of_the_reference_work(root: Path):
    text = (root / "docs" / "reference" / "simulator.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "simulator.md", "exec"), {})
