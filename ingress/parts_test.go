// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
)

func part(offset uint32, data string) []byte {
	rec := make([]byte, envelope.PartHeaderBytes+len(data))
	envelope.EncodePart(rec, offset, []byte(data))
	return rec
}

// Parts make up the data of the event behind them. What doesn't fit together breaks the
// lane and says why; what was begun and given up is forgotten.
func TestParts(t *testing.T) {
	event := func(bytes uint32) []byte { return encoded(&envelope.Event{Epoch: 1, Parts: bytes}) }
	for _, c := range []struct {
		what    string
		refused bool // parts were not agreed on
		records [][]byte
		data    string // of the event that comes
		err     string // with which the lane ends
	}{
		{"two parts", false, [][]byte{part(0, "abc"), part(3, "de"), event(5)}, "abcde", ""},
		{"given up and begun anew", false, [][]byte{part(0, "xyz"), part(3, "x"), part(0, "abc"), event(3)}, "abc", ""},
		{"given up for small data", false, [][]byte{part(0, "xyz"), encoded(&envelope.Event{Epoch: 1,
			Data: []byte("s")})}, "s", ""},
		{"none", false, [][]byte{event(5)}, "", "0 bytes of its data have come"},
		{"too few", false, [][]byte{part(0, "abc"), event(5)}, "", "3 bytes of its data have come"},
		{"too many", false, [][]byte{part(0, "abc"), event(2)}, "", "3 bytes of its data have come"},
		{"used twice", false, [][]byte{part(0, "abc"), event(3), event(3)}, "abc", "0 bytes of its data have come"},
		{"a hole", false, [][]byte{part(0, "abc"), part(4, "e")}, "", "at offset 4, want offset 3 or 0"},
		{"a beginning that is missing", false, [][]byte{part(3, "de")}, "", "at offset 3, want offset 0 or 0"},
		{"an end over the limit", false, [][]byte{part(envelope.DataMax, "a")}, "", "want an end of at most"},
		{"no bytes", false, [][]byte{part(0, "")}, "", "part of 8 bytes"},
		{"not agreed on", true, [][]byte{part(0, "abc")}, "", "not agreed on"},
	} {
		w := setup{lane: lane.Config{RingBytes: 1024}, parts: !c.refused}.open(t)
		for _, rec := range c.records {
			raw(t, w.ring, rec)
		}
		s, data := &sink{}, ""
		s.onto = func(ev *envelope.Event, lease uint64) error {
			if data = string(ev.Data); ev.Parts != 0 || lease != 0 {
				t.Errorf("%s: %v with lease %d was handed on", c.what, ev, lease)
			}
			return nil
		}
		_, err := w.in.Poll(s)
		if data != c.data {
			t.Errorf("%s: data %q, want %q", c.what, data, c.data)
		}
		if c.err == "" && err != nil || c.err != "" && (!errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(),
			c.err)) {
			t.Errorf("%s: error %v, want %q", c.what, err, c.err)
		}
	}
}
