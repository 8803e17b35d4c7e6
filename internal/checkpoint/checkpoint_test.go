// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
)

var ctx = context.Background()

// The run of these tests has groups groups of groupNodes nodes. Its checkpoint k, from 1, is at epoch k; what each
// chunk has is a function of its kind, its group and k, so that whatever is found in a store can be checked.
const (
	groups     = 12
	groupNodes = 4
)

func newRun() checkpoint.Run {
	data := []byte("a network")
	return checkpoint.Run{
		ID: checkpoint.ID{1, 2, 3}, Disco: "0.1.0", Kind: "tiny", File: "tiny.yml", Text: []byte("model: tiny\n"),
		Attached: []checkpoint.Attached{{Name: "net.gml", Data: data, Digest: sha256.Sum256(data)}},
		Settings: []checkpoint.Setting{{Key: "nodes", Value: "48"}}, Seed: 1<<63 + 1, Replications: 3, Horizon: 1000,
		Nodes: groups * groupNodes, Simprocs: 100, GroupNodes: groupNodes,
	}
}

// changed reports whether the nodes of a group are others in checkpoint k than in the one before. Those of group 0
// never are.
func changed(group, k int) bool { return k == 1 || group > 0 && (group+k)%4 == 0 }

// content is what a chunk has in checkpoint k.
func content(kind checkpoint.Kind, group, k int) []byte {
	for kind == checkpoint.Nodes && !changed(group, k) {
		k--
	}
	rng := rand.New(rand.NewPCG(uint64(kind)<<32+uint64(group), uint64(k)))
	data := make([]byte, 1+rng.IntN(3000))
	for i := range data {
		data[i] = byte(rng.IntN(1 << (1 + group%8))) // some compress well, others don't
	}
	return data
}

func traceHash(k int) checkpoint.ID { return checkpoint.ID{byte(k), byte(k >> 8), 1} }

// collect lists the chunks of a checkpoint.
func collect(t testing.TB, r *checkpoint.Repo, m *checkpoint.Manifest) (chunks []checkpoint.Chunk) {
	t.Helper()
	if err := r.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		chunks = append(chunks, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return chunks
}

// draft begins checkpoint k: what isn't changed is kept where before, which is checkpoint k-1 or nil, has it.
func draft(r *checkpoint.Repo, before *checkpoint.Manifest, k int) (*checkpoint.Draft, error) {
	d := r.Begin()
	kept := map[uint32]bool{}
	if before != nil && before.Epoch == float64(k-1) {
		err := r.Chunks(ctx, before, func(c checkpoint.Chunk) error {
			group := int(c.First) / groupNodes
			switch {
			case c.Kind == checkpoint.Nodes && !changed(group, k):
				kept[c.First] = true
				d.Keep(c)
			case c.Kind == checkpoint.Trace:
				d.Keep(c)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var file bytes.Buffer
	spool := checkpoint.NewSpool(&file)
	var chunks []checkpoint.Chunk
	add := func(c checkpoint.Chunk, data []byte) error {
		c, err := spool.Add(c, data)
		chunks = append(chunks, c)
		return err
	}
	err := add(checkpoint.Chunk{Kind: checkpoint.Trace, From: float64(k - 1)}, content(checkpoint.Trace, 0, k))
	for group := groups - 1; group >= 0; group-- {
		first := uint32(group * groupNodes)
		err = errors.Join(err, add(checkpoint.Chunk{Kind: checkpoint.Pending, First: first, Nodes: groupNodes},
			content(checkpoint.Pending, group, k)))
		if !kept[first] {
			err = errors.Join(err, add(checkpoint.Chunk{Kind: checkpoint.Nodes, First: first, Nodes: groupNodes},
				content(checkpoint.Nodes, group, k)))
		}
	}
	return d, errors.Join(err, d.Add(bytes.NewReader(file.Bytes()), spool.Size(), chunks))
}

// commit makes checkpoint k of replication 0.
func commit(r *checkpoint.Repo, k int) error {
	before, err := r.Load(ctx, checkpoint.Point{Epoch: float64(max(k-1, 1))})
	var missing *checkpoint.MissingError
	var damaged *checkpoint.DamagedError
	if errors.As(err, &missing) || errors.As(err, &damaged) {
		before, err = nil, nil
	}
	if err != nil {
		return err
	}
	d, err := draft(r, before, k)
	if errors.As(err, &damaged) {
		d, err = draft(r, nil, k)
	}
	if err != nil {
		return err
	}
	return d.Commit(ctx, &checkpoint.Manifest{Epoch: float64(k), Events: uint64(100 * k), TraceHash: traceHash(k),
		Versions: []checkpoint.Version{{Handler: "*tiny.node", Version: 1}},
		Wall:     checkpoint.Wall{Written: "2026-11-23T12:00:00Z"}})
}

// checkContent reads a checkpoint and says what isn't as it was written.
func checkContent(r *checkpoint.Repo, m *checkpoint.Manifest) error {
	k := int(m.Epoch)
	counts := map[checkpoint.Kind]int{}
	err := r.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		counts[c.Kind]++
		data, err := r.Read(ctx, m, c, nil)
		if err != nil {
			return err
		}
		group, of := int(c.First)/groupNodes, k
		if c.Kind == checkpoint.Trace {
			of = int(c.From) + 1
		}
		if !bytes.Equal(data, content(c.Kind, group, of)) {
			return fmt.Errorf("%v has other bytes than it was given", &c)
		}
		return nil
	})
	if err == nil && (counts[checkpoint.Nodes] != groups || counts[checkpoint.Pending] != groups ||
		counts[checkpoint.Trace] == 0 || m.TraceHash != traceHash(k)) {
		err = fmt.Errorf("checkpoint %d has chunks %v, hash %v", k, counts, m.TraceHash)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %d: %w", k, err)
	}
	return nil
}

// checkAll reads all checkpoints of a place and gives the epochs of replication 0.
func checkAll(b checkpoint.Blobs) (epochs []int, err error) {
	r, err := checkpoint.Open(ctx, b)
	if err != nil {
		return nil, err
	}
	points, err := r.Points(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range points {
		m, err := r.Load(ctx, p)
		if err != nil {
			return epochs, err
		}
		if err := checkContent(r, m); err != nil {
			return epochs, err
		}
		epochs = append(epochs, int(p.Epoch))
	}
	return epochs, r.Verify(ctx, func(p checkpoint.Point, _ *checkpoint.Manifest, damage error) error {
		if damage != nil {
			return fmt.Errorf("verify: %v: %w", p, damage)
		}
		return nil
	})
}

// create makes a place with n checkpoints.
func create(t testing.TB, b checkpoint.Blobs, n int) *checkpoint.Repo {
	t.Helper()
	r, err := checkpoint.Create(ctx, b, newRun())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	for k := 1; k <= n; k++ {
		if err := commit(r, k); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// each runs a test in memory and in a directory.
func each(t *testing.T, test func(t *testing.T, b checkpoint.Blobs)) {
	t.Run("mem", func(t *testing.T) { test(t, checkpointtest.NewMem()) })
	t.Run("dir", func(t *testing.T) { test(t, checkpoint.NewDir(filepath.Join(t.TempDir(), "above", "run"))) })
}

func TestFindsAndReads(t *testing.T) {
	each(t, func(t *testing.T, b checkpoint.Blobs) {
		w := create(t, b, 4)
		if err := w.Begin().Commit(ctx, &checkpoint.Manifest{Replication: 1, Epoch: 2}); err != nil {
			t.Fatal(err)
		}
		m2, err := w.Find(ctx, "2", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Label(ctx, m2, "warm"), w.Label(ctx, m2, "warm"), w.Label(ctx, m2, "3e0")); err != nil {
			t.Fatal(err)
		}
		r, err := checkpoint.Open(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if run := r.Run(); run.Seed != 1<<63+1 || string(run.Text) != "model: tiny\n" ||
			run.Check == (checkpoint.Digest{}) || string(run.Attached[0].Data) != "a network" ||
			run.Settings[0].Value != "48" {
			t.Errorf("the run is %+v", run)
		}
		for _, c := range []struct {
			at          string
			replication int
			epoch       float64 // 0: none
		}{{"latest", 0, 4}, {"3", 0, 3}, {"3.0", 0, 3}, {"warm", 0, 2}, {"warm", 1, 2}, {"latest", 1, 2}, {"3e0", 0, 2},
			{m2.Check.String(), 0, 2}, {m2.Check.String()[:8], 0, 2}, {m2.Check.String()[:7], 0, 0}, {"5", 0, 0},
			{"cold", 0, 0}, {"latest", 2, 0}, {"../run", 0, 0}, {"", 0, 0}, {"NaN", 0, 0}, {"00000000", 0, 0}} {
			m, err := r.Find(ctx, c.at, c.replication)
			var none *checkpoint.FoundError
			switch {
			case c.epoch == 0 && !errors.As(err, &none):
				t.Errorf("%q of replication %d: %v, want *FoundError", c.at, c.replication, err)
			case c.epoch != 0 && (err != nil || m.Epoch != c.epoch || m.Replication != c.replication):
				t.Errorf("%q of replication %d: %v, %v, want epoch %v", c.at, c.replication, m, err, c.epoch)
			}
		}
		for k := 1; k <= 4; k++ {
			m, err := r.Find(ctx, fmt.Sprint(k), 0)
			if err == nil {
				err = checkContent(r, m)
			}
			if err != nil || m.Events != uint64(100*k) || m.Versions[0].Handler != "*tiny.node" {
				t.Errorf("checkpoint %d: %d events, versions %v, %v", k, m.Events, m.Versions, err)
			}
		}
	})
}

// The end of a replication is kept like a checkpoint, and not taken for one.
func TestFinished(t *testing.T) {
	each(t, func(t *testing.T, b checkpoint.Blobs) {
		r := create(t, b, 1)
		var file bytes.Buffer
		s := checkpoint.NewSpool(&file)
		c, err := s.Add(checkpoint.Chunk{Kind: checkpoint.Results}, []byte("a report"))
		if err != nil {
			t.Fatal(err)
		}
		d := r.Begin()
		if err := d.Add(bytes.NewReader(file.Bytes()), s.Size(), []checkpoint.Chunk{c}); err != nil {
			t.Fatal(err)
		}
		if err := d.Commit(ctx, &checkpoint.Manifest{Epoch: 1000, Finished: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Prune(ctx, 1); err != nil {
			t.Fatal(err)
		}
		m, err := r.Load(ctx, checkpoint.Point{Finished: true})
		if err != nil {
			t.Fatal(err)
		}
		chunks := collect(t, r, m)
		if data, err := r.Read(ctx, m, chunks[0], nil); err != nil || string(data) != "a report" || len(chunks) != 1 {
			t.Errorf("%q of %v, %v", data, chunks, err)
		}
		if m, err := r.Find(ctx, "latest", 0); err != nil || m.Epoch != 1 {
			t.Errorf("the latest checkpoint is %+v, %v", m, err)
		}
		if err := r.Label(ctx, m, "end"); err == nil {
			t.Error("the end of a replication got a label")
		}
	})
}

// A checkpoint that is there isn't written again; one of the same epoch with another result is an error that says so.
func TestCommitTwice(t *testing.T) {
	mem := checkpointtest.NewMem()
	counted := &checkpointtest.Faulty{Blobs: mem, At: -1}
	r := create(t, counted, 2)
	before, err := r.Find(ctx, "2", 0)
	if err != nil {
		t.Fatal(err)
	}
	d, err := draft(r, nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	n := counted.Count
	again := &checkpoint.Manifest{Epoch: 2, TraceHash: traceHash(2)}
	if err := d.Commit(ctx, again); err != nil || again.Check != before.Check || counted.Count != n+2 {
		t.Errorf("again: %v, %d operations, want two, and the manifest that is there", err, counted.Count-n)
	}
	var conflict *checkpoint.ConflictError
	err = d.Commit(ctx, &checkpoint.Manifest{Epoch: 2, TraceHash: traceHash(3)})
	if !errors.As(err, &conflict) || conflict.Found != traceHash(2) ||
		!strings.Contains(err.Error(), "depends on more") {
		t.Errorf("another result: %v, want *ConflictError", err)
	}
	if epochs, err := checkAll(mem); err != nil || fmt.Sprint(epochs) != "[1 2]" {
		t.Errorf("%v, %v", epochs, err)
	}
}

// What isn't a run's directory is refused, and stays as it is; one writer at a time.
func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	var notRepo *checkpoint.NotRepoError
	var other *checkpoint.OtherRunError
	var locked *checkpoint.LockedError
	for name, folder := range map[string]bool{"file.txt": false, ".git": true, "sub": true, ".mine.tmp": false} {
		place := path("with-" + name)
		inside := filepath.Join(place, name)
		err := os.MkdirAll(inside, 0o777)
		if !folder {
			err = errors.Join(err, os.Remove(inside), os.WriteFile(inside, nil, 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = checkpoint.Create(ctx, checkpoint.NewDir(place), newRun())
		if !errors.As(err, &notRepo) || strings.TrimSuffix(notRepo.Found, "/") != name {
			t.Errorf("Create beside %s: %v, want *NotRepoError", name, err)
		}
		if entries, err := os.ReadDir(place); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v: want %s alone, as before", entries, err, name)
		}
		if _, err := checkpoint.Open(ctx, checkpoint.NewDir(place)); !errors.As(err, &notRepo) {
			t.Errorf("Open of %s: %v, want *NotRepoError", place, err)
		}
	}
	if _, err := checkpoint.Open(ctx, checkpoint.NewDir(path("none"))); !errors.As(err, &notRepo) {
		t.Errorf("no directory: %v, want *NotRepoError", err)
	}
	repo := checkpoint.NewDir(path("repo"))
	create(t, repo, 1)
	if _, err := checkpoint.Create(ctx, repo, newRun()); !errors.As(err, &other) || other.Found.Kind != "tiny" {
		t.Errorf("Create again: %v, want *OtherRunError", err)
	}
	second, err := checkpoint.Open(ctx, repo)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d on ", os.Getpid())
	if err := second.Lock(ctx); !errors.As(err, &locked) || !strings.HasPrefix(locked.Owner, want) {
		t.Errorf("a second writer: %v, want *LockedError with %q", err, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("writing without the lock doesn't panic")
		}
	}()
	second.Prune(ctx, 1)
}

// What a writer that was killed has left is removed by the next one; other names with a dot stay.
func TestSweeps(t *testing.T) {
	dir := t.TempDir()
	r := create(t, checkpoint.NewDir(dir), 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	left := []string{".run.json.0123456789abcdef.tmp", "points/.a.json.0123456789abcdef.tmp"}
	others := []string{".run.json.tmp", "points/.a.json.0123456789abcde.tmp", "packs/.tmp"}
	for _, name := range append(left, others...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	for i, name := range append(left, others...) {
		_, err := os.Stat(filepath.Join(dir, name))
		if there := err == nil; there != (i >= len(left)) {
			t.Errorf("%s: there is %v", name, there)
		}
	}
}

// A manifest of another run is refused, by all that would read it.
func TestOtherRunsManifest(t *testing.T) {
	mem, foreign := checkpointtest.NewMem(), checkpointtest.NewMem()
	r := create(t, mem, 1)
	run := newRun()
	run.ID = checkpoint.ID{9}
	f, err := checkpoint.Create(ctx, foreign, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := commit(f, 1); err != nil {
		t.Fatal(err)
	}
	name := checkpoint.Point{Epoch: 1}.Name()
	text, err := foreign.Get(ctx, name, 0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.Put(ctx, name, bytes.NewReader(text), int64(len(text)), false); err != nil {
		t.Fatal(err)
	}
	var other *checkpoint.OtherRunError
	_, errPrune := r.Prune(ctx, 1)
	_, errFind := r.Find(ctx, "latest", 0)
	for what, err := range map[string]error{"find": errFind, "prune": errPrune, "commit": commit(r, 1)} {
		if !errors.As(err, &other) || other.Name != name || other.Found.ID != run.ID {
			t.Errorf("%s: %v, want *OtherRunError", what, err)
		}
	}
}

// maxReader notes the longest read.
type maxReader struct {
	io.ReaderAt
	longest int
}

func (m *maxReader) ReadAt(p []byte, at int64) (int, error) {
	m.longest = max(m.longest, len(p))
	return m.ReaderAt.ReadAt(p, at)
}

// Spools are copied in pieces, however large their chunks are.
func TestSpoolsAreCopiedInPieces(t *testing.T) {
	r := create(t, checkpoint.NewDir(t.TempDir()), 0)
	var file bytes.Buffer
	s := checkpoint.NewSpool(&file)
	data := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{}).Read(data) // doesn't compress
	c, err := s.Add(checkpoint.Chunk{Kind: checkpoint.Nodes, Nodes: 1}, data)
	if err != nil {
		t.Fatal(err)
	}
	from := &maxReader{ReaderAt: bytes.NewReader(file.Bytes())}
	d := r.Begin()
	if err := d.Add(from, s.Size(), []checkpoint.Chunk{c}); err != nil {
		t.Fatal(err)
	}
	m := &checkpoint.Manifest{Epoch: 1}
	if err := d.Commit(ctx, m); err != nil {
		t.Fatal(err)
	}
	if from.longest == 0 || from.longest > 1<<20 {
		t.Errorf("%d bytes were read at once, want 1 MiB at most", from.longest)
	}
	if got, err := r.Read(ctx, m, collect(t, r, m)[0], nil); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v, want what was written", len(got), err)
	}
}
