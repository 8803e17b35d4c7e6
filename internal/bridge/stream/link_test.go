// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/session"
	"golang.org/x/sys/unix"
)

// run is that of all tests.
var run = [16]byte{7, 15: 9}

// secure gives the security of a new machine of a new authority, for the loopback.
func secure(t testing.TB) *Security {
	t.Helper()
	return security(t, machineDir(t, authorityDir(t), certs.Period(1), "127.0.0.1", "localhost"))
}

func security(t testing.TB, dir string) *Security {
	t.Helper()
	s, err := NewSecurity(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func plain(t testing.TB) *Security {
	t.Helper()
	s, err := NewSecurity("", 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func authorityDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "authority")
	if err := certs.Init(dir, certs.Period(1)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func machineDir(t testing.TB, authority string, v certs.Validity, hosts ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "machine")
	if err := certs.Issue(authority, dir, hosts, v); err != nil {
		t.Fatal(err)
	}
	return dir
}

// listen gives a listener on the loopback.
func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sockets are both ends of the way from an agent to a bridge.
func sockets(t testing.TB) (agent, bridge *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := func(fd int) *net.UnixConn {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		return c.(*net.UnixConn)
	}
	return end(fds[0]), end(fds[1])
}

// link is an agent's port and the server of one run behind it.
type link struct {
	t       testing.TB
	port    *Splitter
	server  *Server
	agent   *net.UnixConn
	mu      sync.Mutex
	refused []error
}

// newLink serves; accept may be nil, if no connection is to come so far.
func newLink(t testing.TB, s *Security, accept func(session.Conn, session.Hello) error) *link {
	t.Helper()
	l := &link{t: t}
	l.port = Split(listen(t), l.report)
	agent, bridge := sockets(t)
	l.agent = agent
	if err := l.port.Add(run, agent); err != nil {
		t.Fatal(err)
	}
	if accept == nil {
		accept = func(c session.Conn, _ session.Hello) error {
			t.Error("a connection is accepted")
			c.Close()
			return nil
		}
	}
	l.server = Serve(Handed(bridge), ServerConfig{Security: s, Accept: accept, Refused: l.report})
	t.Cleanup(l.close)
	return l
}

func (l *link) report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = append(l.refused, err)
}

func (l *link) reports() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

func (l *link) close() {
	for _, c := range []interface{ Close() error }{l.port, l.server, l.agent} {
		_ = c.Close()
	}
}

func (l *link) address() string { return l.port.Addr().String() }

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// side is a session that counts what it has applied, which are frames with bodies of bodyOf.
type side struct {
	*session.Session
	acked   chan struct{}
	ups     atomic.Int64
	applied atomic.Uint64
	wrong   atomic.Pointer[string]
}

func config(self, peer int) session.Config {
	return session.Config{Self: self, Peer: peer,
		Identity:       session.Identity{Cluster: "c", Run: run, Incarnation: uint64(self + 10)},
		ConnectTimeout: 20 * time.Second, PeerTimeout: time.Second, Window: 30 * time.Second, ResendBytes: 1 << 20}
}

func newSide(t testing.TB, cfg session.Config) *side {
	t.Helper()
	s := &side{acked: make(chan struct{}, 1)}
	cfg.Acked = func() {
		select {
		case s.acked <- struct{}{}:
		default:
		}
	}
	cfg.Changed = func(to session.State) {
		if to == session.Up {
			s.ups.Add(1)
		}
	}
	if cfg.Apply == nil {
		cfg.Apply = s.apply
	}
	var err error
	if s.Session, err = session.New(cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

func bodyOf(number uint64, b []byte) {
	for i := range b {
		b[i] = byte(number*31 + uint64(i)*7)
	}
}

func (s *side) apply(h session.Header, body []byte) error {
	if h.Number == 0 {
		return nil
	}
	want := make([]byte, len(body))
	bodyOf(h.Number, want)
	if n := s.applied.Load(); h.Number != n+1 || !bytes.Equal(body, want) {
		text := fmt.Sprintf("frame %d with %d bytes is applied behind %d", h.Number, len(body), n)
		s.wrong.CompareAndSwap(nil, &text)
	}
	s.applied.Add(1)
	return nil
}

// put adds frame i of a sender, which waits while the resend buffer is full.
func (s *side) put(i uint64, size int) error {
	for {
		body, ok := s.Frame(session.Header{Type: session.Control}, size)
		if ok {
			bodyOf(i, body)
			return nil
		}
		if err := s.Flush(); err != nil {
			return err
		}
		<-s.acked
	}
}

// sendAll sends frames of all sizes, with state frames in between, and now and then a pause of up to pauseMax.
func (s *side) sendAll(rng *rand.Rand, frames, sizeMax int, pauseMax time.Duration) error {
	for i := range uint64(frames) {
		size := rng.IntN(200)
		if rng.IntN(4) == 0 {
			size = rng.IntN(sizeMax)
		}
		if err := s.put(i+1, size); err != nil {
			return err
		}
		switch rng.IntN(6) {
		case 0:
			binary.LittleEndian.PutUint64(s.State(session.Header{Type: session.Credit}, 8), i)
		case 1, 2:
			if err := s.Flush(); err != nil {
				return err
			}
		case 3:
			if pauseMax > 0 {
				time.Sleep(time.Duration(rng.Int64N(int64(pauseMax))))
			}
		}
	}
	return s.Flush()
}

// pair is two sessions over a link.
type pair struct {
	a, b *side
	link *link
}

// newPair joins two sessions; change may be nil, and via gives the address to dial.
func newPair(t testing.TB, s *Security, via func(string) string, change func(*Dialer, *session.Config)) *pair {
	t.Helper()
	p := &pair{b: newSide(t, config(1, 0))}
	p.link = newLink(t, s, func(c session.Conn, h session.Hello) error { return p.b.Accept(c, h) })
	d := &Dialer{Address: p.link.address(), Run: run, Security: s}
	if via != nil {
		d.Address = via(d.Address)
	}
	cfg := config(0, 1)
	cfg.Dial = d.Dial
	if change != nil {
		change(d, &cfg)
	}
	p.a = newSide(t, cfg)
	return p
}

// exchange sends frames in both directions, and ends both sides as they should end.
func (p *pair) exchange(t testing.TB, rng *rand.Rand, frames, sizeMax int, pauseMax time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range []*side{p.a, p.b} {
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		wg.Go(func() {
			if err := s.sendAll(own, frames, sizeMax, pauseMax); err != nil {
				t.Error(err)
			}
			s.Close("")
		})
	}
	wg.Wait()
	for i, s := range []*side{p.a, p.b} {
		if err := s.Err(); err != nil || s.applied.Load() != uint64(frames) {
			t.Errorf("machine %d has applied %d of %d: %v", i, s.applied.Load(), frames, err)
		}
		if text := s.wrong.Load(); text != nil {
			t.Errorf("machine %d: %s", i, *text)
		}
	}
}

// proxy stands between two ends and does what a network may do.
type proxy struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	conns    map[net.Conn]bool
	wg       sync.WaitGroup

	bytewise bool
	frozen   atomic.Bool // nothing passes, and nobody sees it; those that come later pass
}

func newProxy(t testing.TB, to string, bytewise bool) *proxy {
	t.Helper()
	p := &proxy{listener: listen(t), to: to, bytewise: bytewise, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.join(c)
		}
	})
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) join(c net.Conn) {
	d, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.conns[c], p.conns[d] = true, true
	p.mu.Unlock()
	frozen := new(atomic.Bool)
	p.wg.Go(func() { p.pump(c, d, frozen) })
	p.wg.Go(func() { p.pump(d, c, frozen) })
}

// pump copies one direction.
func (p *proxy) pump(from, to net.Conn, frozen *atomic.Bool) {
	defer func() {
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
		_ = to.Close()
	}()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if p.frozen.Swap(false) {
			frozen.Store(true)
		}
		for i := 0; i < n && !frozen.Load(); {
			step := n
			if p.bytewise {
				step = 1
			}
			if _, err = to.Write(b[i : i+step]); err != nil {
				break
			}
			i += step
		}
		if err != nil && !frozen.Load() {
			return
		}
		if err != nil { // the end isn't seen either
			for p.has(to) {
				time.Sleep(10 * time.Millisecond)
			}
			return
		}
	}
}

func (p *proxy) has(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[c]
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// holds fails unless an error has all parts.
func holds(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", parts)
		return
	}
	for _, part := range parts {
		if !bytes.Contains([]byte(err.Error()), []byte(part)) {
			t.Errorf("found %q, want %q", err, part)
		}
	}
}

var errNone = errors.New("none")

// lastReport is the newest error that the link has reported.
func (l *link) lastReport() error {
	all := l.reports()
	if len(all) == 0 {
		return errNone
	}
	return all[len(all)-1]
}

// buffers gives a session's messages that hold one frame each, with bodies of these sizes. Each has a reference that
// is the caller's.
func buffers(t testing.TB, sizes ...int) (all []*session.Buffer) {
	t.Helper()
	caught := make(chan *session.Buffer, 100)
	p := newPair(t, plain(t), nil, func(d *Dialer, cfg *session.Config) {
		cfg.Dial = func(ctx context.Context) (session.Conn, error) {
			c, err := d.Dial(ctx)
			return &catching{c, caught}, err
		}
	})
	for i, size := range sizes {
		if err := p.a.put(uint64(i+1), size); err != nil {
			t.Fatal(err)
		}
		if err := p.a.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for len(all) < len(sizes) {
		if b := <-caught; session.Type(b.Bytes()[1]) == session.Control {
			all = append(all, b)
		}
	}
	var wg sync.WaitGroup
	for _, s := range []*side{p.a, p.b} {
		wg.Go(func() { s.Close("") })
	}
	wg.Wait()
	return all
}

// catching keeps what is sent, too.
type catching struct {
	session.Conn
	caught chan *session.Buffer
}

func (c *catching) Send(b *session.Buffer) error {
	b.Ref()
	c.caught <- b
	return c.Conn.Send(b)
}
