// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/disco-sim/disco/metastore"
)

// lossy is an engine whose answers to changes get lost from time to time: whether they were done or not.
type lossy struct {
	metastore.Backend
	share float64 // of the changes

	mu     sync.Mutex
	random *rand.Rand
}

// newLossy wraps an engine. The seed says which answers get lost.
func newLossy(b metastore.Backend, share float64, seed uint64) *lossy {
	return &lossy{Backend: b, share: share, random: rand.New(rand.NewPCG(seed, 0))}
}

// draw says what happens to the next change.
func (l *lossy) draw() (done, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.random.Float64() >= l.share {
		return true, true
	}
	return l.random.IntN(2) == 0, false
}

// Commit may lose its answer. One without an effect is never lost on the way.
func (l *lossy) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	done, answered := l.draw()
	if answered {
		return l.Backend.Commit(ctx, conds, ops)
	}
	if done {
		_ = l.Backend.Commit(ctx, conds, ops)
	}
	return fmt.Errorf("lossy, done: %v: %w", done, metastore.ErrUnknown)
}

// Append may lose its answer.
func (l *lossy) Append(ctx context.Context, dir string, value []byte) (string, error) {
	done, answered := l.draw()
	if answered {
		return l.Backend.Append(ctx, dir, value)
	}
	if done {
		_, _ = l.Backend.Append(ctx, dir, value)
	}
	return "", fmt.Errorf("lossy, done: %v: %w", done, metastore.ErrUnknown)
}
