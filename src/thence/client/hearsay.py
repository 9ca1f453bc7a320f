"""What those who are no members say of views, and who of them is believed.

A later view comes from members, as a rule.  A node that was cut off may know none of the members
that there are by now: then one whom it does not know must be able to tell it.
"""

from __future__ import annotations

from typing import Final

from thence.client.secret import is_proof, proof
from thence.errors import WireError
from thence.wire import membership as said
from thence.wire.membership import CouncilMessage, View

STRANGERS_MAX: Final = 64
"""Of those who are no members here, so many are remembered with the view they said to be in."""
_ABOUT: Final = "installed"


def sign(message: CouncilMessage, group: str, secret: bytes | None) -> CouncilMessage:
    """The same; a view with the proof that somebody says it who knows the secret.

    Whoever overhears it may say it again: it stays true.
    """
    if secret is None or not isinstance(message, said.Installed):
        return message
    plain = said.encode(group, said.Installed(message.value))
    return said.Installed(message.value, proof(secret, plain, _ABOUT))


def is_believed(
    peer: str, message: said.Installed, group: str, secret: bytes | None, is_proved: bool,
    is_lost: bool,
) -> bool:  # fmt: skip
    """Whether one who is no member here is believed that there is a later view.

    A certificate (``is_proved``) or the secret of the group proves that it may be one.  Where there
    is neither, nobody is needed while a quorum of this view answers, because that learns of every
    later view; only a node without one has nobody else to ask, and who asks whom its operator named
    believes that one (``is_lost``).
    """
    if is_proved:
        return True
    value = message.value
    if secret is not None:
        plain = said.encode(group, said.Installed(value))
        return is_proof(message.proof, secret, plain, _ABOUT)
    return is_lost and (value.named(peer) is not None or value.former(peer) is not None)


def check(message: CouncilMessage, view: View) -> None:
    """WireError if it cannot be said by one who has ``view``, or will have, or had it."""
    if isinstance(message, said.Beat):  # most are, and no view is in them
        return
    for value in (getattr(message, "value", None), getattr(message, "accepted", None)):
        if isinstance(value, View):
            fault = value.fault() or (value.num >= view.num and value.conflict(view))
            if fault:
                raise WireError(f"a view of another group, or one that cannot be: {fault}")
    if isinstance(message, said.Prepare) and message.view == view.num:
        slots = {message.ballot[1], *message.suspects, *dict(message.target)}
        for suspect, holder in message.holders:
            slots |= {suspect, holder}
        if not slots <= {each.slot for each in view.members}:
            raise WireError("a ballot about somebody who is no member")
