// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/disco-sim/disco/metastore"
)

// countMax is how long servers that haven't answered are waited for, after the first has said of which cluster it is.
const countMax = 500 * time.Millisecond

// foreigners are addresses where a server of another cluster listens, such as one that has lost its data and was
// started again as a store of its own. No connection to one is used, so that two clusters' answers don't mix.
type foreigners struct {
	turn chan struct{} // holds one token; whoever has it may choose the cluster

	mu   sync.Mutex
	seen map[string]uint64 // the cluster ids
}

// connect makes a connection, unless a server of another cluster is behind it, and has verify ask what there is. A
// client with one address has nobody to compare with.
func (b *Backend) connect(ctx context.Context, addr string) (net.Conn, error) {
	again := b.identity.revision.Load() != 0
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err == nil && len(b.options.Endpoints) > 1 {
		if err = b.belongs(ctx, addr); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	if err == nil && again {
		select {
		case b.identity.redialed <- struct{}{}:
		default:
		}
	}
	return c, err
}

// belongs asks the server at an address of which cluster it is, and refuses another one than the client's.
func (b *Backend) belongs(ctx context.Context, addr string) error {
	if err := b.choose(ctx); err != nil {
		return err
	}
	id, err := b.clusterOf(ctx, addr)
	if err != nil {
		if _, why := judge(err); errors.Is(why, metastore.ErrDenied) {
			return nil // the first call says so
		}
		return fmt.Errorf("asking %s of which cluster it is: %w", addr, err)
	}
	known, f := b.identity.cluster.Load(), &b.foreign
	if known == 0 {
		return errors.New("no server has said of which cluster it is")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == known {
		delete(f.seen, addr)
		return nil
	}
	told := f.seen[addr] == id
	f.seen[addr] = id
	err = fmt.Errorf("the server at %s is another store: its cluster id is %016x, and not %016x; if it has lost its "+
		"data, empty its folder and start it with --join", addr, id, known)
	switch {
	case len(f.seen) == len(b.options.Endpoints):
		b.identity.wrong(fmt.Errorf("%w: no server of cluster %016x is left: %w", metastore.ErrWrongCluster,
			known, err))
	case !told && b.options.Report != nil:
		b.options.Report(fmt.Errorf("%w; going on with the others", err))
	}
	return err
}

// clusterOf asks one server, over a connection of its own.
func (b *Backend) clusterOf(ctx context.Context, addr string) (uint64, error) {
	o := b.options
	o.Endpoints = []string{addr}
	c, err := dial(ctx, o, func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	r, err := pb.NewMaintenanceClient(c.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return 0, err
	}
	return r.Header.ClusterId, nil
}

// choose finds the client's cluster before its first call: that of the most servers that answer.
func (b *Backend) choose(ctx context.Context) error {
	select {
	case <-b.foreign.turn:
		defer func() { b.foreign.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if b.identity.cluster.Load() != 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan uint64, len(b.options.Endpoints))
	for _, addr := range b.options.Endpoints {
		go func() {
			id, _ := b.clusterOf(ctx, addr) // 0: it has no vote
			answers <- id
		}()
	}
	votes, best, most := map[uint64]int{}, uint64(0), 0
	var enough <-chan time.Time
	for waits := len(b.options.Endpoints); waits > 0 && most <= len(b.options.Endpoints)/2; waits-- {
		select {
		case id := <-answers:
			if id == 0 {
				continue
			}
			if votes[id]++; votes[id] > most {
				best, most = id, votes[id]
			}
			if enough == nil {
				enough = time.After(countMax)
			}
		case <-enough:
			waits = 0
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for id, n := range votes {
		if n == most && id != best {
			return fmt.Errorf("as many of the servers are of the cluster %016x as of %016x: name those of one store "+
				"only", id, best)
		}
	}
	if best != 0 {
		b.identity.cluster.CompareAndSwap(0, best)
	}
	return nil
}
