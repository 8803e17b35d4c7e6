// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"runtime"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// slackBytes is what the heap may differ by between two looks at equally much.
const slackBytes = 512 << 10

// Bounded fails when what a scenario's accumulator keeps grows with the number of
// replications by more than rowBytes each. It takes in the same few replications again and
// again.
func Bounded(t *testing.T, s scenario.Scenario, rowBytes int) {
	t.Helper()
	few, many := 2_000, 20_000
	if testing.Short() {
		few, many = 1_000, 4_000
	}
	var reps []scenario.Replication
	for i := range 8 {
		o, err := Run(s, Config{Seed: 1, Replication: i})
		if err != nil {
			t.Fatal(err)
		}
		reps = append(reps, o.Replication)
	}
	all := s.Accumulate()
	before := uint64(0)
	for i := range many {
		r := reps[i%len(reps)]
		r.Index = i
		if err := all.Add(r); err != nil {
			t.Fatal(err)
		}
		if i+1 == few {
			before = heap()
		}
	}
	grown, allowed := int(heap())-int(before), (many-few)*rowBytes+slackBytes
	t.Logf("%d bytes more for %d more replications", grown, many-few)
	if grown > allowed {
		t.Errorf("from %d to %d replications the heap grows by %d bytes, want at most %d", few, many, grown, allowed)
	}
	if _, err := all.Summary(); err != nil {
		t.Fatal(err)
	}
}

// heap is the number of bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are emptied in two steps
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
