// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// xmlReader takes XML apart into starts and ends of elements and text, as encoding/xml does, but without an allocation
// for each: all that it says of a piece lies in memory of its own, and is valid until the next one. It knows no
// entities of a file's own, and no encoding but UTF-8. TestXML and FuzzXML compare it with encoding/xml.
type xmlReader struct {
	in      io.Reader
	buf     []byte // what was read of it and not used
	at, end int
	failed  error // by in
	line    uint32

	name   []byte // of the element that has begun, without its prefix
	attrs  []xmlAttr
	text   []byte
	tag    []byte // the element's name and the values of its attributes, one behind the other
	open   []byte // names of elements that have begun, one behind the other
	begins []int  // where each begins in open
	closed bool   // the element that has begun ends at once
	cdata  bool   // it is within CDATA
}

// xmlAttr is an attribute: where its name, without prefix, and its value are in tag.
type xmlAttr struct{ name, value [2]int }

// xmlKind is what a piece is.
type xmlKind int

const (
	xmlEOF xmlKind = iota
	xmlStart
	xmlEnd
	xmlText // long text comes in several pieces
)

// xmlError is what is wrong with a file.
type xmlError string

// Error says what.
func (e xmlError) Error() string { return string(e) }

// tagMax bounds a tag, and bufBytes about bounds a piece of text.
const (
	tagMax   = 1 << 20
	bufBytes = 32 << 10
)

func newXMLReader(in io.Reader) *xmlReader {
	return &xmlReader{in: in, buf: make([]byte, bufBytes), line: 1}
}

// fill reads on, and reports whether there is more.
func (x *xmlReader) fill() bool {
	for x.at == x.end && x.failed == nil {
		x.at = 0
		x.end, x.failed = x.in.Read(x.buf)
	}
	return x.at < x.end
}

// get is the next byte; its error at the end of the file is one of the file's.
func (x *xmlReader) get() (byte, error) {
	if x.at == x.end && !x.fill() {
		if errors.Is(x.failed, io.EOF) {
			return 0, xmlError("it ends in the middle")
		}
		return 0, x.failed
	}
	c := x.buf[x.at]
	x.at++
	if c == '\n' {
		x.line++
	}
	return c, nil
}

// unget takes the last byte of get back.
func (x *xmlReader) unget() {
	x.at--
	if x.buf[x.at] == '\n' {
		x.line--
	}
}

// attr is the value of an attribute, nil where there is none.
func (x *xmlReader) attr(name string) []byte {
	for _, a := range x.attrs {
		if string(x.tag[a.name[0]:a.name[1]]) == name {
			return x.tag[a.value[0]:a.value[1]]
		}
	}
	return nil
}

// is reports whether that is the name of the element that has begun.
func (x *xmlReader) is(name string) bool { return string(x.name) == name }

// next reads a piece. What is wrong with the file is an xmlError.
func (x *xmlReader) next() (xmlKind, error) {
	if x.closed {
		x.closed = false
		x.pop()
		return xmlEnd, nil
	}
	if x.cdata {
		return xmlText, x.readText()
	}
	for {
		if x.at == x.end && !x.fill() {
			if !errors.Is(x.failed, io.EOF) {
				return xmlEOF, x.failed
			}
			if len(x.begins) > 0 {
				return xmlEOF, xmlError("it ends in the middle")
			}
			return xmlEOF, nil
		}
		if x.buf[x.at] != '<' {
			return xmlText, x.readText()
		}
		x.at++
		c, err := x.get()
		if err != nil {
			return xmlEOF, err
		}
		switch c {
		case '/':
			return xmlEnd, x.readEnd()
		case '?':
			err = x.instruction()
		case '!':
			if err = x.declaration(); x.cdata && err == nil {
				return xmlText, x.readText()
			}
		default:
			x.unget()
			return xmlStart, x.readStart()
		}
		if err != nil {
			return xmlEOF, err
		}
	}
}

func (x *xmlReader) pop() {
	last := len(x.begins) - 1
	x.open, x.begins = x.open[:x.begins[last]], x.begins[:last]
}

// space passes over white space, and returns what follows it.
func (x *xmlReader) space() (byte, error) {
	for {
		c, err := x.get()
		if err != nil || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, err
		}
	}
}

// nameByte reports whether a byte may be in a name; all of those beyond ASCII, which readName looks at again.
func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == ':' || c == '-' ||
		c == '.' || c >= utf8.RuneSelf
}

// readName appends a name to a tag, and returns where it begins. what is what has one.
func (x *xmlReader) readName(what string) (begin int, err error) {
	begin = len(x.tag)
	for {
		c, err := x.get()
		if err != nil {
			return begin, err
		}
		if !nameByte(c) {
			x.unget()
			break
		}
		if x.tag = append(x.tag, c); len(x.tag) > tagMax {
			return begin, errTag
		}
	}
	name := x.tag[begin:]
	first, _ := utf8.DecodeRune(name)
	switch {
	case len(name) == 0 || first != '_' && first != ':' && !unicode.IsLetter(first):
		return begin, xmlError("no name of " + what)
	case !utf8.Valid(name) || bytes.ContainsFunc(name, func(c rune) bool {
		return c >= utf8.RuneSelf && !unicode.In(c, unicode.L, unicode.M, unicode.N) && c != '·'
	}):
		return begin, xmlError("a bad name of " + what)
	}
	return begin, nil
}

var errTag = xmlError(fmt.Sprintf("a tag of more than %d bytes", tagMax))

// local is where the part of a name behind its prefix begins.
func local(name []byte) (at int, ok bool) {
	at = bytes.IndexByte(name, ':') + 1
	if at > 0 && bytes.IndexByte(name[at:], ':') >= 0 {
		return 0, false
	}
	if at == 1 || at == len(name) {
		return 0, true
	}
	return at, true
}

// readStart reads the tag that begins an element.
func (x *xmlReader) readStart() error {
	x.tag, x.attrs = x.tag[:0], x.attrs[:0]
	if _, err := x.readName("an element"); err != nil {
		return err
	}
	end := len(x.tag)
	x.begins = append(x.begins, len(x.open))
	x.open = append(x.open, x.tag...)
	from, ok := local(x.tag)
	if !ok {
		return xmlError("a bad name of an element")
	}
	for {
		c, err := x.space()
		if err != nil {
			return err
		}
		switch c {
		case '/':
			if c, err = x.get(); err == nil && c != '>' {
				err = xmlError("/ in a tag, and no > behind it")
			}
			x.closed, x.name = true, x.tag[from:end]
			return err
		case '>':
			x.name = x.tag[from:end]
			return nil
		}
		x.unget()
		if err := x.readAttr(); err != nil {
			return err
		}
	}
}

// readAttr reads an attribute.
func (x *xmlReader) readAttr() error {
	begin, err := x.readName("an attribute")
	if err != nil {
		return err
	}
	a := xmlAttr{name: [2]int{begin, len(x.tag)}}
	at, ok := local(x.tag[begin:])
	if !ok {
		return xmlError("a bad name of an attribute")
	}
	a.name[0] += at
	if c, err := x.space(); err != nil || c != '=' {
		return cmpErr(err, "an attribute without =")
	}
	quote, err := x.space()
	if err != nil || quote != '"' && quote != '\'' {
		return cmpErr(err, "the value of an attribute without quotes")
	}
	a.value[0] = len(x.tag)
	for {
		c, err := x.get()
		if err != nil {
			return err
		}
		switch {
		case c == quote:
			a.value[1] = len(x.tag)
			x.attrs = append(x.attrs, a)
			return checkChars(x.tag[a.value[0]:])
		case c == '<':
			return xmlError("< in the value of an attribute")
		case c == '&':
			x.tag, err = x.entity(x.tag)
		case c == '\r':
			x.tag, err = x.lineEnd(x.tag)
		default:
			x.tag = append(x.tag, c)
		}
		if err != nil {
			return err
		}
		if len(x.tag) > tagMax {
			return errTag
		}
	}
}

// cmpErr is an error of reading, or else of the file.
func cmpErr(err error, wrong string) error {
	if err != nil {
		return err
	}
	return xmlError(wrong)
}

// lineEnd makes CR, which was read, and CR LF one LF.
func (x *xmlReader) lineEnd(to []byte) ([]byte, error) {
	if (x.at < x.end || x.fill()) && x.buf[x.at] == '\n' {
		x.at++
		x.line++
	}
	return append(to, '\n'), nil
}

// entity reads what follows &.
func (x *xmlReader) entity(to []byte) ([]byte, error) {
	var name [16]byte
	n := 0
	for {
		c, err := x.get()
		if err != nil {
			return to, err
		}
		if c == ';' {
			break
		}
		if n == len(name) || !nameByte(c) && c != '#' {
			return to, xmlError("& that begins no entity")
		}
		name[n] = c
		n++
	}
	switch s := name[:n]; string(s) {
	case "lt":
		return append(to, '<'), nil
	case "gt":
		return append(to, '>'), nil
	case "amp":
		return append(to, '&'), nil
	case "apos":
		return append(to, '\''), nil
	case "quot":
		return append(to, '"'), nil
	}
	digits, base := name[:0], 10
	if n > 1 && name[0] == '#' {
		digits = name[1:n]
		if name[1] == 'x' {
			digits, base = name[2:n], 16
		}
	}
	code, err := strconv.ParseUint(string(digits), base, 32)
	if err != nil || code > unicode.MaxRune || bytes.ContainsAny(digits, "_+-") {
		return to, xmlError("the entity &" + strings.ToValidUTF8(string(name[:n]), "?") + ";, which XML doesn't have")
	}
	if code >= 0xd800 && code < 0xe000 {
		code = utf8.RuneError // as encoding/xml has half a pair
	}
	return utf8.AppendRune(to, rune(code)), nil
}

// checkChars refuses what no XML has.
func checkChars(text []byte) error {
	for i := 0; i < len(text); {
		c, size := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			if c, size = utf8.DecodeRune(text[i:]); c == utf8.RuneError && size == 1 {
				return xmlError("what isn't UTF-8")
			}
		}
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xfffe || c == 0xffff {
			return xmlError(fmt.Sprintf("the character %U, which XML can't have", c))
		}
		i += size
	}
	return nil
}

// readText reads text up to <, or, within CDATA, up to ]]>, or as much as is a piece.
func (x *xmlReader) readText() error {
	x.text = x.text[:0]
	ends := 0 // ] before
	for {
		if len(x.text) >= bufBytes && ends == 0 && whole(x.text) {
			return checkChars(x.text)
		}
		if x.at == x.end && !x.fill() {
			if x.cdata || !errors.Is(x.failed, io.EOF) {
				_, err := x.get()
				return err
			}
			return checkChars(x.text)
		}
		c := x.buf[x.at]
		if c == '<' && !x.cdata {
			return checkChars(x.text)
		}
		x.at++
		var err error
		switch {
		case c == '\n':
			x.line++
			x.text = append(x.text, c)
		case c == '&' && !x.cdata:
			x.text, err = x.entity(x.text)
		case c == '\r':
			x.text, err = x.lineEnd(x.text)
		case c == '>' && ends >= 2 && x.cdata:
			x.cdata, x.text = false, x.text[:len(x.text)-2]
			return checkChars(x.text)
		case c == '>' && ends >= 2:
			return xmlError("]]> in text")
		default:
			x.text = append(x.text, c)
		}
		if err != nil {
			return err
		}
		if ends++; c != ']' {
			ends = 0
		}
	}
}

// whole reports whether text doesn't end within a character.
func whole(text []byte) bool {
	c, size := utf8.DecodeLastRune(text)
	return c != utf8.RuneError || size > 1
}

// readEnd reads the tag that ends an element.
func (x *xmlReader) readEnd() error {
	x.tag, x.attrs = x.tag[:0], x.attrs[:0]
	if _, err := x.readName("an element that ends"); err != nil {
		return err
	}
	if c, err := x.space(); err != nil || c != '>' {
		return cmpErr(err, "a tag that ends an element and has more than its name")
	}
	if last := len(x.begins) - 1; last < 0 || !bytes.Equal(x.open[x.begins[last]:], x.tag) {
		return xmlError("</" + string(x.tag) + ">, which ends no element that was the last to begin")
	}
	x.pop()
	return nil
}

// instruction reads what <? begins. The first of a file may say that it isn't in UTF-8.
func (x *xmlReader) instruction() error {
	x.tag = x.tag[:0]
	if _, err := x.readName("an instruction"); err != nil {
		return err
	}
	of := len(x.tag)
	for before := byte(0); ; {
		c, err := x.get()
		if err != nil {
			return err
		}
		if before == '?' && c == '>' {
			break
		}
		if len(x.tag) < of+1000 {
			x.tag = append(x.tag, c)
		}
		before = c
	}
	if string(x.tag[:of]) != "xml" {
		return nil
	}
	if v := said(x.tag[of:], "version"); v != "" && v != "1.0" {
		return xmlError("XML of version " + quote(v))
	}
	if e := said(x.tag[of:], "encoding"); e != "" && !strings.EqualFold(e, "utf-8") {
		return xmlError("the encoding " + quote(e))
	}
	return nil
}

// said is what <?xml … ?> says of something.
func said(text []byte, name string) string {
	for {
		at := bytes.Index(text, []byte(name+"=")) + len(name) + 1
		if at <= len(name) || at >= len(text) {
			return ""
		}
		quote := text[at]
		text = text[at+1:]
		if quote == '"' || quote == '\'' {
			said, _, _ := bytes.Cut(text, []byte{quote})
			if len(said) == len(text) {
				return ""
			}
			return string(said)
		}
	}
}

// declaration reads what <! begins: a comment, a type of document, or the begin of CDATA.
func (x *xmlReader) declaration() error {
	c, err := x.get()
	switch {
	case err != nil:
		return err
	case c == '-':
		if c, err := x.get(); err != nil || c != '-' {
			return cmpErr(err, "<!- that begins no comment")
		}
		return x.comment(true)
	case c == '[':
		for _, want := range []byte("CDATA[") {
			if c, err := x.get(); err != nil || c != want {
				return cmpErr(err, "<![ that begins no CDATA")
			}
		}
		x.cdata = true
		return nil
	}
	for quote, depth := byte(0), 0; ; {
		if c, err = x.get(); err != nil {
			return err
		}
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == '>' && depth == 0:
			return nil
		case c == '>':
			depth--
		case c == '<' && x.begin("!--"):
			if err := x.comment(false); err != nil {
				return err
			}
		case c == '<':
			depth++
		}
	}
}

// begin passes over what follows, if it is that.
func (x *xmlReader) begin(want string) bool {
	for x.end-x.at < len(want) && x.failed == nil { // what is there must be in one piece
		x.end = copy(x.buf, x.buf[x.at:x.end])
		x.at = 0
		var n int
		n, x.failed = x.in.Read(x.buf[x.end:])
		x.end += n
	}
	ok := bytes.HasPrefix(x.buf[x.at:x.end], []byte(want))
	if ok {
		x.at += len(want)
	}
	return ok
}

// comment passes over a comment that has begun. Within a type of document encoding/xml lets it have --.
func (x *xmlReader) comment(strict bool) error {
	for dashes := 0; ; {
		c, err := x.get()
		switch {
		case err != nil:
			return err
		case dashes >= 2 && c == '>':
			return nil
		case dashes >= 2 && strict:
			return xmlError("-- in a comment")
		case c == '-':
			dashes++
		default:
			dashes = 0
		}
	}
}
