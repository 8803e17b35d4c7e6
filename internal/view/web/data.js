// SPDX-License-Identifier: Apache-2.0

// What the server has: asked for again only where it has changed.

const kept = new Map(); // by address: {tag, value}

async function ask(address, tag, read) {
  const before = kept.get(address);
  if (before && before.tag === tag) return before.value;
  const answer = await fetch(address, { cache: 'no-cache' });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  const value = await read(answer);
  kept.set(address, { tag, value });
  if (kept.size > 200) kept.delete(kept.keys().next().value);
  return value;
}

const readJSON = (answer) => answer.json();

export async function state() {
  const answer = await fetch('data/state', { cache: 'no-store', signal: AbortSignal.timeout(10000) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// file gives a file of the output, or null where there is none.
export async function file(s, name, text = false) {
  const known = s.files[name];
  return known ? ask(`data/file/${name}`, known.tag, text ? (a) => a.text() : readJSON) : null;
}

export async function series(s) {
  const known = s.files['series.csv'];
  return known ? ask('data/series', known.tag, readJSON) : null;
}

// values gives sets of series: {sets: [{edges, items: [{name: [figure, of, unit], values}]}]}.
export async function values(s, query) {
  const known = s.files['series.csv'];
  const address = `data/series/values?${new URLSearchParams(query)}`;
  return known ? ask(address, known.tag, readJSON) : { sets: [] };
}
