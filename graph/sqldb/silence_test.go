// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
)

// lines gets what is written to it, a line at a time.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestSilence: a server that sends nothing in the middle of a query is told of, and again; a canceled context ends the
// wait for it, and one that answers again is heard.
func TestSilence(t *testing.T) {
	server, err := storeserver.StartPostgres(t.Context())
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	told := make(lines, 100)
	ctx := context.WithValue(t.Context(), silenceKey{}, silence{told, 100 * time.Millisecond})
	db, err := Open(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	process := 0
	err = db.query(ctx, "SELECT pg_backend_pid()", nil, func(r Row) error {
		process = int(r.Int(0))
		return nil
	})
	if err != nil || process <= 1 {
		t.Fatalf("found process %d, %v, want that of the server for this connection", process, err)
	}
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(process, s); err != nil {
			t.Fatal(err)
		}
	}
	for len(told) > 0 {
		<-told // it may have been slow to start
	}
	asking, cancel := context.WithCancel(t.Context())
	held := func(ctx context.Context) <-chan error { // is what the query ends with
		signal(syscall.SIGSTOP)
		done := make(chan error, 1)
		go func() { _, err := db.Scenarios(ctx); done <- err }()
		for range 2 {
			if text := <-told; !strings.Contains(text, "sent nothing for") {
				t.Errorf("found %q, want for how long", text)
			}
		}
		return done
	}
	done := held(asking)
	signal(syscall.SIGCONT)
	if err := <-done; err != nil {
		t.Errorf("found %v, want what was asked for", err)
	}
	done = held(asking)
	defer signal(syscall.SIGCONT)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("found %v, want that it was canceled", err)
	}
	_ = db.Close() // its connection is lost
}
