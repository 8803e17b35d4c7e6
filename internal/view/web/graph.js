// SPDX-License-Identifier: Apache-2.0

// The picture of boxes and links, on a canvas: thousands of them stay smooth.

import { css, levels, ramp } from './util.js';

const shapes = ['circle', 'box', 'diamond', 'hexagon', 'triangle', 'house'];
const labelsMax = 250;
const world = 1000; // height of the picture in units of its own

// Graph draws into a canvas. chosen(thing) is called when a person chooses a box or link; null: none.
export class Graph {
  constructor(stage, canvas, chosen) {
    Object.assign(this, { stage, canvas, chosen, boxes: [], links: [], kinds: [], selected: null, hovered: null, k: 1, dx: 0,
      dy: 0, moved: false, queued: false, marks: new Map(), byId: new Map() });
    new ResizeObserver(() => this.resize()).observe(stage);
    this.listen();
  }

  // load takes the content of graph.json. What was chosen, and where the picture stands, stays.
  load(graph) {
    const before = this.selected && this.selected.id;
    const aspect = Math.min(Math.max(Number(graph.aspect) || 1, 0.1), 10);
    this.byId = new Map();
    this.boxes = (graph.boxes || []).map((b) => ({ ...b, sort: 'box', level: -1, px: (b.x ?? 0.5) * world * aspect,
      py: (b.y ?? 0.5) * world, out: [], near: [] }));
    for (const b of this.boxes) this.byId.set(b.id, b);
    const pairs = new Set((graph.links || []).map((l) => `${l.from}\n${l.to}`));
    this.links = [];
    for (const l of graph.links || []) {
      const a = this.byId.get(l.from);
      const b = this.byId.get(l.to);
      if (!a || !b) continue;
      const link = { ...l, sort: 'link', level: -1, a, b };
      link.bend = a === b ? 0 : pairs.has(`${l.to}\n${l.from}`) ? 0.09 : 0;
      link.mx = (a.px + b.px) / 2 - (b.py - a.py) * link.bend;
      link.my = (a.py + b.py) / 2 + (b.px - a.px) * link.bend;
      a.out.push(link);
      if (a !== b) b.near.push(link);
      this.links.push(link);
      if (!this.byId.has(l.id)) this.byId.set(l.id, link);
    }
    this.kinds = [...new Set(this.boxes.map((b) => b.kind || ''))];
    for (const b of this.boxes) b.shape = shapes[this.kinds.indexOf(b.kind || '') % shapes.length];
    const xs = this.boxes.map((b) => b.px);
    const ys = this.boxes.map((b) => b.py);
    const least = (list) => list.reduce((a, b) => Math.min(a, b), Infinity);
    const most = (list) => list.reduce((a, b) => Math.max(a, b), -Infinity);
    this.bounds = [least(xs), least(ys), most(xs), most(ys)];
    this.spacing = spacing(this.boxes);
    this.map = graticule(this.boxes);
    this.selected = (before && this.byId.get(before)) || null;
    this.resize();
  }

  // paint takes what each thing's share is, and which are down or disturbed: Map of id to 'down' or 'spike'.
  paint(share, marks) {
    this.marks = marks;
    for (const list of [this.boxes, this.links]) {
      for (const t of list) {
        const x = share(t);
        t.share = x;
        t.level = x === null || Number.isNaN(x) ? -1
          : Math.min(levels - 1, Math.max(0, Math.round(x * (levels - 1))));
      }
    }
    this.queue();
  }

  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const { clientWidth: w, clientHeight: h } = this.stage;
    if (!w || !h) return;
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(h * ratio)) {
      this.canvas.width = Math.round(w * ratio);
      this.canvas.height = Math.round(h * ratio);
    }
    this.ratio = ratio;
    this.w = w;
    this.h = h;
    if (!this.moved) this.fit(); else this.queue();
  }

  fit() {
    if (!this.bounds || this.boxes.length === 0 || !this.w) return;
    const [x0, y0, x1, y1] = this.bounds;
    const pad = this.w < 500 ? 34 : 60;
    this.k = Math.min((this.w - 2 * pad) / Math.max(x1 - x0, 1), (this.h - 2 * pad) / Math.max(y1 - y0, 1), 2);
    this.dx = this.w / 2 - (this.k * (x0 + x1)) / 2;
    this.dy = this.h / 2 - (this.k * (y0 + y1)) / 2;
    this.moved = false;
    this.queue();
  }

  zoom(factor, x = this.w / 2, y = this.h / 2) {
    const k = Math.min(Math.max(this.k * factor, 0.02), 60);
    this.dx = x - ((x - this.dx) * k) / this.k;
    this.dy = y - ((y - this.dy) * k) / this.k;
    this.k = k;
    this.moved = true;
    this.queue();
  }

  select(thing, show = false) {
    this.selected = thing;
    if (thing && show) {
      const [x, y] = thing.sort === 'box' ? [thing.px, thing.py] : [thing.mx, thing.my];
      const sx = x * this.k + this.dx;
      const sy = y * this.k + this.dy;
      if (sx < 30 || sy < 30 || sx > this.w - 30 || sy > this.h - 30) {
        this.dx += this.w / 2 - sx;
        this.dy += this.h / 2 - sy;
        this.moved = true;
      }
    }
    this.queue();
    this.chosen(thing);
  }

  queue() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      if (this.w) this.draw();
    });
  }

  radius() { return Math.min(Math.max(this.spacing * this.k * 0.33, 3), this.map ? 9 : 14); }

  draw() {
    const c = this.canvas.getContext('2d');
    const colours = ramp();
    const [ink, soft, line, back, card, accent] = ['--ink', '--soft', '--line', '--back', '--card', '--accent'].map(css);
    const style = { colours, ink, soft, line, back, card, accent, down: css('--down'), spike: css('--spike') };
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.w, this.h);
    if (this.map) this.drawMap(c, style);
    this.drawLinks(c, style);
    this.drawBoxes(c, style);
    this.drawLabels(c, style);
  }

  drawMap(c, style) {
    c.strokeStyle = style.line;
    c.lineWidth = 1;
    c.fillStyle = style.soft;
    c.font = '10px system-ui, sans-serif';
    const { longitude, latitude } = this.map;
    const span = (this.w / this.k) / Math.abs(longitude.slope);
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60].find((s) => span / s < 9) || 90;
    const degrees = (x, plus, minus) => `${Number(Math.abs(x).toFixed(1))}°${x > 0 ? plus : x < 0 ? minus : ''}`;
    const each = (axis, low, high, draw) => {
      const a = (low - axis.at) / axis.slope;
      const b = (high - axis.at) / axis.slope;
      for (let d = Math.ceil(Math.min(a, b) / step) * step; d <= Math.max(a, b); d += step) draw(d);
    };
    c.beginPath();
    each(longitude, -this.dx / this.k, (this.w - this.dx) / this.k, (d) => {
      const x = (longitude.at + longitude.slope * d) * this.k + this.dx;
      c.moveTo(x, 0);
      c.lineTo(x, this.h);
      c.fillText(degrees(d, 'E', 'W'), x + 3, this.h - 5);
    });
    each(latitude, -this.dy / this.k, (this.h - this.dy) / this.k, (d) => {
      const y = (latitude.at + latitude.slope * d) * this.k + this.dy;
      c.moveTo(0, y);
      c.lineTo(this.w, y);
      c.fillText(degrees(d, 'N', 'S'), 4, y - 4);
    });
    c.stroke();
  }

  // path adds a link to the path. A link to where it begins is a loop above the box.
  path(c, l) {
    const { k, dx, dy } = this;
    const x = l.a.px * k + dx;
    const y = l.a.py * k + dy;
    if (l.a === l.b) {
      const r = this.radius();
      c.moveTo(x - r * 0.5, y - r);
      c.bezierCurveTo(x - 2 * r, y - 3.4 * r, x + 2 * r, y - 3.4 * r, x + r * 0.5, y - r);
      return;
    }
    c.moveTo(x, y);
    if (l.bend) c.quadraticCurveTo(l.mx * k + dx, l.my * k + dy, l.b.px * k + dx, l.b.py * k + dy);
    else c.lineTo(l.b.px * k + dx, l.b.py * k + dy);
  }

  drawLinks(c, style) {
    const bins = Array.from({ length: levels + 1 }, () => []);
    const special = [];
    for (const l of this.links) {
      bins[l.level + 1].push(l);
      if (this.marks.has(l.id) || l === this.selected || l === this.hovered) special.push(l);
    }
    const scale = this.links.length > 1500 ? 0.6 : 1;
    const arrows = this.links.length <= 600;
    bins.forEach((list, i) => {
      if (list.length === 0) return;
      c.strokeStyle = i === 0 ? style.soft : style.colours[i - 1];
      c.fillStyle = c.strokeStyle;
      c.globalAlpha = i === 0 ? 0.45 : 0.9;
      c.lineWidth = scale * (i === 0 ? 1.1 : 1.2 + (4.2 * (i - 1)) / levels);
      c.beginPath();
      for (const l of list) this.path(c, l);
      c.stroke();
      if (arrows) {
        c.beginPath();
        for (const l of list) this.arrow(c, l, 3.2 + c.lineWidth);
        c.fill();
      }
    });
    c.globalAlpha = 1;
    for (const l of special) {
      const mark = this.marks.get(l.id);
      c.lineWidth = l === this.selected ? 5 : 3.5;
      c.strokeStyle = mark ? style[mark] : style.accent;
      c.setLineDash(mark === 'down' ? [3, 6] : mark ? [10, 4] : []);
      c.beginPath();
      this.path(c, l);
      c.stroke();
      c.setLineDash([]);
      if (mark === 'down') {
        const [x, y] = this.middle(l);
        cross(c, x, y, 7, style);
      }
    }
  }

  // middle of a link, on the screen.
  middle(l) {
    if (l.a === l.b) return [l.a.px * this.k + this.dx, l.a.py * this.k + this.dy - 2.8 * this.radius()];
    const x = (l.a.px + 2 * l.mx + l.b.px) / 4;
    const y = (l.a.py + 2 * l.my + l.b.py) / 4;
    return [x * this.k + this.dx, y * this.k + this.dy];
  }

  arrow(c, l, size) {
    const x = (l.b.px - l.a.px) * this.k;
    const y = (l.b.py - l.a.py) * this.k;
    const length = Math.hypot(x, y);
    if (length < 40) return;
    const [mx, my] = this.middle(l);
    const ux = (x / length) * size;
    const uy = (y / length) * size;
    c.moveTo(mx + ux, my + uy);
    c.lineTo(mx - ux - uy * 0.8, my - uy + ux * 0.8);
    c.lineTo(mx - ux + uy * 0.8, my - uy - ux * 0.8);
    c.closePath();
  }

  drawBoxes(c, style) {
    const r = this.radius();
    const bins = Array.from({ length: levels + 1 }, () => []);
    for (const b of this.boxes) {
      const x = b.px * this.k + this.dx;
      const y = b.py * this.k + this.dy;
      if (x > -40 && y > -40 && x < this.w + 40 && y < this.h + 40) bins[b.level + 1].push([b, x, y]);
    }
    c.lineWidth = r > 5 ? 1.6 : 0.8;
    bins.forEach((list, i) => {
      if (list.length === 0) return;
      c.fillStyle = i === 0 ? style.card : style.colours[i - 1];
      c.strokeStyle = i === 0 ? style.soft : style.ink;
      c.beginPath();
      for (const [b, x, y] of list) outline(c, b.shape, x, y, r);
      c.fill();
      c.stroke();
    });
    for (const list of bins) {
      for (const [b, x, y] of list) {
        const mark = this.marks.get(b.id);
        if (mark) {
          c.strokeStyle = style[mark];
          c.lineWidth = 3;
          c.setLineDash(mark === 'down' ? [] : [5, 3]);
          c.beginPath();
          c.arc(x, y, r + 6, 0, 2 * Math.PI);
          c.stroke();
          c.setLineDash([]);
          if (mark === 'down') cross(c, x, y, Math.max(r * 0.7, 5), style);
        }
        if (b === this.selected || b === this.hovered) {
          c.strokeStyle = style.accent;
          c.lineWidth = b === this.selected ? 3.5 : 2;
          c.beginPath();
          outline(c, b.shape, x, y, r + 3.5);
          c.stroke();
        }
      }
    }
  }

  // drawLabels writes names where there is room: first of what is chosen, and of what has most load.
  drawLabels(c, style) {
    const r = this.radius();
    const all = [];
    for (const b of this.boxes) {
      const x = b.px * this.k + this.dx;
      const y = b.py * this.k + this.dy;
      if (x > 0 && y > 0 && x < this.w && y < this.h) {
        const first = b === this.selected ? 9 : b === this.hovered ? 8 : this.marks.has(b.id) ? 5 : 0;
        all.push([first + Math.max(b.share ?? 0, 0), b, x, y]);
      }
    }
    if (r < 4.5 && all.length > 400) all.splice(0, all.length, ...all.filter((a) => a[0] >= 5));
    all.sort((a, b) => b[0] - a[0]);
    const taken = [];
    c.font = '12px system-ui, sans-serif';
    c.textAlign = 'center';
    c.lineJoin = 'round';
    c.lineWidth = 3.5;
    c.strokeStyle = style.back;
    c.fillStyle = style.ink;
    for (const [first, b, x, y] of all.slice(0, labelsMax)) {
      const text = b.id.length > 26 ? `${b.id.slice(0, 25)}…` : b.id;
      const half = c.measureText(text).width / 2 + 2;
      const spot = [r + 14, -r - 6].map((d) => [x - half, y + d - 11, x + half, y + d + 4, y + d]).find((s) => first >= 5
        || !taken.some((o) => s[0] < o[2] && s[2] > o[0] && s[1] < o[3] && s[3] > o[1]));
      if (!spot) continue;
      taken.push(spot);
      c.strokeText(text, x, spot[4]);
      c.fillText(text, x, spot[4]);
    }
    c.textAlign = 'start';
  }

  // find is the box, or else the link, at a place on the screen.
  find(x, y) {
    const reach = Math.max(this.radius() + 4, 10);
    let best = null;
    let least = reach;
    for (const b of this.boxes) {
      const d = Math.hypot(b.px * this.k + this.dx - x, b.py * this.k + this.dy - y);
      if (d < least) [best, least] = [b, d];
    }
    if (best) return best;
    least = 7;
    for (const l of this.links) {
      const d = this.away(l, x, y);
      if (d < least) [best, least] = [l, d];
    }
    return best;
  }

  away(l, x, y) {
    if (l.a === l.b) {
      const [mx, my] = this.middle(l);
      return Math.hypot(mx - x, my - y);
    }
    let least = Infinity;
    let px = l.a.px * this.k + this.dx;
    let py = l.a.py * this.k + this.dy;
    const parts = l.bend ? 8 : 1;
    for (let i = 1; i <= parts; i++) {
      const t = i / parts;
      const qx = ((1 - t) ** 2 * l.a.px + 2 * t * (1 - t) * l.mx + t * t * l.b.px) * this.k + this.dx;
      const qy = ((1 - t) ** 2 * l.a.py + 2 * t * (1 - t) * l.my + t * t * l.b.py) * this.k + this.dy;
      const length = (qx - px) ** 2 + (qy - py) ** 2 || 1;
      const at = Math.min(Math.max(((x - px) * (qx - px) + (y - py) * (qy - py)) / length, 0), 1);
      least = Math.min(least, Math.hypot(px + at * (qx - px) - x, py + at * (qy - py) - y));
      [px, py] = [qx, qy];
    }
    return least;
  }

  listen() {
    const { stage } = this;
    const pointers = new Map();
    let way = 0;
    const place = (e) => {
      const box = stage.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    stage.addEventListener('pointerdown', (e) => {
      stage.setPointerCapture(e.pointerId);
      pointers.set(e.pointerId, place(e));
      way = 0;
    });
    stage.addEventListener('pointermove', (e) => {
      const [x, y] = place(e);
      const last = pointers.get(e.pointerId);
      if (!last) {
        const found = this.find(x, y);
        stage.style.cursor = found ? 'pointer' : 'grab';
        if (found !== this.hovered) {
          this.hovered = found;
          this.queue();
        }
        return;
      }
      way += Math.hypot(x - last[0], y - last[1]);
      const others = [...pointers].filter(([id]) => id !== e.pointerId).map(([, p]) => p);
      if (others.length) {
        const [ox, oy] = others[0];
        this.zoom(Math.hypot(x - ox, y - oy) / Math.max(Math.hypot(last[0] - ox, last[1] - oy), 1), ox, oy);
      } else if (way > 4) {
        this.dx += x - last[0];
        this.dy += y - last[1];
        this.moved = true;
        this.queue();
      }
      pointers.set(e.pointerId, [x, y]);
    });
    const up = (e) => {
      const [x, y] = place(e);
      if (pointers.delete(e.pointerId) && e.type === 'pointerup' && way <= 4) this.select(this.find(x, y));
    };
    stage.addEventListener('pointerup', up);
    stage.addEventListener('pointercancel', up);
    stage.addEventListener('pointerleave', () => {
      this.hovered = null;
      this.queue();
    });
    stage.addEventListener('wheel', (e) => {
      e.preventDefault();
      const [x, y] = place(e);
      this.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), x, y);
    }, { passive: false });
    stage.addEventListener('keydown', (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || !this.key(e.key)) return;
      e.preventDefault();
    });
  }

  // key does what a key says; false: nothing.
  key(key) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (ways[key]) this.go(...ways[key]);
    else if (key === '+' || key === '=') this.zoom(1.3);
    else if (key === '-') this.zoom(1 / 1.3);
    else if (key === '0') this.fit();
    else if (key === 'Escape') this.select(null);
    else if (key === 'Enter' || key === ' ') this.nextLink();
    else return false;
    return true;
  }

  // go chooses the next box in a direction.
  go(x, y) {
    const s = this.selected;
    if (this.boxes.length === 0) return;
    if (!s) {
      this.select(this.boxes[0], true);
      return;
    }
    const at = s.sort === 'box' ? s : (x + y > 0 ? s.b : s.a);
    let best = null;
    let least = Infinity;
    for (const b of this.boxes) {
      const along = (b.px - at.px) * x + (b.py - at.py) * y;
      const aside = Math.abs((b.px - at.px) * y) + Math.abs((b.py - at.py) * x);
      if (b !== at && along > 1e-9 && along + 2.5 * aside < least) [best, least] = [b, along + 2.5 * aside];
    }
    this.select(best || at, true);
  }

  // nextLink goes through the links of the box, or of where the link begins.
  nextLink() {
    const s = this.selected;
    if (!s) return this.go(1, 0);
    const box = s.sort === 'box' ? s : this.base || s.a;
    if (s.sort === 'box') this.base = s;
    const list = [...box.out, ...box.near];
    if (list.length) this.select(list[(list.indexOf(s) + 1) % list.length], true);
    return undefined;
  }
}

function outline(c, shape, x, y, r) {
  const points = {
    box: [[-1, -1], [1, -1], [1, 1], [-1, 1]], diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
    hexagon: [[-0.6, -1.1], [0.6, -1.1], [1.25, 0], [0.6, 1.1], [-0.6, 1.1], [-1.25, 0]],
    triangle: [[-1.05, -1.2], [1.3, 0], [-1.05, 1.2]], house: [[-1, 1], [-1, -0.3], [0, -1.3], [1, -0.3], [1, 1]],
  }[shape];
  if (!points) {
    c.moveTo(x + r, y);
    c.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  points.forEach(([px, py], i) => (i ? c.lineTo(x + px * r, y + py * r) : c.moveTo(x + px * r, y + py * r)));
  c.closePath();
}

function cross(c, x, y, r, style) {
  for (const [colour, width] of [[style.card, 6], [style.down, 3]]) {
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x - r, y - r);
    c.lineTo(x + r, y + r);
    c.moveTo(x + r, y - r);
    c.lineTo(x - r, y + r);
    c.stroke();
  }
}

// symbol draws the shape of a kind for the legend.
export function symbol(canvas, kind, kinds) {
  const c = canvas.getContext('2d');
  c.strokeStyle = css('--soft');
  c.lineWidth = 1.5;
  c.beginPath();
  outline(c, shapes[kinds.indexOf(kind) % shapes.length], 9, 9, 5.5);
  c.stroke();
}

// spacing is how far apart neighbours usually are: the median of some.
function spacing(boxes) {
  const some = boxes.filter((_, i) => i % Math.ceil(boxes.length / 200) === 0);
  const near = some.map((a) => boxes.reduce((m, b) => (a === b ? m
    : Math.min(m, Math.hypot(a.px - b.px, a.py - b.py))), world / 4));
  return near.sort((a, b) => a - b)[near.length >> 1] || world / 4;
}

// graticule fits degrees to the picture: maps are linear in both. null: it is no map.
function graticule(boxes) {
  const placed = boxes.filter((b) => Number.isFinite(b.latitude) && Number.isFinite(b.longitude));
  if (placed.length < 2 || placed.length * 2 < boxes.length) return null;
  const line = (from, to) => {
    const n = placed.length;
    const mx = placed.reduce((s, b) => s + b[from], 0) / n;
    const my = placed.reduce((s, b) => s + b[to], 0) / n;
    const xx = placed.reduce((s, b) => s + (b[from] - mx) ** 2, 0);
    const slope = placed.reduce((s, b) => s + (b[from] - mx) * (b[to] - my), 0) / xx;
    return { slope, at: my - slope * mx };
  };
  const map = { longitude: line('longitude', 'px'), latitude: line('latitude', 'py') };
  return Number.isFinite(map.longitude.slope) && Number.isFinite(map.latitude.slope) && map.longitude.slope > 0
    && map.latitude.slope < 0 ? map : null;
}
