// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
)

var (
	killsFor    = flag.Duration("fleet-for", 0, "how long TestFleetUnderKills kills; 0: 12 s, or 4 s with -short")
	killsAgents = flag.Int("fleet-agents", 0, "agents of TestFleetUnderKills; 0: 8, or 4 with -short")
	killsSeed   = flag.Uint64("fleet-seed", 1, "what TestFleetUnderKills kills, and when")
)

// killsVictims are the agents that may be killed: the others always have a leader, and get on.
const killsVictims = 3

// underKills is a group in which agents are killed at random, while experiments come one after the other.
type underKills struct {
	*byHand
	random *rand.Rand
	agents []*agentProcess
	back   [killsVictims]time.Time // when one that was killed is started again
	kills  map[string]int
	dir    string
}

// TestFleetUnderKills: agents of which three are killed at random, with their supervisor, their runs, or both, or
// stopped for longer than their session, and started again, simulate experiments one after the other: each has every
// result once, equal to those of one run on this machine to the bit, and nothing is left.
func TestFleetUnderKills(t *testing.T) {
	length, agents := *killsFor, *killsAgents
	if length == 0 {
		length = 12 * time.Second
		if testing.Short() {
			length = 4 * time.Second
		}
	}
	if agents == 0 {
		agents = 8
		if testing.Short() {
			agents = 4
		}
	}
	stores(t, func(t *testing.T, url string) {
		if *killsFor == 0 && !strings.HasPrefix(url, "etcd") {
			t.Skip("over ZooKeeper it runs where -fleet-for is given")
		}
		x := newUnderKills(t, url, length+10*time.Minute, max(agents, killsVictims+1))
		done, attempts, pieces := 0, 0, 0
		for end := time.Now().Add(length); done == 0 || time.Now().Before(end); done++ {
			x.experiment(uint64(done+1), func(n, all int) { attempts, pieces = attempts+all, pieces+n })
			if t.Failed() {
				break
			}
		}
		t.Logf("%d experiments, %d pieces in %d attempts, killed: %v", done, pieces, attempts, x.kills)
		if len(x.kills) == 0 {
			t.Error("nothing was killed")
		}
		x.end()
	})
}

// newUnderKills starts the agents.
func newUnderKills(t *testing.T, url string, limit time.Duration, agents int) *underKills {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	x := &underKills{byHand: &byHand{T: t, ctx: ctx, url: url, tries: true},
		random: rand.New(rand.NewPCG(*killsSeed, 1)),
		kills:  map[string]int{}, dir: t.TempDir()}
	var err error
	x.store, err = dial.Open(ctx, dial.Options{URL: url, Store: metastore.Options{Group: "disco",
		Base: append(cluster.Base(), fleet.Base()...)}})
	x.must(err)
	t.Cleanup(func() { x.must(x.store.Close()) })
	x.client, err = fleet.New(ctx, x.store, fleet.Options{})
	x.must(err)
	x.view, err = cluster.Open(ctx, x.store)
	x.must(err)
	t.Cleanup(x.view.Close)
	for i := range agents {
		x.agents = append(x.agents, x.agent(fmt.Sprintf("h%d", i+1), selfProgram(t)))
	}
	return x
}

// experiment submits one, kills until it has ended, and compares its results. It tells how many pieces it had, in how
// many attempts.
func (x *underKills) experiment(seed uint64, count func(pieces, attempts int)) {
	x.Helper()
	replications := 2 * len(x.agents)
	text := launchtest.Scenario(6, 25, "{node: 2, at: 1, how: slow}")
	id := x.submitSeed(text, seed, replications)
	for {
		e, err := x.client.Show(x.ctx, id)
		x.must(err)
		if e.Ended() {
			if s := e.Standing; s.Status != fleet.StatusFinished || s.Pieces[fleet.Finished] != replications {
				x.Fatalf("experiment %d: found %+v, want all finished", seed, s)
			}
			break
		}
		select {
		case <-time.After(time.Duration(200+x.random.IntN(1800)) * time.Millisecond):
		case <-x.ctx.Done():
			x.Fatalf("experiment %d doesn't end: %+v", seed, e.Standing)
		}
		x.kill()
	}
	pieces, malformed, err := x.client.Pieces(x.ctx, id)
	if x.must(err); len(pieces) != replications || len(malformed) > 0 {
		x.Fatalf("found %v, %v", pieces, malformed)
	}
	attempts := 0
	for _, p := range pieces {
		attempts += p.Attempt
	}
	count(len(pieces), attempts)
	x.compare(id, text, seed, replications)
}

func (x *underKills) submitSeed(text string, seed uint64, replications int) string {
	x.Helper()
	id, _, err := x.client.Submit(x.ctx, &fleet.Submission{Key: fmt.Sprint(time.Now()), Name: fmt.Sprint("tiny", seed),
		User: "me", Version: app.Version(), Priority: fleet.Normal,
		Limits: fleet.Limits{Attempts: 1000}, // what is killed again and again isn't at fault
		Steps: []fleet.SubmittedStep{{
			Step: fleet.Step{File: filepath.Join(x.dir, "tiny.yml"), Args: []string{"--seed", fmt.Sprint(seed)},
				Points: [][]string{{"tokens=3"}}, Replications: replications, Workers: 2},
			Scenario: []byte(text)}}})
	x.must(err)
	return id
}

// compare holds that the results of an experiment are those of a run on this machine.
func (x *underKills) compare(id, text string, seed uint64, replications int) {
	x.Helper()
	file := filepath.Join(x.dir, "tiny.yml")
	x.must(os.WriteFile(file, []byte(text), 0o600))
	merged, local := filepath.Join(x.dir, "fleet.json"), filepath.Join(x.dir, "local.json")
	if r := runs(x.T, "results", id, "--store", x.url, "--json", merged, "--program", selfProgram(x.T)); r.status != 0 {
		x.Fatalf("%+v", r)
	}
	if r := runs(x.T, "run", file, "--seed", fmt.Sprint(seed), "--set", "tokens=3", "--replications",
		fmt.Sprint(replications), "--json", local); r.status != 0 {
		x.Fatalf("%+v", r)
	}
	same(x.T, local, merged)
}

// kill kills something of a victim, or starts one again whose time has come.
func (x *underKills) kill() {
	x.Helper()
	i := x.random.IntN(killsVictims)
	a, now := x.agents[i], time.Now()
	if a.gone.Load() && !a.ended { // such as one that couldn't join in time, since its last session wasn't over
		x.Logf("%s has ended: %s", a.name, a.stderr)
		a.ended = true
	}
	if a.ended {
		if now.After(x.back[i]) {
			x.agents[i] = x.again(a)
		}
		return
	}
	what := []string{"agent", "agent and supervisor", "a process of a run", "its runs", "everything",
		"stopped"}[x.random.IntN(6)]
	if work := marked(x.T, a.work); len(work) == 0 && (what == "a process of a run" || what == "its runs") {
		return // nothing runs there now
	}
	pids := x.pids(a)
	if len(pids) == 0 {
		return // it is only starting, or ending
	}
	x.kills[what]++
	switch what {
	case "agent":
		_ = syscall.Kill(pids[0], syscall.SIGKILL) // it may have ended
		a.ended = true
		_ = a.wait() // its supervisor says how it was killed
	case "agent and supervisor":
		x.killBoth(a)
	case "a process of a run":
		work := marked(x.T, a.work)
		if len(work) > 0 {
			_ = syscall.Kill(work[x.random.IntN(len(work))], syscall.SIGKILL) // it may have ended
		}
	case "everything":
		x.killBoth(a)
		fallthrough
	case "its runs":
		for _, pid := range marked(x.T, a.work) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	case "stopped": // for longer than a session lasts, or shorter
		x.stop(a, time.Duration(x.random.IntN(15000))*time.Millisecond)
	}
	x.back[i] = time.Now().Add(time.Duration(x.random.IntN(3000)) * time.Millisecond)
}

// killBoth kills an agent and its supervisor: the next agent of the folder finds the runs that it had.
func (x *underKills) killBoth(a *agentProcess) {
	x.Helper()
	pids := x.pids(a)
	_ = a.cmd.Process.Kill() // it may have ended
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its supervisor
	}
	a.ended = true
	_ = a.wait() // it was killed
}

// stop stops an agent's process for a time, and lets it go on.
func (x *underKills) stop(a *agentProcess, length time.Duration) {
	x.Helper()
	pids := x.pids(a)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	}
	select {
	case <-time.After(length):
	case <-x.ctx.Done():
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT) // its supervisor may have ended it
	}
}

// pids are the processes that a supervisor has started: its agent. A member of that name may be the one before it.
func (x *underKills) pids(a *agentProcess) (pids []int) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.cmd.Process.Pid))
	x.must(err)
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // it may have ended
		for _, word := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(word)
			x.must(err)
			pids = append(pids, child)
		}
	}
	return pids
}

// end ends all agents, and holds that nothing is left of any.
func (x *underKills) end() {
	x.Helper()
	for i, a := range x.agents {
		if a.ended || i < killsVictims && a.gone.Load() { // what it has left is found by the next one
			a.ended = true
			a = x.again(a)
			x.agents[i] = a
		}
	}
	for _, a := range x.agents {
		a.end()
		if left := marked(x.T, a.work); len(left) > 0 {
			x.Errorf("of %s are left: %v", a.name, left)
		}
		if left, err := filepath.Glob(filepath.Join(a.work, "runs", "*")); err != nil || len(left) > 0 {
			x.Errorf("of %s are left: %q, %v", a.name, left, err)
		}
	}
}
