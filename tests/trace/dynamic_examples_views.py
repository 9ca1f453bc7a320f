"""Examples of views, cuts, snapshots and the group at the end, as tests/trace/dynamic_text.py
reads them: about the run, its logs, and the violations."""

from __future__ import annotations

from tests.trace.dynamic_text import group

A = group("a")
AB = group("a b")
ABC = group("a b c")

VIEWS = {
    # Clean.
    "a node joins and sends": (
        AB,
        {
            "a": "send a:1; join ^c; deliver c:1; deliver b:1; end",
            "b": "deliver a:1; join ^c; deliver c:1; send b:1 < c:1; end",
            "c": "snapshot ^a < a:1 @ a b c; send c:1 < a:1; deliver b:1; end",
        },
        [],
    ),
    "a node leaves after its last message": (
        AB,
        {"a": "deliver b:1; leave b:1 ^b; send a:1 < b:1; end", "b": "send b:1; leave b:1 ^b; end"},
        [],
    ),
    "an evicted node's messages above the cut are its own affair": (
        AB,
        {"a": "deliver b:1; evict b:1 ^b; end", "b": "send b:1; send b:2 < b:1; evict b:1 ^b"},
        [],
    ),
    "a later incarnation is another node": (
        AB,
        {
            "a": "deliver b:1; evict b:1 ^b; join ^b#2; deliver b#2:1; end",
            "b": "send b:1",
            "b#2": "snapshot ^a < b:1 @ a b#2; send b#2:1 < b:1; end",
        },
        [],
    ),
    # Views and send-outside.
    "send-outside before the snapshot": (
        A,
        {"a": "join ^c; deliver c:1; end", "c": "send c:1; snapshot ^a < c:1 @ a c; end"},
        ["c 0 send-outside c:1"],
    ),
    "send-outside after the own leave": (
        A,
        {"a": "send a:1; leave a:1 ^a; send a:2 < a:1"},
        ["a 2 send-outside a:2"],
    ),
    "send-outside after the own eviction": (
        AB,
        {"a": "end", "b": "evict ^b; send b:1"},
        ["b 1 send-outside b:1"],
    ),
    "a send that does not take part is not outside too": (
        AB,
        {"a": "leave ^a; send b:1", "b": "end"},
        ["a 1 send-foreign b:1"],
    ),
    "a log without membership has no view": (
        A,
        {"a": "deliver c:1; end", "c": "send c:1"},
        [],
    ),
    "a restart does not make a log dynamic": (
        A,
        {"a": "deliver c:1; end", "c": "restart; send c:1"},
        [],
    ),
    "a restart with members makes a log dynamic": (
        A,
        {"a": "deliver c:1; restart @ a; end", "c": "send c:1; restart @; send c:2 < c:1"},
        ["a 0 deliver-outside c:1", "c 0 send-outside c:1"],
    ),
    "a join without from changes nothing, yet the log is dynamic": (
        A,
        {"a": "end", "c": "join; send c:1"},
        ["c 1 send-outside c:1"],
    ),
    "a leave without from changes nothing": (
        A,
        {"a": "leave a:1; send a:1; end"},
        [],
    ),
    "a join of itself adds it": (
        A,
        {"a": "deliver c:1; end", "c": "join ^c; send c:1; deliver a:1; end"},
        ["c 2 deliver-outside a:1", "c 2 deliver-unsent a:1"],
    ),
    "a snapshot without members adds the node alone": (
        A,
        {"a": "send a:1; deliver c:1; end", "c": "snapshot ^a; send c:1; deliver a:1; end"},
        ["c 2 deliver-outside a:1"],
    ),
    "a snapshot without from counts": (
        A,
        {"a": "deliver c:1; end", "c": "snapshot @ a; send c:1; end"},
        [],
    ),
    "a member's snapshot without members leaves its view": (
        AB,
        {"a": "send a:1; end", "b": "snapshot ^a; deliver a:1; end"},
        [],
    ),
    "a member's snapshot with members replaces its view": (
        ABC,
        {"a": "send a:1; end", "b": "snapshot ^a @ c; send b:1; deliver a:1", "c": ""},
        ["a 2 deliver-missing b:1", "b 2 deliver-outside a:1"],
    ),
    "the own removal empties the view": (
        AB,
        {"a": "send a:1; end", "b": "leave ^b; deliver a:1"},
        ["b 1 deliver-outside a:1"],
    ),
    # deliver-outside.
    "deliver-outside before the join": (
        A,
        {
            "a": "deliver c:1; join ^c; end",
            "c": "snapshot ^a @ a c; send c:1; end",
        },
        ["a 0 deliver-outside c:1"],
    ),
    "deliver-outside after the removal": (
        ABC,
        {
            "a": "evict b:1 ^b; deliver b:1; end",
            "b": "send b:1",
            "c": "deliver b:1; evict b:1 ^b; end",
        },
        ["a 1 deliver-outside b:1"],
    ),
    "deliver-outside above the cut, before the removal": (
        AB,
        {"a": "deliver b:1; deliver b:2; evict b:1 ^b; end", "b": "send b:1; send b:2 < b:1"},
        ["a 1 deliver-outside b:2"],
    ),
    "deliver-outside: the cut of another log does not count": (
        ABC,
        {
            "a": "deliver b:1; evict ^b; end",
            "b": "send b:1",
            "c": "join ^d; deliver b:1; end",
        },
        ["a 0 deliver-outside b:1"],
    ),
    "deliver-outside: the first removal gives the cut": (
        AB,
        {"a": "deliver b:1; evict b:1 ^b; evict ^b; end", "b": "send b:1"},
        ["a 2 view-disagree - < b:1"],
    ),
    "deliver-outside: a cut that names another node's dot counts nothing": (
        ABC,
        {"a": "deliver b:1; evict c:5 ^b; end", "b": "send b:1", "c": "deliver b:1; evict ^b; end"},
        ["a 0 deliver-outside b:1", "c 0 deliver-outside b:1"],
    ),
    "deliver-outside: a stream has no cut, but ends with the removal": (
        AB,
        {
            "a": "deliver b/s:1; evict ^b; deliver b/s:2; end",
            "b": "send b/s:1; send b/s:2",
        },
        ["a 2 deliver-outside b/s:2"],
    ),
    "deliver-outside and never sent": (
        A,
        {"a": "join ^b; deliver c:1; end"},
        ["a 1 deliver-outside c:1", "a 1 deliver-unsent c:1"],
    ),
    "a delivery that does not take part is not outside too": (
        AB,
        {"a": "deliver b:1; leave b:1 ^b; deliver b:1; deliver a:1", "b": "send b:1"},
        ["a 2 deliver-duplicate b:1", "a 3 deliver-own a:1"],
    ),
    "deliver-outside: an own message after the own removal, in a total order": (
        group("a b", guarantee="total"),
        {"a": "send a:1; deliver a:1; evict ^a; end", "b": "evict ^a; end"},
        ["a 1 deliver-outside a:1"],
    ),
    # Snapshots.
    "what a snapshot takes is delivered": (
        A,
        {
            "a": "send a:1; send a:2 < a:1; join ^c; end",
            "c": "snapshot ^a < a:2 @ a c; deliver a:1; deliver a:2; end",
        },
        ["c 1 deliver-duplicate a:1", "c 2 deliver-duplicate a:2"],
    ),
    "deliver-unsent: each dot a snapshot names, not those below": (
        A,
        {"a": "join ^c; end", "c": "snapshot ^a < a:2 d:1 @ a c; end"},
        ["c 0 deliver-unsent a:2", "c 0 deliver-unsent d:1"],
    ),
    "deliver-early: a snapshot lacks what a dot of it comes after": (
        AB,
        {
            "a": "send a:1; send a:2 < a:1; end",
            "b": "deliver a:1; deliver a:2; send b:1 < a:2; join ^c; end",
            "c": "snapshot ^b < a:1 b:1 @ a b c; deliver a:2; end",
        },
        ["a 3 deliver-missing b:1", "c 0 deliver-early b:1 < a:2"],
    ),
    "a snapshot's own dots are there for each other": (
        AB,
        {
            "a": "send a:1; deliver b:1; end",
            "b": "deliver a:1; send b:1 < a:1; join ^c; end",
            "c": "snapshot ^b < b:1 a:1 @ a b c; end",
        },
        [],
    ),
    "a snapshot adds to what is there": (
        AB,
        {
            "a": "send a:1; deliver b:1; end",
            "b": "deliver a:1; send b:1 < a:1; join ^c; end",
            "c": "join ^a; deliver a:1; snapshot ^b < b:1 @ a b c; end",
        },
        [],
    ),
    "a snapshot need not have what is not for its node": (
        AB,
        {
            "a": "send a:1 @ b; deliver b:1; end",
            "b": "deliver a:1; send b:1 < a:1; join ^c; end",
            "c": "snapshot ^b < b:1 @ a b c; end",
        },
        [],
    ),
    "with fifo only the sender counts for a snapshot": (
        group("a b", guarantee="fifo"),
        {
            "a": "send a:1; deliver b:1; end",
            "b": "deliver a:1; send b:1; join ^c; end",
            "c": "snapshot ^b < b:1 @ a b c; deliver a:1; end",
        },
        [],
    ),
    "context-wrong: what a snapshot takes is taken": (
        A,
        {
            "a": "send a:1; join ^c; deliver c:1; end",
            "c": "snapshot ^a < a:1 @ a c; send c:1; end",
        },
        ["c 1 context-wrong c:1 < a:1"],
    ),
    "a joiner's message brings its snapshot along": (
        AB,
        {
            "a": "send a:1; join ^c; deliver c:1; end",
            "b": "join ^c; deliver c:1; deliver a:1; end",
            "c": "snapshot ^a < a:1 @ a b c; send c:1 < a:1; end",
        },
        ["b 1 deliver-early c:1 < a:1"],
    ),
    # The group at the end.
    "deliver-missing at a joiner and of a joiner": (
        A,
        {
            "a": "send a:1; join ^c; send a:2 < a:1; end",
            "c": "snapshot ^a < a:1 @ a c; send c:1 < a:1; end",
        },
        ["a 4 deliver-missing c:1", "c 3 deliver-missing a:2"],
    ),
    "who has a snapshot belongs, also when no log says it joined": (
        A,
        {"a": "send a:1; end", "c": "snapshot ^a @ a c; send c:1; end"},
        ["a 2 deliver-missing c:1", "c 3 deliver-missing a:1"],
    ),
    "who is named by a join belongs, also when its own log does not say so": (
        A,
        {"a": "send a:1; join ^c; end", "c": "send c:1; end"},
        ["a 3 deliver-missing c:1", "c 2 deliver-missing a:1"],
    ),
    "nothing is missing at who was removed, or who never belonged": (
        AB,
        {"a": "evict ^b; send a:1; end", "b": "end", "c": "end"},
        [],
    ),
    "deliver-missing of a removed node up to its cut": (
        ABC,
        {
            "a": "deliver b:1; evict b:2 ^b; end",
            "b": "send b:1; send b:2 < b:1; send b:3 < b:2",
            "c": "deliver b:1; deliver b:2; end",
        },
        ["a 3 deliver-missing b:2"],
    ),
    "deliver-missing: the log with the smallest name gives the cut to the others": (
        group("a b c d"),
        {
            "a": "end",
            "b": "send b:1; send b:2 < b:1",
            "c": "deliver b:1; evict b:1 ^b; end",
            "d": "deliver b:1; deliver b:2; evict b:2 ^b; end",
        },
        ["a 1 deliver-missing b:1", "d 2 view-disagree b:2 < b:1"],
    ),
    "no message on a removed node's stream is missing": (
        AB,
        {"a": "evict b:1 ^b; end", "b": "send b/s:1"},
        [],
    ),
    "a joiner needs what removed nodes sent before": (
        AB,
        {
            "a": "deliver b:1; leave b:1 ^b; join ^c; end",
            "b": "send b:1; leave b:1 ^b",
            "c": "snapshot ^a @ a c; end",
        },
        ["c 2 deliver-missing b:1"],
    ),
    "without members given, who joined is no founder": (
        group(""),
        {
            "a": "deliver c:1; send a:1 < c:1; join ^c; end",
            "b": "deliver c:1; deliver a:1; end",
            "c": "send c:1; deliver a:1; end",
        },
        ["a 0 deliver-outside c:1"],
    ),
    "without members given, who has a snapshot is no founder": (
        group(""),
        {"a": "join ^b; deliver c:1; end", "c": "send c:1; snapshot ^a < c:1 @ a c; end"},
        ["a 1 deliver-outside c:1", "c 0 send-outside c:1"],
    ),
    "without members given, the others are the founders": (
        group(""),
        {"a": "send a:1; deliver b:1; leave b:1 ^b; end", "b": "send b:1; end", "c": "end"},
        ["c 1 deliver-missing a:1", "c 1 deliver-missing b:1"],
    ),
    # view-disagree.
    "view-disagree: the log with the smallest name is right": (
        ABC,
        {
            "a": "deliver b:1; evict b:1 ^b; end",
            "b": "send b:1; send b:2 < b:1",
            "c": "deliver b:1; deliver b:2; evict b:2 ^b; end",
        },
        ["c 2 view-disagree b:2 < b:1"],
    ),
    "view-disagree: nothing counts here": (
        ABC,
        {"a": "deliver b:1; evict b:1 ^b; end", "b": "send b:1", "c": "evict ^b; end"},
        ["c 0 view-disagree - < b:1"],
    ),
    "view-disagree: nothing counts there": (
        ABC,
        {"a": "evict ^b; end", "b": "send b:1", "c": "deliver b:1; leave b:1 ^b; end"},
        ["c 1 view-disagree b:1"],
    ),
    "view-disagree: every record of a removal is judged by the first one": (
        ABC,
        {
            "a": "deliver b:1; evict b:1 ^b; evict b:7 ^b; end",
            "b": "send b:1",
            "c": "deliver b:1; evict b:1 ^b; evict ^b; end",
        },
        ["a 2 view-disagree b:7 < b:1", "c 2 view-disagree - < b:1"],
    ),
    "view-disagree: the removed node's own log has a say": (
        group("a b"),
        {"a": "send a:1; evict ^a", "b": "deliver a:1; evict a:1 ^a; end"},
        ["b 1 view-disagree a:1"],
    ),
    "view-disagree: who is not in the view can be removed": (
        AB,
        {
            "a": "evict ^b; join ^c; end",
            "c": "snapshot ^a @ a c; evict b:2 ^b; end",
        },
        ["c 1 view-disagree b:2"],
    ),
    "view-disagree: a dot of a stream, or of another node, counts nothing": (
        ABC,
        {"a": "evict b/s:1 ^b; end", "b": "", "c": "evict a:4 ^b; end", "d": "evict b:1 ^b"},
        ["d 0 view-disagree b:1"],
    ),
    "view-disagree: a record without from removes nobody": (
        ABC,
        {"a": "evict b:3; evict ^b; end", "c": "evict b:4; evict ^b; end"},
        [],
    ),
    "log-gap: what is at a position that is taken does not count": (
        A,
        {"a": "sample; +-1 join ^c; deliver c:1; end", "c": "send c:1"},
        ["a 0 log-gap -"],
    ),
}
