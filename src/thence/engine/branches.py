"""What to do with concurrent messages (Dewan's slides 14, 60 to 62): the words, and the branches.

The slides leave to the application what becomes of a message that arrives though something that was
sent or taken here did not happen before it.  ``EngineOptions.concurrent`` chooses, for the engines
that can tell (``history``, ``scalar``, ``last-sender``; how well each can, it says):

    deliver   it is delivered like any other
    flag      it is delivered, and its tag has the flag ``concurrent``
    refuse    it is handed over with the flag ``refused``, payload and all, so that nothing is lost,
              and the application must not act on it: it counts as not taken.  What is sent after a
              refused message is refused too: the two parts of the conversation have parted, and
              only the application can bring them together again
    branch    it is delivered; the tag says which path of messages it continues, and has the flag
              ``branch`` where a new one begins

Branches: messages and what they follow make a tree; its leaves are the messages that nothing taken
here follows yet.  A message continues the leaves that it follows; if there are none, it begins a
branch.  A message that follows several, such as the next one of a node that has taken them all,
joins them under the lowest number.  At most one leaf is of each sender.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CONCURRENT: Final = "concurrent"
REFUSED: Final = "refused"
BRANCH: Final = "branch"


class Branches:
    """The leaves at one node."""

    __slots__ = ("_begun", "leaves")

    def __init__(self) -> None:
        self.leaves: dict[int, int] = {}
        """The number of the branch by the packed dot of its last message."""
        self._begun = 0

    def take(self, dot: int, before: Iterable[int]) -> tuple[int, bool]:
        """A message that follows these: the number of its branch, and whether that is a new one
        beside others."""
        found = [self.leaves.pop(each) for each in before if each in self.leaves]
        beside = not found and bool(self.leaves)
        if not found:
            found = [self._begun]
            self._begun += 1
        self.leaves[dot] = min(found)
        return self.leaves[dot], beside

    def send(self, dot: int) -> int:
        """An own message follows all that was taken here: the number of the branch it goes on."""
        return self.take(dot, list(self.leaves))[0]
