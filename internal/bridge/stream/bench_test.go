// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

const (
	benchRounds = 5
	benchTime   = 120 * time.Millisecond // of a round
)

// way is something that carries batches from one goroutine to another over the loopback, and answers back.
type way struct {
	name string
	send func(batch []byte) error // one batch
	back func(batch []byte) error // one the other way, by the goroutine of answer
	last func() error             // behind the last batch before somebody waits
	end  func()
	sent uint64

	arrived atomic.Uint64 // batches
	answer  chan struct{} // not nil: somebody waits for each of them
}

// arrive counts a batch.
func (w *way) arrive() {
	w.arrived.Add(1)
	if w.answer != nil {
		w.answer <- struct{}{}
	}
}

// result is one round of a way.
type result struct{ batches, allocations float64 }

// round sends batches for a while, and ends when all have arrived.
func (w *way) round(b *testing.B, batch []byte) result {
	var before, after runtime.MemStats
	first := w.sent
	runtime.ReadMemStats(&before)
	began := time.Now()
	for time.Since(began) < benchTime {
		for range max(1, 64<<10/len(batch)) {
			w.sent++
			if err := w.send(batch); err != nil {
				b.Fatalf("%s: %v", w.name, err)
			}
		}
	}
	if err := w.last(); err != nil {
		b.Fatalf("%s: %v", w.name, err)
	}
	for w.arrived.Load() < w.sent {
		runtime.Gosched()
	}
	took := time.Since(began).Seconds()
	runtime.ReadMemStats(&after)
	n := float64(w.sent - first)
	return result{n / took, float64(after.Mallocs-before.Mallocs) / n}
}

// BenchmarkRate measures what a session over a stream carries, beside a bare gRPC stream and a bare TCP connection,
// each with the same batches, copied once by the sender and lying in one piece at the receiver. Rounds are interleaved.
func BenchmarkRate(b *testing.B) {
	for _, secured := range []bool{false, true} {
		for _, size := range []int{64, 1 << 10, 8 << 10, 64<<10 - session.HeaderBytes, 1 << 20} {
			b.Run(fmt.Sprintf("tls=%v/bytes=%d", secured, size), func(b *testing.B) { benchRate(b, secured, size) })
		}
	}
}

func benchRate(b *testing.B, secured bool, size int) {
	b.StopTimer()
	s := plain(b)
	if secured {
		s = secure(b)
	}
	ways := []*way{sessionWay(b, s, size), grpcWay(b, s, size), tcpWay(b, s, size)}
	batch := make([]byte, size)
	for i := range batch {
		batch[i] = byte(i * 7)
	}
	results := make([][]result, len(ways))
	for i := range benchRounds + 1 { // the first one fills pools
		for j := range ways {
			j = (i + j) % len(ways)
			if r := ways[j].round(b, batch); i > 0 {
				results[j] = append(results[j], r)
			}
		}
	}
	report(b, ways, results, float64(size), "MB/s", 1e6)
}

// report writes medians and ranges, and the medians of the rounds' ratios.
func report(b *testing.B, ways []*way, results [][]result, per float64, unit string, scale float64) {
	for j, w := range ways {
		var figures, allocations, ratios []float64
		for i, r := range results[j] {
			figures = append(figures, r.batches*per/scale)
			allocations = append(allocations, r.allocations)
			ratios = append(ratios, results[0][i].batches/r.batches)
		}
		for _, f := range [][]float64{figures, allocations, ratios} {
			slices.Sort(f)
		}
		b.Logf("%-8s %10.4g %s (%.4g to %.4g), %.2f allocations a batch, session ÷ %s %.2f (%.2f to %.2f)", w.name,
			figures[benchRounds/2], unit, figures[0], figures[benchRounds-1], allocations[benchRounds/2], w.name,
			ratios[benchRounds/2], ratios[0], ratios[benchRounds-1])
		b.ReportMetric(figures[benchRounds/2], w.name+"-"+unit)
		w.end()
	}
	b.ReportMetric(0, "ns/op")
}

// sessionWay is two sessions over a stream. A batch above a message is several frames of 64 KiB.
func sessionWay(b *testing.B, s *Security, size int) *way {
	w := &way{name: "session", last: func() error { return nil }}
	got := 0
	cfg := config(1, 0)
	cfg.PeerTimeout, cfg.ResendBytes = 3*time.Second, 8<<20
	cfg.Apply = func(h session.Header, body []byte) error {
		if h.Number != 0 {
			if got += len(body); got >= size {
				got = 0
				w.arrive()
			}
		}
		return nil
	}
	y := newSide(b, cfg)
	l := newLink(b, s, func(c session.Conn, h session.Hello) error { return y.Accept(c, h) })
	cfg = config(0, 1)
	cfg.PeerTimeout, cfg.ResendBytes = 3*time.Second, 8<<20
	cfg.Dial = (&Dialer{Address: l.address(), Run: run, Security: s}).Dial
	cfg.Apply = func(h session.Header, body []byte) error {
		if h.Number != 0 {
			w.arrive()
		}
		return nil
	}
	x := newSide(b, cfg)
	w.send = func(batch []byte) error { return sendFrames(x, batch) }
	w.back = func(batch []byte) error { return sendFrames(y, batch) }
	w.end = func() {
		go y.Close("")
		x.Close("")
	}
	return w
}

// sendFrames sends one batch.
func sendFrames(s *side, batch []byte) error {
	for len(batch) > 0 {
		part := batch[:min(len(batch), session.MessageBytes-session.HeaderBytes)]
		body, ok := s.Frame(session.Header{Type: session.Control}, len(part))
		if !ok {
			if err := s.Flush(); err != nil {
				return err
			}
			<-s.acked
			continue
		}
		copy(body, part)
		batch = batch[len(part):]
	}
	return s.Flush()
}

// pooled are messages of the bare gRPC stream that are used again.
type pooled struct{ free sync.Pool }

func (p *pooled) Get(int) *[]byte { panic("not used") }
func (p *pooled) Put(b *[]byte)   { p.free.Put(b) }

// bareCodec passes bytes through: a *bareMessage.
type bareCodec struct{}

type bareMessage struct {
	pool *pooled
	data *[]byte // to be sent
	into []byte  // received
}

func (bareCodec) Name() string { return "bare" }

func (bareCodec) Marshal(v any) (mem.BufferSlice, error) {
	m := v.(*bareMessage)
	return mem.BufferSlice{mem.NewBuffer(m.data, m.pool)}, nil
}

func (bareCodec) Unmarshal(data mem.BufferSlice, v any) error {
	data.CopyTo(v.(*bareMessage).into)
	return nil
}

// grpcWay is a bare gRPC stream with the same settings. A batch is one message.
func grpcWay(b *testing.B, s *Security, size int) *way {
	w := &way{name: "gRPC", last: func() error { return nil }}
	l := listen(b)
	if s.id != nil {
		l = tls.NewListener(l, s.id.Server())
	}
	streams := make(chan grpc.ServerStream)
	server := grpc.NewServer(grpc.ForceServerCodecV2(bareCodec{}), grpc.MaxRecvMsgSize(2<<20),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.WriteBufferSize(writeBytes), grpc.ReadBufferSize(readBytes), grpc.WaitForHandlers(true),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			streams <- stream
			m := &bareMessage{into: make([]byte, size)}
			for {
				if err := stream.RecvMsg(m); err != nil {
					return nil
				}
				w.arrive()
			}
		}))
	go func() { _ = server.Serve(l) }()
	cc, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return bareDial(s, address)
		}), grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithWriteBufferSize(writeBytes), grpc.WithReadBufferSize(readBytes),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bareCodec{})))
	if err != nil {
		b.Fatal(err)
	}
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := cc.NewStream(context.Background(), both, method)
	if err != nil {
		b.Fatal(err)
	}
	other := <-streams
	sender := func(to grpcStream) func([]byte) error {
		p := &pooled{sync.Pool{New: func() any {
			own := make([]byte, max(size, smallBytes)) // gRPC pools nothing smaller
			return &own
		}}}
		m := &bareMessage{pool: p}
		return func(batch []byte) error {
			m.data = p.free.Get().(*[]byte)
			*m.data = (*m.data)[:copy((*m.data)[:cap(*m.data)], batch)]
			return to.SendMsg(m)
		}
	}
	w.send, w.back = sender(stream), sender(other)
	go func() {
		for m := (&bareMessage{into: make([]byte, size)}); stream.RecvMsg(m) == nil; {
			w.arrive()
		}
	}()
	w.end = func() {
		_ = cc.Close()
		server.Stop()
	}
	return w
}

func bareDial(s *Security, address string) (net.Conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil || s.id == nil {
		return c, err
	}
	return tls.Client(c, s.id.Client("127.0.0.1")), nil
}

// tcpWay is a bare connection: a batch is its length and its bytes, through buffers of 64 KiB, which are flushed when
// they are full, or when somebody waits.
func tcpWay(b *testing.B, s *Security, size int) *way {
	w := &way{name: "TCP"}
	l := listen(b)
	if s.id != nil {
		l = tls.NewListener(l, s.id.Server())
	}
	accepted := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			b.Error(err)
		}
		accepted <- c
	}()
	c, err := bareDial(s, l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	d := <-accepted
	read := func(c net.Conn) {
		r, into := bufio.NewReaderSize(c, 64<<10), make([]byte, size)
		var head [4]byte
		for {
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return
			}
			if _, err := io.ReadFull(r, into[:binary.LittleEndian.Uint32(head[:])]); err != nil {
				return
			}
			w.arrive()
		}
	}
	write := func(out *bufio.Writer) func([]byte) error {
		var head [4]byte
		return func(batch []byte) error {
			binary.LittleEndian.PutUint32(head[:], uint32(len(batch)))
			_, _ = out.Write(head[:])
			_, err := out.Write(batch)
			if w.answer != nil {
				err = out.Flush()
			}
			return err
		}
	}
	out := bufio.NewWriterSize(c, 64<<10)
	w.send, w.back, w.last = write(out), write(bufio.NewWriterSize(d, 64<<10)), out.Flush
	go read(c)
	go read(d)
	w.end = func() {
		_, _, _ = c.Close(), d.Close(), l.Close()
	}
	return w
}

// BenchmarkRoundTrip measures 64 bytes there and back. The other side answers from a goroutine of its own.
func BenchmarkRoundTrip(b *testing.B) {
	for _, secured := range []bool{false, true} {
		b.Run(fmt.Sprintf("tls=%v", secured), func(b *testing.B) {
			s := plain(b)
			if secured {
				s = secure(b)
			}
			ways := []*way{sessionWay(b, s, 64), grpcWay(b, s, 64), tcpWay(b, s, 64)}
			results := make([][]result, len(ways))
			for _, w := range ways {
				w.answer = make(chan struct{}, 1)
			}
			for i := range benchRounds + 1 {
				for j := range ways {
					j = (i + j) % len(ways)
					if r := ways[j].pingPong(b); i > 0 {
						results[j] = append(results[j], r)
					}
				}
			}
			for j := range results { // seconds of one, as a rate for report
				for i := range results[j] {
					results[j][i].batches = 1 / results[j][i].batches
				}
			}
			report(b, ways, results, 1, "µs", 1e-6)
		})
	}
}

func (w *way) pingPong(b *testing.B) result {
	batch, n := make([]byte, 64), 0
	began := time.Now()
	for ; time.Since(began) < benchTime; n++ {
		for _, send := range []func([]byte) error{w.send, w.back} {
			if err := send(batch); err != nil {
				b.Fatalf("%s: %v", w.name, err)
			}
			<-w.answer
		}
	}
	return result{batches: float64(n) / time.Since(began).Seconds()}
}
