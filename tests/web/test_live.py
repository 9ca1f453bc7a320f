"""A run that grows shows what is new by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.trace.faults import info, records
from tests.web.traces import renamed_run, served, until, write
from thence.causal.dot import Dot
from thence.trace.record import record_to_json
from thence.trace.resumable import ResumableLog
from thence.trace.verdict import Verdict
from thence.trace.writer import Form, write_info
from thence.web.execution import Execution
from thence.web.runs import Viewer
from thence.web.sources import find_sources

Visit = Callable[..., Any]
TOO_LONG_S = 30.0


def test_what_nodes_write_arrives(visit: Visit, tmp_path: Path):
    made = records(a="send a:1; send a:2 < a:1; send a:3 < a:2", b="deliver a:2; deliver a:1")
    about = info("a", "b", complete=False)
    write(tmp_path, made[:1], about)
    with served(tmp_path, live=True) as (address, _):
        page = visit(address)
        assert page.evaluate("thence.active.window.marks.x.length") == 1
        with (tmp_path / "a-000000.jsonl").open("ab") as log:
            log.write(record_to_json(made[1]) + b"\n" + record_to_json(made[2])[:20])
        until(page, "thence.active.window.marks.x.length === 2")
        with (tmp_path / "a-000000.jsonl").open("ab") as log:
            log.write(record_to_json(made[2])[20:] + b"\n")
        until(page, "thence.active.window.marks.x.length === 3")
        assert page.locator("#notice").is_hidden()
        # Another node, and with it something that is wrong.
        lines = b"".join(record_to_json(record) + b"\n" for record in made[3:])
        (tmp_path / ".b.part").write_bytes(lines)
        (tmp_path / ".b.part").rename(tmp_path / "b-000000.jsonl")
        until(page, "thence.active.summary.nodes.length === 2")
        until(page, "thence.violations(thence.active).count === 1")
        assert "Violations 1" in page.inner_text("#tab-violations")


def test_what_is_selected_stays_so_where_it_is_now(visit: Visit, tmp_path: Path):
    logs = records(a="send a:1; send a:2 < a:1", b="deliver a:2; end")
    write(tmp_path, logs[2:], info("a", "b", complete=False))
    with served(tmp_path, live=True) as (address, _):
        page = visit(address + "#at=b@1&other=b@0&cut=b@0")
        assert page.evaluate("thence.active.selected.x") == 2
        assert page.inner_text("#relations").startswith("1 record before")
        write(tmp_path, logs[:2], info("a", "b", complete=False))
        until(page, "thence.active.selected.x === 4")
        until(page, "thence.active.cut.cut.map(each => each.x).join() === '2,3'")
        # The panel follows, and so does the path between the two.
        until(page, "document.querySelector('#relations').innerText.startsWith('3 records before')")
        until(page, "thence.active.other.x === 3 && thence.active.compared.path[0].from.x === 3")


def test_the_panel_follows_and_keeps_what_is_typed_there(visit: Visit, tmp_path: Path):
    made = records(a="send a:1; send a:2 < a:1; send a:3 < a:2; send a:4 < a:3")
    about = info("a", complete=False)
    write(tmp_path, made[:1], about)
    words = "document.querySelector('#panel').innerText.includes"
    with served(tmp_path, live=True) as (address, _):
        page = visit(address + "#tab=state")
        until(page, f"{words}('1 message of')")
        write(tmp_path, made[:2], about)
        until(page, f"{words}('2 messages of')")
        # What is about to be typed is not taken away.
        page.evaluate("thence.toggleCut()")
        page.click("#positions summary")
        page.focus("#positions input")
        write(tmp_path, made[:3], about)
        until(page, "thence.active.summary.events === 3")
        page.wait_for_timeout(300)
        assert page.evaluate("document.activeElement.matches('#positions input')")
        page.evaluate("document.activeElement.value = '-1'")
        write(tmp_path, made, about)
        until(page, "thence.active.summary.events === 4")
        page.wait_for_timeout(300)
        assert page.evaluate("document.activeElement.value") == "-1"


def test_a_tab_knows_when_its_server_stops_and_another_one_begins(visit: Visit, tmp_path: Path):
    write(tmp_path / "one", records(a="send a:1; end"), info("a"))
    about = info("x", run="other")
    write(tmp_path / "two", renamed_run(records(x="send x:1; send x:2 < x:1"), "other"), about)
    with served(tmp_path / "one") as (address, _):
        page = visit(address)
    until(page, "document.querySelector('#notice').innerText.includes('has stopped')")
    port = int(address.rstrip("/").rpartition(":")[2])
    with served(tmp_path / "two", port=port):
        with page.expect_navigation():
            pass
        page.wait_for_selector("html[data-ready]")
        until(page, "thence.active.window.marks.x.length === 2")
        assert page.evaluate("thence.active.summary.nodes") == ["x"]
        assert page.locator("#notice").is_hidden()


def test_a_page_that_nobody_looks_at_holds_no_connection(visit: Visit, tmp_path: Path):
    hide = """hidden => {
      Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    made = records(a="send a:1; send a:2 < a:1")
    write(tmp_path, made[:1], info("a", complete=False))
    with served(tmp_path, live=True) as (address, _):
        first = visit(address)
        for _ in range(7):
            page = first.context.new_page()
            page.goto(address)
            page.wait_for_selector("html[data-ready]")
            page.evaluate(hide, True)
        first.evaluate(hide, True)
        write(tmp_path, made, info("a", complete=False))
        first.evaluate(hide, False)
        until(first, "thence.active.window.marks.x.length === 2")


def test_what_a_node_has_not_sealed_yet_is_shown(visit: Visit, tmp_path: Path):
    write_info(tmp_path, info("a", complete=False))
    with served(tmp_path, live=True) as (address, _):
        page = visit(address)
        assert "No records yet" in page.inner_text(".message")
        log = ResumableLog(tmp_path, run="r", node="a", at=None)
        for record in records(a="send a:1; send a:2 < a:1"):
            log.append(record.kind, record.t_us, record.dot, record.context or ())
        log.flush()
        until(page, "thence.active.window?.marks.x.length === 2")
        assert page.locator(".message").is_hidden()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_no_record_is_missing_or_doubled_while_logs_are_sealed(tmp_path: Path, form: Form):
    write_info(tmp_path, info("a", complete=False))
    log = ResumableLog(tmp_path, run="r", node="a", at=None, form=form)
    (source,) = find_sources(str(tmp_path), tmp_path, live=True)
    written = 0
    sealing = threading.Thread(target=lambda: [grow(log, seq) for seq in range(1, 300)])
    sealing.start()
    while sealing.is_alive():
        read = source.read()
        assert not read.notes
        if read.columns is not None:
            assert len(read.columns) >= written
            written = len(read.columns)
            assert read.columns.pos.tolist() == list(range(written))
    sealing.join()
    read = source.read()
    assert read.columns is not None
    assert len(read.columns) == 299


def grow(log: ResumableLog, seq: int) -> None:
    """One more message, sealed now and then."""
    log.append("send", seq, Dot("a", seq), [Dot("a", seq - 1)] if seq > 1 else [])
    log.flush()
    if seq % 4 == 0:
        log.seal(seq)
    time.sleep(0.003)


def test_the_open_log_of_a_node_killed_while_it_sealed_is_not_read_twice(tmp_path: Path):
    made = records(a="send a:1; send a:2 < a:1")
    write(tmp_path, made, info("a", complete=False))
    (tmp_path / ".a-000000.jsonl.open").write_bytes((tmp_path / "a-000000.jsonl").read_bytes())
    (source,) = find_sources(str(tmp_path), tmp_path, live=True)
    read = source.read()
    assert read.columns is not None
    assert Execution(read.columns, read.info).check().counts == {}


def test_a_folder_that_is_still_empty_waits(visit: Visit, tmp_path: Path):
    with served(tmp_path, live=True) as (address, _):
        page = visit(address)
        assert "No records yet" in page.inner_text(".message")
        write(tmp_path / "one", records(a="send a:1"), info("a", complete=False))
        until(page, "thence.active.window?.marks.x.length === 1")
        # And the runs that come later are to be chosen from.
        about = info("a", run="two", complete=False)
        write(tmp_path / "two", renamed_run(records(a="send a:1; end"), "two"), about)
        until(page, "document.querySelectorAll('#run option').length === 2")
        page.select_option("#run", label="two")
        until(page, "thence.active.window?.marks.x.length === 2")


def test_a_run_that_grows_while_it_is_checked_is_checked_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    going, checks = Event(), list[Execution]()

    def check(execution: Execution) -> Verdict:
        checks.append(execution)
        going.wait(TOO_LONG_S)
        return real(execution)

    real = Execution.check
    monkeypatch.setattr(Execution, "check", check)
    made = records(a="; ".join(f"send a:{seq}" for seq in range(1, 6)))
    write(tmp_path, made[:1], info("a", complete=False))
    with Viewer([str(tmp_path)], live=True) as viewer:
        viewer.loaded(0)
        viewer.follow()
        for at, record in enumerate(made[1:], 1):
            with (tmp_path / "a-000000.jsonl").open("ab") as log:
                log.write(record_to_json(record) + b"\n")
            wait(lambda at=at: len(viewer.execution(0)[1].layout) == at + 1)
        assert len(checks) == 1
        going.set()
        wait(lambda: viewer.loaded(0).checked)
        assert [len(each.layout) for each in checks] == [1, 5]


def test_a_check_that_takes_long_does_not_keep_the_page_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    going = Event()
    monkeypatch.setattr(Execution, "check", lambda _: going.wait(TOO_LONG_S))
    write(tmp_path, records(a="send a:1"), info("a"))
    with Viewer([str(tmp_path)]) as viewer:
        viewer.loaded(0)
        began = time.monotonic()
    assert time.monotonic() - began < TOO_LONG_S / 2
    going.set()


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TOO_LONG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
