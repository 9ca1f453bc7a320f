"""Run folders for the page, and a server in a thread of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from tests.trace.dynamic_examples_views import VIEWS
from tests.trace.dynamic_text import records_in, spelt
from tests.trace.faults import records
from tests.trace.test_check import CASES
from thence.causal.dot import Dot
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.web.app import make_app
from thence.web.runs import Viewer
from thence.web.server import HOST, listen


def write(folder: Path, made: Sequence[Record], about: RunInfo) -> Path:
    """A run folder of these records, a file a node."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_bytes(info_to_json(about))
    for node in sorted({record.node for record in made}):
        lines = [record_to_json(record) for record in made if record.node == node]
        (folder / f"{node.replace('#', '_')}-000000.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return folder


def renamed(record: Record, prefix: str) -> Record:
    """The same record of a group of which all names begin with a prefix."""

    def dots(given: tuple[Dot, ...] | None) -> tuple[Dot, ...] | None:
        return None if given is None else tuple(Dot(prefix + d.node, d.seq) for d in given)

    return msgspec.structs.replace(
        record,
        node=prefix + record.node,
        dot=None if record.dot is None else Dot(prefix + record.dot.node, record.dot.seq),
        context=dots(record.context),
        stable=dots(record.stable),
        to=None if record.to is None else tuple(prefix + name for name in record.to),
        peer=None if record.peer is None else prefix + record.peer,
    )


TOTAL = ("total", "causal-total")
READY_S = 30.0


def one_of_each_rule(total: bool) -> tuple[list[Record], RunInfo]:
    """One run with the smallest logs that break each rule: those of total orders, or the others."""
    made: list[Record] = []
    members: list[str] = []
    covered: set[str] = set()
    examples = [(about, records(**logs), {v[2] for v in broken})
                for about, logs, broken in CASES.values()]  # fmt: skip
    examples += [(about, records_in(logs), {spelt(v)[2] for v in broken})
                 for about, logs, broken in VIEWS.values()]  # fmt: skip
    for number, (about, found, rules) in enumerate(examples):
        if (about.guarantee in TOTAL) == total and rules - covered:
            covered |= rules
            prefix = f"{number:02}."
            made += [renamed(record, prefix) for record in found]
            logs = {record.node for record in found}
            members += [prefix + name for name in about.members if name in logs]
    guarantee = "causal-total" if total else "causal"
    return made, RunInfo(
        run="total" if total else "causal", members=tuple(members), complete=True,
        guarantee=guarantee,
    )  # fmt: skip


def renamed_run(made: Sequence[Record], run: str) -> list[Record]:
    """The same records of a run of another name."""
    return [msgspec.structs.replace(record, run=run) for record in made]


@contextmanager
def served(*paths: Path, live: bool = False, port: int = 0) -> Iterator[tuple[str, Viewer]]:
    """The address of a page of these runs, and its viewer."""
    listener = listen(port)
    with Viewer([str(path) for path in paths], live=live) as viewer:
        if live:
            viewer.follow()
        config = uvicorn.Config(make_app(viewer), log_level="error", lifespan="off",
                                timeout_graceful_shutdown=1)  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://{HOST}:{listener.getsockname()[1]}/", viewer
        finally:
            viewer.closing.set()
            server.should_exit = True
            thread.join()
            listener.close()


def until(page: Any, expression: str, given: Any = None) -> None:
    """Wait until an expression of the page is true.  The page's own rules forbid playwright's way,
    which needs eval."""
    end = time.monotonic() + READY_S
    while not page.evaluate(expression, given):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(20)


def click(page: Any, node: str, pos: int, shift: bool = False) -> None:
    """Click the mark of a record."""
    point = page.evaluate("([node, pos]) => thence.active.pointOf(node, pos)", [node, pos])
    assert point, f"{node} {pos} is not in view"
    if shift:
        page.keyboard.down("Shift")
    page.mouse.click(point["x"], point["y"])
    if shift:
        page.keyboard.up("Shift")


def said(page: Any, text: str) -> None:
    """Wait until the page says something to who cannot see it."""
    until(page, "text => document.getElementById('live').textContent.includes(text)", text)
