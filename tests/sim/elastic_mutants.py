"""Nodes of elastic groups with a mistake put in (node_mutants.py says how)."""

from __future__ import annotations

from collections.abc import Iterable

from tests.sim.elastic_classes import options_of
from tests.sim.node_mutants import Mutant
from thence.sim.elastic import run_elastic
from thence.sim.node_view import Broken


def first_failure(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first of these runs that goes wrong, and how.  ``seen_in`` is a class of runs, and the
    seed that is worth trying first."""
    name, _, first = mutant.seen_in.partition(": ")
    for seed in [int(first), *seeds] if first else seeds:
        try:
            run_elastic(options_of(name, seed))
        except Broken as error:
            return seed, str(error)
    return None


MUTANTS = (
    # ---- views and messages
    Mutant(
        "a view reaches the application before what was delivered", "elastic:Elastic.install",
        "self.queue.append((VIEW_EVENT, change))", "self.queue.appendleft((VIEW_EVENT, change))",
        "crashes",
    ),
    Mutant(
        "a former member still has to know what is stable", "elastic:Elastic._changes",
        "self.members.remove(each.slot)\n        self.engine.dismiss(each.slot)", "pass", "leaves",
    ),
    Mutant(
        "a newcomer need not know what is stable", "elastic:Elastic._admit",
        "self.engine.admit()",
        "self.engine.admit()\n    self.engine.knowledge.admit(self.members.mask & ~(1 << slot), "
        "len(self.engine.delivered))", "joins",
    ),
    # ---- evictions
    Mutant(
        "what is held back of a frozen member is kept", "flushing:Flushing.freeze",
        "count, size = self.engine.discard(slot)", "count = size = 0", "loss",
    ),
    Mutant(
        "a frozen member is listened to", "flushing:Flushing.data",
        "    if self.is_out or slot in self.council.frozen:\n        return\n"
        "    super().data(slot, number, batch, now)",
        "    from thence.client.driver import Driver\n"
        "    Driver.data(self, slot, number, batch, now)", "false suspicion: 23",
    ),
    Mutant(
        "nothing is begun anew with one that was frozen", "elastic:Elastic.install",
        "self._resets |= self._frozen_before & kept", "pass", "false suspicion",
    ),
    Mutant(
        "relays are not asked for", "council:Council._pull",
        "self.out.append((holders[slot], Pull(self.view.num, slot, here + 1, limit)))", "pass",
        "crashes",
    ),
    Mutant(
        "one that was evicted is not told all that was not accepted", "elastic:Elastic._go_out",
        "packed & SEQ_MAX > cut", "packed & SEQ_MAX > cut + 1", "false suspicion",
    ),
    Mutant(
        "nobody is evicted", "attendance:Attendance._look",
        "council.condemned = frozenset(condemned)", "pass", "crashes",
    ),
    # ---- joins
    Mutant(
        "the state is handed over before the application knows the newcomer",
        "reception:Reception._member",
        "self._driver.view_told.named", "self._driver.council.view.named", "joins, leaves",
    ),
    Mutant(
        "the state has what waits for the application", "reception:Reception._begin",
        "confirmed = taken(client, engine, waiting)", "confirmed = taken(client, engine, [])",
        "joins",
    ),
    Mutant(
        "the state names slots of later views", "reception:Reception._begin",
        "slots = driver.view_told.slots", "slots = 1 << 16", "joins",
    ),
    Mutant(
        "what a newcomer lacks is not kept again", "away:Away._refill",
        "base | lacks.start not in row", "True", "joins",
    ),
    Mutant(
        "a newcomer that stays away is never given up", "attendance:Attendance._look",
        "elif silence >= config.join_s:", "elif False:", "contacts crash: 8",
    ),
    Mutant(
        "a newcomer asks one member only", "newcomer:Newcomer.tick",
        "later = [name for name in names if name > self._provider]",
        "return", "contacts crash",
    ),
    # ---- journals
    Mutant(
        "views are not written down", "ledger:Ledger.viewed",
        "self._append(Viewed(view))", "pass", "restarts, joins",
    ),
    Mutant(
        "a checkpoint leaves out views that wait", "elastic:Elastic._unconfirmed",
        "kind == VIEW_EVENT and each.is_last", "False", "restarts, joins: 57",
    ),
    Mutant(
        "a checkpoint forgets what is on the shelf", "ledger:Ledger.checkpoint",
        "self._journal.checkpoint(made, state.shelved, rows)", "self._journal.checkpoint(made)",
        "shelves",
    ),
    Mutant(
        "payloads on the shelf are not handed over", "reception:Reception._begin",
        "if ranges else ()", "if False else ()", "shelves",
    ),
    # ---- leaves
    Mutant(
        "one leaves before everybody has what it sent", "attendance:Attendance._try_to_leave",
        "all(tag.pushed == STABLE for tag in rows.values())", "True", "leaves: 7",
    ),
)  # fmt: skip
