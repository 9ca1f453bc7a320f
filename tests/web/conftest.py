"""A real browser, one for all tests of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.trace.faults import info, records
from tests.web.traces import served, write
from thence.cli.simulate import run_to
from thence.sim.network import NetworkOptions, SlowLink
from thence.sim.run import SimulationOptions
from thence.sim.workload import WorkloadOptions
from thence.trace.record import Record

CHROMIUM = Path("/usr/bin/chromium")
READY_MS = 30_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address and waits until the page has drawn; what its scripts complain of fails."""
    complaints: list[str] = []
    contexts = []

    def visit(address: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 700}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(READY_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else 0)
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield visit
    for context in contexts:
        context.close()
    # A server that a test has stopped is nothing to complain of.
    assert not [words for words in complaints if "ERR_CONNECTION_REFUSED" not in words]


# Ten lines: b answers what a sent; c gets the answer before the question and holds it back.
STORY = {
    "a": "send a:1; deliver b:1",
    "b": "deliver a:1; send b:1 < a:1",
    "c": "receive b:1; receive a:1; ready a:1; ready b:1; deliver a:1; deliver b:1",
}
GROUP = info("a", "b", "c", complete=False)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page of ten lines in one file."""
    made = [with_payload(record) for record in records(**STORY)]
    folder = tmp_path_factory.mktemp("story")
    with served(write(folder, made, GROUP)) as (address, _):
        yield address


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four nodes with a slow link."""
    out = tmp_path_factory.mktemp("runs") / "one"
    options = SimulationOptions(
        seed=3,
        nodes=4,
        workload=WorkloadOptions(messages=10),
        network=NetworkOptions(slow_links=(SlowLink("a", "b", 20.0),)),
    )
    run_to(out, options, form="jsonl")
    return out


@pytest.fixture(scope="module")
def slow(simulated: Path) -> Iterator[str]:
    with served(simulated) as (address, _):
        yield address


def with_payload(record: Record) -> Record:
    if record.kind != "send":
        return record
    hostile = "<img src=x onerror=\"document.title='broken'\"> milk & bread"
    return msgspec.structs.replace(record, payload=hostile)
