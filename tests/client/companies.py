"""Elastic groups on connections without a network, for tests."""

from __future__ import annotations

from typing import Any

from tests.client.fakes import TIMING, FakeConnection, Wire, hub_of
from tests.client.greetings import greeted
from thence.client.elastic import Elastic
from thence.client.events import Delivered
from thence.client.hub import Hub
from thence.client.newcomer import Newcomer
from thence.client.spool import Spool
from thence.config.node import MembershipConfig
from thence.engine.registry import ENGINES
from thence.wire import membership as said
from thence.wire import talk
from thence.wire.membership import CouncilMessage, Request, View

MEMBERSHIP = MembershipConfig(elastic=True, beat_ms=100, suspect_s=1.0, suspect_phi=0, evict_s=2.0)
STEP_S = 0.05


def founders(names: str = "abc") -> View:
    return View.first({name: f"tcp://127.0.0.1:{ord(name)}" for name in names})


def elastic_of(
    name: str = "a", names: str = "abc", membership: MembershipConfig = MEMBERSHIP,
    view: View | None = None, **more: Any,
) -> Elastic:  # fmt: skip
    """A founder, unless ``view`` is another one."""
    view = view or founders(names)
    member = view.named(name)
    assert member is not None
    return Elastic(
        "g", ENGINES["tagged"], view, member.slot, more.pop("now", 0.0), membership, timing=TIMING,
        **more,
    )  # fmt: skip


class Held(Spool):
    """One that nobody has to close."""

    def __del__(self) -> None:
        self.close()


def newcomer_of(name: str = "j", ticket: int = 7, **more: Any) -> Newcomer:
    request = Request(name, ticket, f"tcp://127.0.0.1:{ord(name[0])}")
    return Newcomer("g", request, 0.0, make_spool=Held, **more)


class Company(Wire):
    """Founders that are connected with each other, and whoever joins; with a clock."""

    def __init__(self, names: str = "abc", **more: Any) -> None:
        self.drivers = {name: elastic_of(name, names, **more) for name in names}
        super().__init__(*(hub_of(name, driver) for name, driver in self.drivers.items()))
        self.now = 0.0
        self.lost: set[str] = set()
        """Nodes that crashed."""
        for at, name in enumerate(names):
            for other in names[at + 1 :]:
                self.connect(name, other)
        self.go(0.2)

    def go(self, seconds: float, takes: bool = True) -> None:
        """Let time pass; applications take what there is."""
        end = self.now + seconds
        while self.now < end:
            self.now += STEP_S
            self.run(self.now)
            for driver in self.drivers.values() if takes else ():
                while driver.take(self.now) is not None:
                    pass
            self.run(self.now)

    def knock(self, name: str, at: str, secret: bytes | None = None, ticket: int = 7) -> Newcomer:
        """Somebody asks a member to be let in."""
        if name not in self.hubs:
            self.hubs[name] = hub_of(name)
        made = newcomer_of(name, ticket, secret=secret)
        self.hubs[name].newcomers["g"] = made
        self.connect(name, at, self.now)
        return made

    def enter(self, name: str, membership: MembershipConfig = MEMBERSHIP) -> Elastic:
        """A newcomer that has the state takes part."""
        hub = self.hubs[name]
        made = hub.newcomers.pop("g")
        assert made.head is not None
        assert made.state is not None
        driver = elastic_of(
            name, membership=membership, view=made.head.view, now=self.now,
            newcomer=(made.head, made.state, ()),
        )  # fmt: skip
        self.drivers[name] = driver
        hub.add(driver)
        return driver

    def break_off(self, one: str, other: str) -> None:
        """The connection between two is gone."""
        for hub, end in self.ends:
            link = hub.links.get(end)
            if link is not None and (hub.node, link.peer) in ((one, other), (other, one)):
                end.closed = "broken"
                hub.closed(end, "broken", self.now)

    def crash(self, name: str) -> None:
        """A node is gone, and says nothing."""
        for other in self.hubs:
            self.break_off(name, other)
        del self.hubs[name], self.drivers[name]

    def members(self, name: str) -> list[str]:
        """As that node knows them."""
        return [each.id for each in self.drivers[name].council.view.members]


def council(message: CouncilMessage, group: str = "g") -> tuple[int, bytes]:
    """A frame about members."""
    return talk.COUNCIL, said.encode(group, message)


def heard(connection: FakeConnection) -> list[CouncilMessage]:
    """What was said about members on it."""
    return [said.decode(body)[1] for kind, body in connection.said() if kind == talk.COUNCIL]


def guest(hub: Hub, name: str = "x", now: float = 0.0) -> FakeConnection:
    """A connection of one who is no member; what was said at its beginning is passed over."""
    connection = greeted(hub, name, now=now)
    connection.said()
    return connection


def texts(driver: Elastic, now: float) -> list[bytes]:
    """Payloads of what is delivered and not taken."""
    found = []
    while (event := driver.take(now)) is not None:
        if isinstance(event, Delivered):
            found.append(event.payload)
    return found
