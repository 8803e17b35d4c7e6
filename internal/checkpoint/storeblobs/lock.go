// SPDX-License-Identifier: Apache-2.0

package storeblobs

import (
	"context"
	"errors"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/metastore"
)

// Lock implements checkpoint.Blobs: an ephemeral key, which goes with this program's session. Pieces that no head names
// are removed then: a writer that was killed has left them, and nobody else writes now.
func (p *Place) Lock(ctx context.Context) (unlock func() error, err error) {
	key := p.key + "/lock"
	var v metastore.Value
	err = p.call(ctx, func(ctx context.Context) (err error) {
		_, v, err = p.store.PutEphemeral(ctx, key, p.owner)
		return err
	})
	conflict := (*metastore.ConflictError)(nil)
	if errors.As(err, &conflict) {
		locked := &checkpoint.LockedError{Where: p.String()}
		if v, err := p.get(ctx, key); err == nil {
			_ = v.Decode(&locked.Owner) // for people: it may be gone by now
		}
		return nil, locked
	}
	if err != nil {
		return nil, p.failed(ctx, "lock", err)
	}
	held := &metastore.Cond{Path: key, Is: metastore.At, Version: v.Version}
	p.mu.Lock()
	p.lock = held
	p.mu.Unlock()
	if err := p.sweep(ctx); err != nil {
		return nil, errors.Join(p.failed(ctx, "lock", err), p.unlock(held))
	}
	return func() error { return p.unlock(held) }, nil
}

// unlock gives the lock back, unless it is lost anyway.
func (p *Place) unlock(held *metastore.Cond) error {
	p.mu.Lock()
	if p.lock == held {
		p.lock = nil
	}
	p.mu.Unlock()
	ctx := context.Background()
	err := p.leave(ctx, func(ctx context.Context) error {
		return p.store.Commit(ctx, []metastore.Cond{*held}, []metastore.Op{{Path: held.Path, Do: metastore.Delete}})
	})
	if conflict := (*metastore.ConflictError)(nil); err == nil || errors.As(err, &conflict) {
		return nil
	}
	return p.failed(ctx, "lock", err)
}

// sweep removes pieces that no head names.
func (p *Place) sweep(ctx context.Context) error {
	var numbers []string
	err := p.call(ctx, func(ctx context.Context) (err error) {
		numbers, err = p.store.Members(ctx, p.key+"/data")
		return err
	})
	switch {
	case errors.Is(err, metastore.ErrNoNode):
		return nil
	case err != nil || len(numbers) == 0:
		return err
	}
	values, err := p.walk(ctx, p.key+"/names")
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, v := range values {
		if !v.HasValue() {
			continue
		}
		h, err := p.decode(v)
		if err != nil {
			return err
		}
		named[h.Number] = true
	}
	var ops []metastore.Op
	for _, n := range numbers {
		if !named[n] {
			ops = append(ops, metastore.Op{Path: p.dataKey(n), Do: metastore.DeleteTree})
		}
	}
	for len(ops) > 0 {
		batch := ops[:min(len(ops), sweepBatch)]
		err := p.call(ctx, func(ctx context.Context) error { return p.commit(ctx, nil, batch...) })
		if err != nil {
			return err
		}
		ops = ops[len(batch):]
	}
	return nil
}
