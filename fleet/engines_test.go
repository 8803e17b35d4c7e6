// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/mem"
	"github.com/disco-sim/disco/metastore/zk"
)

// backends makes clients of one server.
type backends func() metastore.Backend

// onEngines runs a test on each engine.
func onEngines(t *testing.T, run func(t *testing.T, name string, b backends)) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must := func(t *testing.T, b metastore.Backend, err error) metastore.Backend {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Run("mem", func(t *testing.T) { run(t, "mem", inMemory()) })
	t.Run("etcd", func(t *testing.T) {
		e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1)
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		run(t, "etcd", func() metastore.Backend {
			b, err := etcd.New(ctx, etcd.Options{Endpoints: e.Addrs(), TTL: 30 * time.Second})
			return must(t, b, err)
		})
	})
	t.Run("zk", func(t *testing.T) {
		e, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{})
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		run(t, "zk", func() metastore.Backend {
			b, err := zk.New(zk.Options{Servers: e.Addrs(), TTL: 30 * time.Second})
			return must(t, b, err)
		})
	})
}

func inMemory() backends {
	server := mem.NewServer(time.Second)
	return func() metastore.Backend { return server.NewClient() }
}

// newClient is a client of a group; it is closed with the test.
func newClient(t *testing.T, b metastore.Backend, group string, o Options) *Client {
	t.Helper()
	s, err := metastore.New(t.Context(), b, metastore.Options{Group: group, Base: Base()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := New(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// errKilled is what a client gets that is no more.
var errKilled = errors.New("the client was killed")

// outcome is what becomes of a commit.
type outcome int

const (
	killedBefore outcome = iota
	killedAfter
	unknownNotDone
	unknownDone
	unknownLate // it is done later, if its conditions hold still
	outcomes
)

// killable is a backend whose client is killed, or hears nothing, at one of its commits.
type killable struct {
	metastore.Backend
	at   int // the commit, from 0
	what outcome
	rng  *rand.Rand

	mu   sync.Mutex
	n    int
	dead bool
	late func()
	wait int // calls until late
}

// step is done before each call.
func (k *killable) step() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.late != nil {
		if k.wait--; k.wait <= 0 {
			k.late()
			k.late = nil
		}
	}
	if k.dead {
		return errKilled
	}
	return nil
}

func (k *killable) Get(ctx context.Context, path string) (metastore.Node, error) {
	if err := k.step(); err != nil {
		return metastore.Node{}, err
	}
	return k.Backend.Get(ctx, path)
}

func (k *killable) Children(ctx context.Context, path string) ([]string, error) {
	if err := k.step(); err != nil {
		return nil, err
	}
	return k.Backend.Children(ctx, path)
}

func (k *killable) Tree(ctx context.Context, path string) ([]metastore.Leaf, error) {
	if err := k.step(); err != nil {
		return nil, err
	}
	return k.Backend.Tree(ctx, path)
}

func (k *killable) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if err := k.step(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	if k.n-1 != k.at {
		return k.Backend.Commit(ctx, conds, ops)
	}
	switch k.what {
	case killedBefore:
		k.dead = true
		return errKilled
	case killedAfter:
		k.dead = true
		_ = k.Backend.Commit(ctx, conds, ops)
		return errKilled
	case unknownNotDone:
		return metastore.ErrUnknown
	case unknownDone:
		if err := k.Backend.Commit(ctx, conds, ops); err != nil {
			return err
		}
		return metastore.ErrUnknown
	}
	k.wait = 1 + k.rng.IntN(6)
	k.late = func() { _ = k.Backend.Commit(ctx, conds, ops) }
	return metastore.ErrUnknown
}
