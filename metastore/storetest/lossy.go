// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// lossy is an engine whose answers to changes get lost from time to time: whether they were done or not, or will be
// done later.
type lossy struct {
	metastore.Backend
	landing sync.WaitGroup // commits that are done later

	mu     sync.Mutex
	share  float64 // of the changes
	undone bool    // what gets lost isn't done
	random *rand.Rand
}

// newLossy wraps an engine. The seed says which answers get lost.
func newLossy(b metastore.Backend, share float64, seed uint64) *lossy {
	return &lossy{Backend: b, share: share, random: rand.New(rand.NewPCG(seed, 0))}
}

// cut loses all changes from now on before they are done, or none.
func (l *lossy) cut(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.share, l.undone = 0, on
	if on {
		l.share = 1
	}
}

// draw says what happens to the next change: if it isn't answered, whether it is done nevertheless, or how much later.
func (l *lossy) draw() (answered, done bool, later time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.random.Float64() >= l.share {
		return true, true, 0
	}
	switch kind := l.random.IntN(3); {
	case l.undone:
		return false, false, 0
	case kind == 2:
		return false, false, time.Duration(1 + l.random.IntN(int(50*time.Millisecond)))
	default:
		return false, kind == 1, 0
	}
}

// Commit may lose its answer. One without an effect is never lost on the way.
func (l *lossy) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	return l.change(ctx, func(ctx context.Context) error { return l.Backend.Commit(ctx, conds, ops) })
}

// Append may lose its answer.
func (l *lossy) Append(ctx context.Context, dir string, value []byte) (name string, err error) {
	var made string
	err = l.change(ctx, func(ctx context.Context) (err error) {
		made, err = l.Backend.Append(ctx, dir, value)
		return err
	})
	if err == nil {
		name = made
	}
	return name, err
}

// change makes a change, or loses its answer.
func (l *lossy) change(ctx context.Context, f func(context.Context) error) error {
	answered, done, later := l.draw()
	if answered {
		return f(ctx)
	}
	if done {
		_ = f(ctx)
	} else if later > 0 {
		l.landing.Go(func() {
			time.Sleep(later)
			_ = f(context.WithoutCancel(ctx)) // with ErrClosed at the latest
		})
	}
	return fmt.Errorf("lossy, done: %v, later: %v: %w", done, later, metastore.ErrUnknown)
}
