// SPDX-License-Identifier: Apache-2.0

// The page: asks the server each second while the run goes on, and shows what has changed.

import * as data from './data.js';
import { chart, groups, narrow } from './charts.js';
import { Graph, symbol } from './graph.js';
import { facts, showAgain, showBlocks, showSummary, showWorkers } from './parts.js';
import { showSweep } from './sweep.js';
import { $, darkness, el, flat, levels, number, ramp, svg, table, time, windowAt, words } from './util.js';

const page = { state: null, result: null, graph: null, overview: null, index: null, whole: { sets: [] }, spans: [],
  horizon: 0, time: null, point: 0, shares: null, charts: [], detailCharts: [], follow: true, tags: '', playing: 0 };

const graph = new Graph($('stage'), $('canvas'), choose);

// poll asks what there is; the answer to it is when to ask again.
async function poll() {
  let wait = 4000;
  const begun = performance.now();
  try {
    const s = await data.state();
    const running = s.live && s.live.state === 'running';
    const tags = JSON.stringify([s.files, s.live && s.live.state]);
    if (!s.problem || !page.state) page.state = s;
    showLive(s);
    if (!s.problem && tags !== page.tags) {
      await update(s);
      page.tags = tags;
    }
    banner(s.problem);
    wait = running ? 1000 : 3000;
  } catch (e) {
    banner(e instanceof TypeError || e.name === 'TimeoutError'
      ? 'The server of this view doesn’t answer: the page has what it had before. `disco-run web DIR` starts it again.'
      : `${e.message}. The page has what it had before.`);
  }
  setTimeout(poll, Math.max(wait, 5 * (performance.now() - begun)));
}

function banner(text) {
  if ($('banner').textContent !== text) $('banner').textContent = text;
  $('banner').hidden = !text;
}

function showLive(s) {
  const live = s.live;
  const badge = $('badge');
  badge.hidden = !live;
  if (!live) return;
  badge.className = `badge ${live.state === 'running' ? 'live' : live.state}`;
  const reached = live.horizon_s > 0 ? `, ${Math.floor((100 * live.reached_s) / live.horizon_s)} %` : '';
  badge.textContent = live.state === 'running' ? `running${reached}` : live.state;
  if (live.state === 'running' && live.workers) showWorkers(page.result, live);
}

// update shows another version of the directory.
async function update(s) {
  const name = s.name;
  const [result, drawn, overview, index] = await Promise.all([data.file(s, 'result.json'), data.file(s, 'graph.json'),
    data.file(s, 'overview.json'), data.series(s)]);
  Object.assign(page, { result, index, overview,
    graph: drawn && drawn.boxes && drawn.boxes.length ? drawn : null });
  const sweep = Boolean(result && result.sweep);
  page.point = index && index.points ? Math.min(Math.max(page.point, 1), index.points) : 0;
  $('title').textContent = (result && (result.scenario || (result.file || '').split('/').pop())) || name;
  document.title = `${$('title').textContent} – disco`;
  $('facts').textContent = facts(result, s);
  showSummary(overview, result);
  showBlocks(overview);
  if (sweep) await showSweep(s, result, (n) => {
    page.point = n;
    course();
  });
  await course();
  if (page.graph) {
    $('picture').hidden = false;
    graph.load(drawn);
    colours();
    await shares();
    listing();
  }
  showWorkers(result, s.live);
  await showAgain(s, result, overview);
  if (graph.selected) await detail(graph.selected);
}

// course shows the charts over simulated time, and the slider below them.
async function course() {
  const { index, result, state: s } = page;
  page.spans = spansOf();
  if (!index) return;
  const points = $('pointlabel');
  points.hidden = !index.points;
  if (index.points && $('point').options.length !== index.points) {
    $('point').replaceChildren(...Array.from({ length: index.points }, (_, i) => el('option', { value: i + 1 },
      `${i + 1}${result && result.rows && result.rows[i] ? `: ${Object.values(result.rows[i].point).join(', ')}` : ''}`)));
  }
  $('point').value = page.point;
  page.whole = await data.values(s, page.point ? { point: page.point } : {});
  let end = 0;
  for (const set of page.whole.sets) end = Math.max(end, set.edges[set.edges.length - 1]);
  page.horizon = end;
  page.charts = groups(page.whole.sets).map((g) => chart(g, page.spans, pick)).filter(Boolean);
  keep($('charts'), () => $('charts').replaceChildren(...page.charts));
  $('course').hidden = page.charts.length === 0;
  $('timebar').hidden = !(end > 0);
  strip();
  const range = $('time');
  range.max = end || 1;
  range.step = end / 500 || 1;
  if (page.time !== null && page.follow && s.live && s.live.state === 'running') page.time = end;
  setTime(page.time === null ? null : Math.min(page.time, end));
}

// keep does something with a part of the page, whose tables that a person has opened stay open.
function keep(part, change) {
  const open = [...part.querySelectorAll('details')].map((d) => d.open);
  change();
  part.querySelectorAll('details').forEach((d, i) => { d.open = Boolean(open[i]); });
}

// spansOf are outages and the like; what only delays or loses is 'spike'.
function spansOf() {
  const results = (page.result && page.result.results) || {};
  const mild = new Set((results.spikes || []).map((x) => x.id));
  for (const o of results.outages || []) if (o.kind && !/down|outage/.test(o.kind)) mild.add(o.id);
  const listed = (page.graph && page.graph.spans) || [];
  const spans = listed.length ? listed : [...(results.outages || []), ...(results.spikes || [])]
    .filter((o) => o.start_s !== undefined)
    .map((o) => ({ name: o.id, targets: [o.target], from_s: o.start_s, to_s: o.end_s }));
  return spans.map((x) => ({ ...x, sort: mild.has(x.name) || mild.has(x.name.split(' ')[0]) ? 'spike' : 'down' }));
}

function strip() {
  const root = $('strip');
  root.setAttribute('viewBox', '0 0 1000 40');
  root.replaceChildren(...page.spans.map((x) => svg('rect', { class: `span ${x.sort}`, y: 0, height: 40,
    x: (1000 * x.from_s) / page.horizon, width: Math.max(2, (1000 * (x.to_s - x.from_s)) / page.horizon) })));
}

function pick(t) { setTime(t); }

// setTime moves all to a time; null: the whole run.
function setTime(t) {
  page.time = t;
  const range = $('time');
  range.value = t ?? 0;
  const active = t === null ? [] : page.spans.filter((x) => x.from_s <= t && t < x.to_s);
  const what = active.map((x) => x.name).join(', ');
  range.setAttribute('aria-valuetext', t === null ? 'whole run' : `${time(t)} of ${time(page.horizon)}${what
    ? `, ${what}` : ''}`);
  $('now').replaceChildren(t === null ? 'whole run' : time(Number(t.toPrecision(5))),
    el('small', { class: active.some((x) => x.sort === 'down') ? 'bad' : null },
      what || `of ${time(Number(page.horizon.toPrecision(5)))}`));
  if ($('most')) $('most').textContent = number(scale(), page.shares ? page.shares.unit : '', 3);
  $('whole').setAttribute('aria-pressed', String(t === null));
  for (const c of [...page.charts, ...page.detailCharts]) c.setTime(t);
  const marks = new Map();
  for (const x of active) {
    for (const id of x.targets || []) if (marks.get(id) !== 'down') marks.set(id, x.sort);
  }
  if (page.graph) {
    graph.paint((x) => {
      const share = shareOf(x);
      return share === null ? null : share / scale();
    }, marks);
  }
  if (graph.selected) showNow(graph.selected);
  else busiest();
}

// colours lists what the picture may be coloured by.
function colours() {
  const select = $('colour');
  const before = select.value;
  const count = new Map();
  for (const t of [...graph.boxes, ...graph.links]) {
    if (t.load_of) count.set(t.load_of, (count.get(t.load_of) || 0) + 1);
  }
  const usual = [...count].sort((a, b) => b[1] - a[1]).map(([x]) => x)[0];
  const figures = page.point === 0 && page.index ? page.index.each : [];
  const options = figures.map((f) => el('option', { value: `f:${f.figure}` },
    words(f.figure) + (f.unit ? ` (${f.unit})` : '')));
  if (!figures.some((f) => f.figure === usual)) options.unshift(el('option', { value: 'load' }, usual || 'load'));
  select.replaceChildren(...options);
  const wanted = before || (figures.some((f) => f.figure === usual) ? `f:${usual}` : 'load');
  if ([...select.options].some((o) => o.value === wanted)) select.value = wanted;
}

// shares fetches the figure that the picture is coloured by, of all boxes and links.
async function shares() {
  const value = $('colour').value;
  page.shares = null;
  if (value.startsWith('f:')) {
    const name = value.slice(2);
    const { sets } = await data.values(page.state, { figure: name });
    const byId = new Map();
    let most = 0;
    let unit = '';
    for (const set of sets) {
      for (const item of set.items) {
        const known = item.values.filter((v) => v !== null);
        for (const v of known) most = Math.max(most, v);
        const mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
        byId.set(item.name[1], { edges: set.edges, values: item.values, mean });
        [, , unit] = item.name;
      }
    }
    const means = [...byId.values()].reduce((m, x) => Math.max(m, x.mean ?? 0), 0);
    page.shares = { name, unit, byId, most: most || 1, means: means || 1 };
  }
  legend();
  setTime(page.time);
}

// valueOf is what a thing has of the figure at the slider's time; undefined: nothing.
function valueOf(t) {
  const s = page.shares;
  const found = s && (s.byId.get(t.id) || s.byId.get(t.group));
  if (!found) return undefined;
  if (page.time === null) return found.mean;
  const k = windowAt(found.edges, page.time);
  return k < 0 ? null : found.values[k];
}

// scale is what has the last colour: a round share, or the most that there is.
function scale() {
  const s = page.shares;
  let most = s ? (page.time === null ? s.means : s.most) : 0;
  if (s && s.unit !== '') return most;
  if (!s || page.time === null) for (const t of [...graph.boxes, ...graph.links]) most = Math.max(most, t.load ?? 0);
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((x) => most <= x) || Math.max(1, most);
}

// shareOf is what a thing has of what the picture is coloured by: null where there is none.
function shareOf(t) {
  const s = page.shares;
  const own = valueOf(t);
  if (own !== undefined) return own;
  if (s && t.load_of !== s.name && !(t.load_of || '').startsWith(s.name)) return null;
  if (t.sort === 'box' && page.time !== null) { // the busiest link that leaves it
    const out = t.out.map(valueOf).filter((v) => v !== undefined && v !== null);
    if (out.length) return Math.max(...out);
  }
  return t.load ?? null;
}

function legend() {
  const s = page.shares;
  const bar = el('canvas', { width: 120, height: 10 });
  const c = bar.getContext('2d');
  ramp().forEach((colour, i) => {
    c.fillStyle = colour;
    c.fillRect((i * 120) / levels, 0, 120 / levels + 1, 10);
  });
  const most = el('span', { id: 'most' });
  const kinds = graph.kinds.filter(Boolean).map((kind) => {
    const mark = el('canvas', { width: 18, height: 18 });
    symbol(mark, kind, graph.kinds);
    return el('span', {}, mark, words(kind));
  });
  const omitted = page.graph.omitted || {};
  const left = [omitted.boxes ? `${number(omitted.boxes)} boxes` : '', omitted.links ? `${number(omitted.links)} links`
    : ''].filter(Boolean).join(' and ');
  $('legend').replaceChildren(el('span', {}, '0', bar, most), ...kinds, left ? el('span', {}, `${left} aren’t shown`)
    : '', page.spans.length ? el('span', {}, '✕ down', ' · dashed ring: disturbed') : '');
}

// choose shows what a person has chosen.
function choose(thing) {
  if (!thing) {
    $('said').textContent = 'nothing chosen';
    detail(null);
    return;
  }
  const what = thing.sort === 'box' ? thing.kind || 'box' : `link from ${thing.from} to ${thing.to}`;
  $('said').textContent = `${thing.id}, ${what}${thing.load === undefined || thing.load === null ? ''
    : `, ${thing.load_of || 'load'} ${number(thing.load, '')}`}`;
  detail(thing);
}

// rowOf is what the results have of a thing.
function rowOf(thing) {
  const results = (page.result && page.result.results) || {};
  for (const [key, list] of Object.entries(results)) {
    if (Array.isArray(list)) {
      const found = list.find((x) => x && typeof x === 'object' && !('start_s' in x) && (x.id === thing.id
        || (x.from !== undefined && (`${x.from} -> ${x.to}` === thing.id) && key !== 'flows')
        || (x.location !== undefined && `${x.location} ${x.product}` === thing.id)));
      if (found) return found;
    } else if (list && typeof list === 'object' && list[thing.id] && typeof list[thing.id] === 'object') {
      return list[thing.id];
    }
  }
  return null;
}

async function detail(thing) {
  const aside = $('detail');
  page.detailCharts = [];
  if (!thing) {
    aside.replaceChildren(el('h3', {}, 'Busiest'), el('ul', { class: 'busiest', id: 'busiest' }), el('p',
      { class: 'note' }, 'Choose a box or a link to see its figures and how they develop.'));
    busiest();
    return;
  }
  const list = el('dl');
  const fact = (name, value) => list.append(el('dt', {}, name), el('dd', {}, value));
  if (thing.sort === 'link') fact('from → to', `${thing.from} → ${thing.to}`);
  else if (thing.kind) fact('kind', words(thing.kind));
  if (Number.isFinite(thing.latitude)) fact('place', `${thing.latitude.toFixed(2)}°, ${thing.longitude.toFixed(2)}°`);
  if (thing.load !== undefined && thing.load !== null) fact(thing.load_of || 'load', number(thing.load, ''));
  if (thing.amount !== undefined && thing.amount !== null) fact('carried', number(thing.amount, thing.unit));
  for (const [name, value] of flat(rowOf(thing) || {}).slice(0, 40)) {
    if (/(^|\.)(id|from|to|link|location|product)$/.test(name) || (name === thing.load_of && list.children.length)) continue;
    const unit = /_s(\.|$)/.test(name) ? 's' : null;
    fact(words(name).replaceAll('.', ' '), number(value, unit));
  }
  const now = el('dl', { id: 'nowlist', class: 'facts' });
  aside.replaceChildren(el('h3', {}, thing.id), now, list);
  let sets = [];
  if (page.point === 0 && page.index) ({ sets } = await data.values(page.state, { of: thing.group || thing.id }));
  if (graph.selected !== thing) return;
  page.detailSets = sets;
  page.detailCharts = groups(sets).map((g) => chart(g, page.spans.filter((x) => (x.targets || []).includes(thing.id)),
    pick, 200)).filter(Boolean);
  aside.append(...page.detailCharts);
  for (const c of page.detailCharts) c.setTime(page.time);
  showNow(thing);
}

// busiest lists what has most at the slider's time. Its buttons stay, so that the keyboard doesn't lose its place.
function busiest() {
  const list = $('busiest');
  if (!list || !page.graph) return;
  const all = [...graph.boxes, ...graph.links].filter((t) => t.share > 0).sort((a, b) => b.share - a.share).slice(0, 12);
  while (list.children.length > all.length) list.lastChild.remove();
  while (list.children.length < all.length) {
    const button = el('button', { type: 'button', onclick: () => graph.select(button.thing, true) });
    list.append(el('li', {}, button));
  }
  all.forEach((t, i) => {
    const button = list.children[i].firstChild;
    const own = valueOf(t);
    button.thing = t;
    button.replaceChildren(el('span', { class: 'name' }, t.id), svg('svg', { viewBox: '0 0 70 8', 'aria-hidden': 'true' },
      svg('rect', { class: 'back', width: 70, height: 8, rx: 3 }),
      svg('rect', { class: 'front', width: 70 * Math.min(t.share, 1), height: 8, rx: 3 })),
    el('span', { class: 'much' }, own === undefined || own === null ? number(t.share * scale(), '', 3)
      : number(own, page.shares.unit, 3)));
  });
}

// showNow has the figures of what is chosen at the slider's time.
function showNow(thing) {
  const list = $('nowlist');
  if (!list || !page.detailSets) return;
  list.replaceChildren();
  if (page.time === null) return;
  const down = page.spans.filter((x) => x.from_s <= page.time && page.time < x.to_s && (x.targets || []).includes(thing.id));
  for (const x of down) list.append(el('dt', { class: 'bad' }, x.name), el('dd', { class: 'bad' }, `to ${time(x.to_s)}`));
  for (const set of page.detailSets) {
    const k = windowAt(set.edges, page.time);
    for (const item of set.items) {
      list.append(el('dt', {}, `${words(item.name[0])} now`),
        el('dd', {}, number(k < 0 ? null : item.values[k], item.name[2])));
    }
  }
}

// listing is the picture as a table: the busiest first.
function listing() {
  if (!$('listing').open) return;
  const wanted = $('find').value.trim().toLowerCase();
  const all = [...graph.boxes, ...graph.links].filter((t) => !wanted || t.id.toLowerCase().includes(wanted));
  all.sort((a, b) => (b.load ?? -1) - (a.load ?? -1));
  const rows = all.slice(0, 200).map((t) => [
    el('button', { type: 'button', onclick: () => graph.select(t, true) }, t.id), t.sort === 'box' ? words(t.kind || 'box') : 'link',
    number(t.load ?? null, ''), t.load_of || '', t.sort === 'box' ? '' : t.from, t.sort === 'box' ? '' : t.to,
    number(t.amount ?? null, t.unit || null)]);
  $('list').replaceChildren(el('p', { class: 'note' }, `${number(Math.min(200, all.length))} of ${number(all.length)}`),
    table('Boxes and links', ['name', 'kind', 'load', 'of', 'from', 'to', 'carried'], rows));
}

function play() {
  const button = $('play');
  if (page.playing) {
    cancelAnimationFrame(page.playing);
    page.playing = 0;
  } else {
    if (page.time === null || page.time >= page.horizon) setTime(0);
    let last = performance.now();
    const step = (now) => {
      const t = page.time + ((now - last) / 1000) * (page.horizon / Number($('speed').value));
      last = now;
      if (t >= page.horizon) {
        setTime(page.horizon);
        page.playing = 0;
        shown();
        return;
      }
      setTime(t);
      page.playing = requestAnimationFrame(step);
    };
    page.playing = requestAnimationFrame(step);
  }
  const shown = () => {
    button.textContent = page.playing ? '❚❚' : '▶';
    button.setAttribute('aria-label', page.playing ? 'Pause' : 'Play');
  };
  shown();
}

$('play').addEventListener('click', play);
$('time').addEventListener('input', () => {
  const t = Number($('time').value);
  page.follow = t >= page.horizon * 0.995;
  setTime(t);
});
$('whole').addEventListener('click', () => setTime(page.time === null ? 0 : null));
$('colour').addEventListener('change', shares);
$('in').addEventListener('click', () => graph.zoom(1.4));
$('out').addEventListener('click', () => graph.zoom(1 / 1.4));
$('fit').addEventListener('click', () => graph.fit());
$('listing').addEventListener('toggle', listing);
$('find').addEventListener('input', listing);
$('find').addEventListener('keydown', (e) => {
  if (e.key !== 'Enter') return;
  const wanted = $('find').value.trim().toLowerCase();
  const all = [...graph.boxes, ...graph.links];
  const found = all.find((t) => t.id.toLowerCase() === wanted) || all.find((t) => t.id.toLowerCase().includes(wanted));
  if (found) graph.select(found, true);
  else $('said').textContent = `nothing is called ${wanted}`;
});
$('point').addEventListener('change', () => {
  page.point = Number($('point').value);
  course();
});
narrow.addEventListener('change', () => {
  if (page.state) course();
});
darkness.addEventListener('change', () => {
  graph.queue();
  if (page.graph) legend();
});
detail(null);
poll();
