// The ipc example is two programs that know of each other nothing but a name: one
// listens, any number of others send to it, through shared memory.
//
//	go run ./examples/ipc listen prices
//	go run ./examples/ipc send prices                     # in another terminal
//	go run ./examples/ipc send -count 1e6 -size 64 prices # in a third one
//
// Kill any of them with kill -9: the others notice at once and go on, or end with an
// error that says who has gone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/disco-sim/disco/ipc"
)

const usage = `usage: ipc listen [-senders N] NAME            receive until N senders have gone, or Ctrl-C
       ipc send [-count N] [-size BYTES] NAME  send and go`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	senders := flags.Int("senders", 0, "listen: end after so many senders have gone; 0: never")
	count := flags.Float64("count", 1e5, "send: number of messages")
	size := flags.Int("size", 64, "send: bytes of each")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New(usage)
	}
	switch args[0] {
	case "listen":
		return listen(ctx, flags.Arg(0), *senders)
	case "send":
		return send(ctx, flags.Arg(0), int(*count), *size)
	}
	return errors.New(usage)
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
		if errors.As(err, &end) { // one has gone; the others go on
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

// send waits for the listener and sends messages, large ones without a copy.
func send(ctx context.Context, name string, count, size int) (err error) {
	s, err := ipc.Dial(ctx, name, ipc.DialConfig{Patient: true})
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
	fmt.Printf("sender %d: %d messages of %d bytes in %v, %.3g a second\n", s.Number(), count, size, took.Round(time.Millisecond), float64(count)/took.Seconds())
	return nil
}

func fill(data []byte, i int) {
	for k := range data {
		data[k] = byte(i + k)
	}
}
