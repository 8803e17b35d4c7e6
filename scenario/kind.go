// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Formats of Kind.Fields.
const (
	FieldsText     = "text"     // a table for a terminal
	FieldsMarkdown = "markdown" // the same for a page
	FieldsSchema   = "schema"   // JSON Schema, draft 2020-12
)

// Kind is one kind of scenario, e.g. "service". Kinds are made by models and given to a
// Registry. It may be used by several goroutines at once.
type Kind struct {
	// Name is what the file's `model:` names.
	Name string

	// Load makes a scenario of a document. Where there is no Unpack, every worker calls it too, on the same text, the
	// same attachments and with the same options, perhaps on another machine: it depends on
	// nothing else, and opens no file. The error is a Problems where a file is at fault.
	Load func(doc *Document, opt Options) (Scenario, error)

	// Unpack makes a scenario of what Packer.Pack has written, in place of Load, for a worker: only its Horizon and
	// NewHandler are called, and what a node.Serializer has. packed is for reading only, stays as long as the scenario
	// is in use, and may be kept. Its bytes may be wrong all the same: the error says how. Nil: workers call Load.
	Unpack func(packed []byte) (Scenario, error)

	// References lists the files that a document refers to, as far as it is good: Attach
	// reads them, and Load finds them with Value.File. Nil: documents of this kind refer to
	// no file.
	References func(doc *Document) []Reference

	// Varies refuses what of a document may not change under a state that a run of another one has left: a Problems,
	// field by field, as Load's. Both were loaded. What only shows with the state itself (more in use than there is
	// now) is for the handlers' State to refuse. Nil: nothing may change. Vary makes it of a list of fields.
	Varies func(before, after *Document) error

	// Fields describes the fields of the kind's files in one of the formats FieldsText, FieldsMarkdown and
	// FieldsSchema. Nil: they are described elsewhere.
	Fields func(format string) []byte

	// About says what the fields of the kind's files are for, in one line each, for Schema: by the path of a field,
	// with [] for an item of a list and * for a name that the file chooses, or by the end of such a path, which is for
	// all fields of this end that have no text of their own. Nil: Schema says nothing about them.
	About map[string]string

	// Usage and Flags are for a kind whose files are a few numbers: programs give it a
	// command of its name, with a flag for each field in place of the file. Usage says in
	// one line what the command does. Without Flags there is no command.
	Usage string
	Flags []Flag

	// Parameters are fields of the kind's files that programs with this kind alone have as flags of their commands
	// run, validate, explain and verify. Their values take the place of the file's, and the file may be left out.
	Parameters []Flag
}

// Flag is a field of a scenario file as a flag. Load checks its value, as it
// checks the file's.
type Flag struct {
	Name    string // the field's; of Parameters its path, such as shop.tills
	Default string // for people: what the field is when it is left out
	Usage   string // in one line, with the value's name in back quotes
	Bytes   bool   // a number of bytes, in which flags may have K, M or G for 2^10, 2^20 or 2^30

	// Of Parameters, whose values are YAML otherwise.
	Switch bool // true or false: the flag alone means true
	Text   bool // the value is the text as it stands
}

// Loader makes a Kind's Load of its two steps: read checks a document and gives what it
// says, build makes the scenario of that.
func Loader[S any, M Scenario](read func(*Document, Options) (S, error), build func(S) M) func(*Document,
	Options) (Scenario, error) {
	return func(doc *Document, opt Options) (Scenario, error) {
		spec, err := read(doc, opt)
		if err != nil {
			return nil, err
		}
		return build(spec), nil
	}
}

// Registry holds the kinds that a program knows. It does not change after
// NewRegistry and may be used by several goroutines at once.
type Registry struct {
	kinds []Kind // in the order given; the first is the default
}

// NewRegistry makes a registry. A file without `model:` is of the first kind.
func NewRegistry(kinds ...Kind) (Registry, error) {
	if len(kinds) == 0 {
		return Registry{}, errors.New("scenario: a registry needs at least one kind")
	}
	seen := make(map[string]bool, len(kinds))
	for i, k := range kinds {
		if k.Name == "" || k.Load == nil {
			return Registry{}, fmt.Errorf("scenario: kind %d (%q) lacks its Name or its Load", i, k.Name)
		}
		if seen[k.Name] {
			return Registry{}, fmt.Errorf("scenario: two kinds are named %q", k.Name)
		}
		seen[k.Name] = true
	}
	return Registry{kinds: append([]Kind(nil), kinds...)}, nil
}

// Kinds lists the kinds, the default first.
func (r Registry) Kinds() []Kind { return append([]Kind(nil), r.kinds...) }

func (r Registry) names() []string {
	names := make([]string, len(r.kinds))
	for i, k := range r.kinds {
		names[i] = k.Name
	}
	return names
}

// Attach finds the kind that doc asks for and reads the files that doc refers to
// (Kind.Attach). It is called once for a run, where those files are; Load needs them no
// more.
func (r Registry) Attach(doc *Document, files *Files) (*Document, error) {
	kind, err := r.kindOf(doc)
	if err != nil {
		return nil, err
	}
	return kind.Attach(doc, files), nil
}

// Varies refuses what may not change under a state that a run of before has left (Kind.Varies). Both were loaded.
func (r Registry) Varies(before, after *Document) error {
	kind, err := r.kindOf(after)
	if err != nil {
		return err
	}
	was, err := r.kindOf(before)
	if err != nil {
		return err
	}
	if kind.Varies == nil || was.Name != kind.Name {
		return Vary()(before, after)
	}
	return kind.Varies(before, after)
}

// Load finds the kind that doc asks for and lets it read the rest.
func (r Registry) Load(doc *Document, opt Options) (Scenario, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	kind, err := r.kindOf(doc)
	if err != nil {
		return nil, err
	}
	s, err := kind.Load(doc, opt)
	if err == nil {
		err = doc.unread()
	}
	if err != nil {
		return nil, err
	}
	checkHorizon(s, kind.Name, "loaded "+doc.File())
	return s, nil
}

// checkHorizon panics where a kind has made no scenario that can run.
func checkHorizon(s Scenario, kind, did string) {
	if s == nil || !(s.Horizon() > 0 && !math.IsInf(s.Horizon(), 1)) {
		panic(fmt.Sprintf("scenario: kind %q %s as %T, whose horizon is not finite and > 0", kind, did, s))
	}
}

func (r Registry) kindOf(doc *Document) (Kind, error) {
	if len(r.kinds) == 0 {
		return Kind{}, errors.New("scenario: the registry is empty: make it with NewRegistry")
	}
	model, err := doc.model()
	if err != nil {
		return Kind{}, err
	}
	if !model.Present() {
		return r.kinds[0], nil
	}
	name := model.Text()
	for _, k := range r.kinds {
		if k.Name == name {
			return k, nil
		}
	}
	if model.r.Err() == nil {
		model.Refuse(fmt.Sprintf("%q, a model that this program does not know", name),
			"one of "+strings.Join(r.names(), ", "), Suggest(name, r.names()))
	}
	return Kind{}, model.r.Err()
}
