// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"io"
	"net"
	"testing/iotest"

	"github.com/disco-sim/disco/internal/session/pipetest"
)

type pipe = pipetest.Pipe[*Buffer]

func newPipe(n int) (a, b *pipe) { return pipetest.New[*Buffer](n) }

// bytewise is a connection over a stream of which each read gives one byte.
type bytewise struct {
	net.Conn
	in     io.Reader
	buffer []byte
}

func newBytewise() (a, b *bytewise) {
	x, y := net.Pipe()
	return &bytewise{x, iotest.OneByteReader(x), nil}, &bytewise{y, iotest.OneByteReader(y), nil}
}

func (c *bytewise) Send(b *Buffer) error {
	defer b.Free()
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(b.Bytes())))
	_, err := c.Write(append(head, b.Bytes()...))
	return err
}

func (c *bytewise) Receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	c.buffer = make([]byte, min(binary.LittleEndian.Uint32(head[:]), messageMax))
	_, err := io.ReadFull(c.in, c.buffer)
	return c.buffer, err
}

func (c *bytewise) Close() { _ = c.Conn.Close() }
