// SPDX-License-Identifier: Apache-2.0

package shm_test

import (
	"fmt"
	"time"

	"github.com/disco-sim/disco/shm"
)

// A process makes a segment and hands its file to another one, by inheritance or over a socket. Here both are the same
// process: it attaches its own segment, sleeps on the doorbell in it, and is woken when the other side has written.
func Example() {
	const kind = 'm' | 'i'<<8 | 'n'<<16 | 'e'<<24
	own, err := shm.Create(shm.Config{Name: "board-0", Kind: kind, Size: 4096})
	must(err)
	defer own.Close()
	peer, err := shm.Attach(own.File(), shm.Want{Kind: kind})
	must(err)
	defer peer.Close()

	sleeper, err := shm.OpenDoorbell(own.Body()[:shm.DoorbellBytes])
	must(err)
	ringer, err := shm.OpenDoorbell(peer.Body()[:shm.DoorbellBytes])
	must(err)

	// The order is: arm, look once more for work, and only then sleep, never for ever.
	token := sleeper.Arm()
	rung := make(chan struct{})
	go func() {
		defer close(rung)
		peer.Body()[shm.DoorbellBytes] = 42
		ringer.Ring()
	}()
	if own.Body()[shm.DoorbellBytes] == 0 {
		must(sleeper.Wait(token, time.Minute))
	}
	sleeper.Disarm()
	<-rung // nobody touches a segment that is closed
	fmt.Println("the peer wrote", own.Body()[shm.DoorbellBytes])
	// Output:
	// the peer wrote 42
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
