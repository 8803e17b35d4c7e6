// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/race"
)

// These tests run the real producer and the real consumer as two coroutines that
// stop in front of every access to shared memory, and try the orders in which the
// accesses can follow each other: all of them for short scripts, random ones for
// long scripts.
//
// After every access two things hold. The consumer has seen exactly what was
// published up to then, whole and in order. And no two plain accesses, or a plain
// and an atomic one, meet on the same word unless an atomic store that was seen by
// an atomic load orders them: clocks are kept as the race detector keeps them. A
// program without such a race in any order of steps behaves on weakly ordered
// processors as it does here.

// Accesses that the scripts make themselves, beside those of the ring.
const (
	writeBody access = 100 + iota // the producer fills one word of a claimed record
	readBody                      // the consumer reads one word of a returned record
)

const (
	producerSide = 0
	consumerSide = 1
)

// step is one access that is about to be made.
type step struct {
	what access
	slot uint64
}

// clock is a vector clock of the two sides.
type clock [2]int

func (c *clock) join(o clock) { c[0], c[1] = max(c[0], o[0]), max(c[1], o[1]) }

// touches remembers the last accesses to one word.
type touches struct {
	wrote    int   // the producer's clock at its last plain store
	read     int   // the consumer's clock at its last plain load
	looked   int   // the consumer's clock at its last atomic load
	released clock // what the last atomic store carries; zero after a plain store
}

// scene is one run of two scripts.
type scene struct {
	p *Producer
	c *Consumer

	clocks   [2]clock
	words    []touches
	headWord clock

	committed [][]byte
	published int  // of the committed ones, visible to the consumer
	ended     bool // the end mark is visible
	closing   bool // the next publish is the end mark
	returned  int  // records that the consumer has got
	left      bool // the consumer has closed
	alone     int  // records that NextAlone returned
	taken     int  // records that PublishAlone took
	refused   int  // and that it didn't take
	spanned   int  // records that StageSpan took
	together  int  // records that NextSpan returned

	sawPublished int // published at the consumer's last look
	sawEnded     bool

	weak  access // canary: this store is treated as if it were a plain one
	fault error
}

// newScene is a ring whose lines are a quarter of it, so that they occur in short scripts.
func newScene(capacity int, start uint64) *scene {
	mem := aligned.Bytes(Size(capacity), Alignment)
	s := &scene{words: make([]touches, capacity/8), clocks: [2]clock{{1, 0}, {0, 1}}}
	err := Init(mem, Config{Start: start})
	if err == nil {
		s.p, err = OpenProducer(mem)
	}
	if err == nil {
		s.c, err = OpenConsumer(mem)
	}
	if err != nil {
		panic(err)
	}
	s.p.line = uint64(capacity / 4)
	s.c.line = s.p.line
	return s
}

func (s *scene) fail(format string, args ...any) {
	if s.fault == nil {
		s.fault = fmt.Errorf(format, args...)
	}
}

// account does the books for an access that is made now.
func (s *scene) account(side int, a step) {
	now := &s.clocks[side]
	now[side]++
	switch a.what {
	case writeBody, putBody, putHeader:
		s.plainStore(a, now)
	case publishHeader:
		if s.weak == publishHeader {
			s.plainStore(a, now)
		} else {
			w := &s.words[a.slot]
			if w.read > now[consumerSide] {
				s.fail("atomic store to slot %d races with a plain load", a.slot)
			}
			w.released = *now
		}
		s.published, s.ended = len(s.committed), s.closing
	case readBody, touchLine, loadHeader:
		w := &s.words[a.slot]
		if w.wrote > now[producerSide] {
			s.fail("load %d of slot %d races with a plain store", a.what, a.slot)
		}
		if a.what != loadHeader {
			w.read = now[consumerSide]
			return
		}
		w.looked = now[consumerSide]
		now.join(w.released)
		s.sawPublished, s.sawEnded = s.published, s.ended
	case storeHead:
		if s.weak != storeHead {
			s.headWord = *now
		}
	case loadHead:
		now.join(s.headWord)
	}
}

func (s *scene) plainStore(a step, now *clock) {
	w := &s.words[a.slot]
	if max(w.read, w.looked) > now[consumerSide] {
		s.fail("plain store %d to slot %d races with a load", a.what, a.slot)
	}
	w.wrote, w.released = now[producerSide], clock{}
}

// errKilled unwinds a coroutine that is not wanted any more.
var errKilled = errors.New("killed")

// actor runs a script so that it stops in front of each access.
func (s *scene) actor(side int, script string) (next func() (step, bool), stop func()) {
	return iter.Pull(func(yield func(step) bool) {
		defer func() {
			if r := recover(); r != nil && r != errKilled {
				s.fail("%v", r)
			}
		}()
		pause := func(what access, slot uint64) {
			if !yield(step{what, slot}) {
				panic(errKilled)
			}
			s.account(side, step{what, slot})
		}
		if side == producerSide {
			s.p.probe.before = pause
			s.produce(script, pause)
		} else {
			s.c.probe.before = pause
			s.consume(script, pause)
		}
	})
}

// produce: a digit claims that many words, fills and commits them; A to D stage that
// many words, from 0, and fill them; a claims one word and aborts; p publishes; e
// closes; P to S claim that many words, from 0, fill them and publish at once; W to Z publish four words and that many
// more, from 0, alone, or like P to S where the ring doesn't do it; T to V stage a span of that many records, from 2.
func (s *scene) produce(script string, pause func(access, uint64)) {
	for _, o := range script {
		switch {
		case o >= '0' && o <= '9':
			if buf, ok := s.place(s.p.Claim, int(o-'0')*8); ok {
				s.fill(buf, pause)
				s.p.Commit()
			}
		case o >= 'A' && o <= 'D':
			if buf, ok := s.place(s.p.Stage, int(o-'A')*8); ok {
				s.fill(buf, pause)
			}
		case o >= 'P' && o <= 'S':
			s.p.look = 0
			if buf, ok := s.place(s.p.Claim, int(o-'P')*8); ok {
				s.fill(buf, pause)
				s.p.PublishClaimed()
			}
		case o >= 'W' && o <= 'Z':
			s.produceAlone(32+int(o-'W')*8, pause)
		case o >= 'T' && o <= 'V':
			s.produceSpan(int(o-'T') + 2)
		case o == 'a':
			if buf, err := s.p.Claim(8); err == nil {
				pause(writeBody, s.slotOf(buf))
				buf[0] = 0xFF
				s.p.Abort()
			}
		case o == 'p':
			s.p.look = 0 // look each time, so that both answers occur
			s.p.Publish()
		case o == 'e':
			s.p.Publish()
			s.closing = true
			s.p.Close()
		}
	}
}

// produceAlone publishes n bytes as a caller of PublishAlone does.
func (s *scene) produceAlone(n int, pause func(access, uint64)) {
	body := pattern(n, uint64(len(s.committed))+1)
	s.committed = append(s.committed, body) // seen as soon as the header is stored
	if s.p.look = 1; publishAlone(s.p, body) {
		s.taken++
		return
	}
	s.committed = s.committed[:len(s.committed)-1]
	s.refused++
	s.p.look = 0
	if buf, ok := s.place(s.p.Claim, n); ok {
		s.fill(buf, pause)
		s.p.PublishClaimed()
	}
}

// produceSpan stages as many of some records as there is room for.
func (s *scene) produceSpan(count int) {
	var span []byte
	var bodies [][]byte
	for n := range count {
		bodies = append(bodies, pattern(min((n+1)%3*8, s.p.MaxRecord()), uint64(len(s.committed)+n)+1))
		span = append(binary.LittleEndian.AppendUint64(span, uint64(len(bodies[n]))), bodies[n]...)
	}
	size, records, err := s.p.StageSpan(span)
	if err != nil && err != ErrFull && err != ErrClosed && !errors.Is(err, ErrTooLarge) {
		s.fail("span: %v", err)
	}
	if want := len(span); (err == nil) != (size == want) || (err == nil) != (records == count) {
		s.fail("staged %d bytes of a span of %d, %d records of %d: %v", size, want, records, count, err)
	}
	s.committed = append(s.committed, bodies[:records]...)
	s.spanned += records
}

// place claims or stages a record of n bytes.
func (s *scene) place(take func(int) ([]byte, error), n int) (buf []byte, ok bool) {
	buf, err := take(n)
	if err != nil && err != ErrFull && err != ErrClosed && !errors.Is(err, ErrTooLarge) {
		s.fail("claim: %v", err)
	}
	return buf, err == nil
}

func (s *scene) fill(buf []byte, pause func(access, uint64)) {
	body := pattern(len(buf), uint64(len(s.committed))+1)
	for at := 0; at < len(buf); at += 8 {
		pause(writeBody, s.slotOf(buf[at:]))
		copy(buf[at:at+8], body[at:])
	}
	s.committed = append(s.committed, body)
}

// slotOf is the word that b starts in.
func (s *scene) slotOf(b []byte) uint64 {
	return uint64(len(s.p.data)-capFrom(s.p.data, b)) / 8
}

// consume: n takes the next record, N too, but with NextAlone where it was published alone, s takes a span of up to six
// words, or like n where there is none, r releases, l closes, x reads all records again, which is wrong after r.
func (s *scene) consume(script string, pause func(access, uint64)) {
	var all [][]byte
	for _, o := range script {
		switch o {
		case 's':
			if span := s.c.NextSpan(48, func([]byte) bool { return true }); span != nil {
				s.readSpan(span, pause)
				continue
			}
			rec, err := s.c.Next()
			if s.judge(rec, err); rec != nil {
				s.readAll(rec, pause)
			}
		case 'n', 'N':
			rec, err := []byte(nil), error(nil)
			if o == 'N' {
				rec = s.c.NextAlone()
			}
			if rec == nil {
				rec, err = s.c.Next()
			} else {
				s.alone++
			}
			if s.judge(rec, err); rec != nil {
				all = append(all, rec)
				s.readAll(rec, pause)
			}
		case 'x':
			for _, rec := range all {
				pause(readBody, s.slotOf(rec))
			}
		case 'r':
			s.c.Release()
		case 'l':
			s.c.Close()
			s.left = true
		}
	}
}

// readSpan reads the records of a span.
func (s *scene) readSpan(span []byte, pause func(access, uint64)) {
	for len(span) > 0 && s.fault == nil {
		n := int(binary.LittleEndian.Uint32(span))
		s.judge(span[8:8+n], nil)
		if s.fault == nil {
			s.readAll(span[8:8+n], pause)
		}
		span = span[8+n:]
		s.together++
	}
}

func (s *scene) readAll(rec []byte, pause func(access, uint64)) {
	want := s.committed[s.returned-1]
	for at := 0; at < len(rec); at += 8 {
		pause(readBody, s.slotOf(rec[at:]))
		if !bytes.Equal(rec[at:at+8], want[at:at+8]) {
			s.fail("record %d is torn at byte %d: % x, want % x", s.returned-1, at, rec, want)
		}
	}
}

// judge compares what Next said with what was published when it looked.
func (s *scene) judge(rec []byte, err error) {
	switch {
	case rec == nil && err == nil:
		if s.returned != s.sawPublished || s.sawEnded {
			s.fail("next found nothing after %d of %d records, ended %t", s.returned, s.sawPublished, s.sawEnded)
		}
	case err == ErrClosed:
		if !s.left && (s.returned != s.sawPublished || !s.sawEnded) {
			s.fail("next says closed after %d of %d records, ended %t", s.returned, s.sawPublished, s.sawEnded)
		}
	case err != nil:
		s.fail("next: %v", err)
	case s.returned >= s.sawPublished || len(rec) != len(s.committed[s.returned]):
		s.fail("next gave %d bytes for record %d of %d", len(rec), s.returned, s.sawPublished)
	default:
		s.returned++
	}
}

// drain looks, on a copy, at what the consumer would still get if the producer made
// no step any more: every published record and none beyond, whatever the producer
// was doing.
func (s *scene) drain() {
	mem := aligned.Bytes(Size(int(s.c.capacity)), Alignment)
	copy(mem[ControlBytes:], s.c.data)
	c := *s.c
	c.data, c.memory, c.ctl = mem[ControlBytes:], memoryOf(mem[ControlBytes:]), controlOf(mem)
	c.probe.before = nil
	for n := s.returned; ; n++ {
		rec, err := c.Next()
		if rec == nil {
			if n != s.published || (err == ErrClosed) != s.ended || err != nil && err != ErrClosed {
				s.fail("after the producer's death %d of %d records come, then %v (ended %t)", n, s.published, err,
					s.ended)
			}
			return
		}
		if n >= s.published || !bytes.Equal(rec, s.committed[n]) {
			s.fail("after the producer's death record %d of %d is % x", n, s.published, rec)
			return
		}
	}
}

// run plays both scripts in the order that choose gives and returns the first fault.
// choose is asked whenever both sides can go on.
func (s *scene) run(producer, consumer string, choose func() int) error {
	var next [2]func() (step, bool)
	var live [2]bool
	scripts := [2]string{producer, consumer}
	for side := range next {
		advance, stop := s.actor(side, scripts[side])
		defer stop()
		next[side] = advance
		_, live[side] = advance()
	}
	for live[0] || live[1] {
		side := producerSide
		if !live[0] {
			side = consumerSide
		} else if live[1] {
			side = choose()
		}
		_, live[side] = next[side]()
		if side == consumerSide && !live[1] && !s.left {
			s.drain()
		}
		if s.fault != nil {
			return s.fault
		}
	}
	if !s.left {
		s.drain()
	}
	return s.fault
}

// everyOrder runs all orders of two scripts and returns how many there are.
func everyOrder(make func() *scene, producer, consumer string) (orders int, err error) {
	var choices []int
	for {
		at := 0
		err := make().run(producer, consumer, func() int {
			if at == len(choices) {
				choices = append(choices, producerSide)
			}
			at++
			return choices[at-1]
		})
		orders++
		if err != nil {
			return orders, fmt.Errorf("producer %q, consumer %q, order %v: %w", producer, consumer, choices[:at], err)
		}
		for len(choices) > 0 && choices[len(choices)-1] == consumerSide {
			choices = choices[:len(choices)-1]
		}
		if len(choices) == 0 {
			return orders, nil
		}
		choices[len(choices)-1] = consumerSide
	}
}

// The scripts are played from starts at which they pad, wrap the index and wrap the
// 64-bit position.
func TestEveryOrderOfStepsOfShortScripts(t *testing.T) {
	scripts := []struct {
		capacity           int
		producer, consumer string
	}{
		{32, "1p0p", "nnrnr"},
		{32, "10p0p", "nnnrn"},
		{32, "0p1p0p1p", "nrnrnrn"},
		{32, "1pa1p1p", "nrnrnr"},
		{32, "0p0pe", "nnnn"},
		{32, "1p0pe", "nrnrn"},
		{32, "0p1p1p1p", "nrnlnr"},
		{64, "10p1pe", "nnrnrn"},
		{64, "2p2p2p", "nrnrn"},
		{64, "3p1p2p", "nrnrn"},
		{64, "011p1p", "nnnrnr"},
		{32, "BpApBp", "nrnrnr"},
		{64, "CBpC1p", "nnrnr"},
		{64, "BaBpDp", "nnrnr"},
		{32, "QPQ", "nrnrnr"},
		{64, "RARpS", "nrnnr"},
		{64, "RQ", "NrNr"},
		{128, "PW", "nN"},
		{128, "PZ", "nN"}, // from some starts its body ends at position 0
		{128, "PZZ", "nrN"},
		{128, "PW0pe", "nN"},
		{64, "Tp", "nnr"},
		{64, "1Tp", "sr"},
		{64, "Up", "srn"},
	}
	for _, x := range scripts {
		for start := uint64(0); start < uint64(x.capacity); start += 8 {
			if race.Enabled && start != 24 {
				continue
			}
			at := start - uint64(x.capacity)
			orders, err := everyOrder(func() *scene { return newScene(x.capacity, at) }, x.producer, x.consumer)
			if err != nil {
				t.Fatalf("capacity %d, start %d: %v", x.capacity, at, err)
			}
			if orders < 10 {
				t.Errorf("capacity %d, start %d, scripts %q and %q: only %d orders", x.capacity, at, x.producer,
					x.consumer, orders)
			}
			if start == 24 {
				t.Logf("capacity %d, scripts %q and %q: %d orders from one start", x.capacity, x.producer, x.consumer,
					orders)
			}
		}
	}
}

func TestRandomOrdersOfStepsOfLongScripts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	draw := func(letters string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	runs, alone, published, refused, spanned, together := 20_000, 0, 0, 0, 0, 0
	if race.Enabled {
		runs = 1000
	}
	for range runs {
		capacity, letters := 32<<rng.IntN(3), "00112aAABBCD3ppppPQRSWZTUV"
		if rng.IntN(2) == 0 { // mostly records alone
			capacity, letters = 128<<rng.IntN(2), "0pPSWXYZWXYZWXYZ"
		}
		start := uint64(rng.IntN(capacity/8))*8 - uint64(capacity)
		producer, consumer := draw(letters, 40), draw("nNsrr", 100)
		bias := rng.Float64()
		played := newScene(capacity, start)
		err := played.run(producer, consumer, func() int {
			if rng.Float64() < bias {
				return producerSide
			}
			return consumerSide
		})
		if err != nil {
			t.Fatalf("seed %d, capacity %d, start %d, scripts %q and %q: %v", seed, capacity, start, producer,
				consumer,
				err)
		}
		alone += played.alone
		published += played.taken
		refused += played.refused
		spanned += played.spanned
		together += played.together
	}
	if spanned < runs/4 || together < runs/4 {
		t.Errorf("%d records were staged in spans and %d came in spans, in %d runs", spanned, together, runs)
	}
	if alone < runs/100 {
		t.Errorf("NextAlone returned %d records in %d runs", alone, runs)
	}
	if published < runs/10 || refused < runs/10 {
		t.Errorf("PublishAlone took %d records and refused %d in %d runs", published, refused, runs)
	}
}

// Canaries: each weakening of the protocol must be found by the checker above.
func TestTheStepCheckerFindsWeakenedProtocols(t *testing.T) {
	for _, x := range []struct {
		name               string
		weak               access
		producer, consumer string
	}{
		{"header published with a plain store", publishHeader, "1p", "nn"},
		{"head stored with a plain store", storeHead, "3p3p3p3p3p", "nnr"},
		{"record read after its release", 0, "3p3p3p3p3p", "nnrx"},
		{"record alone published with a plain store", publishHeader, "PW", "nN"},
		{"span published with a plain store", publishHeader, "Tp", "s"},
		{"span read after its release", 0, "VpVpVp", "nnnrx"},
	} {
		_, err := everyOrder(func() *scene {
			s := newScene(128, 0)
			s.weak = x.weak
			return s
		}, x.producer, x.consumer)
		if err == nil || !strings.Contains(err.Error(), "races") {
			t.Errorf("%s: found %v, want a race", x.name, err)
		}
	}
}
