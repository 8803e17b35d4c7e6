// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/ring"
)

// newMem gives the memory of a formatted ring.
func newMem(t testing.TB, capacity int, start uint64) []byte {
	t.Helper()
	mem := aligned.Bytes(ring.Size(capacity), ring.Alignment)
	if err := ring.Init(mem, ring.Config{Start: start}); err != nil {
		t.Fatal(err)
	}
	return mem
}

// open gives both sides of a new ring.
func open(t testing.TB, capacity int, start uint64) (*ring.Producer, *ring.Consumer) {
	t.Helper()
	return openOn(t, newMem(t, capacity, start))
}

func openOn(t testing.TB, mem []byte) (*ring.Producer, *ring.Consumer) {
	t.Helper()
	p, err := ring.OpenProducer(mem)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ring.OpenConsumer(mem)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func send(t testing.TB, p *ring.Producer, text string) {
	t.Helper()
	buf, err := p.Claim(len(text))
	if err != nil {
		t.Fatalf("claim of %d bytes: %v", len(text), err)
	}
	copy(buf, text)
	p.Commit()
}

func expect(t testing.TB, c *ring.Consumer, want string) {
	t.Helper()
	rec, err := c.Next()
	if err != nil || rec == nil || string(rec) != want {
		t.Fatalf("next: %q, %v, want %q", rec, err, want)
	}
}

func expectNothing(t testing.TB, c *ring.Consumer) {
	t.Helper()
	if rec, err := c.Next(); rec != nil || err != nil {
		t.Fatalf("next: %q, %v, want nothing", rec, err)
	}
}

func TestSecondAcquireOfASideFails(t *testing.T) {
	mem := newMem(t, 64, 0)
	p, _ := openOn(t, mem)
	if _, err := ring.OpenProducer(mem); !errors.Is(err, ring.ErrTaken) {
		t.Errorf("second producer: %v, want %v", err, ring.ErrTaken)
	}
	if _, err := ring.OpenConsumer(mem); !errors.Is(err, ring.ErrTaken) {
		t.Errorf("second consumer: %v, want %v", err, ring.ErrTaken)
	}
	send(t, p, "left over")
	p.Publish()

	// The memory's owner formats it again once both have stopped.
	if err := ring.Init(mem, ring.Config{}); err != nil {
		t.Fatal(err)
	}
	p, c := openOn(t, mem)
	expectNothing(t, c)
	send(t, p, "new")
	p.Publish()
	expect(t, c, "new")
}

func TestMemoryThatIsNoRingIsRefused(t *testing.T) {
	word := func(at int, v uint64) func([]byte) []byte {
		return func(mem []byte) []byte {
			binary.LittleEndian.PutUint64(mem[at:], v)
			return mem
		}
	}
	for _, x := range []struct {
		name  string
		spoil func([]byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"control area only", func(mem []byte) []byte { return mem[:ring.ControlBytes] }},
		{"capacity below the least", func(mem []byte) []byte { return mem[:ring.ControlBytes+16] }},
		{"capacity no power of two", func(mem []byte) []byte { return mem[:ring.ControlBytes+96] }},
		{"shorter than formatted", func(mem []byte) []byte { return mem[:ring.ControlBytes+64] }},
		{"not aligned", func(mem []byte) []byte {
			moved := aligned.Bytes(len(mem)+8, ring.Alignment)[8:]
			copy(moved, mem)
			return moved
		}},
		{"zeroed", func(mem []byte) []byte { clear(mem); return mem }},
		{"other version", func(mem []byte) []byte { mem[7] ^= 3; return mem }},
		{"capacity word wrong", word(8, 64)},
		{"capacity word huge", word(8, math.MaxUint64)},
		{"start between words", word(16, 3)},
	} {
		mem := x.spoil(newMem(t, 128, 0))
		if _, err := ring.OpenProducer(mem); !errors.Is(err, ring.ErrFormat) {
			t.Errorf("%s: producer got %v, want %v", x.name, err, ring.ErrFormat)
		}
		if _, err := ring.OpenConsumer(mem); !errors.Is(err, ring.ErrFormat) {
			t.Errorf("%s: consumer got %v, want %v", x.name, err, ring.ErrFormat)
		}
		if _, err := ring.Inspect(mem); !errors.Is(err, ring.ErrFormat) {
			t.Errorf("%s: inspect got %v, want %v", x.name, err, ring.ErrFormat)
		}
	}
}

func TestInitRefusesWhatCannotBeARing(t *testing.T) {
	if err := ring.Init(aligned.Bytes(100, ring.Alignment), ring.Config{}); !errors.Is(err, ring.ErrFormat) {
		t.Errorf("100 bytes: %v, want %v", err, ring.ErrFormat)
	}
	if err := ring.Init(aligned.Bytes(ring.Size(64)+8, ring.Alignment)[8:], ring.Config{}); !errors.Is(err,
		ring.ErrFormat) {
		t.Errorf("misaligned: %v, want %v", err, ring.ErrFormat)
	}
	if err := ring.Init(aligned.Bytes(ring.Size(64), ring.Alignment), ring.Config{Start: 12}); err == nil {
		t.Error("start 12: no error")
	}
}

func TestOwnMistakesPanic(t *testing.T) {
	for _, x := range []struct {
		name, want string
		do         func(p *ring.Producer)
	}{
		{"commit without claim", "without a claim", func(p *ring.Producer) { p.Commit() }},
		{"two claims", "claimed already", func(p *ring.Producer) { p.Claim(8); p.Claim(8) }},
		{"negative claim", "claim of -1", func(p *ring.Producer) { p.Claim(-1) }},
		{"capacity", "power of two", func(*ring.Producer) { ring.Size(100) }},
	} {
		p, _ := open(t, 64, 0)
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(r.(string), x.want) {
					t.Errorf("%s: panic %v, want one with %q", x.name, r, x.want)
				}
			}()
			x.do(p)
		}()
	}
}

// A record of MaxRecord bytes finds room in an empty ring wherever the index
// stands; one byte more is refused for good.
func TestLongestRecordFitsAtEveryIndex(t *testing.T) {
	for _, capacity := range []int{ring.CapacityMin, 64, 256, 4096} {
		for start := 0; start < capacity; start += 8 {
			p, c := open(t, capacity, uint64(start)-uint64(capacity))
			if p.MaxRecord() != ring.MaxRecord(capacity) {
				t.Fatalf("MaxRecord %d, want %d", p.MaxRecord(), ring.MaxRecord(capacity))
			}
			if _, err := p.Claim(p.MaxRecord() + 1); !errors.Is(err, ring.ErrTooLarge) {
				t.Fatalf("claim above the maximum: %v, want %v", err, ring.ErrTooLarge)
			}
			text := strings.Repeat("x", p.MaxRecord())
			for range 5 {
				send(t, p, text)
				p.Publish()
				expect(t, c, text)
				c.Release()
				if !p.Drained() {
					t.Fatal("not drained after release")
				}
			}
		}
	}
}

func TestNothingIsSeenBeforePublish(t *testing.T) {
	p, c := open(t, 256, 0)
	send(t, p, "a")
	send(t, p, "b")
	if c.Pending() || c.Look() {
		t.Error("pending before publish")
	}
	expectNothing(t, c)
	if n := p.PublishFenced(); n != 2 {
		t.Errorf("published %d, want 2", n)
	}
	if n := p.Publish(); n != 0 {
		t.Errorf("published %d again, want 0", n)
	}
	if !c.Pending() || !c.Look() {
		t.Error("nothing pending after publish")
	}
	expect(t, c, "a")
	expect(t, c, "b")
	expectNothing(t, c)
	if c.Close(); !c.Look() {
		t.Error("no look at the end of a ring")
	}
}

// The producer's process dies between claim and publish, wherever it is: the
// consumer sees what was published and nothing else, and goes on waiting.
func TestProducerDeathLeavesNothingVisible(t *testing.T) {
	for start := uint64(0); start < 256; start += 8 {
		mem := newMem(t, 256, start)
		p, c := openOn(t, mem)
		send(t, p, "published")
		p.Publish()
		send(t, p, "committed")
		send(t, p, "committed too")
		buf, err := p.Claim(20)
		if err != nil {
			t.Fatal(err)
		}
		copy(buf, "half wri")
		p = nil // dead

		expect(t, c, "published")
		expectNothing(t, c)
		c.Release()
		expectNothing(t, c)
		status, err := ring.Inspect(mem)
		if err != nil || status.Tail != status.Head || status.Head != c.Position() {
			t.Fatalf("start %d: status %+v, %v, want tail and head at %d", start, status, err, c.Position())
		}
	}
}

func TestProducerCloseEndsTheStream(t *testing.T) {
	for start := uint64(0); start < 64; start += 8 {
		mem := newMem(t, 64, start)
		p, c := openOn(t, mem)
		send(t, p, "last")
		p.Close()
		p.Close()
		if _, err := p.Claim(1); !errors.Is(err, ring.ErrClosed) {
			t.Errorf("claim after close: %v", err)
		}
		if p.Room() != 0 {
			t.Errorf("room of %d after close", p.Room())
		}
		expect(t, c, "last")
		for range 2 {
			if rec, err := c.Next(); rec != nil || err != ring.ErrClosed {
				t.Errorf("next after the last record: %q, %v", rec, err)
			}
		}
		if status, err := ring.Inspect(mem); err != nil || !status.ProducerClosed || status.ConsumerClosed {
			t.Errorf("status %+v, %v, want the producer closed", status, err)
		}
	}
}

// Even a full ring has room for the end mark.
func TestProducerClosesAFullRing(t *testing.T) {
	for start := uint64(0); start < 64; start += 8 {
		p, c := open(t, 64, start)
		sent := 0
		for {
			if _, err := p.Claim(0); err == ring.ErrFull {
				break
			}
			p.Commit()
			sent++
		}
		if sent != 7 {
			t.Errorf("%d empty records in 8 words, want 7", sent)
		}
		p.Close()
		for range sent {
			expect(t, c, "")
		}
		if _, err := c.Next(); err != ring.ErrClosed {
			t.Errorf("next: %v, want %v", err, ring.ErrClosed)
		}
	}
}

func TestConsumerCloseStopsTheProducer(t *testing.T) {
	mem := newMem(t, 64, 0)
	p, c := openOn(t, mem)
	send(t, p, "one")
	p.Publish()
	expect(t, c, "one")
	c.Close()
	c.Close()
	c.Release()
	if !p.ConsumerClosed() || !p.Drained() {
		t.Errorf("consumer closed: %t, drained: %t, want both", p.ConsumerClosed(), p.Drained())
	}
	if _, err := c.Next(); err != ring.ErrClosed {
		t.Errorf("next after close: %v", err)
	}
	for range 8 {
		if _, err := p.Claim(8); err != nil {
			if err != ring.ErrClosed {
				t.Errorf("claim: %v, want %v", err, ring.ErrClosed)
			}
			if status, err := ring.Inspect(mem); err != nil || !status.ConsumerClosed {
				t.Errorf("status %+v, %v, want the consumer closed", status, err)
			}
			return
		}
		p.Commit()
		p.Publish()
	}
	t.Error("the producer filled the ring without noticing that the consumer has closed")
}

func TestDamagedHeaderBreaksTheRing(t *testing.T) {
	const good = 1<<32 | 0xD5<<40
	for _, x := range []struct {
		name   string
		header uint64
	}{
		{"no marker", 1<<32 | 4},
		{"kind 0", 0xD5<<40 | 4},
		{"kind 9", 9<<32 | 0xD5<<40 | 4},
		{"other lap", 1<<48 | good | 4},
		{"length above the maximum", good | 57},
		{"length of 4 GiB", good | math.MaxUint32},
		{"padding that doesn't end at the end", 2<<32 | 0xD5<<40 | 16},
		{"padding over everything", 2<<32 | 0xD5<<40 | 120},
		{"end mark with a length", 3<<32 | 0xD5<<40 | 8},
		{"all ones", math.MaxUint64},
		{"one", 1},
	} {
		mem := newMem(t, 128, 0)
		_, c := openOn(t, mem)
		binary.LittleEndian.PutUint64(mem[ring.ControlBytes:], x.header)
		_, err := c.Next()
		if !errors.Is(err, ring.ErrCorrupt) {
			t.Errorf("%s: %v, want %v", x.name, err, ring.ErrCorrupt)
		}
		binary.LittleEndian.PutUint64(mem[ring.ControlBytes:], 0)
		if _, again := c.Next(); again != err {
			t.Errorf("%s: afterwards %v, want the same error", x.name, again)
		}
		if !c.Pending() {
			t.Errorf("%s: nothing pending on a broken ring", x.name)
		}
	}
}

// A header that runs into bytes that this consumer holds can't have been published.
func TestHeaderOverHeldRecordsIsRefused(t *testing.T) {
	mem := newMem(t, 128, 0)
	p, c := openOn(t, mem)
	for range 3 {
		send(t, p, strings.Repeat("y", 24))
	}
	p.Publish()
	for range 3 {
		expect(t, c, strings.Repeat("y", 24))
	}
	// 96 of 128 bytes are held; 24 more leave the one free word, 32 more don't.
	binary.LittleEndian.PutUint64(mem[ring.ControlBytes+96:], 1<<32|0xD5<<40|24)
	if _, err := c.Next(); !errors.Is(err, ring.ErrCorrupt) {
		t.Errorf("next: %v, want %v", err, ring.ErrCorrupt)
	}
}

func TestDamagedHeadBreaksTheRing(t *testing.T) {
	for _, head := range []uint64{8, 1 << 40, math.MaxUint64 - 7, 100, 28} {
		mem := newMem(t, 64, 16)
		p, _ := openOn(t, mem)
		send(t, p, strings.Repeat("z", 24))
		p.Publish()
		binary.LittleEndian.PutUint64(mem[256:], head)
		_, err := p.Claim(24)
		if !errors.Is(err, ring.ErrCorrupt) {
			t.Errorf("head %d: %v, want %v", head, err, ring.ErrCorrupt)
		}
		binary.LittleEndian.PutUint64(mem[256:], 16)
		if _, again := p.Claim(8); again != err {
			t.Errorf("head %d: afterwards %v, want the same error", head, again)
		}
	}
}

// A peer that writes where the producer's next record begins does no harm: the plain
// build overwrites it, the checked build ends the ring. Neither panics.
func TestWordAtTheTailIsThePeersFault(t *testing.T) {
	mem := newMem(t, 64, 0)
	p, c := openOn(t, mem)
	send(t, p, "one")
	p.Publish()
	expect(t, c, "one")
	binary.LittleEndian.PutUint64(mem[ring.ControlBytes+16:], 99)
	send(t, p, "two")
	p.Publish()
	expect(t, c, "two")
	_, err := p.Claim(8)
	if want := invariants.Enabled; errors.Is(err, ring.ErrCorrupt) != want || (err != nil) != want {
		t.Errorf("claim: %v, want %v in the checked build only", err, ring.ErrCorrupt)
	}
}

// Check finds words that only their own side writes and that others have overwritten, also where the value could be:
// an older head, a header that was cleared. Before Check, such a ring was full, or empty, for ever. The error stays.
func TestCheckFindsOverwrittenWords(t *testing.T) {
	const head, ownerOfProducer, ownerOfConsumer, data = 256, 136, 264, ring.ControlBytes
	producer := func(p *ring.Producer, _ *ring.Consumer) error { return p.Check() }
	consumer := func(_ *ring.Producer, c *ring.Consumer) error { return c.Check() }
	for _, x := range []struct {
		name  string
		at    int
		word  uint64
		close bool // both sides, before
		check func(*ring.Producer, *ring.Consumer) error
	}{
		{"an older head", head, 0, false, consumer},
		{"a newer head", head, 32, false, consumer},
		{"a head that is closed", head, 16 | 1, false, consumer},
		{"a closed head that is open", head, 16, true, consumer},
		{"nobody has the consumer's side", ownerOfConsumer, 0, false, consumer},
		{"nobody has the producer's side", ownerOfProducer, 7, false, producer},
		{"a head behind the tail", head, 40, false, producer},
		{"a cleared header", data + 16, 0, false, producer},
		{"a word at the tail", data + 32, 1, false, producer},
		{"a cleared end mark", data + 32, 0, true, producer},
	} {
		mem := newMem(t, 128, 0)
		p, c := openOn(t, mem)
		send(t, p, "read")
		send(t, p, "unread")
		p.Publish()
		expect(t, c, "read")
		c.Release()
		if x.close {
			p.Close()
			c.Close()
		}
		for _, check := range []func() error{p.Check, c.Check} {
			if err := check(); err != nil {
				t.Errorf("%s: before it: %v", x.name, err)
			}
		}
		binary.LittleEndian.PutUint64(mem[x.at:], x.word)
		if race.Enabled && invariants.Enabled && x.at == data+16 {
			continue // not looked at there
		}
		if err := x.check(p, c); !errors.Is(err, ring.ErrCorrupt) || !strings.Contains(err.Error(), "overwritten") &&
			x.at != head {
			t.Errorf("%s: %v, want %v", x.name, err, ring.ErrCorrupt)
		}
		if err := x.check(p, c); !errors.Is(err, ring.ErrCorrupt) {
			t.Errorf("%s: afterwards %v, want %v", x.name, err, ring.ErrCorrupt)
		}
	}
}

// A record that was staged is in place without a commit, also behind padding.
func TestStage(t *testing.T) {
	for start := uint64(0); start < 256; start += 8 {
		p, c := open(t, 256, start-256)
		for round := range 26 {
			for n := range 3 {
				rec, err := p.Stage(20 * n)
				if err != nil || len(rec) != 20*n || cap(rec) != len(rec) {
					t.Fatalf("start %d: stage of %d bytes gave %d of %d: %v", start, 20*n, len(rec), cap(rec), err)
				}
				copy(rec, strings.Repeat(string(rune('a'+round)), 20*n))
			}
			expectNothing(t, c)
			p.Publish()
			for n := range 3 {
				expect(t, c, strings.Repeat(string(rune('a'+round)), 20*n))
			}
			c.Release()
		}
	}
	p, c := open(t, 64, 0)
	if _, err := p.Stage(p.MaxRecord() + 1); !errors.Is(err, ring.ErrTooLarge) {
		t.Errorf("stage above the maximum: %v", err)
	}
	for range 3 {
		if _, err := p.Stage(8); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Stage(8); err != ring.ErrFull {
		t.Errorf("stage in a full ring: %v", err)
	}
	c.Close()
	if _, err := p.Stage(8); err != ring.ErrClosed {
		t.Errorf("stage after the consumer has closed: %v", err)
	}
}

// PublishAlone does nothing where anything is different from a round trip; Claim then says why, or does it.
func TestPublishAlone(t *testing.T) {
	full := func(p *ring.Producer, _ *ring.Consumer) {
		for p.PublishAlone(1, 2, 3, 4, make([]byte, 88)) {
		}
		for p.Room() >= 32 {
			send(t, p, strings.Repeat("x", 32))
			p.Publish()
		}
	}
	for _, x := range []struct {
		name     string
		capacity int
		start    uint64
		rest     int
		change   func(*ring.Producer, *ring.Consumer)
		taken    bool
		claim    error // where it isn't taken, what Claim answers
	}{
		{"a round trip", 4096, 0, 72, nil, true, nil},
		{"four words alone", 4096, 0, 0, nil, true, nil},
		{"the longest record alone", 1 << 14, 0, 4088 - 32, nil, true, nil},
		{"a longer one", 1 << 14, 0, 4088 - 31, nil, false, nil},
		{"the longest record of the ring", 4096, 0, 2040 - 32, nil, true, nil},
		{"one too long for it", 4096, 0, 2040 - 31, nil, false, ring.ErrTooLarge},
		{"up to the end of the data area", 4096, 4096 - 3*64, 88, nil, true, nil},
		{"beyond it", 4096, 4096 - 3*64, 89, nil, false, nil},
		{"the consumer has read, not released", 4096, 0, 72, readOne, true, nil},
		{"the consumer was behind at the last look", 1 << 16, 0, 72, fallBehind, false, nil},
		{"a staged record", 4096, 0, 72, func(p *ring.Producer, _ *ring.Consumer) { p.Stage(8) }, false, nil},
		{"no room", 4096, 0, 0, full, false, ring.ErrFull},
		{"closed", 4096, 0, 72, func(p *ring.Producer, _ *ring.Consumer) { p.Close() }, false, ring.ErrClosed},
		{"a ring without lines", 2048, 0, 72, nil, false, nil},
		{"the smallest ring", 32, 0, 0, nil, false, ring.ErrTooLarge},
	} {
		p, c := open(t, x.capacity, x.start)
		send(t, p, "")
		p.Publish() // looks at the head
		if expect(t, c, ""); x.change == nil {
			x.change = func(*ring.Producer, *ring.Consumer) {}
		}
		c.Release()
		x.change(p, c)
		at := p.Position()
		if got := p.PublishAlone(1, 2, 3, 4, make([]byte, x.rest)); got != x.taken || got != (p.Position() != at) {
			t.Errorf("%s: taken %t, want %t; from position %d to %d", x.name, got, x.taken, at, p.Position())
		}
		if x.taken {
			continue
		}
		if _, err := p.Claim(32 + x.rest); !errors.Is(err, x.claim) || (err == nil) != (x.claim == nil) {
			t.Errorf("%s: Claim says %v, want %v", x.name, err, x.claim)
		}
	}
	p, _ := open(t, 4096, 0)
	send(t, p, "")
	p.Publish()
	if _, err := p.Claim(8); err != nil || p.PublishAlone(1, 2, 3, 4, nil) {
		t.Errorf("taken while a record is claimed, or not claimed: %v", err)
	}
}

// A look at the head is taken every 256 records alone: then a consumer that has fallen behind is noticed, and one that
// has released makes room.
func TestPublishAloneEndsWithTheLook(t *testing.T) {
	p, c := open(t, 1<<16, 0)
	send(t, p, "")
	p.Publish()
	taken := 0
	for p.PublishAlone(uint64(taken), 2, 3, 4, nil) {
		taken++
	}
	if taken != 256 {
		t.Errorf("%d records alone after one look, want 256", taken)
	}
	for n := range 257 {
		if rec, err := c.Next(); err != nil || n > 0 && (len(rec) != 32 || int(rec[0])+int(rec[1])<<8 != n-1) {
			t.Fatalf("record %d: % x, %v", n, rec, err)
		}
	}
	expectNothing(t, c)
}

// readOne lets the consumer read a record alone, without a release.
func readOne(p *ring.Producer, c *ring.Consumer) {
	p.PublishAlone(1, 2, 3, 4, nil)
	c.Next()
}

// fallBehind publishes until the producer has looked again, while nothing is released.
func fallBehind(p *ring.Producer, _ *ring.Consumer) {
	for range 300 {
		if _, err := p.Claim(0); err != nil {
			break
		}
		p.PublishClaimed()
	}
}

// Inspect finds the end of what is published from the head on.
func TestInspectWalks(t *testing.T) {
	for start := uint64(0); start < 128; start += 8 {
		mem := newMem(t, 128, start-128)
		p, c := openOn(t, mem)
		for range 20 {
			send(t, p, "one")
			send(t, p, strings.Repeat("t", 30))
			tail := p.Position()
			p.Publish()
			send(t, p, "not published")
			if s, err := ring.Inspect(mem); err != nil || s.Tail != tail || s.Head != c.Position() || s.ProducerClosed {
				t.Fatalf("start %d: %+v, %v, want tail %d and head %d", start, s, err, tail, c.Position())
			}
			expect(t, c, "one")
			expect(t, c, strings.Repeat("t", 30))
			p.Publish()
			expect(t, c, "not published")
			c.Release()
		}
		// Whatever stands in the head word, Inspect reads nothing outside.
		for _, head := range []uint64{3, math.MaxUint64, 1 << 63, 125} {
			binary.LittleEndian.PutUint64(mem[256:], head)
			if _, err := ring.Inspect(mem); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A claim that was granted before the ring broke can still be committed.
func TestCommitAfterTheRingBroke(t *testing.T) {
	mem := newMem(t, 64, 0)
	p, c := openOn(t, mem)
	send(t, p, strings.Repeat("z", 16))
	send(t, p, strings.Repeat("z", 16))
	p.Publish()
	if _, err := p.Claim(0); err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(mem[256:], 4)
	if room := p.Room(); room != 0 {
		t.Errorf("room %d with a head of 4", room)
	}
	p.Commit()
	if _, err := p.Claim(0); !errors.Is(err, ring.ErrCorrupt) {
		t.Errorf("claim: %v, want %v", err, ring.ErrCorrupt)
	}
	p.Publish()
	expect(t, c, strings.Repeat("z", 16))
	expect(t, c, strings.Repeat("z", 16))
	expect(t, c, "")
}

func TestReleaseIsDueAfterAnEighth(t *testing.T) {
	p, c := open(t, 1024, 0)
	for range 3 {
		send(t, p, strings.Repeat("r", 64-8))
	}
	p.Publish()
	for n := range 3 {
		if c.ReleaseDue() != (n*64 > 1024/8) {
			t.Errorf("due %t after %d bytes of 1024", c.ReleaseDue(), n*64)
		}
		expect(t, c, strings.Repeat("r", 64-8))
	}
	if !c.ReleaseDue() {
		t.Error("not due after 192 bytes of 1024")
	}
	c.Release()
	if c.ReleaseDue() {
		t.Error("due after release")
	}
}

func TestNothingAllocatesOnceTheRingIsOpen(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the assertions of the checked build allocate")
	}
	p, c := open(t, 1<<12, ^uint64(0)-(1<<12)+1)
	payload := bytes.Repeat([]byte("p"), 100)
	got := testing.AllocsPerRun(1000, func() {
		for {
			buf, err := p.Claim(len(payload))
			if err == ring.ErrFull {
				break
			}
			copy(buf, payload)
			p.Commit()
		}
		p.Room()
		p.Publish()
		for {
			rec, err := c.Next()
			if err != nil {
				t.Fatal(err)
			}
			if rec == nil {
				break
			}
		}
		c.Pending()
		c.Release()
	})
	if got != 0 {
		t.Errorf("%v allocations per round, want none", got)
	}
}
