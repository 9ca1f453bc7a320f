"""Whole nodes whose members come, go and crash, in virtual time, with everything at once.

The same hub, driver, council and link as on real networks.  One seed drives it all.  At the end
faults stop, those who were evicted or killed come back or do not, and then

    one view is left, with exactly those who should be there
    every member has every message of every member, and of former ones up to their cut
    everything is told stable, and nobody keeps anything of what is over
    the traces of all lives are right, says the checker, which knows nothing of all this
    who was evicted was told exactly which of its messages were not accepted
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from thence.causal.dot import SEQ_MAX
from thence.engine.registry import ENGINES
from thence.journal.memory import Fault
from thence.sim.elastic_life import Life
from thence.sim.elastic_node import GROUP, ElasticNode
from thence.sim.elastic_options import ElasticOptions
from thence.sim.names import node_names
from thence.sim.node_view import Broken
from thence.sim.nodes import _spell
from thence.sim.pipes import Owner
from thence.sim.stage import Stage
from thence.trace.check import check_run
from thence.trace.columns import gather_runs
from thence.trace.record import END, Record, RunInfo, record_to_json
from thence.trace.segments import part_of_records
from thence.wire.membership import View

STEP_S = 0.25
STEPS_MAX = 240
"""After so many steps without faults everything must be in order."""
SLOW_SHARE = 0.03
SLOW_S = 0.4
WORDS_MAX = 60
"""Metadata of a node at rest, for each slot that was handed out."""


class ElasticWorld(Stage):
    """Nodes, the connections between them, and what befalls them."""

    def __init__(self, options: ElasticOptions) -> None:
        super().__init__(options.seed, options.latency_s)
        self.options = options
        names = node_names(options.nodes + options.joins)
        self.founders = names[: options.nodes]
        self.nodes = {name: ElasticNode(self, name, options) for name in names}
        for name in names[options.talkers :]:
            self.nodes[name].talks = False
        self.calm = False
        self.views: dict[int, View] = {}
        self.counts = dict.fromkeys(
            ("killed", "evicted", "left", "aimed", "vouched", "lost", "forked"), 0
        )
        self._budget: list[str] = []
        pairs = [(a, b) for a in self.founders for b in names if a != b]
        self._slow = {self.chance.choice(pairs)} if options.slow_link_s and pairs else set()

    def owner(self, name: str) -> Owner:
        """The node of that name."""
        return self.nodes[name]

    def latency(self, a: str = "", b: str = "") -> float:
        """How long something travels; now and then, and between some always, much longer."""
        found = super().latency(a, b)
        if (a, b) in self._slow:
            return found + self.options.slow_link_s
        is_slow = not self.calm and self.chance.random() < SLOW_SHARE
        return found + self.chance.random() * SLOW_S if is_slow else found

    def contacts(self, name: str) -> list[str]:
        """Whom a newcomer may ask."""
        there = [
            each.name
            for each in self.nodes.values()
            if each.name != name and each.driver is not None and not each.driver.is_out
        ]
        return there or [each for each in self.nodes if each != name]

    # ---- a run -----------------------------------------------------------------------------------

    def run(self) -> ElasticWorld:
        """Everything, to the end; Broken when a promise was not kept."""
        view = View.first({name: name for name in self.founders})
        for name in self.founders:
            self.after(self.chance.random() * 0.05, self.nodes[name].found, view)
        for node in self.nodes.values():
            self.after(0.1, self._step, node)
        self._plan()
        self.go(self.busy_s + 0.7)
        self.finish()
        if not self.counts["lost"]:
            self.judge()
        return self

    @property
    def busy_s(self) -> float:
        """Within this time faults happen."""
        return self.options.busy_s

    def _plan(self) -> None:
        options = self.options
        what = ["leave"] * options.leaves + ["crash"] * options.crashes + ["stop"] * options.stops
        what += ["split"] * options.partitions + ["break"] * options.breaks
        what += ["join"] * options.joins + ["fault"] * options.faults
        self.chance.shuffle(what)
        if options.aimed:
            self._budget = what
            self.after(0.2, self._aim, None)
            return
        for each in what:
            self.after(0.2 + self.chance.random() * self.busy_s, self._happen, each)

    def _aim(self, _: Any) -> None:
        """Let something happen when a view is being agreed on; now and then when none is."""
        busy = [
            node.driver
            for node in self.nodes.values()
            if node.driver is not None
            and (node.driver.council.proposal or node.driver.council.frozen)
        ]
        if self._budget and self.chance.random() < (0.5 if busy else 0.08):
            self.counts["aimed"] += bool(busy)
            self._happen(self._budget.pop())
        if self._budget and not self.calm:
            self.after(0.004 + self.chance.random() * 0.02, self._aim, None)

    def _happen(self, what: Any) -> None:
        if self.calm:
            return
        chance = self.chance
        up = [node for node in self.nodes.values() if node.driver is not None]
        up = [node for node in up if node.driver is not None and not node.driver.is_out]
        if what == "join":
            fresh = [node for node in self.nodes.values() if not node.is_up and not node.lives]
            if fresh:
                fresh[0].join()
        elif what == "break":
            self.snap()
        elif what == "split":
            self.split(list(self.nodes), self.options.partition_s)
        elif what == "stop" and len(up) > 1:
            node = chance.choice(up)
            self.cut = frozenset({node.name})
            self.after(0.7 + chance.random() * self.options.partition_s, self.heal, self.cut)
        elif what == "leave" and self._may_go(up):
            chance.choice(up).leave()
        elif what == "fault" and self._may_go(up):
            disk = chance.choice(up).now_life.disk
            if disk is not None:
                when = chance.choice(("before", "after"))
                at = disk.operations + 1 + chance.randrange(6)
                disk.fault = Fault(at, "crash", when)  # type: ignore[arg-type]
        elif what == "crash" and self._may_go(up):
            chance.choice(up).kill()

    def _may_go(self, up: list[ElasticNode]) -> bool:
        """Somebody with the state must be left, who does not want to leave."""
        last = max(self.views.values(), key=lambda each: each.num)
        members = {each.id for each in last.members}
        stay = [node for node in up if not node.now_life.is_leaving]
        return len([node for node in stay if node.now_life.id in members]) > 1

    def _step(self, node: Any) -> None:
        node.step(self.options.slow and node.name == self.founders[-1])
        if not self.calm or node.is_up:
            self.after(self.chance.expovariate(1 / self.options.interval_s), self._step, node)

    # ---- what nodes tell -------------------------------------------------------------------------

    def installed(self, node: ElasticNode, view: View) -> None:
        """A node has another view."""
        known = self.views.setdefault(view.num, view)
        if known != view and view.num:
            raise Broken(f"{node.name} has another view {view.num}: {view} and {known}")

    def over(self, node: ElasticNode, why: str) -> None:
        """A life of a node ended."""
        self.counts[why] = self.counts.get(why, 0) + 1
        if why == "killed" and node.now_life.disk is not None and node.now_life.driver is not None:
            if self.chance.random() < self.options.restarts:
                self.after(0.02 + self.chance.random() * 0.9, node.resume, None)
                return
        comes_back = why.startswith("refused") or self.chance.random() < self.options.rejoins
        if comes_back and why != "left":
            self.after(0.05 + self.chance.random(), node.join, None)

    # ---- the end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """No more faults; run until everything is in order."""
        self.calm = True
        self.cut = frozenset()
        for node in self.nodes.values():
            for life in node.lives:
                if life.disk is not None:
                    life.disk.fault = None
        quiet = 0
        for step in range(STEPS_MAX):
            self.go(self.now + STEP_S)
            for node in self.nodes.values():
                while node.take():
                    pass
            quiet = 0 if self.lacks() else quiet + 1
            if quiet > 1:
                return
            if self._is_lost():
                self.counts["lost"] += 1
                return
            if step % 20 == 19:
                self._help()
        raise Broken(f"never done: {self.lacks()[:6]}")

    def _is_lost(self) -> bool:
        """Whether nobody is left who has the state: the last ones were killed, or evicted by those
        who were killed then.  Nothing can be done about that."""
        last = self.views[max(self.views)]
        there = {node.driver.name for node in self.live if node.driver is not None}
        return not there.intersection(each.id for each in last.members)

    def _help(self) -> None:
        """An operator helps where too few are left (those that are dead are dead), and tells
        newcomers, and who missed something, whom else to ask."""
        for node in self.live:
            if node.driver is None:
                node.hub.ask(self.chance.choice(self.contacts(node.name)), self.now)
        drivers = [node.driver for node in self.live if node.driver is not None]
        alive = {driver.name for driver in drivers}
        last = max([each.council.view.num for each in drivers if not each.is_out], default=0)
        for node in self.nodes.values():
            driver = node.driver
            if driver is None or driver.is_out or not driver.council.is_minority:
                continue
            if driver.council.view.num < last:
                # It missed something: who vouches there makes a second group.  All whom it knew may
                # be gone, so it is started again with the address of another (--join).
                node.hub.ask(self.chance.choice(self.contacts(node.name)), self.now)
                continue
            if last < max(self.views):
                # The dead knew a later view, and nobody else: it never was, then.
                self.counts["forked"] += 1
                self.views = {num: view for num, view in self.views.items() if num <= last}
            for member in driver.council.view.members:
                if member.id not in alive and driver.slot_of(member.name) == member.slot:
                    self.counts["vouched"] += 1
                    node.turn(partial(driver.evict, member.name, True))

    @property
    def live(self) -> list[ElasticNode]:
        """Those that run."""
        return [node for node in self.nodes.values() if node.is_up]

    def lacks(self) -> list[str]:
        """What is not in order yet, for people."""
        lacks: list[str] = []
        live = self.live
        for node in live:
            driver, life = node.driver, node.now_life
            if driver is None:
                why = "" if life.newcomer is None else life.newcomer.waiting_for
                lacks.append(f"{node.name} is not in yet: {why}")
            elif driver.is_out or life.is_leaving:
                lacks.append(f"{node.name} is not out yet")
        drivers = [node.driver for node in live if node.driver is not None]
        if lacks or not drivers:
            return lacks
        view = max([driver.council.view for driver in drivers], key=lambda each: each.num)
        names = sorted(driver.name for driver in drivers)
        if sorted(each.id for each in view.members) != names:
            lacks.append(f"view {view.num} has {[m.id for m in view.members]}, there are {names}")
        for node, driver in zip(live, drivers, strict=True):
            lacks += [f"{driver.name} {each}" for each in self._unsettled(node, driver, view)]
        everything = {dot for node in live for dot in node.now_life.seen}
        for node in live:
            missing = everything - node.now_life.seen.keys()
            if missing:
                lacks.append(f"{node.now_life.id} lacks {sorted(missing)[:3]}")
        return lacks

    def _unsettled(self, node: ElasticNode, driver: Any, view: View) -> list[str]:
        council, exchange = driver.council, driver.exchange
        found = {
            f"is in view {council.view.num}": council.view != view,
            f"has told view {driver.view_told.num}": driver.view_told.num != view.num,
            f"keeps {driver.unstable} unstable": driver.unstable,
            f"keeps {len(exchange.outbox)} in its outbox": len(exchange.outbox),
            f"has {len(driver.queue)} events": driver.queue,
            f"holds {len(driver.engine.held())} back": driver.engine.held(),
            "has a proposal": council.proposal,
            "has frozen somebody": council.frozen,
            f"has requests {council.joins} {council.leaves}": council.joins or council.leaves,
            f"suspects {council.suspects}": council.suspects,
            "has guests": driver.reception.guests,
            "has other connections": len(node.hub.by_peer) >= len(view.members),
            f"is connected to {driver.connected}": len(driver.connected) < len(view.members) - 1,
        }
        return [why for why, is_so in found.items() if is_so]

    def judge(self) -> None:
        """What the checker says of the traces, and what was told to those who were evicted."""
        lives = [life for node in self.nodes.values() for life in node.lives if life.records]
        # By the life, not by its name: where the dead knew a view that never was, two have one.
        live = [node.now_life for node in self.live]
        view = max(self.views.values(), key=lambda each: each.num)
        for node in self.live:
            self._check_empty(node)
        gone = {each.id: each for each in view.gone}
        everything = {dot for node in self.live for dot in node.now_life.seen}
        for life in lives:
            is_live = any(life is each for each in live)
            self._check_life(life, everything, gone.get(life.id), is_live)
        for node in self.live:
            driver = node.driver
            assert driver is not None
            driver.close(self.now)
            log = node.now_life.records
            log.append(Record(run=GROUP, node=driver.name, pos=len(log), kind=END, t_us=10**12))
        if not self.counts["forked"]:
            self._check_traces(lives)

    def _check_life(self, life: Life, everything: set[str], gone: Any, is_live: bool) -> None:
        """Everybody has what counts of this life, and nobody what does not."""
        assert life.driver is not None
        sent = life.driver.client.sent & SEQ_MAX
        has = sorted(int(dot.rpartition(":")[2]) for dot in everything if _node(dot) == life.id)
        if has != list(range(1, len(has) + 1)):
            raise Broken(f"of {life.id} there is {has}")
        if (is_live or life.why == "left") and len(has) != sent:
            raise Broken(f"{life.id} sent {sent}, and {len(has)} are there")
        if gone is not None and gone.cut != len(has):
            raise Broken(f"{life.id} was cut at {gone.cut}, and {len(has)} are there")
        if life.why == "evicted":
            wanted = [f"{life.id}:{number}" for number in range(len(has) + 1, sent + 1)]
            if life.rejected != wanted:
                raise Broken(f"{life.id} was told {life.rejected}, and {wanted} do not count")

    def _check_empty(self, node: ElasticNode) -> None:
        driver = node.driver
        assert driver is not None
        exchange, view = driver.exchange, driver.council.view
        slots = {each.slot for each in view.members}
        sizes: dict[str, int] = {
            "held": sum(flow.held + flow.held_bytes for flow in exchange.flows),
            "released": exchange.outbox.kept_bytes,
            "open events": len(driver._open_events) // 2,
            "peers": len({flow.slot for flow in exchange.peers} - slots),
            "phantoms": len(set(driver.engine.knowledge.phantoms) - slots),
            "rows": sum(len(row) for row in driver.client.past.rows),
            "words": max(0, driver.engine.words() - WORDS_MAX * view.slots),
        }
        left = {name: size for name, size in sizes.items() if size}
        if left:
            raise Broken(f"{driver.name} is at rest, and keeps {left}")

    def _check_traces(self, lives: list[Life]) -> None:
        records = [record for life in lives for record in life.records]
        names = sorted({record.node for record in records})
        (columns,) = gather_runs([part_of_records(records)], names)
        spec = ENGINES["tagged"]
        info = RunInfo(
            run=GROUP, members=tuple(self.founders), complete=True, guarantee=spec.guarantee,
            tags=spec.tags, stability=True,
        )  # fmt: skip
        verdict = check_run(columns, info)
        if verdict.counts:
            whys = "; ".join(
                f"{each.node} {each.pos}: {each.why}" for each in verdict.violations[:3]
            )
            raise Broken(f"the traces: {verdict.counts}: {whys}")

    def digest(self) -> str:
        """Of everything that was traced: the same options give the same one."""
        found = hashlib.sha256()
        for node in self.nodes.values():
            for life in node.lives:
                for record in life.records:
                    found.update(record_to_json(record))
        return found.hexdigest()


def _node(dot: str) -> str:
    return dot.rpartition(":")[0]


def run_elastic(options: ElasticOptions) -> ElasticWorld:
    """A whole run; Broken says what was wrong, and the call that does it again."""
    try:
        world = ElasticWorld(options)
        try:
            return world.run()
        finally:
            for node in world.live:
                node.now_life.over("the end")
    except Exception as error:
        replay = f"run_elastic({_spell(options)})"
        raise Broken(f"{type(error).__name__}: {error}\nreplay: {replay}") from error
