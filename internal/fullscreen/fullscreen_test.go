// SPDX-License-Identifier: Apache-2.0

package fullscreen

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/disco-sim/disco/internal/pty"
)

// terminal is a screen on a terminal of 20 columns and 4 lines; shown ends it and gives what was written to it.
func terminal(t *testing.T) (s *Screen, window *os.File, shown func() string) {
	t.Helper()
	window, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Resize(line, 20, 4); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(line.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if s, err = Open(line, line); err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(window) // it fails when the other side is closed
		text <- string(all)
	}()
	return s, window, func() string {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if after, err := term.GetState(int(line.Fd())); err != nil || *after != *before {
			t.Errorf("the terminal is left as %+v, %v, want %+v", after, err, before)
		}
		line.Close()
		defer window.Close()
		return <-text
	}
}

// TestDraw: lines are cut to the terminal, none steers it, and it has its content back at the end.
func TestDraw(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	s, _, shown := terminal(t)
	if err := s.Draw([]string{Bold + "head", "an escape \x1b[2J", strings.Repeat("ä", 30), "4", "5"}); err != nil {
		t.Fatal(err)
	}
	text := shown()
	inner, found := strings.CutPrefix(text, enter+home)
	inner, ends := strings.CutSuffix(inner, leave)
	want := bold + "head" + plain + toEnd + "\r\nan escape \\u001b[2J" + toEnd + "\r\n" + strings.Repeat("ä", 20) +
		toEnd + "\r\n4" + toEnd + below
	if !found || !ends || inner != want {
		t.Errorf("found %q, want %q between %q and %q", text, want, enter+home, leave)
	}
}

// TestKeys: keys are told apart, also when several come at once, and one that nobody presses ends its wait.
func TestKeys(t *testing.T) {
	s, window, shown := terminal(t)
	defer shown()
	if key, err := s.Key(time.Millisecond); key != None || err != nil {
		t.Errorf("found %v, %v, want no key", key, err)
	}
	if _, err := window.WriteString("\x1b[A\x1b[Bx\x1b[6~\x1bOA\x1b[5~p \x1b[1;5Z"); err != nil {
		t.Fatal(err)
	}
	next := func(want Key) {
		t.Helper()
		for { // what was typed may come in several reads
			key, err := s.Key(time.Second)
			if err != nil || key != want && key != None {
				t.Fatalf("found %v, %v, want %v", key, err, want)
			}
			if key == want {
				return
			}
		}
	}
	for _, want := range []Key{Up, Down, Other, PageDown, Up, PageUp, Hold, Hold, Other} {
		next(want)
	}
	for _, text := range []string{"q", "\x03", "\x04"} {
		if _, err := window.WriteString(text); err != nil {
			t.Fatal(err)
		}
		next(Quit)
	}
}

// TestNoTerminal: what is no terminal is refused.
func TestNoTerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Open(f, f); err == nil || !strings.Contains(err.Error(), "standard input") {
		t.Errorf("found %v, want an error about standard input", err)
	}
}

// TestTerminalGone: when the terminal goes away, that is the key Quit.
func TestTerminalGone(t *testing.T) {
	window, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	s, err := Open(line, line)
	if err != nil {
		t.Fatal(err)
	}
	window.Close()
	if key, err := s.Key(10 * time.Second); key != Quit || err != nil {
		t.Errorf("found %v, %v, want Quit", key, err)
	}
	_ = s.Close() // there is nothing to give back
}
