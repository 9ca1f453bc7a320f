// The page: what is shown, what was chosen, and a link that says both.

import { ask, news } from "./api.js";
import { checkNodes, filters, legend, menus, offer } from "./bar.js";
import { by, count, el, fill } from "./dom.js";
import { keys } from "./keys.js";
import { read, remember, restore } from "./link.js";
import { label, Pane, pick } from "./pane.js";
import { nextTheme, onScheme } from "./palette.js";
import { Panel, TABS } from "./panel.js";
import { Player } from "./play.js";
import { notice, passing, say, tip } from "./words.js";

class Page {
  constructor() {
    this.state = { run: 0, with: null, axis: "order", dir: "h", fold: false, frontier: false, hide: ["ready", "sample"],
      nodes: [], tab: "details", q: "" };
    this.panes = [];
    this.found = new Map();
    this.panel = new Panel(this);
    this.player = new Player(this);
  }

  remember() { remember(this); }

  // ---- runs ---------------------------------------------------------------------------------------

  async start() {
    this.wanted = read(this);
    await this.list();
    if (this.state.run >= this.runs.length) this.state.run = 0;
    this.controls();
    await this.show();
    news((told) => this.news(told), (there) => this.heard(there));
    document.documentElement.dataset.ready = "1";
  }

  // The runs there are to choose from.
  async list() {
    const { runs, start, listed } = await ask("runs");
    Object.assign(this, { runs, startId: start, listed });
    const options = () => runs.map(({ number, title }) => el("option", { value: number }, title));
    fill(by("run"), ...options());
    fill(by("with"), el("option", { value: "" }, "nothing"), ...options());
    by("run").closest("label").hidden = by("with").closest("label").hidden = runs.length < 2;
  }

  async show() {
    const numbers = [this.state.run];
    if (this.state.with !== null && this.state.with < this.runs.length) numbers.push(this.state.with);
    this.panes = numbers.map((_, index) => new Pane(this, index));
    fill(by("panes"), ...this.panes.map((pane) => pane.root));
    by("panes").classList.toggle("two", numbers.length > 1);
    this.active = this.panes[Number(this.wanted.get("active")) - 1] ?? this.panes[0];
    await Promise.all(this.panes.map((pane, index) => pane.open(numbers[index])));
    filters(this);
    this.reflect();
    for (const pane of this.panes) if (pane.summary.events) await restore(this, pane, this.wanted);
    this.wanted = new URLSearchParams();
    await this.readViolations(this.active);
    this.reflect();
    this.panel.show();
    this.stable();
  }

  async reopen() {
    this.wanted = new URLSearchParams();
    this.found.clear();
    await this.show();
    this.remember();
  }

  // Whether the server is there: while it is not, nothing is new.
  heard(there) {
    if (there && this.gone) this.notice("", "error");
    this.gone = !there;
    this.notice(there ? "" : "The server has stopped: this is how it was.", "stopped");
  }

  async news({ start, listed, runs }) {
    // Another process answers here, perhaps with other runs.
    if (start !== this.startId) return location.reload();
    if (listed !== this.listed) {
      await this.list();
      this.reflect();
    }
    for (const { run, version, checked } of runs) {
      for (const pane of this.panes.filter((each) => each.run === run && each.summary)) {
        if (version !== pane.summary.version) await this.grown(pane);
        if (checked && !this.found.get(run)?.checked) {
          await this.readViolations(pane, true);
          await pane.load(true);
          this.reflect();
          if (["violations", "details"].includes(this.state.tab)) this.panel.show(true);
        }
      }
    }
  }

  // There is more of a run: show its end if its end was shown.
  async grown(pane) {
    const before = pane.summary.events;
    const { from, span } = pane.view;
    const atEnd = !before || from + span >= pane.extent[1];
    await pane.open(pane.run);
    if (!pane.summary.events) return;
    this.found.delete(pane.run);
    await pane.load(true);
    await this.#placed(pane);
    if (!before) pane.home();
    else if (atEnd && !this.player.playing) pane.look(pane.extent[1] - span * 0.96);
    await this.readViolations(pane, true);
    filters(this);
    this.reflect();
    this.stable();
    if (this.state.tab !== "search") this.panel.show(true);
    this.say(`${count(pane.summary.events - before, "new record")}`);
  }

  // ---- what was chosen ----------------------------------------------------------------------------

  activate(pane) {
    if (this.active === pane) return;
    this.active = pane;
    this.remember();
    this.reflect();
    this.panel.show();
  }

  async select(pane, at, reveal = false) {
    this.activate(pane);
    pane.other = pane.compared = null;
    if (!at) {
      pane.selected = null;
      await pane.load();
      this.chosen(pane);
      return;
    }
    try {
      const event = await ask("event", pane.params({ at: pane.place(at) }));
      pane.selected = pick(event);
      if (event.x === null) this.say(`${label(event)} is not on this axis`);
      else if (reveal) pane.reveal(event.x, event.lane);
      if (pane.cursor !== null && event.x > pane.cursor) pane.cursor = event.x;
      pane.redraw();
      await pane.load();
      if (!pane.selected || pane.place(pane.selected) !== pane.place(event)) return;  // another one meanwhile
      const { past, future, concurrent } = event.counts;
      this.say(`${label(event)}, position ${event.pos}: ${past} before, ${future} after, ${concurrent} concurrent`);
    } catch (error) {
      this.fail(error);
    }
    if (this.state.tab !== "state" && this.state.tab !== "list" && this.state.tab !== "search" && this.state.tab !== "violations") this.state.tab = "details";
    this.chosen(pane);
  }

  chosen(pane) {
    pane.redraw();
    this.remember();
    this.reflect();
    this.panel.show();
    this.stable();
  }

  async compare(pane, at) {
    try {
      pane.other = pick(await ask("event", pane.params({ at: pane.place(at) })));
      await pane.compare();
      if (pane.compared) this.say(pane.compared.said);
    } catch (error) {
      this.fail(error);
    }
    this.state.tab = "details";
    this.chosen(pane);
  }

  // What shift and a click do, for who has no mouse: the first call marks, the second compares.
  async mark(pane) {
    const { marked, selected } = pane;
    if (!selected) return this.say("select a record first");
    pane.marked = marked ? null : selected;
    pane.redraw();
    if (!marked) return this.say(`${label(selected)} is marked: select another one and press m to compare`);
    await this.select(pane, marked);
    return this.compare(pane, selected);
  }

  async find(pane, dot) {
    const { hits } = await ask("search", { run: pane.run, q: dot });
    const sent = hits.find(({ kind }) => kind === "send") ?? hits[0];
    if (sent) await this.select(pane, sent, true);
    else this.say(`${dot} is in no log`);
  }

  async stepTo(params) {
    const pane = this.active;
    const next = await ask("next", pane.params({ at: pane.place(pane.selected), ...params }));
    if (next) await this.select(pane, next, true);
    else this.say("nothing further there");
  }

  // ---- violations ---------------------------------------------------------------------------------

  violations(pane) { return this.found.get(pane.run) ?? { items: [], count: 0 }; }

  async readViolations(pane, again = false) {
    if (!pane.summary.events) return { items: [], count: 0, checked: true, rules: {} };
    if (again || !this.found.get(pane.run)?.checked) this.found.set(pane.run, await ask("violations", { run: pane.run }));
    return this.found.get(pane.run);
  }

  async jump(pane, number) {
    const { items } = await this.readViolations(pane);
    if (!items.length) {
      this.say("no violations");
      return;
    }
    pane.violation = (number + items.length) % items.length;
    const found = items[pane.violation];
    await this.select(pane, found.at, true);
    this.say(`Violation ${pane.violation + 1} of ${items.length}: ${found.rule}. ${found.why}`);
  }

  // ---- cuts, stability ----------------------------------------------------------------------------

  async toggleCut() {
    const pane = this.active;
    if (pane.cut) pane.cut = null;
    else {
      const u = pane.cursor ?? pane.view.from + pane.view.span / 2;
      const cut = await ask("cut", pane.params({ u }));
      pane.cut = { ...cut, cut: cut.within, consistent: true, lacking: [] };
      this.state.tab = "state";
    }
    this.chosen(pane);
  }

  async dragCut(pane, place, u, done) {
    place.x = u;
    pane.redraw();
    if (!done) return;
    const there = await ask("cut", pane.params({ u }));
    const pos = there.cut.find(({ lane }) => lane === place.lane).pos;
    await this.moveCut(pane, place, pos);
  }

  async moveCut(pane, place, pos) {
    const cut = pane.cut.cut.map((each) => pane.place(each.lane === place.lane ? { ...each, pos } : each));
    pane.cut = await ask("cut", pane.params({ cut }));
    this.chosen(pane);
    this.say(pane.cut.consistent ? "a consistent cut" : `not consistent: ${pane.cut.lacking.map((l) => l.dot).join(", ")} outside`);
  }

  async repairCut(pane) {
    pane.cut = { ...pane.cut, cut: pane.cut.within, consistent: true, lacking: [] };
    this.chosen(pane);
  }

  async stable() {
    if (!this.state.frontier) return;
    for (const pane of this.panes.filter((each) => each.summary?.events)) {
      const more = pane.selected ? { at: pane.place(pane.selected) } : pane.cursor !== null ? { u: pane.cursor } : {};
      pane.frontier = await ask("stability", pane.params(more));
      pane.redraw();
    }
  }

  // ---- the picture --------------------------------------------------------------------------------

  // Two runs are looked at at the same place.
  moved(pane) {
    for (const other of this.panes) {
      if (other === pane || !other.summary?.events || !other.lanes) continue;
      other.view.from = pane.view.from;
      other.view.span = pane.view.span;
      other.redraw();
      other.load().catch((error) => this.fail(error));
    }
    this.settle();
  }

  // After a while in which the picture did not move.
  settle() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      this.remember();
      offer(this);
      this.leftOut(this.active);
      if (this.state.tab === "list") this.panel.show();
    }, 150);
  }

  loaded(pane) {
    this.leftOut(pane);
    if (this.state.tab === "list") this.panel.show();
  }

  leftOut(pane) {
    const left = pane.window?.arrows?.left_out ?? 0;
    const how = pane.view.span > pane.least ? "zoom in" : "hide nodes under filter";
    this.notice(left ? `${count(left, "arrow")} not drawn here: ${how} to see all.` : "", "arrows");
  }

  async changed() {
    this.remember();
    this.reflect();
    for (const pane of this.panes) await pane.load().catch((error) => this.fail(error));
    this.stable();
    this.panel.show();
  }

  // Another axis or other folds: coordinates are not what they were.
  async another() {
    for (const pane of this.panes.filter((each) => each.summary?.events)) {
      pane.cursor = null;
      this.player.stop();
      await pane.load(true);
      await this.#placed(pane);
      pane.home();
      if (pane.selected?.x !== null && pane.selected) pane.reveal(pane.selected.x, pane.selected.lane);
    }
    await this.changed();
  }

  // Where what was chosen is now.
  async #placed(pane) {
    for (const name of ["selected", "other", "marked"]) {
      if (pane[name]) pane[name] = await pane.named(pane.place(pane[name]));
    }
    await pane.compare();
    if (pane.cut) pane.cut = await ask("cut", pane.params({ cut: pane.cut.cut.map((each) => pane.place(each)) }));
  }

  set(name, value) {
    this.state[name] = value;
    return name === "axis" || name === "fold" ? this.another() : this.changed();
  }

  turn() {
    this.state.dir = this.state.dir === "h" ? "v" : "h";
    for (const pane of this.panes) {
      pane.view.scroll = 0;
      pane.redraw();
    }
    this.changed();
  }

  recolour() {
    legend();
    this.remember();
    for (const pane of this.panes) pane.redraw();
  }

  // ---- the bar ------------------------------------------------------------------------------------

  controls() {
    const on = (id, event, handler) => by(id).addEventListener(event, handler);
    on("run", "change", () => { this.state.run = Number(by("run").value); this.reopen(); });
    on("with", "change", () => { this.state.with = by("with").value === "" ? null : Number(by("with").value); this.reopen(); });
    on("axis", "change", () => this.set("axis", by("axis").value));
    on("fold", "change", () => this.set("fold", by("fold").checked));
    on("frontier", "change", () => this.set("frontier", by("frontier").checked));
    on("direction", "click", () => this.turn());
    on("allnodes", "click", () => checkNodes(this, true));
    on("nonodes", "click", () => checkNodes(this, false));
    on("in", "click", () => this.active.zoom(0.6));
    on("out", "click", () => this.active.zoom(1 / 0.6));
    on("fit", "click", () => this.active.fit());
    on("cut", "click", () => this.toggleCut());
    on("theme", "click", () => { this.say(`theme: ${nextTheme()}`); this.recolour(); });
    on("help", "click", () => by("helpbox").showModal());
    on("link", "click", () => this.copy());
    on("svg", "click", () => save(new Blob([this.active.svg()], { type: "image/svg+xml" }), "thence.svg"));
    on("png", "click", () => this.active.canvas.toBlob((blob) => save(blob, "thence.png")));
    menus();
    passing();
    onScheme(() => this.recolour());
    keys(this);
    legend();
  }

  async copy() {
    this.remember();
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("link copied");
      this.notice("The link is in the clipboard.", "link");
    } catch {
      this.notice("The address of this page is the link: copy it from the address bar.", "link");
    }
  }

  reflect() {
    const { state, active } = this;
    const found = this.violations(active);
    by("run").value = state.run;
    by("with").value = state.with ?? "";
    by("axis").value = active.axis;
    for (const option of by("axis").options) option.disabled = !(active.summary?.axes ?? ["order"]).includes(option.value);
    by("fold").checked = state.fold;
    by("frontier").checked = state.frontier;
    by("direction").textContent = state.dir === "h" ? "⇄" : "⇅";
    by("direction").setAttribute("aria-label", state.dir === "h" ? "Time from left to right; turn it" : "Time downwards; turn it");
    by("cut").setAttribute("aria-pressed", String(Boolean(active.cut)));
    by("unplay").hidden = active.cursor === null;
    by("title").textContent = this.runs.length > 1 ? "thence" : active.summary?.title ?? "thence";
    document.title = `${active.summary?.title ?? ""} · thence view`;
    by("tab-violations").textContent = found.count ? `Violations ${found.count.toLocaleString("en")}` : TABS.violations;
    by("tab-violations").classList.toggle("bad", found.count > 0);
    const notes = active.summary?.notes ?? [];
    this.notice(notes.length ? `${notes[0]}${notes.length > 1 ? ` (and ${notes.length - 1} more, see Run)` : ""}` : "", "notes");
    offer(this);
  }

  // ---- words --------------------------------------------------------------------------------------

  say(words) { say(words); }
  notice(words, about) { notice(words, about); }
  fail(error) { notice(error.message, "error"); }
  tip(words, x, y) { tip(words, x, y); }
}

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const page = new Page();
// For whoever wants to look behind the page, and for tests that drive it.
globalThis.thence = page;
page.start().catch((error) => page.fail(error));
