// One run on the page: its window of data, its picture, and what the pointer does to it.

import { ask } from "./api.js";
import { cutPoint, draw, holdBox } from "./draw.js";
import { Geometry } from "./geometry.js";
import { KINDS, palette } from "./palette.js";
import { CanvasSurface, SvgSurface } from "./surface.js";

const MARGIN = 0.5;      // of a span, read ahead on both sides
const NEAR_EDGE = 0.15;  // of a span: time to read on
const MARKS = 3900;      // as many are drawn one by one, and some more
const REACH = 11;        // pixels within which a click finds a mark
const LABELS_FROM = 7;   // pixels for a unit

export class Pane {
  constructor(page, index) {
    this.page = page;
    this.index = index;
    this.view = { from: 0, span: 60, scroll: 0, dir: "h" };
    this.summary = null;
    this.window = null;
    this.selected = this.other = this.marked = this.compared = this.cut = this.frontier = null;
    this.cursor = null;
    this.asked = "";
    this.frames = [];
    this.#build();
  }

  #build() {
    this.root = document.createElement("section");
    this.root.className = "pane";
    this.caption = document.createElement("h2");
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "space-time diagram");
    this.message = document.createElement("p");
    this.message.className = "message";
    this.message.hidden = true;
    this.root.append(this.caption, this.canvas, this.message);
    new ResizeObserver(() => this.redraw()).observe(this.root);
    this.canvas.addEventListener("pointerdown", (event) => this.#press(event));
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("pointerleave", () => this.page.tip(null));
    this.canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.canvas.addEventListener("focus", () => this.page.activate(this));
  }

  // ---- the run ------------------------------------------------------------------------------------

  async open(run) {
    this.run = run;
    this.summary = await ask("run", { run });
    const nodes = this.summary.nodes;
    const chosen = this.page.state.nodes;
    this.lanes = nodes.map((_, lane) => lane).filter((lane) => !chosen.length || chosen.includes(nodes[lane]));
    if (!this.lanes.length) this.lanes = nodes.map((_, lane) => lane);
    this.nameRoom = 22 + 7 * Math.max(0, ...nodes.map((node) => node.length));
    this.caption.textContent = this.summary.title;
    this.message.hidden = this.summary.events > 0;
    this.message.textContent = this.summary.live
      ? "No records yet. They show here as nodes write them." : "This run has no records.";
    if (this.summary.events) {
      this.canvas.setAttribute("aria-label",
        `${this.summary.title}: ${this.summary.events} records of ${nodes.length} nodes`);
    }
  }

  params(more = {}) {
    const { state } = this.page;
    const nodes = this.summary?.nodes ?? [];
    const all = this.lanes.length === nodes.length;
    return { run: this.run, axis: this.axis, fold: state.fold, hide: state.hide,
      nodes: all ? [] : this.lanes.map((lane) => nodes[lane]), ...more };
  }

  get axis() {
    return this.summary?.axes?.includes(this.page.state.axis) ? this.page.state.axis : "order";
  }

  place({ node, pos }) { return `${node}@${pos}`; }

  // Whether a place is of a node of this run.
  has(place) { return this.summary.nodes.includes(place.slice(0, place.lastIndexOf("@"))); }

  // A place as a record; null if this run does not have it.
  async named(place) {
    if (!place || !this.has(place)) return null;
    try {
      return pick(await ask("event", this.params({ at: place })));
    } catch {
      return null;
    }
  }

  // Which of the two chosen records came first, and the path that proves it.
  async compare() {
    this.compared = null;
    if (!this.selected || !this.other) return;
    const { selected, other } = this;
    const found = await ask("compare", this.params({ at: this.place(selected), with: this.place(other) }));
    if (this.selected !== selected || this.other !== other) return;
    const [one, two] = [label(selected), label(other)];
    const said = { before: `${one} came before ${two}`, after: `${one} came after ${two}`,
      concurrent: `${one} and ${two} are concurrent: neither can have caused the other`, same: "The same record" }[found.answer];
    this.compared = { ...found, said };
  }

  // ---- data ---------------------------------------------------------------------------------------

  // Read what is shown and a margin around it, unless it is here.
  async load(force = false) {
    if (!this.summary?.events) return;
    const { from, span } = this.view;
    const key = JSON.stringify([this.params(), this.selected && this.place(this.selected), this.summary.version]);
    const here = this.window && !force && this.asked === key && this.window.span <= span * 4
      && this.window.span >= span * 1.2 && this.#covers(from, span);
    if (here) return;
    if (this.loading) {
      this.again = true;
      return this.loading;
    }
    this.loading = this.#fetch(key, from, span);
    try {
      await this.loading;
    } finally {
      this.loading = null;
    }
    if (this.again) {
      this.again = false;
      return this.load();
    }
  }

  #covers(from, span) {
    const { extent } = this.window;
    const low = this.window.from + NEAR_EDGE * span;
    const high = this.window.to - NEAR_EDGE * span;
    return (from >= low || this.window.from <= extent[0]) && (from + span <= high || this.window.to >= extent[1]);
  }

  async #fetch(key, from, span) {
    const low = from - MARGIN * span;
    const high = from + span + MARGIN * span;
    const bins = Math.round(this.canvas.clientWidth / 3);
    const at = this.selected ? this.place(this.selected) : "";
    const answer = await ask("window", this.params({ from: low, to: high, bins, at }));
    answer.span = high - low;
    this.window = answer;
    this.asked = key;
    this.redraw();
    this.page.loaded(this);
  }

  // ---- the picture --------------------------------------------------------------------------------

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame((now) => {
      this.pending = 0;
      const begin = performance.now();
      this.paint();
      this.frames.push({ at: now, ms: performance.now() - begin });
      if (this.frames.length > 2000) this.frames.shift();
    });
  }

  get geometry() {
    this.view.dir = this.page.state.dir;
    return new Geometry(this.canvas.clientWidth, this.canvas.clientHeight, this.view, this.lanes ?? [], this.crowd, this.nameRoom);
  }

  // Pixels along a lane from one record to the next, in the mean; on axes of steps, of a step.
  get crowd() {
    const length = this.page.state.dir === "v" ? this.canvas.clientHeight : this.canvas.clientWidth;
    if (this.axis !== "time") return length / this.view.span;
    if (!this.window) return 10;
    const low = Math.max(this.window.from, this.window.extent[0]);
    const high = Math.min(this.window.to, this.window.extent[1]);
    const inView = this.window.count * Math.min(1, this.view.span / Math.max(high - low, 1e-9));
    return (length * this.lanes.length) / Math.max(1, inView);
  }

  scene() {
    const axis = this.axis;
    return {
      colours: palette(), window: this.window, names: this.summary.nodes, origins: this.summary.origins,
      selected: this.selected, other: this.other ?? this.marked, related: Boolean(this.selected && this.window?.marks?.relation),
      path: this.compared?.path ?? null, cut: this.cut, cursor: this.cursor, axis,
      frontier: this.page.state.frontier ? this.frontier : null,
      labels: this.crowd >= LABELS_FROM,
      focusLane: this.selected?.lane,
      foldLabel: (x) => (axis === "time" ? `${duration(x)} quiet` : `${Math.round(x)} steps`),
    };
  }

  paint() {
    if (!this.summary?.events || !this.canvas.clientWidth) return;
    const geometry = this.geometry;
    const surface = new CanvasSurface(this.canvas, geometry.width, geometry.height);
    draw(surface, geometry, this.scene());
    if (this.window) this.firstPaint ??= performance.now();
  }

  svg() {
    const geometry = this.geometry;
    const measuring = new CanvasSurface(document.createElement("canvas"), 1, 1);
    const surface = new SvgSurface(geometry.width, geometry.height, (words, bold) => measuring.measure(words, bold));
    draw(surface, geometry, this.scene());
    return surface.document();
  }

  // ---- where it looks -----------------------------------------------------------------------------

  get extent() { return this.window?.extent ?? [0, 60]; }

  // The shortest span there is to look at.
  get least() { return this.axis === "time" ? 20 : 6; }

  look(from, span = this.view.span) {
    const [low, high] = this.extent;
    const room = Math.max(high - low, 1e-6);
    // Of steps at least one: a cut with nothing inside is half a step before the first.
    const pad = Math.max(room * 0.02, span * 0.04, this.axis === "time" ? 0 : 1);
    this.view.span = Math.min(Math.max(span, this.least), Math.max(room + 2 * pad, 12));
    const last = high + pad - this.view.span;
    this.view.from = Math.min(Math.max(from, low - pad), Math.max(last, low - pad));
    this.page.tip(null);
    this.page.moved(this);
    this.redraw();
    this.load().catch((error) => this.page.fail(error));
  }

  zoom(factor, u = this.view.from + this.view.span / 2) {
    const part = (u - this.view.from) / this.view.span;
    const span = this.view.span * factor;
    this.look(u - part * span, span);
  }

  pan(share) { this.look(this.view.from + share * this.view.span); }

  fit() {
    const [low, high] = this.extent;
    this.look(low - 1, (high - low) * 1.06 + 2);
  }

  // The beginning, near enough to tell records apart.
  home() {
    const [low, high] = this.extent;
    const length = Math.max(high - low, 1);
    const wide = this.page.state.dir === "v" ? this.canvas.clientHeight : this.canvas.clientWidth;
    const shown = this.axis === "time"
      ? length * Math.min(1, (wide / 9) * this.lanes.length / Math.max(1, this.window?.count || this.summary.events))
      : Math.min(length, wide / (this.axis === "graph" ? 40 : 15), this.#single);
    this.look(low - shown * 0.03, shown * 1.06 + (this.axis === "time" ? 0 : 1));
  }

  // The span from the beginning on in which records are still drawn one by one.
  get #single() {
    if (!this.window?.density) return Infinity;
    const { from, to, density: { bins, counts } } = this.window;
    let total = 0;
    let bin = 0;
    while (bin < bins && total <= MARKS) {
      for (const lane of counts) total += lane[bin];
      bin += 1;
    }
    const end = from + ((bin - 1) / bins) * (to - from);
    return Math.max(1, end - this.extent[0]) / (1 + MARGIN) / 1.1;
  }

  // Move the picture so that a coordinate, and a lane, are in sight.
  reveal(u, lane) {
    const { from, span } = this.view;
    if (lane !== undefined) this.showLane(lane);
    if (u < from + 0.08 * span || u > from + 0.92 * span) this.look(u - span / 2);
    else this.redraw();
  }

  showLane(lane) {
    const g = this.geometry;
    if (!g.over || !g.place.has(lane)) return;
    const l = (g.place.get(lane) + 0.5) * g.gap;
    const scroll = Math.min(this.view.scroll, g.over);
    const hidden = l < scroll + g.gap || l > scroll + g.breadth - g.gap;
    if (hidden) this.view.scroll = Math.min(g.over, Math.max(0, l - g.breadth / 2));
    this.redraw();
  }

  // Move across lanes.
  shift(pixels) {
    const { over } = this.geometry;
    this.view.scroll = Math.max(0, Math.min(over, Math.min(this.view.scroll, over) + pixels));
    this.redraw();
    this.page.settle();
  }

  // ---- the pointer --------------------------------------------------------------------------------

  find(x, y, reach = REACH) {
    const found = this.window?.marks;
    if (!found) return null;
    const g = this.geometry;
    let best = null;
    let least = reach * reach;
    for (let i = 0; i < found.x.length; i++) {
      if (!g.place.has(found.lane[i]) || (this.cursor !== null && found.x[i] > this.cursor)) continue;
      const [mx, my] = g.xy(found.x[i], found.lane[i]);
      const distance = (mx - x) ** 2 + (my - y) ** 2;
      const kind = KINDS[found.kind[i]];
      // Of marks on one spot the one that says most.
      const weight = distance - (kind === "send" || kind === "deliver" ? 1 : 0);
      if (weight < least) [best, least] = [i, weight];
    }
    return best === null ? null : this.mark(best);
  }

  mark(i) {
    const found = this.window.marks;
    const origin = found.origin[i];
    return { node: this.summary.nodes[found.lane[i]], lane: found.lane[i], pos: found.pos[i], x: found.x[i],
      kind: KINDS[found.kind[i]], dot: origin < 0 ? null : `${this.summary.origins[origin]}:${found.seq[i]}` };
  }

  findHold(x, y) {
    const found = this.window?.holds;
    if (!found || !this.window.tracks) return null;
    const g = this.geometry;
    for (let i = 0; i < found.x1.length; i++) {
      if (!g.place.has(found.lane[i]) || (this.cursor !== null && found.x1[i] > this.cursor)) continue;
      const [bx, by, w, h] = holdBox(g, found, this.window.tracks, i, this.cursor);
      if (x >= bx - 1 && x <= bx + w + 1 && y >= by - 1 && y <= by + h + 1) {
        return { node: this.summary.nodes[found.lane[i]], pos: found.pos[i], dot: found.dot[i], missing: found.missing[i] };
      }
    }
    return null;
  }

  // Where a record is in the page, for whoever wants to point at it.
  pointOf(node, pos) {
    const found = this.window?.marks;
    const lane = this.summary.nodes.indexOf(node);
    const i = found ? found.pos.findIndex((p, at) => p === pos && found.lane[at] === lane) : -1;
    if (i < 0) return null;
    const [x, y] = this.geometry.xy(found.x[i], lane);
    const box = this.canvas.getBoundingClientRect();
    return { x: box.x + x, y: box.y + y };
  }

  #press(event) {
    if (event.button !== 0) return;
    this.canvas.focus();
    this.page.activate(this);
    const start = { x: event.offsetX, y: event.offsetY, from: this.view.from, scroll: this.view.scroll };
    const handle = this.cut ? this.#handleAt(start.x, start.y) : null;
    let moved = false;
    const move = (to) => {
      const dx = to.offsetX - start.x;
      const dy = to.offsetY - start.y;
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      const g = this.geometry;
      if (handle) {
        this.page.dragCut(this, handle, g.at(to.offsetX, to.offsetY).u, false);
        return;
      }
      this.view.scroll = Math.max(0, Math.min(g.over, start.scroll - (g.down ? dx : dy)));
      this.look(start.from - (g.down ? dy : dx) / g.scale);
    };
    const up = (at) => {
      this.canvas.removeEventListener("pointermove", move);
      this.canvas.removeEventListener("pointerup", up);
      if (handle && moved) this.page.dragCut(this, handle, this.geometry.at(at.offsetX, at.offsetY).u, true);
      else if (!moved) this.#click(at);
    };
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", up);
  }

  #handleAt(x, y) {
    const g = this.geometry;
    const scene = this.scene();
    return this.cut.cut.find((place) => {
      if (!g.place.has(place.lane)) return false;
      const [hx, hy] = cutPoint(g, place, scene);
      return Math.abs(hx - x) <= 8 && Math.abs(hy - y) <= 8;
    }) ?? null;
  }

  #click(event) {
    const g = this.geometry;
    const { u, inside } = g.at(event.offsetX, event.offsetY);
    if (!inside) return;
    if (this.window?.density) {
      this.zoom(0.2, u);
      return;
    }
    const hold = this.findHold(event.offsetX, event.offsetY);
    const mark = this.find(event.offsetX, event.offsetY) ?? (hold && { node: hold.node, pos: hold.pos });
    if (mark && event.shiftKey && this.selected) this.page.compare(this, mark);
    else if (mark) this.page.select(this, mark);
    else if (!this.cut) this.page.select(this, null);
  }

  #hover(event) {
    if (event.buttons) return;
    const mark = this.find(event.offsetX, event.offsetY);
    const hold = mark ? null : this.findHold(event.offsetX, event.offsetY);
    this.canvas.style.cursor = mark || hold ? "pointer" : this.cut && this.#handleAt(event.offsetX, event.offsetY) ? "grab" : "default";
    let words = null;
    if (mark) words = `${mark.kind}${mark.dot ? ` ${mark.dot}` : ""} at ${mark.node}, position ${mark.pos}`;
    if (hold) words = `${hold.dot} waits at ${hold.node} for ${hold.missing || "its turn"}`;
    this.page.tip(words, event.clientX, event.clientY);
  }

  #wheel(event) {
    event.preventDefault();
    const g = this.geometry;
    const step = event.deltaMode === 1 ? 30 : 1;
    const main = (Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY) * step;
    if (event.ctrlKey || event.metaKey) {
      this.zoom(Math.exp(main * 0.0022), g.at(event.offsetX, event.offsetY).u);
    } else if (event.shiftKey) {
      this.shift(main);
    } else {
      this.look(this.view.from + main / g.scale);
    }
  }
}

export function label({ kind, dot, node, pos }) {
  return `${kind ? `${kind}${dot ? ` ${dot}` : ""} at ` : ""}${node}${kind ? "" : ` position ${pos}`}`;
}

// What is kept of a record that was chosen.
export function pick({ node, lane, pos, x, kind, dot }) {
  return { node, lane, pos, x, kind, dot };
}

export function duration(us) {
  if (us >= 1e6) return `${(us / 1e6).toFixed(us >= 1e7 ? 0 : 1)} s`;
  return us >= 1e3 ? `${(us / 1e3).toFixed(us >= 1e4 ? 0 : 1)} ms` : `${Math.round(us)} µs`;
}
