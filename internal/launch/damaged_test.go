// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// damage changes all bytes of the packs of a directory; unless all is true, not of the oldest one.
func damage(t *testing.T, dir string, all bool) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Errorf("found packs %q, %v", packs, err)
		return
	}
	when := map[string]time.Time{}
	for _, p := range packs {
		info, err := os.Stat(p)
		if err != nil {
			t.Error(err)
			return
		}
		when[p] = info.ModTime()
	}
	slices.SortFunc(packs, func(a, b string) int { return when[b].Compare(when[a]) })
	if !all {
		packs = packs[:len(packs)-1]
	}
	for _, p := range packs {
		text, err := os.ReadFile(p)
		for i := range text {
			text[i] ^= 0x55
		}
		if err = errors.Join(err, os.Chmod(p, 0o600), os.WriteFile(p, text, 0o600)); err != nil {
			t.Error(err)
		}
	}
}

// A run whose newest checkpoint is damaged when a worker dies goes on from the one before, and says so.
func TestRecoverFromDamaged(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(6, 40, trouble(1, 0, launchtest.Slow)))
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out)
	dir := filepath.Join(t.TempDir(), "run")
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpoint.NewDir(dir)), Keep: 9,
		At: []LabelledEpoch{{Epoch: 4}, {Epoch: 8}, {Epoch: 12}}}
	var notes strings.Builder
	cfg.Stderr = &notes
	var l *Launch
	var mu sync.Mutex
	killed := false
	cfg.Progress = func(Progress) {
		mu.Lock()
		defer mu.Unlock()
		if made := l.store.numbers().Made; !killed && made == 3 {
			killed = true
			damage(t, dir, false)
			killPID(t, anyWorker(t))
		}
	}
	if l, err = Prepare(cfg); err != nil {
		t.Fatal(err)
	}
	var back []Recovery
	out, err = l.RunRecovering(context.Background(), 1, func(r Recovery, _ error) { back = append(back, r) })
	if err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	if got := text(t, out); got != want || len(back) != 1 || back[0].From != 4 {
		t.Errorf("went back %+v: %s", back, differing(got, want))
	}
	if !strings.Contains(notes.String(), "the run doesn't go on from ") || !strings.Contains(notes.String(), ".pack") {
		t.Errorf("found no word of the damaged one in\n%s", notes.String())
	}
}

// A run that is to go on from a damaged checkpoint says which file is damaged, and what to do.
func TestResumeFromDamaged(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(6, 40, ""))
	dir := filepath.Join(t.TempDir(), "run")
	repo := newRepo(t, cfg, checkpoint.NewDir(dir))
	cfg.Checkpoint = &Checkpoint{Repo: repo, Keep: 9, At: []LabelledEpoch{{Epoch: 10}}}
	if _, err := run(t, cfg); err != nil {
		t.Fatal(err)
	}
	damage(t, dir, true)
	var err error
	cfg.Checkpoint = nil
	if cfg.Resume, err = ResumeAt(context.Background(), repo, "10"); err != nil {
		t.Fatal(err)
	}
	_, err = run(t, cfg)
	if err == nil || !strings.Contains(err.Error(), ".pack: ") || !strings.Contains(err.Error(), "checkpoints verify") {
		t.Errorf("found %v, want the damaged file and what to do", err)
	}
}

// A run that went on from another one's end, and ended before it began, has no results, and no error.
func TestEndsBeforeItMerges(t *testing.T) {
	cfg := config(TransportInproc, 1, launchtest.Scenario(4, 10, ""))
	repo := newRepo(t, cfg, checkpointtest.NewMem())
	cfg.Checkpoint = &Checkpoint{Repo: repo, Keep: 9}
	if _, err := run(t, cfg); err != nil {
		t.Fatal(err)
	}
	var err error
	if cfg.Resume, err = ResumeAt(context.Background(), repo, latest); err != nil {
		t.Fatal(err)
	}
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := newSchedule(l)
	l.store = newStore(&l.cfg)
	if err := l.loadFinished(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if len(s.available()) != 1 {
		t.Fatalf("found %d results of the run before, want 1", len(s.available()))
	}
	out, err := l.outcome(s, nil)
	if err != nil || !out.Interrupted || len(out.Replications) != 0 || out.Summary != nil {
		t.Errorf("found %+v, %v, want that it was interrupted, and no more", out, err)
	}
}

// A run whose directory is renamed, as one that is removed, goes on without checkpoints, also behind the death of a
// worker.
func TestRecoverWithoutDirectory(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(6, 40, trouble(1, 0, launchtest.Slow)))
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out)
	dir := filepath.Join(t.TempDir(), "run")
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpoint.NewDir(dir)), Every: 2, Keep: 9, TempDir: dir}
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	sent, killed := 0, false
	l.onStep = func(s *supervisor, at string) {
		mu.Lock()
		defer mu.Unlock()
		if killed || !s.want.has(worker.TypeDone) || !strings.HasPrefix(at, "sent") {
			return
		}
		if sent++; sent >= 6 {
			killed = true
			if err := os.Rename(dir, dir+"-elsewhere"); err != nil {
				t.Error(err)
			}
			killPID(t, s.conns.workers[0].pid)
		}
	}
	out, err = l.RunRecovering(context.Background(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, out); got != want || out.Checkpoints.Failed == 0 {
		t.Errorf("%+v: %s", out.Checkpoints, differing(got, want))
	}
}
