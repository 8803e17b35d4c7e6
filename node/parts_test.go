// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// What is pending for a node comes in parts of 4 MiB, which have as many bytes as they have to: more than one record of
// a node may have, altogether.
func TestPendingParts(t *testing.T) {
	e := newSink(t, func(uint64) {}, func(*Simproc, []Event) error { return nil })
	const events = 300
	data := make([]byte, 1<<20) // of all of them, in place
	for n := range uint64(events) {
		ev := envelope.Event{Epoch: 1 + float64((n*n)%90), Number: n, Sender: 1, Target: 0, Data: data}
		if err := e.ReceiveEvent(1, &ev, n+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.ReceiveBound(1, Never); err != nil {
		t.Fatal(err)
	}
	e.SetUntil(0.5)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	parts, bytes, last := 0, 0, uint32(0)
	err := e.EachPending(func(n int, encoded []byte) error {
		if version := binary.LittleEndian.Uint32(encoded); version != savedPartVersion || len(encoded) > 5<<20+100 ||
			int(binary.LittleEndian.Uint32(encoded[4:])) != parts || last != 0 {
			t.Fatalf("part %d of node %d has version %d and %d bytes, behind the last: %d", parts, n, version,
				len(encoded), last)
		}
		last = binary.LittleEndian.Uint32(encoded[8:])
		parts, bytes = parts+1, bytes+len(encoded)
		return nil
	})
	if err != nil || last != 1 || bytes < events*len(data) || bytes <= savedBytesMax || parts < bytes/(5<<20+100) {
		t.Errorf("%v: found %d parts, the last: %d, with %d bytes", err, parts, last, bytes)
	}
}

// A part that is missing, that comes twice, or that isn't one is found.
func TestPendingPartsRefused(t *testing.T) {
	inSmallParts(t)
	m, good := savedSmall(t)
	n := -1
	for k, parts := range good.more {
		if len(parts) > 1 {
			n = k
		}
	}
	if n < 0 {
		t.Fatal("found no node with three parts")
	}
	if err := good.open(m); err != nil {
		t.Fatal(err)
	}
	word := binary.LittleEndian
	for want, spoil := range map[string]func(first []byte, more [][]byte) [][]byte{
		"parts of what is pending for": func(_ []byte, more [][]byte) [][]byte { return more[1:] },
		"want each part once":          func(_ []byte, more [][]byte) [][]byte { return append(more, more[0]) },
		"and one last": func(_ []byte, more [][]byte) [][]byte {
			word.PutUint32(more[0][8:], 1)
			return more
		},
		"the last: 2": func(first []byte, more [][]byte) [][]byte {
			word.PutUint32(first[8:], 2)
			return more
		},
		"in one part and in several": func(first []byte, more [][]byte) [][]byte {
			return append(more, append([]byte{savedVersion, 0, 0, 0}, first[partHead:]...))
		},
		"found version 3 of an encoding, want 1 or 2": func(first []byte, more [][]byte) [][]byte {
			word.PutUint32(first, savedPartVersion+1)
			return more
		},
		"found 3 bytes, want 4": func(_ []byte, more [][]byte) [][]byte {
			more[0] = more[0][:7]
			return more
		},
	} {
		bad := good.clone()
		more := make([][]byte, 0, len(good.more[n]))
		for _, part := range good.more[n] {
			more = append(more, append([]byte(nil), part...))
		}
		bad.more = map[int][][]byte{}
		for k, parts := range good.more {
			bad.more[k] = parts
		}
		bad.more[n] = spoil(bad.pending[n], more)
		if err := bad.open(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}
