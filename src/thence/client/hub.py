"""The connections of one node: who is at the other end, which groups they share, who dials.

Pure, like the driver: connections are handed in, and time and chance are arguments.

A connection begins with HELLO from both sides.  Then each side opens its groups on it (OPEN), and a
group that both have opened is *live*: its frames go to the driver.  A connection that says anything
that it should not is closed with a reason, and so is one that says nothing for too long.

Both sides of a pair may dial, so there can be two connections for a moment.  Both sides keep the
same one: that of the newer start of the dialling process, and of two from the same starts the one
that the node with the smaller name dialled.  A newcomer whose name a connected member has is
refused: whoever starts a second node under a name in use must not cut the first one off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from thence import __version__
from thence.client.driver import Driver
from thence.client.links import (
    CONTACT,
    EARLY_BYTES_MAX,
    GROUPS_PER_PEER_MAX,
    REASONS,
    RTT_WEIGHT,
    SILENT_HEARTBEATS,
    Address,
    Link,
    Notice,
    Totals,
)
from thence.client.lobby import Lobby
from thence.client.newcomer import Newcomer
from thence.config.node import TimingConfig
from thence.errors import JournalError, WireError
from thence.transport.base import BACKLOG_BYTES_HIGH, Connection
from thence.wire import talk


class Hub(Lobby):
    """All connections of a node."""

    def __init__(
        self,
        node: str,
        boot: int,
        timing: TimingConfig,
        chance: Random,
        notice: Notice | None = None,
        versions: tuple[int, int] = (talk.VERSION_MIN, talk.VERSION_MAX),
    ) -> None:
        """``boot``: larger for each start of this node; ``chance`` spreads what is tried again;
        ``versions``: the least and the most of the wire format that it speaks."""
        self.node = node
        self.boot = boot
        self.versions = versions
        self._timing = timing
        self._chance = chance
        self._notice: Notice = notice or (lambda what, who, detail: None)
        self.drivers: dict[str, Driver] = {}
        self.newcomers: dict[str, Newcomer] = {}
        """Groups that this node is about to join."""
        self._numbers: dict[str, int] = {}
        self.addresses: dict[str, Address] = {}
        self.links: dict[Connection, Link] = {}
        self.by_peer: dict[str, Link] = {}
        """The connection to each peer that said who it is."""
        self.refused: dict[str, int] = {}
        """How often a connection was refused or ended, by reason."""
        self.totals = {}
        self._found = set()
        self._links_due = 0.0  # when links are to be looked at; what is heard only delays it

    # ---- groups and addresses --------------------------------------------------------------------

    def add(self, driver: Driver) -> None:
        """Take part in a group; its members must have addresses, or dial this node."""
        self.drivers[driver.group] = driver
        self._numbers.setdefault(driver.group, len(self._numbers))
        for link in list(self.by_peer.values()):
            self._open(link, driver)

    def remove(self, group: str) -> None:
        """Take part no more."""
        driver = self.drivers.pop(group)
        for link in self.links.values():
            link.opened.pop(group, None)
            link.slots.pop(group, None)
            for channel in [at for at, each in link.channels.items() if each is driver]:
                del link.channels[channel]

    def know(self, peer: str, url: str, now: float) -> None:
        """This is where a peer can be reached."""
        self.addresses[peer] = Address(url, now, peer)

    def is_known(self, peer: str) -> bool:
        """Whether it is a member of some group of this node, or will be: it has an address."""
        return peer in self.addresses or any(
            driver.slot_of(peer) is not None for driver in self.drivers.values()
        )

    # ---- dialling --------------------------------------------------------------------------------

    def dials(self, now: float) -> list[tuple[str, str]]:
        """(peer, url) of those to be dialled now; say ``connected`` or ``unreachable`` of each."""
        due: list[tuple[str, str]] = []
        if self.addresses.keys() <= self.by_peer.keys():
            return due
        for peer, address in self.addresses.items():
            if address.due <= now and address.node not in self.by_peer:
                address.due = float("inf")
                due.append((peer, address.url))
        return due

    def unreachable(self, peer: str, reason: str, now: float) -> None:
        """Dialling did not work: try again, later each time."""
        address = self.addresses.get(peer)
        if address is not None:
            self._notice("unreachable", peer.removeprefix(CONTACT), reason)
            self._again(address, now)
            self._missed(reason)

    def _again(self, address: Address, now: float) -> None:
        low, high = self._timing.reconnect_ms_min / 1000, self._timing.reconnect_ms_max / 1000
        wait = min(high, low * 2 ** min(address.tries, 30))
        address.tries += 1
        # Half of it by chance, or two nodes that lost each other dial at the same time for ever.
        address.due = now + wait * (0.5 + self._chance.random() / 2)

    # ---- connections -----------------------------------------------------------------------------

    def connected(self, connection: Connection, peer: str, now: float) -> None:
        """A connection is there; ``peer`` is whom this side dialled, empty if it was dialled."""
        self.links[connection] = Link(connection, peer, now)
        self._links_due = 0.0
        is_newcomer = bool(self.newcomers) and not self.drivers
        software = f"thence {__version__}"
        connection.send(talk.hello(self.node, self.boot, software, self.versions, is_newcomer))

    def closed(self, connection: Connection, reason: str, now: float) -> None:
        """A connection is gone."""
        link = self.links.pop(connection, None)
        if link is None:
            return
        for driver in link.channels.values():
            if self.by_peer.get(link.peer) is link:
                driver.closed(link.slots[driver.group], reason)
        if self.by_peer.get(link.peer) is link:
            del self.by_peer[link.peer]
            if link.is_guest or not self.is_known(link.peer):
                del self.totals[link.peer]  # or strangers could make up names for ever
            else:
                self.totals[link.peer].add(connection)
            self._notice("disconnected", link.peer, reason)
        if link.expected and not link.peer:
            self._missed(f"{link.expected.removeprefix(CONTACT)}: {reason}")
        for label, address in self.addresses.items():
            if label == link.expected or (link.peer and address.node == link.peer):
                if address.node not in self.by_peer:
                    self._again(address, now)

    def received(
        self, connection: Connection, frames: Iterable[tuple[int, bytes]], now: float
    ) -> None:
        """Frames arrived."""
        link = self.links.get(connection)
        if link is None:
            return
        link.heard = now
        try:
            for kind, body in frames:
                handler = _HANDLERS.get(kind)
                if link.peer and handler is not None:
                    handler(self, link, body, now)
                elif kind == talk.HELLO:
                    self._hello(link, body, now)
                elif kind == talk.REFUSE:
                    self._refused(link, body, now)
                elif not link.peer:
                    raise WireError(f"a frame of kind {kind} before HELLO")
                if connection not in self.links:
                    return
        except WireError as error:
            self._refuse(link, talk.NONSENSE, str(error), now)

    def _refuse(self, link: Link, code: int, sentence: str, now: float, group: str = "") -> None:
        """End a connection and say why, to the other side and here."""
        sentence = sentence[: talk.SENTENCE_CHARS_MAX]
        reason = REASONS.get(code, "refused")
        self.refused[reason] = self.refused.get(reason, 0) + 1
        self._notice("refused", link.peer or link.connection.address, sentence)
        link.connection.send(talk.refuse(code, sentence, group))
        address = self.addresses.get(link.peer or link.expected)
        if address is not None and code != talk.REPLACED:
            address.tries = max(address.tries, 6)  # asking again at once would not help
        self._drop(link, sentence, now)

    def _drop(self, link: Link, reason: str, now: float) -> None:
        self.closed(link.connection, reason, now)
        link.connection.close(reason)

    # ---- greeting --------------------------------------------------------------------------------

    def _hello(self, link: Link, body: bytes, now: float) -> None:
        if link.peer:
            raise WireError(f"a second greeting from {link.peer}")
        said = talk.read(body, talk.Hello)
        if said.magic != talk.MAGIC:
            raise WireError("the other side does not speak this protocol")
        mine = self.versions
        version = talk.choose_version(mine, (said.least, said.most))
        if version is None:
            self._refuse(
                link,
                talk.BAD_VERSION,
                f"{said.node} speaks versions {said.least} to {said.most}, {self.node} speaks "
                f"{mine[0]} to {mine[1]}: upgrade the older one ({said.software})",
                now,
            )
            return
        link.version = version
        fault = self._who_is_it(link, said)
        if link.expected in self.addresses and not fault:
            self.addresses[link.expected].node = said.node
        if fault:
            self._refuse(link, talk.WRONG_NAME, fault, now)
        elif not (self.is_known(said.node) or self._may_be_guest(link)):
            groups = ", ".join(sorted(self.drivers)) or "none"
            fault = f"{said.node} is no member of a group here ({groups})"
            self._refuse(link, talk.NOT_A_MEMBER, fault, now)
        elif self._keeps(link, said, now):
            self._greet(link, said, now)

    def _who_is_it(self, link: Link, said: talk.Hello) -> str:
        proved = link.connection.peer_name
        if proved is not None and proved != said.node:
            return f"the certificate says {proved}, the greeting says {said.node}"
        if link.expected not in ("", said.node) and not link.expected.startswith(CONTACT):
            return f"dialled {link.expected} at {link.connection.address}, found {said.node}"
        if said.node == self.node:
            return f"both ends are named {said.node}, and a name is for one node"
        return ""

    def _keeps(self, link: Link, said: talk.Hello, now: float) -> bool:
        """Whether this connection is the one to keep, if there is another to that peer."""
        other = self.by_peer.get(said.node)
        if other is None:
            return True
        if said.is_newcomer and said.boot != other.boot and other.slots:
            fault = f"{said.node} is connected already: choose another name, or stop that node"
            self._refuse(link, talk.WRONG_NAME, fault, now)
            return False
        if (
            said.boot == other.boot
            and self._is_preferred(other, said.node)
            and not (self._is_preferred(link, said.node))
        ):
            link.connection.send(talk.bye(talk.REPLACED, "there is another connection"))
            self._drop(link, "there is another connection", now)
            return False
        if said.boot < other.boot:
            self._refuse(link, talk.REPLACED, f"a later start of {said.node} is here", now)
            return False
        if said.boot == other.boot:
            self.totals[said.node].connections -= 1  # both dialled: these two count as one
        self._drop(other, "replaced by a newer connection", now)
        return True

    def _is_preferred(self, link: Link, peer: str) -> bool:
        """Whether the node with the smaller name dialled it."""
        return link.connection.dialled == (self.node < peer)

    def _greet(self, link: Link, said: talk.Hello, now: float) -> None:
        link.peer, link.boot = said.node, said.boot
        self.by_peer[said.node] = link
        self.totals.setdefault(said.node, Totals()).connections += 1
        self._links_due = 0.0
        if not link.is_guest:
            link.connection.trust()
        for address in self.addresses.values():
            if address.node == said.node:
                address.tries, address.due = 0, float("inf")
        self._notice("connected", said.node, link.connection.address)
        is_contact = link.expected.startswith(CONTACT)
        for driver in self.drivers.values():
            self._open(link, driver)
            if is_contact and driver.slot_of(said.node) is None:
                driver.ask(said.node)

    def _refused(self, link: Link, body: bytes, now: float) -> None:
        said = talk.read(body, talk.Refuse)
        who = link.peer or link.expected or link.connection.address
        self._notice("refused by", who.removeprefix(CONTACT), said.sentence)
        address = self.addresses.get(link.peer) or self.addresses.get(link.expected)
        if address is not None:
            address.tries = max(address.tries, 6)  # asking again at once would not help
        driver = self.drivers.get(said.group) if said.group in link.opened else None
        if driver is not None and said.code == talk.YOUR_JOURNAL:
            driver.lost(link.peer)
        self._drop(link, f"{who.removeprefix(CONTACT)} refused: {said.sentence}", now)
        if said.code != talk.REPLACED:
            self._missed(f"refused by {who.removeprefix(CONTACT)}: {said.sentence}")

    # ---- groups on a connection ------------------------------------------------------------------

    def _open(self, link: Link, driver: Driver) -> None:
        """Open a group on this side, if the peer is a member; it is live if the peer has done so
        before."""
        slot = driver.slot_of(link.peer)
        if slot is None or driver.group in link.opened:
            return
        number = self._numbers[driver.group]
        link.opened[driver.group] = number
        link.slots[driver.group] = slot
        if link.is_guest:
            link.is_guest = False
            link.connection.trust()
        link.connection.send(driver.open(slot, number))
        early = link.early.pop(driver.group, None)
        if early is not None:
            self._live(link, driver, early, link.heard)

    def _opened(self, link: Link, body: bytes, now: float) -> None:
        said = talk.read(body, talk.Open)
        driver = self.drivers.get(said.group)
        is_live = driver is not None and driver in link.channels.values()
        if is_live or said.channel in link.channels or said.group in link.early:
            raise WireError(f"group {said.group[:40]} is opened twice")
        if driver is None:
            link.early_bytes += len(body)
            if len(link.early) >= GROUPS_PER_PEER_MAX or link.early_bytes > EARLY_BYTES_MAX:
                raise WireError("too many groups that this node does not have")
            link.early[said.group] = said
        elif driver.is_stranger(link.peer, said):
            if not driver.is_elastic:
                fault = f"{link.peer} is no member of {driver.group}"
                self._refuse(link, talk.NOT_A_MEMBER, fault, now)
                return
            link.early[said.group] = said  # until there is a view with it, if there will be one
            driver.met(link.peer)
        else:
            self._open(link, driver)
            self._live(link, driver, said, now)

    def _live(self, link: Link, driver: Driver, said: talk.Open, now: float) -> None:
        if driver.is_stranger(link.peer, said):
            link.early[said.group] = said
            driver.met(link.peer)
            return
        fault = driver.opened(link.slots[driver.group], said, now)
        if fault is not None:
            group = driver.group if fault[0] == talk.YOUR_JOURNAL else ""
            self._refuse(link, *fault, now, group)
            return
        link.channels[said.channel] = driver

    def _driver(self, link: Link, channel: int) -> tuple[Driver, int]:
        driver = link.channels.get(channel)
        if driver is None:
            raise WireError(f"channel {channel} is not open")
        return driver, link.slots[driver.group]

    def _data(self, link: Link, body: bytes, now: float) -> None:
        channel, number, batch = talk.read_data(body)
        driver, slot = self._driver(link, channel)
        driver.data(slot, number, batch, now)

    def _ack(self, link: Link, body: bytes, now: float) -> None:
        said = talk.read_ack(body)
        driver, slot = self._driver(link, said.channel)
        driver.acknowledged(slot, said)

    def _news(self, link: Link, body: bytes, now: float) -> None:
        channel, phantom = talk.read_news(body)
        driver, slot = self._driver(link, channel)
        driver.news(slot, phantom, now)

    def _ping(self, link: Link, body: bytes, now: float) -> None:
        token = talk.read_token(body)
        # Who does not read its answers gets none; otherwise they would pile up here.
        if link.connection.backlog_bytes <= BACKLOG_BYTES_HIGH:
            link.connection.send(talk.pong(token))

    def _pong(self, link: Link, body: bytes, now: float) -> None:
        if link.asked and talk.read_token(body) == int(link.asked * 1_000_000):
            measured = now - link.asked
            link.asked = 0.0
            if link.rtt_s:
                measured = link.rtt_s + RTT_WEIGHT * (measured - link.rtt_s)
            link.rtt_s = measured
            for driver in link.channels.values():
                driver.rtt_s = max((each.rtt_s for each in self.by_peer.values()), default=measured)

    def _bye(self, link: Link, body: bytes, now: float) -> None:
        said = talk.read(body, talk.Refuse)
        self._drop(link, f"{link.peer} said goodbye: {said.sentence}", now)

    # ---- time ------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When ``tick`` is due."""
        due = self._links_due or self._links_deadline()
        for driver in self.drivers.values():
            at = driver.deadline()
            if at is not None and at < due:
                due = at
        for newcomer in self.newcomers.values():
            at = newcomer.deadline()
            if at is not None and at < due:
                due = at
        if not self.addresses.keys() <= self.by_peer.keys():
            for address in self.addresses.values():
                if address.node not in self.by_peer:
                    due = min(due, address.due)
        return due if due != float("inf") else None

    def _links_deadline(self) -> float:
        due, beat = float("inf"), self._timing.heartbeat_s
        for link in self.links.values():
            if not link.peer:
                due = min(due, link.since + self._timing.greeting_s)
            else:
                due = min(due, max(link.heard, link.asked) + beat)
        return due

    def tick(self, now: float) -> None:
        """Do what is due, except dialling (``dials``)."""
        for driver in self.drivers.values():
            driver.tick(now)
        for newcomer in self.newcomers.values():
            newcomer.tick(now, self.by_peer)
            self._ask_others(newcomer, now)
        if now < self._links_due:
            return
        beat = self._timing.heartbeat_s
        for link in list(self.links.values()):
            if not link.peer:
                if now >= link.since + self._timing.greeting_s:
                    self._refuse(link, talk.NONSENSE, "no greeting: it took too long", now)
            elif now >= link.heard + SILENT_HEARTBEATS * beat:
                self._drop(link, f"nothing from {link.peer} for {now - link.heard:.1f} s", now)
            elif now >= max(link.heard, link.asked) + beat:
                link.asked = now
                link.connection.send(talk.ping(int(now * 1_000_000)))
        self._links_due = self._links_deadline()

    def flush(self, now: float) -> bool:
        """The end of a turn: write down what happened, then let it out; whether there was any."""
        said = False
        for driver in self.drivers.values():
            try:
                driver.commit(now)
            except JournalError as error:  # it sends nothing more; its application is told
                self._notice("journal", driver.group, str(error))
            if driver.is_elastic:
                self._follow(driver, now)
        for newcomer in self.newcomers.values():
            self._tell(newcomer.told())
        for link in self.by_peer.values():
            connection = link.connection
            for driver in link.channels.values():
                slot = link.slots[driver.group]
                if not driver.exchange.owes(slot, now):
                    continue
                congested = connection.backlog_bytes > BACKLOG_BYTES_HIGH
                number = link.opened[driver.group]
                for frame in driver.frames(slot, number, congested, now):
                    connection.send(frame)
                    said = True
        return said

    def stop(self, sentence: str, now: float) -> None:
        """Say goodbye to everybody, after what they wait for to hear."""
        for driver in self.drivers.values():
            driver.hurry(now)
        self.flush(now)
        for link in list(self.links.values()):
            link.connection.send(talk.bye(talk.STOPPING, sentence))
            self._drop(link, sentence, now)


_HANDLERS: Final[dict[int, Callable[[Hub, Link, bytes, float], None]]] = {
    talk.OPEN: Hub._opened,
    talk.DATA: Hub._data,
    talk.ACK: Hub._ack,
    talk.NEWS: Hub._news,
    talk.PING: Hub._ping,
    talk.PONG: Hub._pong,
    talk.BYE: Hub._bye,
    talk.COUNCIL: Hub._council,
    talk.REFUSE: Hub._refused,
}
