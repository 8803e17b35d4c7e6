// SPDX-License-Identifier: Apache-2.0

// Package zk is the metadata store's engine over ZooKeeper, 3.5 or later.
//
// It speaks ZooKeeper's protocol itself; docs/metastore.md says why.
//
// Guarantee: it passes metastore/storetest on one server and on three, while they are killed, stopped and cut off. No
// node is changed, and no ephemeral node made, by a session that was reported lost.
package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

// Options say where the servers are and who the client is.
type Options struct {
	Servers  []string      // host:port, or a host for port 2181; each client begins with another one
	User     string        // "" is nobody: nodes are everybody's
	Password string        // of User: only who has shown both, with whatever certificate, can use this client's nodes
	TLS      *tls.Config   // nil: none
	TTL      time.Duration // how long a silent client's session lasts; 0 is 10 s; servers allow 2 to 20 of their ticks
	// SyncReads makes reads cheaper by half or more: the server catches up with its leader, and the leader isn't asked
	// to show that it still leads. One that was stopped or cut off, and replaced, may then answer with an old state.
	SyncReads bool
}

// Backend is a client of ZooKeeper: a metastore.Backend. Its session begins at once.
type Backend struct {
	o     Options
	owner string // of the nodes that it makes; "" is everybody
	// certified is the user of the certificate that it shows; "" where that is no user's.
	certified string
	access    atomic.Pointer[metastore.Access] // that what it makes is under; nil: none
	gate      *circuit.Gate                    // of all tries of calls: connections are tried one after the other
	closed    chan struct{}
	once      sync.Once
	cancel    context.CancelCauseFunc
	all       sync.WaitGroup
	server    int   // of o.Servers, tried last; run's only
	newest    int64 // change that any session has seen; run's only

	wrong    chan struct{} // closed when the server has gone back: wrongErr says how
	wrongErr error

	mu     sync.Mutex
	link   *link         // the session that lives, or nil
	conn   *conn         // its connection, or nil
	why    error         // why there is none
	turned chan struct{} // closed, and replaced, when one of them changes
}

var _ metastore.Backend = (*Backend)(nil)

// New makes a client, which connects in the background: calls wait for that.
func New(o Options) (*Backend, error) {
	if len(o.Servers) == 0 {
		return nil, errors.New("zk: no server is named")
	}
	o.Servers = slices.Clone(o.Servers)
	for i, s := range o.Servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			o.Servers[i] = net.JoinHostPort(strings.Trim(s, "[]"), "2181")
		}
	}
	rand.Shuffle(len(o.Servers), func(i, k int) { o.Servers[i], o.Servers[k] = o.Servers[k], o.Servers[i] })
	if o.User == "" && o.Password != "" || strings.Contains(o.User, ":") {
		return nil, fmt.Errorf("zk: the user %q: there must be one to a password, without a colon", o.User)
	}
	if o.TTL == 0 {
		o.TTL = 10 * time.Second
	}
	if o.TTL < 100*time.Millisecond || o.TTL > time.Hour {
		return nil, fmt.Errorf("zk: a TTL of %v; 100ms to 1h are allowed", o.TTL)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	b := &Backend{o: o, owner: owner(o.User, o.Password), closed: make(chan struct{}), wrong: make(chan struct{}),
		gate:   circuit.NewGate(),
		cancel: cancel, turned: make(chan struct{})}
	if o.TLS != nil && len(o.TLS.Certificates) > 0 {
		b.certified = certs.User(o.TLS.Certificates[0].Leaf)
	}
	b.all.Add(1)
	go b.run(ctx)
	return b, nil
}

// publish says which session and connection serve now, or why there is none.
func (b *Backend) publish(l *link, c *conn, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l != nil && l.id == 0 {
		l = nil
	}
	b.link, b.conn = l, c
	if why != nil {
		b.why = why
	}
	close(b.turned)
	b.turned = make(chan struct{})
}

// now is what was published; turned is closed when that changes.
func (b *Backend) now() (l *link, c *conn, turned <-chan struct{}, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, c = b.link, b.conn
	if l != nil && !l.alive() {
		l, c = nil, nil
	}
	return l, c, b.turned, b.why
}

// over is why nothing more can be done, or nil.
func (b *Backend) over() error {
	select {
	case <-b.closed:
		return metastore.ErrClosed
	default:
	}
	select {
	case <-b.wrong:
		return b.wrongErr
	default:
		return nil
	}
}

// ending adds to an error why nothing more can be done, where that may be its cause.
func (b *Backend) ending(err error) error {
	if over := b.over(); over != nil {
		return fmt.Errorf("%w: %w", over, err)
	}
	return err
}

// attempt waits for a connection and calls f, again and again while f fails with errAgain, or with errBroken, which
// says that a connection broke and nothing has been done. Other errors are the caller's.
func (b *Backend) attempt(ctx context.Context, f func(c *conn) error) error {
	start, pause := time.Now(), time.Millisecond
	what := circuit.First
	for tries := 1; ; tries++ {
		_, c, turned, why := b.now()
		if err := b.over(); err != nil {
			return err
		}
		var later <-chan time.Time
		if c != nil {
			try, err := b.gate.Pass(ctx, b.closed, what)
			if err != nil {
				if over := b.over(); over != nil {
					return over
				}
				return b.unavailable(ctx, start, err)
			}
			why = f(c)
			judge(ctx, try, why)
			again := errors.Is(why, errAgain)
			if what = circuit.Second; again {
				what = circuit.Shared // other clients were quicker: that isn't the servers' fault
			}
			switch {
			case errors.Is(why, metastore.ErrUnknown), errors.Is(why, metastore.ErrSessionLost):
				return b.ending(why)
			case again && tries == 1:
				continue
			case again:
				turned = nil
			case ctx.Err() != nil && errors.Is(why, context.Cause(ctx)):
				return b.unavailable(ctx, start, why)
			case !errors.Is(why, errBroken):
				return why
			}
			later = time.After(pause/2 + rand.N(pause))
			pause = min(2*pause, 100*time.Millisecond)
		}
		select {
		case <-turned:
		case <-later:
		case <-b.closed:
		case <-b.wrong:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return b.unavailable(ctx, start, why)
		}
	}
}

// judge notes what a try says of the servers: one that refuses has answered.
func judge(ctx context.Context, try *circuit.Try, err error) {
	silent := errors.Is(err, errBroken) || errors.Is(err, metastore.ErrUnknown)
	switch {
	case !silent && (err == nil || ctx.Err() == nil):
		try.Done(circuit.Succeeded, nil)
	case ctx.Err() != nil:
		try.Done(circuit.Neither, nil) // nobody waits for it any more
	default:
		try.Done(circuit.HasFailed, err)
	}
}

// Trouble is why no server is asked now, since none has answered several times, or nil.
func (b *Backend) Trouble() error { return b.gate.Trouble() }

// errAgain is what was overtaken by another client: nothing has been done.
var errAgain = errors.New("other clients were quicker, again and again")

// unavailable is the error of a call whose time is over.
func (b *Backend) unavailable(ctx context.Context, start time.Time, why error) error {
	if why == nil {
		why = errors.New("not connected yet")
	}
	return fmt.Errorf("%w: ZooKeeper at %s: tried for %v: %w (last: %w)", metastore.ErrUnavailable,
		strings.Join(b.o.Servers, ","), time.Since(start).Round(time.Millisecond), context.Cause(ctx), why)
}

// fresh reads what is linearizable, or what a sync makes new if weak or Options.SyncReads. A server that is alone needs
// nothing for either.
func (b *Backend) fresh(ctx context.Context, c *conn, weak bool, reads ...*call) error {
	switch {
	case c.alone:
		_, err := c.do(ctx, reads...)
		return err
	case weak || b.o.SyncReads:
		return c.behind(ctx, &c.weak, reads...)
	}
	return c.behind(ctx, &c.strict, reads...)
}

// refused makes an error of what the server said, and knows those that say something to users.
func refused(path string, c code) error {
	switch c {
	case codeOK:
		return nil
	case codeNoNode:
		return fmt.Errorf("%s: %w", path, metastore.ErrNoNode)
	case codeNoAuth, codeInvalidACL, codeAuthFailed:
		return fmt.Errorf("%s: %w: ZooKeeper's error %d; check user and password", path, metastore.ErrDenied, c)
	case codeEphemeralParent:
		return fmt.Errorf("%s: %w", path, metastore.ErrEphemeralParent)
	}
	return fmt.Errorf("%s: ZooKeeper's error %d", path, c)
}

// node makes a node of what was read.
func node(value []byte, s stat) metastore.Node {
	if len(value) == 0 {
		return metastore.Node{}
	}
	return metastore.Node{Value: value, Version: s.public(), Ephemeral: s.owner != 0,
		Owner: uint64(s.owner)}
}

// public is the version of a node with data.
func (s stat) public() metastore.Version {
	return metastore.Version{Created: uint64(s.czxid), Changed: uint64(uint32(s.version))}
}

// Get reads one node.
func (b *Backend) Get(ctx context.Context, path string) (n metastore.Node, err error) {
	err = b.attempt(ctx, func(c *conn) error {
		get := read(opGetData, path, nil)
		if err := b.fresh(ctx, c, false, get); err != nil {
			return err
		}
		if n = node(get.value, get.stat); get.code == codeOK && n.Value == nil && get.stat.children == 0 {
			return refused(path, codeNoNode) // what an ephemeral node left, or the root
		}
		return refused(path, get.code)
	})
	return n, err
}

// Children lists a node's children.
func (b *Backend) Children(ctx context.Context, path string) (names []string, err error) {
	err = b.attempt(ctx, func(c *conn) error {
		get := read(opGetChildren, path, nil)
		if err := b.fresh(ctx, c, false, get); err != nil {
			return err
		}
		if get.code != codeOK {
			return refused(path, get.code)
		}
		if names = childNames(path, get.names); len(names) == 0 && get.stat.size == 0 {
			b.prune(ctx, c, path)
			return refused(path, codeNoNode)
		}
		return nil
	})
	return names, err
}

// childNames sorts the names of the children of the node at path, without ZooKeeper's own.
func childNames(path string, names []string) []string {
	if path == "/" {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "zookeeper" })
	}
	slices.Sort(names)
	return names
}

// Tree reads a node and all below it.
func (b *Backend) Tree(ctx context.Context, path string) (leaves []metastore.Leaf, err error) {
	err = b.attempt(ctx, func(c *conn) error {
		leaves = nil
		return b.walk(ctx, c, opGetData, path, func(path string, n metastore.Node) {
			if n.Value != nil {
				leaves = append(leaves, metastore.Leaf{Path: path, Node: n})
			}
		})
	})
	slices.SortFunc(leaves, func(a, b metastore.Leaf) int { return strings.Compare(a.Path, b.Path) })
	return leaves, err
}

// walk visits path and what is below it, parents first, by opGetData or opExists. Only the first read need be fresh: a
// session's later ones are as new.
func (b *Backend) walk(ctx context.Context, c *conn, op int32, path string,
	visit func(path string, n metastore.Node)) error {
	const atOnce = 128
	first := true
	for todo := []string{path}; len(todo) > 0; {
		paths := todo[:min(atOnce, len(todo))]
		todo = todo[len(paths):]
		calls := make([]*call, len(paths))
		for i, p := range paths {
			calls[i] = read(op, p, nil)
		}
		var err error
		if first {
			first, err = false, b.fresh(ctx, c, false, calls...)
		} else {
			_, err = c.do(ctx, calls...)
		}
		if err != nil {
			return err
		}
		var parents []string
		for i, p := range paths {
			if calls[i].code == codeNoNode {
				continue
			} else if err := refused(p, calls[i].code); err != nil {
				return err
			}
			visit(p, node(calls[i].value, calls[i].stat))
			if calls[i].stat.children > 0 {
				parents = append(parents, p)
			}
		}
		below, err := b.below(ctx, c, parents)
		if err != nil {
			return err
		}
		todo = append(todo, below...)
	}
	return nil
}

// below lists the children of several nodes, by path.
func (b *Backend) below(ctx context.Context, c *conn, parents []string) (paths []string, err error) {
	if len(parents) == 0 {
		return nil, nil
	}
	calls := make([]*call, len(parents))
	for i, p := range parents {
		calls[i] = read(opGetChildren, p, nil)
	}
	if _, err := c.do(ctx, calls...); err != nil {
		return nil, err
	}
	for i, p := range parents {
		if calls[i].code == codeNoNode {
			continue
		} else if err := refused(p, calls[i].code); err != nil {
			return nil, err
		}
		for _, name := range childNames(p, calls[i].names) {
			paths = append(paths, strings.TrimSuffix(p, "/")+"/"+name)
		}
	}
	return paths, nil
}

// Session returns the session that lives, or waits for the next one.
func (b *Backend) Session(ctx context.Context) (metastore.Session, error) {
	start := time.Now()
	for {
		l, _, turned, why := b.now()
		if err := b.over(); err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
		select {
		case <-turned:
		case <-b.closed:
		case <-b.wrong:
		case <-ctx.Done():
			return nil, b.unavailable(ctx, start, why)
		}
	}
}

// Cluster is "": ZooKeeper has no name that differs from ensemble to ensemble.
func (b *Backend) Cluster(context.Context) (string, error) {
	select {
	case <-b.closed:
		return "", metastore.ErrClosed
	default:
		return "", nil
	}
}

// Close ends the session, and everything that waits.
func (b *Backend) Close() error {
	b.once.Do(func() {
		close(b.closed)
		b.cancel(metastore.ErrClosed)
	})
	b.all.Wait()
	return nil
}
