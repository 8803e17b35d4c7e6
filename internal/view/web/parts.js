// SPDX-License-Identifier: Apache-2.0

// The parts of the page that are figures and tables.

import * as data from './data.js';
import { narrow } from './charts.js';
import { $, el, flat, number, svg, table, time, words } from './util.js';

// facts is what ran, in one line.
export function facts(result, s) {
  if (!result) return s.live ? 'no results yet' : '';
  const parts = [];
  if (result.sweep) parts.push(`${result.points} points of a sweep over ${result.sweep.map((x) => x.key).join(', ')}`);
  if (result.nodes) parts.push(`${number(result.nodes)} nodes`);
  if (result.horizon_s) parts.push(`${time(result.horizon_s)} simulated`);
  if (result.replications > 1) parts.push(`${result.replications} replications`);
  if (result.events) parts.push(`${number(result.events)} events in ${number(result.wall_s, 's', 3)}`);
  if (result.workers) parts.push(result.workers === 1 ? '1 worker' : `${result.workers} workers`);
  if (result.seed !== undefined) parts.push(`seed ${result.seed}`);
  if (result.interrupted) parts.push('interrupted');
  return parts.join(' · ');
}

// showSummary has the figures that matter: those of the first screen, or, of what has none, the first of the results.
export function showSummary(overview, result) {
  let tiles = [];
  const rows = overview && overview.blocks && overview.blocks[0] ? overview.blocks[0].rows || [] : [];
  if (rows.length) {
    const { heads } = overview.blocks[0];
    tiles = rows.slice(0, 12).map((r) => {
      const [first, ...more] = r.cells.map((c) => c.text);
      const extra = [];
      const from = heads.indexOf('95 % from') - 2;
      if (from >= 0 && more[from] && more[from] !== '-') extra.push(`95 %: ${more[from]} – ${more[from + 1]}`);
      more.forEach((text, i) => {
        if (text && text !== '-' && (from < 0 || (i !== from && i !== from + 1))) extra.push(`${heads[i + 2] || ''} ${text}`);
      });
      return el('div', { class: 'tile' }, el('div', { class: 'name' }, r.name),
        valueOf(first || '–', r.cells[0] && r.cells[0].bad),
        ...extra.map((x) => el('div', { class: 'extra' }, x)));
    });
  } else if (result && result.results) {
    tiles = flat(result.results).filter(([name, x]) => typeof x === 'number' && !/horizon|simulated/.test(name))
      .slice(0, 8).map(([name, x]) => el('div', { class: 'tile' }, el('div', { class: 'name' },
        words(name).replaceAll('.', ' ')), valueOf(number(x, /_s(\.|$)/.test(name) ? 's' : null))));
  }
  $('tiles').replaceChildren(...tiles);
  $('summary').hidden = tiles.length === 0;
}

// valueOf is a number, with its unit in smaller letters.
function valueOf(text, bad) {
  const [, x, unit] = /^(\S+)(?: (.*))?$/s.exec(text) || [null, text, ''];
  return el('div', { class: `value${bad ? ' bad' : ''}` }, x, unit ? el('small', {}, ` ${unit}`) : null);
}

// showBlocks has the other tables of the first screen: what outages did, the busiest.
export function showBlocks(overview) {
  const blocks = overview && overview.blocks ? overview.blocks.slice(1).filter((b) => b.rows && b.rows.length) : [];
  const texts = overview ? [...(overview.notes || []), ...(overview.remarks || [])] : [];
  $('blocks').replaceChildren(...blocks.map((b) => el('div', {}, el('h2', {}, b.heads[0]),
    table(b.heads[0], ['', ...b.heads.slice(1)], b.rows.map((r) => [r.name, ...r.cells])),
    b.more ? el('p', { class: 'note' }, `and ${number(b.more)} more`) : null)),
  ...texts.map((t) => el('p', { class: 'note' }, t)));
  $('blocks').hidden = blocks.length + texts.length === 0;
}

const history = new Map(); // of each worker: looks, oldest first
const looksMax = 240;
const kinds = ['busy', 'blocked', 'parked'];

// showWorkers has what workers do, while they do it; behind the end, what they did.
export function showWorkers(result, live) {
  if (live && live.state === 'running' && live.workers && live.workers.length) {
    for (const w of live.workers) {
      if (!history.has(w.index)) history.set(w.index, []);
      const list = history.get(w.index);
      list.push(w);
      if (list.length > looksMax) list.shift();
    }
    const rows = live.workers.slice(0, 32).map((w) => el('div', {}, lane(w, history.get(w.index))));
    $('workerbody').replaceChildren(key(kinds), ...rows, table('Workers', ['worker', 'simulated', 'events/s', 'busy',
      'blocked', 'parked', 'state'], live.workers.map((w) => [`worker ${w.index}`, time(Number((w.epoch_s || 0).toPrecision(5))),
      number(w.events_per_s, null, 3), number(w.busy, ''), number(w.blocked, ''), number(w.parked, ''), w.state || ''])));
    $('workers').hidden = false;
    return;
  }
  const done = result && result.per_worker;
  $('workers').hidden = !done || !done.length;
  if (!done) return;
  const names = ['working', 'blocked', 'no room', 'reporting'];
  const most = done.reduce((m, w) => Math.max(m, w.wall_s), 0) || 1;
  const room = narrow.matches ? 240 : 800;
  const bars = svg('svg', { viewBox: `0 0 ${room + 90} ${done.length * 26 + 4}`, class: 'workers', role: 'img',
    'aria-label': 'What workers spent their time with; the table below has the same' });
  done.slice(0, 64).forEach((w, i) => {
    let x = 90;
    bars.append(svg('text', { x: 0, y: i * 26 + 17 }, `worker ${w.worker}`));
    [w.working_s, w.blocked_s, w.room_s, w.report_s].forEach((s, k) => {
      const width = (room * (s || 0)) / most;
      bars.append(svg('rect', { class: `w${k}`, x, y: i * 26 + 3, height: 20, width, 'stroke-width': 0 },
        svg('title', {}, `${names[k]} ${number(s, 's', 3)}`)));
      x += width;
    });
  });
  $('workerbody').replaceChildren(key(names), bars, table('Workers', ['worker', 'nodes', 'events', 'time', 'working',
    'blocked', 'no room', 'processor'], done.map((w) => [`worker ${w.worker}`, number(w.nodes), number(w.events),
    ...[w.wall_s, w.working_s, w.blocked_s, w.room_s, w.cpu_s].map((x) => number(x, 's', 3))])));
}

const key = (names) => el('p', { class: 'note' }, ...names.map((n, i) => el('span', { class: 'key' }, svg('svg',
  { viewBox: '0 0 18 8', 'aria-hidden': 'true' }, svg('rect', { class: `w${i}`, width: 16, height: 8 })), `${n}  `)));

// lane is a worker's looks, one beside the other: how its time was shared.
function lane(w, looks) {
  const room = narrow.matches ? 240 : 800;
  const root = svg('svg', { viewBox: `0 0 ${room + 90} 40`, class: 'workers', role: 'img', 'aria-label':
    `worker ${w.index}: ${kinds.map((k) => `${k} ${number(w[k] ?? null, '')}`).join(', ')}` });
  root.append(svg('text', { x: 0, y: 24 }, `worker ${w.index}`));
  const step = room / looksMax;
  kinds.forEach((k, i) => {
    const d = looks.map((look, n) => {
      const below = kinds.slice(0, i).reduce((sum, other) => sum + (look[other] || 0), 0);
      const x = (90 + (n + looksMax - looks.length + 0.5) * step).toFixed(1);
      const y = 36 - 32 * Math.min(below, 1);
      return `M${x} ${y.toFixed(1)}V${Math.max(4, y - 32 * (look[k] || 0)).toFixed(1)}`;
    }).join('');
    root.append(svg('path', { class: `w${i}`, d, 'stroke-width': step + 0.2 }));
  });
  return root;
}

// showAgain says how to repeat the run, and has its files.
export async function showAgain(s, result, overview) {
  if (!result) return;
  const body = [];
  if (overview && overview.repeat) body.push(el('pre', { tabindex: 0, 'aria-label': 'Commands' }, overview.repeat.join('\n')));
  const known = [['version of disco', result.version], ['seed', result.seed], ['trace hash', result.trace_hash],
    ['file', result.file]].filter(([, x]) => x !== undefined && x !== '');
  body.push(el('dl', { class: 'facts' }, ...known.flatMap(([name, x]) => [el('dt', {}, name), el('dd', {}, String(x))])));
  const names = Object.keys(s.files).filter((n) => n !== 'live.json').sort();
  body.push(el('h3', {}, 'Files'), el('ul', { class: 'files' }, ...names.map((n) => el('li', {},
    el('a', { href: `data/file/${n}` }, n)))));
  const text = s.files['scenario.yml'] && s.files['scenario.yml'].bytes < 1 << 20
    ? await data.file(s, 'scenario.yml', true) : null;
  if (text) {
    body.push(el('details', {}, el('summary', {}, 'The scenario'), el('pre', { tabindex: 0, 'aria-label': 'Scenario' },
      text)));
  }
  $('againbody').replaceChildren(...body);
  $('again').hidden = false;
}
