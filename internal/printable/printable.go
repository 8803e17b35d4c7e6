// SPDX-License-Identifier: Apache-2.0

// Package printable makes text from anywhere safe to show on a terminal.
//
// Guarantee: what a Writer passes on is UTF-8 without control characters but newline and
// tab, and without the characters that change the direction of text or can't be seen.
// Such a character is written as \u and four hexadecimal digits (two such for one beyond
// U+FFFF), which JSON reads as the same character again; a byte that isn't UTF-8 as \x
// and two digits. Everything else stays as it is.
//
// Names in scenarios, paths, flags, and what workers and peers write reach people through
// one Writer for each output of a program, so that no other code has to escape text.
//
//	stdout := printable.NewWriter(os.Stdout)
//	defer stdout.Flush()
package printable

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text makes a text printable. It may be one of several that make up a line: a newline is
// written as \u000a, so it stays one.
func Text(s string) string {
	out, tail := escape(nil, []byte(s), false)
	return string(whole(out, tail))
}

// shortRunes bounds how much of a file's text a message repeats.
const shortRunes = 60

// Short is the beginning of a text that a message repeats, with "…" where it goes on.
func Short(s string) string {
	runes := 0
	for i := range s {
		if runes++; runes > shortRunes {
			return s[:i] + "…"
		}
	}
	return s
}

// ASCII makes a name that another process wrote into memory or a packet safe to show: it ends at the first zero, and
// what isn't printable ASCII becomes a question mark.
func ASCII(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for _, c := range raw {
		if c == 0 {
			break
		}
		if c < ' ' || c > '~' {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

// Writer makes what is written to it printable. Several goroutines may write.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	tail []byte // begin of a character whose rest comes with the next Write
	out  []byte // room for what is passed on
}

// NewWriter makes a Writer that passes on to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write passes b on. The error is that of the writer behind it; b then counts as not
// written.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := b
	if len(w.tail) > 0 {
		text = append(w.tail, b...)
	}
	out, tail := escape(w.out[:0], text, true)
	w.out, w.tail = out, append([]byte(nil), tail...)
	if len(out) == 0 {
		return len(b), nil
	}
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes what still waits for the rest of a character that never came.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tail) == 0 {
		return nil
	}
	out := whole(nil, w.tail)
	w.tail = nil
	_, err := w.w.Write(out)
	return err
}

// escape appends text to out; tail is the begin of a last character that isn't complete.
// Newline and tab stay where lines are kept.
func escape(out, text []byte, lines bool) (_, tail []byte) {
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		switch {
		case c == utf8.RuneError && size == 1 && !utf8.FullRune(text):
			return out, text
		case c == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case lines && (c == '\n' || c == '\t'), !hidden(c):
			out = append(out, text[:size]...)
		case c > 0xFFFF:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		text = text[size:]
	}
	return out, nil
}

// whole appends the bytes of a character that will not be completed.
func whole(out, tail []byte) []byte {
	for _, b := range tail {
		out = fmt.Appendf(out, `\x%02x`, b)
	}
	return out
}

// Joiners are format characters that words of several languages need.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

// hidden tells whether a character steers a terminal, the direction of text or the line,
// or can't be seen.
func hidden(c rune) bool {
	if c < 0x7F {
		return c < ' '
	}
	return c != nonJoiner && c != joiner && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}
