// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"größe – 3 × ½ 日本 🙂":  "größe – 3 × ½ 日本 🙂",
		"a\x1b[2Jb":           `a\u001b[2Jb`,
		"a\nb\tc\rd":          `a\u000ab\u0009c\u000dd`,
		"\x9b31m":             `\x9b31m`, // a raw byte that some terminals take for ESC [
		"\u009b31m\u0085":     `\u009b31m\u0085`,
		"a\u202eb\u2066c":     `a\u202eb\u2066c`,
		"\u061c\u200e\u200f":  `\u061c\u200e\u200f`,
		"\u2028\ufeff\u00ad":  `\u2028\ufeff\u00ad`,
		"\x7f\x00\x07\x08":    `\u007f\u0000\u0007\u0008`,
		"\U000e0041":          `\udb40\udc41`,
		"می\u200cخواهم":       "می\u200cخواهم",
		"cut \xe2\x80":        `cut \xe2\x80`,
		`already \u001b here`: `already \u001b here`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// steers tells whether a text could do anything to a terminal.
func steers(text []byte) bool {
	if !utf8.Valid(text) {
		return true
	}
	return bytes.ContainsFunc(text, func(c rune) bool {
		return c != '\n' && c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) ||
			c == '\u2028' || c == '\u2029')
	})
}

// FuzzWriter: nothing gets through, however a text is cut into writes, and the cuts make
// no difference; JSON stays the same document.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b]0;title\x07 \xc2\x9b \xe2\x80\xae"), 3)
	f.Add([]byte("\xf3\xa0\x81\x81\x80"), 1)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var once, cuts bytes.Buffer
		w := NewWriter(&once)
		if n, err := w.Write(text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if steers(once.Bytes()) {
			t.Fatalf("%q: %q gets through", text, once.Bytes())
		}
		step := 1 + max(cut, -cut)%7
		if step < 1 {
			step = 1
		}
		w = NewWriter(&cuts)
		for rest := text; len(rest) > 0; {
			n := min(step, len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil || !bytes.Equal(once.Bytes(), cuts.Bytes()) {
			t.Fatalf("%q: %q at once, %q in cuts of %d: %v", text, once.Bytes(), cuts.Bytes(), step, err)
		}
		document, err := json.Marshal(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		if _, err := NewWriter(&shown).Write(document); err != nil {
			t.Fatal(err)
		}
		var before, after string
		if json.Unmarshal(document, &before) != nil || json.Unmarshal(shown.Bytes(), &after) != nil || before != after {
			t.Fatalf("%q: JSON %s became %s", text, document, shown.Bytes())
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestWriterReportsErrors(t *testing.T) {
	if _, err := NewWriter(broken{}).Write([]byte("x")); err == nil {
		t.Error("a write that failed is reported as good")
	}
}
