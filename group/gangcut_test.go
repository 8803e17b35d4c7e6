// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore/dial"
)

// gangCutEnv has the test be in a network of its own.
const gangCutEnv = "DISCO_GANG_CUT"

// TestGangCut: of three machines two simulate a piece together, and are cut off from each other in mid-run, while both
// reach the store and the third machine. The attempt ends, and the next one is on two that reach each other; what was
// found is kept, and said; results are those of a run on one machine. A piece that is submitted behind the cut
// isn't tried on the two at all.
func TestGangCut(t *testing.T) {
	if os.Getenv(gangCutEnv) != "" {
		gangCut(t)
		return
	}
	if testing.Short() {
		t.Skip("it starts machines with a network between them")
	}
	if _, err := storeserver.ServerProgram(); err != nil && !errors.Is(err, storeserver.ErrAbsent) {
		t.Fatal(err) // in the other network nothing can be downloaded
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestGangCut$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), gangCutEnv+"=1")
	storeserver.Need(t, storeserver.OwnNetwork(cmd))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("%s", out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// parted is a group on four hosts, of which the first has the store, and the others an agent each.
type parted struct {
	*byHand
	hosts  *storeserver.Hosts
	agents map[string]*agentProcess
}

func newParted(t *testing.T) *parted {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	hosts, err := storeserver.NewHosts(4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hosts.Close)
	dir := t.TempDir()
	z, err := hosts.StartEtcds(ctx, dir, 1)
	storeserver.Need(t, err)
	t.Cleanup(z.Close)
	c := storeserver.CertificatesIn(dir)
	p := &parted{openGroup(t, ctx, "etcd://"+z.Addrs()[0], dial.Options{CA: c.CA, Cert: c.Cert, Key: c.Key}), hosts,
		map[string]*agentProcess{}}
	p.enter = map[string][]string{}
	p.certs = []string{"--store-ca", c.CA, "--store-cert", c.Cert, "--store-key", c.Key}
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("h%d", i)
		p.enter[name] = hosts.Enter(i)
		p.agents[name] = p.agent(name, selfProgram(t), "--listen", hosts.Addr(i).String()+":0", "--insecure",
			"--insecure")
	}
	return p
}

// gangMachines are the machines of a gang, by name.
func gangMachines(gang []fleet.Server) (names []string) {
	for _, g := range gang {
		if !slices.Contains(names, g.Member) {
			names = append(names, g.Member)
		}
	}
	slices.Sort(names)
	return names
}

// vitalsOf waits until an agent's vitals are as they are to be.
func (h *byHand) vitalsOf(what string, ok func(all map[string]fleet.Vitals) bool) {
	h.Helper()
	for {
		all, malformed, err := h.client.Vitals(h.ctx)
		h.must(errors.Join(append(malformed, err)...))
		if ok(all) {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("%s: found %+v", what, all)
		}
	}
}

func gangCut(t *testing.T) {
	p := newParted(t)
	p.vitalsOf("all ways are measured", func(all map[string]fleet.Vitals) bool {
		n := 0
		for _, v := range all {
			n += len(v.Far)
			if len(v.Unreachable) > 0 || len(v.Rates) != len(v.Far) {
				t.Errorf("found %+v", v)
			}
		}
		return n == 6
	})
	text := launchtest.Scenario(6, 300, "{node: 2, at: 1, how: slow}")
	id := p.submitGang("one", text)
	cut := gangMachines(p.gangOf(id, 1, 20).Gang)
	if len(cut) != 2 {
		t.Fatalf("found a gang on %v, want two machines", cut)
	}
	why := runs(t, append([]string{"show", id, "--why", "0.0.0", "--store", p.url}, p.certs...)...)
	if line := fmt.Sprintf("%s - %s", cut[0], cut[1]); !strings.Contains(why.stdout, "its gang is on") ||
		!strings.Contains(why.stdout, "MB/s; labels in common: 1") {
		t.Errorf("found %+v, want what lies between %s", why, line)
	}
	at := func(name string) int { return int(name[1] - '0') }
	began := time.Now()
	p.must(p.hosts.Apart(at(cut[0]), at(cut[1])))
	e := p.ends(id)
	if e.Status() != fleet.StatusFinished {
		t.Fatalf("found %+v", e.Standing)
	}
	piece, err := p.client.Piece(p.ctx, id, fleet.PieceID{})
	p.must(err)
	t.Logf("behind the cut it took %v: %+v", time.Since(began).Round(time.Second), piece.Past)
	if got := gangMachines(piece.Gang); piece.Attempt != 2 || slices.Equal(got, cut) || len(piece.Past) != 1 {
		t.Errorf("found attempt %d on %v behind %+v, want the second one on others than %v", piece.Attempt, got,
			piece.Past, cut)
	}
	log, err := p.client.Log(p.ctx, id, fleet.AttemptID{Attempt: 2})
	if p.must(err); !strings.Contains(log, "checkpoint") {
		t.Errorf("the second attempt says nothing of a checkpoint: %s", log)
	}
	p.comparesGang(id, text, selfProgram(t))
	p.vitalsOf("the cut is known", func(all map[string]fleet.Vitals) bool {
		a, b := all[cut[0]], all[cut[1]]
		return a.Unreachable[cut[1]] != "" && b.Unreachable[cut[0]] != "" && a.Far[cut[1]] == 0 && b.Far[cut[0]] == 0 &&
			len(a.Unreachable) == 1 && len(b.Unreachable) == 1
	})
	got := runs(t, append([]string{"cluster", "--store", p.url}, p.certs...)...)
	if !strings.Contains(got.stdout, "can't reach "+cut[1]) {
		t.Errorf("found %+v", got)
	}
	id = p.submitGang("two", launchtest.Scenario(6, 30, "{node: 2, at: 1, how: slow}"))
	e = p.ends(id)
	piece, err = p.client.Piece(p.ctx, id, fleet.PieceID{})
	p.must(err)
	on := gangMachines(piece.Gang)
	if e.Status() != fleet.StatusFinished || piece.Attempt != 1 || slices.Equal(on, cut) {
		t.Errorf("found %+v, attempt %d on %v, want the first one on others than %v", e.Standing, piece.Attempt, on,
			cut)
	}
	p.must(p.hosts.Apart())
	p.vitalsOf("the ways are measured again", func(all map[string]fleet.Vitals) bool {
		return all[cut[0]].Far[cut[1]] > 0 && all[cut[1]].Far[cut[0]] > 0
	})
	for _, a := range p.agents {
		a.end()
		if left := marked(t, a.work); len(left) > 0 {
			t.Errorf("of %s are left: %v", a.name, left)
		}
	}
}

// submitGang submits a piece for four workers.
func (p *parted) submitGang(key, text string) string {
	p.Helper()
	id, _, err := p.client.Submit(p.ctx, &fleet.Submission{Key: key, Name: key, User: "me", Version: app.Version(),
		Place: filepath.Join(p.TempDir(), "place"), Priority: fleet.Normal,
		Steps: []fleet.SubmittedStep{{Scenario: []byte(text), Step: fleet.Step{File: "tiny.yml",
			Args: []string{"--seed", "3", "--checkpoint", "500ms"}, Points: [][]string{{"tokens=3"}},
			Replications: 1, Workers: 4}}}})
	p.must(err)
	return id
}
