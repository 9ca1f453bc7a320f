// What a picture is drawn on: a canvas, or an SVG document. Both know the same few shapes, each
// given as flat lists of coordinates, so that thousands of marks are a few calls.

const SHAPES = {
  disc: (p, x, y, r) => { p.moveTo(x + r, y); p.arc(x, y, r, 0, 2 * Math.PI); },
  square: (p, x, y, r) => p.rect(x - r, y - r, 2 * r, 2 * r),
  triangle: (p, x, y, r) => {
    p.moveTo(x, y - r); p.lineTo(x + r, y + r); p.lineTo(x - r, y + r); p.closePath();
  },
  diamond: (p, x, y, r) => {
    p.moveTo(x, y - r); p.lineTo(x + r, y); p.lineTo(x, y + r); p.lineTo(x - r, y); p.closePath();
  },
  bar: (p, x, y, r) => p.rect(x - r / 4, y - r, r / 2, 2 * r),
  flat: (p, x, y, r) => p.rect(x - r, y - r / 3, 2 * r, (2 * r) / 3),
  plus: (p, x, y, r) => {
    p.rect(x - r, y - r / 3, 2 * r, (2 * r) / 3); p.rect(x - r / 3, y - r, (2 * r) / 3, 2 * r);
  },
  cross: (p, x, y, r) => {
    const w = r / 2.5;
    p.moveTo(x - r, y - r + w); p.lineTo(x - w, y); p.lineTo(x - r, y + r - w);
    p.lineTo(x - r + w, y + r); p.lineTo(x, y + w); p.lineTo(x + r - w, y + r);
    p.lineTo(x + r, y + r - w); p.lineTo(x + w, y); p.lineTo(x + r, y - r + w);
    p.lineTo(x + r - w, y - r); p.lineTo(x, y - w); p.lineTo(x - r + w, y - r); p.closePath();
  },
  dot: (p, x, y, r) => p.rect(x - r / 3, y - r / 3, (2 * r) / 3, (2 * r) / 3),
};
// By kind: shape, size, and whether it is filled.
export const MARKS = {
  send: ["disc", 1, true], receive: ["disc", 0.62, false], ready: ["bar", 0.8, true],
  deliver: ["square", 0.88, true], stable: ["triangle", 0.88, true], phantom: ["diamond", 1, false],
  sample: ["dot", 0.8, true], join: ["plus", 1.25, true], leave: ["flat", 1.3, true],
  evict: ["cross", 1.3, true], snapshot: ["square", 1.2, false], restart: ["diamond", 1.3, true],
  end: ["bar", 1.5, true], other: ["dot", 1, true],
};
export const FONT = "12px system-ui, sans-serif";

export class CanvasSurface {
  constructor(canvas, width, height, ratio = devicePixelRatio || 1) {
    this.canvas = canvas;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.width = width;
    this.height = height;
    this.ctx = canvas.getContext("2d", { alpha: false });
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  fill(x, y, width, height, colour, alpha = 1) {
    this.ctx.globalAlpha = alpha;
    this.ctx.fillStyle = colour;
    this.ctx.fillRect(x, y, width, height);
    this.ctx.globalAlpha = 1;
  }

  // flat: x1, y1, x2, y2, ... of many lines.
  lines(flat, colour, width = 1, alpha = 1, dash = []) {
    if (!flat.length) return;
    const ctx = this.ctx;
    ctx.beginPath();
    for (let i = 0; i < flat.length; i += 4) {
      ctx.moveTo(flat[i], flat[i + 1]);
      ctx.lineTo(flat[i + 2], flat[i + 3]);
    }
    this.#stroke(colour, width, alpha, dash);
  }

  // flat: x, y, ... of one line with corners.
  polyline(flat, colour, width = 1, alpha = 1, dash = []) {
    const ctx = this.ctx;
    ctx.beginPath();
    for (let i = 0; i < flat.length; i += 2) ctx[i ? "lineTo" : "moveTo"](flat[i], flat[i + 1]);
    this.#stroke(colour, width, alpha, dash);
  }

  #stroke(colour, width, alpha, dash) {
    const ctx = this.ctx;
    ctx.globalAlpha = alpha;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.setLineDash(dash);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
  }

  // flat: x1, y1, x2, y2, x3, y3, ... of filled triangles.
  triangles(flat, colour, alpha = 1) {
    if (!flat.length) return;
    const ctx = this.ctx;
    ctx.beginPath();
    for (let i = 0; i < flat.length; i += 6) {
      ctx.moveTo(flat[i], flat[i + 1]);
      ctx.lineTo(flat[i + 2], flat[i + 3]);
      ctx.lineTo(flat[i + 4], flat[i + 5]);
    }
    ctx.globalAlpha = alpha;
    ctx.fillStyle = colour;
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  // flat: x, y, width, height, ... of filled boxes.
  boxes(flat, colour, alpha = 1) {
    const ctx = this.ctx;
    ctx.globalAlpha = alpha;
    ctx.fillStyle = colour;
    for (let i = 0; i < flat.length; i += 4) ctx.fillRect(flat[i], flat[i + 1], flat[i + 2], flat[i + 3]);
    ctx.globalAlpha = 1;
  }

  // flat: x, y, ... of marks of one kind.
  marks(kind, flat, size, colour, back, alpha = 1) {
    const [shape, times, filled] = MARKS[kind];
    const ctx = this.ctx;
    const path = SHAPES[shape];
    ctx.globalAlpha = alpha;
    ctx.beginPath();
    for (let i = 0; i < flat.length; i += 2) path(ctx, flat[i], flat[i + 1], size * times);
    ctx.fillStyle = filled ? colour : back;
    ctx.fill();
    if (!filled) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.4;
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
  }

  ring(x, y, r, colour, width = 2) {
    this.ctx.beginPath();
    this.ctx.arc(x, y, r, 0, 2 * Math.PI);
    this.#stroke(colour, width, 1, []);
  }

  // halo: a colour around the letters, so that they can be read on top of lines.
  text(x, y, words, colour, align = "left", bold = false, halo = null) {
    const ctx = this.ctx;
    ctx.font = bold ? `600 ${FONT}` : FONT;
    ctx.textAlign = align;
    ctx.textBaseline = "middle";
    if (halo) {
      ctx.strokeStyle = halo;
      ctx.lineWidth = 3.5;
      ctx.lineJoin = "round";
      ctx.strokeText(words, x, y);
    }
    ctx.fillStyle = colour;
    ctx.fillText(words, x, y);
  }

  measure(words, bold = false) {
    this.ctx.font = bold ? `600 ${FONT}` : FONT;
    return this.ctx.measureText(words).width;
  }

  clip(x, y, width, height, draw) {
    const ctx = this.ctx;
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, width, height);
    ctx.clip();
    draw();
    ctx.restore();
  }
}

const NS = "http://www.w3.org/2000/svg";
// Characters that no XML document may have; names and payloads may.
const NOT_IN_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const round = (n) => Math.round(n * 10) / 10;

// Takes the calls that the shapes make on a canvas, and gives the path of an SVG.
class Path {
  d = "";
  moveTo(x, y) { this.d += `M${round(x)} ${round(y)}`; }
  lineTo(x, y) { this.d += `L${round(x)} ${round(y)}`; }
  closePath() { this.d += "Z"; }
  rect(x, y, w, h) { this.d += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`; }
  arc(x, y, r) {
    this.d += `M${round(x + r)} ${round(y)}a${r} ${r} 0 1 1 ${-2 * r} 0a${r} ${r} 0 1 1 ${2 * r} 0Z`;
  }
}

export class SvgSurface {
  constructor(width, height, measure) {
    this.width = width;
    this.height = height;
    this.measure = measure;
    this.root = this.#make("svg", { xmlns: NS, width, height, viewBox: `0 0 ${width} ${height}` });
    this.into = this.root;
  }

  #make(name, attributes) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key !== "xmlns") made.setAttribute(key, value);
    }
    return made;
  }

  #add(name, attributes) {
    const made = this.#make(name, attributes);
    this.into.append(made);
    return made;
  }

  fill(x, y, width, height, colour, alpha = 1) {
    this.#add("rect", { x: round(x), y: round(y), width: round(width), height: round(height),
      fill: colour, "fill-opacity": alpha });
  }

  #stroke(d, colour, width, alpha, dash) {
    this.#add("path", { d, fill: "none", stroke: colour, "stroke-width": width,
      "stroke-opacity": alpha, "stroke-dasharray": dash.join(" ") || "none" });
  }

  lines(flat, colour, width = 1, alpha = 1, dash = []) {
    const path = new Path();
    for (let i = 0; i < flat.length; i += 4) {
      path.moveTo(flat[i], flat[i + 1]);
      path.lineTo(flat[i + 2], flat[i + 3]);
    }
    if (flat.length) this.#stroke(path.d, colour, width, alpha, dash);
  }

  polyline(flat, colour, width = 1, alpha = 1, dash = []) {
    const path = new Path();
    for (let i = 0; i < flat.length; i += 2) path[i ? "lineTo" : "moveTo"](flat[i], flat[i + 1]);
    this.#stroke(path.d, colour, width, alpha, dash);
  }

  triangles(flat, colour, alpha = 1) {
    const path = new Path();
    for (let i = 0; i < flat.length; i += 6) {
      path.moveTo(flat[i], flat[i + 1]);
      path.lineTo(flat[i + 2], flat[i + 3]);
      path.lineTo(flat[i + 4], flat[i + 5]);
      path.closePath();
    }
    if (flat.length) this.#add("path", { d: path.d, fill: colour, "fill-opacity": alpha });
  }

  boxes(flat, colour, alpha = 1) {
    const path = new Path();
    for (let i = 0; i < flat.length; i += 4) path.rect(flat[i], flat[i + 1], flat[i + 2], flat[i + 3]);
    if (flat.length) this.#add("path", { d: path.d, fill: colour, "fill-opacity": alpha });
  }

  marks(kind, flat, size, colour, back, alpha = 1) {
    const [shape, times, filled] = MARKS[kind];
    const path = new Path();
    for (let i = 0; i < flat.length; i += 2) SHAPES[shape](path, flat[i], flat[i + 1], size * times);
    this.#add("path", { d: path.d, fill: filled ? colour : back, opacity: alpha,
      stroke: filled ? "none" : colour, "stroke-width": 1.4 });
  }

  ring(x, y, r, colour, width = 2) {
    this.#add("circle", { cx: round(x), cy: round(y), r, fill: "none", stroke: colour,
      "stroke-width": width });
  }

  text(x, y, words, colour, align = "left", bold = false, halo = null) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const made = this.#add("text", { x: round(x), y: round(y), fill: colour,
      "text-anchor": anchor, "dominant-baseline": "central", "font-size": 12,
      "font-weight": bold ? 600 : 400, "font-family": "system-ui, sans-serif",
      ...(halo ? { stroke: halo, "stroke-width": 3.5, "stroke-linejoin": "round", "paint-order": "stroke" } : {}) });
    made.textContent = words.replace(NOT_IN_XML, "\ufffd");
  }

  clip(x, y, width, height, draw) {
    const outer = this.into;
    this.into = this.#add("svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` });
    draw();
    this.into = outer;
  }

  document() {
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(this.root)}\n`;
  }
}

// A small picture of one kind, for the legend.
export function sample(kind, colour, back) {
  const surface = new SvgSurface(16, 16, () => 0);
  surface.marks(kind, [8, 8], 5, colour, back);
  surface.root.setAttribute("aria-hidden", "true");
  return surface.root;
}
