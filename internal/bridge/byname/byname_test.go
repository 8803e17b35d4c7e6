// SPDX-License-Identifier: Apache-2.0

package byname

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/ipctest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/ipc"
)

func TestMain(m *testing.M) {
	ipctest.Child()
	leaktest.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a machine: its names, and its agent's port.
type place struct {
	dir, address string
	server       *Server
}

// timeouts are those of a test; the zero value: the usual.
type timeouts struct{ connect, peer, window time.Duration }

// poolMost is more than a sender of the suite has.
const poolMost = 32 << 20

func newPlace(t testing.TB, host, cluster string, limits timeouts) *place {
	t.Helper()
	security, err := stream.NewSecurity("", 1)
	must(t, err)
	l, err := stream.Listen(host+":0", security)
	must(t, err)
	report := func(err error) { t.Logf("%s: %v", host, err) }
	port := stream.Split(l, report)
	way, theirs, err := stream.Way()
	must(t, err)
	must(t, port.Add(Run, way))
	p := &place{dir: ipctest.NewDir(t), address: port.Addr().String()}
	p.server, err = Serve(Config{Names: ipc.ListenConfig{Dir: p.dir, PoolBytesMax: poolMost}, Cluster: cluster,
		Security: security, Connections: theirs, Report: report, ConnectTimeout: limits.connect,
		PeerTimeout: limits.peer, Window: limits.window})
	must(t, err)
	t.Cleanup(func() {
		must(t, p.server.Close())
		must(t, port.Close())
		must(t, way.Close())
	})
	return p
}

// far is the way from one machine to another one.
func far(t testing.TB) ipctest.Way {
	h1, h2 := newPlace(t, "127.0.0.1", "c", timeouts{}), newPlace(t, "127.0.0.2", "c", timeouts{})
	return ipctest.Way{Receivers: h2.dir, Senders: h1.dir, Prefix: h2.address + "/", Far: true}
}

// The suite of a connection on one machine.
func TestFar(t *testing.T) { ipctest.Run(t, far) }

// What Dial returns where there is no receiver, no other agent, another cluster, or a bad name.
func TestErrors(t *testing.T) {
	h1, h2 := newPlace(t, "127.0.0.1", "c", timeouts{connect: 200 * time.Millisecond}), newPlace(t, "127.0.0.2", "d",
		timeouts{})
	h3 := newPlace(t, "127.0.0.3", "c", timeouts{})
	full := ipctest.Listen(t, "full", ipc.ListenConfig{Dir: h3.dir, SendersMax: 1})
	ipctest.Dial(t, h3.address+"/full", ipctest.Small(h1.dir))
	ipctest.Listen(t, "tight", ipc.ListenConfig{Dir: h3.dir, PoolBytesMax: 4096})
	large := ipctest.Small(h1.dir)
	large.PoolBytes = poolMost + 1<<20
	for _, c := range []struct {
		name string
		cfg  ipc.DialConfig
		want error
		text string
	}{
		{h3.address + "/nobody", ipctest.Small(h1.dir), ipc.ErrNoReceiver, "under this name"},
		{h3.address + "/full", ipctest.Small(h1.dir), ipc.ErrBusy, "at most 1"},
		{h3.address + "/tight", ipctest.Small(h1.dir), ipc.ErrRefused, "pool of"},
		{h3.address + "/.agent", ipctest.Small(h1.dir), nil, "letters, digits"},
		{h3.address + "/a/b", ipctest.Small(h1.dir), nil, "want host:port"},
		{"127.0.0.1:0/a", ipctest.Small(h1.dir), nil, "the port from 1"},
		{h3.address + "/full", large, ipc.ErrRefused, "pool of"},
		{h2.address + "/any", ipctest.Small(h1.dir), ipc.ErrRefused, "cluster"},
		{"127.0.0.1:1/any", ipctest.Small(h1.dir), ipc.ErrNoAnswer, "--ipc"},
		{"192.0.2.1:7400/any", ipctest.Small(h1.dir), ipc.ErrRefused, "--insecure"},
		{h3.address + "/any", ipctest.Small(ipctest.NewDir(t)), ipc.ErrNoReceiver, "disco-run agent"},
	} {
		_, err := ipc.Dial(ipctest.Within(t), c.name, c.cfg)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.want, c.text)
		}
	}
	if st := full.Stats(); st.Senders > 1 {
		t.Errorf("%+v", st)
	}
}

// through is a way to a machine with a forwarder in front of it.
func through(t *testing.T, limits timeouts) (h1, h2 *place, f *forward.Forwarder) {
	t.Helper()
	h1, h2 = newPlace(t, "127.0.0.1", "c", limits), newPlace(t, "127.0.0.2", "c", limits)
	f, err := forward.New("", h2.address)
	must(t, err)
	t.Cleanup(f.Close)
	return h1, h2, f
}

// Cuts within the window change nothing.
func TestCuts(t *testing.T) {
	h1, h2, f := through(t, timeouts{peer: time.Second, window: time.Minute})
	r := ipctest.Listen(t, "cut", ipc.ListenConfig{Dir: h2.dir})
	s := ipctest.Dial(t, f.Addr()+"/cut", ipctest.Small(h1.dir))
	const count = 3000
	sent := make(chan error, 1)
	go func() { sent <- ipctest.SendMany(ipctest.Within(t), s, 1, count) }()
	b := ipctest.NewInbox()
	for n := range count {
		m, err := r.Receive(ipctest.Within(t))
		must(t, err)
		must(t, b.Check(&m))
		r.Release(&m)
		switch {
		case n%500 == 250:
			f.Reset()
		case n%500 == 499:
			f.HalfOpen(forward.Side(n / 500 % 2))
		}
	}
	must(t, <-sent)
	must(t, s.Close())
	ipctest.ReceiveEnd(t, r, ipc.ErrClosed)
}

// Cut off for longer than the window is, for both, the death of the other one.
func TestCutOff(t *testing.T) {
	h1, h2, f := through(t, timeouts{peer: 200 * time.Millisecond, window: 200 * time.Millisecond})
	r := ipctest.Listen(t, "off", ipc.ListenConfig{Dir: h2.dir})
	s := ipctest.Dial(t, f.Addr()+"/off", ipctest.Small(h1.dir))
	must(t, s.Send(ipctest.Within(t), []byte("before")))
	ipctest.Receive(t, r, "before")
	f.Isolate()
	ipctest.ReceiveEnd(t, r, ipc.ErrPeerDead)
	var err error
	ipctest.Eventually(t, "the sender hears of it", func() bool {
		err = s.TrySend([]byte("after"))
		return err != nil && err != ipc.ErrFull
	})
	if !errors.Is(err, ipc.ErrPeerDead) {
		t.Errorf("%v, want ErrPeerDead", err)
	}
	f.Heal()
}

// A sender whose messages nobody takes holds no other one up, and takes no more than its window and its lanes.
func TestOneThatIsFull(t *testing.T) {
	w := far(t)
	ipctest.Listen(t, "full", ipc.ListenConfig{Dir: w.Receivers})
	slow := ipctest.Dial(t, w.Prefix+"full", ipctest.Small(w.Senders))
	sent := 0
	for idle := 0; idle < 200; idle++ { // full for 200 ms
		for slow.TrySend(make([]byte, 200)) == nil {
			sent += 200
			idle = 0
		}
		time.Sleep(time.Millisecond)
	}
	if most := 4 << 20; sent > most {
		t.Errorf("%d bytes are under way, want at most %d", sent, most)
	}
	r := ipctest.Listen(t, "quick", ipc.ListenConfig{Dir: w.Receivers})
	quick := ipctest.Dial(t, w.Prefix+"quick", ipctest.Small(w.Senders))
	for range 100 {
		must(t, quick.Send(ipctest.Within(t), []byte("on")))
		ipctest.Receive(t, r, "on")
	}
}
