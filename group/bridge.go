// SPDX-License-Identifier: Apache-2.0

package group

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/workerproc"
)

func bridgeCommand() app.Command {
	return app.Command{
		Name: bridgeName, Hidden: true, Usage: "is what an agent starts for each run; no command for people",
		Description: "It gets its order, connections and the program from the agent that starts it.",
		Run:         runBridge,
	}
}

// runBridge is the process of a bridge.
func runBridge(c *app.Call) error {
	files, control, err := workerproc.Inherit()
	if err == nil && len(files) != 2 {
		err = fmt.Errorf("found %d descriptors, want 2", len(files))
	}
	if err != nil {
		return app.Usage("an agent starts this for each run: `agent --listen HOST:PORT --slots N` (%v)", err)
	}
	defer control.Close()
	b := &bridge{control: control, program: files[1], begun: make(chan struct{}), ended: make(chan struct{}),
		wake: make(chan struct{}, 1), lost: make(chan loss, 1),
		done: make(chan struct{}, 1), nothing: &limit{to: func(err error) { fmt.Fprintln(c.Stderr, err) }}}
	defer b.program.Close()
	defer b.nothing.flush()
	if err := b.prepare(files[0]); err != nil {
		return err
	}
	err = b.run()
	if r := (*reason)(nil); errors.As(err, &r) {
		err = errors.New(r.text)
	}
	return err
}

// bridge is one machine's end of a run: the sessions with all others.
type bridge struct {
	control  *os.File
	program  *os.File // of its workers
	nothing  *limit   // connections that came to nothing
	order    *offer.Order
	identity session.Identity
	security *stream.Security
	server   *stream.Server

	sessions  *sessions // once begun is closed
	workplace *workplace
	begun     chan struct{}
	ended     chan struct{} // no session is begun any more

	lost chan loss     // the first one
	done chan struct{} // the launcher has done with the run

	measuring sync.WaitGroup // of one pair at a time

	mu      sync.Mutex
	pending []*offer.Message // reports that the agent hasn't got: of contacts the newest of each machine
	wake    chan struct{}
}

// prepare takes the order, and then connections.
func (b *bridge) prepare(way *os.File) error {
	listener, err := stream.HandedFile(way)
	if err != nil {
		return err
	}
	m, err := offer.Read(b.control)
	if err == nil && m.Type != offer.TypeOrder {
		err = fmt.Errorf("found a message %v from the agent, want order", m.Type)
	}
	if err == nil {
		b.order = m.Order
		b.security, err = stream.NewSecurity(m.Order.TLSDir, m.Order.Insecure)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	o := &b.order.Offer
	b.identity = session.Identity{Cluster: o.Cluster, Run: o.Run, Token: o.Token, Program: o.Program,
		Incarnation: incarnation()}
	b.server = stream.Serve(listener, stream.ServerConfig{Security: b.security, Accept: b.accept,
		Refused: b.nothing.report})
	return nil
}

// incarnation tells this process from others that could have its place.
func incarnation() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// accept uses a connection that has come in. A machine may have got its begin earlier than this one.
func (b *bridge) accept(c session.Conn, h session.Hello) error {
	select {
	case <-b.begun:
		return b.sessions.accept(c, h)
	case <-b.ended:
		err := errors.New("the run ends on this machine")
		session.Refuse(c, err)
		return err
	}
}

// run is the bridge until its end, of which the agent gets to know.
func (b *bridge) run() error {
	messages := make(chan *offer.Message)
	ended := make(chan struct{})
	go func() { // ends with the process: nobody closes the agent's end before
		for {
			m, err := offer.Read(b.control)
			if err != nil {
				m = &offer.Message{Type: offer.TypeQuit, Reason: &offer.Reason{Text: "its agent is gone"}}
			}
			select {
			case messages <- m:
			case <-ended:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var writer sync.WaitGroup
	writer.Go(func() { b.sendReports(ended) })
	err := b.follow(messages)
	close(ended)
	writer.Wait()
	reason := &offer.Reason{OK: err == nil}
	if err != nil {
		reason.Text = offer.Text(err.Error())
	}
	_ = offer.Write(b.control, &offer.Message{Type: offer.TypeEnded, Reason: reason}) // the agent may be gone
	return err
}

// follow does what the agent says, until the run has ended here.
func (b *bridge) follow(messages <-chan *offer.Message) error {
	for {
		select {
		case <-b.done:
			return b.finish()
		case l := <-b.lost:
			return b.end(l.reason)
		case m := <-messages:
			switch m.Type {
			case offer.TypeBegin:
				if b.sessions != nil {
					return b.end(errors.New("found a second begin from the agent"))
				}
				if err := b.begin(m.Begin); err != nil {
					return b.end(err)
				}
			case offer.TypeMeasure:
				if err := b.measure(m.Measure.Machine); err != nil {
					return b.end(err)
				}
			case offer.TypeDone:
				return b.finish()
			case offer.TypeQuit:
				return b.end(errors.New(m.Reason.Text))
			default:
				return b.end(fmt.Errorf("found a message %v from the agent, want begin, measure, done or quit", m.Type))
			}
		}
	}
}

// begin opens the sessions, and what is at this machine's end of them.
func (b *bridge) begin(begin *offer.Begin) (err error) {
	b.sessions, err = newSessions(sessionsConfig{self: b.order.Offer.Machine, name: b.order.Name, identity: b.identity,
		security: b.security, begin: begin, contact: b.contact,
		done: func() {
			select {
			case b.done <- struct{}{}:
			default: // once is enough
			}
		},
		lost: func(l loss) {
			select {
			case b.lost <- l:
			default: // the first one counts
			}
		},
		chosen: func(c stream.Choice) { b.note(c.String()) }})
	if err != nil {
		return err
	}
	b.workplace = b.newWorkplace(begin)
	b.sessions.serve(b.workplace)
	close(b.begun)
	return nil
}

// measure measures what lies between this machine and another one, and reports it.
func (b *bridge) measure(machine int) error {
	k := b.sessions.pair(machine)
	if k == nil || machine <= b.order.Offer.Machine {
		return fmt.Errorf("found machine %d to be measured from machine %d, want one of the run with a higher number",
			machine, b.order.Offer.Machine)
	}
	b.measuring.Wait() // for less than probesLimit and rateLimit, and for what a session may wait until it is cut
	b.measuring.Go(func() {
		m := k.gauge.measure(machine, k.sessions)
		b.send(&offer.Message{Type: offer.TypeMeasured, Measure: &m})
	})
	return nil
}

// contact keeps the newest report about a machine for the agent.
func (b *bridge) contact(c offer.Contact) {
	b.mu.Lock()
	b.pending = slices.DeleteFunc(b.pending, func(m *offer.Message) bool {
		return m.Type == offer.TypeContact && m.Contact.Machine == c.Machine
	})
	b.mu.Unlock()
	b.send(&offer.Message{Type: offer.TypeContact, Contact: &c})
}

// notesMax bounds the lines that wait for an agent which doesn't read.
const notesMax = 64

// note has a line shown to people, where the launcher is.
func (b *bridge) note(text string) {
	b.mu.Lock()
	full := len(b.pending) >= notesMax
	b.mu.Unlock()
	if !full {
		b.send(&offer.Message{Type: offer.TypeNote, Note: &offer.Note{Text: offer.Text(text)}})
	}
}

// send has a message sent to the agent, without waiting for that.
func (b *bridge) send(m *offer.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = append(b.pending, m)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// sendReports sends them, all that there are before it ends.
func (b *bridge) sendReports(ended <-chan struct{}) {
	for over := false; !over; {
		select {
		case <-b.wake:
		case <-ended:
			over = true
		}
		b.mu.Lock()
		reports := b.pending
		b.pending = nil
		b.mu.Unlock()
		for _, m := range reports {
			if offer.Write(b.control, m) != nil {
				break // its reader finds that the agent is gone
			}
		}
	}
}

// finish ends in order: when all sessions have.
func (b *bridge) finish() error {
	var err error
	if b.workplace != nil {
		b.workplace.spoke.Close()
	}
	if b.sessions != nil {
		b.measuring.Wait()
		b.sessions.finish()
		err = b.sessions.close("")
	}
	return errors.Join(err, b.stop())
}

// end ends at once. The other machines get to know why, and where that began.
func (b *bridge) end(why error) error {
	r, known := why.(*reason)
	if !known {
		r = &reason{b.order.Offer.Machine, fmt.Sprintf("on machine %s: %v", b.order.Name, why)}
	}
	if b.sessions != nil {
		_ = b.sessions.close(r.Error())
	}
	if b.workplace != nil { // behind the sessions, whose end ends all waits for other machines
		b.workplace.spoke.Close()
	}
	return errors.Join(r, b.stop())
}

// stop takes no connections any more.
func (b *bridge) stop() error {
	close(b.ended)
	return b.server.Close()
}
