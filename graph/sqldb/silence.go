// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// silentFor is after how long a server that is waited for and sends nothing is told of; then after twice as long, and
// so on.
const silentFor = 10 * time.Second

// WatchSilence is a context for Open: while a server is waited for that has sent nothing for 10 seconds, a line on w
// says so, and again each time that it is twice as long. It is written in one call, by another goroutine. SQLite's
// waits end by themselves, with an error.
func WatchSilence(ctx context.Context, w io.Writer) context.Context {
	return context.WithValue(ctx, silenceKey{}, silence{w, silentFor})
}

type silenceKey struct{}

// silence is who is told, and after how long first.
type silence struct {
	w     io.Writer
	after time.Duration
}

// dialing makes connections whose server is watched, if the context of what opens them says so.
func dialing(ctx context.Context, dial pgconn.DialFunc) pgconn.DialFunc {
	s, ok := ctx.Value(silenceKey{}).(silence)
	if !ok {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w := &watched{Conn: conn, made: time.Now(), closed: make(chan struct{})}
		go w.watch(s, address)
		return w, nil
	}
}

// watched is a connection, from which one goroutine at a time reads.
type watched struct {
	net.Conn
	made   time.Time
	since  atomic.Int64 // when the read began that goes on, in nanoseconds from then; 0: none does
	closed chan struct{}
	once   sync.Once
}

// Read reads.
func (w *watched) Read(b []byte) (int, error) {
	w.since.Store(int64(time.Since(w.made)) | 1) // never 0
	defer w.since.Store(0)
	return w.Conn.Read(b)
}

// Close ends the watch as well.
func (w *watched) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

func (w *watched) watch(s silence, server string) {
	look := time.NewTicker(s.after / 10)
	defer look.Stop()
	last, next := int64(0), s.after
	for {
		select {
		case <-w.closed:
			return
		case <-look.C:
		}
		since := w.since.Load()
		if since != last {
			last, next = since, s.after
		}
		if silent := time.Since(w.made) - time.Duration(since); since != 0 && silent >= next {
			// Who waits can't do more than be told: an error of w is for nobody.
			_, _ = fmt.Fprintf(s.w, "The database at %s has sent nothing for %v. It is waited for; Ctrl-C ends that.\n",
				server, silent.Round(s.after))
			next *= 2
		}
	}
}
