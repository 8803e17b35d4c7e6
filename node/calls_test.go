// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// call is what a CallLog has of one.
type call struct {
	simproc SimprocID
	hash    uint32
	epoch   float64
}

// logged runs a cluster in which each Engine has a CallLog, and gives for each class of each Engine its simprocs and
// what was logged, by buffers of so many bytes.
func logged(t *testing.T, c *cluster, rnd *rand.Rand, whole bool, bytes int) (members [][]SimprocID, logs [][]byte) {
	t.Helper()
	for _, e := range c.engines {
		first := len(logs)
		members, logs = append(members, make([][]SimprocID, e.plan.NumClasses())...),
			append(logs, make([][]byte, e.plan.NumClasses())...)
		take := func(class int, _ float64, calls []byte) { logs[first+class] = append(logs[first+class], calls...) }
		l := &CallLog{Whole: whole, Full: func(class int, from float64, calls []byte) []byte {
			take(class, from, calls)
			return make([]byte, bytes)
		}}
		l.Begin(e.plan.NumClasses())
		e.cfg.Calls = l
		last := SimprocID(0)
		e.plan.EachClass(func(id SimprocID, class int) {
			if members[first+class] = append(members[first+class], id); id < last {
				t.Fatalf("simproc %d comes behind %d", id, last)
			}
			last = id
		})
	}
	if _, err := c.run(rnd); err != nil {
		t.Fatal(err)
	}
	for _, e := range c.engines {
		e.cfg.Calls.Take(func(class int, from float64, calls []byte) {
			e.cfg.Calls.Full(class, from, calls)
		})
	}
	return members, logs
}

// What a CallLog has of a class is, hash by hash, what the simprocs of the class do anywhere else, in the total order
// (epoch, level, simproc): so hashes alone say which calls they are of. Models have many calls at one epoch, links
// without lookahead, and several classes.
func TestCallLog(t *testing.T) {
	models := uint64(150)
	if testing.Short() {
		models = 30
	}
	classes, ties := 0, 0
	for seed := range models {
		rnd := rand.New(rand.NewPCG(seed, 7))
		m := randomModel(rnd)
		place := func(workers int) []int32 {
			placement := make([]int32, len(m.g.Nodes))
			for n := range placement {
				placement[n] = int32(rnd.IntN(workers))
			}
			return placement
		}
		workers := 1 + rnd.IntN(3)
		other := newCluster(t, m, place(workers), workers, seed, 40, rnd.IntN(2) == 0)
		_, raw := logged(t, other, rnd, true, CallWholeBytes*(1+rnd.IntN(50)))
		of := map[SimprocID][]call{}
		for b := slices.Concat(raw...); len(b) > 0; b = b[CallWholeBytes:] {
			id := SimprocID(binary.LittleEndian.Uint32(b))
			of[id] = append(of[id], call{id, binary.LittleEndian.Uint32(b[4:]),
				math.Float64frombits(binary.LittleEndian.Uint64(b[8:]))})
		}
		workers = 1 + rnd.IntN(4)
		c := newCluster(t, m, place(workers), workers, seed, 40, rnd.IntN(2) == 0)
		members, logs := logged(t, c, rnd, false, CallHashBytes*(1+rnd.IntN(50)))
		level := c.engines[0].plan.Level
		for k := range logs {
			var want []call
			for _, id := range members[k] {
				want = append(want, of[id]...)
			}
			slices.SortFunc(want, func(a, b call) int {
				return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(level(a.simproc), level(b.simproc)),
					cmp.Compare(a.simproc, b.simproc))
			})
			if len(logs[k]) != len(want)*CallHashBytes {
				t.Fatalf("seed %d: %d bytes of %d calls", seed, len(logs[k]), len(want))
			}
			for i, w := range want {
				if got := binary.LittleEndian.Uint16(logs[k][i*CallHashBytes:]); got != uint16(w.hash) {
					t.Fatalf("seed %d: call %d of %v has hash %x, want the low 16 bits of %x: of %d at %v", seed, i,
						members[k], got, w.hash, w.simproc, w.epoch)
				}
				if i > 0 && want[i-1].epoch == w.epoch {
					ties++
				}
			}
		}
		classes += len(logs) - workers
	}
	if classes < 10 || ties < 20*int(models) {
		t.Errorf("%d more classes than workers, %d calls at the epoch of the one before: the models show nothing",
			classes, ties)
	}
}
