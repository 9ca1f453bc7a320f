// One picture of a pane. Everything it needs is given: the surface, where things are, what there is.

import { KINDS, RELATION, kindColour, relationColour } from "./palette.js";

const PRIORITY = ["sample", "ready", "receive", "other", "end", "stable", "phantom", "deliver", "send",
  "snapshot", "restart", "join", "leave", "evict"];
const TRACKS = 6;
const ARROWS_FULL = 300;  // of one colour; of more each is paler, so that what is below stays in sight
const PALEST = 0.08;

export function draw(surface, geometry, scene) {
  const { colours } = scene;
  surface.fill(0, 0, surface.width, surface.height, colours.back);
  const plot = [geometry.left, geometry.top, surface.width - geometry.left, surface.height - geometry.top];
  surface.clip(...plot, () => {
    folds(surface, geometry, scene);
    grid(surface, geometry, scene);
    lanes(surface, geometry, scene);
    if (scene.window?.density) density(surface, geometry, scene);
    if (scene.window?.marks) {
      holds(surface, geometry, scene);
      arrows(surface, geometry, scene);
      marks(surface, geometry, scene);
    }
    overlays(surface, geometry, scene);
  });
  gutters(surface, geometry, scene);
}

function span(g, u1, u2) {
  return g.down ? [g.left, g.along(u1), g.width - g.left, g.along(u2) - g.along(u1)]
    : [g.along(u1), g.top, g.along(u2) - g.along(u1), g.height - g.top];
}

function folds(surface, g, { window, colours, foldLabel }) {
  let end = -1e9;
  for (const [u1, u2, x1, x2] of window?.folds ?? []) {
    surface.fill(...span(g, u1, u2), colours.band);
    for (const u of [u1, u2]) {
      const [x, y, w, h] = span(g, u, u);
      surface.lines(g.down ? [x, y, x + w, y] : [x, y, x, y + h], colours.line, 1, 1, [2, 3]);
    }
    const middle = (u1 + u2) / 2;
    const words = foldLabel(x2 - x1);
    const half = g.down ? 8 : surface.measure(words) / 2;
    if (g.along(middle) - half < end) continue;  // of folds side by side the first says how long
    end = g.along(middle) + half + 6;
    if (g.down) surface.text(g.left + 4, g.along(middle), words, colours.faint);
    else surface.text(g.along(middle), g.height - 10, words, colours.faint, "center");
  }
}

function grid(surface, g, { window, colours }) {
  const flat = [];
  for (const { u } of window?.ticks ?? []) {
    const t = g.along(u);
    flat.push(...(g.down ? [g.left, t, g.width, t] : [t, g.top, t, g.height]));
  }
  surface.lines(flat, colours.grid);
}

function lanes(surface, g, { colours }) {
  const flat = [];
  for (const lane of g.lanes) {
    const l = g.across(lane);
    flat.push(...(g.down ? [l, g.top, l, g.height] : [g.left, l, g.width, l]));
  }
  surface.lines(flat, colours.line);
}

function density(surface, g, { window, colours }) {
  const { bins, counts, bad } = window.density;
  const most = counts.reduce((m, lane) => lane.reduce((n, c) => Math.max(n, c), m), 1);
  const step = (window.to - window.from) / bins;
  const half = g.gap * 0.42;
  for (const lane of g.lanes) {
    const l = g.across(lane);
    if (l < -g.gap || l > (g.down ? g.width : g.height) + g.gap) continue;
    const flat = [];
    counts[lane].forEach((count, bin) => {
      if (!count) return;
      const t1 = g.along(window.from + bin * step);
      const t2 = g.along(window.from + (bin + 1) * step);
      const h = Math.max(1, half * Math.sqrt(count / most));
      if (t2 < 0 || t1 > (g.down ? g.height : g.width)) return;
      flat.push(...(g.down ? [l - h, t1, 2 * h, t2 - t1] : [t1, l - h, t2 - t1, 2 * h]));
    });
    surface.boxes(flat, colours.send, 0.55);
    const spots = bad[lane].flatMap((bin) => g.xy(window.from + (bin + 0.5) * step, lane));
    if (spots.length) surface.marks("evict", spots, 4.5, colours.bad, colours.back);
  }
}

// Tracks under a lane: what waits at the same time lies one below the other.
export function tracksOf(holds) {
  const ends = new Map();
  return holds.x1.map((x1, i) => {
    const lane = holds.lane[i];
    if (!ends.has(lane)) ends.set(lane, []);
    const busy = ends.get(lane);
    let track = busy.findIndex((end) => end <= x1);
    if (track < 0) track = busy.length < TRACKS ? busy.length : TRACKS - 1;
    busy[track] = Math.max(busy[track] ?? 0, holds.x2[i]);
    return track;
  });
}

// cursor: what lies beyond it has not happened yet.
export function holdBox(g, holds, tracks, i, cursor = null) {
  const room = Math.max(2, Math.min(5, (g.gap / 2 - g.size - 4 - g.words) / TRACKS));
  const l = g.across(holds.lane[i]) + g.size + 3 + tracks[i] * room;
  const t1 = g.along(holds.x1[i]);
  const t2 = Math.max(t1 + 2, g.along(Math.min(holds.x2[i], cursor ?? Infinity)));
  const thick = Math.max(1.5, room - 1);
  return g.down ? [l, t1, thick, t2 - t1] : [t1, l, t2 - t1, thick];
}

function holds(surface, g, { window, colours, selected, labels, cursor }) {
  const { holds: found } = window;
  const tracks = (window.tracks ??= tracksOf(found));
  const spoken = new Map();
  for (let i = 0; i < found.x1.length; i++) {
    if (!g.place.has(found.lane[i]) || found.x2[i] < g.from || found.x1[i] > g.to) continue;
    if (cursor !== null && found.x1[i] > cursor) continue;
    const box = holdBox(g, found, tracks, i, cursor);
    const mine = selected && selected.lane === found.lane[i] && selected.pos === found.pos[i];
    waits(surface, g, box, colours.hold, mine);
    if (!found.ended[i] && (cursor === null || found.x2[i] <= cursor)) {
      const tip = g.down ? [box[0], box[1] + box[3]] : [box[0] + box[2], box[1] + box[3] / 2];
      surface.text(tip[0], tip[1], " … never", colours.holdText);
    }
    if (!labels || !g.words) continue;
    const words = found.missing[i] ? `${found.dot[i]} waits for ${found.missing[i]}` : `${found.dot[i]} waits for its turn`;
    const width = surface.measure(words);
    const start = Math.max(g.left + 2, Math.min(box[0], g.width - width - 4));
    const free = (spoken.get(found.lane[i]) ?? -1e9) < start;
    if (free && Math.min(box[0] + box[2], g.width) - start > width * 0.6) {
      surface.text(start, g.across(found.lane[i]) + g.gap / 2 - 8, words, colours.holdText, "left", false, colours.back);
      spoken.set(found.lane[i], start + width + 14);
    }
  }
}

// A bar with gaps, as what waits has a colour like what comes after; the one that is selected is solid.
function waits(surface, g, [x, y, w, h], colour, solid) {
  const line = g.down ? [x + w / 2, y, x + w / 2, y + h] : [x, y + h / 2, x + w, y + h / 2];
  surface.lines(line, colour, g.down ? w : h, 1, solid ? [] : [5, 2]);
}

function arrowStyle(scene, tail, head, kind) {
  const { colours } = scene;
  if (scene.related) {
    const { past, self, future } = RELATION;
    const before = (r) => r === past || r === self;
    if (before(tail) && before(head)) return [colours.past, 1, 1.4];
    if ((tail === future || tail === self) && head === future) return [colours.future, 1, 1.4];
    return [colours.concurrent, 1, 1];
  }
  return [kind === 1 ? colours.phantom : colours.arrow, 1, 1];
}

function arrows(surface, g, scene) {
  const { arrows: found } = scene.window;
  const groups = new Map();
  const heads = g.crowd > 3;
  for (let i = 0; i < found.x1.length; i++) {
    if (!g.place.has(found.lane1[i]) || !g.place.has(found.lane2[i])) continue;
    const low = Math.min(found.x1[i], found.x2[i]);
    const high = Math.max(found.x1[i], found.x2[i]);
    if (high < g.from || low > g.to) continue;
    const late = scene.cursor !== null && found.x2[i] > scene.cursor;
    if (late && found.x1[i] > scene.cursor) continue;
    const [colour, alpha, width] = arrowStyle(scene, found.tail?.[i], found.head?.[i], found.kind[i]);
    const key = `${colour} ${late} ${found.kind[i]}`;
    if (!groups.has(key)) groups.set(key, { colour, alpha, width, late, kind: found.kind[i], flat: [], tips: [] });
    const group = groups.get(key);
    const [x1, y1] = g.xy(found.x1[i], found.lane1[i]);
    let [x2, y2] = g.xy(found.x2[i], found.lane2[i]);
    if (late) {
      // On its way: as far as the cursor.
      const part = (scene.cursor - found.x1[i]) / (found.x2[i] - found.x1[i] || 1);
      x2 = x1 + (x2 - x1) * part;
      y2 = y1 + (y2 - y1) * part;
    }
    group.flat.push(x1, y1, x2, y2);
    if (heads && !late) tip(group.tips, x1, y1, x2, y2, g.size);
  }
  for (const { colour, alpha, width, late, kind, flat, tips } of groups.values()) {
    const pale = alpha * Math.max(PALEST, Math.min(1, ARROWS_FULL / (flat.length / 4)));
    surface.lines(flat, colour, width, pale, late ? [5, 4] : kind === 1 ? [2, 3] : []);
    surface.triangles(tips, colour, pale);
  }
}

function tip(flat, x1, y1, x2, y2, size) {
  const dx = x2 - x1;
  const dy = y2 - y1;
  const length = Math.hypot(dx, dy);
  if (length < 3 * size) return;
  const back = size + 1;
  const ux = dx / length;
  const uy = dy / length;
  const px = x2 - ux * back;
  const py = y2 - uy * back;
  const w = Math.min(4, 1.2 + size / 2);
  flat.push(px, py, px - ux * 2 * w - uy * w, py - uy * 2 * w + ux * w,
    px - ux * 2 * w + uy * w, py - uy * 2 * w - ux * w);
}

function marks(surface, g, scene) {
  const { marks: found } = scene.window;
  const { colours } = scene;
  const groups = new Map();
  const bad = new Set(found.bad);
  const spots = [];
  for (let i = 0; i < found.x.length; i++) {
    if (!g.place.has(found.lane[i])) continue;
    const u = found.x[i];
    if (u < g.from - 2 * g.size / g.scale || u > g.to + 2 * g.size / g.scale) continue;
    if (scene.cursor !== null && u > scene.cursor) continue;
    const kind = KINDS[found.kind[i]];
    const relation = scene.related ? found.relation?.[i] ?? 0 : 0;
    const key = `${kind} ${relation}`;
    if (!groups.has(key)) groups.set(key, { kind, relation, flat: [] });
    const [x, y] = g.xy(u, found.lane[i]);
    groups.get(key).flat.push(x, y);
    if (bad.has(i)) spots.push(x, y);
  }
  const order = [...groups.values()].sort((a, b) =>
    (a.relation === 4 ? 0 : 1) - (b.relation === 4 ? 0 : 1) || PRIORITY.indexOf(a.kind) - PRIORITY.indexOf(b.kind));
  for (const { kind, relation, flat } of order) {
    const colour = relation ? relationColour(colours, relation) : kindColour(colours, kind);
    surface.marks(kind, flat, g.size, colour, colours.back);
  }
  for (let i = 0; i < spots.length; i += 2) {
    surface.ring(spots[i], spots[i + 1], g.ring, colours.bad, 2.2);
    const above = Math.max(g.top + 7, spots[i + 1] - g.size - 3);
    surface.text(spots[i] + g.size + 5, above, "!", colours.bad, "left", true);
  }
  names(surface, g, scene);
}

// The dots of sends, where there is room for them.
function names(surface, g, { window, origins, colours, labels, cursor }) {
  if (!labels) return;
  const { marks: found } = window;
  const ends = new Map();
  for (let i = 0; i < found.x.length; i++) {
    if (KINDS[found.kind[i]] !== "send" || !g.place.has(found.lane[i])) continue;
    if (found.x[i] < g.from || found.x[i] > g.to || (cursor !== null && found.x[i] > cursor)) continue;
    const words = `${origins[found.origin[i]]}:${found.seq[i]}`;
    const [x, y] = g.xy(found.x[i], found.lane[i]);
    const width = surface.measure(words);
    if (g.down) {
      if ((ends.get(found.lane[i]) ?? -1e9) > y - 6 || width > g.gap - 2 * g.size - 8) continue;
      const isLeft = x - g.size - 6 - width > g.left;
      surface.text(isLeft ? x - g.size - 4 : x + g.size + 4, y, words, colours.ink, isLeft ? "right" : "left", false, colours.back);
      ends.set(found.lane[i], y + 7);
    } else {
      // Whole at the edges, too, beside its mark if need be.
      const middle = Math.max(g.left + 3 + width / 2, Math.min(x, g.width - 3 - width / 2));
      if ((ends.get(found.lane[i]) ?? -1e9) > middle - width / 2 || g.gap < 30) continue;
      surface.text(middle, y - g.size - 9, words, colours.ink, "center", false, colours.back);
      ends.set(found.lane[i], middle + width / 2 + 6);
    }
  }
}

function overlays(surface, g, scene) {
  const { colours } = scene;
  if (scene.frontier) frontier(surface, g, scene);
  if (scene.path) {
    const flat = scene.path.flatMap(({ from, to }) =>
      from.x === null || to.x === null || !g.place.has(from.lane) || !g.place.has(to.lane) ? []
        : [...g.xy(from.x, from.lane), ...g.xy(to.x, to.lane)]);
    surface.lines(flat, colours.path, 3, 0.9);
  }
  if (scene.cut) cut(surface, g, scene);
  if (scene.cursor !== null) {
    const t = g.along(scene.cursor);
    surface.lines(g.down ? [g.left, t, g.width, t] : [t, g.top, t, g.height], colours.cursor, 1.5);
  }
  for (const [at, colour] of [[scene.selected, colours.self], [scene.other, colours.path]]) {
    if (at && at.x !== null && at.x !== undefined && g.place.has(at.lane)) {
      surface.ring(...g.xy(at.x, at.lane), g.ring + 0.5, colour, 2.5);
    }
  }
}

// Of a lane of which nothing is stable yet it passes the beginning.
function frontier(surface, g, { frontier: { places, by }, colours, window }) {
  const low = (window?.extent?.[0] ?? g.from) - 0.5 * (g.crowd > 0 ? g.crowd / g.scale : 1);
  const known = places.filter(({ lane }) => g.place.has(lane)).map((place) => ({ ...place, x: place.x ?? low }));
  known.sort((a, b) => g.place.get(a.lane) - g.place.get(b.lane));
  if (!known.length) return;
  const points = known.map(({ x, lane }) => g.xy(x, lane));
  surface.polyline(across(g, points), colours.frontier, 2.5, 0.9, [8, 4]);
  const [first] = points;
  const gone = known.every(({ x }) => x < g.from);
  const words = `${gone ? "◂ " : ""}stable ${by ? `at ${by}` : "everywhere"}`;
  const width = surface.measure(words, true);
  const left = Math.min(Math.max(first[0] + 8, g.left + 4), g.width - width - 6);
  const y = g.down ? Math.max(first[1] + 12, g.top + 10) : g.top + 9;
  surface.fill(left - 3, y - 9, width + 6, 18, colours.back, 0.85);
  surface.text(left, y, words, colours.frontier, "left", true);
}

// A cut passes each lane after the last record inside.
export function cutPoint(g, place, scene) {
  const low = scene.window?.extent?.[0] ?? g.from;
  const u = place.x === null ? low - 0.5 : place.x + (scene.axis === "time" ? 0 : 0.5);
  return g.xy(u, place.lane);
}

// A line from lane to lane; of one lane it crosses that.
function across(g, points) {
  if (points.length !== 1) return points.flat();
  const [[x, y]] = points;
  const half = g.gap / 2;
  return g.down ? [x - half, y, x + half, y] : [x, y - half, x, y + half];
}

function cut(surface, g, scene) {
  const { colours } = scene;
  const shown = scene.cut.cut.filter(({ lane }) => g.place.has(lane));
  shown.sort((a, b) => g.place.get(a.lane) - g.place.get(b.lane));
  const colour = scene.cut.consistent ? colours.cut : colours.bad;
  const points = shown.map((place) => cutPoint(g, place, scene));
  surface.polyline(across(g, points), colour, 2, 1, scene.cut.consistent ? [] : [6, 4]);
  for (const [x, y] of points) {
    surface.fill(x - 5, y - 5, 10, 10, colours.back);
    surface.lines([x - 5, y - 5, x + 5, y - 5, x + 5, y - 5, x + 5, y + 5, x + 5, y + 5, x - 5, y + 5,
      x - 5, y + 5, x - 5, y - 5], colour, 2);
  }
}

function gutters(surface, g, { window, colours, names: nodes, focusLane }) {
  surface.fill(0, 0, g.width, g.top, colours.gutter);
  surface.fill(0, 0, g.left, g.height, colours.gutter);
  const room = g.down ? g.gap - 8 : g.left - 14;
  surface.clip(g.down ? g.left : 0, g.down ? 0 : g.top, g.width, g.height, () => {
    for (const lane of g.lanes) {
      const l = g.across(lane);
      const bold = lane === focusLane;
      const words = shorten(surface, nodes[lane], room, bold);
      if (g.down) surface.text(l, g.top / 2, words, colours.ink, "center", bold);
      else surface.text(g.left - 8, l, words, colours.ink, "right", bold);
    }
  });
  let last = -1e9;
  for (const { u, label } of window?.ticks ?? []) {
    const t = g.along(u);
    const width = surface.measure(label);
    if (g.down) {
      if (t > g.top + 6 && t < g.height - 4) surface.text(g.left - 8, t, label, colours.faint, "right");
    } else if (t - width / 2 > Math.max(last, g.left) && t + width / 2 < g.width) {
      surface.text(t, g.top / 2, label, colours.faint, "center");
      last = t + width / 2 + 10;
    }
  }
}

function shorten(surface, words, room, bold) {
  if (surface.measure(words, bold) <= room) return words;
  let kept = words;
  while (kept.length > 1 && surface.measure(`${kept}…`, bold) > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}
