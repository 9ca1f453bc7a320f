"""Whole nodes in virtual time: the same hub, driver, ledger, codec and link as on real networks.

One seed drives everything: when applications send, take and confirm; how long frames travel; when
connections break, partitions come and heal, nodes are killed and started again, journals fail.  A
node is killed between two turns of its loop, or inside one, before or after an operation of its
journal.  What it had not committed is gone; its trace is cut to what its journal says, as on a real
disk.

At the end faults stop, everybody comes back, and everything must arrive.  Then the traces are
judged by the checker (trace/check.py), which knows nothing of all this; what applications saw is
compared with what they were promised (sim/node_view.py); and nodes must have forgotten what nobody
needs any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from thence.causal.dot import SEQ_BITS
from thence.client.outbox import SHRINK_MESSAGES
from thence.engine.registry import ENGINES
from thence.engine.streams import STREAM_BASE
from thence.journal.memory import Fault
from thence.sim.names import node_names
from thence.sim.node import Part, SimNode
from thence.sim.node_options import TIMING, NodesOptions
from thence.sim.node_view import Broken, Payloads
from thence.sim.pipes import Owner
from thence.sim.stage import Stage
from thence.trace.check import check_run
from thence.trace.columns import gather_runs
from thence.trace.record import END, Record, RunInfo, record_to_json
from thence.trace.segments import part_of_records

STEP_S = 0.25
STEPS_MAX = 200
"""After so many steps without faults everything must have arrived."""
WORDS_PER_NODE_MAX = 40
"""Metadata of a drained node, for each member."""


class World(Stage):
    """Nodes, the connections between them, and what befalls them."""

    def __init__(self, options: NodesOptions) -> None:
        super().__init__(options.seed, options.latency_s)
        self.options = options
        self.names = node_names(options.nodes)
        self.calm = False
        self._closing = False
        self.nodes = {name: SimNode(self, name, options) for name in self.names}
        self.groups: dict[str, list[str]] = {}
        self.payloads: dict[str, Payloads] = {}
        for number in range(options.groups):
            self._add_group(f"group{number}", number)

    def _add_group(self, group: str, number: int) -> None:
        members = list(self.names)
        if number:
            count = self.chance.randrange(2, len(members) + 1)
            members = sorted(self.chance.sample(members, count))
        self.groups[group] = members
        self.payloads[group] = Payloads()
        for name in members:
            part = Part(self.nodes[name], group, members, self.payloads[group])
            self.nodes[name].parts[group] = part

    def owner(self, name: str) -> Owner:
        """The node of that name."""
        return self.nodes[name]

    @property
    def parts(self) -> list[Part]:
        """Every group at every node."""
        return [part for node in self.nodes.values() for part in node.parts.values()]

    # ---- a run -----------------------------------------------------------------------------------

    def run(self) -> World:
        """Everything, to the end; Broken when a promise was not kept."""
        self._plan()
        self.go(until=self.busy_s + 1.0)
        self.finish()
        self.judge()
        return self

    @property
    def busy_s(self) -> float:
        """Within this time faults happen."""
        return self.options.messages * self.options.interval_s * 1.5

    def _plan(self) -> None:
        options, chance, busy = self.options, self.chance, self.busy_s
        for at, node in enumerate(self.nodes.values()):
            is_late = at >= options.nodes - options.late
            start = chance.random() * 0.1 + is_late * busy * (0.5 + chance.random())
            self.after(start, node.start, None)
            self.after(start + 0.05, self._step, node)
        if options.crash_at is not None:
            name, operation, when = options.crash_at
            disk = self.nodes[name].parts["group0"].disk
            disk.fault = Fault(operation, "crash", when)  # type: ignore[arg-type]
        for count, action in (
            (options.kills, self._any(SimNode.kill)),
            (options.crashes, self._any(_crash_soon)),
            (options.fails, self._any(_fail_soon)),
            (options.breaks, self.snap),
            (options.partitions, self._split),
        ):
            for _ in range(count):
                self.after(0.1 + chance.random() * busy, action, None)

    def _step(self, node: SimNode) -> None:
        if node.is_up:
            node.step(self.options.slow and node.name == self.names[-1])
        if not self.calm or node.lacks():
            self.after(self.chance.expovariate(1 / self.options.interval_s), self._step, node)

    def _any(self, action: Callable[[SimNode], None]) -> Callable[[Any], None]:
        return lambda _: action(self.nodes[self.chance.choice(self.names)])

    def _split(self, _: Any) -> None:
        self.split(self.names, 1.5)

    def finish(self) -> None:
        """No more faults; run until everything has arrived and was told."""
        self.calm = True
        self.cut = frozenset()
        for node in self.nodes.values():
            for part in node.parts.values():
                part.disk.fault = None
            node.start()
        quiet = 0
        for _ in range(STEPS_MAX):
            self.go(self.now + STEP_S)
            for node in self.nodes.values():
                node.drain()
            lacks = self.lacks()
            quiet = 0 if lacks else quiet + 1
            if quiet > 2:
                return
            if self.options.multicasts and not self._closing and self._only_stability(lacks):
                self._close_traffic()
        raise Broken(f"never done: {self.lacks()}")

    def _only_stability(self, lacks: list[str]) -> bool:
        return bool(lacks) and all(["stable" in why for why in lacks])

    def _close_traffic(self) -> None:
        """Everybody sends once more to all: that a member let a multicast by which is not for it
        shows only in what that member says after something that came after it."""
        self._closing = True
        for part in self.parts:
            part.node.turn(part.broadcast, True)

    def lacks(self) -> list[str]:
        """What is missing, for people."""
        lacks = [why for node in self.nodes.values() for why in node.lacks()]
        for part in self.parts:
            name, group, driver = part.node.name, part.group, part.driver
            dots = self.payloads[group].of(name)
            own = set(part.view.sent)
            missing = [dot for dot in dots if dot not in own and not part.view.has("deliver", dot)]
            if missing:
                lacks.append(f"{name} took not {missing[0]} and {len(missing) - 1} more in {group}")
            if len(driver.exchange.outbox):
                lacks.append(f"{name} keeps {len(driver.exchange.outbox)} in {group}")
            if self._tells_stable:
                untold = [d for d in dots if "/" not in d and not part.view.has("stable", d)]
                if untold:
                    lacks.append(f"{name} was not told {untold[0]} stable in {group}")
        return lacks

    @property
    def _tells_stable(self) -> bool:
        """Whether every message is told stable in the end, messages of streams apart."""
        options = self.options
        # Engines without phantoms find a message stable only when everybody sends after it.
        spec = ENGINES[options.engine]
        return options.stability and spec.stability and spec.phantoms

    # ---- the end ---------------------------------------------------------------------------------

    def judge(self) -> None:
        """What the checker says of the traces, and whether nodes are as good as empty."""
        for part in self.parts:
            if part.view.left():
                raise Broken(f"{part.node.name}: {part.view.left()} did not come again")
            self._check_empty(part)
        for node in self.nodes.values():
            links = node.hub.links.values()
            # Over datagrams a greeting may still be on its way; until then nobody knows who it is.
            known = [link for link in links if link.peer]
            late = [link for link in links if self.now > link.since + TIMING.greeting_s]
            is_late = any([not link.peer for link in late])
            if len(known) >= len(self.names) or is_late or any([link.early for link in links]):
                raise Broken(f"{node.name}: connections or groups are left over")
        for part in self.parts:
            part.driver.close(self.now, ended=False)
            log = part.records
            log.append(
                Record(run=part.group, node=part.node.name, pos=len(log), kind=END, t_us=10**12)
            )
        for group in self.groups:
            self._check_trace(group)

    def _check_trace(self, group: str) -> None:
        members = self.groups[group]
        spec = ENGINES[self.options.engine]
        records = [record for part in self.parts if part.group == group for record in part.records]
        (columns,) = gather_runs([part_of_records(records)], members)
        info = RunInfo(
            run=group, members=tuple(members), complete=True, guarantee=spec.guarantee,
            tags=spec.tags, stability=self.options.stability and spec.stability,
        )  # fmt: skip
        verdict = check_run(columns, info)
        if verdict.counts:
            whys = "; ".join(violation.why for violation in verdict.violations[:3])
            raise Broken(f"the trace of {group}: {verdict.counts}: {whys}")

    def _check_empty(self, part: Part) -> None:
        """What was delivered everywhere, acknowledged and told stable takes no more room."""
        driver, exchange = part.driver, part.driver.exchange
        sizes: dict[str, int] = {
            "events": len(driver.queue) + len(driver._open_events),
            "held": sum(flow.held + flow.held_bytes for flow in exchange.peers),
            "outbox": exchange.outbox.kept_bytes + len(exchange.outbox),
            "released": len(exchange.outbox._messages) // SHRINK_MESSAGES,
        }
        if self.options.engine == "tagged":
            past, ledger = driver.client.past, driver._ledger
            sizes["pending"] = len(driver.engine.pending)
            if self._tells_stable:
                window = [each for each in past.window if each >> SEQ_BITS < STREAM_BASE]
                sizes["unstable"] = len(window)
                sizes["known"] = 0 if ledger is None else len(ledger._known)
                if not self.options.streams:
                    sizes["words"] = max(
                        0, driver.engine.words() - WORDS_PER_NODE_MAX * len(part.names)
                    )
        if part.diary is not None and self._tells_stable:
            sizes["open"] = len([dot for dot in part.diary.open if "/" not in dot])
        left = {name: size for name, size in sizes.items() if size}
        if left:
            raise Broken(f"{part.node.name} is drained, and keeps {left}")

    def digest(self) -> str:
        """Of everything that was traced and seen: the same options give the same one."""
        found = hashlib.sha256()
        for part in self.parts:
            for record in part.records:
                found.update(record_to_json(record))
            found.update(repr(list(part.view.sure)).encode())
        return found.hexdigest()


def run_nodes(options: NodesOptions) -> World:
    """A whole run; Broken says what was wrong, and the call that does it again."""
    try:
        return World(options).run()
    except Exception as error:
        raise Broken(f"{type(error).__name__}: {error}\nreplay: {replay(options)}") from error


def replay(options: NodesOptions) -> str:
    """The call that does this run again."""
    return f"run_nodes({_spell(options)})"


def _spell(value: Any) -> str:
    """A Struct as a call, without what is by default."""
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    default = type(value)()
    said = [
        f"{name}={_spell(getattr(value, name))}"
        for name in value.__struct_fields__
        if getattr(value, name) != getattr(default, name)
    ]
    return f"{type(value).__name__}({', '.join(said)})"


def _soon(node: SimNode, kind: str) -> None:
    """At one of the next operations of a journal of this node, before or after it is done."""
    chance = node.world.chance
    disk = chance.choice(list(node.parts.values())).disk
    when = chance.choice(("before", "after"))
    at = disk.operations + 1 + chance.randrange(6)
    disk.fault = Fault(at, kind, when)  # type: ignore[arg-type]


def _crash_soon(node: SimNode) -> None:
    _soon(node, "crash")


def _fail_soon(node: SimNode) -> None:
    _soon(node, "fail")
