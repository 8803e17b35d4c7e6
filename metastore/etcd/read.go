// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/metastore"
)

const (
	keysPage   = 4096 // keys that are listed by one request
	valuesPage = 256  // keys with values, at most 1 MB each
)

// node is what a key holds; nil is none.
func node(kv *mvccpb.KeyValue) metastore.Node {
	if kv == nil {
		return metastore.Node{}
	}
	value := kv.Value
	if value == nil {
		value = []byte{} // not by disco: data all the same
	}
	return metastore.Node{Value: value, Version: version(kv), Ephemeral: kv.Lease != 0,
		Owner: uint64(kv.Lease)}
}

// version is a key's, zero without a key.
func version(kv *mvccpb.KeyValue) metastore.Version {
	if kv == nil {
		return metastore.Version{}
	}
	return metastore.Version{Created: uint64(kv.CreateRevision), Changed: uint64(kv.ModRevision)}
}

// first is the first key of an answer, or nil.
func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

// Get reads one node: with one request where it holds data, with a second one that sees it and its children at one
// moment where it doesn't.
func (b *Backend) Get(ctx context.Context, path string) (n metastore.Node, err error) {
	err = b.retry(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		r, err := b.client.Get(ctx, path)
		if err != nil {
			return nil, err
		}
		if kv := first(r.Kvs); kv != nil {
			n = node(kv)
			b.hints.note(path)
			return r.Header, nil
		}
		kv, children, h, err := b.look(ctx, path)
		if err != nil {
			return nil, err
		}
		if kv == nil && !children {
			return h, noNode(path)
		}
		n = node(kv)
		return h, nil
	})
	return n, err
}

func noNode(path string) error { return fmt.Errorf("%s: %w", path, metastore.ErrNoNode) }

// look reads a node's key, and whether there are children, at one moment.
func (b *Backend) look(ctx context.Context, path string) (kv *mvccpb.KeyValue, children bool, h *pb.ResponseHeader,
	err error) {
	o := []clientv3.OpOption{clientv3.WithRange(after(path)), clientv3.WithKeysOnly()}
	few := clientv3.OpGet(prefix(path), append(slices.Clip(o), clientv3.WithLimit(4))...)
	r, err := b.client.Txn(ctx).Then(clientv3.OpGet(path), few).Commit()
	if err != nil {
		return nil, false, nil, err
	}
	page := (*clientv3.GetResponse)(r.Responses[1].GetResponseRange())
	for {
		for _, child := range page.Kvs { // marks don't count, and prefix and key of the root are one and the same
			children = children || string(child.Key) != path && !isMark(child.Key)
		}
		if children || !page.More {
			return first(r.Responses[0].GetResponseRange().Kvs), children, r.Header, nil
		}
		next := string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		page, err = b.client.Get(ctx, next, append(slices.Clip(o), clientv3.WithLimit(keysPage),
			clientv3.WithRev(r.Header.Revision))...)
		if err != nil {
			return nil, false, nil, compacted(err)
		}
	}
}

// Children lists names. What is below children is skipped, a page of keys at a time.
func (b *Backend) Children(ctx context.Context, path string) (names []string, err error) {
	err = b.retry(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		names = nil
		var h *pb.ResponseHeader
		all := []clientv3.OpOption{clientv3.WithRange(after(path)), clientv3.WithKeysOnly(),
			clientv3.WithLimit(keysPage)}
		for from, more := prefix(path), true; more; {
			o := all
			if h != nil {
				o = append(slices.Clip(o), clientv3.WithRev(h.Revision))
			}
			r, err := b.client.Get(ctx, from, o...)
			if err != nil {
				return nil, compacted(err)
			}
			if h == nil {
				h = r.Header
			}
			names, from = addNames(names, prefix(path), r.Kvs)
			more = r.More
		}
		if len(names) == 0 {
			kv, children, h, err := b.look(ctx, path)
			switch {
			case err != nil:
				return nil, err
			case children:
				return nil, errListAgain
			case kv == nil:
				return h, noNode(path)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		return h, nil
	})
	return names, err
}

// addNames adds the names of children below prefix that keys show, and gives where to go on after the last one.
func addNames(names []string, prefix string, kvs []*mvccpb.KeyValue) (all []string, next string) {
	for _, kv := range kvs {
		name, _, deeper := strings.Cut(string(kv.Key[len(prefix):]), "/")
		next = string(kv.Key) + "\x00"
		if isMark(kv.Key) {
			continue
		}
		if deeper {
			next = after(prefix + name)
		}
		if name != "" && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	return names, next
}

// Tree reads a node and all below it as they are at one moment.
func (b *Backend) Tree(ctx context.Context, path string) (leaves []metastore.Leaf, err error) {
	err = b.retry(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		leaves = nil
		own := clientv3.OpGet(path)
		below := clientv3.OpGet(prefix(path), clientv3.WithRange(after(path)), clientv3.WithLimit(valuesPage))
		r, err := b.client.Txn(ctx).Then(own, below).Commit()
		if err != nil {
			return nil, err
		}
		add := func(kv *mvccpb.KeyValue) {
			leaves = append(leaves, metastore.Leaf{Path: string(kv.Key), Node: node(kv)})
		}
		if kv := first(r.Responses[0].GetResponseRange().Kvs); kv != nil && path != "/" {
			add(kv)
		}
		page := (*clientv3.GetResponse)(r.Responses[1].GetResponseRange())
		for {
			for _, kv := range page.Kvs {
				if !isMark(kv.Key) {
					add(kv)
				}
			}
			if !page.More {
				return r.Header, nil
			}
			next := string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
			page, err = b.client.Get(ctx, next, clientv3.WithRange(after(path)),
				clientv3.WithLimit(valuesPage), clientv3.WithRev(r.Header.Revision))
			if err != nil {
				return nil, compacted(err)
			}
		}
	})
	return leaves, err
}
