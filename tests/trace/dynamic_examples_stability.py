"""Examples of stability and of total orders under membership, as tests/trace/dynamic_text.py reads
them: about the run, its logs, and the violations."""

from __future__ import annotations

from tests.trace.dynamic_text import group

A = group("a")
AB = group("a b")
TELLS = {"stability": True}

STABILITY = {
    "stable-early: a joiner has to be past the dot": (
        A,
        {
            "a": "send a:1; join ^c; stable a:1; deliver c:1; end",
            "c": "snapshot ^a < a:1 @ a c; send c:1 < a:1; stable a:1; end",
        },
        ["a 2 stable-early a:1 < c:1"],
    ),
    "stable told before the join": (
        group("a", **TELLS),
        {"a": "send a:1; stable a:1; join ^c; end", "c": "snapshot ^a < a:1 @ a c ! a:1; end"},
        [],
    ),
    "a static log looks at the members of the run": (
        group("a", **TELLS),
        {"a": "send a:1; stable a:1; end", "c": "snapshot ^a < a:1 @ a c ! a:1; end"},
        [],
    ),
    "stable-early: a static log of a stranger looks at the members of the run": (
        AB,
        {"a": "send a:1; end", "b": "deliver a:1; end", "c": "deliver a:1; stable a:1"},
        ["c 1 stable-early a:1"],
    ),
    "stable-missing: a removed member need not be past the dot": (
        group("a b c", **TELLS),
        {
            "a": "send a:1; deliver c:1; evict ^b; end",
            "b": "",
            "c": "deliver a:1; send c:1 < a:1; stable a:1; end",
        },
        ["a 4 stable-missing a:1", "a 4 stable-missing c:1", "c 2 stable-early a:1"],
    ),
    "stable-early: told before the removal of one who is not past the dot": (
        group("a b", **TELLS),
        {"a": "send a:1; stable a:1; leave ^b; end", "b": "deliver a:1; leave ^b"},
        ["a 1 stable-early a:1"],
    ),
    "stable-missing: not of a dot that nobody sent": (
        group("a b", stability=True, tags="none"),
        {"a": "send a:1; send a:3; stable a:1; stable a:3; end", "b": "snapshot < a:3; end"},
        [
            "a 1 send-gap a:3 < a:2",
            "a 2 stable-early a:1",
            "a 3 stable-disorder a:3 < a:2",
            "a 3 stable-early a:3",
            "b 2 stable-missing a:1",
            "b 2 stable-missing a:3",
        ],
    ),
    "stable-missing: what a snapshot says was told is told": (
        group("a", **TELLS),
        {
            "a": "send a:1; send a:2 < a:1; stable a:1; stable a:2; join ^c; end",
            "c": "snapshot ^a < a:2 @ a c ! a:1; end",
        },
        ["c 2 stable-missing a:2"],
    ),
    "a message that came with a snapshot says where its sender is": (
        group("a b", **TELLS),
        {
            "a": "send a:1; deliver b:1; stable a:1; join ^c; end",
            "b": "deliver a:1; stable a:1; send b:1 < a:1; join ^c; end",
            "c": "snapshot ^a < a:1 b:1 @ a b c ! a:1; stable b:1; end",
        },
        ["c 1 stable-early b:1"],
    ),
    "stable-duplicate: told with the snapshot": (
        group("a", **TELLS),
        {
            "a": "send a:1; send a:2 < a:1; stable a:1; stable a:2; join ^c; end",
            "c": "snapshot ^a < a:2 @ a c ! a:2; stable a:1; end",
        },
        ["c 1 stable-duplicate a:1"],
    ),
    "stable-disorder: told with the snapshot is told before": (
        group("a", **TELLS),
        {
            "a": "send a:1; send a:2 < a:1; stable a:1; stable a:2; join ^c; join ^d; end",
            "c": "snapshot ^a < a:2 @ a c ! a:1; stable a:2; end",
            "d": "snapshot ^a < a:2 @ a d !; stable a:2; stable a:1; end",
        },
        ["d 1 stable-disorder a:2 < a:1"],
    ),
    "deliver-after-stable: told with the snapshot": (
        AB,
        {
            "a": "send a:1; deliver b:1; join ^c; end",
            "b": "send b:1; deliver a:1; join ^c; end",
            "c": "snapshot ^a < a:1 @ a b c ! a:1; deliver b:1; send c:1 < a:1 b:1; end",
        },
        ["a 4 deliver-missing c:1", "b 4 deliver-missing c:1"]
        + ["c 1 deliver-after-stable b:1 < a:1"],
    ),
    "nobody is waited for in an empty view": (
        group("a b", **TELLS),
        {"a": "send a:1; leave a:1 ^a; stable a:1; end", "b": "deliver a:1; leave a:1 ^a; end"},
        ["b 3 stable-missing a:1"],
    ),
    # order-disagree.
    "a snapshot has no order within": (
        group("a", guarantee="total"),
        {
            "a": "send a:1; send a:2; deliver a:1; deliver a:2; join ^c; end",
            "c": "snapshot ^a < a:2 @ a c; end",
        },
        [],
    ),
    "a snapshot of a smaller name has no order within": (
        group("b c", guarantee="total"),
        {
            "a": "snapshot ^b < b:1 c:1 @ a b c; end",
            "b": "send b:1; deliver b:1; deliver c:1; join ^a; end",
            "c": "send c:1; deliver b:1; deliver c:1; join ^a; end",
        },
        [],
    ),
    "order-disagree: a snapshot brought what others had later": (
        group("a b", guarantee="total"),
        {
            "a": "send a:1; deliver a:1; deliver b:1; end",
            "b": "send b:1; snapshot ^a < b:1 @ a b; deliver a:1; end",
        },
        ["b 2 order-disagree a:1 < b:1"],
    ),
    "a snapshot that brings something too late is no delivery": (
        group("a b", guarantee="total"),
        {
            "a": "send a:1; deliver b:1; deliver a:1; end",
            "b": "send b:1; deliver a:1; snapshot ^a < b:1 @ a b; end",
        },
        [],
    ),
    "order-disagree: the removed are compared too": (
        group("a b c", guarantee="total"),
        {
            "a": "send a:1; deliver a:1; deliver b:1; evict b:1 ^b; evict ^c; end",
            "b": "send b:1; deliver b:1; deliver a:1",
            "c": "deliver b:1; deliver a:1",
        },
        ["b 2 order-disagree a:1 < b:1", "c 1 order-disagree a:1 < b:1"],
    ),
    "order-disagree: who joined is compared, who never belonged is not": (
        group("a", guarantee="total"),
        {
            "a": "send a:1; send a:2; deliver a:1; deliver a:2; join ^c; end",
            "c": "snapshot ^a @ a c; deliver a:2; deliver a:1; end",
            "d": "deliver a:2; deliver a:1; end",
        },
        ["c 2 order-disagree a:1 < a:2"],
    ),
}
