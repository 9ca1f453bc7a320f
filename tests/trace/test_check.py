"""Each rule of the trace reference, by hand: the smallest log that breaks it."""

from __future__ import annotations

import msgspec
import pytest

from tests.trace.faults import both, info, plain, records, verdict_on
from thence.trace.record import RunInfo
from thence.trace.verdict import RULES, Verdict, report_of

AB = info("a", "b")
DYNAMIC_RULES = {"send-outside", "deliver-outside", "view-disagree"}
QUIET = info("a", "b", stability=False)


def test_a_correct_run_is_clean():
    made = records(
        a="send a:1; deliver b:1; stable a:1; stable b:1; send a:2 < b:1; end",
        b="deliver a:1; send b:1 < a:1; stable a:1; deliver a:2; stable b:1; stable a:2; end",
    )
    assert both(made, AB) == []


CASES = {
    "send-foreign": (
        QUIET, {"a": "send b:1; end", "b": "end"},
        [("a", 0, "send-foreign", ("b", 1), None)],
    ),
    "send-duplicate": (
        QUIET, {"a": "send a:1; send a:1; end", "b": "deliver a:1; end"},
        [("a", 1, "send-duplicate", ("a", 1), None)],
    ),
    "send-gap": (
        info("a"), {"a": "send a:2"},
        [("a", 0, "send-gap", ("a", 2), ("a", 1))],
    ),
    "send-gap backwards": (
        info("a"), {"a": "send a:1; send a:2 < a:1; send a:4 < a:2; send a:3 < a:4"},
        [("a", 2, "send-gap", ("a", 4), ("a", 3)), ("a", 3, "send-gap", ("a", 3), None)],
    ),
    "context lacks a dot": (
        QUIET, {"a": "send a:1; deliver b:1; send a:2 < a:1", "b": "send b:1"},
        [("a", 2, "context-wrong", ("a", 2), ("b", 1))],
    ),
    "context names too much": (
        QUIET, {"a": "deliver b:1; send a:1 < b:1; send a:2 < a:1 b:1", "b": "send b:1"},
        [("a", 2, "context-wrong", ("a", 2), None)],
    ),
    "deliver-unsent": (
        QUIET, {"a": "deliver b:1; end", "b": "end"},
        [("a", 0, "deliver-unsent", ("b", 1), None)],
    ),
    "deliver-own": (
        info("a", stability=False), {"a": "send a:1; deliver a:1; end"},
        [("a", 1, "deliver-own", ("a", 1), None)],
    ),
    "deliver-duplicate": (
        QUIET, {"a": "deliver b:1; deliver b:1; end", "b": "send b:1; end"},
        [("a", 1, "deliver-duplicate", ("b", 1), None)],
    ),
    "deliver-early, same sender": (
        QUIET, {"a": "send a:1; send a:2 < a:1; end", "b": "deliver a:2; deliver a:1; end"},
        [("b", 0, "deliver-early", ("a", 2), ("a", 1))],
    ),
    "deliver-early, other sender": (
        info("a", "b", "c", stability=False),
        {"a": "send a:1; deliver b:1; end", "b": "deliver a:1; send b:1 < a:1; end",
         "c": "deliver b:1; deliver a:1; end"},
        [("c", 0, "deliver-early", ("b", 1), ("a", 1))],
    ),
    "deliver-missing": (
        QUIET, {"a": "send a:1; end", "b": "end"},
        [("b", 1, "deliver-missing", ("a", 1), None)],
    ),
    "stable-undelivered": (
        QUIET, {"a": "send a:1; deliver b:1; end", "b": "stable a:1; deliver a:1; send b:1 < a:1"},
        [("b", 0, "stable-early", ("a", 1), ("a", 1)),
         ("b", 0, "stable-undelivered", ("a", 1), None)],
    ),
    "stable-early": (
        QUIET, {"a": "send a:1; stable a:1; deliver b:1", "b": "deliver a:1; send b:1 < a:1"},
        [("a", 1, "stable-early", ("a", 1), ("b", 1))],
    ),
    "stable-early, nothing ever came": (
        QUIET, {"a": "send a:1; stable a:1", "b": "deliver a:1"},
        [("a", 1, "stable-early", ("a", 1), None)],
    ),
    "stable-disorder": (
        info("a"), {"a": "send a:1; send a:2 < a:1; stable a:2; stable a:1; end"},
        [("a", 2, "stable-disorder", ("a", 2), ("a", 1))],
    ),
    "stable-duplicate": (
        info("a"), {"a": "send a:1; stable a:1; stable a:1; end"},
        [("a", 2, "stable-duplicate", ("a", 1), None)],
    ),
    "stable-missing": (
        info("a"), {"a": "send a:1; end"},
        [("a", 2, "stable-missing", ("a", 1), None)],
    ),
    "deliver-after-stable": (
        info("a", "b", complete=False),
        {"a": "send a:1; stable a:1; deliver b:1", "b": "send b:1; deliver a:1"},
        [("a", 1, "stable-early", ("a", 1), None),
         ("a", 2, "deliver-after-stable", ("b", 1), ("a", 1))],
    ),
    "order-disagree": (
        info("a", "b", guarantee="total", tags="none"),
        {"a": "send a:1; deliver a:1; deliver b:1; end",
         "b": "send b:1; deliver b:1; deliver a:1; end"},
        [("b", 2, "order-disagree", ("a", 1), ("b", 1))],
    ),
    "log-gap": (
        info("a", stability=False), {"a": "send a:1; +2 end"},
        [("a", 3, "log-gap", None, None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_smallest_log_that_breaks_a_rule(name: str):
    about, logs, expected = CASES[name]
    assert both(records(**logs), about) == expected


def test_every_rule_of_a_static_group_has_a_smallest_log():
    found = {found[2] for _, _, expected in CASES.values() for found in expected}
    assert found == set(RULES) - DYNAMIC_RULES  # dynamic_examples.py has those


def test_a_repeated_position_is_a_gap_and_its_first_record_counts():
    made = records(a="send a:1; end")
    made.append(msgspec.structs.replace(made[0], kind="novelty"))
    assert both(made, info("a", stability=False)) == [("a", 0, "log-gap", None, None)]


def test_an_early_delivery_brings_its_past_into_later_messages():
    """c took b:1 without a:1; its own message is after both all the same."""
    made = records(
        a="send a:1; deliver c:1",
        b="deliver a:1; send b:1 < a:1",
        c="deliver b:1; send c:1 < b:1",
        d="deliver c:1",
    )
    found = both(made, info("a", "b", "c", "d", complete=False))
    assert ("d", 0, "deliver-early", ("c", 1), ("a", 1)) in found


def test_logs_that_put_a_message_before_itself_are_judged_and_do_not_hang():
    made = records(
        a="deliver b:1; send a:1 < b:1; end",
        b="deliver a:1; send b:1 < a:1; end",
    )
    assert [found[2] for found in both(made, QUIET)] == ["deliver-early", "deliver-early"]


def test_over_tags_may_name_more_but_must_cover():
    about = info("a", "b", tags="over", complete=False)
    more = records(a="send a:1; deliver b:1; send a:2 < a:1 b:1 b:2", b="send b:1; send b:2 < b:1")
    assert both(more, about) == []
    less = records(a="send a:1; deliver b:1; send a:2 < a:1", b="send b:1")
    assert both(less, about) == [("a", 2, "context-wrong", ("a", 2), ("b", 1))]


def test_without_tags_no_context_is_wrong():
    made = records(a="send a:1; send a:2")
    assert both(made, info("a", tags="none", complete=False)) == []


def test_a_phantom_taken_into_account_makes_stable():
    about = info("a", "b")
    logs = {
        "a": "send a:1; phantom b:1 < a:1; stable a:1; end",
        "b": "deliver a:1; phantom b:1 < a:1; stable a:1; end",
    }
    assert both(records(**logs), about) == []
    too_soon = logs | {"a": "send a:1; stable a:1; phantom b:1 < a:1; end"}
    assert both(records(**too_soon), about) == [("a", 1, "stable-early", ("a", 1), None)]


def test_a_phantom_waits_for_the_messages_before_it():
    """b announces its second message: a knows nothing of b until it has the first."""
    logs = {
        "a": "send a:1; phantom b:2 < b:1; stable a:1; deliver b:1; end",
        "b": "deliver a:1; send b:1 < a:1; phantom b:2 < b:1; stable a:1; end",
    }
    found = both(records(**logs), info("a", "b", complete=False))
    assert found == [("a", 2, "stable-early", ("a", 1), ("b", 1))]


def test_a_phantom_covers_the_announcers_own_messages_that_were_not_for_this_node():
    made = records(a="send a:1 @ c; phantom a:2 < a:1", b="phantom a:2; stable a:1")
    found = both(made, info("a", "b", complete=False))
    assert found == [("b", 1, "stable-undelivered", ("a", 1), None)]


def test_phantoms_may_arrive_out_of_order():
    made = records(
        a="send a:1; send a:2 < a:1; phantom b:1 < a:2; stable a:1; stable a:2; phantom b:1 < a:1",
        b="deliver a:1; phantom b:1 < a:1; deliver a:2; phantom b:1 < a:2",
    )
    assert both(made, info("a", "b", complete=False)) == []


def test_a_phantom_must_announce_the_next_dot_and_its_whole_frontier():
    made = records(a="send a:1; phantom a:3 < a:1; phantom a:2")
    assert both(made, info("a", complete=False)) == [
        ("a", 1, "send-gap", ("a", 3), ("a", 2)),
        ("a", 2, "context-wrong", ("a", 2), ("a", 1)),
    ]


def test_a_stream_has_the_past_its_context_says():
    logs = {
        "a": "send a:1; send a/s:1; send a:2 < a/s:1 a:1; end",
        "b": "deliver a/s:1; deliver a:1; deliver a:2; end",
    }
    assert both(records(**logs), QUIET) == []
    bound = logs | {"a": "send a:1; send a/s:1 < a:1; send a:2 < a/s:1; end"}
    assert both(records(**bound), QUIET) == [("b", 0, "deliver-early", ("a/s", 1), ("a", 1))]


def test_a_stream_may_not_name_what_was_never_sent_nor_an_origin_twice():
    made = records(a="send a:1; send a:2 < a:1; send a/s:1 < a:1 a:2; send a/s:2 < b:7; end")
    assert both(made, info("a", stability=False)) == [
        ("a", 2, "context-wrong", ("a/s", 1), None),
        ("a", 3, "context-wrong", ("a/s", 2), ("b", 7)),
    ]


def test_a_message_on_a_stream_is_never_stable():
    made = records(a="send a/s:1; stable a/s:1; end")
    assert both(made, info("a")) == [("a", 1, "stable-early", ("a/s", 1), None)]


def test_a_multicast_is_missed_only_by_those_it_was_for():
    made = records(
        a="send a:1 @ b; send a:2 < a:1; end",
        b="deliver a:1; deliver a:2; end",
        c="deliver a:2; end",
    )
    assert both(made, info("a", "b", "c", stability=False)) == []


def test_fifo_asks_only_for_the_order_of_each_sender():
    about = info("a", "b", "c", guarantee="fifo", tags="none")
    logs = {
        "a": "send a:1; deliver b:1; end",
        "b": "deliver a:1; send b:1; end",
        "c": "deliver b:1; deliver a:1; end",
    }
    assert both(records(**logs), about) == []


def test_an_incomplete_run_misses_nothing():
    made = records(a="send a:1; end", b="end")
    assert both(made, info("a", "b", complete=False)) == []


def test_a_log_without_its_end_misses_nothing():
    made = records(a="send a:1; end", b="sample")
    assert both(made, QUIET) == []


@pytest.mark.parametrize("far", [10**6, 10**12])
def test_an_absurd_number_is_judged_like_a_small_gap(far: int):
    """Great holes are ranked away; only the number itself may show."""
    near = 70

    def judge(seq: int) -> list[tuple[object, ...]]:
        made = records(
            a=f"send a:1; send a:{seq} < a:1; send a:{seq + 1} < a:{seq}; send a:{seq + 3}; end",
            b=f"deliver a:1; deliver a:{seq}; stable a:{seq}; deliver a:{seq + 1}; "
            f"deliver a:{seq + 3}; end",
        )
        verdict = verdict_on(made, AB)
        return [(v.node, v.pos, v.rule, plain(v.dot), plain(v.missing)) for v in verdict.violations]

    def renamed(found: tuple[object, ...]) -> tuple[object, ...]:
        swap = {("a", far + k): ("a", near + k) for k in range(4)}
        return tuple(swap.get(part, part) if isinstance(part, tuple) else part for part in found)

    assert [renamed(found) for found in judge(far)] == judge(near)


def test_all_violations_are_counted_and_a_thousand_listed():
    made = records(a="; ".join(f"send b:{n}" for n in range(1, 1502)))
    verdict = verdict_on(made, info("a", complete=False))
    assert verdict.counts == {"send-foreign": 1501}
    assert [v.pos for v in verdict.violations] == list(range(1000))


def test_the_first_thousand_are_the_first_by_position_whatever_their_rules():
    events = [f"send b:{n}; stable c:{n}" for n in range(1, 1001)]
    verdict = verdict_on(records(a="; ".join(events)), info("a", complete=False))
    assert len({v.rule for v in verdict.violations}) > 1
    keys = [(v.pos, v.rule) for v in verdict.violations]
    assert keys == sorted(keys)
    assert verdict.violations[-1].pos < 1000


def test_the_json_of_a_report():
    made = records(a="send a:1; end", b="end")
    report = report_of([verdict_on(made, QUIET)])
    assert msgspec.json.decode(report.to_json()) == {
        "ok": False,
        "runs": 1,
        "events": 3,
        "counts": {"deliver-missing": 1},
        "violations": [
            {
                "run": "r",
                "node": "b",
                "pos": 1,
                "rule": "deliver-missing",
                "dot": ["a", 1],
                "missing": None,
                "why": "b never delivered a:1",
            }
        ],
    }


def test_a_report_lists_the_first_thousand_of_all_runs_in_order():
    def verdict(run: str) -> Verdict:
        made = records(a="; ".join(f"send b:{n}" for n in range(1, 702)))
        about = RunInfo(run=run, members=("a",))
        return verdict_on(made, about)

    report = report_of([verdict("z"), verdict("y")])
    assert report.counts == {"send-foreign": 1402}
    assert [v.run for v in report.violations] == ["y"] * 701 + ["z"] * 299
    assert (report.runs, report.events, report.ok) == (2, 1402, False)
