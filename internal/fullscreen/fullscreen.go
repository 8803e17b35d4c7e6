// SPDX-License-Identifier: Apache-2.0

// Package fullscreen shows one text on the whole of a terminal, and hands over the keys that are pressed meanwhile.
//
// Guarantee: Close gives the terminal back as it was, with its content. What is drawn is cut to the terminal's size,
// and nothing in it steers the terminal but Bold. A terminal that goes away is the key Quit.
//
//	s, err := fullscreen.Open(os.Stdin, os.Stdout)
//	defer s.Close()
//	err = s.Draw([]string{fullscreen.Bold + "head", "line"})
//	key, err := s.Key(20 * time.Millisecond)
package fullscreen

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/disco-sim/disco/internal/printable"
)

// Key is what was pressed.
type Key int

// The keys that are told apart.
const (
	None  Key = iota // nothing was pressed in time
	Other            // one without a meaning
	Quit             // q, Ctrl-C, Ctrl-D, or the terminal is gone
	Up
	Down
	PageUp
	PageDown
	Hold // p, or space
)

// Bold, at a line's beginning, has all of it drawn bold.
const Bold = "\x00"

// What a terminal is told (ECMA-48, and xterm's private modes).
const (
	enter  = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, no cursor, and no line becomes two
	leave  = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home   = "\x1b[H"
	bold   = "\x1b[1m"
	plain  = "\x1b[m"
	toEnd  = "\x1b[K" // wipes the rest of the line
	below  = "\x1b[J" // wipes all lines below
	escape = 0x1b
)

// Screen is a terminal's. One goroutine uses it.
type Screen struct {
	in, out *os.File
	former  *term.State
	color   bool
	typed   []byte // read, and not looked at yet
}

// Open takes over a terminal. in and out stay the caller's.
func Open(in, out *os.File) (*Screen, error) {
	s := &Screen{in: in, out: out, color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	var err error
	if s.former, err = term.MakeRaw(int(in.Fd())); err != nil {
		return nil, fmt.Errorf("fullscreen: standard input: %w", err)
	}
	if _, err := out.WriteString(enter); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close gives the terminal back.
func (s *Screen) Close() error {
	_, err := s.out.WriteString(leave)
	return errors.Join(err, term.Restore(int(s.in.Fd()), s.former))
}

// Size is the terminal's, which may change at any time.
func (s *Screen) Size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(s.out.Fd()))
	if err != nil || columns < 1 || lines < 1 {
		return 80, 24
	}
	return columns, lines
}

// Draw shows lines from the top; those for which there is no room aren't shown.
func (s *Screen) Draw(lines []string) error {
	columns, rows := s.Size()
	var b strings.Builder
	b.WriteString(home)
	for i, line := range lines[:min(len(lines), rows)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		line, head := strings.CutPrefix(line, Bold)
		head = head && s.color
		if head {
			b.WriteString(bold)
		}
		b.WriteString(cut(printable.Text(line), columns))
		if head {
			b.WriteString(plain)
		}
		b.WriteString(toEnd)
	}
	b.WriteString(below)
	_, err := s.out.WriteString(b.String())
	return err
}

// cut is the beginning of a text that has that many columns at most.
func cut(text string, columns int) string {
	for i := range text {
		if columns == 0 {
			return text[:i]
		}
		columns--
	}
	return text
}

// Key waits for a key, for so long at most.
func (s *Screen) Key(limit time.Duration) (Key, error) {
	if len(s.typed) > 0 {
		return s.next(), nil
	}
	poll := []unix.PollFd{{Fd: int32(s.in.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, int(limit.Milliseconds()))
	switch {
	case errors.Is(err, unix.EINTR), err == nil && n == 0:
		return None, nil
	case err != nil:
		return None, fmt.Errorf("fullscreen: standard input: %w", err)
	}
	var buf [64]byte
	read, err := s.in.Read(buf[:])
	if err != nil || read == 0 {
		return Quit, nil
	}
	s.typed = append(s.typed, buf[:read]...)
	return s.next(), nil
}

// sequences are what terminals send for keys that are no characters.
var sequences = map[string]Key{"\x1b[A": Up, "\x1b[B": Down, "\x1bOA": Up, "\x1bOB": Down, "\x1b[5~": PageUp,
	"\x1b[6~": PageDown}

// next takes one key of what was typed.
func (s *Screen) next() Key {
	if s.typed[0] == escape {
		for text, key := range sequences {
			if strings.HasPrefix(string(s.typed), text) {
				s.typed = s.typed[len(text):]
				return key
			}
		}
		s.typed = nil // another key's sequence, of whatever length
		return Other
	}
	c, n := utf8.DecodeRune(s.typed)
	s.typed = s.typed[n:]
	switch c {
	case 'q', 'Q', 3, 4:
		return Quit
	case 'k':
		return Up
	case 'j':
		return Down
	case 'p', 'P', ' ':
		return Hold
	}
	return Other
}
