// What the page says: in the line above the picture, to screen readers, and beside the pointer.

import { by } from "./dom.js";

// The first of these that has words is shown. What was said of something that was just done goes
// with the next thing that is done.
const ABOUT = ["stopped", "error", "hint", "link", "arrows", "notes"];
const PASSING = ["error", "hint", "link"];
const notices = new Map();

export function say(words) { by("live").textContent = words; }

export function notice(words, about) {
  notices.set(about, words);
  const shown = ABOUT.map((each) => notices.get(each)).find(Boolean) ?? "";
  const box = by("notice");
  if (box.textContent !== shown) box.textContent = shown;
  box.hidden = !shown;
}

export function passing() {
  const done = (event) => {
    const reading = event.target.closest?.("#notice") || event.ctrlKey || event.metaKey;
    if (!reading) for (const about of PASSING) if (notices.get(about)) notice("", about);
  };
  // Not as soon as a pointer is down: what it is on would move away from under it.
  for (const name of ["click", "keydown"]) document.addEventListener(name, done, true);
}

export function tip(words, x = 0, y = 0) {
  const box = by("tip");
  box.hidden = !words;
  if (!words) return;
  box.textContent = words;
  box.style.left = `${Math.min(x + 14, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(y + 14, innerHeight - box.offsetHeight - 8)}px`;
}
