// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// Memory is counted in whole units of 2^-20 MB, so that what is taken and given
// back adds up exactly however a file writes its megabytes.
const ramUnits = 1 << 20

// inRAMUnits rounds megabytes to the unit in which memory is counted.
func inRAMUnits(mb float64) int64 { return int64(math.Round(mb * ramUnits)) }

// slot is one request in a server.
type slot struct {
	request
	arrived  float64
	next     int32 // of the queue that it is in, or of the free list
	endpoint int32
	burst    int32 // index of the burst that it is in, or waits for
	core     bool
}

// server runs requests through memory, cores and I/O. A request takes the memory of
// its endpoint first and keeps it to the end; a CPU burst takes a core and gives it
// back at its end. Both are first come, first served.
//
// What a call needs stands together, with memory for as much as most servers ever hold: of many servers, each is in
// memory that no near cache has when its turn comes. First stands what every call needs; the engine asks for the first
// line of it beforehand (docs/pending-set.md).
type server struct {
	self       node.SimprocID
	cores      int32 // free ones
	free       int32 // 1 + first free slot, linked through next, 0: none
	timer      [4]byte
	ramQueue   fifo
	ready      fifo
	runnable   fifo // granted what they waited for, within this activation
	slots      []slot
	programs   []program // shared with servers of the same programs where nothing is drawn
	residence  float64   // sum over those that left, seconds
	passed     int64
	byEndpoint []int64 // requests received
	gauges     gauges

	requests   [1]int64 // byEndpoint of a server with one endpoint
	ramTotal   int64
	held       int64 // requests in the server at the end of the warm-up
	firstSlots [2]slot
	edge       [1]edge // out's
	out        outbox
	log        [logOfOne]departure // out's
	account    [1]account
	passages   [2]heap.Item[passage]
	choice     *rand.PCG // of the endpoint, where there are several
}

// Handle is called by the engine only.
func (s *server) Handle(p *node.Simproc, events []node.Event) error { return s.handle(p, events) }

// Report is called by the engine only, once, after the last Handle.
func (s *server) Report(p *node.Simproc) ([]byte, error) { return reportOn(s, p, s.out.reporter) }

func (s *server) handle(p simproc, events []node.Event) error {
	now := p.Now()
	if now >= s.gauges.warm {
		s.forget(s.gauges.warm)
	}
	s.gauges.settle(now)
	for i := range events {
		e := &events[i]
		if e.Sender == s.self {
			if err := s.burstDone(p, now, e.Data); err != nil {
				return err
			}
		} else {
			r, err := getRequest(e.Data)
			if err != nil {
				return err
			}
			s.arrive(p, now, r)
		}
		for !s.runnable.empty() {
			if err := s.run(p, now, s.runnable.pop(s.slots)); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrive takes in a request: it gets its memory, or waits for it.
func (s *server) arrive(p simproc, now float64, r request) {
	i := s.take()
	q := &s.slots[i]
	*q = slot{request: r, arrived: now}
	if len(s.programs) > 1 {
		q.endpoint = int32(rand.New(s.choice).IntN(len(s.programs)))
	}
	s.byEndpoint[q.endpoint]++
	s.enter(levelWhole, i, now)
	need := s.programs[q.endpoint].ram
	switch {
	case need == 0:
		s.runnable.push(s.slots, i)
	case s.ramQueue.empty() && s.gauges.level[levelRAM]+need <= s.ramTotal:
		s.enter(levelRAM, i, now)
		s.runnable.push(s.slots, i)
	default:
		s.enter(levelRAMWait, i, now)
		record(p, recordWaits, r.number, 0)
		s.ramQueue.push(s.slots, i)
	}
}

// burstDone ends the burst of the slot that a timer names.
func (s *server) burstDone(p simproc, now float64, data []byte) error {
	if len(data) != len(s.timer) {
		return fmt.Errorf("service: server %q: timer of %d bytes, want %d", s.out.box, len(data), len(s.timer))
	}
	i := int32(binary.LittleEndian.Uint32(data))
	q := &s.slots[i]
	if q.core {
		s.leave(levelCPU, i, now)
		s.releaseCore(p, i, now)
	} else {
		s.leave(levelIO, i, now)
	}
	q.burst++
	return s.run(p, now, i)
}

// run takes a request, which waits for nothing, as far as it goes at once: into a
// burst that takes time, into the queue for a core, or out of the server.
func (s *server) run(p simproc, now float64, i int32) error {
	q := &s.slots[i]
	bursts := s.programs[q.endpoint].bursts
	for int(q.burst) < len(bursts) {
		b := &bursts[q.burst]
		if b.cpu && !q.core {
			if s.cores == 0 || !s.ready.empty() {
				s.enter(levelReady, i, now)
				record(p, recordWaits, q.number, 0)
				s.ready.push(s.slots, i)
				return nil
			}
			s.cores--
			q.core = true
		}
		if end := now + b.length(); end > now {
			if b.cpu {
				s.enter(levelCPU, i, now)
			} else {
				s.enter(levelIO, i, now)
			}
			if !(end < s.out.horizon) {
				return nil // still there when the run ends
			}
			binary.LittleEndian.PutUint32(s.timer[:], uint32(i))
			return p.Schedule(end, s.timer[:])
		}
		if b.cpu {
			s.releaseCore(p, i, now)
		}
		q.burst++
	}
	return s.finish(p, now, i)
}

// releaseCore gives a core back: to the first that waits for one, if any. Others may wait while cores are free only
// behind a state that was saved with fewer cores: they get theirs now.
func (s *server) releaseCore(p simproc, i int32, now float64) {
	s.slots[i].core = false
	for s.cores++; s.cores > 0 && !s.ready.empty(); s.cores-- {
		next := s.ready.pop(s.slots)
		s.leave(levelReady, next, now)
		record(p, recordServed, s.slots[next].number, 0)
		s.slots[next].core = true
		s.runnable.push(s.slots, next)
	}
}

// finish gives the memory back and sends the request on.
func (s *server) finish(p simproc, now float64, i int32) error {
	q := &s.slots[i]
	r := q.request
	s.residence += now - q.arrived
	if invariants.Enabled {
		s.out.audit.server.stayed(q.arrived, now)
	}
	s.passed++
	if s.programs[q.endpoint].ram > 0 {
		s.leave(levelRAM, i, now)
		s.grantRAM(p, now)
	}
	s.leave(levelWhole, i, now)
	record(p, recordPassed, r.number, 0)
	q.next = s.free
	s.free = i + 1
	return s.out.send(p, 0, now, r)
}

// grantRAM lets in those that wait for memory, in order, while it suffices.
func (s *server) grantRAM(p simproc, now float64) {
	for !s.ramQueue.empty() {
		first := s.ramQueue.head - 1
		if s.gauges.level[levelRAM]+s.programs[s.slots[first].endpoint].ram > s.ramTotal {
			return
		}
		s.ramQueue.pop(s.slots)
		s.leave(levelRAMWait, first, now)
		record(p, recordServed, s.slots[first].number, 0)
		s.enter(levelRAM, first, now)
		s.runnable.push(s.slots, first)
	}
}

// take finds a free slot, or makes one.
func (s *server) take() int32 {
	if s.free == 0 {
		s.slots = append(s.slots, slot{})
		return int32(len(s.slots) - 1)
	}
	i := s.free - 1
	s.free = s.slots[i].next
	return i
}

// weight is by how much a slot raises a level.
func (s *server) weight(level int, i int32) int64 {
	if level == levelRAM {
		return s.programs[s.slots[i].endpoint].ram
	}
	return 1
}

func (s *server) enter(level int, i int32, now float64) {
	s.gauges.level[level] += s.weight(level, i)
	if invariants.Enabled {
		s.out.audit.server.enter(level, i, now, s.weight(level, i))
	}
}

func (s *server) leave(level int, i int32, now float64) {
	s.gauges.level[level] -= s.weight(level, i)
	if invariants.Enabled {
		s.out.audit.server.leave(level, i, now, s.weight(level, i))
	}
}

func (s *server) received() (n int64) {
	for _, k := range s.byEndpoint {
		n += k
	}
	return n
}

func (s *server) report(end float64, r *reporter) {
	s.record(end)
	if at, begins := closing(s.gauges.warm, end); begins {
		s.forget(at)
	}
	s.gauges.settle(end)
	g := &s.gauges
	if invariants.Enabled {
		s.out.audit.server.check(s, end)
	}
	r.server = serverReport{
		Area: g.area, Peak: g.peak, Samples: g.ticks.counted(), Sum: g.sum, Top: g.top,
		Residence: s.residence, ByEndpoint: s.byEndpoint,
	}
	r.boxReport = boxReport{
		End: end, Received: s.received(), Present: g.level[levelWhole], Held: s.held, Passed: s.passed,
		Server: &r.server,
		Edges:  s.out.report(end, r), Audit: s.out.audit, Windows: closed(s.out.windows, end),
	}
}

// serverAudit keeps the ledgers of one server in the checked build.
type serverAudit struct {
	books     [levelCount]ledger
	since     [levelCount]map[int32]float64 // by slot, of those that are there
	residence exactSum                      // of those that left, from their arrival on

	raised bool // requests wait while cores are free, because they were saved with fewer cores
}

// stayed is called for each request that leaves.
func (a *serverAudit) stayed(since, now float64) {
	a.residence.add(1, now)
	a.residence.add(-1, since)
}

func (a *serverAudit) state(c *state.Codec) {
	a.residence.state(c)
	for level := range a.books {
		a.books[level].state(c)
		state.Map(c, &a.since[level], sinceStateBytes, func(i *int32, since *float64) {
			c.Int32(i)
			c.Float(since)
		})
	}
}

func (a *serverAudit) enter(level int, i int32, now float64, weight int64) {
	if a.since[level] == nil {
		a.since[level] = make(map[int32]float64)
	}
	_, there := a.since[level][i]
	invariants.Assert(!there, "service: slot %d enters level %d twice", i, level)
	a.since[level][i] = now
	a.books[level].enter(now, weight)
}

func (a *serverAudit) leave(level int, i int32, now float64, weight int64) {
	since, there := a.since[level][i]
	invariants.Assert(there, "service: slot %d leaves level %d without being there", i, level)
	delete(a.since[level], i)
	a.books[level].leave(since, now, weight)
}

// check proves Little's law for every level, and that requests stand where the
// resources say.
func (a *serverAudit) check(s *server, end float64) {
	places := [levelCount]string{"the whole server", "waiting for memory", "the ready queue", "the cores", "I/O",
		"memory"}
	invariants.Assert(a.residence.rounds(s.residence, s.passed),
		"service: server %s: the %d requests that left stayed %v s, want %v but for rounding", s.out.box, s.passed,
		s.residence, &a.residence.sum)
	for level := range a.books {
		for i, since := range a.since[level] {
			a.books[level].stay(since, end, s.weight(level, i))
		}
		a.books[level].check(s.out.box, places[level], end, s.gauges.area[level], s.gauges.terms)
		invariants.Assert(a.books[level].level == s.gauges.level[level],
			"service: server %s: ledger and gauge of %s differ: %d and %d", s.out.box, places[level],
			a.books[level].level, s.gauges.level[level])
	}
	s.out.audit.Area.plus(&a.books[levelWhole].area)
	busy := s.gauges.level[levelCPU]
	invariants.Assert(s.ready.empty() || s.cores == 0 || a.raised, "service: server %s: requests wait while %d cores "+
		"are free", s.out.box, s.cores)
	invariants.Assert(s.received()+s.held == s.passed+s.gauges.level[levelWhole],
		"service: server %s: %d requests came, %d left, %d are there", s.out.box, s.received()+s.held, s.passed,
		s.gauges.level[levelWhole])
	invariants.Assert(busy >= 0 && s.gauges.level[levelRAM] <= s.ramTotal,
		"service: server %s: %d busy cores, %d of %d units of memory", s.out.box, busy, s.gauges.level[levelRAM],
		s.ramTotal)
}
