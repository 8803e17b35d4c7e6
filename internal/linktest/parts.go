// SPDX-License-Identifier: Apache-2.0

package linktest

import "testing"

// partsOptions is a mesh in which nothing but the smallest payloads fits inside, and few
// blocks are there.
func partsOptions() Options {
	o := small(2)
	o.Parts = true
	return o
}

// A receiver that returns no block and a payload larger than every block stop nobody:
// the data come in parts, whole and in order among all other events, and what is leased
// stays as it was. The sender waits for room in the lane only.
func testParts(t *testing.T, f *Factory) {
	o := partsOptions()
	r := open(t, f, o)
	b := r.inbox[1]
	b.hold = true
	r.wait = func(int) error {
		_, err := r.In[1].Poll(b) // takes in, and returns nothing
		return err
	}
	sizes := []int{10, o.InlineMax + 1, o.BlockBytes, o.BlockBytes + 1, o.RingBytes, 3*o.RingBytes + 7, 0, 1}
	for i := range rounds(400) {
		must(t, r.send(0, 1, sizes[i%len(sizes)]))
		if i%37 == 0 {
			must(t, r.Out[0][1].Promise(float64(r.sent(0, 1)), 0))
		}
	}
	r.settle(t, 0, 1)
	if len(b.leases) > o.Blocks {
		t.Errorf("%d leases of %d blocks", len(b.leases), o.Blocks)
	}
	want := make([]byte, o.BlockBytes)
	for _, h := range b.leases {
		Payload(want[:len(h.data)], 0, 1, h.event)
		if string(h.data) != string(want[:len(h.data)]) {
			t.Errorf("the data of event %d changed while they were leased", h.event)
		}
	}
}

// A send that ends in the midst of its parts, because Wait failed, was not sent: nothing
// of it arrives, and everything after it does.
func testPartsGivenUp(t *testing.T, f *Factory) {
	o := partsOptions()
	r := open(t, f, o)
	for i := range 20 {
		left := i
		r.wait = func(int) error {
			if left--; left < 0 {
				return errStopped
			}
			_, err := r.In[1].Poll(r.inbox[1])
			return err
		}
		wantErr(t, "send that is given up", r.send(0, 1, 1<<20), errStopped)
		if i%3 == 0 {
			r.settle(t, 0, 1)
			r.works(t, 0, 1)
		}
		r.wait = func(int) error {
			_, err := r.In[1].Poll(r.inbox[1])
			return err
		}
		must(t, r.send(0, 1, o.BlockBytes+100+i))
	}
	r.settle(t, 0, 1)
}
