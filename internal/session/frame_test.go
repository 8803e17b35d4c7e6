// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// frameBytes makes a frame.
func frameBytes(h Header, body ...byte) []byte {
	b := make([]byte, HeaderBytes+len(body))
	h.put(b, len(body))
	copy(b[HeaderBytes:], body)
	return b
}

func TestParse(t *testing.T) {
	want := Header{Control, 5, 7, 3, 1<<16 + 2, 9}
	message := append(frameBytes(want, 1, 2, 3), frameBytes(Header{Type: Ping}, make([]byte, 8)...)...)
	h, body, rest, bad := parse(message, Express)
	if bad != nil || h != want || !bytes.Equal(body, []byte{1, 2, 3}) || len(rest) != HeaderBytes+8 {
		t.Fatalf("%+v %v, %d left, %v", h, body, len(rest), bad)
	}
	if h, body, rest, bad = parse(rest, Express); bad != nil || h.Type != Ping || len(body) != 8 || len(rest) != 0 {
		t.Fatalf("%+v %v, %d left, %v", h, body, len(rest), bad)
	}
}

// Each is a frame with one thing wrong, and what the error says of it.
var badFrames = []struct {
	name  string
	on    Stream
	bytes func() []byte
	want  []string
}{
	{"cut short", Express, func() []byte { return frameBytes(Header{Type: End, Number: 1})[:31] },
		[]string{"byte 31", "found 31 bytes", "allowed: a header of 32"}},
	{"version", Express, func() []byte { return changed(Header{Type: End, Number: 1}, 0, 2) },
		[]string{"frame 1", "byte 0", "found version 2", "allowed: 1"}},
	{"type", Express, func() []byte { return changed(Header{Type: End, Number: 1}, offsetType, 7) },
		[]string{"frame 1", "byte 1", "found type 7", "allowed: a type of express"}},
	{"type above all", Express, func() []byte { return changed(Header{Type: End, Number: 1}, offsetType, 255) },
		[]string{"frame 1", "byte 1", "found type 255", "allowed: a type of express"}},
	{"stream", Bulk, func() []byte { return frameBytes(Header{Type: Records, Number: 1}) },
		[]string{"bulk", "frame 1", "byte 1", "found type 1", "allowed: a type of bulk"}},
	{"set", Express, func() []byte { return frameBytes(Header{Type: Ping, Set: 5}, make([]byte, 8)...) },
		[]string{"frame 0", "byte 2", "found set 5", "allowed: 0"}},
	{"length beyond the message", Express,
		func() []byte { return changed(Header{Type: Control, Number: 1}, offsetLength, 1) },
		[]string{"frame 1", "byte 4", "found a body of 1", "allowed: 0, which are left"}},
	{"length of the type", Express, func() []byte { return frameBytes(Header{Type: End, Number: 1}, 1) },
		[]string{"frame 1", "byte 4", "found a body of 1", "allowed: 0 to 0"}},
	{"ping", Express, func() []byte { return frameBytes(Header{Type: Ping}, 1) },
		[]string{"frame 0", "byte 4", "found a body of 1", "allowed: 8 to 8"}},
	{"numbered state", Express, func() []byte { return frameBytes(Header{Type: Jump, Number: 1}) },
		[]string{"frame 1", "byte 8", "found number 1", "allowed: 0 for state frames"}},
	{"no number", Express, func() []byte { return frameBytes(Header{Type: End}) },
		[]string{"frame 0", "byte 8", "found number 0", "others from 1"}},
	{"ack", Express, func() []byte { return frameBytes(Header{Type: End, Number: 1, Ack: 5}) },
		[]string{"frame 1", "byte 16", "found ack 5", "allowed: 0 to 0"}},
	{"greeting", Express, func() []byte { return frameBytes(Header{Type: hello}, make([]byte, helloBytes)...) },
		[]string{"frame 0", "byte 1", "found type 64", "allowed: no greeting behind the first message"}},
	{"message", Express, func() []byte { return make([]byte, messageMax+1) },
		[]string{"frame 0", "byte 262176", "found a message of 262177 bytes", "allowed: 262176"}},
	{"applied", Express, func() []byte { return frameBytes(Header{Type: Control, Number: 1}, 'b', 'a', 'd') },
		[]string{"frame 1", "byte 33", "found x", "allowed: y"}},
}

func changed(h Header, at int, to byte) []byte {
	b := frameBytes(h)
	b[at] = to
	return b
}

// still is a session that is up, without goroutines.
func still(stream Stream, apply func(Header, []byte) error) *Session {
	s := &Session{cfg: Config{Self: 1, Peer: 3, Stream: stream, Apply: apply, Acked: func() {}},
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), done: make(chan struct{}), cancel: func() {}}
	s.m = newMachine(Hello{From: 1, To: 3, Stream: stream}, limits{1, ticks, 100, 1 << 20, true})
	s.m.dial()
	if err := s.m.up(&Hello{Attempt: 1, Identity: Identity{Incarnation: 1}}); err != nil {
		panic(err)
	}
	return s
}

// Every bad frame gives an error that names machine, stream, number, byte, found and allowed.
func TestBadFrames(t *testing.T) {
	for _, c := range badFrames {
		t.Run(c.name, func(t *testing.T) {
			s := still(c.on, func(h Header, body []byte) error {
				return badFrame(0, HeaderBytes+1, "x", "y")
			})
			_, err := s.take(c.bytes(), 1)
			var bad *FrameError
			if !errors.As(err, &bad) {
				t.Fatalf("found %v", err)
			}
			for _, part := range append(c.want, "machine 3", c.on.String()) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q isn't in %q", part, err)
				}
			}
		})
	}
}

// A gap cuts the connection; a second one at the same number, or the third within a window, is an error.
func TestGaps(t *testing.T) {
	s := still(Express, func(Header, []byte) error { return nil })
	m := &s.m
	take := func(number uint64) error {
		t.Helper()
		_, err := s.take(frameBytes(Header{Type: End, Number: number}), m.attempt)
		return err
	}
	again := func() {
		t.Helper()
		if m.state != Disconnected {
			t.Fatal("the gap doesn't cut")
		}
		m.dial()
		if err := m.up(&Hello{Attempt: m.attempt, Identity: Identity{Incarnation: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := uint64(1); i < gapsMax; i++ {
		if err := take(i + 1); err != nil {
			t.Fatal(err)
		}
		again()
		if err := take(i); err != nil || m.applied != i {
			t.Fatal(err, m.applied)
		}
	}
	if err := take(gapsMax + 1); err == nil || !strings.Contains(err.Error(), "found number 4, allowed: 3") {
		t.Errorf("found %v", err)
	}
	m.gapAge = m.window
	m.tick(1)
	for i, want := range []bool{false, true} {
		if err := take(gapsMax + 1); (err != nil) != want {
			t.Errorf("gap %d at one number: %v", i, err)
		}
		if i == 0 {
			again()
		}
	}
}

func goodHello() Hello {
	return Hello{Stream: Bulk, From: -1, To: 5, Peer: 9, Attempt: 11, Applied: 12, Identity: Identity{Cluster: "c",
		Run: [16]byte{1}, Token: [32]byte{2}, Program: [32]byte{3}, Incarnation: 8}}
}

func TestHello(t *testing.T) {
	want := goodHello()
	b := make([]byte, HeaderBytes+helloBytes)
	want.greeting(hello, b)
	got, err := ParseHello(b)
	if err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	for at := range len(b) {
		worse := bytes.Clone(b)
		worse[at] ^= 1
		h, err := ParseHello(worse)
		inHeader := at >= offsetAck && at < HeaderBytes // which a hello doesn't use
		if (err == nil) != inHeader {
			t.Errorf("byte %d changed: %+v, %v", at, h, err)
		}
	}
	for n := range len(b) {
		if _, err := ParseHello(b[:n]); err == nil {
			t.Errorf("%d bytes are a hello", n)
		}
	}
}

// What doesn't fit is refused with its own code.
func TestHelloFits(t *testing.T) {
	own := goodHello()
	own.From, own.To, own.Incarnation = 5, -1, 9
	for _, c := range []struct {
		code   Code
		change func(*Hello)
	}{
		{CodeCluster, func(h *Hello) { h.Cluster = "d" }},
		{CodeRun, func(h *Hello) { h.Run[0]++ }},
		{CodeToken, func(h *Hello) { h.Token[31]++ }},
		{CodeMachine, func(h *Hello) { h.From = 2 }},
		{CodeMachine, func(h *Hello) { h.To = 2 }},
		{CodeMachine, func(h *Hello) { h.Stream = Express }},
		{CodeProgram, func(h *Hello) { h.Program[0]++ }},
		{CodeIncarnation, func(h *Hello) { h.Incarnation++ }},
		{CodeIncarnation, func(h *Hello) { h.Incarnation = 0 }},
		{CodeIncarnation, func(h *Hello) { h.Peer++ }},
	} {
		h := goodHello()
		c.change(&h)
		var no *refusal
		if err := h.fits(&own, 8); !errors.As(err, &no) || no.code != c.code {
			t.Errorf("found %v, want code %d", err, c.code)
		}
	}
	h := goodHello()
	if err := h.fits(&own, 8); err != nil {
		t.Error(err)
	}
}

func FuzzTake(f *testing.F) {
	for _, c := range badFrames {
		if b := c.bytes(); len(b) < 1<<10 {
			f.Add(b, c.on == Bulk)
		}
	}
	f.Add(append(frameBytes(Header{Type: Control, Number: 1}, 1),
		frameBytes(Header{Type: Ping}, 1, 2, 3, 4, 5, 6, 7, 8)...), false)
	f.Fuzz(func(t *testing.T, b []byte, bulk bool) {
		stream := Express
		if bulk {
			stream = Bulk
		}
		var last uint64
		s := still(stream, func(h Header, body []byte) error {
			if !h.Type.on(stream) || h.Type >= hello || len(body) > shapes[h.Type].most ||
				len(body) < shapes[h.Type].least {
				t.Fatalf("applied: %+v with %d bytes", h, len(body))
			}
			if h.Type.numbered() {
				if last++; h.Number != last {
					t.Fatalf("applied: number %d behind %d", h.Number, last-1)
				}
			}
			return nil
		})
		_, err := s.take(b, 1)
		if bad := (*FrameError)(nil); err != nil && (!errors.As(err, &bad) || bad.Machine != 3 || bad.Found == "") {
			t.Fatalf("found %v", err)
		}
		if s.m.applied != last {
			t.Fatalf("%d are counted of %d", s.m.applied, last)
		}
	})
}

func FuzzHello(f *testing.F) {
	good := goodHello()
	b := make([]byte, HeaderBytes+helloBytes)
	good.greeting(hello, b)
	f.Add(b, true)
	f.Add(b[:100], false)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		if sum && len(b) >= HeaderBytes+helloBytes { // one that the fuzzer wouldn't find
			body := b[HeaderBytes:]
			binary.LittleEndian.PutUint64(body[helloChecksumAt:], checksum(body))
		}
		h, err := ParseHello(b)
		if err != nil {
			var no *refusal
			if !errors.As(err, &no) || no.code < CodeFailed {
				t.Fatalf("found %v", err)
			}
			return
		}
		if len(h.Cluster) > clusterBytesMax {
			t.Fatalf("cluster of %d bytes", len(h.Cluster))
		}
		again := make([]byte, HeaderBytes+helloBytes)
		h.greeting(hello, again)
		if got, err := ParseHello(again); err != nil || got != h {
			t.Fatalf("%+v is %+v when sent, %v", h, got, err)
		}
		own := goodHello()
		_ = h.fits(&own, 1)
	})
}
