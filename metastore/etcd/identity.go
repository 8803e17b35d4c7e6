// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

// identity is what a client knows of the cluster: servers that have lost their data, or were given an older copy of it,
// are another store, whatever they answer.
type identity struct {
	cluster  atomic.Uint64 // id in the first answer; 0 before
	revision atomic.Int64  // the newest one in an answer
	redialed chan struct{} // has a token when there is a new connection
	// same ends when the client is closed, and with ErrWrongCluster when an answer shows another store. That is for
	// good: feeds, sessions and calls end with it.
	same  context.Context
	wrong context.CancelCauseFunc
}

func (k *identity) init(ended context.Context) {
	k.redialed = make(chan struct{}, 1)
	k.same, k.wrong = context.WithCancelCause(ended)
}

// err is ErrWrongCluster, with the reason, once an answer has shown it.
func (k *identity) err() error {
	if err := context.Cause(k.same); errors.Is(err, metastore.ErrWrongCluster) {
		return err
	}
	return nil
}

// check holds an answer against what was known. before is the newest revision that was known when the request was made:
// as requests are linearizable, no answer is older.
func (k *identity) check(h *pb.ResponseHeader, before int64) error {
	if h == nil || h.ClusterId == 0 {
		return k.err()
	}
	if id := k.cluster.Load(); id != h.ClusterId && !k.cluster.CompareAndSwap(0, h.ClusterId) {
		k.wrong(fmt.Errorf("%w: its cluster id was %016x and is %016x", metastore.ErrWrongCluster, id, h.ClusterId))
	} else if h.Revision < before {
		k.wrong(fmt.Errorf("%w: it has gone back from revision %d to %d, as after the restoring of a copy",
			metastore.ErrWrongCluster, before, h.Revision))
	}
	for {
		old := k.revision.Load()
		if h.Revision <= old || k.revision.CompareAndSwap(old, h.Revision) {
			return k.err()
		}
	}
}

// verify reads something after each reconnect, since a feed that waits for what comes after a revision gets no answer
// from servers that haven't got there.
func (b *Backend) verify() {
	for {
		select {
		case <-b.identity.redialed:
		case <-b.identity.same.Done():
			return
		}
		for range b.options.Endpoints { // the client goes from one to the next
			_ = b.retryAs(b.identity.same, circuit.Urgent, func(ctx context.Context) (*pb.ResponseHeader, error) {
				r, err := b.client.Get(ctx, *b.readable.Load(), clientv3.WithCountOnly())
				if err != nil {
					return nil, err
				}
				return r.Header, nil
			})
		}
	}
}
