// SPDX-License-Identifier: Apache-2.0

package graphproc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/workerproc"
)

func TestMain(m *testing.M) {
	if workerproc.Started(Command) {
		os.Exit(serve())
	}
	leaktest.Main(m)
}

// serve is the process that is asked: its database's URL says what it does.
func serve() int {
	control, err := Inherit()
	if err != nil {
		return 3
	}
	err = Serve(control, func(ctx context.Context, url string, timeout time.Duration, request []byte) ([]byte, error) {
		switch url {
		case "good":
			return fmt.Appendf(nil, "%s in %v", request, timeout), nil
		case "bad":
			return nil, errors.New("database bad: there is no such scenario")
		case "talk":
			fmt.Fprint(os.Stderr, strings.Repeat("what pipes have no room for\n", 100_000))
			return []byte("talked"), nil
		case "wait":
			<-ctx.Done() // until who asked has gone
			return nil, ctx.Err()
		case "die":
			fmt.Fprintln(os.Stderr, "out of luck")
			os.Exit(7)
		}
		return make([]byte, graphdata.BytesMax+1), nil
	})
	if err != nil {
		return 4
	}
	return 0
}

// ask asks this program.
func ask(ctx context.Context, t *testing.T, url string) ([]byte, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Ask(ctx, Config{Executable: exe, URL: url, Timeout: time.Second, Log: workerproc.NewLineWriter(io.Discard)},
		[]byte("question"))
}

// TestAsk: an answer is given as it was made, and what is wrong as it was said; a process that ends without an
// answer, or
// gives too much, is an error that names it.
func TestAsk(t *testing.T) {
	if got, err := ask(t.Context(), t, "good"); err != nil || string(got) != "question in 1s" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := ask(t.Context(), t, "talk"); err != nil || string(got) != "talked" {
		t.Errorf("%q %v", got, err)
	}
	var refused *RefusedError
	if _, err := ask(t.Context(), t, "bad"); !errors.As(err, &refused) ||
		err.Error() != "database bad: there is no such scenario" {
		t.Error(err)
	}
	for url, want := range map[string]string{"die": "out of luck", "much": "found an answer of 268435457 bytes"} {
		if _, err := ask(t.Context(), t, url); err == nil || errors.As(err, &refused) ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "which reads databases") {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	if _, err := Ask(t.Context(), Config{Executable: t.TempDir() + "/none"}, nil); err == nil {
		t.Error("a program that isn't there was asked")
	}
}

// TestStopped: the end of the context ends the process, however long it would take.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	time.AfterFunc(50*time.Millisecond, func() { cancel(stopped) })
	if _, err := ask(ctx, t, "wait"); !errors.Is(err, stopped) {
		t.Error(err)
	}
}

// stream is a control stream with what the other end has said.
type stream struct {
	io.Reader
	bytes.Buffer
}

func (s *stream) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// Close does nothing.
func (s *stream) Close() error { return nil }

// TestBadStream: what no other end says is refused, and ends.
func TestBadStream(t *testing.T) {
	size := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	for want, said := range map[string][]byte{"the question: EOF": nil, "the question: unexpected " +
		"EOF": append(size(9), 1),
		"found a question of 4294967295 bytes": size(1<<32 - 1), "the question: byte": append(size(2), 1, 2)} {
		err := Serve(&stream{Reader: bytes.NewReader(said)}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, said := range map[string][]byte{"without an answer": {0, 1}, "with the end 2": {2, 0, 0, 0, 0, 0,
		0, 0, 0},
		"a part of an answer of 3 bytes": {0, 3, 0, 0, 0, 0, 0, 0, 0, 'x'}} {
		_, err := exchange(&stream{Reader: bytes.NewReader(said)}, Config{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := exchange(&stream{Reader: bytes.NewReader(nil)}, Config{}, make([]byte, requestBytesMax))
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("a question that is too large: %v", err)
	}
}
