"""What the online checker forgets, and that forgetting never changes what it tells.

Small runs by hand in which the next question is about something forgotten, and longer simulated
ones, broken at random, in which the watermark moves all the time.
"""

from __future__ import annotations

import random
from collections import Counter

import msgspec

from tests.seeds import seeds
from tests.trace.brute import brute_check
from tests.trace.faults import found_by_checker, info, records
from tests.trace.test_online import as_found, in_order
from tests.trace.test_online_state import simulated
from thence.causal.dot import Dot
from thence.trace.check import check_run
from thence.trace.columns import gather_runs
from thence.trace.online import OnlineChecker
from thence.trace.record import Record, RunInfo
from thence.trace.segments import part_of_records


def told_by(checker: OnlineChecker, about: RunInfo, *feeds: list[Record]) -> list:
    told = [violation for feed in feeds for violation in checker.feed(feed)]
    return in_order(as_found(told + checker.close(about)))


def log_of(node: str, text: str) -> list[Record]:
    return records(**{node: text})


def numbered(origin: str, kind: str, count: int) -> str:
    """``send a:1; send a:2 < a:1; ...`` or the same of another kind."""
    before = [
        f" < {origin}:{seq - 1}" if kind == "send" and seq > 1 else "" for seq in range(1, 99)
    ]
    return "; ".join(f"{kind} {origin}:{seq}{before[seq - 1]}" for seq in range(1, count + 1))


def test_what_everyone_has_is_forgotten_but_for_the_last():
    checker = OnlineChecker("r", info("a", "b", stability=False), retain=2)
    checker.feed(log_of("a", numbered("a", "send", 10)))
    assert checker.counters().dots == 10
    checker.feed(log_of("b", numbered("a", "deliver", 10)))
    assert checker.counters().dots == 2


def test_a_message_is_kept_while_something_in_its_past_is():
    """All were told of b:1, out of order; a:1, in its past, is not told and still matters."""
    about = info("a", "b", "c", complete=False)
    feeds = [
        log_of("a", "send a:1; deliver b:1; stable b:1"),
        log_of("b", "deliver a:1; send b:1 < a:1; stable b:1; send b:2 < b:1"),
        log_of("c", "deliver a:1; deliver b:1; stable b:1"),
        log_of("c", "deliver a:1; deliver b:1; stable b:1; stable a:1")[3:],
    ]
    checker = OnlineChecker("r", about, retain=1)
    made = [record for feed in feeds for record in feed]
    assert told_by(checker, about, *feeds) == brute_check(made, about)
    assert not checker.needs_batch


def test_a_log_that_appears_late_is_judged_by_all_that_went_before():
    about = info("a", "b", complete=False, stability=False)
    feeds = [
        log_of("a", numbered("a", "send", 4)),
        log_of("b", numbered("a", "deliver", 4)),
        log_of("z", "deliver a:4"),
    ]
    checker = OnlineChecker("r", about, retain=1)
    expected = [("z", 0, "deliver-early", ("a", 4), ("a", 1))]
    assert told_by(checker, about, *feeds) == expected
    assert not checker.needs_batch
    assert expected == brute_check([record for feed in feeds for record in feed], about)


def test_the_past_of_something_forgotten_is_asked_of_the_whole_run():
    about = info("a", "b", complete=False, stability=False)
    feeds = [
        log_of("b", "send b:1"),
        log_of("a", "deliver b:1; send a:1 < b:1; send a:2 < a:1"),
        log_of("b", "send b:1; deliver a:1; deliver a:2; send b:2 < a:2")[1:],
        log_of("a", "deliver b:1; send a:1 < b:1; send a:2 < a:1; deliver b:2")[3:],
        log_of("z", "deliver a:1"),
    ]
    checker = OnlineChecker("r", about, retain=1)
    assert told_by(checker, about, *feeds) == []
    assert checker.needs_batch == "z delivered a:1 long after all others"


def test_a_restart_behind_what_is_forgotten_is_asked_of_the_whole_run():
    about = info("a", "b", complete=False, stability=False)
    log = numbered("a", "deliver", 8)
    restart = Record(run="r", node="b", pos=8, kind="restart", context=(Dot("a", 2),))
    again = Record(run="r", node="b", pos=9, kind="deliver", dot=Dot("a", 3))
    checker = OnlineChecker("r", about, retain=1)
    feeds = [log_of("a", numbered("a", "send", 8)), log_of("b", log), [restart, again]]
    assert told_by(checker, about, *feeds) == []
    assert "long after all others" in checker.needs_batch or "begins" in checker.needs_batch


def test_a_restart_a_little_behind_is_followed():
    about = info("a", "b", complete=False, stability=False)
    log = numbered("a", "deliver", 8)
    restart = Record(run="r", node="b", pos=8, kind="restart", context=(Dot("a", 6),))
    again = Record(run="r", node="b", pos=9, kind="deliver", dot=Dot("a", 8))
    checker = OnlineChecker("r", about, retain=4)
    feeds = [log_of("a", numbered("a", "send", 8)), log_of("b", log), [restart, again]]
    assert told_by(checker, about, *feeds) == [("b", 9, "deliver-early", ("a", 8), ("a", 7))]
    assert not checker.needs_batch


def mutate(rng: random.Random, logs: dict[str, list[Record]]) -> None:
    """One to four changes that a broken engine or a broken disk could make."""
    for _ in range(rng.randint(1, 4)):
        log = logs[rng.choice(sorted(logs))]
        at = rng.randrange(len(log))
        record = log[at]
        roll = rng.random()
        if roll < 0.2:
            del log[at]
        elif roll < 0.4:
            log.insert(rng.randint(0, len(log)), record)
        elif roll < 0.7:
            log.insert(max(0, at + rng.choice((-9, -2, 3, 30, 200))), log.pop(at))
        elif roll < 0.8 and record.context:
            log[at] = msgspec.structs.replace(record, context=record.context[1:])
        elif record.kind in ("deliver", "stable") and record.dot is not None:
            seq = max(1, record.dot.seq + rng.choice((-40, -3, -1, 1, 3, 40)))
            log[at] = msgspec.structs.replace(record, dot=Dot(record.dot.node, seq))
        elif rng.random() < 0.5:
            kept = tuple(Dot(name, rng.randint(1, 60)) for name in sorted(logs))
            restart = Record(run="r", node=record.node, pos=0, kind="restart", context=kept)
            log.insert(at, restart)


def test_long_runs_broken_at_random_are_judged_as_by_the_local_checker():
    base, about = simulated(60, phantom_ms=15.0)
    plain = [record for record in base if record.kind not in ("receive", "ready", "sample")]
    reasons: Counter[str] = Counter()
    for seed in seeds(60):
        rng = random.Random(seed)
        logs: dict[str, list[Record]] = {}
        for record in plain:
            logs.setdefault(record.node, []).append(record)
        mutate(rng, logs)
        made = [
            msgspec.structs.replace(record, pos=pos, t_us=order)
            for log in logs.values()
            for pos, (order, record) in enumerate(zip(spread(rng, log), log, strict=True))
        ]
        whole = check_run(gather_runs([part_of_records(made)], about.members)[0], about, 10**6)
        checker = OnlineChecker("r", about, retain=rng.choice((1, 2, 16)))
        told = []
        feeds = sorted(made, key=lambda record: record.t_us)
        for at in range(0, len(feeds), 50):
            told += checker.feed(feeds[at : at + 50])
        told += checker.close(about)
        assert len(set(told)) == len(told), f"seed {seed}"
        assert set(told) <= set(whole.violations), f"seed {seed}: {checker.needs_batch}"
        if checker.needs_batch:
            reasons[checker.needs_batch] += 1
        else:
            assert set(told) == set(whole.violations), f"seed {seed}"
    assert reasons.total() < 0.3 * len(seeds(60)), reasons


def spread(rng: random.Random, log: list[Record]) -> list[int]:
    """When each record of a log is fed: at its own pace, which changes."""
    times, now = [], 0
    for _ in log:
        now += rng.choice((1, 1, 1, 4))
        times.append(now)
    return times


def test_the_order_of_deliveries_is_forgotten_once_it_was_compared():
    about = info("a", "b", complete=False, guarantee="total", tags="none", stability=False)
    checker = OnlineChecker("r", about, retain=4)
    pending = []
    for first in range(0, 200, 20):
        for node in ("a", "b"):
            text = "".join(
                f"send a:{seq}; deliver a:{seq};" if node == "a" else f"deliver a:{seq};"
                for seq in range(1, first + 21)
            )
            each = 2 if node == "a" else 1
            assert checker.feed(log_of(node, text)[first * each :]) == []
        pending.append(checker.counters().pending)
    assert max(pending) <= 2 * 4
    assert checker.close(about) == []


def test_two_deliveries_in_opposite_orders_are_found_after_they_were_compared():
    """And told at the end: a restart might take them back."""
    about = info("a", "b", complete=False, guarantee="total", tags="none", stability=False)
    sends = "".join(f"send a:{seq}; deliver a:{seq};" for seq in range(1, 31))
    order = [1, 2, 4, 3, *range(5, 31)]
    feeds = [log_of("a", sends), log_of("b", "".join(f"deliver a:{seq};" for seq in order))]
    checker = OnlineChecker("r", about, retain=4)
    assert [violation for feed in feeds for violation in checker.feed(feed)] == []
    assert checker.counters().pending < 12
    made = [record for feed in feeds for record in feed]
    assert in_order(as_found(checker.close(about))) == brute_check(made, about) != []


def test_messages_to_some_members_are_forgotten_when_these_have_them():
    about = info("a", "b", "c", complete=False, tags="none", stability=False)
    checker = OnlineChecker("r", about, retain=4)
    sizes = []
    for seq in range(1, 301):
        to = "b" if seq % 2 else "c"
        send = msgspec.structs.replace(log_of("a", f"send a:{seq} @ a {to}")[0], pos=seq - 1)
        pos = (seq - 1) // 2
        take = msgspec.structs.replace(log_of(to, f"deliver a:{seq}")[0], pos=pos)
        assert checker.feed([send, take]) == []
        sizes.append((checker.counters().dots, len(checker.dump())))
    assert max(dots for dots, _ in sizes) <= 5
    assert max(size for _, size in sizes) < 1500
    assert checker.close(about) == []
    assert not checker.needs_batch


def test_numbers_far_apart_cost_nothing():
    """A log may name any number; none of them is gone through one by one."""
    far = 2**40 - 1
    for guarantee in ("causal", "total"):
        about = info("a", "b", guarantee=guarantee, tags="none")
        checker = OnlineChecker("r", about, retain=1)
        made = log_of("a", f"send a:1; stable a:1; send a:{far - 1}; send a:{far}; end")
        made += log_of("b", f"deliver a:1; deliver a:{far}; stable a:{far}; deliver b:{far}; end")
        cover = (Dot("a", far), Dot("zz", far))
        join = Record(run="r", node="c", pos=0, kind="snapshot", context=cover, stable=())
        late = [join, *log_of("c", f"snapshot; stable a:{far}; end")[1:]]
        told = checker.feed(made) + checker.feed(late) + checker.close(about)
        if guarantee == "total":  # to list what a snapshot brought is not for here
            assert "more than" in checker.needs_batch
            assert "send-gap" in {v.rule for v in told}
        else:
            assert not checker.needs_batch
            assert in_order(as_found(told)) == found_by_checker(made + late, about)
