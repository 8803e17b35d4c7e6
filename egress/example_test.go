// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/shm"
)

// counter is the peer's Sink: it counts.
type counter struct{ events int }

func (c *counter) ReceiveEvent(int, *envelope.Event, uint64) error {
	c.events++
	return nil
}

func (c *counter) ReceivePromise(int, *envelope.Promise) error { return nil }

func (c *counter) ReceiveBound(_ int, epoch float64, _ uint32) error {
	fmt.Printf("the peer has %d events, and knows that no later one is before %g s\n", c.events, epoch)
	return nil
}

// A sender fills the lane to its peer, waits for room when it is full, and promises that nothing earlier will follow.
// The peer would be another process with the same segment; here it is the same goroutine, which reads when the sender
// has to wait.
func Example() {
	const ringBytes = 4096
	size, err := egress.LaneBytes(ringBytes, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	const kind = 'm' | 'i'<<8 | 'n'<<16 | 'e'<<24
	segment, err := shm.Create(shm.Config{Name: "lane-0-1", Kind: kind, Size: size})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer segment.Close()
	if err := egress.FormatLane(segment.Body(), ringBytes, nil); err != nil {
		fmt.Println(err)
		return
	}

	peer, err := ingress.New(ingress.Config{Lanes: []ingress.Source{{Peer: 0, Lane: segment.Body()}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	sink := &counter{}
	out, err := egress.New(egress.Config{
		Peer: 1, Lane: segment.Body(), InlineMax: 256,
		Wait: func() error { // called while there is no room
			_, err := peer.Poll(sink)
			return err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	const events = 1000 // far more than the ring holds
	full := false
	for i := range events {
		ev := envelope.Event{Epoch: float64(i), Number: uint64(i), Target: 1, Data: make([]byte, 100)}
		err := out.TrySend(&ev) // doesn't wait
		if errors.Is(err, egress.ErrFull) {
			full = true
			err = out.SendEvent(&ev) // does
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("the ring was full:", full)
	if err := out.Promise(events, 0); err != nil { // makes visible what was sent, then raises the bound
		fmt.Println(err)
		return
	}
	if _, err := peer.Poll(sink); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the ring was full: true
	// the peer has 1000 events, and knows that no later one is before 1000 s
}
