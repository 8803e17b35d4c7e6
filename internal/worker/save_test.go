// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// committer is a launcher that commits what savers have stored.
type committer struct {
	t      testing.TB
	repo   *checkpoint.Repo
	spools []*os.File
	stored []Stored // by worker: parts put together
	last   map[chunkKey][]checkpoint.Chunk
	m      *checkpoint.Manifest // the last one
}

func newCommitter(t testing.TB, nodes int) *committer {
	run := checkpoint.Run{Disco: "test", Kind: "phold", Text: []byte("model: phold\n"), Replications: 1, Horizon: 100,
		Nodes: int64(nodes), Simprocs: 1, GroupNodes: 8}
	repo, err := checkpoint.Create(context.Background(), checkpointtest.NewMem(), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return &committer{t: t, repo: repo}
}

// saver makes a worker's saver.
func (k *committer) saver(plan *node.Plan, bytes int) *saver {
	spool, err := os.Create(filepath.Join(k.t.TempDir(), "spool"))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { spool.Close() })
	w := len(k.spools)
	k.spools, k.stored = append(k.spools, spool), append(k.stored, Stored{})
	s := newSaver(plan, 8, spool, func(part *Stored) error {
		all := &k.stored[w]
		all.Epoch, all.Error, all.Last = part.Epoch, part.Error, part.Last
		all.Simprocs, all.Hashes = append(all.Simprocs, part.Simprocs...), append(all.Hashes, part.Hashes...)
		all.Chunks = append(all.Chunks, part.Chunks...)
		return nil
	}, time.Now)
	s.bytes = bytes
	k.t.Cleanup(s.close)
	return s
}

// commit commits what all savers have stored, and returns how many chunks were written and kept.
func (k *committer) commit(epoch float64) (written, kept int) {
	t := k.t
	t.Helper()
	ctx, draft := context.Background(), k.repo.Begin()
	for w := range k.stored {
		st := &k.stored[w]
		if st.Error != "" || !st.Last || st.Epoch != epoch {
			t.Fatalf("worker %d stored %+v", w, st)
		}
		var fresh []checkpoint.Chunk
		for _, c := range st.Chunks {
			if c.At >= 0 {
				fresh = append(fresh, c)
				continue
			}
			i := slices.IndexFunc(k.last[keyOf(&c)], func(o checkpoint.Chunk) bool { return o.Digest == c.Digest })
			if i < 0 {
				t.Fatalf("worker %d keeps %v, which isn't in the last checkpoint", w, &c)
			}
			draft.Keep(k.last[keyOf(&c)][i])
		}
		written, kept = written+len(fresh), kept+len(st.Chunks)-len(fresh)
		info, err := k.spools[w].Stat()
		if err != nil {
			t.Fatal(err)
		}
		if err := draft.Add(k.spools[w], info.Size(), fresh); err != nil {
			t.Fatal(err)
		}
		k.stored[w] = Stored{}
	}
	k.m = &checkpoint.Manifest{Epoch: epoch}
	if err := draft.Commit(ctx, k.m); err != nil {
		t.Fatal(err)
	}
	k.last = map[chunkKey][]checkpoint.Chunk{}
	for _, c := range k.chunks() {
		k.last[keyOf(&c)] = append(k.last[keyOf(&c)], c)
	}
	return written, kept
}

func (k *committer) chunks() (all []checkpoint.Chunk) {
	err := k.repo.Chunks(context.Background(), k.m, func(c checkpoint.Chunk) error {
		all = append(all, c)
		return nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return all
}

// bundle writes the last checkpoint to a file, as the launcher does before Prepare.
func (k *committer) bundle() *os.File {
	f, err := os.Create(filepath.Join(k.t.TempDir(), "restore"))
	if err == nil {
		err = k.repo.Bundle(context.Background(), k.m, f, k.chunks())
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { f.Close() })
	return f
}

// few is PHOLD of which few processes have anything to do, so that some groups don't change.
func few(lps int) *phold.Model {
	p := phold.Defaults()
	p.LPs, p.Events, p.Remote, p.Lookahead, p.End, p.Payload = lps, 1, 0.3, 0.1, 100, 24
	return phold.New(p)
}

// oneEngine is an Engine of all nodes, or of those of one worker.
func oneEngine(t testing.TB, s scenario.Scenario, placement []int32, self int, r *node.Resume) (*node.Engine,
	*node.Plan) {
	t.Helper()
	plan, err := node.NewPlan(s.Graph(), placement, self, int(slices.Max(placement))+1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: s, Seed: 7, Horizon: s.Horizon(), Resume: r, Port: noPort{}})
	if err != nil {
		t.Fatal(err)
	}
	return e, plan
}

// noPort is for Engines that send nothing to others.
type noPort struct{ node.Port }

func runUntil(t testing.TB, e *node.Engine, until float64) {
	t.Helper()
	for e.SetUntil(until); e.Next() != node.Never; {
		if _, err := e.Run(64, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// encoded is all that Engines have, by node.
func encoded(t testing.TB, engines ...*node.Engine) map[string]string {
	t.Helper()
	all := map[string]string{}
	for w, e := range engines {
		for n := range 64 {
			if b, err := e.AppendNode(nil, n); err == nil {
				all[fmt.Sprint("node ", n)] = string(b)
			} else if len(engines) == 1 {
				t.Fatal(w, err)
			}
		}
		err := e.EachPending(func(n int, b []byte) error {
			all[fmt.Sprint("pending ", n)] = string(b)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func save(t testing.TB, s *saver, e *node.Engine, m *Save) {
	t.Helper()
	if err := s.save(e, m, nil); err != nil {
		t.Fatal(err)
	}
	s.writing.Wait()
}

// What one worker has saved is what three load, with chunks of any size, in memory or directly; and what hasn't changed
// isn't written again.
func TestSaveAndLoad(t *testing.T) {
	for _, c := range []struct {
		bytes  int
		direct bool
		room   int64
	}{
		{chunkBytes, false, 0}, {1, false, 0}, {300, false, 0}, {chunkBytes, true, 0}, {300, true, 0},
		{300, false, 1},       // there is no memory for a copy
		{300, false, -1},      // for a copy, and for no states
		{300, false, 1 << 40}, // for all
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			model, alone := few(64), make([]int32, 64)
			e, plan := oneEngine(t, model, alone, 0, nil)
			k := newCommitter(t, 64)
			s := k.saver(plan, c.bytes)
			committed, keptAll := 0.0, 0
			for _, end := range []float64{3, 3.5, 3.6, 3.7, 20} {
				runUntil(t, e, end)
				m := &Save{Epoch: end, Committed: committed, Direct: c.direct, Room: c.room}
				if c.room < 0 {
					m.Room = s.copied.Grows(e) + 1
				}
				save(t, s, e, m)
				none := c.direct || c.room == 1 || c.room < 0 && end == 3 // later, states fit where chunks were made
				if kept := s.copied.Bytes(); c.room >= 0 && (kept == 0) != none || none && kept != 0 {
					t.Errorf("until %v: a copy of what is pending has %d bytes", end, kept)
				}
				_, kept := k.commit(end)
				keptAll += kept
				committed = end
				three := []int32{}
				for n := range 64 {
					three = append(three, int32((n+n/5)%3))
				}
				file, want := k.bundle(), encoded(t, e)
				var engines []*node.Engine
				for w := range 3 {
					other, _ := oneEngine(t, model, three, w, resume(&Prepare{Restore: true, Epoch: end}, file, 64))
					other.SetUntil(end)
					engines = append(engines, other)
				}
				if got := encoded(t, engines...); !maps.Equal(got, want) {
					t.Fatalf("until %v: three Engines have %d parts, which differ from the %d of one", end, len(got),
						len(want))
				}
			}
			if keptAll == 0 {
				t.Error("nothing was kept between epochs that are close to each other")
			}
		})
	}
}

// A checkpoint that was made and not committed is no base of the next one.
func TestSaveAfterOneThatFailed(t *testing.T) {
	e, plan := oneEngine(t, few(64), make([]int32, 64), 0, nil)
	k := newCommitter(t, 64)
	s := k.saver(plan, 300)
	runUntil(t, e, 5)
	save(t, s, e, &Save{Epoch: 5})
	k.commit(5)
	runUntil(t, e, 9)
	save(t, s, e, &Save{Epoch: 9, Committed: 5})
	k.stored[0] = Stored{} // the store is full
	runUntil(t, e, 9.1)
	save(t, s, e, &Save{Epoch: 9.1, Committed: 5})
	k.commit(9.1) // fails where a chunk of epoch 9 is taken for one that is there
	other, _ := oneEngine(t, few(64), make([]int32, 64), 0, resume(&Prepare{Epoch: 9.1}, k.bundle(), 64))
	other.SetUntil(9.1)
	if got := encoded(t, other); !maps.Equal(got, encoded(t, e)) {
		t.Error("what was loaded differs")
	}
}

// fullFile has room for some bytes.
type fullFile struct{ room int }

func (f *fullFile) WriteAt(b []byte, at int64) (int, error) {
	if int(at)+len(b) > f.room {
		return 0, &os.PathError{Op: "write", Path: "", Err: syscall.ENOSPC}
	}
	return len(b), nil
}

// A full disk is said, and the next checkpoint can be made.
func TestSaveToAFullDisk(t *testing.T) {
	for _, direct := range []bool{false, true} {
		e, plan := oneEngine(t, few(64), make([]int32, 64), 0, nil)
		k := newCommitter(t, 64)
		s := k.saver(plan, 300)
		whole := s.spool
		s.spool = &fullFile{room: 1000}
		runUntil(t, e, 5)
		save(t, s, e, &Save{Epoch: 5, Direct: direct})
		if st := k.stored[0]; !strings.Contains(st.Error, "no space left") || len(st.Chunks) > 0 || !st.Last {
			t.Errorf("direct %v: found %+v, want an error and no chunks", direct, st)
		}
		k.stored[0], s.spool = Stored{}, whole
		save(t, s, e, &Save{Epoch: 5, Direct: direct})
		k.commit(5)
	}
}

// A worker that ends doesn't wait for what it writes to be compressed.
func TestSaverEnds(t *testing.T) {
	e, plan := oneEngine(t, few(64), make([]int32, 64), 0, nil)
	k := newCommitter(t, 64)
	s := k.saver(plan, 300)
	writes, goOn := make(chan int, 1000), make(chan bool)
	s.spool = writerAt(func(b []byte, _ int64) (int, error) {
		writes <- len(b)
		<-goOn
		return len(b), nil
	})
	runUntil(t, e, 5)
	if err := s.save(e, &Save{Epoch: 5}, nil); err != nil {
		t.Fatal(err)
	}
	<-writes // it writes the first chunk
	ended := make(chan bool)
	go func() {
		s.end()
		close(ended)
	}()
	for !s.useless.Load() {
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	<-ended
	if n := len(writes); n != 0 {
		t.Errorf("%d chunks were written after the end", n)
	}
	if s.newest.epoch != 0 {
		t.Error("what was not written whole counts as made")
	}
}

type writerAt func(b []byte, at int64) (int, error)

func (f writerAt) WriteAt(b []byte, at int64) (int, error) { return f(b, at) }

// The memory of a checkpoint that is sent is in parts: the launcher gets all of it.
func TestStoredInParts(t *testing.T) {
	s := &saver{now: time.Now}
	var got Stored
	parts := 0
	s.send = func(p *Stored) error {
		if len(p.Simprocs) > 8*storedItems || len(p.Chunks) > storedItems || got.Last {
			t.Errorf("part %d has %d simprocs, %d chunks, behind the last: %v", parts, len(p.Simprocs), len(p.Chunks),
				got.Last)
		}
		got.Simprocs, got.Hashes = append(got.Simprocs, p.Simprocs...), append(got.Hashes, p.Hashes...)
		got.Chunks, got.Last = append(got.Chunks, p.Chunks...), p.Last
		parts++
		return nil
	}
	w := &writer{began: time.Now(), epoch: 3}
	for i := range 30000 {
		w.stored.Simprocs, w.stored.Hashes = append(w.stored.Simprocs, uint32(i)), append(w.stored.Hashes, uint64(i))
	}
	for i := range 4000 {
		w.stored.Chunks = append(w.stored.Chunks, checkpoint.Chunk{First: uint32(i)})
	}
	if err := s.finish(w); err != nil {
		t.Fatal(err)
	}
	if !got.Last || parts < 5 || !slices.Equal(got.Simprocs, w.stored.Simprocs) ||
		!slices.Equal(got.Hashes, w.stored.Hashes) || !slices.Equal(got.Chunks, w.stored.Chunks) {
		t.Errorf("found %d simprocs and %d chunks in %d parts", len(got.Simprocs), len(got.Chunks), parts)
	}
	lost := errors.New("gone")
	s.send = func(*Stored) error { return lost }
	if err := s.finish(w); !errors.Is(err, lost) {
		t.Errorf("found %v, want %v", err, lost)
	}
}

// A damaged state is an error that says where, whichever byte it is.
func TestLoadDamaged(t *testing.T) {
	model := few(64)
	e, plan := oneEngine(t, model, make([]int32, 64), 0, nil)
	k := newCommitter(t, 64)
	s := k.saver(plan, 300)
	runUntil(t, e, 5)
	save(t, s, e, &Save{Epoch: 5})
	k.commit(5)
	file := k.bundle()
	whole, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	load := func(b []byte) (text string, err error) {
		err = checkpoint.ReadBundle(bytes.NewReader(b), 64, func(c checkpoint.Chunk, data []byte) error {
			return checkpoint.EachNode(&c, data, func(n int, encoded []byte) error {
				text += fmt.Sprintf("%v of %d: %x\n", c.Kind, n, encoded)
				return nil
			})
		})
		return text, err
	}
	want, err := load(whole)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 31 {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		if got, err := load(b); err == nil && len(got) == len(want) && got != want {
			t.Fatalf("byte %d of %d was changed, and other chunks were found", at, len(whole))
		}
	}
	for _, n := range []int{1, 79, 81, len(whole) - 1} {
		if _, err := load(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes were loaded", n, len(whole))
		}
	}
	if _, err := file.WriteAt(whole[:80], 0); err != nil || file.Truncate(80) != nil {
		t.Fatal(err)
	}
	_, err = node.NewEngine(plan, node.Config{Model: model, Horizon: 100, Port: noPort{},
		Resume: resume(&Prepare{Epoch: 5}, file, 64)})
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		t.Errorf("found %v, want an end too early", err)
	}
	_, err = node.NewEngine(plan, node.Config{Model: model, Horizon: 100, Port: noPort{},
		Resume: resume(&Prepare{Epoch: 5}, nil, 64)})
	if err == nil || !strings.Contains(err.Error(), "no file") {
		t.Errorf("found %v, want that there is no file", err)
	}
}

// Why a checkpoint isn't there is said as it is: what can't be encoded has nothing to do with the spool.
func TestSaidWhyNotStored(t *testing.T) {
	for want, err := range map[string]error{
		"node: a: too large": &encodeError{errors.New("node: a: too large")},
		"the temporary file for it: no space left on device": &os.PathError{Op: "write", Err: syscall.ENOSPC},
	} {
		if got := spoolError(err); got != want {
			t.Errorf("%v is said as %q, want %q", err, got, want)
		}
	}
}
