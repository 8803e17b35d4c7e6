// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/metastore"
)

// txn is a transaction that is being put together: what must hold, what is done then, and what is read otherwise, to
// find out what didn't hold.
type txn struct {
	guess    bool // Sets of paths that were seen are done if the guess holds that they are still there
	guessed  bool
	compares []clientv3.Cmp
	ops      []clientv3.Op
	reads    []clientv3.Op
	read     map[string]int                      // by key: its index in reads
	faults   []func(r []*pb.RangeResponse) error // each gives the error of one condition that doesn't hold
	plain    map[string]bool                     // paths that must not be ephemeral
}

// newTxn puts a commit together.
func newTxn(b *Backend, conds []metastore.Cond, ops []metastore.Op, guess bool) (*txn, error) {
	t := &txn{guess: guess, read: map[string]int{}, plain: map[string]bool{}}
	for _, c := range conds {
		t.require(c)
	}
	for _, op := range ops {
		if err := t.add(b, conds, op); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// key makes sure that a key is read if something doesn't hold. With its value, because without it etcd leaves the lease
// out too.
func (t *txn) key(path string) int {
	i, ok := t.read[path]
	if !ok {
		i = len(t.reads)
		t.read[path] = i
		t.reads = append(t.reads, clientv3.OpGet(path))
	}
	return i
}

// require adds a condition.
func (t *txn) require(c metastore.Cond) {
	switch c.Is {
	case metastore.Exists:
		t.compares = append(t.compares, clientv3.Compare(clientv3.CreateRevision(c.Path), ">", 0))
	case metastore.Missing:
		t.compares = append(t.compares, clientv3.Compare(clientv3.CreateRevision(c.Path), "=", 0))
	case metastore.At:
		// A key's state of one revision has one creation: comparing that too would say nothing more. No key has
		// revision 0, which stands for "none" in a comparison.
		changed := int64(c.Version.Changed)
		if changed <= 0 {
			changed = -1
		}
		t.compares = append(t.compares, clientv3.Compare(clientv3.ModRevision(c.Path), "=", changed))
	}
	i := t.key(c.Path)
	t.faults = append(t.faults, func(r []*pb.RangeResponse) error {
		kv := first(r[i].Kvs)
		holds := kv != nil
		switch c.Is {
		case metastore.Missing:
			holds = kv == nil
		case metastore.At:
			holds = kv != nil && version(kv).Changed == c.Version.Changed
		}
		if holds {
			return nil
		}
		return &metastore.ConflictError{Cond: c}
	})
}

// parents requires that nothing above a path is ephemeral.
func (t *txn) parents(path string) {
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path, '/') {
		path = path[:i]
		if t.plain[path] {
			return // and so is what is above
		}
		t.notEphemeral(path)
	}
}

// notEphemeral requires that a node isn't ephemeral. One that isn't there isn't.
func (t *txn) notEphemeral(path string) {
	t.plain[path] = true
	t.compares = append(t.compares, clientv3.Compare(clientv3.LeaseValue(path), "=", clientv3.NoLease))
	i := t.key(path)
	t.faults = append(t.faults, func(r []*pb.RangeResponse) error {
		if kv := first(r[i].Kvs); kv != nil && kv.Lease != 0 {
			return fmt.Errorf("%s: %w", path, metastore.ErrEphemeralParent)
		}
		return nil
	})
}

// none requires that there is no key in a range.
func (t *txn) none(from, to string, fault error) {
	t.compares = append(t.compares, clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(to))
	i := len(t.reads)
	one := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithKeysOnly(), clientv3.WithLimit(1)}
	t.reads = append(t.reads, clientv3.OpGet(from, one...))
	t.faults = append(t.faults, func(r []*pb.RangeResponse) error {
		switch kv := first(r[i].Kvs); {
		case kv == nil:
			return nil
		case isMark(kv.Key):
			return errMarked
		}
		return fault
	})
}

// known is what conditions say about a path's data.
func known(conds []metastore.Cond, path string) metastore.CondKind {
	for _, c := range conds {
		if c.Path == path {
			return c.Is
		}
	}
	return 0
}

// set gives data to a key and keeps its lease, which etcd refuses to keep where there is no key. A key that is there is
// below nothing ephemeral.
func (t *txn) set(b *Backend, conds []metastore.Cond, path, value string) {
	keep, plain := clientv3.OpPut(path, value, clientv3.WithIgnoreLease()), clientv3.OpPut(path, value)
	there := clientv3.Compare(clientv3.CreateRevision(path), ">", 0)
	switch is := known(conds, path); {
	case is == metastore.Exists || is == metastore.At:
		t.ops = append(t.ops, keep)
	case is == metastore.Missing:
		t.ops = append(t.ops, plain)
		t.parents(path)
	case t.guess && b.hints.seen(path):
		t.guessed = true
		t.compares, t.ops = append(t.compares, there), append(t.ops, keep)
	default:
		t.ops = append(t.ops, clientv3.OpTxn([]clientv3.Cmp{there}, []clientv3.Op{keep}, []clientv3.Op{plain}))
		t.parents(path)
	}
}

// add adds an operation.
func (t *txn) add(b *Backend, conds []metastore.Cond, op metastore.Op) error {
	switch op.Do {
	case metastore.Delete:
		t.ops = append(t.ops, clientv3.OpDelete(op.Path))
		return nil
	case metastore.DeleteTree:
		if op.Path != "/" {
			t.ops = append(t.ops, clientv3.OpDelete(op.Path))
		}
		t.ops = append(t.ops, clientv3.OpDelete(prefix(op.Path), clientv3.WithRange(after(op.Path))))
		return nil
	case metastore.Set:
		t.set(b, conds, op.Path, string(op.Value))
		return nil
	}
	if known(conds, op.Path) != metastore.Missing {
		t.require(metastore.Cond{Path: op.Path, Is: metastore.Missing})
	}
	t.parents(op.Path)
	if op.Session == nil {
		t.ops = append(t.ops, clientv3.OpPut(op.Path, string(op.Value)))
		return nil
	}
	s, ok := op.Session.(*session)
	if !ok || s.backend != b || !s.alive() {
		return fmt.Errorf("%s: %w", op.Path, metastore.ErrSessionLost)
	}
	t.none(prefix(op.Path), after(op.Path), hasChildren(op.Path))
	t.ops = append(t.ops, clientv3.OpPut(op.Path, string(op.Value), clientv3.WithLease(s.lease)))
	return nil
}

// maxTxnOps is disco-server's --max-txn-ops; that of an etcd that was told nothing is 128.
const maxTxnOps = 8192

// size is what etcd counts of a transaction: a server refuses it whose --max-txn-ops is smaller, before it does
// anything.
func (t *txn) size() int {
	n := max(len(t.compares), len(t.ops), len(t.reads))
	for _, op := range t.ops {
		if op.IsTxn() { // one comparison and one operation, beside all that is outside
			return n + 1
		}
	}
	return n
}

// commit does it once.
func (t *txn) commit(ctx context.Context, b *Backend) error {
	reads := t.reads
	if t.guessed {
		reads = nil
	}
	return b.once(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		r, err := b.client.Txn(ctx).If(t.compares...).Then(t.ops...).Else(reads...).Commit()
		switch {
		case errors.Is(err, rpctypes.ErrTooManyOps):
			return nil, fmt.Errorf("the commit takes a transaction of %d, because all nodes above its keys are "+
				"compared, too: change fewer keys at once, or start an etcd that isn't disco-server with "+
				"--max-txn-ops=%d: %w", t.size(), maxTxnOps, err)
		case err != nil:
			return nil, err
		case r.Succeeded:
			return r.Header, nil
		case t.guessed:
			return r.Header, errGuess
		}
		return r.Header, t.fault(r)
	})
}

// fault finds the first condition that doesn't hold.
func (t *txn) fault(r *clientv3.TxnResponse) error {
	var found []*pb.RangeResponse
	for _, one := range r.Responses {
		found = append(found, one.GetResponseRange())
	}
	for _, f := range t.faults {
		if err := f(found); err != nil {
			return err
		}
	}
	return errors.New("etcd refused a transaction all of whose conditions hold")
}

// errGuess is what a transaction fails with that was put together by hints.
var errGuess = errors.New("not all is as it was seen last")

// commitByHints does a commit in the shortest way that holds if what was seen is still so, or fails with errGuess. A
// single Set is a put that keeps the lease of the key that is there.
func (b *Backend) commitByHints(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if len(conds) != 0 || len(ops) != 1 || ops[0].Do != metastore.Set || !b.hints.seen(ops[0].Path) {
		t, err := newTxn(b, conds, ops, true)
		if err != nil {
			return err
		}
		return t.commit(ctx, b)
	}
	err := b.once(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		r, err := b.client.Put(ctx, ops[0].Path, string(ops[0].Value), clientv3.WithIgnoreLease())
		if err != nil {
			return nil, err
		}
		return r.Header, nil
	})
	if errors.Is(err, rpctypes.ErrKeyNotFound) {
		return errGuess
	}
	return err
}

// Commit does all operations or none, by one transaction; by a second one if what the client has seen isn't so any
// more.
func (b *Backend) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if err := metastore.CheckCommit(conds, ops); err != nil {
		return err
	}
	err := b.commitByHints(ctx, conds, ops)
	for errors.Is(err, errGuess) || errors.Is(err, errMarked) {
		if errors.Is(err, errMarked) {
			if err = b.unmark(ctx, ops); err != nil {
				return err
			}
		}
		var t *txn
		if t, err = newTxn(b, conds, ops, false); err == nil {
			err = t.commit(ctx, b)
		}
	}
	for _, op := range ops {
		if err == nil && (op.Do == metastore.Create || op.Do == metastore.Set) {
			b.hints.note(op.Path)
		}
	}
	if errors.Is(err, metastore.ErrSessionLost) {
		for _, op := range ops {
			if s, ok := op.Session.(*session); ok {
				s.forget()
			}
		}
		if b.ended.Err() != nil {
			err = fmt.Errorf("%w: %w", metastore.ErrClosed, err)
		}
	}
	return err
}
