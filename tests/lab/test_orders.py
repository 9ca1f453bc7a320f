"""What the processes of a run are told."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from thence.errors import UnusableInputError
from thence.lab.orders import NODES_MAX, check_size, crowd_warning, orders_of
from thence.lab.plan import Churn, Cut, Latency, RunPlan, Slow, Variant

TAGGED = Variant(name="tagged-at-once", engine="tagged", stability_batch=1)


def plan(**more: object) -> RunPlan:
    given = {"experiment": "e", "variant": TAGGED, "nodes": 3, **more}
    return RunPlan(**given)  # type: ignore[arg-type]


def flags(of: RunPlan, name: str = "a") -> list[str]:
    addresses = {each: f"tcp://127.0.0.1:{port}" for port, each in enumerate(of.names, 7001)}
    return orders_of(of).flags(name, addresses, "127.0.0.1:1", Path("/trace"))


def after(words: list[str], flag: str) -> list[str]:
    return [value for word, value in pairwise(words) if word == flag]


def test_a_node_is_told_everything_by_flags():
    words = flags(plan(messages=7, interval_ms=31.0, seed=5, payload_bytes=9))
    assert after(words, "--peer") == ["b=tcp://127.0.0.1:7002", "c=tcp://127.0.0.1:7003"]
    for flag, value in (("--engine", "tagged"), ("--stability-batch", "1"), ("--send", "7"),
                        ("--interval-ms", "31"), ("--seed", "5"), ("--payload-bytes", "9"),
                        ("--listen", "tcp://127.0.0.1:7001"), ("--delay-seed", "5")):  # fmt: skip
        assert after(words, flag) == [value]
    assert "--no-stability" not in words


def test_latencies_vary_unless_they_are_fixed_and_the_slow_link_never_does():
    slow = plan(latency=Latency(mean_ms=10.0), slow=Slow())
    assert after(flags(slow, "a"), "--delay-to") == ["b=100"]
    assert after(flags(slow, "a"), "--vary-to") == ["c=10"]
    assert after(flags(slow, "c"), "--delay-to") == []
    fixed = plan(latency=Latency(mean_ms=10.0, spread="fixed"))
    assert after(flags(fixed, "b"), "--delay-to") == ["a=10", "c=10"]
    assert after(flags(fixed, "b"), "--vary-to") == []


def test_a_matrix_has_a_delay_for_each_sender_and_receiver():
    matrix = ((0.0, 1.0, 2.0), (3.0, 0.0, 4.0), (5.0, 0.0, 0.0))
    each = plan(latency=Latency(spread="fixed", matrix_ms=matrix), slow=Slow(a=0, b=1, factor=2.0))
    assert after(flags(each, "a"), "--delay-to") == ["b=2", "c=2"]
    assert after(flags(each, "b"), "--delay-to") == ["a=6", "c=4"]
    assert after(flags(each, "c"), "--delay-to") == ["a=5"]


def test_intervals_that_do_not_vary_have_no_seed():
    assert "--seed" not in flags(plan(pacing="fixed"))


def test_stability_may_be_off():
    orders = orders_of(plan(stability=False))
    assert not orders.is_stability_on
    assert "--no-stability" in flags(plan(stability=False))


def test_passive_nodes_send_nothing_and_announce():
    each = plan(passive=1, phantom_ms=40.0)
    assert [node.send for node in orders_of(each).nodes] == [100, 100, 0]
    assert after(flags(each, "c"), "--timing-phantom-ms-max") == ["40"]
    assert after(flags(each, "a"), "--timing-phantom-ms-min") == ["3.6e+06"]
    assert not orders_of(each).all_stable, "what the others consumed last, nobody is told"
    assert orders_of(plan(phantom_ms=40.0)).all_stable
    assert not orders_of(plan()).all_stable


@pytest.mark.parametrize("more", [{"churn": Churn(joins=1)},
                                  {"cuts": (Cut(start_ms=1, end_ms=2, side=(0,)),)}])  # fmt: skip
def test_what_processes_cannot_do_is_refused_in_a_sentence(more: dict[str, object]):
    with pytest.raises(UnusableInputError, match="only --mode simulated"):
        orders_of(plan(**more))


def test_one_machine_has_room_for_so_many_nodes():
    check_size(plan(nodes=NODES_MAX))
    with pytest.raises(UnusableInputError, match="use --mode workers"):
        check_size(plan(nodes=NODES_MAX + 1))
    assert crowd_warning(16, 2) == ""
    assert "17 processes share 2 processors" in crowd_warning(17, 2)


def test_settings_of_the_environment_do_not_reach_the_nodes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("THENCE_ENGINE", "graph")
    monkeypatch.setenv("THENCE_CONFIG", "other.toml")
    monkeypatch.setenv("THENCE_PURE", "1")
    environ = orders_of(
        plan(variant=Variant(name="t", engine="tagged", form="installed"))
    ).environ()
    assert not {"THENCE_ENGINE", "THENCE_CONFIG"} & environ.keys()
    assert environ["THENCE_PURE"] == os.environ["THENCE_PURE"]


def test_a_form_that_is_asked_for_does_not_depend_on_the_environment(
    monkeypatch: pytest.MonkeyPatch,
):
    def pure(form: str) -> str | None:
        each = plan(variant=Variant(name="t", engine="tagged", form=form))  # type: ignore[arg-type]
        return orders_of(each).environ().get("THENCE_PURE")

    monkeypatch.setenv("THENCE_PURE", "1")
    assert pure("compiled") is None
    monkeypatch.delenv("THENCE_PURE")
    assert pure("interpreted") == "1"


def test_names_that_no_group_of_processes_can_have_are_refused_before_anything_runs():
    orders_of(plan(experiment="e" * 64))
    with pytest.raises(UnusableInputError, match="a shorter one"):
        orders_of(plan(experiment="e" * 64, variant=Variant(name="v" * 64, engine="tagged")))
