// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
)

// Producer is the writing side of a ring. One goroutine at a time may call it.
// Memory that Claim returns may be written until Commit or Abort; after that it
// belongs to the ring. See the package's example.
//
// Records pass three states. Claimed: there is room and the caller fills it. Committed: complete, but not visible
// to the consumer. Published: the consumer may see it. All committed records are published together, with one
// store. Stage commits a record at once, for callers that always fill it.
//
// Bytes in [tail, tail+free) belong to the producer, where free counts up to the
// consumer's head; see the invariants in docs/format/ring.md.
type Producer struct {
	probe probe
	view  // immutable

	// Owned by the producer. All are positions, except the header words.
	staged uint64  // end of the committed records; the next claim starts here
	bound  uint64  // Invariant: staged never passes it; as computed by turn, or less
	header uint64  // header word of a record up to bound, without its length
	limit  uint64  // Invariant: staged never passes it; the cached head + capacity - 8
	first  uint64  // header word of the first committed record, 0: none is staged
	tail   uint64  // end of the published records, where first will be stored
	claim  uint64  // header word of the claimed record without its lap, 0: none
	pad    uint64  // bytes of padding in front of the claimed record
	count  int     // records committed since the last Publish
	later  bool    // Prepare has been called: it asks for lines, not who publishes
	apart  bool    // the consumer waits for each record, as far as the last look at the head shows
	due    uint64  // bytes to ask for in Prepare, 0: none
	look   int     // records that are published alone up to the next such look
	giving *giving // whether lines of such records are given away; nil: this processor can't

	refuse uint64 // claims of so many bytes or more are refused: maxBody+1, 0 once err is set
	err    error  // why the ring takes no more records, nil while it does
	ended  bool   // Close has been called
}

// OpenProducer acquires the writing side of the ring in mem, which Init has formatted. It fails with ErrTaken when
// it was acquired before, by any process, and with ErrFormat when mem is not such a ring.
func OpenProducer(mem []byte) (*Producer, error) {
	v, start, err := attach(mem)
	if err != nil {
		return nil, err
	}
	if err := acquire(&v.ctl.producer.owner, "producer"); err != nil {
		return nil, err
	}
	p := &Producer{
		view:   v,
		staged: start,
		tail:   start,
		limit:  start + v.capacity - headerBytes,
		refuse: v.maxBody + 1,
	}
	if demotes {
		p.giving = &giving{}
	}
	p.turn()
	return p, nil
}

// Stage is Claim and Commit in one: it returns the n bytes of a record that is committed already and that the
// caller fills before the next Publish. It is for callers that never abort a claim, and saves a third of the cost
// of a small record. Errors and preconditions are those of Claim.
func (p *Producer) Stage(n int) ([]byte, error) {
	need := headerBytes + alignUp(uint64(n))
	if uint64(n) >= p.refuse || p.claim != 0 || need > p.bound-p.staged {
		return p.stageSlow(n)
	}
	index := p.staged & p.mask
	header := p.header | uint64(n)
	if p.first == 0 {
		p.first = header
	} else {
		p.probe.step(putHeader, index/headerBytes)
		*p.memory.word(index) = header
	}
	p.staged += need
	p.count++
	if need > shortMax {
		p.fetchAhead(need)
	}
	if invariants.Enabled {
		p.check()
	}
	return p.memory.body(index+headerBytes, uint64(n)), nil
}

// stageSlow is Stage where the record isn't within bound: it comes after padding, is the first of a lap, needs a
// newer head, or doesn't fit.
func (p *Producer) stageSlow(n int) ([]byte, error) {
	rec, err := p.Claim(n)
	if err == nil {
		p.Commit()
	}
	return rec, err
}

// turn computes the header of a record at staged, and how far it may reach: to the end of the data area and not
// beyond limit. Both stay true until the next lap; a refresh in between only makes bound less than it could be.
func (p *Producer) turn() {
	p.header = kindData | markerBits | lapOf(p.staged, p.shift)
	p.bound = p.staged + min(p.capacity-p.staged&p.mask, p.limit-p.staged)
}

// Claim returns n bytes of the ring's memory for the caller to fill in place. They may hold anything. It returns
// ErrFull while there is no room, a wrapped ErrTooLarge when n is more than MaxRecord, ErrClosed once the consumer
// has closed and a wrapped ErrCorrupt once its head is invalid. That the consumer has closed is noticed only when
// room runs low; ConsumerClosed checks at once.
//
// Preconditions: no record is claimed; n >= 0. Otherwise Claim panics.
func (p *Producer) Claim(n int) ([]byte, error) {
	if uint64(n) >= p.refuse || p.claim != 0 {
		return nil, p.refusal(n)
	}
	need := headerBytes + alignUp(uint64(n))
	index, pad := p.staged&p.mask, uint64(0)
	if index+need > p.capacity {
		index, pad = 0, p.capacity-index
	}
	// One word behind the record stays free: Publish clears it.
	if pad+need > p.limit-p.staged {
		if err := p.refresh(pad + need); err != nil {
			return nil, err
		}
	}
	p.claim, p.pad = kindData|markerBits|uint64(n), pad
	from := index + headerBytes
	return p.memory.body(from, uint64(n)), nil
}

// refusal is the error of a claim of n bytes that isn't possible.
func (p *Producer) refusal(n int) error {
	if n < 0 {
		panic(fmt.Sprintf("ring: claim of %d bytes at position %d", n, p.staged))
	}
	if p.claim != 0 {
		panic(fmt.Sprintf("ring: claim of %d bytes at position %d, where %d are claimed already", n, p.staged,
			p.claim&lengthMask))
	}
	if p.err != nil {
		return p.err
	}
	return fmt.Errorf("%w: %d bytes, at most %d fit into a ring of %d", ErrTooLarge, n, p.maxBody, p.capacity)
}

// refresh loads the consumer's head and reports whether need bytes are free then.
func (p *Producer) refresh(need uint64) error {
	// SYNC POINT room-released: pairs with the store of the head in Release. The
	// consumer has read everything before the head it stored.
	p.probe.step(loadHead, 0)
	word := atomic.LoadUint64(&p.ctl.consumer.head)
	race.Acquire(&p.ctl.consumer.head)
	if word&headClosed != 0 {
		return p.stop(ErrClosed)
	}
	if err := p.checkHead(word); err != nil {
		return err
	}
	p.limit = word + p.capacity - headerBytes
	if need > p.limit-p.staged {
		return ErrFull
	}
	return nil
}

// checkHead ends the ring if the consumer can't stand at head: before where it stood when we
// looked last, or behind what it can have read.
func (p *Producer) checkHead(head uint64) error {
	cached := p.limit + headerBytes - p.capacity
	if head%headerBytes != 0 || head-cached > p.tail-cached {
		return p.stop(fmt.Errorf("%w: head word %#x at tail %d, want a multiple of %d in [%d, %d]", ErrCorrupt, head,
			p.tail, headerBytes, cached, p.tail))
	}
	return nil
}

// stop makes the ring refuse every later claim with err.
func (p *Producer) stop(err error) error {
	p.err, p.refuse = err, 0
	return err
}

// Commit stages the claimed record: it is complete and will be seen by the consumer
// after the next Publish. Commit without a claim panics.
func (p *Producer) Commit() {
	if p.claim == 0 {
		panic(fmt.Sprintf("ring: commit at position %d without a claim", p.staged))
	}
	if p.pad != 0 {
		p.stage(kindPadding|markerBits|(p.pad-headerBytes), p.pad)
	}
	p.stage(p.claim, headerBytes+alignUp(p.claim&lengthMask))
	p.claim, p.pad = 0, 0
	p.count++
	p.turn()
	if invariants.Enabled {
		p.check()
	}
}

// stage writes one header. That of the first staged record is stored by Publish only, so that the consumer can
// reach none before. The others may be plain stores: they come before the release store of the first one.
func (p *Producer) stage(header, size uint64) {
	header |= lapOf(p.staged, p.shift)
	if p.first == 0 {
		p.first = header
	} else {
		p.probe.step(putHeader, p.slot(p.staged))
		*p.word(p.staged) = header
	}
	p.staged += size
}

// PublishClaimed is Commit and Publish in one, for a record that is published as soon as it is filled: it takes a third
// of their time. A caller that checks next whether the consumer is parked needs a full fence first.
func (p *Producer) PublishClaimed() {
	at, size := p.staged, headerBytes+alignUp(p.claim&lengthMask)
	if p.claim == 0 || p.first|p.pad != 0 || size > p.bound-at {
		p.Commit()
		p.Publish()
		return
	}
	if invariants.Enabled {
		p.check()
	}
	header, next := p.header|p.claim, at+size
	if p.waits() && size <= shortMax && p.fits(p.lineUp(next)) {
		header, next = header|lineBit, p.lineUp(next)
	}
	p.probe.step(putHeader, p.slot(next))
	*p.word(next) = 0
	// SYNC POINT record-published: as in Publish.
	race.ReleaseMerge(p.word(at))
	p.probe.step(publishHeader, p.slot(at))
	storeRelease(p.word(at), header)
	p.staged, p.tail, p.claim = next, next, 0
	if size > shortMax {
		p.fetchSoon(size)
	}
}

// PublishAlone is Claim and PublishClaimed in one, for a record of four words and the bytes behind them, in fewer
// instructions. The words lie in memory in little-endian order. It returns false, and does nothing, unless the
// consumer waits for each record, as far as the last look at the head shows, nothing is claimed or committed, and a
// record of at most 4,088 bytes fits in front of the end of the data area, by the head as last loaded. Claim and
// PublishClaimed know all other cases, and why a record can't be sent. Like PublishClaimed it is no full fence.
func (p *Producer) PublishAlone(w0, w1, w2, w3 uint64, rest []byte) bool {
	at, n := p.staged, uint64(len(rest))+4*headerBytes
	next := p.lineUp(at + headerBytes + alignUp(n))
	// Up to bound the next header is free too, as in fits. p.apart says that the ring has lines.
	if p.look <= 0 || !p.apart || n > aloneMax-headerBytes || n >= p.refuse || p.first|p.claim != 0 ||
		next-at > p.bound-at {
		return false
	}
	if invariants.Enabled {
		p.check()
		p.stepBody(at, n)
	}
	if n <= shortMax {
		// All lines, and the one of the next header, right before they are stored to: stores become visible in their
		// order, and there are machines that fetch the line of one only when the one before is there (docs/bench.md,
		// "A host that fetches line by line"). A header at the area's beginning is left out.
		prefetchStore(p.word(at), min(next-at+lineBytes, p.capacity-at&p.mask)/lineBytes)
	}
	p.probe.step(putHeader, p.slot(next))
	*p.word(next) = 0
	index := at & p.mask
	*p.memory.words(index + headerBytes) = [4]uint64{w0, w1, w2, w3}
	copy(p.memory.body(index+5*headerBytes, n-4*headerBytes), rest)
	// SYNC POINT record-published: as in Publish.
	race.ReleaseMerge(p.word(at))
	p.probe.step(publishHeader, p.slot(at))
	storeRelease(p.word(at), p.header|n|lineBit)
	if p.giving != nil && p.giving.gives() {
		demote(p.word(at), (next-at)/lineBytes)
	}
	p.look, p.staged, p.tail = p.look-1, next, next
	if n > shortMax {
		p.fetchSoon(headerBytes + alignUp(n))
	}
	return true
}

// stepBody tells the probe of the stores to a body of n bytes at position at, which the caller doesn't fill itself. It
// counts words, because the position behind the body may be 0 again.
func (p *Producer) stepBody(at, n uint64) {
	for word := range alignUp(n) / headerBytes {
		p.probe.step(putBody, p.slot(at+headerBytes+word*headerBytes))
	}
}

// fetchAhead asks for the lines of the next record, as if it took size bytes as the one before staged did. They are in
// the consumer's cache since the last lap: without it a long record waits for most of them.
func (p *Producer) fetchAhead(size uint64) {
	if from, lines := p.ahead(size); lines != 0 {
		prefetchStore(p.word(from), lines)
	}
}

// fetchSoon is fetchAhead for a record that was just published. If the consumer waits for it, it asks for the record's
// lines now, and lines that come the other way would delay them: a caller of Prepare does it later.
func (p *Producer) fetchSoon(size uint64) {
	if p.apart && p.later {
		p.due = size
		return
	}
	p.fetchAhead(size)
}

// Prepare asks for the lines of the next record, if the last one was long and was published by itself to a consumer
// that waits for each, once. It is for a producer that waits for an answer: when it has looked for it in vain a few
// times, the consumer has read the record. Until the first call the lines are asked for as soon as a record is
// published.
func (p *Producer) Prepare() {
	p.later = true
	if p.due != 0 {
		p.fetchAhead(p.due)
		p.due = 0
	}
}

// ahead is where the next line behind staged begins, and how many lines from there on are free and worth asking for,
// up to the one with the header behind the next record. The line of staged itself is left out, because the consumer
// looks at it: it would come in vain and be taken back.
func (p *Producer) ahead(size uint64) (from, lines uint64) {
	from = p.lineUp(p.staged + headerBytes)
	skip, left := from-p.staged, p.bound-p.staged
	if skip >= left {
		return from, 0
	}
	// For records of one length always the same number, so that the processor foresees the end of the loop.
	return from, min(p.lineUp(size+headerBytes), left-skip, aheadMax) / lineBytes
}

// Abort drops the claimed record, if there is one. Records committed before stay committed.
func (p *Producer) Abort() {
	p.claim, p.pad = 0, 0
}

// Publish makes all committed records visible to the consumer, with one store, and returns how many there were. It
// is no full fence: a caller that checks next whether the consumer is parked needs PublishFenced, or a fence of its
// own.
func (p *Producer) Publish() int {
	if p.first == 0 {
		return 0
	}
	p.seal()
	// SYNC POINT record-published: pairs with the load of the header in Next. The
	// bodies, the other headers and the cleared word were all stored before.
	race.ReleaseMerge(p.word(p.tail))
	p.probe.step(publishHeader, p.slot(p.tail))
	storeRelease(p.word(p.tail), p.first)
	return p.published()
}

// PublishFenced is Publish with a full fence behind it: a later load of this side, of a word that says whether the
// consumer is parked, is not done before the records are visible. With the plain Publish each side could miss the
// other's store, and the consumer would sleep although a record is there.
func (p *Producer) PublishFenced() int {
	if p.first == 0 {
		return 0
	}
	p.seal()
	// SYNC POINT record-published: as in Publish.
	// SYNC POINT park-handshake: pairs with the consumer's last look
	// (Pending) after it has armed its doorbell. sync/atomic is sequentially consistent, so of the two stores one
	// is seen by the other side's load.
	race.ReleaseMerge(p.word(p.tail))
	p.probe.step(publishHeader, p.slot(p.tail))
	atomic.StoreUint64(p.word(p.tail), p.first)
	return p.published()
}

// seal ends a batch. The header word behind it, which the consumer will load next, is 0 then. The room for it is
// included in limit.
func (p *Producer) seal() {
	if invariants.Enabled {
		p.check()
	}
	// A record that is claimed already has its place.
	if p.count == 1 && p.claim == 0 && p.staged-p.tail <= shortMax && p.first&kindMask == kindData && p.waits() {
		if next := p.lineUp(p.staged); p.fits(next) {
			p.first |= lineBit
			p.staged = next
		}
	}
	p.probe.step(putHeader, p.slot(p.staged))
	*p.word(p.staged) = 0
}

// waits reports whether a record that is published alone leaves the rest of its line free, so that the next one begins
// at a line: then a record touches as few lines as it can. That is for a consumer that waits for each. If it is
// behind, records stand side by side, because it reads many of them at a time.
func (p *Producer) waits() bool {
	if p.look--; p.look < 0 {
		p.look, p.apart = looksEvery, p.line != headerBytes && p.Drained()
	}
	return p.apart
}

// fits reports whether the next header may stand at a position.
func (p *Producer) fits(next uint64) bool { return next-p.staged <= p.bound-p.staged }

// published updates the producer's private state after the release store.
func (p *Producer) published() int {
	n := p.count
	p.tail, p.first, p.count = p.staged, 0, 0
	return n
}

// Room is the length of the longest record that Claim would take now. It uses the consumer's head as last loaded
// and loads it again only when that leaves less than a quarter of the capacity, so it may be too small but never
// too large. A record that is claimed but not committed isn't counted. 0 means that at most an empty record fits.
func (p *Producer) Room() int {
	room := p.room()
	if room < p.capacity/4 && room < p.maxBody && p.err == nil && p.refresh(0) == nil {
		room = p.room()
	}
	if p.err != nil {
		return 0
	}
	return int(room)
}

// room is Room by the cached head.
func (p *Producer) room() uint64 {
	free, toEnd := p.limit-p.staged, p.capacity-p.staged&p.mask
	whole := min(free, toEnd)
	if free > toEnd {
		whole = max(whole, free-toEnd)
	}
	if whole < headerBytes {
		return 0
	}
	return min(whole-headerBytes, p.maxBody)
}

// MaxRecord is the length of the longest record that the ring takes.
func (p *Producer) MaxRecord() int { return int(p.maxBody) }

// Position is the position behind the last committed record.
func (p *Producer) Position() uint64 { return p.staged }

// Drained reports whether the consumer has released everything that was published.
func (p *Producer) Drained() bool {
	// SYNC POINT room-released: only compared; Claim loads and checks the head
	// itself before it uses the room.
	p.probe.step(loadHead, 0)
	return atomic.LoadUint64(&p.ctl.consumer.head)&^headClosed == p.tail
}

// ConsumerClosed reports whether the consumer has closed its side.
func (p *Producer) ConsumerClosed() bool {
	return atomic.LoadUint64(&p.ctl.consumer.head)&headClosed != 0
}

// Check compares what only this side writes with what it wrote there, as far as a few words show it: its owner
// word, the word at the tail, and that a header stands at the consumer's head as long as not everything is
// released. It also checks the head, as Claim does when room runs low. A wrapped ErrCorrupt means that another
// process has overwritten something: without Check, the consumer would wait for a record whose header was cleared,
// and this side for the consumer. Call it when there is nothing else to do.
func (p *Producer) Check() error {
	if errors.Is(p.err, ErrCorrupt) {
		return p.err
	}
	if owner := atomic.LoadUint64(&p.ctl.producer.owner); owner != sideTaken {
		return p.stop(fmt.Errorf("%w: the producer's own word was overwritten: owner %d, want %d", ErrCorrupt, owner,
			sideTaken))
	}
	atTail := uint64(0)
	if p.ended {
		atTail = kindEnd | markerBits | lapOf(p.tail, p.shift)
	}
	if err := p.checkTail(atTail); err != nil {
		return err
	}
	// SYNC POINT room-released: only compared. The header at the head stays until the room is claimed again, by us.
	head := atomic.LoadUint64(&p.ctl.consumer.head) &^ headClosed
	if err := p.checkHead(head); err != nil {
		return err
	}
	if invariants.Enabled && race.Enabled {
		return nil // the consumer may be overwriting what it releases, as mangle does: never with 0, but a race it is
	}
	if head != p.tail && atomic.LoadUint64(p.word(head)) == 0 {
		return p.stop(fmt.Errorf("%w: records up to %d are published, but at head %d stands no header: it was "+
			"overwritten", ErrCorrupt, p.tail, head))
	}
	return nil
}

// checkTail ends the ring if the word at the tail, which only this side writes, isn't want.
func (p *Producer) checkTail(want uint64) error {
	if word := atomic.LoadUint64(p.word(p.tail)); word != want {
		return p.stop(fmt.Errorf("%w: word %#x at tail %d, where %#x was written: it was overwritten", ErrCorrupt, word,
			p.tail, want))
	}
	return nil
}

// Close publishes what is committed, drops a claimed record and writes an end mark: after the last record the
// consumer gets ErrClosed. Claim returns ErrClosed from then on. Closing again does nothing.
func (p *Producer) Close() {
	if p.ended {
		return
	}
	p.ended = true
	p.Abort()
	p.Publish()
	// The end mark takes the word that every Publish leaves cleared, so there is
	// always room for it.
	// SYNC POINT record-published: the end mark is a record like the others.
	race.ReleaseMerge(p.word(p.tail))
	p.probe.step(publishHeader, p.slot(p.tail))
	storeRelease(p.word(p.tail), kindEnd|markerBits|lapOf(p.tail, p.shift))
	p.stop(ErrClosed)
}

// check asserts the invariants of docs/format/ring.md that the producer can see, and looks for damage: the word at
// the tail is 0 unless the peer has written where it must not. That is no bug of this side, so it ends the ring
// with ErrCorrupt.
func (p *Producer) check() {
	head := p.limit + headerBytes - p.capacity
	invariants.Assert(p.staged-head <= p.capacity-headerBytes, "ring: staged %d at head %d leaves no free word in %d",
		p.staged, head, p.capacity)
	invariants.Assert(p.tail-head <= p.staged-head, "ring: tail %d beyond staged %d at head %d", p.tail, p.staged, head)
	invariants.Assert(p.bound-p.staged <= p.limit-p.staged, "ring: bound %d beyond limit %d at staged %d", p.bound,
		p.limit, p.staged)
	if !p.ended && p.err == nil {
		_ = p.checkTail(0) // the next claim returns it
	}
}
