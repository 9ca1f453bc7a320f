// The side of the page: what is known of the selected record, lists, search, states.

import { ask } from "./api.js";
import { by, count, el, fill } from "./dom.js";
import { duration, label } from "./pane.js";
import { KINDS } from "./palette.js";

export const TABS = {
  details: "Record", violations: "Violations", waiting: "Waiting", search: "Search", list: "In view",
  state: "State", run: "Run",
};
const LISTED_MAX = 250;
const RULE_MAX = 20;  // violations of one rule, unless all are asked for
const HOW = {
  log: "one log has them in this order",
  message: "the message was sent there and came here",
  context: "the context of the message names the other",
  arrival: "the same message on its way",
};

export class Panel {
  constructor(page) {
    this.page = page;
    this.turn = 0;
    this.words = "";
    this.whole = new Set();  // rules of which all violations are asked for
    const tabs = Object.entries(TABS).map(([name, title]) => el("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel",
      onclick: () => this.open(name),
    }, title));
    by("tabs").append(...tabs);
    by("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      const names = Object.keys(TABS);
      const next = names[(names.indexOf(this.tab) + step + names.length) % names.length];
      this.open(next);
      by(`tab-${next}`).focus();
    });
  }

  get tab() { return this.page.state.tab; }

  open(name) {
    this.page.state.tab = name;
    this.page.remember();
    return this.show();
  }

  // What is late is dropped: only the last call fills the panel. again: there is more of the run, and
  // the place where somebody reads or types stays.
  async show(again = false) {
    const turn = ++this.turn;
    for (const name of Object.keys(TABS)) {
      const tab = by(`tab-${name}`);
      const chosen = name === this.tab;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    by("panel").setAttribute("aria-labelledby", `tab-${this.tab}`);
    const pane = this.page.active;
    if (!pane?.summary) return;
    let made;
    try {
      made = pane.summary.events || this.tab === "run"
        ? await this[`_${this.tab}`](pane) : [el("p", {}, "No records yet.")];
    } catch (error) {
      made = [el("p", { class: "bad" }, error.message)];
    }
    if (turn !== this.turn) return;
    this.#put(made, again);
    if (this.tab === "search" && this.focusSearch) {
      this.focusSearch = false;
      by("query").focus();
      by("query").select();
    }
  }

  #put(made, again) {
    const box = by("panel");
    const { activeElement: focused } = document;
    const field = box.contains(focused) && focused.matches("input");
    if (again && field && focused.value !== focused.defaultValue) return;  // being typed
    const kept = field || (again && box.contains(focused)) ? said(focused) : null;
    const top = box.scrollTop;
    const open = again ? [...box.querySelectorAll("details[open]")].map((each) => each.dataset.number) : [];
    fill(box, ...made);
    if (again) box.scrollTop = top;
    for (const each of box.querySelectorAll("details[data-number]")) each.open ||= open.includes(each.dataset.number);
    if (kept) [...box.querySelectorAll("button, input, summary")].find((each) => said(each) === kept)?.focus();
  }

  go(pane, at, words) {
    return el("button", { type: "button", class: "go", onclick: () => this.page.select(pane, at, true) },
      words ?? label(at));
  }

  dot(pane, dot, sent) {
    return sent ? this.go(pane, sent, dot) : el("code", {}, dot);
  }

  async _details(pane) {
    const at = pane.selected;
    if (!at) {
      return [el("p", {}, "Select a record: click it, or press Enter and use the arrows. What happens before it, " +
        "after it and concurrently is then told apart. Shift and click a second one to compare, or press m at both.")];
    }
    const where = pane.params({ at: pane.place(at) });
    const [event, text] = await Promise.all([ask("event", where), ask("text", where)]);
    const rows = [
      ["node", event.node], ["position", String(event.pos)],
      ["clock", event.t_us === undefined || !pane.summary.has_clock ? null : moment(event.t_us)],
      ["from", event.from], ["to", event.to.length ? event.to.join(", ") : null],
      ["size", event.bytes === undefined ? null : count(event.bytes, "byte")],
    ].filter(([, value]) => value);
    if (event.dot) rows.push(["dot", this.dot(pane, event.dot, event.sent)]);
    if (event.context.length) rows.push(["context", el("span", { class: "dots" },
      event.context.map((dot) => el("button", { type: "button", class: "go", onclick: () => this.page.find(pane, dot) }, dot)))]);
    if (text.payload) rows.push(["payload", el("pre", {}, text.payload)]);
    for (const [name, value] of Object.entries(text.extra)) rows.push([name, el("pre", {}, value)]);
    const { past, future, concurrent } = event.counts;
    return [
      el("h2", {}, `${event.kind}${event.dot ? ` ${event.dot}` : ""} at ${event.node}`),
      event.undone ? el("p", { class: "bad" }, "Taken back by the restart at position ", String(event.undone.pos), ".") : null,
      el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      el("p", { class: "relations", id: "relations" },
        el("span", { class: "past" }, count(past, "record"), " before"), " · ",
        el("span", { class: "future" }, count(future, "record"), " after"), " · ",
        el("span", { class: "concurrent" }, String(concurrent.toLocaleString("en")), " concurrent")),
      this.#lacking(pane, event),
      ...event.violations.map((number) => this.#violation(pane, this.page.violations(pane).items[number], number)),
      this.#comparison(pane),
    ];
  }

  #lacking(pane, event) {
    if (!event.waits_for) return null;
    if (!event.waits_for.length) return el("p", {}, "It arrived after everything it follows: nothing to wait for.");
    return el("section", {}, el("h3", {}, "It waits for"), el("ul", {}, event.waits_for.map((lack) =>
      el("li", {}, this.dot(pane, lack.dot, lack.sent),
        lack.arrived ? " (it arrived and waits too)" : " (it has not arrived here)"))));
  }

  #comparison(pane) {
    if (!pane.compared) return null;
    const { said, path } = pane.compared;
    return el("section", { id: "comparison" }, el("h3", {}, `${said}.`),
      path.length ? el("ol", {}, path.map((step) => el("li", {},
        this.go(pane, step.from), " → ", this.go(pane, step.to), el("span", { class: "quiet" }, ` ${HOW[step.how]}`)))) : null);
  }

  #violation(pane, found, number) {
    if (!found) return null;
    return el("article", { class: "violation", "data-rule": found.rule },
      el("h3", {}, el("button", { type: "button", class: "go bad", onclick: () => this.page.jump(pane, number) },
        `${found.rule} at ${found.node}, position ${found.pos}`)),
      el("p", {}, found.why),
      el("details", { "data-number": number, ontoggle: async (event) => {
        const box = event.target;
        if (box.open && !box.dataset.read) {
          box.dataset.read = "1";
          const { text } = await ask("explain", { run: pane.run, number });
          box.append(el("pre", {}, text));
        }
      } }, el("summary", {}, "the failed step")));
  }

  async _violations(pane) {
    const found = await this.page.readViolations(pane);
    if (found.error) return [el("p", { class: "bad" }, found.error)];
    if (!found.checked) return [el("p", {}, "The check is still running.")];
    if (!found.count) return [el("p", { id: "clean" }, "No rule is broken.")];
    const numbers = Map.groupBy(found.items.keys(), (number) => found.items[number].rule);
    return [
      el("p", {}, el("strong", { class: "bad" }, count(found.count, "violation")),
        `, ${count(Object.keys(found.rules).length, "rule")}. n and p go from one to the next.`),
      ...Object.entries(found.rules).map(([rule, all]) => this.#rule(pane, rule, all, numbers.get(rule) ?? [])),
      found.count > found.items.length ? el("p", {}, "More are counted than listed.") : null,
    ];
  }

  #rule(pane, rule, all, numbers) {
    const { items } = this.page.violations(pane);
    const some = this.whole.has(rule) ? numbers : numbers.slice(0, RULE_MAX);
    return el("section", {}, el("h3", {}, `${rule}: ${all.toLocaleString("en")}`),
      some.map((number) => this.#violation(pane, items[number], number)),
      some.length === numbers.length ? null : el("button", { type: "button", onclick: () => {
        this.whole.add(rule);
        this.show(true);
      } }, `show all ${numbers.length} of ${rule}`));
  }

  async _waiting(pane) {
    const { count: all, items } = await ask("waiting", { run: pane.run });
    if (!all) return [el("p", {}, "No message had to wait in a hold-back queue, or the logs do not say when messages arrived.")];
    return [
      el("p", {}, `${count(all, "message")} waited in hold-back queues. The longest:`),
      el("table", { class: "list" }, el("thead", {}, el("tr", {}, ["message", "at", "for", "how long"].map((t) => el("th", {}, t)))),
        el("tbody", {}, items.map((item) => el("tr", {},
          el("td", {}, this.go(pane, item, item.dot)), el("td", {}, item.node),
          el("td", {}, item.missing ? el("button", { type: "button", class: "go", onclick: () => this.page.find(pane, item.missing) }, item.missing) : "its turn"),
          el("td", {}, item.waited === null ? "to the end" : item.unit === "us" ? duration(item.waited) : `${item.waited} steps`))))),
    ];
  }

  async _search(pane) {
    const box = el("input", { id: "query", type: "search", placeholder: "node, dot (a:3), kind, or text of a payload",
      "aria-label": "Search", autocomplete: "off", spellcheck: "false" });
    box.value = this.words;
    const hits = el("div", { id: "hits" });
    const form = el("form", { role: "search", onsubmit: async (event) => {
      event.preventDefault();
      this.words = box.value;
      this.page.state.q = box.value;
      this.page.remember();
      await this.#hits(pane, hits);
    } }, box, el("button", {}, "search"));
    if (this.words) await this.#hits(pane, hits);
    return [form, hits];
  }

  async #hits(pane, into) {
    const found = await ask("search", { run: pane.run, q: this.words });
    this.page.say(count(found.count, "hit"));
    fill(into, el("p", {}, count(found.count, "hit"), found.count > found.hits.length ? `, the first ${found.hits.length}:` : ""),
      el("ol", { class: "list" }, found.hits.map((hit) => el("li", {}, this.go(pane, hit),
        hit.text ? el("span", { class: "quiet" }, ` ${hit.text}`) : null))));
  }

  async _list(pane) {
    const found = pane.window?.marks;
    if (!found) return [el("p", {}, "Too much is in view to list it: zoom in.")];
    const { from, span } = pane.view;
    const inside = found.x.map((x, i) => i).filter((i) => found.x[i] >= from && found.x[i] <= from + span);
    inside.sort((a, b) => found.x[a] - found.x[b] || found.lane[a] - found.lane[b]);
    const words = ["", "before", "selected", "after", "concurrent"];
    return [
      el("p", {}, `${count(inside.length, "record")} in view`, inside.length > LISTED_MAX ? `, the first ${LISTED_MAX}:` : ":"),
      el("ol", { class: "list", id: "records" }, inside.slice(0, LISTED_MAX).map((i) => {
        const at = pane.mark(i);
        const relation = found.relation?.[i] ?? 0;
        return el("li", { "data-node": at.node, "data-pos": at.pos, "data-relation": words[relation] },
          this.go(pane, at), relation ? el("span", { class: "quiet" }, ` ${words[relation]}`) : null,
          found.bad.includes(i) ? el("strong", { class: "bad" }, " violation") : null);
      })),
    ];
  }

  async _state(pane) {
    const cut = pane.cut;
    const which = cut ? { cut: cut.within.map(({ node, pos }) => `${node}@${pos}`) }
      : pane.selected ? { at: pane.place(pane.selected) } : {};
    const state = await ask("state", { run: pane.run, ...which });
    const where = cut ? (cut.consistent ? "inside the cut" : "inside the greatest consistent cut within this one")
      : pane.selected ? `that ${pane.selected.node} knew of at the selected record` : "of the whole run";
    const made = [];
    if (cut) made.push(this.#cut(pane, cut));
    made.push(el("p", {}, `${count(state.messages, "message")} ${where}.`));
    if (state.objects.length) {
      made.push(el("h3", {}, "Data types"), el("table", { class: "list", id: "objects" },
        el("thead", {}, el("tr", {}, ["key", "type", "value"].map((t) => el("th", {}, t)))),
        el("tbody", {}, state.objects.map((o) => el("tr", {}, el("td", {}, o.key), el("td", {}, o.type), el("td", {}, el("pre", {}, o.value)))))));
    }
    if (state.plain.length) {
      made.push(el("h3", {}, "Latest payloads"), ...state.plain.map((p) => el("section", {},
        el("h4", {}, p.key || "(no key)", ` · ${count(p.count, "message")}`),
        el("ol", { class: "list" }, p.latest.map((text) => el("li", {}, el("pre", {}, text)))))));
    }
    if (!state.with_payload) made.push(el("p", { class: "quiet" }, "The logs have no payloads: nodes keep them only when they are told to (trace payload)."));
    if (state.ignored) made.push(el("p", { class: "quiet" }, `${count(state.ignored, "payload")} are no whole batch.`));
    return made;
  }

  #cut(pane, cut) {
    const verdict = cut.consistent
      ? el("p", { id: "cutstate" }, "The cut is consistent: nothing inside depends on anything outside.")
      : el("section", { id: "cutstate" }, el("p", { class: "bad" }, "Not a consistent cut:"),
        el("ul", {}, cut.lacking.slice(0, 12).map((lack) => el("li", {}, `${lack.node} knows `, this.dot(pane, lack.dot, lack.sent), ", which is outside"))),
        el("button", { type: "button", id: "repair", onclick: () => this.page.repairCut(pane) }, "make it consistent"));
    // The handles, for those who do not drag.
    const positions = el("details", { id: "positions", open: this.positions, ontoggle: (event) => { this.positions = event.target.open; } },
      el("summary", {}, "last position inside, by node"),
      cut.cut.map((place) => el("label", { class: "row" }, place.node, el("input", { type: "number", min: -1, value: place.pos,
        onchange: (event) => this.page.moveCut(pane, place, Number(event.target.value)) }))));
    return el("div", {}, verdict, positions);
  }

  async _run(pane) {
    const s = pane.summary;
    const rows = [["engine", s.engine], ["guarantee", s.guarantee], ["records", s.events.toLocaleString("en")],
      ["messages", s.messages?.toLocaleString("en")], ["held back", s.held?.toLocaleString("en")],
      ["nodes", s.nodes.join(", ")], ["complete", s.events ? (s.complete ? "yes" : "no") : null]];
    return [
      el("h2", {}, s.title),
      el("dl", {}, rows.filter(([, v]) => v).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      s.kinds ? el("dl", {}, KINDS.filter((k) => s.kinds[k]).map((k) => [el("dt", {}, k), el("dd", {}, s.kinds[k].toLocaleString("en"))])) : null,
      s.notes.length ? el("section", {}, el("h3", {}, "Notes"), el("ul", { id: "notes" }, s.notes.map((note) => el("li", {}, note)))) : null,
    ];
  }
}

// What a button or a field is called.
function said(element) {
  return (element.closest("label") ?? element).textContent;
}

// A clock that counts from 1970 as a date, in UTC; any other as the time since its beginning, as
// one beyond the year 9999, as on the axis.
function moment(us) {
  return us >= 1e15 && us < 253402300800e6 ? new Date(us / 1000).toISOString().replace("T", " ") : duration(us);
}
