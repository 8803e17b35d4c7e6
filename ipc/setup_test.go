// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/ipc"
)

// watchdog is how long a test waits for what must happen. Only a failure takes that
// long.
const watchdog = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); runtime.Gosched() {
		if time.Since(start) > watchdog {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// newDir names a directory of the test's own that isn't there yet.
func newDir(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }

func mustListen(t testing.TB, name string, cfg ipc.ListenConfig) *ipc.Receiver {
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

func mustDial(t testing.TB, name string, cfg ipc.DialConfig) *ipc.Sender {
	t.Helper()
	s, err := ipc.Dial(within(t), name, cfg)
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

// pair is a receiver and one sender to it, with little memory.
func pair(t testing.TB) (*ipc.Receiver, *ipc.Sender) {
	t.Helper()
	dir := newDir(t)
	r := mustListen(t, "pair", ipc.ListenConfig{Dir: dir})
	return r, mustDial(t, "pair", small(dir))
}

func small(dir string) ipc.DialConfig {
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

// inbox checks messages of several senders, which are tagged when they are 16 bytes or
// longer; the first one always is.
type inbox struct {
	tags map[int]uint64 // by sender's number
	next map[int]uint64
	want []byte
}

func newInbox() *inbox { return &inbox{tags: map[int]uint64{}, next: map[int]uint64{}} }

func (b *inbox) check(m *ipc.Message) error {
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

func (b *inbox) sum() (n uint64) {
	for _, k := range b.next {
		n += k
	}
	return n
}

// receive takes one message, checks that it is text, and releases it.
func receive(t testing.TB, r *ipc.Receiver, want string) {
	t.Helper()
	m, err := r.Receive(within(t))
	if err != nil || string(m.Data) != want {
		t.Fatalf("received %q, %v, want %q", m.Data, err, want)
	}
	r.Release(&m)
}

// receiveEnd takes the end of one sender.
func receiveEnd(t testing.TB, r *ipc.Receiver, kind error) *ipc.SenderError {
	t.Helper()
	m, err := r.Receive(within(t))
	var end *ipc.SenderError
	if !errors.As(err, &end) || !errors.Is(err, kind) {
		t.Fatalf("received %d bytes, %v, want the end of a sender with %v", len(m.Data), err, kind)
	}
	return end
}

// mappings counts the pieces of memory of our segments that this process has mapped.
func mappings(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(text), "memfd:disco:ipc-")
}

// openFiles counts the open files of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// childVariable names the function that a process started by startChild runs.
const childVariable = "DISCO_IPC_TEST_CHILD"

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(childVariable)); len(words) > 0 {
		if err := children[words[0]](words[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// startChild runs this binary again, as one of the children.
func startChild(t testing.TB, words ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(words, " "))
	cmd.Stderr = &strings.Builder{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%v: %v\n%s", words, cmd.ProcessState, cmd.Stderr)
		}
	})
	return cmd
}
