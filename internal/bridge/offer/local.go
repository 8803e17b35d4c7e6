// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"encoding/binary"
	"fmt"
	"io"
)

// lengthBytes stand in front of a message between an agent and the process of a bridge.
const lengthBytes = 4

// Write writes a message to the other end of a control stream.
func Write(w io.Writer, m *Message) error {
	b, err := Append(make([]byte, lengthBytes), m)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-lengthBytes))
	_, err = w.Write(b)
	return err
}

// Read reads a message from a control stream. io.EOF, unwrapped, is its end.
func Read(r io.Reader) (*Message, error) {
	var head [lengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MessageBytesMax {
		return nil, fmt.Errorf("offer: found a message of %d bytes, want at most %d", n, MessageBytesMax)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("offer: a message of %d bytes was cut short: %w", n, err)
	}
	return Parse(b)
}
