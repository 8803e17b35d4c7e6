// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// TestFleetUntil: an experiment that ends by its rule, over two agents of which one is killed, and a run, has the
// results of run --until on this machine, to the bit, and with the same number of replications. What is watched gets
// narrower meanwhile, and what was begun behind the last that counts is given up.
func TestFleetUntil(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	h := openByHand(t)
	self := selfProgram(t)
	dir := t.TempDir()
	file, local, merged := filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "local.json"),
		filepath.Join(dir, "merged.json")
	h.must(os.WriteFile(file, []byte(launchtest.Scenario(6, 20, "")), 0o600))
	const rule = "handled ± 0.25 %"
	if r := runs(t, "run", file, "--seed", "3", "--until", rule, "--json", local); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	var want struct{ Replications int }
	text, err := os.ReadFile(local)
	h.must(err)
	if h.must(json.Unmarshal(text, &want)); want.Replications <= 30 || want.Replications > 60 {
		t.Fatalf("found %d replications, want more than the first sample, and not too many", want.Replications)
	}
	a, b := h.agent("h1", self), h.agent("h2", self)
	submitted := runs(t, "submit", file, "--seed", "3", "--until", rule, "--figure", "by_node.0", "--store", h.url,
		"--program", self)
	if submitted.status != 0 {
		t.Fatalf("%+v", submitted)
	}
	id := submitted.stdout[strings.LastIndex(strings.TrimSpace(submitted.stdout), " ")+1:]
	id = strings.TrimSpace(id)
	watch := start(t, nil, "watch", id, "--json", "--store", h.url)
	watched := h.narrows(watch, id)
	a.kill()
	for pids := marked(t, b.work); ; pids = marked(t, b.work) {
		if len(pids) > 0 {
			_ = syscall.Kill(pids[0], syscall.SIGKILL) // it may have ended
			break
		}
		h.must(h.ctx.Err())
		time.Sleep(5 * time.Millisecond)
	}
	h.again(a)
	for watch.lines.Scan() {
		watched = append(watched, watch.lines.Text())
	}
	if err := watch.Wait(); err != nil {
		t.Fatalf("%v: %s", err, watched)
	}
	h.shrinks(watched, want.Replications)
	h.isEnough(id, want.Replications)
	if r := runs(t, "results", id, "--store", h.url, "--json", merged, "--program", self); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	same(t, local, merged)
	if r := runs(t, "show", id, "--store", h.url); r.status != 0 || !strings.Contains(r.stdout, "are enough") ||
		!strings.Contains(r.stdout, "0.25 %: reached") {
		t.Errorf("%+v", r)
	}
	if r := runs(t, "retry", id, "--store", h.url); r.status != 1 || !strings.Contains(r.stderr, "isn't possible") {
		t.Errorf("%+v", r)
	}
	other := runs(t, "show", id, "--figure", "zebra", "--store", h.url)
	other.refused(t, "show --figure zebra", []string{"handled, by_node.0"})
}

// finished waits until so many pieces of an experiment have.
func (h *byHand) finished(id string, count int) {
	h.Helper()
	for {
		e, err := h.client.Show(h.ctx, id)
		h.must(err)
		if e.Standing != nil && e.Standing.Pieces[fleet.Finished] >= count {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("%d pieces don't finish: %+v", count, e.Standing)
		}
	}
}

// figures are what a line of watch --json has of the first two figures.
type figures []struct {
	Asked    string
	Reached  bool
	Interval struct {
		Samples int
		Half    *float64 `json:"half_width"`
	}
}

func (h *byHand) figuresIn(line string) figures {
	h.Helper()
	var s struct{ Figures figures }
	h.must(json.Unmarshal([]byte(line), &s))
	if len(s.Figures) != 2 || s.Figures[0].Asked != "handled" {
		h.Fatalf("found the figures %+v", s.Figures)
	}
	return s.Figures
}

// narrows pauses an experiment after some more pieces, until watch has shown its state, as often as it takes for two
// widths: on its own an experiment may end between two looks. It returns the lines.
func (h *byHand) narrows(watch *started, id string) (watched []string) {
	h.Helper()
	widths := map[float64]bool{}
	for count := 6; len(widths) < 2; count += 4 {
		h.finished(id, count)
		_, err := h.client.Pause(h.ctx, id, "to be looked at")
		h.must(err)
		for _, line := range watch.expect(h.T, `"status":"PAUSED"`) {
			if half := h.figuresIn(line)[0].Interval.Half; half != nil {
				widths[*half] = true
			}
			watched = append(watched, line)
		}
		_, err = h.client.Continue(h.ctx, id, "it was looked at")
		h.must(err)
	}
	return watched
}

// shrinks holds that what was watched has intervals of more and more replications, up to those that are enough.
func (h *byHand) shrinks(watched []string, count int) {
	h.Helper()
	seen, widths := 0, map[float64]bool{}
	for _, line := range watched {
		f := h.figuresIn(line)
		if f[0].Interval.Samples < seen {
			h.Fatalf("behind %d replications: found %+v", seen, f)
		}
		seen = f[0].Interval.Samples
		if half := f[0].Interval.Half; half != nil {
			widths[*half] = true
		}
		if f[0].Reached != (seen == count) || f[1].Interval.Samples != seen {
			h.Errorf("found %+v, want it to be reached with %d", f, count)
		}
	}
	if seen != count || len(widths) < 3 {
		h.Errorf("found %d replications in the end, and %d widths, want %d, and 3", seen, len(widths), count)
	}
}

// isEnough holds that an experiment has ended with so many replications, and what others have come to.
func (h *byHand) isEnough(id string, count int) {
	h.Helper()
	e, err := h.client.Show(h.ctx, id)
	h.must(err)
	if e.Enough(0) != count || e.Status() != fleet.StatusFinished || !e.Ended() {
		h.Fatalf("found %+v, want it finished with %d replications", e.Standing, count)
	}
	pieces, _, err := h.client.Pieces(h.ctx, id)
	h.must(err)
	for at, p := range pieces {
		enough := p.State == fleet.Canceled && p.Error != nil && p.Error.Type == fleet.ErrorEnough
		if p.State != fleet.Finished && (at.Replication < count || !enough) {
			h.Errorf("piece %v: found %v, %+v", at, p.State, p.Error)
		}
	}
}
