"""What the engines of one order for all share: links of their own, and going on after crashes.

Theory of operation
    Messages between two members are numbered and taken in that order, each once, whatever the
    network does; so the protocols may rely on FIFO links.  Every wire message begins with the
    number of its link and its sender's *epoch*: how many crashes the order has recovered from.

    When a node learns of a crash (``crashed``) it takes nothing of its epoch any more, and tells
    every survivor what it has: messages that others may lack, then a report that names the crashes
    it knows of.  Once it has the report of every survivor, all naming the same crashes, it knows
    all that is left of the old epoch.  Every survivor comes to the same conclusions from the same
    reports, and goes on in the next epoch.  A crash on the way begins this anew; some may then be
    an epoch ahead of others, and their reports have what the others missed.

    What comes from a later epoch waits; what comes from an earlier one is dropped: it is in the
    reports, or its sender sends it again.

    Members may have different limits.  What has to wait at a peer for something that comes behind
    it on the same link cannot be refused there, so the one who sends it has to know the *room* that
    the peer has.  Peers say it with their first answer; until then one message goes out.

Invariants
    An epoch begins only with the reports of all who are not known to have crashed, so of two sets
    of crashes that began an epoch one is part of the other, and their sizes can stand for them.
    Nothing of a node comes after ``crashed`` of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec

from thence.causal.dot import SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.base import PENDING_PER_ORIGIN_MAX, EngineOptions
from thence.engine.effects import Effects
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    DUPLICATE,
    NOT_A_MEMBER,
    TOO_FAR_AHEAD,
    WRONG_KIND,
    Reject,
    Waiting,
)
from thence.engine.vector_rules import is_member
from thence.errors import LimitError, LocalProtocolError
from thence.message import Control, Directed, Phantom, Stamped, WireMessage

OWN_MESSAGES_MAX = 65_536
"""Own messages that have no place in the order yet; a sender is refused beyond."""
ACK_MESSAGES = 64
ACK_ROUNDS = 4
"""So many messages, and so many for each member, may pass before one is sent only to say that they
came: where all send about as much, own messages say it before."""
KEPT_MAX = 4
"""Messages of later epochs, and those told by a peer, for each member, possible epoch, and message
of one origin that may wait."""

TIME_JUMP_MAX = 1 << 40
"""How far past a node's logical clock a time may be that a peer tells: no group gets there with
messages that this node is not told of, and no message brings the clocks near 2**56, the end of what
fits on the wire."""

REPORT = 0
"""Kind of the Control that ends what a survivor tells: crashes, how many and which, and numbers."""
TOLD = 0
"""Role of a Stamped that is told because others may lack it."""


class Report(msgspec.Struct, frozen=True):
    """What one survivor has."""

    gone: frozenset[int]
    """The crashes it knew of."""
    numbers: tuple[int, ...] = ()
    messages: tuple[Stamped, ...] = ()


class TotalClient(PlainClient):
    """The application's side; it may not run ahead of the order for ever."""

    __slots__ = ("_engine",)

    def __init__(self, members: Members, slot: int, engine: TotalEngine, some: bool) -> None:
        super().__init__(members, slot, some)
        self._engine = engine

    def broadcast(self, payload: bytes, to: Iterable[int] = ()) -> PlainTag:
        """Number a message now; LimitError while too many own ones have no place in the order."""
        if self._engine.own_waiting >= OWN_MESSAGES_MAX:
            raise LimitError(f"{OWN_MESSAGES_MAX} messages of this node wait for their place")
        return super().broadcast(payload, to)


class TotalEngine:
    """The middleware, without the order itself."""

    ROLES: ClassVar[dict[int, int]]
    """How many numbers a Stamped of each role has after link, epoch and role."""
    KINDS: ClassVar[dict[int, int]]
    """How many numbers a Control of each kind has after link and epoch."""

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        size = len(members.names)
        self._members = members
        self._slot = slot
        self._limit = min(options.pending_per_origin_max, SEQ_MAX)
        self._my_room = 0 if self._limit == PENDING_PER_ORIGIN_MAX else self._limit
        """What peers are told: how many messages of one of them may wait here; 0: the usual."""
        self._rooms = [0] * size
        """By peer, how many messages of this node may wait there; 0: it has not said."""
        self._ack_every = min(max(ACK_MESSAGES, ACK_ROUNDS * size), max(1, self._limit // 2))
        self._seq = 0
        self._time = 0
        """The logical clock of orders that have one."""
        self._mine: dict[int, PlainTag] = {}
        """Own messages that are not delivered, by number."""
        self._unsent: deque[tuple[int, int]] = deque()
        """Numbers and bytes of those that may not have gone out."""
        self._unsent_bytes = 0
        self._others = [peer for peer in range(size) if peer != slot]
        """Those that are there, sorted."""
        self._sent = [0] * size
        self._received = [0] * size
        self._held: list[dict[int, Stamped | Control]] = [{} for _ in range(size)]
        """By peer and number of the link."""
        self._gone: frozenset[int] = frozenset()
        self._epoch = 0
        self._reports: dict[int, Report] = {}
        self._told: list[list[Stamped]] = [[] for _ in range(size)]
        """By peer, what it told and has not reported yet."""
        self._early: list[tuple[int, Stamped | Control]] = []
        """What came from later epochs."""

    # What an order adds.

    def _go(self, out: Effects) -> None:
        """Own messages may have been added, or an epoch has begun: do what can be done."""
        raise NotImplementedError

    @property
    def _last_out(self) -> int:
        """The last own message that has gone out."""
        raise NotImplementedError

    def _take(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        """A message of this epoch, in the order of its link."""
        raise NotImplementedError

    def _is_full(self, peer: int, message: Stamped | Control) -> bool:
        """Whether this peer has to offer the message again later; never asked while an epoch ends,
        when nothing is delivered, hence of messages of this epoch."""
        return False

    def _tell(self, peer: int, out: Effects) -> tuple[int, ...]:
        """Send ``peer`` what it may lack, as TOLD; the numbers of the report for it."""
        raise NotImplementedError

    def _times_in(self, message: Stamped | Control) -> tuple[int, ...]:
        """The times that a peer tells; this node's clock goes past them."""
        return ()

    def _is_report(self, numbers: tuple[int, ...]) -> bool:
        """Whether a survivor can report these numbers."""
        return not numbers

    def _begin(self, reports: dict[int, Report], out: Effects) -> None:
        """An epoch begins; these are the reports of the other survivors."""
        raise NotImplementedError

    # The application's side.

    @property
    def own_waiting(self) -> int:
        """Own messages without a place in the order."""
        return len(self._mine)

    @property
    def unsent(self) -> tuple[int, int]:
        """Own messages that wait for their turn to go out, and the bytes of their payloads: a
        driver takes no more than it has room for."""
        waiting, last = self._unsent, self._last_out
        while waiting and waiting[0][0] <= last:
            self._unsent_bytes -= waiting.popleft()[1]
        return len(waiting), self._unsent_bytes

    @property
    def _is_frozen(self) -> bool:
        return len(self._gone) > self._epoch

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Take a message; it goes out when its turn comes."""
        if tag.origin != self._slot or tag.seq != self._seq + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        self._seq += 1
        self._mine[tag.seq] = tag
        self._unsent.append((tag.seq, len(tag.payload)))
        self._unsent_bytes += len(tag.payload)
        if not self._is_frozen:
            self._go(out)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("engines of a total order have no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    # Links.

    def _room(self, peer: int) -> int:
        """How many messages of this node may wait at a peer."""
        return self._rooms[peer] or 1

    def _hear_room(self, peer: int, room: int) -> None:
        self._rooms[peer] = room or PENDING_PER_ORIGIN_MAX

    def _control(
        self, to: Sequence[int], kind: int, numbers: tuple[int, ...], out: Effects
    ) -> None:
        for link, slots in self._links(to).items():
            message = Control(self._slot, kind, (link, self._epoch, *numbers))
            self._post(slots, message, out)

    def _stamped(
        self, to: Sequence[int], role: int, tag: PlainTag, numbers: tuple[int, ...], out: Effects
    ) -> None:
        for link, slots in self._links(to).items():
            stamp = (link, self._epoch, role, *numbers)
            self._post(slots, Stamped(tag.origin, tag.seq, stamp, tag.payload, tag.to), out)

    def _links(self, to: Sequence[int]) -> dict[int, list[int]]:
        numbers: dict[int, list[int]] = {}
        for peer in to:
            self._sent[peer] += 1
            numbers.setdefault(self._sent[peer], []).append(peer)
        return numbers

    def _post(self, slots: list[int], message: WireMessage, out: Effects) -> None:
        everyone = len(slots) == len(self._sent) - 1
        out.send.append(message if everyone else Directed(tuple(slots), message))

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Take it in the order of its link, and what waited for it."""
        if not isinstance(message, Stamped | Control):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with numbers"))
            return
        refused = self._fault(peer, message)
        if refused is not None:
            out.reject.append(refused)
            return
        held = self._held[peer]
        held[message.stamp[0]] = message
        while (following := held.pop(self._received[peer] + 1, None)) is not None:
            self._received[peer] += 1
            self._dispatch(peer, following, out)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def _fault(self, peer: int, message: Stamped | Control) -> Reject | None:
        if not is_member(peer, self._members) or peer == self._slot or peer in self._gone:
            return Reject(peer, NOT_A_MEMBER, f"slot {peer} is no other member that is there")
        if isinstance(message, Stamped):
            refused = refusal(peer, message, self._members, self._slot, -1)
        else:
            refused = self._control_fault(peer, message)
        if refused is not None or (refused := self._shape_fault(peer, message)) is not None:
            return refused
        link, received = message.stamp[0], self._received[peer]
        if link <= received or link in self._held[peer]:
            return Reject(peer, DUPLICATE, f"number {link} of the link from {peer} is here")
        if link > received + self._limit:
            detail = f"number {link} of the link from {peer} while {received} came"
            return Reject(peer, TOO_FAR_AHEAD, detail, True)
        if any(time > self._time + TIME_JUMP_MAX for time in self._times_in(message)):
            return Reject(peer, TOO_FAR_AHEAD, f"a time far past {self._time}, which it is", True)
        if not self._is_frozen and self._is_full(peer, message):
            return Reject(peer, TOO_FAR_AHEAD, f"too much of slot {peer} waits here", True)
        if message.stamp[1] >= len(self._sent):
            return Reject(peer, BAD_CONTEXT, f"epoch {message.stamp[1]}: more than can crash")
        if len(self._early) + len(self._told[peer]) > KEPT_MAX * self._limit * len(self._sent) ** 2:
            return Reject(peer, TOO_FAR_AHEAD, "too much of later epochs waits here", True)
        return None

    def _control_fault(self, peer: int, message: Control) -> Reject | None:
        if message.origin != peer:
            return Reject(peer, NOT_A_MEMBER, f"{peer} speaks for slot {message.origin}")
        stamp = message.stamp
        if not isinstance(stamp, tuple) or not all(isinstance(n, int) and n >= 0 for n in stamp):
            return Reject(peer, BAD_CONTEXT, "a stamp has numbers from 0")
        return None

    def _shape_fault(self, peer: int, message: Stamped | Control) -> Reject | None:
        """Each role and kind has its length."""
        stamp = message.stamp
        if isinstance(message, Control):
            wanted = self.KINDS.get(message.kind, 0) if message.kind != REPORT else -1
            known = message.kind in self.KINDS or message.kind == REPORT
            length = len(stamp) - 2
        else:
            role = stamp[2] if len(stamp) > 2 else -1
            wanted, known, length = self.ROLES.get(role, 0), role in self.ROLES, len(stamp) - 3
        if not known:
            return Reject(peer, WRONG_KIND, "no kind of message that this engine knows")
        if length < 0 or (wanted >= 0 and length != wanted):
            return Reject(peer, BAD_CONTEXT, f"a stamp of {len(stamp)} numbers")
        if not stamp[0]:
            return Reject(peer, BAD_SEQ, "numbers of a link are from 1")
        if isinstance(message, Control) and message.kind == REPORT:
            count = stamp[2] if length else len(stamp)
            gone = stamp[3 : 3 + count]
            is_known = len(gone) == count and all(is_member(slot, self._members) for slot in gone)
            if not is_known or not self._is_report(stamp[3 + count :]):
                return Reject(peer, BAD_CONTEXT, "no report of crashes")
        return None

    def _dispatch(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        if isinstance(message, Control):
            if message.kind == REPORT:
                self._reported(peer, message, out)
                return
        elif message.stamp[2] == TOLD:
            self._told[peer].append(message)
            return
        self._accept(peer, message, out)

    def _accept(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        """A message of the order itself."""
        if message.stamp[1] > self._epoch:
            self._early.append((peer, message))
        elif message.stamp[1] == self._epoch and not self._is_frozen:
            self._take(peer, message, out)

    # Crashes.

    def crashed(self, slot: int, out: Effects) -> None:
        """A member is gone for good, and all that it sent and that will come has come."""
        if not is_member(slot, self._members) or slot == self._slot:
            raise LocalProtocolError(f"slot {slot} is no other member")
        if slot in self._gone:
            return
        self._gone |= {slot}
        self._others.remove(slot)
        self._held[slot].clear()
        self._told[slot].clear()
        self._reports.pop(slot, None)
        gone = (len(self._gone), *sorted(self._gone))
        for peer in self._others:
            self._control([peer], REPORT, (*gone, *self._tell(peer, out)), out)
        self._survey(out)

    def _reported(self, peer: int, message: Control, out: Effects) -> None:
        count = message.stamp[2]
        gone, numbers = frozenset(message.stamp[3 : 3 + count]), message.stamp[3 + count :]
        self._reports[peer] = Report(gone, numbers, tuple(self._told[peer]))
        self._told[peer].clear()
        self._survey(out)

    def _survey(self, out: Effects) -> None:
        """Begin an epoch if every survivor has reported the same crashes."""
        if not self._is_frozen:
            return
        reports = self._reports
        if not all(peer in reports and reports[peer].gone == self._gone for peer in self._others):
            return
        self._reports = {}
        self._epoch = len(self._gone)
        self._begin(reports, out)
        early, self._early = self._early, []
        for peer, message in early:
            if peer not in self._gone:
                self._accept(peer, message, out)
        self._go(out)

    # Looking in.

    def waiting(self) -> list[Waiting]:
        """What came too early on its link; what is missing is told by its number, as a dot."""
        found = [
            Waiting(pack(message.origin, message.seq), pack(peer, self._received[peer] + 1))
            for peer, held in enumerate(self._held)
            for message in held.values()
            if isinstance(message, Stamped)
        ]
        return sorted(found, key=lambda each: (each.dot, each.missing))

    def words(self) -> int:
        """Three counts per member, numbers of held messages, and what the order itself keeps."""
        kept = [message for held in self._held for message in held.values()]
        kept += [message for _, message in self._early]
        kept += [message for told in self._told for message in told]
        kept += [message for report in self._reports.values() for message in report.messages]
        return 3 * len(self._sent) + sum(2 + len(each.stamp) for each in kept) + 2 * len(self._mine)
