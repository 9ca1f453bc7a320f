"""The page in a real browser: what is clicked, typed and dragged does what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from tests.trace.faults import info, records
from tests.web.brute import pasts
from tests.web.traces import click, one_of_each_rule, renamed_run, said, served, until, write
from thence.cli.simulate import run_to
from thence.sim.run import SimulationOptions
from thence.sim.workload import WorkloadOptions
from thence.trace.reader import read_records
from thence.trace.record import RunInfo

Visit = Callable[..., Any]
SVG = "{http://www.w3.org/2000/svg}"
# What is asked of the surface of the picture, by name.
PICTURE = """() => import("./static/draw.js").then(({draw}) => {
  const pane = thence.active, g = pane.geometry, asked = {};
  const surface = new Proxy({width: g.width, height: g.height}, {
    get: (known, name) => known[name] ?? ((...given) => {
      (asked[name] ??= []).push(given);
      if (name === "clip") given[4]();
      return name === "measure" ? given[0].length * (given[1] ? 8 : 7) : undefined;
    }),
  });
  draw(surface, g, pane.scene());
  return {...asked, clip: null, edge: g.width, top: g.top};
})"""


def listed(page: Any) -> dict[tuple[str, int], str]:
    """The records that are listed as in view, and what they are to the selected one."""
    page.click("#tab-list")
    page.wait_for_selector("#records")
    found = page.eval_on_selector_all("#records li", "all => all.map(one => ({...one.dataset}))")
    return {(one["node"], int(one["pos"])): one["relation"] for one in found}


def test_it_shows_every_record_of_ten_lines_and_no_complaint(visit: Visit, story: str):
    page = visit(story)
    shown = listed(page)
    hidden = {("c", 2), ("c", 3)}  # the two `ready`, which are not shown unless asked for
    assert len(shown) == 8
    assert not hidden & set(shown)
    label = page.get_attribute("canvas", "aria-label")
    assert "10 records of 3 nodes" in label


def test_a_click_tells_past_future_and_concurrent_apart(visit: Visit, slow: str, simulated: Path):
    made = list(read_records([simulated]))
    before = pasts(made)
    page = visit(slow + "#hide=")
    page.evaluate("thence.active.fit()")
    until(page, "thence.active.window.marks && !thence.active.loading")
    for here in [("a", 8), ("c", 20), ("b", 3)]:
        click(page, *here)
        said(page, f"at {here[0]}, position {here[1]}:")
        until(page, "thence.active.window.marks.relation")
        for there, relation in all_relations(page).items():
            expected = "concurrent"
            if there in before[here]:
                expected = "past"
            elif here in before[there]:
                expected = "future"
            elif here == there:
                expected = "self"
            assert relation == expected, (here, there)
        counted = page.inner_text("#relations")
        assert counted.startswith(f"{len(before[here])} record")


def all_relations(page: Any) -> dict[tuple[str, int], str]:
    """What the drawn marks are to the selected record."""
    found = page.evaluate(
        """() => {
          const pane = thence.active, m = pane.window.marks;
          const names = ["none", "past", "self", "future", "concurrent"];
          return m.x.map((_, i) => [pane.summary.nodes[m.lane[i]], m.pos[i], names[m.relation[i]]]);
        }"""
    )
    return {(node, pos): relation for node, pos, relation in found}


def test_two_records_are_compared_and_the_path_is_shown(visit: Visit, story: str):
    page = visit(story)
    click(page, "a", 0)
    said(page, "send a:1 at a")
    click(page, "c", 5, shift=True)
    said(page, "send a:1 at a came before deliver b:1 at c")
    page.locator("#comparison ol li").first.wait_for()
    links = page.locator("#comparison ol li").all_inner_texts()
    assert len(links) >= 2
    assert links[0].startswith("send a:1 at a → ")
    assert "deliver b:1 at c" in links[-1]
    # A link has the path also when another tab is open.
    page.click("#tab-state")
    page.wait_for_timeout(200)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("thence.active.scene().path.length") == len(links)


def test_concurrent_records_are_said_to_be_concurrent(visit: Visit, slow: str):
    page = visit(slow)
    click(page, "a", 0)
    said(page, "send a:1 at a")
    click(page, "b", 0, shift=True)
    said(page, "are concurrent")
    assert page.locator("#comparison ol").count() == 0


def test_a_waiting_message_names_what_it_waits_for(visit: Visit, story: str):
    page = visit(story)
    click(page, "c", 0)
    page.wait_for_selector("text=It waits for")
    text = page.inner_text("#panel")
    assert "a:1" in text.split("It waits for")[1]
    assert "it has not arrived here" in text
    page.click("#tab-waiting")
    row = page.locator("#panel tbody tr").first.inner_text().split()
    assert row[:3] == ["b:1", "c", "a:1"]


def test_violations_of_every_rule_are_listed_and_jumped_to(visit: Visit, tmp_path: Path):
    rules: set[str] = set()
    shortened: set[str] = set()
    for total in (False, True):
        made, about = one_of_each_rule(total)
        write(tmp_path / about.run, renamed_run(made, about.run), about)
    with served(tmp_path) as (address, viewer):
        for number in range(2):
            page = visit(f"{address}#run={number}&tab=violations")
            page.wait_for_selector(".violation")
            found = page.eval_on_selector_all(".violation", "all => all.map(v => v.dataset.rule)")
            listing = page.evaluate("thence.violations(thence.active).items.map(v => v.rule)")
            assert set(found) == set(listing)
            rules |= set(page.evaluate("Object.keys(thence.violations(thence.active).rules)"))
            assert "More are counted" not in page.inner_text("#panel")
            more = page.locator("#panel button", has_text="show all")
            if more.count():
                rule = more.first.inner_text().rpartition(" ")[2]
                assert found.count(rule) == 20
                more.first.click()
                page.wait_for_selector(f"[data-rule={rule}] >> nth=20")
                shortened.add(rule)
            page.keyboard.press("n")
            said(page, "Violation 1 of")
            page.keyboard.press("n")
            said(page, "Violation 2 of")
            second = viewer.loaded(number).execution.violations()[1]["at"]
            assert page.evaluate("thence.active.selected.node") == second["node"]
            assert page.evaluate("thence.active.selected.pos") == second["pos"]
            page.locator(".violation summary").first.click()
            page.wait_for_selector(".violation pre")
            assert "the log of" in page.inner_text(".violation pre")
    from thence.trace.verdict import RULES

    assert rules == set(RULES)
    assert shortened


def test_a_clean_run_says_so(visit: Visit, slow: str):
    page = visit(slow + "#tab=violations")
    page.wait_for_selector("#clean")


def test_search_finds_dots_nodes_and_payloads_and_shows_them_as_text(visit: Visit, story: str):
    page = visit(story)
    for words, count in [("b:1", 5), ("c", 6), ("MILK", 2), ("deliver", 4), ("nothing", 0)]:
        page.keyboard.press("/")
        page.wait_for_selector("#query:focus")
        page.fill("#query", words)
        page.keyboard.press("Enter")
        said(page, f"{count} hit")
        assert page.locator("#hits li").count() == count
        page.keyboard.press("Tab")  # out of the field, where keys are letters
    page.fill("#query", "milk")
    page.keyboard.press("Enter")
    said(page, "2 hits")
    assert "<img src=x" in page.inner_text("#hits")
    page.locator("#hits li button").first.click()
    page.click("#tab-details")
    page.wait_for_selector("#panel pre")
    assert "<img src=x" in page.inner_text("#panel pre")
    assert page.locator("#panel img").count() == 0
    assert page.title() != "broken"


def test_filters_hide_lanes_and_kinds(visit: Visit, story: str):
    page = visit(story)
    page.click("#filters summary")
    page.locator("#nodes label", has_text="b").click()
    until(page, "thence.active.window.marks.lane.every(lane => lane !== 1)")
    assert page.evaluate("thence.active.geometry.lanes") == [0, 2]
    page.locator("#kinds label", has_text="receive").click()
    until(page, "thence.active.window.marks.kind.every(kind => kind !== 1)")
    assert {node for node, _ in listed(page)} == {"a", "c"}


def test_quiet_stretches_fold(visit: Visit, tmp_path: Path):
    made = records(a="send a:1; send a:2 < a:1; send a:3 < a:2; send a:4 < a:3")
    times = [0, 10, 1_000_000, 1_000_010]
    made = [
        msgspec.structs.replace(record, t_us=t_us) for record, t_us in zip(made, times, strict=True)
    ]
    with served(write(tmp_path, made, info("a", complete=False))) as (address, _):
        page = visit(address + "#axis=time")
        assert page.evaluate("thence.active.extent[1]") == 1_000_010
        page.focus("canvas")
        page.keyboard.press("f")
        until(page, "thence.active.extent[1] < 1000")
        assert page.evaluate("thence.active.window.folds.length") == 1


def test_stepping_and_playing_go_through_the_execution(visit: Visit, story: str):
    page = visit(story)
    page.keyboard.press(".")
    until(page, "thence.active.cursor === 1")
    page.keyboard.press(".")
    until(page, "thence.active.cursor === 2")
    page.keyboard.press(",")
    until(page, "thence.active.cursor === 1")
    page.select_option("#speed", "20")
    page.click("#play")
    last = page.evaluate("thence.active.extent[1]")
    until(page, "last => thence.active.cursor === last && !thence.player.playing", last)
    page.click("#unplay")
    until(page, "thence.active.cursor === null")


def test_a_link_restores_the_view(visit: Visit, slow: str):
    page = visit(slow)
    page.select_option("#axis", "time")
    page.click("#direction")
    until(page, "thence.active.axis === 'time' && !thence.active.loading")
    click(page, "a", 0)
    said(page, "at a, position 0")
    page.evaluate("thence.active.zoom(0.5)")
    page.wait_for_timeout(400)
    link = page.url
    view = "(({from, span}) => [from, span].map(Math.round))(thence.active.view)"
    expected = page.evaluate(view)
    other = visit(link)
    assert other.evaluate(view) == expected
    assert other.evaluate("[thence.state.axis, thence.state.dir]") == ["time", "v"]
    assert other.evaluate("thence.active.selected.pos") == 0
    assert other.evaluate("thence.active.selected.node") == "a"


@pytest.mark.parametrize(
    "link",
    ["from=1e30&span=5", "from=-1e9&span=1e300", "cut=nobody@1&tab=state", "cursor=x", "run=-3",
     "with=99", "at=nobody@1&other=a@0", "node=nobody"],
)  # fmt: skip
def test_a_link_of_another_run_shows_what_it_can(visit: Visit, story: str, link: str):
    page = visit(f"{story}#{link}")
    until(page, "thence.active.window?.marks.x.length > 0")
    low, high = page.evaluate("thence.active.extent")
    start, span = page.evaluate("[thence.active.view.from, thence.active.view.span]")
    assert start < high
    assert start + span > low
    page.keyboard.press(".")
    until(page, "thence.active.cursor > 0")


def test_a_cut_is_dragged_named_inconsistent_and_repaired(visit: Visit, story: str):
    page = visit(story)
    page.focus("canvas")
    page.keyboard.press("c")
    page.wait_for_selector("#cutstate")
    assert "consistent" in page.inner_text("#cutstate")
    # b back to the beginning, where a has taken its message.
    page.evaluate(
        """async () => {
          const pane = thence.active;
          pane.cut = {...pane.cut, cut: pane.cut.cut.map((c, i) => ({...c, pos: [1, 1, 5][i]}))};
          await thence.moveCut(pane, pane.cut.cut[0], 1);
        }"""
    )
    handle = page.evaluate(
        """async () => {
          const {cutPoint} = await import('./static/draw.js');
          const pane = thence.active, place = pane.cut.cut.find(c => c.node === 'b');
          const [x, y] = cutPoint(pane.geometry, place, pane.scene());
          const box = pane.canvas.getBoundingClientRect();
          return [box.x + x, box.y + y];
        }"""
    )
    page.mouse.move(*handle)
    page.mouse.down()
    start = page.evaluate(
        "thence.active.canvas.getBoundingClientRect().x + thence.active.geometry.left"
    )
    page.mouse.move(start + 4, handle[1], steps=4)
    page.mouse.up()
    said(page, "not consistent")
    page.wait_for_selector("#repair")
    assert "b:1" in page.inner_text("#cutstate")
    page.click("#repair")
    until(page, "thence.active.cut.consistent")
    cut = page.evaluate("Object.fromEntries(thence.active.cut.cut.map(c => [c.node, c.pos]))")
    assert cut["a"] == 0
    assert cut["b"] == -1


def test_a_cut_can_be_moved_by_its_positions(visit: Visit, story: str):
    page = visit(story + "#cut=a@1&cut=b@1&cut=c@5&tab=state")
    page.click("#positions summary")
    page.locator("#positions label", has_text="b").locator("input").fill("0")
    page.keyboard.press("Tab")
    page.wait_for_selector("#repair")
    assert "a knows b:1, which is outside" in page.inner_text("#cutstate")


def test_the_stable_line_ends_at_what_all_were_told(visit: Visit, slow: str, simulated: Path):
    page = visit(slow)
    page.check("#frontier")
    until(page, "thence.active.frontier")
    shown = page.evaluate("thence.active.frontier.places.map(p => p.dot)")
    told: dict[str, set[str]] = {name: set() for name in "abcd"}
    for record in read_records([simulated]):
        if record.kind == "stable":
            told[record.node].add(str(record.dot))
    everywhere = set.intersection(*told.values())
    for origin, dot in zip("abcd", shown, strict=True):
        seqs = [int(d.partition(":")[2]) for d in everywhere if d.startswith(f"{origin}:")]
        assert dot == (f"{origin}:{max(seqs)}" if seqs else "")


def test_the_causal_graph_has_a_mark_for_each_message(visit: Visit, story: str):
    page = visit(story)
    page.focus("canvas")
    page.keyboard.press("g")
    until(page, "thence.active.axis === 'graph' && thence.active.window.marks.x.length === 2")
    assert page.evaluate("thence.active.window.arrows.x1.length") == 1


def test_pictures_and_selections_are_exported(visit: Visit, slow: str, simulated: Path):
    page = visit(slow)
    page.click("#exports summary")
    with page.expect_download() as svg:
        page.click("#svg")
    picture = ElementTree.parse(svg.value.path()).getroot()
    assert picture.tag == f"{SVG}svg"
    texts = {text.text for text in picture.iter(f"{SVG}text")}
    assert {"a", "b", "c", "d", "a:1"} <= texts
    with page.expect_download() as png:
        page.click("#png")
    assert Path(png.value.path()).read_bytes().startswith(b"\x89PNG")
    click(page, "c", 5)
    said(page, "at c, position 5")
    page.click("#exports summary")
    with page.expect_download() as lines:
        page.click("#jsonl-past")
    found = [json.loads(line) for line in Path(lines.value.path()).read_text().splitlines()]
    before = pasts(list(read_records([simulated])))[("c", 5)] | {("c", 5)}
    assert {(one["node"], one["pos"]) for one in found} == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_scheme_of_the_system_and_can_be_turned(
    visit: Visit, story: str, scheme: str
):
    page = visit(story, color_scheme=scheme)
    back = "getComputedStyle(document.body).backgroundColor"
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    assert page.evaluate(back) == colours[scheme]
    page.keyboard.press("t")  # light
    assert page.evaluate(back) == colours["light"]
    page.keyboard.press("t")
    assert page.evaluate(back) == colours["dark"]
    pixel = "[...thence.active.canvas.getContext('2d').getImageData(5, 300, 1, 1).data.slice(0, 3)]"
    until(page, f"({pixel}).every(value => value < 60)")


def test_one_node_has_one_lane(visit: Visit, tmp_path: Path):
    made = records(a="send a:1; stable a:1; end")
    with served(write(tmp_path, made, info("a"))) as (address, _):
        page = visit(address + "#frontier=1&cut=a@0&tab=state")
        until(page, "thence.active.frontier && thence.active.cut")
        lines = page.evaluate(PICTURE)["polyline"]
        assert len(lines) == 2  # both cross the lane
        for (x1, y1, x2, y2), *_ in lines:
            assert x1 == x2
            assert y2 - y1 > 20
        # What the line is called is inside the picture, also at its edge.
        page.evaluate("thence.active.frontier.places[0].x = thence.active.view.from + 99")
        picture = page.evaluate(PICTURE)
        (where,) = (text[0] for text in picture["text"] if text[2] == "stable everywhere")
        assert where + 8 * len("stable everywhere") <= picture["edge"]
        assert len(listed(page)) == 3


def test_lanes_of_128_nodes_can_all_be_reached(visit: Visit, tmp_path: Path):
    names = [f"n{number:03}" for number in range(128)]
    sends = [f"send NAME:{seq} < NAME:{seq - 1}" for seq in range(2, 41)]
    logs = {name: "; ".join(["send NAME:1", *sends]).replace("NAME", name) for name in names}
    logs["n000"] += "; " + "; ".join(f"deliver {name}:1" for name in names[1:])
    about = RunInfo(run="r", members=tuple(names))
    with served(write(tmp_path, records(**logs), about)) as (address, _):
        page = visit(address)
        assert page.evaluate("thence.active.lanes.length") == 128
        # It opens so near that records are drawn one by one, and nothing at an edge is cut off.
        until(page, "thence.active.window.marks")
        page.evaluate("thence.active.window.marks.bad = [0]")
        picture = page.evaluate(PICTURE)
        (above,) = (text[1] for text in picture["text"] if text[2] == "!")
        assert above >= picture["top"] + 7
        # The more arrows, the paler.
        paleness = """() => {
          const found = thence.active.window.arrows;
          for (const name of ["x1", "x2", "lane1", "lane2", "kind"]) {
            found[name] = Array(600).fill(found[name][0]);
          }
        }"""
        page.evaluate(paleness)
        assert 0.5 in [line[3] for line in page.evaluate(PICTURE)["lines"] if len(line[0]) == 2400]
        assert page.evaluate("thence.active.pointOf('n127', 0).y") > 700
        page.keyboard.press("/")
        page.wait_for_selector("#query:focus")
        page.fill("#query", "n127:1")
        page.keyboard.press("Enter")
        page.locator("#hits li button").first.click()
        until(page, "thence.active.pointOf('n127', 0).y < 700")
        # A link has how far the lanes were moved; one that has not shows what is selected.
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+ArrowUp")
        page.wait_for_timeout(300)
        scroll = page.evaluate("thence.active.view.scroll")
        assert f"scroll={round(scroll)}" in page.url
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("thence.active.view.scroll") == round(scroll)
        page.evaluate("history.replaceState(null, '', location.hash.replace(/scroll=\\d+&/, ''))")
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("thence.active.pointOf('n127', 0).y") < 700


def test_two_runs_are_shown_side_by_side_and_move_together(
    visit: Visit, simulated: Path, tmp_path: Path
):
    other = tmp_path / "other"
    options = SimulationOptions(
        seed=3, engine="graph", nodes=4, workload=WorkloadOptions(messages=10)
    )
    run_to(other, options, form="jsonl")
    with served(simulated, other) as (address, viewer):
        page = visit(f"{address}#with={viewer.firsts[1]}")
        assert page.locator("canvas").count() == 2
        assert page.evaluate("thence.panes.map(pane => pane.summary.engine)") == ["tagged", "graph"]
        page.evaluate("thence.panes[0].look(40)")
        until(page, "thence.panes[1].view.from === thence.panes[0].view.from")
        page.evaluate("thence.select(thence.panes[1], {node: 'b', pos: 0})")
        said(page, "at b, position 0")
        assert "active=2" in page.url
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("thence.active.index") == 1
        until(page, "document.querySelector('#panel h2')?.innerText.endsWith('at b')")


def test_notes_on_what_could_not_be_read_are_shown(visit: Visit, tmp_path: Path):
    write(tmp_path, records(a="send a:1"), info("a", complete=False))
    (tmp_path / "a-000001.jsonl").write_text("not a record\n")
    with served(tmp_path) as (address, _):
        page = visit(address)
        assert "a-000001.jsonl:1" in page.inner_text("#notice")
