"""The part of ``Hub`` for groups whose members change: newcomers, guests, connections that follow
views."""

from __future__ import annotations

from typing import Final

from thence.client.driver import Driver
from thence.client.handover import WINDOW_PIECES
from thence.client.links import CONTACT, GUESTS_MAX, Address, Link, Notice, Totals
from thence.client.newcomer import Newcomer
from thence.errors import WireError
from thence.transport.base import BACKLOG_BYTES_HIGH, Connection
from thence.wire.frame import frame
from thence.wire.membership import PIECE_BYTES_MAX, Installed, Knock, Wait, decode, encode
from thence.wire.talk import COUNCIL

BACKLOG_BYTES_MAX: Final = WINDOW_PIECES * PIECE_BYTES_MAX
"""What may wait for a member that is told about members: all pieces of a state on their way."""
WRONG_SECRET: Final = "wrong-secret"
"""How a newcomer with another secret is counted."""


class Lobby:
    """Connections of those who are no members yet, or not any more."""

    node: str
    drivers: dict[str, Driver]
    newcomers: dict[str, Newcomer]
    addresses: dict[str, Address]
    links: dict[Connection, Link]
    by_peer: dict[str, Link]
    refused: dict[str, int]
    _notice: Notice
    totals: dict[str, Totals]
    _found: set[str]
    """Peers whose addresses a view told."""

    def know(self, peer: str, url: str, now: float) -> None:
        """This is where a peer can be reached."""
        raise NotImplementedError

    def is_known(self, peer: str) -> bool:
        """Whether it is a member of some group of this node, or will be."""
        raise NotImplementedError

    def _open(self, link: Link, driver: Driver) -> None:
        raise NotImplementedError

    def _drop(self, link: Link, reason: str, now: float) -> None:
        raise NotImplementedError

    def ask(self, url: str, now: float) -> None:
        """Somebody there may let this node into a group; who it is will be seen."""
        known = self.addresses.get(CONTACT + url)
        self.addresses[CONTACT + url] = Address(url, now, "" if known is None else known.node)

    def end_asking(self, group: str) -> None:
        """This node is in, or gives up; who gave it the state still has to hear that it came."""
        self._tell(self.newcomers.pop(group).told())
        if not self.newcomers:
            for label in [each for each in self.addresses if each.startswith(CONTACT)]:
                del self.addresses[label]

    def withdraw(self, newcomer: Newcomer) -> None:
        """This node is not let into a group after all."""
        newcomer.withdraw()
        self._tell(newcomer.told())

    def _ask_others(self, newcomer: Newcomer, now: float) -> None:
        """A newcomer was told of more members."""
        known = {each.url for each in self.addresses.values()}
        for url in newcomer.contacts:
            if url not in known:
                self.ask(url, now)

    def _missed(self, sentence: str) -> None:
        """Somebody is not there, or wants nothing to do with this node."""
        for newcomer in self.newcomers.values():
            newcomer.missed(sentence)

    def _takes_guests(self) -> bool:
        """Whether somebody may join a group of this node, and there is room for one more."""
        if not any(driver.is_elastic for driver in self.drivers.values()):
            return False
        return sum(link.is_guest for link in self.by_peer.values()) < GUESTS_MAX

    def _may_be_guest(self, link: Link) -> bool:
        if link.expected.startswith(CONTACT):
            return True
        if self.newcomers:  # who takes part will be learned
            return sum(not self.is_known(peer) for peer in self.by_peer) < GUESTS_MAX
        link.is_guest = self._takes_guests()
        return link.is_guest

    def _council(self, link: Link, body: bytes, now: float) -> None:
        group, message = decode(body)
        driver, newcomer = self.drivers.get(group), self.newcomers.get(group)
        if driver is not None and driver.is_elastic:
            driver.hear(link.peer, message, now, link.connection.peer_name is not None)
        elif newcomer is not None:
            newcomer.hear(link.peer, message, now)
        elif isinstance(message, Knock):
            wait = Wait(False, f"{self.node} has no group {group} that one can join")
            self._tell([(link.peer, frame(COUNCIL, encode(group, wait)))])
        elif (
            isinstance(message, Installed)  # the answer to one who opens the group
            and driver is not None
            and driver.slot_of(link.peer) is not None
        ):
            raise WireError(
                f"members of {group} come and go at {link.peer} and not at {self.node}: let "
                f"{self.node} join it (--join), or start all without --elastic"
            )

    def _tell(self, told: list[tuple[str, bytes]]) -> None:
        """Send frames to peers by name, as far as they are there: what matters is said again."""
        for peer, data in told:
            link = self.by_peer.get(peer)
            if link is None:
                continue
            # Who does not read what it is told is told no more; otherwise it would pile up here.
            most = BACKLOG_BYTES_HIGH if link.is_guest else BACKLOG_BYTES_MAX
            if link.connection.backlog_bytes <= most:
                link.connection.send(data)

    def _follow(self, driver: Driver, now: float) -> None:
        """Say what an elastic group has to say, then follow its view: open it to those who came,
        drop the connections of those who went, or whom it must begin anew with."""
        self._tell(driver.told())
        for peer, sentence in driver.complaints():
            self.refused[WRONG_SECRET] = self.refused.get(WRONG_SECRET, 0) + 1
            self._notice("refused", peer, sentence)
        resets, is_new = driver.changed()
        for link in list(self.by_peer.values()) if is_new or resets else ():
            slot = link.slots.get(driver.group)
            if slot is not None and (slot in resets or driver.slot_of(link.peer) != slot):
                if not driver.is_out:
                    self._drop(link, f"the members of {driver.group} changed", now)
            else:
                self._open(link, driver)
                if is_new and driver.group not in link.slots and not link.is_guest:
                    # This node asked it once: a member then, and all that it knows may be gone.
                    driver.met(link.peer)
        if not is_new:
            return
        for peer, url in driver.addresses().items():
            if url and (peer not in self.addresses or self.addresses[peer].url != url):
                self.know(peer, url, now)
                self._found.add(peer)
        for peer in [each for each in self._found if not self._is_member(each)]:
            self._found.discard(peer)
            self.addresses.pop(peer, None)
            if peer not in self.by_peer:
                self.totals.pop(peer, None)

    def _is_member(self, peer: str) -> bool:
        return any(
            driver.slot_of(peer) is not None or driver.is_out for driver in self.drivers.values()
        )
