// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/disco-sim/disco/internal/infile"
	"go.yaml.in/yaml/v3"
)

// Limits of a file. They bound the memory and the time that reading it can take.
const (
	// FileBytesMax: 8 MiB. A service scenario takes some 700 bytes a server with its
	// edges, so this is some 12,000 servers; the tree of the worst 8 MiB takes about
	// a gigabyte, and one of ordinary content a third of that.
	FileBytesMax = 8 << 20

	// DepthMax bounds how deep lists and mappings are nested, aliases followed. The
	// service schema needs 9.
	DepthMax = 64

	// ValuesMax bounds the number of values when every alias counts with all that it
	// stands for, so that a few lines of aliases of aliases can't stand for billions.
	ValuesMax = 2_000_000
)

// Document is one scenario file as a tree of YAML with positions. It does not
// change and may be read by several Readers at once.
type Document struct {
	file    string
	shownAs string // the file in messages about values: with what With has put there
	text    []byte
	set     []string   // keys of what With has put there
	root    *yaml.Node // the top-level value

	files map[string]attached // by the name that the document has for them; see Attach

	graph      *filler // items from a database; nil: there are none
	graphFault error   // why there are none, where some are attached

	watch *watch // of a document that is made up, for Kind.Schema
}

// ReadFile reads one scenario file. The error is a Problems where its content is
// no YAML of the form that docs/scenario.md describes, and wraps the system's own
// error where the file could not be read.
func ReadFile(path string) (*Document, error) {
	text, err := infile.Read(path, fileKind)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return Parse(path, text)
}

// Read is ReadFile for what r has; name stands for it in messages.
func Read(name string, r io.Reader) (*Document, error) {
	text, err := infile.All(r, name, fileKind)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return Parse(name, text)
}

var fileKind = infile.Kind{Name: "a scenario file in YAML", BytesMax: FileBytesMax}

// Parse reads the text of a scenario file; name stands for it in messages. The
// document keeps text, which the caller must not change afterwards.
func Parse(name string, text []byte) (*Document, error) {
	d := &Document{file: name, shownAs: name, text: text}
	if len(text) > FileBytesMax {
		return nil, d.fault(0, 0, "more than 8 MiB", fmt.Sprintf("at most %d bytes", FileBytesMax), "")
	}
	if err := d.checkCharacters(); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var first yaml.Node
	if err := dec.Decode(&first); errors.Is(err, io.EOF) {
		return nil, d.fault(0, 0, "nothing but white space and comments", "a scenario", "")
	} else if err != nil {
		return nil, d.syntaxError(err)
	}
	d.root = first.Content[0]
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, d.fault(second.Line, 0, "a second document (after ---)", "one document a file", "split the file")
	} else if !errors.Is(err, io.EOF) {
		return nil, d.syntaxError(err)
	}
	if err := d.checkShape(); err != nil {
		return nil, err
	}
	return d, nil
}

// File is the name that was given to ReadFile or Parse.
func (d *Document) File() string { return d.file }

// Text is the file's text, which must not be changed. Parse(d.File(), d.Text())
// gives the same document again, in another process too, but for what With has put there
// and for the Attachments.
func (d *Document) Text() []byte { return d.text }

// model is the value of the top-level `model:`, absent where the file has none.
// Whatever else is wrong at the top level is left for the kind to find, together
// with the rest.
func (d *Document) model() (Value, error) { return d.top("model") }

// top is the value of a field of the top level, absent where the file has none.
func (d *Document) top(field string) (Value, error) {
	r := NewReader(d)
	v := Value{r: r, place: &place{name: field}, line: d.root.Line, column: d.root.Column}
	if d.root.Kind != yaml.MappingNode {
		r.open(r.Whole())
		return v, r.Err()
	}
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		if key := follow(d.root.Content[i]); key.Value == field && key.ShortTag() == "!!str" {
			v.node, v.line, v.column = d.root.Content[i+1], key.Line, key.Column
			break
		}
	}
	return v, nil
}

// fault makes the error of a document that can't be read at all.
func (d *Document) fault(line, column int, found, want, todo string) error {
	return Problems{{File: d.file, Line: line, Column: column, Found: found, Want: want, ToDo: todo}}
}

// checkCharacters finds what the YAML reader would refuse without saying where.
func (d *Document) checkCharacters() error {
	line, column := 1, 0
	for rest := d.text; len(rest) > 0; {
		c, n := utf8.DecodeRune(rest)
		column++
		switch {
		case c == utf8.RuneError && n == 1:
			return d.fault(line, column, fmt.Sprintf("byte %#02x, which is not UTF-8", rest[0]), "a text file in UTF-8",
				"save it as UTF-8")
		case c == '\n':
			line, column = line+1, 0
		case c < ' ' && c != '\t' && c != '\r', c == 0x7F:
			return d.fault(line, column, fmt.Sprintf("the control character %U", c), "text", "remove it")
		}
		rest = rest[n:]
	}
	return nil
}
