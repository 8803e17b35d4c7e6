// SPDX-License-Identifier: Apache-2.0

package launchtest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/node"
)

// Garble begins the kinds of trouble in which a worker overwrites shared memory with
// random bytes; what it overwrites follows.
const Garble = "garble-"

// GarbleWhat are they: any part of a lane's segment, its promise slot and the control
// words of its first ring, its end, where the return ring lies, the pool, and all boards.
var GarbleWhat = []string{Garble + "lane", Garble + "promise", Garble + "return", Garble + "pool", Garble + "board"}

// allocateMax is when a handler that allocates gives up: nothing has stopped it.
const allocateMax = 8 << 30

func allocate() error {
	const step = 1 << 20
	var all [][]byte
	for range allocateMax / step {
		b := make([]byte, step)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	return fmt.Errorf("tiny: nothing stopped it before it had %d bytes", len(all)*step)
}

// keep uses the data of an event: one that it got in an earlier call, or, to write into it,
// one that it gets now. Both end with the call, and belong to others.
func (h *handler) keep(events []node.Event) error {
	if h.kept == nil || h.tiny.how == Write {
		if len(events) == 0 {
			return nil
		}
		first := h.kept == nil
		if h.kept = events[0].Data; first && h.tiny.how != Write {
			return nil
		}
	}
	if h.tiny.how != Keep {
		h.kept[0]++
	}
	sum := 0
	for _, b := range h.kept {
		sum += int(b)
	}
	h.data[len(h.data)-1] = byte(sum)
	return nil
}

// claimBytes is what a handler sends that is killed meanwhile: long enough to copy for
// the process to be killed in the middle of it, nearly always.
const claimBytes = 8 << 20

// dieSending sends one large event after the other until the process is killed, soon,
// by a goroutine of its own.
func (h *handler) dieSending(p *node.Simproc) error {
	pause := time.Duration(h.random.IntN(int(5 * time.Millisecond)))
	go func() {
		time.Sleep(pause)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // can't fail
	}()
	data := make([]byte, claimBytes)
	for {
		if err := p.Send(h.links[len(h.links)-1], p.Now()+Lookahead, data); err != nil {
			return err
		}
	}
}

// garbleMax bounds what is overwritten at a time, bytes: it happens at every call.
const garbleMax = 64 << 10

// garble overwrites a window of each of the segments of one kind that this process may
// write to. It uses the kernel's view of the process's memory, so that a window that
// another thread has unmapped is an error and no crash.
func garble(what string, random *rand.Rand) error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	found := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		from, to, ok := segmentOf(lines.Text(), what)
		if !ok {
			continue
		}
		found = true
		at := from + random.Int64N(to-from)
		bytes := make([]byte, min(1+random.Int64N(garbleMax), to-at))
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		if _, err := memory.WriteAt(bytes, at); err != nil {
			return fmt.Errorf("tiny: overwriting %d bytes: %w", len(bytes), err)
		}
	}
	if !found {
		return errors.New("tiny: there is no such segment to overwrite")
	}
	return nil
}

// segmentOf finds in a line of /proc/self/maps what is to be overwritten.
func segmentOf(line, what string) (from, to int64, ok bool) {
	const page = 4096
	fields := strings.Fields(line)
	part := strings.TrimPrefix(what, Garble)
	name := part
	if part == "promise" || part == "return" {
		name = "lane"
	}
	if len(fields) < 6 || !strings.HasPrefix(fields[1], "rw") || !strings.Contains(fields[5], "disco") ||
		!strings.Contains(fields[5], name) {
		return 0, 0, false
	}
	low, high, _ := strings.Cut(fields[0], "-")
	from, errFrom := strconv.ParseInt(low, 16, 64)
	to, errTo := strconv.ParseInt(high, 16, 64)
	switch part {
	case "promise":
		to = min(to, from+2*page)
	case "return": // with its control words, behind which there are up to 16 KiB of records
		from = to - min(to-from, 8*page)
	}
	return from, to, errors.Join(errFrom, errTo) == nil && to > from
}
