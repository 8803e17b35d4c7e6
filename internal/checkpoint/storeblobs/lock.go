// SPDX-License-Identifier: Apache-2.0

package storeblobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/metastore"
)

// Lock implements checkpoint.Blobs: an ephemeral key, which goes with this program's session. Before anything else is
// done under it, the writer's mark is written: so one whose session was lost knows, when it has taken the lock again,
// whether anybody else can have written meanwhile (regain). Pieces that no head names are removed then: a writer that
// was killed has left them, and nobody else writes now.
func (p *Place) Lock(ctx context.Context) (unlock func() error, err error) {
	if err = p.begin(ctx); err != nil {
		return nil, err
	}
	if err := p.sweep(ctx); err != nil {
		return nil, errors.Join(p.failed(ctx, "lock", err), p.unlock())
	}
	return p.unlock, nil
}

// begin takes the lock and writes the mark.
func (p *Place) begin(ctx context.Context) error {
	p.locking.Lock()
	defer p.locking.Unlock()
	held, err := p.take(ctx)
	if err != nil {
		return err
	}
	mark := number()
	if err := p.sign(ctx, held, mark); err != nil {
		return errors.Join(p.failed(ctx, "lock", err), p.giveBack(held))
	}
	p.hold(held, mark)
	return nil
}

// lockKey is the ephemeral key, and markKey has the mark of the writer that had the lock last.
func (p *Place) lockKey() string { return p.key + "/lock" }
func (p *Place) markKey() string { return p.key + "/writer" }

// take makes the ephemeral key; *checkpoint.LockedError where it is there.
func (p *Place) take(ctx context.Context) (*metastore.Cond, error) {
	var v metastore.Value
	err := p.call(ctx, func(ctx context.Context) (err error) {
		_, v, err = p.store.PutEphemeral(ctx, p.lockKey(), p.owner)
		return err
	})
	conflict := (*metastore.ConflictError)(nil)
	if errors.As(err, &conflict) {
		locked := &checkpoint.LockedError{Where: p.String()}
		if v, err := p.get(ctx, p.lockKey()); err == nil {
			_ = v.Decode(&locked.Owner) // for people: it may be gone by now
		}
		return nil, locked
	}
	if err != nil {
		return nil, p.failed(ctx, "lock", err)
	}
	return &metastore.Cond{Path: p.lockKey(), Is: metastore.At, Version: v.Version}, nil
}

// sign writes the mark of who has the lock. One that is done late is done only while that writer has it.
func (p *Place) sign(ctx context.Context, held *metastore.Cond, mark string) error {
	value, err := p.store.Encode(mark)
	if err != nil {
		return err
	}
	return p.call(ctx, func(ctx context.Context) error {
		return p.store.Commit(ctx, []metastore.Cond{*held},
			[]metastore.Op{{Path: p.markKey(), Do: metastore.Set, Value: value}})
	})
}

// hold makes a lock that of the commits to come; nil: there is none.
func (p *Place) hold(held *metastore.Cond, mark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock, p.mark = held, mark
}

// regain takes a lock again that was lost with the session, and returns the one that is held then. ErrLost where
// another writer has it, or has had it.
//
// The proof: every commit of a writer has its lock as a condition, and its first one writes its mark. So while this
// Place has the lock, nobody else's commit is done, however late it arrives; and where the mark is this Place's own
// then, nobody else's was done since it was lost. Of pieces nothing is removed here: a Put may be about to name some.
func (p *Place) regain(ctx context.Context, lost *metastore.Cond) (*metastore.Cond, error) {
	p.locking.Lock()
	defer p.locking.Unlock()
	p.mu.Lock()
	held, mark := p.lock, p.mark
	p.mu.Unlock()
	switch {
	case held == nil: // it was given back meanwhile
		return nil, ErrLost
	case held != lost: // another goroutine was faster
		return held, nil
	}
	if err := p.signed(ctx, mark); err != nil { // who has lost it for good doesn't disturb the others
		return nil, err
	}
	held, err := p.take(ctx)
	locked := (*checkpoint.LockedError)(nil)
	if errors.As(err, &locked) {
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err != nil {
		return nil, err
	}
	if err := p.signed(ctx, mark); err != nil {
		return nil, errors.Join(err, p.giveBack(held))
	}
	p.hold(held, mark)
	if p.Report != nil {
		p.Report(fmt.Sprintf("%s: the lock was lost with the session at the store, and is taken again: nobody else "+
			"has written meanwhile", p))
	}
	return held, nil
}

// signed looks whether the writer that had the lock last is this Place; ErrLost where it isn't.
func (p *Place) signed(ctx context.Context, mark string) error {
	v, err := p.get(ctx, p.markKey())
	if err != nil && !errors.Is(err, metastore.ErrNoNode) {
		return err
	}
	var found string
	if err != nil || v.Decode(&found) != nil || found != mark {
		return ErrLost
	}
	return nil
}

// unlock gives the lock back, unless it is lost anyway.
func (p *Place) unlock() error {
	p.locking.Lock()
	defer p.locking.Unlock()
	p.mu.Lock()
	held := p.lock // another one than Lock has made where it was taken again
	p.mu.Unlock()
	if held == nil {
		return nil
	}
	p.hold(nil, "")
	return p.giveBack(held)
}

// giveBack removes the ephemeral key.
func (p *Place) giveBack(held *metastore.Cond) error {
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
