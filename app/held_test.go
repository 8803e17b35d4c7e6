// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/model/service"
)

// prunes removes all checkpoints but the newest when the first line is written, as a run under way would.
type prunes struct {
	bytes.Buffer
	store string
	done  bool
	err   error
}

// Write implements io.Writer.
func (p *prunes) Write(b []byte) (int, error) {
	if !p.done {
		p.done = true
		ctx := context.Background()
		r, err := checkpoint.Open(ctx, checkpoint.NewDir(p.store))
		if err == nil {
			err = r.Lock(ctx)
		}
		if err == nil {
			var pruned checkpoint.Pruned
			if pruned, err = r.Prune(ctx, 1); err == nil && pruned.Packs == 0 {
				err = errors.New("no pack was deleted")
			}
			err = errors.Join(err, r.Close())
		}
		p.err = err
	}
	return p.Buffer.Write(b)
}

// TestVariantsOfRunUnderWay: a checkpoint that is pruned while variants go on from it stays within their reach, until
// the last replication has begun; one that is gone is refused, with what to do.
func TestVariantsOfRunUnderWay(t *testing.T) {
	dir := t.TempDir()
	store, file := filepath.Join(dir, "store"), filepath.Join("..", "examples", "mini.yml")
	kind := service.Kind()
	runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to", store,
		"--checkpoint-at", "20", "--checkpoint-at", "40")
	args := []string{"disco-run", "resume", store, "--at", "20", "--transport", "inproc", "--replications", "3"}
	var want, stderr bytes.Buffer
	if status := Run(args, strings.NewReader(""), &want, &stderr, kind); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr.String())
	}
	got := prunes{store: store}
	status := Run(args, strings.NewReader(""), &got, &stderr, kind)
	if status != 0 || got.err != nil {
		t.Fatalf("exit status %d, pruning: %v: %s", status, got.err, stderr.String())
	}
	if hash := lastLine(want.String()); lastLine(got.String()) != hash || !strings.HasPrefix(hash, "trace hash") {
		t.Errorf("pruned meanwhile it ends with %q, want %q", lastLine(got.String()), hash)
	}
	stderr.Reset()
	if status := Run(args, strings.NewReader(""), &got, &stderr, kind); status != ExitUsage ||
		!strings.Contains(stderr.String(), "found no checkpoint") {
		t.Errorf("exit status %d, %s, want %d, and that it isn't there", status, stderr.String(), ExitUsage)
	}
}

// lastLine is the last line of a text.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
