// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
)

var le = binary.LittleEndian

// cause is why a packet was lost.
type cause uint8

const (
	lostFull   cause = iota // the buffer was full
	lostOutage              // a link or node was down, or went down before the packet was over it
	lostRoute               // the router knew no way
	lostRandom              // a lossy link
	causes
)

// outcome is what happens to a packet in a channel's buffer once it has left it.
type outcome uint8

const (
	outcomeArrives         outcome = iota
	outcomeLostRandom              // lost at random when it was sent
	outcomeCutWhileSending         // lost in the outage that begins when it leaves
	outcomeCutOnLink               // lost on the cable, in an outage that begins later
)

// queuedPacket is one packet that waits, or is being sent.
type queuedPacket struct {
	arrived float64
	start   float64 // when it stops waiting
	release float64 // when it has been sent, or an outage ends it
	flow    uint32
	bytes   uint32
	outcome outcome
}

// simproc is what a channel needs of its simproc.
type simproc interface {
	Send(l node.LinkID, epoch float64, data []byte) error
	Recording() bool
	Record(r node.Row)
}

// channel is one direction of a cable at the router that sends on it: a finite buffer,
// a transmitter, the cable. Because the buffer is first in, first out and what will
// happen to the cable is known, a packet's outcome is decided when it enters, and one
// event takes it to the next router. The counts are brought up to date when they are
// read: no event is needed at the times between.
//
// Time never goes back from call to call.
type channel struct {
	link   node.LinkID
	input  uint32
	rate   float64
	delay  float64
	chance *rand.Rand

	packetsMax uint64
	bytesMax   int64 // 0: no limit

	down  []timeline.Window // outages that lie not wholly behind
	added timeline.Reader
	loss  timeline.Reader

	ring              []queuedPacket // power of two
	head, mid, tail   uint64         // positions: sent up to head, waiting from mid to tail
	waitingBytes      int64
	free              float64  // when the transmitter has sent all that it has
	falling           []uint32 // flows of packets on the cable that an outage will catch
	fallAt            float64  // when
	late              int64    // packets that arrive at the horizon or later
	horizon           float64
	data              [packetBytes]byte
	channelBooks      // what the report has
	busy, wait        float64
	busyIn, waitIn    []float64 // by span; nil: not looked at closely
	carriedIn, lossIn []int64
	outages           []timeline.Window // all of the replication
	src               rand.Source       // of chance
	field             int               // the first of the router's windows that is the channel's
	before            warmChannel
}

// channelBooks are the counts of a channel. All packets handed to it are lost, are
// received at the other end or are in flight.
type channelBooks struct {
	Handed     int64         // entered the buffer
	Refused    [causes]int64 // lost on entering: buffer full, or down
	Lost       [causes]int64 // of those handed
	Sent       int64         // of those handed: will arrive before the horizon
	Carried    int64         // sending completed
	Bytes      int64         // of those carried
	WaitingMax int64
	WaitedMax  float64 // seconds
}

// accept takes a packet, or loses it.
func (c *channel) accept(r *router, p simproc, now float64, pkt *packet) error {
	c.advance(r, now)
	outage := never
	if len(c.down) > 0 {
		outage = c.down[0].From
	}
	if outage <= now {
		c.refuse(r, pkt.flow, lostOutage, now)
		return nil
	}
	start := max(now, c.free)
	if start > now && (c.tail-c.mid >= c.packetsMax || c.bytesMax > 0 && c.waitingBytes+int64(pkt.bytes) > c.bytesMax) {
		c.refuse(r, pkt.flow, lostFull, now)
		return nil
	}
	finish := start + sending(float64(pkt.bytes), c.rate)
	c.free = finish
	c.Handed++
	e := queuedPacket{arrived: now, start: min(start, outage), release: min(finish, outage), flow: pkt.flow,
		bytes: pkt.bytes, outcome: outcomeCutWhileSending}
	if finish <= outage {
		var err error
		if e.outcome, err = c.launch(p, start-now, finish, outage, pkt); err != nil {
			return err
		}
	}
	c.push(e)
	return nil
}

// launch decides what becomes of a packet that is sent completely, and sends it if it
// arrives.
func (c *channel) launch(p simproc, waited, finish, outage float64, pkt *packet) (outcome, error) {
	if chance := c.loss.At(finish); chance > 0 && c.chance.Float64() < chance {
		return outcomeLostRandom, nil
	}
	delay := c.delay + c.added.At(finish)
	arrival := finish + delay
	if arrival > outage {
		c.falling, c.fallAt = append(c.falling, pkt.flow), outage
		return outcomeCutOnLink, nil
	}
	if !(arrival < c.horizon) {
		c.late++
		return outcomeArrives, nil
	}
	c.Sent++
	next := packet{delay: pkt.delay + waited + (sending(float64(pkt.bytes), c.rate) + delay), flow: pkt.flow,
		bytes: pkt.bytes, input: c.input, hops: pkt.hops + 1}
	next.put(&c.data)
	return outcomeArrives, p.Send(c.link, arrival, c.data[:])
}

func (c *channel) refuse(r *router, flow uint32, why cause, now float64) {
	c.Refused[why]++
	c.countLoss(r, now)
	r.lose(flow, why, now)
}

func (c *channel) lose(r *router, flow uint32, why cause, at float64) {
	c.Lost[why]++
	c.countLoss(r, at)
	r.lose(flow, why, at)
}

func (c *channel) countLoss(r *router, at float64) {
	if c.lossIn != nil {
		c.lossIn[r.schedule.spans.At(at)]++
	}
}

func (c *channel) push(e queuedPacket) {
	if c.tail-c.head == uint64(len(c.ring)) {
		c.grow()
	}
	c.ring[c.tail&uint64(len(c.ring)-1)] = e
	c.tail++
	if e.start > e.arrived {
		c.waitingBytes += int64(e.bytes)
		c.WaitingMax = max(c.WaitingMax, int64(c.tail-c.mid))
		return
	}
	// It doesn't wait, and no packet waits before it.
	if invariants.Enabled && c.mid != c.tail-1 {
		panic(fmt.Sprintf("network: channel %d: a packet overtakes %d that wait at %v", c.link, c.tail-1-c.mid,
			e.arrived))
	}
	c.mid = c.tail
}

func (c *channel) grow() {
	bigger := make([]queuedPacket, max(8, 2*len(c.ring)))
	for i := c.head; i != c.tail; i++ {
		bigger[i&uint64(len(bigger)-1)] = c.ring[i&uint64(len(c.ring)-1)]
	}
	c.ring = bigger
}

// advance brings the books up to now.
func (c *channel) advance(r *router, now float64) {
	for c.mid != c.tail && c.at(c.mid).start <= now {
		e := c.at(c.mid)
		c.waitingBytes -= int64(e.bytes)
		c.waited(r, e.arrived, e.start)
		c.mid++
	}
	for c.head != c.mid && c.at(c.head).release <= now {
		c.finish(r, c.at(c.head))
		c.head++
	}
	for len(c.down) > 0 && c.down[0].From <= now {
		// What the outage ended keeps the transmitter no longer.
		c.free = min(c.free, c.down[0].From)
		for _, flow := range c.falling {
			c.lose(r, flow, lostOutage, c.fallAt)
		}
		c.falling = c.falling[:0]
		if now < c.down[0].To {
			break
		}
		c.down = c.down[1:]
	}
	if invariants.Enabled && (c.waitingBytes < 0 || c.mid == c.tail && c.waitingBytes != 0) {
		panic(fmt.Sprintf("network: channel %d: %d bytes wait in %d packets at %v", c.link, c.waitingBytes,
			c.tail-c.mid, now))
	}
}

func (c *channel) at(position uint64) *queuedPacket { return &c.ring[position&uint64(len(c.ring)-1)] }

// waited files the time that a packet has waited, from a to b.
func (c *channel) waited(r *router, a, b float64) {
	c.wait += b - a
	r.windows.Over(a, b, c.field+waitingTime, 1)
	c.WaitedMax = max(c.WaitedMax, b-a)
	if c.waitIn != nil {
		r.schedule.spans.AddSeconds(c.waitIn, a, b)
	}
}

// transmitted files the time that the transmitter was busy, from a to b.
func (c *channel) transmitted(r *router, a, b float64) {
	c.busy += b - a
	r.windows.Over(a, b, c.field+busyTime, 1)
	if c.busyIn != nil {
		r.schedule.spans.AddSeconds(c.busyIn, a, b)
	}
}

// finish closes the books on a packet that has left the buffer.
func (c *channel) finish(r *router, e *queuedPacket) {
	c.transmitted(r, e.start, e.release)
	if e.outcome == outcomeCutWhileSending {
		c.lose(r, e.flow, lostOutage, e.release)
		return
	}
	c.Carried++
	c.Bytes += int64(e.bytes)
	if c.carriedIn != nil {
		c.carriedIn[r.schedule.spans.At(e.release)]++
	}
	if e.outcome == outcomeLostRandom {
		c.lose(r, e.flow, lostRandom, e.release)
	}
}

// close brings the books to end, after which nothing happens.
func (c *channel) close(r *router, end float64) channelReport {
	c.advance(r, end)
	for i := c.head; i != c.mid; i++ {
		c.transmitted(r, c.at(i).start, end)
	}
	for i := c.mid; i != c.tail; i++ {
		c.waited(r, c.at(i).arrived, end)
	}
	if invariants.Enabled && end >= c.horizon &&
		c.Handed != c.Sent+c.late+c.Lost[lostOutage]+c.Lost[lostRandom]+int64(c.pending()) {
		panic(fmt.Sprintf("network: channel %d: %+v with %d late and %d pending doesn't add up", c.link, c.channelBooks,
			c.late, c.pending()))
	}
	return channelReport{channelBooks: c.channelBooks, Busy: c.busy, Wait: c.wait, Before: c.before, BusyIn: c.busyIn,
		WaitIn:    c.waitIn,
		CarriedIn: c.carriedIn, LostIn: c.lossIn}
}

// pending counts the packets whose loss lies ahead.
func (c *channel) pending() int {
	n := len(c.falling)
	for i := c.head; i != c.tail; i++ {
		if o := c.at(i).outcome; o == outcomeCutWhileSending || o == outcomeLostRandom {
			n++
		}
	}
	return n
}
