"""The oracle: a watcher that knows what is true and raises at the first effect that is not.

It keeps every causal history explicitly (sim/histories.py) and checks, at every step:

safety       a message is consumed after everything that happened before it, once, never its own
tags         predecessors (or vector) are exactly those of the history, at the sender and at every
             receiver; where the engine only promises to cover them, that they are covered
order        ``a < b`` and ``a.concurrent(b)`` answer as the histories do
stability    told only when every member is known to have consumed it; nothing that comes later is
             concurrent with it; predecessors first; once; the same for k members
and at the end of an execution in which everything arrived:
liveness     everything was consumed everywhere
completeness everything whose condition holds was told stable
collection   once all is stable an engine holds what a fresh one holds
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from thence.causal.dot import seq_of, slot_of
from thence.engine.base import EngineOptions, EngineSpec
from thence.errors import ForgottenTagError
from thence.message import Phantom, WireMessage
from thence.sim.cluster import Watcher
from thence.sim.histories import Histories, Key, bits, key_of_message, key_of_tag
from thence.sim.truth import Truth


class OracleFailure(AssertionError):
    """An engine did something that the definition forbids.  ``replay`` does it again."""

    def __init__(self, what: str, replay: str = "") -> None:
        super().__init__(f"{what}\nreplay: {replay}" if replay else what)
        self.what = what
        self.replay = replay


class Oracle(Watcher):
    """One execution of one cluster."""

    def __init__(
        self,
        spec: EngineSpec,
        names: Sequence[str],
        options: EngineOptions | None = None,
        replay: str = "",
    ) -> None:
        self.spec = spec
        self.options = options or EngineOptions()
        self.replay = replay
        self.size = size = len(names)
        self.histories = Histories(list(names))
        self.truth = Truth(self.histories)
        self.past = [0] * size
        """What each application has sent or consumed."""
        self.seen = [0] * size
        """That, and all that happened before it: multicasts for others too."""
        self.ready_at = [0] * size
        self.offered_to = [0] * size
        self.arrived_at = [0] * size
        self.told = [0] * size
        """What each application was told is stable."""
        self.passed = [0] * size
        """What became stable at each node without being for it; nobody is told."""
        self.k_told = [0] * size
        self.known = [[0] * size for _ in range(size)]
        """known[i][j]: what the middleware of i can know that the application of j has consumed."""
        self.phantoms: list[list[list[tuple[int, int]]]] = [
            [[] for _ in range(size)] for _ in range(size)
        ]
        """phantoms[i][j]: (next seq of j, closure), not usable yet because messages are missing."""
        self.seqs = [0] * size
        self.last_on_stream: dict[tuple[int, str], int] = {}
        self.tags: list[dict[int, Any]] = [{} for _ in range(size)]
        """Per node the tag of every message its application sent or consumed."""

    def fail(self, what: str) -> NoReturn:
        """Raise, with the command that replays it."""
        raise OracleFailure(f"{self.spec.name}: {what}", self.replay)

    def name(self, node: int) -> str:
        """Of a slot."""
        return self.histories.names[node]

    # Sending.

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        stream: str = getattr(tag, "stream", "")
        taken = self.past[node]
        if after is None and not stream:
            past = self.seen[node]
            self.seqs[node] += 1
            key = (node, "", self.seqs[node])
            if self.told[node] & ~past:
                self.fail(f"{self.name(node)} was told stable what it has not consumed")
        else:
            past, key = self._explicit_past(node, tag, stream, after or ())
            taken = past
        number = self.histories.add(key, past)
        to = self._recipients(node, number, tag)
        self.truth.add(past, 1 << number, taken, to)
        self.past[node] |= 1 << number
        self.seen[node] |= self.histories.closure[number]
        self.tags[node][number] = tag
        self.known[node][node] |= self.histories.closure[number]
        if self.spec.tags == "exact":
            self._check_tag(node, number, tag, "tagged")

    def _recipients(self, node: int, number: int, tag: Any) -> int:
        to: int = sum(1 << slot for slot in getattr(tag, "to", ()))
        if to:
            for other in range(self.size):
                if other != node and not to >> other & 1:
                    self.histories.not_for[other] |= 1 << number
        return to

    def is_for(self, node: int, number: int) -> bool:
        """Is this message for that node?"""
        return not self.histories.not_for[node] >> number & 1

    def _explicit_past(
        self, node: int, tag: Any, stream: str, after: Sequence[Any]
    ) -> tuple[int, tuple[int, str, int]]:
        """A message on a stream of its own: after its predecessor there and what it names."""
        if not stream:
            self.fail(f"{self.name(node)} sent explicit dependencies on the usual stream")
        closure = self.histories.closure
        past = 0
        seq = 1
        last = self.last_on_stream.get((node, stream))
        if last is not None:
            past = closure[last]
            seq = self.histories.keys[last][2] + 1
        for earlier in after:
            past |= closure[self.histories.number[key_of_tag(earlier)]]
        self.last_on_stream[node, stream] = len(self.histories)
        if tag.seq != seq:
            self.fail(f"{self.name(node)}/{stream} sent seq {tag.seq}, expected {seq}")
        return past, (node, stream, seq)

    def wired(self, node: int, message: WireMessage) -> None:
        if isinstance(message, Phantom):
            return
        number = self._number(node, key_of_message(message), "sent")
        shown = self.histories.show(number)
        if self.histories.keys[number][0] != node:
            self.fail(f"{self.name(node)} put the message {shown} of another on the wire")
        wrong = self.truth.wrong_message(number, message, exact=self.spec.tags == "exact")
        if wrong:
            self.fail(f"{self.name(node)}: wire form of {shown} {wrong}")

    def phantom_made(self, node: int, phantom: Phantom) -> None:
        context = self.truth.maximal_dots(self.announced(node), self.histories.ordered)
        if phantom.origin != node or phantom.seq != self.seqs[node] + 1:
            self.fail(
                f"{self.name(node)} announced {phantom.origin}:{phantom.seq}, "
                f"its next message is {node}:{self.seqs[node] + 1}"
            )
        if phantom.context != context:
            said, meant = self.truth.show(phantom.context), self.truth.show(context)
            self.fail(f"{self.name(node)}: its phantom says {said}, its history says {meant}")

    def announced(self, node: int) -> int:
        """What a phantom speaks for: all that the application has sent or consumed."""
        return self.past[node]

    # Receiving.

    def arriving(self, node: int, peer: int, message: WireMessage) -> None:
        if not isinstance(message, Phantom):
            self.offered_to[node] |= 1 << self._number(node, key_of_message(message), "received")
            return
        closure = 0
        for packed in message.context:
            closure |= self.histories.closure[self._packed(packed)]
        for seq in range(1, message.seq):
            closure |= self.histories.closure[self.histories.number[message.origin, "", seq]]
        self.phantoms[node][message.origin].append((message.seq, closure))
        self._use_phantoms(node, message.origin)

    def arrived(self, node: int, peer: int, message: WireMessage) -> None:
        if not isinstance(message, Phantom):
            self.arrived_at[node] |= 1 << self._number(node, key_of_message(message), "took")

    def _use_phantoms(self, node: int, origin: int) -> None:
        """A phantom counts once everything its announcer sent before it has been delivered."""
        waiting = self.phantoms[node][origin]
        if not waiting:
            return
        here = self.ready_at[node] & self.histories.of_slot[origin]
        reached = here.bit_count()
        for seq, closure in waiting:
            if seq <= reached + 1:
                self.known[node][origin] |= closure & self.histories.ordered
        self.phantoms[node][origin] = [w for w in waiting if w[0] > reached + 1]

    def ready(self, node: int, tag: Any) -> None:
        number = self._number(node, key_of_tag(tag), "made ready")
        slot, stream, _ = self.histories.keys[number]
        if self.ready_at[node] >> number & 1:
            self.fail(f"{self.name(node)} made {self.histories.show(number)} ready twice")
        self.ready_at[node] |= 1 << number
        is_for = self.is_for(node, number)
        if getattr(tag, "hollow", False) == is_for:
            self.fail(f"{self.name(node)} takes {self.histories.show(number)} for hollow, or not")
        if not stream:
            if is_for:  # what is not handed over tells nothing
                self.known[node][slot] |= self.histories.closure[number] & self.histories.ordered
            self._use_phantoms(node, slot)

    def consumed(self, node: int, tag: Any) -> None:
        number = self._number(node, key_of_tag(tag), "consumed")
        histories = self.histories
        closure = histories.closure[number]
        past = self.past[node]
        if histories.keys[number][0] == node:
            self.fail(f"{self.name(node)} consumed its own message {histories.show(number)}")
        if past >> number & 1:
            self.fail(f"{self.name(node)} consumed {histories.show(number)} twice")
        if not self.is_for(node, number):
            self.fail(f"{self.name(node)} consumed {histories.show(number)}, which is for others")
        missing = closure & ~past & ~(1 << number) & ~histories.not_for[node]
        if missing:
            self.fail(
                f"{self.name(node)} consumed {histories.show(number)} before its predecessors "
                f"{histories.show_all(missing)}"
            )
        concurrent = self.told[node] & ~closure
        if concurrent and not histories.keys[number][1]:
            self.fail(
                f"{self.name(node)} consumed {histories.show(number)}, which is not after "
                f"{histories.show_all(concurrent)} that it was told are stable"
            )
        self.past[node] = past | 1 << number
        self.seen[node] |= closure
        self.known[node][node] |= closure
        self.tags[node][number] = tag
        if self.spec.tags != "none":
            self._check_tag(node, number, tag, "consumed")

    # Stability.

    def stable_ready(self, node: int, tag: Any) -> None:
        number = self._number(node, key_of_tag(tag), "called stable")
        shown = self.histories.show(number)
        if not (self.spec.stability and self.options.stability):
            self.fail(f"{self.name(node)} called {shown} stable, without stability")
        if self.histories.keys[number][1]:
            self.fail(f"{self.name(node)} called {shown} stable, which is on its own stream")
        if not (self.ready_at[node] | self.past[node]) >> number & 1:
            self.fail(f"{self.name(node)} called {shown} stable before it was ready")
        for other in range(self.size):
            if other != node and not self.known[node][other] >> number & 1:
                self.fail(
                    f"{self.name(node)} called {shown} stable, but nothing that "
                    f"{self.name(other)} sent after it (or announced) has been delivered there"
                )

        if not self.is_for(node, number):
            self.passed[node] |= 1 << number

    def stabilised(self, node: int, tag: Any) -> None:
        number = self._number(node, key_of_tag(tag), "told stable")
        histories = self.histories
        shown = histories.show(number)
        if not self.past[node] >> number & 1:
            self.fail(f"{self.name(node)} was told {shown} is stable before it consumed it")
        if self.told[node] >> number & 1:
            self.fail(f"{self.name(node)} was told twice that {shown} is stable")
        earlier = histories.closure[number] & histories.ordered & ~(1 << number)
        earlier &= ~histories.not_for[node]
        if earlier & ~self.told[node]:
            self.fail(
                f"{self.name(node)} was told {shown} is stable before its predecessors "
                f"{histories.show_all(earlier & ~self.told[node])}"
            )
        self.told[node] |= 1 << number

    def k_stable_ready(self, node: int, tag: Any) -> None:
        number = self._number(node, key_of_tag(tag), "called k-stable")
        shown = self.histories.show(number)
        if not self.options.k:
            self.fail(f"{self.name(node)} called {shown} k-stable, nobody asked")
        others = sum(self.known[node][j] >> number & 1 for j in self._holders(number) if j != node)
        # Its own consumption comes first in the queue to the application, so it counts.
        if others + 1 < self._needed(number):
            self.fail(
                f"{self.name(node)} called {shown} {self.options.k}-stable, "
                f"{others + 1} members are known to have it"
            )

    def _holders(self, number: int) -> list[int]:
        """Its sender and those it is for."""
        sender = self.histories.keys[number][0]
        return [j for j in range(self.size) if j == sender or self.is_for(j, number)]

    def _needed(self, number: int) -> int:
        """How many must have it to be k-stable: of a multicast, not more than there are."""
        k = self.options.k
        return min(k, len(self._holders(number))) if self.truth.expected[number].to else k

    def k_stabilised(self, node: int, tag: Any) -> None:
        number = self._number(node, key_of_tag(tag), "told k-stable")
        shown = self.histories.show(number)
        if not self.past[node] >> number & 1:
            self.fail(f"{self.name(node)} was told {shown} is k-stable before it consumed it")
        if self.k_told[node] >> number & 1:
            self.fail(f"{self.name(node)} was told twice that {shown} is k-stable")
        self.k_told[node] |= 1 << number

    # Questions that whoever drives the cluster asks.

    def compare(self, node: int, a: int, b: int) -> None:
        """Ask the tags of node about two of its messages (by number); the answer must be true.

        A forgotten tag may refuse to answer.
        """
        tag_a, tag_b = self.tags[node][a], self.tags[node][b]
        before = a != b and bool(self.histories.closure[b] >> a & 1)
        after = a != b and bool(self.histories.closure[a] >> b & 1)
        try:
            answers = (
                tag_a < tag_b,
                tag_a.precedes(tag_b),
                tag_a.concurrent(tag_b),
                tag_a == tag_b,
            )
        except ForgottenTagError:
            if self._forgettable(node, a) or self._forgettable(node, b):
                return
            raise
        truth = (before, before, not (before or after or a == b), a == b)
        if answers != truth:
            self.fail(
                f"{self.name(node)} says of {self.histories.show(a)} and {self.histories.show(b)} "
                f"(<, precedes, concurrent, ==) {answers}, their histories say {truth}"
            )

    def _forgettable(self, node: int, number: int) -> bool:
        """Without stability nothing is remembered; else what the application was told is stable
        may go, and a message of a stream once something after it is."""
        if not self.options.stability or self.told[node] >> number & 1:
            return True
        if not self.histories.keys[number][1]:
            return False
        stable = self.told[node] | self.passed[node]
        return any(self.histories.closure[n] >> number & 1 for n in bits(stable))

    def compare_all(self) -> None:
        """Every pair at every node."""
        for node in range(self.size):
            for a in self.tags[node]:
                for b in self.tags[node]:
                    self.compare(node, a, b)

    def check_waiting(self, node: int, waiting: Sequence[tuple[Key, Key]]) -> None:
        """What an engine says it holds back, (message, missing), must be what arrived and is not
        ready, each with something that it lacks."""
        held = self.arrived_at[node] & ~self.ready_at[node]
        for message, lacks in waiting:
            number = self._number(node, message, "holds back")
            missing = self._number(node, lacks, "waits for")
            # An offer that was refused with others of its batch may be held all the same.
            if not (self.offered_to[node] & ~self.ready_at[node]) >> number & 1:
                self.fail(f"{self.name(node)} says {self.histories.show(number)} waits; no")
            here = self.ready_at[node] | self.past[node]
            needed = self.histories.closure[number] >> missing & 1
            wire_vector = self.truth.expected[number].wire_vector
            if wire_vector:
                needed |= lacks[2] <= wire_vector[lacks[0]]
            if here >> missing & 1 or not needed:
                self.fail(
                    f"{self.name(node)} says {self.histories.show(number)} waits for "
                    f"{self.histories.show(missing)}, which it does not lack or need"
                )
            held &= ~(1 << number)
        if held:
            self.fail(
                f"{self.name(node)} holds back {self.histories.show_all(held)} and does not say so"
            )

    # The end.

    def check_end(self) -> None:
        """Once everything arrived, every queue is empty and no flush finds more."""
        everything = (1 << len(self.histories)) - 1
        for node in range(self.size):
            missing = everything & ~self.past[node] & ~self.histories.not_for[node]
            if missing:
                self.fail(f"{self.name(node)} never consumed {self.histories.show_all(missing)}")
            if self.spec.stability and self.options.stability:
                self._check_all_told(node)

    def _check_all_told(self, node: int) -> None:
        missing = self.stable_by_now(node) & ~self.told[node]
        if missing:
            self.fail(
                f"{self.name(node)} was never told that {self.histories.show_all(missing)} "
                f"are stable"
            )
        if not self.options.k:
            return
        due = self.histories.ordered & ~self.k_told[node] & ~self.histories.not_for[node]
        for number in bits(due):
            holders = self._holders(number)
            have = sum(self.known[node][j] >> number & 1 for j in holders)
            if have >= self._needed(number):
                self.fail(
                    f"{self.name(node)} was never told that {self.histories.show(number)} is "
                    f"{self.options.k}-stable; {have} members are known to have it"
                )

    def stable_by_now(self, node: int) -> int:
        """What the condition for stability holds for at a node, as a bit set."""
        all_known = self.histories.ordered & ~self.histories.not_for[node]
        for known in self.known[node]:
            all_known &= known
        return all_known

    def check_collected(self, node: int, words: int, words_max: int) -> None:
        """Metadata held by an engine, once everything (or all but a last round) is stable."""
        if words > words_max:
            self.fail(
                f"{self.name(node)} holds {words} words of metadata after everything is stable, "
                f"at most {words_max} are its due"
            )

    # Tags.

    def _check_tag(self, node: int, number: int, tag: Any, when: str) -> None:
        wrong = self.truth.wrong_tag(number, tag, exact=self.spec.tags == "exact")
        if wrong:
            shown = self.histories.show(number)
            self.fail(f"{self.name(node)}: tag ({when}) of {shown} {wrong}")

    def _number(self, node: int, key: tuple[int, str, int], what: str) -> int:
        number = self.histories.number.get(key)
        if number is None:
            self.fail(f"{self.name(node)} {what} {key}, which nobody sent")
        return number

    def _packed(self, packed: int) -> int:
        return self._number(slot_of(packed), (slot_of(packed), "", seq_of(packed)), "named")
