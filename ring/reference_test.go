// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/race"
)

// reference is the simplest ring: a list of records and sums over it. The fast ring is compared with it, call by
// call.
type reference struct {
	capacity int
	index    int     // where the next record would start
	claimed  *parcel // nil: none
	staged   []parcel
	sent     []parcel // published and not returned yet
	held     []parcel // returned and not released
	ended    bool     // the producer has closed
	left     bool     // the consumer has closed
	sawEnd   bool     // the producer has noticed
}

// parcel is one record with the padding in front of it and what is left free behind it.
type parcel struct {
	body  []byte
	pad   int
	slack int
}

func (r parcel) size() int { return r.pad + 8 + (len(r.body)+7)/8*8 + r.slack }

// used counts every byte that the producer must not touch.
func (d *reference) used() int {
	sum := 0
	for _, list := range [][]parcel{d.staged, d.sent, d.held} {
		for _, r := range list {
			sum += r.size()
		}
	}
	return sum
}

func (d *reference) claim(body []byte) error {
	if d.ended || d.sawEnd {
		return ErrClosed
	}
	if len(body) > d.capacity/2-8 {
		return ErrTooLarge
	}
	r := parcel{body: body}
	if d.index+r.size() > d.capacity {
		r.pad = d.capacity - d.index
	}
	if d.used()+r.size()+8 > d.capacity {
		return ErrFull
	}
	d.claimed = &r
	return nil
}

// room is the longest body that claim would take.
func (d *reference) room() int {
	body := make([]byte, d.capacity/2-8)
	for len(body) > 0 {
		if try := *d; try.claim(body) == nil {
			break
		}
		body = body[1:]
	}
	return len(body)
}

func (d *reference) commit() {
	d.index = (d.index + d.claimed.size()) % d.capacity
	d.staged = append(d.staged[:len(d.staged):len(d.staged)], *d.claimed)
	d.claimed = nil
}

func (d *reference) publish(slack int) int {
	n := len(d.staged)
	if n > 0 {
		d.staged = slices.Clone(d.staged) // forks share it
		d.staged[n-1].slack = slack
		d.index = (d.index + slack) % d.capacity
	}
	d.sent = append(d.sent[:len(d.sent):len(d.sent)], d.staged...)
	d.staged = nil
	return n
}

func (d *reference) next() ([]byte, error) {
	if d.left {
		return nil, ErrClosed
	}
	if len(d.sent) == 0 {
		if d.ended {
			return nil, ErrClosed
		}
		return nil, nil
	}
	r := d.sent[0]
	d.sent = d.sent[1:]
	d.held = append(d.held[:len(d.held):len(d.held)], r)
	return r.body, nil
}

func (d *reference) release() { d.held = nil }

// pair is the fast ring and the reference one side by side. It can be copied with fork.
type pair struct {
	mem       []byte
	p         Producer
	c         Consumer
	buf       []byte // what Claim returned
	reference reference
	alone     int // records that PublishAlone took
}

func newPair(t testing.TB, capacity int, start uint64) *pair {
	t.Helper()
	mem := aligned.Bytes(Size(capacity), Alignment)
	for i := range mem {
		mem[i] = 0xEE // Init needs no zeroed memory
	}
	if err := Init(mem, Config{Start: start}); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProducer(mem)
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenConsumer(mem)
	if err != nil {
		t.Fatal(err)
	}
	p.line = uint64(max(8, min(64, capacity/4)))
	c.line = p.line
	return &pair{mem: mem, p: *p, c: *c, reference: reference{capacity: capacity, index: int(start % uint64(capacity))}}
}

// fork copies everything, so that two histories can go on from here.
func (x *pair) fork() *pair {
	y := *x
	y.mem = aligned.Bytes(len(x.mem), Alignment)
	copy(y.mem, x.mem)
	v, _, err := attach(y.mem)
	if err != nil {
		panic(err)
	}
	if x.buf != nil {
		// The claimed bytes at the same place in the copy.
		at := cap(x.mem[ControlBytes:]) - capFrom(x.p.data, x.buf)
		y.buf = v.data[at : at+len(x.buf) : at+len(x.buf)]
	}
	v.line = x.p.line
	y.p.view, y.c.view = v, v
	return &y
}

// capFrom is how many bytes lie between the start of buf and the end of data. An
// empty buf says nothing; any place will do for it.
func capFrom(data, buf []byte) int {
	if len(buf) == 0 {
		return len(data)
	}
	for at := range data {
		if &data[at] == &buf[0] {
			return len(data) - at
		}
	}
	panic("claimed bytes outside the ring")
}

// pattern fills a body so that its place in the stream can be recognised.
func pattern(n int, salt uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(salt) ^ byte(i*37) ^ 0x5A
	}
	return b
}

// do makes one call on both rings and reports how they differ.
func (x *pair) do(o op) error {
	switch o.kind {
	case 'c':
		return x.place(o.n, x.p.Claim)
	case 's':
		if err := x.place(o.n, x.p.Stage); err != nil || x.buf == nil {
			return err
		}
		copy(x.buf, x.reference.claimed.body)
		x.buf = nil
		x.reference.commit()
	case 'm':
		copy(x.buf, x.reference.claimed.body)
		x.p.Commit()
		x.buf = nil
		x.reference.commit()
	case 'p', 'f':
		publish := x.p.Publish
		if o.kind == 'f' {
			publish = x.p.PublishFenced
		}
		return x.doPublish(x.p.staged, publish)
	case 'd':
		end := x.p.staged + x.p.pad + headerBytes + alignUp(x.p.claim&lengthMask)
		copy(x.buf, x.reference.claimed.body)
		x.buf = nil
		x.reference.commit()
		return x.doPublish(end, func() int {
			n := len(x.reference.staged)
			x.p.PublishClaimed()
			return n
		})
	case 'w':
		return x.doAlone(o.n)
	case 'a':
		x.p.Abort()
		x.buf, x.reference.claimed = nil, nil
	case 'n':
		return x.doNext()
	case 'r':
		if err := x.checkHeld(); err != nil {
			return err
		}
		x.c.Release()
		x.reference.release()
	case 'o':
		return x.doRoom()
	case 'e':
		staged := x.p.staged
		x.p.look = 0
		x.p.Close()
		x.buf, x.reference.claimed = nil, nil
		x.reference.publish(int(x.p.tail - staged))
		x.reference.ended = true
	case 'l':
		x.c.Close()
		x.reference.release()
		x.reference.left = true
	}
	return nil
}

// publishAlone calls PublishAlone with a record of 32 bytes or more.
func publishAlone(p *Producer, body []byte) bool {
	var w [4]uint64
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(body[8*i:])
	}
	return p.PublishAlone(w[0], w[1], w[2], w[3], body[32:])
}

// doAlone publishes four words and n bytes alone, if the ring does that now. Sometimes it sees to it that nothing is
// claimed or staged, and that the last look at the head is a new one.
func (x *pair) doAlone(n int) error {
	if n%4 < 2 {
		x.do(op{kind: 'a'})
		if err := x.do(op{kind: 'p'}); err != nil {
			return err
		}
	}
	body, at := pattern(32+n, x.p.staged/8), x.p.staged
	if x.p.look = 0; n%2 == 0 {
		x.p.waits()
	}
	if x.p.look = 1; !publishAlone(&x.p, body) {
		if x.p.staged != at || x.p.tail != at && x.p.first == 0 {
			return fmt.Errorf("%d bytes weren't published alone, and yet staged is %d and tail %d", len(body),
				x.p.staged, x.p.tail)
		}
		return nil
	}
	x.alone++
	if err := x.reference.claim(body); err != nil || x.reference.claimed.pad != 0 {
		return fmt.Errorf("%d bytes were published alone, where a claim answers %v", len(body), err)
	}
	x.reference.commit()
	slack := x.p.staged - at - headerBytes - alignUp(uint64(len(body)))
	if slack >= x.p.line || x.p.staged%x.p.line != 0 {
		return fmt.Errorf("%d bytes are free behind a record alone up to %d", slack, x.p.staged)
	}
	if n := x.reference.publish(int(slack)); n != 1 {
		return fmt.Errorf("%d records were published with one alone", n)
	}
	return nil
}

// doPublish publishes on both rings. A record alone may leave the rest of its line free if the consumer has released
// everything, and only then; padding may not stand in front of it.
func (x *pair) doPublish(staged uint64, publish func() int) error {
	waits := len(x.reference.sent)+len(x.reference.held) == 0
	x.p.look = 0
	got, slack := publish(), x.p.staged-staged
	if slack != 0 && (got != 1 || !waits || x.reference.staged[0].pad != 0 || x.p.staged%x.p.line != 0 ||
		slack >= x.p.line) {
		return fmt.Errorf("%d bytes are free behind %d records up to %d, waiting %t", slack, got, staged, waits)
	}
	if want := x.reference.publish(int(slack)); got != want {
		return fmt.Errorf("published %d, want %d", got, want)
	}
	return nil
}

// place takes room for a record with Claim or Stage, on the reference ring too.
func (x *pair) place(n int, take func(int) ([]byte, error)) error {
	body := pattern(n, x.p.staged/8)
	buf, err := take(n)
	if x.reference.left && err == ErrClosed {
		x.reference.sawEnd = true // it may look at the head before it must
	}
	want := x.reference.claim(body)
	if x.reference.left && want == ErrFull {
		return fmt.Errorf("claim of %d: %v, want %v", n, err, ErrClosed)
	}
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		return fmt.Errorf("claim of %d: %v, want %v", n, err, want)
	}
	if err == nil && (len(buf) != n || cap(buf) != n) {
		return fmt.Errorf("claim of %d gave %d bytes, capacity %d", n, len(buf), cap(buf))
	}
	x.buf = buf
	return nil
}

func (x *pair) doNext() error {
	pending := x.c.Pending()
	got, err := x.c.NextAlone(), error(nil)
	if got == nil {
		got, err = x.c.Next()
	}
	want, wantErr := x.reference.next()
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		return fmt.Errorf("next: %v, want %v", err, wantErr)
	}
	if (got == nil) != (want == nil) || !bytes.Equal(got, want) {
		return fmt.Errorf("next: % x, want % x", got, want)
	}
	if pending != (got != nil || err != nil) {
		return fmt.Errorf("pending said %t before a record of %v and error %v", pending, got, err)
	}
	return nil
}

// checkHeld compares the records that were returned and not released: the producer
// must not have touched them.
func (x *pair) checkHeld() error {
	at := x.c.released
	for _, r := range x.reference.held {
		from := (at + uint64(r.pad)) & x.c.mask
		if got := x.c.data[from+8:][:len(r.body)]; !bytes.Equal(got, r.body) {
			return fmt.Errorf("record at position %d changed before release: % x, want % x", at, got, r.body)
		}
		at += uint64(r.size())
	}
	if at != x.c.position {
		return fmt.Errorf("position %d, want %d", x.c.position, at)
	}
	return nil
}

func (x *pair) doRoom() error {
	got, want := x.p.Room(), x.reference.room()
	if x.reference.left && got == 0 {
		x.reference.sawEnd = x.p.err != nil
		return nil
	}
	if got > want || got < min(want, x.reference.capacity/4) {
		return fmt.Errorf("room %d, want at most %d and at least the lesser of it and a quarter of %d", got, want,
			x.reference.capacity)
	}
	return nil
}

// compareRest compares what both hold without changing anything.
func (x *pair) compareRest() error {
	if x.p.check(); errors.Is(x.p.err, ErrCorrupt) {
		return x.p.err
	}
	if err := errors.Join(x.p.Check(), x.c.Check()); err != nil {
		return err
	}
	return x.checkHeld()
}

// allowed reports whether the call keeps to the preconditions.
func (x *pair) allowed(o op) bool {
	switch o.kind {
	case 'c', 's':
		return x.reference.claimed == nil
	case 'm', 'd':
		return x.reference.claimed != nil
	}
	return true
}

// op is one call: c claim n bytes, s stage n bytes, m commit, p publish, f publish fenced, d commit and publish
// (do at once), w publish four words and n bytes alone if it can, a abort, n next, r release, o room, e producer closes
// (end), l consumer closes (leaves).
type op struct {
	kind byte
	n    int
}

func (o op) String() string {
	if o.kind == 'c' || o.kind == 's' || o.kind == 'w' {
		return fmt.Sprintf("%c%d", o.kind, o.n)
	}
	return string(o.kind)
}

// starts are close to where the index and the 64-bit position wrap around.
func starts(capacity int) []uint64 {
	n := uint64(capacity)
	return []uint64{0, n - 8, n/2 - 8, 5*n + 16, -n - 8, -(n / 2), ^uint64(7)}
}

func TestRandomHistoriesMatchTheReferenceRing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, capacity := range []int{32, 64, 128, 512, 4096} {
		alone := 0
		for _, start := range starts(capacity) {
			x := newPair(t, capacity, start)
			var history []op
			for range 4000 {
				o := randomOp(rng, x, capacity)
				history = append(history, o)
				err := x.do(o)
				if err == nil {
					err = x.compareRest()
				}
				if err != nil {
					t.Fatalf("capacity %d, start %d, seed %d, after %d calls ending in %v: %v", capacity, start, seed,
						len(history), history[max(0, len(history)-20):], err)
				}
			}
			alone += x.alone
		}
		if capacity >= 512 && alone < 50 {
			t.Errorf("capacity %d: %d records were published alone", capacity, alone)
		}
	}
}

// randomOp draws an allowed call. Claims of every size up to a little over the
// maximum, mostly small ones.
func randomOp(rng *rand.Rand, x *pair, capacity int) op {
	for {
		o := op{kind: "cccmmmmdsspfannnrrowwwwww"[rng.IntN(25)]}
		if o.kind == 'c' || o.kind == 's' {
			o.n = rng.IntN(capacity/2 + 2)
			if rng.IntN(3) > 0 {
				o.n = rng.IntN(o.n + 1)
			}
		}
		if o.kind == 'w' {
			o.n = rng.IntN(1 + rng.IntN(min(aloneMax, capacity/2)))
		}
		if x.allowed(o) {
			return o
		}
	}
}

// Every history of calls on tiny rings, until no new state turns up or the states
// are too many. A state is everything that both sides and the memory hold.
func TestAllSmallHistoriesMatchTheReferenceRing(t *testing.T) {
	statesMax := 12_000
	if race.Enabled {
		statesMax = 1500
	} else if testing.Short() {
		statesMax = 6000
	}
	for _, capacity := range []int{32, 64} {
		ops := []op{{kind: 'm'}, {kind: 'p'}, {kind: 'd'}, {kind: 'a'}, {kind: 'n'}, {kind: 'r'}, {kind: 'o'},
			{kind: 'e'}, {kind: 'l'}}
		for n := 0; n <= capacity/2; n += 8 {
			ops = append(ops, op{kind: 'c', n: n})
			if n%16 == 0 {
				ops = append(ops, op{kind: 's', n: n})
			}
		}
		for _, start := range starts(capacity) {
			exploreAll(t, capacity, start, ops, statesMax)
		}
	}
}

// exploreAll walks the states breadth first, each with the history that led there.
func exploreAll(t *testing.T, capacity int, start uint64, ops []op, statesMax int) {
	t.Helper()
	type node struct {
		x       *pair
		history []op
	}
	queue := []node{{x: newPair(t, capacity, start)}}
	seen := map[string]bool{queue[0].x.key(): true}
	depth := 0
	for len(queue) > 0 && len(seen) < statesMax {
		at := queue[0]
		queue = queue[1:]
		for _, o := range ops {
			if !at.x.allowed(o) {
				continue
			}
			y := at.x.fork()
			history := append(at.history[:len(at.history):len(at.history)], o)
			err := y.do(o)
			if err == nil {
				err = y.compareRest()
			}
			if err != nil {
				t.Fatalf("capacity %d, start %d, calls %v: %v", capacity, start, history, err)
			}
			if key := y.key(); !seen[key] {
				seen[key] = true
				queue = append(queue, node{y, history})
				depth = len(history)
			}
		}
	}
	if depth < 6 {
		t.Errorf("capacity %d, start %d: only %d states, histories up to %d calls", capacity, start, len(seen), depth)
	}
	t.Logf("capacity %d, start %d: %d states, histories up to %d calls", capacity, start, len(seen), depth)
}

// key is the whole state as a string.
func (x *pair) key() string {
	b := append(make([]byte, 0, len(x.mem)+96), x.mem...)
	if x.p.apart {
		b = append(b, 1)
	}
	for _, word := range []uint64{x.p.staged, x.p.limit,
		x.p.first, x.p.tail, x.p.claim, x.p.pad, x.p.refuse, x.p.bound,
		x.p.header, x.c.position, x.c.released, x.c.bound, x.c.expect} {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	if x.c.err != nil {
		b = append(b, 1)
	}
	return string(b)
}
