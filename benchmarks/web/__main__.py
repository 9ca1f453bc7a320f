"""How fluid the space-time page is: a simulated run of 100,000 records, in headless Chromium.

    python -m benchmarks.web [--nodes 8] [--messages 430] [--seconds 5]

The page is served by a process of its own, as users have it.  First paint: from the request for the
page to the first picture with records.  Frame time: from one animation frame to the next while the
page scrolls without a pause, in a window of single marks, in one with a record selected, and in
one so wide that it shows densities.  Exit code 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.mesh.__main__ import Bars
from thence.cli.simulate import run_to
from thence.sim.network import NetworkOptions, SlowLink
from thence.sim.run import SimulationOptions
from thence.sim.workload import WorkloadOptions

CHROMIUM = "/usr/bin/chromium"
FIRST_PAINT_MS_MAX = 2000.0
FRAME_MS_MAX = 50.0
VISITS = 5
SIZE = {"width": 1280, "height": 760}

# Scrolls by a part of a span each frame and gives the times between frames, and those of drawing.
SCROLL = """async ([seconds, part]) => {
  const pane = thence.active;
  const [low, high] = pane.extent;
  pane.look(low);
  pane.frames.length = 0;
  const times = [];
  let last = null, direction = 1;
  const end = performance.now() + seconds * 1000;
  await new Promise((done) => {
    const frame = (now) => {
      if (last !== null) times.push(now - last);
      last = now;
      if (performance.now() > end) return done();
      const before = pane.view.from;
      pane.look(before + direction * part * pane.view.span);
      if (pane.view.from === before) direction = -direction;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const marks = pane.window.marks ? pane.window.marks.x.length : 0;
  return {times, paints: pane.frames.map((frame) => frame.ms), marks, count: pane.window.count};
}"""


@contextmanager
def page_of(folder: Path) -> Iterator[str]:
    """The address of ``thence view`` in a process of its own."""
    words = [sys.executable, "-m", "thence", "view", str(folder), "--no-open"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()


def first_paint(browser: Any, address: str) -> float:
    """Milliseconds from the request to the first picture with records."""
    page = browser.new_page(viewport=SIZE)
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    found = float(page.evaluate("thence.panes[0].firstPaint"))
    page.close()
    return found


def p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1]


def scroll(page: Any, what: str, seconds: float, part: float, bars: Bars) -> None:
    """Scroll, print, and hold against the bar."""
    found = page.evaluate(SCROLL, [seconds, part])
    times, paints = found["times"], found["paints"]
    print(
        f"  {what:<26} {len(times):>5} frames, p50 {quantiles(times, n=2)[0]:5.1f} ms, "
        f"p95 {p95(times):5.1f} ms, worst {max(times):6.1f} ms; drawing p95 {p95(paints):4.1f} ms; "
        f"{found['marks']:,} of {found['count']:,} records as marks"
    )
    bars.at_most(f"frame time p95, {what}, ms", p95(times), FRAME_MS_MAX)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--messages", type=int, default=430, help="of each node")
    parser.add_argument("--seconds", type=float, default=5.0, help="of scrolling, each time")
    options = parser.parse_args()
    bars = Bars()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        run = Path(folder) / "run"
        run_to(
            run,
            SimulationOptions(
                seed=5,
                nodes=options.nodes,
                workload=WorkloadOptions(messages=options.messages),
                network=NetworkOptions(slow_links=(SlowLink("a", "b", 8.0),)),
            ),
        )
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        with page_of(run) as address:
            print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            paints = sorted(first_paint(browser, address) for _ in range(VISITS))
            page = browser.new_page(viewport=SIZE)
            page.goto(address)
            page.wait_for_selector("html[data-ready]")
            events = page.evaluate("thence.active.summary.events")
            print(f"{events:,} records of {options.nodes} nodes")
            print(f"  first paint: {', '.join(f'{ms:.0f}' for ms in paints)} ms")
            bars.at_most("first paint, worst, ms", paints[-1], FIRST_PAINT_MS_MAX)
            scroll(page, "marks", options.seconds, 0.02, bars)
            page.evaluate("thence.select(thence.active, {node: 'a', pos: 500})")
            page.wait_for_timeout(500)
            scroll(page, "marks, one selected", options.seconds, 0.02, bars)
            page.evaluate("thence.select(thence.active, null)")
            page.evaluate("thence.active.zoom(12)")
            page.wait_for_timeout(500)
            scroll(page, "density", options.seconds, 0.02, bars)
        browser.close()
    if bars.broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
