// What keys do. Fields of forms keep theirs.

import { by } from "./dom.js";

const STEP = 0.12;

export function keys(page) {
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const typing = target.closest("input:not([type=checkbox]), select, textarea, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const pressable = target.closest("button, summary, a, input");
    if (pressable && (event.key === " " || event.key === "Enter")) return;
    const inPanel = target.closest("#side") && event.key.startsWith("Arrow");
    if (inPanel) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    Promise.resolve(action(page, event)).catch((error) => page.fail(error));
  });
}

function arrow(along, across) {
  return (page, event) => {
    const pane = page.active;
    if (!pane.summary?.events) return null;
    const down = page.state.dir === "v";
    const [by_, lanes] = down ? [across, along] : [along, across];
    if (pane.selected && !event.shiftKey) return page.stepTo(lanes ? { lanes } : { by: by_ });
    if (by_) return pane.pan(by_ * STEP);
    return pane.shift(lanes * 40);
  };
}

function first(page) {
  const pane = page.active;
  if (pane.selected || document.activeElement !== pane.canvas || !pane.window) return null;
  if (pane.window.density) return page.notice("So much is in view that single records are not drawn: zoom in first (+).", "hint");
  const found = pane.window.marks;
  const at = found.x.findIndex((x) => x >= pane.view.from);
  return at < 0 ? null : page.select(pane, pane.mark(at), true);
}

function violation(step) {
  return (page) => {
    const pane = page.active;
    const now = pane.violation ?? (step > 0 ? -1 : 0);
    return page.jump(pane, now + step);
  };
}

const actions = {
  ArrowRight: arrow(1, 0), ArrowLeft: arrow(-1, 0), ArrowDown: arrow(0, 1), ArrowUp: arrow(0, -1),
  "+": (page) => page.active.zoom(0.6), "=": (page) => page.active.zoom(0.6),
  "-": (page) => page.active.zoom(1 / 0.6), 0: (page) => page.active.fit(),
  Home: (page) => page.active.look(page.active.extent[0]),
  End: (page) => page.active.look(page.active.extent[1]),
  PageDown: (page) => page.active.pan(0.8), PageUp: (page) => page.active.pan(-0.8),
  Enter: first, m: (page) => page.mark(page.active), n: violation(1), p: violation(-1),
  "/": (page) => { page.panel.focusSearch = true; return page.panel.open("search"); },
  "?": () => by("helpbox").showModal(),
  " ": (page) => page.player.toggle(), ".": (page) => page.player.step(1), ",": (page) => page.player.step(-1),
  c: (page) => page.toggleCut(), f: (page) => page.set("fold", !page.state.fold),
  d: (page) => page.turn(), t: () => by("theme").click(),
  g: (page) => page.set("axis", page.state.axis === "graph" ? "order" : "graph"),
  Escape: (page) => {
    page.player.leave();
    page.active.cut = page.active.marked = null;
    return page.select(page.active, null);
  },
};
