// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// bareEtcd is etcd's own client.
type bareEtcd struct {
	c     *clientv3.Client
	lease clientv3.LeaseID
	count atomic.Int64
}

func newBareEtcd(addr string) (*bareEtcd, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}})
	if err != nil {
		return nil, err
	}
	return &bareEtcd{c: c}, nil
}

// etcdLeads tells whether a server leads.
func etcdLeads(ctx context.Context, addr string) (bool, error) {
	b, err := newBareEtcd(addr)
	if err != nil {
		return false, err
	}
	defer b.close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s, err := b.c.Status(ctx, "http://"+addr)
	if err != nil {
		return false, err
	}
	return s.Leader == s.Header.MemberId, nil
}

func (b *bareEtcd) close() { _ = b.c.Close() }

func (b *bareEtcd) put(ctx context.Context, key string, value []byte) error {
	_, err := b.c.Put(ctx, key, string(value))
	return err
}

func (b *bareEtcd) keepPut(ctx context.Context, key string, value []byte) error {
	_, err := b.c.Put(ctx, key, string(value), clientv3.WithIgnoreLease())
	return err
}

func (b *bareEtcd) get(ctx context.Context, key string) error {
	r, err := b.c.Get(ctx, key)
	if err == nil && len(r.Kvs) != 1 {
		err = fmt.Errorf("%s: %d keys", key, len(r.Kvs))
	}
	return err
}

func (b *bareEtcd) fencedGet(ctx context.Context, key string) error { return b.get(ctx, key) }

func (b *bareEtcd) watch(ctx context.Context, key string, ready func(), changed func([]byte)) error {
	r, err := b.c.Get(ctx, key)
	if err != nil {
		return err
	}
	created := false
	for w := range b.c.Watch(ctx, key, clientv3.WithRev(r.Header.Revision+1), clientv3.WithCreatedNotify()) {
		if w.Created && !created {
			created = true
			ready()
		}
		for _, e := range w.Events {
			changed(e.Kv.Value)
		}
	}
	return nil
}

func (b *bareEtcd) tree(ctx context.Context, dirs ...string) (keys int, err error) {
	for _, dir := range dirs {
		r, err := b.c.Get(ctx, dir+"/", clientv3.WithPrefix())
		if err != nil {
			return 0, err
		}
		keys += len(r.Kvs)
	}
	return keys, nil
}

func (b *bareEtcd) update(ctx context.Context, guard, x, y string, value []byte) error {
	r, err := b.c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(guard), ">", 0)).
		Then(clientv3.OpPut(x, string(value)), clientv3.OpPut(y, string(value))).Commit()
	if err == nil && !r.Succeeded {
		err = fmt.Errorf("%s isn't there", guard)
	}
	return err
}

func (b *bareEtcd) create(ctx context.Context, key string) error {
	if b.lease == 0 {
		l, err := b.c.Grant(ctx, int64(ttl/time.Second)*10)
		if err != nil {
			return err
		}
		b.lease = l.ID
	}
	_, err := b.c.Put(ctx, key, "record", clientv3.WithLease(b.lease))
	return err
}

func (b *bareEtcd) remove(ctx context.Context, key string) error {
	_, err := b.c.Delete(ctx, key)
	return err
}

func (b *bareEtcd) gone(ctx context.Context, key string, watching func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for w := range b.c.Watch(ctx, key, clientv3.WithCreatedNotify()) {
		if w.Created {
			watching()
		}
		if len(w.Events) > 0 {
			return nil
		}
	}
	return errors.New("the watch has ended")
}

func (b *bareEtcd) enqueue(ctx context.Context, dir string, value []byte) error {
	return b.put(ctx, fmt.Sprintf("%s/%016x", dir, b.count.Add(1)), value)
}

func (b *bareEtcd) take(ctx context.Context, dir string) (bool, error) {
	for {
		r, err := b.c.Get(ctx, dir+"/", clientv3.WithFirstKey()...)
		if err != nil || len(r.Kvs) == 0 {
			return false, err
		}
		d, err := b.c.Delete(ctx, string(r.Kvs[0].Key))
		if err != nil || d.Deleted == 1 {
			return err == nil, err
		}
	}
}
