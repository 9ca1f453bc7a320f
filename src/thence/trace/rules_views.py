"""The rules of views: what is sent, delivered and removed, against who belongs."""

from __future__ import annotations

import numpy as np

from thence.causal.dot import Dot
from thence.trace.numbering import Numbering
from thence.trace.run import LogIndex, Run
from thence.trace.verdict import Missing
from thence.trace.views import Group, Views, all_removals, removals_of


def check_outside(run: Run, log: LogIndex, views: Views) -> None:
    """send-outside and deliver-outside."""
    if not views.dynamic:
        return
    numbering = run.numbering
    inside = views.inside(len(numbering.names) + 1)  # the last: an owner that has no name
    for life in log.lives:
        absent = ~inside[views.epoch(life.send_at), log.node]
        log.findings.add("send-outside", log.pos(life.send_at[absent]), life.send_id[absent])
        at, ids = life.deliver_at, life.deliver_id
        origin = np.searchsorted(numbering.base, ids, side="right") - 1
        outside = ~inside[views.epoch(at), numbering.owner[origin]]
        for removal in removals_of(log.changes):
            if numbering.is_silent(removal.node):
                continue
            cut = numbering.id_of(removal.node, removal.seq)
            outside |= (origin == removal.node) & (ids > cut)
        log.findings.add("deliver-outside", log.pos(at[outside]), ids[outside])


def check_views(log: LogIndex, group: Group, numbering: Numbering) -> None:
    """view-disagree: this log and the one with the smallest name cut a removed node differently."""
    for removal in all_removals(log.changes):
        _, seq = group.removed[removal.node]
        if removal.seq != seq:
            here = numbering.id_of(removal.node, removal.seq) if removal.seq else -1
            there = Dot(numbering.names[removal.node], seq) if seq else None
            at = log.pos(np.array([removal.at]))
            log.findings.add("view-disagree", at, np.array([here]), _always(there))


def _always(dot: Dot | None) -> Missing:
    return lambda _: dot
