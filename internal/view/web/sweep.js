// SPDX-License-Identifier: Apache-2.0

// A sweep: its table, and a figure as curves over a field.

import * as data from './data.js';
import { steps } from './charts.js';
import { $, csv, el, number, svg, table } from './util.js';

let wanted = '';

// showSweep shows the table of sweep.csv. pick is called with the number of a point that was clicked.
export async function showSweep(s, result, pick) {
  const text = await data.file(s, 'sweep.csv', true);
  if (!text) return;
  const [heads, ...rows] = csv(text);
  const keys = result.sweep.map((x) => x.key);
  const column = (name) => heads.indexOf(name);
  const value = (row, name) => (column(name) < 0 || row[column(name)] === '' ? null : Number(row[column(name)]));
  const varies = (name) => rows.some((r) => value(r, name) !== value(rows[0], name));
  const figures = heads.filter((h) => !keys.includes(h) && !/^(events|wall_s|events_per_s|trace_hash|replications\.)/.test(h)
    && !/\.(low|high|half_width|samples)$/.test(h) && rows.every((r) => r[column(h)] === ''
    || Number.isFinite(Number(r[column(h)]))) && varies(h));
  if (figures.length === 0) return;
  const best = ['latency_s.p95', 'latency_s.mean', 'loss_ratio', 'network.time_in_network_s.observed.mean',
    'total.cost_per_s.mean'].find((x) => figures.includes(x)) || figures[0];
  if (!figures.includes(wanted)) wanted = best;
  const select = el('select', {}, ...figures.slice(0, 500).map((f) => el('option', { value: f }, f.replaceAll('_', ' '))));
  select.value = wanted;
  const place = el('div');
  const draw = () => {
    wanted = select.value;
    const base = interval(wanted, heads);
    const points = rows.map((r, i) => ({ n: i + 1, keys: keys.map((k) => r[column(k)]), y: value(r, wanted),
      low: base && value(r, `${base}.low`), high: base && value(r, `${base}.high`) }));
    place.replaceChildren(curves(keys, points, wanted, pick), table('Sweep', [...keys.map((k) => k.split('.').pop()),
      wanted, '95 % from', 'to', ...['throughput_rps', 'latency_s.mean', 'latency_s.p99'].filter((x) => figures.includes(x)
        && x !== wanted)], points.map((p, i) => [...p.keys, number(p.y), number(p.low), number(p.high),
      ...['throughput_rps', 'latency_s.mean', 'latency_s.p99'].filter((x) => figures.includes(x) && x !== wanted)
        .map((x) => number(value(rows[i], x)))])));
  };
  select.addEventListener('change', draw);
  $('sweepbody').replaceChildren(el('div', { class: 'bar' }, el('label', {}, 'Figure ', select)), place);
  draw();
  $('sweep').hidden = false;
}

// interval is the name of the interval of a figure, where there is one.
function interval(name, heads) {
  const parts = name.split('.');
  const joined = `confidence_95.${parts[0].replace(/_s$/, '')}_${parts[1]}_s`;
  return [name.replace(/\.mean$/, ''), `confidence_95.${name}`, joined].find((x) => heads.includes(`${x}.low`));
}

// curves has the first field from left to right where it is numbers, and a line for each of the others' values.
function curves(keys, points, name, pick) {
  const [width, height, left, bottom] = [760, 300, 66, 250];
  const numeric = points.every((p) => Number.isFinite(Number(p.keys[0])));
  const names = [...new Set(points.map((p) => p.keys[0]))];
  const x0 = (p) => (numeric ? Number(p.keys[0]) : names.indexOf(p.keys[0]));
  const xs = points.map(x0);
  const [from, to] = [Math.min(...xs), Math.max(...xs)];
  const ys = points.flatMap((p) => [p.y, p.low, p.high]).filter((y) => y !== null && Number.isFinite(y));
  const [least, most] = [Math.min(0, ...ys), Math.max(0, ...ys)];
  const x = (v) => left + ((v - from) / (to - from || 1)) * (width - left - 20);
  const y = (v) => bottom - ((v - least) / (most - least || 1)) * (bottom - 14);
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img',
    'aria-label': `${name} by ${keys.join(' and ')}; the table below has the same` });
  for (const v of steps(least, most, 5)) {
    root.append(svg('line', { class: 'grid', x1: left, x2: width - 20, y1: y(v), y2: y(v) }),
      svg('text', { x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, number(v)));
  }
  const marks = numeric && names.length > 12 ? steps(from, to, 8) : names.map((n, i) => (numeric ? Number(n) : i));
  for (const v of marks) {
    root.append(svg('text', { x: x(v), y: bottom + 18, 'text-anchor': 'middle' }, numeric ? number(v) : names[v]));
  }
  root.append(svg('text', { x: (left + width) / 2, y: height - 8, 'text-anchor': 'middle' }, keys[0]));
  const lines = Map.groupBy(points, (p) => p.keys.slice(1).join(', '));
  const shown = [...lines].slice(0, 6);
  shown.forEach(([, list], i) => {
    const known = list.filter((p) => p.y !== null).sort((a, b) => x0(a) - x0(b));
    root.append(svg('path', { class: `curve l${i}`, d: known.map((p, k) => `${k ? 'L' : 'M'}${x(x0(p))} ${y(p.y)}`).join('') }));
    for (const p of known) {
      if (p.low !== null && p.high !== null) {
        root.append(svg('path', { class: `curve l${i}`, d: `M${x(x0(p))} ${y(p.low)}V${y(p.high)}` }));
      }
      root.append(svg('circle', { class: `f${i}`, cx: x(x0(p)), cy: y(p.y), r: 4, onclick: () => pick(p.n) },
        svg('title', {}, `${p.keys.join(', ')}: ${number(p.y)}`)));
    }
  });
  const more = lines.size > shown.length ? `${lines.size - shown.length} more in the table` : '';
  return el('figure', {}, el('figcaption', {}, el('h3', {}, name.replaceAll('_', ' ')), ...(keys.length > 1
    ? [el('span', { class: 'key' }, `${keys.slice(1).map((k) => k.split('.').pop()).join(', ')}:`),
      ...shown.map(([label], i) => el('span', { class: 'key' }, svg('svg', { viewBox: '0 0 18 8', 'aria-hidden': 'true' },
        svg('path', { class: `curve l${i}`, d: 'M0 4H18' })), label))] : []), more ? el('span', { class: 'key' }, more) : null),
  root);
}
