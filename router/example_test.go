// SPDX-License-Identifier: Apache-2.0

package router_test

import (
	"fmt"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/router"
)

// printer is a link of another kind; what it doesn't need is left to the
// interface.
type printer struct {
	router.Sender
	peer int
}

func (p printer) SendEvent(ev *envelope.Event) error {
	fmt.Printf("to worker %d at %g s: %s\n", p.peer, ev.Epoch, ev.Data)
	return nil
}

// Worker 0 of three has a link to worker 2 and none to worker 1.
func Example() {
	r := router.New(0, []router.Sender{nil, nil, printer{peer: 2}})
	fmt.Println(r.SendEvent(2, &envelope.Event{Epoch: 1.5, Data: []byte("hello")}))
	fmt.Println(r.SendEvent(1, &envelope.Event{Epoch: 1.5}) != nil)
	// Output:
	// to worker 2 at 1.5 s: hello
	// <nil>
	// true
}
