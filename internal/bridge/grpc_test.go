// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/session"
)

// ports are what machines are reached at: each an agent's port, and the server of one run behind it.
type ports struct {
	n        *network
	security *stream.Security
	via      bool // a forwarder stands in front of each
	address  []string
	forwards []*forward.Forwarder
}

// overGRPC gives what joins machines by gRPC on the loopback, over TLS where there is a directory of certificates.
func overGRPC(t testing.TB, machines int, dir string, via bool) (join func(*network) func(way) (session.Conn, error),
	p *ports) {
	t.Helper()
	insecure := 0
	if dir == "" {
		insecure = 1
	}
	security, err := stream.NewSecurity(dir, insecure)
	must(t, err)
	p = &ports{security: security, via: via}
	return func(n *network) func(way) (session.Conn, error) {
		p.n = n
		for machine := range machines {
			p.open(t, machine)
		}
		return p.dial
	}, p
}

func (p *ports) open(t testing.TB, machine int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	report := func(err error) { t.Logf("machine %d has refused: %v", machine, err) }
	port := stream.Split(l, report)
	agent, bridge := sockets(t)
	must(t, port.Add([16]byte{1}, agent))
	server := stream.Serve(stream.Handed(bridge), stream.ServerConfig{Security: p.security, Refused: report,
		Accept: func(c session.Conn, h session.Hello) error {
			<-p.n.ready
			return p.n.bridges[machine].Accept(p.n.awaited(way{h.From, h.To, h.Stream}, c), h)
		}})
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{port, server, agent} {
			_ = c.Close()
		}
	})
	address := port.Addr().String()
	if p.via {
		f, err := forward.New("", address)
		must(t, err)
		t.Cleanup(f.Close)
		p.forwards = append(p.forwards, f)
		address = f.Addr()
	}
	p.address = append(p.address, address)
}

// sockets are both ends of the way from an agent to a bridge.
func sockets(t testing.TB) (agent, bridge *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	end := func(fd int) *net.UnixConn {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		c, err := net.FileConn(f)
		must(t, err)
		return c.(*net.UnixConn)
	}
	return end(fds[0]), end(fds[1])
}

func (p *ports) dial(w way) (session.Conn, error) {
	d := &stream.Dialer{Address: p.address[w.to], Run: [16]byte{1}, Security: p.security}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return p.n.dialled(w, c), nil
}

// certificates gives the directory of those of a machine.
func certificates(t testing.TB) string {
	t.Helper()
	authority, dir := filepath.Join(t.TempDir(), "authority"), filepath.Join(t.TempDir(), "machine")
	must(t, certs.Init(authority, certs.Period(1)))
	must(t, certs.Issue(authority, dir, []string{"127.0.0.1"}, certs.Period(1)))
	return dir
}

// The whole suite over gRPC.
func TestGRPC(t *testing.T) {
	const most = 5 // machines of a test
	k := kind{window: 1 << 14, dialler: func(n *network) func(way) (session.Conn, error) {
		join, _ := overGRPC(n.t, most, "", false)
		return join(n)
	}}
	f := k.factory("bridge over gRPC")
	f.Allocates = true
	linktest.Run(t, f)
}

// Connections over TLS that are cut, and that one side alone takes for cut, change nothing.
func TestCutsGRPC(t *testing.T) {
	events := uint64(20_000)
	if testing.Short() {
		events = 2000
	}
	join, p := overGRPC(t, 2, certificates(t), true)
	var cutting sync.WaitGroup
	stop := make(chan struct{})
	cuts := 0
	k := kind{window: 1 << 12, timeout: time.Second, dialler: func(n *network) func(way) (session.Conn, error) {
		dial := join(n)
		cutting.Go(func() { cuts = p.cut(stop) })
		return dial
	}}
	o := linktest.Options{Workers: 2, RingBytes: 1 << 12, InlineMax: 256, Blocks: 2, BlockBytes: 10_000, Parts: true}
	exchange(t, k, o, events, small)
	close(stop)
	cutting.Wait()
	if cuts == 0 {
		t.Error("nothing was cut")
	}
}

// cut cuts connections to machine 1 now and then, those that carry something, until it is stopped.
func (p *ports) cut(stop chan struct{}) (cuts int) {
	f := p.forwards[1]
	for last := int64(0); ; {
		select {
		case <-stop:
			return cuts
		case <-time.After(20 * time.Millisecond):
		}
		now := f.Bytes()
		if now-last < 100_000 {
			continue
		}
		last = now
		if cuts++; cuts%8 == 0 {
			f.HalfOpen(forward.Side(cuts / 8 % 2))
		} else {
			f.Reset()
		}
	}
}
