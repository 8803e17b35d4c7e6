// SPDX-License-Identifier: Apache-2.0

package doorway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// answers is a door without a network.
type answers func() (*http.Response, error)

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { return a() }

// TestGate: a hundred calls at a door that is gone for a minute ask it some dozens of times together, and none fails; a
// call that is given up says why, and one whose client is closed ends.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Dial("127.0.0.1:7443", plain)
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		back := time.Now().Add(time.Minute)
		gone := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		c.http.Transport = answers(func() (*http.Response, error) {
			asked.Add(1)
			if time.Now().Before(back) {
				return nil, gone
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})
		op := []metastore.Op{{Path: "/home/fleet/x", Do: metastore.Set, Value: []byte("j1")}}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				err := c.Commit(t.Context(), nil, op) // it wasn't sent: it is asked again
				if i%2 == 0 {
					_, err = c.Children(t.Context(), "/home")
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(30 * time.Second)
		before := asked.Load()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = c.Get(ctx, "/home/x")
		if !errors.Is(err, metastore.ErrUnavailable) || !strings.Contains(err.Error(), "isn't tried") ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a call that is given up: found %v", err)
		}
		all.Wait()
		if before > 40 {
			t.Errorf("a door that was gone was asked %d times in 30 s", before)
		}
		back = time.Now().Add(time.Minute)
		over := make(chan error, 1)
		go func() {
			_, err := c.Get(t.Context(), "/home/x")
			over <- err
		}()
		time.Sleep(10 * time.Second)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-over; !errors.Is(err, metastore.ErrClosed) {
			t.Errorf("a call of a client that is closed: found %v", err)
		}
	})
}
