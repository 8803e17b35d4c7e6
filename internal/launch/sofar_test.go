// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// soFars keeps what there was so far.
type soFars struct {
	mu  sync.Mutex
	all []*Outcome
}

func (s *soFars) take(o *Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
}

func summaryText(t *testing.T, o *Outcome) string {
	t.Helper()
	b, err := json.Marshal(o.Summary)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A run that reports at each end of its legs ends as one that doesn't, wherever its workers are, and what it has so far
// is what a run has that ends there.
func TestSoFar(t *testing.T) {
	want := ""
	for i, transport := range append(everywhere(), over3) {
		for j, spread := range []string{SpreadNodes, SpreadReplications} {
			if testing.Short() && i > 1 && j == 0 {
				continue
			}
			cfg := config(transport, 3, launchtest.Scenario(6, 30, ""))
			cfg.Replications, cfg.Spread, cfg.Partition = 4, spread, ""
			if want == "" {
				want = answer(t, cfg)
			}
			var e ends
			var s soFars
			cfg.Legs, cfg.SoFar = e.legs(uint64(i), 2), &SoFar{Take: s.take, EachLeg: true}
			if got := answer(t, cfg); got != want {
				t.Errorf("%s, %s: the answer is another one:\n%s\nwant\n%s", transport, spread, got, want)
			}
			if len(s.all) < 20 {
				t.Errorf("%s, %s: %d results so far", transport, spread, len(s.all))
			}
			for k := 0; k < len(s.all); k += 1 + len(s.all)/3 {
				sameSoFar(t, cfg, s.all[k])
			}
		}
	}
	nothingLeft(t, t.TempDir())
}

// sameSoFar compares with runs that end where each replication had come to.
func sameSoFar(t *testing.T, cfg Config, got *Outcome) {
	t.Helper()
	sum := got.Summary.(*launchtest.Summary)
	if !got.Interrupted || got.TraceHash != "" || len(got.Replications) != len(sum.Reached) {
		t.Errorf("so far %+v", got)
	}
	handled, events := make([]uint64, len(sum.ByNode)), uint64(0)
	for _, r := range got.Replications {
		cfg := cfg
		cfg.Transport, cfg.Workers, cfg.Spread, cfg.SoFar, cfg.Legs = TransportInproc, 1, SpreadNodes, nil, nil
		cfg.Replications, cfg.Horizon = r.Index+1, r.Reached
		all, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for n, x := range all.Summary.(*launchtest.Summary).ByNode {
			handled[n] += x
		}
		if cfg.Replications--; cfg.Replications > 0 {
			before, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			for n, x := range before.Summary.(*launchtest.Summary).ByNode {
				handled[n] -= x
			}
		}
		events += all.Replications[r.Index].Events
	}
	if !slices.Equal(handled, sum.ByNode) || events != got.Events {
		t.Errorf("%d events, by node %d, want %d, %d", got.Events, sum.ByNode, events, handled)
	}
}

// So do all kinds of models, with nodes that leave memory and that move, and with checkpoints, of which there are no
// more for it.
func TestSoFarOfKinds(t *testing.T) {
	for i, c := range examples {
		cfg := example(t, c.file, c.horizon, c.set)
		cfg.Series = true
		want, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Workers = 3
		for j, transport := range []string{TransportShm, TransportInproc, over2} {
			if j != i%3 {
				continue
			}
			cfg := cfg
			var e ends
			var s soFars
			cfg.Transport, cfg.Legs = transport, e.legs(uint64(i), c.horizon/10)
			cfg.SoFar = &SoFar{Take: s.take, EachLeg: true}
			switch j {
			case 0:
				cfg.Tuning.Resident = 1 << 12
			case 1:
				cfg.Legs = nil
				cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: c.horizon / 4,
					Keep: 100, TempDir: t.TempDir()}
			case 2:
				cfg.Rebalance = &Rebalance{Shards: 64, Every: time.Millisecond}
			}
			got, err := run(t, cfg)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.file, transport, err)
			}
			if summaryText(t, got) != summaryText(t, want) || got.TraceHash != want.TraceHash {
				t.Errorf("%s, %s: the answer is another one", c.file, transport)
			}
			if len(s.all) < 3 || s.all[0].Summary == nil {
				t.Errorf("%s, %s: %d results so far", c.file, transport, len(s.all))
			}
			// devstone goes on to the end of a pulse, whatever the horizon is.
			due := int(math.Ceil(got.Replications[0].Reached/(c.horizon/4))) - 1
			if k := got.Checkpoints; k != nil && (k.Made+k.Skipped != due || due < 3) {
				t.Errorf("%s, %s: %d checkpoints, want %d", c.file, transport, k.Made+k.Skipped, due)
			}
		}
	}
}

// By itself a run reports when it is time to, in whatever leg it is.
func TestSoFarByTime(t *testing.T) {
	for i, transport := range []string{TransportShm, TransportInproc} {
		for _, spread := range []string{SpreadNodes, SpreadReplications}[i : i+1] {
			cfg := config(transport, 2, launchtest.Scenario(4, 20, trouble(1, 0, launchtest.Slow)))
			cfg.Replications, cfg.Spread, cfg.Partition = 2, spread, ""
			want := answer(t, cfg)
			var s soFars
			cfg.SoFar = &SoFar{Take: s.take, Least: time.Millisecond}
			if got := answer(t, cfg); got != want {
				t.Errorf("%s, %s: the answer is another one", transport, spread)
			}
			for i, o := range s.all {
				if i > 0 && o.Events < s.all[i-1].Events {
					t.Errorf("%s, %s: %d events after %d", transport, spread, o.Events, s.all[i-1].Events)
				}
			}
			if len(s.all) == 0 {
				t.Errorf("%s, %s: no results so far", transport, spread)
			}
		}
	}
}

// Where a handler can't be saved, or reports are too many, there are none before the end, which is said once, and the
// run is as any other.
func TestSoFarThatCannotBe(t *testing.T) {
	var said bytes.Buffer
	cfg := config(TransportInproc, 2, launchtest.Scenario(4, 20, ""))
	cfg.Replications = 2
	want := answer(t, cfg)
	var e ends
	cfg.Legs, cfg.Stderr = e.legs(1, 1), &said
	cfg.SoFar = &SoFar{EachLeg: true, Take: func(o *Outcome) { t.Errorf("so far: %d events", o.Events) }}
	cfg.Registry = unsavedKinds()
	if got := answer(t, cfg); got != want {
		t.Error("the answer is another one")
	}
	if n := strings.Count(said.String(), "there are no results before the end: "); n != 1 ||
		!strings.Contains(said.String(), "can't be saved") {
		t.Errorf("said %q", said.String())
	}
}

// unsavedKinds has the tiny model with handlers that can't be saved.
func unsavedKinds() scenario.Registry {
	k := launchtest.Kind()
	load := k.Load
	k.Load = func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
		s, err := load(doc, opt)
		return unsaved{s}, err
	}
	r, err := scenario.NewRegistry(k)
	if err != nil {
		panic(err)
	}
	return r
}

type unsaved struct{ scenario.Scenario }

// NewHandler hides all of a handler but what each has.
func (u unsaved) NewHandler(p *node.Simproc) (node.Handler, error) {
	h, err := u.Scenario.NewHandler(p)
	return struct {
		node.Reporter
		node.Handler
	}{h.(node.Reporter), h}, err
}
