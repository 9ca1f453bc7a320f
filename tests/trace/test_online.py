"""The online checker against the brute force: broken executions, in any order, in any pieces.

Every seed draws an execution, an interleaving of its logs, cuts into feeds, restarts from a dump
between feeds, and how soon messages are forgotten.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.seeds import seeds
from tests.trace.brute import Found, brute_check
from tests.trace.chaos import chaos
from tests.trace.dynamic_examples import examples
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import Group, Logs, broken, execution, records_of
from tests.trace.faults import info, plain, records
from thence.trace.online import OnlineChecker
from thence.trace.online_watermark import RETAIN_MESSAGES
from thence.trace.record import Record, RunInfo
from thence.trace.verdict import RULES, Violation

PLAIN_STATIC = 800
PLAIN_DYNAMIC = 500
PLAIN_CHAOS = 250
SOAK = 10_000
RETAINED = (1, 1, 2, 8, 64)

Make = Callable[[int], tuple[Logs, RunInfo]]


def interleaved(rng: random.Random, made: list[Record]) -> list[Record]:
    """The logs side by side, some far ahead of others; each in its own order."""
    logs: dict[str, list[Record]] = {}
    for record in made:
        logs.setdefault(record.node, []).append(record)
    pace = {name: rng.choice((0.01, 0.3, 1.0)) for name in logs}
    mixed: list[Record] = []
    while logs:
        name = rng.choices(list(logs), [pace[name] for name in logs])[0]
        count = rng.choice((1, 2, 5, 1000))
        mixed += logs[name][:count]
        logs[name] = logs[name][count:]
        if not logs[name]:
            del logs[name]
    return mixed


def pieces(rng: random.Random, made: list[Record]) -> list[list[Record]]:
    """Feeds; sometimes a few of them change places, as segments that are listed late do."""
    feeds = []
    while made:
        count = rng.choice((1, 2, 5, 20, 100))
        feeds.append(made[:count])
        made = made[count:]
    if feeds and rng.random() < 0.3:
        at = rng.randrange(len(feeds))
        some = feeds[at : at + 3]
        rng.shuffle(some)
        feeds[at : at + 3] = some
    return feeds


def as_found(violations: list[Violation]) -> list[Found]:
    return [(v.node, v.pos, v.rule, plain(v.dot), plain(v.missing)) for v in violations]


def in_order(found: list[Found]) -> list[Found]:
    return sorted(found, key=lambda f: (f[0], f[1], f[2], f[3] or ("", 0)))


def followed(
    seed: int, made: list[Record], about: RunInfo, retained: tuple[int, ...] = RETAINED
) -> tuple[OnlineChecker, list[Found]]:
    """What the online checker tells until the end; ``needs_batch`` may say it is not all."""
    rng = random.Random(f"follow {seed}")
    known = None if rng.random() < 0.1 else about
    checker = OnlineChecker("r", known, retain=rng.choice(retained))
    told: list[Violation] = []
    for feed in pieces(rng, interleaved(rng, made)):
        told += checker.feed(feed)
        if rng.random() < 0.3:
            checker = OnlineChecker.load(checker.dump())
    told += checker.close(about)
    return checker, as_found(told)


def compare(make: Make, chosen: range) -> tuple[Counter[str], Counter[str]]:
    """How often each rule was broken, and why whole runs had to be checked."""
    rules: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for seed in chosen:
        logs, about = make(seed)
        made = records_of(logs)
        expected = brute_check(made, about)
        checker, found = followed(seed, made, about)
        assert len(set(found)) == len(found), f"seed {seed}: told twice"
        if checker.needs_batch:
            reasons[checker.needs_batch] += 1
            if "twice" not in checker.needs_batch:  # which of the two counts is up to the files
                assert set(found) <= set(expected), f"seed {seed}: {checker.needs_batch}"
        else:
            assert in_order(found) == expected, f"seed {seed}"
            rules.update({one[2] for one in expected})
    return rules, reasons


@pytest.mark.parametrize(
    ("made", "about", "expected"), [pytest.param(*case[1:], id=case[0]) for case in examples()]
)
def test_an_example_breaks_exactly_these_rules(made, about, expected):
    for seed in range(5):
        checker, found = followed(seed, made, about, (RETAIN_MESSAGES,))
        if checker.needs_batch:
            assert set(found) <= set(expected), checker.needs_batch
        else:
            assert in_order(found) == expected


@pytest.mark.parametrize("make", [execution, dynamic_execution])
def test_correct_executions_break_no_rule(make: Make):
    for seed in seeds(150):
        logs, about = make(seed)
        assert followed(seed, records_of(logs), about)[1] == [], f"seed {seed}"
        checker, found = followed(seed, records_of(logs), about, (RETAIN_MESSAGES,))
        assert (found, checker.needs_batch) == ([], ""), f"seed {seed}"


def test_broken_executions_are_judged_as_the_brute_force_does():
    rules, reasons = compare(broken, seeds(PLAIN_STATIC))
    missing = {"deliver-outside", "send-outside", "view-disagree"}  # of changing groups
    assert set(rules) >= set(RULES) - missing
    assert reasons.total() < 0.15 * len(seeds(PLAIN_STATIC)), "the fallback is to be rare"


def test_broken_executions_of_changing_groups_are_judged_as_the_brute_force_does():
    rules, reasons = compare(broken_dynamic, seeds(PLAIN_DYNAMIC))
    assert set(rules) == set(RULES)
    assert reasons.total() < 0.12 * len(seeds(PLAIN_DYNAMIC))


def test_random_records_are_judged_as_the_brute_force_does():
    rules, _ = compare(chaos, seeds(PLAIN_CHAOS))  # most of them contradict each other
    assert len(rules) > 12


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [broken, broken_dynamic, chaos])
def test_ten_thousand_broken_executions(make: Make):
    rules, reasons = compare(make, range(10**6, 10**6 + SOAK))
    print(f"\n{SOAK} broken executions, identical: {dict(rules)}; as a whole {reasons.total()}")


class Faulty(Group):
    """A group whose engine does wrong while it runs: nothing here contradicts physics."""

    def deliver_one(self, name: str) -> bool:
        roll = self.rng.random()
        absent = [dot for dot in self.order if dot not in self.there[name]]
        if not self.total:
            absent = [d for d in absent if d[0].partition("/")[0] != name]
        if roll < 0.08 and absent:  # before its past, or out of the common order
            dot = self.rng.choice(absent)
            self.log(name, "deliver", dot)
            self.take(name, dot)
        elif roll < 0.12 and absent:  # never, as far as its log knows
            self.take(name, self.rng.choice(absent))
        elif roll < 0.16 and self.there[name]:  # twice, or its own
            self.log(name, "deliver", self.rng.choice(sorted(self.there[name])))
        elif roll < 0.19:  # what nobody sent; not a later message of one who goes on sending:
            # its past would have the messages in between, and these might come after it
            origin = self.rng.choice(["nobody", "n1/s7", "n0/s8"])
            self.log(name, "deliver", (origin, self.rng.randint(1, 3)))
        return super().deliver_one(name)

    def take(self, name: str, dot: tuple[str, int]) -> None:
        self.taken[name].add(dot)
        self.there[name].add(dot)

    def tell(self, name: str, limit: int) -> None:
        for dot in self.rng.sample(self.order, min(len(self.order), self.rng.randint(0, 2))):
            if self.rng.random() < 0.3:
                self.log(name, "stable", dot)
                self.told[name].add(dot)
        super().tell(name, limit)


def faulty(seed: int) -> tuple[Logs, RunInfo]:
    rng = random.Random(f"faulty {seed}")
    logs, about = Faulty(rng).run()
    if rng.random() < 0.2:  # a crash: the end of a log was never written
        log = logs[rng.choice(sorted(logs))]
        del log[rng.randint(0, len(log)) :]
    return logs, about


def test_early_missing_repeated_and_unsent_deliveries_never_need_the_whole_run():
    seen: Counter[str] = Counter()
    for seed in seeds(300):
        logs, about = faulty(seed)
        made = records_of(logs)
        expected = brute_check(made, about)
        rng = random.Random(seed)
        checker = OnlineChecker("r", about)
        told = [v for feed in pieces(rng, interleaved(rng, made)) for v in checker.feed(feed)]
        told += checker.close(about)
        assert not checker.needs_batch, f"seed {seed}: {checker.needs_batch}"
        assert in_order(as_found(told)) == expected, f"seed {seed}"
        seen.update(one[2] for one in expected)
    assert {"deliver-early", "deliver-missing", "deliver-duplicate", "deliver-unsent"} <= set(seen)
    assert {"stable-early", "stable-disorder", "stable-undelivered", "stable-duplicate"} <= set(
        seen
    )


def test_a_violation_is_told_while_the_run_goes_on():
    checker = OnlineChecker("r", info("a", "b"))
    made = records(a="send a:1; send a:2 < a:1", b="deliver a:2")
    assert as_found(checker.feed(made)) == [("b", 0, "deliver-early", ("a", 2), ("a", 1))]
    assert checker.feed(records(b="deliver a:2; deliver a:1")[1:]) == []


def test_a_delivery_waits_for_the_log_of_the_sender():
    checker = OnlineChecker("r", info("a", "b"))
    assert checker.feed(records(b="deliver a:1; deliver a:2; end")) == []
    assert checker.counters().waiting == 3
    assert checker.feed(records(a="send a:1; send a:2 < a:1; end")) == []
    assert checker.counters().waiting == 0


def test_segments_may_come_in_any_order():
    made = records(a="send a:1; send a:2 < a:1; send a:4 < a:2; end", b="end")
    checker = OnlineChecker("r", info("a", "b"))
    assert checker.feed(made[2:]) == []
    told = checker.feed(made[:2]) + checker.close(info("a", "b"))
    assert in_order(as_found(told)) == brute_check(made, info("a", "b"))
    assert not checker.needs_batch


def test_a_position_that_never_came_is_a_gap_at_the_end():
    made = records(a="send a:1; +1 send a:2 < a:1; end")
    checker = OnlineChecker("r", info("a"))
    assert checker.feed(made) == []
    found = as_found(checker.close(info("a")))
    assert ("a", 2, "log-gap", None, None) in found
    assert in_order(found) == brute_check(made, info("a"))


def test_what_is_missing_in_a_stable_event_is_named_when_it_is_sent():
    checker = OnlineChecker("r", info("a", "b", "c"))
    checker.feed(records(a="send a:1; stable a:1"))
    assert checker.counters().pending == 1
    assert checker.feed(records(c="deliver a:1; send c:1 < a:1")) == []  # b comes before c
    told = checker.feed(records(b="deliver a:1; send b:1 < a:1"))
    assert as_found(told) == [("a", 1, "stable-early", ("a", 1), ("b", 1))]


def test_after_a_skipped_message_what_depends_on_it_is_told_at_the_end():
    made = records(a="send a:1; send a:3 < a:1", b="deliver a:1; deliver a:3")
    checker = OnlineChecker("r", info("a", "b", complete=False))
    assert as_found(checker.feed(made)) == [("a", 1, "send-gap", ("a", 3), ("a", 2))]
    rest = as_found(checker.close(info("a", "b", complete=False)))
    assert rest == [("b", 1, "deliver-early", ("a", 3), ("a", 2))]


def test_a_sender_that_goes_back_needs_the_whole_run_and_nothing_wrong_was_told():
    about = info("a", "b", complete=False)
    made = records(a="send a:1; send a:3 < a:1; send a:2 < a:3", b="deliver a:1; deliver a:3")
    checker = OnlineChecker("r", about)
    told = as_found(checker.feed(made) + checker.close(about))
    assert checker.needs_batch == "a went back to a:2"
    assert set(told) < set(brute_check(made, about))


def test_logs_that_contradict_each_other_need_the_whole_run():
    about = info("a", "b", complete=False)
    made = records(a="deliver b:1; send a:1 < b:1", b="deliver a:1; send b:1 < a:1")
    checker = OnlineChecker("r", about)
    assert checker.feed(made) + checker.close(about) == []
    assert "the logs contradict" in checker.needs_batch
