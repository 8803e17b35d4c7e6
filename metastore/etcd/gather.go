// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// gatherMax is how many keys are read by one transaction; an etcd that was told nothing else takes 128.
const gatherMax = 64

// gather reads the keys of feeds that begin at the same time together: while one transaction is under way, the keys
// that are wanted meanwhile are collected for the next one. Each read is linearizable as one of its own would be: the
// transaction is sent after it was asked for.
type gather struct {
	mu      sync.Mutex
	running bool      // a goroutine reads what is wanted
	wanted  []*wanted // not asked for yet

	// Of the goroutine that reads: after an attempt without an answer the next one is smaller, and may last longer.
	size  int
	limit time.Duration
}

// wanted is one key that somebody waits for.
type wanted struct {
	key  string
	done chan struct{} // closed when the rest is there
	kv   *mvccpb.KeyValue
	head *pb.ResponseHeader
	err  error
}

// read reads one key. The caller is counted in the client's goroutines.
func (b *Backend) read(ctx context.Context, key string) (*mvccpb.KeyValue, *pb.ResponseHeader, error) {
	w := &wanted{key: key, done: make(chan struct{})}
	g := &b.gather
	g.mu.Lock()
	g.wanted = append(g.wanted, w)
	begin := !g.running
	g.running = true
	g.mu.Unlock()
	if begin {
		b.all.Go(b.readAll)
	}
	select {
	case <-w.done:
		return w.kv, w.head, w.err
	case <-ctx.Done():
		g.mu.Lock()
		g.wanted = slices.DeleteFunc(g.wanted, func(other *wanted) bool { return other == w })
		g.mu.Unlock()
		return nil, nil, context.Cause(ctx)
	}
}

// readAll reads what is wanted until nothing is.
func (b *Backend) readAll() {
	g := &b.gather
	for {
		g.mu.Lock()
		n := min(len(g.wanted), max(g.size, 1))
		some := slices.Clone(g.wanted[:n])
		g.wanted = slices.Delete(g.wanted, 0, n)
		g.running = n > 0
		g.mu.Unlock()
		if n == 0 {
			return
		}
		b.readSome(some)
		for _, w := range some {
			close(w.done)
		}
	}
}

// readSome makes one attempt. What is refused together, because a user may not read one of them, is asked for one by
// one.
func (b *Backend) readSome(some []*wanted) {
	g := &b.gather
	var ops []clientv3.Op
	for _, w := range some {
		ops = append(ops, clientv3.OpGet(w.key))
	}
	var j journey
	var answer *clientv3.TxnResponse
	head, late, err := limited(b.ended, &j, max(g.limit, attemptMin),
		func(ctx context.Context) (*pb.ResponseHeader, error) {
			var err error
			if answer, err = b.client.Txn(ctx).Then(ops...).Commit(); err != nil {
				return nil, err
			}
			return answer.Header, nil
		})
	alone := false
	switch {
	case err == nil:
		g.size, g.limit = min(max(2*g.size, 16), gatherMax), attemptMin
	case late:
		g.size, g.limit = g.size/4, min(2*max(g.limit, attemptMin), attemptMin<<4)
	case len(some) > 1:
		how, _ := judge(err)
		alone = how == refused
	}
	for i, w := range some {
		if w.head, w.err = head, err; err == nil {
			w.kv = first(answer.Responses[i].GetResponseRange().Kvs)
		} else if alone {
			b.readSome(some[i : i+1])
		}
	}
}
