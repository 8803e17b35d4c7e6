// SPDX-License-Identifier: Apache-2.0

package byname

import (
	"encoding/binary"
	"testing"

	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/ipc"
)

// Whatever frames a machine sends: those that are taken are within the window, and what they say of a sender is within
// the limits.
func FuzzFrames(f *testing.F) {
	open := putOpen(nil, ipc.DialConfig{RingBytes: 4096, InlineMax: 256, PoolBytes: 1 << 18}, "name")
	body := func(kind, arg uint32, data []byte) []byte {
		b := make([]byte, headBytes, headBytes+len(data))
		head{kind, arg}.put(b)
		return append(b, data...)
	}
	seeds := [][]byte{body(kindOpen, version, open), body(kindMessage, 3, []byte("abc")), body(kindMore, 0, nil),
		body(kindEnd, died, nil), body(kindEnded, closed, nil), body(kindOpened, 2, []byte("1234text")), {1, 2, 3}}
	for _, b := range seeds {
		f.Add(b, uint8(session.Control), uint16(3))
	}
	f.Add(make([]byte, 8), uint8(session.Credit), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, kind uint8, times uint16) {
		in := &inward{limit: windowBytes}
		in.wake = make(chan struct{}, 1)
		for range times % 2000 {
			if in.apply(session.Header{Type: session.Type(kind)}, b) != nil {
				break
			}
		}
		if most := windowBytes + 4*partMost; in.came > uint64(most) || len(in.queue) > 2*most {
			t.Fatalf("%d bytes came, %d wait", in.came, len(in.queue))
		}
		o := &outward{opened: make(chan answer, 1), cancel: func(error) {}}
		o.wake = make(chan struct{}, 1)
		_ = o.apply(session.Header{Type: session.Type(kind)}, b)
		if h, data, err := parse(b); err == nil {
			cfg, _, err := parseOpen(h.arg, data)
			if err == nil && (cfg.RingBytes > laneBytesMax || cfg.PoolBytes > poolBytesMax || cfg.RingBytes < 0 ||
				cfg.InlineMax < 0 || cfg.PoolBytes < 0) {
				t.Fatalf("let through: %+v", cfg)
			}
			_ = errorOf(binary.LittleEndian.Uint32(b), "text")
		}
	})
}
