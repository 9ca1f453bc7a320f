"""What a step leaves behind: rejects with their reasons, waiting messages, effects by kind."""

from __future__ import annotations

import msgspec
import pytest

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine import reject
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.reject import Reject, Waiting
from thence.engine.tagged import make
from thence.message import Message, Phantom

KINDS = ("send", "deliver", "stable", "k_stable", "reject")


def reasons() -> dict[str, str]:
    """The constants of the module."""
    return {
        name: value
        for name, value in vars(reject).items()
        if name.isupper() and isinstance(value, str)
    }


def test_every_reason_is_a_different_word_for_logs_and_metrics():
    found = reasons()
    assert len(found) >= 10
    assert len(set(found.values())) == len(found)
    for value in found.values():
        assert value == value.lower().strip()
        assert value.replace("-", "").isalpha()


def test_values_compare_by_what_they_say():
    refused = Reject(1, reject.BAD_SEQ, "why")
    assert not refused.retry
    assert refused == Reject(1, reject.BAD_SEQ, "why", False)
    assert hash(refused) == hash(Reject(1, reject.BAD_SEQ, "why"))
    with pytest.raises(AttributeError):
        refused.reason = "other"  # type: ignore[misc]
    assert Waiting(1, 2) == Waiting(1, 2) != Waiting(2, 2)
    assert msgspec.structs.asdict(Waiting(1, 2)) == {"dot": 1, "missing": 2}


def test_effects_start_empty_and_clear_keeps_the_lists():
    out = Effects()
    lists = [getattr(out, kind) for kind in KINDS]
    assert lists == [[], [], [], [], []]
    for each in lists:
        each.append(1)
    out.clear()
    assert lists == [[], [], [], [], []]
    assert all(getattr(out, kind) is each for kind, each in zip(KINDS, lists, strict=True))


def test_one_effects_takes_many_steps_in_order():
    client, engine = make(Members("ab"), 0, EngineOptions(stability_batch=1, k=2))
    out = Effects()
    engine.broadcast(client.broadcast(b""), out)
    engine.announce(client.phantom(), out)
    engine.receive(1, Message(1, 2, (pack(1, 1),), b""), out)
    engine.receive(1, Message(1, 1, (pack(0, 1),), b""), out)
    engine.receive(1, Message(1, 0, (), b""), out)
    for tag in out.deliver:
        client.consume(tag)
    engine.flush(out)
    assert out.send == [Message(0, 1, (), b""), Phantom(0, 2, (pack(0, 1),))]
    assert [str(tag) for tag in out.deliver] == ["b:1", "b:2"]
    assert [str(tag) for tag in out.stable] == ["a:1", "b:1", "b:2"]
    assert [str(tag) for tag in out.k_stable] == ["a:1", "b:1", "b:2"]
    assert [refused.reason for refused in out.reject] == [reject.BAD_SEQ]
