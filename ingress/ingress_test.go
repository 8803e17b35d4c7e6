// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

func event(number, size int) *envelope.Event {
	return &envelope.Event{Epoch: float64(number), Number: uint64(number), Target: 1, Sender: 2, Data: make([]byte,
		size)}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// isEnd fails unless err is the end of the lane from a peer.
func isEnd(t *testing.T, what string, err, kind error, peer int) {
	t.Helper()
	var pe *lane.PeerError
	if !errors.Is(err, kind) || !errors.As(err, &pe) || pe.Peer != peer {
		t.Errorf("%s: %v, want %v of worker %d", what, err, kind, peer)
	}
}

// raw puts bytes into a lane as one record.
func raw(t testing.TB, to *ring.Producer, record []byte) {
	t.Helper()
	rec, err := to.Claim(len(record))
	must(t, err)
	copy(rec, record)
	to.Commit()
	to.Publish()
}

// poll polls once and fails on an error.
func (w *way) poll(t testing.TB, s Sink) int {
	t.Helper()
	n, err := w.in.Poll(s)
	must(t, err)
	return n
}

func TestBadConfigs(t *testing.T) {
	mem := empty(t, lane.Config{RingBytes: 128})
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Lanes: make([]Source, LanesMax+1)}, "4095 lanes, at most 4094"},
		{Config{Lanes: []Source{{Peer: -1, Lane: mem}}}, "worker -1"},
		{Config{Lanes: []Source{{Peer: peerMax + 1, Lane: mem}}}, "worker 1048577"},
		{Config{Lanes: []Source{{Peer: 2, Lane: mem}, {Peer: 2, Lane: mem}}},
			"lane 1 comes from worker 2, want 0 to 1048576, each once"},
		{Config{Lanes: []Source{{Peer: 3}}}, "from worker 3, has no memory"},
		{Config{RecordsMax: -1}, "-1 records"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.HasPrefix(err.Error(), "ingress: ") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
		}
	}
	in, err := New(Config{})
	must(t, err)
	if n, err := in.Poll(&sink{}); n != 0 || err != nil {
		t.Errorf("an ingress without lanes: %d, %v", n, err)
	}
}

// empty is a new lane.
func empty(t testing.TB, cfg lane.Config) []byte {
	t.Helper()
	size, err := lane.Size(cfg)
	must(t, err)
	mem := aligned.Bytes(size, lane.Alignment)
	must(t, lane.Format(mem, cfg))
	return mem
}

// A Poll after a Look that has found a record, when the look before found nothing, takes this record only. Bounds come
// after their events all the same, and nothing is left behind.
func TestPollAfterLook(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 8192}, inline: 1000, publish: 1, bell: true}.open(t)
	s := &sink{}
	for i := 1; i < 600; i++ {
		if w.in.Look() {
			t.Fatalf("event %d: found before it was sent", i)
		}
		must(t, w.out.TrySendNow(event(i, i%200)))
		must(t, w.out.TrySendNow(event(i+1000, 8)))
		must(t, w.out.Promise(float64(i), 1))
		if n := look(t, w, s); n == 0 || s.event.Number != uint64(i) && s.event.Number != uint64(i+1000) {
			t.Fatalf("event %d: %d, %v", i, n, &s.event)
		}
		for w.poll(t, s) != 0 {
		}
		if s.event.Number != uint64(i+1000) || s.epoch != float64(i) || s.events != 2*i || s.bounds != i {
			t.Fatalf("event %d: %v, bound %v, %d events, %d bounds", i, &s.event, s.epoch, s.events, s.bounds)
		}
	}
}

// look polls after a look that must have found something.
func look(t testing.TB, w *way, s *sink) int {
	t.Helper()
	if !w.in.Look() {
		t.Fatal("nothing found")
	}
	return w.poll(t, s)
}

// After a look at nothing, one that finds a record makes Poll take that one; without it Poll takes all.
func TestPollAfterLookTakesOne(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 8192}, inline: 1000, publish: 1}.open(t)
	s := &sink{}
	two := func(from int) {
		must(t, w.out.TrySendNow(event(from, 8)))
		must(t, w.out.TrySendNow(event(from+1, 8)))
	}
	w.in.Look()
	two(1)
	if n := look(t, w, s); n != 1 || s.event.Number != 1 {
		t.Fatalf("%d, %v, want event 1 alone", n, &s.event)
	}
	two(3)
	if n := look(t, w, s); n != 3 || s.event.Number != 4 {
		t.Errorf("%d, %v, want all three, because no look has found all lanes empty", n, &s.event)
	}
	w.in.Look()
	w.in.Pause(0, true)
	two(5)
	if n := look(t, w, s); n != 0 {
		t.Errorf("%d from a paused lane", n)
	}
	w.in.Pause(0, false)
	s.err = errors.New("not this one")
	for w.in.Look(); !w.in.Look(); {
	}
	_, err := w.in.Poll(s)
	isEnd(t, "refused", err, ErrRefused, 0)
	if n, err := w.in.Poll(s); n != 0 || err != nil {
		t.Errorf("the same end again: %d, %v", n, err)
	}
}

// Two sides that answer one another, asleep or spinning in between: each event wakes its receiver. A lost wake-up would
// end a sleep by its timeout.
func TestAnswersWakeTheirReceiver(t *testing.T) {
	trips := 5000
	if race.Enabled {
		trips = 1000
	}
	for _, mode := range []shm.Mode{shm.ModePark, shm.ModeAdaptive} {
		var lanes [2][]byte
		var bells [2]*shm.Doorbell
		for i := range lanes {
			lanes[i] = empty(t, lane.Config{RingBytes: 8192})
			var err error
			bells[i], err = shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes))
			must(t, err)
		}
		failed := make(chan error, 1)
		for side := range lanes {
			out, err := egress.New(egress.Config{
				Peer: 1 - side, Lane: lanes[side], Bell: bells[1-side], InlineMax: 1000, PublishRecords: 1,
				Wait: func() error { return errors.New("no room") },
			})
			must(t, err)
			in, err := New(Config{Lanes: []Source{{Peer: 1 - side, Lane: lanes[1-side], Bell: bells[1-side]}}})
			must(t, err)
			wait, err := shm.NewWaiter(shm.WaiterConfig{Bell: bells[side], Mode: mode, ParkMax: time.Minute})
			must(t, err)
			if side == 0 {
				go func() { failed <- answer(out, in, wait, trips, true) }()
			} else if err := answer(out, in, wait, trips, false); err != nil {
				t.Fatalf("%v: %v", mode, err)
			}
		}
		if err := <-failed; err != nil {
			t.Fatalf("%v: %v", mode, err)
		}
	}
}

// answer sends an event for each that comes, first or last.
func answer(out *egress.Egress, in *Ingress, wait *shm.Waiter, trips int, first bool) error {
	s := &sink{}
	for i := 1; i <= trips; i++ {
		for turn := range 2 {
			if first == (turn == 0) {
				if err := out.TrySendNow(event(i, i*7%250)); err != nil {
					return err
				}
				continue
			}
			for s.events < i {
				for n := wait.Looks(); n > 0 && !in.Look(); n-- {
					wait.Missed()
				}
				work, err := in.Poll(s)
				if err != nil || work > 1 {
					return fmt.Errorf("%d events at once: %w", work, err)
				}
				wait.Idle(work > 0)
			}
			if s.event.Number != uint64(i) || len(s.data) != i*7%250 {
				return fmt.Errorf("event %d: %v with %d bytes", i, &s.event, len(s.data))
			}
		}
	}
	if st := wait.Stats(); st.Timeouts != 0 {
		return fmt.Errorf("%d sleeps ended by their timeout", st.Timeouts)
	}
	return nil
}

// A sink that refuses what a look has found, and a record that is no envelope, end the lane, once.
func TestEndAfterLook(t *testing.T) {
	for _, kind := range []error{ErrProtocol, ErrRefused} {
		w := setup{lane: lane.Config{RingBytes: 4096}, noEgress: true}.open(t)
		s := &sink{}
		record := []byte{77}
		if kind == ErrRefused {
			s.err = errors.New("not this one")
			ev := event(1, 8)
			record = make([]byte, ev.Size())
			ev.EncodeInline(record)
		}
		w.in.Look()
		raw(t, w.ring, record)
		if !w.in.Look() {
			t.Fatal("nothing found")
		}
		_, err := w.in.Poll(s)
		isEnd(t, "after a look", err, kind, 0)
		if n, err := w.in.Poll(s); n != 0 || err != nil {
			t.Errorf("the same end again: %d, %v", n, err)
		}
	}
}

// Every kind of envelope comes with all of its fields, and is counted.
func TestReceives(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 4096}, inline: 100, blocks: []shm.BlockSize{{BlockBytes: 1000,
		Count: 2}}}.open(t)
	s := &sink{}
	small := event(3, 50)
	small.Headers, small.Data[49] = []byte("some"), 7
	must(t, w.out.TrySend(small))
	if w.in.Look() {
		t.Error("a look at what was not flushed")
	}
	must(t, w.out.Flush())
	if !w.in.Look() {
		t.Error("no look at what was flushed")
	}
	if n := w.poll(t, s); n != 1 || s.event.Number != 3 || s.event.Epoch != 3 || s.event.Target != 1 ||
		s.event.Sender != 2 || string(s.data) != string(small.Data) || s.lease != 0 {
		t.Errorf("%d: %v, lease %d", n, &s.event, s.lease)
	}
	large := event(4, 900)
	large.Data[899] = 9
	must(t, w.out.TrySend(large))
	must(t, w.out.SendPromise(&envelope.Promise{Epoch: 5, Seqnr: 1, NumEvents: 2, Level: 3, Target: 4, Sender: 6}))
	must(t, w.out.Promise(4.5, 8))
	if !w.in.Look() {
		t.Error("no look at a bound")
	}
	if n := w.poll(t, s); n != 3 || s.event.Number != 4 || string(s.data) != string(large.Data) || s.event.InBlock ||
		s.event.Block != (envelope.BlockRef{}) || s.lease == 0 {
		t.Errorf("%d: %v, lease %d", n, &s.event, s.lease)
	}
	if s.promise != (envelope.Promise{Epoch: 5, Seqnr: 1, NumEvents: 2, Level: 3, Target: 4, Sender: 6}) ||
		s.epoch != 4.5 || s.level != 8 {
		t.Errorf("%v, bound (%v, %d)", &s.promise, s.epoch, s.level)
	}
	if got, want := w.in.Stats(), (Stats{Events: 2, Promises: 1, Bounds: 1, Bytes: 950, Blocks: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	must(t, w.in.Release(s.lease))
	must(t, w.in.Release(0))
	if n := w.poll(t, s); n != 0 {
		t.Errorf("%d envelopes that nobody sent", n)
	}
}

// A poll takes at most RecordsMax records from a lane, and the bound behind the rest
// waits with it, also while newer ones come.
func TestPollIsLimited(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 4096}, inline: 100, records: 4}.open(t)
	s := &sink{}
	for n := range 10 {
		must(t, w.out.TrySend(event(n, 10)))
		must(t, w.out.Promise(float64(n+1), 0))
	}
	for i, want := range []struct{ events, bounds int }{{4, 0}, {8, 0}, {10, 1}} {
		w.poll(t, s)
		if s.events != want.events || s.bounds != want.bounds {
			t.Errorf("after %d polls %d events and %d bounds, want %+v", i+1, s.events, s.bounds, want)
		}
		must(t, w.out.Promise(float64(20+i), 0)) // newer, and at the same position
	}
	if s.epoch != 10 {
		t.Errorf("bound %v, want that of the slot when it was first looked at: 10", s.epoch)
	}
	w.poll(t, s)
	if s.epoch != 22 {
		t.Errorf("bound %v, want the newest: 22", s.epoch)
	}
}

// many are three lanes to one ingress, from the workers 4, 0 and 9.
func many(t testing.TB) (in *Ingress, senders map[int]*ring.Producer) {
	t.Helper()
	senders = map[int]*ring.Producer{}
	var sources []Source
	for _, peer := range []int{4, 0, 9} {
		mem := empty(t, lane.Config{RingBytes: 1024})
		senders[peer] = producer(t, mem)
		sources = append(sources, Source{Peer: peer, Lane: mem})
	}
	in, err := New(Config{Lanes: sources})
	must(t, err)
	return in, senders
}

func encoded(ev *envelope.Event) []byte {
	rec := make([]byte, ev.Size())
	ev.Encode(rec)
	return rec
}

// Of several lanes that end at once each end is reported once, and the lanes that are left
// are polled all the same.
func TestEndsAreReportedOnce(t *testing.T) {
	in, senders := many(t)
	s := &sink{}
	raw(t, senders[4], []byte("damage"))
	raw(t, senders[0], encoded(event(0, 5)))
	senders[0].Close()
	raw(t, senders[9], encoded(event(0, 5)))
	n, err := in.Poll(s)
	isEnd(t, "damage", err, ErrProtocol, 4)
	if n != 2 || s.events != 2 {
		t.Errorf("%d envelopes, %d events, want the two of the other lanes", n, s.events)
	}
	raw(t, senders[9], encoded(event(1, 5)))
	n, err = in.Poll(s)
	isEnd(t, "closed", err, ErrClosed, 0)
	if n != 1 {
		t.Errorf("%d envelopes beside the end, want 1", n)
	}
	if n, err := in.Poll(s); n != 0 || err != nil {
		t.Errorf("everything was reported: %d, %v", n, err)
	}
	isEnd(t, "Err", in.Err(4), ErrProtocol, 4)
	isEnd(t, "Err", in.Err(0), ErrClosed, 0)
	if in.Err(9) != nil {
		t.Errorf("lane that is well: %v", in.Err(9))
	}
	if !senders[4].ConsumerClosed() || senders[9].ConsumerClosed() {
		t.Error("a broken lane is closed, and no other one")
	}
}

func TestPollPeer(t *testing.T) {
	in, senders := many(t)
	s := &sink{}
	for _, sender := range senders {
		raw(t, sender, encoded(event(0, 5)))
	}
	if n, err := in.PollPeer(s, 9); n != 1 || err != nil || s.events != 1 {
		t.Errorf("%d, %v", n, err)
	}
	senders[9].Close()
	_, err := in.PollPeer(s, 9)
	isEnd(t, "closed", err, ErrClosed, 9)
	if n, err := in.PollPeer(s, 9); n != 0 || err != nil {
		t.Errorf("reported already: %d, %v", n, err)
	}
	if n, err := in.Poll(s); n != 2 || err != nil {
		t.Errorf("the other lanes: %d, %v", n, err)
	}
}

func TestMisusePanics(t *testing.T) {
	in, senders := many(t)
	s := &sink{}
	for _, peer := range []int{-1, 1, 10} {
		mustPanic(t, "unknown peer", func() { in.Pause(peer, true) })
		mustPanic(t, "unknown peer", func() { in.PeerDead(peer) })
		mustPanic(t, "unknown peer", func() { _, _ = in.PollPeer(s, peer) })
	}
	raw(t, senders[4], encoded(event(0, 5)))
	s.onto = func(*envelope.Event, uint64) error {
		mustPanic(t, "poll within a sink", func() { _, _ = in.Poll(s) })
		mustPanic(t, "poll within a sink", func() { _, _ = in.PollPeer(s, 0) })
		mustPanic(t, "reset within a sink", func() { _ = in.Reset() })
		in.Pause(0, true)
		return nil
	}
	if n, err := in.Poll(s); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A closed ingress hands nothing on, and its peers know.
func TestClose(t *testing.T) {
	in, senders := many(t)
	raw(t, senders[4], encoded(event(0, 5)))
	in.Close()
	in.Close()
	s := &sink{}
	if n, err := in.Poll(s); n != 0 || err != nil || s.events != 0 {
		t.Errorf("%d, %v, %d events", n, err, s.events)
	}
	for peer, sender := range senders {
		if !sender.ConsumerClosed() {
			t.Errorf("worker %d doesn't know", peer)
		}
		isEnd(t, "Err", in.Err(peer), ErrClosed, peer)
	}
}

// The peer that sleeps until there is room is woken: once a quarter of the ring has
// been given back, and when nothing is left to do; not for every record.
func TestBellForRoom(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 4096}, inline: 100, bell: true, records: 1}.open(t)
	s := &sink{}
	const record = 32 + 96 + 8
	for n := range 20 {
		must(t, w.out.TrySend(event(n, 96)))
	}
	must(t, w.out.Flush())
	since := 0
	for n := range 20 {
		w.bell.Arm()
		if got := w.poll(t, s); got != 1 {
			t.Fatalf("poll %d: %d records", n, got)
		}
		since += record
		if want := since >= 1024; w.bell.Armed() == want {
			t.Errorf("poll %d: rung %v with %d bytes since the last time, want %v", n, !want, since, want)
		}
		if !w.bell.Armed() {
			since = 0
		}
	}
	w.bell.Arm()
	if w.poll(t, s); w.bell.Armed() {
		t.Error("not rung when there was time for it")
	}
	w.bell.Arm()
	if w.poll(t, s); !w.bell.Armed() {
		t.Error("rung although nothing was given back")
	}
	if got := w.in.Stats().Bells; got != 3 {
		t.Errorf("%d looks at the bell, want 2 for quarters and 1 at the end", got)
	}
}

// What the sink refuses ends the lane, and the refused event's lease with it.
func TestRefusedLease(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 4096}, inline: 100, blocks: []shm.BlockSize{{BlockBytes: 1000,
		Count: 2}}}.open(t)
	s := &sink{err: errors.New("no")}
	must(t, w.out.TrySend(event(0, 500)))
	must(t, w.out.Flush())
	_, err := w.in.Poll(s)
	isEnd(t, "refused", err, ErrRefused, 0)
	if !errors.Is(err, s.err) || w.in.Leases(0) != 0 {
		t.Errorf("%v, %d leases", err, w.in.Leases(0))
	}
	mustPanic(t, "lease of a refused event", func() { _ = w.in.Release(s.lease) })
	if n := w.out.Reclaim(); n != 1 {
		t.Errorf("%d blocks to reclaim, want 1", n)
	}
}

func TestNothingAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of the checked build allocate")
	}
	w := setup{lane: lane.Config{RingBytes: 4096}, inline: 100, bell: true, blocks: []shm.BlockSize{{BlockBytes: 1000,
		Count: 2}}}.open(t)
	s := &sink{data: make([]byte, 1000)}
	var failed error
	s.onto = func(_ *envelope.Event, lease uint64) error { return w.in.Release(lease) }
	small, large, epoch := event(0, 90), event(1, 900), 0.0
	if n := testing.AllocsPerRun(200, func() {
		epoch++
		for _, err := range []error{w.out.TrySend(small), w.out.TrySend(large), w.out.SendPromise(&s.promise),
			w.out.Promise(epoch, 0)} {
			failed = errors.Join(failed, err)
		}
		n, err := w.in.Poll(s)
		if failed = errors.Join(failed, err); n != 4 {
			failed = errors.New("poll came short")
		}
	}); n != 0 || failed != nil {
		t.Errorf("%v allocations, error %v", n, failed)
	}
}
