// SPDX-License-Identifier: Apache-2.0

// Charts of time series, as SVG, with a cursor at the slider's time.

import { el, number, svg, table, time, windowAt, words } from './util.js';

const left = 58;
const right = 8;
const top = 8;
const linesMost = 6;

export const narrow = matchMedia('(max-width: 560px)');

// steps are round numbers between two.
export function steps(low, high, about) {
  const raw = (high - low) / about;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + step * 1e-9; k++) out.push(k * step);
  return out;
}

// groups puts series together that have one unit, latency apart from other times: few charts, each of one scale.
export function groups(sets) {
  const found = new Map();
  for (const set of sets) {
    for (const item of set.items) {
      const [figure, of, unit] = item.name;
      const first = figure.split('_')[0];
      const key = unit === 's' ? `${first} s` : unit;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push({ figure, of, unit, edges: set.edges, values: item.values });
    }
  }
  const out = [];
  for (const lines of found.values()) {
    for (let i = 0; i < lines.length; i += linesMost) {
      const some = lines.slice(i, i + linesMost);
      const first = some[0].figure.split('_')[0];
      const alike = some.length > 1 && some.every((l) => l.figure.startsWith(`${first}_`));
      const title = some.length === 1 ? words(some[0].figure) : alike ? first : some[0].unit || 'shares';
      out.push({ title, unit: some[0].unit, lines: some, alike });
    }
  }
  return out;
}

const shownName = (line, group) => words(group.alike ? line.figure.slice(group.title.length + 1) : line.figure);

// chart draws one group. spans are shaded; pick is called with a time that was clicked.
export function chart(group, spans, pick, height = 190) {
  const { lines } = group;
  const width = height > 190 || narrow.matches ? 350 : 560; // as wide as it is shown, so that texts have their size
  let from = Infinity;
  let to = -Infinity;
  let most = 0;
  for (const l of lines) {
    from = Math.min(from, l.edges[0]);
    to = Math.max(to, l.edges[l.edges.length - 1]);
    for (const v of l.values) if (v !== null && v > most) most = v;
  }
  if (!(to > from)) return null;
  if (most === 0) most = 1;
  const bottom = height - 22;
  const ticks = steps(0, most * 1.04, 4);
  const ceiling = Math.max(most * 1.06, ticks[ticks.length - 1]);
  const x = (t) => left + ((t - from) / (to - from)) * (width - left - right);
  const y = (v) => bottom - (v / ceiling) * (bottom - top);
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img',
    'aria-label': `${group.title}: ${lines.map((l) => describe(l)).join('; ')}` });
  for (const s of spans) {
    if (s.to_s > from && s.from_s < to) {
      const x0 = x(Math.max(s.from_s, from));
      root.append(svg('rect', { class: `span ${s.sort}`, x: x0, y: top, height: bottom - top,
        width: Math.max(1, x(Math.min(s.to_s, to)) - x0) }, svg('title', {}, s.name)));
    }
  }
  for (const v of ticks) {
    root.append(svg('line', { class: 'grid', x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      svg('text', { x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, number(v, short(group.unit))));
  }
  for (const t of steps(from, to, width / 80)) {
    root.append(svg('text', { x: x(t), y: height - 6, 'text-anchor': t > to - (to - from) / 30 ? 'end' : 'middle' },
      number(t)));
  }
  root.append(svg('line', { class: 'axis', x1: left, x2: width - right, y1: bottom, y2: bottom }));
  lines.forEach((l, i) => root.append(svg('path', { class: `curve l${i}`, d: curve(l, x, y) })));
  const cursor = svg('line', { class: 'cursor', y1: top, y2: bottom, visibility: 'hidden' });
  const hover = svg('line', { class: 'hover', y1: top, y2: bottom, visibility: 'hidden' });
  root.append(hover, cursor);
  const keys = lines.length === 1 ? [] : lines.map((l, i) => el('span', { class: 'key' }, svg('svg',
    { viewBox: '0 0 18 8', 'aria-hidden': 'true' }, svg('path', { class: `curve l${i}`, d: 'M0 4H18' })),
  shownName(l, group)));
  const figure = el('figure', {}, el('figcaption', {}, el('h3', {}, group.title),
    group.unit && group.title !== group.unit ? el('span', { class: 'key' }, group.unit) : null, ...keys), root);
  point(figure, root, group, { x, from, to, hover, pick, width });
  figure.append(numbers(group));
  figure.setTime = (t) => {
    cursor.setAttribute('visibility', t === null || t < from || t > to ? 'hidden' : 'visible');
    if (t !== null) {
      cursor.setAttribute('x1', x(t));
      cursor.setAttribute('x2', x(t));
    }
  };
  return figure;
}

// short is a unit beside numbers on an axis: durations and shares have it, others in the title.
const short = (unit) => (unit === 's' || unit === '' ? unit : null);

function describe(l) {
  const known = l.values.filter((v) => v !== null);
  if (known.length === 0) return `${words(l.figure)} has no values`;
  const least = known.reduce((a, b) => Math.min(a, b));
  const most = known.reduce((a, b) => Math.max(a, b));
  return `${words(l.figure)} from ${number(least, l.unit)} to ${number(most, l.unit)}`;
}

// curve goes through the middle of windows, and stops where there is no value.
function curve(l, x, y) {
  const parts = [];
  let pen = false;
  l.values.forEach((v, k) => {
    if (v === null) {
      pen = false;
      return;
    }
    parts.push(`${pen ? 'L' : 'M'}${x((l.edges[k] + l.edges[k + 1]) / 2).toFixed(1)} ${y(v).toFixed(1)}`);
    if (!pen && (k + 1 === l.values.length || l.values[k + 1] === null)) parts.push('h1.5');
    pen = true;
  });
  return parts.join('');
}

// point shows the values under the pointer, and passes a click on.
function point(figure, root, group, { x, from, to, hover, pick, width }) {
  const tip = el('div', { class: 'tip', hidden: '' });
  figure.append(tip);
  const at = (e) => {
    const box = root.getBoundingClientRect();
    const t = from + (((e.clientX - box.left) / box.width) * width - left) / (width - left - right) * (to - from);
    return Math.min(Math.max(t, from), to);
  };
  root.addEventListener('pointermove', (e) => {
    const t = at(e);
    hover.setAttribute('x1', x(t));
    hover.setAttribute('x2', x(t));
    hover.setAttribute('visibility', 'visible');
    tip.replaceChildren(el('strong', {}, time(t)), ...group.lines.map((l) => {
      const k = windowAt(l.edges, t);
      return el('div', {}, `${words(l.figure)}: ${number(k < 0 ? null : l.values[k], l.unit)}`);
    }));
    tip.hidden = false;
    const box = figure.getBoundingClientRect();
    const place = e.clientX - box.left;
    tip.style.left = `${place + 12 + tip.offsetWidth > box.width ? Math.max(0, place - tip.offsetWidth - 12)
      : place + 12}px`;
    tip.style.top = '34px';
  });
  root.addEventListener('pointerleave', () => {
    tip.hidden = true;
    hover.setAttribute('visibility', 'hidden');
  });
  root.addEventListener('click', (e) => pick(at(e)));
}

// numbers is the same as a table, made when it is opened.
function numbers(group) {
  const body = el('details', {}, el('summary', {}, 'As a table', el('span', { class: 'sr' }, `: ${group.title}`)));
  body.addEventListener('toggle', () => {
    if (!body.open || body.children.length > 1) return;
    const { lines } = group;
    const { edges } = lines[0];
    const rows = lines[0].values.map((_, k) => [`${number(edges[k])} – ${number(edges[k + 1])}`, ...lines.map((l) => {
      const i = windowAt(l.edges, (edges[k] + edges[k + 1]) / 2);
      return number(i < 0 ? null : l.values[i], l.unit);
    })]);
    body.append(table(`${group.title} by simulated time`, ['simulated seconds', ...lines.map((l) => words(l.figure))],
      rows));
  });
  return body;
}
