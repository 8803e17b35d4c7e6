// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// connection is one worker as its supervisor sees it, whether it is a process or a
// goroutine. The fields are immutable. What is known of the worker stands in states.
type connection struct {
	index   int    // in its worker set
	number  int    // in the run, for people
	machine string // its machine, for people; "": this one
	control io.ReadWriteCloser
	queue   chan *worker.Message // to the goroutine that writes; closed by connections.close
	pid     int                  // its process; 0 in-process
	kill    func()               // ends it at once; nil where nothing can
	output  *workerproc.Output   // nil in-process
}

// report is one thing that a supervisor learns about a worker: exactly one of message,
// streamErr, sendErr, exit and reply, or refused alone, and what the supervisor makes of it.
type report struct {
	from      int
	message   *worker.Message
	refused   error            // why message was refused, though the protocol allows its type
	streamErr error            // the control stream ended or broke
	sendErr   error            // a message could not be sent, though the worker reads its stream
	exit      *workerproc.Exit // the process or goroutine has ended
	reply     *worker.Message  // the recorder's, to be sent to the worker
}

// connections are the control streams to the workers of one set, and the goroutines that
// serve them.
type connections struct {
	workers []*connection
	reports chan report
	done    chan struct{} // closed when reports are no longer received
	serving sync.WaitGroup
}

// queueLength is how many messages may wait for a worker to read them. A run sends
// one and waits for the answer, but for Stop, which may overtake an answer, Recorded, and Exit.
const queueLength = 5

func newConnections() *connections {
	return &connections{reports: make(chan report), done: make(chan struct{})}
}

// add begins to serve a worker. wait returns when it has ended.
func (cs *connections) add(c *connection, wait func() workerproc.Exit) {
	c.queue = make(chan *worker.Message, queueLength)
	cs.workers = append(cs.workers, c)
	read := make(chan struct{})
	cs.serving.Add(3)
	go func() {
		defer cs.serving.Done()
		defer close(read)
		cs.read(c)
	}()
	go func() {
		defer cs.serving.Done()
		cs.write(c)
	}()
	go func() {
		defer cs.serving.Done()
		exit := wait()
		<-read // its last message is reported before its end
		cs.deliver(report{from: c.index, exit: &exit})
	}()
}

// deliver hands a report to the supervisor, unless it receives no more.
func (cs *connections) deliver(r report) {
	select {
	case cs.reports <- r:
	case <-cs.done:
	}
}

// read delivers what a worker sends.
func (cs *connections) read(c *connection) {
	for {
		msg, err := worker.ReadMessage(c.control)
		if err != nil {
			cs.deliver(report{from: c.index, streamErr: err})
			return
		}
		cs.deliver(report{from: c.index, message: msg})
	}
}

// write sends what the supervisor has queued. If the other end of the stream is closed, read
// finds that too and reports it. Any other failure is reported here, or the supervisor would
// wait for an answer that can't come.
func (cs *connections) write(c *connection) {
	for msg := range c.queue {
		if err := worker.WriteMessage(c.control, msg); err != nil {
			if !isStreamEnd(err) {
				cs.deliver(report{from: c.index, sendErr: err})
			}
			for range c.queue { // until closed: the supervisor must never block here
			}
			return
		}
	}
}

// close ends the goroutines. All workers have ended, or the rest can't be ended.
func (cs *connections) close() {
	close(cs.done)
	for _, c := range cs.workers {
		close(c.queue)
		c.control.Close()
	}
}

// name is the worker in messages.
func (c *connection) name() string { return workerName(c.number, c.machine) }

func workerName(number int, machine string) string {
	if machine == "" {
		return fmt.Sprintf("worker %d", number)
	}
	return fmt.Sprintf("worker %d on %s", number, machine)
}

// errQueueFull is for a worker that leaves its messages unread.
var errQueueFull = errors.New("it doesn't read its messages")

// send queues a message for the worker.
func (c *connection) send(msg *worker.Message) error {
	select {
	case c.queue <- msg:
		return nil
	default:
		return fmt.Errorf("%v to %s: %w", msg.Type, c.name(), errQueueFull)
	}
}

// isStreamEnd reports whether a stream has ended in one of the ways that the other
// side's death, or Close on this side, gives it.
func isStreamEnd(err error) bool {
	for _, end := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, os.ErrClosed, os.ErrDeadlineExceeded,
		syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
