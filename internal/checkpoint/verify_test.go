// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
)

// A pack of another size than its manifest says is damage, also where all chunks can be read, and Prune, which doesn't
// count its checkpoint as one that stays, says so.
func TestResizedPack(t *testing.T) {
	each(t, func(t *testing.T, b checkpoint.Blobs) {
		r := create(t, b, 2)
		m, err := r.Find(ctx, "2", 0)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := r.Prune(ctx, 5); err != nil || len(done.Broken) > 0 {
			t.Fatalf("%+v, %v, want nothing that is broken", done, err)
		}
		name := m.Packs[len(m.Packs)-1].Name()
		text, err := b.Get(ctx, name, 0, 1<<20, nil)
		if err == nil {
			text = append(bytes.Clone(text), "junk\n"...)
			err = b.Put(ctx, name, bytes.NewReader(text), int64(len(text)), false)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s: found a pack of %d bytes, want %d", name, len(text), len(text)-5)
		if err := damages(t, r)[m.Point()]; err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("Verify says %v, want %q once", err, want)
		}
		done, err := r.Prune(ctx, 1)
		if err != nil || done.Checkpoints != 0 || len(done.Broken) == 0 || done.Broken[len(done.Broken)-1].Err == nil {
			t.Fatalf("%+v, %v, want that nothing is pruned, and why", done, err)
		}
		if first := done.Broken[0]; first.Point != m.Point() || !strings.Contains(first.Err.Error(), want) {
			t.Errorf("Prune says %v: %v, want %q", first.Point, first.Err, want)
		}
	})
}

// A label of whose epoch there is no checkpoint is found.
func TestLooseLabels(t *testing.T) {
	b := checkpointtest.NewMem()
	r := create(t, b, 3)
	for at, label := range map[string]string{"1": "one", "2": "two"} {
		m, err := r.Find(ctx, at, 0)
		if err == nil {
			err = r.Label(ctx, m, label)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if loose, err := r.LooseLabels(ctx); err != nil || len(loose) > 0 {
		t.Errorf("found %v, %v, want no label without a checkpoint", loose, err)
	}
	if err := b.Delete(ctx, checkpoint.Point{Epoch: 2}.Name()); err != nil {
		t.Fatal(err)
	}
	if loose, err := r.LooseLabels(ctx); err != nil || len(loose) != 1 || loose["two"] != 2 {
		t.Errorf("found %v, %v, want label two at 2", loose, err)
	}
}
