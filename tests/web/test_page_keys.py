"""The page without a mouse, and what stays in sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.web.traces import said, until

Visit = Callable[..., Any]


def test_two_records_are_compared_by_keys(visit: Visit, story: str):
    page = visit(story)
    page.focus("canvas")
    page.keyboard.press("Enter")
    said(page, "send a:1 at a")
    page.keyboard.press("m")
    said(page, "is marked")
    page.keyboard.press("ArrowDown")
    until(page, "thence.active.selected.node === 'b'")
    page.keyboard.press("m")
    said(page, "send a:1 at a came before deliver a:1 at b")
    page.locator("#comparison ol li").first.wait_for()
    assert page.locator("#comparison ol li").count() == 1


def test_what_waits_is_not_shown_before_it_arrived(visit: Visit, slow: str):
    page = visit(slow)
    waits = """() => {
      const pane = thence.active, seen = [];
      const surface = {measure: () => 9, ...Object.fromEntries(["fill", "clip", "lines", "boxes",
        "polyline", "triangles", "marks", "ring", "text"].map(name => [name, () => 0]))};
      surface.clip = (x, y, w, h, draw) => draw();
      surface.lines = (flat, colour, width) => {
        if (colour === pane.scene().colours.hold) seen.push(flat[2]);
      };
      return import('./static/draw.js').then(({draw}) => {
        draw(surface, pane.geometry, pane.scene());
        return [seen.length, Math.max(0, ...seen), pane.geometry.along(pane.cursor ?? 0)];
      });
    }"""
    assert page.evaluate(waits)[0] > 2
    page.evaluate("thence.active.cursor = 18.5")
    count, end, cursor = page.evaluate(waits)
    assert count == 2
    assert end <= cursor
    bar = """() => {
      const pane = thence.active, found = pane.window.holds, g = pane.geometry;
      const at = found.x1.findIndex(x1 => x1 > 18.5);
      return import('./static/draw.js').then(({holdBox}) => {
        const [x, y] = holdBox(g, found, pane.window.tracks, at);
        return pane.findHold(x + 1, y + 1);
      });
    }"""
    found = page.evaluate(bar)
    assert found is None


def test_arrows_go_along_a_log_and_across_lanes(visit: Visit, story: str):
    page = visit(story)
    page.focus("canvas")
    page.keyboard.press("Enter")
    said(page, "send a:1 at a")
    page.keyboard.press("ArrowRight")
    said(page, "deliver b:1 at a, position 1")
    page.keyboard.press("ArrowDown")
    until(page, "thence.active.selected.node === 'b'")
    page.keyboard.press("Escape")
    until(page, "thence.active.selected === null")


def test_keys_zoom_and_move_and_help_says_which(visit: Visit, slow: str):
    page = visit(slow)
    page.focus("canvas")
    wide = page.evaluate("thence.active.view.span")
    page.keyboard.press("+")
    assert page.evaluate("thence.active.view.span") < wide
    start = page.evaluate("thence.active.view.from")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("thence.active.view.from") > start
    page.keyboard.press("0")
    low, high = page.evaluate("thence.active.extent")
    assert page.evaluate("thence.active.view.from") <= low
    assert page.evaluate("thence.active.view.span") >= high - low
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")


def test_what_was_said_goes_with_the_next_thing_that_is_done(visit: Visit, story: str):
    page = visit(story)
    page.click("#link")
    page.wait_for_selector("#notice:visible")
    page.focus("canvas")
    page.keyboard.press("+")
    assert page.locator("#notice").is_hidden()
    page.evaluate("thence.fail(new Error('no answer'))")
    page.click("#in")
    assert page.locator("#notice").is_hidden()
    # Where records are not drawn one by one, the key for the first one says what to do.
    words = page.evaluate(
        """() => {
          const pane = thence.active, {window} = pane;
          pane.window = {...window, marks: null, density: {}};
          pane.canvas.focus();
          pane.canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
          pane.window = window;
          return document.querySelector("#notice").innerText;
        }"""
    )
    assert "zoom in first (+)" in words
    # And that of arrows which are left out names what helps.
    page.keyboard.press("Escape")
    left = """() => {
      thence.active.window.arrows.left_out = 1234;
      thence.leftOut(thence.active);
      return document.querySelector("#notice").innerText;
    }"""
    page.evaluate("thence.active.view.span = 2 * thence.active.least")
    assert "zoom in to see" in page.evaluate(left)
    page.evaluate("thence.active.view.span = thence.active.least")
    assert "hide nodes under filter" in page.evaluate(left)


@pytest.mark.parametrize("width", [400, 900, 1280])
def test_menus_are_inside_the_page(visit: Visit, story: str, width: int):
    page = visit(story, viewport={"width": width, "height": 700})
    inside = """menu => {
      const {left, right} = document.querySelector(menu).getBoundingClientRect();
      return left >= 0 && right <= innerWidth && right - left > 100;
    }"""
    for menu in ("filters", "exports"):
        page.click(f"#{menu} summary")
        until(page, inside, f"#{menu} .pop")
        page.click(f"#{menu} summary")
