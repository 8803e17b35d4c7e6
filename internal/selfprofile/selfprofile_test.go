// SPDX-License-Identifier: Apache-2.0

package selfprofile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// ask sends a request, and gives the answer.
func ask(t *testing.T, request string) (head string, profile []byte) {
	t.Helper()
	conn, err := net.Dial("unix", Address(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := bytes.Cut(answer, []byte("\n"))
	return string(before), after
}

// TestServe: profiles are what runtime/pprof writes; what isn't one is an error that says what would be; a process that
// nobody asked listens nowhere, and one that has stopped doesn't either.
func TestServe(t *testing.T) {
	t.Setenv(variable, "")
	Serve()()
	if conn, err := net.Dial("unix", Address(os.Getpid())); err == nil {
		conn.Close()
		t.Fatal("a process listens that nobody has asked to")
	}
	stop := Begin()
	for _, request := range []string{"heap\n", "goroutine\n", "cpu 0.05\n"} {
		head, profile := ask(t, request)
		z, err := gzip.NewReader(bytes.NewReader(profile))
		if head != "ok" || err != nil {
			t.Fatalf("%q: %q, %v, want a profile", request, head, err)
		}
		if text, err := io.ReadAll(z); err != nil || len(text) == 0 {
			t.Errorf("%q: %d bytes, %v", request, len(text), err)
		}
	}
	for request, want := range map[string]string{"x\n": `found the kind "x", want cpu`, "cpu\n": `found "" seconds`,
		"cpu 601\n": "at most 600", "cpu NaN\n": "want more than 0", "cpu -1\n": "want more than 0"} {
		if head, _ := ask(t, request); !strings.HasPrefix(head, "error: ") || !strings.Contains(head, want) {
			t.Errorf("%q: %q, want %q", request, head, want)
		}
	}
	if head, _ := ask(t, strings.Repeat("a", requestBytes)); head != "" {
		t.Errorf("a request without an end: %q", head)
	}
	stop()
	if conn, err := net.Dial("unix", Address(os.Getpid())); err == nil || os.Getenv(variable) != "" {
		t.Errorf("it listens behind its end: %v", conn)
	}
}

// TestWaits: while one profile is taken another is refused; one that nobody waits for any more ends at once, and so
// does one whose process ends. More requests than places wait, and are answered.
func TestWaits(t *testing.T) {
	t.Setenv(variable, "1")
	stop := Serve()
	conn := long(t)
	refused := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			head, _ := ask(t, "cpu 0.01\n")
			if strings.Contains(head, "under way already") == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q, want it refused: %v", head, want)
			}
		}
	}
	refused(true)
	conn.Close()
	refused(false)
	var all []net.Conn
	for range 3 * connectionsMax {
		c, err := net.Dial("unix", Address(os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		if _, err := io.WriteString(c, "goroutine\n"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range all {
		if answer, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(answer, []byte("ok\n")) {
			t.Errorf("%.20q, %v", answer, err)
		}
		c.Close()
	}
	defer long(t).Close()
	refused(true)
	stop()
}

// long has a profile taken that takes long: nothing comes of it meanwhile. Another one that is just being taken refuses
// it for a moment.
func long(t *testing.T) net.Conn {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		conn, err := net.Dial("unix", Address(os.Getpid()))
		if err == nil {
			_, err = io.WriteString(conn, "cpu 500\n")
		}
		if err == nil {
			err = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			return conn
		}
		conn.Close()
	}
	t.Fatal("no profile is taken")
	return nil
}
