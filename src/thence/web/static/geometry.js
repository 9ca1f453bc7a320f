// From coordinates of the run (u along time, lanes across) to pixels, left to right or downwards.

const GUTTER = { across: [48, 160], along: 26 };  // left to right: names, times
const GUTTER_DOWN = { across: 30, along: 84 };   // downwards: times are wider than high
const GAP = { min: 20, max: 140 };
const GAP_DOWN = { min: 64, max: 190 };

export class Geometry {
  // crowd: pixels along a lane from one record to the next, in the mean; room: for names.
  constructor(width, height, view, lanes, crowd, room) {
    Object.assign(this, { width, height, view, lanes, crowd });
    this.down = view.dir === "v";
    const gutter = this.down ? GUTTER_DOWN : GUTTER;
    // Where the plot begins: in x and in y.
    const [least, most] = GUTTER.across;
    this.left = this.down ? gutter.along : Math.min(most, Math.max(least, room));
    this.top = this.down ? gutter.across : gutter.along;
    this.length = Math.max(1, this.down ? height - this.top : width - this.left);
    this.breadth = Math.max(1, this.down ? width - this.left : height - this.top);
    const gap = this.down ? GAP_DOWN : GAP;
    const count = Math.max(1, lanes.length);
    this.gap = Math.min(gap.max, Math.max(gap.min, this.breadth / count));
    this.place = new Map(lanes.map((lane, at) => [lane, at]));
    this.over = Math.max(0, count * this.gap - this.breadth);
  }

  get scale() { return this.length / this.view.span; }
  get from() { return this.view.from; }
  get to() { return this.view.from + this.view.span; }

  along(u) { return (this.down ? this.top : this.left) + (u - this.view.from) * this.scale; }
  across(lane) {
    const start = this.down ? this.left : this.top;
    return start + (this.place.get(lane) + 0.5) * this.gap - Math.min(this.view.scroll, this.over);
  }

  xy(u, lane) {
    const t = this.along(u);
    const l = this.across(lane);
    return this.down ? [l, t] : [t, l];
  }

  // Back: the coordinate and the lane at a point.
  at(x, y) {
    const t = this.down ? y - this.top : x - this.left;
    const l = this.down ? x - this.left : y - this.top;
    const place = Math.floor((l + Math.min(this.view.scroll, this.over)) / this.gap);
    return { u: this.view.from + t / this.scale, lane: this.lanes[place], inside: t >= 0 && l >= 0 };
  }

  // Under the marks of a lane, what is left for words.
  get words() { return !this.down && this.gap >= 70 ? 17 : 0; }

  get ring() { return Math.min(this.size + 4, Math.max(this.size + 1.5, this.gap * 0.42)); }

  get size() { return Math.min(6.5, Math.max(2.2, this.crowd * 0.42)); }
}
