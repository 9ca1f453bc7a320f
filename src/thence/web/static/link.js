// The address of the page is a link to what it shows: read once, and then kept up to date.

import { ask } from "./api.js";
import { setTheme, theme } from "./palette.js";
import { TABS } from "./panel.js";

// What the link says of the whole page; of the panes, restore.
export function read(page) {
  const given = new URLSearchParams(location.hash.slice(1));
  const { state } = page;
  for (const name of ["axis", "dir", "tab", "q"]) if (given.has(name)) state[name] = given.get(name);
  if (!["order", "time", "graph"].includes(state.axis)) state.axis = "order";
  if (!(state.tab in TABS)) state.tab = "details";
  for (const name of ["fold", "frontier"]) state[name] = given.get(name) === "1";
  for (const name of ["run", "with"]) if (given.has(name)) state[name] = Math.max(0, Math.trunc(Number(given.get(name))) || 0);
  if (given.has("hide")) state.hide = given.getAll("hide").filter(Boolean);
  state.nodes = given.getAll("node");
  if (given.has("theme")) setTheme(given.get("theme"));
  page.panel.words = state.q;
  return given;
}

export function remember(page) {
  const { state } = page;
  const made = new URLSearchParams();
  const put = (name, value) => { if (value || value === 0) made.append(name, value === true ? "1" : value); };
  if (state.run) put("run", state.run);
  if (state.with !== null) put("with", state.with);
  if (state.axis !== "order") put("axis", state.axis);
  if (state.dir !== "h") put("dir", state.dir);
  put("fold", state.fold);
  put("frontier", state.frontier);
  if (state.hide.join() !== "ready,sample") for (const kind of state.hide.length ? state.hide : [""]) made.append("hide", kind);
  for (const node of state.nodes) put("node", node);
  if (state.tab !== "details") put("tab", state.tab);
  put("q", state.q);
  if (theme() !== "auto") put("theme", theme());
  if (page.active?.index) put("active", page.active.index + 1);
  page.panes.forEach((pane, index) => ofPane(pane, index ? "2" : "", put));
  const hash = `#${made}`;
  if (hash !== location.hash) history.replaceState(null, "", hash);
}

function ofPane(pane, end, put) {
  if (!end) {
    put("from", Number(pane.view.from.toPrecision(9)));
    put("span", Number(pane.view.span.toPrecision(9)));
  }
  if (pane.lanes && pane.geometry.over > 0) put(`scroll${end}`, Math.round(Math.min(pane.view.scroll, pane.geometry.over)));
  if (pane.selected) put(`at${end}`, pane.place(pane.selected));
  if (pane.other) put(`other${end}`, pane.place(pane.other));
  if (pane.cursor !== null) put(`cursor${end}`, pane.cursor);
  if (pane.cut) for (const place of pane.cut.cut) put(`cut${end}`, pane.place(place));
}

export async function restore(page, pane, given) {
  const end = pane.index ? "2" : "";
  const from = Number(given.get("from"));
  const span = Number(given.get("span"));
  if (given.has("span") && span > 0 && Number.isFinite(from)) {
    pane.view.from = from;
    pane.view.span = span;
  }
  pane.view.scroll = Math.max(0, Number(given.get(`scroll${end}`)) || 0);
  pane.selected = await pane.named(given.get(`at${end}`));
  pane.other = pane.selected && await pane.named(given.get(`other${end}`));
  const cursor = given.has(`cursor${end}`) ? Number(given.get(`cursor${end}`)) : NaN;
  pane.cursor = Number.isFinite(cursor) ? cursor : null;
  const cut = given.getAll(`cut${end}`).filter((place) => pane.has(place));
  try {
    if (cut.length) pane.cut = await ask("cut", pane.params({ cut }));
    await pane.compare();
  } catch (error) {
    page.fail(error);  // the link is of another run
  }
  await pane.load();
  if (given.has("span")) pane.look(pane.view.from, pane.view.span);
  else pane.home();
  if (!pane.selected) return;
  if (!given.has("span")) pane.reveal(pane.selected.x, pane.selected.lane);
  else if (!given.has(`scroll${end}`)) pane.showLane(pane.selected.lane);
}
