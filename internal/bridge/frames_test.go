// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/session"
)

// alone is a bridge of machine 0 to one machine, without sessions: frames are given to it one by one.
type alone struct {
	*peer
	in   *ingress.Ingress // of worker 0
	sink *anything
}

const aloneWindow, aloneRing = 2 << 10, 1 << 10

func newAlone(t testing.TB) *alone {
	t.Helper()
	o := linktest.Options{Workers: 2, RingBytes: aloneRing, Blocks: 2, BlockBytes: 512}
	m := &mesh{network: &network{t: t}, o: o}
	bell, pool := m.bell(), m.pool()
	out, in := m.lane(), m.lane()
	m.slots, m.jumps = m.segment(kindBell, idle.SlotBytes).Body(), m.segment(kindBell, idle.JumpBytes).Body()
	b := &Bridge{cfg: Config{Workers: []Worker{{Slot: m.slots, Bell: bell}}, Jump: m.jumps}, errs: make(chan error, 1),
		stop: make(chan struct{})}
	p, err := newPeer(b, &Peer{Machine: 1, First: 1, Workers: 1, Bell: bell})
	must(t, err)
	b.peers = []*peer{p}
	must(t, p.openOut(Lane{From: 0, To: 1, Machine: 1, Window: aloneWindow, Body: out, Bell: bell, Pool: m.pool()}))
	must(t, p.openIn(Lane{From: 1, To: 0, Machine: 1, Window: aloneWindow, Body: in, Bell: bell, Pool: pool}))
	must(t, b.openDetector())
	must(t, p.prepare())
	i, err := ingress.New(ingress.Config{Lanes: []ingress.Source{{Peer: 1, Lane: in, Pool: pool.Body(), Parts: true}}})
	must(t, err)
	return &alone{p, i, &anything{in: i}}
}

// take is what a session does with a frame whose type is on its stream.
func (a *alone) take(h session.Header, body []byte) error {
	if h.Type == session.Payload || h.Type == session.Credit && h.Number == 1 {
		return a.applyBulk(h, body)
	}
	return a.apply(h, body)
}

// anything takes what comes.
type anything struct {
	in     *ingress.Ingress
	events int
}

func (a *anything) ReceiveEvent(_ int, _ *envelope.Event, lease uint64) error {
	a.events++
	return a.in.Release(lease)
}

func (a *anything) ReceivePromise(int, *envelope.Promise) error { return nil }
func (a *anything) ReceiveBound(int, float64, uint32) error     { return nil }

// event is the record of an event; with total, one whose data come as a payload.
func event(size int, total uint32) []byte {
	ev := linktest.Event(1, 0, 1, make([]byte, size))
	if total > 0 {
		ev.Data, ev.Parts = nil, total
	}
	b := make([]byte, ev.Size())
	ev.Encode(b)
	return b
}

// records is the body of a frame with one record.
func records(h batch, rec []byte, payload uint32) []byte {
	b := make([]byte, batchHead+int(costOf(len(rec))))
	h.put(b)
	putRecord(b[batchHead:], len(rec), payload)
	copy(b[batchHead+recordHead:], rec)
	return b
}

func chunkOf(c chunk, bytes int) []byte {
	b := make([]byte, payloadHead+bytes)
	c.put(b)
	return b
}

func words(ws ...uint64) (b []byte) {
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

const toHere, toThere = 1 << 16, 1

func header(t session.Type) session.Header {
	return session.Header{Type: t, Number: 1, Lane: toHere, Begin: 1}
}

// Each has one thing wrong: the error says where, and what.
var badFrames = []struct {
	name   string
	header session.Header
	body   func() []byte
	want   string
}{
	{"no such lane", session.Header{Type: session.Records, Lane: 1<<16 + 7, Begin: 1},
		func() []byte { return nil }, "byte 24: found lane 1 to 7"},
	{"a lane the other way", session.Header{Type: session.Records, Lane: toThere, Begin: 1},
		func() []byte { return nil }, "byte 24: found lane 0 to 1"},
	{"a begin to come", session.Header{Type: session.Records, Lane: toHere, Begin: 2},
		func() []byte { return nil }, "byte 28: found begin 2, allowed: up to 1"},
	{"an unknown type", header(session.Control), func() []byte { return nil }, "byte 1: found type 3"},
	{"no batch", header(session.Records), func() []byte { return make([]byte, 23) }, "byte 32: found a body of 23"},
	{"more events than records", header(session.Records),
		func() []byte { return records(batch{records: 1, events: 2}, event(1, 0), 0) }, "byte 36: found 2 events"},
	{"an unknown flag", header(session.Records), func() []byte {
		b := records(batch{}, event(1, 0), 0)
		b[9] = 1
		return b
	}, "byte 40: found 0x100"},
	{"a bound of NaN", header(session.Records), func() []byte {
		b := make([]byte, batchHead)
		(&batch{bound: true, epoch: math.NaN()}).put(b)
		return b
	}, "byte 48: found epoch 0x7ff8"},
	{"a bound below zero", header(session.Records), func() []byte {
		b := make([]byte, batchHead)
		(&batch{bound: true, epoch: -1}).put(b)
		return b
	}, "byte 48: found epoch 0xbff0"},
	{"a bound without the flag", header(session.Records), func() []byte {
		b := make([]byte, batchHead)
		(&batch{level: 1}).put(b)
		return b
	}, "byte 44: found a bound"},
	{"a bound that falls", header(session.Records), func() []byte {
		b := make([]byte, batchHead)
		(&batch{bound: true, epoch: 2, level: 8}).put(b)
		return b
	}, "byte 44: found bound (2, 8), allowed: (3, 0) or more"},
	{"fewer records", header(session.Records),
		func() []byte { return records(batch{records: 2, events: 1}, event(1, 0), 0) },
		"found 0 bytes, allowed: a record"},
	{"more bytes", header(session.Records), func() []byte { return records(batch{}, event(1, 0), 0) },
		"more bytes behind 0 events"},
	{"other events", header(session.Records),
		func() []byte { return records(batch{records: 1}, event(1, 0), 0) }, "behind 1 events, allowed: none behind 0"},
	{"a record longer than the frame", header(session.Records), func() []byte {
		b := records(batch{records: 1, events: 1}, event(1, 0), 0)
		return b[:len(b)-8]
	}, "byte 56: found a record of 33, allowed: 32"},
	{"a record longer than the ring's", header(session.Records),
		func() []byte { return records(batch{records: 1, events: 1}, event(600, 0), 0) }, "allowed: 504 or less"},
	{"an endless record", header(session.Records), func() []byte {
		b := records(batch{records: 1, events: 1}, event(1, 0), 0)
		le.PutUint32(b[batchHead:], math.MaxUint32)
		return b
	}, "byte 56: found a record of 4294967295"},
	{"an empty record", header(session.Records),
		func() []byte { return records(batch{records: 1}, nil, 0) }, "byte 64: found a record of 0"},
	{"an unknown kind", header(session.Records),
		func() []byte { return records(batch{records: 1}, words(9), 0) }, "byte 64: found kind 9, allowed: 1 to 3"},
	{"a block's reference", header(session.Records), func() []byte {
		rec := event(1, 0)
		rec[1] = 1
		return records(batch{records: 1, events: 1}, rec, 0)
	}, "byte 64: found flags 1"},
	{"a promise with flags", header(session.Records),
		func() []byte { return records(batch{records: 1}, words(2|2<<8), 0) }, "byte 64: found flags 2"},
	{"a payload of an event that has none", header(session.Records),
		func() []byte { return records(batch{records: 1, events: 1}, event(1, 0), 1) }, "byte 64: found payload 1"},
	{"another payload's number", header(session.Records),
		func() []byte { return records(batch{records: 1, events: 1}, event(0, 7), 2) }, "found payload 2, allowed: 1"},
	{"an endless payload", header(session.Records), func() []byte {
		rec := event(0, 7)
		le.PutUint64(rec[len(rec)-8:], 1<<40)
		return records(batch{records: 1, events: 1}, rec, 1)
	}, "found a payload of 1099511627776"},
	{"payload 0", header(session.Payload), func() []byte { return chunkOf(chunk{0, 5, 0}, 5) },
		"byte 32: found payload 0"},
	{"a payload without bytes", header(session.Payload), func() []byte { return chunkOf(chunk{1, 5, 0}, 0) },
		"byte 32: found a body of 16"},
	{"a payload beyond its end", header(session.Payload), func() []byte { return chunkOf(chunk{1, 5, 0}, 6) },
		"byte 40: found 6 bytes at 0, allowed: up to 5"},
	{"a payload that wraps around", header(session.Payload),
		func() []byte { return chunkOf(chunk{1, 5, math.MaxUint32}, 2) }, "byte 40: found 2 bytes at 4294967295"},
	{"a total above all", header(session.Payload), func() []byte { return chunkOf(chunk{1, 1<<30 + 1, 0}, 2) },
		"byte 36: found total 1073741825"},
	{"a payload from its middle", header(session.Payload), func() []byte { return chunkOf(chunk{1, 9, 2}, 2) },
		"byte 32: found payload 1 at 2, allowed: 1 at 0"},
	{"a payload out of turn", header(session.Payload), func() []byte { return chunkOf(chunk{2, 9, 0}, 2) },
		"byte 32: found payload 2 at 0, allowed: 1 at 0"},
	{"half a credit", session.Header{Type: session.Credit}, func() []byte { return make([]byte, 17) },
		"byte 32: found a body of 17"},
	{"a credit for no lane", session.Header{Type: session.Credit}, func() []byte { return words(77, 1) },
		"byte 32: found lane 0x4d"},
	{"a credit beyond the window", session.Header{Type: session.Credit},
		func() []byte { return words(toThere, aloneWindow+1) }, "byte 40: found credit 2049, allowed: 2048 to 2048"},
	{"another one", session.Header{Type: session.Credit, Number: 1},
		func() []byte { return words(toThere, 1<<63) }, "byte 40: found credit 9223372036854775808"},
	{"half a status", session.Header{Type: session.Status}, func() []byte { return make([]byte, 41) },
		"byte 32: found a body of 41"},
	{"the status of a worker here", session.Header{Type: session.Status}, func() []byte { return make([]byte, 40) },
		"byte 32: found worker 0, allowed: 1 to 1"},
	{"a jump to the leader", session.Header{Type: session.Jump}, func() []byte { return make([]byte, 24) },
		"byte 1: found type 21"},
	{"a quiet cut short", session.Header{Type: session.Quiet}, func() []byte { return make([]byte, 24) },
		"byte 32: found idle: quiet of 24 bytes"},
}

func TestBadFrames(t *testing.T) {
	for _, c := range badFrames {
		a := newAlone(t)
		first := make([]byte, batchHead)
		(&batch{bound: true, epoch: 3}).put(first)
		must(t, a.take(header(session.Records), first))
		err := a.take(c.header, c.body())
		if bad := (*session.FrameError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A peer that sends more than was granted is refused before more is kept.
func TestOverdrawn(t *testing.T) {
	a := newAlone(t)
	one := records(batch{records: 1, events: 1}, event(200, 0), 0)
	var err error
	sent := 0
	for ; err == nil; sent += len(one) - batchHead {
		err = a.take(header(session.Records), one)
	}
	if bad := (*session.FrameError)(nil); !errors.As(err, &bad) || sent > aloneRing+aloneWindow+2*len(one) {
		t.Errorf("%v behind %d bytes", err, sent)
	}
	a = newAlone(t)
	err = a.take(header(session.Payload), chunkOf(chunk{1, 1 << 20, 0}, 1000)) // too long for a block
	for sent = 1000; err == nil; sent += 1000 {
		err = a.take(header(session.Payload), chunkOf(chunk{1, 1 << 20, uint32(sent)}, 1000))
	}
	if bad := (*session.FrameError)(nil); !errors.As(err, &bad) || sent > aloneWindow+2000 {
		t.Errorf("%v behind %d bytes", err, sent)
	}
}

// Frames from before lanes began anew are dropped, and take nothing of the window.
func TestOldFrames(t *testing.T) {
	a := newAlone(t)
	must(t, a.prepare())
	for range 100 {
		must(t, a.take(header(session.Records), records(batch{records: 1, events: 1}, event(200, 0), 0)))
		must(t, a.take(header(session.Payload), chunkOf(chunk{1, 5000, 7}, 1000)))
	}
	if n, err := a.in.Poll(a.sink); n != 0 || err != nil {
		t.Errorf("%d of them came: %v", n, err)
	}
}

// Whatever frames come, nothing but an error about one of them follows, what is kept is within the windows, and the
// worker's lane stays as it should be.
func FuzzFrames(f *testing.F) {
	add := func(frames ...[]byte) {
		var all []byte
		for i := 0; i < len(frames); i += 2 {
			all = append(all, frames[i][0], frames[i][1], byte(len(frames[i+1])), byte(len(frames[i+1])>>8))
			all = append(all, frames[i+1]...)
		}
		f.Add(all)
	}
	rec := records(batch{records: 1, events: 1, bound: true, epoch: 1}, event(20, 0), 0)
	add([]byte{1, 1}, rec, []byte{2, 1}, nil)
	add([]byte{1, 1}, records(batch{records: 1, events: 1}, event(0, 40), 1), []byte{5, 1},
		chunkOf(chunk{1, 40, 0}, 40))
	add([]byte{5, 1}, chunkOf(chunk{1, 900, 0}, 800), []byte{5, 1}, chunkOf(chunk{1, 900, 800}, 100), []byte{1, 1},
		records(batch{records: 1, events: 1}, event(0, 900), 1))
	add([]byte{18, 0}, words(toThere, 2000), []byte{18, 0}, words(toThere, shut), []byte{19, 0}, make([]byte, 40))
	add([]byte{20, 0}, words(0, 0, 2<<32, 0, 0, 0, 0), []byte{1, 0}, rec)
	for _, c := range badFrames {
		add([]byte{byte(c.header.Type), byte(c.header.Begin)}, c.body())
	}
	f.Fuzz(func(t *testing.T, all []byte) {
		a := newAlone(t)
		l := a.peer.in[0]
		for n := 0; len(all) >= 4; n++ {
			size := min(int(le.Uint16(all[2:])), len(all)-4)
			h := session.Header{Type: session.Type(all[0]), Lane: toHere, Number: uint64(all[1] >> 7),
				Begin: uint32(all[1] & 3)}
			body := all[4 : 4+size]
			all = all[4+size:]
			if err := a.take(h, body); err != nil {
				if bad := (*session.FrameError)(nil); !errors.As(err, &bad) {
					t.Fatalf("frame %d: %v", n, err)
				}
				return
			}
			kept := l.queue.len() + l.parts.bytes.len()
			if most := 2*aloneWindow + aloneWindow + 2*session.BodyBytesMax; kept > most {
				t.Fatalf("%d bytes are kept behind frame %d, at most %d", kept, n, most)
			}
			if n%2 == 1 {
				_, err := a.in.Poll(a.sink)
				if err != nil && !errors.Is(err, ingress.ErrClosed) && !errors.Is(err, ingress.ErrProtocol) {
					t.Fatal(err)
				}
				if _, err := a.drain(); err != nil && !errors.As(err, new(*session.FrameError)) {
					t.Fatal(err)
				}
			}
		}
		select {
		case err := <-a.b.errs:
			t.Fatal(err)
		default:
		}
	})
}

// TestRecordsThatChange: a worker that writes to a record again, at each moment behind its first look, changes bytes of
// what is sent, and nothing that the bridge goes by.
func TestRecordsThatChange(t *testing.T) {
	for what, change := range map[string]func(rec []byte){
		"its kind":           func(rec []byte) { rec[0] = byte(envelope.KindPart) },
		"its flags to block": func(rec []byte) { rec[1] = flagBlock },
		"its flags to parts": func(rec []byte) { rec[1] = flagParts },
		"its headers":        func(rec []byte) { binary.LittleEndian.PutUint16(rec[2:], math.MaxUint16) },
		"its length":         func(rec []byte) { binary.LittleEndian.PutUint32(rec[4:], 0) },
		"everything":         func(rec []byte) { clear(rec) },
	} {
		for _, size := range []int{100, payloadMost + 1} {
			a := newAlone(t)
			l := a.out[0]
			l.view = nil // no block can be sent on this lane
			rec := event(size, 0)
			must(t, l.hold(rec))
			n := l.size()
			change(rec)
			if again := l.size(); again != n || a.busy(l) {
				t.Errorf("%s of %d: it is %d bytes long, and was %d", what, size, again, n)
			}
			b := make([]byte, costOf(n))
			if events, err := a.copyRecord(l, n, b); events != 1 || err != nil {
				t.Errorf("%s of %d: %d events, %v", what, size, events, err)
			}
			if copied := l.jobs.copying(); copied != (size > payloadMost) {
				t.Errorf("%s of %d: its data go as a payload: %v", what, size, copied)
			}
		}
	}
}
