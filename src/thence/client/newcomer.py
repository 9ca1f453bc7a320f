"""A node that wants to join a group: it knocks at some member until it has the state.

Pure, like the driver: time is an argument, and what is to be said is fetched (``told``).

It asks one member at a time, again and again; when that one is gone or says nothing for a while it
asks another.  One that was asked before may hand over the state all the same: it could let nobody
in for a while, and now it did.  All it has before it is let in is a *ticket*, drawn by chance: by
it members know that two requests come from the same newcomer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from thence.client.secret import proof
from thence.client.spool import Spool
from thence.config.node import MembershipConfig
from thence.engine.restore import State
from thence.errors import WireError
from thence.wire import membership as said
from thence.wire.frame import frame
from thence.wire.membership import CouncilMessage, Head, Request
from thence.wire.talk import COUNCIL

KNOCK_S: Final = 0.5
"""Time between two knocks."""
PATIENCE_S: Final = 3.0
"""A member that brings nothing for so long is left for another."""
ENGINE_BYTES_MAX: Final = 1 << 32
CONTACTS_KEPT_MAX: Final = 64
STATE_BYTES_MAX: Final = MembershipConfig().state_bytes_max

T = TypeVar("T", Head, State)


class Newcomer:
    """One node on its way into one group."""

    def __init__(
        self, group: str, request: Request, now: float, secret: bytes | None = None,
        make_spool: Callable[[], Spool] = Spool, state_bytes_max: int = STATE_BYTES_MAX,
    ) -> None:  # fmt: skip
        self.group = group
        self.request = request
        self._secret = secret
        self._state_bytes_max = state_bytes_max
        self.spool = make_spool()
        """The application's state, once it is there."""
        self.payloads = make_spool()
        """Of messages that ``state`` names and has no payload of (``State.shelved``), in order."""
        self.failed = ""
        """Why it will never be let in."""
        self.waiting_for = "nobody answers yet"
        """Why it is not in yet, for people."""
        self.contacts: dict[str, None] = {}
        """Addresses of members that it was told of."""
        self.head: Head | None = None
        self.state: State | None = None
        """There when everything is: then it is done."""
        self._is_answered = False
        self._provider = ""
        self._asked: set[str] = set()
        """Peers at which it has knocked."""
        self._nonces: dict[str, bytes] = {}
        self._unproved: Counter[str] = Counter()  # knocks by peer, less the challenges to them
        self._snapshot = 0
        self._next = 0  # the piece that comes next
        self._engine = bytearray()
        self._digest = sha256()
        self._knock_at = now
        self._heard_at = now
        self._out: list[tuple[str, bytes]] = []

    @property
    def is_done(self) -> bool:
        """Whether all is there."""
        return self.state is not None

    @property
    def received_bytes(self) -> int:
        """Of the state, so far."""
        return len(self._engine) + self.payloads.bytes + self.spool.bytes

    def close(self) -> None:
        """Let go of what is kept in files."""
        self.spool.close()
        self.payloads.close()

    def deadline(self) -> float | None:
        """When ``tick`` is due; while nobody is connected, when somebody is."""
        return None if self.is_done or self.failed or not self._provider else self._knock_at

    def told(self) -> list[tuple[str, bytes]]:
        """Frames to be sent, by peer."""
        out, self._out = self._out, []
        return out

    def tick(self, now: float, peers: Collection[str]) -> None:
        """Knock, if it is time; ``peers`` are connected."""
        if self.is_done or self.failed or now < self._knock_at:
            return
        names = sorted(peers)
        if not names:
            self._provider = ""
            return
        self._knock_at = now + KNOCK_S
        if self._provider not in peers or now >= self._heard_at + PATIENCE_S:
            later = [name for name in names if name > self._provider]
            self._provider = (later or names)[0]
            self._heard_at = now
        self._knock(self._provider)

    def _knock(self, peer: str) -> None:
        self._asked.add(peer)
        nonce, proved = self._nonces.get(peer, b""), b""
        request = self.request
        if nonce and self._secret is not None:
            proved = proof(
                self._secret, nonce, self.group, request.name, str(request.ticket), request.address
            )
        else:
            self._unproved[peer] += 1
        self._say(peer, said.Knock(request, nonce, proved, self._snapshot, self._next))

    def missed(self, sentence: str) -> None:
        """Somebody who was asked cannot be reached, or takes no newcomers; another may, and what
        that one says is worth more."""
        if not self._is_answered:
            self.waiting_for = sentence

    def withdraw(self) -> None:
        """Tell whoever was asked last that this node will not come."""
        if self._provider:
            self._say(self._provider, said.Withdraw(self.request.ticket))

    def _say(self, peer: str, message: CouncilMessage) -> None:
        self._out.append((peer, frame(COUNCIL, said.encode(self.group, message))))

    def hear(self, peer: str, message: CouncilMessage, now: float) -> None:
        """A member says this.  WireError for nonsense."""
        if self.is_done or self.failed:
            return
        if peer != self._provider:
            if not self._is_offer(peer, message):
                return
            self._provider = peer
        self._is_answered = True
        if isinstance(message, said.Challenge):
            if self._secret is None:
                self.failed = f"{peer} asks for the secret of the group: set membership.secret_file"
            elif self._nonces.get(peer) != message.nonce:
                self._nonces[peer] = message.nonce
                self._unproved[peer] -= 1
                self._knock(peer)
            elif self._unproved[peer] > 0:  # it was said before the proof arrived
                self._unproved[peer] -= 1
            else:
                self.failed = f"{peer} has another secret: compare membership.secret_file"
        elif isinstance(message, said.Wait):
            self.waiting_for = message.sentence
            if len(self.contacts) < CONTACTS_KEPT_MAX:
                self.contacts.update(dict.fromkeys(message.addresses))
            self.contacts.pop(self.request.address, None)
            if message.is_final:
                self.failed = f"{peer}: {message.sentence}"
        elif isinstance(message, said.Piece):
            self._heard_at = now
            self._piece(peer, message)

    def _is_offer(self, peer: str, message: CouncilMessage) -> bool:
        """Whether one that was asked before begins to hand over the state, while nobody else
        does.  It let this node in, and who does not take the state within ``join_s`` is out."""
        is_first = isinstance(message, said.Piece) and message.number == 0
        return is_first and not self._next and peer in self._asked

    def _piece(self, peer: str, piece: said.Piece) -> None:
        try:
            if piece.number == 0 and piece.snapshot != self._snapshot:
                self._forget(piece.snapshot)
            if piece.snapshot == self._snapshot and piece.number == self._next:
                self._take(piece)
                self._next += 1
        except WireError:
            self._forget(0)  # what was there is worth nothing
            raise
        except OSError as error:  # no fault of the provider: the disk is full, as a rule
            self.failed = f"the state cannot be kept here: {error}"
            return
        self._say(peer, said.PieceAck(self._snapshot, self._next))

    def _forget(self, snapshot: int) -> None:
        """Begin anew, with this snapshot."""
        self._snapshot, self._next = snapshot, 0
        self.head = None
        self._engine.clear()
        self._digest = sha256()
        self.spool.clear()
        self.payloads.clear()

    def _take(self, piece: said.Piece) -> None:
        if piece.kind == said.HEAD:
            head = _decode(piece.data, Head)
            member = head.view.member(head.slot)
            mine = (self.request.name, self.request.ticket)
            if head.view.fault() or member is None or (member.name, member.ticket) != mine:
                raise WireError("the state is for somebody else")
            self.head = head
            self.waiting_for = f"the state comes from {self.head.provider}"
            return
        if piece.kind == said.END:
            if self.head is None or piece.data != self._digest.digest():
                raise WireError("the state is not what its provider sent")
            self.spool.flush()
            self.state = _decode(bytes(self._engine), State)
            return
        if self.received_bytes + len(piece.data) > self._state_bytes_max:
            self.failed = (
                f"the state has more than {self._state_bytes_max:,} bytes: see "
                "membership.state_bytes_max"
            )
            return
        self._digest.update(piece.data)
        if piece.kind == said.ENGINE:
            if len(self._engine) > ENGINE_BYTES_MAX:
                raise WireError("the state of the engine has no end")
            self._engine += piece.data
        elif piece.kind in (said.PAYLOAD_PART, said.PAYLOAD):
            self.payloads.write(piece.data, piece.kind == said.PAYLOAD)
        elif piece.kind in (said.PART, said.CHUNK):
            self.spool.write(piece.data, piece.kind == said.CHUNK)
        else:
            raise WireError(f"a piece of kind {piece.kind}")


def _decode(data: bytes, form: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(data, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"not a {form.__name__.lower()}: {error}") from None
