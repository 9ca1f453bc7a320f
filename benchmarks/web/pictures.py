"""The pictures of the page in the documentation: ``python -m benchmarks.web.pictures``.

They are written to docs/images, from simulated runs that are the same every time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import sync_playwright

from benchmarks.web.__main__ import CHROMIUM, page_of
from thence.cli.simulate import run_to
from thence.crdt import batch
from thence.crdt.registry import CRDTS
from thence.sim.network import NetworkOptions, SlowLink
from thence.sim.run import SimulationOptions
from thence.sim.workload import WorkloadOptions
from thence.trace.payload import payload_of
from thence.trace.reader import read_records
from thence.trace.record import Record, record_to_json

IMAGES = Path("docs/images")
SIZE = {"width": 1200, "height": 640}
GOODS = ("milk", "bread", "tea", "rice", "salt")
SLOW = NetworkOptions(slow_links=(SlowLink("a", "b", 20.0),))


def simulated(folder: Path, nodes: int = 4, messages: int = 12) -> Path:
    """The run of docs/howto/view.md, or a longer one."""
    workload = WorkloadOptions(messages=messages)
    options = SimulationOptions(seed=3, nodes=nodes, workload=workload, network=SLOW)
    run_to(folder, options, form="jsonl")
    return folder


def changed(run: Path, folder: Path, change: Callable[[list[Record]], list[Record]]) -> Path:
    """The same run with other records."""
    folder.mkdir()
    (folder / "run.json").write_bytes((run / "run.json").read_bytes())
    lines = [record_to_json(record) + b"\n" for record in change(list(read_records([run])))]
    (folder / "all-000000.jsonl").write_bytes(b"".join(lines))
    return folder


def with_payloads(made: list[Record]) -> list[Record]:
    """Every message adds something to a cart and counts a visit."""
    cart, visits = CRDTS["set_aw"](), CRDTS["counter_pn"]()

    def payload(number: int) -> Any:
        add = cart.prepare("add", GOODS[number % len(GOODS)].encode())
        items = [b"cart", cart.CODE, add, b"visits", visits.CODE, visits.prepare("inc", 1)]
        (data,) = batch.encode(0, items, 1 << 20)
        return payload_of(data)

    return [
        msgspec.structs.replace(r, payload=payload(n)) if r.kind == "send" else r
        for n, r in enumerate(made)
    ]


def too_early(made: list[Record]) -> list[Record]:
    """c takes d:5 where it took d:4, and d:4 where it took d:5."""
    places = {str(r.dot): r.dot for r in made if r.node == "c" and r.kind == "deliver"}
    other = {"d:4": places["d:5"], "d:5": places["d:4"]}
    return [
        msgspec.structs.replace(r, dot=other[str(r.dot)])
        if r.node == "c" and r.kind in ("deliver", "ready", "receive") and str(r.dot) in other
        else r
        for r in made
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as work, sync_playwright() as started:
        run = simulated(Path(work) / "run")
        full = changed(run, Path(work) / "full", with_payloads)
        broken = changed(run, Path(work) / "broken", too_early)
        long = simulated(Path(work) / "long", nodes=8, messages=430)
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )

        def picture(name: str, path: Path, link: str, *steps: str, scheme: str = "light") -> None:
            with page_of(path) as address:
                page = browser.new_page(viewport=SIZE, color_scheme=scheme)
                page.goto(address + link)
                page.wait_for_selector("html[data-ready]")
                for step in steps:
                    page.evaluate(step)
                page.wait_for_timeout(3000)  # the check, and the panel
                page.screenshot(path=str(IMAGES / f"view-{name}.png"))
                page.close()

        picture("run", run, "#tab=waiting")
        picture(
            "past-future", run, "#from=0&span=60&at=c@21",
            "thence.compare(thence.active, {node: 'd', pos: 34})", scheme="dark",
        )  # fmt: skip
        picture(
            "violation", broken, "#tab=violations", "thence.jump(thence.active, 0)",
            "document.querySelector('.violation summary').click()",
        )  # fmt: skip
        picture("cut", full, "#from=0&span=60", "thence.toggleCut()")
        picture("graph", run, "#axis=graph")
        picture("long", long, "", "thence.active.fit()")
        browser.close()


if __name__ == "__main__":
    main()
