// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var run = checkpoint.ID{1, 2, 3}

func randomRecord(r *rand.Rand, epoch float64) *Record {
	random := func(n int) []byte {
		b := make([]byte, r.IntN(n))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	return &Record{Key: Key{r.Uint32N(100), epoch, r.Uint32N(CallsMax)}, Name: "solver", Request: random(300),
		Answer: random(3000), Failed: r.IntN(4) == 0, Attempts: 1 + r.IntN(5), Took: r.Float64()}
}

// A record travels, and one that was cut short or changed in any bit is refused.
func TestRecord(t *testing.T) {
	r := seed.Rand(t)
	for range 200 {
		want := randomRecord(r, r.Float64()*1e6)
		b := want.Append(nil)
		got, rest, err := Parse(append(b, 7))
		if err != nil || len(rest) != 1 || !reflect.DeepEqual(got.Key, want.Key) || got.Name != want.Name ||
			!bytes.Equal(got.Request, want.Request) || !bytes.Equal(got.Answer, want.Answer) ||
			got.Failed != want.Failed || got.Attempts != want.Attempts || got.Took != want.Took {
			t.Fatalf("%+v, %v\nwant %+v", got, err, want)
		}
		if _, _, err := Parse(b[:r.IntN(len(b))]); err == nil {
			t.Fatal("a record that was cut short passes")
		}
		body := 44 + r.IntN(len(b)-44-len(want.Name))
		if body >= headBytes {
			body += len(want.Name)
		}
		b[body] ^= 1 << r.IntN(8)
		if _, _, err := Parse(b); err == nil {
			t.Fatalf("byte %d was changed, and passes", body)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add((&Record{Key: Key{1, 2, 3}, Name: "x", Request: []byte("a"), Answer: []byte("b"), Attempts: 1}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := Parse(b)
		if err != nil {
			return
		}
		if again := r.Append(nil); !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Fatalf("%x is written as %x", b, again)
		}
	})
}

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := New(run, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// open opens the journals of a place, as a run that goes on does.
func open(t *testing.T, b checkpoint.Blobs, from float64) (*Store, []string) {
	t.Helper()
	s := newStore(t)
	j, torn, err := OpenJournals(t.Context(), run, b, false, func(replication int, _ *Record, bytes []byte) error {
		return s.Load(replication, from, bytes)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.KeepIn(j)
	return s, torn
}

func keep(t *testing.T, s *Store, replication int, r *Record) {
	t.Helper()
	if err := s.Keep(replication, r); err != nil {
		t.Fatal(err)
	}
}

func found(t *testing.T, s *Store, replication int, want *Record) bool {
	t.Helper()
	got, err := s.Find(replication, &Record{Key: want.Key, Name: want.Name, Request: want.Request})
	if err != nil {
		t.Fatal(err)
	}
	if got != nil && (!bytes.Equal(got.Answer, want.Answer) || got.Failed != want.Failed) {
		t.Fatalf("found %+v, want %+v", got, want)
	}
	return got != nil
}

func names(t *testing.T, b checkpoint.Blobs) int {
	t.Helper()
	list, err := b.List(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// What is kept is found again, by this Store and by one that is opened later, wherever blobs are; what is in a
// checkpoint is forgotten, and journals go when they have nothing else.
func TestKeep(t *testing.T) {
	for name, b := range map[string]checkpoint.Blobs{"a directory": checkpoint.NewDir(t.TempDir()),
		"objects": checkpointtest.NewMem()} {
		t.Run(name, func(t *testing.T) {
			r := seed.Rand(t)
			s, _ := open(t, b, 0)
			if s.Any(0) || s.Any(1) {
				t.Fatal("an empty Store has records")
			}
			var all [2][]*Record
			for i := range 60 {
				rec := randomRecord(r, float64(i))
				all[i%2] = append(all[i%2], rec)
				keep(t, s, i%2, rec)
			}
			if err := s.Keep(0, all[0][3]); err == nil {
				t.Fatal("a second record of a call is kept")
			}
			again, torn := open(t, b, 0)
			if len(torn) > 0 {
				t.Fatalf("cut short: %v", torn)
			}
			for _, s := range []*Store{s, again} {
				for rep := range all {
					for _, rec := range all[rep] {
						if !found(t, s, rep, rec) || found(t, s, 1-rep, rec) {
							t.Fatalf("%v of replication %d", rec.Key, rep)
						}
					}
				}
			}
			checkCommits(t, b, again, all)
		})
	}
}

func checkCommits(t *testing.T, b checkpoint.Blobs, s *Store, all [2][]*Record) {
	section, last := s.Section(0, 30), -1.0
	err := section.Each(func(epoch float64, record []byte) error {
		r, _, err := Parse(record)
		if err != nil || r.Epoch != epoch || epoch <= last || epoch >= 30 {
			t.Errorf("epoch %v behind %v: %+v, %v", epoch, last, r, err)
		}
		last = epoch
		return nil
	})
	if err != nil || section.Len() != 15 {
		t.Fatalf("%d records before 30, want 15: %v", section.Len(), err)
	}
	late := &Record{Key: Key{0, 70, 0}, Name: "solver", Attempts: 1}
	keep(t, s, 0, late)
	for _, c := range []struct {
		replication int
		epoch       float64
		left        bool
	}{{0, 30, true}, {1, math.Inf(1), true}, {0, 60, true}, {0, 71, false}} {
		if err := s.Committed(context.Background(), c.replication, c.epoch); err != nil {
			t.Fatal(err)
		}
		for i, rec := range all[0] {
			if found(t, s, 0, rec) != (float64(2*i) >= c.epoch) && c.replication == 0 {
				t.Fatalf("behind %v: %v", c, rec.Key)
			}
		}
		if n := names(t, b); (n > 0) != c.left {
			t.Fatalf("behind %v there are %d journals", c, n)
		}
	}
	if s.size != 0 || found(t, s, 0, late) {
		t.Errorf("scratch has %d bytes of records that are all in checkpoints", s.size)
	}
}

// A mismatch shows both requests; a call without a record is an error only where nothing may be asked.
func TestMismatch(t *testing.T) {
	s := newStore(t)
	rec := &Record{Key: Key{4, 2.5, 1}, Name: "solver", Request: []byte(strings.Repeat("x", 100) + "left"), Attempts: 1}
	keep(t, s, 3, rec)
	want := &Record{Key: rec.Key, Name: "solver", Request: []byte(strings.Repeat("x", 100) + "right")}
	_, err := s.Find(3, want)
	var m *MismatchError
	if !errors.As(err, &m) || s.Mismatch() == nil {
		t.Fatal(err)
	}
	for _, text := range []string{"replication 3, simproc 4 at epoch 2.5, call 1", "xleft", "xright",
		"first difference is at byte 100", "104 bytes", "105 bytes"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v\nwithout %q", err, text)
		}
	}
	want.Request, want.Name = rec.Request, "other"
	if _, err = s.Find(3, want); !errors.As(err, &m) || !strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
	want.Call = 2
	if r, err := s.Find(3, want); r != nil || err != nil {
		t.Error(r, err)
	}
	s.Strict = true
	var none *MissingError
	if _, err := s.Find(3, want); !errors.As(err, &none) || !strings.Contains(err.Error(), `external "other"`) {
		t.Error(err)
	}
}

// A journal that was cut short anywhere is read up to the record before, and so is one whose end is zeros.
func TestCutShort(t *testing.T) {
	r := seed.Rand(t)
	dir := t.TempDir()
	s, _ := open(t, checkpoint.NewDir(dir), 0)
	path := filepath.Join(dir, "io", "00000000.journal")
	var all []*Record
	var ends []int64
	for i := range 5 {
		all = append(all, randomRecord(r, float64(i)))
		keep(t, s, 0, all[i])
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, info.Size())
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		cut := r.Int64N(ends[4])
		for _, zeros := range []int{0, r.IntN(5000)} {
			b := append(bytes.Clone(whole[:cut]), make([]byte, zeros)...)
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
			again, torn := open(t, checkpoint.NewDir(dir), 0)
			atEnd := zeros == 0 && cut == 0
			for i, end := range ends {
				atEnd = atEnd || zeros == 0 && cut == end
				if found(t, again, 0, all[i]) != (end <= cut) && !bytes.Equal(b[:min(int(end), len(b))], whole[:end]) {
					t.Fatalf("cut at %d, then %d zeros: record %d, which ends at %d", cut, zeros, i, end)
				}
			}
			if (len(torn) == 0) != atEnd {
				t.Fatalf("cut at %d, then %d zeros: %v", cut, zeros, torn)
			}
			keep(t, again, 0, randomRecord(r, 9)) // goes to a file of its own
			if err := os.Remove(filepath.Join(dir, "io", "00000001.journal")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A bit that is changed in front of the last record is an error that names file and byte.
func TestDamage(t *testing.T) {
	r := seed.Rand(t)
	dir := t.TempDir()
	s, _ := open(t, checkpoint.NewDir(dir), 0)
	path := filepath.Join(dir, "io", "00000000.journal")
	for i := range 3 {
		keep(t, s, 0, randomRecord(r, float64(i)))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := info.Size()
	keep(t, s, 0, randomRecord(r, 3))
	last, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		b := bytes.Clone(last)
		at := r.Int64N(end)
		b[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		_, _, err := OpenJournals(t.Context(), run, checkpoint.NewDir(dir), false,
			func(int, *Record, []byte) error { return nil })
		var d *checkpoint.DamagedError
		if !errors.As(err, &d) || !strings.Contains(err.Error(), "00000000.journal: byte ") {
			t.Fatalf("byte %d was changed: %v", at, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o666); err != nil {
		t.Fatal(err)
	}
	_, _, err = OpenJournals(t.Context(), checkpoint.ID{9}, checkpoint.NewDir(dir), false,
		func(int, *Record, []byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "found a record of run 0102") {
		t.Errorf("another run's: %v", err)
	}
}

// A disk that is full for a while: what was written of a record is cut off, and the next one is whole.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, checkpoint.NewDir(dir), 0)
	r := seed.Rand(t)
	first, second := randomRecord(r, 1), randomRecord(r, 2)
	keep(t, s, 0, first)
	file := s.log.file
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here: ", err)
	}
	defer full.Close()
	s.log.file = full
	if err := s.Keep(0, second); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatal(err)
	}
	if found(t, s, 0, second) {
		t.Fatal("what wasn't written is found")
	}
	s.log.file = file
	keep(t, s, 0, second)
	again, torn := open(t, checkpoint.NewDir(dir), 0)
	if len(torn) > 0 || !found(t, again, 0, first) || !found(t, again, 0, second) {
		t.Fatalf("cut short: %v", torn)
	}
}

// A file of records is written once, and read by another run.
func TestRecordTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers")
	j, err := RecordTo(run, path, true)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	s.KeepIn(j)
	r := seed.Rand(t)
	rec := randomRecord(r, 1)
	keep(t, s, 0, rec)
	if err := s.Committed(t.Context(), 0, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := RecordTo(run, path, true); err == nil || !strings.Contains(err.Error(), "want a new one") {
		t.Errorf("it is written again: %v", err)
	}
	again := newStore(t)
	var id checkpoint.ID
	begin := func(run checkpoint.ID) error { id = run; return nil }
	cut, err := ReadFile(path, begin, func(rep int, record []byte) error { return again.Load(rep, 0, record) })
	if err != nil || cut || id != run || !found(t, again, 0, rec) {
		t.Fatal(id, cut, err)
	}
	for _, text := range []string{"", "short", strings.Repeat("no records", 100)} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path, begin, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := ReadFile(filepath.Dir(path), begin, nil); err == nil {
		t.Error("a directory passes")
	}
}

// Keys differ where anything of a call differs, and only there.
func TestIdempotencyKey(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []checkpoint.ID{run, {9}} {
		for rep := range 3 {
			for _, k := range []Key{{}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}} {
				what := fmt.Sprint(id, rep, k)
				key := k.IdempotencyKey(id, rep)
				if other, there := seen[key]; there || len(key) != 64 || key != k.IdempotencyKey(id, rep) {
					t.Errorf("%s has the key of %s: %s", what, other, key)
				}
				seen[key] = what
			}
		}
	}
}
