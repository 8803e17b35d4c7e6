// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/shm"
)

// A thread that doesn't end is an error, which ends the run, and not a panic.
func TestThreadThatDoesNotEnd(t *testing.T) {
	bell, err := shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes))
	if err != nil {
		t.Fatal(err)
	}
	f := &threadFeed{outer: bell, done: make(chan struct{})} // nobody closes done
	if err := f.closeWithin(10 * time.Millisecond); !errors.Is(err, errThread) {
		t.Errorf("%v, want %v", err, errThread)
	}
	close(f.done)
	if err := f.close(); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

// fedLanes are lanes from so many peers, numbered from 1, and the feed that takes in what they carry.
func fedLanes(t *testing.T, way string, peers, ringBytes int) (feed, []*egress.Egress) {
	t.Helper()
	openBell := func() *shm.Doorbell {
		b, err := shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	bell, cycle := openBell(), openBell()
	var sources []ingress.Source
	var outs []*egress.Egress
	var numbers []int
	for peer := 1; peer <= peers; peer++ {
		size, err := egress.LaneBytes(ringBytes, nil)
		if err != nil {
			t.Fatal(err)
		}
		lane := aligned.Bytes(size, 128)
		if err := egress.FormatLane(lane, ringBytes, nil); err != nil {
			t.Fatal(err)
		}
		out, err := egress.New(egress.Config{Peer: 0, Lane: lane, Bell: bell, InlineMax: 4 << 10,
			Wait: func() error { return errors.New("no room") }})
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, peer)
		outs = append(outs, out)
		sources = append(sources, ingress.Source{Peer: peer, Lane: lane, Bell: openBell()})
	}
	in, err := ingress.New(ingress.Config{Lanes: sources})
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFeed(in, numbers, &Setup{Tuning: Tuning{Ingress: way, Wait: "park"}}, bell, cycle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	f.listen(true)
	return f, outs
}

// numbersByPeer is a sink that keeps the numbers of the events.
type numbersByPeer map[int][]uint64

func (n numbersByPeer) ReceiveEvent(peer int, ev *envelope.Event, _ uint64) error {
	n[peer] = append(n[peer], ev.Number)
	return nil
}
func (numbersByPeer) ReceivePromise(int, *envelope.Promise) error { return nil }
func (numbersByPeer) ReceiveBound(int, float64, uint32) error     { return nil }

// A poll that names a peer hands on what that one has sent and nothing else, also where all the others have sent more
// than is taken in for them: a worker that holds enough takes in no more than it must.
func TestFeedOfOnePeer(t *testing.T) {
	for _, way := range []string{IngressDuty, IngressGoroutine} {
		t.Run(way, func(t *testing.T) {
			const ringBytes = 2 * batchBytesMax // a full one has more than a batch
			f, outs := fedLanes(t, way, 3, ringBytes)
			var sent [3][]uint64
			send := func(i, most int) {
				ev := envelope.Event{Data: make([]byte, 64)}
				for len(sent[i]) < most && outs[i].TrySend(&ev) == nil {
					sent[i] = append(sent[i], ev.Number)
					ev.Number++
				}
				if err := outs[i].Flush(); err != nil {
					t.Fatal(err)
				}
			}
			send(0, 1<<20)
			send(1, 1<<20)
			send(2, 1000)
			got := numbersByPeer{}
			poll := func(only int, done func() bool) {
				for deadline := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
					if _, err := f.poll(got, only); err != nil {
						t.Fatal(err)
					}
					if time.Now().After(deadline) {
						t.Fatalf("poll of %d: %d, %d and %d events", only, len(got[1]), len(got[2]), len(got[3]))
					}
				}
			}
			poll(3, func() bool { return len(got[3]) == 1000 })
			if len(got[1]) > 0 || len(got[2]) > 0 {
				t.Errorf("polled worker 3, got %d and %d events of others", len(got[1]), len(got[2]))
			}
			poll(2, func() bool { return len(got[2]) == len(sent[1]) })
			if len(got[1]) > 0 {
				t.Errorf("polled worker 2, got %d events of another one", len(got[1]))
			}
			poll(-1, func() bool { return len(got[1]) == len(sent[0]) })
			for i := range sent {
				if !slices.Equal(got[i+1], sent[i]) {
					t.Errorf("worker %d: %d events of %d, or in another order", i+1, len(got[i+1]), len(sent[i]))
				}
			}
		})
	}
}

// What the thread holds for the cycle is bounded in bytes for all peers together, however many there are, when the
// cycle takes nothing.
func TestThreadHoldsNoMoreThanABatch(t *testing.T) {
	for _, peers := range []int{1, 7, 63} {
		t.Run(fmt.Sprint(peers), func(t *testing.T) {
			const ringBytes = 64 << 10
			f, outs := fedLanes(t, IngressGoroutine, peers, ringBytes)
			thread := f.(*threadFeed)
			held := func() (sum int) {
				thread.mu.Lock()
				defer thread.mu.Unlock()
				for _, p := range thread.peers {
					sum += p.fresh.bytesHeld()
				}
				return sum
			}
			ev := envelope.Event{Data: make([]byte, 100)}
			full := func() bool { // all lanes, while the thread takes nothing more
				any := false
				for _, out := range outs {
					for out.TrySend(&ev) == nil {
						any = true
					}
					if err := out.Flush(); err != nil {
						t.Fatal(err)
					}
				}
				return !any
			}
			deadline := time.Now().Add(time.Minute)
			for !full() || held() < batchBytesMax-peers*itemBytes {
				if time.Now().After(deadline) {
					t.Fatalf("%d bytes held, want at least %d", held(), batchBytesMax)
				}
				time.Sleep(time.Millisecond)
			}
			// One look at a lane takes what is in its ring: an item for each record of 150 bytes and more.
			if most := batchBytesMax + peers*(ringBytes+ringBytes/150*itemBytes); held() > most {
				t.Errorf("%d bytes held, at most %d are allowed", held(), most)
			}
		})
	}
}

// What is kept of empty batches is bounded for all peers together, also where a look at each peer's lane has taken far
// more than its share; and a batch that was kept is used again.
func TestThreadKeepsLittle(t *testing.T) {
	const peers = 63
	f, outs := fedLanes(t, IngressGoroutine, peers, 256<<10)
	thread := f.(*threadFeed)
	ev := envelope.Event{Data: make([]byte, 100)}
	got := numbersByPeer{}
	for range 4 { // both batches of each peer are used twice
		sent := 0
		for _, out := range outs {
			for out.TrySend(&ev) == nil {
				sent++
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(time.Minute); sent > 0; runtime.Gosched() {
			n, err := f.poll(got, -1)
			if sent -= n; err != nil || time.Now().After(deadline) {
				t.Fatalf("%d events to come, %v", sent, err)
			}
		}
	}
	thread.mu.Lock()
	defer thread.mu.Unlock()
	memory := 0
	for _, p := range thread.peers {
		for _, b := range []*batch{&p.fresh, &p.back} {
			memory += cap(b.items)*itemBytes + cap(b.bytes)
		}
	}
	if memory != thread.kept || memory > batchKeptMax || memory < batchKeptMax/2 {
		t.Errorf("%d bytes are kept, %d by its own count; want no more than %d, and not far less", memory, thread.kept,
			batchKeptMax)
	}
}
