// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/infile"
)

// AttachedBytesMax bounds the files that one scenario refers to, all together: 256 MiB.
// Every worker sees the same bytes.
const AttachedBytesMax = 256 << 20

// Reference is a file that a scenario refers to, e.g. the topology of a network.
type Reference struct {
	Name     string // as the scenario has it: absolute, or from the folder of the scenario's file
	What     string // what the file is to be, for messages: "a network in GML"
	BytesMax int    // the largest that is read
}

// Attachment is a file that a scenario refers to, as it was read. It travels with the
// scenario's text to every worker, which needs no file then.
type Attachment struct {
	Name string // as the scenario has it
	Text []byte // not to be changed
}

// attached is an Attachment, or why there is none.
type attached struct {
	text []byte
	err  *infile.Error // the file could not be read
}

// Files keeps the files that scenarios refer to, so that each is read once for a whole
// command, which may prepare several scenarios of one document: the points of a sweep, the
// rounds of a comparison. They all see the same bytes then, also of a file that changes
// meanwhile or can be read only once. The zero value is ready. One goroutine uses it.
type Files struct {
	// Graph reads what the graph: section of a document asks of a database, in the form of package internal/graphdata.
	// nil: there is no database.
	Graph func(request []byte) (data []byte, err error)

	read map[fileKey]attached
}

// fileKey is what is read: the same file may be a good one for one reference and too large
// for another.
type fileKey struct {
	path, what string
	bytesMax   int
}

// get reads what ref refers to, at path, unless that was read before.
func (f *Files) get(path string, ref Reference) attached {
	key := fileKey{path, ref.What, ref.BytesMax}
	if known, ok := f.read[key]; ok {
		return known
	}
	var a attached
	var err error
	a.text, err = infile.Read(path, infile.Kind{Name: ref.What, BytesMax: ref.BytesMax})
	if err != nil && !errors.As(err, &a.err) {
		panic(fmt.Sprintf("scenario: infile.Read gave %T", err)) // it promises *infile.Error
	}
	if f.read == nil {
		f.read = make(map[fileKey]attached)
	}
	f.read[key] = a
	return a
}

// Attach is doc with the files that it refers to, each read once for all calls with the
// same Files; nil is new ones. A file that can't be read, or is too large, is no error
// here: the value that names it is refused by Load, with its line, beside all else that is
// wrong.
func (k Kind) Attach(doc *Document, files *Files) *Document {
	section := doc.graphOf()
	if k.References == nil && section == nil {
		return doc
	}
	if files == nil {
		files = &Files{}
	}
	all := make(map[string]attached)
	left := AttachedBytesMax
	if section != nil {
		a := files.fileGraph(doc, section)
		all[graphdata.Name], left = a, left-len(a.text)
	}
	var references []Reference
	if k.References != nil {
		references = k.References(doc)
	}
	for _, ref := range references {
		if _, again := all[ref.Name]; again || ref.Name == "" {
			continue
		}
		path := doc.beside(ref.Name)
		a := files.get(path, ref)
		if a.err == nil && len(a.text) > left {
			a = attached{err: &infile.Error{Path: path, Found: fmt.Sprintf("a file of %d bytes", len(a.text)),
				Want: ref.What, ToDo: fmt.Sprintf("all files that a scenario refers to may have %d bytes together",
					AttachedBytesMax)}}
		}
		left -= len(a.text)
		all[ref.Name] = a
	}
	return doc.withFiles(all)
}

// Attach is d with files that were read elsewhere: the Attachments of the same document.
func (d *Document) Attach(files []Attachment) *Document {
	all := make(map[string]attached, len(files))
	for _, f := range files {
		all[f.Name] = attached{text: f.Text}
	}
	return d.withFiles(all)
}

// Attachments are the files that were read, in the order of their names.
func (d *Document) Attachments() []Attachment {
	var all []Attachment
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		if f := d.files[name]; f.err == nil {
			all = append(all, Attachment{Name: name, Text: f.text})
		}
	}
	return all
}

func (d *Document) withFiles(files map[string]attached) *Document {
	c := *d
	c.files, c.graph, c.graphFault = files, nil, nil
	c.attachGraph()
	return &c
}

// beside is the path of a file that the document names: what isn't absolute begins in the
// folder of the document's own file.
func (d *Document) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(d.file), name)
}

// File reads the name of a file that was attached, and gives that file's path, for
// messages, and its text, which must not be changed. Where there is none, the value is
// refused and the path is empty.
func (v Value) File() (path string, text []byte) {
	name := v.Text()
	if name == "" {
		return "", nil
	}
	path = v.r.doc.beside(name)
	f, ok := v.r.doc.files[name]
	switch {
	case !ok:
		v.Refuse("a file that is not attached ("+path+")", "one that Kind.References lists and Kind.Attach has read",
			"")
		return "", nil
	case f.err != nil:
		v.Refuse(f.err.Found+" ("+path+")", "the path of "+f.err.Want+", from the folder of this file", f.err.ToDo)
		return "", nil
	}
	return path, f.text
}
