// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// TestLimit refuses a checkpoint that would write more than it may, before anything of it is there, and takes smaller
// ones, and the end of a replication in any case.
func TestLimit(t *testing.T) {
	dir := checkpoint.NewDir(t.TempDir())
	r := create(t, dir, 0)
	r.Limit(100)
	var large *checkpoint.TooLargeError
	if err := commit(r, 1); !errors.As(err, &large) || large.Size <= 100 || large.Max != 100 ||
		!strings.Contains(err.Error(), "--checkpoint-most") {
		t.Fatalf("found %v, want *TooLargeError", err)
	}
	if blobs, err := dir.List(ctx, "packs"); err != nil || len(blobs) > 0 {
		t.Errorf("found %v, %v, want nothing written", blobs, err)
	}
	if _, err := r.Load(ctx, checkpoint.Point{Epoch: 1}); err == nil {
		t.Error("the checkpoint is there")
	}
	d, err := draft(r, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	end := &checkpoint.Manifest{Finished: true, Events: 100, TraceHash: traceHash(1),
		Versions: []checkpoint.Version{{Handler: "*tiny.node", Version: 1}},
		Wall:     checkpoint.Wall{Written: "2026-11-23T12:00:00Z"}}
	if err := d.Commit(ctx, end); errors.As(err, &large) {
		t.Errorf("found %v, want the end to be kept", err)
	}
	r.Limit(2 * large.Size)
	if err := commit(r, 2); err != nil {
		t.Errorf("found %v, want a checkpoint of fewer bytes than it may have", err)
	}
}
