// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
)

// doorAt is where the test's door listens: a port that is free a moment before.
func doorAt(h *byHand) string {
	h.Helper()
	f, err := forward.New("127.0.0.1:0", "127.0.0.1:1")
	h.must(err)
	defer f.Close()
	return f.Addr()
}

// startDoor starts a door's process, which the test kills at its end.
func startDoor(h *byHand, file, at string) *exec.Cmd {
	h.Helper()
	cmd, stdout, stderr := command("door", "--sites", file, "--listen", at, "--away", "10s", "--insecure")
	h.must(cmd.Start())
	h.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if h.Failed() {
			h.Logf("the door: %s%s", stdout, stderr)
		}
	})
	return cmd
}

// opened is a group's clients.
func opened(h *byHand, url, group string) *byHand {
	h.Helper()
	o := &byHand{T: h.T, ctx: h.ctx, url: url}
	var err error
	o.store, err = dial.Open(h.ctx, dial.Options{URL: url, Store: metastore.Options{Group: group,
		Base: append(cluster.Base(), fleet.Base()...)}})
	h.must(err)
	h.Cleanup(func() { h.must(o.store.Close()) })
	o.client, err = fleet.New(h.ctx, o.store, fleet.Options{})
	h.must(err)
	o.view, err = cluster.Open(h.ctx, o.store)
	h.must(err)
	h.Cleanup(o.view.Close)
	return o
}

// awaits waits until an experiment is as it should be.
func (h *byHand) awaits(id, what string, is func(e *fleet.Experiment) bool) *fleet.Experiment {
	h.Helper()
	for {
		e, err := h.client.Show(h.ctx, id)
		if err == nil && is(e) {
			return e
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-h.ctx.Done():
			if e == nil {
				h.Fatalf("%s: it isn't so: %v", what, err)
			}
			h.Fatalf("%s: it isn't so: %s: wish %+v, standing %+v, route %+v, %v", what, e.ID, e.Wish, e.Standing,
				e.Route, err)
		}
	}
}

// TestDoor: an experiment that was accepted by a door is simulated at one site until that is cut off, and at another
// one then; the door is killed meanwhile; what the first goes on with does no harm, and ends when the cut does. The
// results are those of one run on this machine, to the bit.
func TestDoor(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, place := range []string{"", filepath.Join(t.TempDir(), "place")} {
		t.Run("place "+filepath.Base(place), func(t *testing.T) {
			t.Parallel() // they wait most of their time
			testDoor(t, place)
		})
	}
}

func testDoor(t *testing.T, place string) {
	h := openByHand(t) // site b, with the home beside it
	self := selfProgram(t)
	a := opened(h, etcd(h.ctx, t), "disco")
	home := opened(h, h.url, "door")
	cut, err := forward.New("127.0.0.1:0", strings.TrimPrefix(a.url, "etcd://"))
	h.must(err)
	t.Cleanup(cut.Close)
	dir := t.TempDir()
	sites, file := filepath.Join(dir, "sites.yml"), filepath.Join(dir, "tiny.yml")
	h.must(os.WriteFile(sites, fmt.Appendf(nil, "home: {store: %q, group: door}\nsites:\n"+
		"  - {name: a, store: \"etcd://%s\"}\n  - {name: b, store: %q}\n", h.url, cut.Addr(), h.url), 0o600))
	const replications = 10
	h.must(os.WriteFile(file, []byte(launchtest.Scenario(6, 40, "{node: 2, at: 1, how: slow}")), 0o600))
	a.agent("a1", self)
	at := doorAt(h)
	first := startDoor(h, sites, at)
	args := []string{"submit", file, "--door", at, "--insecure", "--program", self, "--replications",
		fmt.Sprint(replications), "--seed", "3", "--workers", "2", "--name", "tiny"}
	if place != "" {
		args = append(args, "--place", place)
	}
	r := runs(t, args...)
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	words := strings.Fields(r.stdout)
	id := words[len(words)-1]
	home.awaits(id, "site a simulates it", func(e *fleet.Experiment) bool {
		return e.Standing != nil && e.Standing.Pieces[fleet.Finished] > 0 && e.Route != nil && e.Route.Site == "a"
	})
	h.agent("b1", self)
	cut.Isolate()
	h.must(first.Process.Kill())
	_ = first.Wait()
	startDoor(h, sites, at)
	e := home.awaits(id, "site b has it", func(e *fleet.Experiment) bool {
		return e.Route.Site == "b" && e.Route.Epoch == 2 && len(e.Route.Tried) == 1
	})
	if tried := e.Route.Tried[0]; tried.Site != "a" || !strings.Contains(tried.Why, "hasn't answered") {
		t.Errorf("found %+v", tried)
	}
	old := fleet.SiteID(id, 1)
	a.awaits(old, "it stands still at a", func(e *fleet.Experiment) bool {
		return e.Standing != nil && e.Standing.Pieces[fleet.Running]+e.Standing.Pieces[fleet.Dispatched] == 0
	})
	cut.Heal()
	if r := runs(t, "watch", id, "--door", at, "--insecure"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	a.awaits(old, "it was given up at a", func(e *fleet.Experiment) bool {
		return e.Ended() && e.Wish.Want == fleet.WantCancel
	})
	bySite := map[string]int{}
	pieces, malformed, err := home.client.Pieces(h.ctx, id)
	h.must(err)
	for _, p := range pieces {
		bySite[p.Site]++
	}
	if len(malformed) > 0 || len(pieces) != replications || bySite["a"] == 0 || bySite["b"] == 0 {
		t.Errorf("found pieces of %v, %v, want some of both sites", bySite, malformed)
	}
	if r := runs(t, "show", "tiny", "--door", at, "--insecure"); r.status != 0 ||
		!strings.Contains(r.stdout, "it is at site b") || !strings.Contains(r.stdout, "before, it was at site a") {
		t.Errorf("found %+v", r)
	}
	merged, local := filepath.Join(dir, "door.json"), filepath.Join(dir, "local.json")
	if r := runs(t, "results", id, "--door", at, "--insecure", "--json", merged, "--program", self); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := runs(t, "run", file, "--seed", "3", "--replications", fmt.Sprint(replications), "--json",
		local); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	same(t, local, merged)
}
