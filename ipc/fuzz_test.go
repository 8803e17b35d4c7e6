// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func fuzzConfig(t testing.TB) *ListenConfig {
	t.Helper()
	cfg := &ListenConfig{}
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Whatever stands in a packet: what is let through is within the limits, and the rest
// is refused with one of four errors and a text that can be shown.
func FuzzPackets(f *testing.F) {
	h := hello{files: 2, laneSize: 8192, poolSize: 1 << 20, laneID: 3, poolID: 5}
	w := welcome{number: 7, boardSize: boardBytes, boardID: 9}
	no := welcome{status: statusRefused, reason: strings.Repeat("because ", 40)}
	far := h
	far.target = target{1 << 12, 256, 1 << 20, "h2:7400", "name"}
	for _, b := range [][]byte{h.encode(), w.encode(), no.encode(), far.encode(), nil, make([]byte, packetBytes)} {
		f.Add(b, 2)
		f.Add(b, 1)
	}
	cfg, gateway := fuzzConfig(f), fuzzConfig(f)
	gateway.gateway = true
	f.Fuzz(func(t *testing.T, packet []byte, files int) {
		if h, err := parseHello(packet, files, gateway); err != nil {
			checkText(t, err)
		} else if limits := h.target.config(true); h.target.address == "" || checkName(h.target.name) != nil ||
			limits.validate() != nil {
			t.Fatalf("let through a gateway: %+v", h)
		}
		h, err := parseHello(packet, files, cfg)
		switch {
		case err != nil:
			checkText(t, err)
		case h.laneSize <= laneOffset || h.laneSize > uint64(cfg.LaneBytesMax) ||
			h.poolSize > uint64(cfg.PoolBytesMax) ||
			h.files != files || files < 1 || files > filesMax || (h.poolSize != 0) != (files == 2):
			t.Fatalf("let through with %d files: %+v", files, h)
		}
		w, err := parseWelcome(packet, files)
		switch {
		case err != nil:
			checkText(t, err)
		case w.boardSize != boardBytes || files != 1:
			t.Fatalf("let through with %d files: %+v", files, w)
		}
	})
}

func checkText(t *testing.T, err error) {
	t.Helper()
	kinds := []error{ErrRefused, ErrProtocol, ErrNoReceiver, ErrNoAnswer}
	promised := slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
	if !promised || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
		t.Fatalf("%q", err)
	}
}

func TestPacketsComeBack(t *testing.T) {
	h := hello{files: 1, laneSize: 8192, laneID: 3}
	if got, err := parseHello(h.encode(), 1, fuzzConfig(t)); err != nil || got != h {
		t.Errorf("%+v, %v, want %+v", got, err, h)
	}
	gateway := fuzzConfig(t)
	gateway.gateway = true
	if _, err := parseHello(h.encode(), 1, gateway); !errors.Is(err, ErrProtocol) {
		t.Errorf("a hello without a target to a gateway: %v", err)
	}
	h.target = target{1 << 12, 256, 1 << 20, "[::1]:7400", "name"}
	if got, err := parseHello(h.encode(), 1, gateway); err != nil || got != h {
		t.Errorf("%+v, %v, want %+v", got, err, h)
	}
	if _, err := parseHello(h.encode(), 1, fuzzConfig(t)); !errors.Is(err, ErrProtocol) {
		t.Errorf("a hello with a target to a receiver: %v", err)
	}
	w := welcome{number: 7, boardSize: boardBytes, boardID: 9}
	if got, err := parseWelcome(w.encode(), 1); err != nil || got != w {
		t.Errorf("%+v, %v, want %+v", got, err, w)
	}
	no := welcome{status: statusRefused, reason: strings.Repeat("because ", 40)}
	if _, err := parseWelcome(no.encode(), 0); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "because because") {
		t.Errorf("%v", err)
	}
}

// Copies stay as they are until they are released, in whatever order; the chunks come
// back.
func TestArena(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type held struct {
		data []byte
		c    *chunk
		fill byte
	}
	var a arena
	var out []held
	chunks := map[*chunk]bool{}
	for range 20_000 {
		data := make([]byte, rng.IntN(3000))
		if rng.IntN(500) == 0 {
			data = make([]byte, chunkBytes+rng.IntN(1000))
		}
		h := held{fill: byte(rng.Uint32())}
		for i := range data {
			data[i] = h.fill
		}
		h.data, h.c = a.copy(data)
		chunks[h.c] = true
		out = append(out, h)
		for len(out) > 300+rng.IntN(50) {
			i := rng.IntN(len(out))
			if bad := slices.IndexFunc(out[i].data, func(b byte) bool { return b != out[i].fill }); bad >= 0 {
				t.Fatalf("byte %d of %d is %#x, want %#x", bad, len(out[i].data), out[i].data[bad], out[i].fill)
			}
			a.release(out[i].c, out[i].data)
			out[i] = out[len(out)-1]
			out = out[:len(out)-1]
		}
	}
	if len(chunks) > 500 {
		t.Errorf("%d chunks for some 350 messages at a time: they don't come back", len(chunks))
	}
}

// Who has to go is the oldest of the process that has most connections: one that has few
// never does while another has many.
func TestMostOf(t *testing.T) {
	for _, c := range []struct {
		pids []int
		want int
	}{
		{[]int{1}, 0},
		{[]int{1, 2, 2}, 1},
		{[]int{1, 2, 2, 1, 1}, 0},
		{[]int{3, 1, 2, 2, 1}, 1},
		{[]int{1, 2, 3}, 0},
	} {
		var handshakes []handshake
		for _, pid := range c.pids {
			handshakes = append(handshakes, handshake{pid: pid})
		}
		if got := mostOf(handshakes); got != c.want {
			t.Errorf("of %v number %d, want %d", c.pids, got, c.want)
		}
	}
}
