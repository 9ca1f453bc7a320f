"""Virtual time."""

from __future__ import annotations

from thence.sim.clock import Clock


def test_actions_run_in_order_of_time_and_ties_in_order_of_planning():
    clock = Clock()
    done: list[tuple[int, str]] = []

    def act(name: str) -> None:
        done.append((clock.now_us, name))

    clock.at(20, act, "late")
    clock.at(10, act, "first")
    clock.at(10, act, "second")
    clock.run()
    assert done == [(10, "first"), (10, "second"), (20, "late")]


def test_an_action_may_plan_more():
    clock = Clock()
    left = [3]

    def again(_: None) -> None:
        left[0] -= 1
        if left[0]:
            clock.after(5, again, None)

    clock.at(0, again, None)
    clock.run()
    assert clock.now_us == 10
    assert len(clock) == 0


def test_the_past_means_now():
    clock = Clock()
    seen: list[int] = []

    def note(_: None) -> None:
        seen.append(clock.now_us)
        if len(seen) == 1:
            clock.at(1, note, None)

    clock.at(50, note, None)
    clock.run()
    assert seen == [50, 50]
