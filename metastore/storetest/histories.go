// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

var (
	seedFlag   = flag.Uint64("storetest.seed", 0, "seed of the histories (0: another one each time)")
	faultsFlag = flag.Int("storetest.faults", 6, "faults during each history")
)

// historyCases are random histories of several clients under faults.
var historyCases = []testCase{
	{"Keys", 0, func(e *env) { e.checked(e.keyHistory) }},
	{"Queue", 0, func(e *env) { e.checked(e.queueHistory) }},
	{"Feeds", 0, func(e *env) { e.checked(e.feedHistory) }},
	{"Watches", 0, func(e *env) { e.checked(e.watchHistory) }},
}

// workload runs clients under faults, and returns what is wrong with what they have seen. wrap is put around each
// client; nil is none.
type workload func(r *rand.Rand, wrap func(metastore.Backend) metastore.Backend) error

// checked runs a workload with a seed.
func (e *env) checked(w workload) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	e.Logf("-storetest.seed=%d", seed)
	if err := w(rand.New(rand.NewPCG(seed, 0)), nil); errors.Is(err, errUndecided) {
		e.Skipf("SKIPPED: seed %d: %v", seed, err)
	} else if err != nil {
		e.Errorf("seed %d: %v", seed, err)
	}
}

// crowd is clients that work at the same time while faults come and go.
type crowd struct {
	*env
	clients []metastore.Backend
	healed  chan struct{} // closed when the last fault is over
}

// clientOp is one random operation of a client.
type clientOp func(ctx context.Context, r *rand.Rand, client int) error

// newCrowd makes clients.
func (e *env) newCrowd(n int, wrap func(metastore.Backend) metastore.Backend) (c *crowd, bare []metastore.Backend) {
	c = &crowd{env: e, healed: make(chan struct{})}
	for range n {
		b := e.client()
		bare = append(bare, b)
		if wrap != nil {
			b = wrap(b)
		}
		c.clients = append(c.clients, b)
	}
	return c, bare
}

// work calls op for every client, again and again with pauses, until all faults are over, and then three times.
func (c *crowd) work(r *rand.Rand, bare []metastore.Backend, op clientOp) error {
	errs := make(chan error, len(c.clients))
	for i := range c.clients {
		mine := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		go func() {
			for left := 3; left > 0; {
				select {
				case <-c.healed:
					left--
				case <-c.ctx.Done():
					errs <- context.Cause(c.ctx)
					return
				default:
				}
				ctx, cancel := context.WithTimeout(c.ctx, 500*time.Millisecond)
				err := op(ctx, mine, i)
				cancel()
				if err != nil {
					errs <- fmt.Errorf("client %d: %w", i, err)
					return
				}
				wait(c.ctx, time.Duration(mine.IntN(20))*time.Millisecond)
			}
			errs <- nil
		}()
	}
	n := *faultsFlag
	if testing.Short() {
		n = min(n, 2)
	}
	c.trouble(r, c.faults(bare), n)
	close(c.healed)
	var all []error
	for range c.clients {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// keyHistory is reads, writes, compare-and-sets, deletes and commits of two keys.
func (e *env) keyHistory(r *rand.Rand, wrap func(metastore.Backend) metastore.Backend) error {
	const clients, groups = 4, 3
	c, bare := e.newCrowd(clients, wrap)
	h := newHistory()
	seen := make([][groups]seenKeys, clients)
	var written atomic.Int64
	err := c.work(r, bare, func(ctx context.Context, r *rand.Rand, i int) error {
		g := r.IntN(groups)
		k := keyClient{e: e, b: c.clients[i], h: h, client: i, group: g, seen: &seen[i][g]}
		value := func() string { return fmt.Sprintf("%d.%d", i, written.Add(1)) }
		if r.IntN(2) == 0 {
			return k.read(ctx, r.IntN(keysOfGroup+1))
		}
		return k.write(ctx, r, value)
	})
	if err != nil {
		return err
	}
	last := e.client()
	for g := range groups {
		k := keyClient{e: e, b: last, h: h, client: clients, group: g, seen: &seenKeys{}}
		for i := range keysOfGroup + 1 {
			if err := k.read(e.ctx, i); err != nil {
				return err
			}
		}
	}
	e.Logf("%v", h)
	return h.check(model)
}

// seenKeys is what a client has read of a group's keys.
type seenKeys [keysOfGroup]struct {
	value   string
	version metastore.Version
}

// keyClient is one client with one group of keys.
type keyClient struct {
	e      *env
	b      metastore.Backend
	h      *history
	client int
	group  int
	seen   *seenKeys
}

// path of a key; both are below one node.
func (k keyClient) path(key int) string { return k.e.path(fmt.Sprintf("g%d/%c", k.group, 'a'+key)) }

// read reads one key, or which ones there are.
func (k keyClient) read(ctx context.Context, key int) error {
	s := step{group: k.group, read: true, key: key}
	call := k.h.now()
	if key == keysOfGroup {
		s.key, s.names = 0, true
		names, err := k.b.Children(ctx, k.e.path(fmt.Sprintf("g%d", k.group)))
		if errors.Is(err, metastore.ErrNoNode) {
			err = nil
		}
		return k.h.add(k.client, s, outcome{value: strings.Join(names, "")}, call, err)
	}
	n, err := k.b.Get(ctx, k.path(key))
	if errors.Is(err, metastore.ErrNoNode) {
		err = nil
	}
	if err == nil {
		k.seen[key].value, k.seen[key].version = string(n.Value), n.Version
	}
	return k.h.add(k.client, s, outcome{value: string(n.Value)}, call, err)
}

// write changes one key or both, some with a condition on what the client has read last.
func (k keyClient) write(ctx context.Context, r *rand.Rand, value func() string) error {
	s := step{group: k.group}
	var conds []metastore.Cond
	var ops []metastore.Op
	first, n := r.IntN(keysOfGroup), 1+r.IntN(keysOfGroup)
	for i := range n {
		key := (first + i) % keysOfGroup
		if r.IntN(3) > 0 {
			seen := k.seen[key]
			s.when[key] = &seen.value
			cond := metastore.Cond{Path: k.path(key), Is: metastore.At, Version: seen.version}
			if seen.value == "" {
				cond = metastore.Cond{Path: k.path(key), Is: metastore.Missing}
			}
			conds = append(conds, cond)
		}
		next := value()
		op := metastore.Op{Path: k.path(key), Do: metastore.Set, Value: []byte(next)}
		switch r.IntN(4) {
		case 0:
			op, next = metastore.Op{Path: op.Path, Do: metastore.Delete}, ""
		case 1:
			none := ""
			if s.when[key] == nil {
				op.Do, s.when[key] = metastore.Create, &none
			}
		}
		s.write[key] = &next
		ops = append(ops, op)
	}
	call := k.h.now()
	return k.h.add(k.client, s, outcome{}, call, k.b.Commit(ctx, conds, ops))
}

// queueHistory is appends, and takes of the first item.
func (e *env) queueHistory(r *rand.Rand, wrap func(metastore.Backend) metastore.Backend) error {
	const clients = 4
	c, bare := e.newCrowd(clients, wrap)
	h := newHistory()
	var made atomic.Int64
	err := c.work(r, bare, func(ctx context.Context, r *rand.Rand, i int) error {
		if r.IntN(2) == 0 {
			return e.take(ctx, c.clients[i], h, i)
		}
		item := fmt.Sprintf("%d.%d", i, made.Add(1))
		call := h.now()
		name, err := c.clients[i].Append(ctx, e.path("q"), []byte(item))
		return h.add(i, taken{true, item, name}, outcome{}, call, err)
	})
	if err != nil {
		return err
	}
	last := e.client()
	for before := -1; before != len(h.ops); { // until it is empty, which is the last operation then
		before = len(h.ops)
		if names, err := last.Children(e.ctx, e.path("q")); err == nil && len(names) > 0 {
			err = e.take(e.ctx, last, h, clients)
			if err != nil {
				return err
			}
		}
	}
	if err := e.take(e.ctx, last, h, clients); err != nil {
		return err
	}
	e.Logf("%v", h)
	h.settle()
	return h.check(queueModel)
}

// take takes the first item: the one with the least name that this client deletes.
func (e *env) take(ctx context.Context, b metastore.Backend, h *history, client int) error {
	call := h.now()
	for {
		names, err := b.Children(ctx, e.path("q"))
		if err != nil && !errors.Is(err, metastore.ErrNoNode) {
			return h.add(client, taken{}, outcome{}, call, err)
		}
		if len(names) == 0 {
			return h.add(client, taken{}, outcome{}, call, nil)
		}
		path := e.path("q/" + names[0])
		n, err := b.Get(ctx, path)
		if errors.Is(err, metastore.ErrNoNode) {
			continue
		}
		if err != nil {
			return h.add(client, taken{}, outcome{}, call, err)
		}
		err = b.Commit(ctx, []metastore.Cond{{Path: path, Is: metastore.Exists}},
			[]metastore.Op{{Path: path, Do: metastore.Delete}})
		var conflict *metastore.ConflictError
		if errors.As(err, &conflict) {
			continue
		}
		return h.add(client, taken{false, string(n.Value), names[0]}, outcome{}, call, err)
	}
}
