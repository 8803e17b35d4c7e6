// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/disco-sim/disco/internal/worker"
)

// member is one worker as its supervisor sees it, whether it is a process or a
// goroutine. The fields are immutable; what has been heard of it belongs to the
// supervisor.
type member struct {
	index   int // in its team
	number  int // in the run, for people
	control io.ReadWriteCloser
	send    chan *worker.Message // to the writing goroutine; closed by the supervisor
	pid     int                  // its process; 0 in-process
	kill    func()               // ends it at once; nil where nothing can
	tail    *tail                // nil in-process
}

// heard is one thing that a supervisor hears of a member: exactly one of message,
// lost, unsent and ended.
type heard struct {
	from    int
	message *worker.Message
	lost    error       // the control stream ended or broke
	unsent  error       // a message could not be sent, and not for want of a reader
	ended   *exitStatus // the process or goroutine is no more
}

// crew is all workers of a run and what is heard of them.
type crew struct {
	members []*member
	news    chan heard
	gone    chan struct{} // closed when nobody listens to news any more
	talkers sync.WaitGroup
}

// sendAhead is how many messages may wait for a worker to read them. A run sends
// one and waits for the answer, but for Stop, which may overtake an answer, and Exit.
const sendAhead = 4

func newCrew() *crew {
	return &crew{news: make(chan heard), gone: make(chan struct{})}
}

// add takes a member on. wait returns when it has ended.
func (c *crew) add(m *member, wait func() exitStatus) {
	m.send = make(chan *worker.Message, sendAhead)
	c.members = append(c.members, m)
	read := make(chan struct{})
	c.talkers.Add(3)
	go func() {
		defer c.talkers.Done()
		defer close(read)
		c.read(m)
	}()
	go func() {
		defer c.talkers.Done()
		c.write(m)
	}()
	go func() {
		defer c.talkers.Done()
		status := wait()
		<-read // what it said last comes before the news of its end
		c.tell(heard{from: m.index, ended: &status})
	}()
}

// tell hands on news unless nobody listens any more.
func (c *crew) tell(h heard) {
	select {
	case c.news <- h:
	case <-c.gone:
	}
}

// read passes on what a member says.
func (c *crew) read(m *member) {
	for {
		msg, err := worker.ReadMessage(m.control)
		if err != nil {
			c.tell(heard{from: m.index, lost: err})
			return
		}
		c.tell(heard{from: m.index, message: msg})
	}
}

// write passes on what the supervisor says. Where nobody reads the stream any more, it
// can't be read from either, and the reader tells; any other failure is told here, or
// the answer would be waited for in vain.
func (c *crew) write(m *member) {
	for msg := range m.send {
		if err := worker.WriteMessage(m.control, msg); err != nil {
			if !streamEnd(err) {
				c.tell(heard{from: m.index, unsent: err})
			}
			for range m.send { // until closed: the supervisor must never block here
			}
			return
		}
	}
}

// leave ends the goroutines of a crew whose members have all ended, or of which the
// rest can't be ended.
func (c *crew) leave() {
	close(c.gone)
	for _, m := range c.members {
		close(m.send)
		m.control.Close()
	}
}

// errStuck is for a control stream on which messages pile up unread.
var errStuck = errors.New("it doesn't read its messages")

// say queues a message for a member.
func (m *member) say(msg *worker.Message) error {
	select {
	case m.send <- msg:
		return nil
	default:
		return fmt.Errorf("%s to worker %d: %w", msg.Type, m.number, errStuck)
	}
}
