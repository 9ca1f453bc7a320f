// Colours, after Okabe and Ito: told apart by people who do not see red, green or blue. No meaning
// is in colour alone: kinds have shapes, relations are said in words.

const LIGHT = {
  back: "#ffffff", gutter: "#f6f7f8", ink: "#1b1f24", faint: "#6a737d", line: "#c9ced4",
  grid: "#eceff2", band: "#f1f3f5", send: "#0072b2", deliver: "#00805c", stable: "#a8507f",
  receive: "#6a737d", other: "#57606a", arrow: "#6f8599", phantom: "#a8507f", hold: "#b87700",
  holdText: "#7a5200", past: "#0072b2", future: "#b87700", concurrent: "#868f98", bad: "#c8102e",
  self: "#000000", frontier: "#00805c", cut: "#a8507f", cursor: "#d55e00", path: "#d55e00",
};
const DARK = {
  back: "#14181d", gutter: "#1b2027", ink: "#e6e9ec", faint: "#9aa4ae", line: "#49525c",
  grid: "#232a32", band: "#1c232a", send: "#56b4e9", deliver: "#2cc79b", stable: "#dd9cc0",
  receive: "#9aa4ae", other: "#b4bcc4", arrow: "#6e8194", phantom: "#dd9cc0", hold: "#e69f00",
  holdText: "#f2c04f", past: "#56b4e9", future: "#f0c040", concurrent: "#636e79", bad: "#ff5a6e",
  self: "#ffffff", frontier: "#2cc79b", cut: "#dd9cc0", cursor: "#ff7f2a", path: "#ff7f2a",
};

export const KINDS = [
  "send", "receive", "ready", "deliver", "stable", "phantom", "sample", "join", "leave", "evict",
  "snapshot", "restart", "end", "other",
];
export const RELATION = { past: 1, self: 2, future: 3, concurrent: 4 };
const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

export function theme() {
  return document.documentElement.dataset.theme || "auto";
}

export function setTheme(name) {
  document.documentElement.dataset.theme = name;
}

export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  setTheme(next);
  return next;
}

export function palette() {
  const name = theme();
  return (name === "auto" ? dark.matches : name === "dark") ? DARK : LIGHT;
}

export function onScheme(callback) {
  dark.addEventListener("change", callback);
}

export function kindColour(colours, kind) {
  if (kind === "send" || kind === "deliver" || kind === "stable" || kind === "phantom") {
    return colours[kind];
  }
  return kind === "receive" || kind === "ready" || kind === "sample" ? colours.receive : colours.other;
}

export function relationColour(colours, relation) {
  return [colours.other, colours.past, colours.self, colours.future, colours.concurrent][relation];
}
