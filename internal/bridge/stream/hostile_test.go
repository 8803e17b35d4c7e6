// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/session"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/encoding"
)

// dial makes one connection with the security of another machine.
func (l *link) dial(s *Security, address string) (session.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	d := &Dialer{Address: address, Run: run, Security: s}
	return d.Dial(ctx)
}

// Whoever has another certificate, none, or plain text for TLS, is refused; both sides say why, and which machine or
// file is wrong.
func TestCertificates(t *testing.T) {
	t.Parallel()
	a, now := authorityDir(t), time.Now()
	good := security(t, machineDir(t, a, certs.Period(1), "127.0.0.1"))
	late := certs.Validity{From: now.Add(-time.Hour), Until: now.Add(1500 * time.Millisecond)}
	expired := security(t, machineDir(t, a, late, "127.0.0.1", "localhost"))
	time.Sleep(time.Until(late.Until) + 10*time.Millisecond) // a certificate can't be read once it has expired
	other := secure(t)
	for _, c := range []struct {
		name           string
		client, server *Security
		host           string
		atClient       []string // besides the address
		atServer       []string
	}{
		{"another authority", other, good, "127.0.0.1",
			[]string{"its certificate was signed by another authority", "ca.pem"},
			[]string{"cert.pem is no good there"}},
		{"expired at the client", expired, good, "127.0.0.1", []string{"cert.pem has expired"},
			[]string{"is valid from"}},
		{"expired at the server", good, expired, "127.0.0.1", []string{"its certificate is valid from"},
			[]string{"cert.pem"}},
		{"another name", good, good, "localhost", []string{"its certificate is for 127.0.0.1, not for localhost"}, nil},
		{"plain text to TLS", plain(t), good, "127.0.0.1", []string{"expects TLS, which is --tls-dir"},
			[]string{"doesn't speak TLS"}},
		{"TLS to plain text", good, plain(t), "127.0.0.1", []string{"doesn't speak TLS there"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLink(t, c.server, nil)
			_, port, _ := net.SplitHostPort(l.address())
			address := net.JoinHostPort(c.host, port)
			conn, err := l.dial(c.client, address)
			if err == nil {
				conn.Close()
			}
			holds(t, err, append(c.atClient, "machine "+address)...)
			if c.atServer != nil {
				eventually(t, "a report", func() bool { return len(l.reports()) > 0 })
				holds(t, l.lastReport(), append(c.atServer, "127.0.0.1:")...)
			}
		})
	}
}

// A machine that isn't there, has no such run, says nothing, or isn't a machine.
func TestDialErrors(t *testing.T) {
	s := secure(t)
	l := newLink(t, s, nil)
	l.port.Remove(run)
	_, err := l.dial(s, l.address())
	holds(t, err, "machine "+l.address(), "it isn't in this run now")
	eventually(t, "a report", func() bool { return len(l.reports()) > 0 })
	holds(t, l.lastReport(), "there is no run 07000000")

	silent := listen(t)
	defer silent.Close()
	for _, secured := range []*Security{s, plain(t)} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		_, err = (&Dialer{Address: silent.Addr().String(), Security: secured}).Dial(ctx)
		holds(t, err, "machine "+silent.Addr().String(), "timeout")
		cancel()
	}
	_, err = l.dial(s, "127.0.0.1:1")
	holds(t, err, "machine 127.0.0.1:1", "connection refused")
	if _, err = (&Dialer{Compress: Auto, Security: s}).Dial(context.Background()); err == nil {
		t.Error("a choice without a rate")
	}
}

func TestSecurity(t *testing.T) {
	for _, c := range []struct {
		dir      string
		insecure int
		want     string
	}{
		{"", 0, "neither --tls-dir nor --insecure"}, {"x", 1, "want one of them"},
		{"/nowhere", 0, "--tls-dir: /nowhere/ca.pem"},
	} {
		_, err := NewSecurity(c.dir, c.insecure)
		holds(t, err, c.want)
	}
	once, twice, secured := plain(t), &Security{anywhere: true}, secure(t)
	for address, ok := range map[string][3]bool{
		"127.0.0.1:1": {true, true, true}, "[::1]:1": {true, true, true}, "localhost:1": {true, true, true},
		"127.9.9.9:1": {true, true, true}, "0.0.0.0:1": {false, true, true}, ":1": {false, true, true},
		"h1:7400": {false, true, true}, "10.0.0.1:7400": {false, true, true}, "h1": {}, "h1:": {}, "": {},
	} {
		for i, s := range []*Security{once, twice, secured} {
			if err := s.CheckAddress(address); (err == nil) != ok[i] {
				t.Errorf("%q: %v", address, err)
			}
		}
	}
	far := &fakeConn{local: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	if err := once.checkEnds(far); err == nil || twice.checkEnds(far) != nil || secured.checkEnds(far) != nil {
		t.Errorf("away from the loopback: %v", err)
	}
}

type fakeConn struct {
	net.Conn
	local, remote net.Addr
}

func (c *fakeConn) LocalAddr() net.Addr  { return c.local }
func (c *fakeConn) RemoteAddr() net.Addr { return c.remote }

// Connections that don't show what they are, as many as may wait and more, in front of the port and behind it: one
// that does is served at once, and those that don't are closed.
func TestManyWaiting(t *testing.T) {
	t.Parallel()
	firsts := []string{string(preamble(run)), "disc", ""}
	if testing.Short() {
		firsts = firsts[:1]
	}
	for _, first := range firsts {
		s := secure(t)
		served := make(chan struct{}, 1)
		l := newLink(t, s, func(c session.Conn, h session.Hello) error {
			served <- struct{}{}
			session.Refuse(c, errors.New("enough"))
			return nil
		})
		var idle []net.Conn
		for range waitingMax + 10 {
			c, err := net.Dial("tcp", l.address())
			if err == nil {
				_, err = io.WriteString(c, first)
			}
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
		hello(t, l, s)
		<-served
		for _, c := range idle {
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%q: a connection that says nothing is still open", first)
			}
			_ = c.Close()
		}
		if n := len(l.reports()); n < waitingMax {
			t.Errorf("%q: %d reports", first, n)
		}
	}
}

// hello dials and sends one that parses.
func hello(t *testing.T, l *link, s *Security) {
	t.Helper()
	cfg := config(0, 1)
	cfg.Dial = (&Dialer{Address: l.address(), Run: run, Security: s}).Dial
	a := newSide(t, cfg)
	eventually(t, "an answer", func() bool { return a.Err() != nil })
	holds(t, a.Err(), "enough")
	a.Close("")
}

// Whoever has a certificate and sends without end before a session has taken it is read so far and no further, and
// closed.
func TestMuchBeforeHello(t *testing.T) {
	t.Parallel()
	s := secure(t)
	l := newLink(t, s, nil)
	raw, err := net.Dial("tcp", l.address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err = raw.Write(preamble(run)); err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, s.id.Client("127.0.0.1"))
	if _, err = c.Write(http2Preface()); err != nil {
		t.Fatal(err)
	}
	_ = raw.SetWriteDeadline(time.Now().Add(20 * time.Second))
	for pings := bytes.Repeat(http2Frame(ping, 1, 0, make([]byte, 8)...), 100); err == nil; { // they have no window
		_, err = c.Write(pings)
	}
	if strings.Contains(err.Error(), "timeout") {
		t.Error("the connection is still open")
	}
}

// A peer that speaks gRPC and sends what no session may: messages that are too large, by what they say or when they
// are decompressed, no hello, and two streams. Each is refused before memory is taken for it.
func TestHostileMessages(t *testing.T) {
	prefix := func(compressed byte, size int, body ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(size)), body...)
	}
	bomb := []byte{markCompress, 0xff, 0xff, 0xff, 0x7f, 0} // of s2: decodes to 256 MiB
	zeros := bytes.Repeat([]byte{0}, messageBytesMax+1)
	z, err := newZstd()
	if err != nil {
		t.Fatal(err)
	}
	zbomb := mark(z, nil, zeros)
	for _, c := range []struct {
		name, encoding string
		data           []byte
		want           string
	}{
		{"huge", "", prefix(0, 1<<31-1), "larger than max"},
		{"above the largest", "", prefix(0, messageBytesMax+markBytes+1), "larger than max"},
		{"no hello", "", prefix(0, 3, 1, 2, 3), "no hello"},
		{"empty", "", prefix(0, 0), "no hello"},
		{"bomb of s2", "disco-s2", prefix(1, len(bomb), bomb...), "after decompression"},
		{"bomb of zstd", "disco-zstd", prefix(1, len(zbomb), zbomb...), "size"},
		{"no mark", "disco-s2", prefix(1, 0), "no mark"},
		{"another mark", "disco-zstd", prefix(1, 2, 7, 7), "no mark"},
		{"broken", "disco-zstd", prefix(1, 4, markCompress, 1, 2, 3), "zstd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLink(t, plain(t), nil)
			conn := rawStream(t, l, c.encoding)
			defer conn.Close()
			for data := c.data; len(data) > 0; {
				n := min(len(data), 16<<10)
				if _, err := conn.Write(http2Frame(0, 0, 1, data[:n]...)); err != nil {
					break // it has been refused already
				}
				data = data[n:]
			}
			eventually(t, "a report", func() bool { return len(l.reports()) > 0 })
			holds(t, l.lastReport(), c.want)
		})
	}
}

// Types of HTTP/2 frames, which have little else in common with ours.
const (
	headersFrame, endHeaders = 1, 4
	resetFrame               = 3
	settingsFrame            = 4
	ping                     = 6
)

func http2Frame(kind, flags byte, stream uint32, body ...byte) []byte {
	b := []byte{byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), body...)
}

func http2Preface() []byte {
	return append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), http2Frame(settingsFrame, 0, 0)...)
}

// rawStream opens a stream without gRPC.
func rawStream(t testing.TB, l *link, compression string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.address())
	if err == nil {
		_, err = c.Write(slices.Concat(preamble(run), http2Preface(),
			http2Frame(headersFrame, endHeaders, 1, headers(compression)...)))
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	return c
}

// headers are those of a stream, each as a literal without an index.
func headers(compression string) (b []byte) {
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"grpc-encoding", compression}} {
		if f[1] != "" {
			b = append(append(b, 0, byte(len(f[0]))), f[0]...)
			b = append(append(b, byte(len(f[1]))), f[1]...)
		}
	}
	return b
}

// A connection has one stream.
func TestOneStream(t *testing.T) {
	t.Parallel()
	l := newLink(t, plain(t), nil)
	c := rawStream(t, l, "")
	defer c.Close()
	if _, err := c.Write(http2Frame(resetFrame, 0, 1, 0, 0, 0, 8)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first stream's end", func() bool { return len(l.reports()) == 1 })
	_, err := c.Write(http2Frame(headersFrame, endHeaders, 3, headers("")...))
	for err == nil { // until it is closed
		time.Sleep(10 * time.Millisecond)
		_, err = c.Write(http2Frame(ping, 0, 0, make([]byte, 8)...))
	}
	if n := len(l.reports()); n != 1 {
		t.Errorf("%d reports", n)
	}
}

// Connections that aren't for a run are the agent's own, with all their bytes; those that nobody accepts are closed.
func TestOwnConnections(t *testing.T) {
	t.Parallel()
	l := newLink(t, plain(t), nil)
	for range 2 {
		c, err := net.Dial("tcp", l.address())
		if err == nil {
			_, err = io.WriteString(c, "PRI * HTTP/2.0")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if own, err := l.port.Accept(); err != nil {
			t.Fatal(err)
		} else if b, err := readN(own, 14); err != nil || string(b) != "PRI * HTTP/2.0" {
			t.Errorf("%q, %v", b, err)
		} else if err = own.Close(); err != nil {
			t.Error(err)
		}
	}
	c, err := net.Dial("tcp", l.address())
	if err == nil {
		_, err = io.WriteString(c, "nobody accepts me")
	}
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = io.Copy(io.Discard, c)
	}
	if err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error(err)
	}
	eventually(t, "a report", func() bool { return len(l.reports()) > 0 })
	holds(t, l.lastReport(), "the agent has taken no connection")
	if err := l.port.Add(run, l.agent); err == nil {
		t.Error("a run is added twice")
	}
}

func readN(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

// What may stand in front of TLS, and what an agent may send.
func TestHandedOver(t *testing.T) {
	for change, want := range map[int]string{4: "version", 7: "version", 24: "byte 24", 31: "byte 24"} {
		b := preamble(run)
		b[change]++
		_, err := parsePreamble(b)
		holds(t, err, want)
	}
	if got, err := parsePreamble(preamble(run)); err != nil || got != run {
		t.Errorf("%x, %v", got, err)
	}
	agent, bridge := sockets(t)
	h := Handed(bridge)
	defer h.Close()
	one, two := sockets(t)
	defer one.Close()
	defer two.Close()
	f, err := one.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	for _, c := range []struct {
		bytes int
		fds   []int
	}{{32, nil}, {31, []int{fd}}, {33, []int{fd}}, {32, []int{fd, fd}}, {32, []int{fd, fd, fd, fd, fd, fd}}} {
		var rights []byte
		if c.fds != nil {
			rights = unix.UnixRights(c.fds...)
		}
		if _, _, err := agent.WriteMsgUnix(make([]byte, c.bytes), rights, nil); err != nil {
			t.Fatal(err)
		}
		_, err := h.Accept()
		holds(t, err, "from the agent")
	}
	if _, _, err := agent.WriteMsgUnix(make([]byte, 32), unix.UnixRights(fd), nil); err != nil {
		t.Fatal(err)
	}
	if c, err := h.Accept(); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	_ = agent.Close()
	if _, err := h.Accept(); !errors.Is(err, io.EOF) {
		t.Errorf("after the agent's end: %v", err)
	}
}

// A bridge that takes nothing off its socket doesn't hold the port.
func TestBridgeStuck(t *testing.T) {
	t.Parallel()
	var l link
	p := Split(listen(t), l.report)
	defer p.Close()
	agent, bridge := sockets(t)
	defer agent.Close()
	defer bridge.Close()
	if err := p.Add(run, agent); err != nil {
		t.Fatal(err)
	}
	var all []net.Conn
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	stuck := func() bool {
		return slices.ContainsFunc(l.reports(), func(err error) bool {
			return strings.Contains(err.Error(), "its bridge takes no connections")
		})
	}
	for !stuck() && len(all) < 2000 {
		c, err := net.Dial("tcp", p.Addr().String())
		if err == nil {
			_, err = c.Write(preamble(run))
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	eventually(t, "a report", stuck)
}

func compressors() (all []encoding.Compressor) {
	for _, c := range []Compression{S2, Zstd} {
		all = append(all, encoding.GetCompressor(c.name()))
	}
	return all
}

// What is compressed comes back as it was, with one byte more where it can't be compressed.
func TestCompression(t *testing.T) {
	random := make([]byte, messageBytesMax)
	for i, x := 0, uint64(1); i < len(random); i++ {
		x = x*6364136223846793005 + 1442695040888963407
		random[i] = byte(x >> 33)
	}
	for _, c := range compressors() {
		for _, m := range [][]byte{{1}, bytes.Repeat([]byte("ab"), 1000), random, make([]byte, messageBytesMax),
			random[:999]} {
			var b bytes.Buffer
			w, err := c.Compress(&b)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Write(m[:len(m)/2])
			_, err2 := w.Write(m[len(m)/2:])
			if err = errors.Join(err, err2, w.Close()); err != nil || b.Len() > len(m)+markBytes {
				t.Fatalf("%s: %d bytes become %d: %v", c.Name(), len(m), b.Len(), err)
			}
			got, err := decompressed(c, b.Bytes())
			if err != nil || !bytes.Equal(got, m) {
				t.Errorf("%s: %d bytes become %d: %v", c.Name(), len(m), len(got), err)
			}
		}
	}
	for name, want := range map[string]Compression{"none": None, "s2": S2, "zstd": Zstd, "auto": Auto} {
		if got, err := ParseCompression(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err := ParseCompression("gzip")
	holds(t, err, "none, s2, zstd or auto")
}

func decompressed(c encoding.Compressor, b []byte) ([]byte, error) {
	r, err := c.Decompress(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.(io.Closer).Close())
}

// FuzzDecompress is what a peer may send before it has been taken: it gives an error, or no more than one message.
func FuzzDecompress(f *testing.F) {
	z, err := newZstd()
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range []block{s2Block{}, z} {
		f.Add(mark(b, nil, bytes.Repeat([]byte("abc"), 100)))
		f.Add(mark(b, nil, make([]byte, messageBytesMax+1)))
	}
	all := compressors()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range all {
			got, err := decompressed(c, b)
			if err == nil && len(got) > messageBytesMax {
				t.Errorf("%s: %d bytes", c.Name(), len(got))
			}
		}
	})
}

// FuzzSplitter is what may stand in front of TLS: whatever comes, no run but its own gets the connection, and all
// bytes of what isn't for a run stay.
func FuzzSplitter(f *testing.F) {
	f.Add(preamble(run))
	f.Add([]byte("disc"))
	f.Add([]byte("\x16\x03\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		there, here := net.Pipe()
		var refused error
		p := &Splitter{refused: func(err error) { refused = err }, own: make(chan net.Conn, 1),
			closing: make(chan struct{}), runs: map[[16]byte]*hand{}}
		go func() {
			_, _ = there.Write(b)
			_ = there.Close()
		}()
		p.one(here)
		select {
		case c := <-p.own:
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, b) || bytes.HasPrefix(b, []byte(preambleMagic)) {
				t.Errorf("the agent gets %q of %q: %v", got, b, err)
			}
			_ = c.Close()
		default:
			if refused == nil && len(b) >= len(preambleMagic) {
				t.Errorf("%q is nobody's, and nothing is reported", b)
			}
		}
		p.waiting.mu.Lock()
		defer p.waiting.mu.Unlock()
		if len(p.waiting.all) > 0 {
			t.Error("it still waits")
		}
	})
}

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// FuzzServer is what may come instead of a hello on a connection in plain text, where anybody reaches HTTP/2: no
// session gets to see it, and nothing is left of it. With TLS nobody does without a certificate.
func FuzzServer(f *testing.F) {
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	s := Serve(p, ServerConfig{Security: &Security{anywhere: true}, Refused: func(error) {},
		Accept: func(c session.Conn, h session.Hello) error {
			if h.Cluster != "" {
				session.Refuse(c, errNone)
				return nil
			}
			c.Close()
			return errNone
		}})
	f.Cleanup(func() { _ = s.Close() })
	open := slices.Concat(http2Preface(), http2Frame(headersFrame, endHeaders, 1, headers("disco-s2")...))
	f.Add([]byte("GET / HTTP/1.1"))
	f.Add(open)
	f.Add(slices.Concat(open, http2Frame(0, 0, 1, 0, 0, 0, 0, 2, 1, 2)))
	f.Add(slices.Concat(open, http2Frame(0, 1, 1, 1, 0, 0, 0, 3, 0, 2, 3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		here, there := net.Pipe()
		p.conns <- there
		go func() { _, _ = io.Copy(io.Discard, here) }()
		_, _ = here.Write(b)
		_ = here.Close()
		for i := 0; ; i++ {
			s.waiting.mu.Lock()
			n := len(s.waiting.all)
			s.waiting.mu.Unlock()
			if n < waitingMax/2 {
				return
			}
			if i > 20_000 {
				t.Fatalf("%d connections still wait", n)
			}
			time.Sleep(time.Millisecond)
		}
	})
}
