"""Random correct executions of groups whose members come and go, and ways to break them.

As tests/trace/executions.py: explicit sets, nothing of thence but the record.  The views of the
group are one chain, decided outside of any log; each node follows it at its own pace and logs what
its application is told.  What makes the executions correct:

- a message and a phantom carry the number of the view they were sent in and are taken only by a
  node that has reached it, so that what is stable in one view is in every later snapshot;
- a view that removes a node fixes how far its messages count.  Whoever is in both views has, below
  its application, all of them, and takes them before it tells of the removal.  A node leaves only
  when all others have its messages;
- an application has confirmed, before its node sends, announces a phantom or gives a snapshot, all
  it took until then, and all it was told of members;
- it has confirmed all it took before it is told of a removal too, or else a restart says which
  members it had confirmed and it is told of the later views again.  In an earlier view again, a
  node makes no use of the phantoms of later ones.
"""

from __future__ import annotations

import random
from typing import Any

from tests.trace.dynamic_mutations import MEMBERSHIP_MUTATORS, TAKEN_BACK_MUTATORS
from tests.trace.dynamic_nodes import Confirmed, Node, Phantom, View, latest, owner
from tests.trace.executions import MUTATORS, D, Logs
from thence.trace.record import RunInfo


class DynamicGroup:
    """A group in one process; every log is a list of dicts without positions."""

    def __init__(self, rng: random.Random, takes_back: bool) -> None:
        """``takes_back``: restarts take views back too."""
        self.rng = rng
        self.takes_back = takes_back
        self.fresh = [f"n{k}" for k in rng.sample(range(9), 9)]
        self.guarantee = rng.choice(["causal"] * 8 + ["causal-total", "total", "fifo"])
        self.total = self.guarantee in ("total", "causal-total")
        self.causal = self.guarantee in ("causal", "causal-total")
        self.tags = rng.choice(["exact"] * 5 + ["over", "none"]) if self.causal else "none"
        self.streams = self.guarantee == "causal" and rng.random() < 0.15
        self.stability = self.causal and rng.random() < 0.93
        self.nodes: dict[str, Node] = {}
        self.seq: dict[str, int] = {}  # origin: its last message
        self.past: dict[D, set[D]] = {}
        self.sent_in: dict[D, int] = {}  # the view of the sender's application
        self.order: list[D] = []  # as sent; without what never counts
        self.phantoms: list[Phantom] = []
        self.bound: dict[str, int] = {}  # origin of a removed node: its last message that counts
        self.removed: dict[str, str] = {}  # by which kind of record
        founders = frozenset(self.fresh.pop() for _ in range(rng.choice((1, 2, 2, 3, 3, 4))))
        self.chain = [View(founders)]
        for name in sorted(founders):
            node = self.nodes[name] = Node(name, view=0, members=set(founders))
            node.confirm()

    def run(self) -> tuple[Logs, RunInfo]:
        rng = self.rng
        complete = rng.random() < 0.85
        messages = rng.randint(3, 16) if rng.random() < 0.85 else rng.randint(17, 30)
        changes = rng.choice((1, 2, 2, 3, 3, 4, 6))
        for _ in range(rng.randint(40, 80) + 10 * messages):
            running = self.running()
            node = rng.choice(running)
            roll = rng.random()
            if roll < 0.17 and messages and not node.is_leaving:
                self.send(node)
                messages -= 1
            elif roll < 0.55:
                self.deliver_one(node)
            elif roll < 0.63:
                self.phantom(node)
            elif roll < 0.75:
                self.tell(node, rng.randint(1, 4))
            elif roll < 0.83:
                self.advance(node)
            elif roll < 0.87:
                self.welcome()
            elif roll < 0.89:
                self.restart(node)
            elif roll < 0.9:
                self.catch_up(node)
            elif roll < 0.91:
                self.crash(node)
            elif roll < 0.92:
                self.ask_to_leave(node)
            elif changes:
                changes -= self.change()
        if complete:
            self.finish()
        return self.outcome(complete)

    def outcome(self, complete: bool) -> tuple[Logs, RunInfo]:
        founders = sorted(self.chain[0].members)
        logs = {name: self.nodes[name].log for name in founders}
        logs |= {name: node.log for name, node in self.nodes.items() if node.log}
        plain = all(e["kind"] != "snapshot" for name in founders for e in logs[name])
        derivable = plain and all(logs[name] for name in founders) and self.rng.random() < 0.1
        info = RunInfo(
            run="r",
            engine="test",
            members=() if derivable else tuple(founders),
            complete=complete,
            guarantee=self.guarantee,
            tags=self.tags,
            stability=self.stability,
        )
        return logs, info

    def running(self) -> list[Node]:
        """Those with state that have not stopped; the removed that do not know it are among."""
        return [node for node in self.nodes.values() if node.is_up and node.view >= 0]

    def survivors(self) -> list[Node]:
        """The running members of the latest view: there is always one."""
        return [node for node in self.running() if node.name in self.chain[-1].members]

    # Messages.

    def maximal(self, dots: set[D]) -> set[D]:
        return {e for e in dots if not any(e in self.past[f] for f in dots)}

    def send(self, node: Node) -> None:
        on_stream = self.streams and self.rng.random() < 0.3
        origin = f"{node.name}/s{self.rng.randint(1, 2)}" if on_stream else node.name
        self.seq[origin] = self.seq.get(origin, 0) + 1
        dot = (origin, self.seq[origin])
        more: dict[str, Any] = {}
        if on_stream:
            known = sorted(node.taken)
            context = self.maximal(set(self.rng.sample(known, min(len(known), 2))))
            past = {(origin, dot[1] - 1)} if dot[1] > 1 else set()
            more["stream"] = origin.partition("/")[2]
        else:
            context = self.maximal(node.taken)
            past = set(node.taken)
        for before in past | context:
            past = past | {before} | self.past[before]
        if self.tags == "over" and not on_stream:
            context = context | set(self.rng.sample(self.order, min(len(self.order), 1)))
        if not self.causal:
            past = {(origin, s) for s in range(1, dot[1])}
        self.past[dot] = past
        self.sent_in[dot] = node.view
        if self.removed.get(node.name) != "evict":
            self.order.append(dot)
        node.taken.add(dot)
        if not self.total:
            node.there.add(dot)
            node.ever.add(dot)
        node.write("send", dot, context=sorted(context), **more)
        node.confirm()

    def deliver_one(self, node: Node) -> bool:
        if self.total and node.name in self.removed:
            return False  # it is not told the order of anything any more
        ready = []
        for dot in self.order:
            own = owner(dot[0]) == node.name and not self.total
            if own or dot in node.there:
                continue
            if self.sent_in[dot] <= node.view and (self.total or self.past[dot] <= node.there):
                ready.append(dot)
            if self.total:
                break
        if not ready:
            return False
        dot = self.rng.choice(ready)
        if self.rng.random() < 0.1:
            node.write("receive", dot)
        node.write("deliver", dot)
        for dots in (node.taken, node.there, node.ever):
            dots.add(dot)
        node.mark()
        return True

    # Stability.

    def phantom(self, node: Node) -> None:
        if not self.stability:
            return
        if self.phantoms and self.rng.random() < 0.75:
            self.hear(node, self.rng.choice(self.phantoms))
            return
        dot = (node.name, self.seq.get(node.name, 0) + 1)
        phantom = Phantom(dot, frozenset(self.maximal(node.taken)), node.view)
        self.phantoms.append(phantom)
        node.write("phantom", dot, context=sorted(phantom.context))
        node.confirm()

    def hear(self, node: Node, phantom: Phantom) -> None:
        announcer = phantom.dot[0]
        if announcer != node.name and announcer in node.members and phantom.view <= node.view:
            node.heard.append(phantom)
            node.write("phantom", phantom.dot, context=sorted(phantom.context))

    def is_past(self, node: Node, other: str, dot: D) -> bool:
        """Whether ``node`` knows that ``other`` is past the dot."""
        if any(d[0] == other and (d == dot or dot in self.past[d]) for d in node.there):
            return True
        for phantom in node.heard:
            announcer, nth = phantom.dot
            sent = {(announcer, s) for s in range(1, nth)}
            if announcer == other and sent <= node.there and phantom.view <= node.view:
                if dot in sent or any(dot == c or dot in self.past[c] for c in phantom.context):
                    return True
        return False

    def is_stable(self, node: Node, dot: D) -> bool:
        if any(dot not in self.past[own] for own in node.taken - node.there):
            return False  # in total orders: sent here before the dot, and still to be delivered
        return all(self.is_past(node, other, dot) for other in node.members - {node.name})

    def tell(self, node: Node, limit: int) -> None:
        if not self.stability:
            return
        for _ in range(limit):
            ready = [
                dot
                for dot in self.order
                if dot in node.there
                and dot not in node.told
                and "/" not in dot[0]
                and {d for d in self.past[dot] if "/" not in d[0]} <= node.told
                and self.is_stable(node, dot)
            ]
            if not ready:
                return
            dot = self.rng.choice(ready)
            node.told.add(dot)
            node.write("stable", dot)
            node.mark()

    # Views.

    def change(self) -> bool:
        """Decide the next view, if one can be decided."""
        rng = self.rng
        joins = [self.newcomer() for _ in range(rng.choice((0, 1, 1, 1, 2)))]
        leavers = self.leavers()
        evicted = self.evictable(leavers) if rng.random() < 0.6 else []
        joins = sorted({name for name in joins if name})
        if not joins and not leavers and not evicted:
            return False
        for name in leavers:
            self.bound |= {o: s for o, s in self.seq.items() if owner(o) == name}
        if evicted:
            self.fix_cuts(set(evicted))
        removals = [("leave", name) for name in leavers] + [("evict", name) for name in evicted]
        self.removed |= {name: kind for kind, name in removals}
        members = (self.chain[-1].members - set(leavers) - set(evicted)) | set(joins)
        self.chain.append(View(members, tuple(joins), tuple(removals)))
        for name in joins:
            self.nodes[name] = Node(name)
        return True

    def newcomer(self) -> str | None:
        """A new name, or the next incarnation of one that is gone."""
        gone = {}
        for name in self.nodes:
            plain, _, nth = name.partition("#")
            gone[plain] = int(nth or 1) + 1
        again = [
            f"{name}#{nth}"
            for name, nth in gone.items()
            if (old := self.nodes[name if nth == 2 else f"{name}#{nth - 1}"]).name in self.removed
            and not old.is_up
        ]
        if again and self.rng.random() < 0.6:
            return self.rng.choice(again)
        return self.fresh.pop() if len(self.fresh) > 2 else None

    def ask_to_leave(self, node: Node) -> None:
        if any(not other.is_leaving for other in self.survivors() if other is not node):
            node.is_leaving = True

    def leavers(self) -> list[str]:
        """One that wants to leave and may: all others have all its messages."""
        members = [self.nodes[name] for name in sorted(self.chain[-1].members)]
        if len(self.survivors()) < 2 or any(node.view < 0 for node in members):
            return []
        ready = []
        for node in self.survivors():
            own = {d for d in self.past if owner(d[0]) == node.name}
            if node.is_leaving and all(own <= other.ever for other in members):
                ready.append(node.name)
        return self.rng.sample(ready, min(len(ready), 1))

    def evictable(self, leavers: list[str]) -> list[str]:
        """Everyone who stopped, and sometimes one who did not; [] if not all others have state."""
        members = [self.nodes[name] for name in sorted(self.chain[-1].members - set(leavers))]
        suspects = [node for node in members if not node.is_up]
        others = [node for node in members if node.is_up]
        if len(others) > 1 and self.rng.random() < 0.5:
            suspects.append(others.pop(self.rng.randrange(len(others))))
        if not others or any(node.view < 0 for node in others):
            return []
        return [node.name for node in suspects]

    def fix_cuts(self, evicted: set[str]) -> None:
        """How far messages of the evicted count: all that another member has, sometimes more."""
        staying = [self.nodes[name] for name in sorted(self.chain[-1].members - evicted)]
        holders = list(self.nodes.values()) if self.total else staying
        has = dict(latest(set().union(*(node.ever for node in holders))))
        origins = sorted(origin for origin in self.seq if owner(origin) in evicted)
        cut = {origin: has.get(origin, 0) for origin in origins}
        for origin in self.rng.choices(origins, k=self.rng.choice((0, 0, 1, 4))) if origins else ():
            dot = (origin, cut[origin] + 1)
            if dot in self.past and all(seq <= cut.get(o, seq) for o, seq in self.past[dot]):
                cut[origin] += 1
        counting = {(o, seq) for o in origins for seq in range(1, cut[o] + 1)}
        for dot in sorted(counting):
            counting |= self.past[dot]
        for node in staying:
            node.ever |= counting
        self.order = [dot for dot in self.order if dot[1] <= cut.get(dot[0], dot[1])]
        self.bound |= cut

    def advance(self, node: Node) -> bool:
        """Tell the application of the next view, once it has taken what must come before it."""
        if node.view + 1 == len(self.chain):
            return False
        view = self.chain[node.view + 1]
        names = {name for _, name in view.removals}
        if node.name in names or (node.name in self.removed and self.rng.random() < 0.3):
            self.depart(node)
            return True
        bounds = ((o, bound) for o, bound in self.bound.items() if owner(o) in names)
        if not {(o, seq) for o, bound in bounds for seq in range(1, bound + 1)} <= node.there:
            return False
        records = [("join", name) for name in view.joins] + list(view.removals)
        for kind, name in self.rng.sample(records, len(records)):
            self.write_change(node, kind, name)
        node.view += 1
        node.members = set(view.members)
        if self.takes_back:
            node.mark()
            if self.rng.random() < 0.3:
                self.restart(node)
        elif view.removals:
            node.confirm()
        return True

    def write_change(self, node: Node, kind: str, name: str) -> None:
        bound = 0 if kind == "join" else self.bound.get(name, 0)
        node.write(kind, (name, bound) if bound else None, peer=name)

    def depart(self, node: Node) -> None:
        """A removed node may learn of it, and stops."""
        kind = self.removed[node.name]
        if self.rng.random() < (0.95 if kind == "leave" else 0.6):
            self.write_change(node, kind, node.name)
            if self.takes_back and self.rng.random() < 0.2:
                self.go_back(node, self.rng.choice(node.confirmable), with_members=True)
                self.write_change(node, kind, node.name)
            if self.rng.random() < 0.5:
                node.write("end")
        node.is_up = False

    def crash(self, node: Node) -> None:
        if self.survivors() != [node]:
            node.is_up = False

    # Snapshots and restarts.

    def providers(self, name: str, view: int) -> list[Node]:
        """Who may give ``name`` a snapshot at ``view`` or later.

        In total orders a node counts as past its own message before it delivers it, so one that
        has such a message would leave out of its snapshot what others may have been told stable.
        """
        return [
            node
            for node in self.survivors()
            if node.name != name and name in node.members and node.view >= view
            if node.taken == node.there
        ]

    def welcome(self) -> bool:
        """A node that joined gets its snapshot."""
        waiting = [
            (node, provider)
            for node in self.nodes.values()
            if node.view < 0 and node.is_up and node.name in self.chain[-1].members
            for provider in self.providers(node.name, 0)
        ]
        if waiting:
            self.take_snapshot(*self.rng.choice(waiting), with_members=True)
        return bool(waiting)

    def catch_up(self, node: Node) -> None:
        """A member far behind takes a snapshot instead of messages and views."""
        providers = self.providers(node.name, node.view)
        if providers and node.name not in self.removed:
            provider = self.rng.choice(providers)
            moved = provider.view != node.view
            self.take_snapshot(node, provider, moved or self.rng.random() < 0.5)

    def take_snapshot(self, node: Node, provider: Node, with_members: bool) -> None:
        more = {"to": sorted(provider.members)} if with_members else {}
        context, stable = latest(provider.there), latest(provider.told)
        node.write("snapshot", peer=provider.name, context=context, stable=stable, **more)
        node.taken |= provider.there
        node.there |= provider.there
        node.ever |= provider.ever
        node.told |= provider.told
        node.view, node.members = provider.view, set(provider.members)
        node.confirm()
        provider.confirm()

    def restart(self, node: Node) -> None:
        confirmed = self.rng.choice(node.confirmable)
        with_members = False
        if self.takes_back:
            earlier = [one for one in node.confirmable if one.view < node.view]
            if earlier and self.rng.random() < 0.6:
                confirmed = self.rng.choice(earlier)
            since = self.chain[confirmed.view + 1 : node.view + 1]
            removed = any(view.removals for view in since)
            with_members = removed or self.rng.random() < 0.6
        self.go_back(node, confirmed, with_members)

    def go_back(self, node: Node, confirmed: Confirmed, with_members: bool) -> None:
        """The node crashed; without its members said its view stays."""
        there, told = confirmed.there, confirmed.told
        context: list[D] | None = latest(there)
        stable: list[D] | None = latest(told)
        if there == node.there and self.rng.random() < 0.3:
            context = None
        if told == node.told and self.rng.random() < 0.3:
            stable = None
        own = {dot for dot in node.taken if owner(dot[0]) == node.name}
        node.there, node.told, node.taken = set(there), set(told), set(there) | own
        more: dict[str, Any] = {}
        if with_members:
            node.view, node.members = confirmed.view, set(confirmed.members)
            some = node.members - ({node.name} if self.rng.random() < 0.2 else set())
            more["to"] = sorted(some)
        node.write("restart", context=context, stable=stable, **more)
        node.confirm()

    # The end.

    def finish(self) -> None:
        rng = self.rng
        self.settle()
        while rng.random() < 0.9 and self.welcome():
            pass
        for node in [node for node in self.running() if node.name in self.removed]:
            if rng.random() < 0.5:
                self.depart(node)
        self.settle()
        if self.stability and rng.random() < 0.7:
            for node in self.survivors():
                self.phantom(node)
            for node in self.survivors():
                for phantom in self.phantoms[-4:]:
                    self.hear(node, phantom)
        self.settle()
        for node in self.survivors():
            self.tell(node, 10**6)
            if rng.random() < 0.95:
                node.write("end")

    def settle(self) -> None:
        """Every running member reaches the latest view and takes everything."""
        staying = self.survivors()
        for node in self.rng.sample(staying, len(staying)):
            while self.deliver_one(node) or self.advance(node):
                pass


def takes_back(seed: int) -> bool:
    """Whether restarts take views back; not in seeds that are kept because they found something."""
    return seed % 5 in (1, 3)


def dynamic_execution(seed: int) -> tuple[Logs, RunInfo]:
    """A correct execution."""
    return DynamicGroup(random.Random(f"dynamic {seed}"), takes_back(seed)).run()


def broken_dynamic(seed: int) -> tuple[Logs, RunInfo]:
    """An execution with one to three mutations, most of them of membership."""
    rng = random.Random(f"broken dynamic {seed}")
    logs, info = dynamic_execution(seed)
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        mutators = MEMBERSHIP_MUTATORS if rng.random() < 0.65 else MUTATORS
        if takes_back(seed) and rng.random() < 0.3:
            mutators = TAKEN_BACK_MUTATORS
        info = rng.choice(mutators)(rng, logs, info) or info
    return logs, info
