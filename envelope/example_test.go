// SPDX-License-Identifier: Apache-2.0

package envelope_test

import (
	"fmt"

	"github.com/disco-sim/disco/envelope"
)

// An event as bytes, and back. Whoever reads bytes of a peer looks at the kind first; what is malformed is an error.
func Example() {
	headers, err := envelope.EncodeHeaders(map[string]string{"urgent": "yes"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ev := envelope.Event{Epoch: 1.5, Number: 7, Target: 2, Sender: 1, Headers: headers, Data: []byte("a lamp")}
	record := make([]byte, ev.Size())
	ev.Encode(record)

	kind, err := envelope.KindOf(record)
	fmt.Println(kind, err)
	read, err := envelope.DecodeEvent(record)
	if err != nil {
		fmt.Println(err)
		return
	}
	urgent, _ := envelope.Header(read.Headers, "urgent")
	fmt.Printf("%s for %d at %g s, urgent: %s\n", read.Data, read.Target, read.Epoch, urgent)

	_, err = envelope.DecodeEvent(record[:len(record)/4])
	fmt.Println("cut short:", err != nil)
	// Output:
	// event <nil>
	// a lamp for 2 at 1.5 s, urgent: yes
	// cut short: true
}
