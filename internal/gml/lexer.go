// SPDX-License-Identifier: Apache-2.0

package gml

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/scenario"
)

// token is one piece of the text: a key, a number, a string, a bracket or the end.
type token struct {
	kind   tokenKind
	text   string // of a key as it stands there; of a string without quotes, decoded
	number []byte // as it stands there
	value  float64
	whole  int64
	line   int
	column int
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenKey
	tokenInt
	tokenReal
	tokenString
	tokenOpen
	tokenClose
)

// describe is what to say about a token after "found".
func (l *lexer) describe(t *token) string {
	switch t.kind {
	case tokenEnd:
		return "the end of the file"
	case tokenKey:
		return l.quote("the word "+printable.Short(t.text), "a word")
	case tokenInt, tokenReal:
		return l.quote("the number "+printable.Short(string(t.number)), "a number")
	case tokenString:
		return l.quote(fmt.Sprintf("the text %q", printable.Short(t.text)), "text in quotes")
	case tokenOpen:
		return "["
	}
	return "]"
}

// quote is what to say about the file's text: with the text itself once the file has
// shown to be a network, and without before. A scenario may name any file that the person
// who runs it may read, and whoever sees the message need not be allowed to.
func (l *lexer) quote(with, without string) string {
	if l.isGraph {
		return with
	}
	return without
}

// lexer takes the text apart. It is a value on the parser's stack.
type lexer struct {
	isGraph bool // graph [ was read
	file    string
	rest    []byte // the caller's: what is kept of it is copied
	line    int
	column  int               // of the first character of rest
	keys    map[string]string // each once
}

// next reads one token. Its error is a scenario.Problems.
func (l *lexer) next() (token, error) {
	l.skipSpace()
	t := token{line: l.line, column: l.column}
	if len(l.rest) == 0 {
		return t, nil
	}
	c := l.rest[0]
	switch {
	case c == '[':
		t.kind = tokenOpen
		l.advance(1)
	case c == ']':
		t.kind = tokenClose
		l.advance(1)
	case c == '"':
		return l.quoted(t)
	case isDigit(c) || c == '+' || c == '-' || c == '.':
		return l.number(t)
	case isLetter(c):
		t.kind, t.text = tokenKey, l.key()
		l.advance(len(t.text))
	default:
		r, size := utf8.DecodeRune(l.rest)
		found := l.quote(fmt.Sprintf("the character %q", r), "a character that begins nothing in GML")
		if r == utf8.RuneError && size == 1 {
			found = l.quote(fmt.Sprintf("byte %#02x, which is not UTF-8", c), "a byte that is not UTF-8")
		}
		return t, l.fault(t, found, "a key, a number, text in quotes, [ or ]", "")
	}
	return t, nil
}

// skipSpace skips white space, and comments: from # to the end of the line.
func (l *lexer) skipSpace() {
	for len(l.rest) > 0 {
		switch l.rest[0] {
		case ' ', '\t', '\r', '\n':
			l.advance(1)
		case '#':
			end := bytes.IndexByte(l.rest, '\n')
			if end < 0 {
				end = len(l.rest)
			}
			l.advance(end)
		default:
			return
		}
	}
}

// advance moves over the first n bytes, which are whole characters.
func (l *lexer) advance(n int) {
	over := l.rest[:n]
	if last := bytes.LastIndexByte(over, '\n'); last >= 0 {
		l.line, l.column = l.line+bytes.Count(over, []byte("\n")), 1
		over = over[last+1:]
	}
	l.column += utf8.RuneCount(over)
	l.rest = l.rest[n:]
}

// word is what stands up to the next white space, bracket or quote.
func (l *lexer) word() []byte {
	end := bytes.IndexAny(l.rest, " \t\r\n[]\"#")
	if end < 0 {
		end = len(l.rest)
	}
	return l.rest[:end]
}

// key is the word that stands here. A file has few keys, each many times.
func (l *lexer) key() string {
	word := l.word()
	if known, ok := l.keys[string(word)]; ok {
		return known
	}
	if l.keys == nil {
		l.keys = make(map[string]string)
	}
	key := string(word)
	l.keys[key] = key
	return key
}

func (l *lexer) number(t token) (token, error) {
	word := l.word()
	defer l.advance(len(word))
	t.number = word
	short := func() string { return printable.Short(string(word)) }
	if len(bytes.Trim(word, "0123456789+-.eE")) > 0 {
		return t, l.fault(t, l.quote(short()+", which is no number", "what is no number"),
			"a decimal number, or text in quotes", "")
	}
	if !bytes.ContainsAny(word, ".eE") { // whose errors would be made for nothing
		if n, err := strconv.ParseInt(string(word), 10, 64); err == nil {
			t.kind, t.whole, t.value = tokenInt, n, float64(n)
			return t, nil
		}
	}
	x, err := strconv.ParseFloat(string(word), 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && math.IsInf(x, 0):
		return t, l.fault(t, l.quote(short(), "a number")+", which is beyond the range of a float64",
			"a finite number", "")
	case err != nil:
		return t, l.fault(t, l.quote(short()+", which is no number", "what is no number"),
			"a decimal number, or text in quotes", "")
	}
	t.kind, t.value = tokenReal, x
	return t, nil
}

// quoted reads text in quotes. Characters beyond ASCII may stand there as they are or
// as entities (&amp;, &#233;).
func (l *lexer) quoted(t token) (token, error) {
	end := bytes.IndexByte(l.rest[1:], '"')
	if end < 0 {
		return t, l.fault(t, "text without its closing quote", "\" before the end of the file",
			"is the file cut short?")
	}
	raw := l.rest[1 : 1+end]
	if !utf8.Valid(raw) {
		return t, l.fault(t, "text that is not UTF-8", "a text file in UTF-8",
			"save it as UTF-8, or write characters beyond ASCII as entities, e.g. &#233;")
	}
	text := html.UnescapeString(string(raw))
	if i := strings.IndexFunc(text, func(c rune) bool {
		return unicode.IsControl(c) && c != '\n' && c != '\t' && c != '\r'
	}); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return t, l.fault(t, fmt.Sprintf("text with the control character %U", r), "printable text", "remove it")
	}
	t.kind, t.text = tokenString, text
	l.advance(end + 2)
	return t, nil
}

func (l *lexer) fault(t token, found, want, todo string) error {
	return scenario.Problems{{File: l.file, Line: t.line, Column: t.column, Found: found, Want: want, ToDo: todo}}
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
