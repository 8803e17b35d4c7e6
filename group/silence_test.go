// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/session"
)

// TestSilentMachine: a machine from which nothing comes is noted as unreachable where the run was called, and shown by
// `machines`; nothing ends by it. When something comes again, that is noted, and the trace hash is that of one machine.
func TestSilentMachine(t *testing.T) {
	m := startMachines(t, 2)
	way, err := forward.New("", m.targets[1].Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	// Each tenth of a simulated second takes a message from one machine to the other: without the time of silence the
	// run lasts 20 s at least.
	way.Set(forward.Traffic{Delay: 20 * time.Millisecond})
	file, out := scenarioFile(t, 100, ""), filepath.Join(t.TempDir(), "results.json")
	want := results(t, file)
	p := start(t, nil, "run", file, "--json", out, "--name", "long", "--machines",
		machineFile(t, m.targets[0].Address, way.Addr()), "--insecure", "--connect-timeout", "1m",
		"--peer-timeout", "6s", "--reconnect-window", "10m")
	underWay(t, m)
	const silent, cut = "nothing has come from m1 to ", " m1 have no connection"
	for noted := false; !noted; {
		way.Isolate()
		seen := p.expectAny(t, silent, cut)
		line := seen[len(seen)-1]
		if noted = strings.Contains(line, silent); noted {
			if !strings.Contains(line, "m1 is still part of the run, and counts as cut off after 6s (--peer-timeout)") {
				t.Error(line)
			}
			await(t, "the agent of m0 shows it", func() bool {
				return strings.HasPrefix(m.status(t, 0).Runs[0].Unreachable, "m1 for ")
			})
			status, shown, errs := run("", "machines", m.file(t, 1), "--insecure")
			if status != 0 || !strings.Contains(shown, "long (2; unreachable: m1 for ") {
				t.Errorf("%d\n%s%s", status, shown, errs)
			}
		}
		way.Heal()
		p.expectAny(t, "m1 is reachable again", " m1 are connected again")
		await(t, "the agent of m0 shows that it is back", func() bool {
			return m.status(t, 0).Runs[0].Unreachable == ""
		})
	}
	way.Set(forward.Traffic{})
	for p.lines.Scan() {
		continue
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	var got shownResults
	text, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Hash != want.Hash || got.Workers != 4 {
		t.Errorf("%+v, %v; want the hash %s", got, err, want.Hash)
	}
	m.free(t, 0, 1)
	m.stop(t)
}

// TestUnreachableIfBothAreSilent: a machine is unreachable if nothing comes on either session, since something came on
// one of them; a silence is over with the connection on which it was, and one that ends with the run isn't reported.
func TestUnreachableIfBothAreSilent(t *testing.T) {
	synctest.Test(t, testBothAreSilent) // where no time passes
}

func testBothAreSilent(t *testing.T) {
	var got []offer.Contact
	k := &pair{}
	l := &sessions{all: map[int]*pair{2: k}, cfg: sessionsConfig{
		contact: func(c offer.Contact) { got = append(got, c) }}}
	silent := func(d time.Duration) *session.Silence { return &session.Silence{For: d, Phi: 9} }
	step := func(do func(), want ...offer.ContactState) {
		t.Helper()
		got = nil
		do()
		var states []offer.ContactState
		for _, c := range got {
			states = append(states, c.State)
			want := offer.Contact{Machine: 2, State: c.State}
			if c.State == offer.ContactUnreachable {
				want.For, want.Phi = 2*time.Second, 9
			}
			if c != want {
				t.Errorf("%+v", c)
			}
		}
		if !slices.Equal(states, want) {
			t.Errorf("found %v, want %v", states, want)
		}
	}
	unreachable := func(s session.Stream, d *session.Silence) func() { return func() { l.unreachable(2, s, d) } }
	state := func(s session.Stream, to session.State) func() { return func() { l.report(2, s, to) } }
	const express, bulk = session.Express, session.Bulk
	step(state(express, session.Up))
	step(unreachable(express, silent(time.Second)))
	step(unreachable(express, nil))
	step(state(bulk, session.Up), offer.ContactUp)
	step(unreachable(bulk, silent(3*time.Second)))
	step(unreachable(bulk, nil))
	step(unreachable(express, silent(2*time.Second)))
	step(unreachable(bulk, silent(3*time.Second)), offer.ContactUnreachable) // on express it came later
	step(unreachable(express, nil), offer.ContactUp)
	step(unreachable(express, silent(2*time.Second)), offer.ContactUnreachable)
	step(state(bulk, session.Disconnected), offer.ContactInterrupted)
	step(state(bulk, session.Up), offer.ContactUp)
	step(unreachable(bulk, silent(2*time.Second)), offer.ContactUnreachable)
	k.closing = true
	step(unreachable(bulk, nil))
}

// TestReopenedOnPurpose: a connection that its own machine closes to make another one isn't reported, unless none has
// come within the peer's timeout; one that is cut later is, at once.
func TestReopenedOnPurpose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 3 * time.Second
		var got []offer.ContactState
		k, choices := &pair{}, 0
		l := &sessions{all: map[int]*pair{2: k}, cfg: sessionsConfig{begin: &offer.Begin{PeerTimeout: timeout},
			contact: func(c offer.Contact) { got = append(got, c.State) },
			chosen:  func(stream.Choice) { choices++ }}}
		step := func(do func(), want ...offer.ContactState) {
			t.Helper()
			do()
			l.mu.Lock() // as when contact is called
			defer l.mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("found %v, want %v", got, want)
			}
			got = nil
		}
		state := func(s session.Stream, to session.State) func() { return func() { l.report(2, s, to) } }
		pass := func(d time.Duration) func() {
			return func() {
				time.Sleep(d)
				synctest.Wait()
			}
		}
		chosen := func(s session.Stream, c stream.Compression) func() {
			return func() { l.chosen(k, s, stream.Choice{Chosen: c}) }
		}
		const express, bulk = session.Express, session.Bulk
		const up, cut = offer.ContactUp, offer.ContactInterrupted
		step(state(express, session.Up))
		step(state(bulk, session.Up), up)
		step(chosen(bulk, stream.S2)) // it comes back
		step(state(bulk, session.Disconnected))
		step(state(express, session.Up))
		step(pass(timeout - 1))
		step(state(bulk, session.Up))
		step(pass(2 * timeout))
		step(state(bulk, session.Disconnected), cut)
		step(state(bulk, session.Up), up)
		step(chosen(bulk, stream.None)) // nothing is closed
		step(state(bulk, session.Disconnected), cut)
		step(state(bulk, session.Up), up)
		step(chosen(express, stream.Zstd)) // it doesn't come back in time
		step(state(express, session.Disconnected))
		step(pass(timeout - 1))
		step(pass(1), cut)
		step(state(express, session.Up), up)
		step(chosen(bulk, stream.S2)) // the other one is cut meanwhile
		step(state(bulk, session.Disconnected))
		step(state(express, session.Disconnected), cut)
		step(pass(2 * timeout))
		step(state(bulk, session.Up))
		step(state(express, session.Up), up)
		step(chosen(bulk, stream.S2)) // the run ends
		step(state(bulk, session.Disconnected))
		_ = l.close("")
		step(pass(2 * timeout))
		if choices != 5 {
			t.Errorf("%d choices reported, want 5", choices)
		}
	})
}
