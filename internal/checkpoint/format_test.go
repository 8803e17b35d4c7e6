// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// testRun is a run that is within all bounds.
func testRun() *Run {
	return &Run{Format: formatVersion, ID: ID{1}, Text: []byte("model: tiny"), Replications: 3, Horizon: 100, Nodes: 64,
		Simprocs: 64, GroupNodes: 4, Check: Digest{5}}
}

func testManifest() *Manifest {
	run := testRun()
	return &Manifest{Format: formatVersion, Run: run.ID, RunJSON: run.Check, Epoch: 10, Packs: []Pack{{Bytes: 1000}}}
}

func warmup(seconds, window float64, windows int64) *Warmup {
	return &Warmup{Seconds: seconds, Method: "MSER-5", By: "x", Windows: windows, Window: window}
}

func attached(size int) Attached {
	data := make([]byte, size)
	return Attached{Name: "a", Data: data, Digest: sha256.Sum256(data)}
}

// TestBoundsOfRun: each field of run.json at its bounds, and one beyond.
func TestBoundsOfRun(t *testing.T) {
	large := make([]byte, textBytesMax+1)
	digest := Digest(sha256.Sum256(nil))
	for _, c := range []struct {
		field         string
		most, beyond  func(*Run)
		least, before func(*Run) // nil: there is none
	}{
		{"disco", func(r *Run) { r.Disco = strings.Repeat("x", 256) },
			func(r *Run) { r.Disco = strings.Repeat("x", 257) },
			nil, nil},
		{"kind", func(r *Run) { r.Kind = strings.Repeat("x", 256) }, func(r *Run) { r.Kind = strings.Repeat("x", 257) },
			nil, nil},
		{"file", func(r *Run) { r.File = strings.Repeat("x", 4096) },
			func(r *Run) { r.File = strings.Repeat("x", 4097) },
			nil, nil},
		{"text", func(r *Run) { r.Text = large[:textBytesMax] }, func(r *Run) { r.Text = large }, nil, nil},
		{"attached: bytes of a name",
			func(r *Run) { r.Attached = []Attached{{strings.Repeat("x", 4096), nil, digest}} },
			func(r *Run) { r.Attached = []Attached{{strings.Repeat("x", 4097), nil, digest}} }, nil, nil},
		{"attached: files", func(r *Run) { r.Attached = slices.Repeat([]Attached{attached(0)}, attachedMax) },
			func(r *Run) { r.Attached = slices.Repeat([]Attached{attached(0)}, attachedMax+1) }, nil, nil},
		{"attached file", func(r *Run) { r.Attached = []Attached{attached(1)} },
			func(r *Run) { r.Attached = []Attached{{Name: "a"}} }, nil, nil},
		{"set", func(r *Run) { r.Settings = make([]Setting, settingsMax) },
			func(r *Run) { r.Settings = make([]Setting, settingsMax+1) }, nil, nil},
		{"set: bytes of a key", func(r *Run) { r.Settings = []Setting{{strings.Repeat("x", settingBytesMax), ""}} },
			func(r *Run) { r.Settings = []Setting{{strings.Repeat("x", settingBytesMax+1), ""}} }, nil, nil},
		{"set: bytes of a value", func(r *Run) { r.Settings = []Setting{{"", strings.Repeat("x", settingBytesMax)}} },
			func(r *Run) { r.Settings = []Setting{{"", strings.Repeat("x", settingBytesMax+1)}} }, nil, nil},
		{"replications", func(r *Run) { r.Replications = 100000 }, func(r *Run) { r.Replications = 100001 },
			func(r *Run) { r.Replications = 1 }, func(r *Run) { r.Replications = 0 }},
		{"horizon_s", func(r *Run) { r.Horizon = math.MaxFloat64 }, func(r *Run) { r.Horizon = math.Inf(1) },
			func(r *Run) { r.Horizon = math.SmallestNonzeroFloat64 }, func(r *Run) { r.Horizon = 0 }},
		{"horizon_s", func(*Run) {}, func(r *Run) { r.Horizon = math.NaN() }, nil, nil},
		{"nodes", func(r *Run) { r.Nodes = 1 << 31 }, func(r *Run) { r.Nodes = 1<<31 + 1 },
			func(r *Run) { r.Nodes = 1 }, func(r *Run) { r.Nodes = 0 }},
		{"simprocs", func(r *Run) { r.Simprocs = 1 << 31 }, func(r *Run) { r.Simprocs = 1<<31 + 1 },
			func(r *Run) { r.Simprocs = 1 }, func(r *Run) { r.Simprocs = 0 }},
		{"group_nodes", func(r *Run) { r.GroupNodes = 1 << 31 }, func(r *Run) { r.GroupNodes = 1 << 32 },
			func(r *Run) { r.GroupNodes = 1 }, func(r *Run) { r.GroupNodes = 0 }},
		{"group_nodes", func(r *Run) { r.GroupNodes = 64 }, func(r *Run) { r.GroupNodes = 65 }, nil, nil},
		{"shards", func(r *Run) { r.Shards = 1 << 31 }, func(r *Run) { r.Shards = 1<<31 + 1 },
			func(r *Run) { r.Shards = 0 }, func(r *Run) { r.Shards = -1 }},
		{"run", func(*Run) {}, func(r *Run) { r.ID = ID{} }, nil, nil},
		{"from: epoch_s", func(r *Run) { r.From = &From{Epoch: 1} }, func(r *Run) { r.From = &From{} }, nil, nil},
		{"warmup: seconds", func(r *Run) { r.Warmup = warmup(math.Nextafter(100, 0), 100, 1) },
			func(r *Run) { r.Warmup = warmup(100, 1, 1) },
			func(r *Run) { r.Warmup = warmup(0, 1, 1<<31) }, func(r *Run) { r.Warmup = warmup(math.NaN(), 1, 1) }},
		{"warmup: window_s", func(r *Run) { r.Warmup = warmup(5, 100, 1) },
			func(r *Run) { r.Warmup = warmup(5, 101, 1) },
			func(r *Run) { r.Warmup = warmup(5, 0.1, 1) }, func(r *Run) { r.Warmup = warmup(5, 0, 1) }},
		{"warmup: windows", func(r *Run) { r.Warmup = warmup(5, 1, 1<<31) },
			func(r *Run) { r.Warmup = warmup(5, 1, 1<<31+1) },
			func(r *Run) { r.Warmup = warmup(5, 1, 1) }, func(r *Run) { r.Warmup = warmup(5, 1, 0) }},
		{"from: set", func(r *Run) { r.From = &From{Epoch: 1, Settings: make([]Setting, settingsMax)} },
			func(r *Run) { r.From = &From{Epoch: 1, Settings: make([]Setting, settingsMax+1)} }, nil, nil},
	} {
		for _, within := range []func(*Run){c.most, c.least} {
			if within != nil {
				run := testRun()
				if within(run); run.check() != nil {
					t.Errorf("%s within its bounds: %v", c.field, run.check())
				}
			}
		}
		for _, outside := range []func(*Run){c.beyond, c.before} {
			if outside != nil {
				run := testRun()
				outside(run)
				if err := run.check(); err == nil || !strings.HasPrefix(err.Error(), c.field) {
					t.Errorf("%s outside its bounds: %v", c.field, err)
				}
			}
		}
	}
}

// The bound of all attached files together is looked at before their digests are.
func TestBoundOfAttached(t *testing.T) {
	for size, want := range map[int]string{
		attachedBytesMax:     `attached file "first"`,
		attachedBytesMax + 1: "attached: bytes",
	} {
		run := testRun()
		run.Attached = []Attached{{Name: "first", Data: []byte{1}}, {Name: "second", Data: make([]byte, size-1)}}
		if err := run.check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}

// TestBoundsOfManifest: the same of manifests, and one that has most of everything fits.
func TestBoundsOfManifest(t *testing.T) {
	for _, c := range []struct {
		field           string
		within, outside func(*Manifest)
	}{
		{"run_json", func(*Manifest) {}, func(m *Manifest) { m.RunJSON = Digest{6} }},
		{"epoch_s", func(m *Manifest) { m.Epoch = math.SmallestNonzeroFloat64 }, func(m *Manifest) { m.Epoch = 0 }},
		{"epoch_s", func(m *Manifest) { m.Epoch = math.Nextafter(100, 0) }, func(m *Manifest) { m.Epoch = 100 }},
		{"epoch_s", func(m *Manifest) { m.Epoch, m.Finished = 100, true },
			func(m *Manifest) { m.Epoch, m.Finished = math.Nextafter(100, 200), true }},
		{"epoch_s", func(*Manifest) {}, func(m *Manifest) { m.Epoch = math.NaN() }},
		{"replication", func(m *Manifest) { m.Replication = 2 }, func(m *Manifest) { m.Replication = 3 }},
		{"replication", func(m *Manifest) { m.Replication = 0 }, func(m *Manifest) { m.Replication = -1 }},
		{"packs", func(m *Manifest) { m.Packs = slices.Repeat(m.Packs, packsMax) },
			func(m *Manifest) { m.Packs = slices.Repeat(m.Packs, packsMax+1) }},
		{"bytes of a pack", func(m *Manifest) { m.Packs[0].Bytes = packBytesMax },
			func(m *Manifest) { m.Packs[0].Bytes = packBytesMax + 1 }},
		{"bytes of a pack", func(m *Manifest) { m.Packs[0].Bytes = packHeadBytes },
			func(m *Manifest) { m.Packs[0].Bytes = packHeadBytes - 1 }},
		{"tables", func(m *Manifest) { m.tables = make([]Chunk, tablesMax) },
			func(m *Manifest) { m.tables = make([]Chunk, tablesMax+1) }},
		{"versions", func(m *Manifest) { m.Versions = make([]Version, versionsMax) },
			func(m *Manifest) { m.Versions = make([]Version, versionsMax+1) }},
		{"bytes of a handler's type", func(m *Manifest) { m.Versions = []Version{{strings.Repeat("x", 256), 1}} },
			func(m *Manifest) { m.Versions = []Version{{strings.Repeat("x", 257), 1}} }},
		{"bytes of wall.written", func(m *Manifest) { m.Wall.Written = strings.Repeat("x", 64) },
			func(m *Manifest) { m.Wall.Written = strings.Repeat("x", 65) }},
	} {
		m := testManifest()
		if c.within(m); m.check(testRun()) != nil {
			t.Errorf("%s within its bounds: %v", c.field, m.check(testRun()))
		}
		m = testManifest()
		c.outside(m)
		if err := m.check(testRun()); err == nil || !strings.HasPrefix(err.Error(), c.field) {
			t.Errorf("%s outside its bounds: %v", c.field, err)
		}
	}
	m := testManifest()
	m.Packs = slices.Repeat([]Pack{{Bytes: packBytesMax}}, packsMax)
	rows := Chunk{Kind: table, Size: 1, Raw: rowBytes, At: packHeadBytes, Pack: m.Packs[0]}
	m.tables = slices.Repeat([]Chunk{rows}, tablesMax)
	m.Versions = slices.Repeat([]Version{{strings.Repeat("x", 256), 1}}, versionsMax)
	text, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	var file manifestFile
	if err := errors.Join(decodeJSON(text, &file), file.fill(&file, m.Point(), testRun())); err != nil {
		t.Errorf("most of everything, %d bytes: %v", len(text), err)
	}
	m.Versions = slices.Repeat([]Version{{strings.Repeat("x", 5000), 1}}, versionsMax)
	if _, err := m.encode(); err == nil {
		t.Error("a manifest of more than 16 MiB is no error")
	}
}

// TestBoundsOfRows: each field of a row at its bounds, and one beyond.
func TestBoundsOfRows(t *testing.T) {
	const nodes = 64
	packs := []Pack{{Digest{1}, packBytesMax}, {Digest{2}, 1000}}
	node := Chunk{Kind: Nodes, First: 4, Nodes: 4, Raw: 10, Size: 10, At: 32, Pack: packs[1]}
	trace := Chunk{Kind: Trace, From: 5, Raw: 10, Size: 10, At: 32, Pack: packs[1]}
	edit := func(c Chunk, f func(*Chunk)) Chunk { f(&c); return c }
	for _, c := range []struct {
		field string
		chunk Chunk
		ok    bool
	}{
		{"kind", edit(trace, func(c *Chunk) { c.Kind = 0; c.From = 0 }), false},
		{"kind", edit(trace, func(c *Chunk) { c.Kind = table; c.From = 0 }), true},
		{"kind", edit(trace, func(c *Chunk) { c.Kind = Rows; c.From = 0 }), true},
		{"kind", edit(trace, func(c *Chunk) { c.Kind = Rows + 1; c.From = 0 }), false},
		{"nodes", edit(node, func(c *Chunk) { c.Nodes = 1 }), true},
		{"nodes of a group", edit(node, func(c *Chunk) { c.Nodes = 0 }), false},
		{"nodes", edit(node, func(c *Chunk) { c.First, c.Nodes = 0, 64 }), true},
		{"nodes of a group", edit(node, func(c *Chunk) { c.First, c.Nodes = 0, 65 }), false},
		{"nodes", edit(node, func(c *Chunk) { c.First = 60 }), true},
		{"last node", edit(node, func(c *Chunk) { c.First = 61 }), false},
		{"last node", edit(node, func(c *Chunk) { c.First = math.MaxUint32 }), false},
		{"first", edit(trace, func(c *Chunk) { c.First = 1 }), false},
		{"first", edit(trace, func(c *Chunk) { c.Nodes = 1 }), false},
		{"from", edit(trace, func(c *Chunk) { c.From = math.MaxFloat64 }), true},
		{"from", edit(trace, func(c *Chunk) { c.From = math.Inf(1) }), false},
		{"from", edit(trace, func(c *Chunk) { c.From = math.NaN() }), false},
		{"from", edit(trace, func(c *Chunk) { c.From = -1 }), false},
		{"from", edit(node, func(c *Chunk) { c.From = 1 }), false},
		{"from", edit(node, func(c *Chunk) { c.From = math.Copysign(0, -1) }), false},
		{"size", edit(node, func(c *Chunk) { c.Size = 1 }), true},
		{"size", edit(node, func(c *Chunk) { c.Size = 0 }), false},
		{"size", edit(node, func(c *Chunk) { c.Size, c.Pack = chunkBytesMax, packs[0] }), true},
		{"size", edit(node, func(c *Chunk) { c.Size, c.Pack = chunkBytesMax+1, packs[0] }), false},
		{"size", edit(node, func(c *Chunk) { c.Size = -1 }), false},
		{"raw", edit(node, func(c *Chunk) { c.Raw = 1 }), true},
		{"raw", edit(node, func(c *Chunk) { c.Raw = 0 }), false},
		{"raw", edit(node, func(c *Chunk) { c.Raw = chunkBytesMax }), true},
		{"raw", edit(node, func(c *Chunk) { c.Raw = chunkBytesMax + 1 }), false},
		{"at", edit(node, func(c *Chunk) { c.At = 31 }), false},
		{"at", edit(node, func(c *Chunk) { c.At = -1 }), false},
		{"at", edit(node, func(c *Chunk) { c.At = 990 }), true},
		{"end in the pack", edit(node, func(c *Chunk) { c.At = 991 }), false},
		{"at", edit(node, func(c *Chunk) { c.At, c.Pack = packBytesMax-10, packs[0] }), true},
		{"at", edit(node, func(c *Chunk) { c.At, c.Pack = packBytesMax+1, packs[0] }), false},
	} {
		row := appendRow(nil, &c.chunk, slices.Index(packs, c.chunk.Pack))
		got, err := parseRow(row, packs, nodes)
		switch {
		case c.ok && (err != nil || got != c.chunk):
			t.Errorf("%s of %+v: %+v, %v", c.field, c.chunk, got, err)
		case !c.ok && (err == nil || !strings.Contains(err.Error(), c.field)):
			t.Errorf("%s of %+v: %v, want an error about it", c.field, c.chunk, err)
		}
	}
	row := appendRow(nil, &node, 1)
	for what, bad := range map[string][]byte{
		"short":      row[:rowBytes-1],
		"long":       append(bytes.Clone(row), 0),
		"other pack": appendRow(nil, &node, 2),
		"last pack":  appendRow(nil, &node, -1),
		"no zeros":   append([]byte{1, 0, 0, 1}, row[4:]...),
	} {
		if c, err := parseRow(bad, packs, nodes); err == nil {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

// TestBoundsOfFiles: a JSON file at its limit and one byte longer; the version, the check, unknown fields, what is
// behind the object.
func TestBoundsOfFiles(t *testing.T) {
	ctx := context.Background()
	dir := NewDir(t.TempDir())
	text, check, err := encodeJSON(&labelFile{Format: formatVersion, Epoch: 1, Bits: bitsText(1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := putBytes(ctx, dir, "labels/a.json", text, false); err != nil {
		t.Fatal(err)
	}
	var file labelFile
	if err := readJSON(ctx, dir, "labels/a.json", int64(len(text)), &file); err != nil || file.Check != check {
		t.Errorf("at its limit: %+v, %v", file, err)
	}
	if err := readJSON(ctx, dir, "labels/a.json", int64(len(text))-1, &file); !damaged(err) {
		t.Errorf("one byte above: %v", err)
	}
	for body, want := range map[string]string{
		"{\n  \"format\": 2,\n": "another version",
		"{\n":                   "another version",
		"{\n  \"format\": 1,\n  \"epoch_s\": 1,\n  \"more\": 2,\n": "unknown field",
		"{\n  \"format\": 1,\n  \"epoch_s\": \"1\",\n":             "cannot unmarshal",
		"{\"format\": 1} {\n":                                      "after top-level value",
		"[":                                                        "invalid",
		"":                                                         "",
	} {
		if err := decodeJSON(withCheck([]byte(body)), &file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
	if err := decodeJSON([]byte("{}"), &file); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a short file: %v", err)
	}
}

// withCheck ends a text with the line that it must have.
func withCheck(body []byte) []byte {
	return append(bytes.Clone(body), checkBegin+Digest(sha256.Sum256(body)).String()+checkEnd...)
}

// TestTables: more chunks than a table may have make two.
func TestTables(t *testing.T) {
	ctx := context.Background()
	for rows, tables := range map[int]int{tableRowsMax: 1, tableRowsMax + 1: 2} {
		run := testRun()
		r, err := Create(ctx, NewDir(t.TempDir()), *run)
		if err != nil {
			t.Fatal(err)
		}
		var spool bytes.Buffer
		s := NewSpool(&spool)
		c, err := s.Add(Chunk{Kind: Trace}, []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		d := r.Begin()
		m := &Manifest{Epoch: 1}
		if err := errors.Join(d.Add(bytes.NewReader(spool.Bytes()), s.Size(), slices.Repeat([]Chunk{c}, rows)),
			d.Commit(ctx, m)); err != nil {
			t.Fatal(err)
		}
		n := 0
		if m, err = r.Find(ctx, "latest", 0); err != nil {
			t.Fatal(err)
		}
		err = r.Chunks(ctx, m, func(Chunk) error { n++; return nil })
		if err != nil || n != rows || len(m.tables) != tables {
			t.Errorf("%d chunks in %d tables, %v, want %d in %d", n, len(m.tables), err, rows, tables)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFullDirectory: a directory with as many names as may be is listed, one with another one is an error.
func TestFullDirectory(t *testing.T) {
	ctx := context.Background()
	d := NewDir(t.TempDir())
	d.namesMax = 3
	for n := 1; n <= d.namesMax+1; n++ {
		if err := putBytes(ctx, d, fmt.Sprintf("%sa%d", labelFolder, n), []byte("a"), true); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{"", labelFolder} {
			blobs, err := d.List(ctx, prefix)
			switch {
			case n <= d.namesMax && (err != nil || len(blobs) != n):
				t.Errorf("%q with %d names: %v, %v", prefix, n, blobs, err)
			case n > d.namesMax && (err == nil || !strings.Contains(err.Error(), "more than 3 files")):
				t.Errorf("%q with %d names: %v, want an error", prefix, n, err)
			}
		}
	}
}

// TestFullPack: a pack of more than it may have is refused before anything is written.
func TestFullPack(t *testing.T) {
	r, err := Create(context.Background(), NewDir(t.TempDir()), *testRun())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := Chunk{Kind: Nodes, Nodes: 1, Raw: 1, Size: chunkBytesMax}
	const most = packBytesMax/chunkBytesMax - 1 // beside head and tables
	for n, want := range map[int]string{most: "can be read", most + 1: "bytes of a pack"} {
		d := r.Begin()
		if err := d.Add(bytes.NewReader(nil), c.Size, slices.Repeat([]Chunk{c}, n)); err != nil {
			t.Fatal(err)
		}
		err := d.Commit(context.Background(), &Manifest{Epoch: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d chunks of 1 GiB: %v, want %q", n, err, want)
		}
	}
	if blobs, err := r.blobs.List(context.Background(), packFolder); err != nil || len(blobs) != 0 {
		t.Errorf("there is %v, %v, want no pack", blobs, err)
	}
}

// TestAddRefuses: a spool's chunks are checked before they count.
func TestAddRefuses(t *testing.T) {
	r := &Repo{run: testRun()}
	good := Chunk{Kind: Nodes, Nodes: 1, Raw: 1, Size: 10, At: 5}
	for what, c := range map[string]struct {
		chunk Chunk
		size  int64
		ok    bool
	}{
		"whole":         {good, 15, true},
		"cut short":     {good, 14, false},
		"before":        {Chunk{Kind: Nodes, Nodes: 1, Raw: 1, Size: 10, At: -1}, 15, false},
		"table":         {Chunk{Kind: table, Raw: rowBytes, Size: 10}, 15, false},
		"unknown kind":  {Chunk{Kind: 10, Raw: 1, Size: 10}, 15, false},
		"no such nodes": {Chunk{Kind: Nodes, First: 64, Nodes: 1, Raw: 1, Size: 10}, 15, false},
	} {
		if err := r.Begin().Add(bytes.NewReader(nil), c.size, []Chunk{c.chunk}); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := NewSpool(new(bytes.Buffer)).Add(Chunk{Kind: Nodes}, nil); err == nil {
		t.Error("an empty chunk is no error")
	}
}

// TestPointNames: names and points are the same thing, and names sort as points do.
func TestPointNames(t *testing.T) {
	last := ""
	for _, p := range []Point{{0, 0, true}, {99999, 0, true}, {0, math.SmallestNonzeroFloat64, false}, {0, 1, false},
		{0, 3600.5, false}, {0, math.MaxFloat64, false}, {1, 1e-9, false}, {99999, 1, false}} {
		got, ok := parsePoint(p.name())
		if !ok || got != p || p.name() <= last {
			t.Errorf("%v has the name %s behind %s, which is %v, %v", p, p.name(), last, got, ok)
		}
		last = p.name()
	}
	for _, name := range []string{"", "points/", "done/.json", "points/000000-0000000000000000.json",
		"points/000000-8000000000000001.json", "points/000000-7ff0000000000000.json",
		"points/000000-7ff8000000000000.json", "points/0-3ff0000000000000.json", "points/100000-3ff0000000000000.json",
		"done/100000.json", "done/000000-1.json",
		"points/000000-3FF0000000000000.json", "points/000000-3ff0000000000000.jso", "packs/000000.json"} {
		if p, ok := parsePoint(name); ok {
			t.Errorf("%q is %v", name, p)
		}
	}
	if text := fmt.Sprint(Point{2, 3600, false}, ", ", Point{2, 0, true}); text !=
		"replication 2, epoch 3600, replication 2, finished" {
		t.Error(text)
	}
}

// TestGroupNodes: there are at most 4,096 groups, and half as many nodes in each would make more.
func TestGroupNodes(t *testing.T) {
	for nodes, want := range map[int64]int64{1: 1, 4096: 1, 4097: 2, 8192: 2, 8193: 4, 1_000_000: 256,
		countMax: 1 << 19} {
		g := GroupNodes(nodes)
		if groups := (nodes + g - 1) / g; g != want || groups > groupsMost {
			t.Errorf("%d nodes: groups of %d, %d in all, want groups of %d", nodes, g, groups, want)
		}
	}
}
