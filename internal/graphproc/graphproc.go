// SPDX-License-Identifier: Apache-2.0

// Package graphproc asks a process beside this one, which has clients of databases, for what a scenario's graph:
// section takes from there. A program that only runs simulations stays without them.
//
// Guarantee: the process ends when the question is answered, when the context ends, and when this process ends, however
// that happens; no password of a URL is among its arguments. Of an answer no more than graphdata.BytesMax is read.
//
//	data, err := graphproc.Ask(ctx, graphproc.Config{Executable: path, URL: url, Timeout: time.Minute}, request)
package graphproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/internal/workerproc"
)

// Command is the hidden command that the process is started with.
const Command = "graph-data"

// requestBytesMax bounds a question: a section is a part of a scenario file, which has at most 8 MiB.
const requestBytesMax = 16 << 20

// Config says whom to ask, and for what.
type Config struct {
	Executable string                 // that has Command
	URL        string                 // of the database
	Timeout    time.Duration          // in which it is to answer
	Log        *workerproc.LineWriter // gets what the process says on standard error
}

// question is what the process is sent.
type question struct {
	url     string
	timeout int64 // nanoseconds
	request []byte
}

func (q *question) fields(c *wire.Codec) {
	c.String(&q.url)
	c.Int64(&q.timeout)
	c.Bytes(&q.request)
}

// Ends of an answer.
const (
	endGood = iota
	endBad  // the text says what is wrong
)

// RefusedError is what the database says, or what is wrong with it.
type RefusedError struct{ text string }

// Error is that.
func (e *RefusedError) Error() string { return e.text }

// Ask starts the process, and gives its answer. A *RefusedError says what is wrong with the database or what it holds.
func Ask(ctx context.Context, cfg Config, request []byte) ([]byte, error) {
	output := workerproc.NewOutput(Command, cfg.Log)
	proc, err := workerproc.New(workerproc.Config{Executable: cfg.Executable, Name: Command, Args: []string{Command},
		Output: output})
	if err != nil {
		return nil, err
	}
	starter := workerproc.NewStarter()
	if err := starter.Start(proc); err != nil {
		starter.Close()
		return nil, err
	}
	exits := make(chan workerproc.Exit, 1)
	go func() { exits <- proc.Wait() }() // which takes what it says on standard error: it may be too much for a pipe
	stop := context.AfterFunc(ctx, proc.Kill)
	data, err := exchange(proc.Control, cfg, request)
	proc.Control.Close() // which ends it, where it has more to say
	exit := <-exits
	starter.Close()
	stop()
	var refused *RefusedError
	switch {
	case err == nil || errors.As(err, &refused):
		return data, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	text := strings.Join(output.Lines(), "\n    ")
	if text != "" {
		text = "\n    " + text
	}
	return nil, fmt.Errorf("%s, which reads databases: %w (%s)%s", cfg.Executable, err, exit.Text, text)
}

// exchange sends the question and reads the answer.
func exchange(control io.ReadWriter, cfg Config, request []byte) ([]byte, error) {
	q := question{cfg.URL, int64(cfg.Timeout), request}
	body, err := wire.Append(make([]byte, 4), q.fields)
	if err != nil {
		return nil, err
	}
	if len(body)-4 > requestBytesMax {
		return nil, &RefusedError{fmt.Sprintf("a section of %d bytes, want at most %d", len(body), requestBytesMax)}
	}
	binary.LittleEndian.PutUint32(body, uint32(len(body)-4))
	if _, err := control.Write(body); err != nil {
		return nil, err
	}
	var head [9]byte // how it ended, and how many bytes follow
	if _, err := io.ReadFull(control, head[:]); err != nil {
		return nil, fmt.Errorf("it has ended without an answer: %w", err)
	}
	n := binary.LittleEndian.Uint64(head[1:])
	if n > graphdata.BytesMax || head[0] > endBad {
		return nil, fmt.Errorf("found an answer of %d bytes with the end %d, want at most %d", n, head[0],
			graphdata.BytesMax)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(control, data); err != nil {
		return nil, fmt.Errorf("found a part of an answer of %d bytes: %w", n, err)
	}
	if head[0] == endBad {
		return nil, &RefusedError{string(data)}
	}
	return data, nil
}

// Inherit takes over the stream that this process was started with.
func Inherit() (*os.File, error) {
	if !workerproc.Started(Command) {
		return nil, errors.New("graphproc: nothing has started this process")
	}
	files, control, err := workerproc.Inherit()
	for _, f := range files {
		f.Close() // there are none
	}
	return control, err
}

// Serve answers the question that comes through control. The context of read ends when who asked has gone. An error is
// that of the stream.
func Serve(control io.ReadWriteCloser, read func(ctx context.Context, url string, timeout time.Duration,
	request []byte) ([]byte, error)) error {
	var head [4]byte
	if _, err := io.ReadFull(control, head[:]); err != nil {
		return fmt.Errorf("graphproc: the question: %w", err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > requestBytesMax {
		return fmt.Errorf("graphproc: found a question of %d bytes, want at most %d", n, requestBytesMax)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(control, body); err != nil {
		return fmt.Errorf("graphproc: the question: %w", err)
	}
	q := question{}
	if err := wire.Decode(body, q.fields); err != nil {
		return fmt.Errorf("graphproc: the question: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var b [1]byte
		_, _ = control.Read(b[:]) // nothing more is said: it ends when the other end is closed
		cancel()
	}()
	data, err := read(ctx, q.url, time.Duration(q.timeout), q.request)
	end := byte(endGood)
	if err != nil {
		end, data = endBad, []byte(err.Error())
	}
	if err = answer(control, end, data); err == nil {
		<-gone // who asked has read it: soon after the end of a process nothing more is read of what it has said
	}
	if closed := control.Close(); err == nil {
		err = closed
	}
	<-gone
	return err
}

func answer(control io.Writer, end byte, data []byte) error {
	head := binary.LittleEndian.AppendUint64([]byte{end}, uint64(len(data)))
	if _, err := control.Write(head); err != nil {
		return fmt.Errorf("graphproc: the answer: %w", err)
	}
	if _, err := control.Write(data); err != nil {
		return fmt.Errorf("graphproc: the answer: %w", err)
	}
	return nil
}
