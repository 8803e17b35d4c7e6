// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

// gated is a client without a server: what it asks, the test answers.
func gated() *Backend {
	b := &Backend{options: Options{Endpoints: []string{"here"}}, gate: circuit.NewGate()}
	b.ended, b.end = context.WithCancel(context.Background())
	b.identity.init(b.ended)
	return b
}

// TestGate: a hundred calls at a store that is gone for a minute ask it some dozens of times together, none fails, a
// session isn't held up, and a call that is given up says why.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := gated()
		defer b.end()
		var asked atomic.Int64
		back := time.Now().Add(time.Minute)
		ask := func(context.Context) (*pb.ResponseHeader, error) {
			asked.Add(1)
			if time.Now().Before(back) {
				return nil, status.Error(codes.Unavailable, "connection refused")
			}
			return nil, nil
		}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				call := b.once // nothing is sent: it is done again
				if i%2 == 0 {
					call = b.retry
				}
				if err := call(t.Context(), ask); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(30 * time.Second)
		before := asked.Load()
		urgent := 0
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := b.retryAs(ctx, circuit.Urgent, func(context.Context) (*pb.ResponseHeader, error) {
			if urgent++; urgent < 3 {
				return nil, status.Error(codes.Unavailable, "connection refused")
			}
			return nil, nil
		})
		if err != nil || urgent != 3 {
			t.Errorf("a session: found %v behind %d tries", err, urgent)
		}
		if before > 40 {
			t.Errorf("it was asked %d times in 30 s by 100 calls, want some dozens", before)
		}
		open := (*circuit.OpenError)(nil)
		if !errors.As(b.Trouble(), &open) {
			t.Errorf("found the trouble %v", b.Trouble())
		}
		short, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("my time is over"))
		defer cancel()
		err = b.retry(short, ask)
		for _, want := range []string{"tried etcd at here for 1ms", "since it has failed 5 times", "connection refused",
			"my time is over"} {
			if !errors.Is(err, metastore.ErrUnavailable) || !strings.Contains(err.Error(), want) {
				t.Errorf("found %v, want %q in it", err, want)
			}
		}
		all.Wait()
		if since := time.Since(back); since > 20*time.Second {
			t.Errorf("the last call was answered %v after the store was there", since)
		}
		if err := b.retry(t.Context(), ask); err != nil || b.Trouble() != nil {
			t.Errorf("found %v, %v of a store that answers", err, b.Trouble())
		}
	})
}

// TestGateRefusals: a server that refuses has answered, and its refusals open nothing.
func TestGateRefusals(t *testing.T) {
	b := gated()
	defer b.end()
	for range 20 {
		err := b.retry(t.Context(), func(context.Context) (*pb.ResponseHeader, error) {
			return nil, status.Error(codes.PermissionDenied, "no")
		})
		if err == nil || b.Trouble() != nil {
			t.Fatalf("found %v, and the trouble %v", err, b.Trouble())
		}
	}
	b.end()
	if err := b.retry(t.Context(), nil); !errors.Is(err, metastore.ErrClosed) {
		t.Errorf("found %v of a closed client", err)
	}
}
