"""What an application is told, in the order in which it happened."""

from __future__ import annotations

from typing import Any, Protocol


class Confirms(Protocol):
    """Who wants to know that the application is done with an event."""

    def confirm(self, event: Event) -> None: ...


class Event:
    """One thing that happened.

    ``confirm`` says that the application is done with this event and all before it: after a crash
    they do not come again.  By default taking the next event does it.
    """

    __slots__ = ("_driver", "number")

    def __init__(self, driver: Confirms, number: int) -> None:
        self._driver = driver
        self.number = number
        """Its place among the events of this start of the node, from 1."""

    def confirm(self) -> None:
        """Be done with this event and all before it."""
        self._driver.confirm(self)


class Delivered(Event):
    """A message of another member.  Everything that caused it was delivered before."""

    __slots__ = ("tag",)

    def __init__(self, driver: Confirms, number: int, tag: Any) -> None:
        self._driver = driver  # there is one for each message: without the call above
        self.number = number
        self.tag = tag

    @property
    def payload(self) -> bytes:
        """What its sender sent."""
        payload: bytes = self.tag.payload
        return payload

    def __repr__(self) -> str:
        return f"Delivered({self.tag!r})"


class Stable(Event):
    """A message, own or another's, with which nothing concurrent can be delivered any more."""

    __slots__ = ("tag",)

    def __init__(self, driver: Confirms, number: int, tag: Any) -> None:
        self._driver = driver  # there is one for each message: without the call above
        self.number = number
        self.tag = tag

    def __repr__(self) -> str:
        return f"Stable({self.tag!r})"


class Known(Event):
    """A message that as many members as was asked for are known to have consumed."""

    __slots__ = ("tag",)

    def __init__(self, driver: Confirms, number: int, tag: Any) -> None:
        super().__init__(driver, number)
        self.tag = tag

    def __repr__(self) -> str:
        return f"Known({self.tag!r})"


class Blocked(Event):
    """Broadcasts have to wait, for these members to take or acknowledge what was sent."""

    __slots__ = ("waiting_for",)

    def __init__(self, driver: Confirms, number: int, waiting_for: tuple[str, ...]) -> None:
        super().__init__(driver, number)
        self.waiting_for = waiting_for

    def __repr__(self) -> str:
        return f"Blocked({', '.join(self.waiting_for)})"


class Connected(Event):
    """A member can be reached (again)."""

    __slots__ = ("member",)

    def __init__(self, driver: Confirms, number: int, member: str) -> None:
        super().__init__(driver, number)
        self.member = member

    def __repr__(self) -> str:
        return f"Connected({self.member})"


class Disconnected(Event):
    """A member cannot be reached; what is sent to it waits."""

    __slots__ = ("member", "reason")

    def __init__(self, driver: Confirms, number: int, member: str, reason: str) -> None:
        super().__init__(driver, number)
        self.member = member
        self.reason = reason

    def __repr__(self) -> str:
        return f"Disconnected({self.member}: {self.reason})"


# ---- elastic groups: who is in, and who seems to be gone ----------------------------------------


class Joined(Event):
    """A member was let in.  From here on stable means consumed by it too.

    Nothing that it sent was delivered before this.  Membership changes come in the same order at
    all members, one ``view`` after the other; a member may skip views that it was not there for.
    """

    __slots__ = ("member", "view")

    def __init__(self, driver: Confirms, number: int, member: str, view: int) -> None:
        super().__init__(driver, number)
        self.member = member
        self.view = view
        """The number of the view that has it, the same at all members."""

    def __repr__(self) -> str:
        return f"Joined({self.member}, view {self.view})"


class Left(Event):
    """A member left of its own will.  All it ever sent was delivered before this."""

    __slots__ = ("member", "view")

    def __init__(self, driver: Confirms, number: int, member: str, view: int) -> None:
        super().__init__(driver, number)
        self.member = member
        self.view = view
        """The number of the first view without it."""

    def __repr__(self) -> str:
        return f"Left({self.member}, view {self.view})"


class Evicted(Event):
    """The others went on without a member.

    Of another member: what the group accepted of its messages was delivered before this, at all
    members the same, and no more will come.  Of this node (``is_self``): it can take no further
    part, and has to join again, with nothing but what the group gives it.
    """

    __slots__ = ("is_self", "member", "rejected", "view")

    def __init__(
        self,
        driver: Confirms,
        number: int,
        member: str,
        view: int,
        is_self: bool = False,
        rejected: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(driver, number)
        self.member = member
        self.view = view
        """The number of the first view without it."""
        self.is_self = is_self
        self.rejected = rejected
        """Tags of this node's own messages that the group did not accept and nobody else will
        deliver: send them again after joining, if they still make sense.  Empty unless
        ``is_self``."""

    def __repr__(self) -> str:
        fate = f", {len(self.rejected)} rejected" if self.is_self else ""
        return f"Evicted({self.member}, view {self.view}{fate})"


class Suspected(Event):
    """A member was not heard for unusually long.  It may be gone, or slow, or cut off.

    It still counts: nothing becomes stable without it until it is heard again (``Trusted``) or
    evicted (``Evicted``).  Members may differ in whom they suspect.
    """

    __slots__ = ("member", "silence_s")

    def __init__(self, driver: Confirms, number: int, member: str, silence_s: float) -> None:
        super().__init__(driver, number)
        self.member = member
        self.silence_s = silence_s
        """For how long it had not been heard, in seconds."""

    def __repr__(self) -> str:
        return f"Suspected({self.member}, silent for {self.silence_s:.1f} s)"


class Trusted(Event):
    """A suspected member was heard again: the suspicion is over."""

    __slots__ = ("member",)

    def __init__(self, driver: Confirms, number: int, member: str) -> None:
        super().__init__(driver, number)
        self.member = member

    def __repr__(self) -> str:
        return f"Trusted({self.member})"


class Minority(Event):
    """Too few members can be reached from here to change the membership.

    Messages still travel among those that can be reached, and none of them becomes stable.  The
    other side may evict this node, which then learns what of its own was not accepted.
    """

    __slots__ = ("members", "reachable")

    def __init__(
        self, driver: Confirms, number: int, reachable: tuple[str, ...], members: tuple[str, ...]
    ) -> None:
        super().__init__(driver, number)
        self.reachable = reachable
        """The members that are not suspected, this node among them."""
        self.members = members
        """All members of the view."""

    def __repr__(self) -> str:
        return f"Minority({len(self.reachable)} of {len(self.members)})"


class Majority(Event):
    """After ``Minority``: enough members can be reached again to change the membership."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Majority()"
