// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds of manifests.
const (
	packsMax    = 65536
	tablesMax   = 4096
	versionsMax = 4096
	wallBytes   = 64
)

// Point names a checkpoint of a run: a replication and an epoch, or the end of a replication.
type Point struct {
	Replication int
	Epoch       float64 // finished: 0
	Finished    bool
}

// String is as in "replication 2, epoch 3600".
func (p Point) String() string {
	if p.Finished {
		return fmt.Sprintf("replication %d, finished", p.Replication)
	}
	return fmt.Sprintf("replication %d, epoch %v", p.Replication, p.Epoch)
}

// name is the manifest's file. Epochs are above 0, so their bits sort as they do.
func (p Point) name() string {
	if p.Finished {
		return fmt.Sprintf("%s%06d.json", doneFolder, p.Replication)
	}
	return fmt.Sprintf("%s%06d-%016x.json", pointFolder, p.Replication, math.Float64bits(p.Epoch))
}

// parsePoint reads the name of a manifest; ok is false for any other.
func parsePoint(name string) (p Point, ok bool) {
	text, ok := strings.CutPrefix(name, pointFolder)
	p.Finished = !ok
	if p.Finished {
		text = strings.TrimPrefix(name, doneFolder)
	}
	text = strings.TrimSuffix(text, ".json")
	replication, epoch, _ := strings.Cut(text, "-")
	n, err := strconv.ParseUint(replication, 10, 32)
	if err != nil {
		return p, false
	}
	p.Replication = int(n)
	if !p.Finished {
		bits, err := strconv.ParseUint(epoch, 16, 64)
		if err != nil {
			return p, false
		}
		p.Epoch = math.Float64frombits(bits)
	}
	return p, p.name() == name && n < replicationsMax && (p.Finished || p.Epoch > 0 && !math.IsInf(p.Epoch, 1))
}

// Manifest is a checkpoint, or the end of a replication: what it is of, and where its chunks are. Draft.Commit sets the
// fields that say so.
type Manifest struct {
	Format      int       `json:"format"`   // Commit sets it
	Run         ID        `json:"run"`      // Commit sets it
	RunJSON     Digest    `json:"run_json"` // Commit sets it: the check of run.json
	Replication int       `json:"replication"`
	Epoch       float64   `json:"epoch_s"` // everything earlier is handled; finished: what was reached
	Finished    bool      `json:"finished"`
	Events      uint64    `json:"events,string"`      // handled before Epoch, of the replication
	Activations uint64    `json:"activations,string"` // the same of calls
	TraceHash   ID        `json:"trace_hash"`         // of the simprocs' hashes at Epoch
	Packs       []Pack    `json:"packs"`              // Commit sets it
	Versions    []Version `json:"versions"`
	Wall        Wall      `json:"wall"`
	Check       Digest    `json:"-"` // of all of it; Commit sets it

	tables []Chunk
}

// Version is that of the states of a type of handlers.
type Version struct {
	Handler string `json:"handler"`
	Version uint32 `json:"version"`
}

// Wall is when a checkpoint was made, and what it took: for people.
type Wall struct {
	Written string  `json:"written"` // RFC 3339
	Pause   float64 `json:"pause_s"` // seconds, as the next two
	Encode  float64 `json:"encode_s"`
	Write   float64 `json:"write_s"`
	Raw     int64   `json:"raw_bytes"`    // of all chunks; Commit sets it
	Stored  int64   `json:"stored_bytes"` // of their frames; Commit sets it
	New     int64   `json:"new_bytes"`    // of the pack that was written with it; Commit sets it
}

// manifestFile is a Manifest as JSON.
type manifestFile struct {
	Manifest
	Bits   string   `json:"epoch"`
	Tables []string `json:"tables"` // rows, in hexadecimal digits
	Check  Digest   `json:"check,omitzero"`
}

// Point names it.
func (m *Manifest) Point() Point {
	if m.Finished {
		return Point{Replication: m.Replication, Finished: true}
	}
	return Point{Replication: m.Replication, Epoch: m.Epoch}
}

func bitsText(epoch float64) string { return fmt.Sprintf("%016x", math.Float64bits(epoch)) }

// check says which field is out of its bounds, or isn't that of the run.
func (m *Manifest) check(run *Run) error {
	if m.RunJSON != run.Check {
		return fmt.Errorf("run_json: found %v, want %v: it was made with another %s", m.RunJSON, run.Check, runName)
	}
	if !(m.Epoch > 0) || m.Epoch > run.Horizon || m.Epoch == run.Horizon && !m.Finished {
		return fmt.Errorf("epoch_s: found %v, want a time above 0 and below the horizon, %v", m.Epoch, run.Horizon)
	}
	for i := range m.Packs {
		if err := within("bytes of a pack", m.Packs[i].Bytes, packHeadBytes, packBytesMax); err != nil {
			return err
		}
	}
	for i := range m.Versions {
		v := &m.Versions[i]
		if err := atMost("bytes of a handler's type", int64(len(v.Handler)), nameBytesMax); err != nil {
			return err
		}
	}
	return errors.Join(
		within("replication", int64(m.Replication), 0, int64(run.Replications)-1),
		atMost("packs", int64(len(m.Packs)), packsMax),
		atMost("tables", int64(len(m.tables)), tablesMax),
		atMost("versions", int64(len(m.Versions)), versionsMax),
		atMost("bytes of wall.written", int64(len(m.Wall.Written)), wallBytes))
}

// encode writes the manifest, and sets its check.
func (m *Manifest) encode() ([]byte, error) {
	file := manifestFile{Manifest: *m, Bits: bitsText(m.Epoch), Tables: []string{}}
	packs := map[Pack]int{}
	for i, p := range m.Packs {
		packs[p] = i
	}
	for i := range m.tables {
		row := appendRow(nil, &m.tables[i], packs[m.tables[i].Pack])
		file.Tables = append(file.Tables, hex.EncodeToString(row))
	}
	text, check, err := encodeJSON(&file)
	if err == nil && len(text) > manifestBytesMax {
		err = fmt.Errorf("checkpoint: a manifest of %d bytes, want at most %d: make fewer chunks, or checkpoint less "+
			"often", len(text), manifestBytesMax)
	}
	m.Check = check
	return text, err
}

// load reads a manifest.
func (r *Repo) load(ctx context.Context, p Point) (*Manifest, error) {
	name := p.name()
	var file manifestFile
	if err := readJSON(ctx, r.blobs, name, manifestBytesMax, &file); err != nil {
		return nil, err
	}
	m := &file.Manifest
	m.Check = file.Check
	if m.Run != r.run.ID {
		return nil, &OtherRunError{Where: r.String(), Name: name, Found: &Run{ID: m.Run}}
	}
	if err := m.fill(&file, p, r.run); err != nil {
		return nil, &DamagedError{Where: r.String(), Name: name, Err: err}
	}
	return m, nil
}

// fill takes the rest of a file over, and checks all of it.
func (m *Manifest) fill(file *manifestFile, p Point, run *Run) error {
	if file.Bits != bitsText(m.Epoch) {
		return fmt.Errorf("epoch: found %.20q, want %q, which is epoch_s", file.Bits, bitsText(m.Epoch))
	}
	if m.Point() != p {
		return fmt.Errorf("found the manifest of %v, want that of %v: the file was renamed", m.Point(), p)
	}
	if err := atMost("tables", int64(len(file.Tables)), tablesMax); err != nil {
		return err
	}
	for _, text := range file.Tables {
		var row [rowBytes]byte
		if err := parseHex(row[:], []byte(text)); err != nil {
			return fmt.Errorf("tables: %w", err)
		}
		c, err := parseRow(row[:], m.Packs, run.Nodes)
		if err == nil && c.Kind != table {
			err = fmt.Errorf("found kind %v, want %v", c.Kind, table)
		}
		if err == nil && (c.Raw%rowBytes != 0 || c.Raw > tableRowsMax*rowBytes) {
			err = fmt.Errorf("found a table of %d bytes, want rows of %d, at most %d", c.Raw, rowBytes, tableRowsMax)
		}
		if err != nil {
			return fmt.Errorf("tables: %w", err)
		}
		m.tables = append(m.tables, c)
	}
	return m.check(run)
}

// Chunks calls yield for each chunk of a checkpoint, by kind, first node and digest. It ends with yield's error.
func (r *Repo) Chunks(ctx context.Context, m *Manifest, yield func(Chunk) error) error {
	var last Chunk
	for i := range m.tables {
		t := &m.tables[i]
		rows, err := r.Read(ctx, m, *t, nil)
		if err != nil {
			return err
		}
		for ; len(rows) > 0; rows = rows[rowBytes:] {
			c, err := parseRow(rows[:rowBytes], m.Packs, r.run.Nodes)
			switch {
			case err != nil:
			case c.Kind == table:
				err = fmt.Errorf("found kind %v in a table, want any other", c.Kind)
			case compareChunks(&last, &c) > 0:
				err = fmt.Errorf("found a row (%v) behind that of a greater one (%v)", &c, &last)
			case c.From >= m.Epoch:
				err = fmt.Errorf("from: found %v, want less than epoch %v", c.From, m.Epoch)
			}
			if err != nil {
				return &DamagedError{Where: r.String(), Name: t.Pack.name(), Chunk: t, Err: err}
			}
			last = c
			if err := yield(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// Read gives the bytes of a chunk of a checkpoint, verified, in the memory of buf where that is enough. *DamagedError
// names pack, chunk and nodes; *PrunedError says that the checkpoint was pruned meanwhile.
func (r *Repo) Read(ctx context.Context, m *Manifest, c Chunk, buf []byte) ([]byte, error) {
	frame, err := r.frameOf(ctx, m, &c)
	if err != nil {
		return nil, err
	}
	data, err := r.codec.decode(&c, frame, buf)
	if err != nil {
		return nil, &DamagedError{Where: r.String(), Name: c.Pack.name(), Chunk: &c, Err: err}
	}
	return data, nil
}

// frameOf reads the frame of a chunk, as far as it is there, into memory that the next call uses again.
func (r *Repo) frameOf(ctx context.Context, m *Manifest, c *Chunk) ([]byte, error) {
	return r.framesOf(ctx, m, c, c.Size)
}

// framesOf is frameOf for so many bytes, also of those behind it in the pack.
func (r *Repo) framesOf(ctx context.Context, m *Manifest, c *Chunk, size int64) ([]byte, error) {
	frame, err := r.blobs.Get(ctx, c.Pack.name(), c.At, size, r.frame)
	if missing(err) {
		return nil, r.lost(ctx, m, &DamagedError{Where: r.String(), Name: c.Pack.name(), Chunk: c,
			Err: errors.New("found no such file, want a pack")})
	}
	if err != nil {
		return nil, err
	}
	r.frame = frame
	return frame, nil
}

// lost is the error about a pack that isn't there: damage, or the checkpoint was pruned. Packs are deleted behind the
// manifests.
func (r *Repo) lost(ctx context.Context, m *Manifest, damage *DamagedError) error {
	if _, err := r.blobs.Get(ctx, m.Point().name(), 0, 1, nil); missing(err) {
		return &PrunedError{r.String(), m.Point()}
	}
	return damage
}

// PrunedError says that a checkpoint was pruned while it was read.
type PrunedError struct {
	Where string
	Point Point
}

// Error says what to do.
func (e *PrunedError) Error() string {
	return fmt.Sprintf("%s: the checkpoint of %v was pruned meanwhile: take a later one, or label what is to stay",
		e.Where, e.Point)
}
