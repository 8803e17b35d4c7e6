// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/workerproc"
)

// showEvery is the time between two frames with boards: a tenth of the time between two looks at how busy workers are.
const showEvery = 50 * time.Millisecond

// SpokeConfig says what a spoke joins.
type SpokeConfig struct {
	Machine  int                 // this one's number
	Sessions [2]*session.Session // with the launcher's machine, -1, by stream
	Site     Site
}

// Spoke is a machine's end. Apply, Changed and Acked are those of the sessions' Config, which wait for nothing; any
// goroutine may call the others. The sessions stay their owner's, who closes them behind Close.
type Spoke struct {
	cfg           SpokeConfig
	express, bulk *carrier
	own           *flow // notes and failures of this machine itself

	mu      sync.Mutex // guards the rest and what sets say so; taken before that of a carrier
	sets    map[int]*spokeSet
	next    int // above the numbers of all sets so far
	closing bool
	serving sync.WaitGroup
}

// NewSpoke begins to serve the sessions, of which nothing was applied before.
func NewSpoke(cfg SpokeConfig) *Spoke {
	sp := &Spoke{cfg: cfg, sets: map[int]*spokeSet{}}
	sp.express = newCarrier(cfg.Sessions[session.Express], sp.show)
	sp.bulk = newCarrier(cfg.Sessions[session.Bulk], nil)
	sp.own = sp.express.open(flow{id: ownID, limit: windowBytes, sendWindow: windowBytes, blobs: noFiles})
	return sp
}

func (sp *Spoke) carrier(on session.Stream) *carrier {
	if on == session.Bulk {
		return sp.bulk
	}
	return sp.express
}

// Apply takes a frame from the launcher's machine.
func (sp *Spoke) Apply(on session.Stream, h session.Header, body []byte) error {
	sp.mu.Lock()
	closing := sp.closing
	sp.mu.Unlock()
	if closing {
		return nil
	}
	switch h.Type {
	case session.Control:
		return sp.applyControl(body)
	case session.Blob:
		return sp.applyBlob(body)
	case session.Process:
		return sp.applyProcess(body)
	case session.Credit:
		return sp.carrier(on).applyCredits(body)
	case session.Pong:
		return nil
	}
	return badType(h, "control, process, credit; blob, credit")
}

// applyControl takes bytes for a worker.
func (sp *Spoke) applyControl(body []byte) (err error) {
	it := item{of: session.Control}
	if it.bytes, err = it.head.parse(body, 0, isEnd+1); err != nil {
		return err
	}
	if it.head.what == isEnd && len(it.bytes) > 0 || it.head.worker == noWorker {
		return bad(0, fmt.Sprintf("worker %d, %d bytes", it.head.worker, len(it.bytes)), "a worker, and none of an end")
	}
	if it.head.at > 0 && !sp.bulk.stores(it.head.flow()) {
		return bad(8, fmt.Sprint("behind ", it.head.at, " bytes of files"), "0 of a worker without any")
	}
	known, err := sp.express.apply(it.head.flow(), it, len(body))
	if known || err != nil {
		return err
	}
	return sp.missing(&it.head)
}

// applyBlob takes a part of an input, or of what a worker begins with.
func (sp *Spoke) applyBlob(body []byte) error {
	it := item{of: session.Blob}
	var err error
	if it.bytes, err = it.head.parse(body, 0, files); err != nil {
		return err
	}
	if it.head.what == fileInput {
		return sp.applyInput(it.head, it.bytes)
	}
	known, err := sp.bulk.apply(it.head.flow(), it, len(body))
	if known || err != nil {
		return err
	}
	return sp.missing(&it.head)
}

// over reports whether there was such a set, which is closed or being closed: what comes for it was on its way. That
// may be on the other session, or while this machine closes the set by itself. The caller holds sp.mu.
func (sp *Spoke) over(set int) bool {
	s := sp.sets[set]
	return s == nil && set < sp.next || s != nil && s.closing
}

// missing is a frame about a worker that isn't there; nil: it was on its way when its set was closed.
func (sp *Spoke) missing(hd *head) error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.over(int(hd.set)) {
		return nil
	}
	return bad(0, fmt.Sprintf("worker %d of set %d", hd.worker, hd.set), "one that is to be started here")
}

// applyInput takes a part of an input.
func (sp *Spoke) applyInput(hd head, bytes []byte) error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	s := sp.sets[int(hd.set)]
	switch {
	case sp.over(int(hd.set)):
		return nil
	case s == nil || hd.worker != noWorker || s.input.owner != s.number || s.input.segment == nil:
		return bad(0, fmt.Sprintf("input of set %d, worker %d", hd.set, hd.worker),
			"one that was granted, of no worker")
	}
	return s.input.fill(hd.at, bytes)
}

// applyProcess takes a packet.
func (sp *Spoke) applyProcess(body []byte) error {
	var it item
	sharing, err := it.parsePacket(body)
	if err != nil {
		return err
	}
	p := &it.packet
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if p.Kind == child.KindPlan {
		return sp.plan(p, sharing)
	}
	if sp.over(p.Set) {
		return nil
	}
	s := sp.sets[p.Set]
	if s == nil {
		return bad(packetAt+4, fmt.Sprint("set ", p.Set), "one that is there, or was")
	}
	return s.order(p)
}

// plan begins a set. The caller holds sp.mu.
func (sp *Spoke) plan(p *child.Packet, sharing int) error {
	if sp.closing {
		return nil // Close waits for the sets that there are
	}
	if p.Set < sp.next || len(sp.sets) >= child.SetsMax || p.Set == noSet {
		return bad(packetAt+4, fmt.Sprintf("set %d beside %d others", p.Set, len(sp.sets)), fmt.Sprintf(
			"%d or above, beside at most %d", sp.next, child.SetsMax-1))
	}
	plan, err := machine.ParsePlan(p.Body.(*child.PlanBody).Plan)
	if err != nil {
		return bad(packetAt, err, "a plan of docs/format/plan.md")
	}
	s := newSpokeSet(sp, p.Set, plan)
	if sharing == p.Set {
		s.input = newInput(p.Set, plan.InputBytes)
	} else if of := sp.sets[sharing]; of != nil && of.input.complete() && of.input.size == plan.InputBytes {
		s.input = of.input
	} else {
		return bad(0, fmt.Sprint("the input of set ", sharing), "of a set that is there, of the same size; or its own")
	}
	s.input.sets++
	sp.next, sp.sets[p.Set] = p.Set+1, s
	sp.serving.Go(s.serve)
	return nil
}

// Changed takes a new state of a session.
func (sp *Spoke) Changed(on session.Stream, s session.State) {
	if c := sp.carrier(on); c.changed(s) {
		c.end()
	}
}

// Acked takes that a session has room.
func (sp *Spoke) Acked(on session.Stream) { notify(sp.carrier(on).room) }

// worker is one that was started, of a set that isn't being closed; nil: there is none.
func (sp *Spoke) worker(set, index int) *spokeWorker {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if s := sp.sets[set]; s != nil && !s.closing {
		return s.all[index]
	}
	return nil
}

// Output implements Reporter.
func (sp *Spoke) Output(set, index int, bytes []byte) {
	w := sp.worker(set, index)
	for w != nil && len(bytes) > 0 {
		n := min(len(bytes), child.OutputMax)
		w.report(child.KindOutput, &child.OutputBody{Worker: index, Bytes: bytes[:n]})
		bytes = bytes[n:]
	}
}

// Exit implements Reporter. What the worker has written, traced and shown goes first.
func (sp *Spoke) Exit(set, index int, exit workerproc.Exit, lanes []child.Lane) {
	if w := sp.worker(set, index); w != nil {
		w.exit(exit, lanes)
	}
}

// Note implements Reporter.
func (sp *Spoke) Note(text string) { sp.report(child.KindNote, &child.TextBody{Text: text}) }

// Fail implements Reporter.
func (sp *Spoke) Fail(err error) {
	if l := (*LossError)(nil); errors.As(err, &l) {
		sp.report(child.KindLost, &child.LostBody{Machine: l.Machine, Text: l.Text})
		return
	}
	sp.report(child.KindFailed, child.NewFailed(err))
}

// report sends a packet of this machine itself.
func (sp *Spoke) report(k child.Kind, body child.Body) {
	_ = sp.own.process(child.Packet{Kind: k, Body: body}) // texts can always be encoded
}

// show sends what all workers show.
func (sp *Spoke) show(c *carrier) {
	sp.mu.Lock()
	var all []*spokeSet
	for _, s := range sp.sets {
		all = append(all, s)
	}
	sp.mu.Unlock()
	for _, s := range all {
		c.state(session.Boards, s.boards())
	}
}

// Close ends the spoke, with all workers that are left, and returns when nothing of it runs any more. What was sent
// before is still kept by the sessions.
func (sp *Spoke) Close() {
	sp.mu.Lock()
	sp.closing = true
	sp.own.stop()
	for _, s := range sp.sets {
		s.close()
	}
	sp.mu.Unlock()
	sp.serving.Wait()
	for _, c := range []*carrier{sp.express, sp.bulk} {
		c.end()
		c.ended.Wait()
	}
}

// trouble is an error that ends the run, unless it is only that the set is being closed.
func (sp *Spoke) trouble(s *spokeSet, err error) {
	sp.mu.Lock()
	closing := s.closing
	sp.mu.Unlock()
	if !closing {
		sp.Fail(err)
	}
}
