// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// A large payload is read where its sender has put it: a byte that is changed there
// changes what the receiver sees. And it stays there until its lease ends.
func testZeroCopy(t *testing.T, f *Factory) {
	r := open(t, f, small(2))
	b := r.inbox[1]
	b.hold = true
	const size = 5000
	for range 3 {
		must(t, r.try(0, 1, size))
	}
	r.settle(t, 0, 1)
	if len(b.leases) != 3 {
		t.Fatalf("%d leases for 3 large payloads", len(b.leases))
	}
	want := make([]byte, size)
	pool := r.Pool(0)
	for _, h := range b.leases {
		Payload(want, 0, 1, h.event)
		at := bytes.Index(pool, want)
		if at < 0 {
			t.Fatalf("the data of event %d are not in the sender's pool", h.event)
		}
		pool[at] ^= 0xFF
		if h.data[0] != want[0]^0xFF {
			t.Errorf("the data of event %d were copied", h.event)
		}
		pool[at] ^= 0xFF
	}
	for range rounds(2000) {
		r.works(t, 0, 1)
	}
	for _, h := range b.leases {
		Payload(want, 0, 1, h.event)
		if !bytes.Equal(h.data, want) {
			t.Errorf("the data of event %d changed while they were leased", h.event)
		}
		must(t, r.In[1].Release(h.lease))
	}
	b.leases, b.hold = nil, false
	for range 50 {
		must(t, r.try(0, 1, size))
		r.settle(t, 0, 1)
	}
}

// A pool without a free block refuses, changes nothing, and serves again as soon as one
// comes back.
func testExhausted(t *testing.T, f *Factory) {
	o := small(2)
	o.Blocks = 4
	r := open(t, f, o)
	b := r.inbox[1]
	b.hold = true
	for range 4 {
		must(t, r.try(0, 1, 1000))
	}
	wantErr(t, "fifth of four blocks", r.try(0, 1, 1000), ErrNoRoom)
	must(t, r.try(0, 1, 10)) // small ones still go
	r.settle(t, 0, 1)
	wantErr(t, "all blocks are being read", r.try(0, 1, 1000), ErrNoRoom)
	must(t, r.In[1].Release(b.leases[2].lease))
	must(t, r.try(0, 1, 1000))
	wantErr(t, "only one came back", r.try(0, 1, 1000), ErrNoRoom)

	waits := 0
	r.wait = func(int) error {
		if waits++; waits == 3 {
			return r.In[1].Release(b.leases[0].lease)
		}
		if waits > 100 {
			return errors.New("a block came back, but the send goes on waiting")
		}
		return nil
	}
	must(t, r.send(0, 1, 1000))
	if waits < 3 {
		t.Errorf("a block was there after %d waits, but it came back in the third", waits)
	}
	r.wait = func(int) error { return errStopped }
	wantErr(t, "wait that fails", r.send(0, 1, 1000), errStopped)
	r.settle(t, 0, 1)
}

// Two lanes share the pool of their sender: what one peer holds the other lacks, and
// what one gives back the other can have.
func testSharedPool(t *testing.T, f *Factory) {
	o := small(3)
	o.Blocks = 4
	r := open(t, f, o)
	for _, to := range []int{1, 2} {
		r.inbox[to].hold = true
		must(t, r.try(0, to, 1000))
		must(t, r.try(0, to, 1000))
		r.settle(t, 0, to)
	}
	for _, to := range []int{1, 2} {
		wantErr(t, "shared pool without a free block", r.try(0, to, 1000), ErrNoRoom)
	}
	must(t, r.In[2].Release(r.inbox[2].leases[0].lease))
	must(t, r.Out[0][2].Flush())
	must(t, r.try(0, 1, 1000))
	wantErr(t, "shared pool without a free block", r.try(0, 2, 1000), ErrNoRoom)
	must(t, r.In[1].Release(r.inbox[1].leases[1].lease))
	must(t, r.Out[0][1].Flush()) // takes blocks back as well
	must(t, r.try(0, 2, 1000))
	r.settle(t, 0, 1)
	r.settle(t, 0, 2)
	if a, b := len(r.inbox[1].leases), len(r.inbox[2].leases); a != 3 || b != 3 {
		t.Errorf("%d and %d leases, want 3 and 3", a, b)
	}
}

// What can never fit is refused as such, not waited for, and harms nothing.
func testTooLarge(t *testing.T, f *Factory) {
	o := small(2)
	r := open(t, f, o)
	r.wait = func(int) error { return errStopped }
	wantErr(t, "data of one byte too many", r.try(0, 1, o.BlockBytes+1), f.Errors.TooLarge)
	wantErr(t, "data of one byte too many", r.send(0, 1, o.BlockBytes+1), f.Errors.TooLarge)
	ev := Event(0, 1, 0, nil)
	ev.Headers = make([]byte, envelope.HeadersMax)
	wantErr(t, "headers longer than the lane", r.Out[0][1].SendEvent(&ev), f.Errors.TooLarge)
	ev.Data = make([]byte, o.BlockBytes)
	wantErr(t, "headers longer than the lane, with a block", r.Out[0][1].SendEvent(&ev), f.Errors.TooLarge)
	for range o.Blocks {
		must(t, r.try(0, 1, o.BlockBytes)) // all blocks are still there
	}
	r.settle(t, 0, 1)
}
