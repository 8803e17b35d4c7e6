// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/ring"
)

// body formats a lane on heap memory.
func body(t testing.TB, cfg Config) []byte {
	t.Helper()
	size, err := Size(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mem := aligned.Bytes(size, Alignment)
	if err := Format(mem, cfg); err != nil {
		t.Fatal(err)
	}
	return mem
}

func open(t testing.TB, cfg Config) (*Sender, *Receiver) {
	t.Helper()
	mem := body(t, cfg)
	s, err := OpenSender(mem)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenReceiver(mem)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func send(t testing.TB, s *Sender, text string) {
	t.Helper()
	rec, err := s.Forward().Claim(len(text))
	if err != nil {
		t.Fatal(err)
	}
	copy(rec, text)
	s.Forward().Commit()
	s.Forward().Publish()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "ring of 0 bytes"},
		{Config{RingBytes: 64}, "ring of 64 bytes"},
		{Config{RingBytes: 100}, "ring of 100 bytes"},
		{Config{RingBytes: ring.CapacityMax * 2}, "ring of"},
		{Config{RingBytes: 128, ReturnBlocks: -1}, "-1"},
		{Config{RingBytes: 128, ReturnBlocks: BlocksMax + 1}, "16777217"},
		{Config{RingBytes: 128, Start: 4}, "start position 4"},
	} {
		if _, err := Size(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Size(%+v): %v, want %q in it", c.cfg, err, c.want)
		}
		if err := Format(nil, c.cfg); err == nil {
			t.Errorf("Format(%+v): no error", c.cfg)
		}
	}
	cfg := Config{RingBytes: 128}
	if err := Format(aligned.Bytes(sizeOf(cfg)-1, Alignment), cfg); err == nil {
		t.Error("Format of too little memory: no error")
	}
	if err := Format(aligned.Bytes(sizeOf(cfg)+8, Alignment)[8:], cfg); err == nil {
		t.Error("Format of memory off its alignment: no error")
	}
}

// Whatever a peer has written over the identity, opening is an error and not an
// access outside the memory.
func TestOpenRefusesDamage(t *testing.T) {
	cfg := Config{RingBytes: 1024, ReturnBlocks: 10}
	for _, c := range []struct {
		what   string
		damage func(mem []byte) []byte
	}{
		{"zeroed", func(mem []byte) []byte { clear(mem); return mem }},
		{"nothing", func(mem []byte) []byte { return nil }},
		{"cut short", func(mem []byte) []byte { return mem[:len(mem)-1] }},
		{"off its alignment", func(mem []byte) []byte { return append(aligned.Bytes(8, 128), mem...)[8:] }},
		{"newer version", func(mem []byte) []byte { mem[7] ^= 3; return mem }},
		{"other letters", func(mem []byte) []byte { mem[0]++; return mem }},
		{"larger ring", func(mem []byte) []byte { binary.LittleEndian.PutUint64(mem[8:], 2048); return mem }},
		{"smaller ring", func(mem []byte) []byte { binary.LittleEndian.PutUint64(mem[8:], 512); return mem }},
		{"ring not a power of two", func(mem []byte) []byte {
			binary.LittleEndian.PutUint64(mem[8:], 1000)
			return mem
		}},
		{"largest ring", func(mem []byte) []byte {
			binary.LittleEndian.PutUint64(mem[8:], math.MaxUint64)
			return mem
		}},
		{"more blocks", func(mem []byte) []byte { binary.LittleEndian.PutUint64(mem[16:], 1000); return mem }},
		{"most blocks", func(mem []byte) []byte {
			binary.LittleEndian.PutUint64(mem[16:], math.MaxUint64)
			return mem
		}},
		{"forward ring gone", func(mem []byte) []byte { clear(mem[forwardOffset:][:8]); return mem }},
		{"return ring gone", func(mem []byte) []byte { clear(mem[forwardOffset+ring.Size(1024):][:8]); return mem }},
	} {
		for name, open := range map[string]func([]byte) error{
			"sender":   func(mem []byte) error { _, err := OpenSender(mem); return err },
			"receiver": func(mem []byte) error { _, err := OpenReceiver(mem); return err },
		} {
			if err := open(c.damage(body(t, cfg))); !errors.Is(err, ErrFormat) && !errors.Is(err, ring.ErrFormat) {
				t.Errorf("%s, %s: %v, want ErrFormat", c.what, name, err)
			}
		}
	}
}

func TestEachEndOpensOnce(t *testing.T) {
	mem := body(t, Config{RingBytes: 128})
	if _, err := OpenSender(mem); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReceiver(mem); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSender(mem); !errors.Is(err, ring.ErrTaken) {
		t.Errorf("second sender: %v", err)
	}
	if _, err := OpenReceiver(mem); !errors.Is(err, ring.ErrTaken) {
		t.Errorf("second receiver: %v", err)
	}
}

// The bytes of docs/format/lane.md.
func TestFormatBytes(t *testing.T) {
	cfg := Config{RingBytes: 1024, ReturnBlocks: 5, Start: 1 << 20}
	mem := body(t, cfg)
	s, err := OpenSender(mem)
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, "12345678") // 16 bytes with its header
	s.Promise(1.5, 7)
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(mem[at:]) }
	for _, c := range []struct {
		what      string
		got, want uint64
	}{
		{"format", word(0), binary.LittleEndian.Uint64([]byte("DISCOLAL"))}, // version 2: N ^ 2
		{"ring bytes", word(8), 1024},
		{"blocks", word(16), 5},
		{"level and position", word(128), (1<<20+16)/8<<32 | 7},
		{"epoch", word(136), math.Float64bits(1.5)},
		{"size", uint64(len(mem)), 256 + uint64(ring.Size(1024)) + uint64(ring.Size(256))},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#x, want %#x", c.what, c.got, c.want)
		}
	}
}

func TestPromises(t *testing.T) {
	for _, start := range []uint64{0, 1<<35 - 64, 1<<64 - 64} {
		s, r := open(t, Config{RingBytes: 256, Start: start})
		if _, fresh, err := r.Promise(); fresh || err != nil {
			t.Errorf("before the first promise: %v, %v", fresh, err)
		}
		send(t, s, "a")
		send(t, s, "b")
		if !s.Promise(1, 2) || s.Promise(1, 2) {
			t.Error("a new promise is published, the same again is not")
		}
		send(t, s, "later")
		p, fresh, err := r.Promise()
		if !fresh || err != nil || p.Epoch != 1 || p.Level != 2 {
			t.Fatalf("%+v, %v, %v", p, fresh, err)
		}
		if _, fresh, _ := r.Promise(); fresh {
			t.Error("the same promise is fresh twice")
		}
		for i, want := range []bool{false, false, true} {
			if r.Reached(p) != want {
				t.Errorf("start %d: after %d records Reached is %v", start, i, !want)
			}
			if rec, err := r.Forward().Next(); rec == nil || err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		s.Promise(math.Inf(1), math.MaxUint32)
		if p, fresh, err := r.Promise(); !fresh || err != nil || !math.IsInf(p.Epoch, 1) || !r.Reached(p) {
			t.Errorf("last promise: %+v, %v, %v", p, fresh, err)
		}
	}
}

func TestPromisesRisePanic(t *testing.T) {
	s, _ := open(t, Config{RingBytes: 128})
	s.Promise(2, 5)
	mustPanic(t, "epoch falls", func() { s.Promise(1, 9) })
	mustPanic(t, "level falls", func() { s.Promise(2, 4) })
	mustPanic(t, "NaN", func() { s.Promise(math.NaN(), 0) })
	mustPanic(t, "negative", func() { s.Promise(-1, 0) })
	s.Promise(3, 0)
	s, _ = open(t, Config{RingBytes: 128})
	if s.Promise(math.Copysign(0, -1), 0) {
		t.Error("minus zero is not above zero")
	}
}

// A level that falls at the same epoch is what a look between the two stores of a
// rising promise shows: the old bound stays, and nothing is wrong.
func TestMixedPromiseIsNoError(t *testing.T) {
	s, r := open(t, Config{RingBytes: 128})
	s.Promise(5, 9)
	if _, fresh, err := r.Promise(); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	s.slot.storeLevelAt(2, 0)
	if _, fresh, err := r.Promise(); fresh || err != nil {
		t.Errorf("between the stores: %v, %v", fresh, err)
	}
	s.slot.storeEpoch(math.Float64bits(7))
	if p, fresh, err := r.Promise(); !fresh || err != nil || p.Epoch != 7 || p.Level != 2 {
		t.Errorf("after the stores: %+v, %v, %v", p, fresh, err)
	}
}

func TestBadPromises(t *testing.T) {
	for _, c := range []struct {
		what  string
		bits  uint64
		at    uint32
		words string
	}{
		{"NaN", math.Float64bits(math.NaN()), 0, "epoch NaN"},
		{"negative", math.Float64bits(-3), 0, "epoch -3"},
		{"minus zero", 1 << 63, 0, "epoch -0"},
		{"back", math.Float64bits(1), 0, "from epoch 2 to 1"},
		{"far ahead", math.Float64bits(3), 17, "promise at 136 bytes"},
		{"far behind", math.Float64bits(3), math.MaxUint32 - 16, "promise at -136 bytes"},
		{"opposite", math.Float64bits(3), 1 << 31, "promise at"},
	} {
		s, r := open(t, Config{RingBytes: 128})
		s.Promise(2, 0)
		if _, _, err := r.Promise(); err != nil {
			t.Fatal(err)
		}
		s.slot.storeLevelAt(1, c.at)
		s.slot.storeEpoch(c.bits)
		_, fresh, err := r.Promise()
		if fresh || !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, %v, want ErrProtocol with %q", c.what, fresh, err, c.words)
		}
	}
}

func TestResetStartsOver(t *testing.T) {
	s, r := open(t, Config{RingBytes: 128})
	for replication := range 3 {
		send(t, s, "x")
		s.Promise(7, 7)
		if p, fresh, err := r.Promise(); !fresh || err != nil || p.Epoch != 7 {
			t.Fatalf("replication %d: %+v, %v, %v", replication, p, fresh, err)
		}
		if rec, _ := r.Forward().Next(); string(rec) != "x" {
			t.Fatalf("replication %d: record %q", replication, rec)
		}
		r.Forward().Release()
		s.Reset()
		r.Reset()
		if _, fresh, err := r.Promise(); fresh || err != nil {
			t.Errorf("replication %d: after the reset %v, %v", replication, fresh, err)
		}
	}
}

// Every block of the pool lies in the return ring at once, at every place where the ring may stand, and it is never
// full. Every word of a lane at rest is overwritten in turn: Check of one end or the other finds each word on which
// an end could wait for ever, whatever its new value. The others are words that are not read any more, or not yet.
func TestCheckFindsEveryWordThatCounts(t *testing.T) {
	cfg := Config{RingBytes: 256, ReturnBlocks: 4}
	const forward, headOfRing, ownerOfProducer, ownerOfConsumer = forwardOffset, 256, 136, 264
	back := forward + ring.Size(cfg.RingBytes)
	want := []int{
		promiseOffset, promiseOffset + 8,
		forward + ownerOfProducer, forward + headOfRing, forward + ownerOfConsumer, forward + ring.ControlBytes + 16,
		back + ownerOfProducer, back + headOfRing, back + ownerOfConsumer, back + ring.ControlBytes + 24,
	}
	for _, word := range []uint64{0, 8, 1 << 40, ^uint64(0), 0x5555555555555550} {
		var found []int
		size := len(body(t, cfg))
		for at := 0; at < size; at += 8 {
			mem := body(t, cfg)
			s, err := OpenSender(mem)
			must(t, err)
			r, err := OpenReceiver(mem)
			must(t, err)
			send(t, s, "event")
			s.Promise(3, 1)
			_, err = r.Forward().Next()
			must(t, err)
			r.Forward().Release()
			must(t, r.Return(2, 7))
			_, _, _, err = s.Returned()
			must(t, err)
			s.ReleaseReturned()
			must(t, errors.Join(s.Check(), r.Check(), r.CheckReturns()))
			value := word
			if binary.LittleEndian.Uint64(mem[at:]) == value {
				value ^= 16
			}
			binary.LittleEndian.PutUint64(mem[at:], value)
			err = errors.Join(s.Check(), r.Check(), r.CheckReturns())
			if err != nil && !errors.Is(err, ErrProtocol) {
				t.Errorf("word at %d: %v, want %v", at, err, ErrProtocol)
			}
			if err != nil {
				found = append(found, at)
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("%#x is found at %v, want at %v", word, found, want)
		}
	}
}

func TestReturnRingHoldsEveryBlock(t *testing.T) {
	for blocks := range 70 {
		for start := range uint64(40) {
			s, r := open(t, Config{RingBytes: 128, ReturnBlocks: blocks, Start: start * 8})
			for round := range 3 {
				for n := range blocks {
					if err := r.Return(uint32(n), uint64(round)); err != nil {
						t.Fatalf("%d blocks from %d, block %d: %v", blocks, start*8, n, err)
					}
				}
				for n := range blocks {
					number, seq, ok, err := s.Returned()
					if number != uint32(n) || seq != uint64(round) || !ok || err != nil {
						t.Fatalf("block %d came back as %d, %d, %v, %v", n, number, seq, ok, err)
					}
				}
				if _, _, ok, err := s.Returned(); ok || err != nil {
					t.Fatalf("one block more than there are: %v, %v", ok, err)
				}
				s.ReleaseReturned()
			}
		}
	}
}

func TestReturnsOfABadPeer(t *testing.T) {
	_, r := open(t, Config{RingBytes: 128, ReturnBlocks: 2})
	var err error
	for range 10 {
		if err = r.Return(0, 1); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrProtocol) {
		t.Errorf("more returns than blocks: %v, want ErrProtocol", err)
	}

	s, r := open(t, Config{RingBytes: 128, ReturnBlocks: 2})
	if err := r.Return(2, 1); err != nil {
		t.Fatal(err)
	}
	if _, _, ok, err := s.Returned(); ok || !errors.Is(err, ErrProtocol) {
		t.Errorf("block 2 of 2: %v, %v, want ErrProtocol", ok, err)
	}

	s, r = open(t, Config{RingBytes: 128, ReturnBlocks: 2})
	if _, err := r.returns.Claim(8); err != nil {
		t.Fatal(err)
	}
	r.returns.Commit()
	r.returns.Publish()
	if !s.ReturnsPending() {
		t.Error("a return is there, but not seen")
	}
	if _, _, ok, err := s.Returned(); ok || !errors.Is(err, ErrProtocol) {
		t.Errorf("short return: %v, %v, want ErrProtocol", ok, err)
	}
}

func TestPeerErrorText(t *testing.T) {
	cause := errors.New("cause")
	err := error(&PeerError{Peer: 3, Kind: ErrProtocol, Position: 40, Err: cause})
	if !errors.Is(err, ErrProtocol) || !errors.Is(err, cause) || err.Error() != "worker 3: lane: protocol error at "+
		"position 40: cause" {
		t.Errorf("%v", err)
	}
	err = &PeerError{Peer: 3, Kind: ErrPeerDead}
	if !errors.Is(err, ErrPeerDead) || errors.Is(err, ErrProtocol) || err.Error() != "worker 3: lane: peer is dead "+
		"(position 0)" {
		t.Errorf("%v", err)
	}
}

func TestNothingAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of the checked build allocate")
	}
	s, r := open(t, Config{RingBytes: 1024, ReturnBlocks: 4})
	epoch := 0.0
	if n := testing.AllocsPerRun(200, func() {
		epoch++
		s.Promise(epoch, 0)
		if p, fresh, err := r.Promise(); !fresh || err != nil || !r.Reached(p) {
			t.Fatal(p, fresh, err)
		}
		if err := r.Return(1, 2); err != nil {
			t.Fatal(err)
		}
		if _, _, ok, err := s.Returned(); !ok || err != nil {
			t.Fatal(err)
		}
		s.ReleaseReturned()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Two goroutines on heap memory, for the race detector: the bounds that arrive rise,
// and what was sent before each has been read.
func TestPromisesBetweenGoroutines(t *testing.T) {
	const events = 20000
	s, r := open(t, Config{RingBytes: 512})
	go func() {
		for i := range events {
			for {
				rec, err := s.Forward().Claim(8)
				if err == nil {
					binary.LittleEndian.PutUint64(rec, uint64(i))
					break
				}
			}
			s.Forward().Commit()
			s.Forward().Publish()
			s.Promise(float64((i+1)/3), uint32((i+1)%3))
		}
	}()
	held, read := Promise{}, 0
	for held.Epoch != events/3 || held.Level != events%3 {
		p, fresh, err := r.Promise()
		if err != nil {
			t.Fatal(err)
		}
		for {
			rec, err := r.Forward().Next()
			if err != nil {
				t.Fatal(err)
			}
			if rec == nil {
				break
			}
			if got := binary.LittleEndian.Uint64(rec); got != uint64(read) {
				t.Fatalf("event %d, want %d", got, read)
			}
			read++
		}
		r.Forward().Release()
		if !fresh {
			continue
		}
		if !r.Reached(p) || p.Epoch < held.Epoch || p.Epoch == held.Epoch && p.Level <= held.Level {
			t.Fatalf("%+v after %+v, reached %v", p, held, r.Reached(p))
		}
		if sent := int(p.Epoch)*3 + int(p.Level); read < sent {
			t.Fatalf("bound (%v,%d) after %d events, but %d were read", p.Epoch, p.Level, sent, read)
		}
		held = p
	}
}
