// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/metastore"
)

// Each append to a directory puts its mark, a key whose revision says when that was, even where what was appended has
// been deleted already. It lies in the directory, where every user may write who may append, and goes with the tree.
// No path ends as it does, and nothing that lists shows it.
func mark(dir string) string { return prefix(dir) + "\x00" }

// isMark tells whether a key is a directory's mark.
func isMark(key []byte) bool { return len(key) > 0 && key[len(key)-1] == 0 }

// errMeanwhile is a conflict between appends.
var errMeanwhile = errors.New("something was appended meanwhile")

// errMarked is what keeps a node from being ephemeral that has no children: a mark of a directory there.
var errMarked = errors.New("there is a mark below")

// Append names the child by the revision that comes next, in hexadecimal digits. All appended before have smaller
// ones, and the commit fails if one came meanwhile, or if the directory was deleted: its mark isn't what it was then,
// however long the commit was on its way. Some random digits follow, so that no key of a user's has the name.
func (b *Backend) Append(ctx context.Context, dir string, value []byte) (name string, err error) {
	if err := metastore.CheckAppend(dir, value); err != nil {
		return "", err
	}
	for {
		last, newest, err := b.lastAppend(ctx, dir)
		if err != nil {
			return "", err
		}
		if last == 0 {
			if err := b.mark(ctx, dir); err != nil {
				return "", err
			}
			continue
		}
		name = fmt.Sprintf("%016x-%08x", newest+1, rand.Uint32())
		path, err := metastore.Path(strings.TrimSuffix(dir, "/"), name)
		if err != nil {
			return "", err
		}
		t, _ := newTxn(b, nil, nil, false)
		t.parents(path)
		t.unchanged(mark(dir), last, errMeanwhile)
		t.ops = append(t.ops, clientv3.OpPut(path, string(value)), clientv3.OpPut(mark(dir), ""))
		if err := t.commit(ctx, b); !errors.Is(err, errMeanwhile) {
			return name, err
		}
	}
}

// lastAppend is the revision of a directory's mark, 0 without one, and the store's.
func (b *Backend) lastAppend(ctx context.Context, dir string) (last, newest int64, err error) {
	err = b.retry(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		r, err := b.client.Get(ctx, mark(dir))
		if err != nil {
			return nil, err
		}
		last, newest = 0, r.Header.Revision
		if kv := first(r.Kvs); kv != nil {
			last = kv.ModRevision
		}
		return r.Header, nil
	})
	return last, newest, err
}

// mark makes a directory's first mark, unless somebody else has, or may have.
func (b *Backend) mark(ctx context.Context, dir string) error {
	t, _ := newTxn(b, nil, nil, false)
	t.parents(mark(dir))
	t.require(metastore.Cond{Path: mark(dir), Is: metastore.Missing})
	t.ops = append(t.ops, clientv3.OpPut(mark(dir), ""))
	err := t.commit(ctx, b)
	_, conflict := errors.AsType[*metastore.ConflictError](err)
	if conflict || errors.Is(err, metastore.ErrUnknown) && b.over() == nil {
		return nil
	}
	return err
}

// unchanged asks that a key is what it was at a revision.
func (t *txn) unchanged(key string, revision int64, fault error) {
	t.compares = append(t.compares, clientv3.Compare(clientv3.ModRevision(key), "=", revision))
	i := t.key(key)
	t.faults = append(t.faults, func(r []*pb.RangeResponse) error {
		if kv := first(r[i].Kvs); kv == nil || kv.ModRevision != revision {
			return fault
		}
		return nil
	})
}

// unmark deletes the marks below nodes that are to be ephemeral, where there is nothing else.
func (b *Backend) unmark(ctx context.Context, ops []metastore.Op) error {
	const page = 16 // each may have a large value
	for _, op := range ops {
		if op.Session == nil {
			continue
		}
		err := b.retry(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
			r, err := b.client.Get(ctx, prefix(op.Path), clientv3.WithRange(after(op.Path)), clientv3.WithLimit(page))
			if err != nil {
				return nil, err
			}
			var same []clientv3.Cmp
			var gone []clientv3.Op
			for _, kv := range r.Kvs {
				if !isMark(kv.Key) {
					return r.Header, hasChildren(op.Path)
				}
				same = append(same, clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision))
				gone = append(gone, clientv3.OpDelete(string(kv.Key)))
			}
			if len(gone) > 0 {
				_, err = b.client.Txn(ctx).If(same...).Then(gone...).Commit() // it is tried again if one has changed
			}
			return r.Header, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasChildren is the error about a node that can't be ephemeral.
func hasChildren(path string) error {
	return fmt.Errorf("%s has children: %w", path, metastore.ErrEphemeralParent)
}
