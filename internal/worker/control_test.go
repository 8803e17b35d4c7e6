// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/scenario"
)

func TestMessagesRoundTrip(t *testing.T) {
	want := &Message{Type: TypeDone, Done: &Done{Reached: 12.5, Events: 7, Hashes: []SimprocHash{{3, 1<<64 - 1}}, Parts: map[uint32][]byte{3: {0, 255}}}}
	var b bytes.Buffer
	for range 2 {
		if err := WriteMessage(&b, want); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		got, err := ReadMessage(&b)
		if err != nil {
			t.Fatal(err)
		}
		if got.Type != TypeDone || got.Done.Reached != 12.5 || got.Done.Hashes[0] != want.Done.Hashes[0] || !bytes.Equal(got.Done.Parts[3], want.Done.Parts[3]) {
			t.Fatalf("%+v", got.Done)
		}
	}
	if _, err := ReadMessage(&b); err != io.EOF {
		t.Fatalf("after the last frame: %v, want io.EOF itself", err)
	}
}

func TestBadFrames(t *testing.T) {
	frame := func(n uint32, body string) []byte { return append(binary.LittleEndian.AppendUint32(nil, n), body...) }
	for _, c := range []struct {
		name, want string
		bytes      []byte
	}{
		{"empty frame", "frame of 0 bytes, want 1 to 1073741824", frame(0, "")},
		{"too long", "frame of 1073741825 bytes, want 1 to 1073741824", frame(MessageMax+1, "")},
		{"cut short", "frame of 9 bytes was cut short", frame(9, "{}")},
		{"cut in the length", "unexpected EOF", []byte{1, 0}},
		{"not JSON", "frame of 3 bytes: invalid character", frame(3, "\x00\xff{")},
	} {
		_, err := ReadMessage(bytes.NewReader(c.bytes))
		if err == nil || !strings.Contains(err.Error(), c.want) || err == io.EOF {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A frame that says it is long and isn't costs what has come of it.
func TestLongFrameThatIsShort(t *testing.T) {
	in := append(binary.LittleEndian.AppendUint32(nil, MessageMax), '{')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ReadMessage(bytes.NewReader(in)); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("%v", err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes of memory for a frame of which one byte came", took)
	}
}

func FuzzReadMessage(f *testing.F) {
	var b bytes.Buffer
	if err := WriteMessage(&b, &Message{Type: TypeGo}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{255, 255, 255, 0, '{'})
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := ReadMessage(bytes.NewReader(in[:min(len(in), 1<<12)]))
		if (m == nil) == (err == nil) {
			t.Fatalf("%v, %v", m, err)
		}
	})
}

const endless = "model: ring\nnodes: 4\nlookahead: 0.5\nhorizon: 1e12\n"

// Both workers stop at one time, though one was ahead of the other.
func TestStop(t *testing.T) {
	for _, in := range []string{IngressDuty, IngressGoroutine} {
		c := newCrew(t, endless, []int32{0, 1, 0, 1}, 2, Tuning{Ingress: in}, 1)
		c.sayAll(&Message{Type: TypePrepare, Prepare: &Prepare{}})
		c.hear(TypeReady)
		c.sayAll(&Message{Type: TypeGo})
		// Stopped in the middle, as its board shows.
		for c.count(0, NumberEvents) < 1000 {
			time.Sleep(time.Millisecond)
		}
		c.sayAll(&Message{Type: TypeStop})
		front := 0.0
		for w, m := range c.hear(TypeStopped) {
			if s := m.Stopped; s == nil || !s.Handled || s.Epoch <= 0 {
				t.Fatalf("worker %d: stopped at %+v, want a time > 0", w, s)
			}
			front = max(front, m.Stopped.Epoch)
		}
		limit := math.Nextafter(front, math.Inf(1))
		c.sayAll(&Message{Type: TypeLimit, Limit: &Limit{Epoch: limit}})
		for w, m := range c.hear(TypeDone) {
			if d := m.Done; !d.Interrupted || d.Reached != limit || len(d.Parts) != 4 || d.Events == 0 {
				t.Errorf("worker %d: interrupted %v at %v with %d reports after %d events, want it at %v", w, d.Interrupted, d.Reached, len(d.Parts), d.Events, limit)
			}
		}
		c.end()
	}
}

func (c *crew) count(w int, name string) uint64 {
	c.t.Helper()
	values, err := Numbers(c.boards[w])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, v := range values {
		if v.Name == name {
			return v.Count
		}
	}
	c.t.Fatalf("no number %q among %v", name, values)
	return 0
}

func TestLauncherGone(t *testing.T) {
	for _, running := range []bool{false, true} {
		c := newCrew(t, endless, []int32{0, 1, 0, 1}, 2, Tuning{}, 1)
		if running {
			c.sayAll(&Message{Type: TypePrepare, Prepare: &Prepare{}})
			c.hear(TypeReady)
			c.sayAll(&Message{Type: TypeGo})
		}
		for _, ctl := range c.ctl {
			ctl.Close()
		}
		// Who ends first closes its lanes, and the other may see that first.
		a, b := <-c.errs, <-c.errs
		for _, err := range []error{a, b} {
			if !errors.Is(err, ErrLauncherGone) && !errors.Is(err, lane.ErrClosed) {
				t.Errorf("running %v: %v, want ErrLauncherGone or a closed lane", running, err)
			}
		}
		if !errors.Is(a, ErrLauncherGone) && !errors.Is(b, ErrLauncherGone) {
			t.Errorf("running %v: %v and %v, want one ErrLauncherGone", running, a, b)
		}
	}
}

// A handler's error is the worker's, with the simproc's name; the other worker doesn't
// hang, whatever it ends with.
func TestHandlerFails(t *testing.T) {
	c := newCrew(t, "model: ring\nnodes: 4\nlookahead: 0.5\nfail: 5\nhorizon: 1e12\n", []int32{0, 1, 0, 1}, 2, Tuning{}, 1)
	c.sayAll(&Message{Type: TypePrepare, Prepare: &Prepare{}})
	c.hear(TypeReady)
	c.sayAll(&Message{Type: TypeGo})
	m, err := ReadMessage(c.ctl[1]) // n1 is here
	if err != nil || m.Type != TypeFailed || !strings.Contains(m.Failed.Error, "n1/up") || !strings.Contains(m.Failed.Error, "told to fail") {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := <-c.errs; err == nil || errors.Is(err, ErrLauncherGone) {
		t.Errorf("the failing worker returned %v", err)
	}
	if m, err = ReadMessage(c.ctl[0]); err != nil || m.Type != TypeFailed {
		t.Fatalf("the other worker said %+v, %v", m, err)
	}
	if err := <-c.errs; err == nil {
		t.Error("the other worker ended without an error")
	}
}

func TestBadSetup(t *testing.T) {
	kinds, err := scenario.NewRegistry(ringKind{})
	if err != nil {
		t.Fatal(err)
	}
	good := func() *Setup {
		return &Setup{Workers: 2, File: "t.yml", Text: []byte("model: ring\nnodes: 2\n"), Placement: []int32{0, 1}}
	}
	for _, c := range []struct {
		name, want string
		change     func(*Setup)
	}{
		{"no workers", "worker 0 of 0", func(s *Setup) { s.Workers = 0 }},
		{"too many", "worker 0 of 65, want at most 64", func(s *Setup) { s.Workers = 65 }},
		{"worker outside", "worker 2 of 2", func(s *Setup) { s.Worker = 2 }},
		{"negative worker", "worker -1 of 2", func(s *Setup) { s.Worker = -1 }},
		{"short placement", "place", func(s *Setup) { s.Placement = []int32{0} }},
		{"placed outside", "place", func(s *Setup) { s.Placement = []int32{0, 2} }},
		{"bad text", "t.yml:2:1", func(s *Setup) { s.Text = []byte("model: ring\nnoodles: 2\n") }},
		{"unknown kind", "t.yml:1:8", func(s *Setup) { s.Text = []byte("model: zoo\n") }},
		{"bad ring", "ring of 1000 bytes, want a power of two", func(s *Setup) { s.Tuning.RingBytes = 1000 }},
		{"bad wait", "waiting mode", func(s *Setup) { s.Tuning.Wait = "pray" }},
		{"bad ingress", `ingress "thread"`, func(s *Setup) { s.Tuning.Ingress = "thread" }},
		{"large inline", "payloads up to 1048576 bytes inside", func(s *Setup) { s.Tuning.InlineMax = 1 << 20 }},
		{"no segments", "segment", func(*Setup) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			setup := good()
			c.change(setup)
			ours, theirs := net.Pipe()
			defer ours.Close()
			errs := make(chan error, 1)
			go func() {
				errs <- Serve(theirs, kinds, func(*Setup) (Segments, *os.File, error) { return Segments{}, nil, nil })
			}()
			if err := WriteMessage(ours, &Message{Type: TypeSetup, Setup: setup}); err != nil {
				t.Fatal(err)
			}
			m, err := ReadMessage(ours)
			if err != nil || m.Type != TypeFailed || !strings.Contains(m.Failed.Error, c.want) {
				t.Errorf("%+v, %v; want %q", m, err, c.want)
			}
			if err := <-errs; err == nil {
				t.Error("Serve returned no error")
			}
		})
	}
}

func TestMessagesOutOfPlace(t *testing.T) {
	for _, first := range []string{TypeGo, TypeReady, "hello"} {
		c := newCrew(t, endless, []int32{0, 0, 0, 0}, 1, Tuning{}, 1)
		c.say(0, &Message{Type: first})
		m, err := ReadMessage(c.ctl[0])
		if err != nil || m.Type != TypeFailed {
			t.Errorf("%q first: %+v, %v; want an error", first, m, err)
		}
		if <-c.errs == nil {
			t.Errorf("%q first: Serve returned no error", first)
		}
	}
}
