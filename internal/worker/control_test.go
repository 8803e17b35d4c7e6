// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// messages are one of each type, every field of which is set.
func messages(t testing.TB) (all []*Message) {
	t.Helper()
	for kind := TypeSetup; int(kind) < len(typeNames); kind++ {
		m := &Message{Type: kind}
		fields := reflect.ValueOf(m).Elem()
		for i := 1; i < fields.NumField(); i++ {
			if name := fields.Type().Field(i).Name; strings.EqualFold(name, kind.String()) {
				wiretest.Fill(t, fields.Field(i).Addr().Interface())
			}
		}
		if p := m.Results; p != nil { // ids that rise, and a report of each kind
			*p = Results{}
			p.add(3, 1<<63, nil)
			p.add(4, 5, []byte{})
			p.add(1<<32-1, 6, []byte("abc"))
		}
		if p := m.Spans; p != nil { // in order
			*p = spans.Report{States: []spans.Span{{Begin: 3, End: 5, Kind: spans.OnPeer, Count: 1, Arg: 2},
				{Begin: 5, End: 9, Count: 7, Nanos: [spans.Sorts]int64{1, 2, 0, 1}}},
				Sleeps:  []spans.Span{{Begin: 4, End: 4, Kind: spans.Parked, Count: 1}},
				Runs:    []spans.Span{{Begin: 0, End: 9, Kind: spans.Replication, Count: 1, Arg: 3}},
				Samples: []spans.Sample{{At: 1, Epoch: 2.5, Events: 3, Pending: 4}, {At: 1}}}
		}
		if p := m.Stored; p != nil { // of a chunk in a spool
			for i := range p.Chunks {
				p.Chunks[i].From, p.Chunks[i].Pack = 0, checkpoint.Pack{}
			}
		}
		all = append(all, m)
	}
	return all
}

// Who joins lanes learns from the messages that it passes on when they begin anew.
func TestBeginsAnew(t *testing.T) {
	for _, m := range append(messages(t), &Message{Type: TypeLeg, Leg: &Leg{Until: 1}}) {
		var b bytes.Buffer
		if err := WriteMessage(&b, m); err != nil {
			t.Fatal(err)
		}
		want := m.Type == TypePrepare || m.Type == TypeLeg && m.Leg.Moved
		if got := BeginsAnew(m.Type, b.Bytes()[HeadBytes:]); got != want {
			t.Errorf("%v: %v, want %v", m.Type, got, want)
		}
	}
}

// Every field of every message travels, and what follows a frame is left alone.
func TestEveryFieldTravels(t *testing.T) {
	for _, want := range messages(t) {
		var b bytes.Buffer
		for range 2 {
			if err := WriteMessage(&b, want); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			got, err := ReadMessage(&b)
			if err == nil && got.Results != nil {
				got.Results.frame = nil
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: %+v, %v; want %+v", want.Type, got, err, want)
			}
		}
		if _, err := ReadMessage(&b); err != io.EOF {
			t.Fatalf("after the last frame: %v, want io.EOF itself", err)
		}
	}
}

// A report that isn't there is not one of no bytes.
func TestMissingReport(t *testing.T) {
	var b bytes.Buffer
	var p Results
	p.add(1, 7, nil)
	p.add(2, 8, []byte{})
	p.add(9, 9, []byte("abc"))
	if err := WriteMessage(&b, &Message{Type: TypeResults, Results: &p}); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMessage(&b)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = m.Results.Each(func(id uint32, hash uint64, report []byte) error {
		got = append(got, fmt.Sprintf("%d %d %q %v", id, hash, report, report == nil))
		return nil
	})
	if want := []string{`1 7 "" true`, `2 8 "" false`, `9 9 "abc" false`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestBadFrames(t *testing.T) {
	frame := func(n uint32, version, kind byte, body string) []byte {
		return append(append(binary.LittleEndian.AppendUint32(nil, n), version, kind, 0, 0), body...)
	}
	for _, c := range []struct {
		name, want string
		bytes      []byte
	}{
		{"too long", "frame of 1073741825 bytes, want at most 1073741824", frame(MessageMax+1, 1, 3, "")},
		{"another version", "frame of version 2, want 1", frame(0, 2, 3, "")},
		{"spare bytes", "frame with 1 in its spare bytes", []byte{0, 0, 0, 0, 1, 3, 1, 0}},
		{"cut short", "frame of 9 bytes was cut short", frame(9, 1, 3, "{}")},
		{"cut in the header", "unexpected EOF", []byte{1, 0}},
		{"no such type", "message type 99: byte 0: found no such type, want 1 to 25", frame(0, 1, 99, "")},
		{"type 0", "message type 0: byte 0: found no such type", frame(0, 1, 0, "")},
		{"bytes behind", "message go: byte 0: found 2 bytes behind the last field", frame(2, 1, byte(TypeGo), "ab")},
		{"no body", "message limit: byte 0: found 0 bytes, want 8", frame(0, 1, byte(TypeLimit), "")},
		{"a long text", "message failed: byte 4: found a length of 16777215, want at most 1: 1 bytes are left", frame(5,
			1, byte(TypeFailed), "\xff\xff\xff\x00a")},
		{"a report twice", "found the results of simproc 7, want those of 8 or a later one", resultsFrame(t, Results{
			Simprocs: []uint32{7, 7}, Hashes: []uint64{1, 1}, Sizes: []uint32{2, 2}, Data: []byte{1, 2}})},
		{"a hash too few", "found 2 simprocs with 1 hashes and 2 reports", resultsFrame(t, Results{
			Simprocs: []uint32{7, 8}, Hashes: []uint64{1}, Sizes: []uint32{2, 2}, Data: []byte{1, 2}})},
		{"a size too few", "found 2 simprocs with 2 hashes and 1 reports", resultsFrame(t, Results{
			Simprocs: []uint32{7, 8}, Hashes: []uint64{1, 1}, Sizes: []uint32{3}, Data: []byte{1, 2}})},
		{"a byte too few", "found 2 bytes for reports that have 3", resultsFrame(t, Results{
			Simprocs: []uint32{7, 8}, Hashes: []uint64{1, 1}, Sizes: []uint32{2, 3}, Data: []byte{1, 2}})},
		{"a byte too many", "found 2 bytes for reports that have 0", resultsFrame(t, Results{
			Simprocs: []uint32{7, 8}, Hashes: []uint64{1, 1}, Sizes: []uint32{1, 0}, Data: []byte{1, 2}})},
	} {
		_, err := ReadMessage(bytes.NewReader(c.bytes))
		if err == nil || !strings.Contains(err.Error(), c.want) || err == io.EOF {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := WriteMessage(io.Discard, &Message{Type: TypeDone}); err == nil || !strings.Contains(err.Error(),
		"message done: it has no body") {
		t.Errorf("a message without its body: %v", err)
	}
}

func resultsFrame(t *testing.T, p Results) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteMessage(&b, &Message{Type: TypeResults, Results: &p}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Results that were released give their memory to the next ones, and nothing else: what is shorter, longer or wrong
// there is read as in fresh memory.
func TestReleasedResults(t *testing.T) {
	for _, n := range []int{3, 700, 1, 0, 2000, 3 * frameStep, 5} {
		var p Results
		for id := range n {
			p.add(node.SimprocID(2*id), uint64(n+id), bytes.Repeat([]byte{byte(n)}, id%3))
		}
		m, err := ReadMessage(bytes.NewReader(resultsFrame(t, p)))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Results; !slices.Equal(got.Simprocs, p.Simprocs) || !slices.Equal(got.Hashes, p.Hashes) ||
			!slices.Equal(got.Sizes, p.Sizes) || !bytes.Equal(got.Data, p.Data) {
			t.Errorf("%d simprocs: others were read than written", n)
		}
		m.Results.Release()
		p.Sizes = append(p.Sizes, 1)
		if _, err := ReadMessage(bytes.NewReader(resultsFrame(t, p))); err == nil {
			t.Errorf("%d simprocs: a size too many was read", n)
		}
	}
}

// A frame of any length comes whole, however little of it the stream gives at a time.
func TestLongFrames(t *testing.T) {
	for _, n := range []int{0, 1, frameStep - 5, frameStep - 4, frameStep - 3, 2 * frameStep, 5*frameStep + 17} {
		want := &Message{Type: TypeFailed, Failed: &Failed{Error: strings.Repeat("x", n)}}
		var b bytes.Buffer
		if err := WriteMessage(&b, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadMessage(iotest.HalfReader(&b)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A frame that says it is long and isn't costs what has come of it.
func TestLongFrameThatIsShort(t *testing.T) {
	in := append(binary.LittleEndian.AppendUint32(nil, MessageMax), frameVersion, byte(TypeDone), 0, 0, 1)
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

// What can be read is what was written: every message has one frame.
func FuzzReadMessage(f *testing.F) {
	for _, m := range messages(f) {
		var b bytes.Buffer
		if err := WriteMessage(&b, m); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte{255, 255, 255, 0, frameVersion, byte(TypeDone), 0, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:min(len(in), 1<<12)]
		m, err := ReadMessage(bytes.NewReader(in))
		if (m == nil) == (err == nil) {
			t.Fatalf("%v, %v", m, err)
		}
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteMessage(&b, m); err != nil || !bytes.HasPrefix(in, b.Bytes()) {
			t.Fatalf("%x was read, and is written as %x (%v)", in, b.Bytes(), err)
		}
	})
}

const endless = "model: ring\nnodes: 4\nlookahead: 0.5\nhorizon: 1e12\n"

// Both workers stop at one time, though one was ahead of the other.
func TestStop(t *testing.T) {
	for _, in := range []string{IngressDuty, IngressGoroutine} {
		c := newRunner(t, endless, []int32{0, 1, 0, 1}, 2, Tuning{Ingress: in}, 1)
		c.sendAll(&Message{Type: TypePrepare, Prepare: &Prepare{}})
		c.receive(TypeReady)
		c.sendAll(&Message{Type: TypeGo})
		// Stopped in the middle, as its board shows.
		for c.count(0, NumberEvents) < 1000 {
			time.Sleep(time.Millisecond)
		}
		c.sendAll(&Message{Type: TypeStop})
		front := 0.0
		for w, m := range c.receive(TypeStopped) {
			if s := m.Stopped; s == nil || !s.Handled || s.Epoch <= 0 {
				t.Fatalf("worker %d: stopped at %+v, want a time > 0", w, s)
			}
			front = max(front, m.Stopped.Epoch)
			if state := c.count(w, NumberState); state != StatePaused {
				t.Errorf("worker %d is stopped, and its board says that it is %s", w, StateName(state))
			}
		}
		limit := math.Nextafter(front, math.Inf(1))
		c.sendAll(&Message{Type: TypeLimit, Limit: &Limit{Epoch: limit}})
		for w, m := range c.receive(TypeDone) {
			if d := m.Done; !d.Interrupted || d.Reached != limit || c.reported[w] != 4 || d.Events == 0 {
				t.Errorf("worker %d: interrupted %v at %v with %d reports after %d events, want it at %v", w,
					d.Interrupted, d.Reached, c.reported[w], d.Events, limit)
			}
		}
		c.end()
	}
}

func (c *runner) count(w int, name string) uint64 {
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
		c := newRunner(t, endless, []int32{0, 1, 0, 1}, 2, Tuning{}, 1)
		if running {
			c.sendAll(&Message{Type: TypePrepare, Prepare: &Prepare{}})
			c.receive(TypeReady)
			c.sendAll(&Message{Type: TypeGo})
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
	c := newRunner(t, "model: ring\nnodes: 4\nlookahead: 0.5\nfail: 5\nhorizon: 1e12\n", []int32{0, 1, 0, 1}, 2,
		Tuning{}, 1)
	c.sendAll(&Message{Type: TypePrepare, Prepare: &Prepare{}})
	c.receive(TypeReady)
	c.sendAll(&Message{Type: TypeGo})
	m, err := ReadMessage(c.ctl[1]) // n1 is here
	if err != nil || m.Type != TypeFailed || !strings.Contains(m.Failed.Error, "n1/up") ||
		!strings.Contains(m.Failed.Error, "told to fail") {
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
	kinds, err := scenario.NewRegistry(ringKind)
	if err != nil {
		t.Fatal(err)
	}
	type asked struct {
		Setup
		Input
	}
	const text = "model: ring\nnodes: 2\n"
	input := testInput(t, kinds, text, []int32{0, 1}, 2)
	good := func() *asked {
		return &asked{Setup{Workers: 2}, Input{File: "t.yml", Text: []byte(text), Placed: input.Placed}}
	}
	for _, c := range []struct {
		name, want string
		change     func(*asked)
	}{
		{"no workers", "worker 0 of 0", func(s *asked) { s.Workers = 0 }},
		{"too many", "worker 0 of 65, want at most 64", func(s *asked) { s.Workers = 65 }},
		{"worker outside", "worker 2 of 2", func(s *asked) { s.Worker = 2 }},
		{"negative worker", "worker -1 of 2", func(s *asked) { s.Worker = -1 }},
		{"no placed graph", "graph is missing", func(s *asked) { s.Placed = nil }},
		{"placed elsewhere", "placed on 3 workers, want 2", func(s *asked) {
			s.Placed = testInput(t, kinds, text, []int32{0, 2}, 3).Placed
		}},
		{"bad text", "t.yml:2:1", func(s *asked) { s.Text = []byte("model: ring\nnoodles: 2\n") }},
		{"unknown kind", "t.yml:1:8", func(s *asked) { s.Text = []byte("model: zoo\n") }},
		{"bad ring", "ring of 1000 bytes, want a power of two", func(s *asked) { s.Tuning.RingBytes = 1000 }},
		{"bad wait", "waiting mode", func(s *asked) { s.Tuning.Wait = "pray" }},
		{"bad ingress", `ingress "thread"`, func(s *asked) { s.Tuning.Ingress = "thread" }},
		{"large inline", "payloads up to 1048576 bytes inside", func(s *asked) { s.Tuning.InlineMax = 1 << 20 }},
		{"behind fewer than none", "behind -1 workers", func(s *asked) { s.First = -1 }},
		{"no segments", "segment", func(*asked) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			setup := good()
			c.change(setup)
			ours, theirs := net.Pipe()
			defer ours.Close()
			errs := make(chan error, 1)
			go func() {
				errs <- Serve(theirs, kinds, func(*Setup) (Segments, Files, error) {
					return Segments{Input: &setup.Input}, Files{}, nil
				})
			}()
			if err := WriteMessage(ours, &Message{Type: TypeSetup, Setup: &setup.Setup}); err != nil {
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
	for _, first := range []MessageType{TypeGo, TypeReady, TypeStopped} {
		c := newRunner(t, endless, []int32{0, 0, 0, 0}, 1, Tuning{}, 1)
		c.send(0, &Message{Type: first, Stopped: &Stopped{}})
		m, err := ReadMessage(c.ctl[0])
		if err != nil || m.Type != TypeFailed {
			t.Errorf("%v first: %+v, %v; want an error", first, m, err)
		}
		if <-c.errs == nil {
			t.Errorf("%v first: Serve returned no error", first)
		}
	}
}
