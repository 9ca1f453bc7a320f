"""What is drawn can be seen: in narrow windows, at edges, and in files that others open."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.trace.faults import info, records
from tests.web.traces import renamed, renamed_run, served, until, write
from thence.trace.record import record_to_json

Visit = Callable[..., Any]
TWO = records(a="send a:1; deliver b:1; end", b="deliver a:1; send b:1 < a:1; end")
BOXES = """names => names.flatMap(name => [...document.querySelectorAll(name)].map(one => {
  const {top, bottom} = one.getBoundingClientRect();
  return [top, bottom];
}))"""


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("size", [(800, 600), (500, 700), (1200, 700)])
def test_everything_is_inside_the_window_and_nothing_covers_another(
    visit: Visit, tmp_path: Path, size: tuple[int, int], runs: int
):
    for name in ("one", "two"):
        write(tmp_path / name, renamed_run(TWO, name), info("a", "b", run=name, stability=False))
    width, height = size
    with served(tmp_path) as (address, _):
        page = visit(
            address + ("#with=1" if runs == 2 else ""),
            viewport={"width": width, "height": height},
        )
        assert page.locator("canvas").count() == runs
        side = ["#side"] if width <= 800 else []
        order = ["#bar", "canvas", *side, "#legend"]
        boxes = page.evaluate(BOXES, order)
        assert boxes[0][0] >= 0
        assert boxes[-1][1] <= height
        for (_, bottom), (top, _) in pairwise(boxes):
            assert bottom <= top + 0.5
        for top, bottom in boxes[1:-1]:
            assert bottom - top >= 60


def test_a_low_window_scrolls(visit: Visit, tmp_path: Path):
    for name in ("one", "two"):
        write(tmp_path / name, renamed_run(TWO, name), info("a", "b", run=name, stability=False))
    with served(tmp_path) as (address, _):
        page = visit(f"{address}#with=1", viewport={"width": 600, "height": 350})
        boxes = page.evaluate(BOXES, ["#bar", "canvas", "#side", "#legend"])
        for (_, bottom), (top, _) in pairwise(boxes):
            assert bottom <= top + 0.5
        for top, bottom in boxes[1:3]:
            assert bottom - top >= 200
        page.locator("#legend").scroll_into_view_if_needed()
        assert page.evaluate(BOXES, ["#legend"])[0][1] <= 350.5


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG has it."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_what_is_drawn_has_contrast(visit: Visit, story: str):
    page = visit(story + "#at=a@0")
    colours = """theme => import("./static/palette.js").then(({setTheme, palette}) => {
      setTheme(theme);
      return palette();
    })"""
    for theme in ("light", "dark"):
        found = page.evaluate(colours, theme)
        for name in ("hold", "arrow", "concurrent", "past", "future", "send", "deliver", "bad"):
            assert contrast(found[name], found["back"]) >= 3, (theme, name)


def test_a_cut_with_nothing_inside_can_be_taken_hold_of(visit: Visit, tmp_path: Path):
    with served(write(tmp_path, TWO, info("a", "b", stability=False))) as (address, _):
        page = visit(f"{address}#cut=a@-1&cut=b@-1&tab=state")
        page.wait_for_selector("#cutstate")
        points = page.evaluate(
            """async () => {
              const {cutPoint} = await import('./static/draw.js');
              const pane = thence.active, g = pane.geometry;
              return pane.cut.cut.map(place => cutPoint(g, place, pane.scene())[0] - g.left);
            }"""
        )
        assert all(x > 5 for x in points)


def test_one_node_of_many_is_chosen_with_two_clicks(visit: Visit, tmp_path: Path):
    names = [f"n{number}" for number in range(12)]
    made = records(**{name: f"send {name}:1" for name in names})
    with served(write(tmp_path, made, info(*names, complete=False))) as (address, _):
        page = visit(address)
        page.click("#filters summary")
        page.click("#nonodes")
        assert page.evaluate("thence.active.lanes.length") == 12
        page.locator("#nodes label", has_text="n7").click()
        until(page, "thence.active.lanes.length === 1 && thence.active.window.marks.x.length === 1")
        page.click("#allnodes")
        until(page, "thence.active.window.marks.x.length === 12")


def test_a_picture_is_a_document_whatever_the_names_are(visit: Visit, tmp_path: Path):
    made = [renamed(record, "<b>&\x00\x0b\ufffe") for record in TWO]
    members = sorted({record.node for record in made})
    about = info(*members, stability=False)
    lines = b"".join(record_to_json(record) + b"\n" for record in made)
    (write(tmp_path, [], about) / "all-000000.jsonl").write_bytes(lines)
    with served(tmp_path) as (address, _):
        page = visit(address)
        until(page, "thence.active.window")
        root = ElementTree.fromstring(page.evaluate("thence.active.svg()").encode())
        texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
        assert any("<b>&\ufffd\ufffd\ufffda" in (text or "") for text in texts)
