// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// sizesOfCopied are those of payloads: none, in cells, in memory of their own, and as large in leased memory.
var sizesOfCopied = []int{0, 1, 1000, 3000, cellMax + 1}

// fillForCopies gives an Engine events for each epoch up to 60, and returns the memory that was leased, by lease.
func fillForCopies(t *testing.T, e *Engine) (leased map[uint64][]byte) {
	leased = map[uint64][]byte{}
	number := uint64(0)
	for epoch := 1.0; epoch <= 60; epoch++ {
		for i := range 20 {
			number++
			data := make([]byte, sizesOfCopied[i%len(sizesOfCopied)])
			for k := range data {
				data[k] = byte(number) + byte(k)
			}
			ev := envelope.Event{Epoch: epoch, Number: number, Sender: 1, Target: 0, Data: data}
			lease := uint64(0)
			if i%3 == 0 && len(data) > 0 {
				lease, leased[number] = number, data
			}
			if err := e.ReceiveEvent(1, &ev, lease); err != nil {
				t.Fatal(err)
			}
		}
	}
	return leased
}

// A copy of what is pending is encoded as what is pending was when it was copied, whatever becomes of that meanwhile:
// payloads are freed, their memory is given back and written over. So it is where most of the cells are in use, and
// where few are; and the copy's memory is used for the next one.
func TestPendingCopy(t *testing.T) {
	t.Run("heap", func(t *testing.T) { pendingCopy(t, nil) })
	given := 0
	t.Run("other memory", func(t *testing.T) {
		pendingCopy(t, func(bytes int) []byte {
			given++
			b := make([]byte, bytes) // as somebody else has left it
			for i := range b {
				b[i] = 0xa5
			}
			return b
		})
	})
	if given == 0 {
		t.Error("no memory was asked for")
	}
}

func pendingCopy(t *testing.T, memory func(bytes int) []byte) {
	var leased map[uint64][]byte
	e := newSink(t, func(lease uint64) { clear(leased[lease]) },
		func(*Simproc, []Event) error { return nil })
	leased = fillForCopies(t, e)
	if err := e.ReceiveBound(1, Never); err != nil {
		t.Fatal(err)
	}
	c := PendingCopy{Memory: memory}
	if err := e.CopyPending(&c); err == nil {
		t.Error("what is pending was copied in the middle of a leg")
	}
	dense, sparse := 0, 0
	leg := func(until float64) map[int]string {
		e.SetUntil(until)
		if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
		return pendingOf(t, e.EachPending)
	}
	want := leg(0.5)
	for until := 7.5; until < 70; until += 7 {
		most := c.Bytes() + c.Grows(e)
		if err := e.CopyPending(&c); err != nil {
			t.Fatal(err)
		}
		if c.Bytes() > most {
			t.Errorf("before the leg until %v: a copy has %d bytes, at most %d were expected", until, c.Bytes(), most)
		}
		if c.store.classes[5].next >= e.store.classes[5].next {
			dense++
		} else {
			sparse++
		}
		before := want
		want = leg(until)
		for _, size := range sizesOfCopied { // new ones come into the memory of old ones
			defer e.store.free(e.store.put(nil, make([]byte, size)))
		}
		if got := pendingOf(t, c.Each); !maps.Equal(got, before) {
			t.Fatalf("before the leg until %v: what was copied is encoded in other bytes", until)
		}
	}
	if dense == 0 || sparse == 0 {
		t.Errorf("%d times whole cells were copied, %d times one by one; want both", dense, sparse)
	}
	if blocks := len(c.blocks); blocks != 1 {
		t.Errorf("copies took %d blocks, want 1 that is used again", blocks)
	}
}

// pendingOf is what is encoded, by node.
func pendingOf(t *testing.T, each func(func(n int, encoded []byte) error) error) map[int]string {
	t.Helper()
	all := map[int]string{}
	err := each(func(n int, encoded []byte) error {
		all[n] = string(slices.Clone(encoded))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
