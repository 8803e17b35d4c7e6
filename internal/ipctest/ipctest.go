// SPDX-License-Identifier: Apache-2.0

// Package ipctest is what every connection of package ipc passes, whether its two ends are on one machine or on two:
// order, back-pressure, messages of all sizes, contexts, ends and deaths, between goroutines and between processes.
//
// Guarantee: every wait has a limit, after which the test fails.
//
//	func TestMain(m *testing.M) {
//		ipctest.Child() // if it is one: ends the process
//		leaktest.Main(m)
//	}
//
//	ipctest.Run(t, func(t testing.TB) ipctest.Way { return ipctest.Local(t) })
package ipctest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/ipc"
)

// Limit is how long a test waits for what must happen. Only a failure takes that long.
const Limit = 30 * time.Second

// Way is how senders reach receivers.
type Way struct {
	Receivers, Senders string // directories in which they listen and dial
	Prefix             string // in front of a name that is dialled
	Far                bool   // a receiver's sender is a process that passes messages on, with memory of its own
}

// Local is both on this machine, in a directory that isn't there yet.
func Local(t testing.TB) Way {
	dir := NewDir(t)
	return Way{Receivers: dir, Senders: dir}
}

func (w Way) listen(t testing.TB, name string) *ipc.Receiver {
	t.Helper()
	return Listen(t, name, ipc.ListenConfig{Dir: w.Receivers})
}

func (w Way) dial(t testing.TB, name string) *ipc.Sender {
	t.Helper()
	return Dial(t, w.Prefix+name, Small(w.Senders))
}

// Inbox checks messages of several senders, which are tagged when they are 16 bytes or
// longer; the first one always is.
type Inbox struct {
	tags map[int]uint64 // by sender's number
	next map[int]uint64
	want []byte
}

// Within is a context of that time.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Eventually polls until ok is true.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); runtime.Gosched() {
		if time.Since(start) > Limit {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// NewDir names a directory of the test's own that isn't there yet.
func NewDir(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }

// Listen opens a receiver, which the test closes.
func Listen(t testing.TB, name string, cfg ipc.ListenConfig) *ipc.Receiver {
	t.Helper()
	r, err := ipc.Listen(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("closing the receiver: %v", err)
		}
	})
	return r
}

// Dial opens a sender, which the test closes.
func Dial(t testing.TB, name string, cfg ipc.DialConfig) *ipc.Sender {
	t.Helper()
	s, err := ipc.Dial(Within(t), name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the sender: %v", err)
		}
	})
	return s
}

// Small is a sender with little memory.
func Small(dir string) ipc.DialConfig {
	return ipc.DialConfig{Dir: dir, RingBytes: 4096, InlineMax: 256, PoolBytes: 256 << 10}
}

// fill makes the message of a tag and a number: both at its start, as far as there is
// room, and every byte after that depending on them and its place.
func fill(dst []byte, tag, number uint64) {
	x := tag<<40 ^ (number+1)*0x9E3779B97F4A7C15
	for i := range dst {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		dst[i] = byte(x)
	}
	if len(dst) >= 16 {
		binary.LittleEndian.PutUint64(dst, tag)
		binary.LittleEndian.PutUint64(dst[8:], number)
	}
}

// NewInbox makes one that has got nothing.
func NewInbox() *Inbox { return &Inbox{tags: map[int]uint64{}, next: map[int]uint64{}} }

// Check holds a message against what its sender has sent with SendMany.
func (b *Inbox) Check(m *ipc.Message) error {
	if m.Number != b.next[m.Sender] {
		return fmt.Errorf("message %d of sender %d, want %d", m.Number, m.Sender, b.next[m.Sender])
	}
	b.next[m.Sender]++
	if m.Number == 0 {
		b.tags[m.Sender] = binary.LittleEndian.Uint64(m.Data)
	}
	b.want = append(b.want[:0], make([]byte, len(m.Data))...)
	fill(b.want, b.tags[m.Sender], m.Number)
	if !bytes.Equal(m.Data, b.want) {
		return fmt.Errorf("message %d of sender %d (%d bytes) has the wrong data", m.Number, m.Sender, len(m.Data))
	}
	return nil
}

func (b *Inbox) sum() (n uint64) {
	for _, k := range b.next {
		n += k
	}
	return n
}

// Receive takes one message, checks that it is text, and releases it.
func Receive(t testing.TB, r *ipc.Receiver, want string) {
	t.Helper()
	m, err := r.Receive(Within(t))
	if err != nil || string(m.Data) != want {
		t.Fatalf("received %q, %v, want %q", m.Data, err, want)
	}
	r.Release(&m)
}

// ReceiveEnd takes the end of one sender.
func ReceiveEnd(t testing.TB, r *ipc.Receiver, kind error) *ipc.SenderError {
	t.Helper()
	m, err := r.Receive(Within(t))
	var end *ipc.SenderError
	if !errors.As(err, &end) || !errors.Is(err, kind) {
		t.Fatalf("received %d bytes, %v, want the end of a sender with %v", len(m.Data), err, kind)
	}
	return end
}

// Mappings counts the pieces of memory of our segments that this process has mapped.
func Mappings(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(text), "memfd:disco:ipc-")
}
