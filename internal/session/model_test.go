// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Two machines (the type) and their connections, in every order of deliveries, sends, cuts and silences. The machines
// are the real ones; what Session does around them, one step under its lock each, is done here again: unlock, drain,
// take, connect, Accept. A change there belongs here too.

// modelRules are how much may happen, and what is broken on purpose.
type modelRules struct {
	frames   [2]int // numbered frames of each side
	cuts     int    // of connections
	silences [2]int // times that a side notices nothing for the peer's timeout
	drops    int    // frames that a connection loses, which none may
	closing  bool   // both sides close when all that they send and are sent is numbered and applied
	failing  bool   // a side finds a bad frame, also while it closes
	noAcks   bool   // acknowledgements are lost, but for those of hello and welcome
	window   int    // in peer's timeouts

	noResend       bool // a new connection begins with what wasn't sent on the old one
	applyRepeated  bool // a number is applied again
	applyGap       bool // a number is applied before another
	ackEarly       bool // a side acknowledges what it is yet to apply
	appliedUnknown bool // the dialling side's hello doesn't know what was applied
	lateHello      bool // a hello replaces the connection of a later one
	freeEarly      bool // a message is freed with the one before it
	freeSent       bool // a message is freed when it was sent
	noLock         bool // two connections' frames are applied at a time
	noSilence      bool // silence doesn't cut
	noWindow       bool // the window has no end
	noWelcome      bool // frames go before the welcome
	hastyClose     bool // close doesn't wait for acknowledgements
	oneBye         bool // who has sent a bye doesn't wait for the other's
	deafClose      bool // a failure while a side closes is forgotten
}

type modelKind uint8

const (
	modelHello modelKind = iota
	modelWelcome
	modelRefuse
	modelFrame
	modelPing
	modelBye
)

type modelMessage struct {
	kind   modelKind
	number uint64 // frame
	ack    uint64 // frame, ping; hello and welcome: applied
	peer   uint64 // hello and welcome: incarnation
	code   Code
}

// modelConn is a connection; its attempt is its index + 1.
type modelConn struct {
	to     [2][]modelMessage
	closed [2]bool // by a side
	cut    bool
}

type modelSide struct {
	m        machine
	conn     int // index, or -1
	pending  int
	applying [2]uint64 // numbers being applied, by up to two connections; 0: none
	applied  uint64    // what is true
	frames   int       // yet to be sent
	silences int
	failed   bool
}

type modelState struct {
	s     [2]modelSide
	conns []modelConn
	cuts  int
	drops int
}

func (s *modelState) clone() *modelState {
	n := *s
	n.conns = slices.Clone(s.conns)
	for i := range n.conns {
		for x := range 2 {
			n.conns[i].to[x] = slices.Clone(n.conns[i].to[x])
		}
	}
	for x := range 2 {
		n.s[x].m.kept = slices.Clone(n.s[x].m.kept)
	}
	return &n
}

// tidy forgets what nobody will read.
func (s *modelState) tidy() {
	for i := range s.conns {
		for x, c := 0, &s.conns[i]; x < 2; x++ {
			if c.closed[x] {
				c.to[x] = nil
			}
		}
	}
}

// key holds everything on which the future depends.
func (s *modelState) key() string {
	b := make([]byte, 0, 192)
	put := func(vs ...int) {
		for _, v := range vs {
			b = append(b, byte(v))
		}
	}
	flags := func(vs ...bool) {
		v := 0
		for i, f := range vs {
			if f {
				v |= 1 << i
			}
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	put(s.cuts, s.drops)
	for x := range s.s {
		d := &s.s[x]
		m := &d.m
		put(int(m.state), int(m.attempt), int(m.peer), int(m.next), int(m.acked), m.cursor-m.head, len(m.kept)-m.head,
			int(m.applied), m.due, m.gaps, int(m.gapAt), int(m.quiet), int(m.stalled), int(m.gapAge), int(m.dialAge),
			int(m.closeAge), min(m.ups, 1), d.conn, d.pending, int(d.applying[0]), int(d.applying[1]), int(d.applied),
			d.frames, d.silences)
		flags(m.armed, m.greet, m.ping, m.sent, m.dialling, m.closing, m.hasty, m.err != nil,
			m.bye, m.peerBye, d.failed)
		for i := m.head; i < len(m.kept); i++ {
			put(int(m.kept[i].ack))
		}
	}
	for i := range s.conns {
		c := &s.conns[i]
		flags(c.closed[0], c.closed[1], c.cut)
		for x := range 2 {
			put(len(c.to[x]))
			for _, e := range c.to[x] {
				put(int(e.kind), int(e.number), int(e.ack), int(e.peer), int(e.code))
			}
		}
	}
	return string(b)
}

// modelTimeout is a peer's timeout, in units: a tick is two at most.
const modelTimeout = ticks

type modelRun struct {
	rules modelRules
	seen  map[string]bool
	way   []string
	bad   string
	ends  map[string]int // sides' ends, in good continuations
}

func (r *modelRun) fail(format string, args ...any) {
	if r.bad == "" {
		r.bad = fmt.Sprintf(format, args...) + "\n" + strings.Join(r.way, "\n")
	}
}

func (r *modelRun) start() *modelState {
	s := &modelState{cuts: r.rules.cuts, drops: r.rules.drops}
	for x := range 2 {
		own := Hello{From: x, To: 1 - x, Identity: Identity{Incarnation: uint64(7 + x)}}
		s.s[x] = modelSide{m: newMachine(own, limits{connect: 10 * modelTimeout, timeout: modelTimeout,
			window: time.Duration(r.rules.window) * modelTimeout, resend: 100, dials: x == 0}),
			conn: -1, pending: -1, frames: r.rules.frames[x], silences: r.rules.silences[x]}
	}
	return s
}

// unlock is Session.unlock.
func (s *modelState) unlock(x int) {
	d := &s.s[x]
	if d.m.state != Up && d.conn >= 0 {
		s.conns[d.conn].closed[x] = true
		d.conn = -1
	}
	if (d.m.state.over() || d.m.dialExpired()) && d.pending >= 0 {
		s.conns[d.pending].closed[x] = true
		d.pending = -1
		d.m.dialFailed(errSilence)
	}
}

// lost ends a side's use of a connection, as its receiving goroutine does.
func (s *modelState) lost(x, k int) {
	d := &s.s[x]
	s.conns[k].closed[x] = true
	s.conns[k].to[x] = nil
	if d.conn == k {
		d.m.cut(errSilence)
	}
	if d.pending == k {
		d.pending = -1
		d.m.dialFailed(errSilence)
	}
	s.unlock(x)
}

// push sends on a connection.
func (s *modelState) push(x, k int, e modelMessage) {
	if c := &s.conns[k]; !c.cut && !c.closed[1-x] && !c.closed[x] {
		c.to[1-x] = append(c.to[1-x], e)
	}
}

// send is one turn of Session.drain.
func (r *modelRun) send(s *modelState, x int) bool {
	d := &s.s[x]
	m := &d.m
	if r.rules.noWelcome && m.greet && m.state == Up && m.cursor < len(m.kept) {
		m.greet = false
		defer func() { m.greet = true }()
	}
	if r.rules.hastyClose && m.closing {
		m.hasty = true
	}
	m.peerBye = m.peerBye || r.rules.oneBye
	k := d.conn
	j, e := m.pick()
	ack := m.applied
	if r.rules.ackEarly && s.s[1-x].m.next > ack+1 {
		ack++
	}
	if r.rules.noAcks {
		ack = 0
	}
	switch j {
	case nothing:
		return false
	case sendWelcome:
		s.push(x, k, modelMessage{kind: modelWelcome, ack: m.hello().Applied, peer: m.own.Incarnation})
	case sendPing:
		s.push(x, k, modelMessage{kind: modelPing, ack: ack})
	case sendKept:
		s.push(x, k, modelMessage{kind: modelFrame, number: e.last, ack: min(ack, e.ack)})
		if r.rules.freeSent {
			m.drop(m.cursor)
		}
	case sendBye:
		s.push(x, k, modelMessage{kind: modelBye, ack: m.applied})
		m.byeSent()
	}
	s.unlock(x)
	return true
}

// up follows a hello or a welcome that was taken.
func (r *modelRun) up(s *modelState, x, k int) {
	d := &s.s[x]
	if d.conn >= 0 {
		s.conns[d.conn].closed[x] = true
	}
	d.conn, d.pending = k, -1
	if r.rules.noResend {
		d.m.cursor = len(d.m.kept)
	}
}

// deliver hands the first message of a connection to a side.
func (r *modelRun) deliver(s *modelState, x, k int) {
	d := &s.s[x]
	m := &d.m
	e := s.conns[k].to[x][0]
	s.conns[k].to[x] = s.conns[k].to[x][1:]
	h := Hello{From: 1 - x, To: x, Identity: Identity{Incarnation: e.peer}, Attempt: uint64(k + 1), Applied: e.ack}
	before := m.attempt
	switch {
	case e.kind == modelHello:
		if r.rules.lateHello {
			m.attempt = 0
		}
		err := m.accept(&h)
		if err != nil {
			m.attempt = before
			if no := (*refusal)(nil); errors.As(err, &no) {
				s.push(x, k, modelMessage{kind: modelRefuse, code: no.code})
			}
			s.conns[k].closed[x] = true
			break
		}
		if h.Attempt < before {
			r.fail("attempt %d replaces %d", h.Attempt, before)
		}
		r.up(s, x, k)
	case e.kind == modelRefuse:
		m.ended(&EndError{Refused: true, Code: e.code})
	case d.pending == k:
		if e.kind == modelWelcome && m.welcomed(&h) == nil {
			r.up(s, x, k)
		} else {
			s.lost(x, k)
		}
	default:
		r.frame(s, x, k, e)
	}
	s.unlock(x)
}

// frame is Session.one up to Apply.
func (r *modelRun) frame(s *modelState, x, k int, e modelMessage) {
	d := &s.s[x]
	acked := d.m.acked
	v, err := d.m.receive(uint64(k+1), Header{Number: e.number, Ack: e.ack})
	if err != nil {
		r.fail("side %d: %v", x, err)
		return
	}
	if r.rules.freeEarly && d.m.acked > acked && d.m.cursor > d.m.head {
		d.m.drop(d.m.head + 1)
	}
	if r.rules.applyRepeated && v == isRepeated || r.rules.applyGap && v == isGap {
		v, d.m.applied = isNext, e.number-1
	}
	switch v {
	case isStale, isGap:
		s.lost(x, k)
	case isState:
		if e.kind == modelBye {
			d.m.ended(&EndError{})
		}
	case isNext:
		i := slices.Index(d.applying[:], 0)
		d.applying[i] = e.number
	}
}

// applied is the end of Apply.
func (r *modelRun) applied(s *modelState, x, i int) {
	d := &s.s[x]
	if d.applying[i] != d.applied+1 {
		r.fail("side %d applies %d behind %d", x, d.applying[i], d.applied)
	}
	d.applied = d.applying[i]
	d.applying[i] = 0
	d.m.applied++
	d.m.received(1)
}

// silence is a peer's timeout in which a side notices nothing.
func (r *modelRun) silence(s *modelState, x int) {
	d := &s.s[x]
	for range ticks / 2 {
		quiet := d.m.quiet
		d.m.tick(time.Hour)
		stop := r.rules.noSilence && d.m.state <= Disconnected && quiet < modelTimeout && d.m.cause == errSilence
		if stop || r.rules.noSilence && d.m.state == Up || r.rules.noWindow && d.m.state == Disconnected {
			d.m.quiet, d.m.stalled = 0, 0
		}
	}
	s.unlock(x)
}

// canDeliver reports whether a side may take the first message of a connection.
func (r *modelRun) canDeliver(s *modelState, x, k int) bool {
	c := &s.conns[k]
	if c.closed[x] || len(c.to[x]) == 0 {
		return false
	}
	d := &s.s[x]
	busy := d.applying[0] != 0 && (!r.rules.noLock || d.applying[1] != 0)
	return c.to[x][0].kind <= modelRefuse || !busy
}

// canNotice reports whether a side may find that a connection has ended.
func (s *modelState) canNotice(x, k int) bool {
	c := &s.conns[k]
	return !c.closed[x] && len(c.to[x]) == 0 && (c.cut || c.closed[1-x])
}

func (s *modelState) canDial() bool {
	d := &s.s[0]
	return d.conn < 0 && d.pending < 0 && (d.m.state == Dialling || d.m.state == Disconnected)
}

func (r *modelRun) dial(s *modelState) {
	d := &s.s[0]
	h := d.m.dial()
	if r.rules.appliedUnknown {
		h.Applied = 0
	}
	d.pending = len(s.conns)
	s.conns = append(s.conns, modelConn{})
	s.push(0, d.pending, modelMessage{kind: modelHello, ack: h.Applied, peer: h.Incarnation})
}

// check holds what must be true in every state.
func (r *modelRun) check(s *modelState) {
	for x := range 2 {
		m, peer := &s.s[x].m, &s.s[1-x]
		if m.acked > peer.applied || peer.applied >= m.next {
			r.fail("side %d: acked %d, applied %d, next %d", x, m.acked, peer.applied, m.next)
		}
		if kept := uint64(len(m.kept) - m.head); !m.state.over() && kept != m.next-1-m.acked {
			r.fail("side %d keeps %d messages, acked %d, next %d", x, kept, m.acked, m.next)
		}
		lost := (*LostError)(nil)
		end := (*EndError)(nil)
		if s.s[x].failed || peer.failed {
			if s.s[x].failed && m.state.over() && m.err == nil {
				r.fail("side %d has failed, and ends without an error", x)
			}
			continue
		}
		if m.err != nil && !errors.As(m.err, &lost) && !(errors.As(m.err, &end) && peer.m.state == Lost) {
			r.fail("side %d ends: %v", x, m.err)
		}
	}
}

// visit goes on from a state in every way there is.
func (r *modelRun) visit(s *modelState) {
	r.check(s)
	if r.bad != "" {
		return
	}
	s.tidy()
	key := s.key()
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	if len(r.seen) > 300_000 {
		r.fail("too many states for a test")
	}
	r.goodEnd(s.clone())
	for x := range 2 {
		r.silentEnd(s.clone(), x)
	}
	step := func(do func(n *modelState), format string, args ...any) {
		if r.bad == "" {
			n := s.clone()
			r.way = append(r.way, fmt.Sprintf(format, args...))
			do(n)
			r.visit(n)
			r.way = r.way[:len(r.way)-1]
		}
	}
	for x := range 2 {
		r.sideSteps(s, x, step)
	}
	for k := range s.conns {
		for x := range 2 {
			if r.canDeliver(s, x, k) {
				step(func(n *modelState) { r.deliver(n, x, k) }, "%d takes %v of %d", x, s.conns[k].to[x][0], k+1)
			}
			if s.canNotice(x, k) {
				step(func(n *modelState) { n.lost(x, k) }, "%d finds that %d has ended", x, k+1)
			}
			if c := &s.conns[k]; s.drops > 0 && len(c.to[x]) > 0 && c.to[x][0].kind == modelFrame {
				step(func(n *modelState) { n.drops--; n.conns[k].to[x] = n.conns[k].to[x][1:] },
					"%d loses a frame", k+1)
			}
		}
		if c := &s.conns[k]; s.cuts > 0 && !c.cut && !(c.closed[0] && c.closed[1]) {
			step(func(n *modelState) {
				n.cuts--
				n.conns[k].cut, n.conns[k].to = true, [2][]modelMessage{}
			}, "%d is cut", k+1)
		}
	}
}

func (r *modelRun) sideSteps(s *modelState, x int, step func(func(*modelState), string, ...any)) {
	d := &s.s[x]
	if d.frames > 0 && !d.m.state.over() && !d.m.closing {
		step(func(n *modelState) { r.keep(n, x) }, "%d has a frame", x)
	}
	if d.m.state == Up {
		if n := s.clone(); r.send(n, x) {
			step(func(n *modelState) { r.send(n, x) }, "%d sends", x)
		}
	}
	for i, number := range d.applying {
		if number != 0 {
			step(func(n *modelState) { r.applied(n, x, i) }, "%d has applied %d", x, number)
		}
	}
	if d.m.armed && d.m.due > 0 && d.m.state == Up {
		step(func(n *modelState) { n.s[x].m.ackTimer() }, "%d has to acknowledge", x)
	}
	if d.silences > 0 && !d.m.state.over() {
		step(func(n *modelState) { n.s[x].silences--; r.silence(n, x) }, "%d notices nothing for long", x)
	}
	all := d.frames == 0 && d.applied == uint64(r.rules.frames[1-x])
	if r.rules.closing && all && !d.m.closing && !d.m.state.over() {
		step(func(n *modelState) { n.s[x].m.close("", nil); n.unlock(x) }, "%d closes", x)
	}
	if r.rules.failing && d.conn >= 0 && !d.failed && !s.s[1-x].failed && !d.m.state.over() {
		step(func(n *modelState) { r.failure(n, x) }, "%d fails", x)
	}
	if x == 0 && s.canDial() {
		step(func(n *modelState) { r.dial(n) }, "0 dials")
	}
}

// failure is Session.fail, and the end of receive behind it.
func (r *modelRun) failure(s *modelState, x int) {
	d := &s.s[x]
	k := d.conn
	d.failed = true
	if !r.rules.deafClose || !d.m.closing {
		d.m.close("bad frame", errors.New("bad frame"))
	}
	s.unlock(x)
	for d.m.state == Up && r.send(s, x) {
	}
	s.conns[k].closed[x] = true
}

func (r *modelRun) keep(s *modelState, x int) {
	m := &s.s[x].m
	s.s[x].frames--
	if m.reserve(1) {
		m.keep(entry{last: m.next, ack: m.applied, size: 1}, 1)
	}
}

// goodEnd goes on without faults, and with silences only where nothing else can happen: all must be applied and
// acknowledged then, unless a side is given up.
func (r *modelRun) goodEnd(s *modelState) {
	given := s.s[0].m.state.over() || s.s[1].m.state.over() || s.s[0].failed || s.s[1].failed
	silences := 0
	for range 1000 {
		if r.goodStep(s) {
			continue
		}
		if r.settled(s) {
			break
		}
		if silences++; silences > 4*(r.rules.window+10) {
			break
		}
		for x := range 2 {
			r.silence(s, x)
		}
	}
	a, b := &s.s[0], &s.s[1]
	all := a.applied == b.m.next-1 && b.applied == a.m.next-1
	r.ends[fmt.Sprint(a.m.state, " ", b.m.state, " ", all)]++
	switch {
	case !r.settled(s):
		r.fail("without more faults there is no end: %v and %v", a.m.state, b.m.state)
	case !given && !all:
		r.fail("without more faults, not all is applied: %d of %d, %d of %d; %v, %v", a.applied, b.m.next-1,
			b.applied, a.m.next-1, a.m.err, b.m.err)
	case !given && (a.m.err != nil || b.m.err != nil):
		r.fail("without more faults, an error: %v, %v", a.m.err, b.m.err)
	}
	r.check(s)
}

// settled reports whether nothing is awaited any more.
func (r *modelRun) settled(s *modelState) bool {
	a, b := &s.s[0].m, &s.s[1].m
	if a.state.over() && b.state.over() {
		return true
	}
	return !r.rules.closing && a.state == Up && b.state == Up && !a.unacked() && !b.unacked() &&
		s.s[0].frames == 0 && s.s[1].frames == 0
}

// goodStep takes the first step that there is.
func (r *modelRun) goodStep(s *modelState) bool {
	moved := false
	step := func(do func(*modelState), _ string, _ ...any) {
		if !moved {
			moved = true
			do(s)
		}
	}
	silences := [2]int{s.s[0].silences, s.s[1].silences}
	s.s[0].silences, s.s[1].silences = 0, 0
	failing := r.rules.failing
	r.rules.failing = false
	defer func() { r.rules.failing = failing }()
	for x := range 2 {
		r.sideSteps(s, x, step)
	}
	s.s[0].silences, s.s[1].silences = silences[0], silences[1]
	for k := range s.conns {
		for x := range 2 {
			if !moved && r.canDeliver(s, x, k) {
				r.deliver(s, x, k)
				moved = true
			}
			if !moved && s.canNotice(x, k) {
				s.lost(x, k)
				moved = true
			}
		}
	}
	return moved
}

// silentEnd passes time for one side alone: it must give up.
func (r *modelRun) silentEnd(s *modelState, x int) {
	for range r.rules.window + 20 {
		if s.s[x].m.state.over() {
			return
		}
		r.silence(s, x)
	}
	r.fail("side %d waits for ever in state %v", x, s.s[x].m.state)
}

func runModel(rules modelRules) *modelRun {
	if rules.window == 0 {
		rules.window = 20
	}
	r := &modelRun{rules: rules, seen: map[string]bool{}, ends: map[string]int{}}
	r.visit(r.start())
	return r
}

func TestModel(t *testing.T) {
	for name, rules := range map[string]modelRules{
		"both send":     {frames: [2]int{2, 1}, cuts: 1},
		"three frames":  {frames: [2]int{3, 0}, cuts: 1},
		"awaited sends": {frames: [2]int{0, 3}, cuts: 1},
		"cut twice":     {frames: [2]int{1, 1}, cuts: 2},
		"half open":     {frames: [2]int{1, 0}, cuts: 1, silences: [2]int{1, 1}},
		"late hello":    {frames: [2]int{0, 1}, silences: [2]int{2, 0}, cuts: 1},
		"lost":          {frames: [2]int{0, 1}, cuts: 1, silences: [2]int{2, 1}, window: 1},
		"closed":        {frames: [2]int{1, 1}, cuts: 1, closing: true},
		"fails":         {frames: [2]int{1, 1}, closing: true, failing: true},
		"frames lost":   {frames: [2]int{2, 0}, drops: 1, cuts: 1},
		"acks lost":     {frames: [2]int{1, 1}, cuts: 1, noAcks: true},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && rules.silences != [2]int{} {
				t.Skip("in the long form: too many states for the race detector")
			}
			r := runModel(rules)
			if r.bad != "" {
				t.Fatal(r.bad)
			}
			if len(r.seen) < 500 {
				t.Errorf("only %d states: the model isn't run", len(r.seen))
			}
			t.Logf("%d states, ends %v", len(r.seen), r.ends)
		})
	}
}

// Each of these must be found.
func TestModelFindsFaults(t *testing.T) {
	for name, rules := range map[string]modelRules{
		"no resend":         {frames: [2]int{1, 0}, cuts: 1, noResend: true},
		"applies again":     {frames: [2]int{1, 0}, cuts: 1, silences: [2]int{1, 0}, applyRepeated: true},
		"applies with gaps": {frames: [2]int{2, 0}, drops: 1, applyGap: true},
		"acks early":        {frames: [2]int{2, 0}, ackEarly: true},
		"applied unknown":   {frames: [2]int{0, 1}, cuts: 1, appliedUnknown: true},
		"late hello":        {silences: [2]int{2, 0}, cuts: 1, lateHello: true},
		"frees early":       {frames: [2]int{2, 0}, freeEarly: true},
		"frees when sent":   {frames: [2]int{1, 0}, freeSent: true},
		"no lock":           {frames: [2]int{1, 0}, cuts: 1, silences: [2]int{1, 0}, noLock: true},
		"no silence":        {cuts: 1, noSilence: true},
		"no window":         {cuts: 1, noWindow: true},
		"no welcome first":  {frames: [2]int{0, 1}, noWelcome: true},
		"hasty close":       {frames: [2]int{1, 1}, cuts: 1, closing: true, hastyClose: true},
		"deaf close":        {frames: [2]int{1, 0}, closing: true, failing: true, deafClose: true},
		"one bye":           {frames: [2]int{1, 1}, cuts: 1, closing: true, oneBye: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := runModel(rules)
			if r.bad == "" {
				t.Errorf("not found in %d states", len(r.seen))
			}
			t.Logf("%d states: %s", len(r.seen), r.bad)
		})
	}
}
