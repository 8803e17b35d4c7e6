// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// The protocol between an agent and a host: each side sends preamble, and then frames, which are the length of what
// follows (4 bytes, the highest first), a kind (1 byte), and a message as JSON; that of kindBlob is a request's number
// (8 bytes) and bytes of a blob. The agent begins: what a host writes before somebody reads it may be lost. What a host
// sends ends with a line's end, since srun passes on whole lines only.
const (
	preamble = "\x00disco-host\n"
	protocol = 4 // rises with each change that older programs don't understand

	frameMax    = 2 << 20   // bytes of kind and message; a job's text is bounded by what a store takes, 1 MB
	chunkBytes  = 256 << 10 // of a blob, so that what is urgent passes between two of them
	requestsMax = 1024      // of an agent that a host works at
	fetchesMax  = 4         // blobs at a time of a host
)

// kind is what a frame is.
type kind byte

const (
	kindHello   kind = 1 + iota // both: versions; of the agent also settings
	kindReady                   // host: its folder is swept, it takes requests
	kindRefused                 // host: it ends, Error says why
	kindPing                    // both: nothing but that the connection lives
	kindPrepare                 // agent, requests, which are answered: Job
	kindStart                   // Job
	kindStop                    // Name
	kindRelease                 // Job
	kindSweep
	kindClose
	kindAnswer   // host: ID of the request, Error, Own, Ended
	kindFetch    // host: ID, Digest
	kindBlob     // agent: bytes
	kindBlobEnd  // agent: ID, Error, Own
	kindProgress // host: Name, Progress, Output
	kindDone     // host: Name, Progress, Output, Outcome
)

// message is what frames say. Each kind has some of the fields.
type message struct {
	ID       uint64            `json:"id,omitempty"`
	Hello    *hello            `json:"hello,omitempty"`
	Job      *executor.Job     `json:"job,omitempty"`
	Name     string            `json:"name,omitempty"`
	Digest   *fleet.Digest     `json:"digest,omitempty"`
	Progress *fleet.Progress   `json:"progress,omitempty"`
	Output   []byte            `json:"output,omitempty"`
	Outcome  *executor.Outcome `json:"outcome,omitempty"`
	Ended    int               `json:"ended,omitempty"`
	Error    string            `json:"error,omitempty"`
	Own      bool              `json:"own,omitempty"` // Error is an executor.OwnError
}

// hello is how both begin.
type hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the program

	Node string `json:"node,omitempty"` // of the host: where a scheduler has started it

	// Of the agent.
	Mark   string        `json:"mark,omitempty"`  // whose host it is: the folder for work, and who may end it
	Name   string        `json:"name,omitempty"`  // of the host among the agent's
	Owner  string        `json:"owner,omitempty"` // for people: group and machine
	Once   bool          `json:"once,omitempty"`  // its folder is removed in the end
	Grace  time.Duration `json:"grace_ns,omitempty"`
	Locked time.Duration `json:"locked_ns,omitempty"`
	Cache  int64         `json:"cache_bytes,omitempty"`
	Silent time.Duration `json:"silent_ns,omitempty"`
}

// errSilent is the end of a connection on which nothing has come for too long.
var errSilent = errors.New("nothing has come from the other side")

// conn is one side of a connection. Any goroutine may send; one receives.
type conn struct {
	rw     io.ReadWriteCloser
	r      *bufio.Reader
	silent atomic.Int64 // time.Duration
	watch  *time.Timer  // fires when nothing has come for silent

	sending sync.Mutex
	once    sync.Once
	err     error         // before done is closed
	done    chan struct{} // closed when the connection has ended
}

// newConn takes a connection, which ends when nothing comes for silent.
func newConn(rw io.ReadWriteCloser, silent time.Duration) *conn {
	c := &conn{rw: rw, done: make(chan struct{})}
	c.silent.Store(int64(silent))
	c.r = bufio.NewReaderSize(c, 64<<10)
	made := make(chan struct{}) // the timer's end uses it
	c.watch = time.AfterFunc(silent, func() {
		<-made
		c.fail(fmt.Errorf("%w for %v", errSilent, c.silence()))
	})
	close(made)
	return c
}

// silence is how long nothing may come.
func (c *conn) silence() time.Duration { return time.Duration(c.silent.Load()) }

// limit sets it, from now on.
func (c *conn) limit(silent time.Duration) {
	c.silent.Store(int64(silent))
	c.watch.Reset(silent)
}

// Read implements io.Reader: every byte is a sign of life.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.rw.Read(p)
	if n > 0 {
		select {
		case <-c.done: // it stays ended
		default:
			c.watch.Reset(c.silence())
		}
	}
	return n, err
}

// fail ends the connection; the first reason stays.
func (c *conn) fail(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.done)
		c.watch.Stop()
		_ = c.rw.Close() // it ends reading and writing; nothing is to be saved
	})
}

// ended is the reason of the end, or nil.
func (c *conn) ended() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// live sends pings until the connection ends.
func (c *conn) live() {
	tick := time.NewTicker(c.silence() / 4)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
			_ = c.send(kindPing, &message{}) // a failure has ended the connection
		}
	}
}

// send sends a message. An error that doesn't end the connection says that it is too long.
func (c *conn) send(k kind, m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return c.sendBytes(k, append(text, '\n'))
}

func (c *conn) sendBytes(k kind, text []byte) error {
	if len(text) >= frameMax {
		return fmt.Errorf("a message of %d bytes, at most %d can be sent", len(text), frameMax-1)
	}
	frame := make([]byte, 5, 5+len(text))
	binary.BigEndian.PutUint32(frame, uint32(len(text)+1))
	frame[4] = byte(k)
	return c.write(append(frame, text...))
}

func (c *conn) write(b []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.ended(); err != nil {
		return err
	}
	_, err := c.rw.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return err // the other side has ended, and what it has said last is read first
	}
	if err != nil {
		c.fail(err)
		return c.ended()
	}
	return nil
}

// sendBlob sends the bytes that a host has asked for, or why there are none.
func (c *conn) sendBlob(id uint64, blob []byte, err error) {
	m := &message{ID: id}
	if err != nil {
		m.Error, m.Own = clip(err.Error(), fleet.MaxReason), errors.Is(err, fleet.ErrNoBlob)
	}
	for len(blob) > 0 && m.Error == "" {
		n := min(len(blob), chunkBytes)
		if c.sendBytes(kindBlob, append(binary.BigEndian.AppendUint64(nil, id), blob[:n]...)) != nil {
			return
		}
		blob = blob[n:]
	}
	_ = c.send(kindBlobEnd, m) // a failure has ended the connection
}

// receive reads a frame. blob is that of kindBlob, behind its ID.
func (c *conn) receive() (k kind, m *message, blob []byte, err error) {
	head := [5]byte{}
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n < 1 || n > frameMax {
		return 0, nil, nil, fmt.Errorf("found a frame of %d bytes, want 1 to %d", n, frameMax)
	}
	text := make([]byte, n-1)
	if _, err := io.ReadFull(c.r, text); err != nil {
		return 0, nil, nil, err
	}
	k, m = kind(head[4]), &message{}
	if k < kindHello || k > kindDone {
		return 0, nil, nil, fmt.Errorf("found a frame of kind %d, want %d to %d", k, kindHello, kindDone)
	}
	if k == kindBlob {
		if len(text) < 8 {
			return 0, nil, nil, fmt.Errorf("found %d bytes of a blob, want its number", len(text))
		}
		m.ID = binary.BigEndian.Uint64(text)
		return k, m, text[8:], nil
	}
	if err := json.Unmarshal(text, m); err != nil {
		return 0, nil, nil, fmt.Errorf("found a message of kind %d that can't be read: %w", k, err)
	}
	return k, m, nil, nil
}

// clip shortens a text.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most-4] + " …"
	}
	return text
}

// greetingMax bounds what is shown of something that isn't the protocol, in bytes.
const greetingMax = 200

// greet reads the other side's preamble and hello. The error shows what came instead.
func (c *conn) greet() (*hello, error) {
	found := make([]byte, 0, greetingMax)
	for len(found) < len(preamble) {
		b, err := c.r.ReadByte()
		if err != nil && len(found) == 0 {
			return nil, err
		}
		if found = append(found, b); err != nil || b != preamble[len(found)-1] {
			if err != nil {
				found = found[:len(found)-1]
			}
			return nil, &foreignError{text: c.rest(found)}
		}
	}
	k, m, _, err := c.receive()
	if err != nil {
		return nil, err
	}
	if k != kindHello || m.Hello == nil {
		return nil, fmt.Errorf("found a first frame of kind %d, want %d", k, kindHello)
	}
	return m.Hello, nil
}

// rest adds what else has come, as far as it is in the buffer.
func (c *conn) rest(found []byte) string {
	more := make([]byte, min(c.r.Buffered(), greetingMax-len(found)))
	n, _ := io.ReadFull(c.r, more) // they are in the buffer
	return string(append(found, more[:n]...))
}

// foreignError is that something else than the protocol has come.
type foreignError struct{ text string }

func (e *foreignError) Error() string { return fmt.Sprintf("found %q before the first frame", e.text) }

// agrees tells whether two programs understand each other.
func (h *hello) agrees(own *hello, who, by string) error {
	switch {
	case h.Protocol != own.Protocol:
		return fmt.Errorf("%s speaks version %d of the protocol (it is %.80q), %s speaks %d (%.80q): "+
			"install the same version on both machines", who, h.Protocol, h.Version, by, own.Protocol, own.Version)
	case h.Version != own.Version:
		return fmt.Errorf("%s is version %.80q, %s is %.80q: install the same version on both machines", who,
			h.Version, by, own.Version)
	}
	return nil
}
