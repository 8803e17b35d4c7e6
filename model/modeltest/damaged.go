// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// damagedTries is how many damaged states DamagedStates loads.
func damagedTries() int {
	if testing.Short() {
		return 100
	}
	return 500
}

// DamagedStates holds that handlers refuse a state that they can't go on with. It saves a scenario in the middle of a
// run, and loads it some hundred times with what one handler wrote cut short, or changed in a bit or a number. Each
// time there must be an error without a panic; or a state that is saved again as it was read, and some thousand calls
// without one. Neither may take much more memory than the state itself.
func DamagedStates(t testing.TB, s scenario.Scenario, seed uint64) {
	t.Helper()
	refused, err := damagedStates(s, seed)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Logf("%d of %d damaged states are refused", refused, damagedTries())
}

// damagedCalls is how many calls of handlers a run goes on for, about.
const damagedCalls = 1000

func damagedStates(s scenario.Scenario, seed uint64) (refused int, err error) {
	one, err := begin(s, &Config{Seed: seed}, nil)
	if err != nil {
		return 0, err
	}
	good, err := one.leg(s, 64, s.Horizon()/2)
	if err != nil {
		return 0, err
	}
	// What a load takes that isn't damaged, for comparison.
	taken := allocated(func() { _, err = begin(s, &Config{Seed: seed}, good.resume()) })
	if err != nil {
		return 0, err
	}
	rnd := rand.New(rand.NewPCG(seed, 2))
	for range damagedTries() {
		n := rnd.IntN(len(good.nodes))
		bad := &saved{end: good.end, nodes: slices.Clone(good.nodes), pending: good.pending}
		var how string
		bad.nodes[n], how = damage(rnd, good.nodes[n])
		ok, err := bad.goesOn(s, Config{Seed: seed}, 2*taken+64*uint64(len(good.nodes[n]))+1<<20)
		if err != nil {
			return 0, fmt.Errorf("node %d, %s: %w", n, how, err)
		}
		if !ok {
			refused++
		}
	}
	return refused, nil
}

// goesOn loads a damaged state and runs on; false: it was refused.
func (a *saved) goesOn(s scenario.Scenario, cfg Config, most uint64) (bool, error) {
	var c *engines
	var err error
	taken := allocated(func() { c, err = begin(s, &cfg, a.resume()) })
	if taken > most {
		return false, fmt.Errorf("it takes %d bytes of memory, want at most %d (%v)", taken, most, err)
	}
	if err != nil {
		return false, noPanic("it is loaded", err)
	}
	again, err := c.leg(s, 64, a.end)
	if err == nil {
		err = a.differs(s, again)
	}
	if err != nil {
		return false, fmt.Errorf("it is loaded, and saved again: %w", err)
	}
	e := c.engines[0]
	e.SetUntil(math.Inf(1))
	for e.Next() != node.Never && e.Stats().Activations < damagedCalls && err == nil {
		_, err = e.Run(64, math.Inf(1))
	}
	if err == nil {
		_, err = e.Report(s.Horizon())
	}
	if err != nil && !invariants.Enabled { // whose sums a damaged state may break
		return true, noPanic("it was loaded", err)
	}
	return true, nil
}

// noPanic is nil unless an error is of a panic.
func noPanic(when string, err error) error {
	if strings.Contains(err.Error(), "panic") {
		return fmt.Errorf("when %s: %w", when, err)
	}
	return nil
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// numbers are what damage puts in the place of others.
var numbers = []uint64{0, 1, 1 << 31, 1<<32 - 1, 1 << 40, math.MaxUint64, math.MaxInt64, 1 << 63,
	math.Float64bits(math.Inf(1)), math.Float64bits(math.NaN()), math.Float64bits(-1), math.Float64bits(1e-9),
	math.Float64bits(1e300), math.Float64bits(1 << 53)}

// damage changes what one handler wrote of a node's state, and says how. A node's state is two blocks for each simproc,
// each with its size in front: the engine's own, and the handler's.
func damage(rnd *rand.Rand, node []byte) (damaged []byte, how string) {
	var blocks [][]byte
	for rest := node; len(rest) > 0; {
		size := 4 + binary.LittleEndian.Uint32(rest)
		blocks, rest = append(blocks, rest[:size]), rest[size:]
	}
	k := 2*rnd.IntN(len(blocks)/2) + 1
	b := bytes.Clone(blocks[k][4:])
	at := rnd.IntN(len(b))
	switch rnd.IntN(4) {
	case 0:
		b, how = b[:at], fmt.Sprintf("cut short at byte %d of %d", at, len(b))
	case 1:
		bit := rnd.IntN(8)
		b[at] ^= 1 << bit
		how = fmt.Sprintf("with bit %d of byte %d of %d changed", bit, at, len(b))
	default:
		size := 4 << rnd.IntN(2)
		x := numbers[rnd.IntN(len(numbers))]
		if rnd.IntN(4) == 0 {
			x = rnd.Uint64()
		}
		word := binary.LittleEndian.AppendUint64(nil, x)
		copy(b[at:], word[:size])
		how = fmt.Sprintf("with %x at byte %d of %d", word[:size], at, len(b))
	}
	blocks[k] = append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	return slices.Concat(blocks...), how
}
