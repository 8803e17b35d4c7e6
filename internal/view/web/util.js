// SPDX-License-Identifier: Apache-2.0

// Elements, numbers and colours.

export const $ = (id) => document.getElementById(id);

// el makes an element. Texts become text nodes, never markup.
export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  return fill(e, attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) e.setAttribute(name, value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
  return e;
}

const digits = (x, n = 4) => {
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 1e9 || size < 1e-4) return x.toExponential(n - 2).replace('e+', 'e');
  if (size >= 1000) return Math.round(x).toLocaleString('en');
  return String(Number(x.toPrecision(n)));
};

// number is a value with its unit as a person reads it; a value without a unit is a share.
export function number(x, unit = null, n = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return '–';
  if (typeof x !== 'number') return String(x);
  if (unit === 's') {
    const size = Math.abs(x);
    if (size === 0 || size >= 1) return digits(x, n) + ' s';
    if (size >= 1e-3) return digits(x * 1e3, n) + ' ms';
    return size >= 1e-6 ? digits(x * 1e6, n) + ' µs' : digits(x * 1e9, n) + ' ns';
  }
  if (unit === '') return digits(x * 100, Math.min(n, 3)) + ' %';
  return digits(x, n) + (unit ? ' ' + unit : '');
}

// time is simulated time.
export const time = (s) => digits(s, 6) + ' s';

export const words = (name) => name.replaceAll('_', ' ');

const light = ['#cbdcea', '#8fbbdc', '#5b8fc9', '#6d5db3', '#8a2a86', '#6b0b45'];
const dark = ['#33486b', '#2f6b8e', '#1f998a', '#5fc864', '#c8e020', '#fff06b'];
export const darkness = matchMedia('(prefers-color-scheme: dark)');
export const levels = 24;

// ramp is colours of shares from 0 to 1: their lightness goes one way, so that they are told apart without hues.
export function ramp() {
  const stops = (darkness.matches ? dark : light).map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
  return Array.from({ length: levels }, (_, i) => {
    const at = (i / (levels - 1)) * (stops.length - 1);
    const k = Math.min(Math.floor(at), stops.length - 2);
    const mixed = stops[k].map((a, j) => Math.round(a + (stops[k + 1][j] - a) * (at - k)));
    return `rgb(${mixed.join()})`;
  });
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// windowAt is the window that holds a time; -1: none.
export function windowAt(edges, t) {
  let low = 0;
  let high = edges.length - 1;
  if (high < 1 || t < edges[0] || t > edges[high]) return -1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= t) low = middle; else high = middle;
  }
  return low;
}

// flat lists the numbers and texts of a tree by their path.
export function flat(value, path = '', out = [], depth = 0) {
  if (value === null || out.length >= 80) return out;
  if (typeof value === 'object') {
    if (depth < 4 && !Array.isArray(value)) {
      for (const [k, v] of Object.entries(value)) flat(v, path ? `${path}.${k}` : k, out, depth + 1);
    }
  } else out.push([path, value]);
  return out;
}

// table is a table that scrolls in itself. Cells are texts, nodes, or {text, bad}.
export function table(label, heads, rows) {
  const cell = (c, i) => {
    const tag = i === 0 ? 'th' : 'td';
    if (c && c.text !== undefined && !(c instanceof Node)) return el(tag, { class: c.bad ? 'bad' : null }, c.text);
    return el(tag, i === 0 ? { scope: 'row' } : {}, c instanceof Node ? c : String(c ?? ''));
  };
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${label}, table` },
    el('table', {}, el('thead', {}, el('tr', {}, ...heads.map((h, i) => (h || i === 0
      ? el('th', { scope: 'col' }, h || 'name') : el('td', {}))))),
    el('tbody', {}, ...rows.map((r) => el('tr', {}, ...r.map(cell))))));
}

// csv reads the text of a table (RFC 4180).
export function csv(text, most = 5000) {
  const rows = [];
  let row = [];
  const cell = /("(?:[^"]|"")*"|[^,\n]*)(,|\r?\n|$)/g;
  for (let m = cell.exec(text); m && rows.length < most; m = cell.exec(text)) {
    row.push(m[1].startsWith('"') ? m[1].slice(1, -1).replaceAll('""', '"') : m[1]);
    if (m[2] !== ',') {
      if (row.length > 1 || row[0] !== '') rows.push(row);
      row = [];
      if (m[2] === '') break;
    }
  }
  return rows;
}
