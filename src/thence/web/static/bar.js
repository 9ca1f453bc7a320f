// Parts of the bar and the legend that depend on the run.

import { address } from "./api.js";
import { by, el, fill } from "./dom.js";
import { KINDS, kindColour, palette } from "./palette.js";
import { sample } from "./surface.js";

const SAID = { send: "sent", receive: "arrived", deliver: "taken", stable: "told stable" };

export function filters(page) {
  const { nodes, kinds = {} } = page.active.summary;
  const box = (name, checked, toggle, id) => el("label", {}, el("input", { type: "checkbox", id, checked, onchange: toggle }), ` ${name}`);
  fill(by("nodes"), ...nodes.map((node) => box(node, !page.state.nodes.length || page.state.nodes.includes(node), () => filterNodes(page))));
  fill(by("kinds"), ...KINDS.filter((kind) => kinds[kind]).map((kind) => box(kind, !page.state.hide.includes(kind), (event) => {
    page.state.hide = page.state.hide.filter((each) => each !== kind).concat(event.target.checked ? [] : [kind]).sort();
    page.changed();
  })));
}

// All nodes, or no boxes checked, which shows all until the first one is.
export function checkNodes(page, checked) {
  for (const box of by("nodes").querySelectorAll("input")) box.checked = checked;
  return filterNodes(page);
}

function filterNodes(page) {
  const boxes = [...by("nodes").querySelectorAll("input")];
  const nodes = page.active.summary.nodes.filter((_, at) => boxes[at].checked);
  page.state.nodes = nodes.length && nodes.length < boxes.length ? nodes : [];
  for (const pane of page.panes) {
    const all = pane.summary.nodes;
    const lanes = all.map((_, lane) => lane).filter((lane) => !page.state.nodes.length || page.state.nodes.includes(all[lane]));
    pane.lanes = lanes.length ? lanes : all.map((_, lane) => lane);
  }
  return page.state.fold ? page.another() : page.changed();
}

// The links of the export menu: what is in view, and what the selected record divides.
export function offer(page) {
  const pane = page.active;
  if (!pane.summary?.events) return;
  const { from, span } = pane.view;
  by("jsonl-window").href = address("export", pane.params({ what: "window", from, to: from + span }));
  for (const what of ["past", "future", "concurrent"]) {
    const link = by(`jsonl-${what}`);
    link.hidden = !pane.selected;
    if (pane.selected) link.href = address("export", pane.params({ what, at: pane.place(pane.selected) }));
  }
}

// A menu closes with a click elsewhere, and moves back into the page where it would reach beyond.
export function menus() {
  const boxes = document.querySelectorAll("#bar details");
  document.addEventListener("click", (event) => {
    for (const box of boxes) if (!box.contains(event.target)) box.open = false;
  });
  for (const box of boxes) {
    box.addEventListener("toggle", () => {
      const menu = box.querySelector(".pop");
      menu.style.translate = "";
      const { left, right } = menu.getBoundingClientRect();
      menu.style.translate = `${Math.max(8 - left, Math.min(0, innerWidth - 8 - right))}px`;
    });
  }
}

export function legend() {
  const colours = palette();
  const kinds = ["send", "receive", "deliver", "stable", "phantom", "join", "leave", "evict", "snapshot", "restart"];
  const items = kinds.map((kind) => el("span", {}, sample(kind, kindColour(colours, kind), colours.back), SAID[kind] ?? kind));
  const swatch = (name, words) => el("span", {}, el("i", { class: `swatch ${name}` }), words);
  fill(by("legend"), ...items, swatch("hold", "waiting"), swatch("past", "before"), swatch("future", "after"),
    swatch("concurrent", "concurrent"), swatch("bad", "violation"));
}
