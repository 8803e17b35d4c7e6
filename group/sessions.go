// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/session"
)

// Memory of a machine for frames that aren't acknowledged; each session has the same share of it.
const (
	resendBytes      = 64 << 20
	resendBytesLeast = 1 << 20
	resendBytesMost  = 8 << 20
)

// launcherMachine is the launcher's number in its run.
const launcherMachine = -1

// sessionsConfig is what the sessions of one machine are made from.
type sessionsConfig struct {
	self     int
	name     string
	identity session.Identity
	security *stream.Security
	begin    *offer.Begin
	lost     func(loss)          // called for each session whose end nobody has asked for; it may not wait
	contact  func(offer.Contact) // called in order for each machine; it may not wait
	done     func()              // called when the launcher has done with the run; it may not wait
	chosen   func(stream.Choice) // compression of what this machine dials; it may not wait
}

// frames take what sessions have: as of bridge.Bridge.
type frames interface {
	Apply(machine int, on session.Stream, h session.Header, body []byte) error
	Changed(machine int, on session.Stream, s session.State)
	Acked(machine int, on session.Stream)
}

// later passes on what sessions have, to who is there only when these are. Until then they wait.
type later struct {
	ready chan struct{} // closed when to is set
	to    frames        // nil: nobody will be there
}

func newLater() *later { return &later{ready: make(chan struct{})} }

// serve says who is there; nil: nobody.
func (l *later) serve(to frames) {
	l.to = to
	close(l.ready)
}

func (l *later) Apply(machine int, on session.Stream, h session.Header, body []byte) error {
	if <-l.ready; l.to == nil {
		return nil
	}
	return l.to.Apply(machine, on, h, body)
}

func (l *later) Changed(machine int, on session.Stream, s session.State) {
	if <-l.ready; l.to != nil {
		l.to.Changed(machine, on, s)
	}
}

func (l *later) Acked(machine int, on session.Stream) {
	if <-l.ready; l.to != nil {
		l.to.Acked(machine, on)
	}
}

// sessions are the sessions of one machine of a run with all others: for each an express one and a bulk one, which the
// lower number dials.
type sessions struct {
	cfg sessionsConfig
	*later

	mu      sync.Mutex
	all     map[int]*pair
	dialers []*stream.Dialer
	closing bool
	leaving sync.WaitGroup // sessions that end before the others
}

// loss is a machine to which a session has ended.
type loss struct {
	machine int
	reason  *reason
}

// reason is why a run ends on a machine, and on which one that began.
type reason struct {
	machine int
	text    string // names it
}

// Error is the text, in front of which is the machine for who reads it with readReason.
func (r *reason) Error() string { return fmt.Sprintf(reasonForm+"%s", r.machine, r.text) }

// reasonForm begins the text of a reason on its way.
const reasonForm = "cause %d: "

// readReason reads the text of a reason; what isn't one began on the machine from which it came.
func readReason(from int, text string) *reason {
	r := &reason{machine: from, text: text}
	if n, err := fmt.Sscanf(text, reasonForm, &r.machine); n == 1 && err == nil {
		_, r.text, _ = strings.Cut(text, ": ")
	}
	return r
}

// pair is the sessions with one machine.
type pair struct {
	title    string
	sessions [2]*session.Session
	gauge    *gauge
	states   [2]session.State
	silent   [2]time.Time // up: since when nothing has come; zero: it isn't unusual
	reopens  [2]bool      // this machine closes the connection, to make another one
	reported offer.ContactState
	closing  bool // this run needs that machine no more
}

// newSessions starts them. What they have waits for serve.
func newSessions(cfg sessionsConfig) (*sessions, error) {
	l := &sessions{cfg: cfg, all: map[int]*pair{}, later: newLater()}
	if err := l.start(); err != nil {
		l.serve(nil)
		return nil, errors.Join(err, l.close(err.Error()))
	}
	return l, nil
}

// start starts all sessions. Whoever is called back meanwhile waits.
func (l *sessions) start() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	peers := l.cfg.begin.Peers
	if l.cfg.self != launcherMachine {
		peers = append([]offer.Peer{{Machine: launcherMachine}}, peers...)
	}
	for _, p := range peers {
		if p.Machine == l.cfg.self {
			continue
		}
		k := &pair{title: titleOf(p), gauge: newGauge()}
		l.all[p.Machine] = k
		for _, s := range []session.Stream{session.Express, session.Bulk} {
			if k.sessions[s], err = session.New(l.config(p, k, s, len(peers))); err != nil {
				return err
			}
		}
	}
	return nil
}

// config is that of one session.
func (l *sessions) config(p offer.Peer, k *pair, s session.Stream, peers int) session.Config {
	b := l.cfg.begin
	share := resendBytes / (2 * peers)
	cfg := session.Config{Self: l.cfg.self, Peer: p.Machine, Stream: s, Identity: l.cfg.identity,
		ConnectTimeout: b.ConnectTimeout, PeerTimeout: b.PeerTimeout, Window: b.Window,
		ResendBytes: min(max(share, resendBytesLeast), resendBytesMost),
		Apply: func(h session.Header, body []byte) error {
			if k.gauge.take(h, body) {
				return nil
			}
			if h.Type == session.Blob && h.Lane == doneLane {
				if p.Machine == launcherMachine {
					l.cfg.done()
				} else {
					l.leave(p.Machine)
				}
				return nil
			}
			return l.Apply(p.Machine, s, h, body)
		},
		Changed:     func(state session.State) { l.change(p.Machine, s, state) },
		Unreachable: func(silence *session.Silence) { l.unreachable(p.Machine, s, silence) },
		Acked: func() {
			k.gauge.acked()
			l.Acked(p.Machine, s)
		}}
	if l.cfg.self < p.Machine {
		d := &stream.Dialer{Address: p.Address, Run: l.cfg.identity.Run, Security: l.cfg.security,
			Compress: stream.Compression(b.Compress), Rate: k.gauge.rate, Chosen: func(c stream.Choice) {
				l.chosen(k, s, c)
			}}
		l.dialers = append(l.dialers, d)
		cfg.Dial = func(ctx context.Context) (session.Conn, error) { return d.Dial(ctx) }
	}
	return cfg
}

// titleOf is what people call a machine.
func titleOf(p offer.Peer) string {
	if p.Machine == launcherMachine {
		return "the launcher's machine"
	}
	return "machine " + p.Name
}

// inWords is why a session has ended, as people put it.
func (l *sessions) inWords(machine int, title string, err error) *reason {
	lost, ended := (*session.LostError)(nil), (*session.EndError)(nil)
	switch {
	case errors.As(err, &lost):
		own := titleOf(offer.Peer{Machine: l.cfg.self, Name: l.cfg.name})
		text := fmt.Sprintf("%s has lost %s: no connection for %v", own, title, lost.After.Round(time.Millisecond))
		if lost.Cause != nil {
			text += "; the last one: " + lost.Cause.Error()
		}
		return &reason{machine, text}
	case errors.As(err, &ended) && !ended.Refused && ended.Text != "":
		return readReason(machine, ended.Text)
	}
	return &reason{machine, fmt.Sprintf("%s: %v", title, err)}
}

// change takes a session's new state.
func (l *sessions) change(machine int, s session.Stream, state session.State) {
	if r := l.report(machine, s, state); r != nil {
		l.cfg.lost(loss{machine, r})
	}
	l.Changed(machine, s, state)
}

// report reports what a session's new state makes of a machine, and gives the reason of its loss, unless it was asked
// for.
func (l *sessions) report(machine int, s session.Stream, state session.State) (lost *reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.all[machine]
	k.states[s], k.silent[s] = state, time.Time{}
	var err error
	if state == session.Lost || state == session.Ended {
		err = k.sessions[s].Err()
	}
	report := offer.Contact{Machine: machine, State: k.reported}
	switch {
	case err != nil && !l.closing && !k.closing:
		lost = l.inWords(machine, k.title, err)
		report.State, report.Text = offer.ContactLost, offer.Text(lost.text)
	case l.closing, k.closing:
	case k.states == [2]session.State{session.Up, session.Up}:
		report.State = offer.ContactUp
	case state == session.Disconnected && k.reopens[s]: // a cut is noticed as late where it is a silence
		k.reopens[s] = false
		time.AfterFunc(l.cfg.begin.PeerTimeout, func() { l.stillAway(machine, s) })
	case state == session.Disconnected:
		report.State = offer.ContactInterrupted
	}
	l.contact(k, report)
	return lost
}

// chosen takes a stream's compression. With another one than none, its connection is closed next: for another one that
// follows at once, so nobody has to know.
func (l *sessions) chosen(k *pair, s session.Stream, c stream.Choice) {
	l.mu.Lock()
	k.reopens[s] = c.Chosen != stream.None
	l.mu.Unlock()
	l.cfg.chosen(c)
}

// stillAway reports a session that was to have another connection, and has none yet.
func (l *sessions) stillAway(machine int, s session.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.all[machine]; k.states[s] == session.Disconnected && !k.closing && !l.closing {
		l.contact(k, offer.Contact{Machine: machine, State: offer.ContactInterrupted})
	}
}

// contact reports a machine whose state has changed. Its caller holds mu.
func (l *sessions) contact(k *pair, report offer.Contact) {
	if report.State != k.reported {
		k.reported = report.State
		l.cfg.contact(report)
	}
}

// unreachable takes that nothing comes on a session that is up, or with nil that something does again. A machine is
// unreachable if nothing comes on either of its two.
func (l *sessions) unreachable(machine int, s session.Stream, silence *session.Silence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.all[machine]
	report := offer.Contact{Machine: machine, State: offer.ContactUp}
	if k.silent[s] = (time.Time{}); silence != nil {
		k.silent[s] = time.Now().Add(-silence.For)
		if other := k.silent[1-s]; !other.IsZero() {
			report.State, report.For, report.Phi = offer.ContactUnreachable, silence.For, silence.Phi
			report.For = max(0, min(report.For, time.Since(other)))
		}
	}
	if !l.closing && !k.closing && k.states == [2]session.State{session.Up, session.Up} {
		l.contact(k, report)
	}
}

// pair is the sessions with a machine; nil: it isn't one of the run's.
func (l *sessions) pair(machine int) *pair {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[machine]
}

// accept uses a connection that has come in until it has ended.
func (l *sessions) accept(c session.Conn, h session.Hello) error {
	l.mu.Lock()
	k := l.all[h.From]
	l.mu.Unlock()
	if k == nil || h.Stream > session.Bulk || h.From >= l.cfg.self {
		err := fmt.Errorf("a hello of machine %d (%v), from which machine %d awaits none", h.From, h.Stream, l.cfg.self)
		session.Refuse(c, err)
		return err
	}
	return k.sessions[h.Stream].Accept(c, h)
}

// doneLane marks the frame that a machine sends last: the launcher when it has done with the run on that machine, which
// then sends it to the others. It reaches a machine also where its agent's stream is gone.
const doneLane = gaugeLane - 1

// finish sends all machines that this one has done with the run. Nobody sends anything behind it.
func (l *sessions) finish() {
	for _, k := range l.all {
		k.finish()
	}
}

func (k *pair) finish() {
	bulk := k.sessions[session.Bulk]
	if _, ok := bulk.Frame(session.Header{Type: session.Blob, Lane: doneLane}, 0); ok {
		_ = bulk.Flush() // where it can't be sent the session ends by its timeouts
	}
}

// leave ends the sessions with a machine that has done with the run, or that is not used, in order; it waits for
// nothing. Whatever becomes of that machine isn't reported any more.
func (l *sessions) leave(machine int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.all[machine]
	if k.closing || l.closing {
		return // it ends already
	}
	k.closing = true
	if k.reported == offer.ContactUnreachable || k.reported == offer.ContactInterrupted { // nobody awaits it
		l.contact(k, offer.Contact{Machine: machine, State: offer.ContactUp})
	}
	for _, s := range k.sessions {
		l.leaving.Go(func() { s.Close("") })
	}
}

// close ends all sessions: with a reason at once, without one when all is acknowledged and the others close, too. An
// error is that of a session which came to no orderly end.
func (l *sessions) close(reason string) error {
	l.mu.Lock()
	l.closing = true
	var sessions []*session.Session
	for _, k := range l.all {
		for _, s := range k.sessions {
			if s != nil {
				sessions = append(sessions, s)
			}
		}
	}
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range sessions {
		all.Go(func() { s.Close(reason) })
	}
	all.Wait()
	l.leaving.Wait()
	for _, d := range l.dialers { // this process may be about to exit
		d.Wait()
	}
	var failures []error
	for _, k := range l.all {
		for _, s := range k.sessions {
			if s != nil && !k.closing && reason == "" && s.Err() != nil {
				failures = append(failures, s.Err())
			}
		}
	}
	return errors.Join(failures...)
}
