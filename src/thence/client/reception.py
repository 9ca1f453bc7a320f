"""Where newcomers knock: who may join, and handing the state to those who may.

A newcomer is let in by the council; the state is handed over when the application of this node has
reached a view with it, and only between two events of the application: then its state is that of
one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from thence.client.bucket import Bucket
from thence.client.council import Council
from thence.client.handover import Handover
from thence.client.secret import is_proof, proof
from thence.config.node import MembershipConfig
from thence.engine.handover import latest_dots, state_for, taken
from thence.wire import membership as said
from thence.wire.membership import (
    CONTACTS_MAX,
    SENTENCE_CHARS_MAX,
    CouncilMessage,
    Head,
    Member,
    Request,
    View,
    is_name,
)

HANDOVERS_MAX: Final = 16
"""At the same time; others wait, or go to another member."""
GUEST_S: Final = 5.0
"""Who does not knock for so long is forgotten."""
RESUME_S: Final = 1.0
"""A handover that moved less than so long ago is on its way: it is neither repeated nor begun anew,
however often the newcomer knocks."""

Snapshot = Callable[[], "bytes | Iterable[bytes]"]
"""What gives the application's state of this moment, in chunks."""


class Host(Protocol):
    """The driver of the group."""

    name: str
    group: str
    slot: int
    council: Council
    view_told: View
    is_out: bool
    client: Any
    engine: Any
    queue: Any
    spec: Any
    options: Any
    replies: list[tuple[str, CouncilMessage]]
    born_us: int

    def reached(self, slot: int) -> int: ...
    def is_delivery(self, entry: Any) -> bool: ...
    def hurry_beat(self) -> None: ...


class Guest:
    """Somebody who knocks."""

    def __init__(self, request: Request, now: float) -> None:
        self.request = request
        self.seen = now
        self.handover: Handover | None = None
        self.moved = now
        """When the handover began, went on, or was resumed."""
        self.is_due = False
        """Pieces may be sent, at the end of the turn."""


class Reception:
    """The newcomers that ask this node."""

    def __init__(self, driver: Host, config: MembershipConfig, secret: bytes | None) -> None:
        self._driver = driver
        self._config = config
        self._secret = secret
        self._bucket = Bucket(config.joins_per_s, max(1, int(config.joins_per_s)))
        self.guests: dict[str, Guest] = {}
        """By name."""
        self.snapshot: Snapshot | None = None
        """Gives the application's state; without one there is none."""
        self.is_idle = True
        """The application has nothing at hand: its state is that of all it has taken."""
        self.on_failed: Callable[[Exception], None] | None = None
        """Told what the application raised."""
        self.complaints: list[tuple[str, str]] = []
        """(peer, what people should know of it), until somebody fetches them."""
        self._is_asked = False  # somebody waits for the application to be between two events
        self._number = 0  # of the last snapshot
        self.handed = 0
        """States that were handed over."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for the state that was let in by way of this node."""
        return any(each.handover is not None for each in self.guests.values())

    def hear(
        self, peer: str, message: said.Knock | said.PieceAck | said.Withdraw, now: float,
        is_proved: bool,
    ) -> None:  # fmt: skip
        """A newcomer says this; ``is_proved``: its certificate says who it is."""
        if isinstance(message, said.Withdraw):
            self._withdrawn(peer, message.ticket)
            return
        if isinstance(message, said.PieceAck):
            guest = self.guests.get(peer)
            if guest is not None and guest.handover is not None:
                if guest.handover.number == message.snapshot:
                    # One answer a turn: a piece is much larger than its acknowledgement.
                    guest.seen = guest.moved = now
                    guest.is_due = True
                    guest.handover.acknowledged(message.piece)
            return
        if self._driver.is_out:
            self._say(peer, self._wait(f"{self._driver.name} is no member any more"))
            return
        refusal = self._refusal(peer, message, is_proved, now)
        if refusal is not None:
            self._say(peer, refusal)
            return
        guest = self.guests.get(peer)
        if guest is None or guest.request.ticket != message.request.ticket:
            guest = self.guests[peer] = Guest(message.request, now)
        guest.seen = now
        if guest.handover is not None:
            if now < guest.moved + RESUME_S or self._resume(guest, message, now):
                return
            guest.handover = None
        if self._member(guest) is None:
            council = self._driver.council
            if guest.request.name not in council.joins:
                self._driver.hurry_beat()  # once: a knock must not cost a beat to everybody
            council.want(guest.request, now)
            self._say(peer, self._wait("the members agree on it"))
        elif self.is_idle:
            self.provide(now)
        else:
            self._is_asked = True
            self._say(peer, self._wait(f"{self._driver.name} is about to hand over the state"))

    def _withdrawn(self, peer: str, ticket: int) -> None:
        """A newcomer gives up.  If it was let in meanwhile the others wait for it to have the
        state: nothing is stable and nobody is evicted until then, so it has to go.  Its ticket,
        drawn by chance, says that it is the same."""
        driver, council = self._driver, self._driver.council
        guest, held = self.guests.get(peer), council.joins.get(peer)
        if guest is not None and guest.request.ticket == ticket:
            del self.guests[peer]
        if held is not None and held[0].ticket == ticket:
            del council.joins[peer]
        member = council.view.named(peer)
        if member is not None and member.ticket == ticket and member.slot not in council.up:
            council.sentenced |= {member.slot}
            driver.hurry_beat()

    def _resume(self, guest: Guest, message: said.Knock, now: float) -> bool:
        """Go on where a newcomer says that it broke off; whether that is possible.  It may have
        heard nothing of it at all."""
        made = guest.handover
        assert made is not None
        is_its = made.number == message.snapshot
        if not is_its and (message.snapshot or made.is_begun):
            return False
        guest.moved, guest.is_due = now, True
        return made.resume(message.piece if is_its else 0)

    def _wait(self, sentence: str) -> said.Wait:
        council = self._driver.council
        members = council.view.members
        # Who has no state yet has none to give, and newcomers would ask each other in circles.
        able = [each for each in members if each.slot in council.up] or members
        addresses = [each.address for each in able if each.address][:CONTACTS_MAX]
        return said.Wait(False, sentence[:SENTENCE_CHARS_MAX], tuple(addresses))

    def _refusal(
        self, peer: str, message: said.Knock, is_proved: bool, now: float
    ) -> CouncilMessage | None:
        request, driver = message.request, self._driver
        view = driver.council.view
        if request.name != peer:
            return said.Wait(True, f"{peer} asks for {request.name}")
        if not is_name(peer):
            return said.Wait(True, f"{peer!r} is no name that a node can have")
        if not is_proved and self._secret is not None:
            born = str(driver.born_us)  # what was overheard in a former life is worth nothing
            nonce = proof(self._secret, b"", born, driver.name, peer, str(request.ticket))[:16]
            parts = (driver.group, request.name, str(request.ticket), request.address)
            if not is_proof(message.proof, self._secret, nonce, *parts):
                if message.nonce == nonce:  # it was asked, and this is its answer
                    sentence = f"{peer} wants to join {driver.group} and has another secret"
                    self.complaints.append((peer, sentence))
                return said.Challenge(nonce)
        gone = view.former(peer)
        if gone is not None and gone.ticket == request.ticket:
            return said.Wait(True, f"{peer} was let in and is out again: ask anew")
        known = view.named(peer)
        if known is not None and known.ticket == request.ticket:
            return None
        if known is not None:
            return self._wait(f"{known.id} is a member still: it must leave or be evicted")
        if view.is_full:
            return said.Wait(True, f"{driver.group} has room for nobody more")
        if driver.council.is_minority:
            return self._wait(f"{driver.name} is in a minority, and can let nobody in")
        if peer not in self.guests and not self._bucket.take(now):
            return self._wait(f"{driver.name} lets in {self._config.joins_per_s:g}/s at most")
        return None

    def _member(self, guest: Guest) -> Member | None:
        """The guest as a member in the view that the application has reached."""
        found = self._driver.view_told.named(guest.request.name)
        return found if found is not None and found.ticket == guest.request.ticket else None

    def entered(self, now: float) -> None:
        """The application has reached another view."""
        self.provide(now)

    def provide(self, now: float) -> None:
        """Begin to hand the state of this moment to those who are members now and lack it."""
        self._is_asked = False
        busy = sum(each.handover is not None for each in self.guests.values())
        for name, guest in list(self.guests.items()):
            member = self._member(guest)
            if member is not None and self._has_state(member):
                del self.guests[name]  # it has the state from another, and this knock is an old one
            elif member is not None and guest.handover is None and busy < HANDOVERS_MAX:
                busy += 1
                try:
                    guest.handover = self._begin(guest, member, now)
                except Exception as error:  # of the application
                    self._failed(name, error)
                else:
                    guest.moved = now
                    self._go_on(name, guest)

    def _has_state(self, member: Member) -> bool:
        driver = self._driver
        return member.slot in driver.council.up or driver.reached(member.slot) > 0

    def _failed(self, peer: str, error: Exception) -> None:
        """The application could not give its state."""
        self.guests.pop(peer, None)
        self._say(peer, self._wait(f"the state of {self._driver.name} cannot be had: {error!r}"))
        if self.on_failed is not None:
            self.on_failed(error)

    def _begin(self, guest: Guest, member: Member, now: float) -> Handover:
        driver = self._driver
        client, engine = driver.client, driver.engine
        chunks = self._chunks()  # first: the application may send what belongs to its state
        waiting = [entry for entry in driver.queue if driver.is_delivery(entry)]
        confirmed = taken(client, engine, waiting)
        state = state_for(client, engine, confirmed, member.slot)
        slots = driver.view_told.slots  # the application knows of no later ones yet
        state = replace(state, members=state.members[:slots], confirmed=state.confirmed[:slots])
        reached, told = latest_dots(client, confirmed)
        head = Head(
            driver.name, driver.view_told, member.slot, driver.spec.name,
            driver.options.stability, tuple(reached), tuple(told),
        )  # fmt: skip
        number = (driver.slot + 1) << 44 | int(now * 1000) & (1 << 44) - 1
        number = self._number = max(number, self._number + 1)
        ranges = [range(first, last + 1) for first, last in state.shelved]
        payloads = map(client.past.shelf.fetch, chain.from_iterable(ranges)) if ranges else ()
        return Handover(
            number, head, msgspec.msgpack.encode(state), chunks,
            self._config.chunk_bytes, payloads,
        )  # fmt: skip

    def _chunks(self) -> Iterator[bytes]:
        """The application's state of this moment."""
        chunks: Any = () if self.snapshot is None else self.snapshot()
        if isinstance(chunks, bytes | bytearray | memoryview):
            chunks = (chunks,)
        elif isinstance(chunks, str) or not isinstance(chunks, Iterable):
            raise TypeError(f"snapshot() gave {type(chunks).__name__}, not bytes or chunks of them")
        # What a generator does before its first chunk, copying the state above all, it does now.
        rest = iter(chunks)
        return chain(list(islice(rest, 1)), rest)

    def _go_on(self, peer: str, guest: Guest) -> None:
        handover = guest.handover
        if handover is None:
            return
        if handover.is_done:
            self.handed += 1
            del self.guests[peer]
            return
        try:
            pieces = handover.due()
        except Exception as error:  # of the application, whose chunks are drawn here
            self._failed(peer, error)
            return
        for piece in pieces:
            self._say(peer, piece)

    def idle(self, now: float) -> None:
        """The application is between two events.  After each of them, so it is cheap: whoever is
        not served now knocks again."""
        if self._is_asked:
            self.provide(now)

    def tick(self, now: float) -> None:
        """Send what may be sent; forget who does not knock any more."""
        for name, guest in list(self.guests.items()):
            if guest.is_due:
                guest.is_due = False
                self._go_on(name, guest)
            member = self._member(guest)
            if member is not None and self._has_state(member):
                self.guests.pop(name, None)  # it has it from another
        for name in [each for each, guest in self.guests.items() if now > guest.seen + GUEST_S]:
            del self.guests[name]

    def _say(self, peer: str, message: CouncilMessage) -> None:
        self._driver.replies.append((peer, message))
