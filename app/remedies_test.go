// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/model/service"
)

// TestReplayRemedies: where what is recorded is damaged, replay names a command that compares what isn't, and that
// command does.
func TestReplayRemedies(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	runSaved(t, service.Kind(), "run", filepath.Join("..", "examples", "mini.yml"), "--horizon", "60", "--transport",
		"inproc", "--checkpoint-to", store, "--replayable", "--checkpoint-at", "20", "--checkpoint-at", "40")
	for _, c := range []struct {
		kind checkpoint.Kind
		of   string // the checkpoint that has it
		args []string
		want string
	}{
		{checkpoint.Hashes, "20", nil, "--at 20"},
		{checkpoint.Nodes, "40", []string{"--at", "40"}, "--at 20"},
		{checkpoint.Nodes, "20", []string{"--at", "20"}, ""},
		{checkpoint.Results, "", nil, "--until 40"},
	} {
		mend := damageChunk(t, store, c.kind, c.of)
		status, said := replayedStore(store, c.args...)
		proposed := regexp.MustCompile("`disco-run replay " + store + " ?([^`]*)`").FindStringSubmatch(said)
		if status != ExitFailed || len(proposed) != 2 || proposed[1] != c.want || strings.Contains(said, "crash") {
			t.Fatalf("%v of %q: exit status %d: %s\nwant to be told replay %s %s", c.kind, c.of, status, said, store,
				c.want)
		}
		if status, said := replayedStore(store, strings.Fields(proposed[1])...); status != ExitOK ||
			!strings.Contains(said, "equal: ") {
			t.Errorf("%v of %q: what was proposed ends with %d: %s", c.kind, c.of, status, said)
		}
		mend()
	}
	if status, said := replayedStore(store, "FILE"); status != ExitUsage || !strings.Contains(said, "want DIR alone") {
		t.Errorf("DIR FILE: exit status %d: %s", status, said)
	}
}

// replayedStore replays a store.
func replayedStore(store string, args ...string) (status int, said string) {
	var stdout, stderr bytes.Buffer
	status = Run(append([]string{"disco-run", "replay", store, "--transport", "inproc"}, args...),
		strings.NewReader(""), &stdout, &stderr, service.Kind())
	return status, stdout.String() + stderr.String()
}

// damageChunk flips a bit of the first chunk of a kind that a checkpoint, or the end, has, and gives what mends it.
func damageChunk(t *testing.T, store string, kind checkpoint.Kind, at string) (mend func()) {
	t.Helper()
	ctx := context.Background()
	r, err := checkpoint.Open(ctx, checkpoint.NewDir(store))
	if err != nil {
		t.Fatal(err)
	}
	points, err := r.PointsAt(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Load(ctx, points[0])
	if err != nil {
		t.Fatal(err)
	}
	var first *checkpoint.Chunk
	err = r.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		if c.Kind == kind && (first == nil || c.From < first.From) {
			first = &c
		}
		return nil
	})
	if err != nil || first == nil {
		t.Fatalf("no chunk of kind %v: %v", kind, err)
	}
	name := filepath.Join(store, "packs", first.Pack.Digest.String()+".pack")
	flip := func() {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[first.At+first.Size-2] ^= 0x10
		if err := os.WriteFile(name, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	return flip
}
