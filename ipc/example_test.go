// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/ipc"
)

// The two sides are goroutines here, so that the example can run; they work the same
// in two processes that share nothing but the name.
func Example() {
	dir, err := os.MkdirTemp("", "ipc") // leave Dir empty to use the user's own directory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	r, err := ipc.Listen("greetings", ipc.ListenConfig{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()

	go func() {
		s, err := ipc.Dial(ctx, "greetings", ipc.DialConfig{Dir: dir})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer s.Close() // what was sent is read all the same
		if err := s.Send(ctx, []byte("hello")); err != nil {
			fmt.Println(err)
		}
		large, err := s.Loan(ctx, 1<<20) // built in place, read in place
		if err != nil {
			fmt.Println(err)
			return
		}
		large.Data[0] = 42
		if err := s.SendLoan(ctx, &large); err != nil {
			fmt.Println(err)
		}
	}()

	for {
		m, err := r.Receive(ctx)
		var end *ipc.SenderError
		if errors.As(err, &end) {
			fmt.Printf("sender %d has gone, in order: %v\n", end.Sender, errors.Is(err, ipc.ErrClosed))
			return // a receiver of many senders would go on
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("message %d of sender %d: %d bytes, the first one %q\n", m.Number, m.Sender, len(m.Data), m.Data[0])
		r.Release(&m)
	}
	// Output:
	// message 0 of sender 0: 5 bytes, the first one 'h'
	// message 1 of sender 0: 1048576 bytes, the first one '*'
	// sender 0 has gone, in order: true
}

// A Receiver on another machine is reached by the agents of both: `disco-run agent --listen HOST:PORT --ipc`. Where
// there is none here, Dial says so; with DialConfig.Retry it waits for one.
func ExampleDial_remote() {
	dir, err := os.MkdirTemp("", "ipc") // leave Dir empty to use the user's own directory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := ipc.Dial(context.Background(), "h2:7400/prices", ipc.DialConfig{Dir: dir})
	if errors.Is(err, ipc.ErrNoReceiver) {
		fmt.Println("there is no agent here")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if err := s.Send(context.Background(), []byte("hello")); err != nil {
		fmt.Println(err) // ErrPeerDead also where h2 can't be reached for longer than 10 s
	}
	// Output:
	// there is no agent here
}
