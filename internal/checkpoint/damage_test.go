// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/seed"
)

// damages lists what is damaged, by point.
func damages(t *testing.T, r *checkpoint.Repo) map[checkpoint.Point]error {
	t.Helper()
	all := map[checkpoint.Point]error{}
	if err := r.Verify(ctx, func(p checkpoint.Point, m *checkpoint.Manifest, damage error) error {
		all[p] = damage
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// broken gives the ways in which a file is spoilt.
func broken(t *testing.T, text []byte) map[string][]byte {
	all := map[string][]byte{"empty": nil, "half": text[:len(text)/2], "shorter": text[:len(text)-1],
		"longer": append(bytes.Clone(text), '\n')}
	rng := seed.Rand(t)
	for range 100 {
		bit := rng.IntN(8 * len(text))
		flipped := bytes.Clone(text)
		flipped[bit/8] ^= 1 << (bit % 8)
		all[fmt.Sprintf("bit %d flipped", bit)] = flipped
	}
	return all
}

// TestDamagedObjects: whatever happens to a JSON file, it is refused by name, and never read as something else.
func TestDamagedObjects(t *testing.T) {
	dir := t.TempDir()
	b := checkpoint.NewDir(dir)
	r := create(t, b, 3)
	m, err := r.Find(ctx, "1", 0)
	if err == nil {
		err = r.Label(ctx, m, "warm")
	}
	if err != nil {
		t.Fatal(err)
	}
	latest := checkpoint.Point{Epoch: 3}
	for name, read := range map[string]func() error{
		"run.json": func() error {
			_, err := checkpoint.Open(ctx, b)
			return err
		},
		"labels/warm.json": func() error {
			_, err := r.Find(ctx, "warm", 0)
			_, errLabels := r.Labels(ctx)
			_, errPrune := r.Prune(ctx, 9) // it could be that of any checkpoint
			if (errLabels == nil) != (err == nil) || (errPrune == nil) != (err == nil) {
				t.Errorf("Labels: %v, Prune: %v, Find: %v", errLabels, errPrune, err)
			}
			return err
		},
		latest.Name(): func() error {
			_, err := r.Find(ctx, "latest", 0)
			damage := damages(t, r)[latest]
			if (damage == nil) != (err == nil) ||
				err != nil && !strings.Contains(err.Error(), "before it is at epoch 2") {
				t.Errorf("Verify: %v, Find: %v", damage, err)
			}
			return err
		},
	} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for how, text := range broken(t, whole) {
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
			err := read()
			var damaged *checkpoint.DamagedError
			if !errors.As(err, &damaged) || damaged.Name != name || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s, %s: %v, want *DamagedError", name, how, err)
			}
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := read(); err != nil {
			t.Fatalf("%s, as it was: %v", name, err)
		}
	}
	if m, err := r.Find(ctx, "latest", 0); err != nil || checkContent(r, m) != nil {
		t.Errorf("in the end: %v", err)
	}
}

// TestDamagedPacks: chunks of a pack that was cut short, changed or lost are named with their pack and nodes, by Read
// and Verify; the next checkpoint that needs them writes them again.
func TestDamagedPacks(t *testing.T) {
	each(t, func(t *testing.T, b checkpoint.Blobs) {
		r := create(t, b, 3)
		m, err := r.Find(ctx, "latest", 0)
		if err != nil {
			t.Fatal(err)
		}
		chunks := collect(t, r, m)
		rng := seed.Rand(t)
		for range 60 {
			c := chunks[rng.IntN(len(chunks))]
			was, err := r.Read(ctx, m, c, nil)
			if err != nil {
				t.Fatal(err)
			}
			name := c.Pack.Name()
			whole, err := b.Get(ctx, name, 0, c.Pack.Bytes, nil)
			if err != nil {
				t.Fatal(err)
			}
			text := bytes.Clone(whole)
			bit := int(8*c.At) + rng.IntN(int(8*c.Size))
			text[bit/8] ^= 1 << (bit % 8)
			how := fmt.Sprintf("bit %d flipped", bit)
			switch rng.IntN(3) {
			case 0:
				text, how = whole[:c.At+rng.Int64N(c.Size)], "cut short"
			case 1:
				text, how = nil, "gone"
			}
			if err := b.Delete(ctx, name); err != nil {
				t.Fatal(err)
			}
			if text != nil {
				if err := b.Put(ctx, name, bytes.NewReader(text), int64(len(text)), false); err != nil {
					t.Fatal(err)
				}
			}
			expectDamage(t, r, m, c, was, how)
			if err := b.Put(ctx, name, bytes.NewReader(whole), int64(len(whole)), false); err != nil {
				t.Fatal(err)
			}
		}
		if epochs, err := checkAll(b); err != nil || len(epochs) != 3 {
			t.Errorf("in the end: %v, %v", epochs, err)
		}
	})
}

// expectDamage fails the test unless a chunk that had the bytes was, and is damaged, is named.
func expectDamage(t *testing.T, r *checkpoint.Repo, m *checkpoint.Manifest, c checkpoint.Chunk, was []byte,
	how string) {
	t.Helper()
	data, err := r.Read(ctx, m, c, nil)
	if err == nil {
		// A frame may have bits that mean nothing.
		if !bytes.Equal(data, was) {
			t.Fatalf("%v, %s: it was read, as something else", &c, how)
		}
		return
	}
	var damaged *checkpoint.DamagedError
	if !errors.As(err, &damaged) || damaged.Name != c.Pack.Name() || damaged.Chunk == nil || *damaged.Chunk != c {
		t.Fatalf("%v, %s: %v, want *DamagedError of it", &c, how, err)
	}
	text := err.Error()
	if c.Kind != checkpoint.Trace {
		want := fmt.Sprintf("%v chunk of nodes %d to %d ", c.Kind, c.First, c.First+groupNodes-1)
		if !strings.Contains(text, want) {
			t.Fatalf("%v, %s: %v, want %q", &c, how, err, want)
		}
	}
	found := damages(t, r)[m.Point()]
	if found == nil || !strings.Contains(found.Error(), c.Pack.Name()) {
		t.Fatalf("%v, %s: Verify says %v", &c, how, found)
	}
}

// TestMends: a checkpoint that is written again replaces a manifest and a pack that are damaged.
func TestMends(t *testing.T) {
	each(t, func(t *testing.T, b checkpoint.Blobs) {
		r := create(t, b, 1)
		m, err := r.Find(ctx, "1", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, names := range [][]string{{m.Point().Name()}, {m.Point().Name(), m.Packs[0].Name()}} {
			for _, name := range names {
				if err := b.Put(ctx, name, strings.NewReader("abc"), 3, false); err != nil {
					t.Fatal(err)
				}
			}
			if err := commit(r, 1); err != nil {
				t.Fatal(err)
			}
			if epochs, err := checkAll(b); err != nil || len(epochs) != 1 {
				t.Errorf("%v: %v, %v", names, epochs, err)
			}
		}
	})
}

// TestKeepsWhatIsGone: a chunk whose pack is gone or of another size can't be kept, and nothing is written.
func TestKeepsWhatIsGone(t *testing.T) {
	mem := checkpointtest.NewMem()
	r := create(t, mem, 1)
	m, err := r.Find(ctx, "1", 0)
	if err != nil {
		t.Fatal(err)
	}
	chunk := collect(t, r, m)[0]
	if err := mem.Delete(ctx, m.Packs[0].Name()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d := r.Begin()
		d.Keep(chunk)
		var damaged *checkpoint.DamagedError
		if err := d.Commit(ctx, &checkpoint.Manifest{Epoch: 2}); !errors.As(err, &damaged) || *damaged.Chunk != chunk {
			t.Errorf("Commit: %v, want *DamagedError of the chunk", err)
		}
		if err := mem.Put(ctx, m.Packs[0].Name(), strings.NewReader("abc"), 3, false); err != nil {
			t.Fatal(err)
		}
	}
	if blobs, err := mem.List(ctx, ""); err != nil || len(blobs) != 3 {
		t.Errorf("there is %v, %v, want run.json, a manifest and a pack", blobs, err)
	}
}

// TestPrune: the newest whole ones of each replication stay, and those with a label; a damaged one goes when it is old,
// and until then no pack does.
func TestPrune(t *testing.T) {
	mem := checkpointtest.NewMem()
	r := create(t, mem, 8)
	if err := r.Begin().Commit(ctx, &checkpoint.Manifest{Replication: 2, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	m2, err := r.Find(ctx, "2", 0)
	if err == nil {
		err = r.Label(ctx, m2, "two")
	}
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string) {
		t.Helper()
		if err := mem.Put(ctx, name, strings.NewReader("abc"), 3, false); err != nil {
			t.Fatal(err)
		}
	}
	put(checkpoint.Point{Epoch: 8}.Name())
	done, err := r.Prune(ctx, 2)
	var damaged *checkpoint.DamagedError
	if !errors.As(err, &damaged) || damaged.Name != (checkpoint.Point{Epoch: 8}).Name() || done.Packs != 0 ||
		done.Checkpoints != 4 {
		t.Errorf("%+v, %v, want 4 checkpoints, no pack, and the damaged one's name", done, err)
	}
	points, err := r.Points(ctx)
	if want := "[replication 0, epoch 2 replication 0, epoch 6 replication 0, epoch 7 replication 0, epoch 8 " +
		"replication 2, epoch 1]"; err != nil || fmt.Sprint(points) != want {
		t.Errorf("left are %v, %v, want %s", points, err, want)
	}
	for k := 9; k <= 10; k++ {
		if err := commit(r, k); err != nil {
			t.Fatal(err)
		}
	}
	m10, err := r.Find(ctx, "10", 0)
	if err != nil {
		t.Fatal(err)
	}
	put(m10.Packs[0].Name()) // so 10 isn't whole, and 7 stays
	if done, err = r.Prune(ctx, 2); !errors.As(err, &damaged) || done.Checkpoints != 1 {
		t.Errorf("%+v, %v, want checkpoint 6 alone pruned", done, err)
	}
	for k := 10; k <= 11; k++ {
		if err := mem.Delete(ctx, m10.Point().Name()); err != nil {
			t.Fatal(err)
		}
		if err := commit(r, k); err != nil {
			t.Fatal(err)
		}
	}
	if done, err = r.Prune(ctx, 2); err != nil || done.Packs == 0 || done.Bytes == 0 {
		t.Errorf("%+v, %v, want packs pruned", done, err)
	}
	if _, err := r.Prune(ctx, 0); err == nil {
		t.Error("all were to go, and that is no error")
	}
	if err := r.Unlabel(ctx, "two"); err != nil {
		t.Fatal(err)
	}
	if _, err = r.Prune(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if epochs, err := checkAll(onlyReplication0{mem}); err != nil || len(epochs) != 1 {
		t.Errorf("in the end: %v, %v", epochs, err)
	}
}

// onlyReplication0 hides the checkpoints of others, which have no content that can be checked.
type onlyReplication0 struct{ checkpoint.Blobs }

func (o onlyReplication0) List(c context.Context, prefix string) ([]checkpoint.Blob, error) {
	blobs, err := o.Blobs.List(c, prefix)
	return slices.DeleteFunc(blobs, func(b checkpoint.Blob) bool {
		return strings.HasPrefix(b.Name, "points/") && !strings.HasPrefix(b.Name, "points/000000-")
	}), err
}

// TestPacksAreUsed: a chunk that never changes doesn't hold the pack with which it came; what is kept is at most four
// times what is used.
func TestPacksAreUsed(t *testing.T) {
	mem := checkpointtest.NewMem()
	r := create(t, mem, 1)
	m, err := r.Find(ctx, "1", 0)
	if err != nil {
		t.Fatal(err)
	}
	first := m.Packs[0]
	for k := 2; k <= 30; k++ {
		if err := commit(r, k); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Prune(ctx, 1); err != nil {
			t.Fatal(err)
		}
		if m, err = r.Find(ctx, "latest", 0); err != nil {
			t.Fatal(err)
		}
		packs, err := mem.List(ctx, "packs/")
		if err != nil {
			t.Fatal(err)
		}
		bytes := int64(0)
		for _, p := range packs {
			bytes += p.Size
		}
		const tables = 8 << 10 // of this pack, uncompressed
		if len(packs) != len(m.Packs) || bytes > 4*m.Wall.Stored+tables {
			t.Errorf("checkpoint %d: %d packs with %d bytes, used are %d with %d", k, len(packs), bytes, len(m.Packs),
				m.Wall.Stored)
		}
	}
	if slices.Contains(m.Packs, first) {
		t.Error("the first pack is still there, and has one chunk that is used")
	}
	if epochs, err := checkAll(mem); err != nil || len(epochs) != 1 {
		t.Errorf("%v, %v", epochs, err)
	}
}

// TestNamedPipe: what isn't a regular file is refused, and not waited for.
func TestNamedPipe(t *testing.T) {
	dir := t.TempDir()
	create(t, checkpoint.NewDir(dir), 1)
	name := checkpoint.Point{Epoch: 1}.Name()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := checkpoint.Open(ctx, checkpoint.NewDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	var damaged *checkpoint.DamagedError
	if _, err := r.Find(ctx, "latest", 0); !errors.As(err, &damaged) || damaged.Name != name {
		t.Errorf("a named pipe: %v, want *DamagedError", err)
	}
}

// TestLabels: which names are labels, and that one doesn't move.
func TestLabels(t *testing.T) {
	mem := checkpointtest.NewMem()
	r := create(t, mem, 2)
	m1, err := r.Find(ctx, "1", 0)
	if err != nil {
		t.Fatal(err)
	}
	m2, err := r.Find(ctx, "2", 0)
	if err != nil {
		t.Fatal(err)
	}
	for label, ok := range map[string]bool{
		"a": true, strings.Repeat("x", 64): true, "A.b_c-9": true, "1e6": true, "-": true,
		"": false, strings.Repeat("x", 65): false, "12.5": false, ".": false, "..": false, ".x": false, "latest": false,
		"a/b": false, "ä": false, "a b": false, "a\x00": false,
	} {
		if err := r.Label(ctx, m1, label); (err == nil) != ok {
			t.Errorf("label %q: %v", label, err)
		}
	}
	labels, err := r.Labels(ctx)
	if err != nil || len(labels) != 5 || labels["1e6"] != 1 {
		t.Errorf("labels %v, %v", slices.Collect(maps.Keys(labels)), err)
	}
	if err := r.Label(ctx, m2, "a"); err == nil || !strings.Contains(err.Error(), "epoch 1") {
		t.Errorf("a label that another epoch has: %v", err)
	}
	if err := errors.Join(r.Unlabel(ctx, "a"), r.Unlabel(ctx, "a"), r.Label(ctx, m2, "a")); err != nil {
		t.Error(err)
	}
	if m, err := r.Find(ctx, "a", 0); err != nil || m.Epoch != 2 {
		t.Errorf("%v, %v", m, err)
	}
}
