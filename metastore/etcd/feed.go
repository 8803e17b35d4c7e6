// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

// feed follows one node. Its goroutine lists what is there at a revision, watches from there, and keeps only what came
// last; all feeds of a client share one stream.
type feed struct {
	backend *Backend
	path    string
	kind    metastore.WatchKind
	wake    chan struct{} // has a token when the state has changed
	closed  context.Context
	close   context.CancelFunc

	mu     sync.Mutex
	notify func()           // or nil
	ready  bool             // something has been read
	data   *mvccpb.KeyValue // Data: the key, or nil
	names  map[string]int   // Names: the children, each with the number of keys at and below it
	begun  bool             // a state has been returned: that one is last
	last   metastore.State  // without the value
}

// Watch follows one node.
func (b *Backend) Watch(path string, kind metastore.WatchKind) metastore.Feed {
	f := &feed{backend: b, path: path, kind: kind, wake: make(chan struct{}, 1)}
	f.closed, f.close = context.WithCancel(b.identity.same)
	if f.closed.Err() == nil {
		b.all.Go(f.run)
	}
	return f
}

// Close ends the feed.
func (f *feed) Close() { f.close() }

// Notify has wake called when Next has something, the end included.
func (f *feed) Notify(wake func()) {
	f.mu.Lock()
	f.notify = wake
	f.mu.Unlock()
	wake()
}

// Next waits until the state differs from the one that was returned last.
func (f *feed) Next(ctx context.Context) (metastore.State, error) {
	for {
		if f.closed.Err() != nil {
			if err := f.backend.over(); err != nil {
				return metastore.State{}, err
			}
			return metastore.State{}, metastore.ErrClosed
		}
		if s, ok := f.differs(); ok {
			return s, nil
		}
		select {
		case <-f.wake:
		case <-f.closed.Done():
		case <-ctx.Done():
			return metastore.State{}, context.Cause(ctx)
		}
	}
}

// differs returns the state if it isn't the last one.
func (f *feed) differs() (s metastore.State, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ready {
		return s, false
	}
	if f.kind == metastore.Names {
		for name := range f.names {
			s.Names = append(s.Names, name)
		}
		slices.Sort(s.Names)
		ok = !f.begun || !slices.Equal(s.Names, f.last.Names)
		f.last.Names = slices.Clone(s.Names)
	} else {
		s.Node = node(f.data)
		s.Node.Value = slices.Clone(s.Node.Value)
		ok = !f.begun || s.Node.Version != f.last.Node.Version
		f.last.Node.Version = s.Node.Version
	}
	f.begun = true
	return s, ok
}

// run goes on until the feed is closed. A watch ends when it has been away for so long that its revision is no longer
// kept, when its server has lost the leader, or when the user's rights change: each time it is listed again.
func (f *feed) run() {
	// The client's end may be seen here before it has come to this feed. Who is told then would find nothing new, and
	// hear no more.
	defer func() { f.close(); f.ping() }()
	for f.closed.Err() == nil {
		// In a goroutine of its own, whose large stack goes when it ends.
		var revision int64
		listed := make(chan error)
		go func() {
			list := func(ctx context.Context) (h *pb.ResponseHeader, err error) {
				h, err = f.list(ctx)
				if err == nil {
					f.backend.readable.Store(&f.path)
					revision = h.Revision
				}
				return h, err
			}
			listed <- f.backend.retryAs(f.closed, circuit.Shared, list)
		}()
		if err := <-listed; err == nil {
			f.follow(revision + 1)
		} else if f.backend.pause(f.closed, 6, false, time.Now(), err) != nil {
			return
		}
	}
}

// list reads the state at one revision.
func (f *feed) list(ctx context.Context) (*pb.ResponseHeader, error) {
	c := f.backend.client
	if f.kind == metastore.Data {
		kv, head, err := f.backend.read(ctx, f.path)
		if err != nil {
			return nil, err
		}
		f.put(kv, nil)
		return head, nil
	}
	names := map[string]int{}
	o := []clientv3.OpOption{clientv3.WithRange(after(f.path)), clientv3.WithKeysOnly(), clientv3.WithLimit(keysPage)}
	r, err := c.Get(ctx, prefix(f.path), o...)
	if err != nil {
		return nil, err
	}
	h := r.Header
	for {
		for _, kv := range r.Kvs {
			f.count(names, kv.Key, 1)
		}
		if !r.More {
			break
		}
		r, err = c.Get(ctx, string(r.Kvs[len(r.Kvs)-1].Key)+"\x00", append(o, clientv3.WithRev(h.Revision))...)
		if err != nil {
			return nil, compacted(err)
		}
	}
	f.put(nil, names)
	return h, nil
}

// put replaces the state.
func (f *feed) put(data *mvccpb.KeyValue, names map[string]int) {
	f.mu.Lock()
	f.ready, f.data, f.names = true, data, names
	f.mu.Unlock()
	f.ping()
}

// ping lets Next look.
func (f *feed) ping() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
	f.mu.Lock()
	wake := f.notify
	f.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// count adds n keys to the child at or below which a key lies.
func (f *feed) count(names map[string]int, key []byte, n int) {
	name, _, _ := strings.Cut(string(key[len(prefix(f.path)):]), "/")
	if name == "" || isMark(key) {
		return // the root's own key, or none of the tree
	}
	if names[name] += n; names[name] == 0 {
		delete(names, name)
	}
}

// follow applies changes from a revision on, until the watch ends.
func (f *feed) follow(revision int64) {
	ctx, cancel := context.WithCancel(f.closed)
	defer cancel()
	o := []clientv3.OpOption{clientv3.WithRev(revision), clientv3.WithProgressNotify()}
	key := f.path
	if f.kind == metastore.Names {
		key, o = prefix(f.path), append(o, clientv3.WithRange(after(f.path)))
	}
	for r := range f.backend.client.Watch(ctx, key, o...) {
		if r.Err() != nil || f.backend.identity.check(r.Header, 0) != nil {
			return
		}
		if len(r.Events) == 0 {
			continue
		}
		f.mu.Lock()
		for _, e := range r.Events {
			f.apply(e)
		}
		f.mu.Unlock()
		f.ping()
	}
}

// apply applies one change. The lock is held.
func (f *feed) apply(e *clientv3.Event) {
	switch {
	case f.kind == metastore.Data && e.Type == mvccpb.DELETE:
		f.data = nil
	case f.kind == metastore.Data:
		f.data = e.Kv
	case e.Type == mvccpb.DELETE:
		f.count(f.names, e.Kv.Key, -1)
	case e.IsCreate():
		f.count(f.names, e.Kv.Key, 1)
	}
}
