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
