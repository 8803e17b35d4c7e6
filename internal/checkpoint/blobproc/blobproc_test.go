// SPDX-License-Identifier: Apache-2.0

package blobproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/internal/workerproc"
)

func TestMain(m *testing.M) {
	if workerproc.Started(Command) {
		os.Exit(serve())
	}
	if dir := os.Getenv(userVariable); dir != "" {
		os.Exit(use(dir))
	}
	leaktest.Main(m)
}

// userVariable makes a test binary a program that takes the lock of a directory, says so, and waits for its end.
const userVariable = "DISCO_BLOBS_USER"

func use(dir string) int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	b, err := Start(context.Background(), Config{Executable: exe, Address: dir, Log: workerproc.NewLineWriter(nil)})
	if err != nil {
		return 1
	}
	if _, err := b.Lock(context.Background()); err != nil {
		return 1
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	return 0
}

// place is one in memory, or a directory.
type place struct {
	checkpoint.Blobs
	dir string
}

func (p place) Close() {
	if p.dir != "" {
		os.WriteFile(p.dir+"/closed", nil, 0o600)
	}
}

// troublesome gets into trouble when a blob of such a name is asked for.
type troublesome struct{ checkpoint.Blobs }

func (t troublesome) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	switch name {
	case "die":
		fmt.Fprintln(os.Stderr, "these are its last words")
		os.Exit(3)
	case "hang":
		<-ctx.Done()
		time.Sleep(time.Hour)
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "panic":
		panic("a fault of this test")
	}
	return t.Blobs.Get(ctx, name, from, size, buf)
}

// serve is the other process.
func serve() int {
	control, err := Inherit()
	if err == nil {
		err = Serve(control, func(_ context.Context, address, owner string) (Place, error) {
			if address == "refused" {
				return nil, errors.New("refused: want another one for " + owner)
			}
			return place{troublesome{checkpoint.NewDir(address)}, address}, nil
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startProcess starts a process that has a directory.
func startProcess(t *testing.T, dir string) (*Blobs, *bytes.Buffer, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	b, err := Start(t.Context(), Config{Executable: exe, Address: dir, Owner: "a test",
		Log: workerproc.NewLineWriter(&log)})
	if err == nil {
		t.Cleanup(b.Close)
	}
	return b, &log, err
}

// pair is both ends in this process, over a place.
func pair(t *testing.T, p Place) *Blobs {
	t.Helper()
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(theirs, func(context.Context, string, string) (Place, error) { return p, nil })
	}()
	b := newBlobs(Config{Address: "somewhere"}, &process{&stream{file: ours, in: make([]byte, messageBytesMax)},
		func() {}, func() string { return "" }})
	if _, err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		if err := <-ended; err != nil {
			t.Errorf("the other end: %v", err)
		}
	})
	return b
}

// TestBlobs: both ends in one process, and in two, are a place for checkpoints.
func TestBlobs(t *testing.T) {
	t.Run("here", func(t *testing.T) {
		checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs {
			return pair(t, place{checkpointtest.NewMem(), ""})
		})
	})
	t.Run("process", func(t *testing.T) {
		checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs {
			b, _, err := startProcess(t, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
	})
}

// TestLarge: a blob of several pieces, names in several messages.
func TestLarge(t *testing.T) {
	b := pair(t, place{checkpointtest.NewMem(), ""})
	data := make([]byte, 2*pieceBytesMax+dataBytesMax/3)
	for i := range data {
		data[i] = byte(i >> 12)
	}
	if err := b.Put(t.Context(), "packs/a", bytes.NewReader(data), int64(len(data)), false); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{len(data), len(data) + 7, 2 * pieceBytesMax, pieceBytesMax, 1} {
		found, err := b.Get(t.Context(), "packs/a", 0, int64(size), nil)
		if err != nil || !bytes.Equal(found, data[:min(size, len(data))]) {
			t.Errorf("%d bytes, %v, want %d", len(found), err, size)
		}
	}
	var names []string
	for i := range 2*namesInMessage + 1 {
		name := fmt.Sprintf("points/%06d", i)
		names = append(names, name)
		if err := b.Put(t.Context(), name, strings.NewReader(""), 0, false); err != nil {
			t.Fatal(err)
		}
	}
	if blobs, err := b.List(t.Context(), "points/"); err != nil || len(blobs) != len(names) ||
		blobs[len(names)-1].Name != names[len(names)-1] {
		t.Errorf("%d names, %v, want %d", len(blobs), err, len(names))
	}
	if err := b.Delete(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
	if blobs, err := b.List(t.Context(), "points/"); err != nil || len(blobs) > 0 {
		t.Errorf("left are %v, %v", blobs, err)
	}
}

// TestErrors: what can't be read here is this end's error; what the place says comes through as it is.
func TestErrors(t *testing.T) {
	mem := &checkpointtest.Faulty{Blobs: checkpointtest.NewMem(), At: -1, Err: errors.New("the disk is full")}
	b := pair(t, place{mem, ""})
	errRead := errors.New("this can't be read")
	err := b.Put(t.Context(), "a", io.MultiReader(strings.NewReader("abc"), failing{errRead}), 10, false)
	if !errors.Is(err, errRead) || !strings.Contains(err.Error(), "mem/a") {
		t.Errorf("%v, want that of the reader", err)
	}
	mem.At = mem.Count
	if err := b.Put(t.Context(), "a", strings.NewReader("abc"), 3, false); err == nil || err.Error() !=
		"the disk is full" {
		t.Errorf("%v, want that of the place", err)
	}
	if _, err := b.Get(t.Context(), "a", 0, 1, nil); err == nil || err.Error() != "mem/a: no such file" {
		t.Errorf("%v, want that it is missing", err)
	}
	// After each of them it can be used.
	if err := b.Put(t.Context(), "a", strings.NewReader("abc"), 3, false); err != nil {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestRefused: what the process refuses to open is what the caller can change, and nothing runs then.
func TestRefused(t *testing.T) {
	var refused *RefusedError
	_, log, err := startProcess(t, "refused")
	if !errors.As(err, &refused) || refused.Error() != "refused: want another one for a test" || log.Len() > 0 {
		t.Errorf("%v, %q, want that it is refused", err, log)
	}
	_, err = Start(t.Context(), Config{Executable: t.TempDir() + "/none", Log: workerproc.NewLineWriter(nil)})
	if err == nil || errors.As(err, &refused) {
		t.Errorf("a program that isn't there: %v", err)
	}
}

// TestProcessEnds: a process that dies in a call ends it and all later ones, with how it has ended, and what it has
// said.
func TestProcessEnds(t *testing.T) {
	for name, want := range map[string]string{"die": "these are its last words", "panic": "a fault of this test"} {
		b, _, err := startProcess(t, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		_, first := b.Get(t.Context(), name, 0, 1, nil)
		_, second := b.List(t.Context(), "")
		for _, err := range []error{first, second} {
			if err == nil || !strings.Contains(err.Error(), b.String()+": the process that reaches it (blobs) ended") ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}

// TestProcessAgain: behind the end of a process another one is started, which has the lock again, unless somebody else
// has taken it: then nothing is done, until that one has given it back.
func TestProcessAgain(t *testing.T) {
	dir := t.TempDir()
	b, _, err := startProcess(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	b.pause = 0
	unlock, err := b.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, locked := checkpoint.NewDir(dir), (*checkpoint.LockedError)(nil)
	for range 3 {
		_, err := b.Get(t.Context(), "die", 0, 1, nil)
		if err == nil || !strings.Contains(err.Error(), "ended too early") {
			t.Errorf("%v, want that it has ended", err)
		}
		if err := b.Put(t.Context(), "a", strings.NewReader("abc"), 3, false); err != nil {
			t.Errorf("behind it: %v", err)
		}
		if _, err := other.Lock(t.Context()); !errors.As(err, &locked) {
			t.Errorf("%v, want *LockedError", err)
		}
	}
	_, _ = b.Get(t.Context(), "die", 0, 1, nil)
	theirs, err := other.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Put(t.Context(), "b", strings.NewReader("abc"), 3, false); !errors.As(err, &locked) {
			t.Errorf("%v, want *LockedError", err)
		}
	}
	if err := theirs(); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "b", strings.NewReader("abc"), 3, false); err != nil {
		t.Error(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if theirs, err = other.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := theirs(); err != nil {
		t.Error(err)
	}
	_, _ = b.Get(t.Context(), "die", 0, 1, nil)
	b.Close()
	if _, err := b.List(t.Context(), ""); err == nil {
		t.Error("closed, and it starts another process")
	}
}

// TestCanceled: a call that is canceled ends at once where the place ends it, and the process can be used; one that
// doesn't end is ended with its process.
func TestCanceled(t *testing.T) {
	b, _, err := startProcess(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "a", strings.NewReader("abc"), 3, false); err != nil {
		t.Fatal(err)
	}
	for range 30 { // at any moment
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := b.Get(ctx, "wait", 0, 1, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that it was canceled", err)
		}
		if found, err := b.Get(t.Context(), "a", 0, 3, nil); string(found) != "abc" || err != nil {
			t.Errorf("after it: %q, %v", found, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		err := b.Put(ctx, "b", io.MultiReader(calling(cancel), strings.NewReader("abc")), 3, false)
		if err != nil && !errors.Is(err, context.Canceled) { // nil: it was done first
			t.Errorf("put: %v, want that it was canceled", err)
		}
	}
	b.timeout = 100 * time.Millisecond
	for err == nil { // until it is canceled when it has begun, and not before
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := b.Get(ctx, "hang", 0, 1, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want that it was canceled", err)
		}
		_, err = b.Get(t.Context(), "a", 0, 3, nil)
	}
	if !strings.Contains(err.Error(), "ended too early") {
		t.Errorf("after that: %v", err)
	}
}

// calling calls a function when it is read, and has nothing.
type calling func()

func (c calling) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

// TestLockEndsWithUser: when its stream ends, the other end gives the lock back and closes the place.
func TestLockEndsWithUser(t *testing.T) {
	dir := t.TempDir()
	b, _, err := startProcess(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	var locked *checkpoint.LockedError
	if _, err := checkpoint.NewDir(dir).Lock(t.Context()); !errors.As(err, &locked) {
		t.Errorf("%v, want *LockedError", err)
	}
	b.Close()
	unlock, err := checkpoint.NewDir(dir).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/closed"); err != nil {
		t.Errorf("the place isn't closed: %v", err)
	}
}

// stuck is a place whose store doesn't answer any more.
type stuck struct {
	checkpoint.Blobs
	until chan struct{} // closed by the test
}

func (s stuck) Lock(context.Context) (func() error, error) {
	return func() error {
		<-s.until
		return nil
	}, nil
}

// Get ends as a call of a store may whose context isn't the caller's.
func (s stuck) Get(context.Context, string, int64, int64, []byte) ([]byte, error) {
	return nil, fmt.Errorf("no answer for 1s: %w", context.Canceled)
}

func (s stuck) Close() { <-s.until }

// TestStuck: where a place can't be left because its store doesn't answer, the other end ends all the same. Why a call
// has failed that nobody has canceled is said.
func TestStuck(t *testing.T) {
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		t.Fatal(err)
	}
	p := stuck{checkpointtest.NewMem(), make(chan struct{})}
	defer close(p.until)
	ended := make(chan error, 1)
	go func() {
		ended <- newServer(theirs, 50*time.Millisecond).serve(
			func(context.Context, string, string) (Place, error) { return p, nil })
	}()
	b := newBlobs(Config{}, &process{&stream{file: ours, in: make([]byte, messageBytesMax)}, func() {},
		func() string { return "" }})
	if _, err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "a", 0, 1, nil); err == nil || err.Error() != "no answer for 1s: context canceled" {
		t.Errorf("%v, want the place's own words", err)
	}
	b.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "mem isn't closed within 50ms") {
		t.Errorf("%v, want that it isn't closed", err)
	}
}

// TestUserKilled: where its user is killed, the process gives the lock back, closes the place and ends.
func TestUserKilled(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	user := exec.Command(exe)
	user.Env = append(os.Environ(), userVariable+"="+dir)
	stdin, errIn := user.StdinPipe()
	stdout, errOut := user.StdoutPipe()
	if err := errors.Join(errIn, errOut, user.Start()); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	line := make([]byte, len("locked\n"))
	if _, err := io.ReadFull(stdout, line); err != nil || string(line) != "locked\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	_, err = checkpoint.NewDir(dir).Lock(t.Context())
	var locked *checkpoint.LockedError
	if !errors.As(err, &locked) {
		t.Errorf("%v, want *LockedError", err)
	}
	if err := user.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = user.Wait() // it was killed
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err = os.Stat(dir + "/closed"); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the place isn't closed: %v", err)
		}
	}
	unlock, err := checkpoint.NewDir(dir).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// TestHostile: a user that keeps to nothing ends the process, which says what it found.
func TestHostile(t *testing.T) {
	for name, messages := range map[string][]*message{
		"wants a message": {{kind: kindWant}},
		"nobody wants":    {{kind: kindData}, {kind: kindData}},
		"isn't there":     {{kind: kindDone + 1}},
		"below 0":         {{kind: kindGet, size: -1}},
	} {
		ours, theirs, err := workerproc.ControlStream()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(theirs, func(context.Context, string, string) (Place, error) { return nil, nil })
		}()
		s := &stream{file: ours}
		for _, m := range messages {
			_ = s.send(m) // it may have ended by now
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "blobproc: ") {
			t.Errorf("%s: %v", name, err)
		}
		ours.Close()
	}
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	for head, want := range map[string]string{"\x00\x00\x00\x00\x02\x01": "version 2, want",
		"\x01\x00\x20\x00\x01\x01": "of 2097153 bytes"} {
		if _, err := ours.WriteString(head); err != nil {
			t.Fatal(err)
		}
		if _, err := (&stream{file: theirs}).receive(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, want %s", head, err, want)
		}
	}
	b := &stream{file: nil}
	if err := b.send(&message{data: make([]byte, messageBytesMax)}); err == nil {
		t.Error("a message that is too long was sent")
	}
}

// TestMessage: all fields are encoded.
func TestMessage(t *testing.T) {
	m := message{name: "n", text: "t", from: 1, size: 2, onlyNew: true, end: endLocked, data: []byte{1},
		names: []string{"a", "b"}, blobs: []checkpoint.Blob{{Name: "c", Size: 3}}}
	body, err := wire.Append(nil, m.fields)
	if err != nil {
		t.Fatal(err)
	}
	m.kind = kindDone
	if found, err := parse(kindDone, body); err != nil || !reflect.DeepEqual(found, &m) {
		t.Errorf("%+v, %v, want %+v", found, err, m)
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range []message{{name: "packs/a", size: 5}, {blobs: []checkpoint.Blob{{Name: "c", Size: 3}}},
		{names: []string{"a", "b"}}, {end: endLocked, text: "where", name: "who"}} {
		body, err := wire.Append(nil, m.fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(kindDone), body)
	}
	f.Fuzz(func(t *testing.T, k uint8, body []byte) {
		m, err := parse(kind(k), body)
		if err != nil {
			return
		}
		_ = m.error()
		again, err := wire.Append(nil, m.fields)
		if err != nil || !bytes.Equal(again, body) {
			t.Errorf("%x, %v, want %x", again, err, body)
		}
	})
}
