// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// feed follows one node. It has no goroutine: a watch's event, and the end of a connection, put a token into changed,
// and Next reads again. A connection that comes back has no watches until then, so none can be stale.
type feed struct {
	b       *Backend
	path    string
	kind    metastore.WatchKind
	changed chan struct{}
	closed  chan struct{}
	once    sync.Once

	mu     sync.Mutex
	cancel context.CancelCauseFunc // ends a read that is under way

	// Next's only.
	begun   bool
	dirty   bool // the state may differ from the last one
	version metastore.Version
	sum     uint64 // of the value: versions come again in a server that has lost its files
	names   []string
}

// seed is that of all sums.
var seed = maphash.MakeSeed()

// wake lets feeds read again.
func wake(feeds []*feed) {
	for _, f := range feeds {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
}

// Watch follows one node.
func (b *Backend) Watch(path string, kind metastore.WatchKind) metastore.Feed {
	return &feed{b: b, path: path, kind: kind, dirty: true, changed: make(chan struct{}, 1),
		closed: make(chan struct{})}
}

// Close ends the feed.
func (f *feed) Close() {
	f.once.Do(func() {
		close(f.closed)
		f.mu.Lock()
		cancel := f.cancel
		f.mu.Unlock()
		if cancel != nil {
			cancel(metastore.ErrClosed)
		}
		if _, c, _, _ := f.b.now(); c != nil {
			c.disarm(f)
		}
	})
}

// ended is ErrClosed after Close of the feed or of the backend, and ErrWrongCluster at another store.
func (f *feed) ended() error {
	select {
	case <-f.closed:
		return metastore.ErrClosed
	default:
		return f.b.over()
	}
}

// Next waits until the state differs from the one returned last.
func (f *feed) Next(ctx context.Context) (metastore.State, error) {
	for {
		if err := f.ended(); err != nil {
			return metastore.State{}, err
		}
		if f.dirty {
			select {
			case <-f.changed: // the read comes after it
			default:
			}
			now, err := f.look(ctx)
			switch {
			case err == nil && f.differs(now):
				f.dirty = false
				return now, nil
			case err == nil:
				f.dirty = false
			case f.ended() != nil, ctx.Err() != nil:
				return metastore.State{}, err
			default: // refused: somebody may give this user the right
				if err := f.rest(ctx); err != nil {
					return metastore.State{}, err
				}
				continue
			}
		}
		select {
		case <-f.changed:
			f.dirty = true
		case <-f.closed:
		case <-f.b.closed:
		case <-f.b.wrong:
		case <-ctx.Done():
			return metastore.State{}, context.Cause(ctx)
		}
	}
}

// refusedPause is how long a feed waits before it asks again for what was refused.
const refusedPause = time.Second

// rest waits before another look.
func (f *feed) rest(ctx context.Context) error {
	timer := time.NewTimer(refusedPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.closed: // Next sees that, and the next one
	case <-f.b.closed:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// differs notes a state, and tells whether it isn't the last one.
func (f *feed) differs(now metastore.State) bool {
	version, sum := now.Node.Version, maphash.Bytes(seed, now.Node.Value)
	if f.begun && version == f.version && sum == f.sum && slices.Equal(now.Names, f.names) {
		return false
	}
	f.begun, f.version, f.sum, f.names = true, version, sum, slices.Clone(now.Names)
	return true
}

// look reads the state and leaves a watch. Close ends it, too.
func (f *feed) look(ctx context.Context) (now metastore.State, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	f.cancel = cancel
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cancel = nil
	}()
	if err := f.ended(); err != nil {
		return metastore.State{}, err
	}
	err = f.b.attempt(ctx, func(c *conn) error {
		now, err = f.read(ctx, c)
		return err
	})
	if closed := f.ended(); closed != nil {
		err = closed
	}
	return now, err
}

// read is one attempt of look. A feed's first state is as new as a sync makes it; later ones follow an event, or come
// from a server that is no older than what the session has seen.
func (f *feed) read(ctx context.Context, c *conn) (now metastore.State, err error) {
	op := int32(opGetData)
	if f.kind == metastore.Names {
		op = opGetChildren
	}
	get := read(op, f.path, f)
	if !f.begun {
		err = f.b.fresh(ctx, c, true, get)
	} else {
		_, err = c.do(ctx, get)
	}
	if err != nil {
		return now, err
	}
	if get.code == codeNoNode {
		exists := read(opExists, f.path, f)
		if _, err := c.do(ctx, exists); err != nil {
			return now, err
		}
		if exists.code == codeOK {
			return now, errAgain // it has just come
		} else if exists.code != codeNoNode {
			return now, refused(f.path, exists.code)
		}
		return now, nil
	}
	if get.code != codeOK {
		return now, refused(f.path, get.code)
	}
	if f.kind == metastore.Data {
		now.Node = node(get.value, get.stat)
		return now, nil
	}
	now.Names = childNames(f.path, get.names)
	if len(now.Names) == 0 && get.stat.size == 0 {
		f.b.prune(ctx, c, f.path)
	}
	return now, nil
}
