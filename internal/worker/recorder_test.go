// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/internal/spans"
)

// Spans have the numbers of the states of boards.
func TestSpanKinds(t *testing.T) {
	kinds := []spans.Kind{StateRest: spans.Rest, StateWork: spans.Work, StateBound: spans.OnPeer, StateRoom: spans.Full,
		StatePaused: spans.Paused, StateGather: spans.Gather, StateAhead: spans.Ahead, StateHeld: spans.Held,
		StateOutside: spans.Outside}
	if len(kinds) != len(stateNames) {
		t.Errorf("%d of %d states have a kind of span", len(kinds), len(stateNames))
	}
	for state, kind := range kinds {
		if int(kind) != state {
			t.Errorf("state %d (%s) is the span %d", state, StateName(uint64(state)), kind)
		}
	}
}

// What is recorded of a worker takes as long as the ledger says, over replications and legs, and has every replication
// and every state that it can come to here, with small rings: also waiting for room. Without the wish for it
// nothing comes (receive would fail).
func TestSpansAgree(t *testing.T) {
	const text = "model: ring\nnodes: 40\nlookahead: 0.5\nhorizon: 6\n"
	placement := make([]int32, 40)
	for i := range placement {
		placement[i] = int32(i % 2)
	}
	c := newRunnerBy(t, text, placement, 2, &Setup{Seed: 3, OneProcess: true, Spans: true,
		Tuning: Tuning{RingBytes: 1 << 10, PoolBytes: 1 << 20, Ingress: IngressDuty, BatchMax: 4, Wait: "park"}})
	want := make([][spans.Sorts]float64, 2)
	for r := range 3 {
		c.sendAll(&Message{Type: TypePrepare, Prepare: &Prepare{Replication: r, Until: 2}})
		c.receive(TypeReady)
		c.sendAll(&Message{Type: TypeGo})
		c.receive(TypeSaved)
		c.sendAll(&Message{Type: TypeLeg, Leg: &Leg{}})
		c.receive(TypeReady)
		c.sendAll(&Message{Type: TypeGo})
		for w, m := range c.receive(TypeDone) {
			want[w][spans.Handling] += m.Done.Stats.WorkingSeconds
			want[w][spans.Blocked] += m.Done.Stats.BlockedSeconds
			want[w][spans.AtFull] += m.Done.Stats.RoomSeconds
		}
	}
	c.end()
	kinds := map[spans.Kind]int{}
	for w, l := range c.spans {
		var got [spans.Sorts]float64
		at := l.States.All()[0].Begin
		for _, s := range l.States.All() {
			if s.Begin != at || s.Count != 1 {
				t.Fatalf("worker %d: %+v, want a single span from %d on", w, s, at)
			}
			at = s.End
			got[spans.SortOf(s.Kind)] += float64(s.End-s.Begin) / 1e9
			kinds[s.Kind]++
		}
		for k, name := range []string{"handled", "blocked", "without room"} {
			// Between two legs the ledger goes on with what the last one ended with.
			if x := want[w][k]; math.Abs(got[k]-x) > 0.02*x+2e-3 {
				t.Errorf("worker %d: %s for %v s, want %v s", w, name, got[k], x)
			}
		}
		for i, s := range l.Runs.All() {
			if s.Arg != int64(i) || s.Kind != spans.Replication {
				t.Errorf("worker %d: replication %d is %+v", w, i, s)
			}
		}
		if len(l.Runs.All()) != 3 || len(l.Sleeps.All()) == 0 || len(l.Samples.All()) == 0 {
			t.Errorf("worker %d: %d replications, %d sleeps and %d samples, want 3, some and some", w,
				len(l.Runs.All()), len(l.Sleeps.All()), len(l.Samples.All()))
		}
	}
	for _, k := range []spans.Kind{spans.Rest, spans.Work, spans.OnPeer, spans.Full, spans.Gather, spans.Held,
		spans.Prepare} {
		if kinds[k] == 0 {
			t.Errorf("no span of kind %d", k)
		}
	}
}
