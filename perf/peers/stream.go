// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/perf/bench"
)

// stream carries payloads of a known size both ways. Send may keep payloads back until
// Flush.
type stream interface {
	Send(payload []byte) error
	Flush() error
	Receive(payload []byte) error // fills payload with the next one
	Close() error
}

// listener is the following side before the leading one has come.
type listener interface {
	Address() string
	Accept() (stream, error)
	Close() error
}

// body is what a side does once both are there.
type body func(s *bench.Side, m *bench.Meter, conn stream) error

// open makes a side ready: the following one listens, the leading one dials.
func open(w way, s *bench.Side, do body) (*bench.Run, error) {
	guard := &guard{}
	dir := ""
	if w.secure {
		var err error
		if dir, err = Certificates(s.Dir); err != nil {
			return nil, err
		}
	}
	if s.Lead() {
		conn, err := w.dial(s.Address, dir)
		if err != nil {
			return nil, err
		}
		guard.add(conn)
		return &bench.Run{Close: guard.close, Do: func(m *bench.Meter) error {
			defer s.WhenAborted(guard.close)()
			return aborted(s, do(s, m, conn))
		}}, nil
	}
	l, err := w.listen(dir)
	if err != nil {
		return nil, err
	}
	guard.add(l)
	return &bench.Run{Address: l.Address(), Close: guard.close, Do: func(m *bench.Meter) error {
		defer s.WhenAborted(guard.close)()
		conn, err := l.Accept()
		if err != nil {
			return aborted(s, err)
		}
		guard.add(conn)
		return aborted(s, do(s, m, conn))
	}}, nil
}

// aborted is the error that results from the end of the other side.
func aborted(s *bench.Side, err error) error {
	if err != nil && s.Aborted() {
		return bench.ErrAborted
	}
	return err
}

// guard closes what a side has open, once.
type guard struct {
	mu     sync.Mutex
	open   []io.Closer // guarded by mu
	closed bool        // guarded by mu
}

func (g *guard) add(c io.Closer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = append(g.open, c)
	if g.closed {
		c.Close()
	}
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	for _, c := range g.open {
		c.Close()
	}
}

// files are a stream over descriptors: a socket, or the ends of two pipes.
type files struct {
	in     io.ReadCloser
	out    io.WriteCloser
	buffer []byte // payloads that wait for Flush
	ahead  []byte // bytes that were read beyond a payload
	space  []byte // memory of ahead
}

// bufferBytes is how much one system call writes or reads at most.
const bufferBytes = 64 << 10

func newFiles(in io.ReadCloser, out io.WriteCloser) *files {
	return &files{in: in, out: out, buffer: make([]byte, 0, bufferBytes), space: make([]byte, bufferBytes)}
}

func (f *files) Send(payload []byte) error {
	if len(f.buffer)+len(payload) > cap(f.buffer) {
		if err := f.Flush(); err != nil {
			return err
		}
		if len(payload) > cap(f.buffer) {
			_, err := f.out.Write(payload)
			return err
		}
	}
	f.buffer = append(f.buffer, payload...)
	return nil
}

func (f *files) Flush() error {
	if len(f.buffer) == 0 {
		return nil
	}
	_, err := f.out.Write(f.buffer)
	f.buffer = f.buffer[:0]
	return err
}

func (f *files) Receive(payload []byte) error {
	for n := 0; n < len(payload); {
		if len(f.ahead) == 0 {
			if len(payload)-n >= len(f.space) {
				_, err := io.ReadFull(f.in, payload[n:])
				return err
			}
			got, err := f.in.Read(f.space)
			if got == 0 && err != nil {
				return err
			}
			f.ahead = f.space[:got]
		}
		k := copy(payload[n:], f.ahead)
		f.ahead = f.ahead[k:]
		n += k
	}
	return nil
}

func (f *files) Close() error {
	f.in.Close()
	return f.out.Close()
}

// netListener is a socket that one side is expected at.
type netListener struct {
	net.Listener
	address string
}

func (l *netListener) Address() string { return l.address }

func (l *netListener) Accept() (stream, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newFiles(c, c), nil
}

// listenUnix listens at an abstract address, which leaves no file behind.
func listenUnix(string) (listener, error) {
	l, err := net.Listen("unix", fmt.Sprintf("@disco-bench-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return &netListener{l, l.Addr().String()}, nil
}

func dialUnix(address, _ string) (stream, error) {
	c, err := net.Dial("unix", address)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return newFiles(c, c), nil
}

func listenTCP(tlsDir string) (listener, error) {
	l, err := listenLoopback(tlsDir)
	if err != nil {
		return nil, err
	}
	return &netListener{l, l.Addr().String()}, nil
}

func dialTCP(address, tlsDir string) (stream, error) {
	c, err := dialLoopback(address, tlsDir)
	if err != nil {
		return nil, err
	}
	return newFiles(c, c), nil
}

// pipes are two pipes whose other ends are opened through /proc by the other side.
type pipes struct {
	in, out         *os.File // ours
	theirIn, theirs *os.File // the other side's ends
}

func listenPipe(string) (listener, error) {
	in, theirOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	theirIn, out, err := os.Pipe()
	if err != nil {
		in.Close()
		theirOut.Close()
		return nil, fmt.Errorf("peers: %w", err)
	}
	return &pipes{in: in, out: out, theirIn: theirIn, theirs: theirOut}, nil
}

func (p *pipes) Address() string {
	// Fd would make the files block their threads; the number alone doesn't.
	number := func(f *os.File) (n uintptr) {
		if raw, err := f.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { n = fd })
		}
		return n
	}
	return fmt.Sprintf("/proc/%d/fd/%d,/proc/%d/fd/%d", os.Getpid(), number(p.theirIn), os.Getpid(), number(p.theirs))
}

// Accept closes the other side's ends here, so that reading ends when that side closes. The other side opens its
// own before either of them starts.
func (p *pipes) Accept() (stream, error) {
	p.theirIn.Close()
	p.theirs.Close()
	return newFiles(p.in, p.out), nil
}

func (p *pipes) Close() error {
	for _, f := range []*os.File{p.in, p.out, p.theirIn, p.theirs} {
		f.Close()
	}
	return nil
}

func dialPipe(address, _ string) (stream, error) {
	inName, outName, ok := strings.Cut(address, ",")
	if !ok {
		return nil, fmt.Errorf("peers: address %q of two pipes, want two names", address)
	}
	in, err := os.OpenFile(inName, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	out, err := os.OpenFile(outName, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("peers: %w", err)
	}
	return newFiles(in, out), nil
}
