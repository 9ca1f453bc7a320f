"""What a step of an engine did: the caller hands in an ``Effects`` and finds it filled.

The caller owns it, so that a batch of steps fills one and nothing is allocated per message.
Within one ``Effects`` carry out ``send`` first, then hand ``deliver``, then ``stable`` and
``k_stable`` to the application, each in list order.
"""

from __future__ import annotations

from typing import Any

from thence.engine.reject import Reject


class Effects:
    """What to do after a step, by kind.  See the module for the order between kinds."""

    __slots__ = ("deliver", "k_stable", "reject", "send", "stable")

    def __init__(self) -> None:
        self.send: list[Any] = []
        """Wire messages for every other member, and ``message.Directed`` ones.  Where the ``to`` of
        a ``Message`` names recipients, all others get ``message.hollow_form`` of it instead."""
        self.deliver: list[Any] = []
        """Tags ready to be handed to the application, in causal order.  A tag that is ``hollow``
        waits its turn like the others, goes to the client, and the application is told nothing:
        neither here nor when it is stable."""
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
