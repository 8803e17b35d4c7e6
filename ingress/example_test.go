// SPDX-License-Identifier: Apache-2.0

package ingress_test

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/shm"
)

// inbox is a Sink. It prints what comes, and keeps the leases of data that stay in the sender's memory.
type inbox struct{ leases []uint64 }

func (in *inbox) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	fmt.Printf("worker %d: event %d for %g s, %d bytes, leased: %v\n",
		peer, ev.Number, ev.Epoch, len(ev.Data), lease != 0)
	if lease != 0 {
		in.leases = append(in.leases, lease)
	}
	return nil
}

func (in *inbox) ReceivePromise(peer int, p *envelope.Promise) error { return nil }

func (in *inbox) ReceiveBound(peer int, epoch float64, level uint32) error {
	fmt.Printf("worker %d: nothing before %g s any more\n", peer, epoch)
	return nil
}

// A worker takes in what its peer sends: small payloads are copied, a large one is read where the sender has put it,
// until its lease is given back. A peer that closes is the end of its lane, after everything that it has sent.
func Example() {
	// Memory of both, made with shm.Create where they are processes.
	sizes := []shm.BlockSize{{BlockBytes: 64 << 10, Count: 4}}
	poolBytes, err := shm.PoolBytes(sizes)
	must(err)
	pool, err := shm.Heap(shm.Config{Name: "pool-3", Kind: shm.KindPool, Size: poolBytes})
	must(err)
	defer pool.Close()
	must(shm.FormatPool(pool.Body(), sizes))
	laneBytes, err := egress.LaneBytes(4096, sizes)
	must(err)
	lane, err := shm.Heap(shm.Config{Name: "lane-3-0", Kind: 'm' | 'i'<<8 | 'n'<<16 | 'e'<<24, Size: laneBytes})
	must(err)
	defer lane.Close()
	must(egress.FormatLane(lane.Body(), 4096, sizes))

	// Worker 3, the sender.
	blocks, err := shm.NewPool(pool.Body())
	must(err)
	out, err := egress.New(egress.Config{
		Peer: 0, Lane: lane.Body(), Pool: blocks, InlineMax: 256,
		Wait: func() error { return errors.New("nobody reads") },
	})
	must(err)
	must(out.SendEvent(&envelope.Event{Epoch: 2, Number: 0, Target: 1, Data: make([]byte, 100)}))
	must(out.SendEvent(&envelope.Event{Epoch: 1, Number: 1, Target: 1, Data: make([]byte, 50_000)}))
	must(out.Promise(5, 0))
	out.Close()

	// Worker 0, the receiver.
	in, err := ingress.New(ingress.Config{Lanes: []ingress.Source{{Peer: 3, Lane: lane.Body(), Pool: pool.Body()}}})
	must(err)
	sink := &inbox{}
	for err == nil {
		_, err = in.Poll(sink)
	}
	fmt.Println("closed:", errors.Is(err, ingress.ErrClosed), "- leases:", in.Leases(3))
	for _, lease := range sink.leases {
		must(in.Release(lease))
	}
	must(out.ReturnBlocks())
	fmt.Println("blocks at the receiver:", out.LentBlocks())
	// Output:
	// worker 3: event 0 for 2 s, 100 bytes, leased: false
	// worker 3: event 1 for 1 s, 50000 bytes, leased: true
	// worker 3: nothing before 5 s any more
	// closed: true - leases: 1
	// blocks at the receiver: 0
}

// must keeps an example short; a program handles errors.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
