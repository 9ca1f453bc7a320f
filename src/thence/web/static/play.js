// Going through an execution: what lies beyond the cursor has not happened yet.

import { ask } from "./api.js";
import { by } from "./dom.js";

export class Player {
  constructor(page) {
    this.page = page;
    this.playing = false;
    by("play").addEventListener("click", () => this.toggle());
    by("step").addEventListener("click", () => this.step(1));
    by("back").addEventListener("click", () => this.step(-1));
    by("unplay").addEventListener("click", () => this.leave());
  }

  async step(by_) {
    const pane = this.page.active;
    if (!pane.summary?.events) return true;
    const u = pane.cursor ?? (by_ > 0 ? pane.view.from : pane.view.from + pane.view.span);
    const next = await ask("step", pane.params({ u, by: by_ }));
    pane.cursor = next.u;
    pane.reveal(next.u);
    pane.redraw();
    this.page.reflect();
    this.page.stable();
    return next.end;
  }

  toggle() {
    if (this.playing) this.stop();
    else this.#play();
  }

  async #play() {
    this.playing = true;
    this.#show();
    while (this.playing) {
      const began = performance.now();
      if (await this.step(1)) break;
      const wait = 1000 / Number(by("speed").value) - (performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, wait)));
    }
    this.stop();
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    this.#show();
    this.page.remember();
  }

  #show() {
    by("play").textContent = this.playing ? "⏸" : "▶";
    by("play").setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  leave() {
    this.stop();
    for (const pane of this.page.panes) {
      pane.cursor = null;
      pane.redraw();
    }
    this.page.remember();
    this.page.reflect();
    this.page.stable();
  }
}
