// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/bridge"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/perf/peers"
	"github.com/disco-sim/disco/shm"
)

// window is that of a lane: what one lane has of a machine's windows at most (docs/bridge.md, section 2).
const window = 1 << 20

// run is the number of the run that all measurements are; they come one after the other.
var run = [16]byte{1}

// side is a bridge, with its machine's port.
type side struct {
	*bench.Side
	mem      *memory
	security *stream.Security
	closers  []func() error // of the port, in this order
	bridge   *bridge.Bridge
	ready    chan struct{} // closed when there is a bridge
	over     *shm.Doorbell
	armed    uint32
}

// portFile has the address of machine 1 below the measurements' directory.
const portFile = "bridge.port"

func openBridge(s *bench.Side) (*bench.Run, error) {
	b := &side{Side: s, ready: make(chan struct{})}
	if err := b.open(); err != nil {
		b.close()
		return nil, err
	}
	address, err := b.mem.address()
	if err != nil {
		b.close()
		return nil, err
	}
	return &bench.Run{Address: address, Do: b.do, Close: b.close}, nil
}

func (b *side) open() (err error) {
	if b.mem, err = makeMemory(&b.Task); err != nil {
		return err
	}
	if b.over, err = b.mem.bell(bellOver); err != nil {
		return err
	}
	b.armed = b.over.Arm() // before the worker is there
	dir, insecure := "", 1
	if strings.HasSuffix(b.Job, peers.Secured) {
		insecure = 0
		if dir, err = peers.Certificates(b.Dir); err != nil {
			return err
		}
	}
	if b.security, err = stream.NewSecurity(dir, insecure); err != nil {
		return err
	}
	if b.Pair == 1 {
		return b.listen()
	}
	return nil
}

// listen opens the port of machine 1, as an agent and the process of a bridge do.
func (b *side) listen() error {
	l, err := stream.Listen("127.0.0.1:0", b.security)
	if err != nil {
		return err
	}
	port := stream.Split(l, b.refused)
	b.closers = append(b.closers, port.Close)
	agent, theirs, err := stream.Way()
	if err != nil {
		return err
	}
	b.closers = append(b.closers, agent.Close)
	if err := port.Add(run, agent); err != nil {
		return errors.Join(err, theirs.Close())
	}
	handed, err := stream.HandedFile(theirs)
	if err != nil {
		return err
	}
	server := stream.Serve(handed, stream.ServerConfig{Security: b.security, Refused: b.refused,
		Accept: func(c session.Conn, h session.Hello) error {
			<-b.ready
			return b.bridge.Accept(c, h)
		}})
	b.closers = append([]func() error{server.Close}, b.closers...)
	return os.WriteFile(filepath.Join(b.Dir, portFile), []byte(port.Addr().String()), 0o600)
}

// refused tells of a connection that came to nothing. The session ends by its timeouts, if that matters.
func (b *side) refused(err error) { fmt.Fprintln(os.Stderr, "disco-bench:", err) }

// start makes the bridge. The other machine's port is open by now.
func (b *side) start() error {
	worker, err := b.mem.bell(bellWorker)
	if err != nil {
		return err
	}
	pump, err := b.mem.bell(bellPump)
	if err != nil {
		return err
	}
	other := 1 - b.Pair
	out := bridge.Lane{From: b.Pair, To: other, Machine: other, Window: window, Body: b.mem.lanes[0], Bell: worker,
		Pool: b.mem.pools[0]}
	in := bridge.Lane{From: other, To: b.Pair, Machine: other, Window: window, Body: b.mem.lanes[1], Bell: worker,
		Pool: b.mem.pools[1]}
	peer := bridge.Peer{Machine: other, First: other, Workers: 1, Bell: pump, Session: session.Config{
		Identity:       session.Identity{Cluster: "disco-bench", Run: run, Incarnation: uint64(b.Pair) + 1},
		ConnectTimeout: 5 * time.Second, PeerTimeout: 3 * time.Second, Window: 10 * time.Second, ResendBytes: 8 << 20}}
	if b.Pair == 0 {
		address, err := infile.Read(filepath.Join(b.Dir, portFile), infile.Kind{Name: "an address", BytesMax: 1 << 10})
		if err != nil {
			return err
		}
		d := &stream.Dialer{Address: string(address), Run: run, Security: b.security}
		peer.Dial = func(ctx context.Context, _ session.Stream) (session.Conn, error) { return d.Dial(ctx) }
	}
	b.bridge, err = bridge.New(bridge.Config{Machine: b.Pair, Peers: []bridge.Peer{peer}, Out: []bridge.Lane{out},
		In: []bridge.Lane{in}, Crowded: processors() < threads})
	if err == nil {
		close(b.ready)
	}
	return err
}

// do is the bridge, until the worker of its machine has ended.
func (b *side) do(m *bench.Meter) error {
	if err := b.start(); err != nil {
		return err
	}
	m.Begin()
	b.bridge.Go()
	for {
		select {
		case err := <-b.bridge.Err():
			_ = b.bridge.Close()
			return err
		default:
		}
		switch err := b.over.Wait(b.armed, 100*time.Millisecond); {
		case err == nil:
			m.End(0)
			return b.bridge.Close()
		case b.Aborted():
			_ = b.bridge.Close()
			return bench.ErrAborted
		case !errors.Is(err, shm.ErrTimeout):
			return errors.Join(err, b.bridge.Close())
		}
	}
}

func (b *side) close() {
	for _, f := range b.closers {
		_ = f() // nothing is on its way any more
	}
	if b.mem != nil {
		b.mem.close()
	}
}
