// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"time"
)

// State is where a session is; docs/bridge.md, section 3, has what leads from one to the other.
type State int

// Lost and Ended are for good.
const (
	Dialling State = iota // the lower machine, before the first welcome
	Awaited               // the higher machine, before the first hello
	Up
	Disconnected // there was a connection; another one is awaited
	Lost
	Ended
)

// String names the state as docs/bridge.md does.
func (s State) String() string {
	return [...]string{"dialling", "awaited", "up", "cut", "lost", "ended"}[s]
}

func (s State) over() bool { return s == Lost || s == Ended }

// ticks are how many go into the peer's timeout: a silence is noticed this much later at most. A tick counts twice its
// time at most, so that a process that was stopped doesn't take its peers for dead when it resumes.
const ticks = 12

// ackBytes is how much a receiver takes in before it acknowledges without another reason.
const ackBytes = 256 << 10

// gapsMax is how many gaps in the numbers are taken for a fault of a connection, within the time of a window.
const gapsMax = 3

// limits never change.
type limits struct {
	connect, timeout, window time.Duration
	resend                   int
	dials                    bool
}

// entry is a message of numbered frames that isn't acknowledged yet.
type entry struct {
	last uint64 // number of its last frame
	ack  uint64 // that it carries
	buf  *Buffer
	size int // of its class
}

// machine is what a session knows and decides: pure, without a clock, a goroutine or a connection. Its caller has a
// lock, and does what pick returns.
//
// Invariants: acked ≤ the peer's applied < next; kept holds exactly the messages with numbers from acked+1 to next−1;
// a frame is applied only if its number is applied+1.
type machine struct {
	limits
	own Hello // what this side sends; peer, attempt and applied are added

	state   State
	ups     int    // how often it came up
	attempt uint64 // of the newest hello
	peer    uint64 // incarnation; 0: not known
	cause   error  // what was wrong with the last connection
	err     error  // once over, unless all went well

	next, acked uint64
	kept        []entry
	head        int // first that is kept
	cursor      int // first that wasn't sent on this connection
	keptBytes   int // with those of a message under way
	wanted      int // bytes that Frame didn't get

	applied uint64
	due     int  // bytes applied and not acknowledged
	armed   bool // somebody will call ackTimer
	gaps    int
	gapAt   uint64 // applied at the last gap

	greet, ping, pong  bool // are to be sent
	mute               bool // sending has failed on this connection, which Receive will find as well
	pingTime, pongTime int64
	sent               bool // something was, since the last tick
	arrived            bool // something has, since who looks has cleared it

	quiet    time.Duration // up: since the peer was noticed; else: since there was a connection
	stalled  time.Duration // since an acknowledgement, while one is awaited
	gapAge   time.Duration // since the first of gaps
	dialling bool          // a connection was asked for, and isn't up yet
	dialAge  time.Duration

	closing, hasty bool // hasty: without waiting for anything
	bye, peerBye   bool // sent on this connection; received
	closeAge       time.Duration
	byeText        string
	failure        error // that it closes with
}

func newMachine(own Hello, l limits) machine {
	m := machine{limits: l, own: own, state: Awaited, next: 1}
	if l.dials {
		m.state = Dialling
	}
	return m
}

// unacked reports whether a message waits for its acknowledgement.
func (m *machine) unacked() bool { return m.head < len(m.kept) }

// reserve takes memory for a message of numbered frames.
func (m *machine) reserve(size int) bool {
	if m.state.over() {
		return false
	}
	if m.closing || m.keptBytes+size > m.resend {
		m.wanted = size
		return false
	}
	m.keptBytes += size
	return true
}

// keep takes a message over, for which more may have been reserved.
func (m *machine) keep(e entry, reserved int) {
	m.keptBytes += e.size - reserved
	m.next = e.last + 1
	if m.head == len(m.kept) {
		m.stalled = 0
	}
	m.kept = append(m.kept, e)
	if m.state.over() {
		m.drop(len(m.kept))
	}
}

// drop frees the kept messages before an index.
func (m *machine) drop(end int) {
	for ; m.head < end; m.head++ {
		e := &m.kept[m.head]
		m.keptBytes -= e.size
		if e.buf != nil {
			e.buf.Free()
		}
		*e = entry{}
	}
	m.cursor = max(m.cursor, m.head)
	if m.head >= len(m.kept)-m.head { // as many free as kept: moving those costs no more than freeing did
		n := copy(m.kept, m.kept[m.head:])
		m.kept, m.cursor, m.head = m.kept[:n], m.cursor-m.head, 0
	}
}

// ack takes in what the peer has applied, which is below next.
func (m *machine) ack(n uint64) {
	if n <= m.acked {
		return
	}
	m.acked, m.quiet, m.stalled = n, 0, 0
	end := m.head
	for end < len(m.kept) && m.kept[end].last <= n {
		end++
	}
	m.drop(end)
}

// roomFor reports once that Frame would have what it didn't get, or that there is nothing to wait for.
func (m *machine) roomFor() bool {
	if m.wanted == 0 || !m.state.over() && (m.closing || m.keptBytes+m.wanted > m.resend) {
		return false
	}
	m.wanted = 0
	return true
}

// hello is what this side sends as hello or welcome.
func (m *machine) hello() Hello {
	h := m.own
	h.Peer, h.Attempt, h.Applied = m.peer, m.attempt, m.applied
	return h
}

// dial begins a connection.
func (m *machine) dial() Hello {
	m.attempt++
	m.dialling, m.dialAge = true, 0
	return m.hello()
}

// dialFailed ends a connection that wasn't up yet.
func (m *machine) dialFailed(err error) {
	m.dialling, m.cause = false, err
}

// errLate is about a connection that another one has replaced.
var errLate = errors.New("session: another connection has replaced this one")

// accept takes a hello. An error says why there is no session on that connection, and a refusal is for the peer.
func (m *machine) accept(h *Hello) error {
	if m.state == Ended && m.err == nil {
		return &refusal{CodeDone, "the session has ended"}
	}
	if m.state.over() || m.dials {
		return &refusal{CodeFailed, fmt.Sprint("the session has ended, or isn't awaited: ", m.err)}
	}
	if err := h.fits(&m.own, m.peer); err != nil {
		return err
	}
	if h.Attempt <= m.attempt {
		return errLate
	}
	if err := m.up(h); err != nil {
		return &refusal{CodeNumber, err.Error()}
	}
	m.greet = true
	return nil
}

// welcomed takes a welcome, or ends the session with the error.
func (m *machine) welcomed(h *Hello) error {
	if !m.dialling || m.state.over() || h.Attempt != m.attempt {
		return errLate
	}
	err := h.fits(&m.own, m.peer)
	if err == nil {
		return m.up(h)
	}
	err = fmt.Errorf("session: machine %d, %v, welcome: %w", m.own.To, m.own.Stream, err)
	m.finish(Ended, err)
	return err
}

// up begins to use a connection, or ends the session with the error.
func (m *machine) up(h *Hello) error {
	if h.Applied < m.acked || h.Applied >= m.next {
		bad := badFrame(0, HeaderBytes+helloAppliedAt, fmt.Sprint("applied ", h.Applied),
			fmt.Sprint(m.acked, " to ", m.next-1))
		m.finish(Ended, m.where(bad))
		return bad
	}
	m.peer, m.attempt = h.Incarnation, h.Attempt
	m.state, m.dialling, m.quiet, m.arrived = Up, false, 0, true
	m.ping, m.pong, m.bye, m.mute = false, false, false, false
	m.ups++
	m.ack(h.Applied)
	m.cursor = m.head
	return nil
}

// cut ends the use of the connection.
func (m *machine) cut(err error) {
	if m.state != Up {
		return
	}
	m.state, m.quiet, m.cause = Disconnected, 0, err
	m.greet, m.ping, m.pong = false, false, false
	m.endClosed()
}

// where fills in what the session knows about a bad frame.
func (m *machine) where(bad *FrameError) *FrameError {
	bad.Machine, bad.Stream = m.own.To, m.own.Stream
	return bad
}

// verdict is what happens to a frame.
type verdict int

const (
	isStale    verdict = iota // of a connection that isn't used any more
	isRepeated                // was applied before
	isState                   // not numbered
	isNext                    // applied is to rise with it
	isGap                     // frames are missing: the connection is cut
)

// receive takes the header of a frame of the connection with that attempt. With an error the session has to fail.
func (m *machine) receive(attempt uint64, h Header) (verdict, error) {
	if m.state != Up || attempt != m.attempt {
		return isStale, nil
	}
	m.arrived = true
	if h.Ack >= m.next {
		return isStale, m.where(badFrame(h.Number, offsetAck, fmt.Sprint("ack ", h.Ack), fmt.Sprint("0 to ", m.next-1)))
	}
	m.ack(h.Ack)
	if m.cursor == m.head { // else the peer is there when it acknowledges
		m.quiet = 0
	}
	switch {
	case h.Number == 0:
		return isState, nil
	case h.Number <= m.applied:
		return isRepeated, nil
	case h.Number == m.applied+1:
		return isNext, nil
	}
	bad := m.where(badFrame(h.Number, offsetNumber, fmt.Sprint("number ", h.Number), m.applied+1))
	if m.gaps++; m.gaps == 1 {
		m.gapAge = 0
	} else if m.gaps == gapsMax || m.gapAt == m.applied {
		return isGap, bad
	}
	m.gapAt = m.applied
	m.cut(bad)
	return isGap, nil
}

// received counts the bytes of a message with frames that were applied, and reports whether the sender has to look.
func (m *machine) received(size int) bool {
	m.due += size
	m.ping = m.ping || m.due >= ackBytes
	wake := m.ping || !m.armed
	m.armed = true
	return wake
}

// ackTimer is called a short time after received: what is still due is acknowledged.
func (m *machine) ackTimer() {
	m.armed = false
	m.ping = m.ping || m.due > 0 && m.state == Up
}

// job is what is to be sent.
type job int

const (
	nothing job = iota
	sendWelcome
	sendPing
	sendPong
	sendKept
	sendBye
)

// pick gives what is to be sent next on the connection. Whoever calls it sends that before it is called again.
func (m *machine) pick() (j job, e entry) {
	acks := m.applied
	switch {
	case m.state != Up || m.mute:
		return nothing, e
	case m.greet:
		j, m.greet = sendWelcome, false
	case m.closing && m.hasty:
		j = sendBye
	case m.pong:
		j, m.pong = sendPong, false
	case m.ping:
		j, m.ping = sendPing, false
	case m.cursor < len(m.kept):
		j, e = sendKept, m.kept[m.cursor]
		m.cursor++
		acks = e.ack
	case m.byeDue():
		j = sendBye
	default:
		return nothing, e
	}
	m.sent = true
	if acks == m.applied {
		m.due = 0
	}
	return j, e
}

// close begins the end: at once with a failure, which is not nil where text isn't empty, else when all is acknowledged
// and the peer closes too. A failure ends that wait: nobody receives on the connection that it was found on.
func (m *machine) close(text string, failure error) {
	if m.state.over() || m.closing && (m.hasty || failure == nil) {
		return
	}
	m.closing, m.hasty, m.byeText, m.failure, m.closeAge = true, failure != nil, text, failure, 0
	m.endClosed()
}

// byeDue reports whether the end waits for nothing but to be sent.
func (m *machine) byeDue() bool {
	return m.closing && !m.hasty && !m.bye && !m.unacked() && m.state == Up
}

// byeSent follows a bye. One that ends without a failure waits for the peer's: so the first of both to end has got a
// bye, which acknowledges all, and the other one has nothing to lose.
func (m *machine) byeSent() {
	m.bye = true
	if m.hasty || m.peerBye {
		m.finish(Ended, m.failure)
	}
}

// ended takes a bye or a refuse.
func (m *machine) ended(e *EndError) {
	switch {
	case e.Code != CodeDone || e.Refused && m.unacked():
		m.finish(Ended, e)
	case e.Refused:
		m.finish(Ended, m.failure)
	default:
		m.peerBye = true
		if m.bye {
			m.finish(Ended, m.failure)
		}
	}
}

// endClosed ends a session at once that needs no connection to do so.
func (m *machine) endClosed() {
	if m.closing && m.hasty && m.state != Up {
		m.finish(Ended, m.failure)
	}
}

// finish ends the session. One that only waited to say bye was not lost.
func (m *machine) finish(s State, err error) {
	if m.state.over() {
		return
	}
	if s == Lost && m.closing && !m.unacked() {
		s, err = Ended, m.failure
	}
	m.state, m.err = s, err
	m.drop(len(m.kept))
}

// LostError is a peer that wasn't there for too long.
type LostError struct {
	Self, Machine int
	Stream        Stream
	After         time.Duration
	Cause         error // what was wrong with the last connection, or nil
}

// Error names both machines, how long, and the cause.
func (e *LostError) Error() string {
	text := fmt.Sprintf("session: machine %d has lost machine %d (%v): no connection for %v",
		e.Self, e.Machine, e.Stream, e.After)
	if e.Cause != nil {
		text += "; the last one: " + e.Cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *LostError) Unwrap() error { return e.Cause }

func (m *machine) lose(after time.Duration, cause error) {
	m.finish(Lost, &LostError{m.own.From, m.own.To, m.own.Stream, after, cause})
}

// errEnded is what Flush returns after an end without an error.
var errEnded = errors.New("session: it has ended")

// errSilence, errStalled are why a connection is cut by its own side.
var (
	errSilence = errors.New("session: nothing was acknowledged, or nothing came, for the peer's timeout")
	errStalled = errors.New("session: the peer acknowledges nothing")
)

// capped is how much of the time between two ticks counts.
func (l *limits) capped(passed time.Duration) time.Duration { return min(passed, 2*l.timeout/ticks) }

// tick passes time. Each wait of the session is ended here, if by nothing else.
func (m *machine) tick(passed time.Duration) {
	passed = m.capped(passed)
	m.quiet += passed
	m.gapAge += passed
	m.closeAge += passed
	m.stalled += passed
	m.dialAge += passed
	if m.gapAge >= m.window {
		m.gaps = 0
	}
	if !m.unacked() || m.ups == 0 {
		m.stalled = 0
	}
	switch {
	case m.state.over():
	case m.closing && m.hasty && m.closeAge >= m.timeout:
		m.finish(Ended, m.failure)
	case m.closing && m.closeAge >= m.timeout+m.window:
		m.lose(m.closeAge, errStalled)
	case m.stalled >= 2*(m.timeout+m.window):
		m.lose(m.stalled, errStalled)
	case m.state == Up && m.quiet >= m.timeout:
		m.cut(errSilence)
	case m.state == Disconnected && m.quiet >= m.window, m.state < Up && m.quiet >= m.connect:
		m.lose(m.quiet, m.cause)
	case m.state == Up && !m.sent:
		m.ping = true
	}
	m.sent = false
}

// dialExpired reports whether a connection has waited too long for its welcome.
func (m *machine) dialExpired() bool { return m.dialling && m.dialAge >= m.timeout }

// backoff is how long to wait before the nth dial after the first, for a random number from 0 to 1.
func backoff(n int, random float64) time.Duration {
	most := time.Second
	if n < 5 {
		most = min(most, 50*time.Millisecond<<n)
	}
	return time.Duration(random * float64(most))
}
