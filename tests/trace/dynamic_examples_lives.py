"""Examples of restarts, as tests/trace/dynamic_text.py reads them: about the run, its logs,
and the violations."""

from __future__ import annotations

from tests.trace.dynamic_text import group

AB = group("a b")
ABC = group("a b c")
TELLS = {"stability": True}

LIVES = {
    "what was not confirmed comes again": (
        group("a b", **TELLS),
        {
            "a": "send a:1; send a:2 < a:1; deliver b:1; stable a:1; stable a:2; stable b:1; end",
            "b": "deliver a:1; deliver a:2; stable a:1; restart < a:1 !; stable a:1; deliver a:2;"
            "stable a:2; send b:1 < a:2; end",
        },
        [],
    ),
    "deliver-duplicate: what was confirmed does not come again": (
        AB,
        {
            "a": "send a:1; send a:2 < a:1; send a:3 < a:2; end",
            "b": "deliver a:1; deliver a:2; deliver a:3; restart < a:2; deliver a:1; deliver a:2;"
            "deliver a:3; end",
        },
        ["b 4 deliver-duplicate a:1", "b 5 deliver-duplicate a:2"],
    ),
    "a restart without context confirms all that was taken": (
        AB,
        {"a": "send a:1; end", "b": "deliver a:1; restart; deliver a:1; end"},
        ["b 2 deliver-duplicate a:1"],
    ),
    "a restart with an empty context confirms nothing": (
        AB,
        {"a": "send a:1; end", "b": "deliver a:1; restart <; deliver a:1; end"},
        [],
    ),
    "a restart gives nothing that was not there": (
        AB,
        {"a": "send a:1; end", "b": "restart < a:1; end"},
        ["b 2 deliver-missing a:1"],
    ),
    "deliver-missing: taken back and not delivered again": (
        AB,
        {"a": "send a:1; end", "b": "deliver a:1; restart <; end"},
        ["b 3 deliver-missing a:1"],
    ),
    "deliver-early: what comes before was taken back": (
        AB,
        {
            "a": "send a:1; send a:2 < a:1; end",
            "b": "deliver a:1; restart <; deliver a:2; deliver a:1; end",
        },
        ["b 2 deliver-early a:2 < a:1"],
    ),
    "deliver-early: each time is judged": (
        AB,
        {
            "a": "send a:1; send a:2 < a:1; end",
            "b": "deliver a:2; restart <; deliver a:2; deliver a:1; end",
        },
        ["b 0 deliver-early a:2 < a:1", "b 2 deliver-early a:2 < a:1"],
    ),
    "deliver-unsent and deliver-own are judged each time": (
        AB,
        {"a": "deliver b:1; deliver a:1; restart <; deliver b:1; deliver a:1", "b": "end"},
        ["a 0 deliver-unsent b:1", "a 1 deliver-own a:1"]
        + ["a 3 deliver-unsent b:1", "a 4 deliver-own a:1"],
    ),
    "own sends stay": (
        AB,
        {
            "a": "send a:1; restart <; send a:1; send a:2 < a:1; end",
            "b": "deliver a:1; deliver a:2; end",
        },
        ["a 2 send-duplicate a:1"],
    ),
    "send-gap counts on": (
        AB,
        {"a": "send a:1; restart <; send a:3 < a:1; end", "b": "deliver a:1"},
        ["a 2 send-gap a:3 < a:2"],
    ),
    "context-wrong: what was taken back is not taken": (
        AB,
        {
            "a": "deliver b:1; restart <; send a:1 < b:1; deliver b:1; send a:2 < a:1 b:1; end",
            "b": "send b:1; deliver a:1; deliver a:2; end",
        },
        ["a 2 context-wrong a:1"],
    ),
    "context-wrong: what was confirmed is taken": (
        AB,
        {
            "a": "deliver b:1; deliver b:2; restart < b:1; send a:1; end",
            "b": "send b:1; send b:2 < b:1",
        },
        ["a 3 context-wrong a:1 < b:1", "a 5 deliver-missing b:2"],
    ),
    "a message comes after what its sender had taken in that life": (
        group("a b c"),
        {
            "a": "deliver b:1; restart <; send a:1; deliver b:1; send a:2 < a:1 b:1; end",
            "b": "send b:1; deliver a:1; deliver a:2; end",
            "c": "deliver a:1; deliver a:2; deliver b:1; end",
        },
        ["c 1 deliver-early a:2 < b:1"],
    ),
    "a message sent before the restart keeps its past": (
        group("a b c"),
        {
            "a": "deliver b:1; send a:1 < b:1; restart <; deliver b:1; send a:2 < a:1; end",
            "b": "send b:1; deliver a:1; deliver a:2; end",
            "c": "deliver a:1; deliver a:2; deliver b:1; end",
        },
        ["c 0 deliver-early a:1 < b:1", "c 1 deliver-early a:2 < b:1"],
    ),
    "a snapshot is taken back like deliveries": (
        group("a"),
        {
            "a": "send a:1; send a:2 < a:1; join ^c; end",
            "c": "snapshot ^a < a:2 @ a c; restart < a:1; deliver a:1; deliver a:2; end",
        },
        ["c 2 deliver-duplicate a:1"],
    ),
    "a restart without members leaves the view as it was": (
        AB,
        {
            "a": "deliver b:1; leave b:1 ^b; restart <; deliver b:1; send a:1 < b:1; end",
            "b": "send b:1; leave b:1 ^b; restart; send b:2 < b:1",
        },
        ["a 3 deliver-outside b:1", "b 3 send-outside b:2"],
    ),
    # Views that were not confirmed.
    "a restart with members takes the view back, and it is told again": (
        ABC,
        {
            "a": "deliver b:1; deliver b:2; evict b:2 ^b; join ^d; restart < b:1 @ a b c;"
            "deliver b:2; evict b:2 ^b; join ^d; deliver d:1; end",
            "b": "send b:1; send b:2 < b:1",
            "c": "deliver b:1; deliver b:2; evict b:2 ^b; join ^d; deliver d:1; end",
            "d": "snapshot ^c < b:2 @ a c d; send d:1 < b:2; end",
        },
        [],
    ),
    "deliver-outside: the joiner is not in the earlier view": (
        AB,
        {
            "a": "join ^c; restart @ a b; deliver c:1; join ^c; end",
            "b": "join ^c; deliver c:1; end",
            "c": "snapshot ^b @ a b c; send c:1; end",
        },
        ["a 2 deliver-outside c:1"],
    ),
    "deliver-outside: above the cut, also in the earlier view": (
        AB,
        {
            "a": "deliver b:1; evict b:1 ^b; restart @ a b; deliver b:2; evict b:1 ^b; end",
            "b": "send b:1; send b:2 < b:1",
        },
        ["a 3 deliver-outside b:2"],
    ),
    "deliver-outside: up to the cut, in the later view again": (
        AB,
        {
            "a": "deliver b:1; evict b:1 ^b; restart < @ a b; evict b:1 ^b; deliver b:1; end",
            "b": "send b:1",
        },
        ["a 4 deliver-outside b:1"],
    ),
    "a restart adds nobody but the node itself": (
        ABC,
        {
            "a": "restart @; send a:1; deliver b:1; deliver c:1; end",
            "b": "send b:1; deliver a:1; deliver c:1; end",
            "c": "restart @ a; send c:1; deliver a:1; deliver b:1; end",
        },
        ["a 2 deliver-outside b:1", "a 3 deliver-outside c:1", "c 3 deliver-outside b:1"],
    ),
    "a node that was told of its own removal is in its view again": (
        AB,
        {
            "a": "evict ^b; end",
            "b": "evict ^b; restart @ a; send b:1; evict ^b; send b:2 < b:1",
        },
        ["b 4 send-outside b:2"],
    ),
    "a restart brings nobody into the group at the end": (
        AB,
        {
            "a": "evict ^b; restart @ a b z; end",
            "b": "send b:1",
        },
        [],
    ),
    "deliver-missing: the removal was taken back, the cut was not": (
        AB,
        {
            "a": "deliver b:1; evict b:1 ^b; restart < @ a b; end",
            "b": "send b:1; send b:2 < b:1",
        },
        ["a 4 deliver-missing b:1"],
    ),
    "view-disagree: told again with another cut": (
        ABC,
        {
            "a": "deliver b:1; evict b:1 ^b; restart @ a b c; leave ^b; end",
            "b": "send b:1",
            "c": "deliver b:1; evict b:1 ^b; restart @ a b c; evict b:2 ^b; end",
        },
        ["a 3 view-disagree - < b:1", "c 3 view-disagree b:2 < b:1"],
    ),
    "deliver-outside: the first life gives the cut": (
        AB,
        {
            "a": "deliver b:1; deliver b:2; evict b:1 ^b; restart @ a b; evict b:2 ^b; end",
            "b": "send b:1; send b:2 < b:1",
        },
        ["a 1 deliver-outside b:2", "a 4 view-disagree b:2 < b:1"],
    ),
    "stable-early: who was removed is waited for in the earlier view": (
        AB,
        {
            "a": "send a:1; leave ^b; stable a:1; restart ! @ a b; stable a:1; leave ^b; end",
            "b": "leave ^b",
        },
        ["a 4 stable-early a:1"],
    ),
    "a joiner is not waited for in the earlier view": (
        group("a", **TELLS),
        {
            "a": "send a:1; join ^c; restart @ a; stable a:1; join ^c; end",
            "c": "snapshot ^a < a:1 @ a c ! a:1; end",
        },
        [],
    ),
    "stable-missing: the members at the end of the log are the earlier ones": (
        group("a", **TELLS),
        {"a": "send a:1; join ^c; restart @ a; end", "c": "snapshot ^a < a:1 @ a c ! a:1; end"},
        ["a 4 stable-missing a:1"],
    ),
    # Stability.
    "stable-duplicate: told, confirmed and told again": (
        group("a", **TELLS),
        {
            "a": "send a:1; send a:2 < a:1; stable a:1; stable a:2; restart ! a:1; stable a:1;"
            "stable a:2; end"
        },
        ["a 5 stable-duplicate a:1"],
    ),
    "a restart without stable confirms all that was told": (
        group("a", **TELLS),
        {"a": "send a:1; stable a:1; restart <; stable a:1; end"},
        ["a 3 stable-duplicate a:1"],
    ),
    "a restart tells nothing that was not told": (
        group("a", **TELLS),
        {"a": "send a:1; restart ! a:1; end"},
        ["a 3 stable-missing a:1"],
    ),
    "stable-missing: taken back and not told again": (
        group("a", **TELLS),
        {"a": "send a:1; stable a:1; restart !; end"},
        ["a 4 stable-missing a:1"],
    ),
    "stable-undelivered: taken back": (
        group("a b"),
        {
            "a": "send a:1; deliver b:1; end",
            "b": "deliver a:1; send b:1 < a:1; restart <; stable a:1; deliver a:1; end",
        },
        ["b 3 stable-early a:1 < a:1", "b 3 stable-undelivered a:1"],
    ),
    "stable-early: the message that showed it was taken back": (
        group("a b"),
        {
            "a": "send a:1; deliver b:1; restart <; stable a:1; deliver b:1; end",
            "b": "deliver a:1; send b:1 < a:1; end",
        },
        ["a 3 stable-early a:1 < b:1"],
    ),
    "a phantom is not taken back": (
        group("a b"),
        {
            "a": "send a:1; phantom b:1 < a:1; restart <; stable a:1; end",
            "b": "deliver a:1; phantom b:1 < a:1; end",
        },
        [],
    ),
    "stable-early: the messages before a phantom were taken back": (
        group("a b"),
        {
            "a": "send a:1; deliver b:1; phantom b:2 < b:1 a:1; restart <; stable a:1;"
            "deliver b:1; end",
            "b": "send b:1; deliver a:1; phantom b:2 < b:1 a:1; end",
        },
        ["a 4 stable-early a:1", "a 5 deliver-after-stable b:1 < a:1"],
    ),
    "stable-disorder: told before was taken back": (
        group("a"),
        {"a": "send a:1; send a:2 < a:1; stable a:1; restart !; stable a:2; stable a:1; end"},
        ["a 4 stable-disorder a:2 < a:1"],
    ),
    "deliver-after-stable: told and confirmed": (
        group("a b"),
        {
            "a": "send a:1; deliver b:1; phantom a:2 < a:1 b:1; end",
            "b": "send b:1; stable b:1; restart ! b:1; deliver a:1; end",
        },
        ["b 1 stable-early b:1", "b 3 deliver-after-stable a:1 < b:1"],
    ),
    "deliver-after-stable: told and taken back": (
        group("a b"),
        {
            "a": "send a:1; deliver b:1; end",
            "b": "send b:1; stable b:1; restart !; deliver a:1; send b:2 < a:1 b:1",
        },
        ["a 3 deliver-missing b:2", "b 1 stable-early b:1"],
    ),
    "a view change is not taken back for stability either": (
        group("a b", **TELLS),
        {"a": "send a:1; leave ^b; stable a:1; restart !; stable a:1; end", "b": "leave ^b"},
        [],
    ),
    "a joiner is waited for when a stable is told again": (
        group("a"),
        {
            "a": "send a:1; stable a:1; join ^c; restart !; stable a:1; end",
            "c": "snapshot ^a < a:1 @ a c ! a:1; end",
        },
        ["a 4 stable-early a:1"],
    ),
    # Total orders.
    "in total orders own deliveries are taken back, own sends are not": (
        group("a", guarantee="causal-total"),
        {"a": "send a:1; deliver a:1; restart <; send a:2 < a:1; deliver a:1; deliver a:2; end"},
        [],
    ),
    "order-disagree: only the last life counts": (
        group("a b", guarantee="total"),
        {
            "a": "send a:1; send a:2; deliver a:1; deliver a:2; end",
            "b": "deliver a:2; deliver a:1; restart <; deliver a:1; deliver a:2; end",
        },
        [],
    ),
    "order-disagree: what was carried came when it was delivered": (
        group("a b", guarantee="total"),
        {
            "a": "send a:1; deliver a:1; deliver b:1; send a:2; deliver a:2; end",
            "b": "send b:1; deliver b:1; deliver a:1; restart < a:1 b:1; deliver a:2; end",
        },
        ["b 2 order-disagree a:1 < b:1"],
    ),
    "order-disagree: the smaller name's last life counts": (
        group("a b", guarantee="total"),
        {
            "a": "send a:1; deliver b:1; deliver a:1; restart <; deliver a:1; deliver b:1; end",
            "b": "send b:1; deliver b:1; deliver a:1; end",
        },
        ["b 2 order-disagree a:1 < b:1"],
    ),
}
