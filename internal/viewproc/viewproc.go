// SPDX-License-Identifier: Apache-2.0

// Package viewproc is what a run and the process beside it that shows the run say to each other. That process,
// disco-view, serves pages and metrics; a program that only runs simulations stays without a server (docs/live.md).
//
// Guarantee: the process ends when the run does, however that happens; a run whose process has ended, hangs or sends
// nonsense goes on, and learns of that. No message has more than bytesMax bytes, and none waits longer than sendMax.
//
//	p, serving, err := viewproc.Start(viewproc.Config{Executable: path, Begin: viewproc.Begin{…}, Log: log})
//	p.Send(&viewproc.Message{Phase: …})
//	p.Close()
package viewproc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Command is the hidden command that the process is started with.
const Command = "view-run"

const (
	bytesMax = 1 << 20          // of a message
	sendMax  = 2 * time.Second  // until the other side takes a message
	beginMax = 10 * time.Second // until it serves
	endMax   = 3 * time.Second  // until it has ended, when it was asked to
)

// Message is one message: one of its fields.
type Message struct {
	Begin   *Begin   `json:"begin,omitempty"`   // to the process, first
	Serving *Serving `json:"serving,omitempty"` // from it: its answer
	Refused *Refused `json:"refused,omitempty"` // from it: or this one, and it ends
	Phase   *Phase   `json:"phase,omitempty"`   // to it: of the run
}

// Begin is what the process is to do.
type Begin struct {
	PID       int    `json:"pid"`       // of the run
	Dir       string `json:"dir"`       // of its files; "": there are none to be shown
	Temporary bool   `json:"temporary"` // Dir goes when the run has ended, however that happens
	Web       string `json:"web"`       // address for pages; "": none
	Metrics   string `json:"metrics"`   // address for metrics; "": none
	Version   string `json:"version"`   // of the run's program
	Trace     bool   `json:"trace"`     // phases are spans for the endpoint that the environment names
}

// Serving is where it serves.
type Serving struct {
	Web     string   `json:"web,omitempty"` // URLs
	Metrics string   `json:"metrics,omitempty"`
	Remarks []string `json:"remarks,omitempty"`
}

// Refused is why it doesn't.
type Refused struct {
	Text  string `json:"text"`
	Usage bool   `json:"usage"` // what was asked for can't be done, whatever the machine is like
}

// Error is the text.
func (r *Refused) Error() string { return r.Text }

// Phase is a phase of the run, at its end.
type Phase struct {
	Name  string            `json:"name"`
	Began time.Time         `json:"began"`
	Ended time.Time         `json:"ended"`
	About map[string]string `json:"about,omitempty"`
	Whole bool              `json:"whole,omitempty"` // it is the run itself, of which the others are parts; the last
	Error string            `json:"error,omitempty"`
}

// Conn is the stream between both. One goroutine receives; any may send.
type Conn struct {
	file *os.File
	mu   sync.Mutex // guards sending
	bad  error      // a message was sent in part
}

// Send sends a message. An error means that the other side has gone, or doesn't read.
func (c *Conn) Send(m *Message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("viewproc: %w", err)
	}
	if len(text) > bytesMax {
		return fmt.Errorf("viewproc: a message of %d bytes, at most %d are allowed", len(text), bytesMax)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad != nil {
		return c.bad
	}
	_ = c.file.SetWriteDeadline(time.Now().Add(sendMax)) // what has none fails when it is written to
	if _, err := c.file.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)); err != nil {
		c.bad = fmt.Errorf("viewproc: %w", err)
	}
	return c.bad
}

// Receive waits for a message. io.EOF means that the other side has gone.
func (c *Conn) Receive() (*Message, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.file, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > bytesMax {
		return nil, fmt.Errorf("viewproc: found a message of %d bytes, want at most %d", n, bytesMax)
	}
	var text bytes.Buffer // memory is taken as the bytes come
	if _, err := io.CopyN(&text, c.file, int64(n)); err != nil {
		return nil, err
	}
	m := new(Message)
	if err := json.Unmarshal(text.Bytes(), m); err != nil {
		return nil, fmt.Errorf("viewproc: found what is no message: %w", err)
	}
	return m, nil
}

// Close ends the stream.
func (c *Conn) Close() error { return c.file.Close() }
