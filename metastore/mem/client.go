// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Client is one client of a server: a metastore.Backend.
type Client struct {
	server *Server
	closed chan struct{}
	once   sync.Once

	// Guarded by the server's lock.
	away    bool          // disconnected
	turned  chan struct{} // closed, and replaced, when away or the server's stopped changes
	session *session      // the one that lives, or nil
	expiry  *time.Timer   // ends the session of a client that is away
}

var _ metastore.Backend = (*Client)(nil)

// Disconnect makes calls and feeds of the client wait, until Reconnect. Its session ends after its TTL.
func (c *Client) Disconnect() { c.disconnect(true) }

// Reconnect undoes Disconnect.
func (c *Client) Reconnect() { c.disconnect(false) }

func (c *Client) disconnect(away bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.away = away
	c.turn()
}

// EndSession ends the client's session at once, as the server does when it has been silent for too long.
func (c *Client) EndSession() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.endSession()
}

// reachable tells whether calls get through. The lock is held, as in turn and endSession.
func (c *Client) reachable() bool { return !c.away && !c.server.stopped }

// turn lets everything that waits look again, and starts or stops the time that the session has left.
func (c *Client) turn() {
	close(c.turned)
	c.turned = make(chan struct{})
	if c.reachable() {
		if c.expiry != nil {
			c.expiry.Stop()
			c.expiry = nil
		}
	} else if old := c.session; old != nil && c.expiry == nil {
		c.expiry = time.AfterFunc(old.ttl, func() { c.expire(old) })
	}
}

// expire ends a session if it is the client's, and the client is still away.
func (c *Client) expire(old *session) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.session == old && !c.reachable() {
		c.endSession()
	}
}

// endSession first lets the client know, and then deletes what was the session's.
func (c *Client) endSession() {
	old := c.session
	if old == nil {
		return
	}
	c.session = nil
	if c.expiry != nil {
		c.expiry.Stop()
		c.expiry = nil
	}
	close(old.lost)
	c.server.revision++
	for n := range old.nodes {
		c.server.remove(n)
	}
}

// enter takes the server's lock when the client can reach it. Without an error the caller unlocks it.
func (c *Client) enter(ctx context.Context) error {
	start := time.Now()
	for {
		if err := c.done(); err != nil {
			return err
		}
		c.server.mu.Lock()
		if err := c.done(); err != nil || c.reachable() {
			if err != nil {
				c.server.mu.Unlock()
			}
			return err
		}
		turned := c.turned
		c.server.mu.Unlock()
		select {
		case <-turned:
		case <-c.closed:
		case <-ctx.Done():
			return fmt.Errorf("%w: tried for %v: %w", metastore.ErrUnavailable,
				time.Since(start).Round(time.Millisecond), context.Cause(ctx))
		}
	}
}

// done is ErrClosed after Close.
func (c *Client) done() error {
	select {
	case <-c.closed:
		return metastore.ErrClosed
	default:
		return nil
	}
}

// Get reads one node.
func (c *Client) Get(ctx context.Context, path string) (metastore.Node, error) {
	if err := c.enter(ctx); err != nil {
		return metastore.Node{}, err
	}
	defer c.server.mu.Unlock()
	n := c.server.find(path)
	if !n.exists() {
		return metastore.Node{}, fmt.Errorf("%s: %w", path, metastore.ErrNoNode)
	}
	return n.public(), nil
}

// Children lists a node's children.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.server.mu.Unlock()
	n := c.server.find(path)
	if !n.exists() {
		return nil, fmt.Errorf("%s: %w", path, metastore.ErrNoNode)
	}
	return n.childNames(), nil
}

// Tree reads a node and all below it, at one moment.
func (c *Client) Tree(ctx context.Context, path string) ([]metastore.Leaf, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.server.mu.Unlock()
	leaves := c.server.find(path).leaves(nil)
	slices.SortFunc(leaves, func(a, b metastore.Leaf) int { return strings.Compare(a.Path, b.Path) })
	return leaves, nil
}

// Commit does all operations or none. It never fails with ErrUnknown.
func (c *Client) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if err := metastore.CheckCommit(conds, ops); err != nil {
		return err
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.server.mu.Unlock()
	return c.server.commit(conds, ops, c.session)
}

// Append creates a child that is named by the number of its change.
func (c *Client) Append(ctx context.Context, dir string, value []byte) (string, error) {
	if err := metastore.CheckAppend(dir, value); err != nil {
		return "", err
	}
	if err := c.enter(ctx); err != nil {
		return "", err
	}
	defer c.server.mu.Unlock()
	name := fmt.Sprintf("%016x", c.server.revision+1)
	path, err := metastore.Path(strings.TrimSuffix(dir, "/"), name)
	if err != nil {
		return "", err
	}
	return name, c.server.commit(nil, []metastore.Op{{Path: path, Do: metastore.Create, Value: value}}, nil)
}

// Session returns the client's session.
func (c *Client) Session(ctx context.Context) (metastore.Session, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.server.mu.Unlock()
	if c.session == nil {
		c.session = c.server.newSession()
	}
	return c.session, nil
}

// Cluster is the server's name.
func (c *Client) Cluster(ctx context.Context) (string, error) {
	if err := c.enter(ctx); err != nil {
		return "", err
	}
	defer c.server.mu.Unlock()
	return c.server.name, nil
}

// Close ends the session, if the server can be reached, and everything that waits.
func (c *Client) Close() error {
	c.once.Do(func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		close(c.closed)
		if c.reachable() {
			c.endSession()
			delete(c.server.clients, c)
		}
	})
	return nil
}

// Watch follows a node.
func (c *Client) Watch(path string, kind metastore.WatchKind) metastore.Feed {
	f := &feed{client: c, key: feedKey{path, kind}, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.subscribe(f, true)
	return f
}

// feed follows one node: wake has a token when it may have changed.
type feed struct {
	client *Client
	key    feedKey
	wake   chan struct{}
	closed chan struct{}
	once   sync.Once

	begun bool            // used by Next's goroutine only, as last is
	last  metastore.State // returned last
}

// ping makes Next look again. It is called under the server's lock.
func (f *feed) ping() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Next waits until the state differs from the last one.
func (f *feed) Next(ctx context.Context) (metastore.State, error) {
	for {
		now, turned, err := f.look()
		if err != nil {
			return metastore.State{}, err
		}
		if now != nil && !(f.begun && same(*now, f.last)) {
			f.begun, f.last = true, *now
			return own(*now), nil
		}
		select {
		case <-f.wake:
		case <-turned:
		case <-f.closed:
		case <-f.client.closed:
		case <-ctx.Done():
			return metastore.State{}, context.Cause(ctx)
		}
	}
}

// look reads the state, which is nil while the server can't be reached.
func (f *feed) look() (now *metastore.State, turned <-chan struct{}, err error) {
	c := f.client
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	select {
	case <-f.closed:
		return nil, nil, metastore.ErrClosed
	case <-c.closed:
		return nil, nil, metastore.ErrClosed
	default:
	}
	if !c.reachable() {
		return nil, c.turned, nil
	}
	n := c.server.find(f.key.path)
	if f.key.kind == metastore.Names {
		return &metastore.State{Names: n.childNames()}, c.turned, nil
	}
	return &metastore.State{Node: n.public()}, c.turned, nil
}

// same tells whether two states are equal: a node's by its version.
func same(a, b metastore.State) bool {
	return a.Node.Version == b.Node.Version && slices.Equal(a.Names, b.Names)
}

// own is a state that the caller may change.
func own(s metastore.State) metastore.State {
	s.Node.Value, s.Names = slices.Clone(s.Node.Value), slices.Clone(s.Names)
	return s
}

// Close ends the feed.
func (f *feed) Close() {
	f.once.Do(func() {
		f.client.server.mu.Lock()
		defer f.client.server.mu.Unlock()
		close(f.closed)
		f.client.server.subscribe(f, false)
	})
}
