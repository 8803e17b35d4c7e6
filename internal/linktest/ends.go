// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"errors"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/router"
)

// ended fails unless err is the end of the lane with a peer, for a reason.
func ended(t testing.TB, what string, err error, peer int, kind error) {
	t.Helper()
	wantErr(t, what, err, kind)
	var pe *lane.PeerError
	if !errors.As(err, &pe) || pe.Peer != peer {
		t.Errorf("%s: %v doesn't name worker %d", what, err, peer)
	}
}

// Everything that was sent arrives, then the end, once. The other lanes go on, and what
// is leased stays good.
func testClosing(t *testing.T, f *Factory) {
	r := open(t, f, small(3))
	b := r.inbox[1]
	b.hold = true
	for n := range 10 {
		must(t, r.try(0, 1, n))
	}
	if !f.NoBlocks {
		must(t, r.try(0, 1, 1000))
	}
	r.Out[0][1].Close()
	r.Out[0][1].Close() // does nothing
	err := b.end(t, "the end of a closed lane")
	ended(t, "closed lane", err, 0, f.Errors.Closed)
	if got, want := b.peers[0].events, r.sent(0, 1); got != want {
		t.Errorf("%d events before the end, want %d", got, want)
	}
	b.drain(t) // the end comes once
	r.works(t, 2, 1)
	wantErr(t, "send over a closed lane", r.try(0, 1, 1), f.Errors.Closed)
	wantErr(t, "send over a closed lane", r.send(0, 1, 1), f.Errors.Closed)
	wantErr(t, "promise over a closed lane", r.Out[0][1].SendPromise(&envelope.Promise{}), f.Errors.Closed)
	wantErr(t, "flush of a closed lane", r.Out[0][1].Flush(), f.Errors.Closed)
	wantErr(t, "bound over a closed lane", r.Out[0][1].Promise(1e9, 0), f.Errors.Closed)
	r.works(t, 0, 2)
	for _, h := range b.leases {
		want := make([]byte, len(h.data))
		Payload(want, 0, 1, h.event)
		if string(want) != string(h.data) {
			t.Error("leased data changed when the lane was closed")
		}
		must(t, r.In[1].Release(h.lease))
	}
}

// A receiver that closes doesn't leave its peers waiting, and its leases can still be
// given back.
func testClosedByReceiver(t *testing.T, f *Factory) {
	o := small(3)
	r := open(t, f, o)
	b := r.inbox[1]
	b.hold = true
	if !f.NoBlocks {
		for range o.Blocks {
			must(t, r.try(0, 1, 1000))
		}
	}
	r.settle(t, 0, 1)
	r.In[1].Close()
	r.fill(t, 0, 1, 200, f.Errors.Closed)
	r.fill(t, 2, 1, 200, f.Errors.Closed)
	wantErr(t, "send that would wait", r.send(0, 1, 200), f.Errors.Closed)
	r.works(t, 0, 2)
	r.works(t, 1, 2)
	for _, h := range b.leases {
		must(t, r.In[1].Release(h.lease))
	}
	if s, ok := r.Out[0][1].(Survivor); ok && !f.NoBlocks {
		must(t, s.ReturnBlocks())
		for range o.Blocks {
			must(t, r.try(0, 2, 1000))
		}
		r.settle(t, 0, 2)
	}
}

// What the sink doesn't want ends that lane with the sink's own error in it.
func testRefused(t *testing.T, f *Factory) {
	refusal := errors.New("no such simproc")
	large := 1000
	if f.NoBlocks {
		large = 100
	}
	for _, c := range []struct {
		what   string
		refuse func(r *rig)
	}{
		{"event", func(r *rig) { must(t, r.try(0, 1, 10)) }},
		{"event in a block", func(r *rig) { must(t, r.try(0, 1, large)) }},
		{"promise", func(r *rig) { must(t, r.Out[0][1].SendPromise(&envelope.Promise{Seqnr: 1})) }},
		{"bound", func(r *rig) { must(t, r.Out[0][1].Promise(1, 0)) }},
	} {
		r := open(t, f, small(3))
		b := r.inbox[1]
		b.refuse = refusal
		c.refuse(r)
		must(t, r.Out[0][1].Flush())
		err := b.end(t, "refusal of an "+c.what)
		ended(t, c.what, err, 0, f.Errors.Refused)
		wantErr(t, c.what, err, refusal)
		b.refuse = nil
		b.drain(t)
		r.works(t, 2, 1)
		r.works(t, 0, 2)
		r.fill(t, 0, 1, 200, f.Errors.Closed)
	}
}

// A router over links delivers to the peer that is named, and reports where no link leads.
func testNoLink(t *testing.T, f *Factory) {
	r := open(t, f, small(3))
	table := router.New(0, []router.Sender{nil, r.Out[0][1], nil})
	must(t, table.SendEvent(1, r.out[0][1].next(20)))
	must(t, r.Out[0][1].Flush())
	r.settle(t, 0, 1)
	if err := table.SendEvent(2, r.out[0][2].next(20)); err == nil || !strings.Contains(err.Error(), "to worker 2") {
		t.Errorf("no link: %v, want an error that names the worker", err)
	}
}
