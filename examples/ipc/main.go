// SPDX-License-Identifier: Apache-2.0

// Command ipc is two programs that share only a name: one listens, any number of others send to it, through shared
// memory.
//
//	go run ./examples/ipc                                 # both in one process
//	go run ./examples/ipc listen prices
//	go run ./examples/ipc send prices                     # in another terminal
//	go run ./examples/ipc send -count 1e6 -size 64 prices # in a third one
//
// Kill any of them with kill -9: the others notice at once and continue, or end with an error that names the
// process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/ipc"
)

const usage = `usage: ipc                                     a listener and a sender in one process
       ipc listen [-senders N] NAME            receive until N senders have gone, or Ctrl-C
       ipc send [-count N] [-size BYTES] [-patience TIME] NAME
                                               send and go; wait so long for a listener`

// errUsage is a mistake on the command line.
var errUsage = errors.New("a mistake on the command line")

// Limits of what send takes.
const (
	countMax = 1e12
	sizeMax  = 1 << 30
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "ipc: %v\n%s\n", err, usage)
		os.Exit(2)
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "ipc:", strings.TrimPrefix(err.Error(), "ipc: "))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return both(ctx)
	}
	if args[0] != "listen" && args[0] != "send" {
		return fmt.Errorf("%w: found %q, want listen or send", errUsage, args[0])
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main shows the usage
	var senders, size int
	var count float64
	var patience time.Duration
	if args[0] == "listen" {
		flags.IntVar(&senders, "senders", 0, "end after so many senders have gone; 0: never")
	} else {
		flags.Float64Var(&count, "count", 1e5, "number of messages")
		flags.IntVar(&size, "size", 64, "bytes of each")
		flags.DurationVar(&patience, "patience", time.Minute, "how long to wait for a listener")
	}
	err := flags.Parse(args[1:])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", errUsage, args[0], err)
	case flags.NArg() != 1 || flags.Arg(0) == "":
		return fmt.Errorf("%w: %s: found %d names, want one", errUsage, args[0], flags.NArg())
	case senders < 0:
		return fmt.Errorf("%w: listen: -senders: found %d, want 0 or more", errUsage, senders)
	case !(count >= 0 && count <= countMax):
		return fmt.Errorf("%w: send: -count: found %v, want 0 to %g", errUsage, count, float64(countMax))
	case size < 0 || size > sizeMax:
		return fmt.Errorf("%w: send: -size: found %d, want 0 to %d bytes", errUsage, size, sizeMax)
	case patience < 0:
		return fmt.Errorf("%w: send: -patience: found %v, want 0 or more", errUsage, patience)
	case args[0] == "listen":
		return listen(ctx, flags.Arg(0), senders)
	}
	return send(ctx, flags.Arg(0), int(count), size, patience)
}

// both is a listener and a sender of 100,000 messages, to see the rings at work.
func both(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	name := fmt.Sprintf("example-%d", os.Getpid())
	listened := make(chan error, 1)
	go func() {
		err := listen(ctx, name, 1)
		cancel() // a sender has no listener to wait for
		listened <- err
	}()
	err := send(ctx, name, 1e5, 64, time.Minute)
	if err != nil {
		cancel()
	}
	if first := <-listened; first != nil {
		return first
	}
	if err == nil {
		fmt.Println("both were in one process; two programs meet in the same way: `ipc listen NAME`, `ipc send NAME`")
	}
	return err
}

// listen counts what each sender sends, and reads every byte of it.
func listen(ctx context.Context, name string, senders int) (err error) {
	r, err := ipc.Listen(name, ipc.ListenConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	fmt.Printf("listening as %q\n", name)

	type total struct{ messages, bytes, sum uint64 }
	totals := map[int]*total{}
	for gone := 0; senders == 0 || gone < senders; {
		m, err := r.Receive(ctx)
		var end *ipc.SenderError
		if errors.As(err, &end) { // one has ended; the others continue
			t := totals[end.Sender]
			if t == nil {
				t = &total{}
			}
			fmt.Printf("%d messages, %d bytes, sum %d from %v\n", t.messages, t.bytes, t.sum, end)
			delete(totals, end.Sender)
			gone++
			continue
		}
		if err != nil {
			return err
		}
		t := totals[m.Sender]
		if t == nil {
			t = &total{}
			totals[m.Sender] = t
		}
		t.messages++
		t.bytes += uint64(len(m.Data))
		for _, b := range m.Data {
			t.sum += uint64(b)
		}
		r.Release(&m)
	}
	return nil
}

// dial waits for a listener, and says so when none comes soon.
func dial(ctx context.Context, name string, patience time.Duration) (*ipc.Sender, error) {
	const soon = 500 * time.Millisecond
	note := time.AfterFunc(soon, func() {
		fmt.Fprintf(os.Stderr, "ipc: waiting up to %v for a process that listens as %q (ipc listen %s); Ctrl-C ends "+
			"it\n", patience, name, name)
	})
	defer note.Stop()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := ipc.Dial(waiting, name, ipc.DialConfig{Retry: true})
	if errors.Is(err, ipc.ErrNoReceiver) && waiting.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("nobody listens as %q after %v: start `ipc listen %s`, or give more -patience", name,
			patience, name)
	}
	return s, err
}

// send waits for the listener and sends messages, large ones without a copy.
func send(ctx context.Context, name string, count, size int, patience time.Duration) (err error) {
	s, err := dial(ctx, name, patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	const inPlace = 4096 // what is larger takes a block anyway: build it there
	small := make([]byte, min(size, inPlace))
	start := time.Now()
	for i := range count {
		if size <= inPlace {
			fill(small, i)
			err = s.Send(ctx, small)
		} else {
			var l ipc.Loan
			if l, err = s.Loan(ctx, size); err == nil {
				fill(l.Data, i)
				err = s.SendLoan(ctx, &l)
			}
		}
		if err != nil {
			return fmt.Errorf("after %d messages: %w", i, err)
		}
	}
	took := time.Since(start)
	fmt.Printf("sender %d: %d messages of %d bytes in %v, %.3g a second\n", s.Number(), count, size,
		took.Round(time.Millisecond), float64(count)/took.Seconds())
	return nil
}

func fill(data []byte, i int) {
	for k := range data {
		data[k] = byte(i + k)
	}
}
