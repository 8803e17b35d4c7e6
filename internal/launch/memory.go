// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
)

// MemoryError is the end of a run whose memory has passed what there is for it: it ends as one that Config.Stop ends,
// before the system kills one of its processes.
type MemoryError struct {
	Machine     string  // whose memory it is; empty: this one's
	Used, Limit int64   // bytes, when it was found
	Saving      int64   // bytes that a checkpoint was expected to take, too
	Allowed     bool    // the limit is Config.Memory; else it is what there is
	Epoch       float64 // up to which the run was simulated; 0: it had to be ended before all workers had one
	Pending     uint64  // events and wakeups on all machines, when it was found
	Largest     []Load  // simprocs with most of them, at the end
}

// Load is how much is pending for a simproc.
type Load struct {
	Simproc string
	Pending uint64
}

// Error says how much memory was used, how far the run has come, and for whom most is pending.
func (e *MemoryError) Error() string {
	whose := "there are"
	if e.Allowed {
		whose = "--memory allows"
	}
	took := sizeText(float64(e.Used))
	if e.Saving > 0 {
		took += fmt.Sprintf(", and about %s more to be saved,", sizeText(float64(e.Saving)))
	}
	text := fmt.Sprintf("memory: the run took %s of the %s that %s", took, sizeText(float64(e.Limit)), whose)
	text += on(e.Machine)
	if e.Epoch > 0 {
		text += fmt.Sprintf(", and has ended at %v simulated seconds", e.Epoch)
	}
	text += fmt.Sprintf(", with %d events pending", e.Pending)
	var most []string
	for _, l := range e.Largest {
		most = append(most, fmt.Sprintf("%s %d", l.Simproc, l.Pending))
	}
	if len(most) > 0 {
		text += ", most of them for " + strings.Join(most, ", ")
	}
	return text
}

// Shares of what there is at which a run ends: one that can be saved earlier, because that takes memory, too. Where
// the run was expected to take more than the first, it is in the middle of what is left.
const (
	memorySaves   = 0.8
	memoryAllowed = 0.95 // of Config.Memory
	memoryThere   = 0.98 // of what there is: it may get on with that
)

// How often it is looked at: so often that what is left can't be taken meanwhile, between two limits. A look reads some
// files of the system, which takes milliseconds of a processor on a machine with much to do.
const (
	memoryEvery = 100 * time.Millisecond
	memoryMost  = time.Second

	// takenAtMost is how many bytes a processor can take in a second: it has to clear them, too.
	takenAtMost = 8 << 30
)

// What a checkpoint takes that is written while it is made: of each worker, but no more than an eighth of what there is
// altogether, and for each event that is pending, which is 8 bytes (node.Engine.EachPending), and garbage.
const (
	savingBytes     = 16 << 20
	savedEntryBytes = 32
)

// memory watches what a run takes, on each of its machines.
type memory struct {
	l        *Launch
	expected float64                         // bytes, as the footprint has it
	used     func() (bytes, available int64) // on this machine

	asked  chan struct{} // closed when the run is to end, for whatever reason
	passed atomic.Pointer[MemoryError]
	sets   atomic.Pointer[[]*workerSet] // whose memory used gives, which may be called then; nil: not yet

	mu      sync.Mutex // guards the rest
	largest []node.Load
}

func newMemory(l *Launch, expected float64) *memory {
	return &memory{l: l, expected: expected, asked: make(chan struct{})}
}

// stop is closed when the run is to end.
func (l *Launch) stop() <-chan struct{} {
	if l.memory == nil { // in tests
		return l.cfg.Stop
	}
	return l.memory.asked
}

// watch closes asked when the run is to end: when Config.Stop says so, or its memory is used up. It ends with ctx.
func (m *memory) watch(ctx context.Context, sets []*workerSet) {
	m.begin(sets)
	timer := time.NewTimer(memoryEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.l.cfg.Stop:
			close(m.asked)
			return
		case <-timer.C:
		}
		e, left := m.check(sets)
		timer.Reset(nextLook(left))
		if e != nil {
			m.passed.Store(e)
			m.l.note(fmt.Sprintf("memory: the run takes %s of %s%s, and ends", sizeText(float64(e.Used)),
				sizeText(float64(e.Limit)), on(e.Machine)))
			close(m.asked)
			return
		}
	}
}

// begin has used give what sets take.
func (m *memory) begin(sets []*workerSet) {
	if m.sets.Load() != nil {
		return
	}
	if m.used == nil {
		m.used = m.measure(sets)
	}
	m.sets.Store(&sets)
}

// on names a machine; empty: this one.
func on(machine string) string {
	if machine == "" {
		return ""
	}
	return " on " + machine
}

// check is the end of a run that has used up the memory of one of its machines; nil: it goes on, and one of them has
// so many bytes left until then.
func (m *memory) check(sets []*workerSet) (e *MemoryError, left float64) {
	left = math.Inf(1)
	for _, t := range m.taken(sets) {
		e, share := m.state(&t)
		if left = min(left, share*float64(e.Limit)-float64(e.Used+e.Saving)); left <= 0 {
			return e, 0
		}
	}
	return nil, left
}

// nextLook is after how long memory is looked at again of which so many bytes are left.
func nextLook(left float64) time.Duration {
	seconds := left / (takenAtMost * float64(runtime.NumCPU()))
	return max(memoryEvery, time.Duration(min(seconds, memoryMost.Seconds())*float64(time.Second)))
}

// taken is what a run takes of a machine.
type taken struct {
	machine         string
	known           bool
	used, available int64
	workers         int    // there
	pending, all    uint64 // events and wakeups there, and everywhere
}

// taken gives it by machine: this one, and each of Config.Machines, of which it isn't known yet what has no worker that
// simulates.
func (m *memory) taken(sets []*workerSet) []taken {
	used, available := m.used()
	list, all := []taken{{known: true, used: used, available: available}}, uint64(0)
	if m.l.cfg.Machines != nil {
		for _, other := range m.l.cfg.Machines.Network().Machines {
			list = append(list, taken{machine: other.Name})
		}
	}
	for _, ws := range sets {
		for w, load := range ws.supervisor.boards.loads() {
			t := &list[0]
			if m.l.cfg.Machines != nil {
				t = &list[1+ws.plan.Machine[w]]
			}
			t.workers++
			t.pending, all = t.pending+load.pending, all+load.pending
			if load.taken > 0 && !load.rests { // of a set that has ended it is what there was
				t.known, t.used, t.available = true, load.taken, load.left
			}
		}
	}
	known := list[:0]
	for _, t := range list {
		if t.all = all; t.known {
			known = append(known, t)
		}
	}
	return known
}

// state is what is used of a machine now, and the share of the limit at which the run ends.
func (m *memory) state(t *taken) (e *MemoryError, share float64) {
	cfg := &m.l.cfg
	e = &MemoryError{Machine: t.machine, Used: t.used, Limit: t.used + t.available, Pending: t.all}
	if cfg.Memory > 0 && cfg.Memory < e.Limit {
		e.Limit, e.Allowed = cfg.Memory, true
	}
	share = memoryThere
	if e.Allowed {
		share = memoryAllowed
	}
	if cfg.saves() {
		e.Saving = int64(t.pending)*savedEntryBytes + min(int64(t.workers)*savingBytes, e.Limit/8)
		expected := m.expected
		if m.l.cfg.Machines != nil { // on all of them
			expected = 0
		}
		share = max(memorySaves, min((1+expected/float64(e.Limit))/2, share))
	}
	return e, share
}

// measure gives what this process and its workers on this machine have, and what the system has left for them.
func (m *memory) measure(sets []*workerSet) func() (used, available int64) {
	pids, shared := []int{os.Getpid()}, 0
	for _, ws := range sets {
		for _, c := range ws.supervisor.conns.workers {
			if c.pid != 0 {
				pids = append(pids, c.pid)
			}
		}
	}
	if m.l.shared() && m.l.cfg.Machines == nil {
		bytes, _, err := m.l.plan.Needs(0, false)
		if err == nil { // it was worked out before
			shared = bytes*len(sets) + m.l.inputSegment.Size()
		}
	}
	return func() (used, available int64) {
		used = int64(shared)
		for _, pid := range pids {
			if bytes, err := procfs.PrivateBytes(pid); err == nil { // else it has ended
				used += bytes
			}
		}
		return used, shm.AvailableBytes()
	}
}

// room is how many bytes a worker of the set may take for a checkpoint, beside what it has: half of what there
// is on its machine before the run would end, since more may become pending while it is written. direct: none, so that
// each chunk is written when it is made. 0: it isn't known.
func (m *memory) room(ws *workerSet) func(w int) (direct bool, bytes int64) {
	rooms, sets := map[string]int64{}, m.sets.Load()
	ends := m.passed.Load() != nil
	if sets != nil && !ends {
		for _, t := range m.taken(*sets) {
			e, share := m.state(&t)
			left := share*float64(e.Limit) - float64(e.Used+e.Saving)
			rooms[t.machine] = int64(left / 2 / float64(max(1, t.workers)))
		}
	}
	return func(w int) (direct bool, bytes int64) {
		machine := ""
		if m.l.cfg.Machines != nil {
			machine = m.l.cfg.Machines.Network().Machines[ws.plan.Machine[w]].Name
		}
		bytes, known := rooms[machine]
		return ends || known && bytes <= 0, max(bytes, 0)
	}
}

// ahead is how many bytes a worker of the set may take for checkpoints before a replication begins: half of what there
// will be when the run takes what it was expected to take. 0: it isn't known, or there are none. On other machines
// workers find out themselves, but for several sets, of which they don't know, and for Config.Memory.
func (m *memory) ahead(ws *workerSet) int64 {
	if m == nil || m.sets.Load() == nil || ws.checkpointing.store == nil {
		return 0
	}
	if m.l.cfg.Machines != nil {
		if m.l.cfg.Memory > 0 || m.l.sets > 1 {
			return 0
		}
		return worker.OwnRoom
	}
	t := m.taken(*m.sets.Load())[0]
	e, share := m.state(&t)
	left := share*float64(e.Limit) - max(float64(e.Used), m.expected) - float64(e.Saving)
	return int64(max(0, left/2/float64(max(1, t.workers))))
}

// done takes in what a worker says of a replication that was interrupted.
func (m *memory) done(d *worker.Done) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, id := range d.Largest { // of several replications at a time, perhaps
		at := slices.IndexFunc(m.largest, func(l node.Load) bool { return l.Simproc == node.SimprocID(id) })
		if at < 0 {
			at = len(m.largest)
			m.largest = append(m.largest, node.Load{Simproc: node.SimprocID(id)})
		}
		m.largest[at].Pending += d.Pending[i]
	}
}

// usedUp is the error of a run that has ended with another one, or with an outcome, where its memory was used up.
func (l *Launch) usedUp(out *Outcome, failed error) error {
	err := l.memory.err(out)
	switch {
	case err == nil || errors.Is(failed, ErrEnded):
		return failed
	case out == nil:
		return fmt.Errorf("%w\n%w", err, failed)
	}
	out.Full = true
	return err
}

// err is the end of a run that has used up its memory, with its outcome; nil: it hasn't.
func (m *memory) err(out *Outcome) error {
	e := m.passed.Load()
	if e == nil || out != nil && !out.Interrupted {
		return nil
	}
	if out != nil && len(out.Replications) > 0 {
		e.Epoch = out.Replications[len(out.Replications)-1].Reached
	}
	for _, w := range node.MostLoaded(m.largest, worker.LargestMax) {
		if int(w.Simproc) < m.l.structure.NumSimprocs() {
			e.Largest = append(e.Largest, Load{m.l.structure.Name(w.Simproc), w.Pending})
		}
	}
	return e
}
