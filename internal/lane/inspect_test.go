// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// Inspect finds what sender and receiver did, at every step of it.
func TestInspect(t *testing.T) {
	cfg := Config{RingBytes: 1024, ReturnBlocks: 5, Start: 1 << 20}
	mem := body(t, cfg)
	look := func(what string, tail, head, backTail, backHead uint64, epoch float64) {
		t.Helper()
		s, err := Inspect(mem)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		f, b := s.Forward, s.Return
		if f.Tail-f.Start != tail || f.Head-f.Start != head || b.Tail-b.Start != backTail ||
			b.Head-b.Start != backHead || s.Epoch != epoch {
			t.Errorf("%s: %+v", what, s)
		}
	}
	look("new", 0, 0, 0, 0, 0)
	s, err := OpenSender(mem)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenReceiver(mem)
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, "12345678") // 16 bytes with its header
	send(t, s, "12345678")
	s.Promise(1.5, 7)
	look("sent", 32, 0, 0, 0, 1.5)
	if _, err := r.Forward().Next(); err != nil {
		t.Fatal(err)
	}
	r.Forward().Release()
	if err := r.Return(3, 1); err != nil {
		t.Fatal(err)
	}
	look("read and returned", 32, 16, 24, 0, 1.5)
	s.Promise(math.Inf(1), 0)
	look("at the end", 32, 16, 24, 0, math.Inf(1))
}

// Whatever the memory holds, Inspect ends with an error or a status whose positions are
// within a ring.
func TestInspectDamage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 2000 {
		mem := body(t, Config{RingBytes: 1024, ReturnBlocks: 5})
		for at := range mem {
			if random.IntN(8) == 0 && (at >= 24 || random.IntN(50) == 0) {
				mem[at] = byte(random.Uint32())
			}
		}
		s, err := Inspect(mem)
		if err != nil {
			if refused++; !errors.Is(err, ErrFormat) {
				t.Fatalf("error is %v, want ErrFormat", err)
			}
			continue
		}
		if s.Forward.Tail-s.Forward.Head > 1024 || s.Return.Tail-s.Return.Head > uint64(s.Return.Capacity) {
			t.Fatalf("%+v", s)
		}
	}
	if refused == 0 || refused == 2000 {
		t.Errorf("%d of 2000 refused: the damage is always the same", refused)
	}
}
