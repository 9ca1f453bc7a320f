"""What a step of an engine did: the caller hands in an ``Effects`` and finds it filled.

The caller owns it, so that a batch of steps fills one and nothing is allocated per message.
Within one ``Effects`` carry out ``send`` first, then hand ``deliver``, then ``stable`` and
``k_stable`` to the application, each in list order.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

# Reasons of a Reject, one per way in which a peer's input can be wrong.
DUPLICATE: Final = "duplicate"
NOT_A_MEMBER: Final = "not-a-member"
NOT_MY_MESSAGE: Final = "own-message-from-peer"
BAD_SEQ: Final = "bad-seq"
BAD_CONTEXT: Final = "bad-context"
UNSENT_OWN_DOT: Final = "context-names-unsent-own-dot"
TOO_FAR_AHEAD: Final = "too-far-ahead"
BAD_STREAM: Final = "bad-stream"
WRONG_KIND: Final = "wrong-kind"
TOO_LARGE: Final = "too-large"


class Reject(msgspec.Struct, frozen=True):
    """A peer's input was refused; the engine's state is as before.

    ``reason`` is one of the constants above; ``retry`` says that the same input may be accepted
    later (only ``too-far-ahead``), so the link must not acknowledge it.
    """

    peer: int
    reason: str
    detail: str
    retry: bool = False


class Waiting(msgspec.Struct, frozen=True):
    """A message in the hold-back queue and the missing dot it waits for (others may be missing)."""

    dot: int
    missing: int


class Effects:
    """What to do after a step, by kind.  See the module for the order between kinds."""

    __slots__ = ("deliver", "k_stable", "reject", "send", "stable")

    def __init__(self) -> None:
        self.send: list[Any] = []
        """Wire messages for every other member."""
        self.deliver: list[Any] = []
        """Tags ready to be handed to the application, in causal order."""
        self.stable: list[Any] = []
        """Tags that became causally stable, in causal order, each once."""
        self.k_stable: list[Any] = []
        """Tags now known to have been consumed by at least k members, each once."""
        self.reject: list[Reject] = []

    def clear(self) -> None:
        """Make it ready for the next step."""
        self.send.clear()
        self.deliver.clear()
        self.stable.clear()
        self.k_stable.clear()
        self.reject.clear()
