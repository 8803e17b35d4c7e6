// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// errExpired is the server's word that a session is over.
var errExpired = errors.New("the server has ended the session")

// link is one session: it has at most one connection at a time, and never another session's.
type link struct {
	id     int64
	secret []byte        // proves that a session is its client's
	ttl    time.Duration // asked for, and then as granted
	zxid   atomic.Int64  // the newest change seen: no server that is behind it takes the session
	lost   chan struct{}

	mu    sync.Mutex
	ended bool
	timer *time.Timer // calls lose when the last confirmation is too long ago
}

// ID is the session's number in ZooKeeper's own form.
func (l *link) ID() string { return "0x" + strconv.FormatUint(uint64(l.id), 16) }

// TTL is as granted.
func (l *link) TTL() time.Duration { return l.ttl }

// Lost is closed before another client can see what was the session's vanish.
func (l *link) Lost() <-chan struct{} { return l.lost }

// saw notes the newest change seen.
func (l *link) saw(zxid int64) {
	for {
		old := l.zxid.Load()
		if zxid <= old || l.zxid.CompareAndSwap(old, zxid) {
			return
		}
	}
}

// confirm puts the loss off: the server answered what was sent at that time. A quarter of the TTL is taken off,
// because a server tells its leader of its clients only twice in a tick, and a session lasts two ticks or more.
func (l *link) confirm(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	left := time.Until(sent.Add(l.ttl - l.ttl/4))
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.lose)
		return
	}
	l.timer.Reset(left)
}

// lose ends the session for this side.
func (l *link) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
	close(l.lost)
}

// alive tells whether the session isn't lost.
func (l *link) alive() bool {
	select {
	case <-l.lost:
		return false
	default:
		return true
	}
}

// open connects to one server.
func (b *Backend) open(ctx context.Context, server string) (net.Conn, error) {
	n, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil || b.o.TLS == nil {
		return n, err
	}
	config := b.o.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server)
	}
	secure := tls.Client(n, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		n.Close()
		return nil, fmt.Errorf("%s: %w", server, err)
	}
	return secure, nil
}

// dial connects to one server and takes the session up there, or begins it if it has no number yet.
func (b *Backend) dial(ctx context.Context, server string, l *link, limit time.Duration) (*conn, *bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := b.open(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { n.Close() })
	defer stop()
	c, r := newConn(n, l), bufio.NewReaderSize(n, 16<<10)
	if err := c.greet(r, b.o); err != nil {
		n.Close()
		return nil, nil, fmt.Errorf("%s: %w", server, err)
	}
	c.alone = len(b.o.Servers) == 1 && b.alone(ctx, server)
	if !stop() {
		n.Close()
		return nil, nil, fmt.Errorf("%s: no answer within %v", server, limit)
	}
	return c, r, nil
}

// alone asks a server whether it is the only one of its store. It is asked while there is a connection: one that
// becomes a member of several is started again. Without an answer it isn't alone, for all that is known.
func (b *Backend) alone(ctx context.Context, server string) bool {
	n, err := b.open(ctx, server)
	if err != nil {
		return false
	}
	defer n.Close()
	_ = n.SetDeadline(time.Now().Add(b.o.TTL / 8))
	_, _ = io.WriteString(n, "srvr") // else there is no answer
	var text strings.Builder
	_, _ = io.Copy(&text, io.LimitReader(n, 1<<16))
	return strings.Contains(text.String(), "\nMode: standalone\n")
}

// greet opens a connection: session first, then user and password.
func (c *conn) greet(r *bufio.Reader, o Options) error {
	l, sent := c.link, time.Now()
	hello := packet{}.int32(0).int32(0).int64(l.zxid.Load()).int32(int32(l.ttl.Milliseconds())).int64(l.id)
	hello = append(hello.bytes(l.secret), 0) // no server that only reads
	hello.length()
	if _, err := c.net.Write(hello); err != nil {
		return err
	}
	frame, err := readFrame(r)
	if err != nil {
		return err
	}
	a := answer{rest: frame}
	a.int32() // the version of the protocol
	ttl, id, secret := time.Duration(a.int32())*time.Millisecond, a.int64(), a.bytes()
	switch {
	case a.bad:
		return errMalformed
	case ttl <= 0 || id == 0:
		return errExpired
	case l.id != 0 && l.id != id:
		return fmt.Errorf("%w (session %x, asked for %x)", errMalformed, id, l.id)
	}
	if l.id == 0 { // before anybody else knows the session
		l.id, l.secret, l.ttl = id, secret, ttl
	}
	if o.User != "" {
		if err := c.prove(r, o); err != nil {
			return err
		}
	}
	l.confirm(sent)
	return nil
}

// prove shows user and password.
func (c *conn) prove(r *bufio.Reader, o Options) error {
	p := request(opAuth).int32(0).text("digest").text(o.User + ":" + o.Password)
	p.seal(xidAuth)
	if _, err := c.net.Write(p); err != nil {
		return err
	}
	frame, err := readFrame(r)
	if err != nil {
		return err
	}
	a := answer{rest: frame}
	xid := a.int32()
	a.int64()
	if code := code(a.int32()); a.bad || xid != xidAuth || code != codeOK {
		return fmt.Errorf("the server takes no user and password (reply %d, error %d)", xid, code)
	}
	return nil
}

// run has one session after the other until the backend is closed.
func (b *Backend) run(ctx context.Context) {
	defer b.all.Done()
	var before *link
	for ctx.Err() == nil {
		l := &link{ttl: b.o.TTL, secret: make([]byte, 16), lost: make(chan struct{})}
		b.serve(ctx, l, before)
		l.lose()
		b.publish(nil, nil, nil)
		if before = l; b.wrongErr != nil {
			close(b.wrong)
			return
		}
		b.newest = max(b.newest, l.zxid.Load())
	}
}

// serve keeps a session connected until it is lost or the backend is closed.
func (b *Backend) serve(ctx context.Context, l, before *link) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		c, r, err := b.connect(ctx, l, before)
		if err != nil {
			return
		}
		before = nil
		var both sync.WaitGroup
		both.Go(func() { c.read(r) })
		if err := b.goneBack(ctx, c); err != nil {
			c.bye()
			c.fail(err)
			both.Wait()
			if errors.Is(err, metastore.ErrWrongCluster) {
				b.wrongErr = err
				return
			}
			continue
		}
		both.Go(c.keep)
		b.publish(l, c, nil)
		select {
		case <-c.broken:
		case <-ctx.Done():
			if l.alive() {
				c.bye()
			}
			c.fail(context.Cause(ctx))
		}
		b.publish(l, nil, c.err)
		both.Wait()
	}
}

// goneBack tells whether a server that is the only one of its store has lost changes that an earlier session has seen,
// as when an older copy of its data was put back: a session that has seen them itself isn't taken there. A version may
// stand for something else then. Of several servers it can't be known, because an election numbers changes anew.
func (b *Backend) goneBack(ctx context.Context, c *conn) error {
	if !c.alone || b.newest == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.link.ttl/4)
	defer cancel()
	if _, err := c.do(ctx, newCall(opSync, request(opSync).text("/"))); err != nil {
		return err
	}
	if now := c.link.zxid.Load(); now < b.newest {
		return fmt.Errorf("%w: it has gone back from change 0x%x to 0x%x, as after restoring a copy, or without "+
			"its data", metastore.ErrWrongCluster, b.newest, now)
	}
	return nil
}

// bye ends the session, so that what was its own is gone at once.
func (c *conn) bye() {
	ctx, cancel := context.WithTimeout(context.Background(), min(c.link.ttl/4, time.Second))
	defer cancel()
	_, _ = c.do(ctx, newCall(opClose, request(opClose))) // else it ends by its TTL
}

// connect goes from server to server until one takes the session. It gives up when that is over, or ctx. A session
// that was lost before may still live at the servers: it is ended there, if it can be, before the new one begins.
func (b *Backend) connect(ctx context.Context, l, before *link) (*conn, *bufio.Reader, error) {
	limit, pause := max(l.ttl/6, 500*time.Millisecond), 20*time.Millisecond
	for tries := 1; ; tries++ {
		b.server = (b.server + 1) % len(b.o.Servers)
		server := b.o.Servers[b.server]
		if before != nil {
			if c, r, err := b.dial(ctx, server, before, limit); err == nil {
				go c.read(r)
				c.bye()
				c.fail(errExpired)
				before = nil
			} else if errors.Is(err, errExpired) {
				before = nil
			}
		}
		c, r, err := b.dial(ctx, server, l, limit)
		if err == nil {
			return c, r, nil
		}
		if errors.Is(err, errExpired) && l.id != 0 {
			return nil, nil, err
		}
		b.publish(l, nil, err)
		if tries%len(b.o.Servers) != 0 {
			continue
		}
		limit, pause = min(2*limit, 5*time.Second), min(2*pause, l.ttl/8, time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}
