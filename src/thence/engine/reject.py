"""What an engine says about input it refuses, and about messages it holds back.

Never compiled: mypyc would drop that these values are frozen.
"""

from __future__ import annotations

from typing import Final

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
BAD_RECIPIENTS: Final = "bad-recipients"
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
