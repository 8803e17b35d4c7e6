// SPDX-License-Identifier: Apache-2.0

package group

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/workerproc"
)

// bridgeName is what this program calls itself to be the bridge of a run.
const bridgeName = workerproc.BridgeCommand

// endLimit is how long a bridge may take to end when it was told to; then it is killed.
const endLimit = 3 * time.Second

// hostConfig is what an agent that takes runs is made from.
type hostConfig struct {
	listen, tlsDir string
	insecure       int
	agent          offer.Agent
	program        *os.File // the one whose models run; it stays the caller's
	log            *workerproc.LineWriter
	title          string // in front of what is logged
}

// hosting is an agent that takes runs: its port, and a process for each run.
type hosting struct {
	cfg     hostConfig
	book    *offer.Book
	port    *stream.Splitter
	server  *offer.Server
	starter *workerproc.Starter
	names   *names // nil: none
	ways    *ways  // nil: none is measured
	nothing *limit // connections and offers that came to nothing
	title   string // what it takes, for people

	mu      sync.Mutex
	works   map[*work]bool
	closing bool
	ended   sync.WaitGroup // works
}

// newHost opens the port.
func newHost(cfg hostConfig) (*hosting, error) {
	security, err := stream.NewSecurity(cfg.tlsDir, cfg.insecure)
	if err != nil {
		return nil, err
	}
	listener, err := stream.Listen(cfg.listen, security)
	if err != nil {
		return nil, err
	}
	_, _ = rand.Read(cfg.agent.Instance[:]) // never fails
	h := &hosting{cfg: cfg, book: offer.NewBook(cfg.agent), starter: workerproc.NewStarter(),
		works: map[*work]bool{}}
	h.nothing = &limit{to: h.report}
	h.port = stream.Split(listener, h.nothing.report)
	h.server = offer.Serve(h.port, offer.ServerConfig{Security: security, Book: h.book, Measure: measure,
		Start: h.start, Refused: h.nothing.report})
	return h, nil
}

// report writes a line.
func (h *hosting) report(err error) { h.cfg.log.Line(h.cfg.title, err.Error()) }

// address is where the port is.
func (h *hosting) address() string { return h.port.Addr().String() }

// close ends all runs, and returns when nothing of the host runs any more. Launchers get to know why.
func (h *hosting) close() error {
	h.book.End()
	h.mu.Lock()
	h.closing = true
	for w := range h.works {
		w.quit("the agent of its machine was ended")
	}
	h.mu.Unlock()
	h.ended.Wait()
	var err error
	if h.names != nil {
		err = h.names.close()
	}
	err = errors.Join(err, h.server.Close(), h.port.Close())
	h.starter.Close()
	h.nothing.flush()
	return err
}

// work is a run that was taken: the process of its bridge.
type work struct {
	host    *hosting
	offer   *offer.Offer
	process *workerproc.Process
	output  *workerproc.Output
	way     io.Closer
	reports chan *offer.Message
	gone    <-chan struct{} // closed when nobody reads reports any more

	mu       sync.Mutex
	begun    bool
	peers    []offer.Peer // once begun
	went     bool         // the run outlives its stream
	quitting bool
	killer   *time.Timer
}

var _ offer.Work = (*work)(nil)

// start starts the bridge of a run that the book has taken.
func (h *hosting) start(o *offer.Offer, gone <-chan struct{}) (offer.Work, error) {
	w, err := h.startProcess(o, gone)
	if err != nil {
		h.book.Free(o.Run)
		return nil, err
	}
	err = w.send(&offer.Message{Type: offer.TypeOrder, Order: &offer.Order{Offer: *o, Name: h.cfg.agent.Name,
		TLSDir: h.cfg.tlsDir, Insecure: min(h.cfg.insecure, 2)}})
	if err != nil {
		w.process.Kill()
		return nil, err
	}
	return w, nil
}

// startProcess starts the process, which is followed then.
func (h *hosting) startProcess(o *offer.Offer, gone <-chan struct{}) (*work, error) {
	way, theirs, err := stream.Way()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	w := &work{host: h, offer: o, way: way, reports: make(chan *offer.Message), gone: gone,
		output: workerproc.NewOutput(fmt.Sprintf("bridge of %q", o.Name), h.cfg.log)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, errors.Join(errors.New("the agent is ending"), way.Close())
	}
	if err := h.port.Add(o.Run, way); err != nil {
		return nil, errors.Join(err, way.Close())
	}
	w.process, err = workerproc.New(workerproc.Config{Executable: ownFile, Title: os.Args[0],
		Name: fmt.Sprintf("bridge of %q", o.Name), Args: []string{bridgeName}, Handed: []*os.File{theirs,
			h.cfg.program}, Output: w.output})
	if err == nil {
		err = h.starter.Start(w.process)
	}
	if err != nil {
		h.port.Remove(o.Run)
		return nil, errors.Join(err, way.Close())
	}
	h.works[w] = true
	h.ended.Go(w.follow)
	return w, nil
}

// send sends a message to the bridge, which takes them at once unless it is stopped.
func (w *work) send(m *offer.Message) error {
	err := w.process.Control.SetWriteDeadline(time.Now().Add(endLimit))
	if err == nil {
		err = offer.Write(w.process.Control, m)
	}
	if err != nil {
		return fmt.Errorf("the bridge of the run %q takes no message: %w", w.offer.Name, err)
	}
	return nil
}

// Take gives the bridge a message of the launcher's.
func (w *work) Take(m *offer.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.quitting:
		return nil // it is told soon that the run has ended
	case m.Type == offer.TypeBegin && !w.begun:
		w.begun, w.peers = true, m.Begin.Peers
	case m.Type == offer.TypeGo && w.begun && !w.went:
		w.went = true
		return nil // this is about the stream, which the bridge doesn't know
	case m.Type == offer.TypeKeep && w.went:
		return w.host.book.Keep(w.offer.Run, m.Keep.Slots) // about slots, of which the bridge knows nothing
	case m.Type == offer.TypeMeasure && w.begun && !w.went:
	case m.Type == offer.TypeDone && w.begun:
	default:
		return fmt.Errorf("offer: found a message %v, want begin, measure, go, keep, done, in this order", m.Type)
	}
	return w.send(m)
}

// Reports are the bridge's.
func (w *work) Reports() <-chan *offer.Message { return w.reports }

// Leave ends the run, unless it has gone.
func (w *work) Leave() {
	w.mu.Lock()
	went := w.went
	w.mu.Unlock()
	if !went {
		w.quit("its launcher has left before the run began")
	}
}

// quit ends the run: in order, if the bridge does it in time.
func (w *work) quit(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quitting {
		return
	}
	w.quitting = true
	w.killer = time.AfterFunc(endLimit, w.process.Kill)
	// Should it not take that, it is killed.
	_ = w.send(&offer.Message{Type: offer.TypeQuit, Reason: &offer.Reason{Text: reason}})
}

// follow passes the bridge's reports on until it has ended, and frees what the run had then.
func (w *work) follow() {
	last := make(chan *offer.Reason, 1)
	go func() { last <- w.read() }()
	exit := w.process.Wait()
	reason := <-last
	w.output.Flush()
	w.mu.Lock()
	w.quitting = true // whoever sends something from now on finds no process
	if w.killer != nil {
		w.killer.Stop()
	}
	w.mu.Unlock()
	h := w.host
	h.port.Remove(w.offer.Run)
	_ = w.way.Close()
	_ = w.process.Control.Close()
	if reason == nil || reason.OK != exit.OK {
		reason = &offer.Reason{Text: offer.Text("the process of its bridge has ended: " + exit.Text)}
		h.report(fmt.Errorf("the run %q: %s", w.offer.Name, reason.Text))
	}
	h.book.Free(w.offer.Run)
	h.mu.Lock()
	delete(h.works, w)
	h.mu.Unlock()
	w.pass(&offer.Message{Type: offer.TypeEnded, Reason: reason})
	close(w.reports)
}

// read takes the bridge's messages until it closes its end, and returns how it says that the run has ended.
func (w *work) read() (ended *offer.Reason) {
	for {
		m, err := offer.Read(w.process.Control)
		switch {
		case err != nil:
			return ended
		case m.Type == offer.TypeEnded:
			ended = m.Reason
		case m.Type == offer.TypeContact:
			w.contact(m.Contact)
			w.pass(m)
		case m.Type == offer.TypeMeasured, m.Type == offer.TypeNote:
			w.pass(m)
		}
	}
}

// contact has what the bridge reports about another machine shown.
func (w *work) contact(c *offer.Contact) {
	name := "the launcher's machine"
	w.mu.Lock()
	for _, p := range w.peers {
		if p.Machine == c.Machine {
			name = p.Name
		}
	}
	w.mu.Unlock()
	w.host.book.Contact(w.offer.Run, name, c)
}

// pass passes a report on, if somebody reads it.
func (w *work) pass(m *offer.Message) {
	select {
	case w.reports <- m:
	case <-w.gone:
	}
}
