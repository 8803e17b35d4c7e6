// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/cputime"
	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/metastore"
)

// working is machines that do what they are asked for, each piece in 60 to 120 s.
type working struct {
	*bench
	ends    heap.Heap[AttemptID]
	decides int
	actions int
	longest time.Duration
}

// newWorking has so many machines with two servers each, and experiments of 1,000 pieces of one server.
func newWorking(b testing.TB, machines, pieces int) *working {
	w := &working{bench: newBench(b, machines, 2, Rules{})}
	for i := range pieces / 1_000 {
		w.submit(fmt.Sprint("e", i), 1_000, 1, by(fmt.Sprint("user", i%10)))
	}
	return w
}

func (w *working) decide() []Action {
	w.Looked(w.at)
	began := time.Now()
	actions := Decide(w.State, w.at)
	w.longest = max(w.longest, time.Since(began))
	w.decides++
	w.actions += len(actions)
	return actions
}

// workAll has all pieces end, and returns how many have.
func (w *working) workAll() (finished int) {
	owner := map[AttemptID]string{}
	for {
		actions := w.decide()
		for _, a := range actions {
			switch {
			case a.Do == DoAsk:
				w.be(a.Server, a.State, &a.Assignment)
			case a.Do == DoMove && a.To.State == Running && a.From != Running:
				id := AttemptID{a.Piece, a.To.Attempt}
				id.Point = len(owner) // one for each
				owner[id] = a.ID
				w.ends.Push(float64(w.at+time.Duration(60+len(owner)*7919%60_000/1000)*time.Second), id)
			case a.Do == DoMove && a.To.State == Finished:
				finished++
			}
		}
		if when, any := w.Next(); any && when <= w.at {
			continue
		}
		if w.ends.Len() == 0 {
			return finished
		}
		w.at = time.Duration(w.ends.First().Key) // all that end in one second
		for w.ends.Len() > 0 && time.Duration(w.ends.First().Key) <= w.at {
			_, id := w.ends.Pop()
			e := owner[id]
			id.Point = 0
			p := w.experiments[e].pieces[id.PieceID]
			w.version++
			w.PutReport(ReportAt{p.Gang[0].Member, e, id.PieceID, Report{Attempt: p.Attempt, State: Finished,
				Kept: &Kept{Hash: "h"}}, metastore.Version{Created: 1, Changed: w.version}})
			w.be(p.Gang[0].Name, cluster.Available, nil)
		}
	}
}

func TestWorking(t *testing.T) {
	w := newWorking(t, 20, 2_000)
	if n := w.workAll(); n != 2_000 {
		t.Errorf("%d pieces have ended", n)
	}
	for _, e := range w.order {
		if !e.standing.Ended || e.standing.Pieces[Finished] != 1_000 {
			t.Errorf("%s: %+v", e.ID, e.standing)
		}
	}
	if w.due.Len() > 10_000 {
		t.Errorf("%d deadlines are kept", w.due.Len())
	}
}

// BenchmarkFleet has machines simulate pieces that are queued at once. Their agents report an end, and no progress
// before: so many machines are taken as stuck.
func BenchmarkFleet(b *testing.B) {
	for _, machines := range []int{10, 100, 1_000} {
		for _, pieces := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("machines=%d/pieces=%d", machines, pieces), func(b *testing.B) {
				benchmarkFleet(b, machines, pieces)
			})
		}
	}
}

func benchmarkFleet(b *testing.B, machines, pieces int) {
	for b.Loop() {
		w := newWorking(b, machines, pieces)
		before := cputime.Self()
		if n := w.workAll(); n != pieces {
			b.Fatalf("%d have ended", n)
		}
		used := cputime.Self() - before
		b.ReportMetric(1e6*used/float64(pieces), "cpu-us/piece")
		b.ReportMetric(1e6*used/float64(w.decides), "cpu-us/decide")
		b.ReportMetric(float64(w.longest.Microseconds()), "us-longest")
		b.ReportMetric(float64(w.actions)/float64(pieces), "actions/piece")
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/float64(pieces), "B/piece")
		runtime.KeepAlive(w)
	}
}
